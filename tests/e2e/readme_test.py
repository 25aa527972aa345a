"""What README.md shows is what happens.

    readme_test.py CALIBD CALIBCTL

The ```sh blocks after a line <!-- run --> are run in order, as a user would type them, against a
fresh server; each ```text block after <!-- output --> must be the output of the block before it.
Numbers that differ from run to run are compared as such: times and addresses. The ``` blocks
after <!-- file PATH --> must be a part of that file, as it is built and run by examples_test.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402

CALIBD, CALIBCTL = sys.argv.pop(1), sys.argv.pop(1)
README = (ROOT / "README.md").read_text(encoding="utf-8")
MARKED_BLOCK = re.compile(r"^<!-- (run|output|file)(?: (\S+))? -->\n```\w*\n(.*?)^```$", re.M | re.S)
VOLATILE = ((re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z?| UTC)"), "TIME"),
            (re.compile(r"row came (just now|\d+s ago)"), "AGE"),
            (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
            (re.compile(r"\d+(\.\d+)? m?s\b"), "DURATION"),
            # Only shown if the duration is long enough.
            (re.compile(r" \([\d,]+ rows/s\)"), ""))


def masked(text):
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


class ReadmeTest(unittest.TestCase):
    maxDiff = None

    def test_commands_give_the_output_shown(self):
        output = None
        ran = 0
        with CalibdServer(CALIBD) as server, tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, CALIBD_SERVER=server.grpc, PATH=os.pathsep.join(
                (str(pathlib.Path(CALIBCTL).parent), os.environ["PATH"])))
            for kind, _, block in MARKED_BLOCK.findall(README):
                if kind == "run":
                    result = subprocess.run(
                        ["bash", "-euo", "pipefail", "-c", block], cwd=folder, env=environment,
                        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                        check=False)
                    self.assertEqual(result.returncode, 0, block + result.stdout + result.stderr)
                    output = result.stdout
                    ran += 1
                elif kind == "output":
                    self.assertEqual(masked(output), masked(block))
        self.assertGreater(ran, 0)

    def test_code_is_that_of_the_example_files(self):
        shown = [(path, block) for kind, path, block in MARKED_BLOCK.findall(README)
                 if kind == "file"]
        self.assertTrue(shown)
        for path, block in shown:
            lines = [line.strip() for line in block.strip().splitlines()]
            source = "\n".join(line.strip() for line in
                               (ROOT / path).read_text(encoding="utf-8").splitlines())
            self.assertIn("\n".join(lines), source, path)

    def test_links_to_files_lead_somewhere(self):
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
            for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text(encoding="utf-8")):
                self.assertTrue((page.parent / target).exists(), f"{page.name}: {target}")


if __name__ == "__main__":
    unittest.main()
