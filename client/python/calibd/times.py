"""Times and spans of time of a caller as those of the protocol."""
from __future__ import annotations

import datetime
import math
import re
import time as clock
from typing import Any

import numpy as np
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from calibd import errors
from calibd.arguments import as_number, shown
from calibd.arrays import listed_rows, shown_item
from calibd.errors import FieldError
from calibd.tables import column_of

# The years 1 to 9999, which a Timestamp can hold.
_FIRST_SECOND, _LAST_SECOND = -62135596800, 253402300799
# The units of texts, as calibctl has them.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
# Units of numpy with a fixed length. Months and years have none, and a timedelta64 may have no unit.
_NUMPY_UNITS = ("W", "D", "h", "m", "s", "ms", "us", "ns")
_SPAN = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([smhd])")
# RFC 3339, also with a blank, and with a zone that lacks its colon or its minutes; or a date.
_TEXT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d:\d\d)(?:\.\d+)?(?:(Z)|([+-]\d\d):?(\d\d)?))?",
                   re.ASCII | re.IGNORECASE)


def duration(field: str, value: Any) -> Duration | None:
    """A span of time, more than 0: a timedelta, or a text such as "7d", "12h", "90s"; None: none."""
    if value is None:
        return None
    span = _span_of_text(value) if isinstance(value, str) else value
    if isinstance(value, np.timedelta64) and np.datetime_data(value.dtype)[0] in _NUMPY_UNITS:
        # None for NaT.
        span = value.astype("timedelta64[us]").item()
    if not isinstance(span, datetime.timedelta):
        raise errors.invalid(field, f"is {shown(value)}, expected a datetime.timedelta, or a text of a "
                             'number and its unit s, m, h or d, such as "7d"')
    result = Duration()
    try:
        result.FromTimedelta(span)
    except ValueError:
        raise errors.invalid(field, f"is {shown(value)}, expected at most 10000 years") from None
    return result


def _span_of_text(text: str) -> datetime.timedelta | None:
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    try:
        return datetime.timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    except OverflowError:
        return None


def since_1970(time: Any) -> float:
    """Seconds; NaN for what is no time of the years 1 to 9999, such as pandas' NaT."""
    try:
        if isinstance(time, str):
            seconds = _seconds_of_text(time)
        elif isinstance(time, np.datetime64):
            # The seconds are in UTC. NaT is before all years.
            seconds = float(time.astype("datetime64[s]").astype(np.int64))
        elif type(time) is datetime.date:
            seconds = datetime.datetime.combine(time, datetime.time()).timestamp()
        else:
            seconds = float(time.timestamp())
    except (AttributeError, TypeError, ValueError, OverflowError, OSError):
        return math.nan
    return seconds if _FIRST_SECOND <= seconds <= _LAST_SECOND else math.nan


def _seconds_of_text(text: str) -> float:
    """Seconds since 1970. A date is the beginning of the day in UTC, as in files."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError
    day, time, is_utc, hours, minutes = found.groups()
    zone = "+00:00" if time is None or is_utc else f"{hours}:{minutes or '00'}"
    # Python before 3.11 reads only this form.
    return datetime.datetime.fromisoformat(f"{day}T{time or '00:00:00'}{zone}").timestamp()


def timestamp(field: str, value: Any) -> Timestamp | None:
    """A time, also as seconds since 1970, or a text how long ago, such as "7d"; None: none."""
    if value is None:
        return None
    time = since_1970(value)
    if math.isnan(time):
        time = as_number(value)
    if isinstance(value, str) and (ago := _span_of_text(value)) is not None:
        time = clock.time() - ago.total_seconds()
    if not _FIRST_SECOND <= time <= _LAST_SECOND:
        raise errors.invalid(field, f"is {shown(value)}, expected a datetime, a datetime64, a text such "
                             "as 2026-01-31, 2026-01-31T12:30:00Z or 7d (ago), or seconds since 1970, "
                             "of the years 1 to 9999")
    return Timestamp(seconds=math.floor(time))


def as_times(times: Any, rows: int) -> tuple[list[Timestamp], dict[int, FieldError]]:
    """n times, and what is wrong with the invalid ones.

    times: a datetime, datetime64 or text for all rows, or n of them. datetime64 is in UTC.
    """
    if isinstance(times, np.ndarray) and not times.ndim:
        times = times[()]
    times = column_of(times)
    is_one = isinstance(times, (datetime.date, np.datetime64, str))
    if not is_one and not hasattr(getattr(times, "dtype", np.dtype(object)), "kind"):
        # A column of a frame that is not of pandas. Its times are in UTC too.
        times = np.asarray(times)
    if is_one or callable(getattr(times, "timestamp", None)):
        seconds = [since_1970(times)] * rows
        times = [times] * rows
    elif getattr(times, "dtype", np.dtype(object)).kind == "M":
        # Times with a zone become UTC.
        stamps = (times.to_numpy("datetime64[ns]") if hasattr(times, "to_numpy") else
                  times.filled(np.datetime64("NaT")) if hasattr(times, "filled") else times
                  ).astype("datetime64[s]")
        listed_rows(stamps, rows, "prediction_times")
        whole = stamps.astype(np.int64)
        # NaT is before all years.
        is_time = (whole >= _FIRST_SECOND) & (whole <= _LAST_SECOND)
        seconds = np.where(is_time, whole, np.nan).tolist()
    else:
        seconds = [since_1970(time) for time in listed_rows(times, rows, "prediction_times")]
    invalid = {i: FieldError("prediction_times", f"is {shown_item(times, i)}, expected a datetime, or a "
                             "text with a zone such as 2026-01-31T12:30:00Z")
               for i, second in enumerate(seconds) if not math.isfinite(second)}
    return [Timestamp(seconds=0 if i in invalid else math.floor(second))
            for i, second in enumerate(seconds)], invalid
