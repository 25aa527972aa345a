"""What must agree about the parts of a model, its changes, scores and history: see channels_checks."""
import re

from channels_checks import group_name
from channels_numbers import (ascending, close, current, intervals, overlap, require, same, same_number,
                              same_points, same_printed, worst)


def check_groups(_, a):
    groups, verdict = a.facts["groups"], a.facts.get("verdict", {})
    names = [group_name(group["value"], group["overflow"]) for group in groups]
    over = [name for name, group in zip(names, groups) if group["error"]["status"] == "OVER_LIMIT"]
    same("groups over the limit", sorted(verdict.get("groupsOverLimit", [])), sorted(over))
    same("metric", sorted(over), sorted(
        group_name(*re.search('group="([^"]*)",(?:overflow="false"|(overflow="true"))', labels).groups())
        for (metric, labels), value in a.metrics.items()
        if metric == "calibd_group_over_limit" and value == 1))
    rejected = sum(group["rejected"] for group in groups)
    if verdict:
        same("metric of rejected groups", a.metrics["calibd_rejected_groups", ""], rejected)
    same("rejected groups", verdict.get("rejectedGroups", []),
         [name for name, group in zip(names, groups) if group["rejected"]])
    for name, group in zip(names, groups):
        check_group(a, group, name, name in over)
    match = re.search(r"tested groups of (\d+) rejects (\d+)", a.verbose)
    same("table of groups", match and (int(match[1]), int(match[2])),
         (len(groups), rejected) if groups else None)


def check_group(a, group, name, is_over):
    status = a.facts["verdict"]["status"]
    is_hidden = group["rejected"] and status in ("NOT_REJECTED", "DRIFTED", "STALE")
    told = re.search(rf"group.* {re.escape(name)}(?!\w)", a.said("verdict"))
    same(f"{name} in the verdict", bool(told), is_over or is_hidden)
    measurement = current(group["error"])
    where = a.said("where")
    match = re.search(rf"group {re.escape(name)}(?: P\([^)]*\)| top label|) (?:([\d.]+) points? off "
                      r"\(([\d.]+) to ([\d.]+)[^)]*\)|0 to ([\d.]+) points? off(?: \(too few[^)]*\))?)"
                      r"(?:, (?:recovered|on average within the limit) since row (\d+))?", where)
    # Of many parts, only the worst ones are named.
    is_named = ((is_over or group["rejected"]) and bool(intervals(measurement)) and
                (bool(match) or not re.match(r"group .* and \d+ others?", where)))
    same(f"{name} in where", bool(match), is_named)
    if match:
        event, interval = worst(measurement)
        same(f"event of {name}", " P(" in match[0], event == "class_1")
        same(f"estimate of {name}", bool(match[1]), interval["lower"] > 0)
        figures = (("estimate", match[1]), ("lower", match[2]), ("upper", match[3] or match[4]))
        for part, printed in figures if match[1] else figures[2:]:
            same_points(f"{part} of {name}", printed, interval[part])
        same(f"recovery of {name}", match[5], group["error"]["newest"]["firstObservation"]
             if group["error"]["isRecovered"] else None)
    table = a.verbose.partition("\nGroups")[2].splitlines()
    row = next(["", *line[len(name):].split()] for line in table if line.startswith(name + " "))
    same(f"rows of {name}", row[1], group["watch"]["observations"])
    same_number(f"evidence of {name}", row[2], group["watch"]["evidence"]["log10EValue"], 0.01)
    untested = f"{group['watch']['observations']} of {group['watch']['minObservations']} observations"
    same(f"{name} in the table", " ".join(row).endswith(f"not tested: {untested}"), not group["tested"])
    if group["tested"]:
        same(f"{name} in the table", row[-1], "yes" if group["rejected"] else "no")


