"""The messages of one prediction, and of labels that come later."""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from calibd.arrays import (MAX_GROUP_BYTES, MAX_ID_BYTES, POSITIVE_CLASS, Classes, as_floats,
                           class_of_label, has_integer_names, invalid, is_named_truth)
from calibd.errors import DataLoss, FieldError, InvalidArgument
from calibd.rows import Extras, LabelRows, Rows, invalid_rows, rows_of
from calibd.v1 import ingest_service_pb2 as ingest
from calibd.v1 import model_service_pb2 as models

# The most rows of a message of any server.
_MAX_ROWS = 65536
# The default of the server's --max-message-bytes, less the names in a request.
_MAX_BYTES = (1 << 20) - 1024


class Observation(NamedTuple):
    """The arguments of Client.observe()."""

    probabilities: Any
    label: Any
    forecast: Any
    outcome: Any
    id: Any
    group: Any
    baseline: Any
    features: Any


def classes_of(model: models.Model) -> Classes:
    return Classes(model.classes.count, tuple(model.classes.names), model.classes.row_sum_tolerance,
                   model.forecast if model.HasField("forecast") else None,
                   tuple(model.feature_names), tuple(model.labels.names))


def usual_message(classes: Classes, given: Observation) -> ingest.Observations | None:
    """The message of a valid observation in the most frequent form.

    None for others, which are for checked_message(). That function costs half as much time as the call
    itself, because numpy is made for many rows.
    """
    if classes.labels:
        return None
    values = given.probabilities
    if type(values) is np.ndarray and values.dtype.kind == "f":
        values = values.tolist()
    is_score = type(values) is float and classes.size == 2
    if is_score:
        values = [values]
    if type(values) is not list or len(values) != (1 if is_score else classes.size) or not all(
            type(value) is float and 0 <= value <= 1 for value in values):
        return None
    if classes.forecast is not None or classes.features or any(value is not None for value in (
            given.outcome, given.baseline, given.features)):
        return None
    message = ingest.Observations()
    message.probabilities.values.extend(values)
    if is_score:
        message.positive_class = POSITIVE_CLASS
    if given.label is not None:
        label = class_of_label(given.label, classes)
        if label < 0:
            return None
        message.labels.append(label)
        if _is_name(classes, given.label):
            message.class_names.extend(classes.names)
    for texts, text, limit in ((message.prediction_ids, given.id, MAX_ID_BYTES),
                               (message.group_values, given.group, MAX_GROUP_BYTES)):
        if text is not None:
            if type(text) is not str or not text.isascii() or not 1 <= len(text) <= limit:
                return None
            texts.append(text)
    return message


def is_ordered_unseen(classes: Classes, given: Observation) -> bool:
    """Whether a message has numbers in an order that the server cannot check.

    It checks the names of the classes, which the message has if they were used. It cannot check that
    the classes have no names, nor the names of the features.
    """
    return _has_names(given.features) or (not classes.names and classes.forecast is None and (
        _has_names(given.probabilities) or _has_names(given.baseline)))


def checked_message(classes: Classes, given: Observation) -> ingest.Observations:
    """The message of an observation. Raises the errors of a stream.

    It has the names of the classes if a label or numbers were matched to them: the server refuses it
    if the model was created again with others. The server also checks the sum of the probabilities,
    because the tolerance may have changed.
    """
    check_kind(classes, ("probabilities", given.probabilities), ("forecasts", given.forecast))
    check_kind(classes, ("labels", given.label), ("outcomes", given.outcome))
    truth = given.outcome if given.label is None else given.label
    ids, groups, truths = (None if value is None else [value] for value in (
        given.id, given.group, truth))
    values = (_one("forecasts", given.forecast) if given.probabilities is None else
              _one("probabilities", given.probabilities))
    rows = rows_of(classes._replace(row_sum_tolerance=math.inf), values, truths,
                   Extras(ids, groups, features=_one("features", given.features)), False,
                   _one("baseline", given.baseline))
    message: ingest.Observations = ingest.Observations.FromString(_all_bytes(rows))
    if _is_name(classes, given.label) or _has_names(given.probabilities) or _has_names(given.baseline):
        message.class_names.extend(classes.names)
    return message


