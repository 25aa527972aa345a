"""Fails when the dashboard of Grafana or its provisioning is wrong; e2e.prometheus runs its expressions.

Grafana is not in Debian. So this checks the structure that its documentation gives: identities, places on the
grid of 24 columns, units, descriptions, and variables that exist.
"""
import json
import re
import sys

from sources import ROOT, report

DASHBOARD = "deploy/grafana/calibd.json"
PROVISIONING = "deploy/grafana/provisioning/dashboards/calibd.yml"
PACKAGE = "cmake/Package.cmake"
COLUMNS = 24
KINDS = {"row", "stat", "table", "timeseries", "state-timeline"}
# Those that are used, by their names in Grafana.
UNITS = {"bytes", "cps", "none", "percentunit", "reqps", "s", "short"}
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
BUILT_IN = {"__all", "__rate_interval", "__url_time_range", "__data"}
COUNTER = re.compile(r"\b\w+_(?:total|bucket)\b")


def places(panels):
    """Problems of the places of panels."""
    found = []
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > COLUMNS or min(place["w"], place["h"]) < 1 or min(place["x"], place["y"]) < 0:
            found.append(f"{panel['title']}: outside of the grid")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if (x, y) in taken:
                    return [*found, f"{panel['title']}: overlaps {taken[x, y]}"]
                taken[x, y] = panel["title"]
    return found


def panel_problems(panel):
    if panel["type"] == "row":
        return []
    found = []
    if not panel.get("description", "").endswith("."):
        found.append("no description")
    if panel.get("datasource") != DATA_SOURCE:
        found.append("its data source is not ${datasource}")
    units = [panel["fieldConfig"]["defaults"].get("unit")]
    for override in panel["fieldConfig"].get("overrides", ()):
        units += [one["value"] for one in override["properties"] if one["id"] == "unit"]
    found += [f"unit {unit}" for unit in units if unit not in UNITS]
    targets = panel.get("targets", [])
    if not targets or len({target["refId"] for target in targets}) < len(targets):
        found.append("its targets need names that differ")
    for target in targets:
        expression = target["expr"]
        if expression.count("(") != expression.count(")") or "instance=~" not in expression:
            found.append(f"{target['refId']}: does not select the server")
        if COUNTER.search(expression) and not re.search(r"\b(?:rate|increase)\(", expression):
            found.append(f"{target['refId']}: shows a counter as it is")
        for window in re.findall(r"\brate\([^[]*\[([^]]*)\]", expression):
            if window != "$__rate_interval":
                found.append(f"{target['refId']}: a rate over {window}")
    return found


def violations(dashboard):
    found = []
    if not re.fullmatch(r"[a-z0-9-]{8,40}", dashboard.get("uid") or "") or dashboard.get("id") is not None:
        found.append("it needs a fixed uid, and no id")
    if dashboard.get("schemaVersion", 0) < 36:
        found.append("its schemaVersion is that of an old Grafana")
    panels = dashboard["panels"]
    if len({panel["id"] for panel in panels}) < len(panels):
        found.append("two panels have the same id")
    titles = [panel["title"] for panel in panels]
    found += [f"{title}: two panels have this title" for title in set(titles) if titles.count(title) > 1]
    for panel in panels:
        if panel["type"] not in KINDS:
            found.append(f"{panel['title']}: unknown type {panel['type']}")
            continue
        found += [f"{panel['title']}: {problem}" for problem in panel_problems(panel)]
    found += places(panels)
    names = {one["name"] for one in dashboard["templating"]["list"]} | BUILT_IN
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(dashboard)))
    found += [f"${name}: no such variable" for name in sorted(used - names)]
    found += [f"${name}: nothing uses this variable" for name in sorted(names - used - BUILT_IN)]
    if f"/d/{dashboard.get('uid')}?" not in json.dumps(dashboard):
        found.append("no link leads from the list to a model")
    return found


def main():
    problems = violations(json.loads((ROOT / DASHBOARD).read_text(encoding="utf-8")))
    (folder,) = re.findall(r"^ *path: /usr/(\S+)$", (ROOT / PROVISIONING).read_text(encoding="utf-8"), re.M)
    installed = folder.replace("share", "${CMAKE_INSTALL_DATADIR}", 1)
    if f"install(FILES {DASHBOARD} DESTINATION {installed}" not in (ROOT / PACKAGE).read_text(encoding="utf-8"):
        problems.append(f"{PROVISIONING}: the package does not install {DASHBOARD} there")
    return report("dashboard", problems)


if __name__ == "__main__":
    sys.exit(main())
