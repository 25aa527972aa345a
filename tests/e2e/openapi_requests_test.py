"""Requests that are made from the OpenAPI description alone are accepted, and other ones are refused.

    openapi_requests_test.py CALIBD OPENAPI PYTHON_PACKAGE
"""
import copy
import itertools
import json
import pathlib
import re
import sys
import tempfile
import unittest
import urllib.parse

import grpc
import hypothesis
from hypothesis import configuration
from hypothesis import strategies as st

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from json_server import JsonServer  # noqa: E402
from schema_requests import (KINDS, Batch, Maker, body_schema, declared, describe,  # noqa: E402
                             make_model)

CALIBD, OPENAPI, PYTHON_PACKAGE = (sys.argv.pop(1) for _ in range(3))
sys.path.insert(0, PYTHON_PACKAGE)
import calibd  # noqa: E402
from calibd.rpc import status_pb2  # noqa: E402
from calibd.v1 import ingest_service_pb2 as ingest  # noqa: E402
from calibd.v1 import ingest_service_pb2_grpc as ingest_grpc  # noqa: E402
from calibd.v1 import model_service_pb2 as models  # noqa: E402
from calibd.v1 import model_service_pb2_grpc as models_grpc  # noqa: E402

DESCRIPTION = json.loads(pathlib.Path(OPENAPI).read_text(encoding="utf-8"))
FOLDER = tempfile.TemporaryDirectory()
# hypothesis otherwise writes to the folder from which the test runs.
configuration.set_hypothesis_home_dir(FOLDER.name)
# The same requests in each run.
SETTINGS = hypothesis.settings(derandomize=True, deadline=None, database=None,
                               suppress_health_check=list(hypothesis.HealthCheck))
READS = ("GetModel", "GetCalibration", "GetHistory", "ListModels", "ListVerdicts")


def fields_of(body):
    """The fields that the error in a body names, without their order."""
    return sorted(one["field"] for detail in json.loads(body)["error"]["details"]
                  for one in detail.get("fieldViolations", ()))


