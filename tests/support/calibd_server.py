"""A real calibd for tests: a process on free loopback ports."""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from wait_for import wait_for


class CalibdServer:
    """Context manager: starts `binary`, waits until it serves, stops it by SIGTERM.

    grpc, http: its addresses, "127.0.0.1:PORT". pid: its process. environment: variables besides
    those of the test. The drain may take 40 s unless these say otherwise: its default is too short for a
    machine that is busy with other tests.
    """

    def __init__(self, binary, *arguments, deadline_seconds=120, environment=None):
        self._folder = tempfile.TemporaryDirectory()
        self._log = open(pathlib.Path(self._folder.name) / "log", "w+", encoding="utf-8")
        self._binary = binary
        self._arguments = arguments
        self._environment = environment or {}
        self._deadline_seconds = deadline_seconds
        self.grpc = self.http = "127.0.0.1:0"
        self.start()

    def start(self):
        """Starts the server; after kill() again, with its addresses and its data."""
        ready = pathlib.Path(self._folder.name) / "ready.json"
        ready.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [self._binary, "--listen", self.grpc, "--http-listen", self.http,
             "--ready-file", str(ready), "--data-dir", str(pathlib.Path(self._folder.name) / "data"),
             *self._arguments],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            env={name: value for name, value in os.environ.items()
                 if not name.startswith("CALIBD_")} | {"CALIBD_DRAIN_SECONDS": "40"} | self._environment)
        self.pid = self._process.pid
        deadline = time.monotonic() + self._deadline_seconds
        try:
            while not ready.exists():
                self._check_alive(wait_seconds=0.02)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"calibd was not ready in {self._deadline_seconds} s:\n{self.log()}")
            addresses = json.loads(ready.read_text(encoding="utf-8"))
        except BaseException:
            self.stop()
            raise
        self.grpc = addresses["grpc"]
        self.http = addresses["http"]

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
        self._log.seek(0)
        return self._log.read()

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
        self._log.close()
        self._folder.cleanup()
