"""What calibd computes without a server.

The module calibd._native computes it with the code of the server and of calibctl, so numbers and words
are theirs. The package has this module if it was built with pybind11. Without it, every function here
raises Unimplemented, and the client still works.
"""
from __future__ import annotations

import importlib
import logging
import math
import os
from collections.abc import Sequence
from numbers import Integral
from typing import Any, Literal, NamedTuple, Type, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from calibd import arguments, choices, errors, results
from calibd.arguments import choose, expect, message, shown
from calibd.arrays import (POSITIVE_CLASS, Classes, Floats, as_floats, as_forecasts, as_label_values,
                           as_labels, as_matrix, as_outcomes, as_truths, check_count, check_indices,
                           invalid, label_fault)
from calibd.choices import Estimator, EstimateLens, Lens, Null, OnProgress
from calibd.declaration import ClassNames, class_names
from calibd.rows import (MANY_ROWS, WHOLE_WARNING, as_probabilities, scale_hint, surplus_hint,
                         valid_rows)
from calibd.v1 import calibration_service_pb2 as service
from calibd.v1 import comparison_pb2, loss_pb2
from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import multilabel_pb2 as multilabel
from calibd.v1 import recalibration_pb2 as recalibration

_native: Any
try:
    _native = importlib.import_module("calibd._native")
except ImportError:
    _native = None

_LOG = logging.getLogger("calibd")
_Message = TypeVar("_Message", bound=Message)
_ForecastKind = Literal["normal", "quantiles", "samples"]
_LossKind = Literal["probabilities", "logits", "normal", "samples", "quantiles"]
_LOSS_KINDS = ("probabilities", "logits", "normal", "samples", "quantiles")

# Results show the name of a model. Rows without a server have this one.
_NAME = "predictions"
# The acceptable errors of calibctl evaluate and of new models.
_ERROR_LIMIT = 0.02
_COVERAGE_ERROR_LIMIT = 0.05
_SIGNIFICANCE_LEVEL = 0.05
# calibctl evaluates files with the same numbers.
_REPLICATES = 999
# The ranges of calibctl.
_ERROR_LIMITS = (1e-4, 0.5)
_SIGNIFICANCE_LEVELS = (1e-9, 0.5)
# The tolerance of files and of new models.
_ROW_SUM_TOLERANCE = 0.001
_CLASSES_HINT = "give classes=classifier.classes_, the values of y in the order of the columns of p"
# The format of a warning takes the model.
_TOP_SCORES_WARNING = ("%s: p has one column, and all its scores are at least 0.5. One column has the "
                       "scores of class 1. If these are the probabilities of the predicted classes, "
                       "the answers are wrong: give n x 2 probabilities (scikit-learn: predict_proba)")
# A row that is off by more was probably not rounded: a class may be missing.
_MAX_ROUNDING = 0.1


class _Rows(NamedTuple):
    """Predictions of classes with their labels, as the native module takes them."""

    probabilities: Floats
    labels: npt.NDArray[np.int32]
    classes: Classes


def _call(kind: Type[_Message], function: str, *values: Any) -> _Message:
    """Calls a function of the native module and parses its answer, a message of this kind."""
    code, text, answer = _module(function)(*values)[:3]
    _check(code, text)
    parsed: _Message = kind.FromString(answer)
    return parsed


def _module(function: str) -> Any:
    if _native is None:
        raise errors.Unimplemented(
            "this package was built without pybind11, so it computes nothing without a server: install "
            "the Debian package python3-calibd, or build the wheel with CMake's target calibd_python")
    return getattr(_native, function)


def _check(code: int, text: str) -> None:
    if code:
        raise errors.of_code(code, text)


def _threads(threads: int | None) -> int:
    if threads is None:
        return len(os.sched_getaffinity(0))
    number = arguments.as_number(threads)
    if not 1 <= number <= 1024 or number != int(number):
        raise errors.invalid("threads", f"is {shown(threads)}, expected 1..1024")
    return int(number)


def _bandwidth(bandwidth: float | None) -> float | None:
    if bandwidth is None:
        return None
    number = arguments.as_number(bandwidth)
    if not 0 < number < math.inf:
        raise errors.invalid("bandwidth", f"is {shown(bandwidth)}, expected a finite number > 0")
    return number


def _criteria(error_limit: float, significance_level: float) -> tuple[float, float]:
    """Returns both numbers, or raises if one is outside its range."""
    return (arguments.probability("error_limit", error_limit, *_ERROR_LIMITS),
            arguments.probability("significance_level", significance_level, *_SIGNIFICANCE_LEVELS))


