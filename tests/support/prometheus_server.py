"""A real Prometheus for tests, which scrapes calibd and evaluates the rules of deploy."""
import json
import math
import pathlib
import random
import subprocess
import urllib.parse
import urllib.request

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def some_address():
    """For a program that does not say which port it got for port 0."""
    return f"127.0.0.1:{random.SystemRandom().randrange(20000, 30000)}"


class PrometheusServer:
    """Scrapes a calibd every second until stop().

    folder: for its files. target: the HTTP address of calibd. alertmanager: the address to which it sends
    alerts, if any.
    """

    def __init__(self, folder, target, alertmanager=None):
        config = folder / "prometheus.json"
        managers = [{"static_configs": [{"targets": [alertmanager]}]}] if alertmanager else []
        config.write_text(json.dumps({
            "alerting": {"alertmanagers": managers},
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(_ROOT / f"deploy/prometheus/calibd_{rules}.yml")
                           for rules in ("alerts", "records")],
            "scrape_configs": [{"job_name": "calibd", "static_configs": [{"targets": [target]}]}],
        }), encoding="utf-8")
        self.address = some_address()
        self._log = open(folder / "prometheus.log", "w", encoding="utf-8")
        self._process = subprocess.Popen(
            ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address={self.address}"],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT)

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v1/{path}", timeout=60) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def query(self, expression):
        """The series of an instant query that have a value: [(labels, value)]."""
        answer = self.get("query?" + urllib.parse.urlencode({"query": expression}))
        found = [(one["metric"], float(one["value"][1])) for one in (answer or {"result": []})["result"]]
        return [(labels, value) for labels, value in found if not math.isnan(value)]

    def alerts(self):
        """The texts of the alerts of each model, also of those that are pending: {model: {alert: text}}.

        A model is NAME, or NAME@VERSION.
        """
        found = {}
        for alert in (self.get("alerts") or {"alerts": []})["alerts"]:
            labels = alert["labels"]
            if "model" in labels:
                version = labels.get("version")
                model = labels["model"] + (f"@{version}" if version else "")
                texts = alert["annotations"]["summary"] + "\n" + alert["annotations"]["description"]
                found.setdefault(model, {})[labels["alertname"]] = texts
        return found

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()
