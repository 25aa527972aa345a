"""An HTTP/2 client that may do what no library allows, on one raw socket.

It builds frames as byte strings, keeps the windows that the server gives, and remembers what the
server says of each call. It reads only when it is asked to.
"""
import collections
import select
import socket
import ssl
import struct
import time
import urllib.parse

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
(DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE,
 CONTINUATION) = range(10)
END_STREAM, END_HEADERS, PADDED, ACK = 0x1, 0x4, 0x8, 0x1
INITIAL_WINDOW_SIZE = 4
MAX_FRAME = 16384
MAX_WINDOW = 2**31 - 1

# How a call ended: its gRPC status and message, and the error code of RST_STREAM, None where the
# server did not say.
Ending = collections.namedtuple("Ending", "status message reset", defaults=(None, "", None))


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings(values):
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *item) for item in values.items()))


def reset(stream, code=8):  # CANCEL
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def window_update(stream, increment):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def prefix(length, compressed=0):
    """What stands before a gRPC message of this length."""
    return struct.pack(">BI", compressed, length)


def message(data):
    return prefix(len(data)) + data


def integer(value, bits, first=0):
    """An HPACK integer; first: what stands before it in its first byte."""
    most = (1 << bits) - 1
    if value < most:
        return bytes((first | value,))
    encoded = bytearray((first | most,))
    value -= most
    while value >= 128:
        encoded.append(value % 128 | 128)
        value //= 128
    encoded.append(value)
    return bytes(encoded)


def literal(name, value, indexed=False):
    """A header field as it is; indexed: it enters the dynamic table."""
    return (b"\x40" if indexed else b"\x00") + integer(len(name), 7) + name + integer(
        len(value), 7) + value


def request_block(path, *fields):
    """The header block of a gRPC call, without the dynamic table; path None: without it."""
    block = b"\x83\x86" + literal(b":authority", b"localhost")
    if path is not None:
        block += literal(b":path", path)
    for name, value in ((b"content-type", b"application/grpc"), (b"te", b"trailers"), *fields):
        block += literal(name, value)
    return block


def headers(stream, block, flags=END_HEADERS):
    """HEADERS and as many CONTINUATION frames as the block needs."""
    parts = [block[i:i + MAX_FRAME] for i in range(0, len(block), MAX_FRAME)] or [b""]
    frames = [frame(HEADERS if i == 0 else CONTINUATION,
                    (flags & ~END_HEADERS if i == 0 else 0) |
                    (flags & END_HEADERS if i + 1 == len(parts) else 0), stream, part)
              for i, part in enumerate(parts)]
    return b"".join(frames)


