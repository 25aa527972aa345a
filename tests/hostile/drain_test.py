"""SIGTERM while peers do not help. drain_test.py CALIBD"""
import time

from hostile_case import (GET_MODEL, LIST_MODELS, OBSERVE, STREAM_OBSERVATIONS, WATCH, HostileCase,
                          calibration_service_pb2, main)
from http2_peer import HEADERS, INITIAL_WINDOW_SIZE, Peer, frame, prefix, request_block

# The default of --drain-seconds, and what starting Python's processes may take besides.
DRAIN = 10


class DrainTest(HostileCase):
    def peer(self, **options):
        return self.enterContext(Peer(self.server.grpc, "127.0.0.2", **options))

    def test_ends_soon_with_peers_that_ignore_goaway(self):
        for _ in range(10):
            self.assertIsNotNone(self.peer().call(GET_MODEL))
        self.peer()
        start = time.monotonic()
        self.expect_in_order(DRAIN)
        self.assertLess(time.monotonic() - start, 4)

    def test_ends_with_calls_that_do_not(self):
        self.create_model()
        watch = calibration_service_pb2.WatchCalibrationRequest(
            model="models/m").SerializeToString()
        for options in ({}, {INITIAL_WINDOW_SIZE: 0}):
            self.peer(options=options).start(WATCH, watch)
            self.peer(options=options).start(LIST_MODELS)
            for path in (OBSERVE, STREAM_OBSERVATIONS):
                peer = self.peer(options=options)
                peer.data(peer.open(path), prefix(1000) + bytes(10))
            half_headers = self.peer(options=options)
            half_headers.send(frame(HEADERS, 0, 1, request_block(OBSERVE)))
        self.expect_in_order(DRAIN)


if __name__ == "__main__":
    main()
