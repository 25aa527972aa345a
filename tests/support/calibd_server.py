"""A real calibd for tests: a process on free loopback ports."""
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from wait_for import wait_for


class CalibdServer:
    """Context manager: starts `binary`, waits until it serves, stops it by SIGTERM.

    grpc, http: its addresses, "127.0.0.1:PORT". pid: its process. environment: variables besides
    those of the test. The drain may take 40 s unless these say otherwise: its default is too short for a
    machine that is busy with other tests. serves: whether the constructor waits until the server
    serves; a standby only listens.
    """

    def __init__(self, binary, *arguments, deadline_seconds=120, environment=None, serves=True):
        self._folder = tempfile.TemporaryDirectory()
        self._log = pathlib.Path(self._folder.name) / "log"
        self._log.touch()
        self._binary = binary
        self._arguments = arguments
        self._environment = environment or {}
        self._deadline_seconds = deadline_seconds
        self.grpc = self.http = "127.0.0.1:0"
        self._ready = pathlib.Path(self._folder.name) / "ready.json"
        if serves:
            self.start()
        else:
            self.launch()
            self._await_listening()

    def start(self):
        """Starts the server; after kill() again, with its addresses and its data."""
        self.launch()
        self.await_serving()

    def launch(self):
        """The same, but it may not serve."""
        self._ready.unlink(missing_ok=True)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [self._binary, "--listen", self.grpc, "--http-listen", self.http,
                 "--ready-file", str(self._ready), "--data-dir", str(pathlib.Path(self._folder.name) / "data"),
                 *self._arguments],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items()
                     if not name.startswith("CALIBD_")} | {"CALIBD_DRAIN_SECONDS": "40"} | self._environment)
        self.pid = self._process.pid

    def _await_listening(self):
        """Waits until the server listens, as its log says."""
        listens = re.compile(r"listens for gRPC on (\S+) and for HTTPS? on (\S+)\n")
        self._await(lambda: listens.search(self.log()))
        self.grpc, self.http = listens.search(self.log()).groups()

    def await_serving(self):
        """Waits until the server serves."""
        self._await(self._ready.exists)
        addresses = json.loads(self._ready.read_text(encoding="utf-8"))
        self.grpc = addresses["grpc"]
        self.http = addresses["http"]

    def _await(self, condition):
        deadline = time.monotonic() + self._deadline_seconds
        try:
            while not condition():
                self._check_alive(wait_seconds=0.02)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"calibd was not ready in {self._deadline_seconds} s:\n{self.log()}")
        except BaseException:
            self.stop()
            raise

    def kill(self):
        """Ends the server by SIGKILL."""
        self._process.kill()
        self._process.wait()

    def freeze(self):
        """Stops the server by SIGSTOP. A process is stopped when each of its threads has noticed the signal."""
        os.kill(self.pid, signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        assert wait_for(lambda: all(") T " in (task / "stat").read_text() for task in tasks.iterdir()))

    def thaw(self):
        """Lets a frozen server run again."""
        os.kill(self.pid, signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self):
        """A block during which the server is frozen."""
        try:
            self.freeze()
            yield
        finally:
            self.thaw()

    def _check_alive(self, wait_seconds):
        try:
            code = self._process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            return
        raise RuntimeError(f"calibd ended with exit code {code}:\n{self.log()}")

    def log(self):
        return self._log.read_text(encoding="utf-8")

    def stop(self):
        """Ends the server; returns its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(120)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._folder.cleanup()
