"""Reports of calibctl, opened as files in a browser after the server has ended.

    report_test.py CALIBD CALIBCTL NPM_FOLDER

Skipped where Chromium or npm is not installed.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from json_server import JsonServer  # noqa: E402
from npm_tools import npm_tools  # noqa: E402
from page_models import HOSTILE, PageModels, tempered  # noqa: E402
from view_numbers import SHOWN_PARTS, cells, tables_of, unknown_numbers  # noqa: E402

CALIBD, CALIBCTL, NPM_FOLDER = (sys.argv.pop(1) for _ in range(3))
# A page of A4 without its margins, in pixels.
PAPER = 702
# A model of each kind, and what is to be seen of it in a chart.
MODELS = {"fraud": "#reliability", "credit": "#groups", "weather": "#heat-map",
          "topics": "#label-diagram", "demand": "#pit", "newcomer": "#data", "markup": "#groups",
          "archive@2024-11": "#reliability"}
FILES = {"classes": "#lenses", "forecasts": "#pit", "labels": "#label-diagram"}
NAMES = (*MODELS, *FILES)


class ReportTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        modules = npm_tools(NPM_FOLDER, ROOT / "page")
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.answers = {}
        with JsonServer(CALIBD) as server:
            models = PageModels(server)
            models.declare()
            models.stream()
            for name in MODELS:
                cls.report_model(server, name)
        cls.report_files()
        # Files have no origin.
        cls.browser = cls.enterClassContext(Browser(modules, "null"))

    @classmethod
    def calibctl(cls, *arguments):
        done = subprocess.run([CALIBCTL, *map(str, arguments), "--output", "json"], capture_output=True,
                              text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @classmethod
    def report_model(cls, server, name):
        served = ("--server", server.grpc)
        file = cls.folder / f"{name}.html"
        written = cls.calibctl("report", name, "-o", file, *served)
        assert written == {"file": str(file), "sizeBytes": str(file.stat().st_size)}, written
        answers = {"show": cls.calibctl("show", name, *served),
                   "history": cls.calibctl("history", name, "--from", "2d", *served)}
        model = cls.calibctl("model", "show", name, *served)
        if "classes" in model and int(answers["show"]["windowObservations"]) > 1:
            count = int(model["classes"]["count"])
            classes = [1] if count == 2 else range(count)
            answers["evaluate"] = cls.calibctl(
                "evaluate", "--model", name, "--replicates", "0", "--consistency-replicates", "0",
                "--cme-locations", "0", "--seed", "1", "--reliability-classes",
                ",".join(map(str, classes)), *served)
            answers["estimate"] = cls.calibctl("estimate", "--model", name, "--seed", "1", *served)
        answers["model"] = model
        cls.answers[name] = answers

    @classmethod
    def report_files(cls):
        generator = np.random.default_rng(5)
        stated = generator.beta(0.7, 1.5, (1500, 3))
        held = generator.random((1500, 3)) < stated ** [1, 1, 2.2]
        right = generator.dirichlet([1, 1, 1], 1500)
        truth = (right.cumsum(axis=1) > generator.random((1500, 1))).argmax(axis=1)
        kinds = np.array(["sun", "rain", HOSTILE])
        mean = generator.normal(20, 5, 1500)
        outcome = mean + 1.5 * generator.normal(size=1500)
        regions = generator.choice(["north", "south"], 1500)
        rows = {"classes": [[*kinds, "truth", "region"],
                            *zip(*tempered(right, 1.8).T, kinds[truth], regions)],
                "forecasts": [["mean", "standard_deviation", "outcome"],
                              *zip(mean, np.ones(1500), outcome)],
                "labels": [["prob_wind", "prob_fog", "prob_hail", "label_wind", "label_fog", "label_hail"],
                           *np.hstack([stated, held])]}
        options = {"classes": ("evaluate", "--label-column", "truth", "--group-column", "region"),
                   "forecasts": ("evaluate-forecasts", "--normals"), "labels": ("evaluate-labels",)}
        for name, lines in rows.items():
            file = cls.folder / f"{name}.csv"
            text = "".join(",".join(map(str, line)) + "\n" for line in lines)
            file.write_text(text, encoding="utf-8")
            command, *others = options[name]
            arguments = [*others, file] if name == "forecasts" else [file, *others]
            cls.answers[name] = {command: cls.calibctl(command, *arguments, "--report",
                                                       cls.folder / f"{name}.html")}

    def setUp(self):
        self.browser.run("faults.length = 0; await page.setViewportSize({width: 1280, height: 720}); "
                         "await page.emulateMedia({colorScheme: 'light', media: 'screen'});")

    def show(self, name):
        """Opens a report. Nothing but the file is read."""
        address = (self.folder / f"{name}.html").as_uri()
        ready = {**MODELS, **FILES}[name]
        requests = self.browser.run(
            "await page.goto('about:blank'); const requests = []; "
            "const note = (request) => requests.push(request.url()); page.on('request', note); "
            f"await page.goto({json.dumps(address)}); await page.waitForSelector('{ready}'); "
            "await page.waitForFunction(() => !document.body.innerText.includes('reading…')); "
            "page.off('request', note); return requests;")
        self.assertEqual(requests, [address])

    def check_no_fault(self):
        self.assertEqual(self.browser.run("return faults;"), [])

    def read_tables(self):
        """The tables below the charts, by their titles, as texts."""
        return self.browser.run("""
            for (const one of await page.$$('figure summary')) await one.click();
            await page.waitForFunction(() => document.querySelectorAll('figure table').length ===
              document.querySelectorAll('figure').length);
            return await page.$$eval('figure [role=group] table', (tables) => Object.fromEntries(tables.map(
              (table) => [table.parentElement.ariaLabel, [...table.tBodies[0].rows].map((row) =>
                [...row.cells].map((cell) => cell.innerText))])));""")

    def test_each_number_is_that_of_calibctl(self):
        for name in NAMES:
            self.show(name)
            answers = self.answers[name]
            tables = {title: cells(rows) for title, rows in self.read_tables().items()}
            self.assertEqual(tables, tables_of(answers), name)
            self.assertEqual(unknown_numbers(self.browser.run(SHOWN_PARTS), answers), [], name)
            self.check_no_fault()

    def test_each_sentence_is_that_of_calibctl(self):
        for name in MODELS:
            self.show(name)
            shown = self.browser.run("return await page.innerText('main');")
            for line, value in self.answers[name]["show"]["reading"].items():
                # The age of the newest row grows.
                if isinstance(value, dict) and line != "data":
                    self.assertIn(value["text"], shown, (name, line))
        for name in FILES:
            self.show(name)
            shown = self.browser.run("return await page.innerText('.banner');").strip()
            data = self.browser.run("return JSON.parse(await page.textContent('#report'));")
            reading = (data.get("evaluation") or data["labels"])["reading"]
            self.assertEqual(shown, reading["verdict"]["text"])
            self.assertEqual(self.browser.run("return await page.locator('.banner.rank-7').count();"),
                             shown.startswith("OVER_LIMIT"))

    def test_the_span_and_the_class_can_be_chosen_without_a_server(self):
        self.show("fraud")
        self.browser.run("await page.locator('#history + figure select').last().selectOption('3'); "
                         "await page.waitForFunction(() => document.querySelectorAll("
                         "'#history + figure .bar.rows').length < 5); "
                         "await page.locator('#reliability + figure select').first().selectOption('fraud');")
        # A label has a diagram, in a report of a model and of a file.
        for name in ("topics", "labels"):
            self.show(name)
            self.browser.run("await page.locator('#label-diagram + figure select').selectOption({index: 1}); "
                             "await page.waitForSelector('#label-diagram + figure .bar.rows');")
        self.show("fraud")
        # Nothing can be changed.
        self.assertEqual(self.browser.run(
            "return await page.locator('button:not(.files button), form').count();"), 0)
        self.check_no_fault()

    def test_names_are_text_whatever_they_contain(self):
        self.show("markup")
        text = self.browser.run("return await page.innerText('#page');")
        self.assertIn("<b>bold</b>", text)
        self.assertIn(HOSTILE, text)
        self.assertEqual(self.browser.run(
            "return await page.locator('#page b, #page img, #page script').count();"), 0)
        self.check_no_fault()

    def test_only_its_own_script_and_style_are_allowed(self):
        self.show("markup")
        for kind, text in (("script", "document.title = 1"), ("style", "* { color: red }")):
            self.browser.run(f"await page.evaluate(() => {{ const one = document.createElement('{kind}'); "
                             f"one.textContent = '{text}'; document.head.append(one); }});")
        faults = self.browser.run("return faults;")
        self.assertEqual(len([one for one in faults if "Content Security Policy" in one]), 2, faults)
        self.assertEqual(self.browser.run("return await page.title();"), "markup – calibd")

    def test_axe_finds_nothing(self):
        for name in NAMES:
            self.show(name)
            for scheme, width in (("light", 1280), ("dark", 390)):
                self.browser.run(f"await page.emulateMedia({{colorScheme: '{scheme}'}}); "
                                 f"await page.setViewportSize({{width: {width}, height: 800}});")
                self.assertEqual(self.browser.run("return await findings();"), [], (name, scheme))

    def test_nothing_is_wider_than_the_window_or_the_paper(self):
        for name in NAMES:
            self.show(name)
            for media, width in (("screen", 1280), ("screen", 390), ("print", PAPER)):
                self.browser.run(f"await page.emulateMedia({{media: '{media}'}}); "
                                 f"await page.setViewportSize({{width: {width}, height: 800}});")
                # Charts follow the width.
                self.browser.run("await page.waitForFunction((width) => "
                                 f"document.documentElement.scrollWidth === width, {width});")
            # What paper has no use for.
            self.assertEqual(self.browser.run("return await page.locator('button:visible').count();"), 0)
            pdf = self.browser.run(
                "return (await page.pdf({preferCSSPageSize: true})).toString('latin1');")
            self.assertTrue(re.match(r"%PDF-.*%%EOF\s*$", pdf, re.S))


if __name__ == "__main__":
    unittest.main()
