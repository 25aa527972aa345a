"""deploy/run does the main job by itself and leaves nothing behind.

    deploy_run_test.py PRESET   (the preset of the build that it runs)
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESET = sys.argv.pop(1)
ENVIRONMENT = dict(os.environ, CALIBD_PRESET=PRESET)


def deploy_run(*arguments):
    return subprocess.run([str(ROOT / "deploy/run"), *map(str, arguments)], env=ENVIRONMENT,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False)


def write_files(folder, rows):
    """Writes predictions of two classes and labels that count from 1; their arguments."""
    predictions = pathlib.Path(folder, "predictions.csv")
    predictions.write_text("".join(f"{i % 10 / 10},{1 - i % 10 / 10}\n" for i in range(rows)),
                           encoding="utf-8")
    labels = pathlib.Path(folder, "labels.csv")
    labels.write_text("1\n2\n" * (rows // 2), encoding="utf-8")
    return "--once", "--predictions", predictions, "--labels", labels


class DeployRunTest(unittest.TestCase):
    def test_once_streams_three_models_and_ends(self):
        result = deploy_run("--once")
        self.assertEqual(result.returncode, 0, result.stderr)
        for model in ("M1", "M2", "M3"):
            self.assertRegex(result.stdout, rf"(?m)^== {model}: ")
        self.assertNotIn("is running", result.stdout)

    def test_once_takes_the_users_own_file(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = write_files(folder, rows=600)
            result = deploy_run(*arguments, "--label-base", "1")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"(?m)^verdict   own: ")
            self.assertIn("600 labelled rows", result.stdout)
            result = deploy_run(*arguments, "--label-base", "0")
            self.assertEqual(result.returncode, 1)
            self.assertIn("label", result.stderr)

    def test_a_cluster_loses_nothing_when_its_owner_and_its_database_end(self):
        result = deploy_run("--cluster")
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertEqual(result.stdout.count("all 6000 predictions count, each once"), 2)

    def test_a_file_shorter_than_the_warm_up_is_evaluated_too(self):
        with tempfile.TemporaryDirectory() as folder:
            result = deploy_run(*write_files(folder, rows=60), "--label-base", "1")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("UNDECIDED, INSUFFICIENT_DATA", result.stdout)
        self.assertIn("simulation test: p = ", result.stdout)

    def test_stays_up_until_interrupted(self):
        process = subprocess.Popen(
            [str(ROOT / "deploy/run"), "--port", "0", "--http-port", "0"], env=ENVIRONMENT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        output = ""
        for line in process.stdout:
            output += line
            if "Ctrl-C" in line:
                break
        metrics = re.search(r"http://\S+/metrics", output)
        self.assertIsNotNone(metrics, output)
        with urllib.request.urlopen(metrics.group(), timeout=60) as answer:
            self.assertIn(b"calibd_", answer.read())
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        self.assertEqual(process.wait(60), 143)
        process.stdout.close()
        with self.assertRaises(OSError):
            urllib.request.urlopen(metrics.group(), timeout=10)

    def test_wrong_usage_is_exit_code_2_with_the_reason(self):
        for arguments, reason in ((("--nonsense",), "unknown option --nonsense"),
                                  (("--predictions", "a.csv"), "must be given together"),
                                  (("--predictions", "/a", "--labels", "/b"), "--label-base"),
                                  (("--port", "x"), "a port must be a number"),
                                  (("--port",), "--port needs a value")):
            result = deploy_run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(reason, result.stderr)


if __name__ == "__main__":
    unittest.main()
