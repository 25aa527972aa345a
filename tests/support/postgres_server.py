"""A real PostgreSQL server for tests, in a temporary folder, which is reached by a socket there."""
import os
import pathlib
import shutil
import subprocess
import tempfile

from wait_for import wait_for

# PostgreSQL refuses to run as root.
USER = "postgres"


def programs():
    """The folder of the programs of the newest installed version, or None."""
    return max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), default=None)


class PostgresServer:
    """Context manager: a server with the database "calibd", in which `binary` makes a store.

    connection: of calibd. Requires programs().
    """

    def __init__(self, binary):
        self._folder = tempfile.TemporaryDirectory()
        self._user = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups") if os.geteuid() == 0 else ()
        if self._user:
            shutil.chown(self._folder.name, USER, USER)
        self._data = f"{self._folder.name}/data"
        self._run("initdb", "--pgdata", self._data, "--username", "owner", "--auth", "trust",
                  "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
        self._server = subprocess.Popen(
            [*self._user, programs() / "postgres", "-D", self._data, "-k", self._folder.name,
             "-c", "listen_addresses=", "-c", "shared_buffers=32MB"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert wait_for(lambda: self._try("pg_isready", "-h", self._folder.name) == 0)
            self._run("createuser", "-h", self._folder.name, "-U", "owner", "calibd")
            self._run("createdb", "-h", self._folder.name, "-U", "owner", "calibd")
            self.connection = f"host={self._folder.name} dbname=calibd user=calibd"
            subprocess.run([binary, "migrate", "--postgres", self.connection.replace("user=calibd", "user=owner"),
                            "--grant", "calibd"], check=True, stdout=subprocess.DEVNULL)
        except BaseException:
            self.stop()
            raise

    def _try(self, program, *arguments):
        return subprocess.run([*self._user, programs() / program, *arguments], stdout=subprocess.DEVNULL,
                              cwd="/", check=False).returncode

    def _run(self, program, *arguments):
        code = self._try(program, *arguments)
        assert code == 0, f"{program} ends with {code}"

    def stop(self):
        """Ends the server, as a power cut does that keeps the disk."""
        if self._server.poll() is None:
            # It is in the middle of a start at worst.
            self._try("pg_ctl", "stop", "-D", self._data, "-m", "immediate")
            self._server.wait(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._folder.cleanup()
