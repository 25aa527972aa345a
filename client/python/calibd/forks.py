"""Streams and fork(): gRPC survives a fork only while none of its threads runs.

Before a fork all streams and watches end, and afterwards they open again in the parent; the numbers
of the batches make that exact. Other calls end by themselves, and new ones wait. In the child,
streams start anew. A fork waits at most two seconds until gRPC is quiet. If it is not, because a
call takes longer, the child cannot use gRPC, and its streams drop their rows: otherwise gRPC might
hang in it, or end it.
"""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from calibd import transport

if TYPE_CHECKING:
    from calibd.delivery import Delivery

_MAX_SECONDS = 2.0
# gRPC is quiet if none of its threads has run for so many seconds.
_QUIET_SECONDS = 0.01
# So many seconds after a call its threads have ended.
_CALM_SECONDS = 1.0
_TASKS = pathlib.Path("/proc/self/task")
_SWITCHES = re.compile(r"ctxt_switches:\s*(\d+)")
# The threads of gRPC that run as long as a call, by the functions in their names.
_GRPC_THREADS = ("channel_spin", "consume_request_iterator")


class Forkable(Protocol):
    """What starts anew in a child process."""

    def start_in_child(self) -> None:
        """Forgets all threads and locks, which the child does not have."""


class _State:
    forking = False
    # A call that makes gRPC unusable in the child.
    refusal: AbstractContextManager[object] | None = None
    deliveries: set[Delivery] = set()
    streams: weakref.WeakSet[Forkable] = weakref.WeakSet()


def add(delivery: Delivery) -> None:
    """Its thread is about to start."""
    _State.deliveries.add(delivery)
    if _State.forking:
        delivery.park()


def remove(delivery: Delivery) -> None:
    """Its thread is about to end, and has no connection."""
    _State.deliveries.discard(delivery)


def running() -> list[Delivery]:
    """The deliveries whose threads run."""
    return list(_State.deliveries)


def start_anew_in_children(stream: Forkable) -> None:
    """Calls stream.start_in_child() in each child process."""
    _State.streams.add(stream)


def _before() -> None:
    _State.forking = True
    transport.hold_calls()
    deliveries = running()
    if not deliveries and not transport.has_called(_CALM_SECONDS):
        return
    for delivery in deliveries:
        delivery.park()
    deadline = time.monotonic() + _MAX_SECONDS
    if not (_await(lambda: all(delivery.is_parked() for delivery in deliveries), deadline)
            and _await(lambda: not transport.is_calling(), deadline)
            and _await(_has_no_call, deadline) and _await(_is_quiet, deadline)):
        _State.refusal = transport.calling()
        _State.refusal.__enter__()


def _await(condition: Callable[[], bool], deadline: float) -> bool:
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _has_no_call() -> bool:
    return not any(name in thread.name for thread in threading.enumerate() for name in _GRPC_THREADS)


def _is_quiet() -> bool:
    before = _switches()
    time.sleep(_QUIET_SECONDS)
    return _switches() == before


def _switches() -> dict[str, list[str]]:
    """How often each thread of gRPC has run, by its number.

    gRPC names its threads; those of other libraries, such as BLAS, have the name of the process.
    """
    known = {str(thread.native_id) for thread in threading.enumerate()}
    found = {}
    # A thread may end meanwhile, and other systems have no such files.
    with contextlib.suppress(OSError):
        process = (_TASKS / str(os.getpid()) / "comm").read_bytes()
        for task in _TASKS.iterdir():
            if task.name not in known and (task / "comm").read_bytes() != process:
                found[task.name] = _SWITCHES.findall((task / "status").read_text(encoding="ascii"))
    return found


def _after_in_parent() -> None:
    _State.forking = False
    transport.release_calls()
    if _State.refusal is not None:
        _State.refusal.__exit__(None, None, None)
        _State.refusal = None
    for delivery in running():
        delivery.unpark()


def _after_in_child() -> None:
    _State.forking = False
    _State.refusal = None
    _State.deliveries = set()
    for stream in list(_State.streams):
        stream.start_in_child()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
