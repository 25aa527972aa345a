"""Requests that are made from an OpenAPI description alone, by hypothesis.

The description states rules between fields in x-rows and the like; see its `info`. Fields with an x-rule
in words are left out, except for those that the functions here name.
"""
import datetime
import json
import re

import jsonschema
from hypothesis import strategies as st

KINDS = ("classes", "forecast", "labels")
TEXT = st.characters(whitelist_categories=("L", "N"), whitelist_characters=" -_.,:;!?()")


class Maker:
    """Makes values of schemas. draw: that of a composite strategy or of st.data()."""

    def __init__(self, description, draw):
        self.description = description
        self.draw = draw

    def pick(self, values):
        return self.draw(st.sampled_from(list(values)))

    def resolve(self, schema):
        if "$ref" not in schema:
            return schema
        name = schema["$ref"].removeprefix("#/components/schemas/")
        return {**self.description["components"]["schemas"][name],
                **{key: value for key, value in schema.items() if key != "$ref"}}

    def is_valid(self, value, schema):
        whole = {**schema, "components": self.description["components"]}
        return jsonschema.Draft202012Validator(whole).is_valid(value)

    def value(self, schema):
        schema = self.resolve(schema)
        if "enum" in schema:
            return self.pick(schema["enum"])
        if "anyOf" in schema:
            rest = {key: value for key, value in schema.items() if key != "anyOf"}
            choice = self.pick(schema["anyOf"])
            return choice["const"] if "const" in choice else self.value({**rest, **choice})
        return getattr(self, schema["type"])(schema)

    def boolean(self, _schema):
        return self.draw(st.booleans())

    def integer(self, schema):
        # A small number needs little memory.
        least = max(schema["minimum"], 0) if schema["minimum"] == -2**31 else schema["minimum"]
        return self.draw(st.integers(least, min(schema["maximum"], least + 20)))

    def number(self, schema):
        return self.draw(st.floats(
            schema.get("minimum", schema.get("exclusiveMinimum")),
            schema.get("maximum", schema.get("exclusiveMaximum")),
            exclude_min="exclusiveMinimum" in schema, exclude_max="exclusiveMaximum" in schema,
            allow_nan=False, allow_infinity=False))

    def string(self, schema):
        if schema.get("format") == "date-time":
            time = datetime.datetime(2026, 1, 1) + self.draw(st.timedeltas(
                datetime.timedelta(0), datetime.timedelta(300)))
            return time.isoformat() + "Z"
        if "pattern" in schema:
            return self.draw(st.from_regex(schema["pattern"], fullmatch=True))
        most = schema.get("maxLength", 20)
        text = st.text(TEXT, min_size=schema.get("minLength", 0), max_size=min(most, 40))
        return self.draw(text.filter(
            lambda one: len(one.encode()) <= schema.get("x-max-bytes", len(one.encode()))))

    def array(self, schema):
        least = schema.get("minItems", 0)
        size = self.draw(st.integers(least, min(schema.get("maxItems", 4), least + 3)))
        values = []
        for _ in range(size):
            value = self.value(schema["items"])
            if not (schema.get("uniqueItems") and value in values):
                values.append(value)
        if schema.get("x-ascending"):
            values = sorted(set(values))
        return values

    def object(self, schema, wanted=(), without=()):
        """wanted: properties that the object has if it may. without: those that it has not."""
        properties = schema["properties"]
        present = set(schema.get("required", ())) | set(wanted)
        excluded = {name for name, one in properties.items()
                    if one.get("readOnly") or ("x-rule" in one and name not in present)} | set(without)
        optional = [name for name in properties if name not in excluded]
        present |= set(self.draw(st.sets(st.sampled_from(optional)))) if optional else set()
        for condition in schema.get("allOf", ()):
            self.satisfy(condition, present, excluded, wanted)
        value = {}
        for name in sorted(present - excluded):
            value[name] = self.value(properties[name])
        for condition in schema.get("allOf", ()):
            for one in condition.get("anyOf", ()):
                for name, inner in one.get("properties", {}).items():
                    if inner.get("minLength") and value.get(name) == "":
                        value[name] = "tag"
                    if inner.get("minItems") and not self.is_valid(value, condition):
                        value[name] = self.value({**properties[name], **inner})
        return value

    def satisfy(self, condition, present, excluded, wanted):
        """Adds and removes names of properties, so that the condition holds."""
        if "not" in condition:
            for one in condition["not"]["anyOf"]:
                present.difference_update(one["required"])
            return
        alternatives = condition.get("oneOf", condition.get("anyOf"))
        usable = [one for one in alternatives
                  if "required" in one and not set(one["required"]) & excluded]
        if "anyOf" in condition:
            needing = set() if "required" in alternatives[0] else set(alternatives[0]["properties"])
            if needing and not usable:
                present.difference_update(needing)
            elif not needing or needing & present:
                present.update(usable[-1]["required"])
            return
        usable += [one for one in alternatives if "not" in one]
        chosen = next((one for one in usable if set(one.get("required", ())) & set(wanted)), None)
        chosen = chosen or self.pick(usable)
        for one in alternatives:
            present.difference_update(one.get("required", ()))
        present.update(chosen.get("required", ()))


