"""What programs read from an answer, against a real server."""
import copy
import datetime
import json
import os
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pandas as pd
import pytest

import calibd
from calibd.facts import Facts
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import monitoring_pb2 as monitoring

from conftest import BANDWIDTH, ROOT, calibrated


@pytest.fixture(scope="module")
def answers(server):
    """The answers about three models: one over its limit, one within it, and one with little data."""
    client = calibd.Client(server.grpc)
    predictions, labels = calibrated(4000)
    for name, rows, limit, exponent in (("over", 3000, 0.02, 2), ("within", 4000, 0.2, 1),
                                        ("undecided", 30, 0.02, 1)):
        client.create_model(name, 3, bandwidth=BANDWIDTH, error_limit=limit)
        powers = predictions[:rows]**exponent
        with client.stream(name) as stream:
            stream.send(powers / powers.sum(axis=1, keepdims=True), labels[:rows])
    return {name: client.calibration(name) for name in ("over", "within", "undecided")}


def test_the_status_is_a_text_and_a_member(answers):
    for name, answer in answers.items():
        status = {"over": "OVER_LIMIT", "within": "WITHIN_LIMIT", "undecided": "UNDECIDED"}[name]
        assert answer.status == status and answer.status is calibd.Status[status]
        assert answer.over_limit is (name == "over")
        assert f"{answer.status}" == str(answer.status) == status
        assert json.loads(json.dumps(answer.status)) == status
        assert answer.to_dict()["verdict"]["limitStatus"] == status
    known = monitoring.CalibrationError.Status.keys()
    assert ["UNSPECIFIED", *(status.value for status in calibd.Status)] == known


def test_only_a_model_within_its_limit_passes(answers):
    answers["within"].assert_within_limit()
    for name in ("over", "undecided"):
        with pytest.raises(AssertionError) as failed:
            answers[name].assert_within_limit()
        first, rest = str(failed.value).split("\n", 1)
        assert first.startswith(f"{name} is {answers[name].status}, expected WITHIN_LIMIT: ")
        assert "(limit 2 points)" in first or "; limit 2 points)" in first
        assert first.endswith("larger error_limit") and rest == str(answers[name])


def test_now_is_the_error_of_the_newest_rows(answers):
    over = answers["over"]
    newest = over.message.error.newest
    assert 1000 <= over.now.observations == newest.observations < 2024
    assert over.now.error == newest.top_label and 0 < over.now.error.lower < over.now.error.upper < 1
    assert f"over the newest {over.now.observations} rows" in over.reading.now.text
    # While they are few, all rows are the newest.
    undecided = answers["undecided"]
    assert undecided.now.observations == 30 and undecided.error.newest is None
    assert undecided.now.error == undecided.message.error.since_start.top_label


def test_now_begins_after_an_acknowledgement(client):
    predictions, _ = calibrated(300)
    client.create_model("accepted", 3, bandwidth=BANDWIDTH)
    with client.stream("accepted") as stream:
        stream.send(predictions, (predictions.argmax(axis=1) + 1) % 3)
    (alarm,) = (one for one in client.calibration("accepted").alarms if one.kind == "OVER_LIMIT")
    client.acknowledge_alarm("accepted", alarm.id)
    answer = client.calibration("accepted")
    assert answer.over_limit and answer.now.observations == 0
    with pytest.raises(calibd.FailedPrecondition, match="^there is no labelled obs") as raised:
        answer.now.error
    assert raised.value.reason == "INSUFFICIENT_DATA"
    client.observe("accepted", predictions[0], 0)
    assert client.calibration("accepted").now.first_observation == 301


def shown(server, name):
    """What `calibctl show` prints."""
    return subprocess.run([os.environ["CALIBCTL_BINARY"], "show", name, "--server", server.grpc],
                          check=True, timeout=120, stdout=subprocess.PIPE, text=True).stdout


def without_age(text):
    """The text without the age of the newest row, which grows between two answers."""
    def unwrapped(line):
        words = " ".join(line[0].split())
        return re.sub(r"the newest row came (just now|[0-9]+[smhd] ago)", "AGE", words) + "\n"
    return re.sub(r"^data .*\n(?: .*\n)*", unwrapped, text, flags=re.M)


