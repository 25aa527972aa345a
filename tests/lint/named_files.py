"""Checks that the files and folders that CONTRIBUTING.md and the design pages name exist.

A name is in backquotes and has a slash. It is relative to the repository, to the page's folder, or to
one of the folders in PARENTS. `NAME` and `ROOM` stand for any name, `*` too.
"""
import re
import sys

from sources import ROOT, report

PAGES = ["CONTRIBUTING.md", "core/DESIGN.md", "server/DESIGN.md", "client/DESIGN.md"]
PARENTS = ["", "core/src", "core/include/calibd/core", "tests"]
NAME = re.compile(r"`((?:[\w.-]+|\*)(?:/[\w.*-]*)+)`")
SUFFIXES = ["", ".h", ".cc", ".py"]


def violations(text, folder, root=ROOT):
    """Returns a line for each name in the text of a page in `folder` that no file has."""
    problems = []
    for number, line in enumerate(text.splitlines(), 1):
        for name in NAME.findall(line):
            pattern = re.sub(r"NAME|ROOM", "*", name).rstrip("/")
            places = [root / folder, *(root / parent for parent in PARENTS)]
            if not any(any(place.glob(pattern + suffix)) for place in places for suffix in SUFFIXES):
                problems.append(f"{number}: {name} does not exist")
    return problems


if __name__ == "__main__":
    found = []
    for page in PAGES:
        path = ROOT / page
        found += [f"{page}:{problem}" for problem in
                  violations(path.read_text(), path.parent.relative_to(ROOT))]
    sys.exit(report("named_files", found))
