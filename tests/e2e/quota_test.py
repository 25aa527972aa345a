"""Quotas of principals: each kind refuses or slows the one that exceeds it, and nobody else.

    quota_test.py CALIBD PYTHON_PACKAGE
"""
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import pathlib
import re
import sys
import tempfile
import threading
import time
import unittest

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALIBD, PACKAGE = sys.argv.pop(1), sys.argv.pop(1)
sys.path[:0] = [str(ROOT / "tests/support"), PACKAGE]
from calibd_server import CalibdServer  # noqa: E402
from wait_for import wait_for  # noqa: E402

import calibd  # noqa: E402
from calibd.rpc import status_pb2  # noqa: E402
from calibd.v1 import calibration_service_pb2 as calibration  # noqa: E402
from calibd.v1 import ingest_service_pb2 as ingest  # noqa: E402
from calibd.v1 import model_service_pb2 as models  # noqa: E402

CALL_SECONDS = 60
# A stream lives as long as its test.
STREAM_SECONDS = 300
OTHERS = 50
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def principal(name, grant, quota=""):
    token = hashlib.sha256(f"token_{name}".encode()).hexdigest()
    return (f'[[principal]]\nname = "{name}"\ntokens = ["sha256:{token}:2100-01-01"]\n'
            f'grants = ["{grant}"]\n' + (f"quota = {quota}\n" if quota else ""))


def policy(**quotas):
    """The content of the access file. quotas: of the principals rows, pending and so on."""
    kinds = {
        "models": "{ models = 3 }", "rows": "{ rows_per_second = 200 }", "pending": "{ pending_bytes = 1 }",
        "streams": "{ streams = 2 }", "watches": "{ watches = 2 }",
        "compute": "{ compute_seconds_per_hour = 1 }", "waiting": "{ rows_per_second = 1 }",
        "deleting": "{ models = 2 }", "turns": "{ rows_per_second = 1 }",
        "shrinking": "{ rows_per_second = 1000000 }",
    } | quotas
    return "".join([principal("root", "admin models/*"),
                    *(principal(name, f"admin models/{name}*", quota) for name, quota in kinds.items()),
                    *(principal(f"other-{i}", f"admin models/other-{i}") for i in range(OTHERS))])


def model_request(name):
    message = models.CreateModelRequest()
    message.model.name = f"models/{name}"
    message.model.classes.count = 2
    return message


def batch(name, rows):
    request = ingest.ObserveRequest(model=f"models/{name}")
    for i in range(rows):
        request.observations.probabilities.values.extend((0.25 + 0.5 * (i % 7) / 7, 0.75 - 0.5 * (i % 7) / 7))
        request.observations.labels.append(i % 2)
    return request


def details(error):
    """The reason and the delay in seconds, or None, of an error."""
    status = status_pb2.Status.FromString(dict(error.trailing_metadata())["grpc-status-details-bin"])
    info, retry = status_pb2.ErrorInfo(), status_pb2.RetryInfo()
    delay = None
    for detail in status.details:
        if detail.type_url.endswith("ErrorInfo"):
            info.ParseFromString(detail.value)
        elif detail.type_url.endswith("RetryInfo"):
            retry.ParseFromString(detail.value)
            delay = retry.retry_delay.seconds + retry.retry_delay.nanos / 1e9
    return info.reason, delay


class QuotaTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.file, cls.audit = folder / "access.toml", folder / "audit.jsonl"
        cls.write(policy())
        cls.server = cls.enterClassContext(CalibdServer(
            CALIBD, "--access-file", str(cls.file), "--audit-log", str(cls.audit)))
        cls.channel = cls.enterClassContext(grpc.insecure_channel(cls.server.grpc))
        for name in ("rows", "pending", "streams", "watches", "compute", "waiting", "turns", "shrinking",
                     *(f"other-{i}" for i in range(OTHERS))):
            cls.call("ModelService/CreateModel", model_request(name), "root")

    @classmethod
    def write(cls, text):
        new = cls.file.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, cls.file)

    @classmethod
    def start(cls, path, request, caller):
        answers = {
            "ModelService/CreateModel": models.CreateModelResponse,
            "ModelService/DeleteModel": models.DeleteModelResponse,
            "IngestService/Observe": ingest.ObserveResponse,
            "CalibrationService/GetCalibration": calibration.GetCalibrationResponse,
        }
        return cls.channel.unary_unary(
            f"/calibd.v1.{path}", request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=answers[path].FromString).future(
                request, timeout=CALL_SECONDS, metadata=cls.credentials(caller))

    @staticmethod
    def credentials(caller):
        return (("authorization", f"Bearer token_{caller}"),)

    @classmethod
    def call(cls, path, request, caller):
        return cls.start(path, request, caller).result()

    def open_stream(self, caller, *batches):
        """An open stream, which then sends batches of these numbers of rows. It waits for an event among them."""
        opened, ended = threading.Event(), threading.Event()

        def requests():
            request = ingest.StreamObservationsRequest()
            request.open.model = f"models/{caller}"
            request.open.producer_id = f"p{time.monotonic_ns()}"
            yield request
            opened.wait(CALL_SECONDS)
            sequence = 0
            for rows in batches:
                if isinstance(rows, threading.Event):
                    rows.wait(CALL_SECONDS)
                    continue
                sequence += 1
                request = ingest.StreamObservationsRequest()
                request.batch.sequence = sequence
                request.batch.observations.CopyFrom(batch(caller, rows).observations)
                yield request
            ended.wait(CALL_SECONDS)
        stream = self.channel.stream_stream(
            "/calibd.v1.IngestService/StreamObservations",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=ingest.StreamObservationsResponse.FromString)(
                requests(), timeout=STREAM_SECONDS, metadata=self.credentials(caller))
        self.addCleanup(ended.set)
        self.addCleanup(opened.set)
        self.addCleanup(stream.cancel)
        first = next(stream)
        self.assertEqual(first.WhichOneof("message"), "opened")
        stream.max_rows = first.opened.max_rows_per_batch
        opened.set()
        return stream

    def batch_limit(self, caller):
        """The most rows of a batch that a new stream is told."""
        stream = self.open_stream(caller)
        stream.cancel()
        return stream.max_rows

    def watch(self, caller):
        stream = self.channel.unary_stream(
            "/calibd.v1.CalibrationService/WatchCalibration",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=calibration.WatchCalibrationResponse.FromString)(
                calibration.WatchCalibrationRequest(model=f"models/{caller}"), timeout=CALL_SECONDS,
                metadata=self.credentials(caller))
        self.addCleanup(stream.cancel)
        next(stream)
        return stream

    def run_test(self, caller):
        stream = self.channel.unary_stream(
            "/calibd.v1.CalibrationService/RunTest",
            request_serializer=lambda one: one.SerializeToString(),
            response_deserializer=calibration.RunTestResponse.FromString)(
                calibration.RunTestRequest(model=f"models/{caller}", replicates=2000),
                timeout=CALL_SECONDS, metadata=self.credentials(caller))
        return list(stream)[-1]

    def refused(self, action, quota, limit, delayed=True):
        """Repeats the action until the quota refuses it."""
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                action()
            except grpc.RpcError as error:
                self.assertEqual(error.code(), EXHAUSTED, error.details())
                reason, delay = details(error)
                self.assertEqual(reason, "QUOTA_EXCEEDED", error.details())
                self.assertRegex(error.details(),
                                 rf"the quota {quota} of \w+ is {limit}: .*; .*, or ask whoever keeps")
                self.assertEqual(delay is not None, delayed)
                return delay
            self.assertLess(time.monotonic(), deadline, "the quota refused nothing")

    def metric(self, name, quota):
        connection = http.client.HTTPConnection(self.server.http, timeout=CALL_SECONDS)
        with contextlib.closing(connection):
            connection.request("GET", "/metrics", headers=dict(self.credentials("root")))
            text = connection.getresponse().read().decode()
        return int(re.search(rf'^{name}{{quota="{quota}"}} (\d+)$', text, re.M)[1])

    @contextlib.contextmanager
    def served_others(self, what, most_seconds=CALL_SECONDS):
        """While the block runs, 50 other principals write and read. All of their calls must succeed, and
        99 of 100 take at most so long. Sets p99.
        """
        ended, seconds = threading.Event(), []

        def serve(i):
            for path, request in (
                    ("IngestService/Observe", batch(f"other-{i}", 20)),
                    ("CalibrationService/GetCalibration",
                     calibration.GetCalibrationRequest(model=f"models/other-{i}"))):
                begin = time.monotonic()
                self.call(path, request, f"other-{i}")
                seconds.append(time.monotonic() - begin)

        def run():
            # At least once for each.
            first = True
            while first or not ended.is_set():
                list(pool.map(serve, range(OTHERS)))
                first = False
        with concurrent.futures.ThreadPoolExecutor(4) as pool, \
                concurrent.futures.ThreadPoolExecutor(1) as runner:
            done = runner.submit(run)
            try:
                yield
            finally:
                ended.set()
            done.result()
        seconds.sort()
        self.p99 = seconds[len(seconds) * 99 // 100]
        print(f"{what}: {len(seconds)} calls of others, p99 {1000 * self.p99:.1f} ms", file=sys.stderr)
        self.assertLess(self.p99, most_seconds)

    def most_seconds(self):
        """What calls may take beside a principal at its quota: 100 ms, or on a machine that is too busy for
        that ten times as long as without it.
        """
        with self.served_others("idle"):
            time.sleep(2)
        return max(0.1, 10 * self.p99)

    def greedily(self, action):
        """Calls the action all the time, on four threads, until the returned function is called."""
        ended, others = threading.Event(), []

        def run():
            while not ended.is_set():
                try:
                    action()
                except grpc.RpcError as error:
                    if error.code() != EXHAUSTED:
                        others.append(error.details())
        pool = concurrent.futures.ThreadPoolExecutor(4)
        runs = [pool.submit(run) for _ in range(4)]

        def end():
            ended.set()
            pool.shutdown()
            for one in runs:
                one.result()
            self.assertEqual(others, [])
        return end

    def test_others_are_served_beside_each_quota(self):
        most_seconds = self.most_seconds()
        cases = {
            "models": ("models", 3, lambda: self.call(
                "ModelService/CreateModel", model_request(f"models-{time.monotonic_ns()}"), "models")),
            "rows": ("rows_per_second", 200, lambda: self.call(
                "IngestService/Observe", batch("rows", 100), "rows")),
            "pending": ("pending_bytes", 1, lambda: self.call(
                "IngestService/Observe", batch("pending", 1000), "pending")),
            "streams": ("streams", 2, lambda: self.open_stream("streams")),
            "watches": ("watches", 2, lambda: self.watch("watches")),
        }
        for name, (quota, limit, action) in cases.items():
            with self.subTest(name), self.served_others(name, most_seconds):
                end = self.greedily(action)
                try:
                    self.refused(action, quota, limit, delayed=name != "models")
                    time.sleep(2)
                finally:
                    end()
                self.assertGreater(self.metric("calibd_quota_refused_total", quota), 0)
                self.doCleanups()

    def test_computations(self):
        self.call("IngestService/Observe", batch("compute", 2000), "compute")
        with self.served_others("compute", self.most_seconds()):
            end = self.greedily(lambda: self.run_test("compute"))
            try:
                delay = self.refused(lambda: self.run_test("compute"), "compute_seconds_per_hour", 1)
            finally:
                end()
        # An hour pays for one second.
        self.assertGreater(delay, 1)

    def test_a_deleted_model_makes_room(self):
        created = []

        def create():
            name = f"deleting-{time.monotonic_ns()}"
            self.call("ModelService/CreateModel", model_request(name), "deleting")
            created.append(name)
        self.refused(create, "models", 2, delayed=False)
        self.assertEqual(len(created), 2)
        # A model that exists may be declared again.
        self.call("ModelService/CreateModel", model_request(created[0]), "deleting")
        self.call("ModelService/DeleteModel", models.DeleteModelRequest(
            name=f"models/{created[0]}", confirmation=f"models/{created[0]}"), "deleting")
        create()
        self.refused(create, "models", 2, delayed=False)

    @staticmethod
    def allowed(action):
        try:
            action()
        except grpc.RpcError as error:
            assert error.code() == EXHAUSTED, error
            return False
        return True

    def test_an_ended_stream_makes_room(self):
        first, second = self.open_stream("streams"), self.open_stream("streams")
        self.refused(lambda: self.open_stream("streams"), "streams", 2)
        first.cancel()
        self.assertTrue(wait_for(lambda: self.allowed(lambda: self.open_stream("streams")), CALL_SECONDS))
        second.cancel()

    def test_streams_of_events_are_watches(self):
        one, two = self.watch("watches"), self.watch("watches")
        connection = http.client.HTTPConnection(self.server.http, timeout=CALL_SECONDS)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/models/watches/events", headers=dict(self.credentials("watches")))
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (429, "1"))
        self.assertEqual(json.loads(answer.read())["error"]["details"][0]["reason"], "QUOTA_EXCEEDED")
        one.cancel()
        two.cancel()

    def test_streams_of_events_are_left_for_others(self):
        def subscribe(caller):
            connection = http.client.HTTPConnection(self.server.http, timeout=CALL_SECONDS)
            self.addCleanup(connection.close)
            connection.request("GET", f"/v1/models/{caller}/events", headers=dict(self.credentials(caller)))
            # The connection stays open as long as its answer.
            answers.append(connection.getresponse())
            return answers[-1].status
        answers = []
        self.addCleanup(lambda: [answer.close() for answer in answers])
        statuses = {subscribe("rows") for _ in range(100)}
        self.assertEqual(statuses, {200, 429})
        self.assertEqual(subscribe("other-0"), 200)

    def test_a_stream_is_slowed_and_loses_nothing(self):
        before = self.metric("calibd_quota_delayed_total", "rows_per_second")
        begin = time.monotonic()
        with calibd.Client(self.server.grpc, token="token_rows") as client:
            with client.stream("rows", classes=2) as stream:
                for _ in range(10):
                    stream.send([[0.25, 0.75]] * 100, [1] * 100)
        self.assertEqual(stream.counts.accepted_rows, 1000)
        # The first second is free, and the last batch does not wait for its own rows.
        self.assertGreater(time.monotonic() - begin, 2)
        self.assertGreater(self.metric("calibd_quota_delayed_total", "rows_per_second"), before)

    def test_streams_wait_in_turn(self):
        self.call("IngestService/Observe", batch("turns", 1000), "turns")
        before = self.metric("calibd_quota_delayed_total", "rows_per_second")
        order, readers = [], []
        for i in range(4):
            stream = self.open_stream("turns", 1000)

            def read(i=i, stream=stream):
                self.assertEqual(next(stream).ack.sequence, 1)
                order.append(i)
            readers.append(threading.Thread(target=read))
            readers[-1].start()
            self.assertTrue(wait_for(
                lambda i=i: self.metric("calibd_quota_delayed_total", "rows_per_second") > before + i, CALL_SECONDS))
        # From now on, each of them takes a second.
        self.write(policy(turns="{ rows_per_second = 1000 }"))
        for reader in readers:
            reader.join()
        self.assertEqual(order, [0, 1, 2, 3])

    def test_a_smaller_quota_ends_a_stream_with_larger_batches(self):
        shrunk = threading.Event()
        self.addCleanup(shrunk.set)
        stream = self.open_stream("shrinking", 2500, shrunk, 2000, 2500)
        before = stream.max_rows
        self.assertEqual(next(stream).ack.sequence, 1)
        with calibd.Client(self.server.grpc, token="token_shrinking") as client:
            with client.stream("shrinking", classes=2) as sender:
                sender.send([[0.25, 0.75]] * 5000, [1] * 5000)
                sender.flush()
                self.write(policy(shrinking="{ rows_per_second = 2000 }"))
                self.assertTrue(wait_for(lambda: self.batch_limit("shrinking") == 2000, CALL_SECONDS))
                # A new stream may send a batch of any size, such as one that it repeats.
                self.assertEqual(next(self.open_stream("shrinking", 2500)).ack.sequence, 1)
                shrunk.set()
                self.assertEqual(next(stream).ack.sequence, 2)
                with self.assertRaises(grpc.RpcError) as ended:
                    next(stream)
                self.assertEqual(ended.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertEqual(details(ended.exception)[0], "BATCH_LIMIT_CHANGED")
                self.assertRegex(ended.exception.details(),
                                 rf"batch has 2500 rows, expected at most 2000: .* {before}; open it again")
                sender.send([[0.25, 0.75]] * 5000, [1] * 5000)
        self.assertEqual(sender.counts.accepted_rows, 10000)
        self.assertEqual(sender.counts.reconnects, 1)

    def test_a_larger_quota_applies_to_a_waiting_stream(self):
        before = self.metric("calibd_quota_delayed_total", "rows_per_second")
        stream = self.open_stream("waiting", 1000, 1)
        self.assertEqual(next(stream).ack.sequence, 1)
        # The second batch would wait for 1000 s.
        self.assertTrue(wait_for(
            lambda: self.metric("calibd_quota_delayed_total", "rows_per_second") > before, CALL_SECONDS))
        self.write(policy(waiting="{ rows_per_second = 1000000 }"))
        self.assertEqual(next(stream).ack.sequence, 2)

    def test_refusals_are_in_the_audit_log(self):
        for _ in range(2):
            self.watch("watches")
        self.refused(lambda: self.watch("watches"), "watches", 2)

        def recorded():
            lines = [json.loads(line) for line in self.audit.read_text(encoding="utf-8").splitlines()]
            return [one for one in lines if one["principal"] == "watches"
                    and (one["method"], one["status"]) == ("WatchCalibration", "RESOURCE_EXHAUSTED")]
        self.assertTrue(wait_for(recorded, CALL_SECONDS))
        self.assertEqual(recorded()[0]["resource"], "models/watches")


class DrainTest(unittest.TestCase):
    def test_waiting_streams_do_not_delay_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "access.toml"
            file.write_text(policy(), encoding="utf-8")
            # So long that an end without it is told from one at its end on a busy machine too.
            server = self.enterContext(CalibdServer(CALIBD, "--access-file", str(file), "--drain-seconds", "100"))

            class Calls(QuotaTest):
                channel = self.enterContext(grpc.insecure_channel(server.grpc))
            test = Calls("test_computations")
            test.server = server
            self.addCleanup(test.doCleanups)
            test.call("ModelService/CreateModel", model_request("waiting"), "root")
            test.call("IngestService/Observe", batch("waiting", 1000), "waiting")
            streams = [test.open_stream("waiting", 10) for _ in range(50)]
            self.assertTrue(wait_for(
                lambda: test.metric("calibd_quota_delayed_total", "rows_per_second") == len(streams), CALL_SECONDS))
            begin = time.monotonic()
            self.assertEqual(server.stop(), 0)
            self.assertLess(time.monotonic() - begin, 50)


if __name__ == "__main__":
    unittest.main()
