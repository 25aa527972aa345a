"""Predictions and labels of a caller: their form, their validity, and their bytes.

The rules are those of the server, which checks every row again.
"""
from __future__ import annotations

import math
import uuid
from typing import Any, Iterator, NamedTuple

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from calibd import wire
from calibd.arguments import expect, shown
from calibd.arrays import (MAX_GROUP_BYTES, MAX_ID_BYTES, POSITIVE_CLASS, Classes, Floats, Integers,
                           Mask, as_features, as_forecasts, as_label_values, as_labels, as_matrix,
                           as_outcomes, as_texts, as_truths, check_count, check_indices, invalid,
                           label_fault)
from calibd.errors import FieldError, InvalidArgument, path_of
from calibd.times import as_times
from calibd.v1 import ingest_service_pb2 as ingest

# Upper bound of the size of a label, and of the tags, lengths and time of a row with texts.
_LABEL_BYTES = 5
# Upper bound of the size of a truth of several labels, which is negative if it is missing.
_TRUTH_BYTES = 10
_TEXT_BYTES = 20
_MAX_REPORTED_ROWS = 5
# So many rows of 0 and 1 are no chance. The format of a warning takes the model.
MANY_ROWS = 20
WHOLE_WARNING = (f"%s: all probabilities of the first {MANY_ROWS} rows or more are 0 or 1. If these are "
                 "predicted classes, the answers are wrong: send the probabilities of the model "
                 "(scikit-learn: predict_proba)")

# The largest distance from [0, 1] that is taken for rounding.
_PROBABILITY_ROUNDING = 1e-6
# The largest row_sum_tolerance of a model.
_MAX_ROW_SUM_TOLERANCE = 0.1
# The smallest standard deviation of a Normal forecast.
_LEAST_DEVIATION = 1e-300

_FIELDS = {(prefix, logits, size): wire.number_of(ingest.Observations, prefix + name)
           for prefix in ("", "baseline_") for logits, size, name in (
               (False, 8, "probabilities"), (False, 4, "probabilities_float32"),
               (True, 8, "logits"), (True, 4, "logits_float32"))}
_LABELS = wire.number_of(ingest.Observations, "labels")
_FORECASTS = wire.number_of(ingest.Observations, "forecasts")
_OUTCOMES = wire.number_of(ingest.Observations, "outcomes")
_FEATURES = wire.number_of(ingest.Observations, "features")
_POSITIVE_CLASS = wire.number_of(ingest.Observations, "positive_class")
_VALUES = wire.number_of(ingest.DoubleValues, "values")


class Dropped(NamedTuple):
    """How many rows, and labels by id, were dropped before they were sent."""

    rows: int = 0
    labels: int = 0

    def plus(self, other: Dropped) -> Dropped:
        """The sum of both."""
        return Dropped(self.rows + other.rows, self.labels + other.labels)


NOTHING_DROPPED = Dropped()


class Chunk(NamedTuple):
    """Serialized rows. Chunks of one kind can follow each other in a message: their lists join."""

    kind: tuple[Any, ...]
    parts: list[bytes]
    # The caller's numbers of the rows.
    rows: Integers
    # What was dropped before them, of which they tell the server.
    dropped: Dropped = NOTHING_DROPPED

    @property
    def size(self) -> int:
        """The number of bytes of the parts."""
        return sum(len(part) for part in self.parts)

    @property
    def has_labels_only(self) -> bool:
        """Whether the rows are labels of predictions that were sent before."""
        return not self.kind


def dropped_chunk(classes: Classes, dropped: Dropped) -> Chunk:
    """What was dropped, without a row."""
    field = _FIELDS["", False, 8] if classes.forecast is None else _FORECASTS
    return Chunk(("dropped",), wire.nested(field, []), np.empty(0, np.int64), dropped)


def as_probabilities(matrix: Floats) -> Floats:
    """The values with those that are a rounding away from [0, 1] as 0 or 1, which the server does."""
    near = (matrix >= -_PROBABILITY_ROUNDING) & (matrix <= 1 + _PROBABILITY_ROUNDING)
    return np.where(near, np.clip(matrix, 0, 1), matrix)