def _seed(seed: int | None) -> int:
    return int.from_bytes(os.urandom(8), "little") if seed is None else seed


def _classes_of(p: Any, classes: int | ClassNames | None) -> Classes:
    """The classes of predictions. Those of a frame have the names of its columns."""
    count = 0
    names: tuple[str, ...] = ()
    if isinstance(classes, Integral):
        count = int(classes)
    elif classes is not None:
        names = tuple(class_names(classes))
    shape = np.shape(p)
    columns = getattr(p, "columns", None)
    if classes is None and columns is not None and len(columns) > 1:
        names = tuple(str(name) for name in columns)
        # Numbers from 0 are no names.
        if names == tuple(str(k) for k in range(len(names))):
            names = ()
    if len(shape) not in (1, 2):
        raise invalid("p", f"have the shape {shape}, expected (n, classes), or (n,) with the scores of "
                      "class 1 of two")
    size = count or len(names) or (shape[1] if len(shape) == 2 and shape[1] > 1 else 2)
    if size < 2 or len(set(names)) < len(names):
        raise invalid("classes", f"are {shown(classes)}, expected two or more different names, or their "
                      "number")
    return Classes(size, names, _ROW_SUM_TOLERANCE)


def _as_probabilities(p: Any, classes: Classes, field: str = "p") -> Floats:
    """n x class count, float64; a single score is that of class 1."""
    matrix = as_matrix(p, classes, field).astype(np.float64, copy=False)
    _check_rows(matrix, field)
    if matrix.shape[1] == 1:
        matrix = np.hstack([1 - matrix, matrix])
    return np.ascontiguousarray(matrix)


def _width(p: Any) -> int:
    """The number of columns; 1 of n scores."""
    shape = np.shape(p)
    return int(shape[1]) if len(shape) == 2 else 1


def _hint_of_labels(y: Any, classes: Classes, is_score: bool) -> str:
    """A hint at why a label is no class; empty if there is none."""
    if classes.names:
        return ""
    values = np.unique(np.asarray(y, object).astype(str))
    if is_score and len(values) > 2:
        return ("; p has one column, which is read as the scores of class 1 of two classes: give n x "
                "classes probabilities (scikit-learn: predict_proba)")
    return f"; if y has names of classes, {_CLASSES_HINT}" if len(values) <= classes.size else ""


def _check_rows(matrix: Floats, field: str) -> None:
    """Raises one error for all rows that are no probabilities."""
    valid = valid_rows(matrix, False, _ROW_SUM_TOLERANCE)
    if valid.all():
        return
    values = as_probabilities(matrix)
    outside = ~((values >= 0) & (values <= 1))
    wrong = outside.any(axis=1) if outside.any() else ~valid
    i, count = int(wrong.argmax()), int(wrong.sum())
    rows = f"{count} of {len(matrix)} rows"
    if outside.any():
        k = int(outside[i].argmax())
        hint = scale_hint(matrix, "make them probabilities (softmax)")
        if matrix.shape[1] == 1 and np.array_equal(matrix, np.floor(matrix)):
            hint = "are these predicted classes? give n x classes probabilities (predict_proba)"
        raise invalid(f"{field}[{i}, {k}]", f"is {float(matrix[i, k]):.6g}, expected a probability in "
                      f"[0, 1]; {rows} {'has' if count == 1 else 'have'} such values"
                      + (f": {hint}" if hint else ""))
    total = float(values[i].sum())
    remedy = f"give {field} / {field}.sum(axis=1, keepdims=True)"
    if surplus := surplus_hint(values):
        remedy = surplus
    elif abs(total - 1) > _MAX_ROUNDING:
        cause = "a class may be missing" if total < 1 else "a column may be no class"
        remedy = (f"{cause}; if the classes do not exclude each other, give them to "
                  f"calibd.evaluate_labels; if the rows are only not normalised, {remedy}")
    raise invalid(field, f"has {rows} that {'does' if count == 1 else 'do'} not sum to 1, the first is "
                  f"{field}[{i}], which sums to {total:.6g}: {remedy}")


