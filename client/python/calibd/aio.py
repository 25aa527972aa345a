"""The client for asyncio."""
from __future__ import annotations

import asyncio
import copy
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Type, TypeVar

from calibd import results
from calibd.client import Client
from calibd.credentials import Token
from calibd.stream import ObservationStream
from calibd.tls import Tls
from calibd.window import RejectedBatch, StreamCounts

# Python has them since 3.10, and only type checkers need them.
if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec
    _Arguments = ParamSpec("_Arguments")

_Owner = TypeVar("_Owner")
_Result = TypeVar("_Result")
# Calls of one client that run at a time.
_MAX_CALLS = 32


class _Threads:
    """Threads in which the methods of `wrapped` run, because they wait for the server."""

    def __init__(self, wrapped: Any, threads: ThreadPoolExecutor) -> None:
        self._wrapped = wrapped
        self._threads = threads

    async def _run(self, function: Callable[..., _Result], *arguments: Any, **named: Any) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, functools.partial(function, *arguments, **named))


def _awaitable(method: Callable[Concatenate[_Owner, _Arguments], _Result],
               ) -> Callable[Concatenate[Any, _Arguments], Awaitable[_Result]]:
    """The method with the same arguments and result, as one that is awaited."""
    @functools.wraps(method)
    async def call(self: _Threads, /, *arguments: _Arguments.args,
                   **named: _Arguments.kwargs) -> _Result:
        return await self._run(method, self._wrapped, *arguments, **named)
    return call


class AsyncStream(_Threads):
    """An ObservationStream whose methods are awaited. Use it in an `async with` block."""

    send = _awaitable(ObservationStream.send)
    observe = _awaitable(ObservationStream.observe)
    label = _awaitable(ObservationStream.label)
    flush = _awaitable(ObservationStream.flush)
    finish = _awaitable(ObservationStream.finish)
    close = _awaitable(ObservationStream.close)

    @property
    def counts(self) -> StreamCounts:
        """The counts so far."""
        counts: StreamCounts = self._wrapped.counts
        return counts

    @property
    def rejected(self) -> list[RejectedBatch]:
        """The first 100 batches that the server rejected."""
        rejected: list[RejectedBatch] = self._wrapped.rejected
        return rejected

    async def __aenter__(self) -> AsyncStream:
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self._run(self._wrapped.__exit__, kind, error, traceback)

    def __repr__(self) -> str:
        return f"<AsyncStream of {self._wrapped!r}>"


def _opening(method: Callable[Concatenate[Client, _Arguments], ObservationStream],
             ) -> Callable[Concatenate[Any, _Arguments], Awaitable[AsyncStream]]:
    """The method with the same arguments, as one that is awaited and opens an AsyncStream."""
    @functools.wraps(method)
    async def call(self: _Threads, /, *arguments: _Arguments.args,
                   **named: _Arguments.kwargs) -> AsyncStream:
        opening = asyncio.ensure_future(self._run(method, self._wrapped, *arguments, **named))

        def discard(opened: asyncio.Future[ObservationStream]) -> None:
            """Ends a stream that nobody waits for any more."""
            if not opened.cancelled() and opened.exception() is None:
                self._threads.submit(opened.result().cancel)

        try:
            return AsyncStream(await asyncio.shield(opening), self._threads)
        except asyncio.CancelledError:
            opening.add_done_callback(discard)
            raise
    return call


class AsyncClient(_Threads):
    """A Client whose methods are awaited, with the same names, arguments and results.

    stream() opens an AsyncStream: `async with await client.stream(model) as stream`.

    The calls run in threads. A call that is cancelled ends its wait at once, and its thread when the
    server answers, or at the timeout. A Monitor needs no such client: its observe() never waits.
    """

    def __init__(self, target: str | None = None, *, timeout: float = 30.0,
                 tls: Tls | None = None, token: Token | None = None) -> None:
        super().__init__(Client(target, timeout=timeout, tls=tls, token=token),
                         ThreadPoolExecutor(_MAX_CALLS, thread_name_prefix="calibd-call"))
        self._watchers: set[Client] = set()

    create_model = _awaitable(Client.create_model)
    get_model = _awaitable(Client.get_model)
    list_models = _awaitable(Client.list_models)
    update_model = _awaitable(Client.update_model)
    delete_model = _awaitable(Client.delete_model)
    observe = _awaitable(Client.observe)
    label = _awaitable(Client.label)
    calibration = _awaitable(Client.calibration)
    history = _awaitable(Client.history)
    verdicts = _awaitable(Client.verdicts)
    acknowledge_alarm = _awaitable(Client.acknowledge_alarm)
    run_test = _awaitable(Client.run_test)
    evaluate = _awaitable(Client.evaluate)
    estimate = _awaitable(Client.estimate)
    compare = _awaitable(Client.compare)
    recalibrate = _awaitable(Client.recalibrate)
    report = _awaitable(Client.report)
    backup = _awaitable(Client.backup)
    verify = _awaitable(Client.verify)
    stream = _opening(Client.stream)

    def __reduce__(self) -> Any:
        """A copy in another process has connections and threads of its own."""
        rebuild, (target,) = self._wrapped.__reduce__()
        return functools.partial(AsyncClient, **rebuild.keywords), (target,)

    async def watch(self, model: str, *, min_interval: float = 1.0,
                    after_revision: int = 0) -> AsyncIterator[results.Calibration]:
        """Yields the calibration now and after each change; see Client.watch()."""
        # A client of its own, because close() makes the thread stop waiting for a change.
        watcher = copy.copy(self._wrapped)
        self._watchers.add(watcher)
        changes: Iterator[results.Calibration] = watcher.watch(
            model, min_interval=min_interval, after_revision=after_revision)
        try:
            # It ends only with an error.
            while True:
                yield await self._run(changes.__next__)
        finally:
            self._watchers.discard(watcher)
            watcher.close()

    async def close(self) -> None:
        """Ends running calls and watches with Cancelled. Streams stay open."""
        for one in (self._wrapped, *self._watchers):
            one.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"Async{self._wrapped!r}"
