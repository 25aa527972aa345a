"""A stream of predictions to a model that counts each row exactly once."""
from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import replace
from types import TracebackType
from typing import Any, Callable, Type

import numpy as np

from calibd import errors, forks
from calibd.arguments import expect
from calibd.arrays import Classes
from calibd.calls import (NO_EXTRAS, Call, call_size, is_plain, listed, one_row, only_row, owned,
                          owned_extras, row_count, stacked, text_of)
from calibd.delivery import Delivery
from calibd.errors import CalibdError, FieldError
from calibd.loss_log import amounts
from calibd.rows import (MANY_ROWS, WHOLE_WARNING, Chunk, Dropped, Extras, LabelRows, Rows, invalid_rows,
                         rows_of)
from calibd.stream_settings import StreamSettings
from calibd.transport import StreamChannels
from calibd.window import RejectedBatch, StreamCounts

_LOG = logging.getLogger("calibd")


class ObservationStream:
    """A producer's stream of predictions to one model; see Client.stream().

    send(), observe() and label() copy the rows into a buffer and return; a thread sends them. All
    methods may be called from any thread. Rows arrive in the order of the calls.

    The stream reopens a lost connection and sends all unacknowledged batches again. The server
    counts each batch once. A call that waits for the server for too long raises Unavailable or
    DeadlineExceeded, and may be repeated; the stream continues. If a method fails for another
    reason than that and invalid rows, the stream has ended, and all methods raise the same error;
    unacknowledged rows may or may not be counted.

    With on_full="drop" no call waits or raises: rows for which there is no room are dropped and
    counted, as invalid rows are, and no error of the server ends the stream. After a fork, the child
    has an empty stream of its own.
    """

    def __init__(self, channels: StreamChannels, settings: StreamSettings,
                 open_timeout: float | None) -> None:
        """open_timeout: the stream opens within so many seconds; None: when it has rows."""
        self._settings = settings
        self._channels = channels
        self._drops = settings.on_full == "drop"
        self._is_lazy = open_timeout is None
        self._begin()
        if open_timeout is not None:
            try:
                with self._changed:
                    self._delivery.start()
                    self._delivery.wait_until_open(None, open_timeout)
            except BaseException:
                self.cancel()
                raise
        else:
            forks.start_anew_in_children(self)

    def _begin(self) -> None:
        self._process = os.getpid()
        self._delivery = Delivery(self._channels, self._settings)
        self._changed = self._delivery.changed
        # Nobody can wait for a stream that opens by itself but the end of the process.
        self._delivery.delivers_at_exit = self._is_lazy
        # Keeps the rows of concurrent calls apart. Held while a call waits for room.
        # A handler of a signal may call the stream while its own thread is in a call.
        self._sending = threading.RLock()
        self._has_counts = False
        # Rows so far if all of them were whole; None: one was not, or the warning was given.
        self._whole_rows: int | None = 0

    def start_in_child(self) -> None:
        """Begins an empty stream of another producer, in a process that was forked."""
        self._settings = replace(self._settings, producer_id="")
        self._begin()

    @property
    def counts(self) -> StreamCounts:
        """The counts so far, in this process."""
        with self._changed:
            return replace(self._delivery.ledger.counts)

    @property
    def rejected(self) -> list[RejectedBatch]:
        """The first 100 batches that the server rejected."""
        return self._delivery.ledger.rejected

    @property
    def dropped(self) -> list[FieldError]:
        """The first 100 invalid rows that were dropped, here or by the server."""
        return self._delivery.ledger.dropped

    @property
    def producer_id(self) -> str:
        """The name of the producer."""
        return self._delivery.settings.producer_id

    def send(self, probabilities: Any, labels: Any = None, *, ids: Any = None, groups: Any = None,
             times: Any = None, logits: bool = False, baseline: Any = None,
             features: Any = None) -> None:
        """Accepts n predictions. Blocks while the buffer is full, except with on_full="drop".

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
        extras = Extras(ids, groups, times, features)
        if self._drops:
            self._queue(False, probabilities, labels, extras, logits, baseline)
            return
        single = None
        if baseline is None and logits is False and all(part is None for part in extras):
            single = only_row(probabilities, labels)
        self._accept("rows", lambda classes: rows_of(
            classes, probabilities, labels, extras, logits, baseline), single)

    def observe(self, prediction: Any, truth: Any = None, *, id: str | int | None = None,
                group: str | int | None = None, logits: bool = False, baseline: Any = None,
                features: Any = None) -> None:
        """Accepts one prediction, and with on_full="drop" never waits for calibd.

        The rows of calls that follow each other, from any threads, are sent together.

        prediction: m numbers in the order of the classes, a pandas Series whose index names them, or
          the probability of class 1 of two; or one forecast of a number. It may be the only row of a
          matrix, as predict_proba() returns it.
        truth: the true class, the outcome or the truths; None: it comes later, by id.
        group, logits, baseline, features: of this prediction; see send().
        """
        if self._drops:
            extras = NO_EXTRAS
            if id is not None or group is not None or features is not None:
                extras = Extras(id, group, None, features)
            self._queue(False, prediction, truth, extras, logits, baseline, True)
            return
        prediction, baseline, features = one_row(prediction), one_row(baseline), one_row(features)
        single = None
        if (baseline is None and logits is False and id is None and group is None
                and features is None):
            single = (prediction, int(truth) if isinstance(truth, np.integer) else truth)
        self._accept("rows", lambda classes: rows_of(
            classes, stacked([prediction]), listed([truth]),
            Extras(listed([id]), group, None, stacked([features])), logits, stacked([baseline])), single)

    def label(self, ids: Any, labels: Any) -> None:
        """Accepts the labels of predictions that were sent with these ids, here or elsewhere.

        For a model that forecasts a number, they are the outcomes; for one of several labels n x K
        truths.

        A label that the server cannot use is not an error: see `counts`.
        """
        if self._drops:
            self._queue(True, None, labels, Extras(ids), False, None)
            return
        self._accept("labels", lambda classes: LabelRows(classes, ids, labels), None)

    def flush(self, timeout: float | None = None) -> None:
        """Returns when every accepted row is settled: counted, rejected or dropped.

        Raises DeadlineExceeded after `timeout` seconds, or if the server does not answer for
        stall_timeout.
        """
        self._check_process()
        with self._changed:
            self._check_open()
            self._report_dropped_early()
            self._wait_for(lambda: self._delivery.is_settled, timeout)

    def finish(self) -> StreamCounts:
        """Ends the stream, when both sides agree that every batch was counted or rejected.

        With on_invalid="raise", raises the error of the first batch that the server rejected. After
        Ctrl-C or DeadlineExceeded it may be called again.
        """
        self._check_process()
        delivery = self._delivery
        with self._sending, self._changed:
            # A finish that Ctrl-C interrupted has begun, and may have ended meanwhile.
            if self._has_counts or not delivery.finishing:
                self._check_open()
                if not self._drops:
                    delivery.report_dropped()
                delivery.finish()
                delivery.start()
            self._wait_for(lambda: delivery.ledger.finished)
        delivery.join()
        counts = self.counts
        self._has_counts = True
        dropped = amounts(counts.dropped_rows, counts.dropped_labels,
                          "" if counts.overflowed else "invalid ")
        if dropped:
            _LOG.warning("%s: dropped %s, the first: %s", self._settings.model, dropped,
                         " ".join(self.dropped[0]) if self.dropped else "unknown")
        if self.rejected and self._settings.on_invalid == "raise":
            raise self.rejected[0].error
        if self.rejected:
            _LOG.warning("%s: the server rejected %s, the first: %s", self._settings.model,
                         amounts(counts.rejected_rows, counts.rejected_labels),
                         self.rejected[0].error.message)
        return counts

    def close(self, timeout: float | None = None) -> StreamCounts:
        """Ends the stream within `timeout` seconds; None: the close_timeout of the stream.

        Rows that are not settled then are given up and logged. Raises no error.
        """
        if self._process == os.getpid():
            seconds = self._settings.close_timeout if timeout is None else timeout
            self._delivery.begin_close()
            self._delivery.end_close(time.monotonic() + seconds, "was closed")
        return self.counts

    def cancel(self) -> None:
        """Ends the stream at once: blocked and later calls raise Cancelled."""
        self._cancel("the stream was cancelled")

    def _cancel(self, message: str) -> None:
        if self._process != os.getpid():
            return  # It is the parent's stream.
        self._delivery.cancel(message)

    def __enter__(self) -> ObservationStream:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        """Finishes the stream. After an error it still delivers the rows, but does not finish.

        Ctrl-C is such an error, also while the stream finishes; a second one gives the rows up.
        """
        delivery = self._delivery
        if self._drops:
            self.close()
        elif kind is not None:
            self._deliver(kind)
        elif not delivery.ledger.finished and not isinstance(delivery.failure, errors.Cancelled):
            try:
                self.finish()
            except CalibdError:
                self._give_up("ended early", "the stream ended, because its server did not answer")
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
                self._wait_for(lambda: self._delivery.ledger.finished or self._delivery.is_settled)
        except CalibdError:
            pass  # The error of the caller is more useful.
        finally:
            counts = self.counts
            accepted = amounts(counts.accepted_rows, counts.accepted_labels) or "no row"
            self._give_up(
                "ended early",
                f"the stream ended when its block raised {kind.__name__}, and the server has accepted "
                f"{accepted} of it: a row that is sent again counts twice, unless it has an id or the "
                "streams have an idempotency_key")

    def _give_up(self, what: str, message: str) -> None:
        with self._changed:
            self._delivery.log.report_lost(what)
        self._delivery.log.write_lost()
        self._cancel(message)

    def __repr__(self) -> str:
        counts = self.counts
        return (f"<{type(self).__name__} of {self._settings.model}: {counts.accepted_rows} rows "
                f"accepted of {counts.rows}, {counts.rejected_rows} rejected, {counts.dropped_rows} "
                "dropped>")

    # --- a stream that drops: the thread checks and serializes the rows ---

    def _queue(self, labels_only: bool, values: Any, truths: Any, extras: Extras, logits: bool,
               baseline: Any, is_single: bool = False) -> None:
        count = 1 if is_single else row_count(truths if labels_only else values)
        try:
            expect("logits", logits, (bool, np.bool_), "True or False")
            if is_single:
                values, baseline = one_row(values), one_row(baseline)
                if extras.features is not None:
                    extras = extras._replace(features=one_row(extras.features))
            size = call_size(values, truths, extras, baseline)
            # To copy it would make the caller wait, and take more memory than it has allowed.
            if size > self._settings.max_buffer_bytes and not is_single:
                raise errors.InvalidArgument(
                    f"are {count} in one call, of about {size} bytes, expected at most "
                    f"max_buffer_bytes, {self._settings.max_buffer_bytes}: give fewer at once")
            values, truths, baseline = owned(values), owned(truths), owned(baseline)
            extras = owned_extras(extras, count)
        # Values of the caller may raise errors of any kind, and a handler must not fail for them.
        except Exception as error:
            self._drop_unread(labels_only, count, error)
            return
        delivery = self._delivery
        with self._changed:
            counts = delivery.ledger.counts
            if labels_only:
                first, counts.labels = counts.labels, counts.labels + count
            else:
                first, counts.rows = counts.rows, counts.rows + count
            if delivery.is_over or (delivery.buffered and delivery.buffered + size
                                    > self._settings.max_buffer_bytes):
                delivery.drop(Dropped(labels=count) if labels_only else Dropped(count))
            else:
                delivery.append(Call(is_single, labels_only, first, count, size, values, truths, extras,
                                     logits, baseline))
                delivery.start()

    def _drop_unread(self, labels_only: bool, count: int, error: Exception) -> None:
        with self._changed:
            ledger = self._delivery.ledger
            ledger.keep_dropped([FieldError("labels" if labels_only else "rows", text_of(error))])
            if labels_only:
                ledger.counts.labels += count
            else:
                ledger.counts.rows += count
            self._delivery.count_dropped(Dropped(labels=count) if labels_only else Dropped(count))
            self._delivery.log.log_soon()

    # --- a stream that blocks: the caller checks and serializes the rows ---

    def _accept(self, what: str, read: Callable[[Classes], Rows | LabelRows],
                single: tuple[Any, Any] | None) -> None:
        """single: prediction and label of the only row, if it has nothing else."""
        self._check_process()
        delivery = self._delivery
        ledger = delivery.ledger
        with self._sending:
            with self._changed:
                self._check_open()
                delivery.start()
                delivery.wait_until_open(self._settings.stall_timeout)
                assert ledger.classes is not None
                classes = ledger.classes
                first = ledger.counts.rows if what == "rows" else ledger.counts.labels
            # With a key, the batches depend on the calls of send() alone.
            if single is not None and not self._settings.idempotency_key and (
                    self._whole_rows is None) and is_plain(classes, *single):
                self._push(Call(True, False, first, 1, call_size(*single, NO_EXTRAS, None),
                                owned(single[0]), single[1], NO_EXTRAS))
                return
            rows = read(classes)
            fault = invalid_rows(first, rows)
            if fault is not None:
                if self._settings.on_invalid == "raise":
                    raise fault
            if isinstance(rows, Rows) and len(rows):
                self._warn_of_classes(rows)
            dropped = len(rows) - int(rows.valid.sum())
            with self._changed:
                ledger.keep_dropped(() if fault is None else fault.fields)
                if what == "labels":
                    ledger.counts.labels += dropped
                    delivery.count_dropped(Dropped(labels=dropped))
                elif dropped == len(rows):
                    ledger.counts.rows += dropped
                    delivery.count_dropped(Dropped(dropped))
                else:
                    # The first chunk reports them.
                    ledger.counts.rows += dropped
                    ledger.counts.dropped_rows += dropped
            for chunk in rows.chunks(first, ledger.max_rows, ledger.max_bytes):
                try:
                    self._push(chunk)
                except (errors.Unavailable, errors.DeadlineExceeded) as error:
                    raise error.with_addition(
                        f"{what}[{chunk.rows[0]}] and the following ones were not accepted") from None

    def _warn_of_classes(self, rows: Rows) -> None:
        """Warns once if all probabilities of many rows are 0 or 1. Requires _sending to be held."""
        if self._whole_rows is None:
            return
        self._whole_rows = self._whole_rows + len(rows) if rows.is_whole() else None
        if self._whole_rows is not None and self._whole_rows >= MANY_ROWS:
            _LOG.warning(WHOLE_WARNING, self._settings.model)
            self._whole_rows = None

    def _push(self, item: Chunk | Call) -> None:
        delivery = self._delivery
        with self._changed:
            limit = self._settings.max_buffer_bytes
            # A chunk that is larger than the limit is accepted alone.
            self._wait_for(lambda: not delivery.buffered or delivery.buffered + item.size <= limit)
            # Ctrl-C may interrupt the call before the next chunk.
            counts = delivery.ledger.counts
            if isinstance(item, Call):
                counts.rows += item.length
            elif item.has_labels_only:
                counts.labels += len(item.rows)
            else:
                counts.rows += len(item.rows)
                item = item._replace(dropped=item.dropped.plus(delivery.take_unreported()))
            delivery.append(item)
            self._changed.notify_all()

    def _report_dropped_early(self) -> None:
        """Reports what was dropped early, unless the stream has a key. Requires the lock to be held."""
        # With a key, the batches depend on the calls of send() alone.
        if not self._settings.idempotency_key and not self._drops:
            self._delivery.report_dropped()

    def _check_process(self) -> None:
        """A child process has neither the thread nor the connection. The locks may be held forever."""
        if self._process != os.getpid():
            raise errors.FailedPrecondition(
                "the stream belongs to the process that this one was forked from: open a stream here")

    def _check_open(self) -> None:
        if self._delivery.failure is not None:
            raise self._delivery.failure
        if self._delivery.finishing:
            raise errors.FailedPrecondition("the stream was finished: open another one for more rows")

    def _wait_for(self, done: Callable[[], bool], timeout: float | None = None) -> None:
        """Waits until done(), with the stall timeout. Requires the lock to be held once."""
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._delivery.wait(done, self._settings.stall_timeout, deadline):
            raise self._delivery.stalled(f"not all rows were counted within {timeout:g} s")
