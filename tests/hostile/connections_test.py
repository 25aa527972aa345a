"""Many connections that do nothing, or little. connections_test.py CALIBD"""
import collections
import contextlib
import socket
import subprocess
import time

from hostile_case import (CALL_MEMORY, CALL_SECONDS, GET_MODEL, HEALTH, LIST_MODELS, MARGIN,
                          HostileCase, Neighbour, grpc, main, model_service_pb2,
                          model_service_pb2_grpc, wait_for)
from http2_peer import (DATA, END_STREAM, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, PRIORITY,
                        SETTINGS, Peer, frame, headers, message, prefix, request_block, settings)

CROWD = 1000
DEADLINE_EXCEEDED = 4
HELLO = PREFACE + settings({})


class Case(HostileCase):
    def crowd(self, count, source, hello=HELLO):
        """So many connections that say hello and nothing more."""
        peers = []
        for _ in range(count):
            try:
                peers.append(self.enterContext(Peer(self.server.grpc, source, start=False)))
                peers[-1].send(hello)
            except ConnectionError:
                pass  # refused
        return peers

    def call(self, source, path=LIST_MODELS):
        """The ending of a call that succeeds on a new connection, else None."""
        try:
            with Peer(self.server.grpc, source) as peer:
                ending = peer.call(path)
                return ending if ending is not None and ending.status == 0 else None
        except ConnectionError:
            return None


    def assert_gets_in(self, source, path):
        """Ten calls on connections of their own, each after a few attempts at most."""
        for _ in range(10):
            self.assertTrue(wait_for(lambda: self.call(source, path)), "is always closed")

    def churn(self, sources, seconds):
        """Connections that come as fast as they are closed; yields between them."""
        deadline = time.monotonic() + seconds
        held = collections.deque()
        while time.monotonic() < deadline:
            for source in sources:
                held.extend(self.crowd(50, source))
            while len(held) > CROWD:
                held.popleft().close()
            yield


