"""The types of people's tools, against a real server."""
import datetime
import uuid

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import calibd
from calibd.declaration import PATHS
from calibd.v1 import kernel_pb2 as kernel
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1.recalibration_pb2 import RecalibrationMap

from conftest import BANDWIDTH, calibrated


class Tensor:
    """Numbers as torch has them: numpy reads them only detached, on the CPU and not of bfloat16."""

    def __init__(self, values, dtype="torch.float32", requires_grad=False, device="cpu"):
        self._values = np.asarray(values)
        self.shape = self._values.shape
        self.dtype = dtype
        self._requires_grad = requires_grad
        self._device = device

    def detach(self):
        return Tensor(self._values, self.dtype, False, self._device)

    def cpu(self):
        return Tensor(self._values, self.dtype, self._requires_grad, "cpu")

    def float(self):
        return Tensor(self._values, "torch.float32", self._requires_grad, self._device)

    def tolist(self):
        return self._values.tolist()

    def __len__(self):
        return len(self._values)

    def __getitem__(self, place):
        return Tensor(self._values[place], self.dtype, self._requires_grad, self._device)

    def __array__(self, dtype=None, copy=None):
        if self._requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        if self._device != "cpu":
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        if self.dtype == "torch.bfloat16":
            raise TypeError("Got unsupported ScalarType BFloat16")
        return self._values.astype(dtype or self._values.dtype)


class PolarsFrame:
    """A frame as polars has it: columns are texts, and a list of them selects columns."""

    def __init__(self, frame):
        self._frame = frame
        self.columns = list(frame.columns)
        self.shape = frame.shape

    def __getitem__(self, chosen):
        return (PolarsFrame(self._frame[chosen]) if isinstance(chosen, list) else
                self._frame.iloc[chosen].to_numpy())

    def __array__(self, dtype=None, copy=None):
        return self._frame.to_numpy(dtype)


class PolarsColumn:
    """A column as polars has it, whose dtype is not that of numpy."""

    dtype = "Datetime"

    def __init__(self, values):
        self._values = values
        self.shape = values.shape

    def __len__(self):
        return len(self._values)

    def __array__(self, dtype=None, copy=None):
        return self._values


@pytest.mark.parametrize("names", [
    [0, 1, 2], [10, 20, 30], [1.0, 2.0, 3.0], ["cat", "dog", "owl"], [False, True]], ids=repr)
def test_the_classes_of_a_classifier_declare_the_model(client, names):
    random = np.random.default_rng(5)
    features = random.normal(size=(400, 2))
    numbers = ((features[:, 0] > 0).astype(int) + (features[:, 1] > 0)) % len(names)
    truths = np.array(names)[numbers]
    classifier = LogisticRegression().fit(features, truths)
    model = "classifier-" + calibd.escape_id(str(names[-1]))
    created = client.create_model(model, classifier.classes_, bandwidth=BANDWIDTH)
    assert len(created.classes.names) == len(names)
    predictions = classifier.predict_proba(features)
    with client.stream(model) as stream:
        stream.send(predictions, truths)
        stream.send(pd.DataFrame(predictions, columns=classifier.classes_).iloc[:, ::-1], truths)
        stream.send(predictions, pd.DataFrame({"y": truths}))
        stream.send(predictions, truths.reshape(-1, 1).tolist())
    client.observe(model, dict(zip(classifier.classes_, predictions[0])), truths[0])
    client.observe(model, predictions[0], truths.tolist()[0])
    right = classifier.predict(features) == truths
    scores = client.calibration(model).scores
    assert scores.observations == 1602
    assert scores.accuracy == pytest.approx((4 * right.sum() + 2 * right[0]) / 1602)


def test_truth_values_are_names_in_any_order_of_the_classes(client):
    client.create_model("yes-first", [True, False], bandwidth=BANDWIDTH)
    predictions = [[0.9, 0.1], [0.2, 0.8]]
    with client.stream("yes-first") as stream:
        for labels in ([True, False], np.array([True, False]), np.array([True, False], object),
                       pd.array([True, False], dtype="boolean"), ["True", "False"], [[True], [False]]):
            stream.send(predictions, labels)
    for label in (True, np.True_, "True"):
        client.observe("yes-first", [0.9, 0.1], label)
    assert client.calibration("yes-first").scores.accuracy == 1
    # Without these names they are the numbers of the classes.
    client.create_model("yes-second", ["no", "yes"], bandwidth=BANDWIDTH)
    with client.stream("yes-second") as stream:
        stream.send(predictions, np.array([False, True]))
    assert client.calibration("yes-second").scores.accuracy == 1


