"""The client of a calibd server."""
from __future__ import annotations

import datetime
import functools
import os
import pathlib
import re
import uuid
from numbers import Integral, Real
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator, Literal, Mapping, Sequence, Type, TypeVar

import grpc
import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from calibd import backup, errors, results
from calibd.rows import (MAX_ID_BYTES, POSITIVE_CLASS, Classes, as_floats, as_labels, as_outcomes,
                         as_texts, shown)
from calibd.stream import ObservationStream, OnInvalid, StreamSettings
from calibd.transport import Backoff, StreamChannels, Transport, pages
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.v1 import kernel_pb2 as kernel
from calibd.v1 import loss_pb2
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1 import store_service_pb2 as store

_Choice = TypeVar("_Choice")
_Message = TypeVar("_Message", bound=Message)
OnProgress = Callable[[float], None]
Lens = kernel.Lens | Literal["canonical", "top_label", "class_wise"]
Null = Literal["form", "forecast"]
Resolution = Literal["minute", "hour", "day"]

_NULLS = {None: evaluation.NULL_HYPOTHESIS_UNSPECIFIED, "form": evaluation.NULL_HYPOTHESIS_FORM,
          "forecast": evaluation.NULL_HYPOTHESIS_FORECAST}
_RESOLUTIONS = {"minute": service.GetHistoryRequest.RESOLUTION_MINUTE,
                "hour": service.GetHistoryRequest.RESOLUTION_HOUR,
                "day": service.GetHistoryRequest.RESOLUTION_DAY}
_LENSES = {"canonical": kernel.Lens(canonical=kernel.Lens.Canonical()),
           "top_label": kernel.Lens(top_label=kernel.Lens.TopLabel()),
           "class_wise": kernel.Lens(class_wise=kernel.Lens.ClassWise())}
_LONG_TIMEOUT = 600.0
# By the type of a field.
_EXPECTED = {FieldDescriptor.CPPTYPE_INT32: "a whole number",
             FieldDescriptor.CPPTYPE_INT64: "a whole number",
             FieldDescriptor.CPPTYPE_UINT64: "a whole number from 0",
             FieldDescriptor.CPPTYPE_DOUBLE: "a number", FieldDescriptor.CPPTYPE_STRING: "text"}
# A page of the largest declarations fits into one response.
_MODELS_PER_PAGE = 20


