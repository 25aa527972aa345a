"""Arrays, frames and lists of a caller as arrays of numbers and lists of texts."""
from __future__ import annotations

import functools
import math
import re
import sys
import uuid
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from calibd import arguments, errors
from calibd.arguments import shown
from calibd.errors import FieldError, InvalidArgument
from calibd.tables import column_of, framed, plain
from calibd.v1 import model_service_pb2 as models

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAX_ID_BYTES = 128
MAX_GROUP_BYTES = 64
_MAX_SHOWN_NAMES = 5

# Columns of a frame that hold the standard deviation of a Normal forecast.
_DEVIATION_NAMES = ("standard deviation", "std", "std dev", "stddev", "stdev", "sd", "sigma", "scale")

# The class of a single score of a model with two classes.
POSITIVE_CLASS = 1

_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBERED = re.compile(r"(?P<text>.*?)(?P<number>[0-9]{1,18})", re.DOTALL)
_DECIMAL_END = re.compile(r"[0-9.]*[0-9]$")


class Classes(NamedTuple):
    """What a server says about the rows of a model.

    forecast: of a model that forecasts a number, which has no classes.
    features: the model's feature_names.
    labels: the names of several labels, of a model without classes.
    """

    size: int
    names: tuple[str, ...]
    row_sum_tolerance: float
    forecast: models.Forecast | None = None
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def as_floats(values: Any, field: str) -> Floats:
    """Numbers as float32, if they are, or float64. Masked and missing values are NaN."""
    try:
        values = plain(values)
        if hasattr(values, "filled"):
            return np.asarray(values.astype(np.float64).filled(np.nan))
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError("they are complex")
        kind = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
        try:
            return array.astype(kind, copy=False)
        except TypeError:
            pandas = sys.modules.get("pandas")
            if pandas is None:
                raise
            # Missing values of pandas are no numbers.
            return np.where(pandas.isna(array), np.nan, array).astype(kind)
    # Tensors raise errors of any kind.
    except Exception as error:
        raise invalid(field, f"cannot be read as numbers: {error}") from None


def as_matrix(values: Any, classes: Classes, field: str = "probabilities") -> Floats:
    """n x class count, or n x 1 with the scores of POSITIVE_CLASS; float32 or float64.

    values: of a frame that has a column for each class, other columns are left out.
    """
    values = framed(values, field)
    columns = getattr(values, "columns", None)
    if columns is not None and len(columns) > classes.size:
        if chosen := _find_classes([str(name) for name in columns], classes.names):
            values = (values.iloc[:, chosen] if hasattr(values, "iloc") else
                      values[[columns[k] for k in chosen]])
            columns = values.columns
    matrix = as_floats(values, field)
    if matrix.ndim == 1 and classes.size == 2:
        # Only a column of a frame has a name that means a class.
        columns = [None if hasattr(values, "detach") else getattr(values, "name", None)]
        matrix = matrix[:, np.newaxis]
    elif matrix.shape == (0,):
        matrix = matrix.reshape(0, classes.size)
    widths = (1, 2) if classes.size == 2 else (classes.size,)
    if matrix.ndim != 2 or matrix.shape[1] not in widths:
        if columns is not None and classes.names:
            raise _unknown_columns(columns, classes, "classes")
        expected = "(n, 2), or (n,) with the scores of class 1" if classes.size == 2 else (
            f"(n, {classes.size})")
        raise invalid(field, f"have the shape {matrix.shape}, expected {expected}")
    if columns is not None:
        if matrix.shape[1] == classes.size:
            matrix = matrix[:, order_of_columns(columns, classes)]
        elif 0 <= _class_of_column(columns[0], classes) < POSITIVE_CLASS:
            raise invalid("columns", f"are [{str(columns[0])!r}], expected the scores of class "
                          f"{classes.names[POSITIVE_CLASS]!r}, or a column for each class")
    return np.ascontiguousarray(matrix)


@functools.lru_cache(maxsize=16)
def _by_name(names: tuple[str, ...]) -> dict[str, int]:
    """The classes by their names."""
    return {name: index for index, name in enumerate(names)}


