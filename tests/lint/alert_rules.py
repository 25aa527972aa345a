"""Fails when the alert rules are wrong: promtool's checks, the rules' own tests, and the page.

Each alert has a severity, texts, and a runbook_url that leads to a heading of docs/monitoring.md
with its name; each fires in a test. No rule looks at a p-value, or at an e-value itself: alerts
follow the decision that the server made.
"""
import re
import subprocess
import sys

from sources import ROOT, report

RULES = "deploy/prometheus/calibd_alerts.yml"
TESTS = "deploy/prometheus/calibd_alerts_test.yml"
PAGE = "docs/monitoring.md"
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


def promtool(*arguments):
    result = subprocess.run(["promtool", *arguments], cwd=ROOT, stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False)
    return [] if result.returncode == 0 else [result.stdout + result.stderr]


def main():
    problems = violations(*((ROOT / name).read_text(encoding="utf-8")
                            for name in (RULES, TESTS, PAGE)))
    problems += promtool("check", "rules", RULES)
    problems += promtool("test", "rules", TESTS)
    return report("alert rules", problems)


if __name__ == "__main__":
    sys.exit(main())
