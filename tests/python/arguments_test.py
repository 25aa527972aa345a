"""What a caller may give, and what the errors say about the rest, against a real server."""
import datetime
import inspect
import itertools
import pickle
import re

import numpy as np
import pandas as pd
import pytest

import calibd
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1.kernel_pb2 import Lens
from calibd.v1.recalibration_pb2 import RecalibrationMap

from conftest import BANDWIDTH, calibrated

GRACE = datetime.timedelta(days=1)
NO_SCORE = pd.DataFrame({"no": [0.1, 0.2]})


@pytest.fixture
def pets(client):
    """The name of a model whose classes have names, and which takes ids."""
    client.create_model("named-pets", ["cat", "dog", "owl"], label_grace=GRACE)
    return "named-pets"


def nullable(values):
    """A frame of pandas whose second row has a missing value."""
    frame = pd.DataFrame(values, columns=["cat", "dog", "owl"]).astype("Float64")
    frame.iloc[1, 2] = pd.NA
    return frame


@pytest.mark.parametrize("change, found", [
    ({"labels": [0, 3, 1]}, r"labels\[1\] is 3, expected an integer 0 to 2, or the name of a "
     "class: 'cat', 'dog', 'owl'"),
    ({"labels": ["cat", "bird", "dog"]}, r"labels\[1\] is 'bird', expected"),
    ({"labels": [0, 1.5, 1]}, r"labels\[1\] is 1.5"),
    ({"labels": [0, np.nan, 1]}, r"labels\[1\] is nan"),
    ({"labels": pd.array([0, None, 1], dtype="Int64")}, r"labels\[1\] is <NA>"),
    ({"labels": np.ma.masked_array([0, 1, 1], [0, 1, 0])}, r"labels\[1\] is masked"),
    ({"labels": np.ma.masked_array(["cat", "dog", "owl"], [0, 1, 0])}, r"^labels\[1\] is masked"),
    ({"labels": np.ma.masked_array(["cat", "dog", "owl"], True)}, r"labels\[2\] is masked"),
    ({"labels": np.ma.masked_array(["cat", 1, "owl"], [0, 1, 0], object)}, r"^labels\[1\] is mas"),
    ({"labels": [[0], [1, 2], [0]]}, "labels cannot be read as one list"),
    ({"ids": ["a", None, "c"]}, r"prediction_ids\[1\] is None, expected UTF-8 text of 1 to 128"),
    ({"ids": [1, 2.0, 3]}, r"prediction_ids\[1\] is 2.0"),
    ({"ids": ["a", "\ud800", "c"]}, r"prediction_ids\[1\] is '.ud800'"),
    ({"ids": "abc"}, "prediction_ids are 'abc', expected a list of 3: one for each row"),
    ({"ids": 7}, "prediction_ids are 7, expected a list of 3"),
    ({"ids": ["a", "b"]}, "^2 prediction ids were given, expected 3: one for each row"),
    ({"labels": [0]}, "^1 label was given, expected 3: one for each row"),
    ({"labels": [0, 0.5, 1]}, r"^labels\[1\] is 0.5, expected an integer 0 to 2, or the name of a"),
    ({"groups": ["a", "b"]}, "^2 group values were given, expected 3: one for each row"),
    ({"times": [datetime.datetime.now()] * 2}, "^2 prediction times were given, expected 3"),
    ({"times": "2026-11-31"}, r"prediction_times\[0\] is '2026-11-31', expected a datetime, or"),
    ({"times": ["2026-11-23T12:30:00"] * 3}, r"is '2026-11-23T12:30:00', expected .* a text with a z"),
    ({"times": [1.7e9] * 3}, r"prediction_times\[0\] is 1700000000.0, expected a datetime"),
    ({"times": pd.to_datetime(pd.Series(["2026-11-23", None, None]))},
     r"prediction_times\[1\] is numpy.datetime64\('NaT'\), expected a datetime"),
    ({"times": [np.datetime64("2026-11-23"), np.datetime64("NaT"), np.datetime64(10**9, "D")]},
     r"prediction_times\[1\] is numpy.datetime64\('NaT'\), expected a .*; prediction_times\[2\]"),
    ({"times": np.array(["NaT", "9999999-01-01", "2026-11-23"], "datetime64[D]")},
     r"prediction_times\[0\] is .*'NaT'\), .*prediction_times\[1\] is .*'9999999-01-01'\), exp"),
    ({"times": np.ma.masked_array([np.datetime64("2026-11-23")] * 3, [0, 1, 0])},
     r"^prediction_times\[1\] is masked, expected a datetime, or .* \[INV"),
    ({"times": np.ma.masked_array([datetime.datetime.now()] * 3, [0, 1, 0])},
     r"^prediction_times\[1\] is masked, expected a datetime, or .* \[INV"),
    ({"logits": "no"}, "logits is 'no', expected True or False"),
    ({"probabilities": np.ones((3, 3)) * 1j}, "probabilities cannot be read as numbers: they are"),
    ({"probabilities": nullable(np.full((3, 3), 1 / 3))}, r"rows\[1\].probabilities\[2\] is nan"),
    ({"probabilities": np.ma.masked_array(np.full((3, 3), 1 / 3), np.eye(3))},
     r"rows\[0\].probabilities\[0\] is nan"),
])
def test_errors_of_send_name_the_field_the_value_and_what_is_expected(client, pets, change, found):
    rows = {"probabilities": np.full((3, 3), 1 / 3), "labels": [0, 1, 2], **change}
    with client.stream(pets) as stream:
        with pytest.raises(calibd.InvalidArgument, match=found) as raised:
            stream.send(**rows)
    assert stream.counts.rows == 0
    assert raised.value.remedy in ("Correct what the error names.", "Correct the named fields.")
    assert raised.value.fields


