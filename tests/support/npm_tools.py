"""The packages from npm, in the versions that a package-lock.json pins."""
import fcntl
import os
import pathlib
import shutil
import subprocess
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "npm"
FILES = ("package.json", "package-lock.json")
# npm reports these without a network, and behind a proxy whose certificate it does not know.
NO_REGISTRY = ("ENOTFOUND", "ECONNREFUSED", "EAI_AGAIN", "ETIMEDOUT", "ECONNRESET",
               "SELF_SIGNED_CERT_IN_CHAIN")


def npm_tools(folder, source=SOURCE):
    """Installs the packages that `source` lists, by default the tools of tests, in `folder` unless they are there, and
    returns its node_modules.

    Raises SkipTest where npm is not installed. Needs no network if they are there. Several tests
    may call it at the same time.
    """
    if shutil.which("npm") is None:
        raise unittest.SkipTest("npm is not installed: deploy/install-packages npm")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    modules, installed = folder / "node_modules", folder / "installed"
    wanted = "".join((source / name).read_text(encoding="utf-8") for name in FILES)
    with open(folder / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
            installed.unlink(missing_ok=True)
            for name in FILES:
                shutil.copy(source / name, folder)
            # None of the packages needs an installation script.
            result = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                                    cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                                    text=True, timeout=300, check=False,
                                    env=dict(os.environ, npm_config_update_notifier="false"))
            if any(reason in result.stderr for reason in NO_REGISTRY):
                raise unittest.SkipTest(f"npm reaches no registry:\n{result.stderr}")
            if result.returncode != 0:
                raise RuntimeError(f"npm ci failed:\n{result.stdout}{result.stderr}")
            installed.write_text(wanted, encoding="utf-8")
    return modules
