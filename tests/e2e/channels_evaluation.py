"""calibctl evaluate of the rows of a model, in their order, agrees with what the server says."""
import re

from channels_checks import spoken_lines
from channels_numbers import (OFF_BY, check_error_sentence, check_interval, close, intervals, overlap,
                              require, same, same_message, same_number, same_points)


def status_of(found, limit):
    """The answer about the limit that intervals give."""
    if any(interval["lower"] > limit for interval in found.values()):
        return "OVER_LIMIT"
    return ("WITHIN_LIMIT" if all(interval["upper"] <= limit for interval in found.values())
            else "UNDECIDED")


def measurement_of(evaluated):
    """The error of an evaluation as an ErrorMeasurement."""
    if "coverageError" in evaluated:
        return {"coverage": {"estimate": evaluated["coverageError"],
                             "lower": evaluated["coverageErrorLower"],
                             "upper": evaluated["coverageErrorUpper"]},
                "centralCoverage": evaluated["scores"]["centralCoverage"],
                "direction": evaluated["direction"]}
    if "overLimit" in evaluated:
        return {"labels": evaluated["error"]} if "error" in evaluated else {}
    measured = {"topLabel": evaluated["error"], **evaluated["scores"]}
    return {**measured, "class1": evaluated["class1Error"]} if "class1Error" in evaluated else measured


def check_evaluation(situation, a):
    if a.evaluated is None:
        return
    check_gate(a)
    measured = measurement_of(a.evaluated)
    if not measured:
        same("truths", a.evaluated["truths"], "0")
        return
    check_text(a, measured)
    check_tables(a)
    # An update may begin the error anew.
    if a.facts.get("error", {}).get("sinceStart", {}).get("observations") == a.facts["observations"]:
        check_same_rows(a, measured)
        for group in a.evaluated.get("groups", []):
            check_group(a, group)
        for label in a.evaluated.get("labels", []):
            check_label(a, label)
        check_bins(a)
    same("the same rows", sum(map(len, situation.rows)), int(a.facts["observations"]))


def check_served_evaluation(_, a):
    """The server evaluates its newest rows as calibctl evaluates those of the file."""
    if a.served is None:
        return
    for field in ("error", "class1Error", "scores", "brier", "binnedErrors", "cells", "coverageCells",
                  "coverageError", "coverageErrorLower", "coverageErrorUpper", "direction",
                  "log10EValue", "groups"):
        same_message(field, a.served.get(field), a.evaluated.get(field))
    for line in ("howBad", "where"):
        same(line, a.served.get("reading", {}).get(line), a.evaluated.get("reading", {}).get(line))
    rows = (a.served["lenses"][0]["result"]["provenance"]["observations"] if "lenses" in a.served else
            a.served["lastObservation"])
    same("rows", rows, a.facts["observations"])


def check_gate(a):
    """The exit code follows the printed verdict."""
    gate = a.evaluated["gate"]
    lines = spoken_lines(a.evaluation_text[a.evaluation_text.index("verdict "):])
    same("the verdict of the gate", gate["decision"], lines["verdict"])
    words = {"over-limit": "OVER_LIMIT", "miscalibration": "MISCALIBRATED", "undecided": "UNDECIDED"}
    failed = [what for what in gate["failOn"] if words[what] in lines["verdict"]]
    same("the gates", gate["failedOn"], failed)
    same("the exit code", a.exit_codes["evaluate"], 3 if failed else 0)
    same("the last line", a.evaluation_text.strip().splitlines()[-1],
         f"failed on {', '.join(failed)}" if failed else
         f"did not fail on {', '.join(gate['failOn'])}: {lines['verdict']}")