class Peer:
    """A connection. source: the address that it comes from, such as 127.0.0.2. acknowledge: whether
    it acknowledges the server's SETTINGS; as long as it does not, gRPC enforces few of them.

    What sends raises ConnectionError when the server has closed the connection, be it during the
    handshake of TLS.

    context: that of TLS, for all peers; None without encryption.
    """

    context = None

    def __init__(self, address, source="127.0.0.1", options=None, receive_buffer=None,
                 start=True, acknowledge=True):
        host, port = address.rsplit(":", 1)
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.bind((source, 0))
        self.socket.settimeout(10)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._acknowledge = acknowledge
        self.goaway = None      # the debug text of the server's GOAWAY
        self.closed = False     # by the server
        self.settled = False    # the server's SETTINGS came
        self.endings = {}       # stream: Ending
        self.answered = set()   # streams of which HEADERS came
        self.received = collections.Counter()   # bytes of DATA by stream
        self.window = 65535     # what the server takes on the connection
        self.windows = {}       # and on each stream beside initial_window
        self.initial_window = 65535
        self._decoder = hpack.Decoder(max_header_list_size=1 << 20)
        self._input = bytearray()
        self._next_stream = 1
        if self.context is not None:
            try:
                self.socket = self.context.wrap_socket(self.socket)
            except (ConnectionError, ssl.SSLError):
                self.closed = True
        if start:
            self.send(PREFACE + settings(options or {}))
            # An acknowledgement of the server's SETTINGS must not come inside a header block.
            self.wait_for(lambda: self.settled, 60)

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        """Raises TimeoutError when the server takes nothing for 10 s."""
        if self.socket.fileno() < 0:
            raise ConnectionError("the server has closed the connection during the handshake")
        try:
            self.socket.sendall(data)
        except ssl.SSLError as error:
            raise ConnectionError(str(error)) from error

    # ---- What the server says

    def poll(self, seconds=0.0):
        """Reads what there is, waiting at most this long for a first byte. Whether it read."""
        if self.closed or not self._is_readable(seconds):
            return False
        data = self._receive()
        self._input += data
        self._read_frames()
        return bool(data)

    def discard(self, seconds=0.0):
        """Reads what there is, and looks at nothing but whether the connection is closed."""
        while not self.closed and self._is_readable(seconds):
            self._receive()

    def _is_readable(self, seconds):
        # What TLS has read ahead is not seen by select.
        return (self.context is not None and self.socket.pending() > 0) or bool(
            select.select([self.socket], [], [], seconds)[0])

    def _receive(self):
        try:
            data = self.socket.recv(1 << 18)
        except (ConnectionError, ssl.SSLError):
            data = b""
        self.closed = not data
        return data

    def wait_for(self, condition, seconds):
        """Reads until the condition holds. Whether it does at the end."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if self.closed or left <= 0:
                return condition()
            self.poll(min(left, 0.2))
        return True

    def wait_closed(self, seconds):
        return self.wait_for(lambda: self.closed, seconds)

    def ending(self, stream, seconds=60):
        """How the server ended the call; None while it has not."""
        self.wait_for(lambda: stream in self.endings, seconds)
        return self.endings.get(stream)

    def _read_frames(self):
        at = 0
        while len(self._input) - at >= 9:
            size = int.from_bytes(self._input[at:at + 3], "big")
            if len(self._input) - at < 9 + size:
                break
            kind, flags, stream = struct.unpack_from(">BBI", self._input, at + 3)
            self._take(kind, flags, stream, bytes(self._input[at + 9:at + 9 + size]))
            at += 9 + size
        del self._input[:at]

    def _take(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == INITIAL_WINDOW_SIZE:
                    self.initial_window = value
            self.settled = True
            if self._acknowledge:
                self._answer(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._answer(frame(PING, ACK, 0, payload))
        elif kind == WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            if stream == 0:
                self.window += increment
            else:
                self.windows[stream] = self.windows.get(stream, 0) + increment
        elif kind == DATA:
            self.received[stream] += len(payload)
        elif kind == HEADERS:
            fields = dict(self._decoder.decode(payload, raw=True))
            self.answered.add(stream)
            if flags & END_STREAM:
                status = fields.get(b"grpc-status")
                text = urllib.parse.unquote(fields.get(b"grpc-message", b"").decode("ascii"))
                self._end(stream, Ending(None if status is None else int(status), text))
        elif kind == RST_STREAM:
            self._end(stream, Ending(reset=int.from_bytes(payload, "big")))
        elif kind == GOAWAY:
            self.goaway = payload[8:].decode("utf-8", "replace")

    def _answer(self, data):
        try:
            self.send(data)
        except ConnectionError:
            self.closed = True

    def _end(self, stream, ending):
        self.windows.pop(stream, None)
        # RST_STREAM after the trailers says nothing new.
        self.endings.setdefault(stream, ending)

    # ---- Calls

    def open(self, path, *fields, end=False):
        """Begins a call; its stream."""
        stream = self._next_stream
        self._next_stream += 2
        self.send(headers(stream, request_block(path, *fields),
                          END_HEADERS | (END_STREAM if end else 0)))
        return stream

    def start(self, path, data=b""):
        """Sends a whole unary or server streaming call; its stream."""
        stream = self.open(path)
        self.data(stream, message(data), END_STREAM)
        return stream

    def data(self, stream, payload=b"", flags=0):
        """Sends a DATA frame, whatever the windows are."""
        self.send(frame(DATA, flags, stream, payload))
        self._spend(stream, len(payload))

    def _spend(self, stream, count):
        self.window -= count
        self.windows[stream] = self.windows.get(stream, 0) - count

    def call(self, path, data=b"", seconds=60):
        """A unary call's ending; None when the server did not end it in time."""
        return self.ending(self.start(path, data), seconds)

    def upload(self, stream, size, seconds, frame_size=MAX_FRAME):
        """Sends as many zeros, as fast as the server's windows allow; how many were sent.

        Ends early when the call or the connection does, or the time is over.
        """
        at_once = MAX_FRAME // frame_size * frame_size
        frames = frame(DATA, 0, stream, bytes(frame_size)) * (at_once // frame_size)
        sent, deadline = 0, time.monotonic() + seconds
        try:
            while sent < size and stream not in self.endings and not self.closed:
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                count = min(size - sent, at_once)
                if count > min(self.window, self.initial_window + self.windows.get(stream, 0)):
                    self.poll(min(left, 0.2))
                    continue
                self.send(frames if count == at_once else frame(DATA, 0, stream, bytes(count)))
                self._spend(stream, count)
                sent += count
                self.poll()
        except ConnectionError:
            self.closed = True
        return sent
