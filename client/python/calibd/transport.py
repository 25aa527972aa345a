"""Calls of the server: one channel, with retries of what is safe to repeat."""
from __future__ import annotations

import contextlib
import ipaddress
import logging
import math
import os
import random
import re
import threading
import time
from collections.abc import Callable
from typing import Any, Iterator, NamedTuple, Type, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from calibd import arguments, errors
from calibd.credentials import Token, token_source, with_token
from calibd.errors import CalibdError
from calibd.tls import Tls

_LOG = logging.getLogger("calibd")
_Response = TypeVar("_Response", bound=Message)
_Result = TypeVar("_Result")

# Streams on one connection. A connection of the server has a limit of calls, and an address has a
# limit of connections.
_STREAMS_PER_CONNECTION = 8
# The largest answer in pages: more models than a server has.
_MAX_PAGES, _MAX_PAGED_BYTES, _MAX_PAGED_SECONDS = 100_000, 1 << 30, 600.0
# The largest message that a server can be set to accept: --max-message-bytes.
_MAX_MESSAGE_BYTES = 64 << 20
# Seconds between two lines about an outage.
_LOG_SECONDS = 60.0
# Attempts of a call that the server refuses for lack of a resource.
_MAX_ATTEMPTS = 4

# For a target that may name several servers of one store: calls go to one whose health service
# says SERVING, which is the owner and not a standby.
_OWNER_OF_SEVERAL = (
    "grpc.service_config",
    '{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}')
