"""A stream counts each row exactly once, whatever happens to the server."""
import datetime
import logging
import os
import pathlib
import signal
import subprocess
import threading

import numpy as np
import pandas as pd
import pytest

import calibd
from calibd import transport
from wait_for import wait_for

from conftest import BANDWIDTH, calibrated

KILLS = 20
GRACE = datetime.timedelta(days=1)


@pytest.mark.parametrize("options", [{}, {"idempotency_key": "kills", "on_invalid": "drop"}],
                         ids=["plain", "key"])
def test_twenty_kills_of_the_server_lose_and_double_nothing(own_server, options):
    client = calibd.Client(own_server.grpc)
    client.create_model("killed", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(100_000)
    stop = threading.Event()
    sent = 0
    with client.stream("killed", **options) as stream:

        def produce():
            nonlocal sent
            while not stop.is_set() and sent + 100 <= len(predictions):
                rows = slice(sent, sent + 100)
                stream.send(predictions[rows], labels[rows])
                sent += 100
                # It waits, so that rows are left for all kills.
                wait_for(lambda: stop.is_set() or stream.counts.accepted_rows > sent - 2000, 60)

        producer = threading.Thread(target=produce)
        producer.start()
        try:
            for _ in range(KILLS):
                before = stream.counts.accepted_rows
                assert wait_for(lambda: stream.counts.accepted_rows > before, 60)
                own_server.kill()
                own_server.start()
        finally:
            stop.set()
            producer.join()
    assert stream.counts.reconnects >= KILLS
    assert stream.counts.resent_batches > 0
    assert stream.counts.accepted_rows == sent
    answer = client.calibration("killed")
    assert answer.observations == sent
    # They are the same rows, not only as many.
    chosen = predictions[np.arange(sent), labels[:sent]]
    assert answer.scores.log_loss == pytest.approx(-np.log(chosen).mean(), rel=1e-9)


def test_rows_of_many_threads_and_sizes_are_all_counted(client, model):
    predictions, labels = calibrated(4000)
    with client.stream(model) as stream:
        def send(first):
            for i in range(first, first + 1000, 25):
                stream.send(predictions[i:i + 25].astype(np.float32 if i % 2 else np.float64),
                            labels[i:i + 25])
        threads = [threading.Thread(target=send, args=(first,)) for first in range(0, 4000, 1000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert client.calibration(model).observations == 4000


def test_buffer_is_bounded_and_a_stream_continues_after_the_server_hung(own_server):
    client = calibd.Client(own_server.grpc)
    predictions, labels = calibrated(1000)
    limit = 1 << 20
    stream = client.stream("hung", 3, max_buffer_bytes=limit, stall_timeout=2)
    with own_server.frozen():
        with pytest.raises(calibd.DeadlineExceeded) as raised:
            while True:
                stream.send(predictions, labels)
        assert "acknowledged nothing for 2 s" in str(raised.value)
    row_bytes = 3 * 8 + 1
    assert 0.8 * limit < stream.counts.rows * row_bytes <= limit
    stream.send(predictions, labels)
    assert stream.finish().accepted_rows == client.calibration("hung").observations


def test_a_small_buffer_slows_the_producer_down_and_loses_nothing(client, model):
    predictions, labels = calibrated(20000)
    limit = 10_000
    with client.stream(model, max_buffer_bytes=limit) as stream:
        for i in range(0, 20000, 100):
            stream.send(predictions[i:i + 100], labels[i:i + 100])
            counts = stream.counts
            assert (counts.rows - counts.accepted_rows) * 25 <= limit + 2600
    assert client.calibration(model).observations == 20000


def test_invalid_rows_raise_and_the_call_accepts_none(client, model):
    predictions, labels = calibrated(100)
    predictions[17, 1] = np.nan
    predictions[20] *= 1.5
    labels[30] = 3
    with client.stream(model) as stream:
        with pytest.raises(calibd.InvalidArgument) as raised:
            stream.send(predictions, labels)
        assert [field.path for field in raised.value.fields] == [
            "rows[17].probabilities[1]", "rows[20].probabilities", "labels[30]"]
        assert "rows[17].probabilities[1] is nan, expected [0, 1]" in str(raised.value)
        assert raised.value.remedy
        stream.send(predictions[:10], labels[:10])
    assert stream.counts.rows == 10
    assert client.calibration(model).observations == 10


def test_dropped_rows_are_counted_reported_and_logged(client, model, caplog):
    predictions, labels = calibrated(100)
    predictions[[3, 50], 0] = -0.1, 2.0
    labels = labels.astype(float)
    labels[[4, 99]] = np.nan, 0.5
    with caplog.at_level(logging.WARNING, "calibd"):
        with client.stream(model, on_invalid="drop") as stream:
            stream.send(predictions[3:5], labels[3:5])
            stream.send(predictions, labels)
    assert stream.counts.dropped_rows == 6
    assert stream.counts.accepted_rows == 96
    assert stream.dropped[0].path == "rows[0].probabilities[0]"
    assert "dropped 6 invalid rows, the first: rows[0].probabilities[0] is -0.1, expected" in caplog.text
    answer = client.calibration(model)
    assert (answer.observations, answer.dropped_rows) == (96, 6)


def test_dropped_rows_are_reported_without_a_valid_row(client, model):
    unknown = np.full((100, 3), np.nan)
    with client.stream(model, on_invalid="drop") as stream:
        for _ in range(10):
            stream.send(unknown, [0] * 100)
        stream.flush()
        assert client.calibration(model).dropped_rows == 1000
        assert not stream._delivery.buffered
        stream.send(*calibrated(10))
        stream.send(unknown, [0] * 100)
    assert (stream.counts.accepted_rows, stream.counts.dropped_rows) == (10, 1100)
    assert not stream.rejected
    with pytest.raises(KeyError), client.stream(model, on_invalid="drop") as stream:
        stream.send(unknown, [0] * 100)
        raise KeyError
    answer = client.calibration(model)
    assert (answer.observations, answer.dropped_rows) == (10, 1200)


def test_a_repeated_stream_with_a_key_reports_dropped_rows_once(client, model):
    predictions, labels = calibrated(30)
    unknown = np.full((10, 3), np.nan)
    for repetition in range(10):
        with client.stream(model, idempotency_key="drops", on_invalid="drop") as stream:
            for i in range(0, 30, 10):
                stream.send(predictions[i:i + 10], labels[i:i + 10])
                if repetition % 2:
                    stream.flush()
                stream.send(unknown, labels[:10])
                if repetition % 2:
                    stream.flush()
    answer = client.calibration(model)
    assert (answer.observations, answer.dropped_rows) == (30, 30)


def test_dropped_rows_of_every_kind_of_model_are_reported(client):
    client.create_model("dropped-features", 2, features=["age"], label_grace=GRACE)
    client.create_model("dropped-forecasts", forecast="normal")
    for model, change in (("dropped-features", {"features": [1]}),
                          ("dropped-forecasts", {"probabilities": [[1, 0]]})):
        with client.stream(model, on_invalid="drop") as stream:
            stream.send(**{"probabilities": [np.nan], "labels": [1], **change})
        assert not stream.rejected and client.calibration(model).dropped_rows == 1


def test_frames_are_matched_to_the_classes_by_name(client):
    client.create_model("pets", ["cat", "dog", "owl"], bandwidth=BANDWIDTH)
    predictions, labels = calibrated(200)
    frame = pd.DataFrame(predictions, columns=["cat", "dog", "owl"])[["owl", "cat", "dog"]]
    names = pd.Series(np.array(["cat", "dog", "owl"])[labels])
    with client.stream("pets") as stream:
        stream.send(frame, names)
        stream.send(frame.astype(np.float32), pd.Categorical(names))
        with pytest.raises(calibd.InvalidArgument, match="columns are"):
            stream.send(frame.rename(columns={"owl": "cow"}), names)
        with pytest.raises(calibd.InvalidArgument, match=r"labels\[400\]"):
            stream.send(frame[:1], ["cow"])
    scores = client.calibration("pets").scores
    assert scores.accuracy == (predictions.argmax(axis=1) == labels).mean()
    chosen = predictions[np.arange(200), labels]
    assert scores.log_loss == pytest.approx(-np.log(chosen).mean(), rel=1e-6)


@pytest.mark.parametrize("form", [lambda p: p, lambda p: p[:, np.newaxis], pd.Series, list,
                                  lambda p: pd.DataFrame({"score": p}),
                                  lambda p: np.column_stack([1 - p, p]),
                                  lambda p: p.astype(np.float32)],
                         ids=["array", "column", "series", "list", "frame", "both", "float32"])
def test_one_score_of_two_classes_is_the_probability_of_class_1(client, request, form):
    name = request.node.callspec.id
    random = np.random.default_rng(3)
    scores = random.random(500)
    labels = random.random(500) < scores
    with client.stream(f"binary-{name}", 2) as stream:
        stream.send(form(scores), labels)
    answer = client.calibration(f"binary-{name}").scores
    expected = -np.log(np.where(labels, scores, 1 - scores)).mean()
    assert answer.log_loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("form", [list, pd.Series, lambda y: pd.array(y, dtype="Int64"),
                                  lambda y: y.astype(np.uint8), lambda y: y.astype(object)],
                         ids=["list", "series", "nullable", "uint8", "object"])
def test_labels_of_every_form_are_read(client, request, form):
    name = f"labels-{request.node.callspec.id}"
    predictions, labels = calibrated(100)
    with client.stream(name, 3) as stream:
        stream.send(predictions, form(labels))
        with pytest.raises(calibd.InvalidArgument, match="labels"):
            stream.send(predictions[:1], ["cat"])
    accuracy = (predictions.argmax(axis=1) == labels).mean()
    assert client.calibration(name).scores.accuracy == accuracy


@pytest.mark.parametrize("shape", [(5,), (5, 2), (5, 4), (5, 3, 1)])
def test_a_wrong_shape_names_the_expected_one(client, model, shape):
    with client.stream(model) as stream:
        with pytest.raises(calibd.InvalidArgument, match=r"expected \(n, 3\)"):
            stream.send(np.full(shape, 1 / 3), [0] * 5)


def test_logits_are_counted(client, model):
    predictions, labels = calibrated(100)
    with client.stream(model) as stream:
        stream.send(np.log(predictions) + 5, labels, logits=True)
        with pytest.raises(calibd.InvalidArgument, match=r"rows\[100\].logits\[0\] is inf"):
            stream.send([[np.inf, 0, 0]], [0], logits=True)
    chosen = predictions[np.arange(100), labels]
    assert client.calibration(model).scores.log_loss == pytest.approx(-np.log(chosen).mean())


@pytest.mark.parametrize("form", [lambda p: p, lambda p: p.astype(np.float32)],
                         ids=["float64", "float32"])
def test_a_model_is_compared_with_its_baseline(client, request, form):
    model = f"baseline-{request.node.callspec.id}"
    client.create_model(model, 3, bandwidth=BANDWIDTH, baseline="v1")
    predictions, labels = calibrated(2000)
    uniform = np.full_like(predictions, 1 / 3)
    with client.stream(model) as stream:
        # Two chunks, which one batch may join.
        stream.send(predictions[:1000], labels[:1000], baseline=form(uniform[:1000]))
        stream.send(np.log(predictions[1000:]), labels[1000:], logits=True,
                    baseline=np.log(form(uniform[1000:])))
        with pytest.raises(calibd.InvalidArgument,
                           match=r"rows\[2000\].baseline_probabilities sums to 1.5"):
            stream.send(predictions[:1], labels[:1], baseline=[[0.5, 0.5, 0.5]])
        with pytest.raises(calibd.InvalidArgument, match=r"baseline has the shape \(2, 3\)"):
            stream.send(predictions[:1], labels[:1], baseline=uniform[:2])
    client.observe(model, predictions[0], int(labels[0]), baseline=uniform[0])
    answer = client.calibration(model)
    assert (answer.baseline, answer.comparison.observations) == ("v1", 2001)
    assert answer.comparison.log_loss.baseline == pytest.approx(np.log(3), rel=1e-6)
    assert answer.comparison.log_loss.upper < 0
    assert "against   v1: log loss" in repr(answer)
    with pytest.raises(calibd.InvalidArgument, match="are not set, expected the predictions of the"):
        with client.stream(model) as stream:
            stream.send(predictions, labels)
    with pytest.raises(calibd.InvalidArgument, match=r"baseline has the shape \(2, 3\)"):
        client.observe(model, predictions[0], 0, baseline=uniform[:2])


def test_labels_come_later_by_id(client):
    client.create_model("late", 3, label_grace=datetime.timedelta(days=1), bandwidth=BANDWIDTH)
    predictions, labels = calibrated(50)
    with client.stream("late") as stream:
        stream.send(predictions, ids=range(50))
        stream.label(np.arange(40), labels[:40])
        stream.label(["unknown"], [0])
        stream.send(predictions[:5], ids=range(5))
        with pytest.raises(calibd.InvalidArgument, match=r"prediction_ids\[41\]"):
            stream.label([""], [0])
    counts = stream.counts
    assert (counts.accepted_rows, counts.duplicate_rows) == (50, 5)
    assert (counts.matched_labels, counts.waiting_labels, counts.accepted_labels) == (40, 1, 41)
    assert counts.unknown_labels == 0
    assert client.label("late", ["41", "42"], [1, 2]).matched == 2
    assert client.calibration("late").label_arrivals.pending_labelled == 42


def test_a_batch_that_the_server_rejects_raises_at_the_end(client, model):
    predictions, labels = calibrated(10)
    old = datetime.datetime(1990, 1, 1, tzinfo=datetime.timezone.utc)
    with pytest.raises(calibd.InvalidArgument, match=r"prediction_times\[10\]"):
        with client.stream(model) as stream:
            stream.send(predictions, labels)
            stream.flush()
            stream.send(predictions, labels, times=old)
    assert stream.counts.rejected_rows == 10
    assert stream.rejected[0].rows == (10, 19)
    assert client.calibration(model).observations == 10


OLD = np.datetime64("1990-01-01")


@pytest.mark.parametrize("restarts", [False, True])
def test_rows_that_only_the_server_finds_invalid_are_dropped(own_server, caplog, restarts):
    client = calibd.Client(own_server.grpc)
    predictions, labels = calibrated(10)
    times = np.array([np.datetime64("now", "s")] * 10)
    times[[3, 7]] = OLD
    with caplog.at_level(logging.WARNING, "calibd"):
        with client.stream("skipped", 3, on_invalid="drop") as stream:
            stream.send([[0.5, 0.5, 0.5]], [0])
            stream.send(predictions, labels, times=times)
            if restarts:
                stream.flush()
                own_server.kill()
                own_server.start()
            stream.send(predictions[:2], labels[:2], times=OLD)
    counts = stream.counts
    assert (counts.rows, counts.accepted_rows, counts.rejected_rows) == (13, 8, 0)
    assert counts.dropped_rows == 5
    assert [fault.path for fault in stream.dropped] == [
        "rows[0].probabilities", *(f"prediction_times[{row}]" for row in (4, 8, 11, 12))]
    assert "dropped 5 invalid rows, the first: rows[0].probabilities sums to 1.5" in caplog.text
    assert client.calibration("skipped").observations == 8


def test_batches_that_the_server_rejects_are_logged_if_invalid_rows_are_dropped(client, caplog):
    client.create_model("no-grace", 3)
    predictions, labels = calibrated(10)
    with caplog.at_level(logging.WARNING, "calibd"):
        with client.stream("no-grace", on_invalid="drop") as stream:
            stream.send(predictions, labels)
            stream.flush()
            stream.send(predictions, labels, ids=range(10))
    assert (stream.counts.accepted_rows, stream.counts.rejected_rows) == (10, 10)
    assert "models/no-grace: the server rejected 10 rows, the first: " in caplog.text
    assert "label_grace" in caplog.text


def test_the_outcomes_of_labels_are_exact_or_unknown(own_server):
    client = calibd.Client(own_server.grpc)
    client.create_model("outcomes", 3, label_grace=datetime.timedelta(days=1))
    predictions, labels = calibrated(40)
    for begin, matched in ((0, None), (20, 20)):
        ids = range(begin, begin + 20)
        with client.stream("outcomes") as stream:
            stream.send(predictions[ids], ids=ids)
            if matched is None:
                stream.label(ids[:5], labels[ids[:5]])
            stream.flush()
            own_server.kill()
            own_server.start()
            rest = ids if matched else ids[5:]
            stream.label(rest, labels[rest])
        counts = stream.counts
        assert (counts.accepted_rows, counts.accepted_labels) == (20, 20)
        assert (counts.matched_labels, counts.unknown_labels) == (matched, matched and 0)
        assert counts.duplicate_rows is None and counts.reconnects > 0
        assert ("matched_labels" in repr(counts)) == bool(matched)
    assert client.calibration("outcomes").label_arrivals.pending_labelled == 40


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_after_an_error_in_the_block_the_rows_are_delivered(client, model, kind):
    predictions, labels = calibrated(10)
    with pytest.raises(kind):
        with client.stream(model) as stream:
            stream.send(predictions, labels)
            raise kind
    assert client.calibration(model).observations == 10
    with pytest.raises(calibd.Cancelled, match=f"block raised {kind.__name__}, .* accepted 10 rows"):
        stream.send(predictions, labels)


def test_rows_that_were_not_delivered_are_logged(own_server, caplog):
    client = calibd.Client(own_server.grpc)
    predictions, labels = calibrated(10)
    with caplog.at_level(logging.WARNING, "calibd"), pytest.raises(
            calibd.Unavailable, match="acknowledged nothing for 1 s: failed to connect"):
        with client.stream("down", 3, stall_timeout=1) as stream:
            own_server.kill()
            stream.send(predictions, labels)
            stream.flush()
    assert "its newest 10 rows may not be counted" in caplog.text


@pytest.fixture
def interrupt():
    """Calls that send Ctrl-C to this test when a condition holds, and then let a stopped server run."""
    threads = []

    def start(condition, server):
        def run():
            assert wait_for(condition, 60)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            server.thaw()

        threads.append(threading.Thread(target=run))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def test_ctrl_c_at_the_end_of_a_block_loses_nothing(own_server, interrupt):
    client = calibd.Client(own_server.grpc)
    with pytest.raises(KeyboardInterrupt):
        with client.stream("block", 3) as stream:
            own_server.freeze()
            stream.send(*calibrated(10))
            interrupt(lambda: stream._delivery.finishing, own_server)
    assert client.calibration("block").observations == 10
    with pytest.raises(calibd.CalibdError):
        stream.send(*calibrated(10))


def test_a_stream_can_be_finished_after_ctrl_c(own_server, interrupt):
    stream = calibd.Client(own_server.grpc).stream("again", 3)
    own_server.freeze()
    stream.send(*calibrated(10))
    interrupt(lambda: stream._delivery.finishing, own_server)
    with pytest.raises(KeyboardInterrupt):
        stream.finish()
    assert stream.finish().accepted_rows == 10
    for call in (stream.finish, stream.flush, lambda: stream.send(*calibrated(10))):
        with pytest.raises(calibd.FailedPrecondition, match="the stream was finished: open") as raised:
            call()
        assert "repeat" not in raised.value.remedy


def test_the_end_of_a_process_reports_rows_of_unfinished_streams(own_server):
    program = f"""
import sys, calibd
client = calibd.Client("{own_server.grpc}")
client.create_model("unfinished", 3, label_grace=__import__("datetime").timedelta(days=1))
stream, done = client.stream("unfinished"), client.stream("unfinished")
done.send([[0.2, 0.3, 0.5]], ids=[1])
done.finish()
print("ready", flush=True)
sys.stdin.readline()  # until the server is frozen
stream.send([[0.2, 0.3, 0.5]] * 10, ids=range(10))
stream.label([1], [0])
"""
    process = subprocess.Popen(["/usr/bin/python3", "-c", program], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    with own_server.frozen():
        _, log = process.communicate("\n", timeout=60)
    assert process.returncode == 0
    assert log == ("models/unfinished: the stream was not finished, its newest 10 rows and 1 "
                   "label may not be counted\n")


def in_child(work):
    """What work() returns or the class of its error, in a forked process that must answer soon."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            answer = repr(work())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, answer.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


def test_a_forked_process_has_connections_of_its_own(own_server):
    predictions, labels = calibrated(10)
    client = calibd.Client(own_server.grpc)
    client.create_model("forked", 3, bandwidth=BANDWIDTH)
    assert in_child(lambda: client.observe("forked", predictions[0], 0).accepted_rows) == "1"

    def send():
        with client.stream("forked") as stream:
            stream.send(predictions, labels)
        return stream.counts.accepted_rows

    assert in_child(send) == "10"
    assert send() == 10
    with client.stream("forked") as stream:
        stream.send(predictions, labels)
        stream.flush()
        assert "FailedPrecondition: the stream belongs to the process" in in_child(
            lambda: stream.send(predictions, labels))
        assert in_child(send) == "10"
        stream.send(predictions, labels)
    # gRPC hangs in a process that was forked while a call was running.
    with own_server.frozen():
        caller = threading.Thread(target=client.calibration, args=("forked",))
        caller.start()
        assert wait_for(transport.is_calling)
        assert "forked while a call was running" in in_child(lambda: client.calibration("forked"))
        assert "forked while a call was running" in in_child(lambda: calibd.Client(own_server.grpc))
    caller.join()
    assert client.calibration("forked").observations == 1 + 10 + 10 + 10 + 20


def test_a_repeated_stream_with_a_key_counts_once(client, model):
    predictions, labels = calibrated(100)
    for rows in (60, 100):
        with client.stream(model, idempotency_key="run-7") as stream:
            for i in range(0, rows, 10):
                stream.send(predictions[i:i + 10], labels[i:i + 10])
            if rows == 60:
                stream.flush()
                stream.cancel()
    assert client.calibration(model).observations == 100
    with pytest.raises(calibd.AlreadyExists, match="the idempotency_key run-7 was .* a new .*key` for"):
        with client.stream(model, idempotency_key="run-7") as stream:
            stream.send(predictions[::-1][:10], labels[:10])
    with pytest.raises(calibd.FailedPrecondition, match="run-7 was finished, .* another key") as raised:
        with client.stream(model, idempotency_key="run-7") as stream:
            for i in range(0, 110, 10):
                stream.send(predictions[i % 100:][:10], labels[i % 100:][:10])
    assert raised.value.reason == "PRODUCER_ENDED" and "idempotency_key" in raised.value.remedy
    assert client.calibration(model).observations == 100


def test_a_repeated_stream_with_a_key_counts_labels_once(client):
    client.create_model("keyed-labels", 3, label_grace=datetime.timedelta(days=1))
    predictions, labels = calibrated(20)
    for known in (0, 20):
        with client.stream("keyed-labels", idempotency_key="run-1") as stream:
            stream.send(predictions, ids=range(20))
            stream.label(range(20), labels)
        counts = stream.counts
        assert (counts.accepted_rows, counts.duplicate_rows) == (20 - known, known)
        # The outcomes of labels that an earlier stream has sent are not known.
        assert (counts.accepted_labels, counts.matched_labels) == (20, None if known else 20)
        assert counts.repeated_labels == (None if known else 0)
    assert client.calibration("keyed-labels").label_arrivals.labels.matched == 20


def test_a_newer_epoch_fences_the_stream(client, model):
    predictions, labels = calibrated(10)
    older = client.stream(model, producer_id="one")
    with client.stream(model, producer_id="one", epoch=np.int64(1)) as newer:
        newer.send(predictions, labels)
    with pytest.raises(calibd.Aborted) as raised:
        older.send(predictions, labels)
        older.finish()
    assert raised.value.reason == "FENCED" and "Stop one" in raised.value.remedy
    assert client.calibration(model).observations == 10


def test_streams_share_connections_which_end_with_them(own_server):
    # The server accepts 256 connections from one address.
    streams_count = 300
    port = int(own_server.grpc.rpartition(":")[2])

    def open_connections():
        sockets = [line.split() for line in
                   pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
        # 01: established.
        return sum(one[1].endswith(f":{port:04X}") and one[3] == "01" for one in sockets)

    client = calibd.Client(own_server.grpc)
    client.create_model("shared", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(10)
    streams = [client.stream("shared") for _ in range(streams_count)]
    # The server may still hold the socket of a repeated handshake.
    assert wait_for(lambda: open_connections() <= 1 + -(-streams_count // 8), 60)
    for stream in streams:
        stream.send(predictions, labels)
    for stream in streams[1:]:
        stream.finish()
    # The connection of a stream stays, although others on it have ended.
    streams[0].send(predictions, labels)
    streams[0].finish()
    assert sum(stream.counts.accepted_rows for stream in streams) == 10 * (streams_count + 1)
    assert sum(stream.counts.reconnects for stream in streams) == 0
    assert wait_for(lambda: open_connections() <= 1, 60)


def test_opening_a_stream_fails_for_an_unknown_model_and_an_absent_server(client):
    with pytest.raises(calibd.NotFound):
        client.stream("unknown")
    with pytest.raises(calibd.Unavailable, match="open the stream within 0.5 s: failed to connect"):
        calibd.Client("127.0.0.1:1", timeout=0.5).stream("unknown")


def test_numbered_columns_are_matched_to_the_classes_by_number(client):
    client.create_model("numbered", 3, bandwidth=BANDWIDTH)
    predictions, labels = calibrated(200)
    frame = pd.DataFrame(predictions)[[2, 0, 1]]
    with client.stream("numbered") as stream:
        stream.send(frame, labels)
        stream.send(frame.rename(columns=str), labels)
    accuracy = (predictions.argmax(axis=1) == labels).mean()
    assert client.calibration("numbered").scores.accuracy == accuracy


def test_classes_sent_as_probabilities_are_warned_of_once(client, caplog):
    classes = np.arange(30) % 2
    with caplog.at_level(logging.WARNING, "calibd"):
        for model, first in (("whole", classes), ("whole-late", np.r_[0.5, classes[1:]])):
            client.create_model(model, 2)
            with client.stream(model) as stream:
                for part in range(3):
                    stream.send(first if part == 0 else classes, classes)
        client.create_model("whole-single", 2)
        for label in classes.tolist():
            client.observe("whole-single", float(label), label)
        with client.stream("whole-tree", 2) as stream:
            stream.send(np.eye(2)[classes[:19]], classes[:19])
    warnings = [record.getMessage() for record in caplog.records]
    assert [warning.split(":")[0] for warning in warnings] == ["models/whole", "models/whole-single"]
    assert "are 0 or 1. If these are predicted classes, the answers are wrong" in warnings[0]


def test_values_a_rounding_away_from_a_probability_are_counted(client):
    client.create_model("rounded", 2)
    just_above = np.nextafter(np.float32(1), np.float32(2))
    with client.stream("rounded") as stream:
        stream.send([[1.00000012, -1.2e-7], [0.25, 0.75]], [0, 1])
        stream.send(np.array([just_above, -1e-7], np.float32), [1, 0])
        with pytest.raises(calibd.InvalidArgument, match=r"rows\[4\].probabilities\[0\] is 1.0001"):
            stream.send([[1.0001, 0]], [0])
    assert stream.counts.accepted_rows == 4
    client.observe("rounded", just_above, 1)
    assert client.calibration("rounded").scores.accuracy == 1
    assert client.calibration("rounded").observations == 5


def test_columns_in_the_order_of_texts_are_matched_by_number(client):
    predictions, labels = calibrated(200, classes=12)
    frame = pd.DataFrame(predictions).add_prefix("prediction_").sort_index(axis=1)
    assert list(frame.columns[:4]) == ["prediction_0", "prediction_1", "prediction_10", "prediction_11"]
    named = [f"species {k}" for k in range(12)]
    for model, classes in (("text-order", 12), ("text-order-named", named)):
        client.create_model(model, classes, bandwidth=BANDWIDTH)
        with client.stream(model) as stream:
            stream.send(frame, labels)
        accuracy = (predictions.argmax(axis=1) == labels).mean()
        assert client.calibration(model).scores.accuracy == accuracy


def test_columns_are_named_like_the_classes_after_one_text(client):
    client.create_model("after-text", ["no", "yes"], bandwidth=BANDWIDTH)
    frame = pd.DataFrame({".pred_class": ["no", "yes"], ".pred_yes": [0.2, 0.9], ".pred_no": [0.8, 0.1]})
    with client.stream("after-text") as stream:
        stream.send(frame, ["no", "yes"])
        stream.send(frame[[".pred_yes", ".pred_no"]], ["no", "yes"])
        both = frame.assign(prob_no=0.5, prob_yes=0.5)
        with pytest.raises(calibd.InvalidArgument, match=r"have the shape|cannot be read as numbers"):
            stream.send(both, ["no", "yes"])
    assert client.calibration("after-text").scores.accuracy == 1


def test_counts_are_right_while_a_call_waits_for_room(own_server):
    predictions, labels = calibrated(200_000)
    stream = calibd.Client(own_server.grpc).stream("waiting", 3, max_buffer_bytes=1)
    caller = threading.Thread(target=lambda: pytest.raises(
        calibd.Cancelled, stream.send, predictions, labels))
    with own_server.frozen():
        caller.start()
        assert wait_for(lambda: stream.counts.rows, 60)
        assert stream.counts.rows < len(predictions)
        stream.cancel()
    caller.join()
