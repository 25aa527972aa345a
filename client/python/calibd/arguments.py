"""Arguments of a caller as values of the protocol. What does not fit raises InvalidArgument."""
from __future__ import annotations

import math
import os
import pathlib
import re
from collections.abc import Iterable, Mapping, MappingView, Set
from numbers import Real
from typing import Any, Type, TypeVar

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from calibd import errors
from calibd.tables import column_of

_Choice = TypeVar("_Choice")
_Message = TypeVar("_Message", bound=Message)

# Errors show at most so many characters of a value.
_MAX_SHOWN = 60
# More seconds are as good as no limit, and overflow timers.
_MAX_SECONDS = 1e8
# What a field of each type accepts.
_EXPECTED = {FieldDescriptor.CPPTYPE_INT32: "a whole number from -2^31 to 2^31 - 1",
             FieldDescriptor.CPPTYPE_INT64: "a whole number from -2^63 to 2^63 - 1",
             FieldDescriptor.CPPTYPE_UINT64: "a whole number from 0 to 2^64 - 1",
             FieldDescriptor.CPPTYPE_DOUBLE: "a number", FieldDescriptor.CPPTYPE_STRING: "text in UTF-8"}
# 0 on the wire means that one of these fields is unset.
_RANGES = {"error_limit": "[0.0001, 0.5]", "significance_level": "[1e-9, 0.25]",
           "tolerance": "[1e-9, 0.5]", "average_run_length": "[100, 1e12]",
           "row_sum_tolerance": "(0, 0.1]", "max_pending": "1..10000000",
           "min_observations": "1..1e9", "min_group_observations": "1..1e9", "max_groups": "1..64",
           "false_alarm_cost": "[1e-100, 1e100]", "miss_cost": "[1e-100, 1e100]",
           "false_discovery_rate": "[1e-9, 0.25]", "folds": "2..20", "test_share": "(0, 1)"}
# The ids in the name of a model; see Model.name of the protocol.
MODEL_ID = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_NAME = re.compile(f"models/{MODEL_ID}(/versions/{MODEL_ID})?")
# Protobuf and float() raise these for values that do not fit.
_UNFIT = (TypeError, ValueError, OverflowError)


