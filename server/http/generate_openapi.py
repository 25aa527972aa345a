"""Writes the OpenAPI description of the API over HTTP, as a file and as a source of calibd.

    generate_openapi.py DESCRIPTORS VERSION JSON SOURCE

DESCRIPTORS is the descriptor set of the contract with its comments. Paths, rules and examples are the
options of calibd/rpc/rules.proto.
"""
import json
import re
import sys

from openapi_schema import FILE_SERVICES, SERVICE_METHODS, Schemas, paragraphs, read_descriptors

MODEL = "/v1/models/{model}"
VERSION = MODEL + "/versions/{version}"
DESCRIPTION = """\
The messages are those of calibd's gRPC services in protobuf's JSON mapping. Descriptions name fields as the
contract does: `label_grace` is `labelGrace` in JSON. A number of 0 or an empty text means the default of its
field.

Some rules are between fields, or between a request and the declaration of its model:
- `x-rows`: for each kind of model, how many values a list has, and in which range: `n x m in 0..1, sum 1`.
  n is the number of rows, m that of `classes`, w that of the numbers of a `forecast` (2 for `normal`), K that
  of `labels` and d that of `featureNames`. The values are in row-major order. Other kinds leave the field
  unset. Truths may be unset if there are ids. `all`: models of every kind.
- `x-declared-by`: only a model that declares this field takes the value. With `x-always`, each batch of such
  a model has it.
- `x-ascending`: the numbers of the list increase.
- `x-max-bytes`: the largest number of bytes of the text in UTF-8.
- `x-printable`: the text has no control, bidirectional or line-separating characters.
- `x-updatable`: `UpdateModel` can change the field.
- `x-rule`: another rule, in words."""
ERRORS = {
    "400": ("Invalid", "The request is invalid, or the model does not support it or has too few "
            "observations. The details name the fields."),
    "404": ("NotFound", "There is no such model, or no such alarm."),
    "409": ("Conflict", "There is another model of this name, or another request with this id."),
    "429": ("Exhausted", "A limit is reached. With Retry-After, the same request may be sent again."),
    "503": ("Unavailable", "The server starts or stops. The same request may be sent again."),
}


def content(schema, media="application/json"):
    return {media: {"schema": schema}}


def error_schema():
    detail = {"type": "object", "required": ["@type"], "properties": {"@type": {"type": "string"}},
              "description": "A message of google.rpc: BadRequest, ErrorInfo, RetryInfo or ResourceInfo."}
    text = {"type": "string"}
    error = {"type": "object", "required": ["code", "status", "message", "details"], "properties": {
        "code": {"type": "integer", "description": "The status of HTTP."},
        "status": {**text, "description": "The code of gRPC, such as INVALID_ARGUMENT."},
        "message": {**text, "description": "What was found and what was expected."},
        "details": {"type": "array", "items": detail}}}
    return {"type": "object", "required": ["error"], "properties": {"error": error}}


def event_content():
    """The body of a CloudEvent: the event in structured mode, or any answer in binary mode."""
    text = {"type": "string"}
    event = {"type": "object", "required": ["specversion", "id", "source", "type"], "properties": {
        "specversion": {"const": "1.0"}, "id": {**text, "minLength": 1, "maxLength": 100}, "source": text, "type": text,
        "time": {**text, "format": "date-time"}, "datacontenttype": text,
        "data": {"description": "The answer of the model server."}, "data_base64": text}}
    return {**content(event, "application/cloudevents+json"), **content({}, "*/*")}


def event_headers():
    headers = (("ce-id", "string", "Required in binary mode: the id of the event, 1..100 bytes."),
               ("ce-type", "string", "Required in binary mode: ends with .response for an answer."),
               ("ce-time", "string", "The time of the event, in RFC 3339."),
               ("Inference-Header-Content-Length", "integer",
                "In binary mode, the length of the JSON that tensors follow."))
    return [{"name": name, "in": "header", "description": text, "schema": {"type": kind}}
            for name, kind, text in headers]


