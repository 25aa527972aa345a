"""What calls and streams do while the server cannot be reached, and when it returns."""
import contextlib
import threading
import time
from concurrent import futures

import grpc
import pytest

import calibd
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.v1 import model_service_pb2 as models
from wait_for import wait_for

from conftest import calibrated

Forecast = models.Forecast
Response = ingest.StreamObservationsResponse


@contextlib.contextmanager
def stand_in(answer, declarations=({"classes": {"count": 3}},)):
    """The address of a server whose streams answer(requests, context) after `opened`.

    declarations: the fields of `opened` that describe the model, on each connection the next ones.
    """
    following = iter(declarations)

    def stream(requests, context):
        next(requests)
        yield Response(opened=Response.Opened(**{
            "next_sequence": 1, "max_batches_in_flight": 8, "max_rows_per_batch": 1000,
            "max_bytes_per_batch": 1 << 20, **next(following, declarations[-1])}))
        yield from answer(requests, context)

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


class Forwarder(grpc.GenericRpcHandler):
    """Forwards calls to a server, and loses the answer of the first `losses` calls of Observe."""

    def __init__(self, target, losses):
        self._channel = grpc.insecure_channel(target)
        self.losses = losses

    def service(self, details):
        def call(request, context):
            answer = self._channel.unary_unary(details.method)(request, timeout=60)
            if details.method.endswith("/Observe") and self.losses:
                self.losses -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
            return answer
        return grpc.unary_unary_rpc_method_handler(call)


def test_an_observation_whose_answer_was_lost_is_accepted_once(client, server, model):
    client.create_model("lost-answers", 3, label_grace="1h")
    forwarder = Forwarder(server.grpc, 1)
    stand_in_server = grpc.server(futures.ThreadPoolExecutor(2))
    stand_in_server.add_generic_rpc_handlers((forwarder,))
    port = stand_in_server.add_insecure_port("127.0.0.1:0")
    stand_in_server.start()
    try:
        with calibd.Client(f"127.0.0.1:{port}") as lossy:
            answer = lossy.observe(model, [0.2, 0.3, 0.5], 2)
            assert (answer.accepted_rows, answer.duplicate_rows, forwarder.losses) == (1, 0, 0)
            assert not answer.is_repeated
            # With a request_id or an id, an earlier call may be the cause.
            forwarder.losses = 1
            answer = lossy.observe(model, [0.2, 0.3, 0.5], 2, request_id="request-1")
            assert (answer.accepted_rows, answer.duplicate_rows, answer.is_repeated) == (0, 1, True)
            forwarder.losses = 1
            answer = lossy.observe("lost-answers", [0.2, 0.3, 0.5], id="a")
            assert (answer.accepted_rows, answer.duplicate_rows, answer.is_repeated) == (0, 1, True)
            # Another call has the same id.
            answer = lossy.observe("lost-answers", [0.2, 0.3, 0.5], id="a")
            assert (answer.accepted_rows, answer.duplicate_rows, answer.is_repeated) == (0, 1, False)
    finally:
        stand_in_server.stop(None)
    assert client.calibration(model).observations == 2


def test_a_call_waits_for_the_server_as_long_as_its_timeout(own_server):
    with calibd.Client(own_server.grpc, timeout=60) as client:
        client.create_model("awaited", 3)
        own_server.kill()
        accepted = []
        call = threading.Thread(target=lambda: accepted.append(
            client.observe("awaited", [0.2, 0.3, 0.5], 2).accepted_rows))
        call.start()
        # This is longer than four attempts take.
        call.join(3)
        assert call.is_alive()
        own_server.start()
        call.join(60)
        assert accepted == [1]


def test_a_call_without_a_server_names_the_cause_at_once_and_at_its_deadline(caplog):
    with calibd.Client("127.0.0.1:1", timeout=2) as client:
        started = time.monotonic()
        with pytest.raises(calibd.Unavailable, match="failed to connect"):
            client.get_model("unknown")
        assert time.monotonic() - started > 1
        with pytest.raises(calibd.Unavailable):
            client.get_model("unknown")
    # A line a minute, with the remedy.
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("calibd at 127.0.0.1:1 does not answer, and the call tries again for 2 s: ")
    assert "failed to connect" in line and "Check that calibd runs" in line
    with pytest.raises(calibd.Unavailable):
        calibd.Client("127.0.0.1:1", timeout=1).stream("unknown")
    assert "models/unknown: the stream to 127.0.0.1:1 does not open and tries again: " in caplog.text


def test_a_watch_without_a_server_names_the_cause_at_its_deadline():
    with calibd.Client("127.0.0.1:1", timeout=1) as client:
        started = time.monotonic()
        with pytest.raises(calibd.Unavailable, match="failed to connect"):
            next(client.watch("unknown"))
        assert time.monotonic() - started < 60


def test_a_watch_logs_an_outage_once(own_server, caplog):
    with calibd.Client(own_server.grpc, timeout=1) as client, caplog.at_level("WARNING", "calibd"):
        client.create_model("watched", 3)
        changes = client.watch("watched", min_interval=0.1)
        next(changes)
        own_server.kill()
        following = []
        watcher = threading.Thread(target=lambda: following.append(next(changes)))
        watcher.start()
        # This is longer than the timeout.
        watcher.join(3)
        assert watcher.is_alive()
        own_server.start()
        # The call gets a connection of its own, and the change ends the wait.
        with calibd.Client(own_server.grpc) as other:
            other.observe("watched", [0.2, 0.3, 0.5], 2)
        watcher.join(60)
        assert following[0].observations == 1
    assert caplog.text.count("models/watched: the watch reconnects: ") == 1