def rows_of_kind(kind):
    """The declaration of a model of this kind, and what its stream is sent."""
    random = np.random.default_rng(6)
    p, y = calibrated(3000, 2 if kind == "binary" else 3, seed=6)
    powers = p**2 / (p**2).sum(axis=1, keepdims=True)
    if kind == "numbers":
        forecasts = np.column_stack([np.zeros(3000), np.ones(3000)])
        return {"forecast": "normal"}, (forecasts, 2 * random.normal(size=3000)), {}
    if kind == "labels":
        # More of them than a short answer shows, and letters of several bytes.
        names = ["Küche", "Bad und WC", *(f"label {i}" for i in range(24))]
        stated = random.random((3000, len(names)))
        held = random.random((3000, len(names))) < stated ** np.linspace(2, 1, len(names))
        return {"labels": names}, (stated, held.astype(int)), {}
    declared = {"classes": 2 if kind == "binary" else 3, "bandwidth": BANDWIDTH}
    if kind == "groups":
        groups = random.choice(["north", "östlich der Straße", "south"], 3000)
        return {**declared, "group_tag": "region"}, (powers, y), {"groups": groups}
    return declared, (powers, y), {}


@pytest.mark.parametrize("kind", ["classes", "binary", "numbers", "labels", "groups"])
def test_an_answer_is_printed_as_calibctl_shows_it(client, server, kind):
    declared, rows, more = rows_of_kind(kind)
    name = f"printed-{kind}"
    client.create_model(name, **declared)
    empty = f"{client.calibration(name)}\n"
    assert without_age(empty) == without_age(shown(server, name))
    with client.stream(name) as stream:
        stream.send(*rows, **more)
    answer = client.calibration(name)
    assert answer.over_limit
    printed = f"{answer}\n"
    assert without_age(printed) == without_age(shown(server, name)) != without_age(empty)
    if kind == "labels":
        assert "\nlabel " in printed and printed.endswith("\n... 6 more\n")
        assert "<th>label</th>" in answer._repr_html_() and "Küche" in answer._repr_html_()
        assert answer.to_dict()["labels"]["table"]["rows"][0]["cells"][-1] == "over the limit, rejected"


@pytest.mark.parametrize("use", [lambda a: a.status, lambda a: a.over_limit, lambda a: a.now,
                                 lambda a: a.assert_within_limit()])
def test_a_model_without_monitoring_passes_no_gate(client, use):
    client.create_model("unmonitored", 3, declaration=models.Model(
        monitoring=monitoring.Monitoring(disabled=True)))
    with pytest.raises(calibd.FailedPrecondition, match="^unmonitored is not monitored.*: create it"):
        use(client.calibration("unmonitored"))


def test_a_status_of_a_newer_server_is_no_known_one(answers):
    answer = copy.deepcopy(answers["over"])
    answer.message.verdict.limit_status = 9
    with pytest.raises(calibd.Unimplemented, match="the status 9 is not known to this version"):
        answer.over_limit


def test_facts_are_plain_values(answers):
    answer = answers["over"]
    assert answer.verdict.status == "MISCALIBRATED"
    assert [alarm.kind for alarm in answer.alarms].count("OVER_LIMIT") == 1
    assert isinstance(answer.alarms[0].id, int) and answer.alarms[0].label is None
    age = datetime.datetime.now(datetime.timezone.utc) - answer.verdict.since
    assert abs(age) < datetime.timedelta(hours=1)
    assert answer.comparison is None and answer.error.acknowledged_limit is None
    assert [estimate.block_size for estimate in answer.estimates] == [2, 100]
    assert answer.scores.bins[14].observations == answer.message.scores.bins[14].observations
    declared = Facts(models.Model(monitoring=monitoring.Monitoring()))
    declared.message.monitoring.stale_after.FromSeconds(90)
    assert declared.monitoring.stale_after == datetime.timedelta(seconds=90)
    assert declared.forecast is None and declared.window == 0
    with pytest.raises(AttributeError, match="Calibration of a GetCalibrationResponse has no attribute "
                       "'eror': see dir"):
        answer.eror
    assert not hasattr(answer, "eror") and {"error", "now", "status"} <= set(dir(answer))
    restored = pickle.loads(pickle.dumps(answer))
    assert restored.to_dict() == answer.to_dict() and repr(restored) == repr(answer)
    assert pickle.loads(pickle.dumps(answer.verdict)).limit_status == "OVER_LIMIT"


def test_a_change_since_the_reference(client):
    predictions, labels = calibrated(3000)
    client.create_model("referenced", 3, bandwidth=BANDWIDTH, reference_rows=1000)
    with client.stream("referenced") as stream:
        stream.send(predictions[:1500], labels[:1500])
        stream.flush()
        assert client.calibration("referenced").reference_change.status == "NOT_CHANGED"
        stream.send(predictions[1500:], (labels[1500:] + 1) % 3)
    answer = client.calibration("referenced")
    assert answer.verdict.reference_status == answer.reference_change.status == "CHANGED"
    finding = answer.reference_change.finding
    assert finding.more_errors and abs(finding.since_observation - 1501) < 100
    (alarm,) = [alarm for alarm in answer.alarms if alarm.kind == "CHANGED"]
    assert alarm.finding.wrong == finding.wrong and alarm.acknowledge_time is None
    assert "more errors since about row" in str(answer)
    # An update begins a new reference, and 0 ends it.
    assert client.update_model("referenced", reference_rows=2000).update.restarts
    assert client.calibration("referenced").reference_change.first_observation == 3001
    client.update_model("referenced", reference_rows=0)
    assert client.calibration("referenced").reference_change is None


