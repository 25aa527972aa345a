"""Header fields that HTTP/2 forbids, and fields that gRPC would print. malformed_headers_test.py CALIBD"""
from hostile_case import GET_MODEL, HostileCase, main
from http2_peer import (CONTINUATION, END_HEADERS, END_STREAM, HEADERS, Peer, frame, headers, literal,
                        message, request_block)

FORGED = b'{"time":"2026-01-01T00:00:00.000Z","level":"error","message":"the store is damaged"}'
PSEUDO = {b":method": b"POST", b":scheme": b"http", b":path": GET_MODEL, b":authority": b"localhost"}


def block(pseudo, *fields):
    return b"".join(literal(*field) for field in (*pseudo, (b"content-type", b"application/grpc"),
                                                  (b"te", b"trailers"), *fields))


class MalformedHeadersTest(HostileCase):
    def assert_closed(self, *frames):
        with Peer(self.server.grpc) as peer:
            try:
                peer.send(b"".join(frames))
            except ConnectionError:
                peer.closed = True
            self.assertTrue(peer.wait_closed(60))
            self.assertEqual(peer.endings, {})
            self.assertIn("malformed header fields", peer.goaway)

    def test_close_the_connection_before_a_call_is_served(self):
        ordered = list(PSEUDO.items())
        twice = {name: [*ordered, (name, value)] for name, value in ordered}
        missing = [[item for item in ordered if item[0] != name] for name in list(PSEUDO)[:3]]
        blocks = [block(pseudo) for pseudo in (*twice.values(), *missing)]
        blocks += [block(ordered, field) for field in (
            (b"X-Upper", b"1"), (b"connection", b"close"), (b"transfer-encoding", b"chunked"),
            (b"te", b"gzip"), (b":late", b"1"), (b":path", GET_MODEL), (b"x", b"a\nb"), (b"x\n", b"a"),
            (b"content-length", b"1000"), (b"content-length", b"x"))]
        blocks.append(block(ordered, (b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")))
        for one in blocks:
            with self.subTest(block=one):
                self.assert_closed(headers(1, one, END_HEADERS), frame(0, END_STREAM, 1, message(b"")))
        self.assert_closed(frame(HEADERS, 0, 1, request_block(GET_MODEL)),
                           frame(CONTINUATION, END_HEADERS | END_STREAM, 1, literal(b"upgrade", b"h2c")))
        self.assert_serves()

    def test_in_trailers_close_the_connection(self):
        self.assert_closed(headers(1, request_block(GET_MODEL)),
                           headers(1, literal(b"grpc-status", b"0\n" + FORGED), END_HEADERS | END_STREAM))
        self.assert_serves()

    def test_write_no_line_of_their_own_and_few_lines_into_the_log(self):
        # What gRPC 1.51 cannot read, it prints.
        fields = (b"te", b":method", b":scheme", b"content-type", b"grpc-timeout", b"grpc-encoding",
                  b"grpc-status", b"grpc-accept-encoding", b"grpc-previous-rpc-attempts")
        sent = 0
        for source, value in enumerate((b"x\n" + FORGED + b"\n", FORGED, b"\x80\xff" + FORGED), 1):
            for name in fields:
                for _ in range(20):
                    pseudo = [(key, value if key == name else old) for key, old in PSEUDO.items()]
                    more = () if name in PSEUDO else ((name, value),)
                    # One address may begin 300 handshakes of TLS at once.
                    with Peer(self.server.grpc, f"127.0.0.{source}") as peer:
                        peer.send(headers(1, b"".join(literal(*one) for one in (*pseudo, *more)),
                                          END_HEADERS | END_STREAM))
                        peer.wait_for(lambda peer=peer: peer.closed or peer.endings, 60)
                        sent += 1
        self.assert_serves()
        log = self.server.log()
        self.assertFalse([line for line in log.splitlines() if line.encode() == FORGED], log[:2000])
        self.assertLess(len(log.splitlines()), 40, log[:2000])
        self.assertEqual(sent, 540)


if __name__ == "__main__":
    main()
