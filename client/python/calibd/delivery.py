"""The thread that delivers the rows of a stream, and the buffer between it and the caller."""
from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from typing import Any, Callable, Iterator

import grpc
from google.protobuf.message import DecodeError

from calibd import endings, errors, forks, transport
from calibd.calls import Call, convert, take_mergeable, text_of
from calibd.errors import CalibdError
from calibd.ledger import Connection, Ledger
from calibd.loss_log import LossLog, write
from calibd.rows import NOTHING_DROPPED, Chunk, Dropped, dropped_chunk
from calibd.stream_settings import StreamSettings, new_producer
from calibd.transport import Backoff, StreamChannels, calling
from calibd.v1 import ingest_service_pb2 as ingest

# So many seconds a call waits for others, whose rows are merged with it.
_LINGER = 0.02
# Seconds after a fork before the parent connects again: a server of workers forks several.
_FORK_PAUSE = 0.5
# Seconds until a thread that uses gRPC has ended after its call was cancelled.
_JOIN_SECONDS = 5.0
# The server cannot have counted a batch that it refused for one of these.
_REFUSALS = (errors.NotFound, errors.PermissionDenied, errors.Unauthenticated, errors.Unimplemented,
             errors.ResourceExhausted)


class Delivery:
    """Delivers rows, and reopens a lost connection for it.

    All attributes need the lock `changed` to be held, except `join`.

    failure: the error that has ended the delivery; None: it runs.
    buffered: the size of the rows in the queue and in the window.
    delivers_at_exit: the end of the process waits for the rows up to the close_timeout.
    """

    def __init__(self, channels: StreamChannels, settings: StreamSettings) -> None:
        self.settings = settings
        self._channels = channels
        self.changed = threading.Condition()
        self.ledger = Ledger(settings)
        self.failure: CalibdError | None = None
        self.delivers_at_exit = settings.on_full == "drop"
        self.log = LossLog(settings.model, self.ledger, self.changed)
        if settings.on_full == "drop" and (unusable := transport.unusable()) is not None:
            # No later attempt can succeed in this process, so all rows are dropped at once.
            self.failure = self.log.error = unusable
        self.last_progress = time.monotonic()
        self.buffered = 0
        # What was dropped, of which no batch has told the server.
        self.unreported = NOTHING_DROPPED
        self.finishing = False
        self._queue: deque[Chunk | Call] = deque()
        # Calls were taken from the queue to be serialized.
        self._converting = False
        # When the first call in the queue has waited for others for long enough.
        self._due = 0.0
        self._flushing = 0
        # When the oldest row that is not settled came.
        self._waiting_since = 0.0
        self._connection = Connection()
        self._connection_opens = True
        # fork() waits until the thread is between two connections.
        self._parked = False
        self._unparked = -math.inf
        self._connected = False
        self._channel: Any = None
        self._thread: threading.Thread | None = None

    # --- for the caller's threads ---

    @property
    def is_settled(self) -> bool:
        """Whether every accepted row is counted or rejected, and the server knows of dropped ones."""
        return (not self._queue and not self._converting and self.ledger.window.is_empty
                and not (self.settings.on_full == "drop" and any(self.unreported)))

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended or is about to end."""
        return self.finishing or self.failure is not None

    def start(self) -> None:
        """Starts the thread if it does not run."""
        if self._thread is not None:
            return
        self._thread = threading.Thread(target=self._run, name="calibd-stream", daemon=True)
        forks.add(self)
        endings.register()
        try:
            self._thread.start()
        except RuntimeError:
            # The process has too many threads, or ends. The next row tries again.
            self._thread = None
            forks.remove(self)
            if self.settings.on_full == "block":
                raise

    def append(self, item: Chunk | Call) -> None:
        """Takes the rows of a call. The caller has counted them."""
        if self.is_settled:
            self._waiting_since = time.monotonic()
        if not self._queue:
            self._due = time.monotonic() + _LINGER
            self.changed.notify_all()
        self._queue.append(item)
        self.buffered += item.size

    def report_dropped(self) -> None:
        """Sends the numbers of dropped rows and labels that no row followed."""
        if self.failure is None and not self.finishing and any(self.unreported):
            assert self.ledger.classes is not None
            self.append(dropped_chunk(self.ledger.classes, self.take_unreported()))
            self.changed.notify_all()

    def take_unreported(self) -> Dropped:
        """What was dropped, of which the caller tells the server now."""
        taken, self.unreported = self.unreported, NOTHING_DROPPED
        return taken

    def count_dropped(self, dropped: Dropped) -> None:
        """Counts what was dropped and is not reported yet."""
        self.ledger.counts.dropped_rows += dropped.rows
        self.ledger.counts.dropped_labels += dropped.labels
        self.unreported = self.unreported.plus(dropped)

    def drop(self, dropped: Dropped) -> None:
        """Counts rows and labels for which there is no room, and logs a line a minute."""
        self.ledger.counts.overflowed += sum(dropped)
        self.count_dropped(dropped)
        self.log.log_soon()

    def finish(self) -> None:
        """Ends the stream when every row is settled."""
        if not self.finishing:
            self.finishing = True
            self.changed.notify_all()

    def begin_close(self) -> None:
        """Makes the stream end when all rows are settled."""
        with self.changed:
            if self.settings.on_full == "block" and self.ledger.classes is not None:
                self.report_dropped()
            self.finish()

    def end_close(self, deadline: float, what: str) -> None:
        """Waits for the end until the deadline of the monotonic clock, and gives up what is left.

        what: has happened to the stream, for the log.
        """
        try:
            with self.changed:
                self.wait(lambda: self.ledger.finished or self._thread is None, None, deadline)
        except CalibdError:
            pass  # It was logged.
        finally:
            with self.changed:
                self.log.report_lost(what)
            self.log.write_lost()
            self.cancel("the stream is closed")
        if self.settings.on_full == "drop":
            self.log.log_dropped()
        with self.changed:
            self.log.is_closed = True

    def cancel(self, message: str) -> None:
        """Ends the stream at once, unless it has finished."""
        with self.changed:
            if not self.ledger.finished:
                self.fail(errors.Cancelled(message))
        self.join()

    def fail(self, error: CalibdError) -> None:
        """Ends the stream at once."""
        if self.failure is None:
            self.failure = error
            self.log.is_over = True
            # The caller may not call again, and so not learn of the error.
            if not isinstance(error, errors.Cancelled):
                self.log.report_lost(f"failed: {error.message}")
        self._end_connection()

    def wait(self, done: Callable[[], bool], stall_timeout: float | None,
             deadline: float | None = None) -> bool:
        """Waits until done(), and returns that. Requires the lock to be held once.

        stall_timeout: raises an error after so many seconds without progress. deadline: of the
        monotonic clock.
        """
        begin = time.monotonic()
        self._flushing += 1
        self.changed.notify_all()
        try:
            while self.failure is None and not done():
                left = [limit - time.monotonic() for limit in (
                    None if stall_timeout is None else max(begin, self.last_progress) + stall_timeout,
                    deadline) if limit is not None]
                if left and min(left) <= 0:
                    if deadline is not None and left[-1] <= 0:
                        return False
                    raise self.stalled(f"the server acknowledged nothing for {stall_timeout:g} s")
                self.changed.wait(min(left) if left else None)
        finally:
            self._flushing -= 1
        if self.failure is not None:
            raise self.failure
        return True

    def wait_until_open(self, stall_timeout: float | None, timeout: float | None = None) -> None:
        """Waits for the first connection. Raises at once if the address is certainly wrong.

        stall_timeout: see wait(). timeout: seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self.wait(lambda: self.ledger.classes is not None or errors.is_hopeless(self.log.error),
                         stall_timeout, deadline):
            raise self.stalled(f"the server did not open the stream within {timeout:g} s")
        if self.ledger.classes is None:
            assert self.log.error is not None
            raise self.log.error

    def stalled(self, message: str) -> CalibdError:
        """The error of a wait without progress, with that of the last connection."""
        last = self.log.error
        if last is None:
            return errors.DeadlineExceeded(message)
        message = f"{message}: {last.message}"
        if not errors.is_retryable(last):
            return errors.DeadlineExceeded(message)
        return type(last)(message, last.fields, last.reason, last.retry_seconds)

    def join(self) -> None:
        """Waits until the thread has ended, which a failure or finish() makes it do."""
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)

    # --- fork ---

    def park(self) -> None:
        """Ends the connection until unpark()."""
        with self.changed:
            self._parked = True
            self._end_connection()

    def is_parked(self) -> bool:
        """Whether park() has ended the connection."""
        with self.changed:
            return not self._connected

    def unpark(self) -> None:
        """Connects again."""
        with self.changed:
            self._parked = False
            self._connection_opens = True
            self._unparked = time.monotonic()
            self.changed.notify_all()

    # --- the connection thread ---

    def _end_connection(self) -> None:
        self._connection.ended = True
        if self._connection.call is not None:
            self._connection.call.cancel()
        self.changed.notify_all()

    def _run(self) -> None:
        backoff = Backoff()
        try:
            while True:
                started = time.monotonic()
                try:
                    error = self._run_connection()
                except CalibdError as broken:
                    # The server has broken the protocol, or the caller's settings do not fit the model.
                    error = broken
                # A fault of this package or of gRPC must not end the thread: rows would wait for ever.
                except Exception as fault:
                    error = errors.Unknown(f"{type(fault).__name__}: {text_of(fault)}")
                with self.changed:
                    if self.ledger.finished or self.failure is not None:
                        return
                    if self.last_progress > started:
                        backoff.reset()
                    is_parked = self._parked
                if not is_parked:
                    self._retry(error, backoff)
        finally:
            with self.changed:
                self.changed.wait_for(lambda: not self._parked)
                self._connected = True
            if self._channel is not None:
                self._channels.release(self._channel)
            forks.remove(self)

    def _retry(self, error: CalibdError | None, backoff: Backoff) -> None:
        """Waits before the next connection, or ends the stream if there is no use in one."""
        with self.changed:
            self.log.error = error
            self.changed.notify_all()
            is_refused = error is not None and not _is_resumable(error)
            if is_refused and self.settings.on_full == "block":
                assert error is not None
                self.fail(self.ledger.describe_reuse(error))
            elif is_refused and not isinstance(error, _REFUSALS):
                self._start_over()
            has_failed = self.failure is not None
            if not has_failed and (is_refused or not self._connection_opens):
                what = "is refused" if is_refused else "does not open"
                target = self._channels.endpoint.target
                self.log.obstacle = f"the stream to {target} {what} and tries again: {error}"
                self.log.log_soon()
        self.log.write_lost()
        if has_failed:
            return
        self.log.log_obstacle()
        # The delay ends before the stall timeout of a waiting caller.
        delay = min(backoff.next(error.retry_seconds if error is not None else None),
                    self.settings.stall_timeout / 2)
        write(logging.INFO, "%s: the stream reconnects in %.1f s: %s", self.settings.model,
              delay, error)
        with self.changed:
            self.changed.wait_for(lambda: self.failure is not None, delay)

    def _start_over(self) -> None:
        """Continues as another producer.

        Whether the rows that were sent and not acknowledged are counted is unknown. They are not sent
        again, so that none is counted twice.
        """
        unreported, size = self.ledger.abandon()
        self.buffered -= size
        chunks = [item for item in self._queue if isinstance(item, Chunk)]
        self._queue = deque(item for item in self._queue if isinstance(item, Call))
        for chunk in chunks:
            self.buffered -= chunk.size
            lost = len(chunk.rows)
            self.count_dropped(Dropped(labels=lost) if chunk.has_labels_only else Dropped(lost))
            unreported = unreported.plus(chunk.dropped)
        self.unreported = self.unreported.plus(unreported)
        self.settings.producer_id = new_producer()
        self.log.log_soon()
        self.changed.notify_all()

    def _run_connection(self) -> CalibdError | None:
        """Runs one connection. Returns the error with which it ended; None: without an error."""
        connection = Connection()
        with self.changed:
            self._wait_for_forks()
            if self.failure is not None:
                return self.failure
            self._connection = connection
            self._connected = True
        try:
            with calling():
                if self._channel is None:
                    self._channel = self._channels.take()
                call = self._channel.stream_stream(
                    "/calibd.v1.IngestService/StreamObservations", request_serializer=None,
                    response_deserializer=None,
                )(self._requests(connection), wait_for_ready=not self._connection_opens)
                with self.changed:
                    connection.call = call
                    if connection.ended:
                        call.cancel()
                try:
                    for response in call:
                        if self._take(connection, response):
                            break
                finally:
                    call.cancel()
            return None
        except grpc.RpcError as error:
            if not connection.was_silent:
                return errors.from_rpc_error(error)
            # The attempts before this one may have found the cause.
            known = None if connection.opened else self.log.error
            return known or errors.DeadlineExceeded(
                f"the server sent nothing for {self.settings.stall_timeout:g} s")
        finally:
            with self.changed:
                connection.ended = True
                self._connected = False
                # An attempt that fails at once names the cause. The next one waits for the server.
                self._connection_opens = connection.opened
                self.changed.notify_all()

    def _wait_for_forks(self) -> None:
        while self.failure is None:
            pause = self._unparked + _FORK_PAUSE - time.monotonic()
            if not self._parked and pause <= 0:
                return
            self.changed.wait(None if self._parked else pause)

    def _take(self, connection: Connection, data: bytes) -> bool:
        """Takes a message of the server. Returns whether it was the last one."""
        try:
            response = ingest.StreamObservationsResponse.FromString(data)
        except DecodeError as error:
            raise errors.DataLoss(f"the server sent a message that cannot be read: {error}") from None
        with self.changed:
            if connection.ended:
                return True
            is_progress, size = self.ledger.handle(connection, self.finishing, response)
            self.buffered -= size
            if connection.opened:
                self.log.obstacle = ""
            if is_progress:
                self.last_progress = time.monotonic()
                self.log.error = None
            self.log.is_over = self.ledger.finished
            self.changed.notify_all()
            return self.ledger.finished

    def _requests(self, connection: Connection) -> Iterator[bytes]:
        """The serialized requests of a connection. gRPC's thread iterates over them."""
        settings = self.settings
        yield ingest.StreamObservationsRequest(open=ingest.StreamObservationsRequest.Open(
            model=settings.model, producer_id=settings.producer_id,
            epoch=settings.epoch)).SerializeToString()
        while True:
            with self.changed:
                self._wait_to_write(connection)
                if connection.ended:
                    return
                request = None
                if self.ledger.window.all_written and self._queue and isinstance(self._queue[0], Call):
                    calls = take_mergeable(self._queue)
                    self._converting = True
                else:
                    request = self._next_request(connection)
            if request is not None:
                yield request
            else:
                self._convert(calls)

    def _wait_to_write(self, connection: Connection) -> None:
        while not connection.ended:
            ready = connection.opened and not connection.finish_written and not self._converting
            window = self.ledger.window
            if ready and not window.all_written:
                return
            if ready and not window.is_full:
                wait = self._due - time.monotonic()
                if self._queue and (wait <= 0 or self.finishing or self._flushing
                                    or isinstance(self._queue[0], Chunk)):
                    return
                if self._queue:
                    self.changed.wait(wait)
                    continue
                if self.settings.on_full == "drop" and any(self.unreported):
                    assert self.ledger.classes is not None
                    self.append(dropped_chunk(self.ledger.classes, NOTHING_DROPPED))
                    return
            if ready and not self._queue and self.finishing:
                return
            if self.is_settled:
                self.changed.wait()
                continue
            # A connection that lives but on which nothing happens is replaced by another one.
            silent = time.monotonic() - max(self.last_progress, self._waiting_since, connection.started)
            if silent >= self.settings.stall_timeout:
                connection.was_silent = True
                self._end_connection()
                return
            self.changed.wait(self.settings.stall_timeout - silent)

    def _convert(self, calls: list[Call]) -> None:
        """Serializes calls without the lock, and puts them back in front of the queue."""
        ledger = self.ledger
        classes = ledger.classes
        assert classes is not None
        result = convert(classes, calls, ledger.max_rows, ledger.max_bytes)
        with self.changed:
            self._converting = False
            self.changed.notify_all()
            if classes != ledger.classes:
                # The model has another declaration now.
                self._queue.extendleft(reversed(calls))
                return
            self._queue.extendleft(reversed(result.chunks))
            self.buffered += (sum(chunk.size for chunk in result.chunks)
                              - sum(call.size for call in calls))
            ledger.keep_dropped(result.faults)
            self.count_dropped(result.dropped)
            ledger.counts.dropped_rows += result.reported_rows
            if result.faults and self.settings.on_full == "drop":
                self.log.log_soon()

    def _next_request(self, connection: Connection) -> bytes:
        window = self.ledger.window
        if window.all_written and self._queue:
            self._make_batch()
        if window.all_written:
            connection.finish_written = True
            finish: bytes = ingest.StreamObservationsRequest(
                finish=ingest.StreamObservationsRequest.Finish(
                    last_sequence=window.next_sequence - 1,
                    ends_producer=self.settings.ends_producer)).SerializeToString()
            return finish
        batch, is_resent = window.take_next()
        connection.rows += len(batch.rows)
        if is_resent:
            self.ledger.counts.resent_batches += 1
        # An earlier connection may have sent them, or an earlier stream with the same key.
        if batch.has_labels_only and (is_resent or self.settings.idempotency_key):
            connection.repeatable_labels += len(batch.rows)
        return batch.request

    def _make_batch(self) -> None:
        """Makes a batch of as many buffered chunks as fit. Under load batches grow by themselves."""
        chunks = [self._pop_chunk()]
        # A repeated stream with the same key must make the same batches, so each chunk is one.
        while self._queue and not self.settings.idempotency_key:
            chunk = self._queue[0]
            if not isinstance(chunk, Chunk) or chunk.kind != chunks[0].kind:
                break
            rows = sum(len(c.rows) for c in chunks) + len(chunk.rows)
            size = sum(c.size for c in chunks) + chunk.size
            if rows > self.ledger.max_rows or size > self.ledger.max_bytes:
                break
            chunks.append(self._pop_chunk())
        if self.settings.on_full == "drop" and not chunks[0].has_labels_only:
            chunks[0] = chunks[0]._replace(dropped=chunks[0].dropped.plus(self.take_unreported()))
        self.ledger.may_have_duplicates |= "prediction_ids" in chunks[0].kind
        self.ledger.window.push(chunks, self.settings.on_invalid == "drop")

    def _pop_chunk(self) -> Chunk:
        chunk = self._queue.popleft()
        assert isinstance(chunk, Chunk)
        return chunk


def _is_resumable(error: CalibdError) -> bool:
    # These are more errors than those of a repeated call, because the numbers make a resend safe.
    return (errors.is_retryable(error) or errors.is_cut_off(error)
            or error.reason in ("NOT_FINISHED", errors.DeadlineExceeded.code.name))