@pytest.mark.parametrize("labels", [
    [0, pd.NA, 1], [0, pd.NaT, 1], (0, None, 1), pd.Series([0, pd.NA, 1]),
    np.array([0, pd.NA, 1], object), np.array(["cat", pd.NA, 1], object),
    pd.Series(["cat", pd.NA, "dog"], dtype="string")], ids=repr)
def test_a_missing_label_is_an_invalid_row(client, labels):
    client.create_model("missing-labels", ["cat", "dog", "owl"], label_grace=GRACE)
    with client.stream("missing-labels", on_invalid="drop") as stream:
        stream.send(np.full((3, 3), 1 / 3), labels)
        stream.label(["a", "b", "c"], labels)
    assert (stream.counts.dropped_rows, stream.counts.dropped_labels) == (1, 1)
    with client.stream("missing-labels") as stream, pytest.raises(
            calibd.InvalidArgument, match=r"^labels\[1\] is (<NA>|NaT|None), expected an integer"):
        stream.send(np.full((3, 3), 1 / 3), labels)


def test_missing_numbers_among_objects_are_invalid_rows(client, pets):
    frame = pd.DataFrame(np.full((3, 3), 1 / 3)).astype(object)
    frame.iloc[1, 2] = pd.NA
    for rows in (frame, frame.to_numpy(), frame.to_numpy().tolist()):
        with client.stream(pets, on_invalid="drop") as stream:
            stream.send(rows, [0, 1, 2])
        assert stream.counts.dropped_rows == 1
        assert stream.dropped[0].path == "rows[1].probabilities[2]"
    with pytest.raises(calibd.InvalidArgument, match=r"rows\[0\].probabilities\[1\] is nan, expected"):
        client.observe(pets, [0.5, pd.NA, 0.5], 0)


def test_missing_values_are_dropped_with_their_rows(client, pets):
    with client.stream(pets, on_invalid="drop") as stream:
        stream.send(nullable(np.full((3, 3), 1 / 3)), pd.array([0, 1, 2], dtype="Int64"))
        stream.send(np.full((3, 3), 1 / 3), pd.Series(["cat", None, "owl"]),
                    ids=["a", "b", "\ud800"])
        stream.send(np.full((2, 3), 1 / 3), [0, 1], times=[datetime.datetime.now(), pd.NaT])
        stream.send(np.full((2, 3), 1 / 3), np.ma.masked_array(["cat", "dog"], [0, 1]))
        stream.send(np.full((2, 3), 1 / 3), [0, 1], times=np.ma.masked_array(
            [np.datetime64("now")] * 2, [1, 0]))
    assert (stream.counts.accepted_rows, stream.counts.dropped_rows) == (6, 6)


def test_labels_may_be_names_and_numbers(client):
    client.create_model("mixed", ["cat", "dog", "owl"])
    predictions = np.eye(3)
    with client.stream("mixed") as stream:
        for labels in (["cat", 1, np.int64(2)], ("cat", "dog", 2), np.array([0, "dog", "owl"], object)):
            stream.send(predictions, labels)
        with pytest.raises(calibd.InvalidArgument, match=r"labels\[10\] is 3, expected an integer"):
            stream.send(predictions, ["cat", 3, "dog"])
    assert client.calibration("mixed").scores.accuracy == 1


def test_a_column_of_scores_is_that_of_class_1(client):
    client.create_model("named-binary", ["no", "yes"])
    with client.stream("named-binary") as stream:
        for scores in (NO_SCORE, NO_SCORE["no"]):
            with pytest.raises(calibd.InvalidArgument,
                               match=r"columns are \['no'\], expected the scores of class 'yes'"):
                stream.send(scores, ["no", "yes"])
        stream.send(NO_SCORE.rename(columns={"no": "yes"}), ["no", "yes"])
        stream.send(NO_SCORE["no"].rename("score"), ["no", "yes"])
    assert stream.counts.accepted_rows == 4


DIGITS = ["1", "2", "3"]


@pytest.mark.parametrize("names", [DIGITS, ["01", "02", "03"], ["2", "0", "1"], ["-1", "0", "1"]])
def test_integers_are_names_if_the_names_of_all_classes_are_integers(client, names):
    model = "digits" + "_".join(names)
    client.create_model(model, names, label_grace=GRACE)
    predictions, labels = calibrated(300)
    integers = np.array([int(name) for name in names])
    frame = pd.DataFrame(predictions, columns=integers)
    with client.stream(model) as stream:
        for given in (integers[labels], integers[labels].astype(float), [names[y] for y in labels],
                      pd.array(integers[labels], dtype="Int64")):
            stream.send(frame[sorted(integers)], given)
        stream.send(predictions, ids=range(300))
        stream.label(range(100), integers[labels[:100]])
        listed = ", ".join(repr(name) for name in names)
        with pytest.raises(calibd.InvalidArgument,
                           match=rf"labels\[1500\] is 7, expected the name of a class: {listed}"):
            stream.send(predictions[:1], [7])
        with pytest.raises(calibd.InvalidArgument, match=r"labels\[1500\] is True, expected the name"):
            stream.send(predictions[:1], [True])
        with pytest.raises(calibd.InvalidArgument, match=r"columns are \['5', '6', '7'\]"):
            stream.send(frame.set_axis([5, 6, 7], axis=1), integers[labels])
    client.label(model, range(100, 300), integers[labels[100:]])
    for row, label in zip(predictions[:10], labels[:10]):
        client.observe(model, pd.Series(row, integers)[sorted(integers)], integers[label])
    with pytest.raises(calibd.InvalidArgument, match=r"labels\[0\] is 7, expected the name of a"):
        client.observe(model, predictions[0], 7)
    answer = client.calibration(model)
    right = predictions.argmax(axis=1) == labels
    assert answer.scores.accuracy == (4 * right.sum() + right[:10].sum()) / 1210
    assert answer.label_arrivals.labels.matched == 300