def valid_rows(matrix: Floats, logits: bool, tolerance: float) -> Mask:
    """Which rows are valid."""
    if logits:
        finite: Mask = np.isfinite(matrix).all(axis=1)
        return finite
    width = matrix.shape[1]
    # Minimum and maximum are NaN if a value is, and a comparison with NaN is false.
    if len(matrix) and matrix.min() >= 0 and matrix.max() <= 1:
        valid: Mask = np.ones(len(matrix), np.bool_)
    else:
        matrix = as_probabilities(matrix)
        valid = ((matrix >= 0) & (matrix <= 1)).all(axis=1)
    # A product with ones is faster than sum(axis=1).
    sums = matrix.astype(np.float64, copy=False) @ np.ones(width)
    # The rounding of the sum is allowed for, as the server does.
    allowed = tolerance * (1 + 1e-4) + (width + 2) * np.finfo(np.float64).eps
    # A single probability of two classes has no sum.
    if width > 1:
        valid &= np.abs(sums - 1) <= allowed
    return valid


def row_fault(row: Floats, logits: bool, tolerance: float,
              advice: str = "normalise the rows, or declare a larger row_sum_tolerance") -> FieldError:
    """Why valid_rows() calls a row invalid. The path is relative to the row."""
    name, expected = ("logits", "a finite number") if logits else ("probabilities", "[0, 1]")
    if not logits:
        row = as_probabilities(row)
    wrong = ~np.isfinite(row) if logits else ~((row >= 0) & (row <= 1))
    if wrong.any():
        k = int(wrong.argmax())
        return FieldError(f"{name}[{k}]", f"is {float(row[k])!r}, expected {expected}")
    total = float(row.astype(np.float64).sum())
    if abs(total - 1) > _MAX_ROW_SUM_TOLERANCE:
        cause = "one may be missing" if total < 1 else "one value may be no probability of a class"
        advice = (f"the probabilities of classes sum to 1, so {cause}; if the classes do not exclude "
                  "each other, they are several labels (create_model(labels=...))")
    return FieldError(name, f"sums to {total:.10g}, off by {abs(total - 1):.4g}, more than the "
                      f"tolerance of {tolerance:g}: {advice}")


def surplus_hint(matrix: Floats) -> str:
    """Which columns hold no probabilities of classes, if the others do; else empty."""
    rows = matrix[:100].astype(np.float64)
    if not len(rows) or rows.shape[1] < 3:
        return ""
    inside = (rows >= 0) & (rows <= 1)
    if 2 * (inside.all(axis=1) & _is_one(rows.sum(axis=1))).sum() >= len(rows):
        return ""
    outside = np.flatnonzero(~inside.all(axis=0))
    others = [outside] if outside.size else [np.array([k]) for k in range(rows.shape[1])]
    for columns in others:
        if columns.size < rows.shape[1] and _is_one(np.delete(rows, columns, 1).sum(axis=1)).all():
            one = columns.size == 1
            return (f"{'column' if one else 'columns'} {', '.join(map(str, columns))} of the rows "
                    f"{'seems' if one else 'seem'} to be no {'class' if one else 'classes'}, because "
                    f"the others sum to 1: leave {'it' if one else 'them'} out")
    return ""


def _is_one(sums: Floats) -> Mask:
    return np.asarray(np.abs(sums - 1) < 0.02)


def scale_hint(matrix: Floats, remedy_of_logits: str = "pass logits=True") -> str:
    """What the values are if most of them are no probabilities; else empty."""
    # A few rows tell as much as all of them.
    rows = matrix[:100].astype(np.float64)
    if not rows.size or np.isnan(rows).any():
        return ""
    if surplus := surplus_hint(matrix):
        return surplus
    outside = ((rows < 0) | (rows > 1)).any(axis=1)
    if 2 * outside.sum() <= len(rows):
        return ""
    is_score = rows.shape[1] == 1
    sums = np.full(len(rows), 100.0) if is_score else rows.sum(axis=1)
    if (rows >= 0).all() and (rows <= 100).all() and (np.abs(sums - 100) < 1).all():
        return "are these percentages? divide them by 100"
    with np.errstate(over="ignore"):
        totals = np.ones(len(rows)) if is_score else np.exp(rows).sum(axis=1)
    if (rows <= 0).all() and (np.abs(totals - 1) < 0.02).all():
        return "are these logarithms of probabilities? apply numpy.exp to them" + (
            f", or if these are logits, {remedy_of_logits}" if is_score else "")
    # A softmax of several columns has none of which all logits are in [0, 1], but for a 0.
    if not is_score and (((rows >= 0) & (rows <= 1)).all(axis=0) & rows.any(axis=0)).any():
        return ""
    return f"are these logits? {remedy_of_logits}"


