"""Which files of the project a check reads."""
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def project_files(*folders):
    """The files of the project below `folders` (all without one), without build products."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files", "-z",
         "--cached", "--others", "--exclude-standard", "--", *folders],
        check=True, capture_output=True, text=True).stdout
    return sorted(ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file())


def report(name, problems):
    """Prints the problems; returns the exit code of the check."""
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problem(s)")
    return 1 if problems else 0
