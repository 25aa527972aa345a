"""SIGTERM while peers do not help. drain_test.py CALIBD"""
from hostile_case import (GET_MODEL, LIST_MODELS, OBSERVE, STREAM_OBSERVATIONS, WATCH, HostileCase,
                          calibration_service_pb2, main)
from http2_peer import HEADERS, INITIAL_WINDOW_SIZE, Peer, frame, prefix, request_block


class Case(HostileCase):
    def peer(self, **options):
        return self.enterContext(Peer(self.server.grpc, "127.0.0.2", **options))


class LongDrainTest(Case):
    """A drain so long that an end without it is told from one at its end on a busy machine too."""

    arguments = ("--drain-seconds", "100")

    def test_ends_soon_with_peers_that_ignore_goaway(self):
        for _ in range(10):
            self.assertIsNotNone(self.peer().call(GET_MODEL))
        self.peer()
        self.expect_in_order(50)

    def test_ends_soon_with_calls_that_have_sent_no_whole_message(self):
        peer = self.peer()
        peer.data(peer.open(OBSERVE), prefix(1000) + bytes(10))
        peer.open(STREAM_OBSERVATIONS)
        self.peer().send(frame(HEADERS, 0, 1, request_block(OBSERVE)))
        self.expect_in_order(50)


class DrainTest(Case):
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
        self.expect_in_order()


if __name__ == "__main__":
    main()
