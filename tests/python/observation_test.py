"""The message of one prediction: the quick form has the bytes of the checked one."""
import numpy as np
import pandas as pd
import pytest

from calibd import errors, observation
from calibd.arrays import Classes
from calibd.v1 import model_service_pb2 as models

TWO = Classes(2, (), 1e-6)
THREE = Classes(3, ("cat", "dog", "owl"), 1e-6)
INTEGERS = Classes(3, ("7", "3", "5"), 1e-6)
WITH_FEATURES = Classes(2, (), 1e-6, features=("age",))
FORECAST = Classes(0, (), 0, models.Forecast(normal=models.Forecast.Normal()))


def given(probabilities=None, label=None, **more):
    fields = dict.fromkeys(observation.Observation._fields)
    return observation.Observation(**{**fields, "probabilities": probabilities, "label": label, **more})


@pytest.mark.parametrize("classes, row", [
    (TWO, given(0.25, 1)),
    (TWO, given([0.75, 0.25], 0)),
    (TWO, given(np.array([0.5, 0.5]), True)),
    (THREE, given(np.array([0.25, 0.5, 0.25], np.float64), np.int32(2))),
    (THREE, given([0.25, 0.5, 0.25], "owl", group="north")),
    (THREE, given([0.0, 1.0, 0.0], id="a-1")),
    (INTEGERS, given([0.25, 0.5, 0.25], 7)),
    (INTEGERS, given([0.25, 0.5, 0.25], "5", id="x" * 128))])
def test_both_forms_are_equal(classes, row):
    usual = observation.usual_message(classes, row)
    assert usual is not None and usual == observation.checked_message(classes, row)


@pytest.mark.parametrize("classes, row", [
    (THREE, given([0.25, 0.5, np.nan], 0)),
    (THREE, given([0.25, 1.5, 0.25], 0)),
    (THREE, given([0.5, 0.5], 0)),
    (THREE, given(0.5, 1)),
    (THREE, given([0.25, 0.5, 0.25], 3)),
    (THREE, given([0.25, 0.5, 0.25], "bird")),
    (THREE, given([0.25, 0.5, 0.25], 0, id="")),
    (THREE, given([0.25, 0.5, 0.25], 0, id="x" * 129)),
    (THREE, given([0.25, 0.5, 0.25], 0, group="x" * 65)),
    (THREE, given([0.25, 0.5, 0.25], outcome=1.0, id="a")),
    (WITH_FEATURES, given([0.5, 0.5], 0)),
    (FORECAST, given([0.5, 0.5], 0))])
def test_what_is_invalid_is_checked(classes, row):
    assert observation.usual_message(classes, row) is None
    with pytest.raises(errors.InvalidArgument):
        observation.checked_message(classes, row)


@pytest.mark.parametrize("row", [
    given(pd.Series([0.25, 0.5, 0.25], ["owl", "cat", "dog"]), 0),
    given([0, 1, 0], 0),
    given(np.ma.array([0.25, 0.5, 0.25]), 0),
    given([0.25, 0.5, 0.25], 0, id=17),
    given([0.25, 0.5, 0.25], 0, group="nord-ö")])
def test_rare_forms_are_checked(row):
    assert observation.usual_message(THREE, row) is None
    assert observation.checked_message(THREE, row).labels == [0]
