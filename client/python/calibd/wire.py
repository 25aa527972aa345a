"""Serialized messages from numpy memory, without an object for each number."""
from __future__ import annotations

from typing import Any, Sequence, Type

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

_VARINT, _LENGTH_DELIMITED = 0, 2


def varint(value: int) -> bytes:
    """A nonnegative integer."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_of(message: Type[Message], field: str) -> int:
    """The number of a field."""
    return int(message.DESCRIPTOR.fields_by_name[field].number)


def integer_field(number: int, value: int) -> bytes:
    """A field with a nonnegative integer."""
    return varint(number << 3 | _VARINT) + varint(value)


def nested(number: int, parts: Sequence[bytes]) -> list[bytes]:
    """A field with a message or packed values, of which `parts` are the bytes."""
    size = sum(len(part) for part in parts)
    return [varint(number << 3 | _LENGTH_DELIMITED) + varint(size), *parts]


def packed_floats(values: npt.NDArray[np.floating[Any]]) -> bytes:
    """The content of a packed field of floats or doubles, in the order of the rows."""
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def packed_truths(values: npt.NDArray[np.floating[Any]]) -> bytes:
    """The content of a packed field of truths: 1, 0, or -1 where the value is NaN."""
    flat = values.ravel()
    missing = np.isnan(flat)
    # A negative number has ten bytes.
    encoded = np.full((len(flat), 10), 0xff, np.uint8)
    encoded[:, 9] = 1
    encoded[~missing, 0] = flat[~missing].astype(np.uint8)
    used = np.zeros(encoded.shape, np.bool_)
    used[:, 0] = True
    used[missing] = True
    return encoded[used].tobytes()


def packed_varints(values: npt.NDArray[np.integer[Any]]) -> bytes:
    """The content of a packed field of nonnegative integers."""
    largest = int(values.max(initial=0))
    if largest < 0x80:
        return values.astype(np.uint8).tobytes()
    shifts = np.arange(0, largest.bit_length(), 7)
    rest = values.astype(np.int64)[:, np.newaxis] >> shifts
    groups = rest & 0x7F
    # All groups but the last one of a value have the continuation bit.
    groups[:, :-1] |= np.where(rest[:, 1:] > 0, 0x80, 0)
    used = rest > 0
    used[:, 0] = True
    return groups[used].astype(np.uint8).tobytes()
