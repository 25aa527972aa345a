#!/usr/bin/python3
"""Shows that the crash test and the tests of the store in a database find what they are there for.

For each bug a piece of the server is replaced in a copy of the tree, calibd and the tests are built
there, and its test is run: it must fail, and without a bug it must pass. It takes as long as
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
# The programs and filters of the tests.
CRASH = ("store_integration_test", "*CrashTest.*/Local")
DATABASE = ("postgres_test", "PostgresStoreTest.*")
OWNER = ("postgres_test", "PostgresOwnerTest.*")

# Name, test, file, what is there, what is put in its place.
BUGS = (
    ("a batch is acknowledged before it is on disk", CRASH, "server/ingest/commit_queue.cc",
     "to_catalog ? store_->Commit() : store_->CommitLog();",
     "to_catalog ? store_->Commit()\n"
     "             : store_->appended_bytes() < 65536 ? absl::OkStatus() : store_->CommitLog();"),
    ("a repeated batch counts twice", CRASH, "server/ingest/row_write.cc",
     "known_ = !ends && *standing == ProducerCursors::Standing::kSettledBefore;\n"
     "  return *standing == ProducerCursors::Standing::kNext;",
     "static_cast<void>(standing);\n"
     "  known_ = false;\n"
     "  return true;"),
    ("half of a batch is counted by a start", CRASH, "server/ingest/recovery.cc",
     "    model.strand_state().Apply(row, log_id, time);",
     "    LogRow half = row;\n"
     "    if (auto* const observations = half.As<ObservationsRow>()) {\n"
     "      RowValues& values = observations->values;\n"
     "      values.labels.resize(values.labels.size() / 2);\n"
     "      values.probabilities.resize(values.labels.size() * values.class_count);\n"
     "    }\n"
     "    model.strand_state().Apply(half, log_id, time);"),
    ("a takeover does not wait for a commit", DATABASE, "server/store/postgres/queries.cc",
     '"owner = $3::uuid FOR SHARE)"', '"owner = $3::uuid FOR KEY SHARE)"'),
    ("an owner of the same epoch is not fenced", DATABASE, "server/store/postgres/queries.cc",
     '"owner = $3::uuid FOR SHARE)"', '"$3::uuid IS NOT NULL FOR SHARE)"'),
    ("a commit with a warning is acknowledged", DATABASE, "server/store/postgres/connection.cc",
     "if (!warning_.empty()) {", "if (warning_.size() > 10000) {"),
    ("what is needed is not copied", DATABASE, "server/store/postgres/postgres_upkeep.cc",
     "log_ids = tables_.NextToCopy(kCopyBytes);", "log_ids;"),
    ("copies are read twice", DATABASE, "server/store/postgres/log_tables.cc",
     "if (log_id == last_read_) {", "if (false) {"),
    ("a start needs no marker", DATABASE, "server/store/postgres/postgres_store.cc",
     "if (marker.rows() != 1 || marker.row(0).Int8(0) != generation) {",
     "if (marker.rows() > 1 && generation < 0) {"),
    ("a lost tail is not noticed", DATABASE, "server/store/postgres/postgres_store.cc",
     "recovered_ && !has_newest", "recovered_ && !has_newest && last_log_id_ < 0"),
    ("an owner reads without its lease", OWNER, "server/store/postgres/postgres_store.cc",
     "return node_.holds_lease() ? absl::OkStatus() : PgLeaseLost();",
     "return !node_.was_fenced() ? absl::OkStatus() : PgLeaseLost();"),
    ("a heartbeat does not wait for a takeover", OWNER, "server/store/postgres/queries.cc",
     '"WITH " CALIBD_FENCE\n    ", beat AS',
     '"WITH fence AS MATERIALIZED (SELECT cell FROM cells WHERE cell = $1::int4 AND epoch = $2::int8 "\n'
     '    "AND owner = $3::uuid), beat AS'),
    ("a heartbeat does not look for another owner", OWNER, "server/store/postgres/node.cc",
     "if (epoch >= 0 && beat.Int8(0) == 0) {", "if (epoch < -1) {"),
    ("a living owner is taken over", OWNER, "server/store/postgres/queries.cc",
     '"$3::uuid AND n.expires_at > clock_timestamp()) "', '"$3::uuid AND n.expires_at IS NULL) "'),
    ("a node whose clock is off takes the store", OWNER, "server/store/postgres/postgres_store.cc",
     "is_owned || node_.is_clock_off()", "is_owned"),
)


def problems():
    """Pieces that are not found once."""
    for name, _, path, piece, _ in BUGS:
        found = (ROOT / path).read_text().count(piece)
        if found != 1:
            yield f"{path}: what is replaced so that {name} is there {found} times, expected once"


def build(tree):
    run = lambda *command: subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL)
    run("cmake", "--preset", "test")
    run("cmake", "--build", "--preset", "test", "--target", "calibd", "store_integration_test",
        "postgres_test")


def test_passes(tree, test):
    program, tests = test
    return subprocess.run(
        [f"build/test/bin/{program}", f"--gtest_filter={tests}"], cwd=tree,
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
        none = [("nothing", test, BUGS[0][2], "", "") for test in (CRASH, DATABASE, OWNER)]
        for name, test, path, piece, bug in (*none, *BUGS):
            text = (tree / path).read_text()
            (tree / path).write_text(text.replace(piece, bug) if piece else text)
            build(tree)
            passes = test_passes(tree, test)
            (tree / path).write_text(text)
            print(f"{name}: {test[0]} {'passes' if passes else 'fails'}", flush=True)
            wrong += passes != (piece == "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