@functools.lru_cache(maxsize=16)
def _integer_names(names: tuple[str, ...]) -> dict[int, int]:
    """The classes by their names, if all names are integers; else empty."""
    if not all(_INTEGER.fullmatch(name) for name in names):
        return {}
    known = {int(name): index for index, name in enumerate(names)}
    # With the names "1" and "01", integers name no class.
    return known if len(known) == len(names) else {}


def has_integer_names(classes: Classes) -> bool:
    """Whether an integer is the name of a class, and not its number."""
    return bool(_integer_names(classes.names))


def _class_of_column(column: Any, classes: Classes) -> int:
    """The class that a column names; -1: none."""
    return _by_name(classes.names).get(str(column), _integer_names(classes.names).get(column, -1))


def order_of_columns(columns: Any, classes: Classes, nouns: str = "classes") -> list[int]:
    """The columns of a frame in the order of the classes, by their names or numbers.

    A name may be that of a class after the same text for all, such as prob_cat, or the same text for
    all and then a number, such as prediction_10. Programs that sort names as texts put prediction_10
    before prediction_2. nouns: what an error calls the classes.
    """
    numbers = list(range(classes.size))
    names = [str(name) for name in columns]
    found = numbers
    if names != list(classes.names):
        found = [_class_of_column(column, classes) for column in columns]
    if classes.names and sorted(found) == numbers:
        order: list[int] = np.argsort(found).tolist()
        return order
    if list(columns) == numbers:
        return numbers
    if by_name := _find_classes(names, classes.names):
        return by_name
    # The end of a name is no number if it may be the name of another class.
    if not _integer_names(classes.names) and (by_number := _order_by_number(names)):
        return by_number
    if classes.names:
        raise _unknown_columns(columns, classes, nouns)
    return numbers


def _unknown_columns(columns: Any, classes: Classes, nouns: str) -> InvalidArgument:
    return invalid("columns", f"are {[str(name) for name in columns]}, expected the {nouns} "
                   f"{list(classes.names)}, also after the same text for all, such as prob_")


def _find_classes(names: list[str], classes: tuple[str, ...]) -> list[int]:
    """The columns of the classes, named like them or after one text for all; else empty."""
    places = {name: k for k, name in enumerate(names)}
    if not classes or len(places) < len(names):
        return []
    texts = [name.removesuffix(classes[0]) for name in names if name.endswith(classes[0])]
    found = [[places[text + name] for name in classes] for text in texts
             if all(text + name in places for name in classes)]
    # The names themselves come before names after a text.
    exact = [places.get(name, -1) for name in classes]
    return exact if -1 not in exact else found[0] if len(found) == 1 else []


def _order_by_number(names: list[str]) -> list[int]:
    """The columns by the numbers at their ends, which are 0 to n - 1 or 1 to n; else empty."""
    ends = [_NUMBERED.fullmatch(name) for name in names]
    if len({end["text"] for end in ends if end is not None}) != 1 or None in ends:
        return []
    numbers = [int(end["number"]) for end in ends if end is not None]
    first = min(numbers)
    if first > 1 or sorted(numbers) != list(range(first, first + len(names))):
        return []
    order: list[int] = np.argsort(numbers).tolist()
    return order


def check_indices(values: dict[str, Any]) -> None:
    """Raises an error if two of the values are of pandas and have other indices.

    Rows are taken in their order. If the indices differ, this is perhaps not what the caller means.

    values: by their names in errors.
    """
    # A list has a method named index.
    indexed = [(field, value.index) for field, value in values.items()
               if hasattr(getattr(value, "index", None), "equals")]
    for field, index in indexed[1:]:
        first_field, first = indexed[0]
        # A wrong number of rows has an error of its own.
        if len(index) == len(first) and not index.equals(first):
            k = next((k for k, pair in enumerate(zip(first, index)) if pair[0] != pair[1]), 0)
            raise invalid(field, f"have another index than {first_field}, such as {shown(index[k])} "
                          f"instead of {shown(first[k])} in row {k}: give {field}.loc[index of "
                          f"{first_field}], or .to_numpy() of both if their rows are in the same order")