def check_text(a, measured):
    gate = a.evaluated["gate"]
    if "labels" in measured:
        check_interval("evaluate", OFF_BY.search(a.evaluation_text), measured["labels"],
                       gate["errorLimit"])
        same("labels over the limit", "Over the limit: " in a.evaluation_text,
             bool(a.evaluated["overLimit"]))
        return
    lines = spoken_lines(a.evaluation_text[a.evaluation_text.index("verdict "):])
    for line, message in a.evaluated.get("reading", {}).items():
        if line == "severity":
            continue
        same(f"{line} of JSON", message["text"], lines[re.sub("B", " b", line)])
    groups = a.evaluated.get("groups", [])
    over = [group["name"] for group in groups if group["status"] == "OVER_LIMIT"]
    group_text, _, how_bad = lines["how bad"].rpartition("; all rows together: ")
    check_error_sentence("evaluate", how_bad, measured, gate["errorLimit"], measured)
    # A group leads if all rows together are not over the limit.
    leads = bool(over) and status_of(intervals(measured), gate["errorLimit"]) != "OVER_LIMIT"
    same("a group leads", re.sub(r"group (.*?): .*", r"\1", group_text) in over if group_text else False,
         leads)
    same("the groups of the verdict", "in group" in lines["verdict"], bool(over))
    if not over:
        same("the answer about the limit", gate["decision"].split(",")[0],
             status_of(intervals(measured), gate["errorLimit"]))
    for group in groups:
        same(f"group {group['name']} in where", f"group {group['name']}:" in lines.get("where", ""),
             group["name"] in over or group["rejected"])
    rejected = sum(group["rejected"] for group in groups)
    if groups:
        require(f"{rejected} of {len(groups)} groups rejected" in lines["certain"], lines["certain"])


def check_same_rows(a, measured):
    """One look and all looks at the same rows: the same error, and intervals that do not contradict."""
    start = a.facts["error"]["sinceStart"]
    limit = a.facts["error"]["limit"]
    for event, interval in intervals(measured).items():
        other = intervals(start)[event]
        close(f"error of {event}", interval["estimate"], other["estimate"])
        if "gap" in interval:
            close(f"gap of {event}", interval["gap"], other["gap"])
        require(overlap(interval, other), f"{event}: {interval} and {other} do not overlap")
    statuses = {status_of(intervals(measured), limit), status_of(intervals(start), limit)}
    require(statuses != {"OVER_LIMIT", "WITHIN_LIMIT"}, f"one look and all looks: {statuses}")
    if "topLabel" in measured:
        close("accuracy", measured["accuracy"], start["accuracy"])
        close("mean confidence", measured["meanConfidence"], start["meanConfidence"])
    for one, other in zip(measured.get("centralCoverage", []), start["centralCoverage"]):
        close("coverage", one["coverage"], other["coverage"])
        require(overlap(one, other), f"coverage: {one} and {other} do not overlap")
    if "scores" in a.facts:
        close("Brier score", a.evaluated["scores"]["brier"], a.facts["scores"]["brierScore"])


def check_tables(a):
    """The tables below the verdict."""
    text, scores = a.evaluation_text, a.evaluated.get("scores", {})
    for pattern, field in ((r"accuracy (\S+),", "accuracy"),
                           (r"mean confidence (\S+),", "meanConfidence"),
                           (r"log loss (\S+),", "logLoss"), (r"\nBrier (\S+) =", "brier"),
                           (r"\n(?:CRPS|score) +([\d.]+),", "crps"),
                           (r"\nlog score +(\S+) nats", "logScore")):
        match = re.search(pattern, text)
        same(f"{field} is printed", bool(match), field in scores)
        if match:
            # Three digits.
            close(field, float(match[1]), scores[field], 0.0051)
    for one in scores.get("centralCoverage", []):
        row = next(row for row in re.findall(
            r"([\d.]+) % to [\d.]+ % +([\d.]+) % +([\d.]+) % +([\d.]+) % and ([\d.]+) %", text)
            if abs(float(row[0]) - 100 * one["lowerLevel"]) < 0.051)
        for printed, part in zip(row[1:], ("promised", "coverage", "lower", "upper")):
            same_number(part, printed, 100 * one[part], 0.1)
    if a.evaluated.get("binnedErrors"):
        row = re.search(r"top label, 15 uniform bins +(\S+) +(\S+) +(\d+)", text)
        bins = a.evaluated["binnedErrors"][0]
        close("ECE", float(row[1]), bins["ece"], 0.0051)
        close("MCE", float(row[2]), bins["mce"], 0.0051)
        same("bins", row[3], bins["bins"])
    for label in a.evaluated.get("labels", []):
        row = re.split(r" {2,}", re.search(rf"^{label['name']} .*$", text, re.M)[0])
        same("truths", row[1], label["truths"])
        for printed, fact in zip((row[2], row[3]), (label["stated"], label["held"])):
            same_number("share", printed.removesuffix(" %"), 100 * fact, 0.1)
        ends = (row[4], *row[5].split(" to "))
        for printed, part in zip(ends, ("estimate", "lower", "upper")):
            # Beside an interval that begins at 0, the estimate is mostly noise.
            same(part, printed == "-", part == "estimate" and label["error"]["lower"] <= 0)
            if printed != "-":
                same_points(part, printed, label["error"][part])
        same("mark", "over the limit" in " ".join(row[7:]), label["name"] in a.evaluated["overLimit"])


