"""Features of the cases, against a real server."""
import numpy as np
import pandas as pd
import pytest

import calibd


def warm_days(n, seed=1):
    """Forecasts N(0, 1) whose outcomes have the sign of the temperature, with features."""
    random = np.random.default_rng(seed)
    features = pd.DataFrame({"hour": random.integers(0, 24, n), "temperature": random.normal(size=n),
                             "name": ["x"] * n})
    forecasts = np.stack([np.zeros(n), np.ones(n)], axis=1)
    return forecasts, np.copysign(random.normal(size=n), features["temperature"]), features


def test_a_frame_is_matched_by_the_names_of_the_features(client):
    created = client.create_model("demand", forecast="normal", features=["temperature", "hour"])
    with pytest.raises(calibd.AlreadyExists, match="another declaration: feature_names differ"):
        client.create_model("demand", forecast="normal", features=["hour", "temperature"])
    assert list(created.feature_names) == ["temperature", "hour"]
    forecasts, outcomes, frame = warm_days(600)
    with client.stream("demand") as stream:
        stream.send(forecasts[:300], outcomes[:300], features=frame[:300])
        stream.send(forecasts[300:], outcomes[300:],
                    features=frame[["temperature", "hour"]].to_numpy()[300:])
    evaluated = client.evaluate("demand", seed=1, local_features=["temperature"])
    forms = {d.form: d.test.p_value for d in evaluated.forecast.discrepancies}
    assert forms["local"] == 0.001 and forms["marginal"] > 0.01
    local = evaluated.forecast.local
    assert list(local.feature_names) == ["temperature"]
    assert local.places[0].features[0] in frame["temperature"].to_list()
    assert "near" in repr(evaluated) and "temperature " in repr(evaluated)


def test_classes_have_individual_calibration(client):
    client.create_model("loans", 2, features=["temperature"], bandwidth=0.5)
    _, outcomes, frame = warm_days(400)
    with client.stream("loans") as stream:
        stream.send(np.full((400, 2), 0.5), (outcomes > 0).astype(int),
                    features=frame["temperature"].to_numpy())
    client.observe("loans", [0.5, 0.5], 1, features=[0.3])
    evaluated = client.evaluate("loans", seed=1)
    assert evaluated.individual.test.p_value < 0.002
    assert "similar cases" in repr(evaluated)


@pytest.mark.parametrize("features,message", [
    (None, r"features are missing, expected \(3, 2\): temperature, hour"),
    (np.ones((3, 1)), r"features have the shape \(3, 1\), expected \(3, 2\)"),
    (pd.DataFrame({"hour": [1, 2, 3]}), "features have no column 'temperature'"),
    ([["a", "b"]] * 3, "features cannot be read as numbers"),
    ([[1, 2], [1, np.nan], [1, 2]], r"rows\[1\].features\[1\] is nan, expected a finite number")])
def test_errors_name_the_features(client, features, message):
    client.create_model("demand", forecast="normal", features=["temperature", "hour"])
    forecasts, outcomes, _ = warm_days(3)
    with client.stream("demand") as stream:
        with pytest.raises(calibd.InvalidArgument, match=message):
            stream.send(forecasts, outcomes, features=features)


def test_invalid_features_are_dropped_with_their_rows(client):
    client.create_model("demand", forecast="normal", features=["temperature", "hour"])
    forecasts, outcomes, _ = warm_days(4)
    features = np.arange(8.0).reshape(4, 2)
    features[2, 0] = np.inf
    with client.stream("demand", on_invalid="drop") as stream:
        stream.send(forecasts, outcomes, features=features)
        counts = stream.finish()
    assert (counts.accepted_rows, counts.dropped_rows) == (3, 1)


def test_models_without_features_take_none(client):
    client.create_model("plain", forecast="normal")
    forecasts, outcomes, _ = warm_days(3)
    with client.stream("plain") as stream:
        with pytest.raises(calibd.InvalidArgument, match="features are given, expected none"):
            stream.send(forecasts, outcomes, features=np.ones((3, 1)))
