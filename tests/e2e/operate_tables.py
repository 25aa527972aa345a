"""Writes the tables of docs/operate.md: the settings and the metrics of calibd, as the program describes them.

    tests/e2e/operate_tables.py build/release/bin/calibd build/release/bin/calibctl

prometheus_test.py fails if the page has other tables.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/operate.md"
# A setting as `calibd --help` shows it: its name, type and default, and below its meaning.
SETTING = re.compile(r"^  --([a-z-]+)(?: (.*?))?(?: \(Env:\w+\))?\n {10,}(\S.*)$", re.M)
# Parts of a histogram, and the labels that every series of a model has.
PART = re.compile(r"_(?:bucket|sum|count)$")
# Settings without which some metrics do not exist.
ARGUMENTS = ("--archive-command", "true %p %f")
OF_MODELS = {"model", "version"}


def rows(header, lines):
    cells = [header, ["---"] * len(header), *lines]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in cells)


def settings(calibd):
    shown = subprocess.run([calibd, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=True, timeout=60, env=without_settings()).stdout
    lines = []
    for name, kind, meaning in SETTING.findall(shown):
        lines.append([f"`--{name}`", kind.partition("=")[2], meaning + "."])
    return rows(["setting", "default", "meaning"], lines)


def without_settings():
    return {name: value for name, value in os.environ.items() if not name.startswith("CALIBD_")}


def metrics(text):
    """The tables of the metrics of the server and of models, from the text of /metrics."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    labels = {name: [] for name in helps}
    for name, pairs in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        name = name if name in helps else PART.sub("", name)
        labels[name] += [one for one in re.findall(r'(?:^|,)(\w+)="', pairs)
                         if one not in labels[name] and one != "le"]
    tables = {"server metrics": [], "model metrics": []}
    for name, meaning in helps.items():
        of_models = OF_MODELS <= set(labels[name])
        others = [f"`{one}`" for one in labels[name] if one not in OF_MODELS]
        tables["model metrics" if of_models else "server metrics"].append(
            [f"`{name}`", ", ".join(others), meaning])
    return {name: rows(["metric", "labels", "meaning"], lines) for name, lines in tables.items()}


def written(page, tables):
    """The page with these tables."""
    for name, table in tables.items():
        mark = f"<!-- table: {name} -->\n"
        before, found, rest = page.partition(mark)
        assert found, f"the page has no {mark}"
        page = before + mark + table + re.sub(r"\A(?:\|.*\n)*", "", rest)
    return page


def main(calibd, calibctl):
    sys.path.insert(0, str(ROOT / "tests/support"))
    from json_server import JsonServer
    from metric_models import MetricModels
    with JsonServer(calibd, *ARGUMENTS) as server:
        MetricModels(server).declare_and_stream()
        # Calls of gRPC have metrics too.
        subprocess.run([calibctl, "--server", server.grpc, "list"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True, timeout=60)
        text = server.get("/metrics")[2].decode()
    tables = {"settings": settings(calibd), **metrics(text)}
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