def check_labels(_, a):
    labels = a.facts.get("labels", {}).get("labels", [])
    worst_first = sorted(labels, key=lambda label: (-label.get("error", {}).get("lower", -1),
                                                    -label.get("error", {}).get("estimate", 0)))
    over = [label["name"] for label in worst_first if label["status"] == "OVER_LIMIT"]
    same("labels over the limit", a.facts.get("verdict", {}).get("labelsOverLimit", []), over)
    table = {line.split()[0]: line for line in a.text.split("\n\n")[-1].splitlines()}
    left_out = [label["name"] for label in labels if label["name"] not in table]
    same("labels that are left out", f"... {len(left_out)} more" in a.text, bool(left_out))
    for label in labels:
        key = f'label="{label["name"]}"'
        same("metric", a.metrics["calibd_label_over_limit", key], float(label["name"] in over))
        same("in the verdict", bool(re.search(rf"label.* {label['name']}\b", a.said("verdict"))),
             label["name"] in over and len(labels) > 1)
        if label["name"] in left_out:
            same("a label that is left out", label["name"] in over or label["rejected"], False)
            continue
        line = table[label["name"]]
        same("mark", "over the limit" in line,
             label["name"] in over and "recoveredSince" not in label)
        same("rejected", "rejected" in line, label["rejected"])
        same("truths", line.split()[1], label["truths"])
        evidence = re.split(r" {2,}", line.strip())[6]
        same_printed("evidence", evidence, label["log10EValue"])
        match = re.search(rf"label {label['name']} (?:([\d.]+) points? off \(([\d.]+) to ([\d.]+)\)|"
                          r"0 to ([\d.]+) points? off)", a.said("where"))
        # Of many parts, only the worst ones are named.
        is_named = bool(match) or not re.search(r" and \d+ others?", a.said("where"))
        same("in where", bool(match), label["name"] in over and "error" in label and is_named)
        if match and match[4]:
            same_points("upper", match[4], label["error"]["upper"])
        elif match:
            for part, printed in zip(("estimate", "lower", "upper"), match.groups()):
                same_points(part, printed, label["error"][part])
        if "error" not in label:
            continue
        match = re.search(r"([\d.]+) % +([\d.]+) % +(-|[\d.]+) +([\d.]+) to ([\d.]+)", line)
        same_number("stated", match[1], 100 * label["stated"], 0.1)
        same_number("held", match[2], 100 * label["held"], 0.1)
        for part, printed in zip(("estimate", "lower", "upper"), match.groups()[2:]):
            # The estimate is mostly noise beside an interval that begins at 0.
            same(part, printed == "-", part == "estimate" and label["error"]["lower"] <= 0)
            if printed != "-":
                same_points(part, printed, label["error"][part])
        close("metric of the error", a.metrics["calibd_label_binned_error", key],
              label["error"]["estimate"])


def recovered_text(a, row):
    """What is said of a part that has recovered, also if the error of the model changed later."""
    changed = int(a.facts.get("error", {}).get("change", {}).get("toObservation", 0))
    return ("recovered" if int(row or 0) > changed else "on average within the limit") + \
        f" since row {row}"


def check_recovered_labels(_, a):
    """A label that has recovered is not simply over its limit."""
    if "labels" in a.facts:
        table = {line.split()[0]: line for line in a.text.split("\n\n")[-1].splitlines()}
        for label in a.facts["labels"]["labels"]:
            same(label["name"],
                 recovered_text(a, label.get("recoveredSince")) in table.get(label["name"], ""),
                 "recoveredSince" in label)
            if f"label {label['name']} " not in a.said("where") and " other" in a.said("where"):
                continue
            same(f"where, {label['name']}", bool(re.search(
                rf"label {label['name']} [^,]*, {recovered_text(a, label.get('recoveredSince'))}\b",
                a.said("where"))), "recoveredSince" in label)


