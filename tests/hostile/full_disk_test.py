"""A disk that is full for a while. full_disk_test.py CALIBD"""
import resource
import time
import urllib.error
import urllib.request

from hostile_case import (CALL_SECONDS, HostileCase, calibration_service_pb2,
                          calibration_service_pb2_grpc, grpc, ingest_service_pb2,
                          ingest_service_pb2_grpc, main, wait_for)

ROWS = 2000


class FullDiskTest(HostileCase):
    def setUp(self):
        super().setUp()
        self.create_model()
        self.ingest = ingest_service_pb2_grpc.IngestServiceStub(self.channel())
        self.request = ingest_service_pb2.ObserveRequest(
            model="models/m", observations=ingest_service_pb2.Observations(
                labels=[0] * ROWS,
                probabilities=ingest_service_pb2.DoubleValues(values=[0.1] * 10 * ROWS)))

    def test_is_told_without_paths_and_passes(self):
        _, hard = resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE)
        self.assertEqual(self.ready()[0], 200)
        # A file that may not grow is a full disk.
        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (512 << 10, hard))
        accepted, error = self.fill()
        self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assert_no_path(error.details())
        self.assertIn("disk", error.details())
        for trailer in error.trailing_metadata():
            self.assert_no_path(str(trailer.value))

        self.assertTrue(wait_for(lambda: self.ready()[0] == 503), "says that it is ready")
        self.assert_no_path(self.ready()[1])
        self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual(self.counted(), accepted)
        # The database may grow no more either, some models later.
        with self.assertRaises(grpc.RpcError) as caught:
            for i in range(20):
                self.create_model(f"models/n{i}", class_count=2000,
                                  class_names=[f"{c:064}" for c in range(2000)])
        self.assert_no_path(caught.exception.details())
        self.assertEqual(self.ready()[0], 503)

        resource.prlimit(self.server.pid, resource.RLIMIT_FSIZE, (hard, hard))
        # Who is not ready may get no calls: it must find out by itself.
        self.assertTrue(wait_for(lambda: self.ready()[0] == 200), "stays unready")
        self.ingest.Observe(self.request, timeout=CALL_SECONDS)
        self.assertEqual(self.counted(), accepted + ROWS)
        self.expect_in_order()

    def fill(self):
        """Observes until that fails; how many rows were accepted, and the error."""
        accepted = 0
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                self.ingest.Observe(self.request, timeout=CALL_SECONDS)
                accepted += ROWS
            except grpc.RpcError as error:
                return accepted, error
        raise AssertionError("the disk is never full")

    def counted(self):
        return calibration_service_pb2_grpc.CalibrationServiceStub(self.channel()).GetCalibration(
            calibration_service_pb2.GetCalibrationRequest(model="models/m"),
            timeout=CALL_SECONDS).observations

    def get(self, path):
        """Status and body."""
        try:
            with urllib.request.urlopen(f"http://{self.server.http}{path}",
                                        timeout=CALL_SECONDS) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def ready(self):
        return self.get("/readyz")

    def assert_no_path(self, text):
        self.assertNotIn("/tmp", text)
        self.assertNotIn("/data", text)
        self.assertNotIn("calibd.db", text)
        self.assertNotIn("SQL", text.upper())


if __name__ == "__main__":
    main()
