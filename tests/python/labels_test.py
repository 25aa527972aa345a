"""Models of several labels, against a real server."""
import datetime

import numpy as np
import pandas as pd
import pytest

import calibd
from wait_for import wait_for

NAMES = ["rain", "fog", "wind"]


def drawn(n, share=1.0, seed=1):
    """n x 3 probabilities and truths. Wind holds `share` times as often as stated."""
    random = np.random.default_rng(seed)
    stated = random.random((n, 3))
    truths = (random.random((n, 3)) < stated * [1, 1, share]).astype(float)
    truths[::2, 1] = np.nan
    return stated, truths


def test_the_label_that_is_over_is_named(client):
    created = client.create_model("weather", labels=NAMES)
    assert list(created.labels.names) == NAMES and not created.HasField("classes")
    stated, truths = drawn(4000, 0.7)
    with client.stream("weather") as stream:
        stream.send(stated[:2000], truths[:2000])
        # The names of columns count, not their order.
        order = ["wind", "rain", "fog"]
        stream.send(pd.DataFrame(stated[2000:], columns=NAMES)[order],
                    pd.DataFrame(truths[2000:], columns=NAMES)[order])
    calibration = client.calibration("weather")
    assert calibration.observations == 4000
    assert list(calibration.labels.over_limit) == ["wind"]
    assert [label.truths for label in calibration.labels.labels] == [4000, 2000, 4000]
    assert "in label wind" in repr(calibration) and "weather" in calibration._repr_html_()
    assert calibration.to_dict()["labels"]["labels"][2]["name"] == "wind"
    assert calibration.labels.labels[2].reliability is None
    wind = client.calibration("weather", label_diagrams=["wind"]).labels.labels[2].reliability
    assert sum(one.n for one in wind.bins) == 4000 and len(wind.bins) == 15
    with pytest.raises(calibd.InvalidArgument, match="snow.*expected one of the 3 labels"):
        client.calibration("weather", label_diagrams=["snow"])
    assert {alarm.label for alarm in calibration.alarms if alarm.label is not None} == {"wind"}
    history = client.history("weather")
    assert "4000 observations" in repr(history) and "wind +" in repr(history)
    assert history.label_count == 3 and history.total.labels[0].name == "wind"
    history = client.history("weather", labels=["fog", "rain"])
    assert {label.name for label in history.total.labels} == {"fog", "rain"}
    with pytest.raises(calibd.InvalidArgument, match="snow.*expected one of the 3 labels"):
        client.history("weather", labels=["snow"])
    with pytest.raises(calibd.InvalidArgument, match="labels"):
        client.history("weather", labels="fog")
    with pytest.raises(calibd.FailedPrecondition, match="predicts several labels"):
        client.evaluate("weather")


def test_truths_that_are_no_truths_are_refused_with_their_label(client):
    client.create_model("refused", labels=NAMES)
    stated, truths = drawn(10)
    truths[3, 2] = 2
    with client.stream("refused") as stream:
        with pytest.raises(calibd.InvalidArgument, match=r"rows\[3\]\.labels\[2\] \('wind'\) is 2"):
            stream.send(stated, truths)
        with pytest.raises(calibd.InvalidArgument, match=r"expected \(n, 3\)"):
            stream.send(stated, truths[:, 0])
        stated[1, 0] = 1.5
        with pytest.raises(calibd.InvalidArgument, match=r"rows\[1\]\.probabilities\[0\] is 1\.5"):
            stream.send(stated, np.zeros((10, 3)))
        # Lists may have None, and logits have no sum either.
        stream.send([[-3.0, 0.0, 1000.0]], [[0, None, 1]], logits=True)
    assert client.calibration("refused").labels.truths == 2
    assert client.observe("refused", [0.1, 0.9, 0.8], [0, -1, 1]).accepted_rows == 1
    assert client.calibration("refused").labels.truths == 4
    with client.stream("refused", on_invalid="drop") as stream:
        stream.send(stated, np.zeros((10, 3)))
        assert stream.finish().dropped_rows == 1


def test_truths_come_later_all_of_a_row_at_once(client):
    client.create_model("later", labels=NAMES, label_grace=datetime.timedelta(hours=1))
    stated, truths = drawn(50)
    ids = [f"day-{i}" for i in range(50)]
    with client.stream("later") as stream:
        stream.send(stated, ids=ids)
        stream.label(ids[:30], truths[:30])
    counts = client.label("later", ids[30:], truths[30:])
    assert counts.matched == 20
    assert client.label("later", ids[:1], truths[:1]).repeated == 1
    client.update_model("later", label_grace=datetime.timedelta(seconds=0.001))
    assert wait_for(lambda: client.calibration("later").observations == 50)
    assert [label.truths for label in client.calibration("later").labels.labels] == [50, 25, 50]


def test_values_a_rounding_away_from_a_probability_are_counted(client):
    client.create_model("rounded-labels", labels=NAMES)
    with client.stream("rounded-labels") as stream:
        stream.send([[1.00000012, -1.2e-7, 0.5]], [[1, 0, 1]])
        with pytest.raises(calibd.InvalidArgument, match=r"probabilities\[1\] is 1.0001"):
            stream.send([[0.5, 1.0001, 0.5]], [[1, 0, 1]])
    assert stream.counts.accepted_rows == 1
