"""The page in page/dist is the one that its sources make.

    page_build_test.py OPENAPI NPM_FOLDER

Skipped where npm is not installed.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from npm_tools import npm_tools  # noqa: E402

OPENAPI, NPM_FOLDER = (sys.argv.pop(1) for _ in range(2))
PAGE = ROOT / "page"
# Licences under which the page may be handed on with calibd.
LICENCES = {"MIT"}


class PageBuildTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        modules = npm_tools(NPM_FOLDER, PAGE)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        shutil.copytree(PAGE / "src", cls.folder / "src")
        for name in ("build.mjs", "package.json", "tsconfig.json"):
            shutil.copy(PAGE / name, cls.folder)
        (cls.folder / "node_modules").symlink_to(modules)

    def run_tool(self, *command):
        result = subprocess.run([str(word) for word in command], cwd=self.folder,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                                check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_the_built_page_matches_its_sources(self):
        self.run_tool("node", "build.mjs", "dist")
        built = {file.name: file.read_bytes() for file in (self.folder / "dist").iterdir()}
        self.assertEqual(sorted(built), ["LICENSES.txt", "index.html", "page.css", "page.js", "report.html"])
        for name, content in built.items():
            self.assertEqual(content, (PAGE / "dist" / name).read_bytes(),
                             f"{name} differs: cd page && npm ci && npm run build")
        for name, most in (("page.js", 25 << 10), ("report.html", 30 << 10)):
            self.assertLess(len(gzip.compress(built[name], mtime=0)), most)

    def test_the_sources_use_the_messages_of_the_api(self):
        self.run_tool("node_modules/.bin/openapi-typescript", OPENAPI, "--output", "src/api_types.d.ts")
        self.run_tool("node_modules/.bin/tsc", "--noEmit")

    def test_no_shortened_name_is_one_of_the_api(self):
        script = (PAGE / "build.mjs").read_text(encoding="utf-8")
        shortened = set(re.search(r"const mangleProps = /\^\(([\w|]+)\)\$/;", script)[1].split("|"))
        self.assertGreater(len(shortened), 10)
        schemas = json.loads(pathlib.Path(OPENAPI).read_text(encoding="utf-8"))["components"]["schemas"]
        names = {name for schema in schemas.values() for name in schema.get("properties", {})}
        self.assertIn("howBad", names)
        self.assertEqual(shortened & names, set())

    def test_packages_are_pinned_by_their_content(self):
        packages = json.loads((PAGE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        for name, package in packages.items():
            self.assertNotIn("resolved", package, name)
            self.assertTrue(name == "" or package["integrity"].startswith("sha512-"), name)

    def test_packages_in_the_page_may_be_handed_on(self):
        text = (PAGE / "dist/LICENSES.txt").read_text(encoding="utf-8")
        packages = [part.strip().splitlines()[0] for part in text.split(f"\n{'-' * 80}\n")[1:]]
        self.assertIn("preact", [package.split()[0] for package in packages])
        for package in packages:
            self.assertIn(package.split(", ")[1], LICENCES, package)


if __name__ == "__main__":
    os.environ.setdefault("npm_config_update_notifier", "false")
    unittest.main()
