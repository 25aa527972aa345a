"""The HTTP endpoint and its peers. http_test.py CALIBD"""
import socket

from hostile_case import MIB, HostileCase, main, wait_for

END = b"\r\n\r\n"


class HttpCase(HostileCase):
    def connect(self, source="127.0.0.1"):
        host, port = self.server.http.rsplit(":", 1)
        return self.enterContext(socket.create_connection((host, int(port)), 60, (source, 0)))

    def ask(self, request, source="127.0.0.1"):
        """The whole response; empty when the server closes without one."""
        with self.connect(source) as connection:
            response = b""
            try:
                connection.sendall(request)
                while part := connection.recv(65536):
                    response += part
            except ConnectionError:
                pass
            return response.decode("latin-1")

    def get(self, path, *headers, version="1.1", source="127.0.0.1"):
        lines = (f"GET {path} HTTP/{version}", "Connection: close", *headers)
        return self.ask("\r\n".join(lines).encode("latin-1") + END, source)

    def status(self, response):
        return response.split(" ", 2)[1] if response.startswith("HTTP/1.") else response


class HalfSentRequestsTest(HttpCase):
    """The server closes a request that is not complete after five seconds. So an answer that comes
    while one is still open did not wait for them."""

    HALF = b"GET /metrics HTTP/1.1\r\nX: "
    # The server waits 30 s for the rest of a body.
    HALF_BODY = (b"POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 b"Content-Length: 10\r\n\r\n{")

    def half_send(self, source, half=HALF):
        connections = [self.connect(source) for _ in range(200)]
        for connection in connections:
            try:
                connection.sendall(half)
            except ConnectionError:
                pass  # evicted
        return connections[-1]

    def is_open(self, connection):
        connection.setblocking(False)
        try:
            connection.recv(1)
        except BlockingIOError:
            return True
        except ConnectionError:
            pass
        return False

    def assert_answered_beside(self, hold, paths):
        """Each request is answered while the connection that hold() returns is open. On a busy
        machine that may take several attempts."""
        def answers():
            newest = hold()
            for path in paths:
                self.assertEqual(self.status(self.get(path, "Host: localhost")), "200")
            return self.is_open(newest)
        self.assertTrue(wait_for(answers, 60), "the answers come when the requests have ended")

    def test_do_not_block_health(self):
        for source in ("127.0.0.2", "127.0.0.1"):
            self.assert_answered_beside(lambda: self.half_send(source), ("/healthz", "/readyz") * 5)

    def test_leave_metrics_to_other_addresses(self):
        self.assert_answered_beside(lambda: self.half_send("127.0.0.2"), ("/metrics",))

    def test_half_sent_bodies_of_two_addresses_do_not_block_others(self):
        def hold():
            self.half_send("127.0.0.2", self.HALF_BODY)
            return self.half_send("127.0.0.3", self.HALF_BODY)
        self.assert_answered_beside(hold, ("/metrics", "/v1/models"))

    def test_requests_one_byte_at_a_time_do_not_block_health(self):
        def drip():
            slow = [self.connect("127.0.0.2") for _ in range(64)]
            for _ in range(30):
                for connection in slow:
                    try:
                        connection.send(b"G")
                    except ConnectionError:
                        pass
                self.assertEqual(self.status(self.get("/healthz", "Host: localhost")), "200")
            return slow[-1]
        self.assert_answered_beside(drip, ("/healthz",))


class HostTest(HttpCase):
    def test_of_an_address_or_localhost_is_served(self):
        for host in ("127.0.0.1", self.server.http, "localhost", "localhost:8461", "LOCALHOST",
                     "10.1.2.3:80", "[::1]", "[::1]:8461", "[fe80::1]"):
            with self.subTest(host):
                self.assertEqual(self.status(self.get("/metrics", f"Host: {host}")), "200")

    def test_of_another_name_is_refused(self):
        for host in ("attacker.example", "attacker.example:8461", "localhost.attacker.example",
                     "127.0.0.1.attacker.example", "127.0.0.1@attacker.example", "xlocalhost",
                     "0x7f000001", "127.1", "[::1].attacker.example", "localhost:8461:1"):
            for path in ("/metrics", "/healthz", "/nothing"):
                with self.subTest(host, path=path):
                    self.assertIn(self.status(self.get(path, f"Host: {host}")), ("403", "400"))
        self.assertEqual(self.status(self.get("/metrics", "Host: attacker.example")), "403")

    def test_of_the_request_line_or_twice_does_not_help(self):
        response = self.get("http://attacker.example/metrics", "Host: localhost")
        self.assertNotEqual(self.status(response), "200")
        response = self.get("/metrics", "Host: localhost", "Host: attacker.example")
        self.assertIn(self.status(response), ("400", "403"))
        response = self.get("/metrics", "Host: attacker.example", "Host: localhost")
        self.assertIn(self.status(response), ("400", "403"))

    def test_missing_is_for_old_clients_alone(self):
        self.assertEqual(self.status(self.get("/healthz", version="1.0")), "200")
        self.assertEqual(self.status(self.get("/healthz")), "400")


class ConfiguredHostTest(HttpCase):
    arguments = ("--http-hosts", "calibd.example,metrics.example")

    def test_is_served(self):
        for host in ("calibd.example", "METRICS.example:80", "localhost"):
            self.assertEqual(self.status(self.get("/metrics", f"Host: {host}")), "200")
        self.assertEqual(self.status(self.get("/metrics", "Host: other.example")), "403")


class MalformedRequestTest(HttpCase):
    def test_gets_400(self):
        host = b"Host: localhost\r\n"
        for request in (b"\0\0\0\0" + END, b"hello" + END, b"GET\r\n" + host + END,
                        b"GET / HTTP/9.9\r\n" + host + END, b"GET / HTCPCP/1.0\r\n" + host + END,
                        b"GET /a b HTTP/1.1\r\n" + host + END,
                        b"GET / HTTP/1.1\r\nno colon\r\n" + END,
                        b"GET / HTTP/1.1\r\n: no name\r\n" + END,
                        b"GET / HTTP/1.1\r\nHost : localhost" + END,
                        b"GET / HTTP/1.1\r\nX: \0\r\n" + host + END,
                        b"GET / HTTP/1.1\r\n" + host + b"Content-Length: x" + END,
                        b"GET / HTTP/1.1\r\n" + host + b"Content-Length: -1" + END,
                        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + END):
            with self.subTest(request=request[:40]):
                self.assertEqual(self.status(self.ask(request)), "400")
        self.assertEqual(self.status(self.get("/healthz", "Host: localhost")), "200")


class BodyMemoryTest(HttpCase):
    """What is parsed takes no more memory than --call-memory-bytes, whatever it consists of."""

    LIMIT = 64 * MIB
    arguments = ("--max-message-bytes", str(8 * MIB), "--call-memory-bytes", str(LIMIT))
    EVENT = b"ce-id: 1\r\nce-type: x.response\r\n"

    def post(self, path, body, headers=b""):
        return self.ask(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        b"Connection: close\r\n%sContent-Length: %d\r\n\r\n%s"
                        % (path, headers, len(body), body))

    def test_is_limited(self):
        self.create_model(label_grace={"seconds": 3600})
        # A margin for what the allocator keeps.
        with self.expect_memory(self.LIMIT + 16 * MIB):
            self.send_hostile_bodies()

    def send_hostile_bodies(self):
        observe, create, infer = b"/v1/models/m:observe", b"/v1/models", b"/v1/models/m:inference"
        update = b"/v1/models/m:update"
        for path, begin, element, end, headers in (
                (observe, b'{"observations":{"predictionIds":[', b'"",', b'""]}}', b""),
                (observe, b'{"observations":{"probabilities":{"values":[', b"1,", b"1]}}}", b""),
                (create, b'{"model":{"kernel":{"matrix":{"terms":[', b"{},", b"{}]}}}}", b""),
                (update, b'{"updateMask":"a(', b"a(", b'"}', b""),
                (update, b'{"updateMask":"a(', b"a\\u0028", b'"}', b""),
                (update, b'{"updateMask":"' + b"a" * 500000 + b"(", b"a,", b'"}', b""),
                (update, b"{updateMask:'" + b"a" * 500000 + b"(", b"a\\u002C", b"'}", b""),
                (infer, b'{"predictions":[', b"{},", b"{}]}", self.EVENT),
                (infer, b"", b"\x2a\x02\x22\x00", b"", self.EVENT)):
            # The largest that are parsed, and larger ones.
            for size, expected in ((LARGEST[path], "400"), (8 * MIB, "429")):
                with self.subTest(path, begin=begin, size=size):
                    body = begin + element * ((size - len(begin + end)) // len(element)) + end
                    self.assertEqual(self.status(self.post(path, body, headers)), expected)


# Bodies that take just less than the limit with what is reserved for them.
LARGEST = {path: BodyMemoryTest.LIMIT // parts for path, parts in (
    (b"/v1/models/m:observe", 33), (b"/v1/models/m:update", 33), (b"/v1/models", 33),
    (b"/v1/models/m:inference", 65))}


if __name__ == "__main__":
    main()
