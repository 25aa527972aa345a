"""A server that is broken or lies cannot hang or fool the client."""
import concurrent.futures
import contextlib
import itertools
import shutil

import grpc
import numpy as np
import pytest

import calibd
from calibd import errors, window
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import store_service_pb2 as store
from wait_for import wait_for

from conftest import calibrated
from outage_test import Response, stand_in

ROW = [0.2, 0.3, 0.5]


@contextlib.contextmanager
def liar(method, answers, streams=False):
    """A client of a server that answers calls of one method by answers(context): messages or bytes."""
    def encode(answer):
        return answer if isinstance(answer, bytes) else answer.SerializeToString()

    def call(request, context):
        if streams:
            return (encode(answer) for answer in answers(context))
        return encode(answers(context))

    handler = (grpc.unary_stream_rpc_method_handler if streams else
               grpc.unary_unary_rpc_method_handler)(call)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
    name, _, function = method.partition("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        f"calibd.v1.{name}", {function: handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with calibd.Client(f"127.0.0.1:{port}", timeout=2) as client:
            yield client
    finally:
        server.stop(None)


def ack(sequence, **skipped):
    return Response(ack=Response.Ack(sequence=sequence, **skipped))


@pytest.mark.parametrize("lie, message", [
    (ack(0), "acknowledged batch 0, expected one from 1 to 1"),
    (ack(-1), "acknowledged batch -1"),
    (ack(2), "acknowledged batch 2, expected one from 1 to 1"),
    (ack(1, skipped=ingest.SkippedRows(rows=11)), "skipped 11 rows of batch 1, which has 10"),
    (ack(1, skipped=ingest.SkippedRows(rows=-1)), "skipped -1 rows of batch 1"),
    (Response(rejected=Response.Rejected(sequence=7)), "rejected batch 7"),
    (Response(finished=Response.Finished(last_sequence=1, accepted_rows=10)), "finished at batch 1"),
    (Response(finished=Response.Finished(last_sequence=1, accepted_rows=11, rejected_rows=-1)),
     "negative count"),
])
def test_impossible_numbers_in_a_stream_are_data_loss(lie, message):
    def answer(requests, context):
        next(requests)
        yield lie
        yield from (Response() for _ in requests)

    with stand_in(answer) as address:
        stream = calibd.Client(address).stream("lied-to")
        with pytest.raises(calibd.DataLoss, match=message):
            stream.send(*calibrated(10))
            stream.flush(60)
        # A monitor continues, and counts as dropped what may or may not be counted.
        monitor = calibd.Monitor("lied-to", address, close_timeout=60)
        monitor.observe(ROW, 2)
        assert wait_for(lambda: monitor.counts.dropped_rows == 1)
        monitor.cancel()


def test_repeated_acknowledgements_are_no_progress():
    def answer(requests, context):
        next(requests)
        yield from (ack(1) for _ in itertools.takewhile(lambda _: context.is_active(),
                                                        itertools.count()))

    with stand_in(answer) as address:
        stream = calibd.Client(address).stream("repeating", stall_timeout=1)
        stream.send(*calibrated(10))
        stream.flush()
        stream.send(*calibrated(10))
        with pytest.raises(calibd.DeadlineExceeded, match="acknowledged nothing for 1 s"):
            stream.flush()
        stream.cancel()


def test_a_connection_on_which_nothing_happens_is_replaced():
    connections = []

    def answer(requests, context):
        connections.append(0)
        for request in requests:
            if len(connections) == 1:
                continue
            if request.HasField("finish"):
                yield Response(finished=Response.Finished(last_sequence=1, accepted_rows=1))
            else:
                yield ack(request.batch.sequence)

    with stand_in(answer) as address:
        monitor = calibd.Monitor("silent", address, stall_timeout=0.5)
        monitor.observe(ROW, 2)
        assert monitor.close(60).accepted_rows == 1
    assert len(connections) == 2


GARBAGE = b"\xff\xff\xff\xff"


def test_garbage_is_not_retried():
    for method, streams, call in (
            ("CalibrationService/WatchCalibration", True, lambda client: next(client.watch("any"))),
            ("CalibrationService/RunTest", True, lambda client: client.run_test("any")),
            ("ModelService/GetModel", False, lambda client: client.get_model("any"))):
        calls = []

        def answer(context):
            calls.append(0)
            return [GARBAGE] if streams else GARBAGE

        with liar(method, answer, streams) as client, pytest.raises(
                (calibd.DataLoss, calibd.Internal)):
            call(client)
        assert len(calls) == 1


def test_pages_without_end_are_bounded(monkeypatch):
    monkeypatch.setattr("calibd.transport._MAX_PAGES", 50)
    numbers = itertools.count(1)

    def page(context):
        return models.ListModelsResponse(next_page_token=str(next(numbers)))

    with liar("ModelService/ListModels", page) as client:
        with pytest.raises(calibd.DataLoss, match="51 pages of ModelService/ListModels .* no last one"):
            client.list_models()
        for limit, error, message in (("SECONDS", calibd.DeadlineExceeded, "none was the last one"),
                                      ("BYTES", calibd.DataLoss, "bytes and no last one")):
            with monkeypatch.context() as patched:
                patched.setattr(f"calibd.transport._MAX_PAGED_{limit}", 0)
                with pytest.raises(error, match=message):
                    client.list_models()
    with liar("ModelService/ListModels",
              lambda context: models.ListModelsResponse(next_page_token="same")) as client:
        with pytest.raises(calibd.DataLoss, match="or the same page again"):
            client.list_models()


def test_a_watch_of_a_silent_or_repeating_server_ends():
    def silent(context):
        wait_for(lambda: not context.is_active())
        yield from ()

    with liar("CalibrationService/WatchCalibration", silent, True) as client:
        with pytest.raises(calibd.DeadlineExceeded, match="sent nothing within 2 s"):
            next(client.watch("silent"))

    def repeat(context):
        return (service.WatchCalibrationResponse(revision=1) for _ in range(1000))

    with liar("CalibrationService/WatchCalibration", repeat, True) as client:
        with pytest.raises(calibd.DataLoss, match="revision 1 after 1, expected a higher one"):
            next(client.watch("repeating"))


def test_a_backup_without_end_leaves_the_disk_free(monkeypatch, tmp_path):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=(100 << 20) + 5000))

    def endless(context):
        while context.is_active():
            yield store.BackupResponse(data=bytes(1000))

    with liar("StoreService/Backup", endless, True) as client:
        with pytest.raises(OSError, match="would leave less than 100 MiB"):
            client.backup(tmp_path / "backup.db")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("counts", [{"accepted_rows": -1}, {"accepted_rows": 2},
                                    {"accepted_rows": 1, "duplicate_rows": 1}])
