"""Schemas of JSON (2020-12) of the messages of the contract, with its comments and rules."""
import re

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

RULES_FILE = "calibd/rpc/rules.proto"
FIELD = descriptor_pb2.FieldDescriptorProto
INT32, INT64 = (FIELD.TYPE_INT32,), (FIELD.TYPE_INT64,)
UINT32, UINT64 = (FIELD.TYPE_UINT32, FIELD.TYPE_FIXED32), (FIELD.TYPE_UINT64, FIELD.TYPE_FIXED64)
BITS = {**dict.fromkeys(INT32, (-2**31, 2**31 - 1)), **dict.fromkeys(UINT32, (0, 2**32 - 1)),
        **dict.fromkeys(INT64, (-2**63, 2**63 - 1)), **dict.fromkeys(UINT64, (0, 2**64 - 1))}
# Paths in descriptor.proto, see SourceCodeInfo.Location.path.
FILE_MESSAGES, FILE_SERVICES = 4, 6
MESSAGE_FIELDS, MESSAGE_NESTED, MESSAGE_ENUMS, ENUM_VALUES, SERVICE_METHODS = 2, 3, 4, 2, 2


def read_descriptors(path):
    """Returns the files of a descriptor set, and the options of the rules by their names."""
    with open(path, "rb") as file:
        data = file.read()
    files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    pool = descriptor_pool.Default()
    pool.Add(next(file for file in files if file.name == RULES_FILE))
    rules = pool.FindFileByName(RULES_FILE)
    factory = message_factory.MessageFactory(pool)
    for message in rules.message_types_by_name.values():
        factory.GetPrototype(message)
    for option in rules.extensions_by_name.values():
        getattr(descriptor_pb2, option.containing_type.name).RegisterExtension(option)
    # The options are known only now.
    return descriptor_pb2.FileDescriptorSet.FromString(data).file, rules.extensions_by_name


def paragraphs(location):
    """The text of a comment: lines are joined, except lists and lines after an empty one."""
    lines = [line.rstrip() for line in
             ((location.leading_comments or location.trailing_comments) if location else "").split("\n")]
    text = ""
    for line in lines:
        apart = line.startswith("  ") or line.lstrip().startswith("- ") or not line
        text += ("\n" if apart else " ") + line.strip() if text else line.strip()
    return re.sub(r"\n\n+", "\n\n", text).strip()


def digits(least, most):
    """A regular expression of the integers least..most without leading zeros; 0 <= least <= most."""
    if len(str(least)) < len(str(most)):
        end = 10**len(str(least)) - 1
        return digits(least, end) + "|" + digits(end + 1, most)
    low, high = str(least), str(most)
    if low == high:
        return low
    i = next(i for i, pair in enumerate(zip(low, high)) if pair[0] != pair[1])
    rest = len(low) - i - 1
    prefix, first, last = low[:i], int(low[i]), int(high[i])
    parts = []
    if int(low[i + 1:] or 0) > 0:
        parts += digits(int(low[i:]), int(low[i] + "9" * rest)).split("|")
        first += 1
    if (high[i + 1:] or "9" * rest) != "9" * rest:
        parts += digits(int(high[i] + "0" * rest), int(high[i:])).split("|")
        last -= 1
    if first <= last:
        span = str(first) if first == last else f"[{first}-{last}]"
        parts.append(span + {0: "", 1: "[0-9]"}.get(rest, f"[0-9]{{{rest}}}"))
    return "|".join(prefix + part for part in parts)


def integer_pattern(least, most):
    parts = []
    if most >= 0:
        parts.append(digits(max(least, 0), most))
    if least < 0:
        parts.append(f"-({digits(1, -least)})")
    return f"^({'|'.join(parts)})$"


def duration_pattern(rules):
    """Seconds between the ends, which are a positive fraction, or an integer, and an integer."""
    if not rules.HasField("most"):
        return r"^-?[0-9]+(\.[0-9]{1,9})?s$"
    most = int(rules.most)
    decimals = len(f"{rules.least:.9f}".rstrip("0").split(".")[1])
    below = digits(1, most - 1) + r")(\.[0-9]{1,9})?"
    # A number below 1 has a digit that is not 0 early enough.
    small = rf"0\.(?!0{{{decimals}}})[0-9]{{{max(decimals, 1)},9}}" if rules.least < 1 else ""
    return rf"^(({below}|{most}(\.0{{1,9}})?|{small})s$"


