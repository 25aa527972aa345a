#!/usr/bin/python3
"""Compares the instructions per prediction of the hot paths with the stored numbers.

  instructions.py BINARY [PATH]     fails if a path differs by more than the tolerance
  instructions.py BINARY --update   stores the numbers of all paths

A PATH is for example evidence/m=10. Valgrind counts the instructions, so that the numbers do not
depend on the load of the machine. It has no AVX-512: the binary uses AVX2 on every CPU.
"""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

STORED = pathlib.Path(__file__).with_suffix(".json")
TOLERANCE = 0.03
PATHS = [f"{path}/m={m}" for path in ("evidence", "blocks", "tiles") for m in (10, 1000)]
PATHS += ["loss/m=10", "loss/m=100", "json/m=10", "single/m=10", "groups/m=10"]
# The paths of Normal forecasts have two values a row.
PATHS += ["forecast/m=2", "distribution/m=2"]
SKIPPED = 77


def count(binary, path):
    """Instructions per prediction."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         "--toggle-collect=CountInstructions", binary, *path.split("/m=")],
        capture_output=True, text=True, check=False)
    if run.returncode == SKIPPED:
        sys.exit(SKIPPED)
    collected = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or collected is None:
        sys.exit(f"{path}: valgrind exited with {run.returncode}:\n{run.stderr}")
    return round(int(collected[1]) / int(run.stdout))


def problem(path, stored, new, update):
    """What is wrong with the new count of a path, or None."""
    if stored is None:
        return f"{path}: {new} instructions per prediction, and no stored number. Store it: {update}"
    change = new / stored - 1
    if abs(change) <= TOLERANCE:
        return None
    advice = ("Make the path cheaper, or store the new number and say in the commit why it grew"
              if change > 0 else "The path became cheaper; store the new number")
    return (f"{path}: {new} instructions per prediction, stored {stored}: {change:+.1%}, allowed "
            f"{TOLERANCE:.0%}. {advice}: {update}")


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] and sys.argv[2] not in ["--update", *PATHS]:
        sys.exit(__doc__)
    binary = sys.argv[1]
    updating = sys.argv[2:] == ["--update"]
    paths = PATHS if updating else sys.argv[2:] or PATHS
    with concurrent.futures.ThreadPoolExecutor() as pool:
        counts = dict(zip(paths, pool.map(lambda path: count(binary, path), paths)))
    if updating:
        STORED.write_text(json.dumps(counts, indent=1) + "\n")
    stored = json.loads(STORED.read_text())
    update = f"{pathlib.Path(__file__).resolve()} {binary} --update"
    for path, new in counts.items():
        print(f"{path}: {new} instructions per prediction, stored {stored.get(path)}")
    problems = [text for path, new in counts.items()
                if (text := problem(path, stored.get(path), new, update))]
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
