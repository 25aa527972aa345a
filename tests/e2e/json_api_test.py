"""The API over HTTP: JSON requests, server-sent events, and the OpenAPI description of both.

    json_api_test.py CALIBD OPENAPI
"""
import concurrent.futures
import http.client
import json
import math
import os
import pathlib
import random
import re
import signal
import socket
import sys
import tempfile
import threading
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from json_server import JSON, JsonServer, observations, validator  # noqa: E402
from wait_for import wait_for  # noqa: E402

CALIBD, OPENAPI = sys.argv.pop(1), sys.argv.pop(1)
DESCRIPTION = json.loads(pathlib.Path(OPENAPI).read_text(encoding="utf-8"))
validate = validator(DESCRIPTION)
MIB = 1 << 20


class JsonApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(JsonServer(CALIBD))

    def check(self, method, path, template, body=None, status=200):
        found, _, text = self.server.ask(method, path, body)
        self.assertEqual(found, status, text)
        validate(template, method.lower(), found, text)
        return json.loads(text)

    def test_documented_commands_succeed(self):
        output = self.server.run_documented("http.md")
        for part in ('"acceptedRows":"2"', '"matched":"1"', '"observations":"2"', '"buckets":',
                     '"evaluation":', '"seed":"7"'):
            self.assertIn(part, output)

    def test_served_description_is_that_of_the_build(self):
        for path in ("/v1/openapi.json", "/v1/openapi.json?x=1"):
            status, _, text = self.server.get(path)
            self.assertEqual(status, 200)
            self.assertEqual(json.loads(text), DESCRIPTION)

    def test_answers_have_the_described_form(self):
        model = {"name": "models/json/versions/2", "classes": {"count": 2}, "labelGrace": "3600s"}
        self.check("POST", "/v1/models", "/v1/models", {"model": model})
        root = "/v1/models/json/versions/2"
        template = "/v1/models/{model}/versions/{version}"
        answer = self.check("POST", root + ":observe", template + ":observe",
                            {"observations": observations(800), "requestId": "first"})
        self.assertEqual(answer["acceptedRows"], "800")
        self.check("POST", root + ":observe", template + ":observe",
                   {"observations": {"probabilities": {"values": [0.3, 0.7]},
                                     "predictionIds": ["visit-1"]}})
        answer = self.check("POST", root + ":label", template + ":label",
                            {"labels": {"predictionIds": ["visit-1", "other"], "labels": [1, 0]}})
        self.assertEqual((answer["labels"]["matched"], answer["labels"]["waiting"]), ("1", "1"))
        self.check("GET", root, template)
        listed = self.check("GET", "/v1/models?pageSize=1000", "/v1/models")
        self.assertIn(model["name"], [one["name"] for one in listed["models"]])
        calibration = self.check("GET", root + "/calibration", template + "/calibration")
        self.assertEqual(calibration["observations"], "800")
        self.assertEqual(calibration["verdict"]["status"], "NOT_REJECTED")
        reliability = self.check("GET", root + "/reliability", template + "/reliability")
        self.assertEqual(len(reliability["bins"]), 15)
        history = self.check("GET", root + "/history?resolution=MINUTE&pageSize=5",
                             template + "/history")
        self.assertEqual(sum(int(one["observations"]) for one in history["buckets"]), 800)

    def test_a_model_of_forecasts_is_served_in_json(self):
        declaration = {"name": "models/demand", "forecast": {"normal": {}}}
        created = self.check("POST", "/v1/models", "/v1/models", {"model": declaration})
        self.assertEqual(created["model"]["forecast"], {"normal": {}})
        root, template = "/v1/models/demand", "/v1/models/{model}"
        generator = random.Random(8)
        outcomes = [generator.gauss(0, 1) for _ in range(600)]
        # (mean, standard deviation) of each; the outcomes are two standard deviations higher.
        forecasts = [value for outcome in outcomes for value in (outcome - 2, 1)]
        answer = self.check("POST", root + ":observe", template + ":observe", {"observations": {
            "forecasts": {"values": forecasts}, "outcomes": outcomes}, "requestId": "past"})
        self.assertEqual(answer["acceptedRows"], "600")
        calibration = self.check("GET", root + "/calibration", template + "/calibration")
        self.assertEqual(calibration["observations"], "600")
        # The CRPS of a standard normal forecast at 2, from its closed form.
        density, below = math.exp(-2) / math.sqrt(2 * math.pi), (1 + math.erf(math.sqrt(2))) / 2
        crps = 2 * (2 * below - 1) + 2 * density - 1 / math.sqrt(math.pi)
        self.assertAlmostEqual(calibration["forecast"]["crps"], crps)
        self.assertAlmostEqual(calibration["forecast"]["residualMean"], 2)
        history = self.check("GET", root + "/history?resolution=HOUR", template + "/history")
        self.assertEqual(history["total"]["observations"], "600")
        answer = self.check("GET", root + "/reliability", template + "/reliability", status=400)
        self.assertEqual(answer["error"]["details"][0]["reason"], "FORECAST_MODEL")
        self.assertIn("`forecast` of the path /calibration", answer["error"]["message"])
        for wrong, part in (({"forecasts": {"values": [0, 1]}, "labels": [1]}, "labels"),
                            ({"probabilities": {"values": [0.5, 0.5]}, "labels": [1]}, "forecasts"),
                            ({"forecasts": {"values": [0, -1]}, "outcomes": [1]}, "standard_deviation")):
            answer = self.check("POST", root + ":observe", template + ":observe",
                                {"observations": wrong}, status=400)
            self.assertIn(part, answer["error"]["message"])

    def test_a_model_of_several_labels_is_served_in_json(self):
        names = [f"label {k}" for k in range(30)]
        declaration = {"name": "models/tags", "labels": {"names": names}, "labelGrace": "3600s"}
        created = self.check("POST", "/v1/models", "/v1/models", {"model": declaration})
        self.assertEqual(created["model"]["labels"]["names"], names)
        root, template = "/v1/models/tags", "/v1/models/{model}"
        # Stated with 0.25 to 0.75; a fifth of the truths of the second label are missing, and the
        # last label always holds.
        stated = [0.25 + 0.5 * k / 29 for k in range(30)]
        generator = random.Random(8)
        truths = [-1 if k == 1 and row % 5 == 0 else int(k == 29 or generator.random() < stated[k])
                  for row in range(500) for k in range(30)]
        answer = self.check("POST", root + ":observe", template + ":observe", {"observations": {
            "probabilities": {"values": stated * 500}, "labels": truths}, "requestId": "past"})
        self.assertEqual(answer["acceptedRows"], "500")
        calibration = self.check("GET", root + "/calibration", template + "/calibration")
        labels = calibration["labels"]["labels"]
        self.assertEqual([label["name"] for label in labels], names)
        self.assertEqual((labels[1]["truths"], labels[29]["held"]), ("400", 1))
        held = sum(truths[0::30]) / 500
        self.assertAlmostEqual(labels[0]["held"], held)
        self.assertEqual(calibration["labels"]["overLimit"][0], "label 29")
        # Truths that come later, all of a row at once.
        self.check("POST", root + ":observe", template + ":observe", {"observations": {
            "probabilities": {"values": stated}, "predictionIds": ["page-1"]}})
        answer = self.check("POST", root + ":label", template + ":label", {"labels": {
            "predictionIds": ["page-1"], "labels": [1] * 30}})
        self.assertEqual(answer["labels"]["matched"], "1")
        # A history shows the labels furthest off, or those of the request.
        history = self.check("GET", root + "/history", template + "/history")
        self.assertEqual((history["kind"], history["labelCount"]), ("labels", 30))
        self.assertEqual(len(history["total"]["labels"]), 20)
        self.assertEqual(history["total"]["labels"][0]["name"], "label 29")
        history = self.check("GET", root + "/history?labels=label%201&labels=label+0&pageSize=1",
                             template + "/history")
        shown = {label["name"]: label for label in history["buckets"][0]["labels"]}
        self.assertEqual(sorted(shown), ["label 0", "label 1"])
        self.assertAlmostEqual(shown["label 0"]["held"], held)
        answer = self.check("GET", root + "/history?labels=label%2099", template + "/history",
                            status=400)
        self.assertIn("labels[0] is \"label 99\", expected one of the 30 labels",
                      answer["error"]["message"])
        for wrong, part in (([0.5] * 29, "values"), ([1.5] + [0.5] * 29, "label 0")):
            answer = self.check("POST", root + ":observe", template + ":observe", {"observations": {
                "probabilities": {"values": wrong}, "labels": [1] * 30}}, status=400)
            self.assertIn(part, answer["error"]["message"])

    def test_outcomes_of_forecasts_come_later_by_id(self):
        self.check("POST", "/v1/models", "/v1/models", {"model": {
            "name": "models/delays", "forecast": {"quantiles": {"levels": [0.1, 0.5, 0.9]}},
            "labelGrace": "3600s"}})
        root, template = "/v1/models/delays", "/v1/models/{model}"
        self.check("POST", root + ":observe", template + ":observe", {"observations": {
            "forecasts": {"values": [0, 4, 11, 1, 3, 8]}, "predictionIds": ["train-1", "train-2"]}})
        labels = {"labels": {"predictionIds": ["train-2", "other"], "outcomes": [5.5, 1]},
                  "requestId": "arrivals"}
        answer = self.check("POST", root + ":label", template + ":label", labels)
        self.assertEqual((answer["labels"]["matched"], answer["labels"]["waiting"]), ("1", "1"))
        # Sent again with the same requestId: it counts nothing, and the counts are 0.
        answer = self.check("POST", root + ":label", template + ":label", labels)
        self.assertEqual(set(answer["labels"].values()), {"0"})
        del labels["requestId"]
        answer = self.check("POST", root + ":label", template + ":label", labels)
        self.assertEqual((answer["labels"]["repeated"], answer["labels"]["waiting"]), ("2", "0"))
        coverage = self.check("GET", root + "/calibration", template + "/calibration")["labelArrivals"]
        self.assertEqual(coverage["pending"], "2")

    def test_a_rejected_batch_keeps_its_request_id(self):
        with JsonServer(CALIBD) as server:
            server.create("ids")

            def observe(rows, request="a"):
                status, _, text = server.post("/v1/models/ids:observe", {
                    "observations": {"probabilities": {"values": rows}, "labels": [0]},
                    "requestId": request})
                answer = json.loads(text)
                return status, answer["error"]["details"][0]["reason"] if "error" in answer else (
                    answer["acceptedRows"], answer["duplicateRows"])
            for _ in range(2):
                self.assertEqual(observe([0.6, 0.6]), (400, "INVALID_OBSERVATIONS"))
            server.kill()
            server.start()
            self.assertEqual(observe([0.6, 0.6]), (400, "INVALID_OBSERVATIONS"))
            self.assertEqual(observe([0.6, 0.4]), (409, "REQUEST_ID_REUSED"))
            self.assertEqual(observe([0.6, 0.4], "b"), (200, ("1", "0")))
            self.assertEqual(observe([0.6, 0.4], "b"), (200, ("0", "1")))
            _, _, text = server.get("/v1/models/ids/calibration")
            self.assertEqual(json.loads(text)["rejectedRows"], "1")

    def test_models_are_updated_and_deleted_and_alarms_acknowledged(self):
        name = "/v1/models/managed/versions/1"
        template = "/v1/models/{model}/versions/{version}"
        self.server.create("managed/versions/1")
        # All predictions are over-confident.
        self.server.post(name + ":observe", {"observations": {
            "probabilities": {"values": [0.99, 0.01] * 600}, "labels": [0, 1] * 300}})
        listed = self.check("GET", "/v1/verdicts?pageSize=1000", "/v1/verdicts")
        (verdict,) = [one for one in listed["models"]
                      if one["model"] == "models/managed/versions/1"]
        self.assertEqual(verdict["verdict"]["limitStatus"], "OVER_LIMIT")
        calibration = self.check("GET", name + "/calibration", template + "/calibration")
        alarm = calibration["alarms"][0]
        acknowledged = self.check("POST", name + ":acknowledge", template + ":acknowledge",
                                  {"alarmId": alarm["id"], "note": "retrained"})
        self.assertEqual(acknowledged["alarm"]["note"], "retrained")
        self.check("POST", name + ":acknowledge", template + ":acknowledge", {"alarmId": "999"},
                   status=404)

        updated = self.check("POST", name + ":update", template + ":update",
                             {"model": {"description": "of pets"}, "updateMask": "description"})
        self.assertEqual(updated["model"]["description"], "of pets")
        for body, part in (({"model": {"name": "models/other"}, "updateMask": "description"},
                            "expected only in the path"),
                           ({"model": {}, "updateMask": "classes.count"}, "classes.count")):
            answer = self.check("POST", name + ":update", template + ":update", body, status=400)
            self.assertIn(part, answer["error"]["message"])

        status, _, text = self.server.ask("DELETE", name, headers={"Origin": "https://evil.example"})
        self.assertEqual(status, 403, text)
        self.check("GET", name, template)
        answer = self.check("DELETE", name, template, status=400)
        self.assertIn("expected the name models/managed/versions/1 again", answer["error"]["message"])
        confirmed = name + "?confirmation=models/managed/versions/1"
        self.check("DELETE", confirmed, template)
        self.check("GET", name, template, status=404)
        self.check("DELETE", confirmed, template, status=404)
        _, _, metrics = self.server.get("/metrics")
        self.assertIn(b'method="DELETE",route="/v1/models/{model}"', metrics)

    def test_computations_answer_with_their_result(self):
        for name, seed in (("first", 1), ("second", 2)):
            self.server.create(name)
            self.server.post(f"/v1/models/{name}:observe", {"observations": observations(150, seed)})
        sent = observations(150, 1)
        first, labels = sent["probabilities"]["values"][::2], sent["labels"]
        # The squared kernel calibration error over all pairs: for two classes, the residuals are
        # (r, -r), the total variation is the difference of p, and the bandwidth is 0.2.
        pairs = [2 * (first[i] - (labels[i] == 0)) * (first[j] - (labels[j] == 0)) *
                 math.exp(-abs(first[i] - first[j]) / 0.2) for i in range(150) for j in range(i)]
        skce = math.fsum(pairs) / len(pairs)
        loss = -sum(math.log(p if y == 0 else 1 - p) for p, y in zip(first, labels)) / 150

        def compute(path, body):
            return self.check("POST", "/v1/models/first" + path, "/v1/models/{model}" + path, body)
        evaluation = compute(":evaluate", {"replicates": 99, "lenses": [{"topLabel": {}}]})
        canonical, top = evaluation["evaluation"]["lenses"]
        self.assertAlmostEqual(canonical["result"]["skceUnbiased"], skce)
        self.assertEqual(top["lens"], "top_label")
        tested = compute(":test", {"replicates": 99, "seed": "7", "window": 150})["result"]
        self.assertAlmostEqual(tested["skceUnbiased"], skce)
        self.assertEqual(tested["seed"], "7")
        compared = compute(":compare", {"baseline": "models/second"})["comparison"]["comparison"]
        self.assertAlmostEqual(compared["logLoss"]["model"], loss)
        estimated = compute(":estimate", {"estimators": ["KERNEL_DENSITY"]})
        self.assertEqual(len(estimated["result"]["estimators"]), 1)
        recalibrated = compute(":recalibrate", {})["recalibration"]
        self.assertEqual(recalibrated["testObservations"], "75")
        template = "/v1/models/{model}/versions/{version}:recalibrate"
        self.check("POST", "/v1/models/first/versions/1:recalibrate", template, {}, status=404)
        for path, body, part in ((":test", {"replicates": 3}, "replicates is 3"),
                                 (":evaluate", {"window": -1}, "window is -1"),
                                 (":evaluate", {"window": 1000}, "150"),
                                 (":compare", {"baseline": "models/first"}, "another model"),
                                 (":recalibrate", {"progress": {}}, "progress")):
            answer = self.check("POST", "/v1/models/first" + path, "/v1/models/{model}" + path, body,
                                status=400)
            self.assertIn(part, answer["error"]["message"])

    def test_a_computation_ends_when_its_client_disconnects(self):
        with JsonServer(CALIBD) as server:
            server.create("long", window=8000)
            for seed in range(8):
                status, _, text = server.post("/v1/models/long:observe",
                                              {"observations": observations(1000, seed)})
                self.assertEqual(status, 200, text)
            body = b'{"replicates": 100000}'
            request = (b"POST /v1/models/long:test HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                       ) + body
            host, port = server.http.rsplit(":", 1)

            def has(line):
                return line in server.get("/metrics")[2].decode()
            # The work stops also if the client has sent another request, or has closed only its side.
            for count, (sent, half) in enumerate(((request, False), (2 * request, False),
                                                  (request, True)), 1):
                with socket.create_connection((host, int(port)), 60) as connection:
                    connection.sendall(sent)
                    self.assertTrue(wait_for(lambda: has("calibd_jobs_running 1\n")))
                    if half:
                        connection.shutdown(socket.SHUT_WR)
                        self.assertEqual(connection.recv(100), b"")
                self.assertTrue(wait_for(
                    lambda: has(f'calibd_jobs_total{{outcome="cancelled"}} {count}\n'), 30))
                self.assertTrue(wait_for(lambda: has(
                    'calibd_http_requests_total{method="POST",route="/v1/models/{model}:test",'
                    f'code="499"}} {count}\n'), 30))
            self.assertEqual(server.post("/v1/models/long:test", {"window": 100})[0], 200)

    def test_a_computation_is_answered_when_the_server_stops(self):
        with JsonServer(CALIBD) as server, concurrent.futures.ThreadPoolExecutor() as pool:
            server.create("stopped", window=8000)
            for seed in range(8):
                server.post("/v1/models/stopped:observe", {"observations": observations(1000, seed)})
            answer = pool.submit(server.post, "/v1/models/stopped:test", {"replicates": 100000})
            self.assertTrue(wait_for(
                lambda: b"\ncalibd_jobs_running 1\n" in server.get("/metrics")[2], 30))
            self.assertEqual(server.stop(), 0)
            status, headers, text = answer.result(60)
            self.assertEqual((status, json.loads(text)["error"]["status"]), (503, "UNAVAILABLE"))
            self.assertIn("Retry-After", headers)

    def test_the_work_of_a_computation_is_limited(self):
        with JsonServer(CALIBD, "--max-test-operations", "100000") as server:
            server.create("work")
            server.post("/v1/models/work:observe", {"observations": observations(500)})
            for path in (":test", ":evaluate"):
                status, headers, text = server.post("/v1/models/work" + path, {})
                self.assertEqual(status, 429, text)
                self.assertIn(b"operations", text)
                # The same request never succeeds.
                self.assertNotIn("Retry-After", headers)

    def test_errors_name_the_field_and_have_the_described_form(self):
        self.server.create("errors")
        root, template = "/v1/models/errors", "/v1/models/{model}"
        observe = (root + ":observe", template + ":observe")
        for body, code, part in (
                ({"observations": {"probabilities": {"values": [0.6, 0.6]}, "labels": [0]}}, 400,
                 "rows[0].probabilities sums to 1.2"),
                ({"observations": {"probabilities": {"values": ["x"]}}}, 400, "probabilities"),
                ({"observation": {}}, 400, "observation"),
                # Without its nulls, this would be a row with the label 1.
                ({"observations": {"probabilities": {"values": [None, None, 0.6, 0.4]},
                                   "labels": [1, None]}}, 400,
                 "observations.probabilities.values[0] is null"),
                # Without the inner brackets, these would be two other rows of two values.
                ({"observations": {"probabilities": {"values": [[0.6], [0.4, 0.7, 0.3]]},
                                   "labels": [0, 1]}}, 400,
                 "observations.probabilities.values[0] is an array, expected one value"),
                ({"observations": {"probabilities": {"values": [0.6, 0.4]}, "labels": [0],
                                   "predictionIds": ["null"], "groupValues": None, "features": None}},
                 400, "prediction_ids"),
                ({"labels": {"predictionIds": ["a"], "labels": [0]}}, 400, "observations is missing"),
                ({"model": "models/other", "observations": observations(1)}, 400,
                 "model is in the path")):
            answer = self.check("POST", *observe, body, status=code)
            self.assertIn(part, answer["error"]["message"])
            self.assertEqual(answer["error"]["status"], "INVALID_ARGUMENT")
        answer = self.check("GET", "/v1/models/missing/calibration", template + "/calibration",
                            status=404)
        self.assertEqual(answer["error"]["details"][0]["reason"], "MODEL_NOT_FOUND")
        answer = self.check("GET", root + "/history?resolution=week", template + "/history",
                            status=400)
        self.assertIn("MINUTE", answer["error"]["message"])
        self.assertEqual(answer["error"]["details"][1]["fieldViolations"][0]["field"], "resolution")
        for path in ("", "/calibration"):
            answer = self.check("GET", "/v1/models/animals@2" + path, template + path, status=400)
            self.assertIn('expected a version in the form "models/animals/versions/2"',
                          answer["error"]["message"])
        for query in ("pageSize=x", "pageSize=1&pageSize=2", "pageToken=%zz", "unknown=1"):
            self.check("GET", "/v1/models?" + query, "/v1/models", status=400)
        answer = self.check("GET", root + "/reliability", template + "/reliability", status=400)
        self.assertEqual(answer["error"]["details"][0]["reason"], "INSUFFICIENT_DATA")
        self.assertEqual(self.server.get("/v1/models/errors/calibration")[0], 200)

    def test_names_in_paths_are_decoded_once(self):
        self.server.create("sky/versions/x--c3-a9")
        not_encoded = "expected % only before the two hexadecimal digits"
        for path, status, part in (
                ("sky/versions/x--c3-a9", 200, None),
                ("s%6By/%76ersions/x-%2Dc3-a9/calibration", 200, None),
                ("s%6by%3Aobserve", 405, "another method"),
                ("sky%402", 400, 'expected a version in the form "models/sky/versions/2"'),
                # The escaped form is that of escape_id in Python.
                ("%C3%A9", 400, 'the escaped form of "é" is x---c3-a9'),
                ("%e9", 400, r'is "models/\xe9", expected models/{model}'),
                # Decoded once, and not to what ends a segment or the path.
                ("s%256by", 400, 'is "models/s%6by", expected models/{model}'),
                ("sky%252Fversions", 400, 'is "models/sky%2Fversions"'),
                ("sky%2Fversions%2Fx--c3-a9", 400, not_encoded),
                ("sky%3FpageSize=1", 400, 'is "models/sky?pageSize=1"'),
                ("sky+1", 400, 'is "models/sky+1"'),
                ("%2e%2e", 400, 'is "models/..", expected models/{model}'),
                ("%2e%2e/verdicts", 404, "there is no such path"),
                ("%2e%2e%2fverdicts", 400, not_encoded),
                ("sky%00", 400, not_encoded), ("sky%7f", 400, not_encoded),
                ("sky%0d%0aX:%201", 400, not_encoded),
                ("sky%", 400, not_encoded), ("sky%6", 400, not_encoded),
                ("sky%6x", 400, not_encoded), ("%u0073ky", 400, not_encoded)):
            found, headers, text = self.server.get("/v1/models/" + path)
            self.assertEqual(found, status, (path, text))
            if part is not None:
                validate("/v1/models/{model}", "get", found, text)
                self.assertIn(part, json.loads(text)["error"]["message"], path)
            self.assertEqual(headers["Allow"], "POST" if status == 405 else None)
        status, _, text = self.server.post("/v1/models/s%6By/versions/x--c3-a9%3aobserve",
                                           {"observations": observations(2)})
        self.assertEqual((status, json.loads(text)["acceptedRows"]), (200, "2"))

    def test_requests_that_http_refuses_get_the_described_error(self):
        self.server.create("refused")
        observe, cloud_event = "/v1/models/refused:observe", "/v1/models/refused:inference"
        for method, path, headers, status, reason in (
                ("GET", "/v1/other", {}, 404, "UNKNOWN_PATH"),
                ("PUT", "/v1/other", {}, 404, "UNKNOWN_PATH"),
                ("GET", "/v1/models", {"Host": "page.example"}, 403, "FOREIGN_HOST"),
                ("POST", observe, {**JSON, "Origin": "http://page.example"}, 403, "FOREIGN_ORIGIN"),
                ("DELETE", "/v1/models/refused", {"Origin": "null"}, 403, "FOREIGN_ORIGIN"),
                ("POST", observe, {}, 415, "UNSUPPORTED_MEDIA_TYPE"),
                ("POST", observe, {**JSON, "Content-Encoding": "gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
                ("POST", cloud_event, {"Content-Type": "application/cloudevents-batch+json"}, 415,
                 "UNSUPPORTED_MEDIA_TYPE"),
                ("POST", cloud_event, {}, 400, "INVALID_FIELD"),
                ("POST", observe, {**JSON, "Transfer-Encoding": "chunked"}, 411, "LENGTH_REQUIRED"),
                ("POST", observe, {**JSON, "Transfer-Encoding": "xchunked", "Content-Length": "2"}, 411,
                 "LENGTH_REQUIRED"),
                ("POST", observe, {**JSON, "Content-Length": "1000000000"}, 413, "MESSAGE_TOO_LARGE"),
                ("GET", "/v1/models", {"Content-Length": "2"}, 413, "UNEXPECTED_BODY"),
                ("GET", "/v1/models", {"X": "x" * 9000}, 431, "HEADER_TOO_LARGE"),
                ("GET", "/v1/models?pageToken=" + "x" * 9000, {}, 431, "HEADER_TOO_LARGE"),
                ("GET", "/v1/models", {"Content-Length": "x"}, 400, "MALFORMED_REQUEST"),
                ("POST", "/v1/openapi.json", {**JSON, "Content-Length": "2"}, 405,
                 "METHOD_NOT_ALLOWED")):
            found, sent, text = self.server.ask(method, path, headers=headers)
            self.assertEqual((found, sent["Content-Type"]), (status, "application/json"), (path, headers))
            validate("/v1/models", "get", found, text)
            error = json.loads(text)["error"]
            self.assertEqual((error["code"], error["details"][0]["reason"]), (status, reason), text)

    def test_other_methods_get_those_of_the_path(self):
        self.server.create("methods")
        for path, others, allowed in (
                ("/v1/models", ("PUT", "DELETE"), "GET, HEAD, POST"),
                ("/v1/models/methods", ("POST", "PATCH"), "GET, HEAD, DELETE"),
                ("/v1/models/methods/versions/2:observe?x=1", ("GET", "DELETE", "OPTIONS"), "POST"),
                ("/v1/models/methods/events", ("POST", "HEAD"), "GET"),
                ("/v1/openapi.json", ("POST", "DELETE"), "GET, HEAD"),
                ("/metrics", ("POST", "BREW"), "GET, HEAD")):
            for method in others:
                with self.subTest(path, method=method):
                    status, headers, _ = self.server.ask(method, path, {} if method == "POST" else None)
                    self.assertEqual((status, headers["Allow"]), (405, allowed))

    def test_head_has_the_header_of_get(self):
        self.server.create("heads")
        for path in ("/v1/models", "/v1/models/heads", "/v1/models/heads/calibration", "/v1/models/none"):
            with self.subTest(path):
                status, headers, body = self.server.ask("HEAD", path)
                got, shown, answer = self.server.get(path)
                self.assertEqual((status, headers["Content-Type"], body),
                                 (got, shown["Content-Type"], b""))
                # Times in the answer may differ in their length.
                self.assertAlmostEqual(int(headers["Content-Length"]), len(answer), delta=10)

    def test_paths_outside_the_api_answer_in_text(self):
        for method, path, headers, status, text in (
                ("GET", "/metric", {}, 404, b"not found\n"),
                ("POST", "/metrics", {**JSON, "Content-Length": "2"}, 405, b"GET and HEAD only\n"),
                ("GET", "/metrics", {"Host": "page.example"}, 403, None),
                ("GET", "/metrics", {"X": "x" * 9000}, 431, b"header too large\n"),
                ("GET", "/healthz", {"Content-Length": "2"}, 413, None)):
            found, sent, answer = self.server.ask(method, path, headers=headers)
            self.assertEqual((found, sent["Content-Type"]), (status, "text/plain; charset=utf-8"))
            self.assertIn(answer, (text or answer,))

    def test_web_pages_cannot_write(self):
        self.server.create("pages")
        path, body = "/v1/models/pages:observe", {"observations": observations(1)}
        for headers, status in (({**JSON, "Origin": "http://page.example"}, 403),
                                ({**JSON, "Origin": "null"}, 403),
                                ({**JSON, "Origin": f"http://{self.server.http}"}, 200),
                                ({**JSON, "Host": "page.example"}, 403),
                                ({"Content-Type": "text/plain"}, 415),
                                ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
                                ({"Content-Type": "text/plain", "ce-id": "1"}, 415),
                                ({"Content-Type": "application/cloudevents+json"}, 415),
                                ({**JSON, "Content-Encoding": "gzip"}, 415),
                                ({}, 415)):
            self.assertEqual(self.server.post(path, body, headers=headers)[0], status, headers)
        status, headers, _ = self.server.ask("OPTIONS", path, headers={
            "Origin": "http://page.example", "Access-Control-Request-Method": "POST"})
        self.assertEqual(status, 405)
        self.assertNotIn("Access-Control-Allow-Origin", headers)
        self.assertEqual(json.loads(self.server.get("/v1/models/pages/calibration")[2])
                         ["observations"], "1")

    def events(self, path, headers=None):
        """Yields the ids and data of a stream of events."""
        connection = http.client.HTTPConnection(self.server.http, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.headers["Content-Type"]), (200, "text/event-stream"))
        self.assertEqual(answer.readline(), b"retry: 1000\n")
        event = {}
        for line in answer:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name in ("event", "id", "data"):
                event[name] = value
            elif not name and event:
                validate("/v1/models/{model}/events", "get", 500 if "event" in event else 200,
                         event["data"])
                yield event.get("event", event.get("id")), json.loads(event["data"])
                event = {}

    def test_events_follow_the_model_and_continue_after_the_last_one(self):
        self.server.create("events")
        path = "/v1/models/events/events?minInterval=0.1s"
        stream = self.events(path)
        _, first = next(stream)
        self.assertEqual(first["calibration"]["observations"], "0")
        self.server.post("/v1/models/events:observe", {"observations": observations(3)})
        last, second = next(stream)
        self.assertEqual(second["calibration"]["observations"], "3")
        continued = self.events(path, {"Last-Event-ID": last})
        self.assertNotIn("calibration", next(continued)[1])
        self.server.post("/v1/models/events:observe", {"observations": observations(4)})
        self.assertEqual(next(continued)[1]["calibration"]["observations"], "7")
        self.assertEqual(self.server.get("/v1/models/none/events")[0], 404)
        # A new stream begins with the calibration.
        self.assertEqual(next(self.events(path))[1]["calibration"]["observations"], "7")
        self.assertEqual(self.server.ask("DELETE", "/v1/models/events?confirmation=models/events")[0], 200)
        name, error = list(continued)[-1]
        self.assertEqual((name, error["error"]["details"][0]["reason"]), ("error", "MODEL_NOT_FOUND"))

    def test_open_streams_of_events_leave_room_for_other_requests(self):
        self.server.create("many")
        streams, refused = [], 0
        for _ in range(40):
            connection = http.client.HTTPConnection(self.server.http, timeout=60)
            self.addCleanup(connection.close)
            connection.request("GET", "/v1/models/many/events")
            answer = connection.getresponse()
            refused += answer.status == 429
            if answer.status == 429:
                self.assertEqual(answer.headers["Retry-After"], "1")
                error = json.loads(answer.read())["error"]
                self.assertEqual(error["details"][0]["reason"], "TOO_MANY_EVENT_STREAMS")
            streams.append(answer)
        self.assertGreaterEqual(refused, 20)
        self.assertLess(refused, 40)
        self.assertEqual(self.server.get("/metrics")[0], 200)
        self.assertEqual(self.server.get("/v1/models/many")[0], 200)

    def test_a_stream_whose_client_has_gone_leaves_its_place_at_once(self):
        with JsonServer(CALIBD, "--max-http-connections", "16") as server:
            server.create("left")
            host, port = server.http.rsplit(":", 1)

            def subscribe():
                connection = self.enterContext(socket.create_connection((host, int(port)), 60))
                connection.sendall(b"GET /v1/models/left/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                received = b""
                # The header, and then the event of the present state or an error.
                while received.count(b"\n\n") + received.count(b"}\n") == 0:
                    received += connection.recv(65536)
                return connection, received[9:12]
            # A silent stream gets a comment after 15 s. Before that, the places of clients that have
            # closed their connection, or their side of it, are taken again: of four in total, one address has
            # at most three.
            kept, status = subscribe()
            self.assertEqual(status, b"200")
            for leave in (socket.socket.close, lambda one: one.shutdown(socket.SHUT_WR),
                          socket.socket.close):
                streams = []

                def takes_a_place(taken=streams):
                    connection, status = subscribe()
                    if status == b"200":
                        taken.append(connection)
                    return status == b"200"
                for _ in range(2):
                    self.assertTrue(wait_for(takes_a_place, 60))
                self.assertEqual(subscribe()[1], b"429")
                for connection in streams:
                    leave(connection)
            kept.setblocking(False)
            self.assertRaises(BlockingIOError, kept.recv, 1)

    def test_the_memory_of_bodies_is_limited_before_they_arrive(self):
        server = self.enterContext(JsonServer(CALIBD, "--call-memory-bytes", str(16 * MIB)))
        server.create("bodies")
        # The threads that served the call may still hold its memory when it is answered.
        self.assertTrue(wait_for(
            lambda: b"\ncalibd_call_memory_bytes 0\n" in server.get("/metrics")[2], 30))
        header = ("POST /v1/models/bodies:observe HTTP/1.1\r\nHost: localhost\r\n"
                  f"Content-Type: application/json\r\nContent-Length: {MIB}\r\n\r\n").encode()
        host, port = server.http.rsplit(":", 1)
        answers = []
        for _ in range(24):
            connection = self.enterContext(socket.create_connection((host, int(port)), 60))
            connection.sendall(header)
            connection.setblocking(False)
            answers.append(connection)

        def refused():
            count = 0
            for connection in answers:
                try:
                    count += connection.recv(64, socket.MSG_PEEK).startswith(b"HTTP/1.1 429")
                except BlockingIOError:
                    pass
            return count
        # An address may use a quarter of 16 MiB.
        self.assertTrue(wait_for(lambda: refused() == 20), refused())
        for connection in answers:
            connection.close()
        self.assertTrue(wait_for(lambda: server.post(
            "/v1/models/bodies:observe", {"observations": observations(1)})[0] == 200, 30))
        # While it is parsed, a body reserves 32 times its length; half a MiB never succeeds.
        status, headers, text = server.post("/v1/models/bodies:observe", "x" * (MIB // 2))
        self.assertEqual((status, headers["Retry-After"]), (429, None), text)
        self.assertIn(b"send smaller batches", text)
        status, _, _ = server.post("/v1/models/bodies:observe", "x" * (MIB + 1))
        self.assertEqual(status, 413)

    def test_bodies_of_one_address_are_parsed_at_the_same_time(self):
        server = self.enterContext(JsonServer(CALIBD, "--writer-threads", "2"))
        server.create("parallel")
        body = {"observations": observations(2000)}

        def seconds_of_parsers():
            """CPU time of each thread that parses small bodies."""
            times = []
            for task in pathlib.Path(f"/proc/{server.pid}/task").iterdir():
                if (task / "comm").read_text(encoding="utf-8").strip() == "calibd-json":
                    times.append(int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9)
            return times

        def sent_by_four():
            with concurrent.futures.ThreadPoolExecutor(4) as clients:
                answers = [clients.submit(server.post, "/v1/models/parallel:observe", body)
                           for _ in range(16)]
            return {answer.result()[0] for answer in answers}

        self.assertEqual(len(seconds_of_parsers()), 2)
        statuses = set()

        def both_have_parsed():
            statuses.update(sent_by_four())
            return min(seconds_of_parsers()) > 0.005

        self.assertTrue(wait_for(both_have_parsed))
        self.assertEqual(statuses, {200})

    def test_a_client_may_wait_before_it_sends_a_body(self):
        self.server.create("waits")
        body = json.dumps({"observations": observations(1)}).encode()
        host, port = self.server.http.rsplit(":", 1)
        for path, answers in (("waits:observe", (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 200 OK")),
                              ("waits:other", (b"HTTP/1.1 404 Not Found",))):
            with socket.create_connection((host, int(port)), 60) as connection:
                connection.sendall((f"POST /v1/models/{path} HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Type: application/json\r\nExpect: 100-continue\r\n"
                                    f"Content-Length: {len(body)}\r\n\r\n").encode())
                for answer in answers:
                    self.assertEqual(connection.recv(len(answer), socket.MSG_WAITALL), answer)
                    connection.sendall(body)

    def test_nested_and_large_bodies_are_refused_or_counted(self):
        self.server.create("large")
        for deep in (b'{"observations":' * 5000, b'{"labels":' + b"[" * 100000):
            connection = http.client.HTTPConnection(self.server.http, timeout=60)
            connection.request("POST", "/v1/models/large:observe", deep, JSON)
            self.assertEqual(connection.getresponse().status, 400)
            connection.close()
        body = {"observations": {"probabilities": {"values": [0, 1] * 100000},
                                 "labels": [1] * 100000}}
        status, _, text = self.server.post("/v1/models/large:observe", body)
        self.assertIn(status, (200, 400), text)
        self.assertEqual(self.server.get("/healthz")[0], 200)


class MemoryTest(unittest.TestCase):
    def test_an_answer_occupies_memory_until_its_client_has_read_it(self):
        names = [f"class {i} {'-' * 40}" for i in range(15000)]
        with JsonServer(CALIBD) as server, socket.socket() as connection:
            status, _, answer = server.post("/v1/models", {"model": {
                "name": "models/wide", "window": 2, "classes": {"names": names, "blockSizes": [2]}}})
            self.assertEqual(status, 200, answer[:300])
            # The system then buffers only a part of what is not read.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
            host, port = server.http.rsplit(":", 1)
            connection.connect((host, int(port)))
            connection.sendall(b"GET /v1/models/wide HTTP/1.1\r\nHost: localhost\r\n\r\n")

            def reserved():
                return int(re.search(rb"\ncalibd_call_memory_bytes (\d+)\n", server.get("/metrics")[2])[1])
            connection.recv(1, socket.MSG_PEEK)
            self.assertGreaterEqual(reserved(), len(answer))
            connection.close()
            self.assertTrue(wait_for(lambda: reserved() == 0, 60))


class TurnsTest(unittest.TestCase):
    """The only thread that parses small bodies is held at its first one, until the others wait for
    it."""

    def test_the_bodies_of_addresses_take_turns_and_requests_without_one_do_not_wait(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        hold = pathlib.Path(folder) / "hold"
        hold.touch()
        server = self.enterContext(JsonServer(
            CALIBD, "--writer-threads", "1",
            environment={"CALIBD_FAILPOINT": f"HttpBody.start@{hold}"}))
        bodies = 0

        def declare(source, name, classes):
            nonlocal bodies
            body = json.dumps({"model": {"name": f"models/{name}", "classes": {"count": classes}}}).encode()
            bodies += len(body)
            host, port = server.http.rsplit(":", 1)
            connection = self.enterContext(socket.create_connection((host, int(port)), 60, (source, 0)))
            connection.sendall(b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                               b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return connection

        def received():
            line = f"\ncalibd_call_memory_bytes {bodies}\n".encode()
            return wait_for(lambda: line in server.get("/metrics")[2], 60)
        first = declare("127.0.0.2", "first", 2)
        greedy = [declare("127.0.0.2", "contested", 3) for _ in range(5)]
        self.assertTrue(received())
        patient = declare("127.0.0.3", "contested", 2)
        self.assertTrue(received())
        self.assertEqual(json.loads(server.get("/v1/models")[2])["models"], [])
        hold.unlink()
        # The first declaration of a name is that which counts.
        answers = [connection.recv(12) for connection in (first, patient, *greedy)]
        self.assertEqual(answers, [b"HTTP/1.1 200"] * 2 + [b"HTTP/1.1 409"] * 5)


class KillTest(unittest.TestCase):
    def test_batches_with_request_ids_count_once_over_20_kills(self):
        with tempfile.TemporaryDirectory() as folder:
            data = ("--data-dir", str(pathlib.Path(folder) / "data"))
            generator = random.Random(20)
            sent = 0
            for _ in range(20):
                with JsonServer(CALIBD, *data) as server:
                    # A repeated declaration returns the model, and the newest batch is repeated,
                    # because its answer may have been lost.
                    server.create("killed")
                    answered = threading.Semaphore(0)
                    killer = threading.Thread(target=self.kill_after, args=(
                        server, answered, generator.randint(1, 20)))
                    killer.start()
                    try:
                        while True:
                            self.send(server, sent)
                            sent += 1
                            answered.release()
                    except (OSError, http.client.HTTPException):
                        killer.join()
            with JsonServer(CALIBD, *data) as server:
                self.send(server, sent)
                text = server.get("/v1/models/killed/calibration")[2]
                self.assertEqual(json.loads(text)["observations"], str(10 * (sent + 1)))
        self.assertGreaterEqual(sent, 20)

    def kill_after(self, server, answered, batches):
        """Kills the server while it gets the batches after these."""
        for _ in range(batches):
            answered.acquire()
        os.kill(server.pid, signal.SIGKILL)

    def send(self, server, number):
        status, _, text = server.post("/v1/models/killed:observe", {
            "observations": observations(10, number), "requestId": f"batch-{number}"})
        self.assertEqual(status, 200, text)


if __name__ == "__main__":
    unittest.main()
