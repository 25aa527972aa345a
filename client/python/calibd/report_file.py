"""Reports: a file in HTML with the views of the server's page, which needs no server."""
from __future__ import annotations

import contextlib
import datetime
import importlib.resources
import json
import os
import pathlib
import uuid
from typing import Any

from calibd import results
from calibd.arguments import expect, file_path


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