def _rows(p: Any, y: Any, given_classes: int | ClassNames | None) -> _Rows:
    check_indices({"p": p, "y": y})
    classes = _classes_of(p, given_classes)
    matrix = _as_probabilities(p, classes)
    is_score = _width(p) == 1
    if len(matrix) >= MANY_ROWS:
        if np.isin(matrix, (0, 1)).all():
            _LOG.warning(WHOLE_WARNING, _NAME)
        elif is_score and (matrix[:, POSITIVE_CLASS] >= 0.5).all():
            _LOG.warning(_TOP_SCORES_WARNING, _NAME)
    text = next((label for label in np.asarray(y, object).flat if isinstance(label, str)), None)
    if not classes.names and text is not None:
        raise invalid("y", f"has texts such as {shown(text)}, expected numbers from 0: {_CLASSES_HINT}")
    labels, valid = as_labels(y, classes, "y")
    if len(labels) != len(matrix):
        raise invalid("y", f"has {len(labels)} labels, expected {len(matrix)}: one for each row of p")
    if not valid.all():
        i = int(valid.argmin())
        raise invalid(f"y[{i}]", label_fault(y, i, classes).description
                      + _hint_of_labels(y, classes, is_score))
    return _Rows(matrix, labels.astype(np.int32), classes)


def _groups(groups: Any, rows: int) -> list[str]:
    """A text for each row; a missing group is an empty text."""
    if groups is None:
        return []
    given = arguments.listed("groups", groups, "expected a list with the group of each row")
    check_count("groups", len(given), rows)
    return ["" if group is None or group != group else str(group) for group in given]


def _features(features: Any, rows: int) -> tuple[Floats, list[str]]:
    """n x d numbers, and the names of the columns."""
    if features is None:
        return np.empty((0, 0)), []
    matrix = as_floats(features, "features").astype(np.float64, copy=False)
    if matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise invalid("features", "are not n x d finite numbers")
    check_count("features", len(matrix), rows)
    columns = getattr(features, "columns", range(matrix.shape[1]))
    return np.ascontiguousarray(matrix), [str(name) for name in columns]


def evaluate(p: Any, y: Any, *, classes: int | ClassNames | None = None,
             error_limit: float = _ERROR_LIMIT, groups: Any = None, features: Any = None,
             lenses: Sequence[Lens] = (), null: Null | None = None, replicates: int | None = None,
             test_rows: int = 0,
             consistency_replicates: int = choices.CONSISTENCY_REPLICATES, seed: int | None = None,
             bandwidth: float | None = None, reliability_classes: Sequence[int] | None = None,
             significance_level: float = _SIGNIFICANCE_LEVEL, predictions_follow_labels: bool = False,
             settings: service.EvaluateRequest | None = None, threads: int | None = None,
             on_progress: OnProgress | None = None) -> results.Evaluation:
    """The complete evaluation of predictions of classes: what `calibctl evaluate` says of a file.

    p: n x class count probabilities, an array or a frame with a column for each class; for two
      classes also n scores of class 1.
    y: the true classes, as numbers from 0 or as names of the classes.
    classes: their names in the order of the columns, such as classes_ of a classifier of scikit-learn,
      or their number; by default the names of the columns of a frame.
    error_limit: the acceptable error of the top label, and for two classes of the probability of
      class 1.
    groups: a name for each row: there is an answer for each group.
    features: n x d numbers that are known of each case: tests whether similar cases are calibrated.
    replicates: of the tests of the lenses; 0: no such tests.
    test_rows: the number of rows that the tests and the estimates over pairs use. If there are more,
      they are drawn at random with the seed; the error and its interval use all rows. 0: 10000.
    consistency_replicates: of the test of the first binned error by resampling; 0: no test.
    bandwidth: of the kernel of the tests; by default the median distance of the predictions. A server
      chooses it from the first 500 of a model.
    settings: further fields of the request.

    For one look at rows that are independent. `print` shows the verdict and its numbers.
    """
    criteria = _criteria(error_limit, significance_level)
    rows = _rows(p, y, classes)
    if reliability_classes is None and rows.classes.size == 2:
        reliability_classes = [POSITIVE_CLASS]
    request = message(
        service.EvaluateRequest, lenses=choices.lenses(lenses), replicates=replicates,
        test_rows=test_rows, seed=_seed(seed), null=choose("null", null, choices.NULLS),
        reliability_classes=reliability_classes, consistency_replicates=consistency_replicates,
        cme_test_locations=choices.CME_LOCATIONS, predictions_follow_labels=predictions_follow_labels)
    if settings is not None:
        expect("settings", settings, service.EvaluateRequest, "a message EvaluateRequest")
        request.MergeFrom(settings)
    answer = _call(
        evaluation.Evaluation, "evaluate", rows.probabilities, rows.labels, rows.classes.size,
        rows.classes.names, request.SerializeToString(), _bandwidth(bandwidth),
        _groups(groups, len(rows.labels)), _features(features, len(rows.labels))[0], *criteria,
        _threads(threads), on_progress)
    return results.Evaluation(_NAME, answer)


