"""What the log says about the rows of a stream that are not counted."""
from __future__ import annotations

import logging
import threading

from calibd.errors import CalibdError
from calibd.ledger import Ledger

_LOG = logging.getLogger("calibd")
# Seconds between two lines about dropped rows.
LOG_SECONDS = 60.0


class LossLog:
    """Logs the losses of one stream. Its attributes need the lock `changed` to be held.

    error: the error of the last connection, until the server answers again.
    is_over: the stream has ended, and no line follows.
    """

    def __init__(self, model: str, ledger: Ledger, changed: threading.Condition) -> None:
        self._model = model
        self._ledger = ledger
        self._changed = changed
        self.error: CalibdError | None = None
        self.is_over = False
        # Number of dropped rows and labels that the last line of the log stated.
        self._logged = 0
        self._thread: threading.Thread | None = None
        self._loss_is_reported = False

    def report_lost(self, what: str) -> None:
        """Logs once how many accepted rows and labels the server has not acknowledged."""
        counts = self._ledger.counts
        lost = amounts(
            counts.rows - counts.dropped_rows - counts.accepted_rows - counts.rejected_rows,
            counts.labels - counts.dropped_labels - counts.accepted_labels - counts.rejected_labels)
        if lost and not self._ledger.finished and not self._loss_is_reported:
            self._loss_is_reported = True
            _LOG.warning("%s: the stream %s, its newest %s may not be counted", self._model, what, lost)

    def log_dropped(self) -> None:
        """Logs how many rows were dropped since the last line. Takes the lock itself."""
        with self._changed:
            counts = self._ledger.counts
            total = counts.dropped_rows + counts.dropped_labels
            since, self._logged = total - self._logged, total
            first = self._ledger.dropped[0] if self._ledger.dropped else None
            cause = "the server does not keep up"
            if self.error is not None:
                cause = self.error.message
            elif first is not None:
                cause = f"the first invalid one: {' '.join(first)}"
        if since:
            _LOG.warning("%s: dropped %d rows and labels, %d in all; %s", self._model, since, total,
                         cause)

    def log_soon(self) -> None:
        """Logs dropped rows now and each minute, as long as rows are dropped.

        A handler of the log may take long, so a thread calls it.
        """
        if self._thread is None:
            self._thread = threading.Thread(target=self._log_each_minute, name="calibd-log", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                # The process has too many threads, or ends. The next dropped row tries again.
                self._thread = None

    def _log_each_minute(self) -> None:
        while True:
            self.log_dropped()
            with self._changed:
                self._changed.wait_for(lambda: self.is_over, LOG_SECONDS)
                counts = self._ledger.counts
                if self.is_over or counts.dropped_rows + counts.dropped_labels == self._logged:
                    self._thread = None
                    return


def amounts(rows: int, labels: int, kind: str = "") -> str:
    """Text; empty if both are 0."""
    return " and ".join(f"{count} {kind}{what}{'s' if count > 1 else ''}"
                        for count, what in ((rows, "row"), (labels, "label")) if count)
