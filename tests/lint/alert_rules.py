"""Fails when the rules for Prometheus or the Alertmanager example are wrong.

promtool checks the rules and runs their tests, and amtool checks where alerts go. Each alert has a severity,
texts, and a runbook_url that leads to a heading of the page with its name; each fires in a test. No rule looks
at a p-value, or at an e-value itself: alerts follow the decision that the server made. A recording rule that
is the figure of an alert is computed as in the alert.
"""
import re
import subprocess
import sys

from sources import ROOT, report

RULES = "deploy/prometheus/calibd_alerts.yml"
TESTS = "deploy/prometheus/calibd_alerts_test.yml"
RECORDS = "deploy/prometheus/calibd_records.yml"
RECORD_TESTS = "deploy/prometheus/calibd_records_test.yml"
ALERTMANAGER = "deploy/prometheus/alertmanager.yml"
PAGE = "docs/operate.md"
# Alerts, and the recording rules that are their figures.
FIGURES = {"CalibdRowsRejected": "model:calibd_rows_not_counted:ratio1h",
           "CalibdLabelsMissing": "model:calibd_labels_missing:ratio1d"}
# The only alert that wakes someone.
PAGED = "CalibdModelOverLimit"
FORBIDDEN = re.compile(r"p_value|log10_")


def anchors(page):
    """The anchors of the headings of a page, as readers of the page make them."""
    headings = re.findall(r"^#+ (.*)$", page, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def violations(rules, tests, page):
    found = []
    alerts = re.split(r"^ *- alert: ", rules, flags=re.M)[1:]
    if not alerts:
        return ["no alerts"]
    known = anchors(page)
    for alert in alerts:
        name = alert.split("\n", 1)[0].strip()
        for key in ("expr", "severity", "summary", "description"):
            if not re.search(rf"^ *{key}: *\S", alert, re.M):
                found.append(f"{name}: no {key}")
        expected = f'"{{{{ $externalLabels.calibd_docs }}}}{PAGE}#{name.lower()}"'
        url = re.search(r"^ *runbook_url: (.+)$", alert, re.M)
        if not url or url.group(1) != expected:
            found.append(f"{name}: runbook_url is not {expected}")
        if name.lower() not in known:
            found.append(f"{name}: {PAGE} has no such heading")
        expression = re.split(r"^ *(?:for|labels):", alert, maxsplit=1, flags=re.M)[0]
        if FORBIDDEN.search(expression):
            found.append(f"{name}: looks at a statistic instead of the server's decision")
        fires = re.search(rf'labels: ALERTS{{alertname="{name}", alertstate="firing"', tests)
        if not fires and not re.search(
                rf"alertname: {name}\n *eval_time: \w+\n *exp_alerts:\n *- exp_labels", tests):
            found.append(f"{name}: fires in no test")
    return found


def expressions(rules, kind):
    """The expressions of the rules of a kind (alert or record): {name: expression in one line}."""
    found = {}
    for rule in re.split(rf"^ *- {kind}: ", rules, flags=re.M)[1:]:
        name = rule.split("\n", 1)[0].strip()
        expression = re.search(r"^( *)expr: *\|?(.*\n(?:\1 +.*\n)*)", rule, re.M)[2]
        found[name] = " ".join(expression.split())
    return found


def record_violations(rules, records, tests):
    found = []
    alerts, recorded = expressions(rules, "alert"), expressions(records, "record")
    for name in recorded:
        if not re.fullmatch(r"(model|instance):\w+:\w+", name):
            found.append(f"{name}: its name is not LEVEL:METRIC:OPERATION")
        if name not in tests:
            found.append(f"{name}: is in no test")
    for alert, name in FIGURES.items():
        if re.sub(r" > [\d.]+$", " >= 0", alerts[alert]) != recorded[name]:
            found.append(f"{name}: computes another figure than {alert}")
    return found


def route_violations(rules):
    found = []
    for name in expressions(rules, "alert"):
        receiver = run("amtool", "config", "routes", "test", f"--config.file={ALERTMANAGER}",
                       f"alertname={name}").stdout.strip()
        if receiver != ("pager" if name == PAGED else "channel"):
            found.append(f"{name}: goes to {receiver}")
    return found


def run(*command):
    return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False)


def check(*command):
    result = run(*command)
    return [] if result.returncode == 0 else [result.stdout + result.stderr]


def main():
    texts = {name: (ROOT / name).read_text(encoding="utf-8")
             for name in (RULES, TESTS, PAGE, RECORDS, RECORD_TESTS)}
    problems = violations(texts[RULES], texts[TESTS], texts[PAGE])
    problems += record_violations(texts[RULES], texts[RECORDS], texts[RECORD_TESTS])
    for rules, tests in ((RULES, TESTS), (RECORDS, RECORD_TESTS)):
        problems += check("promtool", "check", "rules", rules)
        problems += check("promtool", "test", "rules", tests)
    problems += check("amtool", "check-config", ALERTMANAGER)
    problems += route_violations(texts[RULES])
    return report("alert rules", problems)


if __name__ == "__main__":
    sys.exit(main())