def test_impossible_counts_of_one_prediction_are_data_loss(counts):
    with liar("IngestService/Observe", lambda context: ingest.ObserveResponse(**counts)) as client:
        with pytest.raises(calibd.DataLoss, match="expected numbers from 0 whose sum is at most 1"):
            client.label("any", [1], outcomes=[0.5])


def test_control_characters_of_a_server_are_escaped():
    def refuse(context):
        context.abort(grpc.StatusCode.NOT_FOUND, "no\x1b[31m such\nmodel\u202e")

    with liar("ModelService/GetModel", refuse) as client:
        with pytest.raises(calibd.NotFound) as raised:
            client.get_model("any")
    assert raised.value.message == "no\\x1b[31m such\\nmodel\\u202e"
    assert len(errors.printable("x" * 20_000)) == 10_000


@pytest.mark.parametrize("lie, message", [
    ({"classes": {"count": 0}}, "0 classes, expected at least 2"),
    ({"classes": {"count": 3}, "next_sequence": 2**62}, "next_sequence 4611686018427387904")])
def test_an_impossible_opening_is_data_loss(lie, message):
    with stand_in(lambda requests, context: iter(()), [lie]) as address:
        with pytest.raises(calibd.DataLoss, match=message):
            calibd.Client(address).stream("lied-to")


def test_a_row_of_thousands_of_digits_ends_no_stream():
    batch = window.Batch(1, b"", np.arange(3), 0, False)
    lie = errors.FieldError("rows[" + "1" * 5000 + "].probabilities", "is wrong")
    assert batch.with_callers_row(lie) == lie