def test_outcomes_ids_groups_and_times_may_be_columns(client):
    client.create_model("columns", forecast="normal", label_grace="7d", group_tag="store")
    now = pd.Timestamp.now("UTC").floor("s")
    frame = pd.DataFrame({"id": ["a", "b"], "store": ["x", "y"], "time": [now, now], "y": [1.0, 2.0]})
    with client.stream("columns") as stream:
        stream.send([[1, 1], [2, 1]], frame[["y"]], ids=frame[["id"]], groups=frame[["store"]],
                    times=frame[["time"]])
        stream.send([[1, 1], [2, 1]], np.array([[1.0], [2.0]]), ids=[3, 4], groups="x",
                    times=PolarsColumn(np.array([now.tz_convert(None)] * 2, "datetime64[us]")))
        with pytest.raises(calibd.InvalidArgument, match=r"outcomes have the shape \(2, 2\), expected"):
            stream.send([[1, 1], [2, 1]], np.ones((2, 2)), ids=[5, 6])
        for part, name in (("ids", "prediction_ids"), ("groups", "group_values"),
                           ("times", "prediction_times")):
            with pytest.raises(calibd.InvalidArgument, match=rf"^{name} have the shape \(2, 2\), exp"):
                stream.send([[1, 1], [2, 1]], [1, 2], **{"ids": [5, 6], part: frame[["id", "y"]]})
        with pytest.raises(calibd.InvalidArgument, match=r"outcomes\[5\] is nan, expected a fin"):
            stream.send([[1, 1], [2, 1]], [[1.0], [np.nan]], ids=[5, 6])
    assert stream.counts.accepted_rows == 4
    assert client.get_model("columns").label_grace.seconds == 7 * 86400


@pytest.mark.parametrize("label, shown", [([[0], [5]], "5"), (pd.DataFrame({"y": [0, 5]}), "5"),
                                          ([["cat"], ["cow"]], "'cow'")])
def test_an_invalid_label_in_a_column_is_shown(client, label, shown):
    client.create_model("column-of-labels", ["cat", "dog"])
    with client.stream("column-of-labels") as stream, pytest.raises(
            calibd.InvalidArgument, match=rf"^labels\[1\] is {shown}, expected"):
        stream.send([[0.5, 0.5]] * 2, label)


def test_ids_may_be_uuids(client):
    client.create_model("uuids", 2, label_grace="1.5h")
    ids = [uuid.uuid4() for _ in range(4)]
    with client.stream("uuids") as stream:
        stream.send([0.2, 0.8], ids=ids[:2])
        stream.send([0.2, 0.8], ids=pd.Series(ids[2:]))
        stream.label([str(ids[0]), ids[1]], [0, 1])
    assert client.observe("uuids", 0.2, id=ids[0]).duplicate_rows == 1
    assert client.label("uuids", ids[2:], [1, 1]).matched == 2
    assert client.calibration("uuids").label_arrivals.pending_labelled == 4


ROW = {"owl": 0.1, "cat": 0.7, "dog": 0.2}


def test_a_row_may_be_a_dictionary(client):
    client.create_model("dictionaries", ["cat", "dog", "owl"], features=["age", "wage"], baseline="v1")
    case = {"wage": 2, "age": 1, "name": "x"}
    client.observe("dictionaries", ROW, "cat", baseline=ROW, features=case)
    with client.stream("dictionaries") as stream:
        stream.send([ROW, {**ROW, "note": 5}][:1], ["cat"], baseline=[ROW], features=[case])
        more = {**ROW, "id": 17}
        stream.send([more, dict(reversed(more.items()))], ["cat", "cat"], baseline=[more] * 2,
                    features=[case] * 2)
        for rows, found in (
                (ROW, "^probabilities are a dictionary, expected rows: give a list of dictionaries"),
                ([ROW, {"cat": 1.0}], r"^probabilities have \['cat'\] in row 1 and \['owl', 'cat', "),
                ([ROW, [1, 0, 0]], r"^probabilities have \[1, 0, 0\] in row 1 and"),
                ([{"cat": 0.7, "cow": 0.2, "owl": 0.1}] * 2, r"columns are \['cat', 'cow', 'owl'\]")):
            with pytest.raises(calibd.InvalidArgument, match=found):
                stream.send(rows, ["cat", "cat"], baseline=[ROW] * 2, features=[case] * 2)
        with pytest.raises(calibd.InvalidArgument, match=r"^columns are \['cat'\], expected the cl"):
            client.observe("dictionaries", {"cat": 1.0}, "cat", baseline=ROW, features=case)
        with pytest.raises(calibd.InvalidArgument, match="^features have no column 'wage', expected"):
            stream.send([ROW], ["cat"], baseline=[ROW], features=[{"age": 1}])
    scores = client.calibration("dictionaries").scores
    assert (scores.observations, scores.accuracy) == (4, 1)
    assert scores.mean_confidence == pytest.approx(0.7)