def as_labels(labels: Any, classes: Classes, field: str = "labels") -> tuple[Integers, Mask]:
    """The classes, from 0, and whether each is valid.

    labels: numbers, or names of classes. If all names are integers, an integer is a name.
    field: their name in errors.
    """
    arguments.check_order(field, labels, "INVALID_OBSERVATIONS")
    try:
        labels = plain(labels)
        if hasattr(labels, "filled"):
            labels = labels.astype(object).filled(None)
        array = np.asarray(labels)
        # A text among integers makes them texts.
        if array.dtype.kind == "U" and isinstance(labels, (list, tuple)):
            array = np.array(labels, object)
    except Exception as error:
        raise invalid(field, f"cannot be read as one list: {error}") from None
    if not array.ndim:
        raise invalid(field, f"are {shown(labels)}, expected a list of labels")
    array = column_of(array)
    if array.ndim != 1:
        one_hot = array.ndim == 2 and array.shape[1] == classes.size
        raise invalid(field, f"have the shape {array.shape}, expected (n,)" + (
            f": if each row is 0 except for a 1 at its class (one-hot), give {field}.argmax(axis=1)"
            if one_hot else ""))
    text = None
    if array.dtype.kind in "OU":
        text = next((label for label in array.tolist() if isinstance(label, str)), None)
        if text is None:
            array = as_floats(_with_named_truths(array, classes), field)
        elif not classes.names:
            raise invalid(field, f"are texts such as {shown(text)}, expected numbers from 0, "
                          "because the classes of the model have no names")
        else:
            array = np.fromiter((class_of_label(label, classes) for label in array.tolist()),
                                np.int64, len(array))
    if array.dtype.kind not in "biuf":
        raise invalid(field, f"have the type {array.dtype}, expected numbers from 0"
                      + (" or names of classes" if classes.names else ""))
    if array.dtype.kind == "b":
        array = _with_named_truths(array, classes)
    integers = _integer_names(classes.names)
    # The texts are numbers by now.
    if integers and text is None:
        array = _by_integer_name(array, integers)
    # False for NaN.
    valid: Mask = (array >= 0) & (array < classes.size)
    if array.dtype.kind == "f":
        valid &= np.floor(array) == array
    return np.where(valid, array, 0).astype(np.int64), valid


def is_named_truth(label: Any, classes: Classes) -> bool:
    """Whether the label is True or False, and the classes have these names."""
    return isinstance(label, (bool, np.bool_)) and str(label) in classes.names


def _with_named_truths(array: npt.NDArray[Any], classes: Classes) -> npt.NDArray[Any]:
    """Labels with True and False as the numbers of the classes of these names, if there are."""
    if "True" not in classes.names and "False" not in classes.names:
        return array
    return np.array([class_of_label(label, classes) if is_named_truth(label, classes) else label
                     for label in array.tolist()], None if array.dtype.kind == "b" else object)


def _by_integer_name(array: npt.NDArray[Any], integers: dict[int, int]) -> Integers:
    """The classes of labels that are integers; -1 for what is no name."""
    # The dictionary finds 1.0 by 1. True is class 1, but no name.
    is_name = array.dtype.kind != "b" or integers == {0: 0, 1: 1}
    return np.fromiter((integers.get(label, -1) if is_name else -1 for label in array.tolist()),
                       np.int64, len(array))


def class_of_label(label: Any, classes: Classes) -> int:
    """The class of one number or name; -1 for what is neither."""
    if isinstance(label, str) or is_named_truth(label, classes):
        return _by_name(classes.names).get(str(label), -1)
    if not isinstance(label, (int, np.integer)):
        return -1
    if integers := _integer_names(classes.names):
        return int(_by_integer_name(np.array([label]), integers)[0])
    return int(label) if 0 <= label < classes.size else -1


