"""The calls of the client against a real server."""
import concurrent.futures
import contextlib
import datetime
import os
import pickle
import re
import sqlite3
import subprocess
import threading
import xml.etree.ElementTree

import grpc
import numpy as np
import pandas as pd
import pytest
from google.protobuf import any_pb2

import calibd
from calibd import errors
from calibd.recalibration import save_map
from calibd.rpc import status_pb2
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import store_service_pb2 as store
from calibd.v1 import store_service_pb2_grpc
from calibd.v1.kernel_pb2 import Lens
from calibd.v1.recalibration_pb2 import RecalibrationMap

from conftest import BANDWIDTH, ROOT, calibrated


SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def overconfident(server):
    """A model with 2000 over-confident predictions."""
    client = calibd.Client(server.grpc)
    predictions, labels = calibrated(2000)
    sharpened = predictions**2 / (predictions**2).sum(axis=1, keepdims=True)
    client.create_model("overconfident", 3, bandwidth=BANDWIDTH)
    with client.stream("overconfident") as stream:
        stream.send(sharpened, labels)
    return "overconfident"


def titles_of_diagrams(result):
    html = xml.etree.ElementTree.fromstring(result._repr_html_())
    return [svg.find(f"{SVG}title").text for svg in html.iter(f"{SVG}svg")]


def test_model_is_declared_changed_listed_and_deleted(client):
    created = client.create_model("fraud@2", ["no", "yes"], error_limit=0.05, description="first",
                                  declaration=models.Model(window=500))
    assert created.name == "models/fraud/versions/2"
    assert list(created.classes.names) == ["no", "yes"] and created.window == 500
    assert client.create_model("fraud@2", ["no", "yes"]) == created
    with pytest.raises(calibd.AlreadyExists):
        client.create_model("fraud@2", 3)
    update = client.update_model("fraud@2", description="second", error_limit=0.1,
                                 stale_after=datetime.timedelta(hours=3))
    assert {change.path for change in update.update.changes} == {
        "description", "monitoring.error_limit", "monitoring.stale_after"}
    assert client.get_model("fraud@2").monitoring.stale_after.seconds == 3 * 3600
    assert "models/fraud/versions/2" in [model.name for model in client.list_models()]
    client.delete_model("fraud@2", confirm="fraud@2")
    with pytest.raises(calibd.NotFound) as raised:
        client.get_model("fraud@2")
    assert raised.value.reason == "MODEL_NOT_FOUND"
    assert "declare the model" in raised.value.remedy


def test_the_output_of_a_model_server_is_updated(client):
    declared = models.InferenceOutput(name="p", column_classes=["yes", "no"])
    client.create_model("served", ["no", "yes"],
                        declaration=models.Model(inference_output=declared))
    sigmoid = models.InferenceOutput.SIGMOID
    client.update_model("served", inference_output=models.InferenceOutput(name="q", transform=sigmoid))
    output = client.get_model("served").inference_output
    assert (output.name, output.transform, list(output.column_classes)) == ("q", sigmoid, ["yes", "no"])
    with pytest.raises(calibd.InvalidArgument, match="inference_output.column_classes"):
        client.update_model("served", inference_output=declared)


def test_remedies_are_those_of_the_page_of_errors():
    page = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    for reason, code, _, remedy in rows:
        info = status_pb2.ErrorInfo(reason=reason.strip("`"))
        detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo",
                             value=info.SerializeToString())
        number = grpc.StatusCode[code.split(",")[0]].value[0]
        error = errors.from_status(status_pb2.Status(code=number, details=[detail]))
        expected = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", remedy)
        # Methods have the names of the client.
        for method, name in (("UpdateModel", "update_model"), ("GetCalibration", "calibration"),
                             ("GetHistory", "history"), ("Evaluate", "evaluate")):
            expected = expected.replace(f"`{method}`", f"`client.{name}`")
        assert error.remedy == expected


