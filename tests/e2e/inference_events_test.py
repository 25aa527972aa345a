"""Answers of model servers as CloudEvents over HTTP.

    inference_events_test.py CALIBD OPENAPI
"""
import base64
import collections
import concurrent.futures
import datetime
import http.client
import json
import math
import pathlib
import struct
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from json_server import JsonServer, validator  # noqa: E402
from wait_for import wait_for  # noqa: E402

CALIBD, OPENAPI = sys.argv.pop(1), sys.argv.pop(1)
DESCRIPTION = json.loads(pathlib.Path(OPENAPI).read_text(encoding="utf-8"))
validate = validator(DESCRIPTION)

STRUCTURED = "application/cloudevents+json"
JSON_TYPES = ("application/json", "Application/JSON", "APPLICATION/JSON; charset=utf-8")


def field(number, data):
    """A field of protobuf with a length, written by hand from the protocol."""
    return bytes([number << 3 | 2, len(data)]) + data


def message(outputs, raw):
    """A ModelInferResponse. outputs: name, datatype, shape. raw: the raw contents."""
    return b"".join([*(field(5, field(1, name) + field(2, datatype) + field(3, bytes(shape)))
                       for name, datatype, shape in outputs), *(field(6, one) for one in raw)])


class InferenceEventsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(JsonServer(CALIBD))

    def test_documented_events_of_kserve_are_counted(self):
        output = self.server.run_documented("kserve.md")
        for part in ('"acceptedRows":"1"', '"acceptedRows":"2"', '"matched":"5"'):
            self.assertIn(part, output)

    def infer(self, model, identifier, body, content_type="application/json", kind="response",
              **headers):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.server.http, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", f"/v1/models/{model}:inference", data, {
            "Content-Type": content_type, "ce-specversion": "1.0", "ce-id": identifier,
            "ce-source": "test", "ce-type": f"org.kubeflow.serving.inference.{kind}",
            **headers})
        answer = connection.getresponse()
        text = answer.read()
        validate("/v1/models/{model}:inference", "post", answer.status, text)
        return answer.status, json.loads(text)

    def test_answers_of_model_servers_are_read_in_every_form(self):
        # ModelInferResponse of one output "p" with two rows.
        raw = struct.pack("<4f", 0.25, 0.75, 0.5, 0.5)
        tensor = field(1, b"p") + field(2, b"FP32") + field(3, bytes([2, 2]))
        binary = field(1, b"forms") + field(5, tensor) + field(6, raw)
        typed = field(5, tensor + field(5, field(6, raw)))
        # The shape [-1, 2].
        unknown = message([(b"p", b"FP32", (*[255] * 9, 1, 2))], [raw])
        half = message([(b"p", b"FP16", (2, 2))], [struct.pack("<4e", 0.25, 0.75, 1, 2**-24)])
        two = {"name": "p", "shape": [2, 2], "datatype": "FP64", "data": [[0.25, 0.75], [0.5, 0.5]]}
        other = {"name": "q", "shape": [1], "datatype": "INT64", "data": [1]}
        named = {"inferenceOutput": {"name": "p"}}
        for number, (settings, body, rows) in enumerate((
                ({}, {"predictions": [[0.25, 0.75], [0.5, 0.5]]}, 2),
                ({}, {"predictions": [0.75, 0.5, 1]}, 3),
                (named, {"predictions": [{"p": [0.25, 0.75], "q": 1}]}, 1),
                ({}, {"outputs": [two]}, 2), (named, {"outputs": [other, two]}, 2),
                ({}, {"outputs": [{**two, "shape": [-1, 2]}]}, 2),
                ({}, message([(b"p", b"FP32", ())], [raw]), 2), ({}, unknown, 2),
                ({}, binary, 2), (named, typed, 2), ({}, half, 2),
                ({"inferenceOutput": {"transform": "SOFTMAX"}},
                 {"predictions": [[3, -1], [1000, -1000]]}, 2),
                ({"inferenceOutput": {"transform": "SIGMOID"}},
                 {"outputs": [{"name": "x", "shape": [3, 1], "data": [-2, 0, 5]}]}, 3),
                ({"classes": {"names": ["a", "b"]}, "inferenceOutput": {"columnClasses": ["b", "a"]}},
                 {"predictions": [[0.75, 0.25]]}, 1))):
            model = f"forms{number}"
            self.server.create(model, labelGrace="3600s", **settings)
            kind = "application/octet-stream" if isinstance(body, bytes) else JSON_TYPES[number % 3]
            for accepted in (rows, 0):
                status, answer = self.infer(model, "event-1", body, kind)
                self.assertEqual((status, answer.get("acceptedRows")), (200, str(accepted)), answer)
            self.assertEqual(answer["duplicateRows"], str(rows))
            identifiers = ["event-1"] if rows == 1 else [f"event-1/{i}" for i in range(rows)]
            _, _, text = self.server.post(f"/v1/models/{model}:label", {
                "labels": {"predictionIds": identifiers, "labels": [1] * rows}})
            self.assertEqual(json.loads(text)["labels"]["matched"], str(rows), text)

    def test_rows_may_name_their_classes(self):
        settings = {"labelGrace": "3600s", "inferenceOutput": {"columnClasses": ["b", "a"]}}
        self.server.create("keyed", {"names": ["a", "b"]}, **settings)
        self.server.create("keyed-p", {"names": ["a", "b"]}, labelGrace="3600s",
                           inferenceOutput={"name": "p"})
        self.server.create("keyed-numbers", {"count": 11}, labelGrace="3600s")
        eleven = {str(k): 1.0 if k == 10 else 0 for k in range(11)}
        rows = 0
        for model, predictions, label in (
                ("keyed", [{"0": 0.9, "1": 0.1}, {"1": 0.1, "0": 0.9}], 0),
                ("keyed", [{"b": 0.9, "a": 0.1}], 1), ("keyed-p", [{"p": {"b": 0.9, "a": 0.1}, "q": 1}], 1),
                ("keyed-p", [{"a": 0.9, "b": 0.1}], 0), ("keyed-numbers", [eleven], 10)):
            rows += 1
            status, answer = self.infer(model, f"event-{rows}", {"predictions": predictions})
            self.assertEqual((status, answer.get("acceptedRows")), (200, str(len(predictions))), answer)
            ids = [f"event-{rows}"] if len(predictions) == 1 else [f"event-{rows}/0", f"event-{rows}/1"]
            self.server.post(f"/v1/models/{model}:label", {
                "labels": {"predictionIds": ids, "labels": [label] * len(ids)}})
        for model, predictions, part in (
                ("keyed", [{"a": 0.9, "c": 0.1}], 'a value for each of the numbers 0..1 of the classes, or '
                 'their names "a", "b"'),
                ("keyed", [{"a": 0.9, "b": 0.1}, {"0": 0.9, "1": 0.1}], "predictions[1] does not have the keys"),
                ("keyed", [{"a": 0.9, "b": "x"}], "predictions[0].b is the text"),
                ("keyed", [{"a": 0.5, "b": 1.5}], "predictions[0].b is 1.5, expected a number in [0, 1]")):
            status, answer = self.infer(model, "refused", {"predictions": predictions})
            self.assertEqual(status, 400)
            self.assertIn(part, answer["error"]["message"])
        for model in ("keyed", "keyed-p", "keyed-numbers"):
            self.server.end_label_grace(model)

            def scored():
                _, _, text = self.server.get(f"/v1/models/{model}/calibration")
                return json.loads(text).get("scores", {}).get("accuracy")
            self.assertTrue(wait_for(lambda: scored() is not None), model)
            self.assertEqual(scored(), 1, model)

    def test_classes_are_no_probabilities(self):
        self.server.create("classes", labelGrace="3600s")
        certain = [1.0, 0.0] * 10
        for number, predictions in enumerate(([1], [0, 1, 1], certain, [[1]], [[0, 1]] * 20)):
            status, answer = self.infer("classes", f"refused-{number}", {"predictions": predictions})
            self.assertEqual(status, 400, answer)
            self.assertIn("which seem to be classes, expected probabilities", answer["error"]["message"])
            self.assertIn("PREDICT_PROBA", answer["error"]["message"])
        for number, (predictions, rows) in enumerate((
                ([1.0], 1), (certain[:19], 19), ([0, 0.5], 2), ([[0, 1]], 1), ([[1.0, 0.0]] * 30, 30))):
            status, answer = self.infer("classes", f"counted-{number}", {"predictions": predictions})
            self.assertEqual((status, answer.get("acceptedRows")), (200, str(rows)), answer)
        # Events of one row each. Only integers add up, and a row that is a probability begins anew.
        self.server.create("classes-one", {"count": 3}, labelGrace="3600s")
        one, sent = [[0, 1, 0]], 0

        def infer_one(predictions):
            nonlocal sent
            sent += 1
            return self.infer("classes-one", f"one-{sent}", {"predictions": predictions})
        for predictions in [one] * 19 + [[[0.5, 0.5, 0]]] + [one] * 18 + [[[0.0, 1.0, 0.0]]] + [one] * 19:
            self.assertEqual(infer_one(predictions)[0], 200)
        for _ in range(2):
            status, answer = infer_one(one)
            self.assertEqual(status, 400, answer)
            self.assertIn("has only the integers 0 and 1 in 20 rows in succession, which seem to be classes",
                          answer["error"]["message"])
        self.assertEqual(infer_one([[0.0, 1.0, 0.0]])[0], 200)
        self.assertEqual(infer_one(one)[0], 200)
        self.server.create("classes-logits", labelGrace="3600s", inferenceOutput={"transform": "SIGMOID"})
        status, answer = self.infer("classes-logits", "1", {"predictions": [1, 0]})
        self.assertEqual((status, answer.get("acceptedRows")), (200, "2"), answer)

    def test_encoded_attributes_are_decoded(self):
        self.server.create("encoded", labelGrace="3600s")
        body = {"predictions": [[0.25, 0.75]]}
        # "Grüße 50%" as it is, quoted and encoded; the raw text of a sender that does not encode.
        for number, (identifier, accepted) in enumerate((
                ("Gr%C3%BC%C3%9Fe%2050%25", "1"), ('"Gr%C3%BC%C3%9Fe 50%25"', "0"),
                ('"a\\"b"', "1"), ("a%22b", "0"), ("50%off", "1"), ("50%25off", "0"))):
            status, answer = self.infer("encoded", identifier, body)
            self.assertEqual((status, answer.get("acceptedRows")), (200, accepted),
                             (number, answer))
        _, _, text = self.server.post("/v1/models/encoded:label", {"labels": {
            "predictionIds": ["Grüße 50%", 'a"b', "50%off"], "labels": [1, 0, 1]}})
        self.assertEqual(json.loads(text)["labels"]["matched"], "3", text)
        status, answer = self.infer("encoded", "%FF", body)
        self.assertEqual(status, 400)
        self.assertIn("ce-id is", answer["error"]["message"])
        self.assertIn("expected UTF-8", answer["error"]["message"])
        status, answer = self.infer("encoded", "typed", body,
                                    **{"ce-type": "org%2Ekubeflow.serving.inference.response"})
        self.assertEqual((status, answer.get("acceptedRows")), (200, "1"), answer)

    def test_a_baseline_is_taken_from_json_and_from_events(self):
        self.server.create("both", {"baseline": "1"}, labelGrace="3600s", labelsComeWithPredictions=True)
        _, _, text = self.server.post("/v1/models/both:observe", {"observations": {
            "probabilities": {"values": [0.25, 0.75]}, "labels": [1], "predictionIds": ["a"],
            "baselineProbabilities": {"values": [0.5, 0.5]}}})
        self.assertEqual(json.loads(text)["acceptedRows"], "1", text)
        _, _, text = self.server.get("/v1/models/both/calibration")
        compared = json.loads(text)["comparison"]
        self.assertAlmostEqual(compared["logLoss"]["difference"], math.log(0.5 / 0.75))

        second = {"name": "old", "shape": [2, 2], "data": [0.5, 0.5, 0.25, 0.75]}
        outputs = [{"name": "new", "shape": [2, 2], "data": [0.75, 0.25, 0.5, 0.5]}, second]
        self.server.create("event", {"names": ["a", "b"], "baseline": "1"}, labelGrace="3600s",
                           inferenceOutput={"name": "new", "baselineName": "old",
                                            "columnClasses": ["b", "a"]})
        status, answer = self.infer("event", "1", {"outputs": outputs})
        self.assertEqual((status, answer["acceptedRows"]), (200, "2"), answer)
        self.server.post("/v1/models/event:label", {
            "labels": {"predictionIds": ["1/0", "1/1"], "labels": [1, 1]}})
        self.server.end_label_grace("event")

        def compared_rows():
            _, _, text = self.server.get("/v1/models/event/calibration")
            return json.loads(text).get("comparison")
        self.assertTrue(wait_for(lambda: compared_rows() is not None))
        compared = compared_rows()
        self.assertEqual(compared["observations"], "2")
        # The column of class b is the first one.
        self.assertAlmostEqual(compared["logLoss"]["model"], -math.log(0.75 * 0.5) / 2)
        self.assertAlmostEqual(compared["logLoss"]["baseline"], -math.log(0.5 * 0.25) / 2)

        for body, part in (({"outputs": outputs[:1]}, 'has no output \\"old\\"'),
                           ({"outputs": [*outputs, outputs[1]]}, 'has two outputs \\"old\\"'),
                           ({"outputs": [outputs[0], {**second, "shape": [4], "data": [0.5] * 4}]},
                            "expected the same")):
            status, answer = self.infer("event", "2", body)
            self.assertEqual(status, 400, answer)
            self.assertIn(part.replace("\\", ""), answer["error"]["message"])
        for fields, output in (({}, {"baselineName": "old"}),
                               ({"baseline": "1"}, {"name": "p", "baselineName": "p"})):
            status, _, text = self.server.post("/v1/models", {"model": {
                "name": "models/invalid", "classes": {"count": 2, **fields},
                "inferenceOutput": output}})
            self.assertEqual(status, 400, text)
            self.assertIn(b"inference_output.baseline_name", text)
        self.server.create("unpaired", {"baseline": "1"}, labelGrace="3600s")
        status, answer = self.infer("unpaired", "1", {"predictions": [[1, 0]]})
        self.assertEqual(status, 400, answer)
        self.assertIn("predictions of the model's baseline", answer["error"]["message"])

    def test_events_that_are_no_answers_are_ignored_and_false_ones_refused(self):
        self.server.create("false", labelGrace="3600s")
        status, answer = self.infer("false", "1", {"instances": [[1]]}, kind="request")
        self.assertEqual((status, answer["acceptedRows"]), (200, "0"))
        for body, part in (({"predictions": [[0.6, 0.6]]}, "sums to 1.2"),
                           ({"predictions": [[0.2, 0.3, 0.5]]},
                            "predictions has 1 row of 3 values, expected rows of 2 values"),
                           ({"predictions": []}, "predictions has 0 values, expected rows of 2 values"),
                           ({}, "neither predictions"),
                           ({"predictions": [[1, 0], [1, "x"]]},
                            'predictions[1][1] is the text "x", expected a number'),
                           ({"predictions": [{"p": [None, 1]}]}, "predictions[0].p[0] is null"),
                           ({"predictions": [[{}]]}, "predictions[0][0] is an object"),
                           ({"predictions": {}}, "predictions is an object, expected an array"),
                           (b'{"predictions": [[1, 0]], "predictions": [[0, 1]]}',
                            "an object with the same name twice"),
                           (b'{"predictions": [{"p": [1, 0], "p": [0, 1]}]}',
                            "an object with the same name twice"),
                           ({"predictions": [{"p": [1, 0], "q": 1}]},
                            'predictions[0] has 2 outputs: "p", "q"; expected one'),
                           ({"outputs": [{"name": "p"}, {"name": "q"}]},
                            'outputs has 2 outputs: "p", "q"; expected one'),
                           ({"outputs": 1}, "outputs is 1, expected an array of objects"),
                           # The columnar answers of TensorFlow Serving.
                           ({"outputs": [[0.4, 0.6]]}, "outputs[0] is an array, expected objects with "
                                                       "name and data; TensorFlow Serving answers "
                                                       "with predictions when it is asked in the row "
                                                       "format (instances)"),
                           ({"outputs": [0.4, 0.6]}, "outputs[0] is 0.4, expected objects"),
                           ({"outputs": {"p": [[0.4, 0.6]], "c": [1]}},
                            "outputs is an object, expected an array of objects"),
                           ({"outputs": [{"name": "p", "data": [0, 1]}, None]},
                            "outputs[1] is null, expected objects"),
                           ({"outputs": [{"name": "p", "shape": [1, 3], "data": [0.2, 0.3, 0.5]}]},
                            "outputs.p has 1 row of 3 values, expected rows of 2 values"),
                           ({"outputs": [{"shape": [1, 2], "data": [True, 0]}]},
                            "outputs[0].data[0] is true, expected a number"),
                           ({"outputs": [{"name": "p", "shape": "1,2", "data": [1, 0]}]},
                            'outputs.shape is the text "1,2" for the output "p"'),
                           ({"outputs": [{"name": "p", "shape": [1, "2"], "data": [1, 0]}]},
                            'outputs.shape[1] is the text "2" for the output "p", expected an int'),
                           ({"outputs": [{"name": "p", "shape": [1.0, 2.0], "data": [1, 0]}]},
                            'outputs.shape[0] is 1.0 for the output "p", expected an integer'),
                           ({"outputs": [{"name": "p", "shape": [1] * 17, "data": [1, 0]}]},
                            "outputs.shape has 17 dimensions"),
                           # The shape of three classes, which would be cut into rows of two.
                           ({"outputs": [{"name": "p", "shape": [-1, 3],
                                          "data": [0.5, 0.5, 0, 0.5, 0.5, 0]}]},
                            "outputs.p has 2 rows of 3 values, expected rows of 2 values"),
                           ({"outputs": [{"name": "p", "shape": [-1, -1], "data": [1, 0]}]},
                            "outputs.shape is [-1, -1]"),
                           ({"outputs": [{"name": "p", "shape": [2, 2],
                                          "data": [[1], [0, 1, 0]]}]},
                            "outputs.p.data[1] has 3 values, expected 1 as in the first row"),
                           ({"outputs": [{"name": "p", "shape": [2, 2], "data": [[1, 0, 1, 0]]}]},
                            "outputs.p.data has 1 rows, expected 2 as in the shape [2, 2]"),
                           ({"outputs": []}, "has 0 outputs"), (b"{", "error at line 1, column 2"),
                           (b'{"predictions":\n [1,, 2]}', "error at line 2, column 5"),
                           (b'{"predictions": [1e999]}', "number overflow"),
                           (b"[1]", "body is a JSON array, expected the object of an answer"),
                           (b"[" * 100000, "body nests deeper than 16"),
                           ({"outputs": [{"name": "p", "shape": [7], "data": [1, 2]}]},
                            'is [7] for the output "p" with 2 values'),
                           ({"outputs": [{"name": "p", "shape": [1, 3], "data": [1, 0]}]},
                            "outputs.shape is [1, 3]"),
                           ({"outputs": [{"name": "p", "shape": [2], "datatype": "INT64",
                                          "data": [1, 0]}]}, "not classes"),
                           ({"predictions": [[0.5], [0.5, 0.25, 0.75]]},
                            "predictions[1] has 3 values, expected 1 as in the first row")):
            status, answer = self.infer("false", "2", body)
            self.assertEqual(status, 400, body if len(body) < 100 else "")
            self.assertIn(part, answer["error"]["message"])
        status, answer = self.infer("false", "2", b"\xff\xff", "application/x-protobuf")
        self.assertIn("body is not a ModelInferResponse", answer["error"]["message"])
        # FP32 with the field 7 of FP64, and the other way round.
        for datatype, number, values in ((b"FP32", 7, struct.pack("<2d", 1, 0)),
                                         (b"FP64", 6, struct.pack("<2f", 1, 0))):
            tensor = field(1, b"p") + field(2, datatype) + field(3, bytes([1, 2]))
            status, answer = self.infer("false", "2", field(5, tensor + field(5, field(
                number, values))), "application/x-protobuf")
            found, expected = ("fp64", "fp32") if number == 7 else ("fp32", "fp64")
            self.assertEqual(answer["error"]["message"], (
                f'outputs.contents.{found}_contents has values for the output "p" of '
                f"{datatype.decode()}, expected them in {expected}_contents"))
        self.assertEqual(self.infer("false", "", {"predictions": [[1, 0]]})[0], 400)
        self.assertEqual(self.infer("none", "1", {"predictions": [[1, 0]]})[0], 404)
        self.server.create("now")
        status, answer = self.infer("now", "1", {"predictions": [[1, 0]]})
        self.assertIn("label_grace", answer["error"]["message"])
        for output in ({"transform": "SIGMOID"}, {"columnClasses": ["a"]}):
            status, _, text = self.server.post("/v1/models", {"model": {
                "name": "models/invalid", "classes": {"count": 3}, "inferenceOutput": output}})
            self.assertEqual(status, 400, text)

    def rejected_rows(self, model):
        return json.loads(self.server.get(f"/v1/models/{model}/calibration")[2])["rejectedRows"]

    def test_refused_events_count_as_rejected_rows(self):
        self.server.create("refused", inferenceOutput={"name": "p"}, labelGrace="3600s")
        for number, (body, kind, identifier, rows) in enumerate((
                ({"outputs": [{"name": "other", "data": [[1, 0]]}]}, "response", "1", "1"),
                (b"{", "response", "1", "2"), ({"predictions": [[1, 0]]}, "response", "", "3"),
                # Two rows that can be read.
                ({"predictions": [[0.5, 0.6], [1, 0]]}, "response", "1", "5"),
                ({}, "request", "1", "5"))):
            status, _ = self.infer("refused", identifier, body, kind=kind)
            self.assertEqual(status, 200 if kind == "request" else 400)
            self.assertEqual(self.rejected_rows("refused"), rows, number)
        # A wrong attribute counts as one row, and a time out of range with all rows of the answer.
        two = {"predictions": [[0.5, 0.5], [1, 0]]}
        for headers, rows in (({"ce-time": "x"}, "6"), ({"ce-type": ""}, "7"),
                              ({"ce-id": "x" * 101}, "8"),
                              ({"ce-time": "2999-01-01T00:00:00Z"}, "10")):
            self.assertEqual(self.infer("refused", "1", two, **headers)[0], 400)
            self.assertEqual(self.rejected_rows("refused"), rows, headers)
        # A refused event can be sent again.
        self.assertEqual(self.infer("refused", "1", {"predictions": [[1, 0]]})[0], 200)
        self.server.create("grace")
        self.server.create("number", forecast={"normal": {}})
        for model in ("grace", "number"):
            status, answer = self.infer(model, "1", {"predictions": [[1, 0]]})
            self.assertEqual((status, answer["error"]["details"][0]["reason"]), (400, "NO_LABEL_GRACE"))
            self.assertEqual(self.rejected_rows(model), "1")

    def test_answers_with_forecasts_of_a_number_are_counted(self):
        kinds = (("normal", {"normal": {}}, [[2, 1], [5, 2]]),
                 ("levels", {"quantiles": {"levels": [0.1, 0.5, 0.9]}}, [[1, 2, 3], [4, 5, 6]]),
                 ("median", {"quantiles": {"levels": [0.5]}}, [[2], [5]]),
                 ("draws", {"samples": {"draws": 2}}, [[1, 3], [6, 4]]))
        for name, forecast, rows in kinds:
            self.server.create(name, forecast=forecast, labelGrace="3600s",
                               inferenceOutput={"name": "p"})
            outputs = [{"name": "q", "data": [[0]]}, {"name": "p", "data": rows}]
            for accepted in (2, 0):
                status, answer = self.infer(name, "1", {"outputs": outputs})
                self.assertEqual((status, answer["acceptedRows"]), (200, str(accepted)), answer)
            # Other forecasts under the same id.
            status, answer = self.infer(name, "1", {"outputs": [
                {"name": "p", "data": [[7] * len(rows[0])] * 2}]})
            self.assertEqual(status, 409, answer)
            status, _, text = self.server.post(f"/v1/models/{name}:label", {
                "labels": {"predictionIds": ["1/0", "1/1"], "outcomes": [2, 6]}})
            self.assertEqual((status, json.loads(text)["labels"]["matched"]), (200, "2"), text)
            self.server.end_label_grace(name)

            def counted(model=name):
                return json.loads(self.server.get(f"/v1/models/{model}/calibration")[2])
            self.assertTrue(wait_for(lambda: counted()["observations"] == "2"))
        scores = json.loads(self.server.get("/v1/models/normal/calibration")[2])["forecast"]
        # The residuals are 0 and 1/2.
        self.assertAlmostEqual(scores["residualMean"], 0.25)
        for rows, part in (([[2, 1], [5, -2]], "predictions[1].p[1] is -2"),
                           ([[2, 1, 3]], "expected rows of 2 values")):
            status, answer = self.infer("normal", "2", {"predictions": [{"p": row} for row in rows]})
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"]["message"])
        for output, part in (({"transform": "SOFTMAX"}, "expected NONE"),
                             ({"columnClasses": ["a"]}, "expected none"),
                             ({"baselineName": "old"}, "has no baseline")):
            status, _, text = self.server.post("/v1/models", {"model": {
                "name": "models/invalid", "forecast": {"normal": {}}, "inferenceOutput": output}})
            self.assertEqual(status, 400, text)
            self.assertIn(part.encode(), text)
        status, _, text = self.server.post("/v1/models/normal:update", {
            "model": {"inferenceOutput": {"name": "r"}}, "updateMask": "inferenceOutput.name"})
        self.assertEqual(status, 200, text)
        status, answer = self.infer("normal", "3", {"predictions": [{"r": [2, 1]}]})
        self.assertEqual((status, answer["acceptedRows"]), (200, "1"), answer)

    def test_a_flood_of_refused_events_leaves_other_models_their_service(self):
        self.server.create("flooded", labelGrace="3600s")
        self.server.create("calm", labelGrace="3600s")
        threads, each = 8, 150

        def flood(_):
            statuses = collections.Counter()
            for _ in range(each):
                statuses[self.infer("flooded", "1", b"{")[0]] += 1
            return statuses
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            floods = [pool.submit(flood, thread) for thread in range(threads)]
            for number in range(20):
                status, answer = self.infer("calm", str(number), {"predictions": [[0.75, 0.25]]})
                self.assertEqual((status, answer.get("acceptedRows")), (200, "1"), answer)
            statuses = sum((one.result() for one in floods), collections.Counter())
        # An event that finds no room in the queue is refused and not counted.
        self.assertEqual(sum(statuses.values()), threads * each)
        self.assertLessEqual(set(statuses), {400, 429}, statuses)
        self.assertLessEqual(int(self.rejected_rows("flooded")), statuses[400])
        self.assertGreater(int(self.rejected_rows("flooded")), 0)

    def test_an_id_has_at_most_100_bytes(self):
        self.server.create("ids", labelGrace="3600s")
        call = DESCRIPTION["paths"]["/v1/models/{model}:inference"]["post"]
        event = call["requestBody"]["content"]["application/cloudevents+json"]["schema"]
        self.assertEqual(event["properties"]["id"]["maxLength"], 100)
        (header,) = [one for one in call["parameters"] if one["name"] == "ce-id"]
        self.assertIn("1..100 bytes", header["description"])
        for length, status in ((100, 200), (101, 400)):
            found, answer = self.infer("ids", "x" * length, {"predictions": [[1, 0], [0, 1]]})
            self.assertEqual(found, status, answer)
        self.assertIn("ce-id has 101 bytes, expected 1..100", answer["error"]["message"])

    def test_no_event_has_the_id_of_a_row_of_another_one(self):
        self.server.create("slashes", labelGrace="3600s")
        for identifier, rows in (("a/0", 1), ("a", 2), ("a/b", 1)):
            status, answer = self.infer("slashes", identifier, {"predictions": [[0.75, 0.25]] * rows})
            self.assertEqual((status, answer.get("acceptedRows")), (200, str(rows)), answer)
        status, _, text = self.server.post("/v1/models/slashes:label", {
            "labels": {"predictionIds": ["a/0/0", "a/0", "a/1", "a/b"], "labels": [0, 1, 1, 0]}})
        self.assertEqual(json.loads(text)["labels"].get("matched"), "4", text)

    def test_an_event_counts_once_and_its_id_has_one_content(self):
        self.server.create("again", labelGrace="0.001s")
        first, other = {"predictions": [[0.5, 0.5]]}, {"predictions": [[0.25, 0.75]]}
        two = {"predictions": [[0.5, 0.5], [0.25, 0.75]]}
        for identifier, body, status, accepted, duplicates in (
                ("a", first, 200, "1", "0"), ("a", first, 200, "0", "1"), ("a", other, 409, None, None),
                ("a", two, 409, None, None), ("b", two, 200, "2", "0"), ("b", two, 200, "0", "2"),
                ("b", first, 409, None, None)):
            found, answer = self.infer("again", identifier, body)
            self.assertEqual((found, answer.get("acceptedRows"), answer.get("duplicateRows")),
                             (status, accepted, duplicates), (identifier, body, answer))
        self.assertEqual(answer["error"]["details"][0]["reason"], "REQUEST_ID_REUSED")
        self.assertIn('ce-id is "b", which an event with other predictions had before',
                      answer["error"]["message"])
        status, answer = self.infer_structured("again", id="b", data=first)
        self.assertEqual(status, 409)
        self.assertTrue(answer["error"]["message"].startswith('id is "b"'), answer)
        # A model server that gets a request twice answers at two times.
        for number in range(2):
            when = {"ce-time": (datetime.datetime.now(datetime.timezone.utc)
                                - datetime.timedelta(minutes=number)).isoformat()}
            status, answer = self.infer("again", "timed", first, **when)
            self.assertEqual((status, answer.get("duplicateRows")), (200, str(number)), answer)
        # Events are recognised also after their predictions have matured.
        def matured():
            calibration = json.loads(self.server.get("/v1/models/again/calibration")[2])
            return calibration["labelArrivals"]["missing"] == "4"
        self.assertTrue(wait_for(matured))
        status, answer = self.infer("again", "b", two)
        self.assertEqual((status, answer.get("duplicateRows")), (200, "2"), answer)
        for identifier in ("b/x", "b/", "17", "b/x17", "/", "order/17"):
            status, answer = self.infer("again", identifier, first)
            self.assertEqual((status, answer.get("acceptedRows")), (200, "1"), answer)
        # The ids of requests to :observe are others.
        self.server.post("/v1/models/again:observe", {"requestId": "c", "observations": {
            "probabilities": {"values": [0.5, 0.5]}, "predictionIds": ["d"]}})
        self.assertEqual(self.infer("again", "c", first)[1].get("acceptedRows"), "1")

    def test_errors_of_values_name_what_was_sent(self):
        def columns(model, **output):
            self.server.create(model, {"count": 3, "names": ["a", "b", "c"]}, labelGrace="3600s",
                               inferenceOutput={"columnClasses": ["c", "a", "b"], **output})
        columns("columns")
        columns("columns-p", name="p")
        columns("columns-logits", transform="SOFTMAX")
        self.server.create("one", labelGrace="3600s")
        self.server.create("paired", {"baseline": "1"}, labelGrace="3600s",
                           inferenceOutput={"name": "new", "baselineName": "old"})
        outputs = [{"name": "new", "data": [[1, 0]]}, {"name": "old", "data": [[0.5, 1.5]]}]
        infinite = struct.pack("<6f", 0, 0, 0, 0, math.inf, 0)
        for model, body, part in (
                ("columns", {"predictions": [[1, 0, 0], [0.2, 0.3, 1.5]]}, "predictions[1][2] is 1.5"),
                ("columns-p", {"predictions": [{"p": [1.5, 0, 0]}]}, "predictions[0].p[0] is 1.5"),
                ("columns-p", {"outputs": [{"name": "p", "data": [[0, 1.5, 0]]}]},
                 "outputs.p[0][1] is 1.5"),
                ("columns-logits", message([(b"p", b"FP32", (2, 3))], [infinite]),
                 "outputs.p[1][1] is inf"),
                ("columns", {"predictions": [0.7, 0.2, 0.1]},
                 "predictions has 3 rows of 1 value, expected rows of 3 values"),
                ("columns", {"predictions": [[0.2, 0.3, 0.4]]}, "predictions[0] sums to 0.9"),
                ("one", {"predictions": [0.5, 1.5]}, "predictions[1] is 1.5"),
                ("paired", {"outputs": outputs}, "outputs.old[0][1] is 1.5")):
            kind = "application/protobuf" if isinstance(body, bytes) else "application/json"
            status, answer = self.infer(model, "1", body, kind)
            self.assertEqual(status, 400, answer)
            self.assertTrue(answer["error"]["message"].startswith(part), answer)
            violation, = answer["error"]["details"][1]["fieldViolations"]
            self.assertEqual(violation["field"], part.split(" ")[0])
        late = {"predictions": [[1, 0]]}
        for status, answer in (self.infer("one", "1", late, **{"ce-time": "2999-01-01T00:00:00Z"}),
                               self.infer_structured("one", data=late, time="2999-01-01T00:00:00Z")):
            self.assertEqual(status, 400, answer)
            self.assertRegex(answer["error"]["message"], "^(ce-)?time is 2999-01-01T00:00:00Z")

    def send(self, model, body, **headers):
        """Posts a body to :inference; returns the status and the text of the answer."""
        connection = http.client.HTTPConnection(self.server.http, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", f"/v1/models/{model}:inference", body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def infer_structured(self, model, content_type=STRUCTURED, without=(), **fields):
        event = {"specversion": "1.0", "id": "1", "source": "/test",
                 "type": "org.kubeflow.serving.inference.response", **fields}
        body = json.dumps({name: value for name, value in event.items() if name not in without})
        status, text = self.send(model, body, **{"Content-Type": content_type})
        validate("/v1/models/{model}:inference", "post", status, text)
        return status, json.loads(text)

    def test_structured_events_are_counted_once_with_those_in_binary_mode(self):
        answer = {"predictions": [[0.25, 0.75], [0.5, 0.5]]}
        raw = message([(b"p", b"FP32", (2, 2))], [struct.pack("<4f", 0.25, 0.75, 0.5, 0.5)])
        tensors = json.dumps({"outputs": [{
            "name": "p", "datatype": "FP64", "shape": [2, 2],
            "parameters": {"binary_data_size": 32}}]}).encode() + struct.pack(
                "<4d", 0.25, 0.75, 0.5, 0.5)
        for number, fields in enumerate((
                {"data": answer}, {"data": answer, "datacontenttype": "application/json"},
                {"data": json.dumps(answer), "datacontenttype": "text/plain"},
                {"data": json.dumps(answer), "time": None, "extension": [1]},
                {"data_base64": base64.b64encode(json.dumps(answer).encode()).decode()},
                {"data_base64": base64.b64encode(raw).decode(), "data": None,
                 "datacontenttype": "application/octet-stream"},
                {"data_base64": base64.b64encode(tensors).decode()})):
            model = f"structured{number}"
            self.server.create(model, labelGrace="3600s")
            kind = (STRUCTURED, "Application/CloudEvents+JSON; charset=utf-8")[number % 2]
            for accepted in (2, 0):
                status, read = self.infer_structured(model, kind, **fields)
                self.assertEqual((status, read.get("acceptedRows")), (200, str(accepted)), read)
            status, read = self.infer(model, "1", answer)
            self.assertEqual((status, read["duplicateRows"]), (200, "2"), read)
            self.label(model, ["1/0", "1/1"])
        for number in range(7):
            self.check_log_loss(f"structured{number}", 2, 0.75 * 0.5)

    def test_structured_events_that_are_no_answers_or_false(self):
        self.server.create("event-faults", labelGrace="3600s")
        status, read = self.infer_structured("event-faults", type="inference.request")
        self.assertEqual((status, read["acceptedRows"]), (200, "0"), read)
        answer = {"predictions": [[1, 0]]}
        for fields, part in (
                ({}, "data is missing"), ({"data": answer, "data_base64": ""}, "data_base64 is "),
                ({"data": [1, 0]}, "data is a JSON array"), ({"data": 1}, "data is a JSON number"),
                ({"data": "x", "datacontenttype": "x/y"}, "data is not a ModelInferResponse"),
                ({"data": {"x": 1}}, "data has neither predictions nor outputs"),
                ({"data": "hello", "datacontenttype": "text/json"}, "data is not JSON: "),
                ({"data": "hello"}, "data is not JSON: "),
                ({"data": ""}, "data is not JSON: "),
                ({"data": '{"outputs": []} x'}, "outputs has 0 outputs"),
                ({"data": '{"predictions": [1]} x'}, "data has bytes after JSON"),
                ({"data_base64": "CgFt"}, "but data_base64 has no JSON object"),
                ({"data_base64": "CgFt", "datacontenttype": "application/json"},
                 "data_base64 is not JSON: "),
                ({"data_base64": "%"}, "is not valid Base64"), ({"data_base64": 1}, "data_base64"),
                ({"data": answer, "specversion": "0.3"}, 'specversion is "0.3"'),
                ({"data": answer, "specversion": 1.0}, "specversion is not a text"),
                ({"data": answer, "id": ""}, "id is not a text"), ({"data": answer, "id": "x" * 101},
                                                                "id has 101 bytes"),
                ({"data": answer, "time": "now"}, 'time is "now", expected RFC 3339'),
                ({"data": answer, "type": None}, "type is missing"),
                ({"data": {"a": {"b": [[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]}}}, "body nests deeper"),
                *(({"data": answer, "without": (name,)}, f"{name} is missing")
                  for name in ("specversion", "id", "source", "type"))):
            status, read = self.infer_structured("event-faults", **fields)
            self.assertEqual(status, 400, (fields, read))
            self.assertIn(part, read["error"]["message"])
        for body in ("[]", "{", "", "1", "\0"):
            self.assertEqual(self.send("event-faults", body, **{"Content-Type": STRUCTURED})[0], 400)
        # The headers of the binary mode do not replace the attributes.
        status, text = self.send("event-faults", json.dumps(answer), **{
            "Content-Type": STRUCTURED, "ce-id": "1", "ce-type": "x.response"})
        self.assertEqual(status, 400, text)
        self.assertIn("specversion is missing", text)

    def test_events_of_web_pages_and_batches_are_refused(self):
        self.server.create("gate", labelGrace="3600s")
        event = {"specversion": "1.0", "id": "1", "source": "/test", "type": "x.response",
                 "data": {"predictions": [[1, 0]]}}
        structured = {"Content-Type": STRUCTURED}
        for headers, status, part in (
                ({**structured, "Origin": "http://page.example"}, 403, "another origin"),
                ({**structured, "Host": "page.example"}, 403, "Host"),
                ({**structured, "Transfer-Encoding": "chunked"}, 411, "Content-Length"),
                ({}, 400, "ce-id is missing"), ({"Content-Type": "text/plain"}, 400, "ce-id is missing"),
                ({"Content-Type": "application/octet-stream"}, 400, "application/cloudevents+json"),
                ({"Content-Type": "application/json"}, 400, "ce-id is missing"),
                ({"Content-Type": "application/json", "ce-id": "1"}, 400, "ce-type is missing"),
                ({**structured, "Content-Encoding": "gzip"}, 415, "without Content-Encoding"),
                ({"Content-Type": "application/cloudevents-batch+json"}, 415, "each CloudEvent"),
                ({"Content-Type": "application/cloudevents-batch+json", "ce-id": "1"}, 415,
                 "each CloudEvent"),
                ({"Content-Type": "application/cloudevents+xml"}, 415, "each CloudEvent"),
                (structured, 200, '"acceptedRows":"1"')):
            found, text = self.send("gate", json.dumps(event), **headers)
            self.assertEqual(found, status, (headers, text))
            self.assertIn(part, text)

    def test_raw_tensors_have_the_bytes_of_their_shape(self):
        for classes in (2, 3):
            self.server.create(f"raw{classes}", {"count": classes}, labelGrace="3600s",
                               inferenceOutput={"name": "p"})
        p, q = (b"p", b"FP32", (2, 2)), (b"q", b"INT64", (1,))
        four = struct.pack("<4f", 0.25, 0.75, 0.5, 0.5)
        for outputs, raw, part in (
                ([p], [four + b"\0"], 'has 17 bytes for the output "p" of FP32, expected 16 for the '
                                      "shape [2, 2]"),
                ([p], [four[:12]], "has 12 bytes"), ([p], [b""], "has 0 bytes"),
                ([(b"p", b"FP64", (2, 1))], [four[:12]], "expected 16 for the shape [2, 1]"),
                ([(b"p", b"FP32", ())], [four[:7]], "expected a multiple of 4"),
                ([(b"p", b"FP32", ())], [four], "outputs.p has 4 values in 16 bytes, expected rows "
                                                "of 3 values (12 bytes)"),
                ([p], [four], "outputs.p has 2 rows of 2 values in 16 bytes, expected rows of 3 values "
                              "(12 bytes)"),
                # 2^63 - 1 rows.
                ([(b"p", b"FP32", (*[255] * 8, 127, 2))], [four],
                 "is [9223372036854775807, 2] for the output \"p\" with 16 bytes, expected the shape"),
                ([(b"p", b"BYTES", (2,))], [four], '"BYTES" for the output "p", expected FP16, FP32'),
                ([(b"p", b"FP16", (1, 2))], [struct.pack("<2e", math.nan, 1)], "is nan"),
                ([(b"p", b"FP16", (1, 2))], [struct.pack("<2e", -math.inf, 1)], "is -inf"),
                ([(b"p", b"FP16", (1, 2))], [four[:3]], "has 3 bytes"),
                ([p, q], [four], "raw_output_contents has 1 elements, expected 2"),
                ([p], [four, four], "raw_output_contents has 2 elements, expected 1")):
            model = "raw3" if "of 3 values" in part else "raw2"
            status, answer = self.infer(model, "1", message(outputs, raw), "application/protobuf")
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"]["message"])
        status, answer = self.infer("raw2", "1", message([q, p], [bytes(8), four]), "x/y")
        self.assertEqual((status, answer["acceptedRows"]), (200, "2"), answer)

    def infer_tensors(self, model, outputs, tensors, length=None):
        """Sends version 2 in JSON, followed by bytes."""
        text = json.dumps({"model_name": "m", "outputs": outputs}).encode()
        return self.infer(model, "1", text + tensors, "application/octet-stream", **{
            "Inference-Header-Content-Length": str(len(text) if length is None else length)})

    def test_binary_tensors_after_json_are_counted(self):
        def output(name, kind, shape, size):
            return {"name": name, "datatype": kind, "shape": shape,
                    "parameters": {"binary_data_size": size}}
        words = output("words", "BYTES", [1], 5)
        text = {"name": "text", "datatype": "FP64", "shape": [2, 2], "data": [0.5, 0.5, 1, 0]}
        rows = (0.25, 0.75, 0.125, 0.875)
        for number, (outputs, tensors) in enumerate((
                ([output("p", "FP32", [2, 2], 16)], struct.pack("<4f", *rows)),
                ([output("p", "FP16", [2, 2], 8)], struct.pack("<4e", *rows)),
                ([words, text, output("p", "FP64", [2, 2], 32), words],
                 b"1\0\0\0a" + struct.pack("<4d", *rows) + b"1\0\0\0b"))):
            self.server.create(f"tensors{number}", inferenceOutput={"name": "p"},
                               labelGrace="3600s")
            for accepted in (2, 0):
                status, answer = self.infer_tensors(f"tensors{number}", outputs, tensors)
                self.assertEqual((status, answer["acceptedRows"]), (200, str(accepted)), answer)
            self.label(f"tensors{number}", ["1/0", "1/1"])
            self.check_log_loss(f"tensors{number}", 2, 0.75 * 0.875)
        # Without binary data, the header is allowed.
        self.server.create("tensors", inferenceOutput={"name": "text"}, labelGrace="3600s")
        self.assertEqual(self.infer_tensors("tensors", [text], b"")[0], 200)

        self.server.create("false-tensors", inferenceOutput={"name": "p"}, labelGrace="3600s")
        four = struct.pack("<4f", *rows)
        good = output("p", "FP32", [2, 2], 16)
        for outputs, tensors, length, part in (
                ([good], four[:15], None, 'is 16 for the output "p", but 15 bytes remain'),
                ([good], four + b"x", None, "has 17 bytes after the JSON, expected 16"),
                ([{**good, "shape": [2, 3]}], four, None, "expected 24 for the shape [2, 3]"),
                ([{**good, "shape": [2**62, 2**62]}], four, None,
                 f'outputs.shape is [{2**62}, {2**62}] for the output "p" with 16 bytes, expected the '
                 "shape of the values"),
                ([{**good, "shape": [-2, -2]}], four, None, "outputs.shape is [-2, -2]"),
                ([{**good, "shape": [-1, 3]}], four, None, "outputs.shape is [-1, 3]"),
                ([{**good, "shape": [2, "x"]}], four, None, 'outputs.shape[1] is the text "x"'),
                ([{**good, "shape": [1] * 17}], four, None, "expected an array of at most 16"),
                ([{**good, "datatype": "BYTES"}], four, None, '"BYTES" for the output "p"'),
                ([{**good, "data": [1, 0]}], four, None, 'both data and binary_data_size'),
                ([{**good, "parameters": {}}], b"", None, "neither data nor binary_data_size"),
                ([output("p", "FP32", [2, 2], 2**64 - 1)], four, None, "but 16 bytes remain"),
                ([output("p", "FP32", [2, 2], -1)], four, None, "is not a number of bytes"),
                ([output("q", "FP32", [1], 2**63), good], four, None, "but 16 bytes remain"),
                ([good], four, 10**6, "expected 0.."), ([good], four, "-1", "expected 0.."),
                ([good], four, "9" * 30, "expected 0.."), ([good], four, "0x10", "expected 0.."),
                ([good], four, 5, "error at line 1, column"), ([good], four, 0, "unexpected end of input")):
            status, answer = self.infer_tensors("false-tensors", outputs, tensors, length)
            self.assertEqual(status, 400, answer)
            self.assertIn(part, answer["error"]["message"])
        text = json.dumps({"predictions": [[1, 0]]}).encode()
        for length in ({}, {"Inference-Header-Content-Length": str(len(text))}):
            status, answer = self.infer("false-tensors", "1", text + b"x", **length)
            self.assertEqual(status, 400, answer)
            self.assertIn("bytes after JSON without outputs", answer["error"]["message"])
        self.assertEqual(self.infer_tensors("false-tensors", [good], four)[0], 200)

    def test_events_of_kserve_state_the_content_type_of_the_request_and_no_length(self):
        output = {"name": 'a"}\\{', "datatype": "FP32", "shape": [1, 2],
                  "parameters": {"binary_data_size": 8}}
        text = json.dumps({"outputs": [output], "model_name": "}{"}).encode()
        for number, (body, kind) in enumerate((
                (text + struct.pack("<2f", 0.25, 0.75), "application/octet-stream"),
                (json.dumps({"predictions": [[0.25, 0.75]]}).encode() + b" \r\n",
                 "application/x-www-form-urlencoded"),
                (text + b"}}}}" + struct.pack("<f", 0.75), "application/json"))):
            self.server.create(f"logged{number}", labelGrace="3600s",
                               inferenceOutput={"transform": "SOFTMAX"})
            status, answer = self.infer(f"logged{number}", "1", body, kind)
            self.assertEqual((status, answer.get("acceptedRows")), (200, "1"), answer)
            self.label(f"logged{number}", ["1"])
        self.check_log_loss("logged0", 1, 1 / (1 + math.exp(-0.5)))

    def test_an_answer_has_at_most_the_rows_of_a_batch(self):
        for form in range(2):
            self.server.create(f"rows{form}", labelGrace="3600s")
        for rows, part in ((65536, '"acceptedRows":"65536"'),
                           (65537, "has 65537 rows, expected at most 65536")):
            tensor = {"name": "p", "datatype": "FP32", "shape": [rows],
                      "parameters": {"binary_data_size": 4 * rows}}
            for form, body in enumerate((
                    json.dumps({"outputs": [tensor]}).encode() + struct.pack("<f", 0.5) * rows,
                    json.dumps({"predictions": [0.5] * rows}).encode())):
                status, text = self.send(f"rows{form}", body, **{
                    "Content-Type": "application/json", "ce-id": "1", "ce-type": "x.response"})
                self.assertEqual(status, 200 if rows == 65536 else 400, text)
                self.assertIn(part, text)

    def test_an_answer_with_many_objects_is_read_once(self):
        self.server.create("objects", inferenceOutput={"name": "p"}, labelGrace="3600s")
        # The largest body. Other calls wait while it is parsed, so the time must grow with its length.
        body = {"predictions": [{}] * 260000}
        begun = time.monotonic()
        status, answer = self.infer("objects", "1", json.dumps(body).replace(" ", "").encode())
        self.assertEqual(status, 400, answer)
        self.assertIn('predictions[0] has no output "p" as inferenceOutput.name of the model says, '
                      "but 0 outputs", answer["error"]["message"])
        self.assertLess(time.monotonic() - begun, 60)
        rows = [{"p": [0.25, 0.75], "q": 1}] * 20000
        answers = []

        def accepted():
            answers[:] = self.infer("objects", "2", {"predictions": rows})
            # The memory of the first event may not be free yet.
            return answers[0] != 429
        self.assertTrue(wait_for(accepted))
        self.assertEqual((answers[0], answers[1].get("acceptedRows")), (200, "20000"), answers)

    def label(self, model, identifiers):
        """Labels the rows as class 1, and matures them."""
        _, _, text = self.server.post(f"/v1/models/{model}:label", {
            "labels": {"predictionIds": identifiers, "labels": [1] * len(identifiers)}})
        self.assertEqual(json.loads(text)["labels"]["matched"], str(len(identifiers)), text)
        self.server.end_label_grace(model)

    def check_log_loss(self, model, rows, likelihood):
        """Waits until the rows have matured, and checks that they have this likelihood."""
        path = f"/v1/models/{model}/reliability"
        self.assertTrue(wait_for(lambda: self.server.get(path)[0] == 200))
        scores = json.loads(self.server.get(path)[2])
        self.assertEqual(scores["observations"], str(rows))
        self.assertAlmostEqual(scores["logLoss"], -math.log(likelihood) / rows)


if __name__ == "__main__":
    unittest.main()
