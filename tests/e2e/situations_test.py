"""What a user sees in twelve situations: all answers of calibd agree.

    situations_test.py CALIBD CALIBCTL

Each row of the table names a situation; its model gets the predictions of a function. For each model the
exit codes of the gates, the verdict, its sentences, the alarms, the metrics and the alerts of a real
Prometheus with the rules of deploy/prometheus are compared with the table.
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402
from prometheus_server import PrometheusServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

CALIBD, CALIBCTL = sys.argv.pop(1), sys.argv.pop(1)
GATES = ("over-limit", "miscalibration", "drift", "undecided")


def draw(seed, count, shift, classes=3):
    """Rows (probabilities, label). The stated probability of the top label is `shift` too large."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        top = rng.randrange(classes)
        confidence = 0.7 + 0.25 * rng.random()
        row = [(1 - confidence) / (classes - 1)] * classes
        row[top] = confidence
        right = rng.random() < confidence - shift
        others = [k for k in range(classes) if k != top]
        rows.append((row, top if right else rng.choice(others)))
    return rows


def with_a_bad_class(seed, count):
    """Class 0 of 10 is never true when it has its usual small probability."""
    rng = random.Random(seed)
    rows = []
    for row, label in draw(seed, count, 0, classes=10):
        while label == 0 and row[0] < 0.5:
            label = rng.randrange(10)
        rows.append((row, label))
    return rows


