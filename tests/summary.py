"""summary.py COUNT FILE...: what the tests did, from results that ctest --output-junit wrote.

Prints the COUNT slowest tests, then each failed test with the end of its output: it has to be the
last output of a run, because logs are often kept only in part.
"""
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

LINES = 40  # of the output of a failed test


def main():
    tests = [(Path(name).stem, case) for name in sys.argv[2:]
             for case in ET.parse(name).iter("testcase")]
    tests.sort(key=lambda test: -float(test[1].get("time")))
    for results, case in tests[:int(sys.argv[1])]:
        # Names of parameterized tests can contain their parameter, byte by byte.
        name = case.get("name").split("  # GetParam")[0]
        print(f"{float(case.get('time')):7.1f} s  {results:8}  {name}")
    for results, case in tests:
        if case.get("status") != "fail":
            continue
        print(f"\n== Failed in {results}: {case.get('name')}")
        print("\n".join((case.findtext("system-out") or "").splitlines()[-LINES:]))


if __name__ == "__main__":
    main()
