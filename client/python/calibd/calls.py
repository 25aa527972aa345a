"""Calls of send(), observe() and label() that wait in a buffer, and how single rows are merged.

A stream whose calls must return at once keeps what they were given, and a thread checks and serializes
it when the server can take it. To serialize one row takes 150 us and many rows little more, because
numpy is made for many: therefore the rows of consecutive calls are serialized together.
"""
from __future__ import annotations

import datetime
import decimal
import fractions
import itertools
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from calibd.arrays import Classes, Integers, class_of_label
from calibd.errors import CalibdError, FieldError
from calibd.rows import (NOTHING_DROPPED, Chunk, Dropped, Extras, LabelRows, Rows, invalid_rows,
                         rows_of)
from calibd.tables import plain

# So many rows are merged at once. The thread that merges them holds the interpreter meanwhile, which
# must be much less than 1 ms.
MAX_MERGED = 256
# A usual row has no extras. One comparison with this object is faster than a look at each extra.
NO_EXTRAS = Extras()
# Bytes that a call needs besides its values, and those of a number in a list.
_CALL_BYTES, _NUMBER_BYTES = 300, 32
# Values of these types cannot change, and lists of them are copied as they are.
_IMMUTABLE = (str, bytes, int, float, complex, np.generic, uuid.UUID, datetime.date, datetime.time,
              datetime.timedelta, decimal.Decimal, fractions.Fraction)


class Call(NamedTuple):
    """What one call was given.

    is_single: one row, whose `values` are the numbers of one prediction.
    labels_only: `truths` come later, for `ids`.
    first: the caller's number of the first row or label; length: the number of them.
    size: an estimate of the bytes in memory.
    """

    is_single: bool
    labels_only: bool
    first: int
    length: int
    size: int
    values: Any
    truths: Any
    extras: Extras
    logits: bool = False
    baseline: Any = None

    def as_dropped(self) -> Dropped:
        """What is dropped if it is not sent."""
        return Dropped(labels=self.length) if self.labels_only else Dropped(self.length)

    def merges_with(self, other: Call) -> bool:
        """Whether the rows of both can be one array each of values, truths and extras."""
        try:
            return (self.is_single and other.is_single and self.logits == other.logits
                    and _form(self.values) == _form(other.values)
                    and _form(self.truths) == _form(other.truths)
                    and _form(self.extras.ids) == _form(other.extras.ids)
                    and _form(self.extras.groups) == _form(other.extras.groups)
                    and _form(self.extras.features) == _form(other.extras.features)
                    and _form(self.baseline) == _form(other.baseline))
        # Values of the caller may raise errors of any kind.
        except Exception:
            return False


class Converted(NamedTuple):
    """The serialized rows of calls.

    faults: the first of the rows that were dropped as invalid.
    dropped: what was dropped and is reported by no chunk.
    reported_rows: how many were dropped and are reported by the first chunk.
    """

    chunks: list[Chunk]
    faults: tuple[FieldError, ...] = ()
    dropped: Dropped = NOTHING_DROPPED
    reported_rows: int = 0


def owned(value: Any) -> Any:
    """A copy of what the caller may change later."""
    if value is None or isinstance(value, _IMMUTABLE):
        return value
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)):
        return [owned(one) for one in value] if value and not isinstance(
            value[0], _IMMUTABLE) else list(value)
    if hasattr(value, "clone"):
        # A tensor.
        return value.detach().clone() if hasattr(value, "detach") else value.clone()
    if hasattr(value, "copy"):
        return value.copy()
    if hasattr(value, "__array__") or isinstance(value, (memoryview, Sequence)):
        return np.array(plain(value))
    # It is one value of another type, or nothing that a row is made of.
    return value