def test_an_error_without_a_reason_has_its_code_as_the_reason(client):
    for call in (lambda: client.create_model("x", 3, error_limit=0),
                 lambda: client.stream("x", on_invalid="ignore")):
        with pytest.raises(calibd.InvalidArgument) as raised:
            call()
        assert pickle.loads(pickle.dumps(raised.value)).reason == "INVALID_ARGUMENT"
    with pytest.raises(calibd.Unavailable) as absent:
        calibd.Client("127.0.0.1:1", timeout=0.1).list_models()
    assert absent.value.reason == "UNAVAILABLE"
    # Only a broken connection gives no reason.
    info = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo",
                       value=status_pb2.ErrorInfo(reason="INTERNAL").SerializeToString())
    for details, cut_off in (([], True), ([info], False)):
        error = errors.from_status(status_pb2.Status(code=13, details=details))
        assert error.reason == "INTERNAL" and errors.is_cut_off(error) == cut_off


def test_all_pages_of_models_are_listed(client):
    names = [f"models/page-{i:02}" for i in range(25)]
    for name in names:
        client.create_model(name, 2)
    assert [m.name for m in client.list_models() if m.name.startswith("models/page-")] == names
    text = repr(client.verdicts())
    assert re.search(r"^all models: \d+ models, \d+ of \d+ tested ones rejected together\n", text)
    assert re.search(r"^page-24 +UNDECIDED, INSUFFICIENT_DATA$", text, re.M)
    verdicts = client.verdicts().models
    assert [m.model for m in verdicts if m.model.startswith("models/page-")] == names


def test_an_invalid_field_is_named(client):
    with pytest.raises(calibd.InvalidArgument) as raised:
        client.create_model("invalid", 1)
    assert [field.path for field in raised.value.fields] == ["model.classes.count"]
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize("code", [code for code in grpc.StatusCode if code != grpc.StatusCode.OK])
def test_each_code_has_its_own_class(code):
    error = errors.from_status(status_pb2.Status(code=code.value[0], message="text"))
    assert error.code == code and type(error).__name__.lower() == code.name.replace("_", "").lower()
    assert getattr(calibd, type(error).__name__) is type(error)
    assert error.remedy and "text" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_absent_server_is_unavailable():
    with pytest.raises(calibd.Unavailable) as raised:
        calibd.Client("127.0.0.1:1", timeout=2).list_models()
    assert "address" in raised.value.remedy


def test_a_closed_client_is_cancelled(server):
    client = calibd.Client(server.grpc)
    client.close()
    with pytest.raises(calibd.Cancelled):
        client.list_models()


@pytest.mark.parametrize("call", [
    lambda client, name, told: [told.set() for _ in client.watch(name)],
    lambda client, name, told: client.run_test(
        name, replicates=100000, on_progress=lambda _: told.set())],
    ids=["watch", "run_test"])
def test_close_ends_running_calls(server, overconfident, call):
    client = calibd.Client(server.grpc)
    told = threading.Event()
    closer = threading.Thread(target=lambda: told.wait(60) and client.close())
    closer.start()
    with pytest.raises(calibd.Cancelled, match="^the client is closed"):
        call(client, overconfident, told)
    closer.join()


def test_observe_counts_one_row_and_a_repeated_request_once(client, model):
    assert client.observe(model, [0.2, 0.3, 0.5], 2).accepted_rows == 1
    for duplicates in (0, 1):
        answer = client.observe(model, np.array([0.2, 0.3, 0.5]), 1, request_id="request-1")
        assert answer.duplicate_rows == duplicates
    assert client.calibration(model).observations == 2
    with pytest.raises(calibd.InvalidArgument) as raised:
        client.observe(model, [0.2, 0.3, 0.6], 2)
    assert "rows[0].probabilities" in raised.value.fields[0].path
    client.create_model("observe-binary", 2)
    assert client.observe("observe-binary", 0.8, 1).accepted_rows == 1


def test_calibration_has_a_readable_text_and_a_diagram(client, overconfident):
    answer = client.calibration(overconfident)
    assert answer.observations == 2000
    assert "MISCALIBRATED" in repr(answer) and "over-confident by" in repr(answer)
    html = xml.etree.ElementTree.fromstring(answer._repr_html_())
    assert html.find(".//{http://www.w3.org/2000/svg}circle") is not None
    title = html.find(".//{http://www.w3.org/2000/svg}title").text
    assert "percentage points on average" in title
    alarm = answer.alarms[0]
    client.acknowledge_alarm(overconfident, alarm.id, "retrained")
    assert client.calibration(overconfident).alarms[0].note == "retrained"


