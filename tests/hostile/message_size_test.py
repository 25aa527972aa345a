"""A message is refused by its declared length, before its bytes come.
message_size_test.py CALIBD
"""
import threading

from hostile_case import (CALL_MEMORY, CALL_SECONDS, GET_MODEL, MARGIN, MIB, OBSERVE,
                          STREAM_OBSERVATIONS, HostileCase, grpc, main, model_service_pb2,
                          model_service_pb2_grpc, wait_for)
from http2_peer import DATA, END_STREAM, PADDED, Peer, frame, message, prefix

RESOURCE_EXHAUSTED, INVALID_ARGUMENT = 8, 3
LIMIT = 1 << 20
HUGE = 2**32 - 1
REFUSED_ANYHOW = ("padded", "one byte a frame, padded", "with padding alone before",
                  "said to be compressed", "behind another message")


def padded(stream, data, padding):
    return frame(DATA, PADDED, stream, bytes((padding,)) + data + bytes(padding))


def shapes(stream, length):
    """Name and frames, for each way to send the prefix of a message."""
    declared = prefix(length)
    single = b"".join(frame(DATA, 0, stream, declared[i:i + 1]) for i in range(5))
    empty = frame(DATA, 0, stream)
    return {
        "whole": frame(DATA, 0, stream, declared),
        "one byte a frame": single,
        "with empty frames between": (empty * 3).join(
            [frame(DATA, 0, stream, declared[:2]), frame(DATA, 0, stream, declared[2:])]),
        "padded": padded(stream, declared, 200),
        "one byte a frame, padded": b"".join(
            padded(stream, declared[i:i + 1], i) for i in range(5)),
        "with padding alone before": padded(stream, b"", 255) + frame(DATA, 0, stream, declared),
        "said to be compressed": frame(DATA, 0, stream, prefix(length, compressed=1)),
        "behind another message": frame(DATA, 0, stream, message(b"") + declared),
    }


class DeclaredLengthTest(HostileCase):
    def test_is_refused_before_the_bytes_come(self):
        with Peer(self.server.grpc) as peer:
            for length in (LIMIT + 1, HUGE):
                for name in shapes(0, length):
                    with self.subTest(length=length, shape=name):
                        stream = peer.open(STREAM_OBSERVATIONS)
                        peer.send(shapes(stream, length)[name])
                        ending = peer.ending(stream)
                        self.assertIsNotNone(ending, "the server waits for the message")
                        # gRPC refuses padding and compression by themselves, in other words.
                        if name not in REFUSED_ANYHOW:
                            self.assertEqual(ending.status, RESOURCE_EXHAUSTED)
                            self.assertIn(str(LIMIT), ending.message)
                        # Other calls of the connection go on.
                        self.assertEqual(peer.call(GET_MODEL).status, INVALID_ARGUMENT)

    def test_of_the_limit_is_taken(self):
        with Peer(self.server.grpc) as peer:
            stream = peer.open(OBSERVE)
            peer.data(stream, prefix(LIMIT))
            self.assertEqual(peer.upload(stream, LIMIT, 10), LIMIT)
            peer.data(stream, flags=END_STREAM)
            self.assertNotIn(peer.ending(stream).status, (None, RESOURCE_EXHAUSTED))

    def test_of_4_gb_takes_no_memory(self):
        with self.expect_memory(CALL_MEMORY + MARGIN), Peer(self.server.grpc) as peer:
            stream = peer.open(OBSERVE)
            peer.data(stream, prefix(HUGE))
            self.assertLess(peer.upload(stream, 2000 * MIB, 4), 16 * MIB)
        self.assert_serves()

    def test_of_4_gb_on_all_calls_of_many_connections_takes_no_memory(self):
        with self.expect_memory(MARGIN):
            peers = [self.enterContext(Peer(self.server.grpc, f"127.0.0.{i + 2}"))
                     for i in range(8)]
            for peer in peers:
                for stream in [peer.open(OBSERVE) for _ in range(32)]:
                    peer.data(stream, prefix(HUGE))
                    peer.upload(stream, 4 * MIB, 1)
        self.assert_serves()


class SmallBudgetTest(HostileCase):
    arguments = ("--call-memory-bytes", str(16 * MIB))

    def test_bounds_memory(self):
        with self.expect_memory(16 * MIB + MARGIN), Peer(self.server.grpc) as peer:
            stream = peer.open(OBSERVE)
            peer.data(stream, prefix(HUGE))
            peer.upload(stream, 1000 * MIB, 3)
        self.assert_serves()


class OrdinaryClientTest(HostileCase):
    def test_is_told_the_limit_and_its_other_calls_go_on(self):
        channel = self.channel()
        models = model_service_pb2_grpc.ModelServiceStub(channel)
        request = model_service_pb2.ListModelsRequest(page_size=1)
        models.ListModels(request, timeout=CALL_SECONDS)
        errors, calls, done = [], [], threading.Event()

        def call():
            while not done.wait(0.005):
                try:
                    models.ListModels(request, timeout=CALL_SECONDS)
                    calls.append(1)
                except grpc.RpcError as error:
                    errors.append(error)

        other = threading.Thread(target=call)
        other.start()
        observe = channel.unary_unary(OBSERVE.decode())
        try:
            with self.expect_memory(MARGIN):
                for _ in range(2):
                    with self.assertRaises(grpc.RpcError) as caught:
                        observe(bytes(300 * MIB), timeout=60)
                    self.assertEqual(caught.exception.code(),
                                     grpc.StatusCode.RESOURCE_EXHAUSTED)
                    self.assertIn(str(LIMIT), caught.exception.details())
            self.assertTrue(wait_for(lambda: errors or len(calls) >= 20))
        finally:
            done.set()
            other.join()
        self.assertEqual(errors, [])


if __name__ == "__main__":
    main()