def test_unnamed_columns_are_in_the_order_of_the_classes(client):
    client.create_model("unnamed", DIGITS)
    predictions, labels = calibrated(100)
    with client.stream("unnamed") as stream:
        stream.send(pd.DataFrame(predictions), labels + 1)
        with pytest.raises(calibd.InvalidArgument, match=r"columns are \['2', '1', '0'\], expected the"):
            stream.send(pd.DataFrame(predictions)[[2, 1, 0]], labels + 1)
    accuracy = (predictions.argmax(axis=1) == labels).mean()
    assert client.calibration("unnamed").scores.accuracy == accuracy


def test_observe_takes_the_order_of_a_series_from_its_index(client):
    features = ["age", "wage"]
    client.create_model("series", ["cat", "dog", "owl"], features=features, baseline="v1")
    row = pd.Series([0.7, 0.2, 0.1], ["owl", "dog", "cat"])
    case = pd.Series([1, 2], ["age", "wage"])
    observed = client.observe("series", row, "owl", baseline=row, features=case[::-1])
    assert observed.accepted_rows == 1
    assert client.calibration("series").scores.accuracy == 1
    cow = row.rename({"cat": "cow"})
    for change, found in (({"probabilities": cow}, r"columns are \['owl', 'dog', 'cow'\], expected"),
                          ({"baseline": cow}, r"columns are \['owl', 'dog', 'cow'\], expected"),
                          ({"features": case[:1]}, "features have no column 'wage'"),
                          ({"features": case.rename({"age": "x"})}, "features have no column 'age'")):
        with pytest.raises(calibd.InvalidArgument, match=found):
            client.observe("series", **{"probabilities": row, "label": 2, "baseline": row,
                                        "features": case, **change})
    client.create_model("moments", forecast="normal")
    client.observe("moments", forecast=pd.Series([1, 50], ["std", "mean"]), outcome=50)
    assert client.calibration("moments").forecast.residual_mean == 0


def test_a_score_in_a_series_of_one_row_has_no_name(client):
    client.create_model("one-row", ["0", "1"])
    scores = pd.Series([0.3, 0.8])
    for row in (scores[:1], scores[1:]):
        assert client.observe("one-row", row, 1).accepted_rows == 1
        with client.stream("one-row") as stream:
            stream.send(row, [1])
    assert client.calibration("one-row").scores.mean_confidence == pytest.approx((0.7 + 0.8) / 2)
    for named in (pd.Series([0.3], ["0"]), pd.Series([0.3], [0])):
        with pytest.raises(calibd.InvalidArgument, match="expected the scores of class '1'"):
            client.observe("one-row", named, 1)


def test_one_integer_is_the_group_of_all_rows(client):
    client.create_model("numbered-groups", 3, bandwidth=BANDWIDTH, declaration=models.Model(
        monitoring=monitoring.Monitoring(group_tag="store")))
    for group in (5, np.int64(5), "5"):
        client.observe("numbered-groups", [0.2, 0.3, 0.5], 2, group=group)
        with client.stream("numbered-groups") as stream:
            stream.send(np.full((2, 3), 1 / 3), [0, 1], groups=group)
    (found,) = client.calibration("numbered-groups").groups
    assert (found.value, found.watch.observations) == ("5", 9)


def test_calls_and_streams_have_the_same_errors(client, pets):
    client.create_model("same-errors", forecast="normal", label_grace=GRACE)
    row = [0.2, 0.3, 0.5]
    for model, observe, send in (
            (pets, {"probabilities": [0.2, 0.3, -0.5], "label": 1}, ([[0.2, 0.3, -0.5]], [1])),
            (pets, {"probabilities": row, "label": 0.5}, ([row], [0.5])),
            (pets, {"probabilities": row, "label": "cow"}, ([row], ["cow"])),
            (pets, {"probabilities": [0.2, 0.8], "label": 1}, ([[0.2, 0.8]], [1])),
            ("same-errors", {"forecast": [1, -2], "outcome": 1}, ([[1, -2]], [1])),
            ("same-errors", {"forecast": [1, 2], "outcome": np.nan}, ([[1, 2]], [np.nan]))):
        with pytest.raises(calibd.InvalidArgument) as called:
            client.observe(model, **observe)
        with client.stream(model) as stream, pytest.raises(calibd.InvalidArgument) as sent:
            stream.send(*send)
        assert repr(called.value) == repr(sent.value) and called.value.reason == "INVALID_OBSERVATIONS"
    for model, labels in ((pets, {"labels": [5]}), ("same-errors", {"outcomes": [np.nan]})):
        with pytest.raises(calibd.InvalidArgument) as called:
            client.label(model, ["y"], **labels)
        with client.stream(model) as stream, pytest.raises(calibd.InvalidArgument) as sent:
            stream.label(["y"], *labels.values())
        assert repr(called.value) == repr(sent.value) and called.value.reason == "INVALID_OBSERVATIONS"


def test_observe_uses_what_a_model_declares_now(client):
    for classes in (3, 4):
        client.create_model("redeclared", classes)
        row = np.full(classes, 1 / classes)
        assert client.observe("redeclared", row, classes - 1).accepted_rows == 1
        if classes == 3:
            client.update_model("redeclared", row_sum_tolerance=0.1)
            assert client.observe("redeclared", [0.3, 0.3, 0.45], 0).accepted_rows == 1
            client.delete_model("redeclared", "redeclared")


