"""What the tests of hostile peers share: a server, its memory, and clients that behave well."""
import concurrent.futures
import pathlib
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402
from certificates import Authority  # noqa: E402
from wait_for import wait_for  # noqa: E402

_stubs = tempfile.TemporaryDirectory()
subprocess.run([ROOT / "client/generate-stubs", "python", _stubs.name], check=True)
sys.path.insert(0, _stubs.name)
import grpc  # noqa: E402
from http2_peer import Peer  # noqa: E402
from calibd.v1 import (calibration_service_pb2, calibration_service_pb2_grpc,  # noqa: E402,F401
                       ingest_service_pb2, ingest_service_pb2_grpc, model_service_pb2,
                       model_service_pb2_grpc, monitoring_pb2, store_service_pb2,
                       store_service_pb2_grpc)

MIB = 1 << 20
# The default of --call-memory-bytes, and what an attack may take besides.
CALL_MEMORY = 256 * MIB
MARGIN = 64 * MIB
# The deadline of a call that succeeds: far beyond what a busy machine needs.
CALL_SECONDS = 60

GET_MODEL = b"/calibd.v1.ModelService/GetModel"
LIST_MODELS = b"/calibd.v1.ModelService/ListModels"
OBSERVE = b"/calibd.v1.IngestService/Observe"
STREAM_OBSERVATIONS = b"/calibd.v1.IngestService/StreamObservations"
WATCH = b"/calibd.v1.CalibrationService/WatchCalibration"
BACKUP = b"/calibd.v1.StoreService/Backup"
VERIFY = b"/calibd.v1.StoreService/Verify"
HEALTH = b"/grpc.health.v1.Health/Check"


def open_channel(address):
    """A channel with a connection of its own, whatever other channels there are."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    if HostileCase.credentials is None:
        return grpc.insecure_channel(address, options=options)
    return grpc.secure_channel(address, HostileCase.credentials, options=options)


class Neighbour(threading.Thread):
    """A well-behaved client that calls all the time, one call after the other.

    pause: seconds between two calls.
    """

    def __init__(self, address, pause=0.005):
        super().__init__(daemon=True)
        self._address = address
        self._pause = pause
        self._done = threading.Event()
        self.latencies = []   # seconds, of the calls that succeeded
        self.errors = []

    def run(self):
        with open_channel(self._address) as channel:
            models = model_service_pb2_grpc.ModelServiceStub(channel)
            while not self._done.is_set():
                start = time.monotonic()
                try:
                    models.ListModels(model_service_pb2.ListModelsRequest(page_size=1),
                                      timeout=CALL_SECONDS)
                    self.latencies.append(time.monotonic() - start)
                except grpc.RpcError as error:
                    self.errors.append(f"{error.code().name}: {error.details()}")
                self._done.wait(self._pause)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        # So many calls that a hundredth of them is two: one may fall behind by chance.
        wait_for(lambda: len(self.latencies) >= 200 or self.errors, 60)
        self._done.set()
        self.join()

    def p99(self):
        return statistics.quantiles(self.latencies, n=100)[98]


class HostileCase(unittest.TestCase):
    """Each test has a server of its own. arguments: those of the server.

    With --tls, credentials are those of channels, http_context is that of requests over HTTP, and
    tls_arguments are those of the server.
    """

    binary = None
    arguments = ()
    credentials = None
    http_context = None
    tls_arguments = ()

    def setUp(self):
        self.server = self.enterContext(CalibdServer(self.binary, *self.tls_arguments, *self.arguments))

    def channel(self):
        """A channel with a connection of its own, whatever other channels there are."""
        return self.enterContext(open_channel(self.server.grpc))

    def create_model(self, name="models/m", class_count=10, class_names=(), **declaration):
        model_service_pb2_grpc.ModelServiceStub(self.channel()).CreateModel(
            model_service_pb2.CreateModelRequest(model=model_service_pb2.Model(
                name=name, classes={"count": class_count, "names": class_names}, **declaration)),
            timeout=CALL_SECONDS)

    def assert_serves(self):
        """A new client is served."""
        with open_channel(self.server.grpc) as channel:
            model_service_pb2_grpc.ModelServiceStub(channel).ListModels(
                model_service_pb2.ListModelsRequest(page_size=1), timeout=CALL_SECONDS)

    def metrics(self):
        """The text of /metrics."""
        scheme = "http" if self.http_context is None else "https"
        with urllib.request.urlopen(f"{scheme}://{self.server.http}/metrics", timeout=CALL_SECONDS,
                                    context=self.http_context) as answer:
            return answer.read().decode()

    def resident(self, field):
        status = pathlib.Path(f"/proc/{self.server.pid}/status").read_text(encoding="ascii")
        return int(re.search(rf"{field}:\s+(\d+) kB", status)[1]) << 10

    def expect_memory(self, most):
        """Context manager: the server's peak exceeds its memory before by at most this."""
        return _MemoryBound(self, most)

    def seconds_without_cpu(self):
        """How long the server's threads were ready to run and had no CPU, added up."""
        waited = 0
        for task in pathlib.Path(f"/proc/{self.server.pid}/task").glob("*/schedstat"):
            try:
                waited += int(task.read_text(encoding="ascii").split()[1])
            except OSError:
                pass  # the thread has ended
        return waited / 1e9

    def assert_served_well(self, neighbour):
        """No call of the neighbour failed, and hardly one took a second, or as long as other
        processes kept the server waiting for a CPU."""
        waited = self.seconds_without_cpu()
        self.assertEqual(neighbour.errors, [])
        print(f"{self.id()}: p99 of the neighbour's {len(neighbour.latencies)} calls: "
              f"{neighbour.p99() * 1000:.0f} ms; the server had no CPU for {waited:.1f} s")
        self.assertLess(neighbour.p99(), 1 + waited)

    def expect_in_order(self, seconds=60):
        """SIGTERM ends the server with exit code 0 in this time, to which that is added during which other
        processes kept it waiting for a CPU. By default the time is far beyond the drain."""
        start, before = time.monotonic(), self.seconds_without_cpu()
        waited = 0
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            code = pool.submit(self.server.stop)
            while not concurrent.futures.wait([code], 0.05).done:
                waited = max(waited, self.seconds_without_cpu() - before)
        self.assertEqual(code.result(), 0, self.server.log()[-2000:])
        self.assertLessEqual(time.monotonic() - start, seconds + waited)


