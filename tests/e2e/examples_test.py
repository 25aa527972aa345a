"""The examples for users do what the README says, against a real server.

    examples_test.py CALIBD CPP_EXAMPLE CPP_LABEL_EXAMPLE
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402

CALIBD, CPP_EXAMPLE, CPP_LABEL_EXAMPLE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=60, check=False, stdin=subprocess.DEVNULL, **options)


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
        with tempfile.TemporaryDirectory() as stubs:
            generated = run(ROOT / "client/python/generate-stubs", stubs)
            self.assertEqual(generated.returncode, 0, generated.stderr)
            example = ROOT / "client/python/examples/send_predictions.py"
            environment = dict(os.environ, PYTHONPATH=stubs, PYTHONDONTWRITEBYTECODE="1")
            outputs = [run(sys.executable, example, self.server.grpc, env=environment)
                       for _ in range(2)]
        for result in outputs:
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("SKCE (blocks of 2): ", result.stdout)
        self.assertIn("accepted rows: 4, counted before: 0", outputs[0].stdout)
        self.assertIn("accepted rows: 0, counted before: 4", outputs[1].stdout)


if __name__ == "__main__":
    unittest.main()