def test_forecasts_and_truths_may_be_dictionaries(client):
    client.create_model("moments-by-name", forecast="normal")
    client.observe("moments-by-name", forecast={"std": 1, "mean": 50}, outcome=50)
    assert client.calibration("moments-by-name").forecast.residual_mean == 0
    client.create_model("truths-by-name", labels=["rain", "wind"])
    client.observe("truths-by-name", {"wind": 0.9, "rain": 0.2}, {"wind": 1, "rain": None})
    (error,) = (one for one in client.calibration("truths-by-name").labels.labels if one.truths)
    assert (error.name, error.stated, error.held) == ("wind", pytest.approx(0.9), 1)


def test_a_map_takes_a_dictionary():
    identity = RecalibrationMap(version=1, kind="none", class_count=3)
    row = {2: 0.1, 0: 0.7, 1: 0.2}
    np.testing.assert_array_equal(calibd.transform(identity, row), [0.7, 0.2, 0.1])
    np.testing.assert_array_equal(calibd.transform(identity, [row]), [[0.7, 0.2, 0.1]])


@pytest.mark.parametrize("kind", [
    {"requires_grad": True}, {"dtype": "torch.bfloat16"},
    {"requires_grad": True, "dtype": "torch.bfloat16", "device": "cuda:0"}], ids=str)
def test_tensors_are_detached_and_converted(client, kind):
    model = f"tensors-{len(kind)}-{kind.get('dtype')}"
    client.create_model(model, 2, label_grace="7d")
    predictions = np.array([[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]], np.float32)
    tensor = Tensor(predictions, **kind)
    labels = Tensor(np.array([0, 1, 1]), "torch.int64", device="cuda:0")
    with client.stream(model) as stream:
        stream.send(tensor, labels)
        stream.send(Tensor(predictions[:, 1], **kind), Tensor(np.array([[0], [1], [1]]), "torch.int64"))
        stream.send([tensor[i] for i in range(3)], labels)
        stream.send(tensor, ids=Tensor(np.array([1, 2, 3]), "torch.int64"))
        stream.label(Tensor(np.array([1, 2]), "torch.int64"), labels[:2])
    assert stream.counts.accepted_rows == 12
    client.observe(model, tensor[0], labels[0])
    np.testing.assert_array_equal(
        calibd.transform(RecalibrationMap(version=1, kind="none", class_count=2), tensor), predictions)


def test_frames_without_pandas_are_matched_by_their_columns(client):
    predictions, labels = calibrated(200)
    client.create_model("polars", ["cat", "dog", "owl"], features=["age"], bandwidth=BANDWIDTH)
    frame = pd.DataFrame(predictions, columns=["prob_cat", "prob_dog", "prob_owl"]).iloc[:, ::-1]
    frame["age"] = 7.0
    with client.stream("polars") as stream:
        stream.send(PolarsFrame(frame), PolarsFrame(pd.DataFrame({"y": labels})),
                    features=PolarsFrame(frame[["age"]]))
        stream.send(PolarsFrame(frame[["prob_owl", "prob_cat", "prob_dog"]]), labels,
                    features=PolarsFrame(frame))
    accuracy = (predictions.argmax(axis=1) == labels).mean()
    assert client.calibration("polars").scores.accuracy == pytest.approx(accuracy)


