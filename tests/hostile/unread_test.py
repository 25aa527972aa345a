"""Clients that send half of what they announce, or do not read what they asked for.
unread_test.py CALIBD
"""
import time

from hostile_case import (BACKUP, CALL_MEMORY, CALL_SECONDS, LIST_MODELS, MARGIN, MIB, OBSERVE, VERIFY,
                          HostileCase, Neighbour, grpc, main,
                          store_service_pb2, store_service_pb2_grpc, wait_for)
from http2_peer import INITIAL_WINDOW_SIZE, MAX_FRAME, MAX_WINDOW, Peer, prefix, window_update

CONNECTIONS, CALLS = 40, 32
# Class names of 64 bytes: nine models are more than a page of ListModels holds, 1 MiB.
MODELS, CLASSES = 9, 2000


class Case(HostileCase):
    def connect(self, sources=CONNECTIONS, **options):
        """Yields connections from so many addresses, none of which is 127.0.0.1. Each is made when
        it is asked for: the server closes one that makes no call for some seconds."""
        for i in range(CONNECTIONS):
            yield self.enterContext(
                Peer(self.server.grpc, f"127.0.0.{2 + i % sources}", **options))

    def peers(self, **options):
        return list(self.connect(**options))

    def settle(self):
        """Waits until the server takes no more memory: peers that do not read see nothing else."""
        while True:
            before = self.resident("VmRSS")
            time.sleep(1)
            if self.resident("VmRSS") <= before + MIB:
                return

    def expect_recovery(self, peers):
        """When the attack is over, a new client is served."""
        for peer in peers:
            peer.close()
        self.assertTrue(wait_for(self.serves, 60))

    def serves(self):
        try:
            self.assert_serves()
            return True
        except grpc.RpcError:
            return False


class HalfSentTest(Case):
    def half_send_all(self, *what, sources=CONNECTIONS, **options):
        """The connections on which messages were sent in half."""
        peers = []
        for peer in self.connect(sources):
            try:
                self.half_send(peer, *what, **options)
            except ConnectionError:
                pass  # closed by the server
            peers.append(peer)
        return peers

    def half_send(self, peer, frame_size=MAX_FRAME, size=MIB - 1, calls=CALLS):
        """Sends as much of as many messages as the server takes."""
        for stream in [peer.open(OBSERVE) for _ in range(calls)]:
            if peer.closed:
                return
            peer.data(stream, prefix(MIB))
            sent = peer.upload(stream, size, 0.5, frame_size)
            if sent < size and stream not in peer.endings:
                return

    def test_messages_from_one_address_leave_room_for_others(self):
        with self.expect_memory(CALL_MEMORY + MARGIN), Neighbour(self.server.grpc) as near:
            peers = self.half_send_all(sources=1)
        self.assertEqual(near.errors, [])
        self.expect_recovery(peers)

    def test_messages_from_many_addresses_are_bounded_together(self):
        with self.expect_memory(CALL_MEMORY + MARGIN):
            peers = self.half_send_all()
        self.expect_recovery(peers)

    def test_messages_in_small_frames_are_bounded(self):
        """gRPC keeps up to 300 times the bytes of such a message."""
        for frame_size, size in ((1, 100_000), (32, 500_000)):
            with self.subTest(frame_size=frame_size):
                with self.expect_memory(CALL_MEMORY + MARGIN):
                    peers = self.half_send_all(frame_size, size, calls=6)
                self.expect_recovery(peers)


class UnreadResponsesTest(Case):
    def setUp(self):
        super().setUp()
        for i in range(MODELS):
            self.create_model(f"models/m{i}", class_count=CLASSES,
                              class_names=[f"{c:064}" for c in range(CLASSES)])

    def ask(self, peers):
        """The calls that were sent, by peer."""
        sent = {peer: [] for peer in peers}
        for peer, streams in sent.items():
            try:
                for _ in range(CALLS):
                    streams.append(peer.start(LIST_MODELS))
            except (ConnectionError, TimeoutError):
                pass
        return sent

    def ask_and_wait(self, peers):
        """Waits until the server has answered each call, or ended it, as far as the window lets
        it: metadata needs none."""
        for peer, streams in self.ask(peers).items():
            peer.wait_for(lambda: peer.answered | peer.endings.keys() >= set(streams), 60)
            self.assertTrue(peer.closed or peer.answered | peer.endings.keys() >= set(streams))

    def test_without_a_window_are_bounded(self):
        with self.expect_memory(CALL_MEMORY + MARGIN):
            peers = self.peers(options={INITIAL_WINDOW_SIZE: 0})
            self.ask_and_wait(peers)
        self.expect_recovery(peers)

    def test_without_a_window_of_one_address_leave_room_for_others(self):
        with self.expect_memory(CALL_MEMORY + MARGIN), Neighbour(self.server.grpc) as near:
            peers = self.peers(sources=1, options={INITIAL_WINDOW_SIZE: 0})
            self.ask_and_wait(peers)
        self.assertEqual(near.errors, [])
        self.expect_recovery(peers)

    def test_on_a_socket_that_is_not_read_are_bounded(self):
        with self.expect_memory(CALL_MEMORY + MARGIN):
            peers = self.peers(options={INITIAL_WINDOW_SIZE: MAX_WINDOW}, receive_buffer=4096)
            for peer in peers:
                peer.send(window_update(0, MAX_WINDOW - 65535))
            self.ask(peers)
            self.settle()
        self.expect_recovery(peers)


class MaintenanceTest(Case):
    def test_goes_on_beside_calls_that_are_not_read(self):
        self.create_model()
        store = store_service_pb2_grpc.StoreServiceStub(self.channel())
        for path in (BACKUP, VERIFY):
            with self.subTest(unread=path), Peer(self.server.grpc, "127.0.0.2",
                                                 {INITIAL_WINDOW_SIZE: 0}) as peer:
                stream = peer.start(path)
                # The server has seen the call: its initial metadata, or its end.
                peer.wait_for(lambda: peer.endings or peer.answered, 2)
                for call, request in ((store.Verify, store_service_pb2.VerifyRequest()),
                                      (store.Backup, store_service_pb2.BackupRequest())):
                    self.assertTrue(wait_for(lambda: self.finishes(call, request)),
                                    "the call is refused")
                self.assertNotIn(stream, peer.endings)

    def finishes(self, call, request):
        try:
            list(call(request, timeout=CALL_SECONDS))
            return True
        except grpc.RpcError as error:
            self.assertIn(error.code(), (grpc.StatusCode.RESOURCE_EXHAUSTED,
                                         grpc.StatusCode.DEADLINE_EXCEEDED))
            return False


if __name__ == "__main__":
    main()
