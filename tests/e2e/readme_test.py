"""What README.md and the pages of docs show is what happens.

    readme_test.py CALIBD CALIBCTL PYTHON_PACKAGE

The ```sh blocks of a page after a line <!-- run --> are run in order, as a user would type them, against
one server for all pages: a reader may follow several, so each page has models of its own. Each ```text
block after <!-- output --> must be the output of the block before it. Numbers that differ from run to run
are compared as such: times and addresses. A block after <!-- input NAME --> is a file for them. The ```
blocks after <!-- file PATH --> must be a part of that file, as it is built and run by examples_test. The
```python blocks after <!-- run python --> are run too, those of docs/python.md as one program.
docs/example.md shows the output of a program of client/python/examples. Other tests check the answers of
docs/http.md and docs/kserve.md, and run docs/clients.md and docs/cpp.md. Every other block says why it is
not run. The README shows a model of deploy/run; readme_picture.py and concepts_picture.py draw
the pictures of docs/concepts.md.
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
from json_server import JsonServer  # noqa: E402

CALIBD, CALIBCTL, PYTHON_PACKAGE = (sys.argv.pop(1) for _ in range(3))
README = (ROOT / "README.md").read_text(encoding="utf-8")
# A newcomer reads it in one go.
README_LINES = 200
PICTURE_BYTES = 150_000
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
MARKED_BLOCK = re.compile(r"^<!-- (run|input|output|file)(?: (\S+))? -->\n```\w*\n(.*?)^```$",
                          re.M | re.S)
MARK = re.compile(r"<!-- (run|input|output|file|output of|not run:)( .+)? -->")
# A fitted classifier and its data, which the README uses.
CLASSIFIER = """
import numpy
class classifier:
    predict_proba = staticmethod(lambda features: features)
