"""The dashboard of deploy has the fields that Grafana's own types have, by the compiler of TypeScript.

    dashboard_types_test.py NPM_FOLDER

Skipped where npm is not installed. lint.dashboard checks the rest, and prometheus_test the expressions.
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from npm_tools import npm_tools  # noqa: E402

NPM_FOLDER = sys.argv.pop(1)
DASHBOARD = json.loads((ROOT / "deploy/grafana/calibd.json").read_text(encoding="utf-8"))
# The folders of the types of each kind of panel.
KINDS = {"stat": "stat", "table": "table", "timeseries": "timeseries", "state-timeline": "statetimeline"}
# Values of enums are literals in JSON. Fields of panels have defaults.
HEADER = """
import type { Dashboard, Panel, RowPanel } from "@grafana/schema";
type Json<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Json<U>[] : T extends object ? { [K in keyof T]: Json<T[K]> } : T;
type Some<T> = T extends (infer U)[] ? Some<U>[] : T extends object ? { [K in keyof T]?: Some<T[K]> } : T;
"""
# Fields of a mark that only the data source Prometheus knows. Its types are not in this package.
OF_PROMETHEUS = ("expr", "titleFormat", "useValueForTime")


def program(dashboard):
    dashboard = copy.deepcopy(dashboard)
    lines = [HEADER] + [
        f'import type * as {name} from "./node_modules/@grafana/schema/dist/types/raw/composable/{name}/panelcfg/x/'
        'types.gen.d.ts";' for name in KINDS.values()]
    values = {}
    for mark in dashboard["annotations"]["list"]:
        for field in OF_PROMETHEUS:
            del mark[field]
    for number, panel in enumerate(dashboard.pop("panels")):
        if panel["type"] == "row":
            values[f"row{number}: Json<RowPanel>"] = panel
            continue
        kind = KINDS[panel["type"]]
        # Targets are of the data source too.
        panel.pop("targets")
        values[f"options{number}: Some<Json<{kind}.Options>>"] = panel.pop("options", {})
        if "custom" in panel["fieldConfig"]["defaults"]:
            values[f"field{number}: Some<Json<{kind}.FieldConfig>>"] = panel["fieldConfig"]["defaults"].pop("custom")
        values[f"panel{number}: Json<Partial<Panel>>"] = panel
    values['dashboard: Json<Partial<Omit<Dashboard, "panels">>>'] = dashboard
    return "\n".join(lines + [f"export const {name} = {json.dumps(value)};" for name, value in values.items()])


class DashboardTypesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        modules = npm_tools(NPM_FOLDER)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (cls.folder / "node_modules").symlink_to(modules)

    def problems(self, dashboard):
        (self.folder / "dashboard.ts").write_text(program(dashboard), encoding="utf-8")
        result = subprocess.run(
            [self.folder / "node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext",
             "--moduleResolution", "bundler", "--target", "es2022", "dashboard.ts"], cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        return result.stdout + result.stderr

    def test_every_field_is_known_to_grafana(self):
        self.assertEqual(self.problems(DASHBOARD), "")

    def test_an_unknown_field_is_found_anywhere(self):
        dashboard = copy.deepcopy(DASHBOARD)
        dashboard["refreshing"] = "30s"
        panels = {panel["type"]: panel for panel in dashboard["panels"]}
        panels["stat"]["options"]["textmode"] = "value"
        panels["table"]["fieldConfig"]["defaults"]["units"] = "s"
        panels["timeseries"]["options"]["tooltip"]["mode"] = "many"
        panels["state-timeline"]["fieldConfig"]["defaults"]["custom"]["fill"] = 1
        problems = self.problems(dashboard)
        for word in ("refreshing", "textmode", "units", "many", "fill"):
            self.assertIn(word, problems)


if __name__ == "__main__":
    unittest.main()
