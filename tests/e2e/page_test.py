"""The page at /, in a browser and without one.

    page_test.py CALIBD NPM_FOLDER

The tests in a browser are skipped where Chromium or npm is not installed.
"""
import csv
import gzip
import json
import pathlib
import shlex
import subprocess
import sys
import unittest
import urllib.parse
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from json_server import JsonServer  # noqa: E402
from npm_tools import npm_tools  # noqa: E402
from page_models import HOSTILE, PageModels  # noqa: E402
from wait_for import wait_for  # noqa: E402

CALIBD, NPM_FOLDER = (sys.argv.pop(1) for _ in range(2))
FILES = {"/": ("index.html", "text/html"), "/page.js": ("page.js", "text/javascript"),
         "/page.css": ("page.css", "text/css")}
POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
          "img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
KINDS = ("fraud", "credit", "topics", "demand", "energy", "rainfall", "intent", "newcomer", "markup",
         "archive/versions/2024-11")


class PageFilesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(JsonServer(CALIBD))

    def test_the_server_serves_the_built_page(self):
        for path, (name, kind) in FILES.items():
            built = (ROOT / "page/dist" / name).read_bytes()
            status, headers, body = self.server.get(path)
            self.assertTrue(status == 200 and body == built, f"{status}: {path} is another file")
            self.assertEqual(headers["Content-Type"], f"{kind}; charset=utf-8")
            self.assertEqual(headers["Content-Security-Policy"], POLICY)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Referrer-Policy"], "no-referrer")
            status, headers, body = self.server.ask("GET", path, headers={"Accept-Encoding": "gzip"})
            self.assertEqual((status, gzip.decompress(body)), (200, built))
            status, headers, body = self.server.ask("HEAD", path)
            self.assertEqual((status, headers["Content-Length"], body), (200, str(len(built)), b""))

    def test_a_browser_that_has_the_page_is_told_so(self):
        for path in FILES:
            for encoding in ("identity", "gzip"):
                _, headers, _ = self.server.ask("GET", path, headers={"Accept-Encoding": encoding})
                known = {"Accept-Encoding": encoding, "If-None-Match": headers["ETag"]}
                status, _, body = self.server.ask("GET", path, headers=known)
                self.assertEqual((status, body), (304, b""))

    def test_the_page_is_only_read_and_only_by_its_host(self):
        status, headers, _ = self.server.post("/", {})
        self.assertEqual((status, headers["Allow"]), (405, "GET, HEAD"))
        self.assertEqual(self.server.ask("GET", "/", headers={"Host": "evil.example"})[0], 403)
        self.assertEqual(self.server.get("/page.js.map")[0], 404)


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        modules = npm_tools(NPM_FOLDER, ROOT / "page")
        cls.server = cls.enterClassContext(JsonServer(CALIBD))
        cls.models = PageModels(cls.server)
        cls.models.declare()
        cls.models.stream()
        cls.origin = f"http://{cls.server.http}"
        cls.browser = cls.enterClassContext(Browser(modules, cls.origin))

    def setUp(self):
        self.browser.run("faults.length = 0; await page.setViewportSize({width: 1280, height: 720}); "
                         "await page.emulateMedia({colorScheme: 'light'});")

    def show(self, name="", ready=""):
        """Shows a model down to its end, or the list."""
        path = f"/#/models/{name}" if name else "/#/"
        ready = ready or (".banner" if name else "table.models tbody tr")
        # Some parts are computed when a reader gets there. The page grows as its answers come, and so does the way
        # to its end.
        end = ("if (await page.$('.banner, main .empty') === null) await page.waitForSelector('.banner, main .empty'); "
               "const deadline = Date.now() + 120000; do { "
               "await page.evaluate(() => scrollTo(0, document.body.scrollHeight)); await page.waitForTimeout(100); "
               f"}} while (!await page.isVisible('{ready}') && Date.now() < deadline); ") if name else ""
        self.browser.run(f"await page.goto('about:blank'); await page.goto('{self.origin}{path}'); {end}"
                         f"await page.waitForSelector('{ready}');")

    def text(self, selector):
        return self.browser.run(f"return await page.innerText({json.dumps(selector)});")

    def answer(self, path):
        status, _, text = self.server.get(path)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def wait_for_text(self, selector, part):
        self.browser.run(f"await page.locator({json.dumps(selector)}).filter({{hasText: "
                         f"{json.dumps(part)}}}).first().waitFor();")

    def check_no_fault(self):
        self.assertEqual(self.browser.run("return faults;"), [])

    def test_the_list_has_the_verdicts_of_the_server_and_the_worst_model_first(self):
        self.show()
        rows = self.browser.run(
            "return await page.$$eval('table.models tbody tr', (rows) => rows.map((row) => "
            "[row.querySelector('a').innerText, row.querySelector('.verdict').firstChild.textContent]));")
        models = self.answer("/v1/verdicts?pageSize=1000")["models"]
        models.sort(key=lambda model: (-model["reading"]["severity"], model["model"]))
        # Only the first ones are drawn if there are many.
        self.assertGreaterEqual(len(rows), min(len(models), 50))
        self.assertEqual(rows, [
            [model["model"].removeprefix("models/").replace("/versions/", "@"),
             model["reading"]["verdict"]["text"]] for model in models[:len(rows)]])
        self.browser.run("await page.waitForSelector('.spark'); "
                         "await page.fill('input[type=search]', 'fra over');")
        self.wait_for_text(".count", "1 of")
        self.check_no_fault()

    def test_a_model_shows_each_sentence_and_the_numbers_of_the_answer(self):
        for name in KINDS:
            self.show(name)
            answer = self.answer(f"/v1/models/{name}/calibration")
            reading = answer["reading"]
            self.assertEqual(self.text(".banner").strip(), reading["verdict"]["text"])
            shown = self.text(".sentences")
            for line, value in reading.items():
                # The age of the newest row grows.
                if isinstance(value, dict) and line not in ("verdict", "data"):
                    self.assertIn(value["text"], shown, line)
            interval = reading.get("howBad", {}).get("interval")
            tile = self.text(".tile")
            if interval is None:
                self.assertIn("–", tile)
            else:
                ends = [interval["lower"], interval["upper"], answer["error"]["limit"]]
                for end in ends:
                    self.assertIn(points(end), tile)
                if interval["lower"] > 0:
                    self.assertIn(f"{points(interval['estimate'])} points", tile)
                # Both tiles say whose error theirs is.
                titles = self.browser.run("return await page.$$eval('.tile dt', (all) => all.map((one) => one.innerText));")
                subjects = [("Error", reading["howBad"].get("subject", ""))]
                if "newest" in reading["howBad"]:
                    subjects.append(("Now", reading["howBad"].get("newestSubject", "")))
                self.assertEqual(titles[:len(subjects)],
                                 [f"{title}: {subject}" if subject else title for title, subject in subjects])
            self.check_no_fault()

    def test_charts_of_each_kind_have_a_table_and_files(self):
        for name, charts in {"fraud": 3, "weather": 4, "demand": 4, "topics": 2}.items():
            self.show(name, "#history + figure svg")
            self.browser.run("await page.waitForFunction((charts) => document.querySelectorAll("
                             f"'figure svg').length >= charts, {charts});")
            self.assertEqual(self.browser.run("return await page.locator('figure svg').count();"), charts)
            self.browser.run("for (const one of await page.$$('figure summary')) await one.click(); "
                             "await page.waitForFunction((charts) => document.querySelectorAll("
                             f"'figure table').length === charts, {charts});")
            self.check_no_fault()

    def test_the_diagram_has_a_choice_of_events_and_of_bins(self):
        self.show("fraud", "#reliability + figure .line")
        self.browser.run("await page.locator('#reliability + figure select').nth(0).selectOption('fraud'); "
                         "await page.locator('#reliability + figure select').nth(1).selectOption('bins'); "
                         "await page.waitForFunction(() => document.querySelectorAll("
                         "'#reliability + figure .dot').length > 20);")
        csv = self.saved("#reliability + figure button:has-text(\"CSV\")")["text"].splitlines()
        self.assertEqual(csv[0].split(",")[:5], ["from", "to", "rows", "mean stated", "observed"])
        _, _, text = self.server.post("/v1/models/fraud:evaluate",
                                      {"replicates": 0, "reliabilityClasses": [1]})
        bins = json.loads(text)["evaluation"]["reliability"][1]["bins"]
        self.assertEqual([line.split(",")[2] for line in csv[1:]], [one["n"] for one in bins])
        self.assertEqual([float(line.split(",")[4]) for line in csv[1:]],
                         [one["frequency"] for one in bins])
        self.check_no_fault()

    def test_bins_are_shown_before_the_diagram_is_computed(self):
        self.browser.run("await page.route('**/churn:evaluate', () => {});")
        self.show("churn", "#reliability + figure .dot")
        self.assertIn("computing…", self.text(".reliability .compute"))
        bins = self.answer("/v1/models/churn/calibration")["scores"]["bins"]
        self.assertEqual([[float(cell) for cell in line[2:5]] for line in self.csv("reliability")[1:]],
                         [[float(one[name]) for name in ("observations", "meanConfidence", "accuracy")]
                          for one in bins if int(one["observations"]) > 0])
        self.browser.run("await page.unroute('**/churn:evaluate');")
        self.check_no_fault()

    def test_an_evaluation_of_many_classes_waits_for_a_reader(self):
        self.models.create("codes", classes={"count": 21})
        self.models.classes("codes", 0, 1000, 21)
        self.browser.run("globalThis.asked = []; await page.route('**/codes:evaluate', (route) => { globalThis.asked.push("
                         "route.request().postDataJSON().reliabilityOnly === true); return route.continue(); });")
        self.show("codes", "#reliability + figure .line.main")
        self.assertEqual(self.browser.run("return globalThis.asked;"), [True])
        self.browser.run("await page.click('.lenses .compute button'); "
                         "await page.waitForSelector('#lenses + figure svg'); "
                         "await page.unroute('**/codes:evaluate');")
        self.assertEqual(self.browser.run("return globalThis.asked;"), [True, False])
        self.check_no_fault()

    def test_opening_a_model_computes_only_its_diagram(self):
        self.browser.run("globalThis.asked = []; await page.route('**/weather:*', (route) => { globalThis.asked.push("
                         "[new URL(route.request().url()).pathname, route.request().postDataJSON()]); return route.continue(); });")
        # So low a window shows nothing below the diagram.
        self.browser.run("await page.setViewportSize({width: 1280, height: 400}); await page.goto('about:blank'); "
                         f"await page.goto('{self.origin}/#/models/weather'); "
                         "await page.waitForSelector('#reliability + figure .line.main'); "
                         "await page.waitForSelector('#lenses ~ .compute');")
        body = {"replicates": 0, "seed": "1", "reliabilityClasses": [], "reliabilityOnly": True}
        self.assertEqual(self.browser.run("return globalThis.asked;"), [["/v1/models/weather:evaluate", body]])
        self.browser.run("await page.locator('#lenses').scrollIntoViewIfNeeded(); "
                         "await page.waitForSelector('#lenses + figure svg'); await page.unroute('**/weather:*');")
        self.assertEqual(len(self.browser.run("return globalThis.asked;")), 2)
        self.check_no_fault()

    def test_a_label_has_a_diagram_of_its_own(self):
        self.show("topics", "#label-diagram + figure select")
        label = self.browser.run("return await page.locator('#label-diagram + figure option').nth(1).evaluate((one) => one.value);")
        calibration = self.answer("/v1/models/topics/calibration?" + urllib.parse.urlencode({"labelDiagrams": label}))
        # The one that is off by most is the first choice.
        self.assertEqual(label, calibration["labels"]["overLimit"][0])
        self.browser.run("await page.locator('#label-diagram + figure select').selectOption({index: 1}); "
                         "await page.waitForSelector('#label-diagram + figure .bar.rows');")
        bins = next(one for one in calibration["labels"]["labels"] if one["name"] == label)["reliability"]["bins"]
        self.assertEqual([[float(cell) for cell in line[2:7]] for line in self.csv("label-diagram")[1:]],
                         [[float(one["n"]), one["meanPrediction"], one["frequency"], one["confidence"]["lower"],
                           one["confidence"]["upper"]] for one in bins])
        self.assertIn("90 %", self.text("#label-diagram + figure .note"))
        self.check_no_fault()

    def post(self, path, body):
        status, _, text = self.server.post(path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def csv(self, section, chart=0):
        """The lines of the table of a chart of a section, in cells."""
        text = self.saved(f"#{section} ~ figure button:has-text(\"CSV\") >> nth={chart}")["text"]
        return list(csv.reader(text.splitlines()))

    def test_another_model_is_drawn_and_compared(self):
        self.show("churn", "#reliability + figure .line.main")
        self.browser.run("await page.locator('#reliability + figure button').filter({hasText: 'Compare'}).press('Enter'); "
                         "await page.waitForSelector('#reliability + figure select:focus'); "
                         "await page.locator('#reliability + figure select').nth(2).selectOption('models/churn/versions/2'); "
                         "await page.waitForSelector('#reliability + figure .line.other');")
        answer = self.post("/v1/models/churn:compare", {"baseline": "models/churn/versions/2"})["comparison"]
        shown = self.text(".comparison")
        for score in ("logLoss", "brier", "binnedError"):
            self.assertIn(answer["comparison"][score]["text"], shown)
        # Only models with the same classes are offered.
        self.assertEqual(self.browser.run("return await page.$$eval('#comparison ~ p option', (all) => "
                                          "all.map((one) => one.value));"), ["", "models/churn/versions/2"])
        self.browser.run("await page.locator('#comparison ~ p select').selectOption(''); "
                         "await page.waitForSelector('#reliability + figure .line.other', {state: 'detached'});")
        self.check_no_fault()

    def test_a_model_is_compared_with_its_baseline(self):
        self.show("intent", ".comparison table")
        answer = self.answer("/v1/models/intent/calibration")
        shown = self.text(".comparison")
        self.assertIn(f"With its baseline {answer['baseline']}", shown)
        for score in ("logLoss", "brier", "binnedError"):
            self.assertIn(answer["comparison"][score]["text"], shown)
        # Both are drawn by all rows.
        self.browser.run("await page.locator('#reliability + figure select').nth(1).selectOption('all'); "
                         "await page.waitForSelector('#reliability + figure .dot.other');")
        bins = answer["comparison"]["baselineReliability"]["bins"]
        self.assertEqual(self.browser.run("return await page.locator('#reliability + figure .dot.other').count();"), len(bins))
        self.assertEqual(sum(int(one["n"]) for one in bins), int(answer["comparison"]["observations"]))
        self.assertIn(answer["baseline"], self.browser.run("return await page.textContent('#reliability + figure svg');"))
        self.check_no_fault()

    def test_the_heat_map_has_the_bins_of_the_classes_and_the_worst_class_first(self):
        self.show("markup", "#heat-map + figure svg")
        reliability = self.post("/v1/models/markup:evaluate", {
            "replicates": 0, "seed": "1", "reliabilityClasses": [0, 1, 2]})["evaluation"]["reliability"][1:]
        cells = self.browser.run("return await page.$$eval('#heat-map + figure .cell', (cells) => "
                                 "cells.map((cell) => cell.querySelector('text')?.textContent ?? ''));")
        bins = [one for diagram in reliability for one in diagram["bins"]]
        self.assertEqual(len(cells), len(bins))
        self.assertEqual(sum(cell != "" for cell in cells), sum(one["outside"] for one in bins))
        table = self.csv("heat-map")[1:]
        worst = self.answer("/v1/models/markup/calibration")["verdict"]["whereabouts"]["classes"]
        self.assertEqual(list(dict.fromkeys(line[0] for line in table)), [one["className"] for one in worst])
        self.assertEqual(sorted((float(line[4]), float(line[5])) for line in table),
                         sorted((one["meanPrediction"], one["frequency"]) for one in bins))
        self.check_no_fault()

    def test_lenses_have_the_errors_of_the_evaluation(self):
        self.show("weather", "#lenses + figure svg")
        lenses = self.post("/v1/models/weather:evaluate", {"replicates": 0, "seed": "1"})["evaluation"]["lenses"]
        self.assertEqual([(line[0], float(line[1]), float(line[2])) for line in self.csv("lenses")[1:]],
                         [(lens["lens"], lens["result"]["skceUnbiased"],
                           lens["result"]["noiseFloorUnbiased"]["upperQuantile"]) for lens in lenses])
        self.check_no_fault()

    def test_the_fan_of_forecasts_has_the_direction_of_each_hour(self):
        self.show("demand", "#fan + figure svg")
        buckets = self.answer("/v1/models/demand/history?resolution=HOUR")["buckets"]
        table = self.csv("fan")
        self.assertEqual([(line[0], float(line[3]), float(line[4])) for line in table[1:]],
                         [(one["startTime"], one["direction"]["shift"], one["direction"]["scale"]) for one in buckets])
        self.assertEqual(table[0][5:], ["covered of 0.5", "covered of 0.8", "covered of 0.9"])
        self.assertEqual(self.browser.run("return await page.locator('#fan + figure .fan-90').count();"), len(buckets))
        self.check_no_fault()

    def test_the_error_is_estimated_when_a_reader_asks(self):
        self.show("fraud", "#estimate ~ p button")
        self.browser.run("await page.click('#estimate ~ p button'); "
                         "await page.waitForSelector('#estimate ~ figure svg');")
        answer = self.post("/v1/models/fraud:estimate", {"seed": "1"})["result"]
        self.assertEqual(self.text("#estimate ~ p.words"), answer["text"])
        self.assertEqual([(line[0].upper(), float(line[1])) for line in self.csv("estimate")[1:]],
                         [(one["estimator"], one["error"]) for one in answer["estimators"]])
        self.assertEqual(self.browser.run("return await page.locator('#estimate ~ figure .dot.chosen').count();"), 1)
        self.check_no_fault()

    def test_recalibration_advice_has_the_error_before_and_after(self):
        self.show("fraud", "#recalibration ~ p button")
        self.browser.run("await page.click('#recalibration ~ p button'); "
                         "await page.waitForSelector('#recalibration ~ figure .line.other');")
        blocks = self.post("/v1/models/fraud:recalibrate", {})["recalibration"]
        self.assertEqual([(line[0], float(line[5])) for line in self.csv("recalibration", 1)[1:]],
                         [(name, block["recalibrated"]) for name, part in (("before", "corpBefore"), ("after", "corpAfter"))
                          for block in blocks[part]])
        answer = self.answer("/v1/models/fraud/calibration")["recalibration"]
        self.assertEqual(self.text("#recalibration ~ p.words"), answer["text"])
        errors = [answer[name] for name in ("errorBefore", "errorAfter", "class1ErrorBefore", "class1ErrorAfter")]
        self.assertEqual([[float(cell) for cell in line[1:]] for line in self.csv("recalibration")[1:]],
                         [[one["estimate"], one["lower"], one["upper"]] for one in errors])
        self.check_no_fault()

    def test_recalibration_advice_for_numbers_has_the_curve_of_the_levels(self):
        self.show("demand", "#recalibration ~ p button")
        self.browser.run("await page.click('#recalibration ~ p button'); "
                         "await page.waitForSelector('#recalibration ~ p.words');")
        advice = self.post("/v1/models/demand:recalibrate", {})["recalibration"]
        self.assertEqual(self.text("#recalibration ~ p.words"), advice["text"])
        self.assertEqual([line[0] for line in self.csv("recalibration")[1:]], ["coverage before", "coverage after"])
        self.assertEqual([[float(cell) for cell in line[1:]] for line in self.csv("recalibration")[1:]],
                         [[advice[name].get(end, 0) for end in ("estimate", "lower", "upper")]
                          for name in ("errorBefore", "errorAfter")])
        curve = advice["map"]["levelCurve"]
        self.assertEqual([[float(cell) for cell in line] for line in self.csv("recalibration", 1)[1:]],
                         [[*point] for point in zip(curve["levels"], curve["shares"])])
        self.check_no_fault()

    def test_missing_labels_are_shown_by_class_and_the_worst_class_first(self):
        self.show("intent", "#data ~ div table")
        arrivals = self.answer("/v1/models/intent/calibration")["labelArrivals"]
        shown = self.browser.run("return await page.$$eval('#data ~ div tbody tr', (rows) => "
                                 "rows.map((row) => row.children[2].innerText.replace(/\\D/g, '')));")
        self.assertEqual(shown, [one["missing"] for one in arrivals["predictedClasses"]])
        self.assertIn(f"{int(arrivals['missing']):,}".replace(",", "\u202f"), self.text("#data ~ dl"))
        self.assertIn(arrivals["warnings"][0], self.text(".data"))
        self.check_no_fault()

    def test_groups_have_their_limits_and_the_worst_one_comes_first(self):
        self.show("credit", "#groups ~ div tr")
        rows = self.browser.run("return await page.$$eval('#groups ~ div tbody tr', (rows) => "
                                "rows.map((row) => [row.children[0].innerText, row.children[3].innerText]));")
        groups = self.answer("/v1/models/credit/calibration")["groups"]
        self.assertEqual(rows, [[group["value"], points(group["error"]["limit"])] for group in groups])
        self.assertEqual(rows[0][0], "east")
        self.check_no_fault()

    def test_the_calls_of_the_page_give_its_answers(self):
        self.show("weather", "#lenses + figure svg")
        table = self.csv("lenses")[1:]
        commands = self.text("#source ~ pre").splitlines()
        self.assertIn("calibctl show weather --output json", commands)
        calls = [command for command in commands if command.startswith("curl ")]
        answers = [json.loads(subprocess.run([*shlex.split(call), "-sS"], stdin=subprocess.DEVNULL, check=True,
                                             capture_output=True, text=True, timeout=60).stdout) for call in calls]
        self.assertEqual(answers[0]["model"], "models/weather")
        self.assertEqual([float(line[1]) for line in table],
                         [lens["result"]["skceUnbiased"] for lens in answers[2]["evaluation"]["lenses"]])
        self.assertEqual((answers[1]["evaluation"]["lenses"], len(answers[1]["evaluation"]["reliability"])), ([], 1))

    def saved(self, selector):
        return self.browser.run(f"return await saved(() => page.click({json.dumps(selector)}));")

    def test_what_is_shown_can_be_saved(self):
        self.show("churn", "#history + figure svg")
        svg = self.saved("#history + figure button:has-text(\"SVG\")")
        self.assertEqual(svg["name"], "models_churn-history.svg")
        drawing = xml.etree.ElementTree.fromstring(svg["text"])
        self.assertEqual(drawing.tag, "{http://www.w3.org/2000/svg}svg")
        self.assertNotIn("class=", svg["text"])
        saved = json.loads(self.saved("#source ~ button")["text"])
        self.assertEqual(saved["observations"], self.answer("/v1/models/churn/calibration")["observations"])
        self.check_no_fault()

    def test_names_are_text_whatever_they_contain(self):
        self.show("markup", "#reliability + figure svg")
        self.browser.run("await page.waitForFunction((name) => document.querySelector('#reliability + "
                         f"figure select').innerText.includes({json.dumps(HOSTILE)}));")
        self.assertIn("<b>bold</b>", self.text("#groups + div"))
        self.assertIn(HOSTILE, self.text("header"))
        self.assertEqual(self.browser.run(
            "return await page.locator('#page b, #page img, #page script').count();"), 0)
        self.check_no_fault()

    def test_an_alarm_is_acknowledged_with_a_note(self):
        self.models.create("to-acknowledge", classes={"count": 2})
        self.models.classes("to-acknowledge", 0, 1000, exponent=3)
        self.show("to-acknowledge", "#alarms ~ div form")
        active = "return await page.locator('#alarms ~ div form').count();"
        before = self.browser.run(active)
        self.browser.run("await page.fill('#alarms ~ div form input', 'retrained'); "
                         "await page.click('#alarms ~ div form button');")
        self.wait_for_text("#alarms ~ div td", "retrained")
        self.assertEqual(self.browser.run(active), before - 1)
        alarms = self.answer("/v1/models/to-acknowledge/calibration")["alarms"]
        self.assertEqual([alarm["note"] for alarm in alarms if "acknowledgeTime" in alarm], ["retrained"])
        self.check_no_fault()

    def test_the_page_follows_the_model_through_a_crash_of_the_server(self):
        self.models.create("alive", classes={"count": 2})
        self.models.classes("alive", 0, 300)
        self.show("alive")
        self.wait_for_text(".tile", "300")
        self.models.classes("alive", 0, 200)
        self.wait_for_text(".tile", "500")
        self.check_no_fault()
        self.server.kill()
        self.wait_for_text("header .status", "connection lost since")
        self.assertIn("500", self.text(".tiles"))
        self.server.start()
        self.assertTrue(wait_for(lambda: self.server.get("/readyz")[0] == 200))
        self.models.classes("alive", 0, 100)
        self.wait_for_text(".tile", "600")
        self.wait_for_text("header .status", "live")
        # The browser itself reports requests to a server that does not run.
        faults = self.browser.run("return faults;")
        self.assertEqual([one for one in faults if "net::ERR_" not in one], [])

    def test_ages_in_sentences_are_read_again(self):
        # In another page, because the clock of a page stays changed.
        self.assertEqual(self.browser.run(
            "const other = await page.context().newPage(); await other.clock.install(); "
            f"await other.goto('{self.origin}/#/models/weather'); await other.waitForSelector('#history + figure svg'); "
            "const [request] = await Promise.all([other.waitForRequest(/events/), other.clock.fastForward(61000)]); "
            "const revision = new URL(request.url()).searchParams.get('afterRevision'); "
            "await other.waitForSelector('header .status:not(.lost)'); await other.close(); return revision;"), "0")
        self.check_no_fault()

    def test_a_model_that_does_not_exist_is_named(self):
        self.show("nobody", "main .empty")
        self.wait_for_text("main .empty", "nobody")

    def test_a_list_whose_pages_come_again_ends(self):
        self.browser.run("await page.route('**/v1/verdicts?*', (route) => "
                         "route.fulfill({json: {models: [], nextPageToken: 'again'}}));")
        self.show(ready="header .status.lost")
        self.assertIn("The server sent the same page again.", self.text("header .status"))
        self.browser.run("await page.unroute('**/v1/verdicts?*');")
        self.wait_for_text("header .status", "live")
        self.check_no_fault()

    def test_axe_finds_nothing_in_either_colour_scheme_and_width(self):
        for name in ("", "churn", "markup", "demand", "topics", "intent"):
            for scheme, width in (("light", 1280), ("dark", 390)):
                self.browser.run(f"await page.emulateMedia({{colorScheme: '{scheme}'}}); "
                                 f"await page.setViewportSize({{width: {width}, height: 800}});")
                self.show(name, {"": "", "churn": "#lenses + figure svg", "markup": "#heat-map + figure svg",
                                 "intent": "#heat-map + figure svg"}.get(name, "#history + figure svg"))
                if name == "churn":
                    self.show_all_computations()
                self.assertEqual(self.browser.run("return await findings();"), [], (name, scheme))

    def show_all_computations(self):
        """Also those that a reader asks for."""
        self.browser.run("for (const one of await page.$$('.compute button')) await one.click(); "
                         "await page.click('#comparison ~ p button'); "
                         "await page.locator('#comparison ~ p select').selectOption({index: 1}); "
                         "for (const part of ['.line.other', '#estimate ~ figure svg', '#recalibration ~ figure svg']) "
                         "await page.waitForSelector(part);")

    def test_nothing_is_wider_than_the_window_and_no_labels_overlap(self):
        for width in (1280, 390):
            self.browser.run(f"await page.setViewportSize({{width: {width}, height: 800}});")
            for name in ("", "churn", "triage", "demand", "topics", "intent"):
                self.show(name, {"": "", "churn": "#lenses + figure svg", "triage": "#lenses + figure svg",
                                 "intent": "#heat-map + figure svg"}.get(
                    name, "#history + figure svg"))
                if name == "churn":
                    self.show_all_computations()
                self.assertEqual(self.browser.run(
                    "return await page.evaluate(() => document.documentElement.scrollWidth);"), width, name)
                self.assertEqual(self.browser.run(OVERLAPS), [], (name, width))

    def test_the_keyboard_reaches_everything(self):
        self.show("fraud", "#reliability + figure svg")
        # What the page has read meanwhile may add controls.
        reached = self.browser.run(
            "await page.waitForFunction(() => !document.body.textContent.includes('reading…')); "
            "const count = () => page.locator('a, button:not(:disabled), select, input, summary, [tabindex]').count(); "
            "for (let round = 0; ; ++round) { const before = await count(); const mark = String(round); "
            "await page.evaluate(() => document.activeElement.blur()); const seen = []; "
            "for (let i = 0; i < 200; ++i) { await page.keyboard.press('Tab'); "
            "const key = await page.evaluate((mark) => { const one = document.activeElement; "
            "if (one === document.body || one.dataset.seen === mark) return null; one.dataset.seen = mark; "
            "return one.tagName; }, mark); if (key !== null) seen.push(key); else if (seen.length > 0) break; } "
            "if (before === await count() || round === 5) return [seen.length, before]; }")
        self.assertEqual(*reached)

    def test_many_models_are_listed_without_a_wait(self):
        for number in range(300):
            self.models.create(f"many-{number:03}", classes={"count": 2})
        self.show()
        rows = self.browser.run("return await page.locator('table.models tbody tr').count();")
        models = len(self.answer("/v1/verdicts?pageSize=1000")["models"])
        self.assertLess(rows, models)
        self.wait_for_text(".count", f"of {models} models")
        # The others follow where the reader goes, and the filter finds them at once.
        self.assertTrue(wait_for(lambda: self.browser.run(
            "await page.evaluate(() => scrollTo(0, document.body.scrollHeight)); "
            "return await page.locator('table.models tbody tr').count();") == models))
        self.show()
        self.browser.run("await page.fill('input[type=search]', 'many-299'); "
                         "await page.waitForFunction(() => document.querySelectorAll("
                         "'table.models tbody tr').length === 1);")
        self.check_no_fault()


# Texts of one chart whose boxes overlap.
OVERLAPS = """
return await page.evaluate(() => {
  const found = [];
  for (const chart of document.querySelectorAll('figure svg')) {
    const texts = [...chart.querySelectorAll('text')].map((one) => [one.textContent, one.getBoundingClientRect()]);
    texts.forEach(([a, p], i) => texts.slice(i + 1).forEach(([b, q]) => {
      const width = Math.min(p.right, q.right) - Math.max(p.left, q.left);
      const height = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (width > 1 && height > 3) found.push(`${a} / ${b}`);
    }));
  }
  return found;
});"""


def points(probability):
    """As the page prints it."""
    value = 100 * probability
    return f"{float(f'{value:.1f}' if value >= 0.95 else f'{value:.2g}'):g}"


if __name__ == "__main__":
    unittest.main()
