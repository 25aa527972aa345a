"""The batches of a stream that are not settled yet."""
from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from calibd import wire
from calibd.arrays import Integers
from calibd.errors import Aborted, CalibdError, DataLoss, FieldError
from calibd.rows import NOTHING_DROPPED, Chunk, Dropped
from calibd.v1 import ingest_service_pb2 as ingest

_REQUEST_BATCH = wire.number_of(ingest.StreamObservationsRequest, "batch")
_SEQUENCE = wire.number_of(ingest.StreamObservationsRequest.Batch, "sequence")
_OBSERVATIONS = wire.number_of(ingest.StreamObservationsRequest.Batch, "observations")
_LABELS = wire.number_of(ingest.StreamObservationsRequest.Batch, "labels")
_DROPPED_ROWS = wire.number_of(ingest.Observations, "dropped_rows")
_DROPPED_LABELS = wire.number_of(ingest.Observations, "dropped_labels")
_SKIP_INVALID_ROWS = wire.number_of(ingest.Observations, "skip_invalid_rows")

# Upper bound of the size of a request without its chunks.
ENVELOPE_BYTES = 64
# No batch has more rows, and a number of thousands of digits is an error in int().
_ROW = re.compile(r"\[([0-9]{1,10})\]")


@dataclass
class Batch:
    """A numbered batch, and what is known about its fate."""

    sequence: int
    request: bytes
    # The caller's numbers of its rows.
    rows: Integers
    # Size of its chunks.
    size: int
    has_labels_only: bool
    # What its request reports to be dropped.
    dropped: Dropped = NOTHING_DROPPED
    written_before: bool = False
    rejected_rows: int = 0
    skipped_rows: int = 0

    def with_callers_row(self, violation: FieldError) -> FieldError:
        """The violation with the caller's number of the row instead of the number in the batch."""
        match = _ROW.search(violation.path)
        if (match is None or violation.path.startswith("class_names[")
                or int(match[1]) >= len(self.rows)):
            return violation
        # "rows[3].probabilities[1]" or "prediction_ids[3]".
        path = violation.path.replace(match[0], f"[{self.rows[int(match[1])]}]", 1)
        return FieldError(path, violation.description)


@dataclass
class RejectedBatch:
    """A batch that the server rejected: none of its rows was counted.

    rows: the first and the last row, as the caller numbers them. Labels have their own numbers.
    """

    labels: bool
    rows: tuple[int, int]
    row_count: int
    error: CalibdError


@dataclass(repr=False)
class StreamCounts:
    """Counts of a stream."""

    # Rows given to send(), dropped ones included, and labels given to label().
    rows: int = 0
    labels: int = 0
    # Rows that the server accepted, each counted once. They include duplicates, rows whose ids were
    # known, while their number is None: until the end of the stream, and if it had ids or a key and
    # reconnected.
    accepted_rows: int = 0
    duplicate_rows: int | None = None
    # Rows of batches that the server rejected.
    rejected_rows: int = 0
    # Rows that were left out because they are invalid, or because the buffer of a stream with
    # on_full="drop" had no room. The stream tells the server their number, and the server counts them.
    dropped_rows: int = 0
    # Labels that the server accepted with any outcome, that it rejected, and that were dropped, which
    # the stream also tells the server.
    accepted_labels: int = 0
    rejected_labels: int = 0
    dropped_labels: int = 0
    # The number of dropped rows and labels for which the buffer had no room.
    overflowed: int = 0
    # The outcomes of the accepted labels, see LabelCounts of the protocol. The server tells them at
    # the end, for the labels that it accepted on this connection. None means that they are not known
    # yet, or never will be, because labels were accepted on an earlier connection or an earlier stream
    # with the same key.
    matched_labels: int | None = None
    repeated_labels: int | None = None
    conflicting_labels: int | None = None
    late_labels: int | None = None
    unknown_labels: int | None = None
    # Labels that came before their predictions: the server keeps them for a minute.
    waiting_labels: int | None = None
    # Connections after the first, and batches sent again on them.
    reconnects: int = 0
    resent_batches: int = 0

    def __repr__(self) -> str:
        """Without the counts that are 0 or unknown."""
        counts = ", ".join(f"{name}={count}" for name, count in vars(self).items() if count)
        return f"StreamCounts({counts})"


