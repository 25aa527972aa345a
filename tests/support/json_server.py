"""A real calibd for tests of the API over HTTP."""
import http.client
import json
import pathlib
import random
import re
import subprocess

import jsonschema

from calibd_server import CalibdServer

ROOT = pathlib.Path(__file__).resolve().parents[2]
JSON = {"Content-Type": "application/json"}


class JsonServer(CalibdServer):
    def ask(self, method, path, body=None, headers=None):
        """Returns the status, the headers and the body."""
        connection = http.client.HTTPConnection(self.http, timeout=60)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text,
                               headers if headers is not None else JSON if body is not None else {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, body, **options):
        return self.ask("POST", path, body, **options)

    def create(self, name, classes=None, **fields):
        """classes: of the declaration; without a count, the model has two."""
        kind = {} if "forecast" in fields else {
            "classes": {"count": 2, "bandwidth": {"fixed": 0.2}, **(classes or {})}}
        model = {"name": f"models/{name}", **kind, **fields}
        status, _, text = self.post("/v1/models", {"model": model})
        assert status == 200, text

    def end_label_grace(self, name):
        """Matures the pending predictions: tests whose labels must come in time declare an hour."""
        status, _, text = self.post(f"/v1/models/{name}:update", {
            "model": {"labelGrace": "0.001s"}, "updateMask": "labelGrace"})
        assert status == 200, text

    def run_documented(self, page):
        """Runs the marked commands of a page of the documentation and returns what they print."""
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^<!-- run -->\n```sh\n(.*?)^```$", text, re.M | re.S)
        script = "\n".join(blocks).replace("127.0.0.1:8461", self.http)
        result = subprocess.run(["bash", "-euo", "pipefail", "-c", script], stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=60, check=False)
        assert blocks and result.returncode == 0, result.stdout + result.stderr
        return result.stdout


def observations(rows, seed=0):
    """Predictions of two classes whose labels are drawn from them."""
    generator = random.Random(seed)
    first = [generator.random() for _ in range(rows)]
    return {"probabilities": {"values": [value for p in first for value in (p, 1 - p)]},
            "labels": [0 if generator.random() < p else 1 for p in first]}


def validator(description):
    """Returns the function that checks an answer against the OpenAPI description."""
    def validate(template, method, status, text):
        responses = description["paths"][template][method]["responses"]
        response = responses["200" if status == 200 else "default"]
        (content,) = response["content"].values()
        jsonschema.Draft202012Validator(
            {**content["schema"], "components": description["components"]}).validate(json.loads(text))
    return validate