def with_an_impossible_label(seed, count):
    rows = draw(seed, count, 0)
    rows[count // 2] = ([1.0, 0.0, 0.0], 1)
    return rows


def mixed(seed, groups):
    """groups: rows by name. Returns all rows in random order, and their groups."""
    rows = [(row, name) for name, rows in groups.items() for row in rows]
    random.Random(seed).shuffle(rows)
    return [row for row, _ in rows], [name for _, name in rows]


BAD_GROUP = mixed(15, {"us": draw(7, 18000, 0), "eu": draw(8, 2000, 0.4)})

# name: (options of `model create`, rows, groups or None).
MODELS = {
    "calibrated": ([], draw(1, 20000, 0), None),
    "over": ([], draw(2, 4000, 0.15), None),
    "within": (["--error-limit", "0.08"], draw(3, 30000, 0.04), None),
    "undecided": ([], draw(104, 1500, 0), None),
    "drifted": ([], draw(5, 12000, 0) + draw(6, 1500, 0.2), None),
    "bad_group": (["--error-limit", "0.1", "--group-tag", "region"], *BAD_GROUP),
    "bad_class": (["--error-limit", "0.1"], with_a_bad_class(9, 8000), None),
    "acknowledged": ([], draw(10, 4000, 0.15), None),
    "stale": (["--stale-after", "1s"], draw(11, 1500, 0), None),
    "too_few": ([], draw(12, 60, 0.3), None),
    "impossible_label": (["--error-limit", "0.08"], with_an_impossible_label(13, 4000), None),
    "late_labels": (["--label-grace", "1s"], draw(14, 600, 0), None),
}

# name: (limit status, calibration status, gates that fail, alarms, sentences, alerts).
EXPECTED = {
    "calibrated": ("WITHIN_LIMIT", "NOT_REJECTED", [], [], ["WITHIN_LIMIT, NOT_REJECTED off by "], []),
    "over": ("OVER_LIMIT", "MISCALIBRATED", ["over-limit", "miscalibration", "drift"],
             ["drift", "evidence", "over_limit"],
             ["OVER_LIMIT, alarm on 20", "over-confident by 14", "), MISCALIBRATED off by "],
             ["CalibdModelDrifted", "CalibdModelMiscalibrated", "CalibdModelOverLimit"]),
    "within": ("WITHIN_LIMIT", "MISCALIBRATED", ["miscalibration", "drift"], ["drift", "evidence"],
               ["WITHIN_LIMIT, MISCALIBRATED, alarm on ", "the average error is real, but smaller than the limit"],
               ["CalibdModelDrifted", "CalibdModelMiscalibrated"]),
    "undecided": ("UNDECIDED", "NOT_REJECTED", ["undecided"], [],
                  ["UNDECIDED, NOT_REJECTED off by ", "more labelled rows decide about the limit"], []),
    "drifted": ("OVER_LIMIT", "MISCALIBRATED", ["over-limit", "miscalibration", "drift"],
                ["drift", "evidence", "over_limit"],
                ["OVER_LIMIT, alarm on 20", "(row 12", "yes, between rows 1",
                 "the newest rows were off by more than 2 points"],
                ["CalibdModelDrifted", "CalibdModelMiscalibrated", "CalibdModelOverLimit"]),
    "bad_group": ("OVER_LIMIT", "MISCALIBRATED", ["over-limit", "miscalibration", "drift"],
                  ["drift", "evidence", "over_limit"],
                  ["OVER_LIMIT in group eu, alarm on 20", "MISCALIBRATED group eu off by ", "; all rows together: "],
                  ["CalibdModelDrifted", "CalibdModelMiscalibrated", "CalibdModelOverLimit"]),
    "bad_class": ("WITHIN_LIMIT", "MISCALIBRATED", ["miscalibration", "drift"],
                  ["drift", "evidence"], ["class 0 (says "],
                  ["CalibdModelDrifted", "CalibdModelMiscalibrated"]),
    "acknowledged": ("OVER_LIMIT", "INSUFFICIENT_DATA", GATES, [],
                     ["OVER_LIMIT (acknowledged), INSUFFICIENT_DATA "], []),
    "stale": ("UNDECIDED", "STALE", ["undecided"], [], ["ago: STALE, because this is longer than stale_after; all this may be outdated"],
              ["CalibdLabelsStopped"]),
    "too_few": ("UNDECIDED", "INSUFFICIENT_DATA", GATES, [],
                ["nothing is decided before 100 labelled rows; 60 so far"], []),
    "impossible_label": ("WITHIN_LIMIT", "MISCALIBRATED", ["miscalibration"], ["evidence"],
                         ["one label with probability 0, at observation 2001"],
                         ["CalibdModelMiscalibrated"]),
    "late_labels": ("UNDECIDED", "INSUFFICIENT_DATA", GATES, [], [], []),
}


# (model, alert): sentences of its annotations. {off_by} and {lower} are figures of /metrics.
ANNOTATIONS = {
    ("over", "CalibdModelOverLimit"): [
        "over is off by more than its limit", "is over the limit; the alarm was raised at 20",
        "off by {off_by} ({lower} to ", "; limit 2%; event top_label). The newest 1952 rows are off by ",
        "; event top_label). Next: calibctl show over says"],
    ("drifted", "CalibdModelOverLimit"): [
        "drifted is off by more than its limit", "The newest 1212 rows are off by "],
    ("bad_group", "CalibdModelOverLimit"): [
        "bad_group is off by more than its limit, group eu"],
    ("within", "CalibdModelMiscalibrated"): [
        "crossed the model's level at 20", "Next: calibctl show within."],
    ("within", "CalibdModelDrifted"): [
        "crossed its threshold for model within, version '' at 20", "Next: calibctl show within."],
    ("stale", "CalibdLabelsStopped"): ["No labelled prediction of stale for "],
}


def names_of(alerts):
    return {model: sorted(texts) for model, texts in alerts.items()}


class SituationsTest(unittest.TestCase):
    maxDiff = None

    def run_calibctl(self, *arguments, expect=0):
        result = subprocess.run(
            [CALIBCTL, "--server", self.server.grpc, *arguments], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ))
        self.assertEqual(result.returncode, expect, f"{arguments}\n{result.stdout}{result.stderr}")
        return result.stdout

    def create(self, name, folder):
        options, rows, groups = MODELS[name]
        classes = str(len(rows[0][0]))
        self.run_calibctl("model", "create", name, "--classes", classes, "--bandwidth", "0.5", *options)
        predictions = folder / f"{name}.csv"
        predictions.write_text("".join(",".join(map(repr, row)) + "\n" for row, _ in rows),
                               encoding="utf-8")
        labels = folder / f"{name}.labels.csv"
        labels.write_text("".join(f"{label}\n" for _, label in rows), encoding="utf-8")
        send = ["send", name, str(predictions)]
        if name == "late_labels":
            ids = folder / "ids.csv"
            ids.write_text("".join(f"id-{i}\n" for i in range(len(rows))), encoding="utf-8")
            self.run_calibctl(*send, "--ids", str(ids))
            self.assertTrue(
                wait_for(lambda: self.show(name)["labelArrivals"]["missing"] == str(len(rows)), 60))
            late = folder / "late.csv"
            late.write_text("".join(f"id-{i},{label}\n" for i, (_, label) in enumerate(rows)),
                            encoding="utf-8")
            # No label could be used.
            self.run_calibctl("label", name, str(late), "--label-base", "0", expect=1)
            return
        send += [str(labels), "--label-base", "0"]
        if groups is not None:
            values = folder / f"{name}.groups.csv"
            values.write_text("".join(f"{value}\n" for value in groups), encoding="utf-8")
            send += ["--groups", str(values)]
        self.run_calibctl(*send)
        if name == "acknowledged":
            for alarm in self.show(name)["alarms"]:
                self.run_calibctl("acknowledge", name, str(alarm["id"]), "--note", "known")
        if name == "stale":
            self.assertTrue(wait_for(lambda: self.show(name)["verdict"]["stale"], 60))

    def show(self, name):
        return json.loads(self.run_calibctl("show", name, "--output", "json"))

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.server.http}/metrics", timeout=60) as answer:
            return answer.read().decode("utf-8").splitlines()

    def check(self, name, metrics, alerts):
        limit_status, status, gates, alarms, sentences, expected_alerts = EXPECTED[name]
        shown = self.show(name)
        verdict = shown["verdict"]
        self.assertEqual(verdict["limitStatus"], limit_status, shown["reading"])
        self.assertEqual(verdict["status"], status, shown["reading"])
        active = sorted(alarm["kind"].lower() for alarm in shown["alarms"]
                        if not alarm.get("acknowledgeTime"))
        self.assertEqual(active, alarms, shown["reading"])
        reading = " ".join(line["text"] for line in shown["reading"].values()
                           if isinstance(line, dict))
        for sentence in sentences:
            self.assertIn(sentence, reading)
        for gate in GATES:
            self.run_calibctl("show", name, "--fail-on", gate, expect=3 if gate in gates else 0)
        text = self.run_calibctl("show", name)
        headline = text.splitlines()[0]
        self.assertIn(limit_status, headline)
        self.assertIn(status, headline)
        self.assertLessEqual(len(text.splitlines()), 17)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        flags = {flag: str(verdict[f"is{flag.capitalize()}"]).lower()
                 for flag in ("recent", "acknowledged")}
        self.assertIn(f'calibd_verdict{{model="{name}",version="",limit_status="{limit_status}",'
                      f'recent="{flags["recent"]}",acknowledged="{flags["acknowledged"]}",'
                      f'status="{status}"}} 1', metrics)
        for kind in ("evidence", "drift", "over_limit"):
            self.assertIn(f'calibd_alarm_active{{model="{name}",version="",kind="{kind}"}} '
                          f"{int(kind in alarms)}", metrics)
        self.assertEqual(sorted(alerts.get(name, {})), expected_alerts)
        for (model, alert), sentences in ANNOTATIONS.items():
            for sentence in sentences if model == name else []:
                self.assertIn(self.with_figures(sentence, name, metrics), alerts[name][alert])

    def with_figures(self, sentence, model, metrics):
        """The sentence with figures of the metrics, as Prometheus prints percentages."""
        figures = {}
        for figure, metric in (("off_by", "binned_error"), ("lower", "binned_error_lower_bound")):
            series = f'calibd_{metric}{{model="{model}",version="",event="top_label"}} '
            values = [float(line[len(series):]) for line in metrics if line.startswith(series)]
            figures[figure] = f"{100 * values[0]:.4g}%" if values else "no figure"
        return sentence.format(**figures)

    def test_all_answers_agree(self):
        with CalibdServer(CALIBD) as server, tempfile.TemporaryDirectory() as name:
            self.server = server
            folder = pathlib.Path(name)
            for model in MODELS:
                self.create(model, folder)
            prometheus = PrometheusServer(folder, server.http)
            try:
                expected = {name: row[-1] for name, row in EXPECTED.items() if row[-1]}
                # The comparisons below say which alerts differ.
                wait_for(lambda: names_of(prometheus.alerts()) == expected)
                alerts = prometheus.alerts()
            finally:
                prometheus.stop()
            metrics = self.metrics()
            for model in MODELS:
                with self.subTest(model):
                    self.check(model, metrics, alerts)
            arrivals = self.show("late_labels")["labelArrivals"]
            self.assertEqual(arrivals["labels"]["late"], "600")


if __name__ == "__main__":
    unittest.main()
