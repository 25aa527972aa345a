"""Method names come from the peer: any bytes, any length. method_names_test.py CALIBD"""
import re
import subprocess
import unicodedata
import urllib.request

from hostile_case import CALL_SECONDS, GET_MODEL, MIB, HostileCase, grpc, main
from http2_peer import END_HEADERS, END_STREAM, Peer, headers, request_block

UNIMPLEMENTED, NOT_FOUND = 12, 5


class OddPathTest(HostileCase):
    def test_an_empty_path_closes_the_connection(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.channel().unary_unary("")(b"", timeout=CALL_SECONDS)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        self.assert_serves()

    def test_odd_paths_are_unimplemented(self):
        for path in (b"/", b"//", b"///", b"x", b"GetModel", b"*", b"/x", b"/a/", b"//b",
                     GET_MODEL[1:], GET_MODEL + b"/", GET_MODEL.lower(), b"/%00/%ff",
                     b"/\xff\xfe/\x80", b"/\xed\xa0\x80/x", b"/a b/", b"/" + b"x" * 7000):
            with self.subTest(path=path[:40]), Peer(self.server.grpc) as peer:
                self.assertEqual(peer.call(path).status, UNIMPLEMENTED)
                self.assertEqual(peer.call(GET_MODEL).status, 3)
        self.assert_serves()

    def test_paths_that_http_forbids_close_the_connection(self):
        for path in (None, b"", b"/a\0b/c", b"\0", b"/a\nb/c", b"/a\r\n/c", b"/a\x7f/c"):
            with self.subTest(path=path), Peer(self.server.grpc) as peer:
                self.assertIsNone(peer.call(path))
                self.assertTrue(peer.closed)
        self.assert_serves()

    def test_an_endless_path_closes_the_connection(self):
        with Peer(self.server.grpc) as peer:
            try:
                peer.send(headers(1, request_block(b"/" + b"x" * 65536), END_HEADERS | END_STREAM))
            except ConnectionError:
                peer.closed = True
            self.assertTrue(peer.wait_closed(10))
        self.assert_serves()


class InventedNamesTest(HostileCase):
    def test_metrics_and_log_stay_small_and_readable(self):
        names = [b"/x\xff\xc3(\x80/\xed\xa0\x80", b'/quote"d/\\', "/\u202e/\u2028\u0085".encode(),
                 b"/tab\there/x", b"/x\xc2\x9b31m/y"]
        names += [b"/%d/" % i + b"x" * 3000 for i in range(6000)]
        with Peer(self.server.grpc) as peer:
            for at in range(0, len(names), 16):
                for stream in [peer.start(name) for name in names[at:at + 16]]:
                    self.assertTrue(peer.ending(stream) or peer.closed, "a call without an answer")
        with urllib.request.urlopen(f"http://{self.server.http}/metrics", timeout=60) as answer:
            scrape = answer.read(8 * MIB)
        self.assertLess(len(scrape), MIB)
        check = subprocess.run(["promtool", "check", "metrics"], input=scrape, check=False,
                               capture_output=True, timeout=60)
        self.assertEqual(check.returncode, 0, check.stderr[:2000])
        metrics = scrape.decode("utf-8")
        self.assert_printable(metrics)
        self.assertRegex(metrics, re.compile(r'method="unknown".* 600\d$', re.MULTILINE))
        self.assert_printable(self.server.log())

    def assert_printable(self, text):
        odd = {c for c in text if c != "\n" and unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")}
        self.assertEqual(odd, set())


if __name__ == "__main__":
    main()