@pytest.mark.parametrize("form", [
    "{:%Y-%m-%dT%H:%M:%SZ}", "{:%Y-%m-%d %H:%M:%S+00:00}", "{:%Y-%m-%dT%H:%M:%S.75+0000}",
    "{:%Y-%m-%dt%H:%M:%Sz}", "{:%Y-%m-%dT%H:%M:%S+00}"])
def test_texts_are_times(client, form):
    hour = datetime.datetime.now(datetime.timezone.utc).replace(minute=0, second=0, microsecond=0)
    time = hour - datetime.timedelta(days=1)
    text = form.format(time)
    model = f"text-times-{calibd.escape_id(form)}"
    client.create_model(model, 2)
    with client.stream(model) as stream:
        for times in (text, np.str_(text), [text] * 2, np.array([text] * 2), pd.Series([text] * 2)):
            stream.send([0.2, 0.8], [0, 1], times=times)
        east = time.astimezone(datetime.timezone(datetime.timedelta(hours=5, minutes=30)))
        stream.send([0.2, 0.8], [0, 1], times=east.isoformat())
    (bucket,) = client.history(model).buckets
    assert (bucket.start_time, bucket.observations) == (time, 12)


def test_the_range_of_a_history_may_be_texts(client):
    client.create_model("text-range", 2)
    client.observe("text-range", 0.3, 0)
    day = datetime.datetime.now(datetime.timezone.utc)
    for start, end, found in (("1d", None, 1), (None, "90m", 0), ("1.5h", "9999-12-31", 1),
                              (f"{day:%Y-%m-%d}", None, 1), (f"{day:%Y-%m-%dT%H:00:00Z}", None, 1),
                              (None, f"{day:%Y-%m-%d}", 0)):
        assert len(client.history("text-range", start=start, end=end).buckets) == found, (start, end)


@pytest.mark.parametrize("span", [
    "7d", "168h", "10080m", "604800s", datetime.timedelta(7), pd.Timedelta("7d"),
    np.timedelta64(1, "W"), np.timedelta64(7 * 24, "h")])
def test_spans_of_time(client, span):
    created = client.create_model("spans", 2, label_grace=span, stale_after=span)
    assert created.label_grace.seconds == created.monitoring.stale_after.seconds == 7 * 86400
    client.update_model("spans", label_grace=span)


# An argument for each field of a declaration, with the value that the server returns.
FIELDS = {
    "description": "of pets", "window": 300, "max_pending": 50, "labels_come_with_predictions": True,
    "features": ["age"], "block_sizes": [2, 10], "row_sum_tolerance": 0.01, "baseline": "v1",
    "error_limit": 0.1, "significance_level": 0.01, "tolerance": 1e-4, "average_run_length": 5000,
    "min_observations": 7, "reference_rows": 2000, "group_tag": "country", "max_groups": 3,
    "min_group_observations": 9}


def test_each_field_of_a_declaration_is_an_argument(client):
    distance = kernel.Kernel(exponential=kernel.ExponentialKernel(
        distance=kernel.ExponentialKernel.CITYBLOCK))
    median = kernel.BandwidthRule(median=kernel.MedianBandwidth(warmup=20))
    output = models.InferenceOutput(name="p", baseline_name="q")
    top_2 = kernel.Lens(top_k=kernel.Lens.TopK(k=2))
    created = client.create_model("all-fields", 3, label_grace="7d", stale_after="30d", kernel=distance,
                                  bandwidth=median, lenses=["top_label", top_2],
                                  inference_output=output, monitored=True, **FIELDS)
    for name, value in FIELDS.items():
        found = created
        for part in PATHS[name].split("."):
            found = getattr(found, part)
        assert (list(found) if isinstance(value, list) else found) == value, name
    assert created.classes.kernel == distance and created.classes.bandwidth == median
    assert [lens.WhichOneof("kind") for lens in created.classes.lenses] == ["top_label", "top_k"]
    assert created.inference_output.baseline_name == "q" and not created.monitoring.disabled
    assert client.create_model("not-monitored", 3, monitored=False).monitoring.disabled

    # The rest has arguments that are values of several fields, or that the server sets.
    others = {"name", "create_time", "classes.count", "classes.names", "forecast"}
    fields = [(field.name, field) for field in models.Model.DESCRIPTOR.fields]
    while fields:
        path, field = fields.pop()
        if field.message_type in (models.Classes.DESCRIPTOR, models.LabelSet.DESCRIPTOR,
                                  monitoring.Monitoring.DESCRIPTOR):
            fields += [(f"{path}.{part.name}", part) for part in field.message_type.fields]
        else:
            assert path in others or path in PATHS.values(), path