def escape_id(text: str) -> str:
    """An id of a model or version for any text; see Model.name of the protocol."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", text) and not text.startswith("x--"):
        return text
    plain = re.compile(rb"[A-Za-z0-9._]")
    return "x--" + "".join(chr(byte) if plain.match(bytes([byte])) else f"-{byte:02x}"
                           for byte in text.encode())


def model_name(model: str) -> str:
    """The resource name of NAME, NAME@VERSION or a resource name."""
    _expect("model", model, str, "NAME, NAME@VERSION or a resource name")
    if model.startswith("models/"):
        return model
    name, at, version = model.partition("@")
    return f"models/{name}/versions/{version}" if at else f"models/{name}"


def _expect(field: str, value: Any, kind: Any, expected: str) -> None:
    if not isinstance(value, kind):
        raise errors.invalid(field, f"is {shown(value)}, expected {expected}")


def _texts(field: str, values: Any, expected: str) -> list[str]:
    texts = None if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise errors.invalid(field, f"are {shown(values)}, expected {expected}")
    return texts


def _message(kind: Type[_Message], **fields: Any) -> _Message:
    """A message of the protocol. A value that does not fit is an error that names its field."""
    message: _Message = kind()
    for name, value in fields.items():
        try:
            message.MergeFrom(kind(**{name: value}))
        except (TypeError, ValueError):
            field = kind.DESCRIPTOR.fields_by_name[name]
            expected = (f"a message {field.message_type.name}" if field.message_type is not None
                        else _EXPECTED.get(field.cpp_type, "another type"))
            raise errors.invalid(name, f"is {shown(value)}, expected {expected}") from None
    return message


def _duration(field: str, value: datetime.timedelta | None) -> Duration | None:
    if value is None:
        return None
    _expect(field, value, datetime.timedelta, "a datetime.timedelta")
    duration = Duration()
    duration.FromTimedelta(value)
    return duration


def _timestamp(value: datetime.datetime | None) -> Timestamp | None:
    return None if value is None else Timestamp(seconds=int(value.timestamp()))


def _choose(field: str, name: Any, choices: Mapping[Any, _Choice]) -> _Choice:
    if name in choices:
        return choices[name]
    expected = ", ".join(choice for choice in choices if choice)
    raise errors.invalid(field, f"is {name!r}, expected one of {expected}")


def _lens(lens: Lens | None) -> kernel.Lens | None:
    return _choose("lens", lens, _LENSES) if isinstance(lens, str) else lens


def _row(field: str, row: Any) -> ingest.DoubleValues | None:
    """The numbers of one prediction."""
    if row is None:
        return None
    values = np.atleast_1d(as_floats(row, field))
    if values.ndim != 1:
        raise errors.invalid(field, f"has the shape {values.shape}, expected the numbers of one "
                             "prediction: use a stream for many")
    return ingest.DoubleValues(values=values.tolist())


def _labels(labels: Any) -> list[int]:
    """Class numbers. The server checks that there are so many; only streams know the names."""
    # A list, because a text among numbers would make an array of texts.
    given = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    texts = [isinstance(label, str) for label in given]
    if any(texts):
        i = texts.index(True)
        raise errors.invalid(f"labels[{i}]", f"is {shown(given[i])}, expected the number of a class, "
                             "from 0: only streams take names")
    numbers, valid = as_labels(given, Classes(2**31 - 1, (), 0.0))
    if not valid.all():
        i = int(valid.argmin())
        raise errors.invalid(f"labels[{i}]", f"is {shown(given[i])}, expected the number of a class, "
                             "from 0")
    return list(numbers.tolist())


def _ids(ids: Any, rows: int) -> list[str]:
    texts, faults = as_texts(ids, rows, "prediction_ids", MAX_ID_BYTES)
    for i, fault in faults.items():
        raise errors.invalid(f"prediction_ids[{i}]", fault.description)
    return texts


class Client:
    """A client of one calibd server. Thread-safe.

    target: "HOST:PORT"; without it the environment variable CALIBD_SERVER or 127.0.0.1:8460. Not
      encrypted: for loopback and trusted networks.
    timeout: seconds for a call with its retries, and for opening a stream.

    A model is given as NAME, NAME@VERSION or its resource name, such as models/NAME.

    Every method raises a subclass of CalibdError. Unavailable is retried, and ResourceExhausted if
    the server says how long to wait; nothing else is.
    """

    def __init__(self, target: str | None = None, *, timeout: float = 30.0) -> None:
        self._target = target or os.environ.get("CALIBD_SERVER") or "127.0.0.1:8460"
        if not isinstance(self._target, str) or not re.search(r"^(?!https?:).*:", self._target):
            raise errors.invalid("target", f'is {shown(self._target)}, expected "HOST:PORT"')
        self._transport = Transport(self._target, timeout)
        self._stream_channels = StreamChannels(self._target)

    def close(self) -> None:
        """Ends running calls and watches with Cancelled. Streams stay open."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._target!r})"

    def __reduce__(self) -> Any:
        """A copy in another process has connections of its own."""
        return functools.partial(Client, timeout=self._transport.timeout), (self._target,)

    # --- models ---

    def create_model(self, model: str, classes: int | Sequence[str] | None = None, *,
                     label_grace: datetime.timedelta | None = None, bandwidth: float | None = None,
                     error_limit: float | None = None, description: str = "", baseline: str = "",
                     forecast: str | Sequence[float] | int | None = None,
                     features: Sequence[str] = (),
                     decision: float | tuple[float, float, float] | None = None,
                     declaration: models.Model | None = None) -> models.Model:
        """Declares a model, and returns the declaration with all defaults. Idempotent.

        classes: their number, or their names in the order of a probability vector.
        label_grace: how long a prediction with an id waits for its label.
        bandwidth: of the kernel; None: chosen from the first 500 predictions.
        error_limit: the acceptable error, as a probability.
        baseline: the name of another model, with which this one is compared all the time: give the
          predictions of both to send() and observe().
        forecast: the model forecasts a number instead of classes: "normal" (mean and standard
          deviation), the levels of its quantiles, or the number of its samples.
        features: names of what is known of each case: give their values to send() and observe().
          evaluate() then tests whether similar cases are calibrated.
        decision: the forecasts decide whether the outcome will reach this threshold; or (threshold,
          cost of a false alarm, cost of a miss). watch.decision in calibration() compares what the
          decisions cost with what the forecasts promise.
        declaration: all further fields of the declaration.
        """
        wanted = models.Model()
        if declaration is not None:
            wanted.CopyFrom(declaration)
        wanted.name = model_name(model)
        if isinstance(classes, Integral):
            wanted.class_count = int(classes)
        elif classes is not None:
            wanted.class_names[:] = _texts("classes", classes, "their number, or their names as texts")
        grace = _duration("label_grace", label_grace)
        if grace is not None:
            wanted.label_grace.CopyFrom(grace)
        if bandwidth is not None:
            _expect("bandwidth", bandwidth, Real, "a number")
            wanted.bandwidth.fixed = bandwidth
        if error_limit is not None:
            _expect("error_limit", error_limit, Real, "a number")
            wanted.monitoring.error_limit = error_limit
        if description:
            _expect("description", description, str, "a text")
            wanted.description = description
        if baseline:
            _expect("baseline", baseline, str, "the name of a model")
            wanted.baseline = baseline
        if features is not None:
            wanted.feature_names[:] = _texts("features", features, "a list of names")
        if isinstance(forecast, Integral):
            wanted.forecast.samples.draws = int(forecast)
        elif isinstance(forecast, str) and forecast == "normal":
            wanted.forecast.normal.SetInParent()
        elif forecast is not None:
            if isinstance(forecast, str) or np.ndim(forecast) != 1:
                raise errors.invalid("forecast", f'is {shown(forecast)}, expected "normal", levels of '
                                     "quantiles or a number of samples")
            wanted.forecast.quantiles.levels[:] = as_floats(forecast, "levels").tolist()
        if decision is not None:
            costs = list(decision) if isinstance(decision, (tuple, list)) else [decision]
            if len(costs) not in (1, 3) or not all(isinstance(cost, Real) for cost in costs):
                raise errors.invalid("decision", f"is {shown(decision)}, expected a threshold, or "
                                     "(threshold, cost of a false alarm, cost of a miss)")
            wanted.decision.SetInParent()
            for name, value in zip(("threshold", "false_alarm_cost", "miss_cost"), costs):
                setattr(wanted.decision, name, value)
        return self._transport.unary("ModelService/CreateModel",
                                     models.CreateModelRequest(model=wanted),
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
                     label_grace: datetime.timedelta | None = None, max_pending: int | None = None,
                     row_sum_tolerance: float | None = None, error_limit: float | None = None,
                     significance_level: float | None = None, tolerance: float | None = None,
                     average_run_length: float | None = None,
                     stale_after: datetime.timedelta | None = None) -> models.UpdateModelResponse:
        """Changes the given fields of a declaration; see UpdateModelRequest of the protocol."""
        request = models.UpdateModelRequest(model=models.Model(name=model_name(model)))
        for path, value in (("description", description),
                            ("label_grace", _duration("label_grace", label_grace)),
                            ("max_pending", max_pending), ("row_sum_tolerance", row_sum_tolerance),
                            ("monitoring.error_limit", error_limit),
                            ("monitoring.significance_level", significance_level),
                            ("monitoring.tolerance", tolerance),
                            ("monitoring.average_run_length", average_run_length),
                            ("monitoring.stale_after", _duration("stale_after", stale_after))):
            if value is None:
                continue
            request.update_mask.paths.append(path)
            *parents, name = path.split(".")
            message = getattr(request.model, parents[0]) if parents else request.model
            message.MergeFrom(_message(type(message), **{name: value}))
        return self._transport.unary("ModelService/UpdateModel", request, models.UpdateModelResponse)

    def delete_model(self, model: str) -> None:
        """Deletes a model with all its data."""
        self._transport.unary("ModelService/DeleteModel",
                              models.DeleteModelRequest(name=model_name(model)),
                              models.DeleteModelResponse)

    # --- predictions ---

    def stream(self, model: str, classes: int | Sequence[str] | None = None, *,
               on_invalid: OnInvalid = "raise", producer_id: str = "", epoch: int = 0,
               idempotency_key: str = "", max_buffer_bytes: int = 32 << 20,
               stall_timeout: float = 60.0) -> ObservationStream:
        """Opens a stream of predictions to a model. Use it in a `with` block, which finishes it.

        classes: declares the model, as create_model() does. None: the model exists.
        on_invalid: "raise": send() raises InvalidArgument and accepts no row of the call; "drop":
          invalid rows are left out, counted, reported to the server and logged.
        producer_id: names the producer, whose batches are counted once by this name; empty: random.
        epoch: counts the restarts of the producer. A higher one fences streams of lower ones.
        idempotency_key: makes the whole stream repeatable: a stream with the same key and the same
          calls counts only the rows that no earlier one has counted.
        max_buffer_bytes: send() blocks while so many bytes are neither counted nor rejected.
        stall_timeout: the stream fails if a call waits for the server for so many seconds without
          progress, reconnections included.
        """
        self._transport.check_open()
        if classes is not None:
            self.create_model(model, classes)
        settings = StreamSettings(
            model_name(model), producer_id=producer_id, epoch=epoch, idempotency_key=idempotency_key,
            on_invalid=on_invalid, max_buffer_bytes=max_buffer_bytes, stall_timeout=stall_timeout)
        return ObservationStream(self._stream_channels, settings, self._transport.timeout)

    def observe(self, model: str, probabilities: Any = None, label: int | None = None, *,
                forecast: Any = None, outcome: float | None = None,
                prediction_id: str | int | None = None, group: str | None = None,
                request_id: str | None = None, baseline: Any = None,
                features: Any = None) -> ingest.ObserveResponse:
        """Counts one prediction, and returns when it is durable. For many, use a stream.

        probabilities: m numbers in the order of the classes; of a model with two classes also the
          probability of class 1.
        label: the number of the true class, from 0; None: it comes later, by prediction_id.
        forecast: instead of probabilities, of a model that forecasts a number: mean and standard
          deviation, quantiles, or draws. outcome: instead of the label.
        request_id: a call that is repeated with it is counted once; None: a random one, so that
          retries of this call are safe.
        baseline: the prediction of the model's baseline, if the model declares one.
        features: the values of the model's feature_names, if it declares features.
        """
        if (probabilities is None) == (forecast is None):
            raise errors.InvalidArgument("give either probabilities or forecast")
        if label is None and outcome is None and prediction_id is None:
            truth = "label" if forecast is None else "outcome"
            raise errors.invalid(truth, f"is missing: give the {truth}, or a prediction_id by which it "
                                 "comes later")
        values = _row("probabilities", probabilities)
        observations = ingest.Observations(
            probabilities=values, forecasts=_row("forecasts", forecast),
            outcomes=[] if outcome is None else as_outcomes([outcome]).tolist(),
            baseline_probabilities=_row("baseline", baseline), features=_row("features", features),
            labels=[] if label is None else _labels([label]),
            prediction_ids=[] if prediction_id is None else _ids([prediction_id], 1),
            group_values=[] if group is None else [str(group)],
            positive_class=POSITIVE_CLASS if values is not None and len(values.values) == 1 else None)
        return self._observe(ingest.ObserveRequest(
            model=model_name(model), observations=observations, request_id=request_id or ""))

    def label(self, model: str, ids: Any, labels: Any = (), *, outcomes: Any = (),
              request_id: str | None = None) -> ingest.LabelCounts:
        """Sends the labels of predictions that were sent with these ids.

        ids: texts or integers. labels: the numbers of the true classes, from 0. outcomes: instead of
        labels, for a model that forecasts a number. Returns what became of them.
        """
        classes = _labels(labels)
        numbers = as_outcomes(outcomes).tolist()
        rows = len(classes) or len(numbers)
        if not rows:
            raise errors.invalid("labels", "are empty, expected one for each id")
        content = ingest.Labels(prediction_ids=_ids(ids, rows), labels=classes, outcomes=numbers)
        return self._observe(ingest.ObserveRequest(
            model=model_name(model), labels=content, request_id=request_id or "")).labels

    def _observe(self, request: ingest.ObserveRequest) -> ingest.ObserveResponse:
        request.request_id = request.request_id or uuid.uuid4().hex
        return self._transport.unary("IngestService/Observe", request, ingest.ObserveResponse)

    # --- answers ---

    def calibration(self, model: str) -> results.Calibration:
        """The verdict and the running estimates over all observations."""
        name = model_name(model)
        return results.Calibration(name, self._transport.unary(
            "CalibrationService/GetCalibration", service.GetCalibrationRequest(model=name),
            service.GetCalibrationResponse))

    def watch(self, model: str, *, min_interval: float = 1.0,
              after_revision: int = 0) -> Iterator[results.Calibration]:
        """Yields the calibration now and after each change, with its `revision`, without end.

        Only the newest of several changes within min_interval seconds is yielded. A lost connection
        is retried without limit. Ends when the caller stops to iterate, or with Cancelled by
        close().
        """
        name = model_name(model)
        _expect("min_interval", min_interval, Real, "a number of seconds")
        request = service.WatchCalibrationRequest(
            model=name,
            min_interval=_duration("min_interval", datetime.timedelta(seconds=min_interval)),
            after_revision=after_revision)
        backoff = Backoff()
        while True:
            delay = None
            try:
                with self._transport.server_stream(
                        "CalibrationService/WatchCalibration", request,
                        service.WatchCalibrationResponse) as call:
                    for change in call:
                        backoff.reset()
                        request.after_revision = change.revision
                        # The first message is empty if nothing has changed since after_revision.
                        if change.HasField("calibration"):
                            result = results.Calibration(name, change.calibration)
                            result.revision = change.revision
                            yield result
            except grpc.RpcError as rpc_error:
                error = errors.from_rpc_error(rpc_error)
                if self._transport.closed.is_set() or not (
                        errors.is_retryable(error) or errors.is_cut_off(error)):
                    raise error from None
                delay = error.retry_seconds
            self._transport.closed.wait(backoff.next(delay))

    def history(self, model: str, resolution: Resolution = "hour", *,
                start: datetime.datetime | None = None,
                end: datetime.datetime | None = None) -> results.History:
        """The calibration over time. start, end: of the buckets; None: the oldest, and now."""
        name = model_name(model)
        request = service.GetHistoryRequest(
            model=name, start_time=_timestamp(start), end_time=_timestamp(end),
            resolution=_choose("resolution", resolution, _RESOLUTIONS))
        history = service.GetHistoryResponse()
        for page in pages(self._transport, "CalibrationService/GetHistory", request,
                          service.GetHistoryResponse):
            history.buckets.extend(page.buckets)
            if page.HasField("total"):
                history.total.CopyFrom(page.total)
            del history.updates[:]
            history.updates.extend(page.updates)
        return results.History(name, history)

    def verdicts(self, *, false_discovery_rate: float = 0.0) -> results.Verdicts:
        """The verdicts of all models, with those that e-BH rejects at this rate; 0 means 0.05."""
        request = _message(service.ListVerdictsRequest, false_discovery_rate=false_discovery_rate)
        verdicts = service.ListVerdictsResponse()
        for page in pages(self._transport, "CalibrationService/ListVerdicts", request,
                          service.ListVerdictsResponse):
            verdicts.MergeFrom(page)
        verdicts.next_page_token = ""
        return results.Verdicts("all models", verdicts)

    def acknowledge_alarm(self, model: str, alarm_id: int, note: str = "") -> monitoring.Alarm:
        """Acknowledges an alarm. note: the action taken or its author. Idempotent."""
        return self._transport.unary(
            "CalibrationService/AcknowledgeAlarm", _message(
                service.AcknowledgeAlarmRequest, model=model_name(model), alarm_id=alarm_id, note=note),
            service.AcknowledgeAlarmResponse).alarm

    # --- computations; on_progress is called on the calling thread, with the completed fraction, and
    # with 1 at the end ---

    def run_test(self, model: str, *, lens: Lens | None = None, null: Null | None = None,
                 replicates: int | None = None, seed: int | None = None, window: int = 0,
                 on_progress: OnProgress | None = None,
                 timeout: float = _LONG_TIMEOUT) -> results.TestResult:
        """The quadratic test on the newest `window` observations (0: all of the window)."""
        name = model_name(model)
        request = _message(service.RunTestRequest, model=name, replicates=replicates, seed=seed,
                           window=window, lens=_lens(lens), null=_choose("null", null, _NULLS))
        return results.TestResult(name, self._transport.long(
            "CalibrationService/RunTest", request, service.RunTestResponse, "result",
            on_progress, timeout).result)

    def evaluate(self, model: str, *, lenses: Sequence[Lens] = (), null: Null | None = None,
                 replicates: int | None = None, seed: int | None = None, window: int = 0,
                 reliability_classes: Sequence[int] = (), local_features: Sequence[str] = (),
                 settings: service.EvaluateRequest | None = None,
                 on_progress: OnProgress | None = None,
                 timeout: float = _LONG_TIMEOUT) -> results.Evaluation:
        """The complete evaluation of the window, with reliability diagrams.

        reliability_classes: classes that get a diagram besides the top label. local_features: some
        of the features of a model that forecasts a number; says where it is wrong by these alone.
        settings: all further fields of the request.
        """
        name = model_name(model)
        request = service.EvaluateRequest()
        if settings is not None:
            request.CopyFrom(settings)
        request.MergeFrom(_message(
            service.EvaluateRequest, model=name, replicates=replicates, seed=seed, window=window,
            null=_choose("null", null, _NULLS),
            lenses=[lens for lens in map(_lens, lenses) if lens is not None],
            reliability_classes=reliability_classes, local_features=local_features))
        return results.Evaluation(name, self._transport.long(
            "CalibrationService/Evaluate", request, service.EvaluateResponse, "evaluation",
            on_progress, timeout).evaluation)

    def estimate(self, model: str, *, lens: Lens = "top_label",
                 estimators: Sequence[service.CalibrationErrorEstimator] = (),
                 folds: int = 0, test_share: float = 0.0, replicates: int = 0,
                 seed: int | None = None, window: int = 0, on_progress: OnProgress | None = None,
                 timeout: float = _LONG_TIMEOUT) -> results.Estimate:
        """How large the calibration error of the window is, and which estimator suits the data.

        lens: the part of the predictions, as in `calibctl estimate`. replicates: of a calibrated
        model, for a p-value and the noise floor; 0: none.
        """
        name = model_name(model)
        request = _message(
            service.EstimateCalibrationErrorRequest, model=name, lens=_lens(lens),
            estimators=estimators, folds=folds, test_share=test_share, replicates=replicates,
            seed=seed, window=window)
        return results.Estimate(name, self._transport.long(
            "CalibrationService/EstimateCalibrationError", request,
            service.EstimateCalibrationErrorResponse, "result", on_progress, timeout).result)

    def compare(self, model: str, baseline: str, *, window: int = 0,
                on_progress: OnProgress | None = None,
                timeout: float = _LONG_TIMEOUT) -> results.Comparison:
        """Whether `model` is better than `baseline`, by the newest `window` observations of both."""
        name = model_name(model)
        other = model_name(baseline)
        return results.Comparison(name, other, self._transport.long(
            "CalibrationService/CompareModels",
            _message(service.CompareModelsRequest, model=name, baseline=other, window=window),
            service.CompareModelsResponse, "comparison", on_progress, timeout).comparison)

    def loss(self, request: loss_pb2.ComputeLossRequest) -> loss_pb2.ComputeLossResponse:
        """The calibration loss of the forecasts in the request and its gradient, for training."""
        return self._transport.unary("CalibrationService/ComputeLoss", request,
                                     loss_pb2.ComputeLossResponse)

    def recalibrate(self, model: str, *, window: int = 0, on_progress: OnProgress | None = None,
                    timeout: float = _LONG_TIMEOUT) -> results.Recalibration:
        """A map that makes the probabilities better calibrated, and what it gains."""
        name = model_name(model)
        return results.Recalibration(name, self._transport.long(
            "CalibrationService/Recalibrate",
            _message(service.RecalibrateRequest, model=name, window=window),
            service.RecalibrateResponse, "recalibration", on_progress, timeout).recalibration)

    # --- the store of the server ---

    def backup(self, path: str | pathlib.Path, *, on_progress: OnProgress | None = None,
               timeout: float = _LONG_TIMEOUT) -> int:
        """Copies the whole store to a new file while the server runs; returns its size in bytes.

        The file appears when it is complete and durable. To restore it, put it as calibd.db into an
        empty folder, which becomes --data-dir. Needs the module xxhash, for the checksum. Raises
        also OSError, such as FileExistsError.
        """
        return backup.download(self._transport, path, on_progress, timeout)

    def verify(self, *, on_progress: OnProgress | None = None,
               timeout: float = _LONG_TIMEOUT) -> store.Verification:
        """Makes the server check all that it has on disk; `problems` is empty if all is well."""
        return self._transport.long("StoreService/Verify", store.VerifyRequest(), store.VerifyResponse,
                                    "verification", on_progress, timeout).verification