def shown(value: Any) -> str:
    """A value as errors show it."""
    is_plain = isinstance(value, np.generic) and value.dtype.kind not in "mM"
    text = repr(value.item() if is_plain else value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


def expect(field: str, value: Any, kind: Any, expected: str) -> None:
    """Raises an error unless the value is of the kind."""
    if not isinstance(value, kind):
        raise errors.invalid(field, f"is {shown(value)}, expected {expected}")


def choose(field: str, name: Any, choices: Mapping[Any, _Choice]) -> _Choice:
    """The value of a name."""
    if (name is None or isinstance(name, str)) and name in choices:
        return choices[name]
    expected = ", ".join(choice for choice in choices if choice)
    raise errors.invalid(field, f"is {shown(name)}, expected one of {expected}")


def check_order(field: str, values: Any, reason: str = "") -> None:
    """Raises an error for a set, a dictionary or a view of one. Only a list is given for its order."""
    if isinstance(values, (Set, Mapping, MappingView)):
        raise errors.invalid(field, f"are {shown(values)}, expected a list, whose order is kept", reason)


def listed(field: str, values: Any, expected: str, reason: str = "") -> list[Any]:
    """The values of a list, an array or a column. A text is one value."""
    check_order(field, values, reason)
    values = column_of(values)
    # The items of a frame would be the names of its columns.
    if len(shape := tuple(getattr(values, "shape", ()))) > 1:
        raise errors.invalid(field, f"have the shape {shape}, {expected}", reason)
    if hasattr(values, "tolist"):
        values = values.tolist()
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise errors.invalid(field, f"are {shown(values)}, {expected}", reason)
    return list(values)


def file_path(field: str, value: Any) -> pathlib.Path:
    """The path of a file."""
    try:
        encoded = os.fsencode(value)
        if isinstance(value, bytes) or b"\0" in encoded:
            raise TypeError
    except _UNFIT:
        raise errors.invalid(field, f"is {shown(value)}, expected the path of a file") from None
    return pathlib.Path(value)


def model_name(model: Any, field: str = "model") -> str:
    """The resource name of NAME, NAME@VERSION or a resource name."""
    name = model if isinstance(model, str) else ""
    if not name.startswith("models/"):
        name, at, version = name.partition("@")
        name = f"models/{name}/versions/{version}" if at else f"models/{name}"
    if not _NAME.fullmatch(name):
        raise errors.invalid(
            field, f"is {shown(model)}, expected NAME, NAME@VERSION or a resource name, where each part "
            f"matches ^{MODEL_ID}$: calibd.escape_id() makes such a part of any text")
    return name


def escape_id(text: str) -> str:
    """An id of a model or version for any text; see Model.name of the protocol."""
    if not isinstance(text, str) or has_surrogate(text):
        raise errors.invalid("text", f"is {shown(text)}, expected text in UTF-8")
    if re.fullmatch(MODEL_ID, text) and not text.startswith("x--"):
        return text
    plain = re.compile(rb"[A-Za-z0-9._]")
    return "x--" + "".join(chr(byte) if plain.match(bytes([byte])) else f"-{byte:02x}"
                           for byte in text.encode())


def short_name(model: str) -> str:
    """NAME or NAME@VERSION of a resource name."""
    return model.removeprefix("models/").replace("/versions/", "@")


def has_surrogate(text: str) -> bool:
    """Whether the text cannot be written in UTF-8."""
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def as_number(value: Any) -> float:
    """NaN for what is no number."""
    try:
        # numpy calls spans of time integers.
        is_number = isinstance(value, Real) and not isinstance(value, np.timedelta64)
        return float(value) if is_number else math.nan
    except OverflowError:
        return math.inf


def probability(field: str, value: Any, least: float, most: float) -> float:
    """A probability in a range. A number above it is often meant in percentage points."""
    number = as_number(value)
    if not least <= number <= most:
        points = f": {number:g} percentage points are {number / 100:g}" if (
            most < number and number / 100 <= most) else ""
        raise errors.invalid(field, f"is {shown(value)}, expected a probability in "
                             f"{least:g}..{most:g}{points}")
    return number


def seconds(field: str, value: Any) -> float:
    """A span of time, more than 0."""
    number = as_number(value)
    if not number > 0:
        raise errors.invalid(field, f"is {shown(value)}, expected seconds, more than 0")
    return min(number, _MAX_SECONDS)


def assign(target: Message, path: str, value: Any, argument: str = "", expected: str = "") -> None:
    """Sets the field at a path of a message.

    argument: the name of the value in errors, if it is not that of the field. expected: in errors,
    if the type of the field does not say it.
    """
    *parents, name = path.split(".")
    for parent in parents:
        target = getattr(target, parent)
    if name in _RANGES and as_number(value) == 0:
        raise errors.invalid(argument or name, f"is {shown(value)}, expected {_RANGES[name]}")
    present = getattr(target, name)
    is_list = hasattr(present, "extend")
    if is_list:
        check_order(argument or name, value)
    try:
        # A text is not a list of texts, and bytes are no text.
        if isinstance(value, (str, bytes) if is_list else bytes):
            raise TypeError
        if is_list:
            del present[:]
            present.extend(value)
        elif isinstance(present, Message):
            present.CopyFrom(value)
        else:
            setattr(target, name, value)
    except _UNFIT:
        field = target.DESCRIPTOR.fields_by_name[name]
        kind = (f"a message {field.message_type.name}" if field.message_type is not None
                else _EXPECTED.get(field.cpp_type, "another type"))
        if is_list:
            kind = f"a list, each {kind}"
        raise errors.invalid(argument or name, f"{'are' if is_list else 'is'} {shown(value)}, "
                             f"expected {expected or kind}") from None


def message(kind: Type[_Message], **fields: Any) -> _Message:
    """A message with these fields; None: unset."""
    result: _Message = kind()
    for name, value in fields.items():
        if value is not None:
            assign(result, name, value)
    return result
