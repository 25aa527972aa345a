"""Memory runs out at one allocation after another while calibd takes rows and answers.

    allocation_failures_test.py CALIBD PRELOADED_LIBRARY PYTHON_PACKAGE [--full]

The server may answer with an error or end. Then the store opens again, and each batch counts once
after the client has repeated those that failed. --full goes over all allocations, which takes long.
"""
import collections
import ctypes
import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALIBD, LIBRARY, PACKAGE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
FULL = "--full" in sys.argv
if FULL:
    sys.argv.remove("--full")
sys.path[:0] = [str(ROOT / "tests/support"), PACKAGE]
from wait_for import wait_for  # noqa: E402

from calibd.v1 import calibration_service_pb2 as calibration  # noqa: E402
from calibd.v1 import ingest_service_pb2 as ingest  # noqa: E402
from calibd.v1 import model_service_pb2 as models  # noqa: E402

CALL_SECONDS = 60
ROWS = 5
# gRPC and Asio end the process when they have no memory.
ENDED = (1, -signal.SIGABRT)
# gRPC 1.51 keeps the errors of calls in messages of libupb, and does not check whether it got one.
NULL_POINTER = re.compile(r"^null pointer in lib(grpc|upb)\.so\.\d+$", re.MULTILINE)


class Value(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("pointer", ctypes.c_void_p)]


