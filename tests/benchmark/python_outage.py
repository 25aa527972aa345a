"""Measures what a service with a Monitor notices of an outage of calibd.

    PYTHONPATH=build/test/python python3 tests/benchmark/python_outage.py build/test/bin [SECONDS]

Threads run 500 handlers a second while calibd works, and then while it is killed, frozen by SIGSTOP, or
refuses the rows because the model does not exist. Prints the median and the 99th percentile of the
duration of a handler in both times, and of observe() alone, and checks that calibd then has counted
each row once that was not dropped, and knows the number of the dropped ones.
"""
import os
import pathlib
import re
import statistics
import sys
import threading
import time

import numpy as np

import calibd

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from calibd_server import CalibdServer  # noqa: E402

BINARIES = pathlib.Path(sys.argv[1])
SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 75
BEFORE_SECONDS = 20
THREADS = 4
# Calls a second of each thread.
RATE = 125
CLASSES = 10
# It overflows in the outage, which is a part of what is measured.
BUFFER_BYTES = 10 << 20


def run_handlers(monitor, seconds):
    """The seconds of the handlers and of observe() in them."""
    handlers, observes = [], []
    weights = np.random.default_rng(1).normal(size=(64, CLASSES))

    def serve(seed):
        random = np.random.default_rng(seed)
        end = time.perf_counter() + seconds
        due = time.perf_counter()
        while due < end:
            due += random.exponential(1 / RATE)
            time.sleep(max(due - time.perf_counter(), 0))
            begin = time.perf_counter()
            logits = random.normal(size=64) @ weights
            probabilities = np.exp(logits - logits.max())
            probabilities /= probabilities.sum()
            label = int(random.integers(CLASSES))
            before = time.perf_counter()
            monitor.observe(probabilities, label)
            after = time.perf_counter()
            observes.append(after - before)
            handlers.append(after - begin)

    threads = [threading.Thread(target=serve, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return handlers, observes


def milliseconds(seconds):
    """The median and the 99th percentile."""
    return (f"{1e3 * statistics.median(seconds):.3f} and "
            f"{1e3 * statistics.quantiles(seconds, n=100)[98]:.3f} ms")


def outage(kind):
    with CalibdServer(BINARIES / "calibd") as server, calibd.Client(server.grpc) as client:
        client.create_model("up", CLASSES)
        client.create_model("model", CLASSES)
        with calibd.Monitor("up", server.grpc, close_timeout=60) as monitor:
            before = run_handlers(monitor, BEFORE_SECONDS)
        # A model that does not exist refuses the rows; the stream that is open notices nothing else.
        monitor = calibd.Monitor("late" if kind == "refusing" else "model", server.grpc,
                                 max_buffer_bytes=BUFFER_BYTES)
        monitor.observe(np.full(CLASSES, 1 / CLASSES), 0)
        if kind != "refusing":
            monitor.flush(60)
        if kind == "killed":
            server.kill()
        elif kind == "frozen":
            server.freeze()
        during = run_handlers(monitor, SECONDS)
        begin = time.perf_counter()
        if kind == "killed":
            server.start()
        elif kind == "frozen":
            server.thaw()
        else:
            client.create_model("late", CLASSES)
        monitor.flush(120)
        healed = time.perf_counter() - begin
        counts = monitor.close(60)
        answer = client.calibration("late" if kind == "refusing" else "model")
        assert counts.rows == len(during[0]) + 1
        assert answer.observations == counts.accepted_rows == counts.rows - counts.dropped_rows
        assert answer.dropped_rows == counts.dropped_rows
    print(f"{kind:9} handler p50 and p99 {milliseconds(before[0])} before, "
          f"{milliseconds(during[0])} in the outage; observe {milliseconds(before[1])} before, "
          f"{milliseconds(during[1])} in the outage; of {counts.rows} rows {counts.accepted_rows} "
          f"counted once, {counts.dropped_rows} dropped and reported; {healed:.1f} s until all were "
          "counted", flush=True)


def machine():
    """The processor, and how busy it is."""
    name = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    return (f"{name[1] if name else 'unknown processor'}, {os.cpu_count()} cores, load "
            f"{os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    print(machine(), flush=True)
    for one in ("killed", "frozen", "refusing"):
        outage(one)
