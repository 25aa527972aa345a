"""Prints the module calibd.remedies: the remedies of the tables of docs/errors.md by their reasons.

    generate_remedies.py docs/errors.md
"""
import pathlib
import re
import sys

ROW = re.compile(r"^\| `([A-Z_]+)` \|.*\| (.+) \|$", re.M)
# The methods of the protocol, as the client has them.
METHODS = {"UpdateModel": "client.update_model", "GetCalibration": "client.calibration",
           "GetHistory": "client.history", "Evaluate": "client.evaluate"}
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def main():
    page = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    print('"""What to do about an error with a reason, from docs/errors.md."""')
    print("REMEDIES: dict[str, str] = {")
    for reason, remedy in ROW.findall(page):
        text = re.sub(r"`(\w+)`", lambda name: f"`{METHODS.get(name[1], name[1])}`",
                      LINK.sub(r"\1", remedy))
        print(f"    {reason!r}: {text!r},")
    print("}")


if __name__ == "__main__":
    main()
