"""The archive, and what a lost disk costs: real servers whose folders are deleted under load.

    archive_test.py CALIBD

CALIBD_TEST_KILLS is the number of lost disks times 40, because each takes as long as 40 kills.
"""
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from datetime import datetime, timezone

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALIBD = sys.argv.pop(1)
sys.path.insert(0, str(ROOT / "tests/support"))
from calibd_server import CalibdServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

DISKS = max(1, int(os.environ.get("CALIBD_TEST_KILLS", "200")) // 40)
ROWS = 20
# A lost disk costs at most ten seconds. The test kills within the rest of them.
LAG_SECONDS = 6


def post(server, path, body):
    request = urllib.request.Request(f"http://{server.http}/v1/{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def get(server, path):
    with urllib.request.urlopen(f"http://{server.http}{path}", timeout=60) as answer:
        return answer.read().decode()


def metric(server, name):
    found = re.search(rf"^{re.escape(name)} (\S+)$", get(server, "/metrics"), re.M)
    return float(found.group(1))


def create(server, name):
    post(server, "models", {"model": {
        "name": name, "monitoring": {"groupTag": "g"}, "classes": {"count": 2, "bandwidth": {"fixed": 0.3}},
        "window": 2000}})


def batch(number):
    """A batch whose content follows from its number: confident, and wrong in two of five rows."""
    draw = random.Random(number)
    probabilities, labels = [], []
    for _ in range(ROWS):
        p = draw.uniform(0.85, 0.99)
        probabilities += [p, 1 - p]
        labels.append(int(draw.random() > 0.6))
    return {"observations": {"probabilities": {"values": probabilities}, "labels": labels,
                             "groupValues": [str(number % 3)] * ROWS},
            "requestId": f"b{number}"}


def without_times(value):
    """The answer without what depends on the clock."""
    if isinstance(value, dict):
        return {key: without_times(item) for key, item in value.items()
                if key != "reading" and not re.match(r"\d{4}-\d\d-\d\dT", str(item))}
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


def differences(one, other, path=""):
    """The paths at which two answers differ by more than the last bits, in which sums depend on the minutes
    and the calls in which their rows came."""
    if isinstance(one, dict) and isinstance(other, dict):
        return [line for key in {*one, *other}
                for line in differences(one.get(key), other.get(key), f"{path}.{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [line for i, pair in enumerate(zip(one, other))
                for line in differences(*pair, f"{path}[{i}]")]
    if isinstance(one, float) and isinstance(other, float):
        return [] if math.isclose(one, other, rel_tol=1e-12) else [f"{path}: {one} {other}"]
    return [] if one == other else [f"{path}: {one} {other}"]


def calibration(server, name="m"):
    return json.loads(get(server, f"/v1/models/{name}/calibration"))


def restore(archive, folder, *arguments):
    return subprocess.run([CALIBD, "restore", *arguments, str(archive), str(folder)], check=False,
                          capture_output=True, text=True, timeout=300)


class Load(threading.Thread):
    """Sends one batch after another until a call fails."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        # The times at which the batches were acknowledged.
        self.acknowledged = []

    def run(self):
        try:
            while True:
                post(self.server, "models/m:observe", batch(len(self.acknowledged)))
                self.acknowledged.append(time.time())
        except OSError:
            pass


class ArchiveTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.archive = self.folder / "archive"
        self.archive.mkdir()

    def start(self, data, command=None):
        server = CalibdServer(CALIBD, "--data-dir", str(self.folder / data), "--archive-command",
                              command or f"cp %p {self.archive}/%f")
        self.addCleanup(server.__exit__)
        return server

    def names(self, kind):
        return sorted(path.name for path in self.archive.iterdir() if f"-{kind}-" in path.name)

    def stores(self):
        return {path.name.split("-")[1] for path in self.archive.iterdir()}

    def lose_a_disk(self):
        """Deletes the folder of a server under load. Returns the load, the time before which all is
        in the archive, and the number of batches that were acknowledged."""
        server = self.start("lost")
        create(server, "models/m")
        create(server, "models/gone")
        self.assertTrue(wait_for(lambda: self.names("base"), 120), "no base")
        load = Load(server)
        load.start()
        create(server, "models/late")
        post(server, "models/late:observe", batch(0))
        urllib.request.urlopen(urllib.request.Request(
            f"http://{server.http}/v1/models/gone?confirmation=models/gone", method="DELETE"), timeout=60).close()
        enough = random.randint(100, 400)
        self.assertTrue(wait_for(lambda: len(load.acknowledged) > enough, 300), "no load")
        logs = len(self.names("log"))
        self.assertTrue(wait_for(lambda: len(self.names("log")) > logs + 1, 120), "no log files")
        lag = [0.0, 0.0]

        def keeps_up():
            lag[:] = time.time(), metric(server, "calibd_archive_lag_seconds")
            return lag[1] < LAG_SECONDS
        self.assertTrue(wait_for(keeps_up, 120), f"the archive lags {lag[1]} s behind")
        shutil.rmtree(self.folder / "lost", ignore_errors=True)
        server.kill()
        load.join()
        shutil.rmtree(self.folder / "lost", ignore_errors=True)
        return load, lag[0] - lag[1]

    def check_restored(self, load, archived_until):
        done = restore(self.archive, self.folder / "restored")
        self.assertEqual(done.returncode, 0, done.stderr)
        observations = int(re.search(r"models/m: (\d+) observations", done.stdout).group(1))
        told = datetime.strptime(
            re.search(r"acknowledged until (\S+ \S+) UTC", done.stdout).group(1),
            "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=timezone.utc).timestamp()
        self.assertRegex(done.stdout, rf"models/late: {ROWS} observations")
        self.assertNotIn("models/gone", done.stdout)
        # The time is printed in milliseconds.
        self.assertGreaterEqual(told + 0.001, archived_until)
        before = sum(at <= told for at in load.acknowledged)
        self.assertGreaterEqual(observations, before * ROWS)
        # One batch may have been counted without an answer.
        self.assertLessEqual(observations, (len(load.acknowledged) + 1) * ROWS)
        self.assertEqual(observations % ROWS, 0)

        server = self.start("restored")
        answer = calibration(server)
        self.assertEqual(int(answer["observations"]), observations)
        self.assertEqual(int(calibration(server, "late")["observations"]), ROWS)
        with self.assertRaises(urllib.error.HTTPError) as caught:
            calibration(server, "gone")
        self.assertEqual(caught.exception.code, 404)
        # What a server says that never lost its disk.
        reference = self.start("reference", "true %p %f")
        create(reference, "models/m")
        for number in range(observations // ROWS):
            post(reference, "models/m:observe", batch(number))
        expected = calibration(reference)
        self.assertTrue(expected["alarms"])
        self.assertTrue(expected["watch"]["evidence"])
        self.assertEqual(differences(without_times(answer), without_times(expected)), [])
        # A batch that was restored is known, and one that was lost is counted now.
        for number in (observations // ROWS - 1, observations // ROWS):
            post(server, "models/m:observe", batch(number))
        self.assertEqual(int(calibration(server)["observations"]), observations + ROWS)
        return server

    def test_a_lost_disk_costs_seconds(self):
        for disk in range(DISKS):
            with self.subTest(disk=disk):
                server = self.check_restored(*self.lose_a_disk())
                # The restored store has an identity of its own in the same archive.
                self.assertTrue(wait_for(lambda: len(self.names("base")) == 2, 120), "no new base")
                lost, restored = sorted(self.stores(),
                                        key=lambda store: store not in self.names("base")[0])
                self.assertNotEqual(lost, restored)
                done = restore(self.archive, self.folder / "choose")
                self.assertEqual(done.returncode, 1)
                self.assertIn("--store-id", done.stderr)
                self.assertRegex(done.stderr, r"[0-9a-f]{32} \(newest file of 20[-\d]+ [\d:]+ UTC\), [0-9a-f]{32} \(newest")
                self.assertIn(lost, done.stderr)
                self.assertEqual(server.stop(), 0)
                # A stop hands over the rest.
                for store in (lost, restored):
                    folder = self.folder / f"again-{store}"
                    done = restore(self.archive, folder, "--store-id", store)
                    self.assertEqual(done.returncode, 0, done.stderr)
            # The next disk has servers and folders of its own.
            self.doCleanups()
            self.setUp()

    def test_damage_ends_what_is_restored(self):
        load, _ = self.lose_a_disk()
        whole = restore(self.archive, self.folder / "whole")
        self.assertEqual(whole.returncode, 0, whole.stderr)
        self.assertEqual(whole.stderr, "")
        all_rows = int(re.search(r"models/m: (\d+) observations", whole.stdout).group(1))
        self.assertGreater(all_rows, 0)
        newest = self.archive / self.names("log")[-1]
        content = newest.read_bytes()
        at = len(content) // 2
        newest.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        done = restore(self.archive, self.folder / "damaged")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"{newest} is damaged or incomplete", done.stderr)
        rows = int(re.search(r"models/m: (\d+) observations", done.stdout).group(1))
        self.assertLess(rows, all_rows)
        # Without an older file, the newer ones cannot be used.
        newest.write_bytes(content)
        (self.archive / self.names("log")[0]).unlink()
        done = restore(self.archive, self.folder / "cut")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cannot be used", done.stderr)
        self.assertIn("No log file continues this base", done.stdout)
        base = self.archive / self.names("base")[0]
        base.write_bytes(base.read_bytes()[:-1])
        done = restore(self.archive, self.folder / "none")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no base of the archive is intact", done.stderr)
        self.assertFalse((self.folder / "none").exists())
        self.assertEqual(restore(self.archive, self.folder / "whole").returncode, 1)

    def test_a_failing_command_delays_nothing_and_is_repeated(self):
        works = self.folder / "works"
        script = self.folder / "copy"
        script.write_text(f'#!/bin/sh\n[ -e {works} ] && exec cp "$1" "{self.archive}/$2"\n'
                          "printf 'no \\033[31mspace\\n' >&2\nexit 7\n", encoding="utf-8")
        script.chmod(0o755)
        server = self.start("data", f"{script} %p %f")
        create(server, "models/m")
        failed = 'calibd_archive_commands_total{result="failed"}'
        self.assertTrue(wait_for(lambda: metric(server, failed) > 1), "does not try again")
        for number in range(20):
            post(server, "models/m:observe", batch(number))
        self.assertEqual(metric(server, "calibd_archive_base_timestamp_seconds"), 0)
        self.assertGreater(metric(server, "calibd_archive_lag_seconds"), 0)
        self.assertIn("failed with exit code 7: no \\x1b[31mspace", server.log())
        self.assertEqual(server.log().count("exit code 7"), 1)
        works.touch()
        self.assertTrue(wait_for(lambda: self.names("base") and self.names("log"), 180))
        self.assertTrue(wait_for(
            lambda: metric(server, "calibd_archive_base_timestamp_seconds") > 0))
        self.assertEqual(server.stop(), 0)
        done = restore(self.archive, self.folder / "restored")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"models/m: {20 * ROWS} observations", done.stdout)

    def test_wrong_settings_are_refused(self):
        for command in ("cp %p x", "cp x %f", "cp"):
            done = subprocess.run([CALIBD, "--check-config", "--archive-command", command],
                                  check=False, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("--archive-command needs %p", done.stderr)
        done = subprocess.run([CALIBD, "--check-config", "--archive-command", "cp %p x%f",
                               "--data-dir", "a b"], check=False, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual(done.returncode, 2)
        self.assertIn("one word", done.stderr)
        done = restore(self.archive, self.folder / "new")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no file of an archive", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
