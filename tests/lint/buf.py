"""Fails when buf, whose rules proto/buf.yaml chooses, finds a problem in the contract.

    buf.py NPM_FOLDER

Skipped where npm is not installed. Also checks that buf finds the problems of damaged contracts.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from npm_tools import npm_tools  # noqa: E402

NPM_FOLDER = sys.argv.pop(1)


class BufTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        programs = list((npm_tools(NPM_FOLDER) / "@bufbuild").glob("buf-*/bin/buf"))
        if not programs:
            raise unittest.SkipTest("npm has no buf for this machine")
        cls.program = programs[0]

    def buf(self, *command, folder=ROOT / "proto"):
        result = subprocess.run([self.program, *command], cwd=folder, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                timeout=60, check=False)
        return result.returncode, result.stdout

    def test_the_contract_builds_and_follows_the_rules(self):
        for command in (("lint",), ("build", "--output", "/dev/null")):
            self.assertEqual(self.buf(*command), (0, ""), command)

    def test_problems_are_found(self):
        for command, right, wrong in (
                (("lint",), "int32 count = 1 [", "int32 myCount = 1 ["),
                (("build",), "int32 count = 1 [", "int33 count = 1 ["),
                (("breaking", "--against", str(ROOT / "proto")), "int32 count = 1 [",
                 "string count = 1 [")):
            with tempfile.TemporaryDirectory() as folder:
                proto = pathlib.Path(folder) / "proto"
                shutil.copytree(ROOT / "proto", proto)
                file = proto / "calibd/v1/model_service.proto"
                text = file.read_text(encoding="utf-8")
                self.assertIn(right, text)
                file.write_text(text.replace(right, wrong), encoding="utf-8")
                code, output = self.buf(*command, folder=proto)
                self.assertNotEqual(code, 0, command)
                self.assertRegex(output, "[cC]ount|int33", command)

    def test_the_lock_file_names_no_registry(self):
        text = (ROOT / "tests/npm/package-lock.json").read_text(encoding="utf-8")
        self.assertNotIn('"resolved"', text)
        packages = json.loads(text)["packages"]
        self.assertEqual([name for name in packages if name and not packages[name].get("integrity")], [])


if __name__ == "__main__":
    unittest.main()