def assert_within_limit(p: Any, y: Any, error_limit: float = _ERROR_LIMIT, *,
                        classes: int | ClassNames | None = None) -> results.Evaluation:
    """Raises AssertionError, with the numbers, unless the predictions are shown to be within the limit.

    For tests of a model. error_limit: the acceptable error, such as 0.02 for 2 percentage points. Too
    few rows to decide are a failure too: give more, or a larger limit. Returns the evaluation, which
    has no p-values.
    """
    result = evaluate(p, y, classes=classes, error_limit=error_limit, replicates=0,
                      consistency_replicates=0)
    result.assert_within_limit()
    return result


def estimate(p: Any, y: Any, *, classes: int | ClassNames | None = None,
             lens: EstimateLens = "top_label", estimators: Sequence[Estimator] = (),
             folds: int | None = None, test_share: float | None = None, replicates: int = 0,
             seed: int | None = None, threads: int | None = None,
             on_progress: OnProgress | None = None) -> results.Estimate:
    """How large the calibration error is, by the estimator that suits the data best.

    p, y, classes: see evaluate(). The other arguments are those of Client.estimate().
    """
    rows = _rows(p, y, classes)
    request = message(
        service.EstimateCalibrationErrorRequest, lens=choices.estimate_lens(lens), folds=folds,
        estimators=choices.estimators(estimators), test_share=test_share, replicates=replicates,
        seed=_seed(seed))
    return results.Estimate(_NAME, _call(
        service.CalibrationErrorEstimate, "estimate", rows.probabilities, rows.labels,
        rows.classes.size, rows.classes.names, request.SerializeToString(), _threads(threads),
        on_progress))


def recalibrate(p: Any, y: Any, *, classes: int | ClassNames | None = None,
                on_progress: OnProgress | None = None) -> results.Recalibration:
    """A map that makes probabilities better calibrated, and what it gains.

    p, y, classes: see evaluate(), the oldest rows first. `transform` of the result applies the map.
    """
    rows = _rows(p, y, classes)
    return results.Recalibration(_NAME, _call(
        recalibration.Recalibration, "recalibrate", rows.probabilities, rows.labels, rows.classes.size,
        rows.classes.names, 1, on_progress), rows.classes)


def compare(p: Any, baseline: Any, y: Any, *,
            classes: int | ClassNames | None = None) -> results.Comparison:
    """Whether the predictions p are better than those of a baseline for the same rows.

    p, baseline, y, classes: see evaluate().
    """
    rows = _rows(p, y, classes)
    check_indices({"p": p, "baseline": baseline})
    others = _as_probabilities(baseline, rows.classes, "baseline")
    check_count("baseline", len(others), len(rows.labels))
    return results.Comparison(_NAME, "baseline", _call(
        comparison_pb2.ModelComparison, "compare", rows.probabilities, others, rows.labels,
        rows.classes.size))


def _levels(levels: Sequence[float] | None) -> list[float]:
    """The levels of quantiles as numbers. The native module checks their range and order."""
    given = [] if levels is None else arguments.listed("levels", levels, "expected a list of numbers")
    for i, level in enumerate(given):
        if math.isnan(arguments.as_number(level)):
            raise errors.invalid(f"levels[{i}]", f"is {shown(level)}, expected a number between 0 and 1")
    return [float(level) for level in given]


def _forecast_values(forecasts: Any, outcomes: Any, levels: Sequence[float] | None,
                     kind: _ForecastKind | None,
                     ) -> tuple[_ForecastKind, Floats, Floats, models.Forecast]:
    """The kind, n x width forecasts, n outcomes, and how a model would declare the kind."""
    check_indices({"forecasts": forecasts, "outcomes": outcomes})
    matrix = as_floats(forecasts, "forecasts").astype(np.float64, copy=False)
    if matrix.ndim != 2:
        raise invalid("forecasts", f"have the shape {matrix.shape}, expected n x 2 means and standard "
                      "deviations, n x levels quantiles, or n x draws samples")
    if kind is None:
        kind = "quantiles" if levels is not None else "normal" if matrix.shape[1] == 2 else "samples"
    declared = models.Forecast()
    if kind == "normal":
        declared.normal.SetInParent()
    elif kind == "samples":
        declared.samples.draws = matrix.shape[1]
    elif kind == "quantiles" and levels is not None:
        declared.quantiles.levels.extend(_levels(levels))
    else:
        raise errors.invalid("kind", f"is {shown(kind)}, expected normal, samples, or quantiles with "
                             "levels")
    truths = as_outcomes(outcomes)
    values = as_forecasts(forecasts, declared)
    check_count("outcomes", len(truths), len(values))
    return kind, values, truths, declared