class OpenApiRequestsTest(unittest.TestCase):
    numbers = itertools.count(1)

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(JsonServer(CALIBD))

    def setUp(self):
        self.accepted = {}

    def send(self, maker, operation, path, body):
        template, verb, schema = body_schema(DESCRIPTION, operation)
        if body is not None:
            self.assertTrue(maker.is_valid(body, schema), (operation, describe(body)))
        path = template.replace("{model}", path)
        status, _, text = self.server.ask(verb.upper(), path, body)
        self.assertEqual(status, 200, (operation, describe(body), text))
        self.accepted[operation] = self.accepted.get(operation, 0) + 1
        return json.loads(text)

    def read(self, maker, operation, name):
        template, verb, _ = body_schema(DESCRIPTION, operation)
        parameters = DESCRIPTION["paths"][template][verb]["parameters"]
        query = []
        for one in parameters:
            if one["in"] == "query" and "x-rule" not in one["schema"] and maker.draw(st.booleans()):
                value = maker.value(one["schema"])
                for item in value if isinstance(value, list) else [value]:
                    text = str(item).lower() if isinstance(item, bool) else str(item)
                    query.append(f"{one['name']}={urllib.parse.quote(text)}")
        path = template.replace("{model}", name) + "?" * bool(query) + "&".join(query)
        status, _, text = self.server.get(path)
        self.assertEqual(status, 200, (path, text))
        self.accepted[operation] = self.accepted.get(operation, 0) + 1

    def update(self, maker, model, name):
        *_, schema = body_schema(DESCRIPTION, "UpdateModel")
        settings = schema["properties"]["model"]
        paths = [path for path in re.findall(r"[\w.]+", schema["properties"]["updateMask"]["pattern"]
                                             .split(")")[0].replace("\\", ""))
                 if self.can_update(model, settings, path)]
        path = maker.pick(paths)
        part, leaf = settings["properties"], path.split(".")
        for one in leaf[:-1]:
            part = part[one]["properties"]
        value = maker.value(part[leaf[-1]])
        for one in reversed(leaf):
            value = {one: value}
        self.send(maker, "UpdateModel", name, {"model": value, "updateMask": path})

    @staticmethod
    def can_update(model, settings, path):
        """The description of the mask says which models have which fields."""
        part, schema = model, settings
        for one in path.split("."):
            schema = schema["properties"][one]
            if part is None or one not in part:
                return False
            part = part[one]
        return "x-rule" not in schema and (
            not path.startswith("monitoring.") or not model["monitoring"]["disabled"])

    def scenario(self, draw):
        """All requests about one new model."""
        maker = Maker(DESCRIPTION, draw)
        name = f"made-{next(self.numbers)}"
        kind = maker.pick(KINDS)
        model = self.send(maker, "CreateModel", name, make_model(maker, kind, f"models/{name}"))["model"]
        try:
            self.use(maker, name, model)
        finally:
            # The models of failed attempts would fill the memory of the server.
            status = self.server.ask("DELETE", f"/v1/models/{name}?confirmation=models/{name}")[0]
        self.assertEqual(status, 200)

    def use(self, maker, name, model):
        """All requests about a model but those that create and delete it."""
        has_ids = declared(model, "label_grace") is not None
        later = has_ids and not model["labelsComeWithPredictions"]
        for truths_later in (False, True) if later else (False,):
            for operation, field in (("Observe", "observations"), ("Label", "labels")):
                if operation == "Label" and not truths_later:
                    continue
                batch = Batch(maker, model)
                *_, schema = body_schema(DESCRIPTION, operation)
                filled = batch.fill(schema["properties"][field],
                                    truths_later and operation == "Observe")
                self.send(maker, operation, name, {
                    field: filled, "requestId": f"{operation}-{truths_later}"})
        for operation in READS:
            self.read(maker, operation, name)
        self.update(maker, model, name)

    def test_all_of_240_requests_from_the_description_are_accepted(self):
        @hypothesis.settings(SETTINGS, max_examples=60)
        @hypothesis.given(st.data())
        def run(data):
            self.scenario(data.draw)
        run()
        for operation in ("CreateModel", "Observe", "Label", "UpdateModel", *READS):
            self.assertGreaterEqual(self.accepted.get(operation, 0), 15, self.accepted)
        self.assertGreaterEqual(sum(self.accepted.values()), 240, self.accepted)
        print("accepted:", self.accepted)

    def test_the_examples_are_accepted(self):
        tried = 0
        for template, verbs in DESCRIPTION["paths"].items():
            content = verbs.get("post", {}).get("requestBody", {}).get("content", {})
            examples = content.get("application/json", {}).get("examples", {})
            if "{version}" in template or template.endswith((":compare", ":acknowledge", ":test",
                                                             ":evaluate", ":estimate", ":recalibrate")):
                continue  # They need an alarm, or many observations.
            for one in examples.values():
                status, _, text = self.server.post(template.replace("{model}", "weather"), one["value"])
                self.assertEqual(status, 200, (template, one, text))
                tried += 1
        self.assertGreaterEqual(tried, 6)

    def mutants(self, schema, value, maker, path=()):
        """Yields a name and a function that spoils the value there, for each rule that can be broken."""
        schema = maker.resolve(schema)
        properties = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name in value:
                yield name, lambda whole, name=name: whole.pop(name)
        for name, one in properties.items():
            if not isinstance(value, dict) or name not in value or "x-rows" in one:
                continue
            one = maker.resolve(one)
            # A 64-bit number in JSON is text, and a plain number is accepted too.
            text = "x" if one.get("format") in ("int64", "uint64") else 7
            wrong = {"integer": "x", "number": "x", "boolean": 7, "string": text, "array": 7}
            wrongs = [wrong[one["type"]]] if one.get("type") in wrong else ["x"]
            for ends in (one, *one.get("anyOf", ())):
                for end, step in (("minimum", -1), ("exclusiveMinimum", 0), ("maximum", 1),
                                  ("exclusiveMaximum", 0)):
                    if end in ends and abs(ends[end]) < 2**31 - 1:
                        wrongs.append(ends[end] + step)
            if "maxLength" in one:
                wrongs.append("a" * (one["maxLength"] + 1))
            if "maxItems" in one:
                wrongs.append([f"a{i}" if one["items"].get("type") == "string" else i + 2
                               for i in range(one["maxItems"] + 1)])
            for bad in wrongs:
                if not maker.is_valid(bad, one):
                    yield name, lambda whole, name=name, bad=bad: whole.update({name: bad})
            if isinstance(value[name], dict):
                for inner, spoil in self.mutants(one, value[name], maker, (*path, name)):
                    yield inner, lambda whole, name=name, spoil=spoil: spoil(whole[name])

    def test_spoiled_requests_are_refused_with_the_field(self):
        maker = Maker(DESCRIPTION, None)
        bodies = {"CreateModel": {"model": {
            "name": "models/spoiled", "description": "a", "window": 10, "labelGrace": "60s",
            "maxPending": 5, "labelsComeWithPredictions": True, "featureNames": ["age"],
            "classes": {"count": 2, "blockSizes": [2], "rowSumTolerance": 0.01, "baseline": "b"},
            "inferenceOutput": {"name": "a"},
            "monitoring": {
                "significanceLevel": 0.1, "averageRunLength": 1000, "tolerance": 0.01,
                "staleAfter": "60s", "minObservations": "10", "groupTag": "region", "maxGroups": 3,
                "minGroupObservations": "5", "errorLimit": 0.1}}},
            "UpdateModel": {"model": {"description": "a"}, "updateMask": "description"},
            "Observe": {"observations": {"probabilities": {"values": [0.5, 0.5]}, "labels": [1],
                                         "droppedRows": "1", "skipInvalidRows": False},
                        "requestId": "a"},
            "AcknowledgeAlarm": {"alarmId": "1", "note": "a"}}
        self.server.create("spoiled-base")
        refused = 0
        for operation, body in bodies.items():
            template, verb, schema = body_schema(DESCRIPTION, operation)
            self.assertTrue(maker.is_valid(body, schema), operation)
            for name, spoil in self.mutants(schema, body, maker):
                spoiled = copy.deepcopy(body)
                spoil(spoiled)
                path = template.replace("{model}", "spoiled-base")
                status, _, text = self.server.ask(verb.upper(), path, spoiled)
                self.assertEqual(status, 400, (operation, name, spoiled, text))
                snake = re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)
                self.assertIn(snake, text.decode(), (operation, spoiled))
                refused += 1
        self.assertGreater(refused, 50)

    def test_class_names_are_labels(self):
        self.server.create("pets", {"count": 3, "names": ["cat", "dog", "7"]}, labelGrace="3600s")

        def observe(labels, **more):
            rows = {"probabilities": {"values": [0.5, 0.3, 0.2] * max(len(labels), 1)}, **more}
            return self.server.post("/v1/models/pets:observe", {"observations": {**rows, "labels": labels}})

        for labels in (["dog", "cat", "7"], [1, 0, 2]):
            status, _, text = observe(labels)
            self.assertEqual((status, json.loads(text).get("acceptedRows")), (200, "3"), text)
        status, _, text = observe([], predictionIds=["a"])
        self.assertEqual(status, 200, text)
        late = {"labels": {"predictionIds": ["a"], "labels": ["dog"]}}
        for count in ("matched", "repeated"):
            status, _, text = self.server.post("/v1/models/pets:label", late)
            self.assertEqual((status, json.loads(text).get("labels", {}).get(count)), (200, "1"), text)
        for labels, message in (
                (["cat", "cow"], 'labels[1] is "cow", expected "cat", "dog", "7"'),
                (["2"], 'labels[0] is "2", expected "cat", "dog", "7"'),
                ([0, "cat"], "labels are numbers and names, expected only one of them")):
            status, _, text = observe(labels)
            self.assertEqual((status, json.loads(text)["error"]["message"]), (400, message))
        late["labels"]["labels"] = ["cow"]
        status, _, text = self.server.post("/v1/models/pets:label", late)
        self.assertIn('labels[0] is "cow", expected "cat"', json.loads(text)["error"]["message"])
        self.server.create("numbered")
        status, _, text = self.server.post("/v1/models/numbered:observe", {
            "observations": {"probabilities": {"values": [0.5, 0.5]}, "labels": ["0"]}})
        self.assertEqual(json.loads(text)["error"]["message"],
                         "labels are names, expected numbers because the model declares no classes.names")

    def test_http_grpc_and_the_sdk_name_the_same_fields(self):
        self.server.create("three")
        channel = self.enterContext(grpc.insecure_channel(self.server.grpc))
        client = self.enterContext(calibd.Client(self.server.grpc))
        rows = [[0.5, 0.5]] * 3 + [[0.4, 1.5]]

        def over_grpc(stub, request):
            with self.assertRaises(grpc.RpcError) as caught:
                stub(request)
            status = status_pb2.Status.FromString(
                dict(caught.exception.trailing_metadata())["grpc-status-details-bin"])
            found = status_pb2.BadRequest()
            for detail in status.details:
                if detail.type_url.endswith("BadRequest"):
                    found.ParseFromString(detail.value)
            return sorted(one.field for one in found.field_violations)

        def over_sdk(call):
            with self.assertRaises((calibd.InvalidArgument, ValueError)) as caught:
                call()
            return sorted(one.path for one in getattr(caught.exception, "fields", ())) or [
                str(caught.exception).split(" ")[0]]

        observe = ingest_grpc.IngestServiceStub(channel).Observe
        declare = models_grpc.ModelServiceStub(channel).CreateModel
        flat = [value for row in rows for value in row]
        for wrong, labels, expected in ((flat, [0, 1, 0, 1], ["rows[3].probabilities[1]"]),
                                        ([0.5] * 8, [0, 1, 7, 1], ["labels[2]"])):
            http = self.server.post("/v1/models/three:observe", {"observations": {
                "probabilities": {"values": wrong}, "labels": labels}})
            self.assertEqual(fields_of(http[2]), expected)
            request = ingest.ObserveRequest(model="models/three", observations=ingest.Observations(
                probabilities=ingest.DoubleValues(values=wrong), labels=labels))
            self.assertEqual(over_grpc(observe, request), expected)

            def stream():
                with client.stream("three") as opened:
                    opened.send([wrong[i:i + 2] for i in range(0, 8, 2)], labels)
            self.assertEqual(over_sdk(stream), expected)
        for path, value in (("error_limit", 0.9), ("average_run_length", 7.0), ("group_tag", "No")):
            monitoring = models.CreateModelRequest().model.monitoring
            setattr(monitoring, path, value)
            name = re.sub(r"_(\w)", lambda found: found[1].upper(), path)
            http = self.server.post("/v1/models", {"model": {
                "name": "models/bad", "classes": {"count": 2}, "monitoring": {name: value}}})
            expected = [f"model.monitoring.{path}"]
            self.assertEqual(fields_of(http[2]), expected)
            request = models.CreateModelRequest(model=models.Model(
                name="models/bad", classes=models.Classes(count=2), monitoring=monitoring))
            self.assertEqual(over_grpc(declare, request), expected)
            self.assertEqual(over_sdk(lambda: client.create_model("bad", 2, **{path: value})), expected)


if __name__ == "__main__":
    unittest.main()