def observe_created_again(client, name, declarations, observe):
    """Creates the model with each of the declarations, and calls observe(name, number of the one)."""
    for i, declared in enumerate(declarations):
        client.create_model(name, **declared)
        assert observe(name, i).accepted_rows == 1
        answer = client.calibration(name)
        assert (answer.observations, answer.rejected_rows) == (1, i)
        yield answer
        client.delete_model(name, name)


SWAPPED = [{"classes": ["cat", "dog"]}, {"classes": ["dog", "cat"]}]
CAT = pd.Series([0.9, 0.1], ["cat", "dog"])


@pytest.mark.parametrize("names, observe", [
    ([1, 2], lambda c, m, i: c.observe(m, [0.1, 0.9], [2, 1][i])),
    (["cat", "dog"], lambda c, m, i: c.observe(m, [0.1, 0.9], ["dog", "cat"][i])),
    (["cat", "dog"], lambda c, m, i: c.observe(m, CAT, i))])
def test_observe_uses_the_order_of_classes_of_a_model_that_was_created_again(client, names, observe):
    declarations = [{"classes": [str(name) for name in order]} for order in (names, names[::-1])]
    for answer in observe_created_again(client, "created-again", declarations,
                                        lambda model, i: observe(client, model, i)):
        assert answer.scores.accuracy == 1


def test_observe_uses_the_order_of_the_baseline_of_a_model_that_was_created_again(client):
    declarations = [{**declared, "baseline": "v1"} for declared in SWAPPED]
    for answer in observe_created_again(
            client, "baseline-again", declarations,
            lambda model, i: client.observe(model, [0.5, 0.5], i, baseline=CAT)):
        # The difference of log loss says how good the baseline is.
        assert answer.comparison.log_loss.difference > 0


def test_observe_asks_for_the_classes_if_only_the_server_can_know_them(client):
    """A refused request_id cannot be used again, and a model without names refuses no names."""
    for first in ({"classes": ["cat", "dog"]}, {"classes": 2}):
        declarations = [first, {"classes": ["dog", "cat"]}]
        for i, declared in enumerate(declarations):
            client.create_model("asked", **declared)
            answer = client.observe("asked", CAT, i, request_id="request-1")
            assert answer.accepted_rows == 1
            assert client.observe("asked", CAT, i, request_id="request-1").duplicate_rows == 1
            assert client.observe("asked", CAT, i).accepted_rows == 1
            answer = client.calibration("asked")
            assert answer.scores.accuracy == 1 and answer.rejected_rows == 0
            client.delete_model("asked", "asked")


def test_observe_uses_the_order_of_features_of_a_model_that_was_created_again(client, monkeypatch):
    sent = []
    counted_unary = client._transport.counted_unary

    def record(method, request, response):
        if method == "IngestService/Observe":
            sent.append(list(request.observations.features.values))
        return counted_unary(method, request, response)

    monkeypatch.setattr(client._transport, "counted_unary", record)
    for features in (["a", "b"], ["b", "a"]):
        client.create_model("features-again", forecast="normal", features=features)
        client.observe("features-again", forecast=[0, 1], outcome=1,
                       features=pd.Series([1.0, 70.0], ["a", "b"]))
        client.delete_model("features-again", "features-again")
    assert sent == [[1, 70], [70, 1]]


def test_observe_sends_a_row_that_is_invalid_once(client, model):
    for _ in range(2):
        client.observe(model, [0.2, 0.3, 0.5], 1)
        with pytest.raises(calibd.InvalidArgument, match="sums to"):
            client.observe(model, [0.2, 0.3, 0.6], 1)
    assert client.calibration(model).rejected_rows == 2


def test_a_column_of_scores_may_have_an_integer_as_its_name(client):
    client.create_model("padded", ["01", "02"])
    with client.stream("padded") as stream:
        stream.send(pd.DataFrame({2: [0.1, 0.9]}), [1, 2])
        with pytest.raises(calibd.InvalidArgument, match="expected the scores of class '02'"):
            stream.send(pd.DataFrame({1: [0.1, 0.9]}), [1, 2])
    assert client.calibration("padded").scores.accuracy == 1


def test_nothing_is_a_batch_too(client, pets):
    client.create_model("no-demand", forecast="normal")
    with client.stream(pets) as stream:
        stream.send([], [])
        stream.label([], [])
    with client.stream("no-demand") as forecasts:
        forecasts.send([], [])
    assert repr(stream.counts) == repr(forecasts.counts) == "StreamCounts()"


def test_integers_of_every_kind_are_ids(client, pets):
    predictions, labels = calibrated(6)
    with client.stream(pets) as stream:
        stream.send(predictions[:3], ids=list(np.arange(3)))
        stream.send(predictions[3:], ids=pd.Index([3, 4, 5]))
    client.observe(pets, predictions[0], id=6)
    assert client.label(pets, list(np.arange(4)), labels[:4].astype(float)).matched == 4
    assert client.label(pets, pd.Series([4, 5, 6]), pd.Series(labels[:3])).matched == 3


def test_times_of_numpy_are_in_utc(client):
    client.create_model("numpy-times", 3)
    day = np.datetime64("today", "h") - np.timedelta64(24, "h")
    with client.stream("numpy-times") as stream:
        for times in (day, np.array(day), [day] * 3, np.array([day] * 3), day.astype("datetime64[ns]")):
            stream.send(np.full((3, 3), 1 / 3), [0, 1, 2], times=times)
    (bucket,) = client.history("numpy-times").buckets
    assert bucket.start_time.timestamp() == int(day.astype(int)) * 3600
    assert bucket.observations == 15
    zone = datetime.timezone.utc
    for start, hours in ((day, 0), (day.item().replace(tzinfo=zone), 0), (day.astype(int) * 3600.0, 0),
                         (day + np.timedelta64(1, "h"), 1), (datetime.date.today(), 24)):
        assert len(client.history("numpy-times", start=start).buckets) == (hours == 0)


