"""The examples for users do what the README says, against a real server.

    examples_test.py CALIBD CPP_EXAMPLE CPP_LABEL_EXAMPLE DESCRIPTOR_SET API_REFERENCE PYTHON_PACKAGE
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402

CALIBD, CPP_EXAMPLE, CPP_LABEL_EXAMPLE, DESCRIPTORS, API_REFERENCE, PYTHON_PACKAGE = (
    sys.argv.pop(1) for _ in range(6))


CLIENTS = (ROOT / "docs/clients.md").read_text(encoding="utf-8")


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=240, check=False, stdin=subprocess.DEVNULL, **options)


class ExamplesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(CalibdServer(CALIBD))

    def test_cpp_example_is_counted_and_reads_an_estimate(self):
        result = run(CPP_EXAMPLE, self.server.grpc)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("accepted rows: 4\n", result.stdout)
        self.assertIn("SKCE (blocks of 2): ", result.stdout)

    def test_cpp_label_example_is_taken_once_when_run_twice(self):
        outputs = []
        for _ in range(2):
            result = run(CPP_LABEL_EXAMPLE, self.server.grpc)
            self.assertEqual(result.returncode, 0, result.stderr)
            outputs.append(result.stdout)
        self.assertEqual(outputs, [
            "accepted rows: 3, known before: 0, labels matched: 2, repeated: 0\n",
            "accepted rows: 0, known before: 3, labels matched: 0, repeated: 2\n"])

    def test_cpp_example_reports_an_unreachable_server(self):
        result = run(CPP_EXAMPLE, "127.0.0.1:1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("127.0.0.1:1", result.stderr)

    def test_python_example_is_counted_once_when_run_twice(self):
        example = ROOT / "client/python/examples/send_predictions.py"
        environment = dict(os.environ, PYTHONPATH=PYTHON_PACKAGE, PYTHONDONTWRITEBYTECODE="1")
        outputs = [run(sys.executable, example, self.server.grpc, env=environment)
                   for _ in range(2)]
        for result in outputs:
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("verdict   weather-python: ", result.stdout)
        self.assertIn("accepted rows: 4, counted before: 0", outputs[0].stdout)
        self.assertIn("accepted rows: 0, counted before: 4", outputs[1].stdout)

    def run_documented(self, folder, language):
        """Runs the commands of docs/clients.md in `folder`, as if it were the clone; the last twice."""
        block = re.search(rf"^<!-- run {language} -->\n```sh\n(.*?)^```$", CLIENTS, re.M | re.S)[1]
        for name in ("client", "proto"):
            (pathlib.Path(folder) / name).symlink_to(ROOT / name)
        block += block.splitlines()[-1]
        return run("bash", "-euo", "pipefail", "-c", block.replace("127.0.0.1:8460", self.server.grpc),
                   cwd=folder)

    def check_documented(self, language):
        """The example prints the estimate, and its rows count once when it runs twice."""
        with tempfile.TemporaryDirectory() as folder:
            result = self.run_documented(folder, language)
            self.assertEqual(result.returncode, 0, result.stderr)
            first, second = re.split("(?=accepted rows: )", result.stdout)[1:]
            self.assertIn("accepted rows: 4, counted before: 0", first)
            self.assertIn("accepted rows: 0, counted before: 4", second)
            for output in (first, second):
                self.assertIn("SKCE (blocks of 2): ", output)

    def test_go_client_is_generated_compiled_and_counted_once(self):
        self.check_documented("go")

    def test_java_client_is_generated_compiled_and_counted_once(self):
        self.check_documented("java")

    def test_the_api_reference_describes_every_message_and_method_of_the_contract(self):
        page = pathlib.Path(API_REFERENCE).read_text(encoding="utf-8")
        sections = dict(re.findall(r"^### (?:Message|Service|Enum) (\S+)\n(.*?)(?=^##|\Z)", page,
                                   re.M | re.S))
        rows = {name: re.findall(r"^\| `(\w+)`", text, re.M) for name, text in sections.items()}

        def check(message, prefix):
            name = prefix + message.name
            self.assertEqual(rows[name], [field.name for field in message.field], name)
            for nested in message.nested_type:
                check(nested, name + ".")
            for enum in message.enum_type:
                self.assertEqual(rows[f"{name}.{enum.name}"], [value.name for value in enum.value])

        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(DESCRIPTORS).read_bytes())
        contract = [file for file in files.file if file.package.startswith("calibd.")]
        for file in contract:
            for message in file.message_type:
                check(message, "")
            for service in file.service:
                self.assertEqual(rows[service.name], [method.name for method in service.method])
        # The comments are those of the elements beside them.
        for name, row in (
                ("ModelService", r"`GetModel` .* NOT_FOUND when there is no such model\."),
                ("RecalibrationMap", r"`temperature` \| 4 \| optional double \| The temperature, in \[0\.05, 20\]"),
                ("CalibrationError.Status", r"`WITHIN_LIMIT` \| 2 \| The upper end")):
            self.assertRegex(sections[name], row)

    def test_the_api_reference_has_every_comment_of_the_contract(self):
        sections = re.split(r"^## ", pathlib.Path(API_REFERENCE).read_text(encoding="utf-8"), flags=re.M)
        pages = {section.partition("\n")[0]: section.replace("\\|", "|") for section in sections}
        # Paths of comments in descriptor.proto: messages, their fields, nested messages, oneofs; methods.
        element = re.compile(r"4 \d+( 3 \d+)*( [28] \d+)?|6 \d+( 2 \d+)?")
        # The separator of paragraphs in a cell of a table, and below a heading.
        separators = ("<br><br>", "\n\n")
        oneofs = 0
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(DESCRIPTORS).read_bytes())
        for file in files.file:
            if not file.package.startswith("calibd."):
                continue
            for location in file.source_code_info.location:
                path = " ".join(map(str, location.path))
                comment = location.leading_comments or location.trailing_comments
                if not comment or not element.fullmatch(path):
                    continue
                oneofs += location.path[-2] == 8
                paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", comment)]
                self.assertTrue(any(separator.join(paragraphs) in pages[file.name]
                                    for separator in separators), f"{file.name} {path}: {comment}")
        self.assertGreater(oneofs, 0)

    def test_a_client_without_generated_code_calls_by_the_descriptor_set(self):
        files = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(DESCRIPTORS).read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.Add(file)
        method = pool.FindMethodByName("calibd.v1.ModelService.ListModels")
        factory = message_factory.MessageFactory(pool)
        with grpc.insecure_channel(self.server.grpc) as channel:
            call = channel.unary_unary(
                f"/{method.containing_service.full_name}/{method.name}",
                request_serializer=factory.GetPrototype(method.input_type).SerializeToString,
                response_deserializer=factory.GetPrototype(method.output_type).FromString)
            call(factory.GetPrototype(method.input_type)(), timeout=60)
        self.assertTrue(any(location.leading_comments for file in files.file
                            for location in file.source_code_info.location))


if __name__ == "__main__":
    unittest.main()