def check_where(_, a):
    verdict, text = a.facts.get("verdict", {}), a.said("where")
    places = verdict.get("whereabouts", {})
    count = int(places.get("rejectedClasses", 0))
    rejected = re.search(r"rejected for class(?:es)? ([^;]*)", text)
    if count and count == int(places["classCount"]):
        # The names of parts that are over the limit may leave no room for it.
        told = re.findall(r"rejected for all (\d+) classes", text)
        is_left_out = not told and len(text) > 100 and re.match("group|label", text)
        same("all classes", told, [str(count)] if count > 2 and not is_left_out else [])
    else:
        same("rejected classes", bool(rejected), count > 0)
    for match in re.finditer(r"(\w+) \(says ([\d.]+) %, is ([\d.]+) %\)", text):
        share = next(one for one in places["classes"]
                     if match[1] == (one["className"] or str(one["classIndex"])))
        same_number("says", match[2], 100 * share["predicted"], 0.1)
        same_number("is", match[3], 100 * share["observed"], 0.1)
        require(share["standsOut"], f"class {match[1]} does not stand out")
    for match in re.finditer(r"confidence ([\d.]+) to ([\d.]+) %: says ([\d.]+) %, right ([\d.]+) % "
                             r"\((\d+) rows\)", text):
        place = next(one for one in places["confidenceBins"]
                     if abs(100 * one["lower"] - float(match[1])) < 0.051)
        same_number("says", match[3], 100 * place["meanConfidence"], 0.1)
        same_number("right", match[4], 100 * place["accuracy"], 0.1)
        same("rows", match[5], place["observations"])
    for match in re.finditer(r"(below|above|between) the ([\d.]+)(?: and the ([\d.]+))? % quantile: "
                             r"(\d+) outcomes, ([\d.]+) expected", text):
        ends = ([0, match[2]] if match[1] == "below" else [match[2], 100] if match[1] == "above"
                else [match[2], match[3]])
        cell = next(cell for cell in places["cells"]
                    if abs(100 * cell["lower"] - float(ends[0])) < 0.051)
        same_number("upper quantile", ends[1], 100 * cell["upper"], 0.1)
        same("outcomes", match[4], cell["observations"])
        same_printed("expected", match[5], cell["expected"])
        require(cell["standsOut"], f"{match[0]} does not stand out")
    if rejected:
        names = re.sub(r" \([^)]*\)", "", rejected[1])
        more = re.search(r" and (\d+) others?", names)
        same("classes", len(names.split(", ")) + int(more[1] if more else 0), count)
    first = a.facts.get("watch", {}).get("firstObservation")
    match = re.search(r" \(over all rows since row (\d+)\)$", text)
    if match:
        same("rows", match[1], first)
    elif "confidence" in text or "quantile" in text:
        same("rows", first, current(a.facts["error"])["firstObservation"])
    match = re.search(r"e-BH rejects (\d+) in all", a.verbose)
    if match:
        same("rejected classes", int(match[1]), int(places["rejectedClasses"]))
        same("metric", a.metrics["calibd_rejected_classes", ""], float(places["rejectedClasses"]))
    if text == "nothing stands out":
        require(not verdict["groupsOverLimit"] and not verdict["labelsOverLimit"], f"where: {verdict}")


def check_reference(a, line):
    """What a line says of the change since the reference. Returns the line without it."""
    reference = a.facts.get("referenceChange")
    own, mark, text = line.get("text", "").partition("since the reference ")
    same("a reference", bool(mark), reference is not None)
    if reference is None:
        return line
    last = int(reference["firstObservation"]) + int(reference["referenceObservations"]) - 1
    require(text.startswith(f"(rows {reference['firstObservation']} to {last}): "), f"changed: {line}")
    later = f" {reference['laterObservations']} later row"
    same(f"no change in {text!r}", "no change" in text and later in text, reference["status"] == "NOT_CHANGED")
    same("reference", a.facts["verdict"]["referenceStatus"], reference["status"])
    changed = a.active("CHANGED")
    same("alarm", bool(changed), reference["status"] == "CHANGED")
    if changed:
        same("finding", changed[0]["finding"], reference["finding"])
        direction = "more" if reference["finding"]["moreErrors"] else "fewer"
        require(f"yes, {direction} errors since about row {reference['finding']['sinceObservation']}: "
                in text and f"(row {changed[0]['observation']})" in text, f"changed: {line}")
    same_printed("evidence of a change",
                 re.search(r"log10 of the e-value of a change +(\S+)", a.verbose)[1],
                 reference["log10EValue"])
    return {**line, "text": own.removesuffix("; ")} if own else {}