def test_times_of_pandas_keep_their_zone(client):
    client.create_model("zones", 3)
    berlin = pd.Series([pd.Timestamp.now("Europe/Berlin").floor("h") - pd.Timedelta(days=1)] * 3)
    with client.stream("zones") as stream:
        for times in (berlin, berlin[0], berlin.dt.tz_convert(None), list(berlin)):
            stream.send(np.full((3, 3), 1 / 3), [0, 1, 2], times=times)
    (bucket,) = client.history("zones").buckets
    assert (bucket.start_time, bucket.observations) == (berlin[0], 12)


@pytest.mark.parametrize("declared, found", [
    ({"classes": "cat"}, "classes are 'cat', expected their number, or their names as texts"),
    ({"classes": np.array([0, 0.5])}, r"classes have the name 0.5, expected their number, or their"),
    ({"classes": [b"x", "y"]}, r"classes have the name b'x', expected their number, or their names as"),
    ({"classes": 3, "monitored": "no"}, "monitored is 'no', expected True or False"),
    ({"classes": 3, "labels_come_with_predictions": 1}, "labels_come_with_predictions is 1, expected T"),
    ({"classes": 3, "lenses": ["top"]}, "lens is 'top', expected one of canonical, top_label, class_w"),
    ({"classes": 3, "lenses": [5]}, r"lenses are \[5\], expected a list, each a message Lens"),
    ({"classes": 3, "group_tag": 5}, "group_tag is 5, expected text in UTF-8"),
    ({"classes": 3, "min_observations": 0}, r"min_observations is 0, expected 1\.\.1e9"),
    ({"classes": 3, "window": "x"}, "window is 'x', expected a whole number"),
    ({"classes": 3, "inference_output": "p"}, "inference_output is 'p', expected a message InferenceO"),
    ({"forecast": "normal", "block_sizes": [2]}, "model is declared with classes and forecast, exp"),
    ({"labels": ["a"], "decision": 3}, "model is declared with forecast and labels, expected one kind"),
    ({"classes": 2.0}, "classes are 2.0"),
    ({"classes": 2**40}, r"classes is 1099511627776, expected a whole number from -2\^31 to 2\^31 - 1"),
    ({"classes": ["cat", "\ud800"]}, r"classes are \['cat', '.ud800'\], expected their number"),
    ({"classes": 3, "description": b"x"}, "description is b'x', expected text in UTF-8"),
    ({"classes": 3, "bandwidth": "x"}, "bandwidth is 'x', expected a number or a message BandwidthR"),
    ({"classes": 3, "declaration": "x"}, "declaration is 'x', expected a message Model"),
    ({"forecast": [[0.1], [0.5, 0.9]]}, "forecast cannot be read as numbers"),
    ({"classes": 3, "label_grace": 7}, "label_grace is 7, expected a datetime.timedelta, or a text of "),
    ({"classes": 3, "label_grace": "7"}, "label_grace is '7', expected .* unit s, m, h or d, such as"),
    ({"classes": 3, "label_grace": "9999999999d"}, "label_grace is '9999999999d', expected"),
    ({"classes": 3, "stale_after": np.timedelta64(5)}, "stale_after is numpy.timedelta64.5., expected"),
    ({"classes": 3, "stale_after": np.timedelta64("NaT")}, "stale_after is numpy.timedelta64..NaT"),
    ({"classes": 3, "baseline": 1}, 'baseline is 1, expected a text that names it, such as'),
    ({"forecast": 0.5}, "forecast is 0.5, expected \"normal\", levels"),
    ({"forecast": "normal", "features": "hour"}, "features are 'hour', expected a list of names"),
    ({"forecast": "normal", "decision": (1, 2)}, r"decision is \(1, 2\), expected a threshold, or"),
    ({"forecast": "normal", "decision": "100"}, "decision is '100'"),
    ({"forecast": "normal", "decision": (1, 0, 2)}, r"decision.false_alarm_cost is 0, expected \[1e"),
    ({"forecast": "normal", "decision": (1, 2, 0)}, r"decision.miss_cost is 0, expected \[1e-100"),
    ({"classes": 3, "error_limit": 0}, r"error_limit is 0, expected \[0.0001, 0.5\]"),
])
def test_errors_of_a_declaration_name_the_argument(client, declared, found):
    with pytest.raises(calibd.InvalidArgument, match=found) as raised:
        client.create_model("undeclared", **declared)
    assert raised.value.fields
    with pytest.raises(calibd.NotFound):
        client.get_model("undeclared")


def test_an_error_names_all_fields_that_may_be_meant(client, pets):
    for values in ({}, {"probabilities": [0.2, 0.3, 0.5], "forecast": [1, 2]}):
        with pytest.raises(calibd.InvalidArgument) as raised:
            client.observe(pets, **values)
        assert [field.path for field in raised.value.fields] == ["probabilities", "forecast"]


def test_numbers_of_numpy_are_spans_of_time(client, model):
    for interval in (np.int64(1), np.float32(0.5)):
        assert next(client.watch(model, min_interval=interval)).observations == 0


def test_numbers_of_numpy_declare_models(client):
    assert client.create_model("numpy", np.array([0, 1, 2]).max() + 1).classes.count == 3
    assert client.create_model("levels", forecast=np.array([0.1, 0.9])).forecast.HasField("quantiles")
    assert client.create_model("draws", forecast=np.int64(9)).forecast.samples.draws == 9


