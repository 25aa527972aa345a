"""Reports: files in HTML, whose data are the messages of the protocol."""
import base64
import hashlib
import json
import os
import re
import subprocess

import numpy as np
import pytest

import calibd
from conftest import calibrated

HOSTILE = "</script><img src=x onerror=alert(1)><!--"


def data_of(path):
    """The data of a report, in which nothing ends the script."""
    text = path.read_text(encoding="utf-8")
    head, data = text.split('<script type="application/json" id="report">')
    assert head.startswith("<!doctype html>") and data.endswith("</script>\n")
    assert "<" not in data.removesuffix("</script>\n")
    return json.loads(data.removesuffix("</script>\n"))


def test_a_report_has_the_evaluation(tmp_path):
    p, y = calibrated(400, 2)
    result = calibd.evaluate(p, y, classes=["no", HOSTILE], groups=[HOSTILE] * 400)
    calibd.report(result, tmp_path / "report.html")
    data = data_of(tmp_path / "report.html")
    assert data.pop("createTime").endswith("Z")
    assert data == {"name": "predictions", "evaluation": result.to_dict()}
    assert data["evaluation"]["groups"][0]["name"] == HOSTILE
    assert data["evaluation"]["errorLimit"] == 0.02
    labels = calibd.evaluate_labels(p, np.eye(2)[y], label_names=["a", HOSTILE], error_limit=0.05)
    calibd.report(labels, tmp_path / "report.html")
    assert data_of(tmp_path / "report.html")["labels"] == labels.to_dict()
    assert labels.reading.verdict.text in repr(labels)
    # Only complete files get their names.
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_the_policy_allows_only_the_script_and_the_style_of_the_report(tmp_path):
    calibd.report(calibd.evaluate(*calibrated(50, 2), replicates=0), str(tmp_path / "report.html"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    script, style = (
        base64.b64encode(hashlib.sha256(re.search(pattern, text, re.S)[1].encode()).digest()).decode()
        for pattern in ('<script type="module">(.*?)</script>', "<style>(.*?)</style>"))
    assert (f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
            "base-uri 'none'; form-action 'none'") in text
    assert not re.search("https?://(?!www.w3.org/)", text)


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path):
    result = calibd.evaluate(*calibrated(50, 2), replicates=0)
    with pytest.raises(FileNotFoundError, match="none/report.html"):
        calibd.report(result, tmp_path / "none/report.html")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        calibd.report(result, tmp_path / "folder")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]
    with pytest.raises(calibd.InvalidArgument, match="^result is 'digits', expected an evaluation, such "
                       r"as that of calibd.evaluate\(p, y\); Client.report\(model, path\) is about a"):
        calibd.report("digits", tmp_path / "report.html")


def test_the_report_of_a_model_is_that_of_calibctl(client, server, model, tmp_path):
    with client.stream(model) as stream:
        stream.send(*calibrated(400))
    client.report(model, tmp_path / "python.html")
    subprocess.run([os.environ["CALIBCTL_BINARY"], "report", model, "-o", tmp_path / "calibctl.html",
                    "--server", server.grpc], check=True, timeout=120, stdout=subprocess.DEVNULL)
    own, other = (data_of(tmp_path / f"{name}.html") for name in ("python", "calibctl"))
    assert own["calibration"]["observations"] == "400"
    assert [len(one["bins"]) > 1 for one in own["evaluation"]["reliability"]] == [True] * 4
    assert without_run(own) == without_run(other)
    head, _ = (tmp_path / "python.html").read_text(encoding="utf-8").split('id="report">')
    assert (tmp_path / "calibctl.html").read_text(encoding="utf-8").startswith(head)


def without_run(data):
    """The data without what differs between two runs: times, and the age of the newest row."""
    if isinstance(data, list):
        return [without_run(one) for one in data]
    if not isinstance(data, dict):
        return data
    return {name: without_run(value) for name, value in data.items()
            if name not in ("createTime", "computeTime", "elapsed", "data")}