def check_changed(_, a):
    line = a.facts["reading"].get("changed", {})
    change = a.facts.get("error", {}).get("change")
    same("answer", line.get("answer", "UNSPECIFIED") == "CHANGED",
         change is not None or bool(a.active("CHANGED")))
    line = check_reference(a, line)
    if change is None:
        since = re.search(r"^(off|not calibrated) (?:from the first rows on|already in the rows from (\d+) on, where "
                          r"counting began anew), as far as can be seen$", line.get("text", ""))
        if since:
            # Calibration was rejected, or the limit exceeded, within the first thousand rows.
            end = int(since[2] or 1) + 1000
            first = min(int(alarm["observation"]) for alarm in a.facts["alarms"])
            require(first < end, f"changed: {line}, first alarm at row {first}")
            same(f"off, {line}", since[1] == "off", a.facts["error"]["isAcknowledged"] or
                 any(int(alarm["observation"]) < end for alarm in a.active("OVER_LIMIT")))
            return
        require(not line or "no change" in line["text"], f"changed: {line}")
        drift = a.active("DRIFT")
        require(not drift or f"UTC (row {drift[0]['observation']}); no change" in line["text"] or
                len(drift) > 1, f"an alarm that no line names: {line}")
        return
    require(f"between rows {change['fromObservation']} and {change['toObservation']}:" in line["text"],
            f"changed: {line}")
    require(ascending(1, int(change["fromObservation"]), int(line["observation"]),
                      int(change["toObservation"]), int(a.facts["observations"])), f"order: {change}")
    stretches = re.fullmatch(r"(.*) in rows (\d+) to (\d+), and (.*) in rows (\d+) to (\d+)",
                             line["text"])
    for text, stretch, rows in ((stretches[1], change["before"], stretches.groups()[1:3]),
                                (stretches[4], change["after"], stretches.groups()[4:])):
        same("rows", [int(row) for row in rows], [
            int(stretch["firstObservation"]),
            int(stretch["firstObservation"]) + int(stretch["observations"]) - 1])
        numbers = re.findall(r"[\d.]+", re.sub(r"^P\([^)]*\)", "", text.split(": ")[-1]))
        if change["event"] == "CENTRAL_INTERVAL":
            share = re.search(r"the ([\d.]+) % interval covered", line["text"])[1]
            same_number("promised", share, 100 * change["promised"], 0.1)
            shares = [100 * (change["promised"] - stretch[part])
                      for part in ("gap", "gapUpper", "gapLower")]
            for printed, share in zip(numbers[-3:], shares):
                same_number("coverage", printed, min(100, max(0, share)), 0.1)
        elif "at most" in text:
            same_points("at most", numbers[0], max(-stretch["gapLower"], stretch["gapUpper"]))
        else:
            side = 1 if stretch["gap"] >= 0 else -1
            require(("over-confident" in text or "too high" in text) == (side > 0), f"{text}: {stretch}")
            ends = ("gapLower", "gapUpper")[::side]
            for printed, part in zip(numbers, ("gap", *ends)):
                same_points(part, printed, side * stretch[part])
    # An error that came back did not do so in the rows before the change.
    error, before = a.facts["error"], change["before"]
    again = int(error.get("overAgainSince", change["fromObservation"]))
    was_over = max(before["gapLower"], -before["gapUpper"]) > error["limit"]
    require(was_over or again >= int(change["fromObservation"]) or
            again < int(before["firstObservation"]), f"over again before the change: {error}")
    # A recovery is one of the rows after the change.
    if a.facts["error"]["isRecovered"]:
        require(int(change["toObservation"]) < int(a.facts["error"]["newest"]["firstObservation"]),
                f"recovered before the change: {a.facts['error']}")
    apart = (change["before"]["gapUpper"] < change["after"]["gapLower"] or
             change["after"]["gapUpper"] < change["before"]["gapLower"])
    require(apart, f"the intervals overlap: {change}")


def check_scores(_, a):
    """The comparison with a baseline, and the decision."""
    compared, text = a.facts.get("comparison"), a.said("against")
    same("against", bool(text), compared is not None)
    for words, score, scale in (("log loss", "logLoss", 1), ("Brier score", "brier", 1),
                                ("error", "binnedError", 100)):
        if not compared:
            break
        match = re.search(rf"{words} ([\d.]+)(?: points| nats)? (higher|lower) "
                          r"\((\S+) to (\S+)\), (\w+)", text)
        one = compared[score]
        decided = "better" if one["upper"] < 0 else "worse" if one["lower"] > 0 else "undecided"
        same(words, match[5], decided)
        sign = -1 if match[2] == "lower" else 1
        same_printed(words, match[1], sign * scale * one["difference"])
        ends = (one["upper"], one["lower"]) if decided == "better" else (one["lower"], one["upper"])
        for printed, end in zip((match[3], match[4]), ends):
            same_printed(words, printed, scale * (-end if decided == "better" else end))
        metric = re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), score)
        for part, suffix in (("difference", ""), ("lower", "_lower_bound"), ("upper", "_upper_bound")):
            close("metric", a.metrics["calibd_baseline_difference" + suffix, f'score="{metric}"'],
                  one[part])
    loss, text = a.facts.get("watch", {}).get("decision"), a.said("decision")
    same("decision", bool(text), loss is not None)
    if loss:
        check_decision(text, loss)