def test_the_history_is_a_frame(client, answers):
    history = client.history("over", "minute")
    frame = history.to_frame()
    assert frame.index.name == "start_time" and str(frame.index.dtype) == "datetime64[ns, UTC]"
    assert frame.index[0] == history.buckets[0].start_time
    assert frame["observations"].sum() == 3000
    assert frame["error.upper"].iloc[0] == history.message.buckets[0].error.upper
    assert frame["off_by"].iloc[0] == history.buckets[0].off_by and "bins" not in frame
    assert frame["mmd_squared"].isna().all() and frame["mmd_squared"].dtype == np.float64
    hours = frame.resample("1h")["observations"].sum()
    assert hours.sum() == 3000
    later = pd.Timestamp.now("UTC") + pd.Timedelta(days=1)
    empty = client.history("over", start=later).to_frame()
    assert len(empty) == 0 and "observations" in empty and empty.index.name == "start_time"


def test_the_history_of_forecasts_is_a_frame(client):
    client.create_model("frame-of-forecasts", forecast="normal", decision=1)
    random = np.random.default_rng(3)
    with client.stream("frame-of-forecasts") as stream:
        stream.send(np.tile([0.0, 1.0], (300, 1)), random.normal(size=300))
    row = client.history("frame-of-forecasts").to_frame().iloc[-1]
    assert 0 < row["forecast.crps"] < 1 and 0 <= row["decision.realised_loss"] < 1
    assert np.isnan(row["accuracy"])


class Recorder(types.ModuleType):
    """A module that keeps the calls of its functions, and whose objects are of its kind."""

    def __init__(self, name):
        super().__init__(name)
        self.calls = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments, **named):
            self.calls.append((name, arguments, named))
            return self
        return call

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def documented(heading):
    """The program below a heading of the page with the example."""
    page = (ROOT / "docs/example.md").read_text(encoding="utf-8")
    return re.search(rf"^### {heading}\n.*?^```python\n(.*?)^```$", page, re.M | re.S)[1]


@pytest.fixture
def handwriting(server, answers, monkeypatch):
    """The server of the example, whose models are those of the fixture `answers`."""
    monkeypatch.setenv("CALIBD_SERVER", server.grpc)
    return lambda name, heading: documented(heading).replace('"handwriting"', f'"{name}"')


def test_the_gate_of_the_example_passes_only_a_model_within_its_limit(handwriting):
    for name, passes in (("within", True), ("over", False)):
        names = {}
        exec(handwriting(name, "In pytest"), names)
        (test,) = (value for key, value in names.items() if key.startswith("test_"))
        if passes:
            test()
        else:
            with pytest.raises(AssertionError, match="OVER_LIMIT"):
                test()


def test_the_lines_for_mlflow_log_the_answer(handwriting, answers, monkeypatch):
    mlflow = Recorder("mlflow")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    program = handwriting("over", "MLflow")
    exec(program, {})
    assert len(program.split("\n\n")[-1].splitlines()) <= 10
    calls = {name: arguments for name, arguments, _ in mlflow.calls}
    error = answers["over"].now.error
    assert calls["log_metrics"][0] == {"calibration_error": error.estimate,
                                       "calibration_error_lower": error.lower,
                                       "calibration_error_upper": error.upper}
    assert calls["set_tag"] == ("calibration", "OVER_LIMIT")
    assert calls["log_text"][0].startswith("verdict   over: OVER_LIMIT")
    json.dumps(calls["log_dict"][0])


def test_the_lines_for_wandb_log_the_answer(handwriting, answers, monkeypatch):
    wandb = Recorder("wandb")
    wandb.summary = {}
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    program = handwriting("over", "Weights & Biases")
    exec(program, {})
    assert len(program.split("\n\n")[-1].splitlines()) <= 10
    assert wandb.summary["calibration_status"] == "OVER_LIMIT"
    logged = next(arguments[0] for name, arguments, _ in wandb.calls if name == "log")
    assert logged["calibration/error"] == answers["over"].now.error.estimate
    (frame,) = (named["dataframe"] for name, _, named in wandb.calls if name == "Table")
    assert frame["observations"].sum() == 3000 and "start_time" in frame
    assert "alert" in [name for name, _, _ in wandb.calls]
