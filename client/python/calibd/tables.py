"""Tensors, columns and dictionaries of a caller as what numpy and the other modules read."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from calibd import errors


def plain(values: Any) -> Any:
    """A tensor with a gradient, on another device or of bfloat16 as one that numpy reads.

    Also a list of them; all else stays as it is.
    """
    if isinstance(values, (list, tuple)) and values and hasattr(values[0], "detach"):
        # numpy reads no list of tensors.
        return [np.asarray(plain(value)) for value in values]
    if isinstance(values, (list, tuple)) and any(isinstance(value, np.ma.MaskedArray)
                                                 for value in values):
        # numpy would take what is masked in a list for a number.
        values = [None if value is np.ma.masked else value for value in values]
        masked: Any = np.ma.MaskedArray
        return masked(values) if isinstance(values[0], np.ndarray) else values
    if not callable(getattr(values, "detach", None)):
        return values
    tensor = values.detach().cpu()
    # numpy has no such type. float32 holds its values exactly.
    return tensor.float() if str(tensor.dtype).endswith("bfloat16") else tensor


def column_of(values: Any) -> Any:
    """The only column of n x 1 values, such as a frame of one column; all else stays as it is."""
    if tuple(getattr(values, "shape", ()))[1:] != (1,):
        return values
    return values.iloc[:, 0] if hasattr(values, "iloc") else values[:, 0]


class NamedRows:
    """Rows that are dictionaries, as a frame whose columns are the keys of the first one."""

    def __init__(self, columns: list[Any], cells: list[list[Any]]) -> None:
        self.columns = columns
        self._cells = cells

    def __getitem__(self, names: list[Any]) -> NamedRows:
        places = [self.columns.index(name) for name in names]
        return NamedRows(names, [[row[k] for k in places] for row in self._cells])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self._cells, dtype)


def framed(values: Any, field: str) -> Any:
    """A list of dictionaries, one for each row, as a frame; all else stays as it is."""
    if isinstance(values, Mapping):
        raise errors.invalid(field, "are a dictionary, expected rows: give a list of dictionaries, one "
                             "for each row", "INVALID_OBSERVATIONS")
    if not isinstance(values, (list, tuple)) or not values or not isinstance(values[0], Mapping):
        return values
    columns = list(values[0])
    for i, row in enumerate(values):
        if not isinstance(row, Mapping) or row.keys() != values[0].keys():
            found = list(row) if isinstance(row, Mapping) else row
            raise errors.invalid(field, f"have {found} in row {i} and {columns} in row 0, expected "
                                 "dictionaries with the same keys in all rows", "INVALID_OBSERVATIONS")
    return NamedRows(columns, [[row[name] for name in columns] for row in values])