def evaluate_forecasts(forecasts: Any, outcomes: Any, *, levels: Sequence[float] | None = None,
                       kind: _ForecastKind | None = None,
                       error_limit: float = _COVERAGE_ERROR_LIMIT, groups: Any = None,
                       features: Any = None, local_features: Sequence[str] = (),
                       threshold: float | None = None, null: Null | None = None,
                       replicates: int | None = None, test_rows: int = 0, seed: int | None = None,
                       significance_level: float = _SIGNIFICANCE_LEVEL,
                       settings: service.EvaluateRequest | None = None, threads: int | None = None,
                       on_progress: OnProgress | None = None) -> results.Evaluation:
    """Coverage, scores and tests of forecasts of a number: what `calibctl evaluate-forecasts` says.

    forecasts: n x 2 means and standard deviations, n x levels quantiles, or n x draws samples; an array
      or a frame.
    outcomes: n numbers.
    levels: of the quantiles, increasing, between 0 and 1.
    kind: "normal", "quantiles" or "samples"; by default quantiles with levels, else Normal forecasts if
      there are two columns, else samples.
    error_limit: the acceptable coverage error.
    groups, features: a group for each row, and n x d numbers that are known of each case.
    local_features: names of columns of the features, or their numbers as text.
    threshold: also evaluates the decision whether the outcome reaches it.
    test_rows: the number of rows that the tests, the discrepancies and the local calibration error use.
      If there are more, they are drawn at random with the seed; all else uses all rows. 0 means 10000.
    """
    criteria = _criteria(error_limit, significance_level)
    kind, values, truths, _ = _forecast_values(forecasts, outcomes, levels, kind)
    matrix, names = _features(features, len(truths))
    unknown = [name for name in local_features if name not in names]
    if unknown:
        raise errors.invalid("local_features", f"has {unknown[0]!r}, expected some of {names}")
    request = message(
        service.EvaluateRequest, replicates=_REPLICATES if replicates is None else replicates,
        test_rows=test_rows, seed=_seed(seed), threshold=threshold,
        null=choose("null", null, choices.NULLS))
    if settings is not None:
        expect("settings", settings, service.EvaluateRequest, "a message EvaluateRequest")
        request.MergeFrom(settings)
    numbers = np.unique(np.array(_groups(groups, len(truths)), str), return_inverse=True)[1]
    return results.Evaluation(_NAME, _call(
        evaluation.Evaluation, "evaluate_forecasts", kind, _levels(levels),
        values, truths, request.SerializeToString(), numbers.astype(np.int32), matrix, names,
        [names.index(name) for name in local_features], *criteria, _threads(threads), on_progress))


def recalibrate_forecasts(forecasts: Any, outcomes: Any, *, levels: Sequence[float] | None = None,
                          kind: _ForecastKind | None = None,
                          on_progress: OnProgress | None = None) -> results.Recalibration:
    """A map that makes forecasts of a number better calibrated, and what it gains.

    forecasts, outcomes, levels, kind: see evaluate_forecasts(), the oldest rows first. `transform` of
    the result gives the quantiles of the repaired forecasts, and `levels` says at which levels.
    """
    kind, values, truths, declared = _forecast_values(forecasts, outcomes, levels, kind)
    return results.Recalibration(_NAME, _call(
        recalibration.Recalibration, "recalibrate_forecasts", kind, _levels(levels), values, truths,
        on_progress), Classes(0, (), 0, declared))


