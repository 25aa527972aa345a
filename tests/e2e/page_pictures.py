"""Makes the pictures of README.md and docs/page.md from a real server, in docs/images.

    tests/e2e/page_pictures.py build/release/bin/calibd build/release/page_npm

It needs the packages of the section [npm] of deploy/packages.
"""
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from browser import Browser  # noqa: E402
from json_server import JsonServer  # noqa: E402
from npm_tools import npm_tools  # noqa: E402
from page_models import PageModels  # noqa: E402


def main(calibd, npm_folder):
    modules = npm_tools(npm_folder, ROOT / "page")
    with JsonServer(calibd) as server, Browser(modules, f"http://{server.http}") as browser:
        models = PageModels(server)
        models.declare()
        models.stream()
        # Its names are hostile. Nobody has such a model.
        status, _, text = server.ask("DELETE", "/v1/models/markup?confirmation=models/markup")
        assert status == 200, text
        # README.md shows the list, which must not be slow to load.
        for name, height, path, ready in (("list", 526, "", ".spark"),
                                          ("model", 760, "models/churn", "#reliability + figure .line")):
            picture = json.dumps(str(ROOT / f"docs/images/page-{name}.png"))
            browser.run(f"await page.setViewportSize({{width: 1280, height: {height}}}); "
                        f"await page.goto('http://{server.http}/#/{path}'); "
                        f"await page.waitForSelector('{ready}'); await page.waitForLoadState('networkidle'"
                        f", {{timeout: 3000}}).catch(() => {{}}); await page.screenshot({{path: {picture}}});")


if __name__ == "__main__":
    main(*sys.argv[1:])
