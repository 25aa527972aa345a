"""Debian's Chromium, driven by playwright-core."""
import json
import pathlib
import shutil
import subprocess
import unittest

BRIDGE = pathlib.Path(__file__).with_name("browser.mjs")


class Browser:
    """Context manager. modules: a node_modules with the packages of page/package.json. origin: that of
    the server; requests to others are faults.
    """

    def __init__(self, modules, origin):
        if not pathlib.Path("/usr/bin/chromium").exists() or shutil.which("node") is None:
            raise unittest.SkipTest("Chromium is not installed: deploy/install-packages npm")
        self._process = subprocess.Popen(
            ["node", str(BRIDGE), str(pathlib.Path(modules).resolve()), origin], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, code):
        """Runs the body of an asynchronous JavaScript function of `page` (see browser.mjs), and returns
        its value.
        """
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the browser has ended"
        answer = json.loads(line)
        assert "error" not in answer, f"{answer.get('error')}\nin: {code}"
        return answer["value"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
