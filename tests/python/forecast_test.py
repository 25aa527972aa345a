"""Models that forecast a number, against a real server."""
import datetime
import re
import xml.etree.ElementTree

import numpy as np
import pandas as pd
import pytest

import calibd

SVG = "{http://www.w3.org/2000/svg}"


def drawn(n, deviation=1.0, seed=1):
    """Forecasts of outcomes with the standard deviation 1, as mean and standard deviation."""
    random = np.random.default_rng(seed)
    means = random.normal(size=n)
    return np.stack([means, np.full(n, deviation)], axis=1), means + random.normal(size=n)


def test_narrow_forecasts_are_over_the_limit(client):
    created = client.create_model("demand", forecast="normal")
    assert created.forecast.HasField("normal") and not created.HasField("classes")
    with client.stream("demand") as stream:
        stream.send(*drawn(3000, 0.5))
    calibration = client.calibration("demand")
    assert calibration.observations == 3000
    assert re.search("the 90 % intervals\\s+cover 5", repr(calibration))
    assert "demand" in calibration._repr_html_()
    assert re.search(r"3000 observations, error [\d.]+ \(", repr(client.history("demand")))
    evaluation = client.evaluate("demand", seed=1, window=500)
    assert evaluation.forecast.scores.observations == 500
    assert evaluation.forecast.cramer_von_mises.p_value == 0.001
    assert [d.form for d in evaluation.forecast.discrepancies] == ["distribution", "marginal"]
    assert "off by" in repr(evaluation) and "MMD^2 marginal" in repr(evaluation)
    for result, line in ((calibration, False), (evaluation, True)):
        html = xml.etree.ElementTree.fromstring(result._repr_html_())
        (diagram,) = html.iter(f"{SVG}svg")
        assert diagram.find(f"{SVG}title").text.startswith("demand: coverage: 50 % intervals cover 2")
        assert len(diagram.findall(f"{SVG}circle")) == 3
        assert (diagram.find(f"{SVG}polyline") is not None) == line
    cells = len(evaluation.forecast.cells)
    # The background, the frame and the cells.
    assert len(diagram.findall(f"{SVG}rect")) == 2 + cells
    line = [point.split(",") for point in diagram.find(f"{SVG}polyline").get("points").split()]
    assert len(line) == cells + 1 and line == sorted(line, key=lambda point: float(point[0]))
    # The line goes from one corner of the frame to the other.
    assert line[0] == ["46.0", "286.0"] and line[-1] == ["306.0", "26.0"]
    with pytest.raises(calibd.InvalidArgument, match="lenses is set"):
        client.evaluate("demand", lenses=["top_label"])


def test_the_rows_since_an_acknowledgement_and_the_decision_are_shown(client):
    client.create_model("deciding", forecast="normal", decision=0.5)
    client.create_model("costs", forecast="normal", decision=(0.5, 1, 4))
    for model in ("deciding", "costs"):
        with client.stream(model) as stream:
            stream.send(*drawn(3000, 0.5))
    calibration = client.calibration("deciding")
    assert re.search(r"^decision  at 0\.5: 2[\d.]+ % of 3000 decisions were wrong", repr(calibration),
                     re.M)
    for alarm in calibration.alarms:
        client.acknowledge_alarm("deciding", alarm.id, "retrained")
    with client.stream("deciding") as stream:
        stream.send(*drawn(600))
    newer = client.calibration("deciding")
    text = repr(newer)
    assert "the error is measured from row 3001 on" in " ".join(text.split())
    assert " of 600 decisions since row 3001 were" in " ".join(text.split())
    # The points of the diagram are of the rows of the error, and not of all.
    covered = newer.error.since_acknowledgement.central_coverage[0].coverage
    assert f"50 % intervals cover {100 * covered:.1f} %" in newer._repr_html_()
    before, after = (one.forecast.central_coverage[0].coverage for one in (calibration, newer))
    assert covered > after > before
    # Without rows there are no points.
    alarmed = client.calibration("costs")
    for alarm in alarmed.alarms:
        client.acknowledge_alarm("costs", alarm.id)
    acknowledged = client.calibration("costs")
    assert "OVER_LIMIT (acknowledged), " in repr(acknowledged)
    assert "OVER_LIMIT, alarm on " in repr(alarmed)
    assert "OVER_LIMIT (acknowledged), " in repr(client.verdicts())
    assert "<svg" not in acknowledged._repr_html_()


def test_decisions_are_shown_with_what_they_cost(client):
    client.create_model("wrong", forecast="normal", decision=100000.5)
    client.create_model("dear", forecast="normal", decision=(0.0, 1, 4))
    for model, threshold in (("wrong", 100000.5), ("dear", 0)):
        forecasts, outcomes = drawn(500, 0.5)
        forecasts[:, 0] += threshold
        with client.stream(model) as stream:
            stream.send(forecasts, outcomes + threshold)
    text = repr(client.evaluate("wrong", replicates=99))
    assert re.search(r"^decision +at 100000\.5: [\d.]+ % of the decisions were wrong", text, re.M)
    assert re.search(r"^decision calibration error +[\d.]+, calibrated: below", text, re.M)
    assert re.search(r", decisions cost [\d.]+, promised [\d.]+$", repr(client.history("dear")), re.M)


@pytest.mark.parametrize("levels, has_central", [([0.5], False), ([0.1, 0.2, 0.3], False),
                                                 ([0.1, 0.9], True)])