def label_fault(labels: Any, i: int, classes: Classes) -> FieldError:
    """Why as_labels() calls label i invalid. The path is relative to the row."""
    expected = f"an integer 0 to {classes.size - 1}"
    if classes.names:
        names = [repr(name) for name in classes.names[:_MAX_SHOWN_NAMES]]
        more = [] if len(classes.names) == len(names) else ["..."]
        prefix = "" if has_integer_names(classes) else f"{expected}, or "
        expected = f"{prefix}the name of a class: {', '.join(names + more)}"
    return FieldError("labels", f"is {shown_item(labels, i)}, expected {expected}")


def shown_item(values: Any, i: int) -> str:
    """Value i of a list, an array or a column, as the caller gave it."""
    is_kept = isinstance(values, (list, tuple)) or hasattr(values, "filled")
    item = (values if is_kept else np.asarray(plain(values)))[i]
    is_row = isinstance(item, (list, tuple)) or getattr(item, "ndim", 0) == 1
    return shown(item[0] if is_row and len(item) == 1 else item)


def as_texts(values: Any, rows: int, field: str,
             max_bytes: int) -> tuple[list[str], dict[int, FieldError]]:
    """n texts, and what is wrong with the invalid ones. values: texts, integers or UUIDs."""
    given = listed_rows(values, rows, field)
    texts, invalid = [], {}
    for i, value in enumerate(given):
        text = str(value) if isinstance(value, (str, int, np.integer, uuid.UUID)) else ""
        size = len(text.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= max_bytes or arguments.has_surrogate(text):
            invalid[i] = FieldError(field, f"is {shown(value)}, expected UTF-8 text of 1 to "
                                    f"{max_bytes} bytes, an integer or a UUID")
            text = ""
        texts.append(text)
    return texts, invalid


def listed_rows(values: Any, rows: int, field: str) -> list[Any]:
    """One value for each row. A text is one value."""
    expected = f"expected a list of {rows}: one for each row"
    given = arguments.listed(field, values, expected, "INVALID_OBSERVATIONS")
    check_count(field, len(given), rows)
    return given


def check_count(field: str, count: int, rows: int) -> None:
    """Raises an error unless there is one value for each row."""
    if count != rows:
        what = field.replace("_", " ").removesuffix("s")
        given = f"{what} was" if count == 1 else f"{what}s were"
        text = f"{count} {given} given, expected {rows}: one for each row"
        raise InvalidArgument(text, [FieldError(field, text)], "INVALID_OBSERVATIONS")


def as_features(values: Any, rows: int, names: tuple[str, ...]) -> Floats:
    """n x d, float64. values: a frame with the names among its columns, or an array; None: none."""
    width = len(names)
    if values is None and not names:
        return np.empty((rows, 0))
    expected = f"({rows}, {width}): {', '.join(names)}" if names else (
        "none, because the model has no feature_names")
    if values is None or not names:
        raise invalid("features", f"are {'missing' if values is None else 'given'}, "
                      f"expected {expected}")
    values = framed(values, "features")
    columns = list(getattr(values, "columns", range(width)))
    if columns != list(range(width)):
        absent = [name for name in names if name not in columns]
        if absent:
            raise invalid("features", f"have no column {absent[0]!r}, expected {expected}")
        values = values[list(names)]
    matrix = as_floats(values, "features").astype(np.float64, copy=False)
    if matrix.ndim == 1 and (width == 1 or not len(matrix)):
        matrix = matrix.reshape(-1, width)
    if matrix.shape != (rows, width):
        raise invalid("features", f"have the shape {matrix.shape}, expected {expected}")
    return np.ascontiguousarray(matrix)


def as_forecasts(values: Any, forecast: models.Forecast) -> Floats:
    """n x width, float64."""
    width = 2
    if forecast.HasField("quantiles"):
        width = len(forecast.quantiles.levels)
    elif forecast.HasField("samples"):
        width = forecast.samples.draws
    values = framed(values, "forecasts")
    matrix = as_floats(values, "forecasts").astype(np.float64, copy=False)
    if matrix.shape == (0,):
        matrix = matrix.reshape(0, width)
    if matrix.ndim != 2 or matrix.shape[1] != width:
        raise invalid("forecasts", f"have the shape {matrix.shape}, expected (n, {width})")
    if forecast.HasField("normal"):
        matrix = matrix[:, _order_of_moments(getattr(values, "columns", (0, 1)))]
        return np.ascontiguousarray(matrix)
    _refuse_moments(getattr(values, "columns", ()))
    if forecast.HasField("quantiles") and hasattr(values, "columns"):
        matrix = matrix[:, _order_of_quantiles(values.columns, list(forecast.quantiles.levels))]
    return np.ascontiguousarray(matrix)


def _order_of_moments(columns: Any) -> list[int]:
    """The columns of the mean and of the standard deviation. Other names are in this order."""
    second = [str(name).lower().replace("_", " ") in _DEVIATION_NAMES for name in columns]
    return [1, 0] if second == [True, False] else [0, 1]


def _order_of_quantiles(columns: Any, levels: list[float]) -> list[int]:
    """The columns by the levels at the ends of their names, such as q0.1 or p10; else as they are.

    Raises InvalidArgument if all names end in levels between 0 and 1, but in others.
    """
    ends = [_DECIMAL_END.search(str(name)) for name in columns]
    for scale in (1, 100):
        numbers = [math.nan if end is None or end[0].count(".") > 1 else float(end[0]) / scale
                   for end in ends]
        order: list[int] = np.argsort(numbers).tolist()
        if np.allclose([numbers[k] for k in order], levels, rtol=0, atol=1e-9):
            return order
        if scale == 1 and all(0 < number < 1 for number in numbers) and len(set(numbers)) == len(levels):
            raise invalid("forecasts", f"have the columns {', '.join(map(str, columns))}, expected "
                          f"those of the levels {', '.join(f'{level:g}' for level in levels)}")
    return list(range(len(levels)))


def _refuse_moments(columns: Any) -> None:
    """Raises InvalidArgument if a draw or a quantile is named as a mean or a standard deviation."""
    names = [str(name) for name in columns
             if str(name).lower().replace("_", " ") in {"mean", "mu", *_DEVIATION_NAMES}]
    if names:
        raise invalid("forecasts", f"have the columns {', '.join(names)}, which are no draws or "
                      "quantiles: Normal forecasts need kind=\"normal\", or a model with "
                      "forecast=\"normal\"")


def _by_label(values: Any, labels: tuple[str, ...], field: str, cell: str) -> Floats:
    """n x K numbers, one for each label.

    values: a frame with the names of the labels, or an array. cell: what each number is.
    """
    values = framed(values, field)
    matrix = as_floats(values, field)
    if matrix.shape == (0,):
        matrix = matrix.reshape(0, len(labels))
    if matrix.ndim != 2 or matrix.shape[1] != len(labels):
        raise invalid(field, f"have the shape {matrix.shape}, expected (n, {len(labels)}): {cell}")
    columns = getattr(values, "columns", None)
    if columns is not None:
        # Labels are found as the names of classes are.
        names = Classes(len(labels), labels, math.inf)
        matrix = matrix[:, order_of_columns(columns, names, "labels")]
    return np.ascontiguousarray(matrix)


def as_label_values(values: Any, labels: tuple[str, ...]) -> Floats:
    """n x K probabilities or logits of several labels; float32 or float64."""
    return _by_label(values, labels, "probabilities", "the probability of each label")


def as_truths(values: Any, labels: tuple[str, ...]) -> Floats:
    """n x K truths of several labels: 1, 0, or NaN for a missing one, which may be None or -1 too.

    Other values stay as they are.
    """
    matrix = _by_label(values, labels, "labels",
                       "the truth of each label, 1, 0, or None or NaN if it is missing")
    return np.where(matrix == -1, np.nan, matrix.astype(np.float64, copy=False))


def as_outcomes(values: Any) -> Floats:
    """n numbers, float64."""
    outcomes = column_of(as_floats(values, "outcomes").astype(np.float64, copy=False))
    if outcomes.ndim != 1:
        raise invalid("outcomes", f"have the shape {outcomes.shape}, expected (n,)")
    return np.ascontiguousarray(outcomes)


def invalid(field: str, description: str) -> InvalidArgument:
    return errors.invalid(field, description, "INVALID_OBSERVATIONS")