UUIDS = [uuid.UUID(int=k + 1) for k in range(40)]
NOW = datetime.datetime.now(datetime.timezone.utc)
TWO = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1]])
NAMED = {"cat": 0.7, "dog": 0.2, "owl": 0.1}


@pytest.mark.parametrize("on_full", ["block", "drop"])
def test_a_stream_that_drops_accepts_every_type_that_one_that_blocks_accepts(client, on_full):
    model = f"both-{on_full}"
    client.create_model(model, ["cat", "dog", "owl"], label_grace="1h", group_tag="place")
    with client.stream(model, on_full=on_full, close_timeout=60) as stream:
        stream.observe(TWO[0], 0, id=UUIDS[0], group=UUIDS[0])
        stream.observe(NAMED, "cat", id=1)
        stream.observe(dict(reversed(NAMED.items())), "cat", id=2)
        stream.observe(memoryview(TWO[0].copy()), 0, id=3)
        stream.observe(tuple(TWO[0]), np.int64(0), id=np.int64(4))
        stream.observe(Tensor(TWO[0], requires_grad=True), 0, id=5)
        stream.send([NAMED] * 2, [0, 1], ids=UUIDS[1:3], groups=UUIDS[:2], times=[NOW, NOW])
        stream.send(TWO, [0, 1], ids=pd.Series(UUIDS[3:5]), groups=UUIDS[0], times=NOW)
        stream.send(TWO, [0, 1], ids=iter(UUIDS[5:7]), times=pd.Timestamp(NOW))
        stream.send(TWO, None, ids=tuple(UUIDS[7:9]), times=[NOW.isoformat()] * 2)
        stream.label(UUIDS[7:9], [0, 1])
        stream.flush(60)
        assert not stream.dropped
    assert (stream.counts.accepted_rows, stream.counts.accepted_labels) == (14, 2)


@pytest.mark.parametrize("on_full", ["block", "drop"])
def test_masked_values_are_no_numbers(client, on_full):
    model = f"masked-{on_full}"
    client.create_model(model, 3)
    masked = np.ma.array(TWO[0], mask=[0, 0, 1])
    with client.stream(model, on_full=on_full, on_invalid="drop", close_timeout=60) as stream:
        stream.observe(masked, 0)
        stream.observe(masked, 0)
        stream.observe(TWO[0], np.ma.masked)
        stream.send([masked, TWO[1]], [0, 1])
        stream.send(np.ma.array([masked, masked]), [0, 1])
        stream.send(TWO, [0, np.ma.masked])
        stream.flush(60)
    assert (stream.counts.accepted_rows, stream.counts.dropped_rows) == (2, 7)


@pytest.mark.parametrize("row", [
    [[0.2, 0.3, 0.5]], ([0.2, 0.3, 0.5],), np.array([[0.2, 0.3, 0.5]]), np.float32([[0.2, 0.3, 0.5]]),
    pd.DataFrame([[0.5, 0.2, 0.3]], index=[7], columns=["owl", "cat", "dog"])])
def test_one_prediction_may_be_the_only_row_of_a_matrix(client, server, row):
    client.create_model("only-rows", ["cat", "dog", "owl"], baseline="older", features=["age"])
    before = client.calibration("only-rows").observations
    case = pd.DataFrame({"age": [30.0]})
    with calibd.Monitor("only-rows", server.grpc, close_timeout=60) as monitor, (
            client.stream("only-rows")) as stream:
        monitor.observe(row, "owl", baseline=row, features=[[30.0]])
        monitor.observe(row, "owl", baseline=row, features=case)
        stream.observe(row, "owl", baseline=row, features=case)
        client.observe("only-rows", row, "owl", baseline=row, features=case)
        with pytest.raises(calibd.InvalidArgument, match="have the shape|has the shape"):
            client.observe("only-rows", np.full((2, 3), 1 / 3), "owl", baseline=row, features=case)
    assert not monitor.dropped
    answer = client.calibration("only-rows")
    assert answer.observations == before + 4
    assert answer.scores.log_loss == pytest.approx(-np.log(0.5), rel=1e-6)