@pytest.mark.parametrize("call, found", [
    (lambda c, m: c.observe(m, [0.2, 0.3, 0.5], "cow"), r"labels\[0\] is 'cow', expected an int"),
    (lambda c, m: c.observe(m, 0.5, 1), r"probabilities have the shape \(1, 1\), expected \(n, 3\)"),
    (lambda c, m: c.observe(m, [0.2, 0.3, 0.5], 1.5), r"labels\[0\] is 1.5"),
    (lambda c, m: c.observe(m, [0.2, 0.3, 0.5]), "label is missing: give the label, or an id"),
    (lambda c, m: c.observe(m, "abc", 0), "probabilities cannot be read as numbers: .*'abc'"),
    (lambda c, m: c.observe(m, [0.2, 0.3, 0.5], 0, id=b"x"), r"prediction_ids\[0\] is b'x'"),
    (lambda c, m: c.label(m, "ab", [0, 1]), "ids are 'ab', expected a list, with a list of their"),
    (lambda c, m: c.label(m, "a", 1), "ids are 'a', expected a list, with a list of their labels"),
    (lambda c, m: c.label(m, ["a"], [1.5]), r"labels\[0\] is 1.5, expected an integer 0 to 2"),
    (lambda c, m: c.label(m, ["a", "b"], [0, "cow"]), r"labels\[1\] is 'cow'"),
    (lambda c, m: c.label(m, ["a"]), "labels and outcomes are missing, expected either labels"),
    (lambda c, m: c.calibration(7), "model is 7, expected NAME, NAME@VERSION or a resource name"),
    (lambda c, m: c.run_test(m, replicates="x"), "replicates is 'x', expected a whole number"),
    (lambda c, m: c.run_test(m, lens=5), "lens is 5, expected a message Lens"),
    (lambda c, m: c.stream(m, stall_timeout="x"), "stall_timeout is 'x', expected seconds"),
    (lambda c, m: c.run_test(m, seed=-1), "seed is -1, expected a whole number from 0"),
    (lambda c, m: c.evaluate(m, local_features=[1]), r"local_features are \[1\], expected a list"),
    (lambda c, m: c.evaluate(m, local_features="hour"), "local_features are 'hour', expected a list"),
    (lambda c, m: c.evaluate(m, lenses="top_label"), "lenses are 'top_label', expected a list of lens"),
    (lambda c, m: c.evaluate(m, settings="x"), "settings is 'x', expected a message EvaluateRequest"),
    (lambda c, m: c.evaluate(m, timeout="x"), "timeout is 'x', expected seconds"),
    (lambda c, m: c.evaluate(m, on_progress=5), "on_progress is 5, expected a function"),
    (lambda c, m: c.estimate(m, estimators=["bin"]), "estimators is 'bin', expected one of "
     "fifteen_bins, bins, kernel_density, product_ridge, function_ridge, debiased_bins"),
    (lambda c, m: c.estimate(m, estimators="bins"), "estimators are 'bins', expected a list of fifteen"),
    (lambda c, m: c.compare(m, 5), "baseline is 5, expected NAME"),
    (lambda c, m: c.history(m, start="2026-11-32"), "start is '2026-11-32', expected a datetime, a "),
    (lambda c, m: c.history(m, end=np.datetime64("NaT")), r"end is numpy.datetime64\('NaT'\), expected"),
    (lambda c, m: c.history(m, ["hour"]), r"resolution is \['hour'\], expected one of minute, hour"),
    (lambda c, m: c.observe(m), "probabilities and forecast are missing, expected either"),
    (lambda c, m: c.observe(m, [0.2, 0.3, 0.5], 1, request_id=7), "request_id is 7, expected text"),
    (lambda c, m: c.observe(m, [0.2, 0.3, 0.5], 1, group=b"x"), r"group_values\[0\] is b'x'"),
    (lambda c, m: c.label(m, [], []), "labels are empty, expected one for each id"),
    (lambda c, m: c.label(m, ["a"], 5), "labels are 5, expected a list of labels"),
    (lambda c, m: c.calibration("\ud800"), "model is '.ud800', expected NAME, NAME@VERSION or"),
    (lambda c, m: c.acknowledge_alarm(m, 1, b"x"), "note is b'x', expected text in UTF-8"),
    (lambda c, m: c.backup(5), "path is 5, expected the path of a file"),
    (lambda c, m: next(c.watch(m, after_revision="x")), "after_revision is 'x', expected a whole"),
    (lambda c, m: next(c.watch(m, min_interval=np.nan)), "min_interval is nan, expected seconds"),
    (lambda c, m: next(c.watch(m, min_interval=np.inf)), "min_interval"),
    (lambda c, m: c.stream(m, max_buffer_bytes="x"), "max_buffer_bytes is 'x', expected a whole"),
    (lambda c, m: c.stream(m, max_buffer_bytes=-1), "max_buffer_bytes is -1, expected a whole"),
    (lambda c, m: c.stream(m, epoch=2**70), "epoch is 1180591620717411303424, expected a"),
    (lambda c, m: c.stream(m, on_invalid=["drop"]), r"on_invalid is \['drop'\], expected one of raise"),
    (lambda c, m: calibd.Client("localhost:1", timeout="x"), "timeout is 'x', expected seconds"),
    (lambda c, m: calibd.Client("localhost:1", timeout=-1), "timeout is -1, expected seconds"),
    (lambda c, m: calibd.escape_id("\ud800"), "text is '.ud800', expected text in UTF-8"),
    (lambda c, m: c.estimate(m, test_share="x"), "test_share is 'x', expected a number"),
    (lambda c, m: c.update_model(m, max_pending="x"), "max_pending is 'x', expected a whole number"),
    (lambda c, m: c.estimate(m, lens="classwise"), "lens is 'classwise', expected canonical, top_lab"),
    (lambda c, m: c.estimate(m, lens=Lens(top_k=Lens.TopK(k=1))), "expected canonical, top_"),
    (lambda c, m: c.estimate(m, lens=None), "lens is None, expected canonical, top_label, class"),
    (lambda c, m: c.update_model(m, max_pending=0), "max_pending is 0, expected 1..10000000"),
    (lambda c, m: c.update_model(m, error_limit=0.0), r"error_limit is 0.0, expected \[0.0001, 0.5\]"),
    (lambda c, m: c.update_model(m, significance_level=0), r"significance_level is 0, expected \[1e-9"),
    (lambda c, m: c.update_model(m, tolerance=np.float64(0)), r"tolerance is 0.0, expected \[1e-9, 0.5"),
    (lambda c, m: c.update_model(m, average_run_length=0), r"average_run_length is 0, expected \[100, "),
    (lambda c, m: c.update_model(m, row_sum_tolerance=0), r"row_sum_tolerance is 0, expected \(0, 0"),
    (lambda c, m: c.verdicts(false_discovery_rate=0), r"false_discovery_rate is 0, expected \[1e-9, 0"),
    (lambda c, m: c.estimate(m, folds=0), r"folds is 0, expected 2\.\.20"),
    (lambda c, m: c.estimate(m, test_share=0), r"test_share is 0, expected \(0, 1\)"),
    (lambda c, m: c.create_model("x", 3, error_limit="3 %"), "error_limit is '3 %', expected a number"),
    (lambda c, m: next(c.watch(m, min_interval="1")), "min_interval is '1', expected seconds, 0.1 to"),
    (lambda c, m: next(c.watch(m, min_interval=1e9)), "min_interval is 1000000000.0, expected"),
    (lambda c, m: c.stream(m, producer_id=5), "producer_id is 5, expected to match"),
    (lambda c, m: c.stream(m, idempotency_key="my job"), "idempotency_key is 'my job', expected to"),
    (lambda c, m: c.stream(m, epoch="x"), "epoch is 'x', expected a whole number"),
    (lambda c, m: c.stream(m, stall_timeout=0), "stall_timeout is 0, expected seconds, more than 0"),
    (lambda c, m: calibd.Client("http://127.0.0.1:8460"), "target is 'http://127.0.0.1:8460', expected"),
])
def test_errors_of_calls_name_the_argument(client, pets, call, found):
    with pytest.raises(calibd.InvalidArgument, match=found) as raised:
        call(client, pets)
    assert raised.value.fields and raised.value.remedy
    assert client.calibration(pets).message.label_arrivals.labels.unknown == 0


