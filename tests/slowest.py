"""slowest.py COUNT FILE...: prints the COUNT slowest tests of results that ctest --output-junit wrote."""
import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def main():
    tests = [(float(case.get("time")), Path(name).stem, case.get("name"))
             for name in sys.argv[2:] for case in ET.parse(name).iter("testcase")]
    for seconds, results, test in sorted(tests, reverse=True)[:int(sys.argv[1])]:
        print(f"{seconds:7.1f} s  {results:8}  {test}")


if __name__ == "__main__":
    main()
