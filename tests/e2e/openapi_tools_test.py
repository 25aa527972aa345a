"""Tools from npm accept the OpenAPI description, and the client that they generate from it works.

    openapi_tools_test.py CALIBD OPENAPI PYTHON_PACKAGE NPM_FOLDER

Skipped where npm is not installed.
"""
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402
from npm_tools import npm_tools  # noqa: E402

CALIBD, OPENAPI, PYTHON_PACKAGE, NPM_FOLDER = (sys.argv.pop(1) for _ in range(4))
sys.path.insert(0, PYTHON_PACKAGE)
import calibd  # noqa: E402
EXAMPLE = "client/typescript/examples/send_predictions.mts"
OBSERVE = "/v1/models/{model}:observe"


def without_title(description):
    del description["info"]["title"]


def without_license(description):
    del description["info"]["license"]


def with_a_response_without_a_description(description):
    del description["paths"][OBSERVE]["post"]["responses"]["200"]["description"]


def with_a_parameter_in_no_place(description):
    description["paths"]["/v1/models/{model}"]["get"]["parameters"][0]["in"] = "nowhere"


class OpenApiToolsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.modules = npm_tools(NPM_FOLDER)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        for name in ("client", "proto"):
            (cls.folder / name).symlink_to(ROOT / name)
        cls.work = cls.folder / "build/typescript"
        cls.work.mkdir(parents=True)
        (cls.work / "node_modules").symlink_to(cls.modules)

    def run_tool(self, *command, **options):
        return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False,
                              **{"cwd": self.work, **options})

    def test_the_validator_accepts_the_description_and_refuses_damaged_ones(self):
        validator = self.modules / ".bin/validate-api"
        result = self.run_tool(validator, OPENAPI)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertTrue(json.loads(result.stdout)["valid"])
        description = json.loads(pathlib.Path(OPENAPI).read_text(encoding="utf-8"))
        for damage in (without_title, with_a_parameter_in_no_place,
                       with_a_response_without_a_description):
            damaged = copy.deepcopy(description)
            damage(damaged)
            file = self.work / "damaged.json"
            file.write_text(json.dumps(damaged), encoding="utf-8")
            result = self.run_tool(validator, file)
            self.assertNotIn('"valid": true', result.stdout, damage.__name__)
            self.assertNotEqual(result.returncode, 0, damage.__name__)

    def test_redocly_finds_no_problem_and_finds_those_of_damaged_descriptions(self):
        """The linter of `redocly lint`, with its recommended rules: errors and warnings."""
        (self.work / "lint.mjs").write_text("""
            import { createConfig, lint } from "@redocly/openapi-core";
            const config = await createConfig({ extends: ["recommended"] });
            const problems = await lint({ ref: process.argv[2], config });
            for (const { ruleId, severity, message } of problems) console.log(severity, ruleId, message);
        """, encoding="utf-8")
        self.assertEqual(self.run_tool("node", "lint.mjs", OPENAPI).stdout, "")
        description = json.loads(pathlib.Path(OPENAPI).read_text(encoding="utf-8"))
        for damage, rule in ((without_license, "info-license"),
                             (with_a_parameter_in_no_place, "struct")):
            damaged = copy.deepcopy(description)
            damage(damaged)
            file = self.work / "damaged.json"
            file.write_text(json.dumps(damaged), encoding="utf-8")
            self.assertIn(rule, self.run_tool("node", "lint.mjs", file).stdout)

    def run_documented(self, server):
        """Runs the commands of docs/clients.md, as if `folder` were the clone."""
        page = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
        block = re.search(r"^<!-- run typescript -->\n```sh\n(.*?)^```$", page, re.M | re.S)[1]
        result = self.run_tool("bash", "-euo", "pipefail", "-c",
                               block.replace("127.0.0.1:8461", server.http), cwd=self.folder,
                               env=dict(os.environ, NO_COLOR="1"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_the_generated_client_answers_what_the_python_client_answers(self):
        with CalibdServer(CALIBD) as server:
            output = self.run_documented(server)
            repeated = self.run_tool("node", "send_predictions.mjs", server.http).stdout
            client = calibd.Client(server.grpc)
            calibration = client.calibration("weather-typescript")
            total = client.history("weather-typescript", "minute").message.total
        self.assertIn("accepted rows: 4, counted before: 0\nlabels matched: 1\n", output)
        self.assertIn("accepted rows: 0, counted before: 4\nlabels matched: 0\n", repeated)
        estimate = calibration.message.estimates[0]
        self.assertIn(f"SKCE (blocks of {estimate.block_size}): {estimate.skce}\n", output)
        # (0.14 + 0.06 + 0.74 + 0.02) / 4, by hand. The prediction with an id does not count yet.
        self.assertIn("observations: 4, Brier score: 0.24\n", output)
        self.assertEqual((total.observations, round(total.brier_score, 12)), (4, 0.24))
        self.assertEqual(calibration.message.label_arrivals.pending, 1)
        self.check_wrong_programs()

    def check_wrong_programs(self):
        """A program that does not fit the description does not compile: each error is found."""
        program = (ROOT / EXAMPLE).read_text(encoding="utf-8")
        lines = set()
        for right, wrong in (("estimate.skce}", "estimate.skcee}"), ("values: [", 'values: ["a", '),
                             (":label", ":labels"), ("MINUTE", "SECOND")):
            self.assertEqual(program.count(right), 1 + (right == "values: ["), right)
            lines.add(program[:program.index(right)].count("\n") + 1)
            program = program.replace(right, wrong, 1)
        (self.work / "wrong.mts").write_text(program, encoding="utf-8")
        result = self.run_tool(self.modules / ".bin/tsc", "--strict", "--target", "es2022", "--module",
                               "nodenext", "--noEmit", "wrong.mts")
        found = {int(line) for line in re.findall(r"^wrong\.mts\((\d+),", result.stdout, re.M)}
        self.assertLessEqual(lines, found, result.stdout)


if __name__ == "__main__":
    unittest.main()