def body_schema(description, operation_id):
    """Returns the path, the verb and the schema of the JSON body of an operation."""
    for path, verbs in description["paths"].items():
        for verb, operation in verbs.items():
            if operation["operationId"] == operation_id:
                body = operation.get("requestBody", {"content": {"application/json": {"schema": None}}})
                return path, verb, body["content"]["application/json"]["schema"]
    raise KeyError(operation_id)


def make_model(maker, kind, name):
    """Returns the body that declares a model of this kind."""
    *_, schema = body_schema(maker.description, "CreateModel")
    model_schema = maker.resolve(schema["properties"]["model"])
    model = maker.object(model_schema, wanted=(kind,))
    model["name"] = name
    # A batch that finds no room among the pending predictions is refused.
    model.pop("maxPending", None)
    if kind == "labels":
        # The x-rules of these fields say so.
        model.get("monitoring", {}).pop("groupTag", None)
        for field in ("maxGroups", "minGroupObservations"):
            model.get("monitoring", {}).pop(field, None)
    if kind == "classes":
        classes = model["classes"]
        names = classes.get("names", [])
        if names:  # x-rows of the names: one for each class.
            while len(names) < 2:
                names.append(f"class {len(names)}")
            classes["count"] = len(names)
    return {"model": model}


def declared(model, path):
    """The value at a path of the contract in a declaration in JSON; None if it is not declared."""
    for part in path.split("."):
        name = re.sub(r"_(\w)", lambda found: found[1].upper(), part)
        model = model.get(name) if model else None
    return model or None


class Batch:
    """Fills the rows of one batch for a model, as the server answers its declaration."""

    def __init__(self, maker, model):
        self.maker = maker
        self.model = model
        self.kind = next(kind for kind in KINDS if kind in model)
        self.names = model.get("classes", {}).get("names", [])
        forecast = model.get("forecast", {})
        self.sizes = {
            "n": maker.draw(st.integers(1, 4)), "m": model.get("classes", {}).get("count"),
            "K": len(model.get("labels", {}).get("names", [])), "d": len(model["featureNames"]),
            "w": len(forecast.get("quantiles", {}).get("levels", []))
            or forecast.get("samples", {}).get("draws") or 2}

    def takes(self, schema):
        rows = schema.get("x-rows", {})
        by = schema.get("x-declared-by")
        return (not rows or self.kind in rows or "all" in rows) and (
            by is None or declared(self.model, by) is not None)

    def fill(self, schema, later):
        """later: the truths are left out."""
        maker = self.maker
        schema = maker.resolve(schema)
        properties = schema["properties"]
        without = [name for name, one in properties.items() if not self.takes(one)]
        truths = [name for name in ("labels", "outcomes") if name not in without]
        wanted = [name for name in truths if not later]
        wanted += [name for name in ("predictionIds",) if later and name not in without]
        if later:
            without += truths
        always = [name for name, one in properties.items() if one.get("x-always") and self.takes(one)]
        wanted += [name for name in always if not name.startswith("baseline")]
        baseline = [name for name in always if name.startswith("baseline")]
        wanted += [maker.pick(baseline)] if baseline else []
        predictions = ("probabilities", "probabilitiesFloat32", "logits", "logitsFloat32", "forecasts")
        wanted += [maker.pick([one for one in predictions if one in properties and one not in without])
                   ] if "probabilities" in properties else []
        value = maker.object({**schema, "properties": {
            name: one if "x-rows" not in one else {"const": None, "anyOf": [{"const": None}]}
            for name, one in properties.items()}}, wanted, without)
        for name in value:
            if "x-rows" in properties[name]:
                rows = properties[name]["x-rows"]
                value[name] = self.rows(name, properties[name], rows.get(self.kind, rows.get("all")))
        return value

    def rows(self, name, schema, rule):
        size, *more = re.match(r"n(?: x (\w+))?(?: in (.+?)\.\.([^,]+))?(, sum 1)?$", rule).groups()
        low, high, sums = more
        width = self.sizes[size] if size else 1
        rows = [self.row(name, schema, width, low, high, sums) for _ in range(self.sizes["n"])]
        values = [value for row in rows for value in row]
        if schema.get("uniqueItems") or name == "predictionIds":
            values = [f"{value}{i}"[-100:] for i, value in enumerate(values)]
        return {"values": values} if schema.get("type") != "array" and "anyOf" not in schema else values

    def row(self, name, schema, width, low, high, sums):
        draw = self.maker.draw
        if sums:
            cuts = sorted(draw(st.lists(st.integers(0, 1024), min_size=width - 1, max_size=width - 1)))
            return [(b - a) / 1024 for a, b in zip([0, *cuts], [*cuts, 1024])]
        if name == "labels":
            high = self.sizes["m"] - 1 if high == "m-1" else int(high)
            numbers = draw(st.lists(st.integers(int(low), high), min_size=width, max_size=width))
            return [self.names[one] for one in numbers] if self.names else numbers
        if low is not None:
            return draw(st.lists(st.sampled_from((0.0, 0.25, 1.0)), min_size=width, max_size=width))
        if schema.get("type") == "array" and schema["items"]["type"] == "string":
            return [self.maker.value(schema["items"])]
        # The numbers of a forecast may be mean and deviation, or quantiles, which do not decrease.
        numbers = st.floats(0.0625, 1e6, width=32)
        return sorted(draw(st.lists(numbers, min_size=width, max_size=width)))


def describe(value):
    return json.dumps(value)[:400]