class Schemas:
    """The schemas of the messages that are used, by their names in the description."""

    def __init__(self, files, options):
        self.options = options
        self.messages, self.enums, self.comments = {}, {}, {}
        self.schemas = {}
        for file in files:
            locations = {tuple(one.path): one for one in file.source_code_info.location}
            for i, message in enumerate(file.message_type):
                self.add(f".{file.package}.{message.name}", message, (FILE_MESSAGES, i), locations)

    def add(self, name, message, path, locations):
        self.messages[name] = message
        self.comments[name] = paragraphs(locations.get(path))
        comment = ""
        for i, field in enumerate(message.field):
            # A comment may cover the fields of the same type that directly follow it.
            follows = i > 0 and field.type_name == message.field[i - 1].type_name
            comment = paragraphs(locations.get((*path, MESSAGE_FIELDS, i))) or (
                comment if follows else "")
            self.comments[f"{name}.{field.name}"] = comment
        for i, inner in enumerate(message.nested_type):
            self.add(f"{name}.{inner.name}", inner, (*path, MESSAGE_NESTED, i), locations)
        for i, enum in enumerate(message.enum_type):
            at = (*path, MESSAGE_ENUMS, i)
            lines = [paragraphs(locations.get(at))]
            for k, value in enumerate(enum.value):
                text = paragraphs(locations.get((*at, ENUM_VALUES, k)))
                lines.append(f"- {value.name}{': ' + text if text else ''}")
            self.enums[f"{name}.{enum.name}"] = {
                "description": "\n".join(lines).strip(), "type": "string",
                "enum": [value.name for value in enum.value]}

    def rules(self, field):
        return field.options.Extensions[self.options["rules"]]

    @staticmethod
    def short(name):
        return re.sub(r"^\.calibd\.(v1\.)?", "", name)

    def reference(self, name):
        short = self.short(name)
        if short not in self.schemas:
            self.schemas[short] = None  # A message may contain itself.
            self.schemas[short] = self.enums[name] if name in self.enums else self.object(name)
        return {"$ref": f"#/components/schemas/{short}"}

    def object(self, name, without=None, content=None):
        """The schema of a message. without: a field that is left out. content: one that is required."""
        message = self.messages[name]
        fields = [field for field in message.field
                  if field.name != without and not self.rules(field).names_for]
        properties, conditions = {}, []
        required = [field.json_name for field in fields
                    if self.rules(field).required or field.name == content]
        json_names = {field.name: field.json_name for field in fields}
        for field in fields:
            properties[field.json_name] = self.property(name, field)
            rules = self.rules(field)
            if rules.required_without:
                # 0 and an empty list are as good as none.
                other = json_names[rules.required_without]
                conditions.append({"anyOf": [
                    {"required": [field.json_name],
                     "properties": {field.json_name: {"minimum": rules.least}}},
                    {"required": [other], "properties": {other: {"minItems": 1}}}]})
            if rules.needs:
                conditions.append(self.needs(message, field, rules.needs))
        for i, oneof in enumerate(message.oneof_decl):
            names = [field.json_name for field in fields
                     if field.HasField("oneof_index") and field.oneof_index == i
                     and not field.proto3_optional]
            if len(names) > 1:
                conditions.append(self.choice(oneof, names, content in json_names and
                                              json_names.get(content) in names and content))
        schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if self.comments[name]:
            schema = {"description": self.comments[name], **schema}
        if required:
            schema["required"] = required
        if conditions:
            schema["allOf"] = conditions
        return schema

    def choice(self, oneof, names, content):
        if content:
            return {"not": {"anyOf": [{"required": [name]} for name in names if name != content]}}
        alternatives = [{"required": [name]} for name in names]
        if not oneof.options.Extensions[self.options["one_required"]]:
            alternatives.append({"not": {"anyOf": list(alternatives)}})
        return {"oneOf": alternatives}

    @staticmethod
    def needs(message, field, needed):
        other = next(one for one in message.field if one.name == needed)
        zero = {FIELD.TYPE_BOOL: False, FIELD.TYPE_INT64: "0"}.get(field.type, 0)
        there = {"required": [other.json_name]}
        if other.type == FIELD.TYPE_STRING:
            there["properties"] = {other.json_name: {"minLength": 1}}
        return {"anyOf": [{"properties": {field.json_name: {"const": zero}}}, there]}

    def property(self, name, field):
        rules = self.rules(field)
        schema = self.value(field, rules)
        if field.label == FIELD.LABEL_REPEATED:
            schema = self.list(name, field, rules, schema)
        elif not (rules.required or field.proto3_optional or field.HasField("oneof_index")):
            schema = self.or_default(schema)
        elif rules.or_zero:
            schema = self.or_default(schema)
        comment = self.comments[f"{name}.{field.name}"]
        if comment:
            schema = {"description": comment, **schema}
        if rules.output_only:
            schema["readOnly"] = True
        if rules.rows:
            schema["x-rows"] = dict(row.split(": ", 1) for row in rules.rows)
        if rules.declared_by:
            schema["x-declared-by"] = rules.declared_by
        for key in ("ascending", "always", "updatable", "rule"):
            if getattr(rules, key):
                schema[f"x-{key}"] = getattr(rules, key)
        return schema

    def list(self, name, field, rules, item):
        schema = {"type": "array", "items": item}
        if any(self.rules(one).names_for == field.name for one in self.messages[name].field):
            schema = {"anyOf": [schema, {"type": "array", "items": {"type": "string"}}]}
        if rules.least_items:
            schema["minItems"] = rules.least_items
        if rules.HasField("most_items"):
            schema["maxItems"] = rules.most_items
        if rules.distinct:
            schema["uniqueItems"] = True
        return schema

    @staticmethod
    def or_default(schema):
        """The schema with 0 or an empty text, which mean the default."""
        zero = {"integer": 0, "number": 0, "string": ""}.get(schema.get("type"))
        ends = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
        if schema.get("type") == "string":
            if "pattern" not in schema or schema["pattern"].endswith("s$"):
                return schema
            if schema.get("format") in ("int64", "uint64"):
                zero = "0"
            if re.search(schema["pattern"], zero):
                return schema
            return {**schema, "pattern": f"^({zero}|{schema['pattern'][1:-1]})$"}
        inside = (schema.get("minimum", -1) <= 0 <= schema.get("maximum", 1)
                  and schema.get("exclusiveMinimum", -1) < 0 < schema.get("exclusiveMaximum", 1))
        if zero is None or inside:
            return schema
        return {**{key: value for key, value in schema.items() if key not in ends},
                "anyOf": [{"const": 0}, {key: schema[key] for key in ends if key in schema}]}

    def value(self, field, rules):
        """The schema of one value of a field."""
        if field.type in BITS:
            return self.integer(field, rules)
        if field.type in (FIELD.TYPE_DOUBLE, FIELD.TYPE_FLOAT):
            schema = {"type": "number"}
            for end, key in (("least", "minimum"), ("most", "maximum"), ("above", "exclusiveMinimum"),
                             ("below", "exclusiveMaximum")):
                if rules.HasField(end):
                    schema[key] = self.number(getattr(rules, end))
            return schema
        if field.type == FIELD.TYPE_BOOL:
            return {"type": "boolean"}
        if field.type == FIELD.TYPE_STRING:
            return self.text(rules)
        known = {".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
                 ".google.protobuf.Duration": {"type": "string", "pattern": duration_pattern(rules)},
                 ".google.protobuf.FieldMask": {"type": "string"}}
        return dict(known.get(field.type_name) or self.reference(field.type_name))

    @staticmethod
    def number(value):
        return int(value) if value.is_integer() and abs(value) < 1e15 else value

    def integer(self, field, rules):
        least, most = BITS[field.type]
        least = int(rules.least) if rules.HasField("least") else least
        most = int(rules.most) if rules.HasField("most") else most
        if field.type in INT64 + UINT64:
            schema = {"type": "string", "format": "int64" if field.type in INT64 else "uint64"}
            if rules.HasField("least") or field.type in UINT64:
                schema["pattern"] = integer_pattern(least, most)
            return schema
        return {"type": "integer", "format": "int32" if field.type in INT32 else "uint32",
                "minimum": least, "maximum": most}

    @staticmethod
    def text(rules):
        schema = {"type": "string"}
        if rules.least_bytes:
            schema["minLength"] = rules.least_bytes
        if rules.HasField("most_bytes"):
            schema["maxLength"] = schema["x-max-bytes"] = rules.most_bytes
        if rules.printable:
            schema["x-printable"] = True
        if rules.pattern:
            schema["pattern"] = rules.pattern
        return schema