def test_forecasts_without_a_central_interval_have_no_direction(client, levels, has_central):
    model = "levels" + "-".join(map(str, levels))
    client.create_model(model, forecast=levels)
    _, outcomes = drawn(500)
    with client.stream(model) as stream:
        stream.send(np.tile(np.arange(len(levels)), (500, 1)), outcomes)
    assert bool(client.calibration(model).forecast.central_coverage) == has_central
    assert ("intervals cover" in " ".join(repr(client.calibration(model)).split())) == has_central


def test_columns_of_a_frame_are_known_by_their_names(client):
    client.create_model("frame", forecast="normal")
    forecasts, outcomes = drawn(20)
    frame = pd.DataFrame({"std": forecasts[:, 1], "mean": forecasts[:, 0]})
    with client.stream("frame") as stream:
        stream.send(frame, outcomes)
        stream.send(frame[["mean", "std"]], outcomes)
    residuals = outcomes - forecasts[:, 0]
    assert client.calibration("frame").forecast.residual_mean == pytest.approx(residuals.mean())
    client.create_model("frame-levels", forecast=[0.05, 0.5, 0.95])
    with client.stream("frame-levels") as stream:
        # In another order, the quantiles decrease, which is refused.
        stream.send(pd.DataFrame({"q0.95": [3.0], "q0.05": [1.0], "q0.5": [2.0]}), [2.5])
        stream.send(pd.DataFrame({95: [3.0], 5: [1.0], 50: [2.0]}), [2.5])
    assert stream.counts.accepted_rows == 2


def test_a_recent_change_is_shown(client):
    client.create_model("changed", forecast="normal")
    with client.stream("changed") as stream:
        stream.send(*drawn(20000))
        stream.send(*drawn(1500, 0.6, seed=2))
    calibration = client.calibration("changed")
    assert calibration.verdict.is_recent
    newest = calibration.error.newest
    assert newest.observations == 21500 - 20 * 1024
    assert f"now       over the newest {newest.observations} rows, off by" in repr(calibration)
    assert newest.central_coverage[-1].coverage < 0.8


def test_quantiles_and_samples_are_declared_and_sent(client):
    assert list(client.create_model("q", forecast=[0.1, 0.9]).forecast.quantiles.levels) == [.1, .9]
    assert client.create_model("s", forecast=5).forecast.samples.draws == 5
    with client.stream("q") as stream:
        stream.send([[1, 2], [2, 2], [0, 4]], [1, 3, 5])
    with client.stream("s") as stream:
        stream.send(np.ones((4, 5)), [1.0, 2.0, 3.0, 4.0])
    assert client.calibration("q").observations == 3
    assert client.calibration("s").forecast.observations == 4
    with pytest.raises(calibd.InvalidArgument, match="expected \"normal\""):
        client.create_model("other", forecast="gaussian")


def test_outcomes_may_come_later(client):
    client.create_model("later", forecast="normal", label_grace=datetime.timedelta(days=1))
    forecasts, outcomes = drawn(3)
    with client.stream("later") as stream:
        stream.send(forecasts, ids=["a", "b", "c"])
        stream.label(["a", "c"], outcomes[[0, 2]])
        counts = stream.finish()
    assert counts.matched_labels == 2
    assert client.calibration("later").label_arrivals.pending_labelled == 2


@pytest.mark.parametrize("forecasts, outcomes, found", [
    ([[0, 1], [0, np.nan]], [0, 0], r"rows\[1\].forecasts\[1\] is nan"),
    ([[0, 1], [0, -1]], [0, 0], r"rows\[1\].forecasts\[1\] is -1.0"),
    ([[0, 1]], [np.inf], r"outcomes\[0\] is inf"),
    ([[0, 1e-300]], [1e20], r"outcomes\[0\] is 1e\+20"),
    ([[0, 1, 2]], [0], r"have the shape \(1, 3\), expected \(n, 2\)"),
    ([[0, 1]], [0, 1], "2 outcomes were given, expected 1"),
    ([[0, 1]], None, "outcomes are missing"),
])
def test_invalid_rows_are_named(client, forecasts, outcomes, found):
    client.create_model("checked", forecast="normal")
    with client.stream("checked") as stream:
        with pytest.raises(calibd.InvalidArgument, match=found):
            stream.send(forecasts, outcomes)


def test_invalid_rows_can_be_dropped(client):
    client.create_model("dropping", forecast=[0.1, 0.9])
    with client.stream("dropping", on_invalid="drop") as stream:
        stream.send([[1, 2], [2, 1], [1, 2]], [0, 0, np.nan])
        counts = stream.finish()
    assert counts.accepted_rows == 1 and counts.dropped_rows == 2


def test_single_forecasts_are_observed_and_labelled(client):
    client.create_model("single", forecast="normal", label_grace=datetime.timedelta(days=1))
    client.observe("single", forecast=[100, 7], outcome=93.5)
    client.observe("single", forecast=np.array([80.0, 5.0]), id="day-2")
    assert client.label("single", ["day-2"], outcomes=[85.5]).matched == 1
    assert client.calibration("single").observations == 1
    with pytest.raises(calibd.InvalidArgument, match="either probabilities or forecast"):
        client.observe("single")
    with pytest.raises(calibd.InvalidArgument, match="expected forecasts because"):
        client.observe("single", [0.5, 0.5], 1)
    with pytest.raises(calibd.InvalidArgument, match=r"rows\[0\].forecasts\[1\] is 0.0"):
        client.observe("single", forecast=[1, 0], outcome=1)
