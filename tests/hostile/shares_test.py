"""Clients that ask for all watches and computations of a server. shares_test.py CALIBD"""
import random

from hostile_case import (CALL_SECONDS, OBSERVE, WATCH, HostileCase, calibration_service_pb2,
                          ingest_service_pb2, main)
from http2_peer import MAX_WINDOW, Peer, window_update

RUN_TEST = b"/calibd.v1.CalibrationService/RunTest"
RESOURCE_EXHAUSTED = 8


class SharesTest(HostileCase):
    """A greedy client at 127.0.0.2, and another one at 127.0.0.3."""

    # 16 tests may wait beside the running one.
    arguments = ("--compute-threads", "1")
    PLACES = 17

    def setUp(self):
        super().setUp()
        self.create_model(class_count=2)

    def peer(self, source):
        peer = self.enterContext(Peer(self.server.grpc, source))
        peer.send(window_update(0, MAX_WINDOW - 65535))
        return peer

    def start(self, peer, path, requests):
        """Starts the calls, and waits until each was answered; how many were refused."""
        streams = [peer.start(path, request.SerializeToString()) for request in requests]
        self.assertTrue(peer.wait_for(lambda: peer.answered.issuperset(streams), CALL_SECONDS))
        endings = [peer.endings[stream] for stream in streams if stream in peer.endings]
        self.assertEqual({ending.status for ending in endings} - {RESOURCE_EXHAUSTED}, set())
        return len(endings)

    def test_watches_are_left_for_others(self):
        watch = calibration_service_pb2.WatchCalibrationRequest(model="models/m")
        refused = sum(self.start(self.peer("127.0.0.2"), WATCH, [watch] * 100) for _ in range(10))
        # Half of the 1000 watches, and one more.
        self.assertEqual(1000 - refused, 501)
        self.assertEqual(self.start(self.peer("127.0.0.3"), WATCH, [watch] * 100), 0)

    def test_computations_are_left_for_others(self):
        numbers = random.Random(20261129)
        for _ in range(10):
            request = ingest_service_pb2.ObserveRequest(model="models/m")
            for _ in range(1000):
                p = numbers.random()
                request.observations.probabilities.values.extend((p, 1 - p))
                request.observations.labels.append(int(numbers.random() >= p))
            self.assertEqual(self.peer("127.0.0.1").call(OBSERVE, request.SerializeToString()).status, 0)
        # It takes minutes, and is counted as large.
        large = calibration_service_pb2.RunTestRequest(model="models/m", replicates=24000, null="FORM")
        small = calibration_service_pb2.RunTestRequest(model="models/m", replicates=99, window=500)
        greedy = self.peer("127.0.0.2")
        self.assertEqual(self.start(greedy, RUN_TEST, [large] * 20), 20 - (self.PLACES // 2 + 1))
        other = self.peer("127.0.0.3")
        self.assertEqual(self.start(other, RUN_TEST, [large]), 0)
        self.assertEqual(other.call(RUN_TEST, small.SerializeToString(), CALL_SECONDS).status, 0)


if __name__ == "__main__":
    main()
