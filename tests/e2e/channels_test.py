"""No two channels of calibd contradict each other, for models in all situations.

    channels_test.py CALIBD CALIBCTL FOLDER_OF_THE_PYTHON_PACKAGE

The models of channels_models and channels_states are sent through the Python SDK to one server, and one of them as the
events of a model server. Then `calibctl show`,
`list`, `watch`, `alarms`, `history`, `evaluate`, the JSON over HTTP, its events, the Python SDK,
/metrics and the alerts of a real Prometheus are asked about each of them (channels_answers), and
compared (channels_checks, channels_parts, channels_figures, channels_states, channels_evaluation).
"""
import logging
import pathlib
import re
import sys
import tempfile
import traceback
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALIBD, CALIBCTL, PACKAGE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
sys.path[:0] = [PACKAGE, str(ROOT / "tests/support")]
import calibd  # noqa: E402
from calibd_server import CalibdServer  # noqa: E402
from channels_answers import GATES, Channels, short_name  # noqa: E402
import channels_checks  # noqa: E402
import channels_figures  # noqa: E402
import channels_parts  # noqa: E402
import channels_states  # noqa: E402
from channels_evaluation import check_evaluation, check_served_evaluation  # noqa: E402
from channels_models import populate, situations  # noqa: E402
from channels_numbers import close, current, intervals, require, same, worst  # noqa: E402
from prometheus_server import PrometheusServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

CHECKS = (*channels_checks.CHECKS, *channels_parts.CHECKS, *channels_figures.CHECKS,
          *channels_states.CHECKS, check_evaluation, check_served_evaluation)


def expected_alerts(a):
    """The alerts of a model that its answer implies, also those that are pending."""
    facts, verdict = a.facts, a.facts.get("verdict")
    if verdict is None:
        return []
    over = bool(a.active("OVER_LIMIT"))
    is_raised = over and verdict["limitStatus"] != "OVER_LIMIT"
    evidence = bool(a.active("EVIDENCE"))
    rejected = sum(a.metrics.get((f"calibd_rejected_{parts}", ""), 0) for parts in ("groups", "classes"))
    alerts = {
        "CalibdModelDrifted": bool(a.active("DRIFT")),
        "CalibdModelChanged": bool(a.active("CHANGED")),
        "CalibdBandwidthFailed": bool(facts["bandwidthError"]),
        "CalibdLabelsStopped": verdict["stale"],
        "CalibdModelMiscalibrated": evidence,
        "CalibdModelOverLimit": over and not is_raised and not verdict["isRecovered"],
        "CalibdModelRecovered": over and verdict["isRecovered"],
        "CalibdLimitRaised": is_raised,
        "CalibdPartMiscalibrated": rejected > 0 and not evidence,
    }
    return sorted(alert for alert, fires in alerts.items() if fires)


def check_annotation(facts, text):
    """The figures of the alert CalibdModelOverLimit are those of the answer."""
    error = facts["error"]
    percentage = r"([\d.e+-]+)%"
    statement = (rf"are off by {percentage} \({percentage} to {percentage}(?:; limit {percentage})?; "
                 r"event (\w+)\)")
    shown = current(error) if intervals(current(error)) else error["sinceStart"]
    measurements = [one for one in (shown, error.get("newest", {})) if intervals(one)]
    found = re.findall(statement, text)
    same("statements", len(found), len(measurements))
    for (estimate, lower, upper, limit, event), measurement in zip(found, measurements):
        interval = intervals(measurement)[event]
        close("the worse event", interval["lower"], worst(measurement)[1]["lower"])
        for printed, fact in ((estimate, interval["estimate"]), (lower, interval["lower"]),
                              (upper, interval["upper"]),
                              (limit or 100 * error["limit"], error["limit"])):
            same("figure", f"{float(printed):.4g}", f"{100 * fact:.4g}")
    newest = re.search(r"The newest (\S+) rows", text)
    same("newest rows", newest and float(newest[1]),
         float(error["newest"]["observations"]) if "newest" in error else None)
    summary = text.split("\n")[0]
    is_over = facts["verdict"]["limitStatus"] == "OVER_LIMIT"
    require(is_over or "off by more than its limit" not in summary,
            f"off by more than its limit: {summary}, {facts['reading']['verdict']}")
    names = facts["verdict"]["groupsOverLimit"] + facts["verdict"]["labelsOverLimit"]
    same("names", sorted(re.findall(r", (?:group|label) ([^,]*)", summary)), sorted(names))