_CHANNEL_OPTIONS = (
    # A page of the largest declarations fits into one response.
    ("grpc.max_receive_message_length", 32 << 20),
    # This package retries, because it knows what is safe to repeat.
    ("grpc.enable_retries", 0),
    # A proxy for web traffic must not forward predictions.
    ("grpc.enable_http_proxy", 0),
    # A peer that disappears silently is noticed.
    ("grpc.keepalive_time_ms", 60000),
    ("grpc.keepalive_timeout_ms", 20000),
    ("grpc.http2.max_pings_without_data", 0),
    # Backoff determines the delays between attempts; those of the channel stay below them.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)


# Targets that gRPC reads itself, such as unix:PATH.
_OTHER_SCHEME = re.compile(r"(unix|unix-abstract|dns|ipv4|ipv6|xds|vsock):(?!\d+$)")
_HOST_AND_PORT = re.compile(
    r"(?P<host>\[[0-9A-Za-z:.%_-]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,9})")
# In front of a host, for gRPC's own resolvers.
_RESOLVER = re.compile(r"^(dns|ipv4|ipv6):(///)?")


def server_address(target: str | None) -> str:
    """The address of the server; None: that of the environment, or the default."""
    if target is not None:
        arguments.expect("target", target, str, '"HOST:PORT"')
    address = target or os.environ.get("CALIBD_SERVER") or "127.0.0.1:8460"
    field = "target" if target else "CALIBD_SERVER"
    if _OTHER_SCHEME.match(address) and not arguments.has_surrogate(address):
        return address
    # gRPC takes a port modulo 2^16, and the last number of an IPv6 address for the port.
    found = _HOST_AND_PORT.fullmatch(address)
    if found is None or arguments.has_surrogate(address):
        hint = ""
        if re.match("https?:", address):
            hint = " without http://, of the gRPC port"
        elif address.count(":") > 1:
            hint = ", with an IPv6 address in brackets, such as [::1]:8460"
        raise errors.invalid(field, f'is {arguments.shown(address)}, expected "HOST:PORT"{hint}')
    if not 1 <= int(found["port"]) <= 65535:
        raise errors.invalid(field, f"is {arguments.shown(address)}, expected a port from 1 to 65535")
    return address


def _is_loopback(target: str) -> bool:
    """Whether what is sent to a target of gRPC stays on this machine; False for a list of addresses."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    found = _HOST_AND_PORT.fullmatch(_RESOLVER.sub("", target))
    if found is None:
        return False
    host = found["host"].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def server_tls(tls: Tls | None) -> Tls | None:
    """TLS to the server; None: that of the environment, which may be none too."""
    if tls is not None:
        arguments.expect("tls", tls, Tls, "calibd.Tls(...)")
    return tls if tls is not None else Tls.of_environment()


class Interrupted(Exception):
    """A fork has ended a call that is to be made again."""


class _Process:
    """The calls of this process.

    calling: a token for each call that runs. repeatable: those that a fork may end, by their tokens.
    interrupted: the tokens of those that a fork has ended.
    has_inherited_calls: whether calls ran when this process was forked.
    forking: the threads that fork. may_call: is set if there are none.
    """

    calling: set[object] = set()
    repeatable: dict[object, Any] = {}
    interrupted: set[object] = set()
    last_end = -math.inf
    has_inherited_calls = False
    forking: set[int] = set()
    may_call = threading.Event()


_Process.may_call.set()


def _forget_calls() -> None:
    _Process.has_inherited_calls |= bool(_Process.calling)
    _Process.calling = set()
    _Process.repeatable = {}
    _Process.forking = set()
    _Process.interrupted = set()
    _Process.may_call = threading.Event()
    _Process.may_call.set()


os.register_at_fork(after_in_child=_forget_calls)


@contextlib.contextmanager
def calling() -> Iterator[object]:
    """A call runs in the block: a process that is forked meanwhile cannot use gRPC."""
    token = object()
    _Process.calling.add(token)
    try:
        yield token
    finally:
        _Process.last_end = time.monotonic()
        _Process.calling.discard(token)


@contextlib.contextmanager
def calling_after_forks() -> Iterator[object]:
    """The same, but the block begins when no other thread forks this process."""
    while True:
        with calling() as token:
            # A handler of a signal may call in the thread that forks.
            if not _Process.forking - {threading.get_ident()}:
                yield token
                return
        _Process.may_call.wait()


def hold_calls() -> None:
    """Makes other threads wait before they begin a call, and ends calls that are to be made again."""
    _Process.may_call.clear()
    _Process.forking.add(threading.get_ident())
    _end_repeatable()


def _end_repeatable() -> None:
    for token, call in list(_Process.repeatable.items()):
        _Process.interrupted.add(token)
        call.cancel()
        # Its caller may be busy, so that it does not notice this before the fork.
        _Process.calling.discard(token)


def release_calls() -> None:
    """Lets other threads call again."""
    _Process.forking.discard(threading.get_ident())
    if not _Process.forking:
        _Process.may_call.set()


def is_calling() -> bool:
    """Whether a call runs."""
    return bool(_Process.calling)


def has_called(seconds: float) -> bool:
    """Whether a call runs, or has ended within so many seconds."""
    return is_calling() or time.monotonic() - _Process.last_end < seconds


def unusable() -> CalibdError | None:
    """Returns why this process cannot use gRPC, or None if it can."""
    # gRPC would hang here, or crash the parent, whose connections wait on the same files.
    if not _Process.has_inherited_calls:
        return None
    return errors.FailedPrecondition(
        "this process was forked while a call was running, which gRPC does not support: fork before "
        'it, or use multiprocessing.get_context("spawn")')


class Endpoint(NamedTuple):
    """A server, and what a client shows to it."""
    target: str
    tls: Tls | None
    # As the caller gave it.
    token: Token | None
    token_source: Callable[[], str] | None

    def __repr__(self) -> str:
        # A token must not reach a log.
        return f"Endpoint(target={self.target!r}, tls={self.tls!r})"

    @classmethod
    def of(cls, target: str | None, tls: Tls | None, token: Token | None) -> Endpoint:
        """None: what the environment says."""
        endpoint = cls(server_address(target), server_tls(tls), token, token_source(token))
        if endpoint.token_source and endpoint.tls is None and not _is_loopback(endpoint.target):
            raise errors.invalid(
                "token", f"is not sent to {endpoint.target} without TLS, because others could read it "
                "on the way: name the file of the server's CA (tls=calibd.Tls(ca=...) or "
                "CALIBD_CLIENT_TLS_CA), or leave out the token (token=None without CALIBD_TOKEN_FILE)")
        return endpoint

    def open_channel(self) -> Any:
        """A channel with a connection of its own."""
        if (error := unusable()) is not None:
            raise error
        options: tuple[tuple[str, Any], ...] = _CHANNEL_OPTIONS
        if self.target.startswith("dns:") or "," in self.target:
            options += (_OWNER_OF_SEVERAL,)
        if self.tls is None:
            channel = grpc.insecure_channel(self.target, options=options)
        else:
            if self.tls.server_name is not None:
                options += (("grpc.ssl_target_name_override", self.tls.server_name),)
            channel = grpc.secure_channel(self.target, self.tls.credentials(), options=options)
        return with_token(channel, self.token_source)


class StreamChannels:
    """The channels that the streams of a client share. Thread-safe."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._forget_parent({})

    def _forget_parent(self, inherited: dict[Any, int]) -> None:
        """Starts anew. inherited: channels of the process that this one was forked from."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        # The number of streams on each channel.
        self._streams: dict[Any, int] = {}
        # Kept, because to close them would end the connections of the parent.
        self._inherited = inherited

    def take(self) -> Any:
        """A channel for a stream, which must release it once."""
        if self._process != os.getpid():
            self._forget_parent(self._streams)
        with self._lock:
            channel = next((one for one, streams in self._streams.items()
                            if streams < _STREAMS_PER_CONNECTION), None)
            if channel is None:
                channel = self.endpoint.open_channel()
            self._streams[channel] = self._streams.get(channel, 0) + 1
            return channel

    def release(self, channel: Any) -> None:
        """Closes the channel if no other stream uses it."""
        with self._lock:
            self._streams[channel] -= 1
            if self._streams[channel] > 0:
                return
            del self._streams[channel]
        channel.close()


class Backoff:
    """Delays between attempts, from 100 ms to 5 s, drawn from the upper half below a ceiling.

    Clients that were disconnected together do not reconnect together.
    """

    def __init__(self) -> None:
        self._ceiling = 0.1

    def next(self, at_least: float | None = None) -> float:
        """The next delay. at_least: what the server asked for."""
        delay = random.uniform(self._ceiling / 2, self._ceiling)
        # A server that names a delay is reachable, so the ceiling need not grow.
        if at_least is None:
            self._ceiling = min(2 * self._ceiling, 5.0)
        return (at_least or 0.0) + delay

    def reset(self) -> None:
        """The next delay is short again."""
        self._ceiling = 0.1


class Transport:
    """The calls of one channel."""

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self.endpoint = endpoint
        self.timeout = timeout
        # The stamp of the files with which the channel was opened.
        self._stamp = endpoint.tls.stamp() if endpoint.tls is not None else ()
        self._channel = endpoint.open_channel()
        # The unary calls of the channel by method.
        self._calls: dict[str, Any] = {}
        self._process = os.getpid()
        self._inherited: Any = None
        # The earliest time of the next line about an outage, by the monotonic clock.
        self._next_line = -math.inf
        self.closed = threading.Event()

    def close(self) -> None:
        """Ends running calls with Cancelled, and refuses further ones."""
        self.closed.set()
        self._channel.close()

    def check_open(self) -> None:
        """Raises Cancelled after close()."""
        if self.closed.is_set():
            raise errors.Cancelled("the client is closed")

    def log_outage(self, error: CalibdError, seconds: float) -> None:
        """Logs, once a minute, that a call tries again for so many seconds."""
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LOG_SECONDS
            _LOG.warning("calibd at %s does not answer, and the call tries again for %.0f s: %s",
                         self.endpoint.target, seconds, error)

    def _open_channel(self) -> Any:
        """The channel, in a child process a new one."""
        self.check_open()
        if self._process != os.getpid():
            # Kept, because to close it would end the connection of the parent.
            self._inherited, self._channel = self._channel, self.endpoint.open_channel()
            self._calls = {}
            self._process = os.getpid()
        elif self.endpoint.tls is not None and (stamp := self.endpoint.tls.stamp()) != self._stamp:
            # Running calls keep the old channel alive, which closes with the last of them.
            self._channel = self.endpoint.open_channel()
            self._stamp = stamp
            self._calls = {}
        return self._channel

    @staticmethod
    def _check_size(request: Message) -> None:
        """Raises ResourceExhausted for a message that no server takes."""
        if (size := request.ByteSize()) > _MAX_MESSAGE_BYTES:
            raise errors.ResourceExhausted(
                f"the message has {size} bytes, expected at most {_MAX_MESSAGE_BYTES}, which is the "
                "largest --max-message-bytes of a server", reason="MESSAGE_TOO_LARGE")

    @contextlib.contextmanager
    def _ending(self, *kinds: Type[Exception]) -> Iterator[None]:
        """Raises Cancelled instead of these errors of gRPC if close() is their cause."""
        try:
            yield
        except kinds as error:
            is_cause = not isinstance(error, grpc.RpcError) or error.code() == grpc.StatusCode.CANCELLED
            if not is_cause or not self.closed.is_set():
                raise
            raise errors.Cancelled("the client is closed") from None

    def unary(self, method: str, request: Message, response: Type[_Response]) -> _Response:
        """Calls METHOD of "Service/Method" until it succeeds or a retry is pointless."""
        return self.counted_unary(method, request, response)[0]

    def counted_unary(self, method: str, request: Message,
                      response: Type[_Response]) -> tuple[_Response, int]:
        """As unary(). Returns the answer and the number of attempts."""
        self._check_size(request)
        attempts = 0

        def attempt(remaining: float) -> _Response:
            nonlocal attempts
            attempts += 1
            channel = self._open_channel()
            call = self._calls.get(method)
            if call is None:
                call = self._calls[method] = channel.unary_unary(
                    f"/calibd.v1.{method}", request_serializer=type(request).SerializeToString,
                    response_deserializer=response.FromString)
            # gRPC raises a ValueError if another thread closes the channel before the call begins.
            with calling_after_forks(), self._ending(ValueError, grpc.RpcError):
                # The first attempt finds the cause; later ones begin as soon as there is a connection.
                answer: _Response = call(request, timeout=remaining, wait_for_ready=attempts > 1)
            return answer

        return retry(attempt, self.timeout, self.timeout, self.log_outage), attempts

    @contextlib.contextmanager
    def server_stream(self, method: str, request: Message, response: Type[_Response],
                      timeout: float | None = None, first_timeout: float | None = None,
                      is_repeatable: bool = False) -> Iterator[Any]:
        """One attempt of a call with many responses: an iterator. Ends the call at its end.

        timeout: of the whole call. first_timeout: of the first response. is_repeatable: a fork ends
        the call, and the iterator raises Interrupted.
        """
        self._check_size(request)
        with calling_after_forks() as token:
            start = self._open_channel().unary_stream(
                f"/calibd.v1.{method}", request_serializer=type(request).SerializeToString,
                response_deserializer=None)
            with self._ending(ValueError):
                call = start(request, timeout=timeout)
            if is_repeatable:
                _Process.repeatable[token] = call
                # A fork that began meanwhile has not found it.
                if _Process.forking:
                    _end_repeatable()
            try:
                with self._ending(grpc.RpcError):
                    data = call if first_timeout is None else _begun(call, first_timeout)
                    yield _parsed(data, response)
            except grpc.RpcError:
                if token in _Process.interrupted:
                    raise Interrupted from None
                raise
            finally:
                # Stops the work of the server if the caller or the user interrupts.
                call.cancel()
                _Process.repeatable.pop(token, None)
                _Process.interrupted.discard(token)

    def long(self, method: str, request: Message, response: Type[_Response], field: str,
             on_progress: Callable[[float], None] | None, timeout: float) -> _Response:
        """Calls a method that answers with `progress` and then with `field`; returns the latter."""
        told = 0.0
        timeout = arguments.seconds("timeout", timeout)
        arguments.expect("on_progress", on_progress, (Callable, type(None)), "a function")

        def attempt(remaining: float) -> _Response | None:
            nonlocal told
            result: _Response | None = None
            with self.server_stream(method, request, response, remaining) as call:
                for answer in call:
                    if answer.WhichOneof("message") == field:
                        result = answer
                    # A retry starts over, but the reported progress never decreases.
                    elif on_progress is not None and answer.progress.fraction > told:
                        told = min(answer.progress.fraction, 1.0)
                        on_progress(told)
            return result

        answer = retry(attempt, timeout, self.timeout, self.log_outage)
        # gRPC may report a broken message as a clean end of the stream.
        if answer is None:
            raise errors.DataLoss("the server ended the call without a result")
        # A short computation ends before its first message of progress.
        if on_progress is not None and told < 1:
            on_progress(1.0)
        return answer


def retry(attempt: Callable[[float], _Result], timeout: float, patience: float,
          on_outage: Callable[[CalibdError, float], None]) -> _Result:
    """Calls attempt(remaining seconds) until it succeeds, within `timeout` seconds.

    patience: so many seconds after the first failure an absent server ends the attempts.
    on_outage: is told of an absent server, and of the remaining seconds, before the next attempt.
    """
    deadline = time.monotonic() + timeout
    backoff = Backoff()
    failed = 0
    unavailable: CalibdError | None = None
    while True:
        try:
            return attempt(max(deadline - time.monotonic(), 0.0))
        except grpc.RpcError as rpc_error:
            error = errors.from_rpc_error(rpc_error)
        if isinstance(error, errors.DeadlineExceeded) and unavailable is not None:
            # The attempt has waited for a connection.
            raise unavailable
        if isinstance(error, errors.Unavailable):
            if unavailable is None:
                deadline = min(deadline, time.monotonic() + patience)
            unavailable = error
        else:
            failed += 1
        # A server that begins to stop cancels calls that reach it at this moment.
        was_cancelled = isinstance(error, errors.Cancelled) and errors.is_cut_off(error)
        if not (errors.is_retryable(error) or was_cancelled) or errors.is_hopeless(error) or (
                failed >= _MAX_ATTEMPTS):
            raise error
        delay = backoff.next(error.retry_seconds)
        if time.monotonic() + delay >= deadline:
            raise error
        if unavailable is not None:
            on_outage(unavailable, deadline - time.monotonic())
        time.sleep(delay)


def pages(transport: Transport, method: str, request: Any,
          response: Type[_Response]) -> Iterator[_Response]:
    """Calls a method for each page. request: has page_token.

    A server that never ends with a last page raises DataLoss.
    """
    tokens: set[str] = set()
    size = 0
    begin = time.monotonic()
    while True:
        page: Any = transport.unary(method, request, response)
        yield page
        token = page.next_page_token
        if not token:
            return
        size += page.ByteSize()
        if token in tokens or len(tokens) >= _MAX_PAGES or size > _MAX_PAGED_BYTES:
            raise errors.DataLoss(f"the server sent {len(tokens) + 1} pages of {method} with {size} "
                                  "bytes and no last one, or the same page again")
        if time.monotonic() - begin > _MAX_PAGED_SECONDS:
            raise errors.DeadlineExceeded(f"the server sent {len(tokens) + 1} pages of {method} within "
                                          f"{_MAX_PAGED_SECONDS:g} s, and none was the last one")
        tokens.add(token)
        request.page_token = token


def _begun(call: Any, timeout: float) -> Iterator[bytes]:
    """The responses of a call. Raises DeadlineExceeded if the first one does not come in time."""
    late = threading.Event()

    def end() -> None:
        late.set()
        call.cancel()

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        for data in call:
            timer.cancel()
            yield data
    except grpc.RpcError:
        if late.is_set():
            raise errors.DeadlineExceeded(f"the server sent nothing within {timeout:g} s") from None
        raise
    finally:
        timer.cancel()


def _parsed(call: Any, response: Type[_Response]) -> Iterator[_Response]:
    """The messages of a call. gRPC would report one that cannot be read as a broken connection."""
    for data in call:
        try:
            yield response.FromString(data)
        except DecodeError as error:
            raise errors.DataLoss(f"the server sent a message that cannot be read: {error}") from None