def test_evaluation_reports_progress_and_draws_each_diagram(client, overconfident):
    told = []
    evaluation = client.evaluate(overconfident, lenses=["top_label"], replicates=99, seed=7,
                                 reliability_classes=[0, 2], on_progress=told.append)
    assert told == sorted(told) and told[0] > 0 and told[-1] == 1
    assert [lens.lens for lens in evaluation.lenses] == ["canonical", "top_label"]
    assert evaluation.scores.confidence_minus_accuracy > 0.05
    assert "over-confident" in repr(evaluation)
    html = xml.etree.ElementTree.fromstring(evaluation._repr_html_())
    assert len(html.findall(".//{http://www.w3.org/2000/svg}svg")) == 3
    assert html.find(".//{http://www.w3.org/2000/svg}polyline") is not None
    assert "band: if the model were calibrated" in "".join(html.itertext())


def test_the_replicates_of_each_test_are_those_of_calibctl(client, overconfident):
    for replicates, consistency, has_test in ((0, None, True), (0, 0, False), (99, 0, False),
                                              (99, 199, True)):
        found = client.evaluate(overconfident, lenses=["top_label"], replicates=replicates,
                                consistency_replicates=consistency, seed=7)
        assert found.message.HasField("consistency_test") == has_test
        assert ("lenses were not tested" in repr(found)) == (replicates == 0)


def test_an_evaluation_shows_what_actions_cost(client, overconfident):
    settings = service.EvaluateRequest(actions=[
        service.Action(name=name, losses=losses)
        for name, losses in (("wait", [0, 1, 1]), ("act", [1, 0, 0]), ("never", [9, 9, 9]))])
    evaluation = client.evaluate(overconfident, replicates=99, seed=1, settings=settings)
    text = repr(evaluation)
    assert re.search(r"^decision +the actions cost [\d.]+ on average, the predictions promise\s+"
                     r"[\d.]+:\s+\+[\d.]+\s+\(.*\s+to\s+.*\)$", text, re.M)
    wait, act, never = evaluation.decision_loss.actions
    assert f"wait, chosen {wait.observations} times: cost {wait.realised_loss:.4g}, promised" in text
    assert re.search(r"^action +never, chosen 0 times$", text, re.M)
    assert re.search(r"^decision calibration error +[\d.]+, calibrated: below", text, re.M)
    assert re.search(r"^given the action +p = 0\.01 for one look$", text, re.M)


def test_the_error_of_class_1_is_shown_if_it_is_larger(client):
    """The errors of both classes cancel in the top label."""
    random = np.random.default_rng(1)
    scores = random.choice([0.4, 0.6], 8000)
    client.create_model("class-1", ["no", "yes"], error_limit=0.03, bandwidth=BANDWIDTH)
    with client.stream("class-1") as stream:
        stream.send(scores, random.random(8000) < scores + 0.1)
    answer = client.calibration("class-1")
    assert answer.verdict.limit_status == answer.status == "OVER_LIMIT"
    assert answer.now.error == answer.message.error.newest.class_1
    assert answer.now.error.lower > answer.now.top_label.lower
    assert answer.to_dict()["verdict"]["limitStatus"] == "OVER_LIMIT"
    evaluation = client.evaluate("class-1", replicates=99)
    for result in (answer, evaluation):
        assert re.search(r"^how bad +P\(yes\) off by [\d.]+ points .*; limit 3", repr(result), re.M)
    for result in (client.history("class-1"), client.recalibrate("class-1")):
        assert "P(yes) " in repr(result)
    (title,) = titles_of_diagrams(answer)
    assert title.startswith("class-1: P(yes): ")
    (title,) = titles_of_diagrams(evaluation)
    assert title.startswith("class-1: P(yes): predictions and frequencies differ by ")


def test_predictions_without_labels_are_pending_and_warnings_shown_once(client):
    client.create_model("awaited", 3, label_grace=datetime.timedelta(days=7))
    for _ in range(2):
        with client.stream("awaited") as stream:
            stream.send(calibrated(3)[0], ids=["a", "b", "c"])
    text = repr(client.calibration("awaited"))
    assert "data      0 counted rows, 0 rejected, 3 pending (the first will count on" in text
    assert text.count("repeated a known id") == 1