class Tensor:
    """Numbers that numpy cannot read, as those of torch on another device or with a gradient."""

    def __init__(self, error):
        self._error = error

    def __array__(self, dtype=None):
        raise self._error

    def __len__(self):
        return 3


@pytest.mark.parametrize("error", [RuntimeError("requires grad"), TypeError("cuda:0 device type")])
@pytest.mark.parametrize("call, field", [
    (lambda c, m, t: stream_of(c, m, "send", probabilities=t, labels=[0, 1, 2]), "probabilities"),
    (lambda c, m, t: stream_of(c, m, "send", probabilities=np.eye(3), labels=t), "labels"),
    (lambda c, m, t: stream_of(c, m, "label", ids=["a", "b", "c"], labels=t), "labels"),
    (lambda c, m, t: c.observe(m, t, 0), "probabilities"),
    (lambda c, m, t: c.observe(m, [0.2, 0.3, 0.5], t), "labels"),
    (lambda c, m, t: c.label(m, ["a"], t), "labels"),
    (lambda c, m, t: c.label(m, ["a"], outcomes=t), "outcomes"),
    (lambda c, m, t: c.create_model("x", forecast=t), "forecast"),
    (lambda c, m, t: calibd.transform(RecalibrationMap(version=1, kind="none", class_count=3), t),
     "probabilities")])
def test_what_numpy_cannot_read_names_the_argument(client, pets, call, field, error):
    with pytest.raises(calibd.InvalidArgument, match=f"^{field} cannot be read as .*: {error}") as found:
        call(client, pets, Tensor(error))
    assert [one.path for one in found.value.fields] == [field]


NAMES = {"a": 0, "b": 1, "c": 2}


@pytest.mark.parametrize("unordered", [set(NAMES), NAMES, NAMES.keys(), NAMES.values()],
                         ids=lambda values: type(values).__name__)
@pytest.mark.parametrize("call, field", [
    (lambda c, m, v: stream_of(c, m, "send", probabilities=np.eye(3), ids=v), "prediction_ids"),
    (lambda c, m, v: stream_of(c, m, "send", probabilities=np.eye(3), labels=v), "labels"),
    (lambda c, m, v: stream_of(c, m, "label", ids=v, labels=[0, 1, 2]), "prediction_ids"),
    (lambda c, m, v: c.label(m, v, [0, 1, 2]), "prediction_ids"),
    (lambda c, m, v: c.create_model("x", v), "classes"),
    (lambda c, m, v: c.create_model("x", 3, features=v), "features")])
def test_what_has_no_order_is_no_list(client, pets, call, field, unordered):
    with pytest.raises(calibd.InvalidArgument,
                       match=f"^{field} are .*, expected a list, whose order is kept"):
        call(client, pets, unordered)


@pytest.mark.parametrize("labels, found", [
    ((y for y in [0, 1, 2]), "labels are <generator .*, expected a list of labels"),
    ("abc", "labels are 'abc', expected a list of labels"),
    (5, "labels are 5, expected a list of labels")], ids=["generator", "text", "number"])