class ChannelsTest(unittest.TestCase):
    maxDiff = None

    def test_no_channel_contradicts_another(self):
        states = channels_states.states()
        models = situations() | {name: situation for name, (situation, _) in states.items()}
        # It warns of the rows that one of the models drops.
        logging.getLogger("calibd").setLevel(logging.ERROR)
        with CalibdServer(CALIBD) as server, calibd.Client(server.grpc) as client, \
                tempfile.TemporaryDirectory() as name:
            populate(client, server.http, models)
            prometheus = PrometheusServer(pathlib.Path(name), server.http)
            try:
                channels = Channels(CALIBCTL, server, client, pathlib.Path(name))
                answers, everything = channels.everything(models)
                expected = {model: expected_alerts(answer) for model, answer in answers.items()}
                expected = {model: alerts for model, alerts in expected.items() if alerts}
                # The comparison below says which alerts differ.
                wait_for(lambda: {model: sorted(texts) for model, texts in prometheus.alerts().items()}
                         == expected)
                alerts = prometheus.alerts()
            finally:
                prometheus.stop()
        with self.subTest("list"):
            self.check_list(answers, everything)
        with self.subTest("alerts"):
            self.assertEqual({model: sorted(texts) for model, texts in alerts.items()}, expected)
        found = dict(self.contradictions(models, answers, alerts))
        for name, (_, patterns) in states.items():
            with self.subTest(model=name, check="sentences"):
                channels_states.check_sentences(patterns, answers[name])
        for (model, check), what in found.items():
            with self.subTest(model=model, check=check):
                self.fail(what)

    @staticmethod
    def contradictions(models, answers, alerts):
        """(model, check): what is wrong."""
        for model, answer in answers.items():
            checks = {function.__name__.removeprefix("check_"): function for function in CHECKS}
            if "CalibdModelOverLimit" in alerts.get(model, {}):
                text = alerts[model]["CalibdModelOverLimit"]
                checks["annotation"] = lambda _, a, text=text: check_annotation(a.facts, text)
            for name, check in checks.items():
                try:
                    check(models[model], answer)
                except AssertionError as error:
                    yield (model, name), str(error)
                except (AttributeError, IndexError, KeyError, StopIteration, TypeError, ValueError):
                    # A sentence without the numbers that are looked for, for example.
                    yield (model, name), traceback.format_exc()

    def check_list(self, answers, everything):
        listed = everything.listed
        self.assertEqual(everything.of_python, listed)
        self.assertEqual(sorted(short_name(entry["model"]) for entry in listed["models"]),
                         sorted(answers))
        tested = [entry for entry in listed["models"] if "evidence" in entry.get("watch", {}) and
                  int(entry["watch"]["observations"]) >= int(entry["watch"]["minObservations"]) and
                  intervals(entry["error"]["sinceStart"])]
        rejected = [entry for entry in listed["models"] if entry["rejectedAmongAll"]]
        self.assertEqual(listed["testedModels"], len(tested))
        self.assertEqual(listed["rejectedModels"], len(rejected))
        self.assertIn(f"e-BH over the {len(tested)} models with evidence rejects {len(rejected)} (*)",
                      everything.text)
        failed = [f"{gate} of {model}" for model in sorted(answers)
                  for gate in (*GATES, "insufficient-data")
                  if gate in answers[model].failed_on]
        self.assertIn("failed on " + ", ".join(failed), everything.text.splitlines())


if __name__ == "__main__":
    unittest.main()