@dataclass
class SendWindow:
    """Makes resending exact: batches keep their numbers, and stay here until they are settled.

    Has no lock: the lock of the stream protects it.
    """

    next_sequence: int
    capacity: int
    _batches: deque[Batch] = field(default_factory=deque)
    # The first ones were written on this connection.
    _written: int = 0

    @property
    def is_full(self) -> bool:
        """Whether a batch must be settled before the next one."""
        return len(self._batches) >= self.capacity

    @property
    def unsettled(self) -> int:
        """The number of batches that are not settled."""
        return len(self._batches)

    @property
    def is_empty(self) -> bool:
        """Whether all batches are settled."""
        return not self._batches

    @property
    def all_written(self) -> bool:
        """Whether all batches were written on this connection."""
        return self._written == len(self._batches)

    def push(self, chunks: list[Chunk], skips_invalid: bool) -> None:
        """Numbers a batch of chunks of one kind. skips_invalid: the server leaves out invalid rows."""
        parts = [part for chunk in chunks for part in chunk.parts]
        dropped = Dropped(*(sum(counts) for counts in zip(*(chunk.dropped for chunk in chunks))))
        parts += [wire.integer_field(field, number) for field, number in (
            (_DROPPED_ROWS, dropped.rows), (_DROPPED_LABELS, dropped.labels)) if number]
        labels_only = chunks[0].has_labels_only
        if skips_invalid and not labels_only:
            parts.append(wire.integer_field(_SKIP_INVALID_ROWS, 1))
        content = wire.nested(_LABELS if labels_only else _OBSERVATIONS, parts)
        request = b"".join(wire.nested(_REQUEST_BATCH, [
            wire.integer_field(_SEQUENCE, self.next_sequence), *content]))
        rows = chunks[0].rows if len(chunks) == 1 else np.concatenate([c.rows for c in chunks])
        self._batches.append(Batch(self.next_sequence, request, rows,
                                   sum(chunk.size for chunk in chunks), labels_only, dropped))
        self.next_sequence += 1

    def take_next(self) -> tuple[Batch, bool]:
        """The next batch for this connection, and whether it was written on an earlier one."""
        batch = self._batches[self._written]
        self._written += 1
        is_resent, batch.written_before = batch.written_before, True
        return batch, is_resent

    def take_all(self) -> list[Batch]:
        """Removes and returns the batches that are not settled."""
        batches = list(self._batches)
        self._batches.clear()
        self._written = 0
        return batches

    def acknowledge(self, sequence: int, counts: StreamCounts) -> int:
        """Settles every batch up to and including the number. An old number settles nothing.

        Adds their rows and labels to `counts`. Returns the size of their chunks.
        """
        self._check_written("acknowledged", sequence)
        size = 0
        while self._batches and self._batches[0].sequence <= sequence:
            batch = self._batches.popleft()
            self._written -= 1
            size += batch.size
            accepted = len(batch.rows) - batch.rejected_rows - batch.skipped_rows
            if batch.has_labels_only:
                counts.accepted_labels += accepted
                counts.rejected_labels += batch.rejected_rows
            else:
                counts.accepted_rows += accepted
                counts.rejected_rows += batch.rejected_rows
                counts.dropped_rows += batch.skipped_rows
        return size

    def reject(self, sequence: int) -> Batch | None:
        """Marks a batch as rejected, until its acknowledgement settles it.

        Returns None if it is already settled or marked.
        """
        batch = self._unmarked("rejected", sequence)
        if batch is not None:
            batch.rejected_rows = len(batch.rows)
        return batch

    def skip(self, sequence: int, rows: int) -> Batch | None:
        """Marks so many rows of a batch as skipped, until its acknowledgement settles it.

        Returns None if it is already settled or marked.
        """
        batch = self._unmarked("skipped rows of", sequence)
        if batch is not None:
            if not 1 <= rows <= len(batch.rows) or batch.has_labels_only:
                raise DataLoss(f"the server skipped {rows} rows of batch {sequence}, which has "
                               f"{0 if batch.has_labels_only else len(batch.rows)}")
            batch.skipped_rows = rows
        return batch

    def _unmarked(self, what: str, sequence: int) -> Batch | None:
        self._check_written(what, sequence)
        if not self._batches or sequence < self._batches[0].sequence:
            return None
        batch = self._batches[sequence - self._batches[0].sequence]
        return None if batch.rejected_rows or batch.skipped_rows else batch

    def reopen(self, expected: int) -> None:
        """Starts a new connection, on which all batches are written again.

        expected: the number that the server expects next.
        """
        first = self._batches[0].sequence if self._batches else self.next_sequence
        if expected < first:
            raise DataLoss(f"the server expects batch {expected}, but it has acknowledged all up to "
                           f"{first - 1}: it has lost state")
        if expected > self.next_sequence:
            raise Aborted(f"the server expects batch {expected}, but the last one made here is "
                          f"{self.next_sequence - 1}: another producer uses the same producer_id")
        self._written = 0

    def _check_written(self, what: str, sequence: int) -> None:
        last = self.next_sequence - 1 - (len(self._batches) - self._written)
        if not 1 <= sequence <= last:
            raise DataLoss(f"the server {what} batch {sequence}, expected one from 1 to {last}, the "
                           "last one sent")