def test_the_text_is_that_of_calibctl_show(client, server, overconfident):
    text = repr(client.calibration(overconfident))
    shown = subprocess.run([os.environ["CALIBCTL_BINARY"], "show", overconfident, "--server",
                            server.grpc], check=True, capture_output=True, text=True).stdout
    age = re.compile("came .* ago|came just now")
    assert age.sub("came", " ".join(text.split())) == age.sub("came", " ".join(shown.split()))
    assert max(map(len, text.splitlines())) <= 100


def test_diagrams_escape_text_and_leave_out_empty_bins():
    from calibd.diagram import Point, reliability_svg
    points = [Point(0, 0.1, 3, 0.05, 0.1), Point(0.9, 1, 7, 0.95, 0.5)]
    svg = reliability_svg(points, "<b>&", "<script>")
    assert "<script>" not in svg
    root = xml.etree.ElementTree.fromstring(svg)
    assert len(root.findall("{http://www.w3.org/2000/svg}circle")) == 2
    assert reliability_svg([], "event", "title") == ""


def test_a_long_title_is_cut_before_the_version_and_kept_as_a_tip():
    from calibd.diagram import Point, reliability_svg
    title = f"{'very-' * 20}long@17: top label"
    root = xml.etree.ElementTree.fromstring(reliability_svg([Point(0, 1, 1, 0.5, 0.5)], "event", title))
    assert root.find(f"{SVG}title").text.startswith(title)
    visible = root.find(f"{SVG}text").text
    assert len(visible) == 38 and visible.startswith("very-very-") and visible.endswith("@17: top label")


def test_test_and_estimate_report_progress(client, overconfident):
    told = []
    result = client.run_test(overconfident, null="forecast", lens="top_label", seed=1,
                             on_progress=told.append)
    assert result.p_value == 0.001 and result.replicates == 999 and result.seed == 1
    assert told == sorted(told) and told[0] > 0 and told[-1] == 1
    assert "0.001" in repr(result) and "<table>" in result._repr_html_()
    estimate = client.estimate(overconfident, lens="top_label", folds=2, on_progress=told.append)
    assert estimate.folds == 2 and " points +-" in repr(estimate)
    class_1 = Lens(one_class=Lens.OneClass(class_index=1))
    assert "class_wise[1]" in repr(client.estimate(overconfident, lens=class_1, folds=2))
    assert client.estimate(overconfident, folds=2).provenance.lens == "top_label"
    chosen = client.estimate(overconfident, estimators=["bins", "product_ridge"], folds=2)
    assert re.findall(r"^(\w+) .* points", repr(chosen), re.M)[-2:] == ["bins", "product_ridge"]
    assert "top_label" in repr(estimate) and str(estimate.seed) in repr(estimate)
    with pytest.raises(calibd.InvalidArgument, match="expected one of canonical, top_label"):
        client.run_test(overconfident, lens="wrong")
    with pytest.raises(calibd.FailedPrecondition) as raised:
        client.create_model("empty", 3)
        client.run_test("empty")
    assert raised.value.reason == "INSUFFICIENT_DATA"


def test_estimate_simulates_a_calibrated_model(client, overconfident):
    estimate = client.estimate(overconfident, lens="top_label", replicates=99)
    assert estimate.simulation.replicates == 99
    assert 0 < estimate.simulation.p_value <= 1 and "p-value" in repr(estimate)


def test_compare_says_which_model_is_better(client, overconfident):
    predictions, labels = calibrated(800)
    client.create_model("compared", 3, bandwidth=BANDWIDTH)
    with client.stream("compared") as stream:
        stream.send(predictions, labels)
    comparison = client.compare("compared", overconfident)
    assert not comparison.comparison.paired and "log loss 0" in repr(comparison)
    assert repr(comparison).startswith("models/compared: against models/overconfident, 800 ")
    with pytest.raises(calibd.InvalidArgument):
        client.compare("compared", "compared")