def labels_messages(classes: Classes, ids: Any, labels: Any,
                    is_divided: bool) -> Iterator[tuple[int, ingest.Labels]]:
    """The number of the first label of each message, and the message.

    labels: classes, or the outcomes of a model that forecasts a number.
    is_divided: into as many messages as a server needs by default; else there is one.
    """
    rows = LabelRows(classes, ids, labels)
    if not len(rows):
        raise invalid("labels", "are empty, expected one for each id")
    if not is_divided and len(rows) > _MAX_ROWS:
        raise invalid("ids", f"are {len(rows)}, expected at most {_MAX_ROWS} with a request_id, which "
                      "names one message: leave it out, because the label of an id counts once, or send "
                      "them by a stream with an idempotency_key")
    if fault := invalid_rows(0, rows):
        raise fault
    max_bytes = _MAX_BYTES if is_divided else 2**63 - 1
    return ((int(chunk.rows[0]), ingest.Labels.FromString(b"".join(chunk.parts)))
            for chunk in rows.chunks(0, _MAX_ROWS, max_bytes))


def check_counts(what: str, rows: int, counts: tuple[int, ...]) -> None:
    """Raises DataLoss for counts of a server that cannot be those of so many rows."""
    if min(counts) < 0 or sum(counts) > rows:
        raise DataLoss(f"{what} with the counts {counts}, expected numbers from 0 whose sum is at most "
                       f"{rows}")


def check_either(one: str, first: Any, other: str, second: Any) -> None:
    """Raises an error unless exactly one of two arguments is given."""
    if (first is None) == (second is None):
        found = (f"{'are missing' if first is None else 'are both given'}, expected either {one} or "
                 f"{other}")
        raise InvalidArgument(f"{one} and {other} {found}", [
            FieldError(field, found) for field in (one, other)], "INVALID_OBSERVATIONS")


def check_kind(classes: Classes, of_classes: tuple[str, Any], of_forecast: tuple[str, Any]) -> None:
    """Raises an error for an argument that the model cannot have.

    of_classes, of_forecast: the name and the value of the argument of such a model.
    """
    if classes.forecast is not None and of_classes[1] is not None:
        raise invalid(of_classes[0], f"are given, expected {of_forecast[0]} because the model forecasts "
                      "a number")
    if classes.forecast is None and of_forecast[1] is not None:
        raise invalid(of_forecast[0], f"are given, expected {of_classes[0]} because the model "
                      "predicts classes")


def _is_name(classes: Classes, label: Any) -> bool:
    """Whether the class of the label was found by its name."""
    return isinstance(label, str) or label is not None and (
        has_integer_names(classes) or is_named_truth(label, classes))


def _has_names(row: Any) -> bool:
    """Whether the numbers of one prediction have names: the keys, or the index of a pandas Series."""
    if isinstance(row, Mapping):
        return True
    if not hasattr(row, "to_frame") or not hasattr(row, "index"):
        return False
    # The index of one row of scores is a range, in which the row has its number.
    return len(row) != 1 or not hasattr(row.index, "step")


def _one(field: str, row: Any) -> Any:
    """The numbers of one prediction as the only row."""
    if row is None:
        return None
    if isinstance(row, Mapping):
        return [row]
    if _has_names(row):
        # Its name is no index that others must have.
        return row.to_frame().T.reset_index(drop=True)
    values = as_floats(row, field)
    if values.ndim > 1:
        raise invalid(field, f"has the shape {values.shape}, expected the numbers of one prediction: "
                      "use a stream for many")
    return values.reshape(1, -1)


def _all_bytes(rows: Rows | LabelRows) -> bytes:
    """The serialized rows. Raises the error of the first invalid ones."""
    if fault := invalid_rows(0, rows):
        raise fault
    return b"".join(part for chunk in rows.chunks(0, len(rows), 2**63 - 1) for part in chunk.parts)
