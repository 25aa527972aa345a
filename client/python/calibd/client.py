"""The client of a calibd server."""
from __future__ import annotations

import contextlib
import datetime
import functools
import logging
import os
import pathlib
import time
import uuid
from types import TracebackType
from typing import Any, Iterator, Literal, Sequence, Type, Union

import grpc
import numpy as np

from calibd import arguments, backup, errors, report_file, results, times
from calibd.arguments import assign, choose, expect, message, model_name, shown
from calibd.arrays import Classes, invalid
from calibd.calls import one_row
from calibd.choices import Lens, OnProgress
from calibd.computations import LONG_TIMEOUT, Computations
from calibd.credentials import Token
from calibd.declaration import ClassNames, declared
from calibd.observation import (Observation, check_counts, check_either, check_kind,
                                checked_message, classes_of, is_ordered_unseen, labels_messages,
                                usual_message)
from calibd.rows import MANY_ROWS, WHOLE_WARNING
from calibd.stream import ObservationStream
from calibd.stream_settings import OnFull, OnInvalid, StreamSettings
from calibd.tls import Tls
from calibd.transport import Backoff, Endpoint, Interrupted, StreamChannels, Transport, pages
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.v1 import kernel_pb2 as kernel
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1 import store_service_pb2 as store

_LOG = logging.getLogger("calibd")

Resolution = Literal["minute", "hour", "day"]
Time = Union[datetime.date, np.datetime64, str, float]
Span = Union[datetime.timedelta, np.timedelta64, str]

_RESOLUTIONS = {"minute": service.GetHistoryRequest.MINUTE,
                "hour": service.GetHistoryRequest.HOUR,
                "day": service.GetHistoryRequest.DAY}
# The limits of the server for min_interval, in seconds.
_LEAST_INTERVAL, _MOST_INTERVAL = 0.1, 3600
# A page of the largest declarations fits into one response.
_MODELS_PER_PAGE = 20


