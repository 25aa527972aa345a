"""The bytes that the SDK writes are those of the generated messages."""
import numpy as np
import pytest

from calibd import wire
from calibd.arrays import Classes
from calibd.rows import Extras, Rows
from calibd.v1 import ingest_service_pb2 as ingest

from conftest import calibrated


@pytest.mark.parametrize("largest", [0, 1, 127, 128, 16383, 16384, 99999, 2**31 - 1])
def test_packed_varints_are_those_of_the_generated_message(largest):
    random = np.random.default_rng(largest)
    values = np.concatenate([random.integers(0, largest + 1, 500), [0, largest]])
    expected = ingest.Observations(labels=values.tolist()).SerializeToString()
    assert b"".join(wire.nested(5, [wire.packed_varints(values)])) == expected


@pytest.mark.parametrize("dtype,field", [
    (np.float64, "probabilities"), (np.float32, "probabilities_float32")])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("classes", [2, 3, 200])
def test_rows_are_those_of_the_generated_message(dtype, field, order, classes):
    predictions, labels = calibrated(300, classes)
    predictions = np.asarray(predictions, dtype, order=order)
    rows = Rows(Classes(classes, (), 1e-3), predictions, labels)
    (chunk,) = rows.chunks(first=7, max_rows=1000, max_bytes=1 << 20)
    expected = ingest.Observations(labels=labels.tolist())
    getattr(expected, field).values.extend(predictions.ravel().tolist())
    assert ingest.Observations.FromString(b"".join(chunk.parts)) == expected
    assert chunk.rows.tolist() == list(range(7, 307))


def test_chunks_that_follow_each_other_are_one_message():
    predictions, labels = calibrated(500)
    ids = [f"id-{i}" for i in range(500)]
    features = np.arange(1000.0).reshape(500, 2)
    rows = Rows(Classes(3, (), 1e-3, features=("a", "b")), predictions, labels,
                Extras(ids, "north", np.arange(500).astype("datetime64[s]"), features))
    chunks = list(rows.chunks(first=0, max_rows=64, max_bytes=1 << 20))
    assert len(chunks) == 8 and len({chunk.kind for chunk in chunks}) == 1
    joined = ingest.Observations.FromString(b"".join(part for c in chunks for part in c.parts))
    assert list(joined.probabilities.values) == predictions.ravel().tolist()
    assert list(joined.labels) == labels.tolist()
    assert list(joined.prediction_ids) == ids
    assert list(joined.group_values) == ["north"] * 500
    assert [time.seconds for time in joined.prediction_times] == list(range(500))
    assert list(joined.features.values) == features.ravel().tolist()


@pytest.mark.parametrize("max_bytes", [1000, 5000])
def test_chunks_stay_within_the_limit_of_bytes(max_bytes):
    predictions, labels = calibrated(500)
    rows = Rows(Classes(3, (), 1e-3), predictions, labels, Extras(ids=["i" * 128] * 500))
    chunks = list(rows.chunks(first=0, max_rows=1000, max_bytes=max_bytes))
    assert all(chunk.size <= max_bytes for chunk in chunks)
    assert sum(len(chunk.rows) for chunk in chunks) == 500
