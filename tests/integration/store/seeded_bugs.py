#!/usr/bin/python3
"""Shows that the crash test finds what it is there for.

For each bug a piece of the server is replaced in a copy of the tree, calibd and the test are built
there, and the crash test is run: it must fail, and without a bug it must pass. It takes as long as
a build and some minutes. With --check it only looks whether each piece is still there, once.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
KILLS = "20"

# Name, file, what is there, what is put in its place.
BUGS = (
    ("a batch is acknowledged before it is on disk", "server/ingest/commit_queue.cc",
     "to_catalog ? store_->Commit() : store_->CommitLog();",
     "to_catalog ? store_->Commit()\n"
     "             : store_->appended_bytes() < 65536 ? absl::OkStatus() : store_->CommitLog();"),
    ("a repeated batch counts twice", "server/ingest/row_write.cc",
     "known_ = !ends && *standing == ProducerCursors::Standing::kSettledBefore;\n"
     "  return *standing == ProducerCursors::Standing::kNext;",
     "static_cast<void>(standing);\n"
     "  known_ = false;\n"
     "  return true;"),
    ("half of a batch is counted by a start", "server/ingest/recovery.cc",
     "    model.strand_state().Apply(row, log_id, time);",
     "    LogRow half = row;\n"
     "    if (auto* const observations = half.As<ObservationsRow>()) {\n"
     "      RowValues& values = observations->values;\n"
     "      values.labels.resize(values.labels.size() / 2);\n"
     "      values.probabilities.resize(values.labels.size() * values.class_count);\n"
     "    }\n"
     "    model.strand_state().Apply(half, log_id, time);"),
)


def problems():
    """Pieces that are not found once."""
    for name, path, piece, _ in BUGS:
        found = (ROOT / path).read_text().count(piece)
        if found != 1:
            yield f"{path}: what is replaced so that {name} is there {found} times, expected once"


def build(tree):
    run = lambda *command: subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    run("cmake", "--preset", "test")
    run("cmake", "--build", "--preset", "test", "--target", "calibd", "store_integration_test")


def crash_test_passes(tree):
    return subprocess.run(
        ["build/test/bin/store_integration_test", "--gtest_filter=CrashTest.*"], cwd=tree,
        env={**os.environ, "CALIBD_TEST_KILLS": KILLS}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, check=False).returncode == 0


def main():
    missing = list(problems())
    for problem in missing:
        print(problem)
    if missing or sys.argv[1:] == ["--check"]:
        return 1 if missing else 0
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder) / "calibd"
        shutil.copytree(ROOT, tree, symlinks=True, ignore=shutil.ignore_patterns("build", ".git"))
        for name, path, piece, bug in (("nothing", BUGS[0][1], "", ""), *BUGS):
            text = (tree / path).read_text()
            (tree / path).write_text(text.replace(piece, bug) if piece else text)
            build(tree)
            passes = crash_test_passes(tree)
            (tree / path).write_text(text)
            print(f"{name}: the crash test {'passes' if passes else 'fails'}", flush=True)
            wrong += passes != (piece == "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