class Client(Computations):
    """A client of one calibd server. Thread-safe.

    target: "HOST:PORT"; without it the environment variable CALIBD_SERVER or 127.0.0.1:8460.
    timeout: seconds for a call with its retries, and for opening a stream.
    tls: for a server with TLS; None: what the environment variables CALIBD_CLIENT_TLS_* say. Without
      both, nothing is encrypted: for loopback and trusted networks.
    token: what shows a server with identities who calls: a token, the pathlib.Path of a file with it,
      or a function that returns it. Files are read, and functions called, for each call. Without it,
      the file that the environment variable CALIBD_TOKEN_FILE names, if there is one. A token needs
      TLS, except on loopback. A pickle of the client has a token that is text, but not the content
      of a file.

    A model is given as NAME, NAME@VERSION or its resource name, such as models/NAME.

    Every method raises a subclass of CalibdError. Unavailable is retried, and ResourceExhausted if
    the server says how long to wait; nothing else is.
    """

    def __init__(self, target: str | None = None, *, timeout: float = 30.0,
                 tls: Tls | None = None, token: Token | None = None) -> None:
        self._endpoint = Endpoint.of(target, tls, token)
        self._transport = Transport(self._endpoint, arguments.seconds("timeout", timeout))
        self._stream_channels = StreamChannels(self._endpoint)
        # The classes of the models that observe() has sent to, until a call fails.
        self._known: dict[str, Classes] = {}
        # Rows that observe() sent to a model so far if all of them were 0 or 1; None: not all were, or
        # the warning was given.
        self._whole_rows: dict[str, int | None] = {}

    def close(self) -> None:
        """Ends running calls and watches with Cancelled. Streams stay open."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._endpoint.target!r})"

    def __reduce__(self) -> Any:
        """A copy in another process has connections of its own."""
        endpoint = self._endpoint
        return functools.partial(Client, timeout=self._transport.timeout, tls=endpoint.tls,
                                 token=endpoint.token), (endpoint.target,)

    # --- models ---

    def create_model(self, model: str, classes: int | ClassNames | None = None, *,
                     label_grace: Span | None = None,
                     bandwidth: float | kernel.BandwidthRule | None = None,
                     error_limit: float | None = None, description: str | None = None,
                     baseline: str | None = None,
                     forecast: str | Sequence[float] | int | None = None,
                     labels: Sequence[str] | None = None,
                     features: Sequence[str] | None = None,
                     decision: float | tuple[float, float, float] | None = None,
                     group_tag: str | None = None, max_groups: int | None = None,
                     min_observations: int | None = None, min_group_observations: int | None = None,
                     significance_level: float | None = None, tolerance: float | None = None,
                     average_run_length: float | None = None, reference_rows: int | None = None,
                     stale_after: Span | None = None, monitored: bool | None = None,
                     lenses: Sequence[Lens] | None = None, kernel: kernel.Kernel | None = None,
                     block_sizes: Sequence[int] | None = None,
                     row_sum_tolerance: float | None = None, window: int | None = None,
                     max_pending: int | None = None, labels_come_with_predictions: bool | None = None,
                     inference_output: models.InferenceOutput | None = None,
                     declaration: models.Model | None = None) -> models.Model:
        """Declares a model, and returns the declaration with all defaults. Idempotent.

        classes: their number, or their names in the order of a probability vector, such as classes_ of
          a classifier of scikit-learn: integers and truth values become texts.
        label_grace: how long a prediction with an id waits for its label: a timedelta, or a text of a
          number and its unit s, m, h or d, such as "7d".
        bandwidth: of the kernel; None: chosen from the first 500 predictions.
        error_limit: the acceptable error, as a probability.
        baseline: the model is compared all the time with other predictions for the same rows, which
          send() and observe() take too. This text says what they are, such as "3" for version 3; the
          server looks for no model of this name.
        forecast: the model forecasts a number instead of classes: "normal" (mean and standard
          deviation), the levels of its quantiles, or the number of its samples.
        labels: the names of several labels that do not exclude each other, in the order of the
          probabilities, instead of classes; each has a limit of its own.
        features: names of what is known of each case: give their values to send() and observe().
          evaluate() then tests whether similar cases are calibrated.
        decision: the forecasts decide whether the outcome will reach this threshold; or (threshold,
          cost of a false alarm, cost of a miss). watch.decision in calibration() compares what the
          decisions cost with what the forecasts promise.
        group_tag: the name of what predictions are grouped by, such as "country".
        reference_rows: the first so many rows are a reference, and an alarm is raised when the error is
          no longer what it was in them; 3000 suits most models, and 0 is none.
        monitored: False: only estimates, history and tests; no verdict, alarms and groups.
        declaration: a message to begin with. The other arguments replace its fields.

        All other arguments are fields of the messages Model, Classes and Monitoring of the protocol,
        which says what they mean, and their ranges and defaults.
        """
        # Each argument is named once, in the signature, and its field in the table of declared().
        given = {name: value for name, value in locals().items()
                 if name not in ("self", "model", "classes", "declaration")}
        return self._transport.unary(
            "ModelService/CreateModel",
            models.CreateModelRequest(model=declared(model, classes, declaration, given)),
            models.CreateModelResponse).model

    def get_model(self, model: str) -> models.Model:
        """The declaration of a model."""
        return self._transport.unary("ModelService/GetModel",
                                     models.GetModelRequest(name=model_name(model)),
                                     models.GetModelResponse).model

    def list_models(self) -> list[models.Model]:
        """All models, ascending by name."""
        request = models.ListModelsRequest(page_size=_MODELS_PER_PAGE)
        return [model for page in pages(self._transport, "ModelService/ListModels", request,
                                        models.ListModelsResponse) for model in page.models]

    def update_model(self, model: str, *, description: str | None = None,
                     label_grace: Span | None = None, max_pending: int | None = None,
                     row_sum_tolerance: float | None = None, error_limit: float | None = None,
                     significance_level: float | None = None, tolerance: float | None = None,
                     average_run_length: float | None = None,
                     reference_rows: int | None = None, stale_after: Span | None = None,
                     inference_output: models.InferenceOutput | None = None,
                     ) -> models.UpdateModelResponse:
        """Changes the given fields of a declaration; see UpdateModelRequest of the protocol.

        inference_output: its name, transform and baseline_name replace those of the declaration.
        """
        request = models.UpdateModelRequest(model=models.Model(name=model_name(model)))
        parts: dict[str, Any] = {}
        if inference_output is not None:
            expect("inference_output", inference_output, models.InferenceOutput,
                   "a message InferenceOutput")
            parts = {name: getattr(inference_output, name)
                     for name in ("name", "transform", "baseline_name")}
            # The server says that the order of columns cannot be changed.
            parts["column_classes"] = inference_output.column_classes or None
        for path, value in (("description", description),
                            ("label_grace", times.duration("label_grace", label_grace)),
                            ("max_pending", max_pending),
                            ("classes.row_sum_tolerance", row_sum_tolerance),
                            ("monitoring.error_limit", error_limit),
                            ("monitoring.significance_level", significance_level),
                            ("monitoring.tolerance", tolerance),
                            ("monitoring.average_run_length", average_run_length),
                            ("monitoring.reference_rows", reference_rows),
                            ("monitoring.stale_after",
                             times.duration("stale_after", stale_after)),
                            *((f"inference_output.{name}", part)
                              for name, part in parts.items())):
            if value is not None:
                request.update_mask.paths.append(path)
                assign(request.model, path, value)
        return self._transport.unary("ModelService/UpdateModel", request, models.UpdateModelResponse)

    def delete_model(self, model: str, confirm: str) -> None:
        """Deletes a model with all its data. confirm: its name again, as this cannot be undone."""
        self._transport.unary("ModelService/DeleteModel",
                              models.DeleteModelRequest(name=model_name(model),
                                                        confirmation=model_name(confirm, "confirm")),
                              models.DeleteModelResponse)

    # --- predictions ---

    def stream(self, model: str, classes: int | Sequence[str] | None = None, *,
               on_invalid: OnInvalid = "raise", producer_id: str = "", epoch: int = 0,
               idempotency_key: str = "", max_buffer_bytes: int = 32 << 20,
               stall_timeout: float = 60.0, on_full: OnFull = "block",
               close_timeout: float = 5.0) -> ObservationStream:
        """Opens a stream of predictions to a model. Use it in a `with` block, which finishes it.

        classes: declares the model, as create_model() does. None: the model exists.
        on_invalid: "raise": send() raises InvalidArgument and accepts no row of the call; "drop":
          invalid rows are left out, counted, reported to the server and logged.
        producer_id: names the producer, whose batches are counted once by this name; empty: random.
        epoch: counts the restarts of the producer. A higher one fences streams of lower ones.
        idempotency_key: makes the whole stream repeatable: a stream with the same key and the same
          calls counts only the rows that no earlier one has counted.
        max_buffer_bytes: send() blocks while so many bytes are neither counted nor rejected.
        stall_timeout: a call that waits for the server raises an error after so many seconds without
          progress, reconnections included. The stream continues, and the call may be repeated.
        on_full: "block": send() waits for room in the buffer, and the stream opens before this method
          returns. "drop": no call waits or raises; see ObservationStream and Monitor. The stream opens
          when it has rows, whether the server is there or not.
        close_timeout: close(), and with on_full="drop" the ends of the block and of the process, wait
          for so many seconds at most.
        """
        self._transport.check_open()
        if classes is not None:
            self.create_model(model, classes)
        settings = StreamSettings(
            model_name(model), producer_id=producer_id, epoch=epoch, idempotency_key=idempotency_key,
            on_invalid=on_invalid, max_buffer_bytes=max_buffer_bytes, stall_timeout=stall_timeout,
            on_full=on_full, close_timeout=close_timeout)
        return ObservationStream(self._stream_channels, settings,
                                 None if on_full == "drop" else self._transport.timeout)

    def observe(self, model: str, probabilities: Any = None, label: Any = None, *,
                forecast: Any = None, outcome: float | None = None,
                id: str | int | uuid.UUID | None = None, group: str | int | None = None,
                request_id: str | None = None, baseline: Any = None,
                features: Any = None) -> ingest.ObserveResponse:
        """Counts one prediction, and returns when it is durable. For many, use a stream.

        probabilities: m numbers in the order of the classes, or a dictionary or pandas Series that
          names the classes, or a matrix of one row; of two classes also the probability of class 1.
        label: the true class, as in a stream, or the K truths of several labels; None: it comes
          later, by id.
        forecast: instead of probabilities, of a model that forecasts a number: mean and standard
          deviation, quantiles, or draws. outcome: instead of the label.
        id: names the prediction for a label that comes later; needs a model with a label_grace.
        request_id: a call that is repeated with it is counted once; None: a random one.
          is_repeated of the answer says that an earlier attempt of this call, or with a request_id an
          earlier call, was counted: that is no error. duplicate_rows without it says that another call
          has sent the id.
        baseline: the prediction of the model's baseline, if the model declares one.
        features: the values of the model's feature_names, if it declares features, in this order, or
          as a dictionary or pandas Series with these names.

        What is given by names is right also after the model was created again with another order of
        its classes or features. With features by name, with names of classes and a request_id, or with
        probabilities by name of a model whose classes have no names, it asks for the declaration first.
        """
        check_either("probabilities", probabilities, "forecast", forecast)
        if label is None and outcome is None and id is None:
            truth = "label" if forecast is None else "outcome"
            raise invalid(truth, f"is missing: give the {truth}, or an id by which it comes later")
        name = model_name(model)
        given = Observation(one_row(probabilities), label, one_row(forecast), outcome, id, group,
                            one_row(baseline), one_row(features))
        try:
            known, observations = self._message(name, given, request_id is not None)
            self._warn_of_classes(name, observations)
            request = ingest.ObserveRequest(model=name, observations=observations)
            try:
                return self._observe(request, request_id)
            except errors.InvalidArgument:
                # A request_id that was refused stays refused.
                if request_id is not None or (newest := self._newest(name)) == known:
                    raise
            request = ingest.ObserveRequest(model=name, observations=checked_message(newest, given))
            return self._observe(request, None)
        except errors.CalibdError:
            self._known.pop(name, None)
            raise

    def _warn_of_classes(self, name: str, observations: ingest.Observations) -> None:
        """Warns once if all probabilities of many observations of a model are 0 or 1."""
        rows = self._whole_rows.get(name, 0)
        values = observations.probabilities.values or observations.probabilities_float32.values
        if rows is None or not values:
            return
        self._whole_rows[name] = rows = rows + 1 if all(value in (0, 1) for value in values) else None
        if rows is not None and rows >= MANY_ROWS:
            _LOG.warning(WHOLE_WARNING, name)
            self._whole_rows[name] = None

    def _message(self, name: str, given: Observation,
                 has_id: bool) -> tuple[Classes, ingest.Observations]:
        """The message, and the classes by which it was made, which the model may no longer have."""
        known = self._known.get(name)
        if known is not None:
            message = usual_message(known, given)
            if message is None and not is_ordered_unseen(known, given):
                with contextlib.suppress(errors.InvalidArgument):
                    message = checked_message(known, given)
            # If the server refused other names, the request_id could not be used again.
            if message is not None and not (has_id and message.class_names):
                return known, message
        known = self._newest(name)
        return known, checked_message(known, given)

    def _newest(self, name: str) -> Classes:
        """The classes that the model has now."""
        known = self._known[name] = classes_of(self.get_model(name))
        return known

    def label(self, model: str, ids: Any, labels: Any = None, *, outcomes: Any = None,
              request_id: str | None = None) -> ingest.LabelCounts:
        """Sends the labels of predictions that were sent, or come within a minute, with these ids.

        ids: texts, integers or UUIDs. labels: the true classes, as in a stream. outcomes: instead of
        labels, for a model that forecasts a number. Returns what became of them. Many labels are
        sent in several messages, except with a request_id. If one fails, repeat the call: the label
        of an id counts once.
        """
        check_either("labels", labels, "outcomes", outcomes)
        name = model_name(model)
        # The server checks that the model forecasts a number.
        classes = (Classes(0, (), 0, models.Forecast()) if labels is None else
                   classes_of(self.get_model(name)))
        check_kind(classes, ("labels", labels), ("outcomes", outcomes))
        counts = ingest.LabelCounts()
        for first, part in labels_messages(classes, ids, outcomes if labels is None else labels,
                                           request_id is None):
            try:
                found = self._observe(ingest.ObserveRequest(model=name, labels=part), request_id).labels
            except errors.CalibdError as error:
                raise error.with_addition(f"labels[:{first}] are counted") if first else error
            for field in counts.DESCRIPTOR.fields:
                setattr(counts, field.name, getattr(counts, field.name) + getattr(found, field.name))
        return counts

    def _observe(self, request: ingest.ObserveRequest,
                 request_id: str | None) -> ingest.ObserveResponse:
        if request_id is not None:
            assign(request, "request_id", request_id)
        if not request.request_id:
            request.request_id = os.urandom(16).hex()
        answer, attempts = self._transport.counted_unary("IngestService/Observe", request,
                                                         ingest.ObserveResponse)
        labels = answer.labels
        check_counts("the server answered observe", len(request.labels.prediction_ids) or 1, (
            answer.accepted_rows, answer.duplicate_rows, answer.skipped.rows, labels.matched,
            labels.repeated, labels.conflicting, labels.late, labels.unknown, labels.waiting))
        # Nobody else has used a random request_id, so an attempt whose answer was lost was counted. Of a
        # row with an id it is not known whether it was accepted then.
        if (answer.is_repeated and request_id is None and attempts > 1
                and not request.observations.prediction_ids):
            answer.accepted_rows += answer.duplicate_rows
            answer.duplicate_rows = 0
            answer.is_repeated = False
        return answer

    # --- answers ---

    def calibration(self, model: str, *, label_diagrams: Sequence[str] = ()) -> results.Calibration:
        """The verdict and the running estimates over all observations.

        label_diagrams: names of at most 100 labels of a model of several labels, whose `reliability` the
          answer has.
        """
        name = model_name(model)
        request = service.GetCalibrationRequest(model=name)
        assign(request, "label_diagrams", label_diagrams)
        return results.Calibration(name, self._transport.unary(
            "CalibrationService/GetCalibration", request, service.GetCalibrationResponse))

    def watch(self, model: str, *, min_interval: float = 1.0,
              after_revision: int = 0) -> Iterator[results.Calibration]:
        """Yields the calibration now and after each change, with its `revision`, without end.

        Only the newest of several changes within min_interval seconds is yielded. Raises Unavailable
        or DeadlineExceeded if the server does not answer within the timeout of the client. Once it did,
        a lost connection is logged and retried without limit. Ends when the caller stops to iterate, or
        with Cancelled by close().
        """
        name = model_name(model)
        seconds = arguments.as_number(min_interval)
        if not _LEAST_INTERVAL <= seconds <= _MOST_INTERVAL:
            raise errors.invalid("min_interval", f"is {shown(min_interval)}, expected seconds, "
                                 f"{_LEAST_INTERVAL} to {_MOST_INTERVAL}")
        interval = datetime.timedelta(seconds=seconds)
        request = message(service.WatchCalibrationRequest, model=name, after_revision=after_revision,
                          min_interval=times.duration("min_interval", interval))
        backoff = Backoff()
        deadline = time.monotonic() + self._transport.timeout
        is_lost = was_reached = False
        while True:
            try:
                with self._transport.server_stream(
                        "CalibrationService/WatchCalibration", request,
                        service.WatchCalibrationResponse,
                        first_timeout=self._transport.timeout, is_repeatable=True) as call:
                    last = -1
                    for change in call:
                        if change.revision <= last:
                            raise errors.DataLoss(f"the server sent revision {change.revision} after "
                                                  f"{last}, expected a higher one")
                        backoff.reset()
                        is_lost, was_reached = False, True
                        request.after_revision = last = change.revision
                        # The first message is empty if nothing has changed since after_revision.
                        if change.HasField("calibration"):
                            result = results.Calibration(name, change.calibration)
                            result.revision = change.revision
                            yield result
            except Interrupted:
                continue
            except grpc.RpcError as rpc_error:
                error = errors.from_rpc_error(rpc_error)
                if self._transport.closed.is_set() or not (
                        errors.is_retryable(error) or errors.is_cut_off(error)) or (
                            not was_reached and errors.is_hopeless(error)):
                    raise error from None
            except errors.DeadlineExceeded as late:
                error = late
            else:
                error = errors.Unavailable("the server ended the call")
            delay = backoff.next(error.retry_seconds)
            if not was_reached and time.monotonic() + delay >= deadline:
                raise error
            if not was_reached:
                self._transport.log_outage(error, deadline - time.monotonic())
            elif not is_lost:
                is_lost = True
                _LOG.warning("%s: the watch reconnects: %s", name, error.message)
            self._transport.closed.wait(delay)

    def history(self, model: str, resolution: Resolution = "hour", *, start: Time | None = None,
                end: Time | None = None, labels: Sequence[str] = ()) -> results.History:
        """The calibration over time.

        start, end: of the buckets: a date or datetime, a datetime64 in UTC, a text such as
          2026-01-31 (in UTC), 2026-01-31T12:30:00Z or 7d (ago), or seconds since 1970. None: the
          oldest, and now.
        labels: names of at most 20 labels of a model of several labels, which each bucket then shows.
          Empty: the 20 that are furthest off in each bucket.
        """
        name = model_name(model)
        request = service.GetHistoryRequest(
            model=name, start_time=times.timestamp("start", start),
            end_time=times.timestamp("end", end),
            resolution=choose("resolution", resolution, _RESOLUTIONS))
        assign(request, "labels", labels)
        history = service.GetHistoryResponse()
        for page in pages(self._transport, "CalibrationService/GetHistory", request,
                          service.GetHistoryResponse):
            history.buckets.extend(page.buckets)
            if page.HasField("total"):
                history.total.CopyFrom(page.total)
            del history.updates[:]
            history.updates.extend(page.updates)
            history.kind = page.kind
            history.class_1_name = page.class_1_name
            history.label_count = page.label_count
        return results.History(name, history)

    def verdicts(self, *, false_discovery_rate: float | None = None) -> results.Verdicts:
        """The verdicts of all models, with those that e-BH rejects at this rate; None: 0.05."""
        request = message(service.ListVerdictsRequest, false_discovery_rate=false_discovery_rate)
        verdicts = service.ListVerdictsResponse()
        for page in pages(self._transport, "CalibrationService/ListVerdicts", request,
                          service.ListVerdictsResponse):
            verdicts.MergeFrom(page)
        verdicts.next_page_token = ""
        return results.Verdicts("all models", verdicts)

    def acknowledge_alarm(self, model: str, alarm_id: int, note: str = "") -> monitoring.Alarm:
        """Acknowledges an alarm. note: the action taken or its author. Idempotent."""
        return self._transport.unary(
            "CalibrationService/AcknowledgeAlarm", message(
                service.AcknowledgeAlarmRequest, model=model_name(model), alarm_id=alarm_id, note=note),
            service.AcknowledgeAlarmResponse).alarm

    def report(self, model: str, path: str | pathlib.Path, *, timeout: float = LONG_TIMEOUT) -> None:
        """Writes what the page shows of a model to a file, as calibd.report(). Raises also OSError."""
        report_file.report_model(self, model_name(model), arguments.file_path("path", path), timeout)

    # --- the store of the server ---

    def backup(self, path: str | pathlib.Path, *, on_progress: OnProgress | None = None,
               timeout: float = LONG_TIMEOUT) -> int:
        """Copies the whole store to a new file while the server runs; returns its size in bytes.

        The file appears when it is complete and durable. To restore it, put it as calibd.db into an
        empty folder, which becomes --data-dir. Needs the module xxhash, for the checksum. Raises
        also OSError, such as FileExistsError.
        """
        return backup.download(self._transport, path, on_progress, timeout)

    def verify(self, *, on_progress: OnProgress | None = None,
               timeout: float = LONG_TIMEOUT) -> store.Verification:
        """Makes the server check all that it has on disk; `problems` is empty if all is well."""
        return self._transport.long("StoreService/Verify", store.VerifyRequest(), store.VerifyResponse,
                                    "verification", on_progress, timeout).verification