class IdleCrowdTest(Case):
    def test_leaves_room_for_other_addresses(self):
        with self.expect_memory(CALL_MEMORY + MARGIN):
            self.crowd(CROWD, "127.0.0.2")
            for i in range(80):
                self.assertIsNotNone(self.call(f"127.0.0.{3 + i}"), f"connection {i} is closed")
            self.assert_serves()

    def test_of_many_addresses_leaves_room_for_others(self):
        for i in range(50):
            self.crowd(CROWD // 50, f"127.0.1.{1 + i}")
        for i in range(80):
            self.assert_gets_in(f"127.0.0.{3 + i}", LIST_MODELS)

    def test_lets_health_checks_of_its_own_address_in(self):
        self.crowd(CROWD, "127.0.0.1")
        self.assert_gets_in("127.0.0.1", HEALTH)
        check = [self.binary, "healthcheck", "--listen", self.server.grpc, *self.tls_arguments]
        # With TLS, the handshakes of the address may be used up for a moment.
        self.assertTrue(wait_for(lambda: subprocess.run(check, timeout=60, check=False).returncode == 0))

    def test_that_always_returns_lets_health_checks_and_others_in(self):
        calls = {"127.0.0.2": HEALTH, "127.0.0.9": LIST_MODELS}
        answered = {source: [] for source in calls}
        for _ in self.churn(["127.0.0.2", "127.0.0.3", "127.0.0.4"], 4):
            for source, path in calls.items():
                answered[source].append(self.call(source, path) is not None)
        for source in calls:
            with self.subTest(source):
                # A client tries three times before it gives up.
                self.assertNotIn((False,) * 3, zip(answered[source], answered[source][1:],
                                                   answered[source][2:]))

    def test_ends_soon(self):
        peers = self.crowd(100, "127.0.0.2")
        used = self.enterContext(Peer(self.server.grpc, "127.0.0.2"))
        self.assertEqual(used.call(LIST_MODELS).status, 0)
        deadline = time.monotonic() + 60
        for peer in peers:
            while not peer.closed and time.monotonic() < deadline:
                peer.discard(0.1)
            self.assertTrue(peer.closed, "a connection without a call stays open")
        # One that made a call may wait for its next.
        self.assertEqual(used.call(LIST_MODELS).status, 0)


class HalfSentCrowdTest(Case):
    """Calls that have sent no whole message keep neither others out nor the server from ending."""

    def test_leaves_room_for_other_addresses(self):
        block = request_block(GET_MODEL)
        starts = {"headers": headers(1, block), "half headers": frame(HEADERS, 0, 1, block[:20]),
                  "half a message": headers(1, block) + frame(DATA, 0, 1, prefix(100) + b"half")}
        for name, start in starts.items():
            with self.subTest(name):
                peers = [peer for source in ("127.0.0.2", "127.0.0.3")
                         for peer in self.crowd(300, source, HELLO + start)]
                self.assert_gets_in("127.0.0.4", LIST_MODELS)
                for peer in peers:
                    peer.close()

    def test_ends_soon(self):
        peer = self.enterContext(Peer(self.server.grpc))
        start = time.monotonic()
        ending = peer.ending(peer.open(GET_MODEL))
        self.assertEqual(ending.status, DEADLINE_EXCEEDED)
        self.assertGreater(time.monotonic() - start, 14)
        # The connection serves other calls.
        self.assertEqual(peer.call(LIST_MODELS).status, 0)


class BusyCrowdTest(Case):
    """All connections of an address have a call that waits for its client: none of them is idle."""

    def test_lets_health_checks_of_its_own_address_in(self):
        self.busy_crowd("127.0.0.2", CROWD)
        self.assert_gets_in("127.0.0.2", HEALTH)
        self.assert_gets_in("127.0.0.3", LIST_MODELS)

    def test_of_many_addresses_lets_health_checks_in(self):
        for i in range(10):
            self.busy_crowd(f"127.0.1.{1 + i}", CROWD // 10)
        self.assert_gets_in("127.0.0.2", HEALTH)

    def busy_crowd(self, source, count):
        return self.crowd(count, source, PREFACE + settings({INITIAL_WINDOW_SIZE: 0}) + headers(
            1, request_block(LIST_MODELS)) + frame(DATA, END_STREAM, 1, message(b"")))


class WatchingCrowdTest(Case):
    """Calls of the health service that never end, on more connections than may be open."""

    arguments = ("--max-connections", "20")

    def test_lets_health_checks_in(self):
        for _ in range(60):
            try:
                peer = self.enterContext(Peer(self.server.grpc, "127.0.0.2"))
                watch = peer.start(b"/grpc.health.v1.Health/Watch")
                peer.wait_for(lambda: watch in peer.answered, 1)
            except ConnectionError:
                pass  # refused
        self.assert_gets_in("127.0.0.2", HEALTH)
        self.assert_gets_in("127.0.0.3", LIST_MODELS)


class EvictedCase(Case):
    """hostile.tls has a test with few handshakes: those of one address are limited."""

    def setUp(self):
        if self.tls_arguments:
            self.skipTest("an address with so many handshakes is refused for a moment")
        super().setUp()


class EvictedClientTest(EvictedCase):
    """A channel whose idle connection the server closes makes its next call without an error."""

    def test_calls_again_without_an_error(self):
        channel = self.channel()
        models = model_service_pb2_grpc.ModelServiceStub(channel)
        request = model_service_pb2.ListModelsRequest(page_size=1)
        states = []
        channel.subscribe(states.append)
        models.ListModels(request, timeout=CALL_SECONDS)
        self.assertTrue(wait_for(lambda: grpc.ChannelConnectivity.READY in states))
        for _ in range(2):
            states.clear()
            peers = self.crowd(CROWD, "127.0.0.1")
            self.assertTrue(wait_for(lambda: states), "the connection was not closed")
            for peer in peers:
                peer.close()
            models.ListModels(request, timeout=CALL_SECONDS)

    def test_calls_while_connections_come_and_go(self):
        with Neighbour(self.server.grpc) as near:
            deadline = time.monotonic() + 3
            while time.monotonic() < deadline:
                for peer in self.crowd(100, "127.0.0.1"):
                    peer.close()
        self.assertEqual(near.errors, [])
        self.assertGreater(len(near.latencies), 10)


class EvictedBetweenCallsTest(EvictedCase):
    """Channels that call all the time, on connections that the server evicts all the time."""

    CHANNELS = 2
    arguments = ("--max-connections-per-address", str(CHANNELS))

    def test_no_call_fails(self):
        with contextlib.ExitStack() as stack:
            near = [stack.enter_context(Neighbour(self.server.grpc, pause=0))
                    for _ in range(self.CHANNELS)]
            for _ in range(200):
                # gRPC repeats a refused call once: it must succeed before the next eviction.
                ended = [len(one.latencies) for one in near]
                self.assertTrue(wait_for(lambda: any(one.errors for one in near) or all(
                    len(one.latencies) >= before + 2 for one, before in zip(near, ended))))
                if any(one.errors for one in near):
                    break
                with Peer(self.server.grpc, start=False) as peer:
                    peer.socket.shutdown(socket.SHUT_WR)
                    while not peer.closed:
                        peer.discard(1)
        self.assertEqual([one.errors for one in near], [[]] * self.CHANNELS)


class FloodTest(Case):
    """Frames that cost the server an answer or nothing, as fast as it takes them, answers unread."""

    def test_of_small_frames_does_not_hold_up_others(self):
        block = headers(1, request_block(GET_MODEL))
        floods = {
            "ping": b"".join(frame(PING, 0, 0, i.to_bytes(8, "big")) for i in range(1000)),
            "settings": settings({4: 65535}) * 1000,
            "empty data": frame(DATA, 0, 1) * 1000,
            "priority": b"".join(frame(PRIORITY, 0, 2 * i + 1, bytes(4) + b"\x10")
                                 for i in range(1000)),
            "unknown": frame(0xee, 0, 0, bytes(100)) * 1000,
            "even stream": frame(HEADERS, 5, 2, request_block(GET_MODEL)) * 100,
            "settings of many values": frame(
                SETTINGS, 0, 0, bytes.fromhex("00ee00000000") * 2700) * 10,
        }
        for i, (name, piece) in enumerate(floods.items()):
            with self.subTest(name), self.expect_memory(CALL_MEMORY + MARGIN):
                # An address that has flooded the server is refused for a while.
                with Neighbour(self.server.grpc) as near, \
                        Peer(self.server.grpc, f"127.0.0.{2 + i}") as peer:
                    peer.socket.settimeout(1)
                    deadline = time.monotonic() + 1
                    try:
                        peer.send(block)
                        while time.monotonic() < deadline:
                            peer.send(piece)
                    except (ConnectionError, TimeoutError):
                        pass
                self.assert_served_well(near)


if __name__ == "__main__":
    main()