def check_group(a, group):
    other = next(one for one in a.facts["groups"] if one["value"] == group["name"])
    found = {"top_label": group["error"], **({"class_1": group["class1Error"]}
                                             if "class1Error" in group else {})}
    for event, interval in found.items():
        known = intervals(other["error"]["sinceStart"])[event]
        close(f"error of group {group['name']}", interval["estimate"], known["estimate"])
        close(f"gap of group {group['name']}", interval["gap"], known["gap"])
        require(overlap(interval, known), f"group {group['name']}: {interval} and {known}")
    same(f"answer about group {group['name']}", group["status"],
         status_of(found, a.evaluated["gate"]["errorLimit"]))
    line = next(line for line in a.evaluation_text.split("\nGroups:\n")[1].splitlines()
                if line.split()[0] == group["name"])
    same("rows of the group", line.split()[1], group["observations"])
    require(group["status"] in line, f"{group['status']} in {line!r}")
    same("rejected", "rejected" in line, group["rejected"])
    printed = line.split(" % ")[-1].split()
    worst = worst_of(found)
    same("an error without an estimate", printed[0] == "-", worst["lower"] <= 0)
    if printed[0] != "-":
        same_points("error of the group", printed[0], worst["estimate"])


def worst_of(found):
    return max(found.values(), key=lambda interval: (interval["lower"], interval["estimate"]))


def check_label(a, label):
    other = next(one for one in a.facts["labels"]["labels"] if one["name"] == label["name"])
    if other["truths"] != label["truths"]:
        # It is measured since an acknowledgement.
        require("sinceAcknowledgement" in a.facts["error"], f"truths of {label['name']}: {other}")
        return
    for part in ("stated", "held"):
        close(f"{part} of {label['name']}", label[part], other[part])
    close(f"error of {label['name']}", label["error"]["estimate"], other["error"]["estimate"])
    require(overlap(label["error"], other["error"]), f"{label} and {other}")
    close(f"evidence of {label['name']}", label["log10EValue"], other["log10EValue"], 1e-3)


def check_bins(a):
    """The bins of the error, and the cells of forecasts."""
    for bins in a.evaluated.get("binnedErrors", []):
        if bins["spec"] == {"topLabel": {"bins": 15}}:
            filled = [one for one in a.facts["scores"]["bins"] if one["observations"] != "0"]
            same("bins", int(bins["bins"]), len(filled))
            close("error of the bins", bins["ece"], a.facts["scores"]["ece"])
            close("largest error of a bin", bins["mce"],
                  max(abs(one["meanConfidence"] - one["accuracy"]) for one in filled))
    cells = a.facts["verdict"].get("whereabouts", {}).get("cells", [])
    # An acknowledgement begins the evidence anew.
    if "cells" in a.evaluated and cells and a.facts["watch"]["firstObservation"] == "1":
        same("cells", [cell["observations"] for cell in a.evaluated["cells"]],
             [cell["observations"] for cell in cells])
        close("evidence", a.evaluated["log10EValue"], a.facts["watch"]["evidence"]["log10EValue"], 1e-3)