def owned_extras(extras: Extras, rows: int) -> Extras:
    """A copy of what the caller may change later, of a call with so many rows."""
    if extras is NO_EXTRAS:
        return extras
    # An iterator may have no end. One item too many makes the number wrong, which the check finds.
    return Extras(*(list(itertools.islice(part, rows + 1)) if isinstance(part, Iterator) else owned(part)
                    for part in extras))


def size_of(value: Any) -> int:
    """An estimate of the bytes of a value in memory."""
    if value is None:
        return 0
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, (list, tuple)):
        nested = len(value[0]) if value and hasattr(value[0], "__len__") else 0
        return len(value) * _NUMBER_BYTES * (1 + nested)
    if isinstance(value, (str, int, float)):
        return len(value) if isinstance(value, str) else _NUMBER_BYTES
    # A frame has the number of its values, and others may have neither.
    for name, scale in (("nbytes", 1), ("size", 8)):
        number = getattr(value, name, None)
        if isinstance(number, (int, np.integer)):
            return int(number) * scale
    return _NUMBER_BYTES


def call_size(values: Any, truths: Any, extras: Extras, baseline: Any) -> int:
    """An estimate of the bytes of a call in memory."""
    size = _CALL_BYTES + size_of(values) + size_of(truths) + size_of(baseline)
    return size if extras is NO_EXTRAS else size + sum(size_of(part) for part in extras)


def row_count(value: Any) -> int:
    """How many rows a value seems to have."""
    try:
        return len(value)
    # Values of the caller may raise errors of any kind.
    except Exception:
        return 1


def text_of(error: BaseException) -> str:
    """The message of an error, which a value of the caller may have raised."""
    try:
        return error.message if isinstance(error, CalibdError) else str(error)
    except Exception:
        return f"a value raised {type(error).__name__}"


def only_row(probabilities: Any, labels: Any) -> tuple[Any, Any] | None:
    """The only row of a call and its label, if they have the most usual form."""
    for values in (probabilities, labels):
        has_rows = values.ndim > 0 if isinstance(values, np.ndarray) else isinstance(values, list)
        if not has_rows or len(values) != 1:
            return None
    label = labels[0]
    return probabilities[0], int(label) if isinstance(label, np.integer) else label


def one_row(values: Any) -> Any:
    """The numbers of one prediction, which may be the only row of a matrix, as of predict_proba()."""
    if isinstance(values, (list, tuple)):
        is_matrix = len(values) == 1 and isinstance(values[0], (list, tuple, np.ndarray))
    else:
        is_matrix = getattr(values, "ndim", 1) == 2 and len(values) == 1
    if not is_matrix:
        return values
    return values.iloc[0] if hasattr(values, "iloc") else values[0]


def is_plain(classes: Classes, values: Any, label: Any) -> bool:
    """Whether one row is certainly valid: the test that is fast for one row in the most usual form."""
    if classes.labels or classes.forecast is not None or classes.features:
        return False
    if type(values) is np.ndarray and values.dtype == np.float64 and values.ndim == 1:
        values = values.tolist()
    if type(values) is not list or len(values) != classes.size:
        return False
    for value in values:
        if type(value) is not float or not 0 <= value <= 1:
            return False
    # Half of the tolerance leaves room for the rounding of the exact test.
    return abs(sum(values) - 1) <= classes.row_sum_tolerance / 2 and (
        type(label) in (int, str) and class_of_label(label, classes) >= 0)


def take_mergeable(queue: deque[Chunk | Call]) -> list[Call]:
    """Removes calls from the front that are serialized together; the first item must be a call."""
    first = queue.popleft()
    assert isinstance(first, Call)
    calls = [first]
    while queue and len(calls) < MAX_MERGED:
        following = queue[0]
        if not isinstance(following, Call) or not first.merges_with(following):
            break
        calls.append(following)
        queue.popleft()
    return calls


