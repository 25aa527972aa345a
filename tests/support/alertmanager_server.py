"""A real Alertmanager for tests, with the routes of the example of deploy."""
import http.server
import json
import pathlib
import subprocess
import threading
import urllib.request

from prometheus_server import some_address

_EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "deploy/prometheus/alertmanager.yml"


class AlertmanagerServer:
    """Runs until stop(). folder: for its files. Instead of a pager and a channel, it notifies this object."""

    def __init__(self, folder):
        # {receiver: {(alert, model)}}
        self.notified = {"pager": set(), "channel": set()}
        self._receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._receiver.serve_forever, daemon=True).start()
        routes, _, _ = _EXAMPLE.read_text(encoding="utf-8").partition("receivers:\n")
        config = folder / "alertmanager.yml"
        # The test does not wait for alerts that are to come in the same message.
        config.write_text(routes.replace("group_wait: 1m", "group_wait: 1s").replace("group_wait: 10s", "group_wait: 1s")
                          + "receivers: " + json.dumps([self._webhook(name) for name in self.notified]) + "\n",
                          encoding="utf-8")
        self.address = some_address()
        self._log = open(folder / "alertmanager.log", "w", encoding="utf-8")
        self._process = subprocess.Popen(
            ["prometheus-alertmanager", f"--config.file={config}", f"--storage.path={folder / 'alertmanager'}",
             f"--web.listen-address={self.address}", "--cluster.listen-address="],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT)

    def _webhook(self, name):
        port = self._receiver.server_address[1]
        return {"name": name, "webhook_configs": [{"url": f"http://127.0.0.1:{port}/{name}"}]}

    def _handler(self):
        notified = self.notified

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                notified[self.path[1:]] |= {(alert["labels"]["alertname"], alert["labels"].get("model"))
                                            for alert in message["alerts"] if alert["status"] == "firing"}
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler

    def inhibited(self):
        """The alerts about which nobody is notified, because another alert is active: {(alert, model)}."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/api/v2/alerts", timeout=60) as answer:
                alerts = json.load(answer)
        except OSError:
            return set()
        return {(alert["labels"]["alertname"], alert["labels"].get("model")) for alert in alerts
                if alert["status"]["inhibitedBy"]}

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._receiver.shutdown()
        self._receiver.server_close()