class Description:
    def __init__(self, files, options):
        self.options = options
        self.schemas = Schemas(files, options)
        self.paths, self.tags, self.used = {}, [], set()
        for file in files:
            locations = {tuple(one.path): one for one in file.source_code_info.location}
            for i, service in enumerate(file.service):
                self.add_service(service, (FILE_SERVICES, i), locations)

    def add_service(self, service, path, locations):
        tag = service.name.removesuffix("Service")
        routed = False
        for i, method in enumerate(service.method):
            text = paragraphs(locations.get((*path, SERVICE_METHODS, i)))
            for route in method.options.Extensions[self.options["http"]]:
                routed = True
                operation = {"tags": [tag], "operationId": route.operation or method.name,
                             "summary": route.summary, "description": text}
                self.add_route(route, method, operation)
        if routed:
            self.tags.append({"name": tag, "description": paragraphs(locations.get(path))})

    def add_route(self, route, method, operation):
        operation.update(self.call(route, method))
        verb = route.method.lower()
        parameters = operation.pop("parameters")
        if not route.path.startswith(MODEL):
            self.paths.setdefault(route.path, {})[verb] = {**operation, "parameters": parameters}
            return
        names = [self.name_parameter("model"), self.name_parameter("version")]
        self.paths.setdefault(route.path, {})[verb] = {
            **operation, "parameters": [names[0], *parameters]}
        self.paths.setdefault(route.path.replace(MODEL, VERSION), {})[verb] = {
            **operation, "operationId": operation["operationId"] + "OfVersion",
            "summary": operation["summary"] + ", for a version of a model",
            "parameters": [*names, *parameters]}

    def name_parameter(self, name):
        model = self.schemas.messages[".calibd.v1.Model"]
        pattern = self.schemas.rules(next(f for f in model.field if f.name == "name")).pattern
        part = re.search(r"models/(.*?)\(", pattern)[1]
        return {"name": name, "in": "path", "required": True,
                "description": "The name within models/." if name == "model" else "The version.",
                "schema": {"type": "string", "pattern": f"^{part}$"}}

    def call(self, route, method):
        request = self.schemas.messages[method.input_type]
        on_model = route.path.startswith(MODEL)
        # The field that the path sets. Of a declaration, it sets the name.
        resource = next((field for field in request.field if on_model and not field.type_name
                         and field.name in ("model", "name")), None)
        without = resource.name if resource else None
        call = {"parameters": []}
        if route.method == "POST":
            body = self.body(route, method, without)
            if route.examples:
                body["application/json"]["examples"] = {
                    f"example-{i + 1}": {"value": json.loads(text)}
                    for i, text in enumerate(route.examples)}
            call["requestBody"] = {"required": True, "content": body}
            if route.cloud_event:
                call["parameters"] = event_headers()
        else:
            call["parameters"] = [self.query(method.input_type, field) for field in request.field
                                  if field is not resource]
        call["responses"] = self.responses(route, method, on_model)
        return call

    def body(self, route, method, without):
        if route.cloud_event:
            return event_content()
        schema = self.schemas.object(method.input_type, without, route.content or None)
        if method.name == "UpdateModel":
            settings = self.settings(".calibd.v1.Model")
            settings["description"] = "The new values. An unset one is the default."
            paths = "|".join(sorted(self.updatable(".calibd.v1.Model"))).replace(".", r"\.")
            schema["properties"]["model"] = settings
            # The path names the model.
            schema["required"] = [name for name in schema["required"] if name != "model"]
            schema["properties"]["updateMask"].update(pattern=f"^({paths})(,({paths}))*$")
        return content(schema)

    def settings(self, name):
        """The schema of a message with the fields that UpdateModel can change."""
        properties = {}
        for field in self.schemas.messages[name].field:
            if self.schemas.rules(field).updatable:
                properties[field.json_name] = self.schemas.property(name, field)
            elif self.is_part(field) and self.updatable(field.type_name):
                properties[field.json_name] = self.settings(field.type_name)
        return {"type": "object", "properties": properties, "additionalProperties": False}

    def is_part(self, field):
        return field.type_name in self.schemas.messages and field.label != field.LABEL_REPEATED

    def updatable(self, name):
        """The paths in JSON of the fields that UpdateModel can change."""
        paths = []
        for field in self.schemas.messages[name].field:
            if self.schemas.rules(field).updatable:
                paths.append(field.json_name)
            elif self.is_part(field):
                paths += [f"{field.json_name}.{path}" for path in self.updatable(field.type_name)]
        return paths

    def query(self, name, field):
        schema = self.schemas.property(name, field)
        parameter = {"name": field.json_name, "in": "query"}
        if "description" in schema:
            parameter["description"] = schema.pop("description")
        return {**parameter, "schema": schema}

    def responses(self, route, method, on_model):
        answer = method.output_type
        if route.part:
            answer = next(field.type_name for field in self.schemas.messages[answer].field
                          if field.name == route.part)
        events = method.server_streaming and route.method == "GET"
        media = "text/event-stream" if events else "application/json"
        text = ("Each event has an object as its data." if events else
                "The last message of the call, without its progress." if method.server_streaming
                else "The answer.")
        responses = {"200": {"description": text,
                             "content": content(self.schemas.reference(answer), media)}}
        for status, (name, _) in ERRORS.items():
            if status == "404" and not on_model or status == "409" and route.method != "POST":
                continue
            responses[status] = {"$ref": f"#/components/responses/{name}"}
            self.used.add(status)
        responses["default"] = {"description": "An error.", "content": content(
            {"$ref": "#/components/schemas/Error"})}
        return responses

    def document(self, version):
        error = content({"$ref": "#/components/schemas/Error"})
        return {
            "openapi": "3.1.0",
            "info": {"title": "calibd", "version": version, "description": DESCRIPTION,
                     "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"}},
            "servers": [{"url": "http://127.0.0.1:8461", "description": "The default of --http-listen."}],
            "security": [],
            "tags": self.tags,
            "paths": self.paths,
            "components": {
                "responses": {name: {"description": text, "content": error}
                              for status, (name, text) in ERRORS.items() if status in self.used},
                "schemas": {**dict(sorted(self.schemas.schemas.items())), "Error": error_schema()}}}


def main():
    descriptors, version, path, source = sys.argv[1:]
    text = json.dumps(Description(*read_descriptors(descriptors)).document(version), indent=1) + "\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    with open(source, "w", encoding="utf-8") as file:
        file.write('#include "server/http/open_api.h"\n\nnamespace calibd::server {\n\n'
                   f'std::string_view OpenApiText() noexcept {{\n  return R"json({text})json";\n}}\n\n'
                   '}  // namespace calibd::server\n')


if __name__ == "__main__":
    main()
