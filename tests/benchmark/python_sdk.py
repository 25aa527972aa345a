"""Measures the Python SDK beside the C++ SDK, which sends the same rows by `calibctl send`.

    PYTHONPATH=build/test/python python3 tests/benchmark/python_sdk.py build/test/bin [ROWS]

The runs alternate on one server, because the speed of a machine changes from second to second. Prints
the median rates, the CPU time of the Python process per row, and the duration of `observe`.
"""
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import grpc
import numpy as np

import calibd
from calibd.v1 import ingest_service_pb2 as ingest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from calibd_server import CalibdServer  # noqa: E402

BINARIES = pathlib.Path(sys.argv[1])
ROWS = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
CLASSES = 10
BATCH = 2048
RUNS = 3
CALLS = 300


def send_by_python(client, name, predictions, labels):
    """Returns the rows per second, and the CPU seconds of this process."""
    client.create_model(name, CLASSES)
    begin, cpu = time.perf_counter(), time.process_time()
    with client.stream(name) as stream:
        for i in range(0, len(labels), BATCH):
            stream.send(predictions[i:i + BATCH], labels[i:i + BATCH])
    return len(labels) / (time.perf_counter() - begin), time.process_time() - cpu


def send_by_cpp(server, name, folder):
    """Returns the rows per second of the whole command."""
    begin = time.perf_counter()
    output = subprocess.run(
        [BINARIES / "calibctl", "--server", server.grpc, "send", name, folder / "predictions.npy",
         folder / "labels.npy", "--label-base", "0", "--create"],
        check=True, capture_output=True, text=True).stdout
    rate = re.search(r"\(([\d,]+) rows/s\)", output)
    return float(rate[1].replace(",", "")) if rate else ROWS / (time.perf_counter() - begin)


def observe(server, client, predictions, labels):
    """Returns the seconds of each call, and those of the same calls by gRPC alone, in turns."""
    client.create_model("observe", CLASSES)
    channel = grpc.insecure_channel(server.grpc)
    call = channel.unary_unary(
        "/calibd.v1.IngestService/Observe",
        request_serializer=ingest.ObserveRequest.SerializeToString,
        response_deserializer=ingest.ObserveResponse.FromString)

    def plain(prediction, label):
        call(ingest.ObserveRequest(model="models/observe", observations=ingest.Observations(
            probabilities=ingest.DoubleValues(values=prediction.tolist()), labels=[label])), timeout=30)

    seconds = [], []
    for i in range(CALLS):
        for send, times in ((lambda *row: client.observe("observe", *row), seconds[0]),
                            (plain, seconds[1])):
            begin = time.perf_counter()
            send(predictions[i], int(labels[i]))
            times.append(time.perf_counter() - begin)
    channel.close()
    return sorted(seconds[0]), sorted(seconds[1])


def main():
    random = np.random.default_rng(1)
    predictions = random.dirichlet(np.ones(CLASSES), size=ROWS)
    labels = (predictions.cumsum(axis=1) < random.random((ROWS, 1))).sum(axis=1).clip(max=CLASSES - 1)
    python, cpp, cpu = [], [], []
    with tempfile.TemporaryDirectory() as name, CalibdServer(BINARIES / "calibd") as server:
        folder = pathlib.Path(name)
        np.save(folder / "predictions.npy", predictions)
        np.save(folder / "labels.npy", labels.astype(np.int32))
        client = calibd.Client(server.grpc)
        for run in range(RUNS):
            rate, seconds = send_by_python(client, f"python-{run}", predictions, labels)
            python.append(rate)
            cpu.append(seconds)
            cpp.append(send_by_cpp(server, f"cpp-{run}", folder))
        calls, plain = observe(server, client, predictions, labels)
    print(f"Python SDK   {statistics.median(python):12,.0f} rows/s, "
          f"{1e9 * statistics.median(cpu) / ROWS:.0f} ns of CPU a row")
    print(f"C++ SDK      {statistics.median(cpp):12,.0f} rows/s")
    print(f"observe      p50 {1e3 * calls[CALLS // 2]:.2f} ms, "
          f"p99 {1e3 * calls[CALLS * 99 // 100]:.2f} ms; the same by gRPC alone "
          f"p50 {1e3 * plain[CALLS // 2]:.2f} ms")


if __name__ == "__main__":
    main()
