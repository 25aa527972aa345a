"""What the log says about the rows of a stream that are not counted."""
from __future__ import annotations

import logging
import threading
import time

from calibd.errors import CalibdError
from calibd.ledger import Ledger

_LOG = logging.getLogger("calibd")
# Seconds between two lines about dropped rows, and about a stream that does not open.
LOG_SECONDS = 60.0


def write(level: int, text: str, *values: object) -> None:
    """Logs a line. An application whose filter or handler raises must not end a thread by it.

    No lock may be held: a handler may call the stream, or wait for a thread that does.
    """
    try:
        _LOG.log(level, text, *values)
    except Exception:
        pass


class LossLog:
    """Logs the losses of one stream. Its attributes need the lock `changed` to be held.

    error: the error of the last connection, until the server answers again.
    obstacle: what keeps the stream from opening; empty if it is open.
    is_over: the stream has ended.
    is_closed: its close has been logged, and what is dropped now came too late.
    """

    def __init__(self, model: str, ledger: Ledger, changed: threading.Condition) -> None:
        self._model = model
        self._ledger = ledger
        self._changed = changed
        self.error: CalibdError | None = None
        self.obstacle = ""
        self.is_over = False
        self.is_closed = False
        # The earliest times of the next lines, by the monotonic clock.
        self._next_line = self._next_obstacle = 0.0
        # The text that write_lost() will log; empty if there is none.
        self._lost = ""
        # Number of dropped rows and labels that the last line of the log stated.
        self._logged = 0
        self._thread: threading.Thread | None = None
        self._loss_is_reported = False

    def report_lost(self, what: str) -> None:
        """Notes once how many accepted rows and labels the server has not acknowledged.

        write_lost() logs it when the lock is released.
        """
        counts = self._ledger.counts
        lost = amounts(
            counts.rows - counts.dropped_rows - counts.accepted_rows - counts.rejected_rows,
            counts.labels - counts.dropped_labels - counts.accepted_labels - counts.rejected_labels)
        if lost and not self._ledger.finished and not self._loss_is_reported:
            self._loss_is_reported = True
            self._lost = f"the stream {what}, its newest {lost} may not be counted"
            if self.error is not None and self.error.message not in what:
                self._lost += f": {self.error.message}"

    def write_lost(self) -> None:
        """Logs what report_lost() has noted. Takes the lock itself."""
        with self._changed:
            lost, self._lost = self._lost, ""
        if lost:
            write(logging.WARNING, "%s: %s", self._model, lost)

    def log_dropped(self) -> None:
        """Logs how many rows were dropped since the last line. Takes the lock itself."""
        with self._changed:
            counts = self._ledger.counts
            total = counts.dropped_rows + counts.dropped_labels
            since, self._logged = total - self._logged, total
            first = self._ledger.dropped[0] if self._ledger.dropped else None
            self._next_line = time.monotonic() + LOG_SECONDS
            cause = "the server does not keep up"
            if self.is_closed:
                cause = "the stream is closed"
            elif self.error is not None:
                cause = self.error.message
            elif first is not None:
                cause = f"the first invalid one: {' '.join(first)}"
        if since:
            what = "row or label" if since == 1 else "rows and labels"
            write(logging.WARNING, "%s: dropped %d %s, %d in all; %s", self._model, since, what, total,
                  cause)

    def log_obstacle(self) -> None:
        """Logs what keeps the stream from opening, once a minute. Takes the lock itself."""
        with self._changed:
            if not self.obstacle or time.monotonic() < self._next_obstacle:
                return
            self._next_obstacle = time.monotonic() + LOG_SECONDS
            obstacle = self.obstacle
        write(logging.WARNING, "%s: %s", self._model, obstacle)

    def log_soon(self) -> None:
        """Logs dropped rows and the obstacle now and each minute, as long as there are any.

        A handler of the log may take long, so a thread calls it.
        """
        if self._thread is None and not (self.is_over and time.monotonic() < self._next_line):
            self._thread = threading.Thread(target=self._log_each_minute, name="calibd-log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The process has too many threads, or ends. The next dropped row tries again.
                self._thread = None

    def _log_each_minute(self) -> None:
        while True:
            self.log_dropped()
            self.log_obstacle()
            with self._changed:
                self._changed.wait_for(lambda: self.is_over, LOG_SECONDS)
                counts = self._ledger.counts
                if self.is_over or not self.obstacle and (
                        counts.dropped_rows + counts.dropped_labels == self._logged):
                    self._thread = None
                    return


def amounts(rows: int, labels: int, kind: str = "") -> str:
    """Text; empty if both are 0."""
    return " and ".join(f"{count} {kind}{what}{'s' if count > 1 else ''}"
                        for count, what in ((rows, "row"), (labels, "label")) if count)
