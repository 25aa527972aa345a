"""Recalibrated predictions, without a server."""
from __future__ import annotations

import math
import pathlib
import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf import json_format

from calibd.arguments import expect, file_path
from calibd.arrays import Classes, Floats, as_floats, as_forecasts, order_of_columns
from calibd.errors import invalid as _invalid
from calibd.rows import as_probabilities, row_fault, valid_rows
from calibd.tables import framed
from calibd.v1.model_service_pb2 import Forecast
from calibd.v1.recalibration_pb2 import RecalibrationMap

_VERSION = 1
# Rows are smoothed before their logarithm is taken, see RecalibrationMap.
_SMOOTHING = 1e-5
_MAX_TEMPERATURE = 20.0
# The largest row_sum_tolerance of a model. The map does not say that of its own.
_MAX_ROW_SUM_TOLERANCE = 0.1


def load_map(path: str | pathlib.Path) -> RecalibrationMap:
    """The map that `calibctl recalibrate --export` or save_map() wrote."""
    result = RecalibrationMap()
    try:
        json_format.Parse(file_path("path", path).read_text(encoding="utf-8"), result)
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise _invalid("map", f"is not the JSON of a recalibration map: {error}") from None
    return result


def save_map(recalibration_map: RecalibrationMap, path: str | pathlib.Path) -> None:
    """Writes the map as JSON, which `calibctl recalibrate --apply` reads too."""
    file_path("path", path).write_text(
        json_format.MessageToJson(recalibration_map) + "\n", encoding="utf-8")


def transform(recalibration_map: RecalibrationMap, probabilities: Any) -> npt.NDArray[np.float64]:
    """Better calibrated probabilities, as a new array of float64.

    probabilities: n x class_count in the order of the classes, or one row. The columns of a frame, or
    the keys of dictionaries, may be the numbers of the classes in any order; the map does not know
    their names. Raises InvalidArgument if the map, the shape, a column or a row is invalid.
    """
    return transform_of(Classes(0, (), _MAX_ROW_SUM_TOLERANCE), recalibration_map, probabilities)


def transform_of(classes: Classes, recalibration_map: RecalibrationMap,
                 probabilities: Any) -> npt.NDArray[np.float64]:
    """Does what transform() does, with the class names and the tolerance of the model."""
    _check(recalibration_map)
    if isinstance(probabilities, Mapping):
        row: npt.NDArray[np.float64] = transform_of(classes, recalibration_map, [probabilities])[0]
        return row
    probabilities = framed(probabilities, "probabilities")
    rows = as_floats(probabilities, "probabilities").astype(np.float64, copy=False)
    count = recalibration_map.class_count
    if rows.ndim not in (1, 2) or rows.shape[-1] != count:
        raise _invalid("probabilities", f"have the shape {rows.shape}, expected (n, {count})")
    rows = _in_order(rows, probabilities, classes._replace(size=count))
    valid = valid_rows(np.atleast_2d(rows), False, classes.row_sum_tolerance)
    if not valid.all():
        i = int(valid.argmin())
        fault = row_fault(np.atleast_2d(rows)[i], False, classes.row_sum_tolerance,
                          "normalise the rows")
        raise _invalid(f"rows[{i}].{fault.path}", fault.description)
    rows = as_probabilities(rows).astype(np.float64, copy=False)
    if recalibration_map.kind == "none":
        return rows.copy()
    if recalibration_map.kind == "isotonic":
        mapped = np.stack([_evaluate(curve, rows[..., k])
                           for k, curve in enumerate(recalibration_map.curves)], axis=-1)
    else:
        logs = np.log((rows + _SMOOTHING / count) / (1 + _SMOOTHING))
        if recalibration_map.kind == "temperature":
            logs /= recalibration_map.temperature
        else:
            logs = logs * np.array(recalibration_map.scales) + np.array(recalibration_map.offsets)
        mapped = np.exp(logs - logs.max(axis=-1, keepdims=True))
    result: npt.NDArray[np.float64] = mapped / mapped.sum(axis=-1, keepdims=True)
    return result


def repaired_levels(forecast: Forecast) -> list[float]:
    """The levels of the quantiles of repaired forecasts, as `calibctl recalibrate --apply` has them."""
    if forecast.HasField("quantiles"):
        return list(forecast.quantiles.levels)
    usual = [k / 20 for k in range(1, 20)]
    if not forecast.HasField("samples"):
        return usual
    ranks = forecast.samples.draws + 1
    # Halves are rounded up, as by the server.
    return sorted({min(max(math.floor(level * ranks + 0.5), 1), ranks - 1) / ranks for level in usual})


