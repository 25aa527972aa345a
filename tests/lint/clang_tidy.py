"""clang_tidy.py BUILD: fails when clang-tidy finds something in the product's sources.

BUILD is a build folder with compile_commands.json. The sources of a folder are checked as one
translation unit that includes them all: most of a run's time goes to the headers, which so are
read once a folder. A unit is checked when it, or a file that it includes, has changed
- since the branch left the default branch; on that itself, since the parent of its newest commit;
- and since the unit last passed in BUILD.
With the environment variable CALIBD_TEST_ALL_SOURCES, only the last condition holds. Tests are held to
the compiler's warnings.
"""
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sources import ROOT

PRODUCT = ("core", "server", "client", "proto/convert", "proto/text")


def product_commands(build):
    """The compile command of each source of the product, by its path from the root."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        for path in sources_of(Path(entry["directory"], entry["file"]).resolve()):
            if path.is_relative_to(ROOT):
                name = path.relative_to(ROOT).as_posix()
                if name.startswith(tuple(folder + "/" for folder in PRODUCT)):
                    commands[name] = entry
    return commands


def sources_of(path):
    """What a file that CMake made of several sources includes, or the file itself."""
    if "Unity" not in path.parts:
        return [path]
    return [Path(name) for name in re.findall(r'#include "(.+)"', path.read_text())]


def is_alone(name):
    """Whether it cannot be part of a unit with others."""
    # Each example is a program of its own; a source with this header is compiled several times
    # over, once for each instruction set, by including itself.
    return "/examples/" in name or "hwy/foreach_target.h" in (ROOT / name).read_text()


def groups(names):
    """Lists of sources that are checked together."""
    folders = {}
    for name in sorted(names):
        folders.setdefault(name if is_alone(name) else os.path.dirname(name), []).append(name)
    return list(folders.values())


def flags_of(entry):
    """The include folders, definitions and dialect of a compile command."""
    kept, words = [], shlex.split(entry["command"])
    for word, following in zip(words, words[1:] + [""]):
        if word == "-isystem":
            kept += [word, following]
        elif word.startswith(("-I", "-D", "-std=")):
            kept.append(word)
    return kept


def included_files(name, folders, found):
    """Adds to `found` the file and what it includes with quotation marks, in `folders`."""
    path = next((path for folder in folders if (path := Path(folder, name)).is_file()), None)
    if path is not None and path not in found:
        found.add(path)
        for header in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE):
            included_files(header, [path.parent, *folders], found)


def git(*arguments):
    """The output, empty when git fails."""
    return subprocess.run(["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *arguments],
                          capture_output=True, text=True, check=False).stdout.strip()


def changed_files():
    """The files that this change is about; None without history, as in a shallow clone."""
    head = git("rev-parse", "HEAD")
    base = git("merge-base", "HEAD", "origin/HEAD")
    if base in ("", head):
        base = git("rev-parse", "--verify", "--quiet", "HEAD^1")
    if not base:
        return None
    names = git("diff", "--name-only", base) + "\n" + git("ls-files", "--others", "--exclude-standard")
    return {ROOT / name for name in names.splitlines()}


def digest(files, flags):
    """The hash of all that decides what clang-tidy finds in a unit, except headers of packages."""
    parts = [" ".join(flags).encode(), *(path.read_bytes() for path in sorted(files))]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def write_database(folder, commands, passed, changed):
    """Writes the units to check; returns the marks of those that pass. changed: None for all."""
    database, marks = [], []
    for number, group in enumerate(groups(commands)):
        flags = dict.fromkeys(shlex.join(flags_of(commands[name])) for name in group)
        folders = [word.removeprefix("-I") for word in shlex.split(" ".join(flags)) if "/" in word]
        files = {ROOT / ".clang-tidy"}
        for name in group:
            included_files(ROOT / name, folders, files)
        mark = passed / digest(files, flags)
        if mark.exists() or (changed is not None and files.isdisjoint(changed)):
            continue
        marks.append(mark)
        unit = folder / f"unit{number}.cc"
        unit.write_text("".join(f'#include "{ROOT / name}"\n' for name in group))
        database.append({"directory": commands[group[0]]["directory"], "file": str(unit),
                         "command": " ".join(["c++", *flags, "-c", str(unit)])})
    (folder / "compile_commands.json").write_text(json.dumps(database))
    return marks


def main():
    build = Path(sys.argv[1]).resolve()
    commands = product_commands(build)
    if not commands:
        print(f"{sys.argv[1]} compiles no source of {', '.join(PRODUCT)}", file=sys.stderr)
        return 1
    passed = build / "clang_tidy"
    passed.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        changed = None if "CALIBD_TEST_ALL_SOURCES" in os.environ else changed_files()
        marks = write_database(folder, commands, passed, changed)
        print(f"{len(marks)} units to check")
        if not marks:
            return 0
        shutil.copy(ROOT / ".clang-tidy", folder)
        result = subprocess.run(
            ["run-clang-tidy", "-quiet", "-p", name], capture_output=True, text=True, check=False)
        if result.returncode != 0:
            noise = ("clang-tidy", "warnings generated", "Suppressed")
            print("\n".join(line for line in (result.stdout + result.stderr).splitlines()
                            if line and not any(text in line for text in noise)))
        else:
            for mark in marks:
                mark.touch()
        return result.returncode


if __name__ == "__main__":
    sys.exit(main())
