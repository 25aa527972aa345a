"""Streams in processes that fork, end, or get a signal."""
import multiprocessing
import signal
import subprocess
import sys
import threading
import time

import pytest

import calibd
from calibd import forks
from wait_for import wait_for

from conftest import BANDWIDTH
from stream_test import in_child

ROW = [0.2, 0.3, 0.5]
FORKS = 10


def run(program, **arguments):
    """A process of this Python that runs a program."""
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **arguments)


@pytest.fixture(autouse=True)
def patient_forks(monkeypatch):
    """A busy machine takes more than two seconds to end the calls of other threads."""
    monkeypatch.setattr(forks, "_MAX_SECONDS", 60.0)


@pytest.fixture
def forked(client):
    """The name of a model that a test may use once."""
    name = f"forked-{time.monotonic_ns()}"
    client.create_model(name, 3, bandwidth=BANDWIDTH)
    return name


def test_each_forked_process_has_a_stream_of_its_own(client, server, forked):
    monitor = calibd.Monitor(forked, server.grpc)
    monitor.observe(ROW, 2)
    # Other streams and their calls survive too.
    with client.stream(forked) as stream:
        stream.send([ROW], [2])
        stream.flush()

        def observe():
            assert monitor.counts.rows == 0
            for _ in range(10):
                monitor.observe(ROW, 2)
            return monitor.close(60).accepted_rows

        for _ in range(FORKS):
            monitor.observe(ROW, 2)
            stream.send([ROW], [2])
            assert in_child(observe) == "10"
    assert monitor.close(60).accepted_rows == 1 + FORKS
    assert stream.counts.accepted_rows == 1 + FORKS
    assert client.calibration(forked).observations == 2 + 12 * FORKS


