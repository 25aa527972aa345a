"""What the end of a process does with its streams."""
from __future__ import annotations

import atexit
import os
import sys
import time

from calibd import forks

# Both have a class Finalize.
_MODULES = ("multiprocessing.util", "billiard.util")
# Processes and modules whose end is known.
_registered: set[tuple[int, str]] = set()


@atexit.register
def _close_all() -> None:
    """Delivers the rows of the streams that nobody has closed, each within its close_timeout.

    A stream that opens in a block is not delivered: to wait for its server is the job of its block.
    """
    deliveries = list(forks.running())
    for delivery in deliveries:
        if delivery.delivers_at_exit:
            delivery.begin_close()
    begin = time.monotonic()
    for delivery in deliveries:
        if delivery.delivers_at_exit:
            delivery.end_close(begin + delivery.settings.close_timeout, "was not closed")
        else:
            with delivery.changed:
                delivery.log.report_lost("was not finished")
            delivery.log.write_lost()


def register() -> None:
    """Makes the end of this process close its streams, also if it is a worker of a pool.

    The processes of multiprocessing and of Celery end without the functions of atexit, and forget at
    their start what was registered before.
    """
    for name in _MODULES:
        module = sys.modules.get(name)
        if module is not None and (os.getpid(), name) not in _registered:
            _registered.add((os.getpid(), name))
            module.Finalize(None, _close_all, exitpriority=100)