X = numpy.random.default_rng(1).dirichlet(numpy.ones(10), 700)
y = (X.cumsum(axis=1) < numpy.random.default_rng(2).random((700, 1))).sum(axis=1)
"""
# Predictions and a temperature, which docs/recalibrate.md uses.
RECALIBRATED = """
import numpy
p, T = numpy.random.default_rng(1).dirichlet(numpy.ones(3), 50), 2.5
"""
VOLATILE = ((re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z?| UTC)"), "TIME"),
            (re.compile(r"row\s+came (just now|\d+s ago)"), "AGE"),
            (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
            (re.compile(r"\d+(\.\d+)? m?s\b"), "DURATION"),
            # The rate is only shown if the duration is long enough.
            (re.compile(r" \([\d,]+ (rows|labels)/s\)"), ""))


def masked(text):
    for pattern, word in VOLATILE:
        text = pattern.sub(word, text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def anchors(page):
    """The anchors of the headings of a page, as readers of the page make them."""
    headings = re.findall(r"^#+ (.*)$", page, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class ReadmeTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(JsonServer(CALIBD))

    def test_the_readme_gives_the_output_shown(self):
        (simulation,) = re.findall(r"^ *(calibctl simulate .*)$",
                                   (ROOT / "deploy/run").read_text(encoding="utf-8"), re.M)
        self.check_commands(README, setup=f"for generator in M1 M2 M3; do {simulation}; done")
        self.run_python("-c", 'import calibd\n'
                        'assert calibd.Client().calibration("digits").observations == 700')
        for script, picture in (("readme_picture.py", "calibd.svg"), ("concepts_picture.py", "concepts.svg")):
            self.assertEqual(self.run_python(str(ROOT / "tests/e2e" / script)),
                             (ROOT / "docs/images" / picture).read_text(encoding="utf-8"),
                             f"{picture} is not what {script} prints: draw it again, as it says")

    def test_the_readme_opens_with_the_page(self):
        picture = re.search(r"!\[[^]]*\]\((docs/images/page-\w+\.png)\)", README)
        self.assertLess(README[:picture.start()].count("\n"), 10)
        self.assertLess((ROOT / picture[1]).stat().st_size, PICTURE_BYTES)

    def test_the_readme_is_short(self):
        self.assertLessEqual(len(README.splitlines()), README_LINES)

    def test_the_pages_about_http_have_models_of_their_own(self):
        for page in ("http.md", "kserve.md"):
            self.server.run_documented(page)

    def test_the_programs_of_the_page_about_cpp_have_models_of_their_own(self):
        names = re.findall(r'ModelName\("(.*?)"\)', (ROOT / "docs/cpp.md").read_text(encoding="utf-8"))
        self.assertTrue(names)
        for page in PAGES:
            if page.name != "cpp.md":
                self.assertNotRegex(page.read_text(encoding="utf-8"),
                                    rf"[\"'/ ]({'|'.join(names)})[\"'/: ]", page.name)

    def test_the_evaluation_of_classes_is_as_shown(self):
        self.check_commands((ROOT / "docs/evaluate.md").read_text(encoding="utf-8"))

    def test_the_comparison_gives_the_output_shown(self):
        self.check_commands((ROOT / "docs/compare.md").read_text(encoding="utf-8"))

    def test_the_losses_have_the_values_shown(self):
        self.check_commands((ROOT / "docs/losses.md").read_text(encoding="utf-8"))

    def test_the_page_about_decisions(self) -> None:
        self.check_commands((ROOT / "docs/decisions.md").read_text(encoding="utf-8"))

    def test_a_change_since_the_reference_is_found_as_shown(self) -> None:
        self.check_commands((ROOT / "docs/changed.md").read_text(encoding="utf-8"))

    def test_the_estimates_are_as_shown(self) -> None:
        self.check_commands((ROOT / "docs/estimate.md").read_text(encoding="utf-8"))

    def test_the_evaluation_of_forecasts_is_as_shown(self):
        page = (ROOT / "docs/evaluate-forecasts.md").read_text(encoding="utf-8")
        self.check_commands(page)

    def test_the_evaluation_of_labels_is_as_shown(self):
        self.check_commands((ROOT / "docs/multilabel.md").read_text(encoding="utf-8"))

    def test_the_forecasts_get_the_verdict_shown(self):
        self.check_commands((ROOT / "docs/forecasts.md").read_text(encoding="utf-8"))

    def test_the_page_about_the_page_and_reports(self):
        self.check_commands((ROOT / "docs/page.md").read_text(encoding="utf-8"))

    def test_the_page_about_files(self):
        self.check_commands((ROOT / "docs/files.md").read_text(encoding="utf-8"))

    def test_the_temperature_is_applied_as_the_page_about_repair_says(self):
        page = (ROOT / "docs/recalibrate.md").read_text(encoding="utf-8")
        ((kind, language, block),) = MARKED_BLOCK.findall(page)
        self.assertEqual((kind, language), ("run", "python"))
        # The temperature is that of the softmax of the logarithms.
        check = """
