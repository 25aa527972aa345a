"""Fails when a .proto breaks the conventions of the public contract.

Package = folder; each RPC has a request and a response of its own, named after it; enums
are inside messages, so that their values need no prefix, and zero is UNSPECIFIED; field names are lower_snake_case; services, RPCs, enums
and messages that are no request or response have a comment, and so has every number (a comment
may cover the fields that directly follow it). Options name the package of generated Go and Java code.
"""
import re
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2
from sources import ROOT, project_files, report

PROTO_ROOT = ROOT / "proto"
# It is not part of the contract: no client generates it.
STORE_FORMAT = "calibd/store/v1"
# gRPC states it.
HEALTH = "grpc/health/v1"
FIELD = descriptor_pb2.FieldDescriptorProto
NOT_NUMBERS = (FIELD.TYPE_STRING, FIELD.TYPE_BYTES, FIELD.TYPE_BOOL, FIELD.TYPE_MESSAGE,
               FIELD.TYPE_ENUM, FIELD.TYPE_GROUP)
# Paths in descriptor.proto, see SourceCodeInfo.Location.path.
FILE_MESSAGES, FILE_ENUMS, FILE_SERVICES = 4, 5, 6
MESSAGE_FIELDS, MESSAGE_NESTED, MESSAGE_ENUMS = 2, 3, 4
SERVICE_METHODS = 2


def upper_snake(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


class FileCheck:
    """The problems of one file; `requests` maps the messages that RPCs use to the first user."""

    def __init__(self, file, requests):
        self.file = file
        self.requests = requests
        self.locations = {tuple(l.path): l for l in file.source_code_info.location}
        self.problems = []

    def add(self, path, text):
        location = self.locations.get(tuple(path))
        line = location.span[0] + 1 if location else 1
        self.problems.append(f"{self.file.name}:{line}: {text}")

    def commented(self, path):
        location = self.locations.get(tuple(path))
        return bool(location and (location.leading_comments.strip()
                                  or location.trailing_comments.strip()))

    def check(self):
        folder = self.file.name.rsplit("/", 1)[0]
        if self.file.package != folder.replace("/", "."):
            self.add((), f"package {self.file.package} does not equal the folder {folder}")
        if folder != STORE_FORMAT:
            self.check_options(folder)
        for i, service in enumerate(self.file.service):
            self.check_service((FILE_SERVICES, i), service)
        for i, enum in enumerate(self.file.enum_type):
            self.add((FILE_ENUMS, i), f"enum {enum.name} is not inside a message")
        for i, message in enumerate(self.file.message_type):
            self.check_message((FILE_MESSAGES, i), message)
        return self.problems

    def check_options(self, folder):
        options = self.file.options
        go_package = f"{folder};{folder.replace('/', '')}"
        if options.go_package != go_package:
            self.add((), f'go_package is "{options.go_package}", expected "{go_package}"')
        if not options.java_multiple_files or options.java_package != self.file.package:
            self.add((), f'java_multiple_files = true and java_package = "{self.file.package}" expected')

    def check_service(self, path, service):
        if not self.commented(path):
            self.add(path, f"service {service.name} has no comment")
        for i, method in enumerate(service.method):
            where = (*path, SERVICE_METHODS, i)
            if not self.commented(where):
                self.add(where, f"rpc {method.name} has no comment")
            for suffix, used in (("Request", method.input_type), ("Response", method.output_type)):
                expected = f".{self.file.package}.{method.name}{suffix}"
                if used != expected:
                    self.add(where, f"rpc {method.name} uses {used}, expected {expected}")
                user = self.requests.setdefault(used, f"{service.name}.{method.name}")
                if user != f"{service.name}.{method.name}":
                    self.add(where, f"{used} is used by {user} too")

    def check_enum(self, path, enum):
        if not self.commented(path):
            self.add(path, f"enum {enum.name} has no comment")
        if not enum.value or enum.value[0].number != 0 or enum.value[0].name != "UNSPECIFIED":
            self.add(path, f"enum {enum.name} does not start with UNSPECIFIED = 0")
        for value in enum.value:
            if value.name.startswith(upper_snake(enum.name) + "_"):
                self.add(path, f"{value.name} repeats the name of its enum")

    def check_message(self, path, message, nested=False):
        if not re.fullmatch(r"([A-Z][a-z0-9]*)+", message.name):
            self.add(path, f"message {message.name} is not CamelCase")
        if not nested and not self.commented(path) and not message.name.endswith(
                ("Request", "Response")):
            self.add(path, f"message {message.name} has no comment")
        covered_line = None  # the last line that the newest comment speaks of
        for i, field in enumerate(message.field):
            where = (*path, MESSAGE_FIELDS, i)
            if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", field.name):
                self.add(where, f"{message.name}.{field.name} is not lower_snake_case")
            line = self.locations[where].span[0]
            if self.commented(where) or (covered_line is not None and line == covered_line + 1):
                covered_line = line
            else:
                covered_line = None
                if field.type not in NOT_NUMBERS:
                    self.add(where, f"{message.name}.{field.name} is a number without a comment")
        for i, enum in enumerate(message.enum_type):
            self.check_enum((*path, MESSAGE_ENUMS, i), enum)
        for i, inner in enumerate(message.nested_type):
            if not inner.options.map_entry:
                self.check_message((*path, MESSAGE_NESTED, i), inner, nested=True)


def check_protos(root, names):
    """Problems of the files `names`, relative to the import folder `root`."""
    with tempfile.NamedTemporaryFile(suffix=".pb") as out:
        subprocess.run(["protoc", "-I", str(root), "--include_source_info",
                        f"--descriptor_set_out={out.name}", *names], check=True)
        with open(out.name, "rb") as stream:
            files = descriptor_pb2.FileDescriptorSet.FromString(stream.read()).file
    requests = {}
    return [problem for file in files for problem in FileCheck(file, requests).check()]


def main():
    names = [str(f.relative_to(PROTO_ROOT)) for f in project_files("proto")
             if f.suffix == ".proto" and HEALTH not in str(f)]
    return report("proto style", check_protos(PROTO_ROOT, names))


if __name__ == "__main__":
    sys.exit(main())