def test_forecasts_of_a_number_are_compared_by_their_scores(client):
    outcomes = np.random.default_rng(4).normal(size=400)
    for name, deviation in (("sharp", 1.0), ("wide", 3.0)):
        client.create_model(name, forecast="normal")
        with client.stream(name) as stream:
            stream.send(np.tile([0.0, deviation], (400, 1)), outcomes)
    comparison = client.compare("sharp", "wide")
    assert comparison.comparison.crps.upper < 0 and comparison.comparison.log_score.upper < 0
    assert "CRPS 0." in repr(comparison) and "log score 0." in repr(comparison)
    assert "log loss" not in repr(comparison)


def test_forecasts_of_a_number_are_tested(client):
    client.create_model("too-wide", forecast="normal")
    outcomes = np.random.default_rng(5).normal(size=400)
    with client.stream("too-wide") as stream:
        stream.send(np.tile([0.0, 3.0], (400, 1)), outcomes)
    result = client.run_test("too-wide", seed=1)
    assert result.p_value == 0.001 and result.replicates == 999
    assert repr(result).startswith("models/too-wide: test of distribution on 400 observations")
    assert "MMD^2" in repr(result) and "KCE" not in repr(result)
    with pytest.raises(calibd.InvalidArgument, match="lens is set"):
        client.run_test("too-wide", lens="top_label")


def test_an_interrupted_computation_is_cancelled(client, overconfident):
    class Interrupt(Exception):
        pass

    def interrupt(_):
        raise Interrupt

    with pytest.raises(Interrupt):
        client.run_test(overconfident, replicates=100000, on_progress=interrupt)


def test_recalibration_needs_no_server(client, overconfident):
    client.create_model("no-map", 3, bandwidth=BANDWIDTH)
    with client.stream("no-map") as stream:
        stream.send(*calibrated(1000))
    assert "no-map: no map is known to lower the log loss" in repr(client.recalibrate("no-map"))
    recalibration = client.recalibrate(overconfident)
    assert recalibration.helps and " would take the error of " in repr(recalibration)
    copy = pickle.loads(pickle.dumps(recalibration))
    predictions, _ = calibrated(100, seed=5)
    better = copy.transform(predictions)
    assert np.abs(better.sum(axis=1) - 1).max() < 1e-12
    assert (better.max(axis=1) < predictions.max(axis=1)).all()
    assert (better.argmax(axis=1) == predictions.argmax(axis=1)).all()


def test_a_recalibration_matches_columns_to_the_names_of_the_classes(client):
    client.create_model("named-map", ["cat", "dog", "owl"], bandwidth=BANDWIDTH)
    predictions, labels = calibrated(1000)
    with client.stream("named-map") as stream:
        stream.send(predictions, labels)
    recalibration = client.recalibrate("named-map")
    expected = recalibration.transform(predictions)
    frame = pd.DataFrame(predictions, columns=["cat", "dog", "owl"])[["owl", "cat", "dog"]]
    numbered = pd.DataFrame(predictions)[[2, 0, 1]]
    copy = pickle.loads(pickle.dumps(recalibration))
    assert (copy.transform(frame) == expected).all()
    assert (copy.transform(numbered) == expected).all()
    assert (copy.transform(frame.iloc[7]) == expected[7]).all()
    assert (calibd.transform(recalibration.map, numbered) == expected).all()
    with pytest.raises(calibd.InvalidArgument, match=r"columns are \['cow', 'cat', 'dog'\]"):
        recalibration.transform(frame.rename(columns={"owl": "cow"}))
    for given in (frame, frame.iloc[7]):
        with pytest.raises(calibd.InvalidArgument, match="expected 0 to 2, .*: give an array"):
            calibd.transform(recalibration.map, given)
    # The tolerance of the model is 0.001; that of a map alone is not known.
    off = [0.5, 0.3, 0.22]
    assert calibd.transform(recalibration.map, off).sum() == pytest.approx(1)
    with pytest.raises(calibd.InvalidArgument, match=r"rows\[0\].probabilities sums to 1.02, .*0.001"):
        recalibration.transform(off)


CURVE = RecalibrationMap.Curve(starts=[0.1, 0.25, 0.5, 0.5], values=[0.05, 0.2, 0.6, 0.9])
MAPS = {
    "none": {}, "temperature": {"temperature": 1.7},
    "vector": {"scales": [0.5, 1.5, 0], "offsets": [0.1, -0.2, 3]},
    "isotonic": {"curves": [CURVE] * 3},
}