def repair_forecasts(forecast: Forecast, recalibration_map: RecalibrationMap,
                     forecasts: Any) -> npt.NDArray[np.float64]:
    """The quantiles of the repaired forecasts at their levels: n x levels, not decreasing in a row.

    Raises InvalidArgument if the map or a forecast is invalid.
    """
    curve = _level_curve(recalibration_map)
    levels = np.array(repaired_levels(forecast))
    if curve is not None:
        levels = np.interp(levels, *curve)
    scores = _normal_quantiles(np.clip(levels, 1e-300, 1 - 2.0**-53))
    values = as_forecasts(forecasts, forecast).astype(np.float64, copy=False)
    if forecast.HasField("normal"):
        return values[:, :1] + values[:, 1:] * scores
    if forecast.HasField("quantiles"):
        stated = np.array(forecast.quantiles.levels)
    else:
        stated = np.arange(1, values.shape[1] + 1) / (values.shape[1] + 1)
        values = np.sort(values, axis=1)
    if len(stated) < 2:
        raise _invalid("forecasts", "are quantiles of one level, expected two or more levels")
    places = _normal_quantiles(stated)
    # Beyond the outer quantiles, the slope is that between them.
    slope = (values[:, -1:] - values[:, :1]) / (places[-1] - places[0])
    beyond = (np.minimum(scores - places[0], 0) + np.maximum(scores - places[-1], 0)) * slope
    inside = np.array([np.interp(scores, places, row) for row in values]).reshape(-1, len(scores))
    return np.maximum.accumulate(inside + beyond, axis=1)


def _normal_quantiles(levels: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The standard normal quantiles of levels."""
    normal = statistics.NormalDist()
    return np.array([normal.inv_cdf(level) for level in levels])


def _level_curve(recalibration_map: RecalibrationMap) -> tuple[list[float], list[float]] | None:
    """The shares and the levels of a map of forecasts with both ends, or None if it changes nothing."""
    m = recalibration_map
    if m.version != _VERSION:
        raise _invalid("map.version", f"is {m.version}, expected {_VERSION}")
    if m.class_count != 0:
        raise _invalid("map.class_count", f"is {m.class_count}, expected 0: the map is for "
                       "probabilities of classes")
    if m.kind == "none":
        return None
    levels, shares = np.array(m.level_curve.levels), np.array(m.level_curve.shares)
    if (m.kind != "isotonic" or not 0 < len(levels) == len(shares)
            or not ((levels > 0) & (levels < 1) & (shares > 0) & (shares < 1)).all()
            or (np.diff(levels) <= 0).any() or (np.diff(shares) < 0).any()):
        raise _invalid("map.level_curve", "is invalid, expected increasing levels and as many "
                       "nondecreasing shares, all in (0, 1)")
    return [0, *shares, 1], [0, *levels, 1]


def _in_order(rows: Floats, given: Any, classes: Classes) -> Floats:
    """The rows with their columns in the order of the classes. given: with the names of the columns."""
    is_series = hasattr(given, "to_frame") and hasattr(given, "index")
    columns = given.index if is_series else getattr(given, "columns", None)
    if columns is None:
        return rows
    names = [str(name) for name in columns]
    if not classes.names and sorted(names) != sorted(map(str, range(classes.size))):
        raise _invalid("columns", f"are {names}, expected 0 to {classes.size - 1}, because the names of "
                       "the classes are not known: give an array in the order of the classes")
    return rows[..., order_of_columns(columns, classes)]


def _evaluate(curve: RecalibrationMap.Curve,
              values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The value of a step function at the last start that is at most each value."""
    index = np.searchsorted(np.array(curve.starts), values, side="right") - 1
    result: npt.NDArray[np.float64] = np.array(curve.values)[np.maximum(index, 0)]
    return result


def _check(recalibration_map: RecalibrationMap) -> None:
    expect("map", recalibration_map, RecalibrationMap, "a message RecalibrationMap")
    m = recalibration_map
    if m.version != _VERSION:
        raise _invalid("map.version", f"is {m.version}, expected {_VERSION}")
    if m.class_count < 2:
        raise _invalid("map.class_count", f"is {m.class_count}, expected >= 2")
    if m.kind == "temperature":
        if not 1 / _MAX_TEMPERATURE <= m.temperature <= _MAX_TEMPERATURE:
            raise _invalid("map.temperature", f"is {m.temperature}, expected "
                           f"{1 / _MAX_TEMPERATURE}..{_MAX_TEMPERATURE}")
    elif m.kind in ("vector", "beta"):
        scales, offsets = np.array(m.scales), np.array(m.offsets)
        if (len(scales) != m.class_count or len(offsets) != m.class_count
                or not np.isfinite([scales, offsets]).all() or (scales < 0).any()):
            raise _invalid("map.scales", f"or map.offsets are invalid, expected {m.class_count} "
                           "finite values each, scales >= 0")
    elif m.kind == "isotonic":
        if len(m.curves) != m.class_count or not all(map(_is_valid, m.curves)):
            raise _invalid("map.curves", f"are invalid, expected {m.class_count} with ascending "
                           "starts and as many nondecreasing values in (0, 1)")
    elif m.kind != "none":
        raise _invalid("map.kind", f"is {m.kind!r}, expected none, temperature, vector, beta or "
                       "isotonic")


def _is_valid(curve: RecalibrationMap.Curve) -> bool:
    starts, values = np.array(curve.starts), np.array(curve.values)
    return (0 < len(starts) == len(values) and bool(np.isfinite(starts).all())
            and bool((np.diff(starts) >= 0).all() and (np.diff(values) >= 0).all())
            and bool(0 < values[0] and values[-1] < 1))
