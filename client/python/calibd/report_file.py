"""Reports: a file in HTML with the views of the server's page, which needs no server."""
from __future__ import annotations

import contextlib
import datetime
import importlib.resources
import json
import os
import pathlib
import uuid
from typing import TYPE_CHECKING, Any

from calibd import errors, results
from calibd.arguments import expect, file_path
from calibd.arrays import POSITIVE_CLASS
from calibd.facts import Facts
from calibd.v1 import model_service_pb2 as models

if TYPE_CHECKING:
    from calibd.client import Client, Resolution

# The spans of time that the page of the server shows.
_SPANS: dict[Resolution, str] = {"hour": "14d", "day": "1000d", "minute": "3h"}
# Of more classes, a report has the diagrams of those that the server names as worst.
_MOST_DIAGRAMS = 20
# The server gives no more in one answer.
_MOST_LABELS = 100


def report(result: results.Evaluation | results.LabelEvaluation, path: str | pathlib.Path) -> None:
    """Writes an evaluation to a file in HTML that shows it with charts and tables, without a server.

    result: of evaluate(), evaluate_forecasts() or evaluate_labels(), or of Client.evaluate(). For all
      that a server knows of a model, see Client.report().
    path: a file, which is replaced.

    The file has all that it needs: it may be sent, opened in a browser without a network, and printed.
    """
    expect("result", result, (results.Evaluation, results.LabelEvaluation),
           "an evaluation, such as that of calibd.evaluate(p, y); Client.report(model, path) is about a "
           "model of a server")
    kind = "evaluation" if isinstance(result, results.Evaluation) else "labels"
    write(path, {"name": result.model, kind: result.to_dict()})


def report_model(client: Client, name: str, path: pathlib.Path, timeout: float) -> None:
    """Writes what the page of the server shows of a model; see Client.report()."""
    model = client.get_model(name)
    calibration = client.calibration(name)
    labels = calibration.message.labels
    # Those over the limit come first.
    diagrams = dict.fromkeys([*labels.over_limit, *(label.name for label in labels.labels)])
    if diagrams:
        calibration = client.calibration(name, label_diagrams=list(diagrams)[:_MOST_LABELS])
    data: dict[str, Any] = {"name": name, "model": Facts(model).to_dict(),
                            "calibration": calibration.to_dict()}
    data["histories"] = {resolution.upper(): client.history(name, resolution, start=start).to_dict()
                         for resolution, start in _SPANS.items()}
    if model.HasField("classes"):
        # There may be too few rows for them.
        with contextlib.suppress(errors.FailedPrecondition):
            data["evaluation"] = client.evaluate(
                name, replicates=0, consistency_replicates=0, seed=1, timeout=timeout,
                reliability_classes=_classes(model, calibration)).to_dict()
        with contextlib.suppress(errors.FailedPrecondition):
            data["estimate"] = client.estimate(name, seed=1, timeout=timeout).to_dict()
    write(path, data)


def _classes(model: models.Model, calibration: results.Calibration) -> list[int]:
    """The classes whose diagrams the page shows."""
    if model.classes.count == 2:
        return [POSITIVE_CLASS]
    if model.classes.count <= _MOST_DIAGRAMS:
        return list(range(model.classes.count))
    return [one.class_index for one in calibration.message.verdict.whereabouts.classes]


def write(path: str | pathlib.Path, data: dict[str, Any]) -> None:
    """Writes a report. data: as page/src/report/data.ts describes it, without the time."""
    target = file_path("path", path).resolve()
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    # The text ends at "</script>" whatever it means, so it has no "<".
    text = json.dumps({**data, "createTime": now.replace("+00:00", "Z")}).replace("<", "\\u003c")
    content = importlib.resources.files("calibd").joinpath("report.html").read_text(encoding="utf-8")
    # Only a complete report gets its name.
    part = target.with_name(f"{target.name}.{uuid.uuid4().hex}.part")
    try:
        part.write_text(f"{content}{text}</script>\n", encoding="utf-8")
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