@pytest.mark.parametrize("kind", MAPS)
def test_transform_equals_that_of_the_cpp_client(tmp_path, kind):
    recalibration_map = RecalibrationMap(version=1, kind=kind, class_count=3, **MAPS[kind])
    save_map(recalibration_map, tmp_path / "map.json")
    assert '"classCount"' in (tmp_path / "map.json").read_text(encoding="utf-8")
    assert calibd.load_map(tmp_path / "map.json") == recalibration_map
    predictions, _ = calibrated(2000)
    predictions[:4] = [[0, 0, 1], [1, 0, 0], [0.5, 0.5, 0], [0.1, 0.25, 0.65]]
    np.save(tmp_path / "predictions.npy", predictions)
    subprocess.run([os.environ["CALIBCTL_BINARY"], "recalibrate", "--apply", tmp_path / "map.json",
                    tmp_path / "predictions.npy", "-o", tmp_path / "out.csv"], check=True,
                   capture_output=True)
    expected = np.genfromtxt(tmp_path / "out.csv", delimiter=",")
    expected = expected[~np.isnan(expected).any(axis=1)]
    assert expected.shape == (2000, 3)
    before = predictions.copy()
    assert np.abs(calibd.transform(recalibration_map, predictions) - expected).max() <= 1e-12
    assert (predictions == before).all()
    assert np.allclose(calibd.transform(recalibration_map, predictions[7]), expected[7], atol=1e-12)


@pytest.mark.parametrize("rows,field", [
    ([[0.5, 0.5, 0], [0.1, np.nan, 0.2]], r"rows[1].probabilities[1]"),
    ([[0.2, 0.3, 0.5], [0.9, 0.9, 0.9]], "rows[1].probabilities"),
    ([2, -1, 0], "rows[0].probabilities[0]"), ("abc", "probabilities"), ([0.5, 0.5], "probabilities")])
def test_only_probabilities_are_transformed(rows, field):
    with pytest.raises(calibd.InvalidArgument) as raised:
        calibd.transform(RecalibrationMap(version=1, kind="temperature", class_count=3,
                                          temperature=2), rows)
    assert raised.value.fields[0].path == field


@pytest.mark.parametrize("change,field", [
    ({"version": 2}, "map.version"), ({"class_count": 1}, "map.class_count"),
    ({"kind": "other"}, "map.kind"), ({"temperature": 30}, "map.temperature"),
    ({"kind": "vector", "scales": [1, -1, 1], "offsets": [0, 0, 0]}, "map.scales"),
    ({"kind": "isotonic", "curves": [CURVE]}, "map.curves")])
def test_an_invalid_map_is_refused(change, field):
    fields = {"version": 1, "kind": "temperature", "class_count": 3, "temperature": 2, **change}
    with pytest.raises(calibd.InvalidArgument) as raised:
        calibd.transform(RecalibrationMap(**fields), np.full((2, 3), 1 / 3))
    assert raised.value.fields[0].path == field


def test_history_covers_all_observations(client, overconfident):
    history = client.history(overconfident, "minute")
    assert history.total.observations == 2000
    assert re.search("[12] buckets?, 2000 observations", repr(history))
    assert "<table>" in history._repr_html_()
    start = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)
    later = client.history(overconfident, start=start)
    assert not later.buckets and not later.message.HasField("total")
    with pytest.raises(calibd.InvalidArgument, match="resolution is 'week', expected one of minute"):
        client.history(overconfident, "week")


