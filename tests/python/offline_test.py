"""What the package computes without a server, against a server and calibctl with the same rows."""
import json
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pandas as pd
import pytest

import calibd
from calibd.v1 import loss_pb2
from conftest import BANDWIDTH, calibrated


def over_confident(n, classes=3, seed=1):
    """n predictions that are too sharp, and their labels."""
    p, y = calibrated(n, classes, seed)
    sharp = p**2
    return sharp / sharp.sum(axis=1, keepdims=True), y


def without_run(message):
    """The message without what differs between two runs: times, threads, and where the rows are."""
    copy = type(message)()
    copy.CopyFrom(message)
    for lens in getattr(copy, "lenses", ()):
        lens.result.ClearField("provenance")
    for name in ("elapsed", "provenance", "forecast", "reading"):
        if name in copy.DESCRIPTOR.fields_by_name:
            copy.ClearField(name)
    return copy


def calibctl(*arguments):
    done = subprocess.run([os.environ["CALIBCTL_BINARY"], "--output", "json", *map(str, arguments)],
                          capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_an_evaluation_equals_that_of_the_server(client, request):
    p, y = over_confident(600)
    client.create_model(request.node.name, 3, bandwidth=BANDWIDTH, block_sizes=[2, 10, 100])
    with client.stream(request.node.name) as stream:
        stream.send(p, y)
    served = client.evaluate(request.node.name, seed=7)
    local = calibd.evaluate(p, y, seed=7, bandwidth=BANDWIDTH)
    assert without_run(local.message) == without_run(served.message)
    assert local.message.reading.verdict == served.message.reading.verdict
    assert local.message.reading.how_bad == served.message.reading.how_bad
    assert local.status == "OVER_LIMIT" and local.over_limit
    with pytest.raises(AssertionError, match="off by"):
        local.assert_within_limit()


def test_an_evaluation_equals_that_of_calibctl(tmp_path):
    p, y = over_confident(500, 2)
    groups = np.where(np.arange(500) % 3 == 0, "a", "b")
    frame = pd.DataFrame({"prob_no": p[:, 0], "prob_yes": p[:, 1], "label": np.array(["no", "yes"])[y],
                          "where": groups})
    frame.to_csv(tmp_path / "p.csv", index=False, float_format="%.17g")
    printed = calibctl("evaluate", tmp_path / "p.csv", "--label-column", "label", "--group-column",
                       "where", "--seed", 3, "--reliability-classes", 1)
    local = calibd.evaluate(p, y, groups=groups, seed=3)
    assert local.to_dict()["error"] == printed["error"]
    assert local.to_dict()["groups"] == printed["groups"]
    assert local.to_dict()["consistencyTest"] == printed["consistencyTest"]
    assert local.to_dict()["limitStatus"] == printed["limitStatus"]
    assert [lens["result"]["pValue"] for lens in local.to_dict()["lenses"]] == [
        lens["result"]["pValue"] for lens in printed["lenses"]]


def test_many_rows_are_measured_and_some_are_tested():
    p, y = over_confident(600)
    all_rows = calibd.evaluate(p, y, seed=7, replicates=99)
    some = calibd.evaluate(p, y, seed=7, replicates=99, test_rows=200)
    assert (some.message.observations, some.message.tested_observations) == (600, 200)
    assert some.message.error == all_rows.message.error
    assert some.message.lenses[0].result.provenance.observations == 200
    assert "tested with 200 of the 600 rows, drawn at random" in " ".join(str(some).split())
    with pytest.raises(calibd.InvalidArgument, match="test_rows is 1, expected at least 2"):
        calibd.evaluate(p, y, test_rows=1)


def test_scores_frames_and_names_are_the_same_predictions():
    p, y = calibrated(300, 2)
    names = np.array(["no", "yes"])
    expected = without_run(calibd.evaluate(p, y, seed=1).message)
    frame = pd.DataFrame(p[:, ::-1], columns=["yes", "no"])
    for given, labels, classes in ((p.tolist(), y.tolist(), None), (p[:, 1], y, None),
                                   (p[:, [1]], y, None), (p, names[y], ["no", "yes"]),
                                   (frame, names[y], ["no", "yes"])):
        found = calibd.evaluate(given, labels, classes=classes, seed=1)
        assert found.message.error.estimate == pytest.approx(expected.error.estimate, abs=1e-12)
        assert found.message.scores.accuracy == expected.scores.accuracy


def test_invalid_arguments_name_what_is_wrong():
    p, y = calibrated(50)
    for given, labels, text in (
            (p, y[:49], "y has 49 labels, expected 50"),
            (p, np.where(np.arange(50) == 3, 7, y), r"y\[3\] is 7, expected an integer 0 to 2"),
            (p, np.array(["cat"] * 50), "give classes=classifier.classes_"),
            (p / 2, y, r"p has 50 of 50 rows that do not sum to 1, .* p\[0\], which sums to 0.5: a "),
            (np.hstack([p, y.reshape(-1, 1) + 50]), y, "column 3 of the rows seems to be no class, "
                                                       "because the others sum to 1: leave it out"),
            (np.hstack([p, p[:, :1] / 2 + 0.3]), y, "column 3 of the rows seems to be no class"),
            (p[:, 0].reshape(-1, 1) * [1, np.nan, 1], y, r"p\[0, 1\] is nan")):
        with pytest.raises(calibd.InvalidArgument, match=text):
            calibd.evaluate(given, labels)
    with pytest.raises(calibd.InvalidArgument, match="replicates"):
        calibd.evaluate(p, y, replicates=3)
    with pytest.raises(calibd.InvalidArgument, match="threads is 0, expected 1..1024"):
        calibd.evaluate(p, y, threads=0)
    with pytest.raises(calibd.InvalidArgument, match="have another index"):
        calibd.evaluate(pd.DataFrame(p), pd.Series(y, index=range(50, 0, -1)))
    # Rounding is no error.
    p[0] = [1 + 1e-9, 0, 0]
    calibd.evaluate(p, y, replicates=0)


def test_predicted_classes_are_told_from_probabilities(caplog):
    p, y = calibrated(100)
    calibd.evaluate(np.eye(3)[p.argmax(axis=1)], y, replicates=0)
    assert "predict_proba" in caplog.text
    caplog.clear()
    calibd.evaluate(p, y, replicates=0)
    assert not caplog.text


def test_assert_within_limit_accepts_only_what_is_shown():
    p, y = calibrated(60000)
    assert calibd.assert_within_limit(p, y, error_limit=0.1).status == "WITHIN_LIMIT"
    with pytest.raises(AssertionError, match="predictions is UNDECIDED, expected WITHIN_LIMIT"):
        calibd.assert_within_limit(p[:200], y[:200], error_limit=0.02)
    with pytest.raises(AssertionError, match="predictions is OVER_LIMIT"):
        calibd.assert_within_limit(*over_confident(3000), error_limit=0.02)


def test_an_estimate_equals_that_of_calibctl(tmp_path):
    p, y = over_confident(400)
    np.save(tmp_path / "p.npy", p)
    np.save(tmp_path / "y.npy", y)
    printed = calibctl("estimate", tmp_path / "p.npy", tmp_path / "y.npy", "--label-base", 0,
                       "--seed", 5)
    local = calibd.estimate(p, y, seed=5)
    assert local.to_dict()["estimators"] == printed["estimators"]
    one = calibd.estimate(p, y, lens="class_wise", estimators=["debiased_bins"], seed=5)
    assert one.message.provenance.lens == "class_wise"
    assert repr(local).startswith("predictions: ")


def test_a_map_equals_that_of_the_server_and_repairs(client, request):
    p, y = over_confident(4000)
    client.create_model(request.node.name, 3)
    with client.stream(request.node.name) as stream:
        stream.send(p, y)
    served = client.recalibrate(request.node.name)
    local = calibd.recalibrate(p, y)
    assert local.message.map == served.message.map
    assert local.message.error_after == served.message.error_after
    assert local.message.error_after.upper < local.message.error_before.lower
    np.testing.assert_array_equal(local.transform(p), served.transform(p))


@pytest.mark.parametrize("kind", ["normal", "samples"])
def test_forecasts_are_repaired_as_by_the_server_and_calibctl(client, tmp_path, kind):
    random = np.random.default_rng(4)
    model = f"repaired-{kind}"
    mean = 10 * random.normal(size=2000)
    outcomes = mean + 2 * random.normal(size=2000)
    forecasts = (np.stack([mean, np.ones(2000)], axis=1) if kind == "normal"
                 else mean[:, np.newaxis] + random.normal(size=(2000, 20)))
    client.create_model(model, forecast="normal" if kind == "normal" else 20)
    with client.stream(model) as stream:
        stream.send(forecasts, outcomes)
    served = client.recalibrate(model)
    local = calibd.recalibrate_forecasts(forecasts, outcomes, kind=kind)
    assert local.message.map == served.message.map
    assert local.helps and local.error_after.upper < local.error_before.lower
    local.save(tmp_path / "map.json")
    np.save(tmp_path / "forecasts.npy", forecasts)
    option = "--normals" if kind == "normal" else "--samples"
    subprocess.run([os.environ["CALIBCTL_BINARY"], "recalibrate", "--apply", tmp_path / "map.json",
                    option, tmp_path / "forecasts.npy", "-o", tmp_path / "repaired.csv"],
                   timeout=120, check=True)
    rows = np.loadtxt(tmp_path / "repaired.csv", delimiter=",", skiprows=1)
    np.testing.assert_allclose(local.transform(forecasts), rows, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(local.transform(forecasts), served.transform(forecasts))
    assert len(local.levels) == rows.shape[1] == 19


def test_a_recalibrator_is_an_estimator_of_scikit_learn():
    pytest.importorskip("sklearn")
    from sklearn.base import clone
    from sklearn.datasets import make_classification
    from sklearn.naive_bayes import GaussianNB
    X, y = make_classification(6000, 20, n_informative=4, n_redundant=10, random_state=1)
    labels = np.array(["good", "spam"])[y]
    classifier = GaussianNB().fit(X[:2000], labels[:2000])
    recalibrator = clone(calibd.Recalibrator(classifier))
    recalibrator.estimator = classifier
    recalibrator.fit(X[2000:4000], labels[2000:4000])
    before = calibd.evaluate(classifier.predict_proba(X[4000:]), y[4000:], replicates=0)
    after = calibd.evaluate(recalibrator.predict_proba(X[4000:]), y[4000:], replicates=0)
    assert after.message.error.estimate < before.message.error.estimate / 3
    assert set(recalibrator.predict(X[4000:])) == {"good", "spam"}
    assert np.mean(labels[4000:] == recalibrator.predict(X[4000:])) > 0.7
    again = pickle.loads(pickle.dumps(recalibrator))
    np.testing.assert_array_equal(again.predict_proba(X[:9]), recalibrator.predict_proba(X[:9]))


def test_a_comparison_has_the_sign_of_the_better_model():
    p, y = calibrated(3000)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    compared = calibd.compare(p, sharp, y).message.comparison
    assert compared.paired and compared.log_loss.upper < 0
    p = np.maximum(p, 1e-3)
    log = [np.log(np.maximum(q, 1e-3))[np.arange(3000), y] for q in (p, sharp)]
    assert compared.log_loss.difference == pytest.approx(np.mean(log[1] - log[0]), abs=2e-3)


def test_forecasts_equal_those_of_the_server(client, request):
    random = np.random.default_rng(3)
    mean = random.normal(size=800)
    outcomes = mean + 2 * random.normal(size=800)
    forecasts = np.column_stack([mean, np.ones(800)])
    client.create_model(request.node.name, forecast="normal")
    with client.stream(request.node.name) as stream:
        stream.send(forecasts, outcomes)
    served = client.evaluate(request.node.name, seed=9, replicates=99).message.forecast
    local = calibd.evaluate_forecasts(forecasts, outcomes, seed=9, replicates=99)
    found = local.message.forecast
    assert found.scores == served.scores and list(found.discrepancies) == list(served.discrepancies)
    assert local.over_limit
    served = client.evaluate(request.node.name, seed=9, replicates=99, test_rows=200).message
    some = calibd.evaluate_forecasts(forecasts, outcomes, seed=9, replicates=99, test_rows=200)
    assert (some.message.observations, some.message.tested_observations) == (800, 200)
    assert served.tested_observations == 200 and served.forecast.scores == found.scores
    assert list(some.message.forecast.discrepancies) == list(served.forecast.discrepancies)
    assert list(some.message.forecast.discrepancies) != list(found.discrepancies)
    assert "200 of the 800 rows" in str(some) and "drawn at random" not in str(local)
    with pytest.raises(calibd.InvalidArgument, match="test_rows"):
        calibd.evaluate_forecasts(forecasts, outcomes, test_rows=1)
    quantiles = mean[:, np.newaxis] + 2 * np.array([-1.2815515655, 0, 1.2815515655])
    right = calibd.evaluate_forecasts(quantiles, outcomes, levels=[0.1, 0.5, 0.9], replicates=99)
    assert right.status != "OVER_LIMIT"
    for columns, text in ((["q0.05", "q0.5", "q0.95"], "expected those of the levels 0.1, 0.5, 0.9"),
                          (["mean", "b", "c"], "have the columns mean, which are no draws")):
        with pytest.raises(calibd.InvalidArgument, match=text):
            calibd.evaluate_forecasts(pd.DataFrame(quantiles, columns=columns), outcomes,
                                      levels=[0.1, 0.5, 0.9])
    with pytest.raises(calibd.InvalidArgument, match=r"rows\[0\].quantiles\[1\]"):
        calibd.evaluate_forecasts(quantiles[:, ::-1], outcomes, levels=[0.1, 0.5, 0.9])


def test_labels_equal_those_of_calibctl(tmp_path):
    random = np.random.default_rng(4)
    p = random.random((2000, 2))
    y = (random.random((2000, 2)) < np.column_stack([p[:, 0], p[:, 1] ** 2])).astype(float)
    y[::7, 0] = np.nan
    frame = pd.DataFrame({"prob_rain": p[:, 0], "prob_fog": p[:, 1], "label_rain": y[:, 0],
                          "label_fog": y[:, 1]})
    frame.to_csv(tmp_path / "l.csv", index=False, float_format="%.17g")
    printed = calibctl("evaluate-labels", tmp_path / "l.csv")
    local = calibd.evaluate_labels(p, y, label_names=["rain", "fog"])
    assert local.to_dict() == printed
    assert local.over_limit and local.message.over_limit == ["fog"]
    command = [os.environ["CALIBCTL_BINARY"], "evaluate-labels", tmp_path / "l.csv"]
    text = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True).stdout
    table = str(local).split("\n\n")[1]
    assert table.startswith("label  truths") and f"\n\n{table}\n" in text
    with pytest.raises(calibd.InvalidArgument, match=r"y\[0, 1\] is [34], expected 1, 0"):
        calibd.evaluate_labels(p, np.where(np.isnan(y), 0, y) + [0, 3], label_names=["rain", "fog"])


def test_a_loss_equals_that_of_calibctl_and_its_gradient_is_that_of_differences(tmp_path):
    p, y = calibrated(40)
    logits = np.log(p)
    np.save(tmp_path / "logits.npy", logits)
    np.save(tmp_path / "labels.npy", y)
    printed = calibctl("loss", tmp_path / "logits.npy", tmp_path / "labels.npy", "--logits",
                       "--label-base", "0", "--penalty-weight", "3", "--bandwidth", "0.4")
    settings = loss_pb2.LossSettings(penalty_weight=3)
    settings.condition.forecast.bandwidth = 0.4

    def at(values):
        return calibd.loss(values, y, kind="logits", settings=settings, gradient=False)[0].value

    _, gradient = calibd.loss(logits, y, kind="logits", settings=settings)
    assert at(logits) == printed["value"] and gradient.shape == logits.shape
    step = 1e-6
    for i, k in ((0, 0), (7, 1), (39, 2)):
        moved = [logits.copy(), logits.copy()]
        moved[0][i, k] += step
        moved[1][i, k] -= step
        # Rounding of the loss divided by 2e-6, and the third derivative times 1e-12.
        assert gradient[i, k] == pytest.approx((at(moved[0]) - at(moved[1])) / (2 * step), abs=1e-8)
    settings.lens.class_wise.SetInParent()
    assert np.isfinite(at(logits))
    density = loss_pb2.LossSettings(penalty=loss_pb2.LossSettings.KERNEL_DENSITY_L1)
    loss, gradient = calibd.loss(p, y, settings=density)
    assert 0 < loss.value == loss.penalty_value and gradient.shape == p.shape
    assert loss.condition.forecast.bandwidth > 0 and not loss.condition.forecast.HasField("kernel")
    mmce = loss_pb2.LossSettings(penalty=loss_pb2.LossSettings.MMCE)
    squared = loss_pb2.LossSettings(biased=True)
    squared.lens.top_label.SetInParent()
    value = calibd.loss(p, y, settings=mmce)[0].value
    assert value**2 == pytest.approx(calibd.loss(p, y, settings=squared)[0].value / 2, rel=1e-12)
    with pytest.raises(calibd.InvalidArgument, match="settings is 'x', expected a message LossSettings"):
        calibd.loss(p, y, settings="x")


def test_other_threads_go_on_and_progress_is_told():
    p, y = calibrated(1500, 10)
    turns, fractions, done = [0], [], threading.Event()

    def count():
        while not done.is_set():
            turns[0] += 1

    other = threading.Thread(target=count)
    other.start()
    try:
        calibd.evaluate(p, y, replicates=999, on_progress=fractions.append, threads=1)
    finally:
        done.set()
        other.join()
    assert turns[0] > 1000
    assert fractions == sorted(fractions) and fractions[-1] == 1


def test_ctrl_c_ends_long_work():
    program = """
import numpy as np, calibd
p = np.random.default_rng(1).dirichlet(np.ones(10), 20000)
print("started", flush=True)
try:
    calibd.evaluate(p, np.zeros(20000, int), replicates=100000,
                    on_progress=lambda f: print(f, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        # The computation runs when it tells its progress.
        assert process.stdout.readline() == "started\n"
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=120)
    assert rest.endswith("interrupted\n") and process.returncode == 0


def test_an_exception_of_the_progress_ends_the_work():
    p, y = calibrated(2000, 10)

    def fail(fraction):
        raise LookupError(fraction)

    with pytest.raises(LookupError):
        calibd.evaluate(p, y, replicates=100000, on_progress=fail)


def test_without_the_extension_the_client_still_works(monkeypatch):
    monkeypatch.setattr("calibd.offline._native", None)
    with pytest.raises(calibd.Unimplemented, match="built without pybind11"):
        calibd.evaluate(*calibrated(50))


@pytest.mark.parametrize("arguments, text", [
    ({"error_limit": 5}, "error_limit is 5, expected a probability in 0.0001..0.5: 5 percentage points "
                         "are 0.05"),
    ({"error_limit": -1}, "error_limit is -1, expected a probability in 0.0001..0.5"),
    ({"error_limit": float("nan")}, "error_limit is nan, expected a probability"),
    ({"error_limit": "0.05"}, "error_limit is '0.05', expected a probability"),
    ({"error_limit": None}, "error_limit is None, expected a probability"),
    ({"significance_level": 5}, "significance_level is 5, expected a probability in 1e-09..0.5"),
    ({"significance_level": 0}, "significance_level is 0, expected a probability in 1e-09..0.5")])
def test_limits_and_levels_have_the_ranges_of_calibctl(tmp_path, arguments, text):
    p, y = calibrated(300, 2)
    outcomes = np.random.default_rng(1).normal(size=300)
    for evaluate in (lambda: calibd.evaluate(p, y, **arguments),
                     lambda: calibd.evaluate_labels(p, np.eye(2)[y], **arguments),
                     lambda: calibd.evaluate_forecasts(p, outcomes, **arguments)):
        with pytest.raises(calibd.InvalidArgument) as raised:
            evaluate()
        assert text in str(raised.value)
    np.save(tmp_path / "p.npy", p)
    np.save(tmp_path / "y.npy", y)
    (name, value), = arguments.items()
    printed = subprocess.run(
        [os.environ["CALIBCTL_BINARY"], "evaluate", tmp_path / "p.npy", tmp_path / "y.npy",
         f"--{name.replace('_', '-')}={value}"], capture_output=True, text=True, check=False)
    if not isinstance(value, str):
        assert "expected a probability in " + ("0.0001..0.5" if name == "error_limit"
                                               else "1e-09..0.5") in printed.stderr


def test_a_gate_refuses_a_limit_in_percentage_points():
    with pytest.raises(calibd.InvalidArgument, match="5 percentage points are 0.05"):
        calibd.assert_within_limit(*over_confident(3000), error_limit=5)


@pytest.mark.parametrize("arguments, text", [
    ({"bandwidth": "a"}, "bandwidth is 'a', expected a finite number > 0"),
    ({"bandwidth": -1}, "bandwidth is -1, expected a finite number > 0"),
    ({"replicates": 1.5}, "replicates is 1.5, expected a whole number"),
    ({"seed": -1}, "seed is -1, expected a whole number"),
    ({"reliability_classes": [7]}, "reliability_classes holds 7, expected 0 to 1"),
    ({"classes": 1}, "classes are 1, expected two or more"),
    ({"classes": ["a", "a"]}, "classes are .*, expected two or more different names")])
def test_numbers_out_of_range_are_named(arguments, text):
    with pytest.raises(calibd.InvalidArgument, match=text):
        calibd.evaluate(*calibrated(100, 2), **arguments)
    with pytest.raises(calibd.InvalidArgument, match=r"levels are 0.5, expected a list of numbers"):
        calibd.evaluate_forecasts(np.zeros((9, 2)), np.zeros(9), levels=0.5)


def test_a_column_of_ten_classes_is_told_to_be_one_column(caplog):
    p, y = calibrated(300, 10)
    for given in (p.max(axis=1), p[:, :1]):
        with pytest.raises(calibd.InvalidArgument, match="p has one column, which is read as"):
            calibd.evaluate(given, y)
    with pytest.raises(calibd.InvalidArgument, match="are these predicted classes"):
        calibd.evaluate(p.argmax(axis=1), y)
    with pytest.raises(calibd.InvalidArgument, match=r"expected \(n, classes\), or \(n,\)"):
        calibd.evaluate(p[np.newaxis], y)
    two, of_two = calibrated(300, 2)
    calibd.evaluate(two[:, 1], of_two, replicates=0)
    assert not caplog.text
    calibd.evaluate(two.max(axis=1), of_two, replicates=0)
    assert "all its scores are at least 0.5" in caplog.text


def test_labels_that_are_no_numbers_from_0_need_the_classes():
    p, y = calibrated(300, 2)
    expected = calibd.evaluate(p, y, seed=1).message.error
    for labels, classes in ((y + 1, [1, 2]), (2 * y - 1, np.array([-1, 1])),
                            (np.array(["no", "yes"])[y], np.array(["no", "yes"]))):
        with pytest.raises(calibd.InvalidArgument, match="give classes=classifier.classes_"):
            calibd.evaluate(p, labels)
        assert calibd.evaluate(p, labels, classes=classes, seed=1).message.error == expected


def test_values_that_are_no_rows_of_probabilities_have_one_line():
    p, y = calibrated(300, 10)
    p = np.maximum(p, 1e-9)
    p /= p.sum(axis=1, keepdims=True)
    for given, text in ((p * 1.05, "p has 300 of 300 rows that do not sum to 1, the first is p[0], "
                         "which sums to 1.05: give p / p.sum(axis=1, keepdims=True) [INVALID_ARGUMENT]"),
                        (p * 100, "are these percentages? divide them by 100 [INVALID_ARGUMENT]"),
                        (np.log(p), "apply numpy.exp to them [INVALID_ARGUMENT]")):
        with pytest.raises(calibd.InvalidArgument) as raised:
            calibd.evaluate(given, y)
        assert str(raised.value).endswith(text) and len(str(raised.value)) < 200
    with pytest.raises(calibd.InvalidArgument, match="baseline has 300 of 300 rows"):
        calibd.compare(p, p * 1.05, y)


def test_the_worst_error_decides_the_status():
    random = np.random.default_rng(1)
    # The top label is right as often as stated. Class 1 is off in one direction for both classes.
    score = np.where(random.random(20000) < 0.5, 0.3, 0.7)
    y = (random.random(20000) < score + 0.1).astype(int)
    found = calibd.evaluate(score, y, error_limit=0.05, replicates=0)
    assert found.status == "OVER_LIMIT"
    assert found.error.upper < 0.05 < found.worst_error.lower
    assert found.worst_error == found.class_1_error.message and found.class_1_decides
    many = calibd.evaluate(*over_confident(2000), replicates=0)
    assert many.worst_error == many.error.message
    within = calibd.evaluate(*calibrated(60000, 2), error_limit=0.05, replicates=0)
    assert within.status == "WITHIN_LIMIT"
    assert within.worst_error.upper == max(within.error.upper, within.class_1_error.upper) <= 0.05


def test_a_failed_gate_says_first_what_to_do():
    p, y = calibrated(200)
    with pytest.raises(AssertionError) as raised:
        calibd.assert_within_limit(p, y)
    first = str(raised.value).split("\n")[0]
    assert first.startswith("predictions is UNDECIDED, expected WITHIN_LIMIT: off by 0 to ")
    assert "limit 2 points" in first
    assert first.endswith("give more rows or a larger error_limit")
    assert "SKCE" not in str(raised.value)
    with pytest.raises(AssertionError, match="repair the probabilities .*, or give a larger"):
        calibd.assert_within_limit(*over_confident(3000))


def test_a_text_has_a_line_for_each_group_the_worst_first():
    p, y = over_confident(2000)
    good, labels = calibrated(2000)
    found = calibd.evaluate(np.vstack([good, p]), np.append(labels, y), replicates=0,
                            groups=["good"] * 2000 + ["bad"] * 2000)
    lines = repr(found).split("\n")
    groups = [line for line in lines if line.startswith("group ")]
    assert groups[0].startswith("group bad ") and "2000 rows, OVER_LIMIT, MISCALIBRATED" in groups[0]
    assert groups[1].startswith("group good ")
    assert max(map(len, lines)) <= 100
    assert "lenses were not tested" in repr(found) and "p bound" not in repr(found)
    assert "lenses were not tested" not in repr(calibd.evaluate(p, y, replicates=99))


def test_the_replicates_of_each_test_mean_what_they_mean_for_calibctl(tmp_path):
    p, y = over_confident(300, 2)
    pd.DataFrame({"0": p[:, 0], "1": p[:, 1], "label": y}).to_csv(
        tmp_path / "p.csv", index=False, float_format="%.17g")
    for replicates, consistency in ((0, 999), (0, 0), (99, 0), (99, 199)):
        found = calibd.evaluate(p, y, seed=3, replicates=replicates,
                                consistency_replicates=consistency)
        printed = calibctl("evaluate", tmp_path / "p.csv", "--label-column", "label", "--seed", 3,
                           "--reliability-classes", 1, "--replicates", replicates,
                           "--consistency-replicates", consistency)
        local = found.to_dict()
        assert local.get("consistencyTest") == printed.get("consistencyTest")
        assert ("consistencyTest" in local) == (consistency > 0)
        assert [lens["result"].get("pValue") for lens in local["lenses"]] == [
            lens["result"].get("pValue") for lens in printed["lenses"]]
        # The text says which tests there are.
        assert ("lenses were not tested" in repr(found)) == (replicates == 0)
        assert ("no consistency_replicates" in repr(found)) == (consistency == 0)
        assert ("p = " in repr(found)) == (consistency > 0)
    assert calibd.evaluate(p, y, replicates=0).message.HasField("consistency_test")
