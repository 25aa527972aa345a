"""Calls that are opened and ended at full speed. rapid_reset_test.py CALIBD"""
import itertools
import multiprocessing
import time

from hostile_case import CALL_MEMORY, GET_MODEL, MARGIN, HostileCase, Neighbour, main, wait_for
from http2_peer import (DATA, END_HEADERS, END_STREAM, HEADERS, Peer, frame, integer, literal,
                        message, prefix, reset, window_update)

INVALID_ARGUMENT = 3
FIELDS = ((b":authority", b"localhost"), (b":path", GET_MODEL),
          (b"content-type", b"application/grpc"), (b"te", b"trailers"))
# The header block of a connection's first call, and of all later ones, which refer to its fields:
# the newest one has the lowest index.
FIRST = b"\x83\x86" + b"".join(literal(*field, indexed=True) for field in FIELDS)
LATER = b"\x83\x86" + b"".join(integer(61 + i, 7, 0x80) for i in range(len(FIELDS), 0, -1))

# The frames with which the client has each of its calls end at once.
ATTACKS = {
    "reset": reset,
    "half a message, reset": lambda stream: frame(
        DATA, 0, stream, prefix(1000) + bytes(10)) + reset(stream),
    "a whole request, reset": lambda stream: frame(
        DATA, END_STREAM, stream, message(b"")) + reset(stream),
    # The server resets these itself.
    "window that overflows": lambda stream: window_update(stream, 2**31 - 1),
    "window that grows by nothing": lambda stream: window_update(stream, 0),
    "more calls than are allowed": lambda stream: b"",
}


def calls(end, count=200_000):
    """The bytes of so many calls, in pieces of 1000 calls."""
    return [b"".join(frame(HEADERS, END_HEADERS, stream, FIRST if stream == 1 else LATER) +
                     end(stream) for stream in range(begin, begin + 2000, 2))
            for begin in range(1, 2 * count, 2000)]


def attack(peer, pieces, seconds):
    """Sends them as fast as the server takes them; whether it closed the connection."""
    deadline = time.monotonic() + seconds
    try:
        for piece in itertools.takewhile(lambda _: time.monotonic() < deadline, pieces):
            peer.send(piece)
            peer.discard()
    except (ConnectionError, TimeoutError):
        pass
    while not peer.closed and time.monotonic() < deadline:
        peer.discard(0.1)
    return peer.closed


def return_always(address, source, deadline):
    """Attacks on one connection after the other. It runs in a process of its own."""
    pieces = calls(reset, 20_000)
    while time.monotonic() < deadline:
        try:
            with Peer(address, source) as peer:
                attack(peer, pieces, deadline - time.monotonic())
        except OSError:
            time.sleep(0.001)  # refused


class RapidResetTest(HostileCase):
    def test_of_the_client_closes_the_connection(self):
        self.check("reset")

    def test_of_any_kind_closes_the_connection(self):
        for name in ATTACKS.keys() - {"reset"}:
            with self.subTest(name):
                self.check(name)

    def check(self, name):
        pieces = calls(ATTACKS[name])
        with self.expect_memory(CALL_MEMORY + MARGIN), Neighbour(self.server.grpc) as near:
            # An address of its own, because one that attacked before may still be refused.
            source = f"127.0.1.{1 + list(ATTACKS).index(name)}"
            with Peer(self.server.grpc, source) as peer:
                closed = attack(peer, pieces, 60)
        self.assert_served_well(near)
        self.assertTrue(closed, "the connection stays open")

    def test_of_one_that_always_returns_does_not_hold_up_others(self):
        pieces = calls(reset, 20_000)
        deadline = time.monotonic() + 5
        with self.expect_memory(CALL_MEMORY + MARGIN), Neighbour(self.server.grpc) as near:
            while time.monotonic() < deadline:
                try:
                    with Peer(self.server.grpc, "127.0.0.2") as peer:
                        attack(peer, pieces, 1)
                except OSError:
                    pass  # refused
        self.assert_served_well(near)

    def test_of_four_connections_that_always_return_does_not_hold_up_others(self):
        self.check_returning(connections=4, addresses=1)

    def test_of_eight_connections_of_four_addresses_does_not_hold_up_others(self):
        self.check_returning(connections=8, addresses=4)

    def check_returning(self, connections, addresses):
        """Twenty seconds: each connection returns at once when it is closed."""
        resident = self.resident("VmRSS")
        deadline = time.monotonic() + 20
        sources = [f"127.0.0.{2 + i % addresses}" for i in range(connections)]
        attackers = [multiprocessing.get_context("fork").Process(
            target=return_always, args=(self.server.grpc, source, deadline)) for source in sources]
        for attacker in attackers:
            attacker.start()
        with self.expect_memory(CALL_MEMORY + MARGIN), Neighbour(self.server.grpc) as near:
            for attacker in attackers:
                attacker.join()
        self.assert_served_well(near)
        refused = next(line for line in self.metrics().splitlines()
                       if line.startswith('calibd_connections_closed_total{reason="address_refused"}'))
        self.assertGreater(int(refused.split()[-1]), 0, "no connection was refused")
        self.assertTrue(wait_for(lambda: self.resident("VmRSS") <= resident + MARGIN, 90),
                        "the memory is not returned")

    def test_an_address_is_served_again_when_grpc_has_ended_its_calls(self):
        with Peer(self.server.grpc, "127.0.0.2") as peer:
            self.assertTrue(attack(peer, calls(reset, 20_000), 60), "the connection stays open")
        start, waited = time.monotonic(), self.seconds_without_cpu()
        self.assertTrue(wait_for(lambda: self.is_served("127.0.0.2")))
        # If no end of a call were noticed, it would take 10 s to forget a half of them.
        self.assertLess(time.monotonic() - start, 8 + self.seconds_without_cpu() - waited)

    def is_served(self, source):
        try:
            with Peer(self.server.grpc, source) as peer:
                return peer.call(GET_MODEL) is not None
        except OSError:
            return False  # refused

    def test_does_not_delay_the_end(self):
        pieces = calls(reset)
        peers = [self.enterContext(Peer(self.server.grpc, f"127.0.0.{i + 2}")) for i in range(3)]
        for peer in peers:
            attack(peer, pieces, 2)
        self.expect_in_order(10)

    def test_a_client_that_cancels_500_calls_a_second_goes_on(self):
        """Ten seconds: a client that does what it may."""
        with Peer(self.server.grpc) as peer:
            start = time.monotonic()
            for i in range(5000):
                stream = peer.open(GET_MODEL)
                peer.data(stream, prefix(1000) + bytes(10))
                peer.send(reset(stream))
                peer.poll()
                if i % 100 == 0:
                    self.assertEqual(peer.call(GET_MODEL).status, INVALID_ARGUMENT)
                time.sleep(max(0, start + i / 500 - time.monotonic()))
            self.assertFalse(peer.closed)
            self.assertIsNone(peer.goaway)


if __name__ == "__main__":
    main()