class Extras(NamedTuple):
    """What the rows of one call have besides predictions and labels; None: nothing."""

    ids: Any = None
    groups: Any = None
    times: Any = None
    features: Any = None

    def named(self) -> dict[str, Any]:
        """The parts by their names in errors."""
        return {"prediction_ids": self.ids, "group_values": self.groups, "prediction_times": self.times,
                "features": self.features}


class Rows:
    """Predictions of one call, with their labels, extras and those of the baseline.

    Raises InvalidArgument for an error that is not in one row, such as a wrong shape.
    """

    _label_bytes = _LABEL_BYTES

    def __init__(self, classes: Classes, probabilities: Any, labels: Any = None,
                 extras: Extras = Extras(), logits: bool = False, baseline: Any = None) -> None:
        self._classes = classes
        self._logits = logits
        check_indices({"probabilities": probabilities, "labels": labels, "baseline": baseline,
                       **extras.named()})
        self._matrix = as_matrix(probabilities, classes)
        # The matrices by the prefix of their fields.
        self._matrices = {"": self._matrix}
        if baseline is not None:
            self._matrices["baseline_"] = as_matrix(baseline, classes, "baseline")
            shape = self._matrices["baseline_"].shape
            if shape != self._matrix.shape:
                raise invalid("baseline", f"has the shape {shape}, expected that of the "
                              f"probabilities, {self._matrix.shape}")
        n = len(self._matrix)
        self._valid_values = {prefix: valid_rows(matrix, logits, classes.row_sum_tolerance)
                              for prefix, matrix in self._matrices.items()}
        self.valid: Mask = np.logical_and.reduce(list(self._valid_values.values()))
        self._labels: Integers | None = None
        if labels is not None:
            self._labels, valid_labels = as_labels(labels, classes)
            self._given_labels = labels
            check_count("labels", len(self._labels), n)
            self.valid = self.valid & valid_labels
        elif extras.ids is None:
            raise invalid("labels", "are missing: give labels, or ids by which they come later")
        self._take(extras)

    def _take(self, extras: Extras) -> None:
        """Sets texts, times and features, and marks the rows in which they are invalid."""
        n = len(self)
        groups = extras.groups
        self._texts: dict[str, list[str]] = {}
        # A fault of each invalid row, by the number of the row.
        self._faults: dict[int, FieldError] = {}
        if isinstance(groups, (str, int, np.integer, uuid.UUID)):
            groups = [groups] * n
        for field, texts, limit in (("prediction_ids", extras.ids, MAX_ID_BYTES),
                                    ("group_values", groups, MAX_GROUP_BYTES)):
            if texts is not None:
                self._texts[field], invalid = as_texts(texts, n, field, limit)
                self._faults.update(invalid)
        self._times: list[Timestamp] | None = None
        if extras.times is not None:
            self._times, invalid = as_times(extras.times, n)
            self._faults.update(invalid)
        self.valid[list(self._faults)] = False
        self._features = as_features(extras.features, n, self._classes.features)
        self._valid_features: Mask = np.isfinite(self._features).all(axis=1)
        self.valid &= self._valid_features

    def __len__(self) -> int:
        return len(self._matrix)

    def fault(self, i: int) -> FieldError:
        """Why row i is invalid."""
        for prefix, valid in self._valid_values.items():
            if not valid[i]:
                fault = row_fault(self._matrices[prefix][i], self._logits,
                                  self._classes.row_sum_tolerance)
                return FieldError(prefix + fault.path, fault.description)
        return self._extra_fault(i) or label_fault(self._given_labels, i, self._classes)

    def is_whole(self) -> bool:
        """Whether all values are probabilities of 0 or 1, as predicted classes would be."""
        def are_whole(rows: Floats) -> bool:
            return bool(((rows == 0) | (rows == 1)).all())
        # The first row mostly tells.
        return not self._logits and are_whole(self._matrix[:1]) and are_whole(self._matrix)

    def hint(self) -> str:
        """What the values seem to be if most rows are invalid; else empty."""
        return "" if self._logits else scale_hint(self._matrix)

    def _extra_fault(self, i: int) -> FieldError | None:
        if i in self._faults:
            return self._faults[i]
        if not self._valid_features[i]:
            k = int((~np.isfinite(self._features[i])).argmax())
            return FieldError(f"features[{k}]",
                              f"is {float(self._features[i, k])!r}, expected a finite number")
        return None

    def chunks(self, first: int, max_rows: int, max_bytes: int) -> Iterator[Chunk]:
        """The valid rows. first: the caller's number of the first row."""
        kept = np.flatnonzero(self.valid)
        all_kept = len(kept) == len(self)
        row_bytes = self._label_bytes + sum(matrix.shape[1] * matrix.itemsize
                                            for matrix in (*self._matrices.values(), self._features))
        for texts in self._texts.values():
            row_bytes += _TEXT_BYTES + max((len(text.encode()) for text in texts), default=0)
        row_bytes += 0 if self._times is None else _TEXT_BYTES
        step = max(1, min(max_rows, max_bytes // row_bytes))
        dropped = len(self) - len(kept)
        for begin in range(0, len(kept), step):
            part = kept[begin:begin + step]
            # A slice is a view; a selection by numbers copies.
            rows = slice(begin, begin + len(part)) if all_kept else part
            yield self._chunk(part, rows, first, dropped if begin == 0 else 0)

    def _chunk(self, numbers: Integers, rows: Any, first: int, dropped: int) -> Chunk:
        parts: list[bytes] = []
        fields = []
        for prefix, matrix in self._matrices.items():
            fields.append(self._field(prefix, matrix))
            parts += wire.nested(fields[-1],
                                 wire.nested(_VALUES, [wire.packed_floats(matrix[rows])]))
        truths = self._truths(rows)
        parts += truths
        if self._features.shape[1]:
            parts += wire.nested(_FEATURES, wire.nested(
                _VALUES, [wire.packed_floats(self._features[rows])]))
        if self._texts or self._times is not None:
            message = ingest.Observations()
            for name, texts in self._texts.items():
                getattr(message, name).extend(texts[i] for i in numbers)
            if self._times is not None:
                message.prediction_times.extend(self._times[i] for i in numbers)
            parts.append(message.SerializeToString())
        # A single score has its class; it is written again with each chunk, and the last one counts.
        is_score = self._matrix.shape[1] < self._classes.size
        if is_score:
            parts.append(wire.integer_field(_POSITIVE_CLASS, POSITIVE_CLASS))
        kind = (*fields, is_score, not truths, *self._texts, self._times is None)
        return Chunk(kind, parts, numbers + first, Dropped(dropped))

    def _field(self, prefix: str, matrix: Floats) -> int:
        """The field of a matrix."""
        return _FIELDS[prefix, self._logits, matrix.itemsize]

    def _truths(self, rows: Any) -> list[bytes]:
        """The labels of the rows; empty if they come later."""
        if self._labels is None:
            return []
        return wire.nested(_LABELS, [wire.packed_varints(self._labels[rows])])


class ForecastRows(Rows):
    """Forecasts of a number of one call, with their outcomes and extras."""

    def __init__(self, classes: Classes, forecasts: Any, outcomes: Any = None,
                 extras: Extras = Extras()) -> None:
        assert classes.forecast is not None
        self._classes = classes
        self._forecast = classes.forecast
        check_indices({"forecasts": forecasts, "outcomes": outcomes, **extras.named()})
        self._matrix = as_forecasts(forecasts, self._forecast)
        self._matrices = {"": self._matrix}
        self.valid = np.isfinite(self._matrix).all(axis=1)
        if self._forecast.HasField("normal"):
            self.valid &= self._matrix[:, 1] >= _LEAST_DEVIATION
        elif self._forecast.HasField("quantiles"):
            self.valid &= (self._matrix[:, 1:] >= self._matrix[:, :-1]).all(axis=1)
        self._valid_values = {"": self.valid.copy()}
        self._outcomes: Floats | None = None
        if outcomes is not None:
            self._outcomes = as_outcomes(outcomes)
            check_count("outcomes", len(self._outcomes), len(self))
            self.valid &= np.isfinite(self._outcomes)
            if self._forecast.HasField("normal"):
                with np.errstate(all="ignore"):
                    residuals = (self._outcomes - self._matrix[:, 0]) / self._matrix[:, 1]
                self.valid &= np.isfinite(residuals)
        elif extras.ids is None:
            raise invalid("outcomes",
                          "are missing: give outcomes, or ids by which they come later")
        self._take(extras)

    def fault(self, i: int) -> FieldError:
        """Why row i is invalid."""
        row = self._matrix[i]
        if not self._valid_values[""][i]:
            wrong = ~np.isfinite(row)
            expected = "a finite number"
            if not wrong.any() and self._forecast.HasField("normal"):
                wrong[1] = True
                expected = f"a standard deviation of at least {_LEAST_DEVIATION}"
            elif not wrong.any():
                wrong[1:] = row[1:] < row[:-1]
                expected = ("quantiles that do not decrease; separate models of the quantiles may "
                            "cross: sort each row")
            k = int(wrong.argmax())
            return FieldError(f"forecasts[{k}]", f"is {float(row[k])!r}, expected {expected}")
        if fault := self._extra_fault(i):
            return fault
        assert self._outcomes is not None
        return FieldError("outcomes", f"is {float(self._outcomes[i])!r}, expected a finite number"
                          " with a finite distance from the forecast")

    def is_whole(self) -> bool:
        return False

    def hint(self) -> str:
        return ""

    def _field(self, prefix: str, matrix: Floats) -> int:
        return _FORECASTS

    def _truths(self, rows: Any) -> list[bytes]:
        if self._outcomes is None:
            return []
        return wire.nested(_OUTCOMES, [wire.packed_floats(self._outcomes[rows])])


class TruthRows(Rows):
    """Predictions of several labels of one call, with their truths and extras."""

    def __init__(self, classes: Classes, probabilities: Any, truths: Any = None,
                 extras: Extras = Extras(), logits: bool = False) -> None:
        self._classes = classes
        self._logits = logits
        check_indices({"probabilities": probabilities, "labels": truths, **extras.named()})
        self._matrix = as_label_values(probabilities, classes.labels)
        self._label_bytes = len(classes.labels) * _TRUTH_BYTES
        self._matrices = {"": self._matrix}
        self.valid = valid_rows(self._matrix, logits, math.inf)
        self._valid_values = {"": self.valid.copy()}
        self._known: Floats | None = None
        if truths is not None:
            self._known = as_truths(truths, classes.labels)
            check_count("labels", len(self._known), len(self))
            self.valid &= valid_truths(self._known)
        elif extras.ids is None:
            raise invalid("labels", "are missing: give labels, or ids by which they come later")
        self._take(extras)

    def fault(self, i: int) -> FieldError:
        """Why row i is invalid."""
        if not self._valid_values[""][i]:
            return row_fault(self._matrix[i], self._logits, math.inf)
        fault = self._extra_fault(i)
        if fault is None:
            assert self._known is not None
            fault = truth_fault(self._known[i], self._classes)
        return fault

    def _truths(self, rows: Any) -> list[bytes]:
        if self._known is None:
            return []
        return wire.nested(_LABELS, [wire.packed_truths(self._known[rows])])


def valid_truths(truths: Floats) -> Mask:
    """Which rows have only truths that are 1, 0, or missing."""
    valid: Mask = (np.isnan(truths) | (truths == 0) | (truths == 1)).all(axis=1)
    return valid


def truth_fault(truths: Floats, classes: Classes) -> FieldError:
    """Why valid_truths() calls a row invalid. The path is relative to the row."""
    k = int((~(np.isnan(truths) | (truths == 0) | (truths == 1))).argmax())
    return FieldError(f"labels[{k}]", f"({classes.labels[k]!r}) is {float(truths[k]):g}, expected 1, 0, "
                      "or None or NaN for a missing truth")


def rows_of(classes: Classes, values: Any, truths: Any, extras: Extras, logits: bool,
            baseline: Any) -> Rows:
    """The rows of a model of classes, of several labels, or of forecasts."""
    expect("logits", logits, (bool, np.bool_), "True or False")
    if classes.labels:
        if baseline is not None:
            raise invalid("baseline", "is given, expected none because the model predicts several "
                          "labels")
        return TruthRows(classes, values, truths, extras, logits)
    if classes.forecast is None:
        return Rows(classes, values, truths, extras, logits, baseline)
    if logits or baseline is not None:
        raise invalid("forecasts", "have neither logits nor a baseline")
    return ForecastRows(classes, values, truths, extras)


class LabelRows:
    """Labels of one call, by the ids of their predictions."""

    def __init__(self, classes: Classes, ids: Any, labels: Any) -> None:
        self._classes = classes
        self._given_labels = labels
        if isinstance(ids, (str, int, np.integer, uuid.UUID)):
            raise invalid("ids", f"are {shown(ids)}, expected a list, with a list of their labels: ids "
                          "are a list also if there is one")
        check_indices({"prediction_ids": ids, "labels": labels})
        self._labels: Integers | Floats
        if classes.forecast is not None:
            self._labels = as_outcomes(labels)
            self.valid: Mask = np.isfinite(self._labels)
        elif classes.labels:
            self._labels = as_truths(labels, classes.labels)
            self.valid = valid_truths(self._labels)
        else:
            self._labels, self.valid = as_labels(labels, classes)
        self._ids, self._faults = as_texts(ids, len(self._labels), "prediction_ids", MAX_ID_BYTES)
        self.valid[list(self._faults)] = False

    def __len__(self) -> int:
        return len(self._labels)

    def fault(self, i: int) -> FieldError:
        """Why row i is invalid."""
        if i in self._faults:
            return self._faults[i]
        if self._classes.forecast is not None:
            return FieldError("outcomes", f"is {float(self._labels[i])!r}, expected a finite number")
        if self._classes.labels:
            return truth_fault(self._labels[i], self._classes)
        return label_fault(self._given_labels, i, self._classes)

    def chunks(self, first: int, max_rows: int, max_bytes: int) -> Iterator[Chunk]:
        """The valid labels. first: the caller's number of the first label."""
        kept = np.flatnonzero(self.valid)
        label_bytes = max(_LABEL_BYTES, len(self._classes.labels) * _TRUTH_BYTES)
        step = max(1, min(max_rows, max_bytes // (MAX_ID_BYTES + _TEXT_BYTES + label_bytes)))
        for begin in range(0, len(kept), step):
            part = kept[begin:begin + step]
            message = ingest.Labels(prediction_ids=[self._ids[i] for i in part])
            truths = message.labels if self._classes.forecast is None else message.outcomes
            values = self._labels[part]
            if self._classes.labels:
                values = np.where(np.isnan(values), -1, values).astype(np.int64).ravel()
            truths.extend(values.tolist())
            yield Chunk((), [message.SerializeToString()], part + first)


def invalid_rows(first: int, rows: Rows | LabelRows) -> InvalidArgument | None:
    """The error that names the first invalid rows, or None if all rows are valid."""
    wrong = np.flatnonzero(~rows.valid)
    if not len(wrong):
        return None
    fields = []
    for i in wrong[:_MAX_REPORTED_ROWS].tolist():
        fault = rows.fault(i)
        fields.append(FieldError(path_of(fault.path, first + i), fault.description))
    text = "; ".join(f"{field.path} {field.description}" for field in fields)
    if len(wrong) > len(fields):
        text += f"; {len(wrong) - len(fields)} more"
    if isinstance(rows, Rows) and (hint := rows.hint()):
        text += f"; {hint}"
    return InvalidArgument(text, fields, "INVALID_OBSERVATIONS")