def test_labels_are_a_list(client, pets, labels, found):
    with client.stream(pets) as stream, pytest.raises(calibd.InvalidArgument, match=f"^{found}"):
        stream.send(np.eye(3), labels)


def test_a_client_can_be_pickled(client, model):
    copy = pickle.loads(pickle.dumps(client))
    assert repr(copy) == repr(client)
    assert copy.observe(model, [0.2, 0.3, 0.5], 2).accepted_rows == 1


def test_a_closed_client_opens_no_stream(server, model):
    client = calibd.Client(server.grpc)
    client.close()
    with pytest.raises(calibd.Cancelled, match="the client is closed"):
        client.stream(model)


# Each fits few arguments.
JUNK = ["x", b"x", "\ud800", -1, 2**70, 10**400, 1.5, np.nan, np.inf, np.datetime64("NaT"),
        datetime.date(2026, 1, 1), object(), {}, [None], [[1], [1, 2]], np.ones((2, 2))]


def stream_of(client, model, method, **arguments):
    stream = client.stream(model)
    try:
        getattr(stream, method)(**arguments)
    finally:
        stream.cancel()


# The calls with arguments that fit, to which each argument of the signature is added.
CALLS = {
    "create_model": {"classes": 3}, "get_model": {}, "update_model": {"description": "new"},
    "delete_model": {"model": "absent", "confirm": "absent"}, "stream": {},
    "observe": {"probabilities": [0.2, 0.3, 0.5], "label": 1}, "label": {"ids": ["a"], "labels": [0]},
    "calibration": {}, "watch": {}, "history": {}, "verdicts": {}, "acknowledge_alarm": {"alarm_id": 1},
    "run_test": {}, "evaluate": {}, "estimate": {}, "compare": {"baseline": "absent"},
    "recalibrate": {}, "report": {"path": "report.html"}, "backup": {"path": "backup"}, "verify": {},
    "send": {"probabilities": [[0.2, 0.3, 0.5]] * 2, "labels": [0, 1]},
    "label_of_a_stream": {"ids": [1, 2], "labels": [0, 1]}, "Client": {}, "escape_id": {},
    "load_map": {}, "transform": {"recalibration_map": RecalibrationMap(), "probabilities": [1]},
}


@pytest.mark.parametrize("name", CALLS)
def test_whatever_does_not_fit_raises_an_error_of_the_package(
        client, model, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    methods = {"send": calibd.ObservationStream.send,
               "label_of_a_stream": calibd.ObservationStream.label}
    function = methods.get(name) or getattr(client, name, None) or getattr(calibd, name)
    names = [one for one in inspect.signature(function).parameters if one != "self"]
    for changed, value in itertools.product(names, JUNK):
        arguments = {**({"model": model} if "model" in names else {}), **CALLS[name], changed: value}
        try:
            if name in ("send", "label_of_a_stream"):
                stream_of(client, model, function.__name__, **arguments)
            elif name == "watch":
                next(function(**arguments))
            else:
                answer = function(**arguments)
                if name == "stream":
                    answer.cancel()
        except calibd.CalibdError as error:
            assert error.remedy and str(error)
        except OSError:
            assert name in ("report", "backup", "load_map")
        except Exception as error:
            pytest.fail(f"{name}({changed}={value!r}) raises {error!r}")


def test_rows_of_pandas_have_the_same_index(client):
    client.create_model("indexed", 2, label_grace=GRACE)
    frame = pd.DataFrame([[0.3, 0.7], [0.6, 0.4]], index=[7, 3])
    truths = pd.Series([1, 0], index=[7, 3])
    ids = pd.Series(["a", "b"], index=[7, 3])
    with client.stream("indexed") as stream:
        stream.send(frame, truths, ids=ids)
        with pytest.raises(calibd.InvalidArgument, match="labels have another index than probabilities, "
                           r"such as 3 instead of 7 in row 0: give labels.loc\[index of prob"):
            stream.send(frame, truths.sort_index())
        with pytest.raises(calibd.InvalidArgument, match="prediction_ids have another index"):
            stream.send(frame, [1, 0], ids=ids.sort_index())
        with pytest.raises(calibd.InvalidArgument, match="another index than prediction_ids"):
            stream.label(ids, truths.sort_index())
        stream.send(frame.to_numpy(), truths.sort_index(), ids=["c", "d"])
    assert stream.counts.accepted_rows == 4
    client.create_model("indexed-number", forecast="normal")
    with client.stream("indexed-number") as stream, pytest.raises(
            calibd.InvalidArgument, match="outcomes have another index than forecasts"):
        stream.send(frame, truths.sort_index())


def test_labels_that_are_one_hot_are_named(client, pets):
    with client.stream(pets) as stream, pytest.raises(
            calibd.InvalidArgument, match=r"shape \(3, 3\), expected \(n,\): .*\(one-hot\), give"):
        stream.send(np.full((3, 3), 1 / 3), np.eye(3))


@pytest.mark.parametrize("rows, hint", [
    (np.log([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]]), "are these logarithms of .*apply numpy.exp"),
    ([[70, 20, 10], [10, 80, 10]], r"are these percentages\? divide them by 100$"),
    ([[3, -2, 1], [-1, 2, 7]], r"are these logits\? pass logits=True$"),
    ([[0.9, 0.8, 0.1], [0.2, 0.1, 0.1]], "they are several labels"),
])
def test_values_that_are_no_probabilities_are_named(client, pets, rows, hint):
    with client.stream(pets) as stream, pytest.raises(calibd.InvalidArgument) as raised:
        stream.send(rows, [0, 1])
    assert re.search(hint, raised.value.message)