def test_watch_continues_over_a_restart_of_the_server(own_server):
    client = calibd.Client(own_server.grpc)
    client.create_model("watched", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(300)
    revisions, observations = [], []
    changed = threading.Condition()

    def watch():
        with pytest.raises(calibd.Cancelled):
            for answer in client.watch("watched", min_interval=0.1):
                with changed:
                    revisions.append(answer.revision)
                    observations.append(answer.observations)
                    changed.notify_all()

    def await_observations(number):
        with changed:
            assert changed.wait_for(lambda: observations and observations[-1] == number, 60)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        await_observations(0)
        for i in range(0, 300, 100):
            with client.stream("watched") as stream:
                stream.send(predictions[i:i + 100], labels[i:i + 100])
            await_observations(i + 100)
            own_server.kill()
            own_server.start()
    finally:
        client.close()
        watcher.join(60)
    assert not watcher.is_alive()
    assert len(set(revisions)) == len(revisions) and observations == sorted(observations)


def test_every_name_of_the_package_is_documented():
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    assert [name for name in calibd.__all__
            if f"`{name}`" not in page and f"calibd.{name}(" not in page] == []


@pytest.mark.parametrize("text,escaped", [("resnet-18", "resnet-18"), ("My model", "x--My-20model"),
                                          ("x--a", "x--x-2d-2da"), ("é", "x---c3-a9")])
def test_names_are_escaped_as_by_the_cpp_client(text, escaped):
    assert calibd.escape_id(text) == escaped


def test_a_backup_is_complete_and_replaces_no_file(client, overconfident, tmp_path):
    path, fractions = tmp_path / "backup.db", []
    size = client.backup(path, on_progress=fractions.append)
    assert path.stat().st_size == size and fractions == sorted(fractions)
    assert fractions[-1] == 1
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with pytest.raises(FileExistsError):
        client.backup(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending,expected", [
    ([], "before it was complete"),
    ([store.BackupResponse(complete=store.BackupResponse.Complete(size_bytes=4, hash=1))], "checksums")])
def test_a_backup_that_arrives_damaged_is_not_kept(ending, expected, tmp_path):
    class Damaged(store_service_pb2_grpc.StoreServiceServicer):
        def Backup(self, request, context):
            yield from [store.BackupResponse(data=b"data"), *ending]

    server = grpc.server(concurrent.futures.ThreadPoolExecutor(1))
    store_service_pb2_grpc.add_StoreServiceServicer_to_server(Damaged(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with calibd.Client(f"127.0.0.1:{port}") as client, pytest.raises(calibd.DataLoss) as raised:
            client.backup(tmp_path / "backup.db")
    finally:
        server.stop(None).wait()
    assert expected in str(raised.value) and not list(tmp_path.iterdir())


def test_verify_reads_the_whole_store(client, overconfident):
    verification = client.verify()
    assert not verification.problems and verification.models >= 1


def test_many_labels_are_sent_in_several_messages(client):
    client.create_model("many-labels", 3, label_grace="1h", bandwidth=BANDWIDTH)
    predictions, labels = calibrated(70_000)
    ids = [f"{i:0128}" for i in range(len(labels))]
    with client.stream("many-labels") as stream:
        stream.send(predictions, ids=ids)
    assert client.label("many-labels", ids, labels).matched == 70_000
    # All are checked before the first ones are sent.
    with pytest.raises(calibd.InvalidArgument, match=r"labels\[69999\].* is 3"):
        client.label("many-labels", ids, [*labels[:-1], 3])
    assert client.label("many-labels", ids, labels).repeated == 70_000
    with pytest.raises(calibd.InvalidArgument, match="ids are 70000, expected at most 65536 with a"):
        client.label("many-labels", ids, labels, request_id="once")


def test_a_call_that_no_server_takes_is_refused_before_it_is_sent():
    # No server is there.
    client = calibd.Client("127.0.0.1:1", timeout=600)
    with pytest.raises(calibd.ResourceExhausted, match="expected at most 67108864") as raised:
        client.create_model("any", 3, description="x" * (65 << 20))
    assert raised.value.reason == "MESSAGE_TOO_LARGE" and "smaller" in raised.value.remedy


def test_a_failure_in_the_middle_says_what_is_counted(own_server):
    with calibd.Client(own_server.grpc, timeout=1) as client:
        client.create_model("middle", 3, label_grace="1h")
        send, calls = client._transport.counted_unary, []

        def lose_the_server(*arguments):
            calls.append(arguments[0])
            if calls.count("IngestService/Observe") == 2:
                own_server.kill()
            return send(*arguments)

        client._transport.counted_unary = lose_the_server
        with pytest.raises(calibd.Unavailable, match=r"; labels\[:6\d\d\d\] are counted"):
            client.label("middle", range(20_000), [0] * 20_000)
