"""Each number that the page shows is one of calibctl --output json.

    page_numbers_test.py CALIBD CALIBCTL NPM_FOLDER

Skipped where Chromium or npm is not installed.
"""
import json
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from json_server import JsonServer  # noqa: E402
from npm_tools import npm_tools  # noqa: E402
from page_models import PageModels  # noqa: E402
from view_numbers import SHOWN_PARTS, unknown_numbers  # noqa: E402

CALIBD, CALIBCTL, NPM_FOLDER = (sys.argv.pop(1) for _ in range(3))
# What each model shows when the page has read everything, besides its tiles. Those with evaluations
# are computed.
LENSES = "#lenses + figure"
MODELS = {"fraud": LENSES, "churn": LENSES, "weather": "#heat-map", "triage": "#heat-map",
          "credit": LENSES, "intent": "#heat-map", "markup": "#heat-map", "topics": "#label-diagram",
          "demand": "#fan", "energy": "#pit", "rainfall": "#pit", "newcomer": "#data",
          "archive@2024-11": LENSES}
# A reader asks for these.
COMPUTED = "churn"


class PageNumbersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        modules = npm_tools(NPM_FOLDER, ROOT / "page")
        cls.server = cls.enterClassContext(JsonServer(CALIBD))
        models = PageModels(cls.server)
        models.declare()
        models.stream()
        cls.origin = f"http://{cls.server.http}"
        cls.browser = cls.enterClassContext(Browser(modules, cls.origin))

    def calibctl(self, *arguments):
        done = subprocess.run([CALIBCTL, *arguments, "--server", self.server.grpc, "--output", "json"],
                              capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def answers(self, name):
        model = self.calibctl("model", "show", name)
        answers = {"model": model, "show": self.calibctl("show", name),
                   "history": self.calibctl("history", name, "--from", "2d")}
        if "classes" in model and "insufficientData" not in answers["show"]:
            count = int(model["classes"]["count"])
            classes = [1] if count == 2 else range(count)
            answers["evaluate"] = self.calibctl(
                "evaluate", "--model", name, "--replicates", "0", "--consistency-replicates", "0",
                "--cme-locations", "0", "--seed", "1", "--reliability-classes",
                ",".join(map(str, classes)))
        return answers

    def show(self, path, ready):
        # The lenses are computed when a reader gets there.
        self.browser.run(f"await page.goto('about:blank'); await page.goto('{self.origin}/#/{path}'); "
                         "await page.waitForSelector('.banner, table.models tbody tr'); "
                         "await page.evaluate(() => scrollTo(0, document.body.scrollHeight)); "
                         f"await page.waitForSelector('{ready}'); await page.waitForFunction(() => "
                         "!/reading…|computing…/.test(document.body.innerText));")

    def check_numbers(self, answers, about):
        parts = self.browser.run(SHOWN_PARTS)
        self.assertEqual(unknown_numbers(parts, answers), [], about)
        self.assertEqual(self.browser.run("return faults;"), [], about)

    def test_each_number_of_a_model_is_that_of_calibctl(self):
        for name, ready in MODELS.items():
            path = "models/" + name.replace("@", "/versions/")
            self.show(path, ready)
            self.check_numbers(self.answers(name), name)

    def test_each_number_that_a_reader_asks_for_is_that_of_calibctl(self):
        self.show(f"models/{COMPUTED}", LENSES)
        self.browser.run(
            "for (const one of await page.$$('.compute button')) await one.click(); "
            "await page.click('#comparison ~ p button'); "
            "await page.locator('#comparison ~ p select').selectOption('models/churn/versions/2'); "
            "for (const part of ['.line.other', '#comparison ~ div', '#estimate ~ figure svg', "
            "'#recalibration ~ figure svg']) await page.waitForSelector(part); "
            "for (const one of await page.$$('summary')) await one.click();")
        answers = self.answers(COMPUTED)
        answers["estimate"] = self.calibctl("estimate", "--model", COMPUTED, "--seed", "1")
        answers["recalibrate"] = self.calibctl("recalibrate", "--model", COMPUTED)
        answers["compare"] = self.calibctl("compare", COMPUTED, "churn@2")
        answers["other"] = "churn@2"
        self.check_numbers(answers, COMPUTED)

    def test_each_number_of_the_list_is_that_of_calibctl(self):
        self.show("", "table.models tbody tr")
        models = {model["model"]: model for model in self.calibctl("list")["models"]}
        rows = self.browser.run(
            "return await page.$$eval('table.models tbody tr', (rows) => rows.map((row) => ["
            "row.querySelector('a').hash.slice(2), [...row.querySelectorAll('td.verdict, td.brief, td.number')]"
            ".filter((cell) => cell.querySelector('time') === null).map((cell) => cell.innerText)]));")
        self.assertEqual(sorted(name for name, _ in rows), sorted(models))
        for name, texts in rows:
            self.assertEqual(unknown_numbers({"list": texts}, {"list": models[name]}), [], name)
        self.assertIn(f"{len(models)} of {len(models)} models",
                      self.browser.run("return await page.innerText('.count');"))


if __name__ == "__main__":
    unittest.main()
