"""Header blocks that are too large, encoded or decoded. header_block_test.py CALIBD"""
import time

from hostile_case import CALL_MEMORY, GET_MODEL, MARGIN, MIB, HostileCase, main
from http2_peer import (CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, MAX_FRAME, Peer,
                        frame, headers, integer, literal, message, request_block)

LIMIT = 16 << 10
INVALID_ARGUMENT, RESOURCE_EXHAUSTED = 3, 8
# 64 fields of some 40 bytes as they are encoded, so many that a frame is full.
SMALL_LITERALS = b"".join(literal(b"x-%03d" % (i % 1000), b"v" * 32) for i in range(1000))[:16000]


def flood(peer, size, piece, seconds=60):
    """Sends a piece again and again, until so many bytes are sent; whether the server closed."""
    data = piece * (MIB // len(piece))
    deadline = time.monotonic() + seconds
    try:
        for _ in range(size // len(data)):
            peer.send(data)
            peer.discard()
            if time.monotonic() > deadline:
                break
    except (ConnectionError, TimeoutError):
        pass
    while not peer.closed and time.monotonic() < deadline:
        peer.discard(0.1)
    return peer.closed


class HeaderBlockTest(HostileCase):
    def peer(self, source="127.0.0.1"):
        return Peer(self.server.grpc, source, acknowledge=False)

    def check(self, begin, piece, size=200 * MIB, connections=1):
        with self.expect_memory(CALL_MEMORY + MARGIN):
            for i in range(connections):
                with self.subTest(connection=i), self.peer(f"127.0.0.{i + 2}") as peer:
                    peer.send(begin)
                    self.assertTrue(flood(peer, size, piece), "the connection stays open")
        self.assert_serves()

    def test_of_endless_small_literals(self):
        self.check(frame(HEADERS, 0, 1, request_block(GET_MODEL)),
                   frame(CONTINUATION, 0, 1, SMALL_LITERALS))

    def test_of_endless_small_literals_on_five_connections(self):
        self.check(frame(HEADERS, 0, 1, request_block(GET_MODEL)),
                   frame(CONTINUATION, 0, 1, SMALL_LITERALS), 40 * MIB, connections=5)

    def test_of_one_endless_literal(self):
        self.check(frame(HEADERS, 0, 1, request_block(GET_MODEL) + b"\x00" + integer(3, 7) +
                         b"x-a" + integer(200 * MIB, 7)),
                   frame(CONTINUATION, 0, 1, b"v" * MAX_FRAME))

    def test_of_one_endless_name(self):
        self.check(frame(HEADERS, 0, 1, request_block(GET_MODEL) + b"\x00" +
                         integer(200 * MIB, 7)),
                   frame(CONTINUATION, 0, 1, b"v" * MAX_FRAME))

    def test_of_endless_empty_frames(self):
        self.check(frame(HEADERS, 0, 1, request_block(GET_MODEL)), frame(CONTINUATION, 0, 1),
                   10 * MIB)

    def test_of_endless_trailers(self):
        self.check(headers(1, request_block(GET_MODEL)) + frame(DATA, 0, 1, message(b"")) +
                   frame(HEADERS, END_STREAM, 1, literal(b"x-first", b"")),
                   frame(CONTINUATION, 0, 1, SMALL_LITERALS))

    def test_of_references_to_one_large_field(self):
        """Each byte of the block stands for a field of 4000 bytes."""
        with self.expect_memory(CALL_MEMORY + MARGIN), self.peer() as peer:
            peer.send(headers(1, request_block(GET_MODEL) +
                              literal(b"x-bomb", b"v" * 4000, indexed=True)))
            try:
                for stream in range(3, 63, 2):
                    peer.send(headers(stream, request_block(GET_MODEL) + b"\xbe" * 15000))
                    peer.discard()
            except ConnectionError:
                peer.closed = True
            self.assertTrue(peer.wait_closed(10))
        self.assert_serves()

    def test_is_cut_at_its_limit(self):
        """Without an end of the block: 1 KiB below the limit it may go on, 1 KiB above not."""
        begin = request_block(GET_MODEL) + literal(b"x-large", b"v" * 14800)
        self.assertLess(len(begin), LIMIT - 1024)
        with self.peer() as peer:
            peer.send(frame(HEADERS, 0, 1, begin))
            self.assertFalse(peer.wait_closed(1))
            peer.send(frame(CONTINUATION, 0, 1, literal(b"x-more", b"v" * 2048)))
            self.assertTrue(peer.wait_closed(10))

    def test_of_9_kib_ends_its_call(self):
        with Peer(self.server.grpc) as peer:
            stream = peer.open(GET_MODEL, (b"x-large", b"v" * 9000))
            peer.data(stream, message(b""), END_STREAM)
            self.assertEqual(peer.ending(stream).status, RESOURCE_EXHAUSTED)

    def test_in_small_pieces_is_taken(self):
        block = request_block(GET_MODEL)
        size = len(block) // 15
        pieces = [block[i:i + size] for i in range(0, len(block), size)]
        with Peer(self.server.grpc) as peer:
            peer.send(frame(HEADERS, 0, 1, pieces[0]))
            for piece in pieces[1:]:
                peer.send(frame(CONTINUATION, 0, 1, piece))
            peer.send(frame(CONTINUATION, END_HEADERS, 1))
            peer.data(1, message(b""), END_STREAM)
            self.assertEqual(peer.ending(1).status, INVALID_ARGUMENT)


if __name__ == "__main__":
    main()
