"""What a server has said about the batches of a stream."""
from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Sequence

from calibd import errors
from calibd.arrays import Classes
from calibd.errors import CalibdError, DataLoss, FieldError
from calibd.rows import NOTHING_DROPPED, Dropped
from calibd.stream_settings import StreamSettings
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.window import ENVELOPE_BYTES, RejectedBatch, SendWindow, StreamCounts

MAX_KEPT = 100
# No producer reaches it, and the numbers that follow fit into 63 bits.
_MAX_SEQUENCE = 2**62 - 1


@dataclass
class Connection:
    """State of one connection."""

    # By the monotonic clock.
    started: float = field(default_factory=time.monotonic)
    call: Any = None
    opened: bool = False
    ended: bool = False
    finish_written: bool = False
    # It was ended because nothing happened on it for the stall timeout.
    was_silent: bool = False
    # Rows and labels written on it, and the labels that may have been accepted before.
    rows: int = 0
    repeatable_labels: int = 0


class Ledger:
    """The counts of a stream, the limits of the server, and the batches that are not settled.

    A message that contradicts an earlier one raises DataLoss. Has no lock: that of the stream
    protects it.

    classes: what the model is declared with; None before the first connection has opened.
    finished: the server has settled every batch, and the stream has ended.
    """

    def __init__(self, settings: StreamSettings) -> None:
        self._settings = settings
        self.classes: Classes | None = None
        self.max_rows = 0
        self.max_bytes = 0
        self.window = SendWindow(1, 1)
        # The server may know rows: by their ids, or from an earlier stream with the same key.
        self.may_have_duplicates = bool(settings.idempotency_key)
        self.finished = False
        self._has_opened = False
        self.counts = StreamCounts()
        self.rejected: list[RejectedBatch] = []
        self.dropped: list[FieldError] = []

    def keep_dropped(self, fields: Sequence[FieldError]) -> None:
        """Keeps the first of the faults of dropped rows."""
        self.dropped += fields[:MAX_KEPT - len(self.dropped)]

    def abandon(self) -> tuple[Dropped, int]:
        """Forgets the batches and the model, for a stream that starts anew.

        Their rows and labels become dropped ones. Returns those dropped ones that the server may not
        know, and the size of the batches.
        """
        unreported, size = NOTHING_DROPPED, 0
        for batch in self.window.take_all():
            lost = len(batch.rows) - batch.rejected_rows - batch.skipped_rows
            if batch.has_labels_only:
                self.counts.dropped_labels += lost
                self.counts.rejected_labels += batch.rejected_rows
                unreported = unreported.plus(Dropped(labels=lost))
            else:
                self.counts.dropped_rows += lost + batch.skipped_rows
                self.counts.rejected_rows += batch.rejected_rows
                unreported = unreported.plus(batch.dropped).plus(Dropped(lost))
            size += batch.size
        self.classes = None
        return unreported, size

    def handle(self, connection: Connection, finishing: bool,
               response: ingest.StreamObservationsResponse) -> tuple[bool, int]:
        """Takes a message of the server.

        Returns whether it is progress, and the size of the batches that it has settled. A repeated or
        old message is no progress, nor is a connection that opens again.
        """
        kind = response.WhichOneof("message")
        if kind == "opened" and not connection.opened:
            # A stream that starts anew after a refusal has not progressed by it.
            is_first = not self._has_opened
            self._open(response.opened)
            self._has_opened = True
            connection.opened = True
            return is_first, 0
        if kind == "ack" and connection.opened:
            marked = response.ack.HasField("skipped") and self._skip(response.ack)
            settled, size = self._settle(response.ack.sequence)
            return settled or marked, size
        if kind == "rejected" and connection.opened:
            return self._reject(response.rejected), 0
        if kind == "finished" and connection.opened:
            size = self._finish(connection, finishing, response.finished)
            return True, size
        raise errors.Internal("the server sent a message that is not expected in a stream")

    def _open(self, opened: ingest.StreamObservationsResponse.Opened) -> None:
        has_key = bool(self._settings.idempotency_key)
        for name in ("next_sequence", "max_rows_per_batch", "max_bytes_per_batch",
                     "max_batches_in_flight"):
            if getattr(opened, name) < 1:
                raise DataLoss(f"the server opened the stream with {name} {getattr(opened, name)}, "
                               "expected at least 1")
        if opened.next_sequence > _MAX_SEQUENCE:
            raise DataLoss(f"the server opened the stream with next_sequence {opened.next_sequence}, "
                           f"expected at most {_MAX_SEQUENCE}")
        if not opened.HasField("forecast") and not opened.labels.names and opened.classes.count < 2:
            raise DataLoss(f"the server opened the stream with {opened.classes.count} classes, expected "
                           "at least 2")
        classes = Classes(opened.classes.count, tuple(opened.classes.names),
                          opened.classes.row_sum_tolerance,
                          opened.forecast if opened.HasField("forecast") else None,
                          tuple(opened.feature_names), tuple(opened.labels.names))
        if self.classes is None:
            # With a key, all batches are sent, so that the server can compare them.
            self.window = SendWindow(1 if has_key else opened.next_sequence,
                                     opened.max_batches_in_flight)
            self.max_bytes = opened.max_bytes_per_batch - ENVELOPE_BYTES
            if self.max_bytes < 8 * opened.classes.count + ENVELOPE_BYTES:
                raise errors.FailedPrecondition(
                    f"one prediction of {opened.classes.count} classes does not fit into the server's "
                    f"limit of {opened.max_bytes_per_batch} bytes a batch: raise --max-message-bytes")
        else:
            # Only the tolerance can be updated.
            known = self.classes._replace(row_sum_tolerance=classes.row_sum_tolerance)
            for kind, before, now in zip(("number of classes", "classes", "tolerance", "forecast",
                                          "features", "labels"), known, classes):
                if before != now:
                    raise errors.FailedPrecondition(
                        f"the model was created again with another declaration: its {kind} differ, so "
                        "open another stream")
            last = self.window.next_sequence
            # With a key, the server may have batches of an earlier stream.
            self.window.reopen(min(opened.next_sequence, last) if has_key else opened.next_sequence)
            self.counts.reconnects += 1
        # A quota may have changed. With a key, the batches stay as an earlier stream made them.
        if self.classes is None or not has_key:
            self.max_rows = opened.max_rows_per_batch
        self.classes = classes

    def _settle(self, sequence: int) -> tuple[bool, int]:
        before = self.window.unsettled
        size = self.window.acknowledge(sequence, self.counts)
        return self.window.unsettled < before, size

    def _reject(self, rejected: ingest.StreamObservationsResponse.Rejected) -> bool:
        batch = self.window.reject(rejected.sequence)
        # A batch without rows has only the number of dropped ones.
        if batch is None or not len(batch.rows):
            return False
        if len(self.rejected) >= MAX_KEPT:
            return True
        error = errors.from_status(rejected.status)
        fields = [batch.with_callers_row(violation) for violation in error.fields]
        message = "; ".join(f"{f.path} {f.description}" for f in fields) or error.message
        self.rejected.append(RejectedBatch(
            batch.has_labels_only, (int(batch.rows[0]), int(batch.rows[-1])), len(batch.rows),
            type(error)(message, fields, error.reason, error.retry_seconds)))
        return True

    def _skip(self, ack: ingest.StreamObservationsResponse.Ack) -> bool:
        batch = self.window.skip(ack.sequence, ack.skipped.rows)
        if batch is not None:
            self.keep_dropped([batch.with_callers_row(violation)
                               for violation in errors.violations(ack.skipped.violations)])
        return batch is not None

    def _finish(self, connection: Connection, finishing: bool,
                finished: ingest.StreamObservationsResponse.Finished) -> int:
        labels = finished.labels
        told = (labels.matched, labels.repeated, labels.conflicting, labels.late, labels.unknown,
                labels.waiting)
        counted = (finished.accepted_rows, finished.duplicate_rows, finished.rejected_rows)
        if min(*told, *counted) < 0:
            raise DataLoss("the server finished with a negative count, expected counts of at least 0")
        known_labels = sum(told)
        rows = sum(counted) + known_labels
        last = self.window.next_sequence - 1
        # The counts do not include labels that were accepted before this connection.
        if (not finishing or finished.last_sequence != last
                or not connection.rows - connection.repeatable_labels <= rows <= connection.rows):
            raise DataLoss(
                f"the server finished at batch {finished.last_sequence} with {rows} rows on this "
                f"connection, expected batch {last} with {connection.rows} rows")
        # Finished settles what no acknowledgement has settled yet.
        size = self._settle(last)[1] if last else 0
        counts = self.counts
        # Other labels were accepted before this connection, and nobody tells their outcomes.
        if known_labels == counts.accepted_labels:
            counts.matched_labels, counts.repeated_labels = labels.matched, labels.repeated
            counts.conflicting_labels, counts.late_labels = labels.conflicting, labels.late
            counts.unknown_labels, counts.waiting_labels = labels.unknown, labels.waiting
        # After a reconnection, rows that were resent cannot be told from duplicates.
        if not counts.reconnects or not self.may_have_duplicates:
            counts.duplicate_rows = finished.duplicate_rows if self.may_have_duplicates else 0
            counts.accepted_rows -= counts.duplicate_rows
        self.finished = True
        return size

    def describe_reuse(self, error: CalibdError) -> CalibdError:
        """The server names the producer, which the caller of a stream with a key did not choose."""
        key = self._settings.idempotency_key
        if key and isinstance(error, errors.AlreadyExists):
            return errors.AlreadyExists(
                f"the idempotency_key {key} was already used with other rows or options",
                reason=error.reason)
        if key and error.reason == "PRODUCER_ENDED":
            return errors.FailedPrecondition(
                f"a stream with the idempotency_key {key} was finished, and this one has more rows: "
                "send the further rows with another key", reason=error.reason)
        return error