def check_decision(text, loss):
    """With equal costs of 1 the cost is the share of wrong decisions, in percent."""
    number = r"([-+]?[\d.]+)"
    counts = loss["decision"]["falseAlarmCost"] == loss["decision"]["missCost"] == 1
    match = re.search(rf"{number} % of (\d+) decisions(?: since row \d+)? were wrong, the forecasts promise {number} %: "
                      rf"{number} points \({number} to {number}\)" if counts else
                      rf": (\d+) decisions cost {number} each, the forecasts promise {number}: "
                      rf"{number} \({number} to {number}\)", text)
    realised, count = (match[1], match[2]) if counts else (match[2], match[1])
    same("decisions", count, loss["observations"])
    facts = (loss["realisedLoss"], loss["expectedLoss"], loss["realisedLoss"] - loss["expectedLoss"],
             loss["gapLowerBound"], loss["gapUpperBound"])
    for printed, fact in zip((realised, *match.groups()[2:]), facts):
        same_printed("decision", printed, 100 * fact if counts else fact)


def check_columns(line, bucket):
    """The columns of the history that only some kinds have."""
    matches = re.findall(r"(\w*) ([-+][\d.]+) \(([-+][\d.]+) to ([-+][\d.]+)\)", line)
    same("columns", len(matches), ("decision" in bucket) + bool(bucket["labels"]))
    if "decision" in bucket:
        loss = bucket["decision"]
        costs = loss["decision"]
        scale = 100 if costs["falseAlarmCost"] == costs["missCost"] == 1 else 1
        for printed, fact in zip(matches[0][1:], (loss["realisedLoss"] - loss["expectedLoss"],
                                                  loss["gapLowerBound"], loss["gapUpperBound"])):
            same_printed("decisions", printed, scale * fact)
    if bucket["labels"]:
        label = bucket["labels"][0]
        same("label", matches[0][0], label["name"])
        for printed, fact in zip(matches[0][1:], (label["stated"] - label["held"], label["gapLower"],
                                                  label["gapUpper"])):
            same_number("label", printed, 100 * fact, 0.1)


def check_history(_, a):
    buckets, facts = a.history["buckets"], a.facts
    same("rows", sum(int(bucket["observations"]) for bucket in buckets), int(facts["observations"]))
    if not buckets:
        return
    total = a.history["total"]
    same("rows in all", total["observations"], facts["observations"])
    table = [line for line in a.history_text.splitlines() if re.match(r"20\d\d-|all ", line)]
    same("rows of the table", len(table), len(buckets) + 1)
    for line, bucket in zip(table, [*buckets, total]):
        same(f"rows in {line!r}", re.search(r"(\d+)", line[16:] if line[0] == "2" else line)[1],
             bucket["observations"])
        if bucket["offBy"]:
            require(bucket["offBy"] in line, f"{bucket['offBy']!r}: {line!r}")
            shown = bucket["class1Error"] if bucket["class1IsWorse"] else bucket["error"]
            check_columns(line, bucket)
            gap = re.search(r"[\d)]\*? +([-+][\d.]+)", line)
            if gap:
                same_number("gap", gap[1], 100 * shown["gap"], 0.1)
            numbers = re.findall(r"[\d.]+", bucket["offBy"])
            for part, printed in zip(("estimate", "lower", "upper")[-len(numbers):], numbers):
                same_points(part, printed, shown[part])
    start = facts.get("error", {}).get("sinceStart", {})
    if start.get("observations") != facts["observations"]:
        return
    for field, event in (("error", None), ("class1Error", "class_1")):
        if field in total:
            interval = intervals(start)[event or next(iter(intervals(start)))]
            close(f"{field} in all", total[field]["estimate"], interval["estimate"])
            close(f"gap of {field} in all", total[field]["gap"], interval["gap"])
            require(overlap(total[field], interval), f"{field}: {total[field]} and {interval}")


CHECKS = (check_groups, check_labels, check_recovered_labels, check_where, check_changed, check_scores,
          check_history)