class _MemoryBound:
    def __init__(self, case, most):
        self._case = case
        self._most = most

    def __enter__(self):
        # Sets VmHWM back to what is resident now.
        pathlib.Path(f"/proc/{self._case.server.pid}/clear_refs").write_text("5", encoding="ascii")
        self._before = self._case.resident("VmRSS")

    def __exit__(self, kind, *_):
        if kind is None:
            grown = self._case.resident("VmHWM") - self._before
            print(f"{self._case.id()}: the server's memory grew by {grown / MIB:.0f} MiB")
            self._case.assertLessEqual(grown / MIB, self._most / MIB)


def use_tls(folder):
    """The servers and peers of all tests use TLS with certificates of clients."""
    authority = Authority(folder, "authority")
    certificate, key = authority.issue("server", names=["DNS:localhost", "IP:127.0.0.1"])
    client, client_key = authority.issue("client", names=["URI:spiffe://calibd.test/peer"])
    HostileCase.tls_arguments = ("--tls-certificate", certificate, "--tls-key", key,
                                 "--tls-client-ca", authority.certificate)
    HostileCase.credentials = grpc.ssl_channel_credentials(
        authority.certificate.read_bytes(), client_key.read_bytes(), client.read_bytes())
    for owner, name, protocol in ((Peer, "context", "h2"), (HostileCase, "http_context", "http/1.1")):
        context = ssl.create_default_context(cafile=authority.certificate)
        context.check_hostname = False
        context.set_alpn_protocols([protocol])
        context.load_cert_chain(client, client_key)
        setattr(owner, name, context)


def main():
    HostileCase.binary = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        if "--tls" in sys.argv:
            sys.argv.remove("--tls")
            use_tls(folder)
        unittest.main(verbosity=2)
