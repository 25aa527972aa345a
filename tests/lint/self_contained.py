"""Fails when the project speaks of something outside itself.

No absolute path of somebody's machine and no path that leads out of the repository; the default
folder of the optional test data is the one exception.
"""
import re
import sys

from sources import ROOT, project_files, report

# The character classes keep these lines from matching themselves.
FORBIDDEN = (
    (re.compile(r"(?<![\w.$}])/(?:hom[e]|roo[t]|mn[t]|wor[k]|User[s])/"), "a path of one machine"),
    (re.compile(r"\.\./share[d]\b"), "a path outside the repository"),
    (re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X])\b"), "an unfinished piece"),
)
TEST_DATA_DEFAULT = re.compile(r"CALIBD_TEST_DATA")


def violations(path, text):
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern, reason in FORBIDDEN:
            if pattern.search(line) and not TEST_DATA_DEFAULT.search(line):
                found.append(f"{path}:{number}: {reason}: {line.strip()[:80]}")
    return found


def main():
    problems = []
    for file in project_files():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue  # binary golden files
        problems += violations(str(file.relative_to(ROOT)), text)
    return report("self-contained", problems)


if __name__ == "__main__":
    sys.exit(main())
