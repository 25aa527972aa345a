"""A stream of predictions to a model that counts each row exactly once."""
from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Callable, Iterator, Sequence, Type

import grpc

from calibd import errors
from calibd.arrays import Classes
from calibd.errors import CalibdError, FieldError
from calibd.rows import (MANY_ROWS, WHOLE_WARNING, Chunk, Extras, LabelRows, Rows, dropped_chunk,
                         invalid_rows, rows_of)
from calibd.stream_settings import StreamSettings
from calibd.transport import Backoff, StreamChannels
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.window import ENVELOPE_BYTES, RejectedBatch, SendWindow, StreamCounts

_LOG = logging.getLogger("calibd")
_MAX_KEPT = 100
# Streams whose threads run.
_running: set[ObservationStream] = set()


@atexit.register
def _report_unfinished() -> None:
    for stream in list(_running):
        stream._report_lost("was not finished")


@dataclass
class _Connection:
    """State of one connection."""

    call: Any = None
    opened: bool = False
    ended: bool = False
    finish_written: bool = False
    # Rows and labels written on it, and the labels that may have been accepted before.
    rows: int = 0
    repeatable_labels: int = 0


class ObservationStream:
    """A producer's stream of predictions to one model; see Client.stream().

    send() and label() check the rows, copy them into a buffer and return; a thread sends them. All
    methods may be called from any thread. Rows arrive in the order of the calls.

    The stream reopens a lost connection and sends all unacknowledged batches again. The server
    counts each batch once. If a method fails for a reason other than invalid rows, the stream has
    ended, and all methods raise the same error; unacknowledged rows may or may not be counted.

    rejected: the first 100 batches that the server rejected.
    dropped: the first 100 invalid rows that were dropped, here or by the server.
    """

    def __init__(self, channels: StreamChannels, settings: StreamSettings,
                 open_timeout: float) -> None:
        self._settings = settings
        self._channels = channels
        self._process = os.getpid()
        # Used by the thread alone.
        self._channel = channels.take()
        self._connection_opens = True
        # Keeps the rows of concurrent calls apart. Held while a call waits for room.
        self._sending = threading.Lock()
        # Guards everything below.
        self._changed = threading.Condition()
        self._failure: CalibdError | None = None
        # The error of the last connection, until the server answers again.
        self._last_error: CalibdError | None = None
        self._classes: Classes | None = None
        self._max_rows = 0
        self._max_bytes = 0
        self._window = SendWindow(1, 1)
        self._chunks: deque[Chunk] = deque()
        # Size of the chunks here and in the window.
        self._buffered = 0
        self._unreported_dropped = 0
        # The server may know rows: by their ids, or from an earlier stream with the same key.
        self._may_have_duplicates = bool(settings.idempotency_key)
        self._finishing = False
        self._finished = False
        self._has_counts = False
        self._connection = _Connection()
        self._last_progress = time.monotonic()
        self._counts = StreamCounts()
        self.rejected: list[RejectedBatch] = []
        self.dropped: list[FieldError] = []
        self._loss_is_reported = False
        # Rows so far if all of them were whole; None: one was not, or the warning was given.
        self._whole_rows: int | None = 0
        self._thread = threading.Thread(target=self._run, name="calibd-stream", daemon=True)
        _running.add(self)
        self._thread.start()
        try:
            self._wait_until_open(open_timeout)
        except BaseException:
            self.cancel()
            raise

    # --- the caller's threads ---

    @property
    def counts(self) -> StreamCounts:
        """The counts so far."""
        with self._changed:
            return replace(self._counts)

    @property
    def producer_id(self) -> str:
        """The name of the producer."""
        return self._settings.producer_id

    def send(self, probabilities: Any, labels: Any = None, *, ids: Any = None, groups: Any = None,
             times: Any = None, logits: bool = False, baseline: Any = None,
             features: Any = None) -> None:
        """Accepts n predictions. Blocks while the buffer is full.

        probabilities: n x m numbers: an array, a frame whose columns are the classes, or a list. Of
          a model with two classes also n scores, the probabilities of class 1. float32 is sent as
          it is, all else as float64.
        labels: the n true classes, from 0 or as names of the classes. None: they come later, by id.
        ids: n texts or integers by which the labels come, or by which duplicates are known; needs
          a model with a label_grace.
        groups: the value of the model's group tag, a text or an integer, or n of them.
        times: when the predictions were made, a datetime or n of them; None: now.
        logits: the numbers are logits, to which the server applies the softmax.
        baseline: the predictions of the model's baseline for the same rows, in the shape of
          `probabilities` and logits if these are. A model that declares a baseline needs them.
        features: n x d numbers, in the order of the model's feature_names, or a frame with columns
          of these names. A model that declares features needs them.

        A model that forecasts a number takes n x w forecasts instead: mean and standard deviation,
        quantiles, or draws; and n outcomes instead of labels.

        A model of several labels takes n x K probabilities, whose rows have no sum, and n x K truths:
        1, 0, or None or NaN for a missing one. Frames may have the names of the labels as columns.

        Raises InvalidArgument, naming the first invalid rows; no row was accepted then. With
        on_invalid="drop" they are left out instead.
        """
        self._accept("rows", lambda classes: rows_of(
            classes, probabilities, labels, Extras(ids, groups, times, features), logits, baseline))

    def label(self, ids: Any, labels: Any) -> None:
        """Accepts the labels of predictions that were sent with these ids, here or elsewhere.

        For a model that forecasts a number, they are the outcomes; for one of several labels n x K
        truths.

        A label that the server cannot use is not an error: see `counts`.
        """
        self._accept("labels", lambda classes: LabelRows(classes, ids, labels))

    def flush(self) -> None:
        """Returns when every accepted row is settled: counted or rejected."""
        self._check_process()
        with self._changed:
            self._check_open()
            self._report_dropped_early()
            self._wait_for(self._is_settled)

    def finish(self) -> StreamCounts:
        """Ends the stream, when both sides agree that every batch was counted or rejected.

        With on_invalid="raise", raises the error of the first batch that the server rejected. After
        Ctrl-C it may be called again.
        """
        self._check_process()
        with self._sending, self._changed:
            # A finish that Ctrl-C interrupted has begun, and may have ended meanwhile.
            if self._has_counts or not self._finishing:
                self._check_open()
                self._start_waiting()
                self._report_dropped()
                self._finishing = True
                self._changed.notify_all()
            self._wait_for(lambda: self._finished)
        self._close()
        counts = self.counts
        self._has_counts = True
        dropped = _amounts(counts.dropped_rows, counts.dropped_labels, "invalid ")
        if dropped:
            _LOG.warning("%s: dropped %s, the first: %s", self._settings.model, dropped,
                         " ".join(self.dropped[0]) if self.dropped else "unknown")
        if self.rejected and self._settings.on_invalid == "raise":
            raise self.rejected[0].error
        if self.rejected:
            _LOG.warning("%s: the server rejected %s, the first: %s", self._settings.model,
                         _amounts(counts.rejected_rows, counts.rejected_labels),
                         self.rejected[0].error.message)
        return counts

    def cancel(self) -> None:
        """Ends the stream at once: blocked and later calls raise Cancelled."""
        self._cancel("the stream was cancelled")

    def _cancel(self, message: str) -> None:
        if self._process != os.getpid():
            return  # It is the parent's stream.
        with self._changed:
            if not self._finished:
                self._fail(errors.Cancelled(message))
        self._close()

    def __enter__(self) -> ObservationStream:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Finishes the stream. After an error it still delivers the rows, but does not finish.

        Ctrl-C is such an error, also while the stream finishes; a second one gives the rows up.
        """
        if kind is not None:
            self._deliver(kind)
        elif not self._finished and not isinstance(self._failure, errors.Cancelled):
            try:
                self.finish()
            except CalibdError:
                raise
            except BaseException as interruption:
                self._deliver(type(interruption))
                raise

    def _deliver(self, kind: Type[BaseException]) -> None:
        """Ends the stream after an error of the caller, when every accepted row is settled."""
        if self._process != os.getpid():
            return
        try:
            with self._changed:
                self._report_dropped_early()
                self._wait_for(lambda: self._finished or self._is_settled())
        except CalibdError:
            pass  # The error of the caller is more useful.
        finally:
            self._report_lost("ended early")
            counts = self.counts
            accepted = _amounts(counts.accepted_rows, counts.accepted_labels) or "no row"
            self._cancel(f"the stream ended when its block raised {kind.__name__}, and the server has "
                         f"accepted {accepted} of it: a row that is sent again counts twice, unless it "
                         "has an id or the streams have an idempotency_key")

    def _report_lost(self, what: str) -> None:
        """Logs once how many accepted rows and labels the server has not acknowledged."""
        if self._process != os.getpid():
            return
        with self._changed:
            counts = self._counts
            lost = _amounts(
                counts.rows - counts.dropped_rows - counts.accepted_rows - counts.rejected_rows,
                counts.labels - counts.dropped_labels - counts.accepted_labels - counts.rejected_labels)
            if lost and not self._finished and not self._loss_is_reported:
                self._loss_is_reported = True
                _LOG.warning("%s: the stream %s, its newest %s may not be counted",
                             self._settings.model, what, lost)

    def __repr__(self) -> str:
        counts = self.counts
        return (f"<ObservationStream of {self._settings.model}: {counts.accepted_rows} rows accepted "
                f"of {counts.rows}, {counts.rejected_rows} rejected, {counts.dropped_rows} dropped>")

    def _accept(self, what: str, read: Callable[[Classes], Rows | LabelRows]) -> None:
        self._check_process()
        with self._sending:
            with self._changed:
                self._check_open()
                assert self._classes is not None
                classes = self._classes
                first = self._counts.rows if what == "rows" else self._counts.labels
            rows = read(classes)
            fault = invalid_rows(what, first, rows)
            if fault is not None:
                if self._settings.on_invalid == "raise":
                    raise fault
            if isinstance(rows, Rows) and len(rows):
                self._warn_of_classes(rows)
            dropped = len(rows) - int(rows.valid.sum())
            with self._changed:
                self._keep_dropped(() if fault is None else fault.fields)
                if what == "rows":
                    self._counts.rows += dropped
                    self._counts.dropped_rows += dropped
                    # The first chunk reports them, if there is one, and else the next one.
                    self._unreported_dropped += dropped if dropped == len(rows) else 0
                else:
                    self._counts.labels += dropped
                    self._counts.dropped_labels += dropped
            for chunk in rows.chunks(first, self._max_rows, self._max_bytes):
                self._push(chunk)

    def _warn_of_classes(self, rows: Rows) -> None:
        """Warns once if all probabilities of many rows are 0 or 1. Requires _sending to be held."""
        if self._whole_rows is None:
            return
        self._whole_rows = self._whole_rows + len(rows) if rows.is_whole() else None
        if self._whole_rows is not None and self._whole_rows >= MANY_ROWS:
            _LOG.warning(WHOLE_WARNING, self._settings.model)
            self._whole_rows = None

    def _keep_dropped(self, fields: Sequence[FieldError]) -> None:
        self.dropped += fields[:_MAX_KEPT - len(self.dropped)]

    def _push(self, chunk: Chunk) -> None:
        with self._changed:
            limit = self._settings.max_buffer_bytes
            # A chunk that is larger than the limit is accepted alone.
            self._wait_for(lambda: not self._buffered or self._buffered + chunk.size <= limit)
            self._start_waiting()
            # Ctrl-C may interrupt the call before the next chunk.
            if chunk.has_labels_only:
                self._counts.labels += len(chunk.rows)
            else:
                self._counts.rows += len(chunk.rows)
                chunk = chunk._replace(dropped_rows=chunk.dropped_rows + self._unreported_dropped)
                self._unreported_dropped = 0
            self._chunks.append(chunk)
            self._buffered += chunk.size
            self._changed.notify_all()

    def _report_dropped(self) -> None:
        """Sends the number of dropped rows that no row followed. Requires the lock to be held."""
        if self._failure is None and not self._finishing and self._unreported_dropped:
            self._start_waiting()
            assert self._classes is not None
            chunk = dropped_chunk(self._classes, self._unreported_dropped)
            self._chunks.append(chunk)
            self._buffered += chunk.size
            self._unreported_dropped = 0
            self._changed.notify_all()

    def _report_dropped_early(self) -> None:
        """Calls _report_dropped() early, unless the stream has a key. Requires the lock to be held."""
        # With a key, the batches depend on the calls of send() alone.
        if not self._settings.idempotency_key:
            self._report_dropped()

    def _is_settled(self) -> bool:
        return not self._chunks and self._window.is_empty

    def _start_waiting(self) -> None:
        """The time without progress begins when there is something to wait for."""
        if self._is_settled():
            self._last_progress = time.monotonic()

    def _check_process(self) -> None:
        """A child process has neither the thread nor the connection. The locks may be held forever."""
        if self._process != os.getpid():
            raise errors.FailedPrecondition(
                "the stream belongs to the process that this one was forked from: open a stream here")

    def _check_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._finishing:
            raise errors.FailedPrecondition("the stream was finished: open another one for more rows")

    def _wait_until_open(self, timeout: float) -> None:
        with self._changed:
            opened = self._changed.wait_for(
                lambda: self._classes is not None or self._failure is not None, timeout)
            if self._failure is not None:
                raise self._failure
            if not opened:
                raise self._stalled(f"the server did not open the stream within {timeout:g} s")

    def _stalled(self, message: str) -> CalibdError:
        """The error of a wait without progress, with that of the last connection."""
        last = self._last_error
        if last is None:
            return errors.DeadlineExceeded(message)
        message = f"{message}: {last.message}"
        if not errors.is_retryable(last):
            return errors.DeadlineExceeded(message)
        return type(last)(message, last.fields, last.reason, last.retry_seconds)

    def _wait_for(self, done: Callable[[], bool]) -> None:
        """Waits until done(), with the stall timeout. Requires the lock to be held once."""
        while self._failure is None and not done():
            left = self._last_progress + self._settings.stall_timeout - time.monotonic()
            if left <= 0:
                self._fail(self._stalled(
                    f"the server acknowledged nothing for {self._settings.stall_timeout:g} s"))
                break
            self._changed.wait(left)
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: CalibdError) -> None:
        """Ends the stream. Requires the lock to be held."""
        if self._failure is None:
            self._failure = error
            # The caller may not call again, and so not learn of the error.
            if not isinstance(error, errors.Cancelled):
                self._report_lost(f"failed: {error.message}")
        self._connection.ended = True
        if self._connection.call is not None:
            self._connection.call.cancel()
        self._changed.notify_all()

    def _close(self) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # --- the connection thread ---

    def _run(self) -> None:
        try:
            self._run_connections()
        finally:
            _running.discard(self)
            self._channels.release(self._channel)

    def _run_connections(self) -> None:
        backoff = Backoff()
        while True:
            started = time.monotonic()
            error = self._run_connection()
            with self._changed:
                if self._finished or self._failure is not None:
                    return
                if error is not None and not _is_resumable(error):
                    self._fail(self._describe_reuse(error))
                    return
                self._last_error = error
                if self._last_progress > started:
                    backoff.reset()
                # The delay ends before the stall timeout of a waiting caller.
                delay = min(backoff.next(error.retry_seconds if error is not None else None),
                            self._settings.stall_timeout / 2)
                _LOG.info("%s: the stream reconnects in %.1f s: %s", self._settings.model, delay,
                          error)
                self._changed.wait_for(lambda: self._failure is not None, delay)

    def _run_connection(self) -> CalibdError | None:
        """Runs one connection. Returns the error with which it ended; None: without an error."""
        connection = _Connection()
        with self._changed:
            if self._failure is not None:
                return self._failure
            self._connection = connection
        try:
            call = self._channel.stream_stream(
                "/calibd.v1.IngestService/StreamObservations", request_serializer=None,
                response_deserializer=ingest.StreamObservationsResponse.FromString,
            )(self._requests(connection), wait_for_ready=not self._connection_opens)
            with self._changed:
                connection.call = call
                if self._failure is not None:
                    call.cancel()
            for response in call:
                with self._changed:
                    # A connection that breaks after each `opened` makes no progress.
                    if self._classes is None or response.WhichOneof("message") != "opened":
                        self._last_progress = time.monotonic()
                        self._last_error = None
                    self._handle(connection, response)
                    self._changed.notify_all()
                    if self._finished:
                        call.cancel()
                        break
            return None
        except CalibdError as error:
            # The server has broken the protocol, or the caller's settings do not fit the model.
            with self._changed:
                self._fail(error)
            return error
        except grpc.RpcError as error:
            return errors.from_rpc_error(error)
        finally:
            with self._changed:
                connection.ended = True
                # An attempt that fails at once names the cause. The next one waits for the server.
                self._connection_opens = connection.opened
                self._changed.notify_all()

    def _requests(self, connection: _Connection) -> Iterator[bytes]:
        """The serialized requests of a connection. gRPC's thread iterates over them."""
        settings = self._settings
        yield ingest.StreamObservationsRequest(open=ingest.StreamObservationsRequest.Open(
            model=settings.model, producer_id=settings.producer_id,
            epoch=settings.epoch)).SerializeToString()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: connection.ended or self._can_write(connection))
                if connection.ended:
                    return
                request = self._next_request(connection)
            yield request

    def _can_write(self, connection: _Connection) -> bool:
        if not connection.opened or connection.finish_written:
            return False
        if not self._window.all_written:
            return True
        return not self._window.is_full if self._chunks else self._finishing

    def _next_request(self, connection: _Connection) -> bytes:
        if self._window.all_written and self._chunks:
            self._make_batch()
        if self._window.all_written:
            connection.finish_written = True
            finish: bytes = ingest.StreamObservationsRequest(
                finish=ingest.StreamObservationsRequest.Finish(
                    last_sequence=self._window.next_sequence - 1,
                    ends_producer=self._settings.ends_producer)).SerializeToString()
            return finish
        batch, is_resent = self._window.take_next()
        connection.rows += len(batch.rows)
        if is_resent:
            self._counts.resent_batches += 1
        # An earlier connection may have sent them, or an earlier stream with the same key.
        if batch.has_labels_only and (is_resent or self._settings.idempotency_key):
            connection.repeatable_labels += len(batch.rows)
        return batch.request

    def _make_batch(self) -> None:
        """Makes a batch of as many buffered chunks as fit. Under load batches grow by themselves."""
        chunks = [self._chunks.popleft()]
        # A repeated stream with the same key must make the same batches, so each chunk is one.
        while self._chunks and not self._settings.idempotency_key:
            chunk = self._chunks[0]
            rows = sum(len(c.rows) for c in chunks) + len(chunk.rows)
            size = sum(c.size for c in chunks) + chunk.size
            if chunk.kind != chunks[0].kind or rows > self._max_rows or size > self._max_bytes:
                break
            chunks.append(self._chunks.popleft())
        self._may_have_duplicates |= "prediction_ids" in chunks[0].kind
        self._window.push(chunks, self._settings.on_invalid == "drop")

    def _handle(self, connection: _Connection, response: ingest.StreamObservationsResponse) -> None:
        kind = response.WhichOneof("message")
        if kind == "opened" and not connection.opened:
            self._handle_opened(response.opened)
            connection.opened = True
        elif kind == "ack":
            if response.ack.HasField("skipped"):
                self._handle_skipped(response.ack)
            self._settle(response.ack.sequence)
        elif kind == "rejected":
            self._handle_rejected(response.rejected)
        elif kind == "finished":
            self._handle_finished(connection, response.finished)
        else:
            raise errors.Internal("the server sent a message that is not expected in a stream")

    def _handle_opened(self, opened: ingest.StreamObservationsResponse.Opened) -> None:
        has_key = bool(self._settings.idempotency_key)
        classes = Classes(opened.classes.count, tuple(opened.classes.names),
                          opened.classes.row_sum_tolerance,
                          opened.forecast if opened.HasField("forecast") else None,
                          tuple(opened.feature_names), tuple(opened.labels.names))
        if self._classes is None:
            # With a key, all batches are sent, so that the server can compare them.
            self._window = SendWindow(1 if has_key else opened.next_sequence,
                                      max(opened.max_batches_in_flight, 1))
            self._max_rows = opened.max_rows_per_batch
            self._max_bytes = opened.max_bytes_per_batch - ENVELOPE_BYTES
            if self._max_bytes < 8 * opened.classes.count + ENVELOPE_BYTES or self._max_rows < 1:
                raise errors.FailedPrecondition(
                    f"one prediction of {opened.classes.count} classes does not fit into the server's "
                    f"limit of {opened.max_bytes_per_batch} bytes a batch: raise --max-message-bytes")
            self._last_progress = time.monotonic()
        else:
            # Only the tolerance can be updated.
            known = self._classes._replace(row_sum_tolerance=classes.row_sum_tolerance)
            for kind, before, now in zip(("number of classes", "classes", "tolerance", "forecast",
                                          "features", "labels"), known, classes):
                if before != now:
                    raise errors.FailedPrecondition(
                        f"the model was created again with another declaration: its {kind} differ, so "
                        "open another stream")
            last = self._window.next_sequence
            # With a key, the server may have batches of an earlier stream.
            self._window.reopen(min(opened.next_sequence, last) if has_key else opened.next_sequence)
            self._counts.reconnects += 1
        self._classes = classes

    def _settle(self, sequence: int) -> None:
        self._buffered -= self._window.acknowledge(sequence, self._counts)

    def _handle_rejected(self, rejected: ingest.StreamObservationsResponse.Rejected) -> None:
        batch = self._window.reject(rejected.sequence)
        # A batch without rows has only the number of dropped ones.
        if batch is None or not len(batch.rows) or len(self.rejected) >= _MAX_KEPT:
            return
        error = errors.from_status(rejected.status)
        fields = [batch.with_callers_row(violation) for violation in error.fields]
        message = "; ".join(f"{f.path} {f.description}" for f in fields) or error.message
        self.rejected.append(RejectedBatch(
            batch.has_labels_only, (int(batch.rows[0]), int(batch.rows[-1])), len(batch.rows),
            type(error)(message, fields, error.reason, error.retry_seconds)))

    def _handle_skipped(self, ack: ingest.StreamObservationsResponse.Ack) -> None:
        batch = self._window.reject(ack.sequence, ack.skipped.rows)
        if batch is not None:
            self._keep_dropped([batch.with_callers_row(FieldError(v.field, v.description))
                                for v in ack.skipped.violations])

    def _handle_finished(self, connection: _Connection,
                         finished: ingest.StreamObservationsResponse.Finished) -> None:
        # Finished settles what no acknowledgement has settled yet.
        self._settle(finished.last_sequence)
        labels = finished.labels
        known_labels = (labels.matched + labels.repeated + labels.conflicting + labels.late
                        + labels.unknown + labels.waiting)
        rows = (finished.accepted_rows + finished.duplicate_rows + finished.rejected_rows
                + known_labels)
        last = self._window.next_sequence - 1
        # The counts do not include labels that were accepted before this connection.
        if (not self._finishing or not self._window.is_empty or finished.last_sequence != last
                or not connection.rows - connection.repeatable_labels <= rows <= connection.rows):
            raise errors.DataLoss(
                f"the server finished at batch {finished.last_sequence} with {rows} rows on this "
                f"connection, expected batch {last} with {connection.rows} rows")
        counts = self._counts
        # Other labels were accepted before this connection, and nobody tells their outcomes.
        if known_labels == counts.accepted_labels:
            counts.matched_labels, counts.repeated_labels = labels.matched, labels.repeated
            counts.conflicting_labels, counts.late_labels = labels.conflicting, labels.late
            counts.unknown_labels, counts.waiting_labels = labels.unknown, labels.waiting
        # After a reconnection, rows that were resent cannot be told from duplicates.
        if not counts.reconnects or not self._may_have_duplicates:
            counts.duplicate_rows = finished.duplicate_rows if self._may_have_duplicates else 0
            counts.accepted_rows -= counts.duplicate_rows
        self._finished = True

    def _describe_reuse(self, error: CalibdError) -> CalibdError:
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


def _amounts(rows: int, labels: int, kind: str = "") -> str:
    """Text; empty if both are 0."""
    return " and ".join(f"{count} {kind}{what}{'s' if count > 1 else ''}"
                        for count, what in ((rows, "row"), (labels, "label")) if count)


def _is_resumable(error: CalibdError) -> bool:
    # These are more errors than those of a repeated call, because the numbers make a resend safe.
    return errors.is_retryable(error) or errors.is_cut_off(error) or error.reason == "NOT_FINISHED"