def fail_allocation(process, number):
    """Makes this allocation of the process fail, counted from now on. 0: none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.sigqueue(process.pid, signal.SIGUSR2, Value(number=number)) != 0:
        raise OSError(ctypes.get_errno(), "sigqueue")


class AllocationFailuresTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.process = None
        # Batches that were sent, and calls that have failed and are to be repeated.
        self.batches, self.failed, self.next_id = 0, [], 0
        self.addCleanup(self.end)

    def start(self, kind=None):
        """Starts the server. kind: of the allocations that may fail; None for none."""
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("CALIBD_")}
        if kind is None:
            # The default is too short for a busy machine.
            environment["CALIBD_DRAIN_SECONDS"] = "40"
        else:
            environment |= {"LD_PRELOAD": LIBRARY, "CALIBD_ALLOCATION_FAULT": kind}
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [CALIBD, "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--ready-file", str(ready),
                 "--data-dir", str(self.folder / "data")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        self.assertTrue(wait_for(lambda: ready.exists() or self.process.poll() is not None, 120))
        self.assertIsNone(self.process.poll(), self.log()[-2000:])
        addresses = json.loads(ready.read_text(encoding="utf-8"))
        self.http = addresses["http"]
        self.channel = grpc.insecure_channel(addresses["grpc"])

    def end(self):
        """Ends the server. Returns its exit code."""
        if self.process is None:
            return 0
        self.channel.close()
        self.process.terminate()
        code = self.process.wait(timeout=120)
        self.process = None
        return code

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8", errors="replace")

    def unary(self, path, request, answer):
        return self.channel.unary_unary(
            f"/calibd.v1.{path}", request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=answer.FromString)(request, timeout=CALL_SECONDS)

    def prepare(self):
        """Makes a store with a model."""
        self.start()
        request = models.CreateModelRequest()
        request.model.name = "models/m"
        request.model.classes.count = 2
        request.model.classes.bandwidth.fixed = 0.5
        self.unary("ModelService/CreateModel", request, models.CreateModelResponse)
        for _ in range(4):
            self.observe()
        self.assertEqual(self.end(), 0)

    @staticmethod
    def fill(observations):
        for i in range(ROWS):
            observations.probabilities.values.extend((0.25 + 0.1 * i, 0.75 - 0.1 * i))
            observations.labels.append(i % 2)

    def send(self, call, batches):
        """Makes a call that counts batches, with an id of its own."""
        self.next_id += 1
        self.batches += batches
        try:
            call(self.next_id)
        except grpc.RpcError:
            self.failed.append((call, self.next_id))
            raise

    def observe(self):
        self.send(self.observe_as, 1)

    def observe_as(self, number):
        request = ingest.ObserveRequest(model="models/m", request_id=f"r{number}")
        self.fill(request.observations)
        self.unary("IngestService/Observe", request, ingest.ObserveResponse)

    def stream(self):
        self.send(self.stream_as, 2)

    def stream_as(self, number):
        """Sends two batches, or those that the server does not have yet."""
        opened, next_sequence = threading.Event(), []

        def requests():
            request = ingest.StreamObservationsRequest()
            request.open.model, request.open.producer_id = "models/m", f"p{number}"
            yield request
            if not opened.wait(CALL_SECONDS) or not next_sequence:
                return
            for sequence in range(next_sequence[0], 3):
                request = ingest.StreamObservationsRequest()
                request.batch.sequence = sequence
                self.fill(request.batch.observations)
                yield request
            yield ingest.StreamObservationsRequest(
                finish=ingest.StreamObservationsRequest.Finish(last_sequence=2))
        try:
            for answer in self.channel.stream_stream(
                    "/calibd.v1.IngestService/StreamObservations",
                    request_serializer=lambda one: one.SerializeToString(),
                    response_deserializer=ingest.StreamObservationsResponse.FromString)(
                        requests(), timeout=CALL_SECONDS):
                if answer.HasField("opened"):
                    next_sequence.append(answer.opened.next_sequence)
                    opened.set()
        finally:
            opened.set()

    def run_test(self):
        list(self.channel.unary_stream(
            "/calibd.v1.CalibrationService/RunTest", request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=calibration.RunTestResponse.FromString)(
                calibration.RunTestRequest(model="models/m", replicates=99), timeout=CALL_SECONDS))

    def watch(self):
        stream = self.channel.unary_stream(
            "/calibd.v1.CalibrationService/WatchCalibration",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=calibration.WatchCalibrationResponse.FromString)(
                calibration.WatchCalibrationRequest(model="models/m"), timeout=CALL_SECONDS)
        next(stream)
        stream.cancel()

    def read(self):
        return self.unary("CalibrationService/GetCalibration",
                          calibration.GetCalibrationRequest(model="models/m"),
                          calibration.GetCalibrationResponse)

    def read_over_http(self):
        connection = http.client.HTTPConnection(self.http, timeout=CALL_SECONDS)
        try:
            for path in ("/v1/models/m/calibration", "/v1/models/m/history", "/metrics"):
                connection.request("GET", path)
                connection.getresponse().read()
        finally:
            connection.close()

    def script(self):
        """The calls of clients. Returns the codes of those that failed."""
        codes = []
        for call in (self.observe, self.read, self.stream, self.run_test, self.watch, self.read_over_http):
            try:
                call()
            except grpc.RpcError as error:
                codes.append(error.code())
            except (OSError, http.client.HTTPException):
                codes.append(None)
        return codes

    def check_rows(self):
        """Repeats the calls that have failed. Then each batch has been counted once."""
        for call, number in self.failed:
            call(number)
        self.failed.clear()
        self.assertEqual(self.read().observations, self.batches * ROWS)

    def check_restart(self):
        """What the server has left can be opened without faults, and nothing is lost."""
        self.start()
        self.check_rows()
        self.assertEqual(self.end(), 0)

    def sweep(self, kind, numbers):
        """Fails one allocation after the other. Returns the exit codes of servers that ended, by number."""
        self.prepare()
        self.start(kind)
        exits, failed_calls, grpc_faults = {}, 0, 0
        for number in numbers:
            logged = len(self.log())
            fail_allocation(self.process, number)
            codes = self.script()
            failed_calls += len(codes)
            # A server that ends closes its connections first. Otherwise a single call was lost.
            lost = {None, grpc.StatusCode.UNAVAILABLE} & set(codes)
            if lost and wait_for(lambda: self.process.poll() is not None, 3):
                exits[number] = self.process.returncode
                if exits[number] == -signal.SIGSEGV and kind == "all":
                    self.assertRegex(self.log()[logged:], NULL_POINTER, f"number {number}")
                    grpc_faults += 1
                self.channel.close()
                self.process = None
                self.check_restart()
                self.start(kind)
        # The server has freed what a failed call had, and answers as before.
        fail_allocation(self.process, 0)
        self.assertEqual(self.script(), [])
        self.check_rows()
        self.assertEqual(self.end(), 0)
        self.check_restart()
        faults = self.log().count("allocation fault\n")
        print(f"{kind}: {faults} faults, {failed_calls} failed calls, servers that ended, by code: "
              f"{collections.Counter(exits.values())}", file=sys.stderr)
        self.assertGreater(faults, len(numbers) // 2)
        others = [code for code in exits.values() if code not in ENDED]
        self.assertEqual(others, grpc_faults * [-signal.SIGSEGV])
        return exits

    def test_allocations_of_the_program(self):
        numbers = range(1, 800) if FULL else [*range(1, 30, 5), *range(31, 640, 61)]
        exits = self.sweep("own", numbers)
        # Most of these servers answer with an error and live on.
        self.assertLess(len(exits), len(numbers) * 3 // 4)

    def test_allocations_of_all_libraries(self):
        self.sweep("all", range(1, 2500) if FULL else range(1, 2000, 171))

    def test_allocations_of_the_drain(self):
        self.prepare()
        exits = {}
        for number in range(1, 1500) if FULL else range(1, 1200, 171):
            self.start("own")
            self.observe()
            fail_allocation(self.process, number)
            exits[number] = self.end()
            self.check_restart()
        print(f"drain: exits: {collections.Counter(exits.values())}", file=sys.stderr)
        self.assertGreater(self.log().count("allocation fault\n"), 0)
        self.assertLessEqual(set(exits.values()), {0, *ENDED})


if __name__ == "__main__":
    unittest.main()
