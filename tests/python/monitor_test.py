"""A Monitor never makes its service wait or fail, and counts once what it has not dropped."""
import datetime
import inspect
import itertools
import logging
import threading
import time

import grpc
import numpy as np
import pandas as pd
import pytest

import calibd
from calibd import loss_log
from calibd.v1 import ingest_service_pb2 as ingest
from wait_for import wait_for

from arguments_test import JUNK
from conftest import BANDWIDTH, calibrated
from outage_test import HOPELESS, stand_in

Response = ingest.StreamObservationsResponse
ROW = [0.2, 0.3, 0.5]
KILLS = 20
GRACE = datetime.timedelta(days=1)


def observe_all(monitor, predictions, labels):
    for prediction, label in zip(predictions, labels.tolist()):
        monitor.observe(prediction, label)


def expect_counted(client, monitor, model):
    """What the monitor has not dropped is counted once, and what it has dropped is reported."""
    counts = monitor.counts
    answer = client.calibration(model)
    assert answer.observations == counts.accepted_rows == counts.rows - counts.dropped_rows
    assert answer.dropped_rows == counts.dropped_rows
    assert answer.dropped_labels == counts.dropped_labels


def test_rows_of_a_time_without_a_server_are_counted_when_it_comes(own_server):
    client = calibd.Client(own_server.grpc)
    client.create_model("absent", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(1000)
    own_server.kill()
    with calibd.Monitor("absent", own_server.grpc, close_timeout=60) as monitor:
        observe_all(monitor, predictions, labels)
        assert wait_for(lambda: monitor._delivery.log.error is not None)
        assert monitor.counts.rows == 1000 and not monitor.counts.accepted_rows
        own_server.start()
    expect_counted(client, monitor, "absent")
    chosen = predictions[np.arange(1000), labels]
    expected = -np.log(chosen).mean()
    assert client.calibration("absent").scores.log_loss == pytest.approx(expected, rel=1e-9)


def test_twenty_kills_during_single_rows_lose_and_double_nothing(own_server):
    client = calibd.Client(own_server.grpc)
    client.create_model("killed", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(1000)
    stop = threading.Event()
    # It drops rows in some of the outages.
    with calibd.Monitor("killed", own_server.grpc, max_buffer_bytes=200_000,
                        close_timeout=60) as monitor:

        def produce():
            while not stop.wait(0.001):
                observe_all(monitor, predictions[:20], labels[:20])

        producer = threading.Thread(target=produce)
        producer.start()
        try:
            for _ in range(KILLS):
                before = monitor.counts.accepted_rows
                assert wait_for(lambda: monitor.counts.accepted_rows > before, 60)
                own_server.kill()
                own_server.start()
        finally:
            stop.set()
            producer.join()
    assert monitor.counts.reconnects >= KILLS
    expect_counted(client, monitor, "killed")


def test_a_frozen_server_makes_nobody_wait_and_dropped_rows_are_reported(own_server, caplog):
    client = calibd.Client(own_server.grpc)
    client.create_model("frozen", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(1000)
    monitor = calibd.Monitor("frozen", own_server.grpc, max_buffer_bytes=100_000)
    observe_all(monitor, predictions[:10], labels[:10])
    monitor.flush(60)
    with own_server.frozen():

        def overflows():
            # Rows that are serialized meanwhile need less room, so this may not be enough at once.
            observe_all(monitor, predictions, labels)
            monitor.send(predictions, labels)
            return monitor.counts.overflowed > 1000

        with caplog.at_level(logging.WARNING, "calibd"):
            assert wait_for(overflows)
            assert wait_for(lambda: "models/frozen: dropped " in caplog.text)
        with pytest.raises(calibd.DeadlineExceeded, match="within 0.1 s"):
            monitor.flush(0.1)
        counts = monitor.counts
        assert counts.overflowed == counts.dropped_rows
        # A second line comes after a minute.
        assert caplog.text.count("models/frozen: dropped ") == 1
    monitor.flush(60)
    expect_counted(client, monitor, "frozen")
    monitor.close(60)


def test_a_line_a_minute_tells_of_dropped_rows(caplog, monkeypatch):
    monkeypatch.setattr(loss_log, "LOG_SECONDS", 0.1)
    with caplog.at_level(logging.WARNING, "calibd"):
        with calibd.Monitor("nobody", "127.0.0.1:1", max_buffer_bytes=1, close_timeout=0.1) as monitor:
            monitor.observe([0.2, 0.8], 1)
            assert wait_for(lambda: monitor._delivery.log.error is not None)
            for lines in (1, 2, 3):
                for _ in range(3):
                    monitor.observe([0.2, 0.8], 1)
                assert wait_for(lambda: len(caplog.records) >= lines)
    assert "9 in all; failed to connect" in caplog.text
    assert "the stream was closed, its newest 1 row may not be counted" in caplog.text


def test_close_and_later_calls_do_not_wait_for_a_frozen_server(own_server):
    client = calibd.Client(own_server.grpc)
    client.create_model("closed", 3)
    monitor = calibd.Monitor("closed", own_server.grpc)
    monitor.observe(ROW, 2)
    monitor.flush(60)
    with own_server.frozen():
        monitor.observe(ROW, 2)
        begin = time.monotonic()
        monitor.close(0.2)
        assert time.monotonic() - begin < 30
        monitor.observe(ROW, 2)
        # The server may acknowledge the second row as soon as it goes on.
        counts = monitor.counts
    assert (counts.rows, counts.dropped_rows, counts.accepted_rows) == (3, 1, 1)
    monitor.close()
    assert calibd.Monitor("closed", own_server.grpc).close().rows == 0


def test_an_unknown_model_is_awaited(client, server, caplog):
    predictions, labels = calibrated(100)
    with caplog.at_level(logging.WARNING, "calibd"):
        with calibd.Monitor("awaited-model", server.grpc, close_timeout=60) as monitor:
            observe_all(monitor, predictions, labels)
            assert wait_for(lambda: "is refused and tries again" in caplog.text)
            client.create_model("awaited-model", 3)
    expect_counted(client, monitor, "awaited-model")
    assert monitor.counts.accepted_rows == 100


@pytest.mark.parametrize("status", [grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
                                    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.DATA_LOSS])
def test_a_monitor_continues_after_a_refusal(status, caplog):
    attempts = []
    batches = []

    def refuse_twice(requests, context):
        attempts.append(0)
        if len(attempts) < 3:
            context.abort(status, "the token\x1b[2J is wrong")
        for request in requests:
            if request.HasField("finish"):
                rows = sum(len(batch.labels) for batch in batches)
                yield Response(finished=Response.Finished(
                    last_sequence=request.finish.last_sequence, accepted_rows=rows))
            else:
                batches.append(request.batch.observations)
                yield Response(ack=Response.Ack(sequence=request.batch.sequence))

    with stand_in(refuse_twice) as address:
        monitor = calibd.Monitor("refused", address)
        monitor.observe(ROW, 2)
        assert wait_for(lambda: len(attempts) == 3)
        monitor.observe(ROW, 2)
        counts = monitor.close(60)
    assert counts.accepted_rows == sum(len(batch.labels) for batch in batches)
    assert counts.dropped_rows == sum(batch.dropped_rows for batch in batches)
    # A row whose fate is unknown is dropped.
    assert counts.accepted_rows + counts.dropped_rows == 2 and counts.accepted_rows
    assert "\x1b" not in caplog.text and "the token\\x1b[2J is wrong" in caplog.text


def test_a_monitor_continues_after_the_model_was_created_again(client, server):
    client.create_model("again", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(100)
    monitor = calibd.Monitor("again", server.grpc)
    observe_all(monitor, predictions, labels)
    monitor.flush(60)
    client.delete_model("again", confirm="again")
    client.create_model("again", ["a", "b"])

    def is_counted():
        # The monitor drops a row if its stream was refused while the model did not exist.
        monitor.observe([0.1, 0.9], "b")
        monitor.flush(60)
        return client.calibration("again").observations > 0
    assert wait_for(is_counted)
    answer = client.calibration("again")
    assert (answer.observations, answer.scores.accuracy) == (1, 1)
    assert monitor.close(60).accepted_rows == 101


def test_single_rows_of_threads_are_merged(client, model, server):
    predictions, labels = calibrated(8000)
    with calibd.Monitor(model, server.grpc, close_timeout=60) as monitor:
        threads = [threading.Thread(target=observe_all, args=(
            monitor, predictions[i::8], labels[i::8])) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert monitor.counts.accepted_rows == client.calibration(model).observations == 8000
    chosen = predictions[np.arange(8000), labels]
    assert client.calibration(model).scores.log_loss == pytest.approx(-np.log(chosen).mean(), rel=1e-9)
    assert monitor._delivery.ledger.window.next_sequence < 8000 / 10


@pytest.mark.parametrize("observes", [False, True])
def test_single_rows_of_a_stream_that_blocks_are_merged(client, model, observes):
    predictions, labels = calibrated(2000)
    with client.stream(model) as stream:
        for prediction, label in zip(predictions, labels):
            if observes:
                stream.observe(prediction, label)
            else:
                stream.send(prediction[np.newaxis], [label])
        with pytest.raises(calibd.InvalidArgument, match=r"rows\[2000\].probabilities sums to 1.5"):
            stream.observe([0.5, 0.5, 0.5], 1)
        with pytest.raises(calibd.InvalidArgument, match=r"labels\[2000\]"):
            stream.send([[0.5, 0.25, 0.25]], [3])
        sequence = stream._delivery.ledger.window
    chosen = predictions[np.arange(2000), labels]
    assert client.calibration(model).scores.log_loss == pytest.approx(-np.log(chosen).mean(), rel=1e-9)
    assert client.calibration(model).observations == 2000
    assert sequence.next_sequence < 2000


def test_rows_of_different_forms_are_counted_and_invalid_ones_dropped(client, server, caplog):
    client.create_model("forms", ["cat", "dog"], label_grace=GRACE)
    with caplog.at_level(logging.WARNING, "calibd"):
        monitor = calibd.Monitor("forms", server.grpc)
        row = [0.25, 0.75]
        monitor.observe(row, 1, id="a")
        row[0] = -1
        monitor.observe(np.array([0.25, 0.75], np.float32), "dog", id="b")
        monitor.observe(np.array([0.25, 0.75]), "dog", id="c")
        monitor.observe(0.75, 1, id=4)
        monitor.observe(pd.Series({"dog": 0.75, "cat": 0.25}), "dog", id="e")
        monitor.observe((0.25, 0.75), id="f")
        monitor.label(["f"], ["dog"])
        monitor.send([[0.25, 0.75]], ["dog"], ids=["g"])
        for invalid, label in (([0.5, 0.6], 1), ([0.5, 0.5], 2), (ROW, 1), ("text", 1),
                               (None, 1), ([0.5, 0.5], "cow"), ([np.nan, 0.5], 0), (object(), 1)):
            monitor.observe(invalid, label, id="bad")
        monitor.label(["x"], ["cow"])
        monitor.flush(60)
    counts = monitor.counts
    assert (counts.rows, counts.accepted_rows, counts.dropped_rows) == (15, 7, 8)
    assert (counts.labels, counts.dropped_labels) == (2, 1)
    assert counts.rejected_rows == counts.overflowed == 0
    answer = client.calibration("forms")
    assert (answer.dropped_rows, answer.label_arrivals.pending_labelled) == (8, 7)
    assert answer.dropped_labels == 1 and "1 label dropped by producers" in answer.reading.data.text
    assert monitor.dropped[0].path == "rows[7].probabilities"
    assert "sums to 1.1" in monitor.dropped[0].description
    assert "models/forms: dropped " in caplog.text
    monitor.close()


@pytest.mark.parametrize("method, fitting", [
    ("observe", {"prediction": ROW, "truth": 1}),
    ("send", {"probabilities": [ROW] * 2, "labels": [0, 1]}),
    ("label", {"ids": ["a", "b"], "labels": [0, 1]})])
def test_no_argument_makes_a_monitor_raise(client, server, method, fitting):
    model = f"junk-{method}"
    client.create_model(model, 3, label_grace=GRACE)
    monitor = calibd.Monitor(model, server.grpc)
    call = getattr(monitor, method)
    names = [name for name in inspect.signature(call).parameters]
    for name, value in itertools.product(names, JUNK):
        call(**{**fitting, name: value})
        # Rows of the usual form are merged with those that follow.
        call(**fitting)
    monitor.flush(60)
    counts = monitor.close(60)
    assert counts.rows == counts.accepted_rows + counts.rejected_rows + counts.dropped_rows
    assert counts.labels == counts.accepted_labels + counts.rejected_labels + counts.dropped_labels
    assert counts.rows + counts.labels >= 2 * len(names) * len(JUNK)


def test_features_and_groups_of_single_rows_are_merged(client, server):
    client.create_model("single-numbers", forecast="normal", features=["age"], label_grace=GRACE)
    with calibd.Monitor("single-numbers", server.grpc, close_timeout=60) as monitor:
        for i in range(100):
            monitor.observe([1.0, 2.0], 1.5, id=i, features=[i])
    assert monitor.counts.accepted_rows == 100 and not monitor.counts.dropped_rows
    client.create_model("compared-singly", 2, baseline="older")
    with calibd.Monitor("compared-singly", server.grpc, close_timeout=60) as monitor:
        for _ in range(100):
            monitor.observe([0.3, 0.7], 1, baseline=[0.4, 0.6])
            monitor.observe([0.0, 1.0], 1, logits=True, baseline=[0.0, 0.5])
    assert monitor.counts.accepted_rows == 200 and not monitor.counts.dropped_rows


def test_a_stream_that_drops_has_no_key():
    client = calibd.Client("127.0.0.1:1")
    with pytest.raises(calibd.InvalidArgument, match="on_full is \"drop\", expected \"block\""):
        client.stream("any", on_full="drop", idempotency_key="run-1")
    with client.stream("any", on_full="drop", close_timeout=0.1) as stream:
        stream.send([[0.5, 0.5]], [1])
    assert stream.counts.rows == 1


def test_a_monitor_that_blocks_opens_when_it_has_rows(client, server):
    client.create_model("lazy", 3)
    with calibd.Monitor("lazy", server.grpc, on_full="block") as monitor:
        monitor.observe(ROW, 2)
    assert monitor.counts.accepted_rows == 1
    with pytest.raises(calibd.NotFound):
        calibd.Monitor("never-created", server.grpc, on_full="block").observe([0.2, 0.8], 1)


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Trap:
    """Looks like numbers, and raises when they are read."""

    def __init__(self, error):
        self._error = error

    def copy(self):
        return self

    def __array__(self, *arguments, **named):
        raise self._error


class LateFrame(Trap):
    """Raises when a row is merged with others."""

    @property
    def iloc(self):
        raise self._error


class Lengthless(list):
    def __len__(self):
        raise RuntimeError("no length")


def test_no_value_that_raises_ends_a_monitor(client, model, server):
    monitor = calibd.Monitor(model, server.grpc, close_timeout=60)
    for error in (Unprintable(), RuntimeError("iloc"), SystemExit(3)):
        for value in (Trap(error), LateFrame(error)):
            if not isinstance(error, SystemExit) or type(value) is Trap:
                monitor.observe(value, 0)
                monitor.observe(value, 0)
    monitor.send(Lengthless([ROW]), [0])
    monitor.observe(ROW, 0)
    counts = monitor.close(60)
    assert (counts.rows, counts.accepted_rows, counts.dropped_rows) == (12, 1, 11)


def test_a_filter_of_the_log_that_raises_does_not_end_a_monitor(client, server):
    def fail(record):
        raise ValueError("filter")

    log = logging.getLogger("calibd")
    log.addFilter(fail)
    try:
        monitor = calibd.Monitor("filtered-later", server.grpc, close_timeout=60)
        monitor.observe(ROW, 2)
        assert wait_for(lambda: monitor._delivery.log.error is not None)
        client.create_model("filtered-later", 3)
        assert monitor.close(60).accepted_rows == 1
    finally:
        log.removeFilter(fail)


def test_a_handler_of_the_log_may_call_other_threads_that_use_the_stream():
    monitor = calibd.Monitor("nobody", "127.0.0.1:1")
    reached = []

    class Handler(logging.Handler):
        def emit(self, record):
            caller = threading.Thread(target=monitor.observe, args=([0.2, 0.8], 1), daemon=True)
            caller.start()
            caller.join(10)
            reached.append(not caller.is_alive())

    handler = Handler()
    logging.getLogger("calibd").addHandler(handler)
    try:
        monitor.observe([0.2, 0.8], 1)
        monitor.close(0.1)
    finally:
        logging.getLogger("calibd").removeHandler(handler)
    assert reached and all(reached)


def test_wrong_acknowledgements_are_retried_less_and_less_often(caplog):
    attempts = []

    def answer(requests, context):
        attempts.append(time.monotonic())
        next(requests)
        yield Response(ack=Response.Ack(sequence=7))

    with stand_in(answer) as address:
        monitor = calibd.Monitor("wrongly-acknowledged", address)

        def tries_again():
            monitor.observe(ROW, 2)
            return len(attempts) >= 5

        assert wait_for(tries_again)
        monitor.cancel()
    # The least delays are 50, 100, 200 and 400 ms.
    assert attempts[4] - attempts[0] >= 0.75
    assert caplog.text.count("is refused and tries again") == 1


def test_calls_after_close_log_a_line_a_minute(caplog):
    monitor = calibd.Monitor("nobody", "127.0.0.1:1")
    monitor.close(0.1)
    for _ in range(50):
        monitor.observe([0.2, 0.8], 1)
        thread = monitor._delivery.log._thread
        if thread is not None:
            thread.join(10)
    assert monitor.counts.dropped_rows == 50
    assert caplog.text.count("nobody: dropped ") <= 1


def test_a_signal_handler_may_call_a_stream_that_blocks(client, model):
    with client.stream(model) as stream:
        with stream._sending:
            stream.observe(ROW, 2)
    assert stream.counts.accepted_rows == 1


@pytest.mark.parametrize("name", [
    "bad name!", "", "a/b", "a@", "@1", "a@1@2", "models/", "x" * 129, 7, None])
def test_a_name_that_no_model_can_have_is_refused_without_a_server(name):
    with pytest.raises(calibd.InvalidArgument, match="model is .*, expected NAME, NAME@VERSION"):
        calibd.Monitor(name, "127.0.0.1:1")


@pytest.mark.parametrize("target, cause, remedy", [
    ("127.0.0.1:1", "failed to connect", "Check that calibd runs"), *HOPELESS])
def test_the_first_attempt_that_fails_is_logged_with_its_reason(server, caplog, target, cause, remedy):
    target = server.http if target == "http" else target
    with calibd.Monitor("unreached", target, close_timeout=0.1) as monitor:
        monitor.observe(ROW, 2)
        assert wait_for(lambda: caplog.records)
        assert len(caplog.records) == 1
        text = caplog.records[0].getMessage()
    assert f"models/unreached: the stream to {target} does not open and tries again: " in text
    assert cause in text and remedy in text


def test_a_monitor_that_cannot_connect_logs_a_line_a_minute(caplog, monkeypatch):
    monkeypatch.setattr(loss_log, "LOG_SECONDS", 0.1)
    with calibd.Monitor("nobody", "127.0.0.1:1", close_timeout=0.1) as monitor:
        monitor.observe(ROW, 2)
        # Attempts after the first one wait for the server.
        assert wait_for(lambda: caplog.text.count("Connection refused [UNAVAILABLE]") == 3)


def test_a_server_that_falls_silent_is_logged(own_server, caplog):
    calibd.Client(own_server.grpc).create_model("silent", 3)
    monitor = calibd.Monitor("silent", own_server.grpc, stall_timeout=0.2)
    monitor.observe(ROW, 2)
    monitor.flush(60)
    with own_server.frozen():
        monitor.observe(ROW, 2)
        assert wait_for(lambda: "tries again: the server sent nothing for 0.2 s" in caplog.text)
    assert monitor.close(60).accepted_rows == 2


def test_an_outage_is_logged_with_its_reason(own_server, caplog):
    calibd.Client(own_server.grpc).create_model("lost", 3)
    with calibd.Monitor("lost", own_server.grpc, close_timeout=60) as monitor:
        monitor.observe(ROW, 2)
        monitor.flush(60)
        assert not caplog.records
        own_server.kill()
        monitor.observe(ROW, 2)
        assert wait_for(lambda: f"to {own_server.grpc} does not open and tries again: " in caplog.text)
        own_server.start()
    assert monitor.counts.accepted_rows == 2
    assert caplog.text.count("tries again") == 1


def test_a_call_that_is_larger_than_the_buffer_is_dropped_with_the_limit(client, model, server, caplog):
    predictions, labels = calibrated(1000)
    with calibd.Monitor(model, server.grpc, max_buffer_bytes=10_000, close_timeout=60) as monitor:
        monitor.send(predictions, labels)
        monitor.label(np.arange(1000), labels)
        monitor.send(predictions[:100], labels[:100])
    counts = monitor.counts
    assert (counts.rows, counts.accepted_rows, counts.dropped_rows) == (1100, 100, 1000)
    assert (counts.labels, counts.dropped_labels) == (1000, 1000)
    assert "rows are 1000 in one call, of about 32300 bytes, expected at most max_buffer" in caplog.text
    answer = client.calibration(model)
    assert (answer.dropped_rows, answer.dropped_labels) == (1000, 1000)
