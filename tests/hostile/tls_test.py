"""TLS of both ports against real peers: certificates, versions, handshakes, rotation. tls_test.py CALIBD"""
import contextlib
import http.client
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

from hostile_case import (CALL_SECONDS, Authority, CalibdServer, HostileCase, calibration_service_pb2,
                          calibration_service_pb2_grpc, grpc, main, model_service_pb2,
                          model_service_pb2_grpc, wait_for)

CLIENT = "spiffe://calibd.test/ns/fraud/sa/batch"


def setUpModule():
    folder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(folder.cleanup)
    Files.folder = folder.name
    Files.authority = Authority(folder.name, "authority")
    Files.foreign_authority = Authority(folder.name, "foreign")
    Files.server = Files.authority.issue("server", names=["DNS:localhost", "IP:127.0.0.1"])
    Files.client = Files.authority.issue("client", names=[f"URI:{CLIENT}"], usage="clientAuth")


class Files:
    """The certificates of all tests, as pairs of (certificate, key)."""


class TlsCase(unittest.TestCase):
    """Each test has a server of its own, with copies of the files."""

    arguments = ("--tls-client-ca",)

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.certificate, self.key = f"{folder}/server.pem", f"{folder}/server.key"
        shutil.copy(Files.server[0], self.certificate)
        shutil.copy(Files.server[1], self.key)
        os.chmod(self.key, 0o600)
        self.tls = ["--tls-certificate", self.certificate, "--tls-key", self.key]
        if self.arguments:
            self.tls += [self.arguments[0], Files.authority.certificate, *self.arguments[1:]]
        self.server = self.enterContext(CalibdServer(HostileCase.binary, *self.tls))

    def context(self, pair=None, protocols=("h2",)):
        context = ssl.create_default_context(cafile=Files.authority.certificate)
        if protocols:
            context.set_alpn_protocols(protocols)
        if pair is not None:
            context.load_cert_chain(*pair)
        return context

    def connect(self, address, context):
        """A connection after the client's side of the handshake."""
        host, port = address.rsplit(":", 1)
        with contextlib.ExitStack() as stack:
            plain = stack.enter_context(socket.create_connection((host, int(port)), timeout=CALL_SECONDS))
            wrapped = self.enterContext(context.wrap_socket(plain, server_hostname=host))
            stack.pop_all()
        return wrapped

    def channel(self, pair=None):
        read = [path.read_bytes() for path in reversed(pair)] if pair else []
        credentials = grpc.ssl_channel_credentials(Files.authority.certificate.read_bytes(), *read)
        return self.enterContext(grpc.secure_channel(
            self.server.grpc, credentials, options=[("grpc.use_local_subchannel_pool", 1)]))

    def call(self, pair=None):
        """The code of a call of gRPC."""
        try:
            model_service_pb2_grpc.ModelServiceStub(self.channel(pair)).ListModels(
                model_service_pb2.ListModelsRequest(page_size=1), timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK

    def get(self, path, pair=None):
        """The response to a request of HTTP, and its body."""
        host, port = self.server.http.rsplit(":", 1)
        connection = http.client.HTTPSConnection(host, int(port), timeout=CALL_SECONDS,
                                                 context=self.context(pair, ("http/1.1",)))
        with contextlib.closing(connection):
            connection.request("GET", path)
            response = connection.getresponse()
            return response, response.read().decode()

    def failures(self, reason):
        """How many connections TLS has refused for this reason."""
        _, text = self.get("/metrics", Files.client)
        return int(re.search(rf'calibd_tls_failures_total{{reason="{reason}"}} (\d+)', text)[1])

    def assert_counted(self, reason, before):
        """More connections than `before` are refused for this reason, once the server has counted them."""
        self.assertTrue(wait_for(lambda: self.failures(reason) > before, CALL_SECONDS))

    def assert_serves(self):
        self.assertEqual(self.call(Files.client), grpc.StatusCode.OK)


class MutualTest(TlsCase):
    def test_serves_clients_with_a_certificate(self):
        self.assert_serves()
        response, _ = self.get("/", Files.client)
        self.assertEqual(response.status, 200)
        self.assertEqual(response.headers["Strict-Transport-Security"], "max-age=31536000")
        _, metrics = self.get("/metrics", Files.client)
        end = float(re.search(r"^calibd_tls_certificate_expiry_timestamp_seconds (\S+)", metrics, re.M)[1])
        self.assertAlmostEqual(end - time.time(), 30 * 86400, delta=86400)

    def test_refuses_other_certificates(self):
        authority = Files.authority
        refused = {
            "foreign": (Files.foreign_authority.issue("stranger", names=[f"URI:{CLIENT}"]),
                        "certificate_refused"),
            "expired": (authority.issue("late", names=[f"URI:{CLIENT}"], days=-1), "certificate_refused"),
            "without a name": (authority.issue("nameless"), "certificate_refused"),
            "of a name with a space": (authority.issue("space", names=["URI:spiffe://a/b c"]),
                                       "certificate_refused"),
            # Such a URI would look like the name of a host.
            "of a URI dns:": (authority.issue("uri", names=["URI:dns:fraud.corp"]), "certificate_refused"),
            "of a server": (authority.issue("usage", names=["DNS:a.b"], usage="serverAuth"),
                            "certificate_refused"),
            "missing": (None, "no_certificate"),
        }
        for name, (pair, reason) in refused.items():
            with self.subTest(name):
                before = self.failures(reason)
                self.assertEqual(self.call(pair), grpc.StatusCode.UNAVAILABLE)
                self.assert_counted(reason, before)
                before = self.failures(reason)
                with self.assertRaises(OSError):
                    self.get("/healthz", pair)
                self.assert_counted(reason, before)
        self.assertIn("a TLS connection was closed: certificate_refused, ", self.server.log())
        self.assert_serves()

    def test_a_long_chain_is_refused(self):
        certificate, key = Files.client
        other = Files.authority.certificate.read_text()
        size = len(ssl.PEM_cert_to_DER_cert(other))
        for kib, served in ((24, True), (40, False)):
            with self.subTest(kib):
                chain = certificate.with_name(f"chain-{kib}.pem")
                chain.write_text(certificate.read_text() + other * (kib * 1024 // size))
                for address, protocol in ((self.server.grpc, "h2"), (self.server.http, "http/1.1")):
                    self.assertEqual(self.answers(address, self.context((chain, key), (protocol,))), served)
        self.assertEqual(self.failures("handshake_failed"), 2)

    def answers(self, address, context):
        """Whether the server speaks to a client after the handshake. It has the certificate by then."""
        with contextlib.suppress(OSError):
            peer = self.connect(address, context)
            if address == self.server.http:
                peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return peer.recv(1) != b""
        return False

    def test_an_address_that_connects_too_often_is_refused(self):
        def connect(address):
            host, port = address.rsplit(":", 1)
            with contextlib.suppress(ConnectionError):
                socket.create_connection((host, int(port)), CALL_SECONDS, ("127.0.0.2", 0)).close()

        # Both ports count together. Those of gRPC are within the limit.
        for _ in range(250):
            connect(self.server.grpc)
        self.assertEqual(self.failures("too_many_handshakes"), 0)
        deadline = time.monotonic() + CALL_SECONDS
        tried = 0
        while self.failures("too_many_handshakes") == 0 and time.monotonic() < deadline:
            for _ in range(100):
                connect(self.server.http)
            tried += 100
        self.assertGreater(self.failures("too_many_handshakes"), 0, f"{tried} connections")
        # Another address is served.
        self.assert_serves()

    def test_the_health_check_shows_the_certificate_of_the_server(self):
        for arguments, code in ((self.tls, 0), ([], 1)):
            done = subprocess.run([HostileCase.binary, "healthcheck", "--listen", self.server.grpc,
                                   *map(str, arguments)], capture_output=True, timeout=CALL_SECONDS)
            self.assertEqual(done.returncode, code, done.stderr)

    def test_the_end_of_a_certificate_ends_its_connection(self):
        pair = Files.authority.issue("short", names=[f"URI:{CLIENT}"], seconds=20)
        end = time.time() + 20
        stub = model_service_pb2_grpc.ModelServiceStub(self.channel(Files.client))
        stub.CreateModel(model_service_pb2.CreateModelRequest(model=model_service_pb2.Model(
            name="models/m", classes={"count": 2})), timeout=CALL_SECONDS)
        watch = calibration_service_pb2_grpc.CalibrationServiceStub(self.channel(pair)).WatchCalibration(
            calibration_service_pb2.WatchCalibrationRequest(model="models/m"))
        next(watch)
        events = self.connect(self.server.http, self.context(pair, ("http/1.1",)))
        events.settimeout(CALL_SECONDS)
        events.sendall(b"GET /v1/models/m/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertIn(b" 200 ", events.recv(1 << 16))
        with self.assertRaises(grpc.RpcError) as caught:
            next(watch)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assertGreaterEqual(time.time(), end - 1)
        # Each read waits for CALL_SECONDS at most, and an open stream has a line every 15 s.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while events.recv(1 << 16):
                self.assertLess(time.time(), end + CALL_SECONDS)
        self.assertGreaterEqual(time.time(), end - 1)
        self.assert_serves()

    def test_plain_text_is_named_in_the_log(self):
        for address in (self.server.grpc, self.server.http):
            host, port = address.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=CALL_SECONDS) as plain:
                plain.sendall(b"GET /\x1b[31m HTTP/1.1\r\n\r\n")
                self.assertEqual(plain.recv(100), b"")
        self.assertEqual(self.failures("not_tls"), 2)
        self.assertRegex(self.server.log(), r"not_tls, the client does not use TLS, it sent .GET /")
        self.assertNotIn("\x1b", self.server.log())

    def test_half_handshakes_keep_nobody_out_and_end(self):
        begin = time.monotonic()
        peers = []
        for i in range(60):
            address = (self.server.grpc, self.server.http)[i % 2]
            host, port = address.rsplit(":", 1)
            peer = self.enterContext(socket.create_connection((host, int(port)), timeout=CALL_SECONDS))
            peer.sendall((b"", b"\x16\x03\x01\x02\x00\x01\x00")[i % 3 > 0])
            peers.append(peer)
        self.assert_serves()
        self.assertEqual(self.get("/healthz", Files.client)[0].status, 200)
        for peer in peers:
            with contextlib.suppress(ConnectionError):
                self.assertEqual(peer.recv(100), b"")
        self.assertGreater(time.monotonic() - begin, 4)
        self.assertGreater(self.failures("handshake_too_slow"), 0)

    def test_an_end_without_notice_closes(self):
        for address, protocol in ((self.server.grpc, "h2"), (self.server.http, "http/1.1")):
            wrapped = self.connect(address, self.context(Files.client, (protocol,)))
            with socket.socket(fileno=os.dup(wrapped.fileno())) as plain:
                plain.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                while wrapped.recv(1 << 16):
                    pass
        self.assert_serves()

    def test_a_flood_of_key_updates_ends(self):
        for version, letter in (("-tls1_3", "K"), ("-tls1_2", "R")):
            with self.subTest(version):
                before = self.failures("too_many_key_updates")
                flood = self.enterContext(subprocess.Popen(
                    ["openssl", "s_client", "-connect", self.server.grpc, version, "-alpn", "h2", "-CAfile",
                     str(Files.authority.certificate), "-cert", str(Files.client[0]), "-key",
                     str(Files.client[1])],
                    stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
                with contextlib.suppress(BrokenPipeError):
                    deadline = time.monotonic() + CALL_SECONDS
                    while flood.poll() is None and time.monotonic() < deadline:
                        flood.stdin.write(f"{letter}\n".encode())
                        flood.stdin.flush()
                        time.sleep(0.001)
                with contextlib.suppress(BrokenPipeError):
                    flood.stdin.close()
                self.assertIsNotNone(flood.wait(CALL_SECONDS))
                if version == "-tls1_3":
                    self.assertGreater(self.failures("too_many_key_updates"), before)
        self.assert_serves()


class EvictedTest(TlsCase):
    arguments = ("--tls-client-ca", "--max-connections-per-address", "4")

    def test_a_client_that_makes_room_calls_again_without_an_error(self):
        models = model_service_pb2_grpc.ModelServiceStub(self.channel(Files.client))
        request = model_service_pb2.ListModelsRequest(page_size=1)
        models.ListModels(request, timeout=CALL_SECONDS)
        for _ in range(5):
            with contextlib.ExitStack() as crowd:
                for _ in range(6):
                    crowd.enter_context(self.connect(self.server.grpc, self.context(Files.client)))
            models.ListModels(request, timeout=CALL_SECONDS)
        _, metrics = self.get("/metrics", Files.client)
        replaced = re.search(r'^calibd_connections_closed_total{reason="evicted"} (\d+)', metrics, re.M)
        self.assertGreaterEqual(int(replaced[1]), 10)


class RotationTest(TlsCase):
    def serial(self):
        return self.connect(self.server.grpc, self.context(Files.client)).getpeercert()["serialNumber"]

    def test_a_new_pair_is_used_while_a_stream_runs(self):
        stub = model_service_pb2_grpc.ModelServiceStub(self.channel(Files.client))
        stub.CreateModel(model_service_pb2.CreateModelRequest(model=model_service_pb2.Model(
            name="models/m", classes={"count": 2})), timeout=CALL_SECONDS)
        watch = calibration_service_pb2_grpc.CalibrationServiceStub(
            self.channel(Files.client)).WatchCalibration(
                calibration_service_pb2.WatchCalibrationRequest(model="models/m"))
        next(watch)
        old = self.serial()
        certificate, key = Files.authority.issue("next", names=["DNS:localhost", "IP:127.0.0.1"])
        # The key does not belong to the certificate yet.
        shutil.copy(certificate, self.certificate)
        self.assertTrue(wait_for(lambda: "the old ones stay in use" in self.server.log()))
        self.assertEqual(self.serial(), old)
        shutil.copy(key, self.key)
        self.assertTrue(wait_for(lambda: self.serial() != old))
        self.assertEqual(self.server.log().count("the old ones stay in use"), 1)
        self.assertTrue(watch.is_active())
        watch.cancel()


class ServerOnlyTest(TlsCase):
    """Without certificates of clients."""

    arguments = ()

    def accepts(self, address, context):
        """Whether the server agrees on TLS."""
        try:
            with self.connect(address, context):
                return True
        except OSError:
            return False

    def test_serves_clients_without_a_certificate(self):
        self.assertEqual(self.call(), grpc.StatusCode.OK)
        self.assertEqual(self.get("/readyz")[0].status, 200)

    def test_refuses_old_versions_and_ciphers(self):
        for address, protocol in ((self.server.grpc, "h2"), (self.server.http, "http/1.1")):
            for version, ciphers, accepted in (
                    (ssl.TLSVersion.TLSv1, "ALL:@SECLEVEL=0", False),
                    (ssl.TLSVersion.TLSv1_1, "ALL:@SECLEVEL=0", False),
                    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0", False),
                    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0", False),
                    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0", False),
                    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", True),
                    (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-CHACHA20-POLY1305", True),
                    (ssl.TLSVersion.TLSv1_3, "ALL", True)):
                with self.subTest(version=version, ciphers=ciphers, protocol=protocol):
                    context = self.context(protocols=(protocol,))
                    context.set_ciphers(ciphers)
                    context.minimum_version = context.maximum_version = version
                    self.assertEqual(self.accepts(address, context), accepted)

    def test_the_port_of_grpc_wants_h2(self):
        for protocols, h2 in (((), False), (("http/1.1",), False), (("h2",), True)):
            with self.subTest(protocols):
                before = self.get("/metrics")[1]
                context = self.context(protocols=protocols)
                received = b""
                with contextlib.suppress(OSError):
                    received = self.connect(self.server.grpc, context).recv(1)
                self.assertEqual(received != b"", h2)
                after = self.get("/metrics")[1]
                count = re.compile(r'failures_total{reason="wrong_protocol"} (\d+)')
                self.assertEqual(int(count.search(after)[1]) - int(count.search(before)[1]), int(not h2))
        self.assertFalse(self.accepts(self.server.http, self.context(protocols=("h2",))))
        self.assertTrue(self.accepts(self.server.http, self.context(protocols=())))

    def test_resumes_no_session(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context(protocols=("http/1.1",))
            context.minimum_version = context.maximum_version = version
            host, port = self.server.http.rsplit(":", 1)
            first = self.connect(self.server.http, context)
            first.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while first.recv(1 << 16):
                pass
            self.assertFalse(first.session is not None and first.session.has_ticket)
            with socket.create_connection((host, int(port)), timeout=CALL_SECONDS) as plain:
                second = context.wrap_socket(plain, server_hostname=host, session=first.session)
                self.assertFalse(second.session_reused)
                second.close()

    def test_a_large_body_and_answer_pass(self):
        body = b'{"model": {"name": "models/big", "classes": {"count": 2}}}'
        host, port = self.server.http.rsplit(":", 1)
        connection = http.client.HTTPSConnection(host, int(port), timeout=CALL_SECONDS,
                                                 context=self.context(protocols=("http/1.1",)))
        with contextlib.closing(connection):
            for _ in range(3):
                connection.request("POST", "/v1/models", body=body.ljust(500_000),
                                   headers={"Content-Type": "application/json"})
                response = connection.getresponse()
                self.assertEqual(response.status, 200, response.read())
                response.read()
            connection.request("GET", "/page.js")
            self.assertGreater(len(connection.getresponse().read()), 10_000)


class OptionalTest(TlsCase):
    arguments = ("--tls-client-ca", "--tls-client-auth", "optional")

    def test_serves_clients_with_and_without_a_certificate(self):
        for pair in (None, Files.client):
            self.assertEqual(self.call(pair), grpc.StatusCode.OK)
            self.assertEqual(self.get("/healthz", pair)[0].status, 200)
        stranger = Files.foreign_authority.issue("other", names=[f"URI:{CLIENT}"])
        self.assertEqual(self.call(stranger), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    main()
