"""summary.py COUNT FILE...: what the tests did, from results that ctest --output-junit wrote.

NAME.again.xml beside NAME.xml has the results of the failed tests, which were run once more, alone. A
test that passed then is unsteady.

Prints the COUNT slowest tests, then the end of the output of each test that failed, then the names of
the unsteady and of the failed ones. The last line says how many tests passed: it has to be the last
output of a run, because logs are often kept only in part. Exits with 1 if a test failed.
"""
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

LINES = 40  # of the output of a failed test


class Result:
    def __init__(self, case):
        # Names of parameterized tests can contain their parameter, byte by byte.
        self.name = case.get("name").split("  # GetParam")[0]
        self.seconds = float(case.get("time"))
        self.output = case.findtext("system-out") or ""
        skipped = case.find("skipped")
        # ctest also writes that it skipped a test whose program is missing.
        self.skipped = case.get("status") == "disabled" or (
            skipped is not None and skipped.get("message").startswith("SKIP_"))
        self.passed = case.get("status") == "run"

    def full_name(self):
        """With the TESTs that failed, if this is a binary of several."""
        found = re.findall(r"^\[  FAILED  \] (\w[\w/]*\.[\w/]+)", self.output, re.M)
        if not found:
            # A program that crashed has not ended its newest test.
            found = re.findall(r"^\[ RUN      \] (\S+)", self.output, re.M)[-1:]
        names = dict.fromkeys(name for name in found if name != self.name)
        return f"{self.name} ({', '.join(names)})" if names else self.name


def read(path):
    return [Result(case) for case in ET.parse(path).iter("testcase")]


def main(arguments):
    count, paths = int(arguments[0]), [Path(name) for name in arguments[1:]]
    results = [(path.stem, result) for path in paths for result in read(path)]
    passed_alone = {(path.stem, result.name) for path in paths
                    if (again := path.with_suffix(".again.xml")).exists()
                    for result in read(again) if result.passed}
    results.sort(key=lambda item: -item[1].seconds)
    for build, result in results[:count]:
        print(f"{result.seconds:7.1f} s  {build:8}  {result.name}")
    first_failed = [item for item in results if not item[1].passed and not item[1].skipped]
    unsteady = [item for item in first_failed if (item[0], item[1].name) in passed_alone]
    failed = [item for item in first_failed if item not in unsteady]
    for kind, items in (("Unsteady", unsteady), ("Failed", failed)):
        for build, result in items:
            print(f"\n== {kind} in {build}: {result.name}")
            print("\n".join(result.output.splitlines()[-LINES:]))
    print()
    for build, result in unsteady:
        print(f"Unsteady: {result.full_name()} in {build} (failed beside other tests, passed alone)")
    for build, result in failed:
        print(f"Failed: {result.full_name()} in {build}")
    skipped = sum(result.skipped for _, result in results)
    print(f"{len(results) - len(failed) - skipped} passed, {len(failed)} failed" +
          (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