expected = numpy.exp(numpy.log((p + 1e-5 / 3) / (1 + 1e-5)) / T)
numpy.testing.assert_allclose(q, expected / expected.sum(axis=1, keepdims=True))
"""
        self.run_python("-c", RECALIBRATED + block + check)

    def check_commands(self, page, setup=""):
        """Runs a command, and then the blocks of a page, in one folder."""
        output = None
        ran = 0
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, CALIBD_SERVER=self.server.grpc, PATH=os.pathsep.join(
                (str(pathlib.Path(CALIBCTL).parent), os.environ["PATH"])))
            folder = pathlib.Path(folder)
            # The folder looks like a clone.
            (folder / "client").symlink_to(ROOT / "client")
            self.run_commands(setup, folder, environment)
            for kind, argument, block in MARKED_BLOCK.findall(page):
                if argument == "python":
                    self.run_python("-c", CLASSIFIER + block, cwd=folder)
                elif kind == "input":
                    (folder / argument).write_text(block, encoding="utf-8")
                elif kind == "run":
                    output = self.run_commands(block, folder, environment)
                    ran += 1
                elif kind == "output":
                    self.assertEqual(masked(output), masked(block))
        self.assertGreater(ran, 0)

    def run_commands(self, commands, folder, environment):
        script = f'python3() {{ {sys.executable} -B "$@"; }}\n' + commands.replace(
            "127.0.0.1:8461", self.server.http)
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False)
        self.assertEqual(result.returncode, 0, commands + result.stdout + result.stderr)
        return result.stdout

    def run_python(self, *arguments, **options):
        result = subprocess.run(
            [sys.executable, "-B", *arguments], stdin=subprocess.DEVNULL, capture_output=True,
            env=dict(os.environ, CALIBD_SERVER=self.server.grpc, PYTHONPATH=PYTHON_PACKAGE), text=True,
            timeout=180, check=False, **options)
        self.assertEqual(result.returncode, 0, arguments[-1] + result.stdout + result.stderr)
        return result.stdout

    def test_the_worked_example_gives_the_output_shown(self):
        page = (ROOT / "docs/example.md").read_text(encoding="utf-8")
        program, shown = re.search(r"^<!-- output of (\S+) -->\n```text\n(.*?)^```$", page,
                                   re.M | re.S).groups()
        output = self.run_python(str(ROOT / program))
        statuses = dict(re.findall(r"^verdict +(\S+): (OVER_LIMIT|UNDECIDED|WITHIN_LIMIT)", output, re.M))
        # Alarms are numbered in the order in which they rise, which depends on when predictions mature.
        alarms = re.compile(r"(acknowledge\s+\S+) \d+")
        self.assertEqual(alarms.sub(r"\1", masked(output)), alarms.sub(r"\1", masked(shown)))
        self.assertEqual(statuses["handwriting"], "OVER_LIMIT")
        self.assertNotEqual(statuses["handwriting@recalibrated"], "OVER_LIMIT")

    def test_python_pages_are_programs_that_run(self):
        for name in ("python.md", "notebook.md"):
            page = (ROOT / "docs" / name).read_text(encoding="utf-8")
            blocks = [block for _, language, block in MARKED_BLOCK.findall(page) if language == "python"]
            self.assertGreater(len(blocks), 1)
            with tempfile.TemporaryDirectory() as folder:
                self.run_python("-c", "\n".join(blocks), cwd=folder)

    def test_code_is_that_of_the_example_files(self):
        shown = [(path, block) for kind, path, block in MARKED_BLOCK.findall(README)
                 if kind == "file"]
        self.assertTrue(shown)
        for path, block in shown:
            lines = [line.strip() for line in block.strip().splitlines()]
            source = "\n".join(line.strip() for line in
                               (ROOT / path).read_text(encoding="utf-8").splitlines())
            self.assertIn("\n".join(lines), source, path)

    def test_every_block_is_run_or_says_why_not(self):
        for page in PAGES:
            lines = page.read_text(encoding="utf-8").splitlines()
            fences = [number for number, line in enumerate(lines) if line.startswith("```")]
            for begin in fences[::2]:
                self.assertRegex(lines[begin - 1], MARK, f"{page.name}:{begin + 1}")

    def test_every_page_is_linked_from_the_readme(self):
        for page in (ROOT / "docs").glob("*.md"):
            self.assertIn(f"(docs/{page.name})", README)

    def test_links_lead_to_files_and_headings(self):
        for page in PAGES:
            links = re.findall(r"\]\((?!https?://)([^)#]*)(?:#([^)]+))?\)",
                               page.read_text(encoding="utf-8"))
            for path, heading in links:
                target = page.parent / path if path else page
                self.assertTrue(target.exists(), f"{page.name}: {path}")
                if heading:
                    self.assertIn(heading, anchors(target.read_text(encoding="utf-8")),
                                  f"{page.name}: {path}#{heading}")


if __name__ == "__main__":
    unittest.main()
