"""Fails when docs/errors.md and the sources of the server do not list the same errors.

An error is a reason with its gRPC code. Each call that makes an error names the reason as a literal
or as a constant, so that this check can find it.
"""
import re
import sys

from sources import ROOT, project_files, report

PAGE = "docs/errors.md"
CALL = re.compile(r"\b(MakeError|ModelError|InvalidFieldsError|Exhausted)\(\s*"
                  r"(?:absl::StatusCode::k(\w+),\s*)?([^,;]*),")
# The code of functions that do not receive it.
CODES = {"InvalidFieldsError": "InvalidArgument", "Exhausted": "ResourceExhausted"}
ROW = re.compile(r"^\| `([A-Z_]+)` \| ([A-Z_, ]+) \| (.+) \| (.+) \|$", re.M)


def screaming(name):
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def made(path, text):
    """Returns the errors (reason, code) that a source makes, and the problems."""
    constants = dict(re.findall(r'constexpr char (k\w+)\[\] = "([A-Z_]+)"', text))
    errors, problems = set(), []
    for function, code, argument in CALL.findall(text):
        code = screaming(code or CODES.get(function, ""))
        reason = constants.get(argument.strip(), argument.strip().strip('"'))
        if re.fullmatch("[A-Z_]+", reason) and code:
            errors.add((reason, code))
        # A parameter: the caller names the reason.
        elif argument.split()[-1] not in ("reason", "code"):
            problems.append(f"{path}: {function}({argument}...) has no literal reason and code")
    return errors, problems


def violations(sources, page):
    """The contradictions between the sources, texts by path, and the page of errors."""
    known, problems = set(), []
    for path, text in sources.items():
        errors, found = made(path, text)
        known |= errors
        problems += found
    listed = {(reason, code) for reason, codes, _, _ in ROW.findall(page)
              for code in codes.split(", ")}
    return problems + [f"{PAGE} lacks {reason} ({code})" for reason, code in sorted(known - listed)] + [
        f"{PAGE} lists {reason} ({code}), which no source makes"
        for reason, code in sorted(listed - known)]


def main():
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
               for path in project_files("server") if path.suffix in (".cc", ".h")}
    return report("error_reasons", violations(sources, (ROOT / PAGE).read_text(encoding="utf-8")))


if __name__ == "__main__":
    sys.exit(main())
