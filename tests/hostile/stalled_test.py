"""A call ends when its client takes no byte for a minute while bytes wait; a slow or idle one does
not. Eighty seconds. stalled_test.py CALIBD
"""
import time

from hostile_case import (BACKUP, LIST_MODELS, OBSERVE, STREAM_OBSERVATIONS, WATCH,
                          HostileCase, calibration_service_pb2, ingest_service_pb2, main)
from http2_peer import INITIAL_WINDOW_SIZE, MAX_WINDOW, Peer, message, prefix, window_update

STALL_SECONDS = 60
SECONDS = STALL_SECONDS + 15
WATCH_REQUEST = calibration_service_pb2.WatchCalibrationRequest(
    model="models/m").SerializeToString()


class StalledTest(HostileCase):
    def setUp(self):
        super().setUp()
        self.create_model()
        for i in range(3):
            self.create_model(f"models/large{i}", class_count=2000,
                              class_names=[f"{c:064}" for c in range(2000)])

    def peer(self, **options):
        return self.enterContext(Peer(self.server.grpc, **options))

    def call(self, path, data=b"", **options):
        peer = self.peer(**options)
        return peer, peer.start(path, data)

    def test_calls_end_after_a_minute_and_slow_ones_live_on(self):
        unread = {INITIAL_WINDOW_SIZE: 0}
        stalled = {
            "watch": self.call(WATCH, WATCH_REQUEST, options=unread),
            "response": self.call(LIST_MODELS, options=unread),
            "backup": self.call(BACKUP, options=unread),
            # The call's window is open, that of its connection is not.
            "connection": self.call(LIST_MODELS, options={INITIAL_WINDOW_SIZE: MAX_WINDOW}),
            "half a request": self.half_a_request(),
        }
        deaf = self.deaf_peer()
        idle_watch, idle_stream = self.call(WATCH, WATCH_REQUEST)
        slow_watch, slow_stream = self.call(WATCH, WATCH_REQUEST, options=unread)
        producer = self.peer()
        producer_stream = producer.open(STREAM_OBSERVATIONS)
        producer.data(producer_stream, message(ingest_service_pb2.StreamObservationsRequest(
            open=ingest_service_pb2.StreamObservationsRequest.Open(
                model="models/m", producer_id="p", epoch=1)).SerializeToString()))

        peers = [peer for peer, _ in stalled.values()] + [idle_watch, slow_watch, producer]
        ended = {}
        start = time.monotonic()
        next_bytes = start
        # A busy server looks later, so that a call may end later.
        while time.monotonic() < start + (SECONDS if len(ended) == len(stalled) else 4 * SECONDS):
            if time.monotonic() >= next_bytes:
                slow_watch.send(window_update(slow_stream, 3))
                next_bytes += 10
            for peer in peers:
                peer.poll(0.01)
            for name, (peer, stream) in stalled.items():
                if name not in ended and (stream in peer.endings or peer.closed):
                    ended[name] = time.monotonic() - start

        print(f"{self.id()}: ended after {ended}")
        for name in stalled:
            with self.subTest(name):
                self.assertIn(name, ended)
                self.assertGreater(ended[name], STALL_SECONDS - 10)
        self.assertTrue(deaf.closed or self.closes(deaf), "a socket that nobody reads stays open")
        for peer, stream in ((idle_watch, idle_stream), (slow_watch, slow_stream),
                             (producer, producer_stream)):
            self.assertFalse(peer.closed)
            self.assertNotIn(stream, peer.endings)
        self.assert_watch_goes_on(idle_watch, idle_stream)
        self.assertGreaterEqual(slow_watch.received[slow_stream], 3 * (SECONDS // 10))

    def half_a_request(self):
        peer = self.peer()
        stream = peer.open(OBSERVE)
        peer.data(stream, prefix(1000) + bytes(10))
        return peer, stream

    def deaf_peer(self):
        """Its windows are open, and it does not read its socket."""
        peer = self.peer(options={INITIAL_WINDOW_SIZE: MAX_WINDOW}, receive_buffer=4096)
        peer.send(window_update(0, MAX_WINDOW - 65535))
        for _ in range(16):
            peer.start(LIST_MODELS)
        return peer

    def closes(self, peer):
        """What the kernels hold can be read; behind it the server must have closed."""
        deadline = time.monotonic() + 60
        try:
            while not peer.closed and time.monotonic() < deadline:
                peer.discard(0.2)
        except ConnectionError:
            return True
        return peer.closed

    def assert_watch_goes_on(self, peer, stream):
        received = peer.received[stream]
        self.assertGreater(received, 0)
        request = ingest_service_pb2.ObserveRequest(
            model="models/m", observations=ingest_service_pb2.Observations(
                labels=[0], probabilities=ingest_service_pb2.DoubleValues(values=[0.1] * 10)))
        with Peer(self.server.grpc) as other:
            self.assertEqual(other.call(OBSERVE, request.SerializeToString()).status, 0)
        self.assertTrue(peer.wait_for(lambda: peer.received[stream] > received, 60))


if __name__ == "__main__":
    main()