def test_a_stream_whose_connections_break_after_they_open_fails():
    predictions, labels = calibrated(10)
    with stand_in(lambda requests, context: iter(())) as address:
        stream = calibd.Client(address).stream("broken", stall_timeout=1)
        stream.send(predictions, labels)
        with pytest.raises(calibd.CalibdError, match="acknowledged nothing for 1 s"):
            stream.flush()
        assert stream.counts.reconnects > 0
        stream.cancel()


NORMAL = Forecast(normal=Forecast.Normal())


@pytest.mark.parametrize("before, after, differs", [
    ({"classes": {"count": 3}}, {"classes": {"count": 4}}, "number of classes"),
    ({"classes": {"count": 2, "names": ["a", "b"]}}, {"classes": {"count": 2, "names": ["b", "a"]}},
     "classes"),
    ({"forecast": NORMAL}, {"forecast": Forecast(samples=Forecast.Samples(draws=2))}, "forecast"),
    ({"forecast": Forecast(samples=Forecast.Samples(draws=2))},
     {"forecast": Forecast(samples=Forecast.Samples(draws=3))}, "forecast"),
    ({"forecast": Forecast(quantiles=Forecast.Quantiles(levels=[0.1]))},
     {"forecast": Forecast(quantiles=Forecast.Quantiles(levels=[0.2]))}, "forecast"),
    ({"forecast": NORMAL, "feature_names": ["age"]}, {"forecast": NORMAL, "feature_names": ["wage"]},
     "features"),
])
def test_a_stream_ends_if_the_declaration_is_another_one_after_a_reconnection(before, after, differs):
    with stand_in(lambda requests, context: iter(()), (before, after)) as address:
        stream = calibd.Client(address).stream("changed")
        with pytest.raises(calibd.FailedPrecondition, match=f"declaration: its {differs} differ"):
            assert wait_for(lambda: stream.flush(), 60)


def test_the_failure_of_a_stream_is_logged_with_its_rows_although_nobody_calls(caplog):
    def refuse(requests, context):
        next(requests)
        context.abort(grpc.StatusCode.NOT_FOUND, "the model was deleted")
        yield

    with stand_in(refuse) as address, caplog.at_level("WARNING", "calibd"):
        calibd.Client(address).stream("deleted").send(*calibrated(10))
        assert wait_for(lambda: caplog.text, 60)
    assert "stream failed: the model was deleted, its newest 10 rows may not be counted" in caplog.text


def test_a_stream_reaches_a_server_that_returns_after_an_outage(own_server):
    predictions, labels = calibrated(10)
    with calibd.Client(own_server.grpc).stream("outage", 3) as stream:
        own_server.kill()
        stream.send(predictions, labels)
        # Several attempts to connect fail.
        assert not wait_for(lambda: stream.counts.accepted_rows, 3)
        own_server.start()
    assert stream.counts.accepted_rows == 10


HOPELESS = [("http", "http1.x server", "give the gRPC port"),
            ("no-such-host.invalid:8460", "DNS resolution failed", "Check the name of the host")]


@pytest.mark.parametrize("target, cause, remedy", HOPELESS)
def test_an_address_that_is_certainly_wrong_fails_at_once(server, target, cause, remedy):
    target = server.http if target == "http" else target
    with calibd.Client(target, timeout=600) as client:
        for call in (lambda: client.get_model("any"), lambda: client.stream("any"),
                     lambda: next(client.watch("any")), lambda: client.run_test("any"),
                     lambda: calibd.Monitor("any", target, on_full="block").observe([0.2, 0.8], 1)):
            started = time.monotonic()
            with pytest.raises(calibd.Unavailable, match=cause) as raised:
                call()
            assert time.monotonic() - started < 60
            assert remedy in str(raised.value)


@pytest.mark.parametrize("target", [
    "127.0.0.1:65536", "127.0.0.1:0", "127.0.0.1:", "127.0.0.1", ":8460", "localhost:http",
    "::1:8460", "http://127.0.0.1:8460", "a host:8460", "127.0.0.1:99999"])
def test_an_impossible_address_is_refused_without_a_network(target, monkeypatch):
    expected = 'target is .*, expected ("HOST:PORT"|a port from 1 to 65535)'
    for make in (calibd.Client, calibd.AsyncClient, lambda target: calibd.Monitor("any", target)):
        with pytest.raises(calibd.InvalidArgument, match=expected):
            make(target)
    monkeypatch.setenv("CALIBD_SERVER", target)
    with pytest.raises(calibd.InvalidArgument, match="CALIBD_SERVER is"):
        calibd.Client()


@pytest.mark.parametrize("target", ["[::1]:8460", "[fe80::1%eth0]:8460", "dns:8460", "dns:///host:8460",
                                    "unix:/run/calibd", "ipv4:127.0.0.1:8460", "host-1.example_2:1"])
def test_the_forms_of_an_address(target):
    calibd.Client(target).close()