def evaluate_labels(p: Any, y: Any, *, label_names: Sequence[str] | None = None,
                    error_limit: float = _ERROR_LIMIT,
                    significance_level: float = _SIGNIFICANCE_LEVEL) -> results.LabelEvaluation:
    """Errors and evidence for predictions of several labels: what `calibctl evaluate-labels` says.

    p: n x label count probabilities, each of its own; an array or a frame with a column for each label.
    y: n x label count truths: 1, 0, or None or NaN if one is missing.
    label_names: in the order of the columns; by default those of the frame.
    """
    criteria = _criteria(error_limit, significance_level)
    check_indices({"p": p, "y": y})
    shape = np.shape(p)
    if len(shape) != 2 or not shape[1]:
        raise invalid("p", f"have the shape {shape}, expected n x label count")
    columns = getattr(p, "columns", range(shape[1])) if label_names is None else label_names
    names = tuple(str(name) for name in columns)
    values = as_label_values(p, names).astype(np.float64, copy=False)
    truths = as_truths(y, names)
    if truths.shape != values.shape:
        raise invalid("y", f"have the shape {truths.shape}, expected {values.shape}")
    is_known = (truths == 0) | (truths == 1)
    if not (is_known | np.isnan(truths)).all():
        i, k = np.argwhere(~(is_known | np.isnan(truths)))[0]
        raise invalid(f"y[{i}, {k}]", f"is {truths[i, k]:g}, expected 1, 0, or None or NaN if the truth "
                      "is missing")
    code, message_text, answer, text, status = _module("evaluate_labels")(
        np.ascontiguousarray(values), np.where(is_known, truths, -1).astype(np.int8), list(names),
        *criteria)
    _check(code, message_text)
    return results.LabelEvaluation(
        _NAME, multilabel.MultilabelCalibration.FromString(answer), text, status)


def loss(forecasts: Any, truths: Any, *, kind: _LossKind = "probabilities",
         settings: loss_pb2.LossSettings | None = None, gradient: bool = True,
         threads: int | None = None) -> tuple[loss_pb2.CalibrationLoss, Floats]:
    """The calibration loss of forecasts, for training, and its gradient in the shape of the forecasts.

    kind: "probabilities" or "logits" of classes, "normal", "samples" or "quantiles" of a number.
    truths: the classes from 0, or the outcomes.
    settings: the lens, kernels, condition and weights. The levels of quantiles are those of its
      outcome_kernel.
    Returns the loss, and its gradient, which is empty with gradient=False.
    """
    choose("kind", kind, dict.fromkeys(_LOSS_KINDS))
    matrix = as_floats(forecasts, "forecasts").astype(np.float64, copy=False)
    if matrix.ndim != 2:
        raise invalid("forecasts", f"have the shape {matrix.shape}, expected (n, width)")
    of_classes = kind in ("probabilities", "logits")
    labels, outcomes = np.empty(0, np.int32), np.empty(0)
    if of_classes:
        found, valid = as_labels(truths, Classes(matrix.shape[1], (), _ROW_SUM_TOLERANCE))
        labels = np.where(valid, found, -1).astype(np.int32)
    else:
        outcomes = as_outcomes(truths)
    check_count("truths", labels.size + outcomes.size, len(matrix))
    if settings is None:
        settings = loss_pb2.LossSettings()
    expect("settings", settings, loss_pb2.LossSettings, "a message LossSettings")
    code, text, answer, slopes = _module("loss")(
        kind, np.ascontiguousarray(matrix), matrix.shape[1], labels, outcomes,
        settings.SerializeToString(), gradient, _threads(threads))
    _check(code, text)
    return loss_pb2.CalibrationLoss.FromString(answer), (
        slopes.reshape(matrix.shape) if gradient else slopes)


class Recalibrator:
    """A recalibration map as an estimator of scikit-learn: fit(), then predict_proba() or predict().

    estimator: a fitted classifier with predict_proba, whose probabilities are mapped; None: X are the
    probabilities themselves. Fit it on rows that the classifier was not trained on.

    `recalibration_` says what the map gains. If it gains nothing, the probabilities stay as they are.
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any) -> Recalibrator:
        """Fits the map to rows and their true classes."""
        names = getattr(self.estimator, "classes_", None)
        self.recalibration_ = recalibrate(
            self._probabilities(X), y, classes=names)
        count = self.recalibration_.message.map.class_count
        self.classes_ = np.arange(count) if names is None else names
        return self

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """n x class count recalibrated probabilities."""
        p = self._probabilities(X)
        if not self.recalibration_.message.helps:
            return np.array(p, np.float64)
        return self.recalibration_.transform(p)

    def predict(self, X: Any) -> Any:
        """The most probable class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor, which scikit-learn asks for."""
        return {"estimator": self.estimator}

    def set_params(self, **params: Any) -> Recalibrator:
        """Sets arguments of the constructor."""
        for name, value in params.items():
            if name != "estimator":
                raise errors.invalid(name, "is no parameter, expected estimator")
            self.estimator = value
        return self

    def _probabilities(self, X: Any) -> Any:
        return X if self.estimator is None else self.estimator.predict_proba(X)
