"""The declaration of a model from the arguments of a caller."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from calibd import arguments, choices, errors, times
from calibd.arguments import assign, expect, model_name, shown
from calibd.arrays import as_floats
from calibd.v1 import kernel_pb2 as kernel
from calibd.v1 import model_service_pb2 as models
from calibd.v1 import monitoring_pb2 as monitoring

# Names, also those of a classifier as an array.
ClassNames = Union[Sequence[Union[str, int, bool]], npt.NDArray[Any]]

# The fields of the arguments, besides `classes`, `forecast` and `decision`.
PATHS = {
    "labels": "labels.names", "features": "feature_names", "description": "description",
    "window": "window", "label_grace": "label_grace", "max_pending": "max_pending",
    "labels_come_with_predictions": "labels_come_with_predictions",
    "inference_output": "inference_output",
    **{name: f"classes.{name}" for name in ("bandwidth", "kernel", "lenses", "block_sizes",
                                            "row_sum_tolerance", "baseline")},
    "monitored": "monitoring.disabled",
    **{name: f"monitoring.{name}" for name in (
        "error_limit", "significance_level", "tolerance", "average_run_length", "stale_after",
        "min_observations", "reference_rows", "group_tag", "max_groups", "min_group_observations")}}
# Errors say that this was expected. For other arguments they name the type of the field.
_EXPECTED = {"labels": "a list of names", "features": "a list of names",
             "bandwidth": "a number or a message BandwidthRule",
             "baseline": 'a text that names it, such as "3" for version 3'}
_CLASSES = ("their number, or their names as texts, integers or truth values, such as classes_ of a "
            "classifier of scikit-learn")
_TRUE_OR_FALSE = ("monitored", "labels_come_with_predictions")
_KINDS = ("classes", "forecast", "labels")


def declared(model: str, classes: Any, declaration: models.Model | None,
             given: Mapping[str, Any]) -> models.Model:
    """The declaration with the arguments of Client.create_model().

    given: all but the first two and `declaration`, by their names; None: not given.
    """
    wanted = models.Model()
    if declaration is not None:
        expect("declaration", declaration, models.Model, "a message Model")
        wanted.CopyFrom(declaration)
    wanted.name = model_name(model)
    _check_one_kind(wanted, classes, given)
    if isinstance(classes, Integral):
        assign(wanted, "classes.count", classes, "classes")
    elif classes is not None:
        assign(wanted, "classes.names", class_names(classes), "classes", _CLASSES)
    for name, path in PATHS.items():
        if given[name] is not None:
            value = _value(name, given[name])
            if name == "bandwidth" and not isinstance(value, kernel.BandwidthRule):
                path += ".fixed"
            assign(wanted, path, value, name, _EXPECTED.get(name, ""))
    if given["forecast"] is not None:
        _set_forecast(wanted.forecast, given["forecast"])
    if given["decision"] is not None:
        _set_decision(wanted.forecast.decision, given["decision"])
    return wanted


def _value(name: str, value: Any) -> Any:
    """The value of an argument as its field has it."""
    if name in ("label_grace", "stale_after"):
        return times.duration(name, value)
    if name == "lenses":
        return choices.lenses(value)
    if name in _TRUE_OR_FALSE:
        expect(name, value, (bool, np.bool_), "True or False")
        return not value if name == "monitored" else bool(value)
    return value


def _check_one_kind(declared_before: models.Model, classes: Any, given: Mapping[str, Any]) -> None:
    """Raises an error for arguments of two kinds of models, of which one would replace the other."""
    paths = {**PATHS, "forecast": "forecast", "decision": "forecast.decision"}
    kinds = {path.split(".")[0] for name, path in paths.items() if given[name] is not None}
    kinds.update({declared_before.WhichOneof("kind")}, {"classes"} if classes is not None else ())
    found = [kind for kind in _KINDS if kind in kinds]
    if len(found) > 1:
        raise errors.invalid("model", f"is declared with {' and '.join(found)}, expected one kind of "
                             "predictions")


def class_names(classes: Any) -> list[str]:
    """The names of classes: texts, or the integers or truth values of a classifier."""
    names = []
    for name in arguments.listed("classes", classes, f"expected {_CLASSES}"):
        if isinstance(name, (float, np.floating)) and float(name).is_integer():
            # Labels that are read from a file with missing values are such numbers.
            name = int(name)
        if not isinstance(name, (str, Integral, np.bool_)):
            raise errors.invalid("classes", f"have the name {shown(name)}, expected {_CLASSES}")
        names.append(str(name))
    return names


def _set_forecast(message: models.Forecast, forecast: Any) -> None:
    if isinstance(forecast, Integral):
        assign(message, "samples.draws", forecast, "forecast")
    elif isinstance(forecast, str) and forecast == "normal":
        message.normal.SetInParent()
    else:
        levels = None if isinstance(forecast, (str, bytes)) else as_floats(forecast, "forecast")
        if levels is None or levels.ndim != 1:
            raise errors.invalid("forecast", f'is {shown(forecast)}, expected "normal", levels of '
                                 "quantiles or a number of samples")
        assign(message, "quantiles.levels", levels.tolist(), "forecast")


def _set_decision(message: monitoring.ThresholdDecision, decision: Any) -> None:
    expected = "a threshold, or (threshold, cost of a false alarm, cost of a miss)"
    costs = decision if isinstance(decision, (tuple, list)) else (decision,)
    if len(costs) not in (1, 3):
        raise errors.invalid("decision", f"is {shown(decision)}, expected {expected}")
    for name, value in zip(("threshold", "false_alarm_cost", "miss_cost"), costs):
        assign(message, name, value, "decision" if name == "threshold" else f"decision.{name}", expected)
