"""Streams and fork(): gRPC survives a fork only while none of its threads runs.

Before a fork all connections end, and afterwards they open again in the parent; the numbers of the
batches make that exact. In the child, streams start anew. A fork waits at most two seconds for that.
"""
from __future__ import annotations

import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from calibd import transport

if TYPE_CHECKING:
    from calibd.delivery import Delivery

_MAX_SECONDS = 2.0
# The thread of a channel in gRPC, which ends after the last call.
_GRPC_THREAD = "channel_spin"


class Forkable(Protocol):
    """What starts anew in a child process."""

    def start_in_child(self) -> None:
        """Forgets all threads and locks, which the child does not have."""


class _State:
    forking = False
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
    deliveries = running()
    if not deliveries:
        return
    for delivery in deliveries:
        delivery.park()
    deadline = time.monotonic() + _MAX_SECONDS
    while time.monotonic() < deadline and not all(delivery.is_parked() for delivery in deliveries):
        time.sleep(0.001)
    # The thread of another call of this package runs as long as that call.
    while time.monotonic() < deadline and not transport.is_calling() and any(
            _GRPC_THREAD in thread.name for thread in threading.enumerate()):
        time.sleep(0.001)


def _after_in_parent() -> None:
    _State.forking = False
    for delivery in running():
        delivery.unpark()


def _after_in_child() -> None:
    _State.forking = False
    _State.deliveries = set()
    for stream in list(_State.streams):
        stream.start_in_child()


os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