def convert(classes: Classes, calls: list[Call], max_rows: int, max_bytes: int) -> Converted:
    """Serializes calls. Invalid rows are left out: all of a call if the error is not in one row."""
    try:
        return _convert(classes, calls, max_rows, max_bytes)
    # Values of the caller may raise errors of any kind, also SystemExit, and none ends the thread.
    except BaseException as error:
        if len(calls) == 1:
            return _refused(calls[0], error)
    # One of them does not fit to the others.
    parts = [convert(classes, [call], max_rows, max_bytes) for call in calls]
    return Converted([chunk for part in parts for chunk in part.chunks],
                     tuple(fault for part in parts for fault in part.faults),
                     Dropped(*(sum(numbers) for numbers in zip(*(part.dropped for part in parts)))),
                     sum(part.reported_rows for part in parts))


def _convert(classes: Classes, calls: list[Call], max_rows: int, max_bytes: int) -> Converted:
    call = calls[0]
    numbers = np.concatenate([np.arange(c.first, c.first + c.length) for c in calls]) if (
        len(calls) > 1) else np.arange(call.first, call.first + call.length)
    rows: Rows | LabelRows
    if call.labels_only:
        rows = LabelRows(classes, call.extras.ids, call.truths)
    elif call.is_single:
        rows = rows_of(classes, stacked([c.values for c in calls]), listed([c.truths for c in calls]),
                       Extras(listed([c.extras.ids for c in calls]),
                              listed([c.extras.groups for c in calls]), None,
                              stacked([c.extras.features for c in calls])),
                       call.logits, stacked([c.baseline for c in calls]))
    else:
        rows = rows_of(classes, call.values, call.truths, call.extras, call.logits, call.baseline)
    fault = invalid_rows(0, rows)
    faults = () if fault is None else tuple(_renumbered(one, numbers) for one in fault.fields)
    dropped = len(rows) - int(rows.valid.sum())
    chunks = [chunk._replace(rows=numbers[chunk.rows])
              for chunk in rows.chunks(0, max_rows, max_bytes)]
    if call.labels_only:
        return Converted(chunks, faults, Dropped(labels=dropped))
    # The first chunk reports them, if there is one.
    return (Converted(chunks, faults, reported_rows=dropped) if chunks else
            Converted(chunks, faults, Dropped(dropped)))


def _refused(call: Call, error: BaseException) -> Converted:
    message = text_of(error)
    what = "labels" if call.labels_only else "rows"
    last = f":{call.first + call.length}" if call.length != 1 else ""
    fault = FieldError(f"{what}[{call.first}{last}]", message)
    return Converted([], (fault,), call.as_dropped())


def _renumbered(fault: FieldError, numbers: Integers) -> FieldError:
    """The fault of a row with the caller's number of it."""
    begin, end = fault.path.index("["), fault.path.index("]")
    number = numbers[int(fault.path[begin + 1:end])]
    return FieldError(f"{fault.path[:begin + 1]}{number}{fault.path[end:]}", fault.description)


def _form(values: Any) -> tuple[Any, ...]:
    """What the numbers of two rows must have in common to be in one array."""
    if isinstance(values, np.ndarray):
        return (values.shape, values.dtype)
    if hasattr(values, "iloc"):
        # A frame or a series has names, so its rows are not merged with others.
        return (id(values),)
    return (type(values), len(values) if isinstance(values, (list, tuple)) else 0)


def listed(values: list[Any]) -> Any:
    """Texts or truths of several rows; None if they are None."""
    return None if values[0] is None else values


def stacked(values: list[Any]) -> Any:
    """The numbers of several rows as an array, a list or a frame; None if they are None."""
    first = values[0]
    if first is None:
        return None
    if hasattr(first, "iloc"):
        # Its name is no index that others must have.
        return first.to_frame().T.reset_index(drop=True)
    if isinstance(first, (list, int, float, np.generic, Mapping)):
        return values
    if any(isinstance(value, np.ma.MaskedArray) for value in values):
        # The rows of one form are all masked or all not.
        return plain(values)
    return np.array([np.asarray(plain(value)) for value in values])