def test_forks_while_threads_observe_lose_and_double_nothing(client, server, forked):
    monitor = calibd.Monitor(forked, server.grpc)
    stop = threading.Event()

    def produce():
        while not stop.wait(0.0002):
            monitor.observe(ROW, 2)

    threads = [threading.Thread(target=produce) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            before = monitor.counts.accepted_rows
            assert wait_for(lambda: monitor.counts.accepted_rows > before)
            assert in_child(lambda: monitor.observe(ROW, 2) or monitor.close(60).accepted_rows) == "1"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    counts = monitor.close(60)
    assert counts.accepted_rows == counts.rows
    assert client.calibration(forked).observations == counts.rows + FORKS


def test_forks_while_other_threads_call_and_watch(client, server, forked):
    monitor = calibd.Monitor(forked, server.grpc, close_timeout=60)
    stop = threading.Event()
    calls = [0, 0]
    revisions = []

    def call(i):
        while not stop.is_set():
            client.observe(forked, ROW, 2)
            calls[i] += 1

    def watch():
        with calibd.Client(server.grpc) as watcher:
            for answer in watcher.watch(forked, min_interval=0.1):
                revisions.append(answer.revision)
                if stop.is_set():
                    return

    def use():
        monitor.observe(ROW, 2)
        client.observe(forked, ROW, 2)
        return next(client.watch(forked)).observations > 0 and monitor.close(60).accepted_rows

    threads = [threading.Thread(target=call, args=(i,)) for i in range(2)]
    threads.append(threading.Thread(target=watch))
    for thread in threads:
        thread.start()
    try:
        for _ in range(FORKS):
            before = sum(calls), len(revisions)
            # The threads of the parent go on after each fork.
            assert wait_for(lambda: sum(calls) > before[0] and len(revisions) > before[1])
            monitor.observe(ROW, 2)
            assert in_child(use) == "1"
        # A watch that its own thread forks continues in both processes.
        changes = client.watch(forked)
        next(changes)
        assert in_child(lambda: next(changes).observations > 0) == "True"
        assert next(changes).observations > 0
        changes.close()
    finally:
        stop.set()
        monitor.observe(ROW, 2)
        for thread in threads:
            thread.join()
    assert monitor.close(60).accepted_rows == FORKS + 1
    assert client.calibration(forked).observations == sum(calls) + 3 * FORKS + 1


def observe_in_worker(monitor):
    monitor.observe(ROW, 2)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_workers_of_multiprocessing_deliver_their_rows_at_their_end(client, server, forked, start):
    monitor = calibd.Monitor(forked, server.grpc, close_timeout=60)
    monitor.observe(ROW, 2)
    context = multiprocessing.get_context(start)
    workers = [context.Process(target=observe_in_worker, args=(monitor,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(100)
        assert worker.exitcode == 0
    monitor.close(60)
    assert client.calibration(forked).observations == 5


# A server of workers as gunicorn --preload: the master imports the application, forks workers and
# ends them by SIGTERM.
SERVICE = """
import os, signal, sys, threading
import calibd

monitor = calibd.Monitor("{model}", "{address}", close_timeout=60)

def serve():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    for _ in range(10):
        monitor.observe([0.2, 0.3, 0.5], 2)
    os.write(1, b"r")
    # The handler ends the process. A signal that comes just before a wait is handled after it.
    while True:
        threading.Event().wait(1)

workers = []
for _ in range(2):
    child = os.fork()
    if not child:
        serve()
    workers.append(child)
sys.stdin.read()
for worker in workers:
    os.kill(worker, signal.SIGTERM)
sys.exit(sum(os.waitpid(worker, 0)[1] for worker in workers))
"""


def test_workers_that_end_by_a_signal_deliver_their_rows(client, server, forked):
    service = run(SERVICE.format(model=forked, address=server.grpc), stdin=subprocess.PIPE)
    assert service.stdout.read(2) == "rr"
    _, log = service.communicate(timeout=100)
    assert service.returncode == 0, log
    assert client.calibration(forked).observations == 20


def test_a_signal_handler_may_observe(client, server, forked):
    monitor = calibd.Monitor(forked, server.grpc)
    handled = 0

    def handle(*_):
        nonlocal handled
        handled += 1
        monitor.observe(ROW, 2)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        rows = 0
        deadline = time.monotonic() + 60
        while (handled < 100 or rows < 1000) and time.monotonic() < deadline:
            monitor.observe(ROW, 2)
            rows += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    monitor.flush(60)
    counts = monitor.close(60)
    assert handled >= 100
    assert counts.accepted_rows == client.calibration(forked).observations == rows + handled


def test_the_end_of_a_process_waits_at_most_for_the_close_timeout(own_server):
    calibd.Client(own_server.grpc).create_model("frozen-end", 3)
    with own_server.frozen():
        process = run(f"""
import calibd
monitor = calibd.Monitor("frozen-end", "{own_server.grpc}", close_timeout=0.5)
monitor.observe([0.2, 0.3, 0.5], 2)
""")
        _, log = process.communicate(timeout=60)
    assert process.returncode == 0
    assert log == ("models/frozen-end: the stream was not closed, its newest 1 row may not be counted\n")


APPLICATION = """
import calibd
from calibd import forks

forks._MAX_SECONDS = 60.0
monitor = calibd.Monitor("{model}", "{address}", close_timeout=60)
# It sends before the workers are forked.
monitor.observe([0.2, 0.3, 0.5], 2)
monitor.flush(60)
client = calibd.Client("{address}")
assert client.calibration("{model}").observations == 1

def application(environment, start_response):
    monitor.observe([0.2, 0.3, 0.5], 2)
    client.observe("{model}", [0.2, 0.3, 0.5], 2)
    start_response("200 OK", [])
    return [b"done"]
"""


def test_an_application_of_gunicorn_with_preload_delivers_its_rows(client, server, forked, tmp_path):
    pytest.importorskip("gunicorn")
    import urllib.request
    (tmp_path / "service.py").write_text(APPLICATION.format(model=forked, address=server.grpc))
    socket = f"127.0.0.1:{_free_port()}"
    gunicorn = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--preload", "--workers", "2", "--bind", socket,
         "--chdir", str(tmp_path), "service:application"], stderr=subprocess.PIPE, text=True)
    try:
        def get():
            try:
                return urllib.request.urlopen(f"http://{socket}/", timeout=60).read() == b"done"
            except OSError:
                return False
        assert wait_for(get)
        assert all(get() for _ in range(19))
    finally:
        gunicorn.terminate()
        _, log = gunicorn.communicate(timeout=100)
    assert client.calibration(forked).observations == 41, log


def _free_port():
    import socket
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]
