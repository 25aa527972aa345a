"""What calls and streams do while the server cannot be reached, and when it returns."""
import contextlib
import threading
import time
from concurrent import futures

import grpc
import pytest

import calibd
from calibd.v1 import ingest_service_pb2 as ingest
from wait_for import wait_for

from conftest import calibrated

Response = ingest.StreamObservationsResponse


@contextlib.contextmanager
def stand_in(answer):
    """The address of a server whose streams answer(requests) after `opened`."""
    def stream(requests, _):
        next(requests)
        yield Response(opened=Response.Opened(
            class_count=3, next_sequence=1, max_batches_in_flight=8, max_rows_per_batch=1000,
            max_bytes_per_batch=1 << 20, row_sum_tolerance=1e-3))
        yield from answer(requests)

    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
        "calibd.v1.IngestService", {"StreamObservations": grpc.stream_stream_rpc_method_handler(
            stream, ingest.StreamObservationsRequest.FromString, Response.SerializeToString)}),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None)


def test_a_call_waits_for_the_server_as_long_as_its_timeout(own_server):
    with calibd.Client(own_server.grpc, timeout=60) as client:
        client.create_model("awaited", 3)
        own_server.kill()
        accepted = []
        call = threading.Thread(target=lambda: accepted.append(
            client.observe("awaited", [0.2, 0.3, 0.5], 2).accepted_rows))
        call.start()
        # Longer than four attempts take.
        call.join(3)
        assert call.is_alive()
        own_server.start()
        call.join(60)
        assert accepted == [1]


def test_a_call_without_a_server_names_the_cause_at_its_deadline():
    with calibd.Client("127.0.0.1:1", timeout=2) as client:
        started = time.monotonic()
        with pytest.raises(calibd.Unavailable, match="failed to connect"):
            client.get_model("unknown")
        assert time.monotonic() - started > 1


def test_a_stream_whose_connections_break_after_they_open_fails():
    predictions, labels = calibrated(10)
    with stand_in(lambda requests: iter(())) as address:
        stream = calibd.Client(address).stream("broken", stall_timeout=1)
        stream.send(predictions, labels)
        with pytest.raises(calibd.CalibdError, match="acknowledged nothing for 1 s"):
            stream.flush()
        assert stream.counts.reconnects > 0
        stream.cancel()


def test_a_stream_reaches_a_server_that_returns_after_an_outage(own_server):
    predictions, labels = calibrated(10)
    with calibd.Client(own_server.grpc).stream("outage", 3) as stream:
        own_server.kill()
        stream.send(predictions, labels)
        # Several attempts to connect fail.
        assert not wait_for(lambda: stream.counts.accepted_rows, 3)
        own_server.start()
    assert stream.counts.accepted_rows == 10
