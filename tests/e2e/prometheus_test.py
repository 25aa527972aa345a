"""The dashboard and the rules of deploy have data, from a real Prometheus that scrapes models in many states.

The tables of docs/operate.md are those of the program, and all series of a thousand models fit.

    prometheus_test.py CALIBD CALIBCTL
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
import operate_tables  # noqa: E402
from alertmanager_server import AlertmanagerServer  # noqa: E402
from json_server import JsonServer, observations  # noqa: E402
from metric_models import MetricModels  # noqa: E402
from prometheus_server import PrometheusServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

CALIBD, CALIBCTL = (sys.argv.pop(1) for _ in range(2))
DASHBOARD = json.loads((ROOT / "deploy/grafana/calibd.json").read_text(encoding="utf-8"))
# The beginning of a row of a table of metrics in C++.
METRIC = re.compile(r'^ *\{"(\w+)", (?:Gauge|Counter|Histogram),', re.M)
# Rules and panels that have no data here: a part of the expression that has data, and why the whole has none.
NO_DATA = {
    "CalibdPartMiscalibrated": ("calibd_rejected_groups > 0 or calibd_rejected_classes > 0",
                                "the evidence alarms of these models are active too"),
    "CalibdDown": ('up{job="calibd"}', "the server answers"),
    "CalibdNotReady": ("calibd_recovering", "the server has started"),
    "CalibdStoreFailing": ("increase(calibd_store_failed_commits_total[5m])", "the disk is not full"),
    "CalibdStoreDamaged": ("calibd_store_damaged", "the disk is not damaged"),
    "CalibdNoOwner": ("calibd_store_owner", "the server has the store"),
    "CalibdStoreNotSynchronous": ("calibd_build_info", "the store is not in PostgreSQL"),
    "CalibdQueueFull": ("calibd_ingest_waiting_batches", "batches are counted as fast as they come"),
    "CalibdSeriesDropped": ("increase(calibd_series_dropped_total[15m])", "all series fit"),
    "CalibdArchiveBehind": ("calibd_archive_lag_seconds", "the archive keeps up"),
    "CalibdCertificateExpires": ("calibd_build_info", "the server has no TLS"),
    "Streams and connections B": ('rate(calibd_connections_closed_total[1m])', "no connection is closed"),
}


def replace_variables(expression, model):
    for name, value in (("$__rate_interval", "1m"), ("$instance", ".+"), ("$model", model), ("$version", ".*")):
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


class PrometheusTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(JsonServer(CALIBD, *operate_tables.ARGUMENTS))
        cls.models = MetricModels(cls.server)
        cls.models.declare_and_stream()
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.alertmanager = AlertmanagerServer(pathlib.Path(folder))
        cls.addClassCleanup(cls.alertmanager.stop)
        cls.prometheus = PrometheusServer(pathlib.Path(folder), cls.server.http, cls.alertmanager.address)
        cls.addClassCleanup(cls.prometheus.stop)
        # Rates need counters that exist when they increase.
        cls.send_more(hours_ago=0.02)
        cls.wait_for_scrapes()
        cls.send_more(hours_ago=0.01)
        cls.wait_for_scrapes()

    @classmethod
    def send_more(cls, hours_ago):
        cls.models.send_more(hours_ago)
        # A call of gRPC.
        subprocess.run([CALIBCTL, "--server", cls.server.grpc, "list"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, timeout=60, check=True, env=dict(os.environ))

    @classmethod
    def wait_for_scrapes(cls):
        def scrapes():
            found = cls.prometheus.query('count_over_time(up{job="calibd"}[1h])')
            return found[0][1] if found else 0
        # One may be under way.
        enough = scrapes() + 2
        assert wait_for(lambda: scrapes() >= enough), "Prometheus does not scrape calibd"

    def check(self, name, expression):
        part, _ = NO_DATA.get(name, (expression, ""))
        self.assertTrue(wait_for(lambda: self.prometheus.query(part)), f"{name} has no data: {part}")

    def test_each_panel_has_data(self):
        names = [labels["model"] for labels, _ in self.prometheus.query("calibd_model_info")]
        for panel in DASHBOARD["panels"]:
            for target in panel.get("targets", ()):
                name = f"{panel['title']} {target['refId']}"
                with self.subTest(name):
                    # Some kinds of models only have this panel.
                    model = '=~"' + "|".join(sorted(names)).replace("\\", "") + '"'
                    self.check(name, replace_variables(target["expr"].replace('="$model"', model), ""))

    def test_the_variables_and_the_marks_have_data(self):
        for variable in DASHBOARD["templating"]["list"]:
            if variable["type"] != "query":
                continue
            with self.subTest(variable["name"]):
                selector, label = variable["query"]["query"].removeprefix("label_values(")[:-1].rsplit(", ", 1)
                # One model of PageModels has a version.
                found = self.prometheus.query(
                    f'group by ({label}) ({replace_variables(selector, "archive")})')
                self.assertTrue([labels for labels, _ in found if label in labels], selector)
        for mark in DASHBOARD["annotations"]["list"]:
            self.check(mark["name"], replace_variables(mark["expr"], "fraud"))

    def test_each_rule_has_data(self):
        rules = [rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
        kinds = {kind: [rule for rule in rules if rule["type"] == kind] for kind in ("alerting", "recording")}
        self.assertGreater(len(kinds["alerting"]), 10)
        self.assertGreater(len(kinds["recording"]), 3)
        for rule in rules:
            with self.subTest(rule["name"]):
                self.check(rule["name"], rule["query"])
                self.assertEqual(rule["health"], "ok", rule.get("lastError"))
        for rule in kinds["recording"]:
            self.check(rule["name"], rule["name"])

    def test_alertmanager_pages_about_models_over_their_limits_and_about_nothing_else(self):
        pager, channel = (self.alertmanager.notified[name] for name in ("pager", "channel"))
        over, recovered = "CalibdModelOverLimit", "CalibdModelRecovered"
        self.assertTrue(wait_for(lambda: (over, "fraud") in pager), pager)
        for alert in ((recovered, "triage"), ("CalibdLimitRaised", "raised"), ("CalibdLabelsStopped", "stale")):
            self.assertTrue(wait_for(lambda: alert in channel), f"{alert} is not in {channel}")
        self.assertEqual({alert for alert, _ in pager}, {over})
        self.assertFalse({(over, "triage"), (over, "raised")} & pager)
        # Whoever is paged about a model need not hear of its evidence too.
        miscalibrated = ("CalibdModelMiscalibrated", "fraud")
        self.assertTrue(wait_for(lambda: miscalibrated in self.alertmanager.inhibited()))

    def test_the_reasons_are_about_rules_and_panels_that_exist(self):
        rules = [rule["name"] for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]]
        targets = [f"{panel['title']} {target['refId']}" for panel in DASHBOARD["panels"]
                   for target in panel.get("targets", ())]
        self.assertLessEqual(set(NO_DATA), {*rules, *targets})

    def test_the_operating_guide_lists_each_setting_and_each_metric(self):
        page = operate_tables.PAGE.read_text(encoding="utf-8")
        text = self.server.get("/metrics")[2].decode()
        tables = {"settings": operate_tables.settings(CALIBD), **operate_tables.metrics(text)}
        differing = set(operate_tables.written(page, tables).splitlines()) ^ set(page.splitlines())
        self.assertEqual(differing, set(), "tests/e2e/operate_tables.py writes these tables")
        # The models above have a series of every metric that the sources name.
        named = {name for source in (ROOT / "server/observability").glob("*.cc")
                 for name in METRIC.findall(source.read_text(encoding="utf-8"))}
        self.assertGreater(len(named), 100)
        # This server has neither TLS nor PostgreSQL, so the page names their metrics beside its tables.
        others = {name for name in named if name.startswith("calibd_tls_")} | {"calibd_store_synchronous"}
        self.assertEqual(named - others, set(re.findall(r"^# TYPE (\S+)", text, re.M)))
        self.assertEqual({name for name in others if f"`{name}`" not in page}, set())
        flags = re.findall(r"^  (?:-h,)?(--[a-z-]+)", subprocess.run(
            [CALIBD, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
            timeout=60).stdout, re.M)
        for flag in set(flags) - {"--help", "--version"}:
            self.assertIn(flag, page)

    def test_the_numbers_of_the_dashboard_are_those_of_the_answers(self):
        (panel,) = [panel for panel in DASHBOARD["panels"] if panel["title"] == "Error of all rows"]
        for model, events in (("churn", ("topLabel", "class1")), ("weather", ("topLabel",)),
                              ("demand", ("coverage",)), ("topics", ("labels",))):
            status, _, text = self.server.get(f"/v1/models/{model}/calibration")
            self.assertEqual(status, 200, text)
            error = json.loads(text)["error"]
            intervals = [error["sinceStart"][event] for event in events]
            shown = [self.prometheus.query(replace_variables(target["expr"], model))
                     for target in panel["targets"]]
            expected = [max(one["lower"] for one in intervals), max(one["upper"] for one in intervals),
                        error["limit"]]
            for series, value in zip(shown, expected):
                (found,) = [point for labels, point in series if labels.get("version", "") == ""]
                self.assertAlmostEqual(found, value, places=12, msg=model)


class ManyModelsTest(unittest.TestCase):
    # The default of --max-models.
    MODELS = 1000
    # Prometheus waits so long for /metrics unless its scrape_timeout says otherwise.
    SCRAPE_SECONDS = 10

    def test_all_series_of_the_most_models_fit(self):
        with JsonServer(CALIBD) as server:
            # From 1000 rows on, a model also has the series of the newest rows.
            rows = observations(1100)
            for number in range(self.MODELS):
                server.create(f"m{number}")
                status, _, text = server.post(f"/v1/models/m{number}:observe", {"observations": rows})
                self.assertEqual(status, 200, text)
            start = time.monotonic()
            status, _, text = server.get("/metrics")
            seconds = time.monotonic() - start
            self.assertEqual(status, 200)
            for name in (b"calibd_verdict", b"calibd_newest_error_observations", b"calibd_test_p_value"):
                models = {line.split(b'"')[1] for line in text.splitlines() if line.startswith(name + b"{")}
                self.assertEqual(len(models), self.MODELS, name)
            self.assertIn(b"\ncalibd_series_dropped_total 0\n", text)
            self.assertLess(seconds, self.SCRAPE_SECONDS)


if __name__ == "__main__":
    unittest.main()
