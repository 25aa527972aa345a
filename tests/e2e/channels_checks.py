"""What must agree in all that calibd says about one model: one function for each part.

Each function has the situation of the model and its Answers, and raises AssertionError.
"""
import json
import re

from channels_answers import short_name
from channels_numbers import (E_VALUE, OFF_BY, ascending, check_e_value, check_error_sentence,
                              check_interval, close, current, intervals, require, same, same_message,
                              same_number, same_points, worst)

LINES = ("verdict", "howBad", "now", "where", "decision", "against", "changed", "repair", "certain",
         "data", "warning", "next")


def plain(message):
    """A message without the age of its rows and the time of its estimates: those of the call."""
    text = re.sub(r"came (just now|\w+ ago)", "came AGE", json.dumps(message))
    return json.loads(text, object_hook=lambda fields: {
        field: value for field, value in fields.items()
        if field != "computeTime" or "validForRepeatedLooks" not in fields})


def group_name(value, is_overflow):
    return "(other groups)" if is_overflow else value or "(no value)"


def spoken_lines(text):
    """The lines of `calibctl show` by their titles, each without its breaks."""
    lines = {}
    for line in text.split("\n\n")[0].splitlines():
        if line.startswith("failed on ") or re.match(r"\S+ has \d+ (?:labelled )?rows?,? ", line):
            break
        title, words = line[:10].strip(), line[10:]
        if title:
            current_title = title
            lines[title] = words
        else:
            lines[current_title] += " " + words
    return lines


def check_one_message(_, a):
    for channel, message in a.others.items():
        same_message(channel, plain(message), plain(a.facts))
    same_message("alarms --output json", a.alarm_facts, a.facts["alarms"])
    same_message("history of Python", a.history_python, a.history)
    for field in ("verdict", "watch", "observations", "lastObservationTime"):
        same_message(f"list, {field}", a.listed.get(field), a.facts.get(field))
    same_message("list, alarms", a.listed["alarms"], a.active())
    error = {field: value for field, value in a.facts.get("error", {}).items()
             if field not in ("observationsNeeded", "change")}
    same_message("list, error", a.listed.get("error", {}), error)
    for line in ("verdict", "howBad", "now", "next"):
        same_message(f"list, {line}", a.listed["reading"].get(line), a.facts["reading"].get(line))


def check_text(_, a):
    """`show`, `watch` and `list` print the sentences of the answer."""
    name = short_name(a.facts["model"])
    expected = {re.sub("[A-Z]", lambda letter: " " + letter[0].lower(), line): a.said(line)
                for line in LINES if a.said(line)}
    expected["verdict"] = f"{name}: {expected['verdict']}"
    same("show", plain(spoken_lines(a.text)), plain(expected))
    same("text of Python", plain(spoken_lines(a.python_text)), plain(expected))
    brief = a.facts["reading"].get("howBad", {}).get("brief", "")
    for channel, text in (("watch", a.line), ("list", a.list_row)):
        for part in (name, a.said("verdict"), brief):
            require(part in text, f"{channel}: no {part!r} in {text!r}")
    require(re.search(rf"\s{a.facts['observations']}\s", a.list_row), f"list: rows in {a.list_row!r}")
    require(re.search(rf", {a.facts['observations']} rows?\b", a.line), f"watch: rows in {a.line!r}")
    same("list, star", a.list_row.rstrip().endswith(" *"), a.listed["rejectedAmongAll"])


def check_name_of_class_1(situation, a):
    """Class 1 of two classes has its name in all that is printed."""
    names = situation.declare.get("classes")
    if not isinstance(names, list) or len(names) != 2:
        return
    for what in ("text", "python_text", "line", "list_row", "alarms", "verbose", "history_text"):
        text = getattr(a, what)
        require(f"P({names[1]})" in text and "class 1" not in text, f"{what}: {text}")


def check_gates(_, a):
    verdict = a.facts.get("verdict")
    if verdict is None:
        require("no verdict" in a.said("verdict"), a.said("verdict"))
        return
    failed = {
        "over-limit": "OVER_LIMIT" in a.said("verdict"),
        "miscalibration": "MISCALIBRATED" in a.said("verdict") or a.active("EVIDENCE"),
        "drift": "DRIFTED" in a.said("verdict") or a.active("DRIFT"),
        "undecided": verdict["limitStatus"] == "UNDECIDED" or "INSUFFICIENT" in a.said("verdict"),
    }
    failed = [gate for gate, fails in failed.items() if fails]
    if "INSUFFICIENT" in a.said("verdict"):
        failed.append("insufficient-data")
        require(re.search(rf"\n{re.escape(short_name(a.facts['model']))} has {a.facts['observations']} "
                          r"(?:labelled )?row", a.text), "show does not say how many rows there are")
    same("gates", a.failed_on, failed)
    same("exit code", a.exit_codes["show"], 3 if failed else 0)
    same("last line", [line for line in a.text.splitlines() if line.startswith("failed on")],
         ["failed on " + ", ".join(failed)] if failed else [])


def check_verdict(situation, a):
    verdict = a.facts.get("verdict")
    if verdict is None:
        same("metrics", [key for key in a.metrics if key[0] == "calibd_verdict"], [])
        return
    words = [verdict["limitStatus"], verdict["status"]]
    if verdict["referenceStatus"] != "UNSPECIFIED":
        words.append(verdict["referenceStatus"])
    same("the situation", " ".join(words), situation.expected)
    text = a.said("verdict")
    for word in ("OVER_LIMIT", "WITHIN_LIMIT", "UNDECIDED"):
        same(f"{word} in {text!r}", word in text, word == verdict["limitStatus"])
    for word in ("MISCALIBRATED", "DRIFTED", "NOT_REJECTED", "INSUFFICIENT_DATA"):
        same(f"{word} in {text!r}", word in text, word == verdict["status"])
    same(f"STALE in {text!r}", "STALE" in text, verdict["stale"])
    same(f"CHANGED in {text!r}", "CHANGED since the reference" in text, bool(a.active("CHANGED")))
    flags = {flag: str(verdict[f"is{flag.capitalize()}"]).lower() for flag in ("recent", "acknowledged")}
    labels = (f'limit_status="{verdict["limitStatus"]}",recent="{flags["recent"]}",'
              f'acknowledged="{flags["acknowledged"]}",status="{verdict["status"]}"')
    same("metric", [key[1] for key in a.metrics if key[0] == "calibd_verdict"], [labels])
    same("rejected before there is enough data",
         a.listed["rejectedAmongAll"] and verdict["status"] == "INSUFFICIENT_DATA", False)


def check_recovered(_, a):
    verdict = a.facts.get("verdict")
    if verdict is None:
        return
    recovered = verdict["isRecovered"]
    same("words", "recovered" in a.said("verdict"), recovered)
    same("watch", ", recovered" in a.line, recovered)
    accepted = bool(a.active("OVER_LIMIT")) and verdict["limitStatus"] != "OVER_LIMIT"
    for metric, is_so in (("recovered", recovered), ("limit_raised", accepted)):
        same(f"metric {metric}", a.metrics[f"calibd_alarm_{metric}", 'kind="over_limit"'],
             float(is_so))
    error = a.facts["error"]
    if error["isRecovered"]:
        row = error["newest"]["firstObservation"]
        for line in ("verdict", "now") if recovered else ("now",):
            require(re.search(rf"recovered since [-\d]+ [\d:]+ UTC \(row {row}\)", a.said(line)), f"{line}: {a.said(line)}")
        require(all(interval["upper"] <= error["limit"] for interval in
                    intervals(error["newest"]).values()), f"recovered: {error['newest']}")
        same("repair of a recovered model", a.said("repair"), "")
        require(int(row) > int(min(a.active("OVER_LIMIT"), key=lambda alarm: int(alarm["id"]))
                               ["observation"]), f"recovered since row {row}, before the alarm")
    over = [part for part in [error, *(group["error"] for group in a.facts["groups"])]
            if part["status"] == "OVER_LIMIT" and not part["isAcknowledged"]]
    if "labels" not in a.facts:
        same("recovered parts", bool(over) and all(part["isRecovered"] for part in over), recovered)


def check_alarms(_, a):
    """The open alarms are those that the verdict tells."""
    facts = a.facts
    rows = {columns[0]: columns for columns in map(str.split, a.alarms.splitlines()[2:])
            if columns[0].isdigit()}
    same("alarms in the table", sorted(rows), sorted(alarm["id"] for alarm in facts["alarms"]))
    for alarm in facts["alarms"]:
        line = next(line for line in a.alarms.splitlines() if line.split()[:1] == [alarm["id"]])
        part = alarm.get("label", "-")
        if "groupValue" in alarm:
            part = group_name(alarm["groupValue"], alarm["isOverflowGroup"])
        require(re.match(rf"{alarm['id']} +{alarm['kind'].lower()} +{re.escape(part)} .* UTC +"
                         rf"{alarm['observation']} ", line), f"{line!r}: {alarm}")
        same(f"open in {line!r}", line.rstrip().endswith(" no"), "acknowledgeTime" not in alarm)
        crossing = alarm.get("crossing", {})
        if "error" in crossing:
            match = OFF_BY.search(line)
            check_interval(line, match, crossing["error"], crossing["limit"])
            same(f"event of {line!r}", match["event"].startswith("P("), crossing["isClass1"])
        if "finding" in alarm:
            finding = alarm["finding"]
            found = (f"since about row {finding['sinceObservation']}: {finding['wrong']} of "
                     f"{finding['observations']} predictions were wrong")
            require(found in line, f"{found!r}: {line!r}")
            continue
        found = (f"crossed {'10^6' if alarm['kind'] == 'DRIFT' else '20'} " if not crossing else
                 f" since row {crossing['firstObservation']} " if crossing["isRecent"] else " ")
        if crossing and "error" not in crossing:
            found = f"newest rows off by more than {100 * crossing['limit']:.0f} points "
        require(found in line, f"{found!r}: {line!r}")
    count = len(a.active())
    words = f"{count or 'no'} alarm{'' if count < 2 else 's'} active"
    if facts["alarms"]:
        require(words in a.alarms, f"{words!r}: {a.alarms}")
    verdict = facts.get("verdict")
    if verdict is None:
        same("alarms", count, 0)
        return
    require(a.line.rstrip().endswith(words), f"{words!r}: {a.line!r}")
    for kind in ("EVIDENCE", "DRIFT", "OVER_LIMIT", *(["CHANGED"] if "referenceChange" in facts else [])):
        same(f"metric of {kind}", a.metrics["calibd_alarm_active", f'kind="{kind.lower()}"'],
             float(bool(a.active(kind))))
        total = sum(alarm["kind"] == kind for alarm in facts["alarms"])
        same(f"count of {kind}", a.metrics["calibd_alarms_total", f'kind="{kind.lower()}"'], total)
    same("MISCALIBRATED", verdict["status"] == "MISCALIBRATED", bool(a.active("EVIDENCE")))
    require(verdict["status"] == "DRIFTED" or a.active("EVIDENCE") or not a.active("DRIFT"),
            f"an alarm of drift and {verdict['status']}")
    # An alarm stays after its limit was raised, and the verdict follows the new limit: it is exceeded
    # too if the whole interval is above it.
    limit = facts["error"]["limit"]
    found = intervals(current(facts["error"]))
    still = any(interval["lower"] > limit for interval in found.values())
    over = any(still or alarm["crossing"]["limit"] == limit for alarm in a.active("OVER_LIMIT"))
    same("OVER_LIMIT and acknowledged", (verdict["limitStatus"] == "OVER_LIMIT",
                                         verdict["isAcknowledged"]),
         (over or verdict["isAcknowledged"], verdict["limitStatus"] == "OVER_LIMIT" and not over))
    check_since(a, over)
    # A part over its limit without an active alarm.
    parts = [alarm.get("label") or group_name(alarm.get("groupValue"), alarm["isOverflowGroup"])
             for alarm in a.active("OVER_LIMIT") if "label" in alarm or "groupValue" in alarm]
    names = verdict["groupsOverLimit"] + (
        verdict["labelsOverLimit"] if len(facts.get("labels", {}).get("labels", [])) > 1 else [])
    same("(acknowledged)", "(acknowledged)" in a.said("verdict"),
         facts["error"]["isAcknowledged"] or verdict["isAcknowledged"] or
         any(name not in parts for name in names))


def check_accepted(_, a):
    """An open alarm that the verdict leaves out, because its limit was raised, is told elsewhere."""
    told = f"{a.said('howBad')}; {a.said('where')}"
    if a.facts.get("verdict", {}).get("limitStatus") != "OVER_LIMIT":
        for alarm in a.active("OVER_LIMIT"):
            require(re.search(rf"at row {alarm['observation']}\b", told),
                    f"an alarm that no line names: {alarm}")


def check_since(a, is_over):
    """The verdict names the first alarm about it."""
    verdict = a.facts["verdict"]
    match = re.search(r"(?:, (?:first )?alarm on| since) (\S+ \S+) UTC \(row (\d+)\)", a.said("verdict"))
    alarms = a.active("OVER_LIMIT") if is_over else []
    # That of the model itself comes first.
    own = [alarm for alarm in alarms if "groupValue" not in alarm and "label" not in alarm]
    first = min(own or alarms, key=lambda alarm: int(alarm["observation"]), default=None)
    if first is None and "since" in verdict:
        first = {"raiseTime": verdict["since"], "observation": verdict["sinceObservation"]}
    same("since", match and match.groups(),
         first and (first["raiseTime"][:16].replace("T", " "), first["observation"]))
    if "sinceObservation" in verdict and verdict["status"] in ("MISCALIBRATED", "DRIFTED"):
        kind = "EVIDENCE" if verdict["status"] == "MISCALIBRATED" else "DRIFT"
        same(f"row of {verdict['status']}", verdict["sinceObservation"],
             a.active(kind)[-1]["observation"])


def check_digits(_, a):
    """The interval of an alarm is printed with the digits that show that it is above the limit."""
    for line in a.alarms.splitlines():
        match = OFF_BY.search(line)
        require(not match or float(match["lower"]) > float(match["limit"]), f"no alarm is due: {line!r}")


def check_lead(a):
    """The group or label that is off by most comes before the model. Returns the rest of the line."""
    text, error = a.said("howBad"), a.facts.get("error")
    labels = a.facts.get("labels", {}).get("labels", [])
    parts = {f"group {group_name(group['value'], group['overflow'])}":
             worst(current(group["error"]))[1] for group in a.facts["groups"]
             if (group["rejected"] or group["error"]["status"] == "OVER_LIMIT")
             and intervals(current(group["error"]))}
    parts |= {f"label {label['name']}": label["error"] for label in labels if len(labels) > 1 and
              (label["rejected"] or label["status"] == "OVER_LIMIT") and "error" in label}
    match = re.match(r"((?:group|label) .*?); (?:all rows together: |(?=on average over ))", text)
    sizes = {name: (interval["lower"], interval["estimate"]) for name, interval in parts.items()}
    leader = max(sizes, key=sizes.get, default=None)
    if leader and (error["status"] == "OVER_LIMIT" or
                   a.facts["verdict"]["status"] == "MISCALIBRATED") and intervals(current(error)):
        own = worst(current(error))[1]
        leader = leader if sizes[leader] > (own["lower"], own["estimate"]) else None
    same("leads", bool(match), leader is not None)
    if not match:
        return text
    require(match[1].startswith(leader + " "), f"{leader} should lead: {text}")
    check_interval(leader, OFF_BY.search(match[1]), parts[leader], error["limit"])
    same("brief", a.facts["reading"]["howBad"]["brief"], match[1])
    more = re.search(r", and (\d+) more", match[1])
    same("more parts", int(more[1]) if more else 0, len(parts) - 1)
    return text[match.end():]


def check_how_bad(_, a):
    error = a.facts.get("error")
    if error is None:
        same("how bad", a.said("howBad"), "")
        return
    text = check_lead(a)
    leads = text != a.said("howBad")
    measurement = current(error)
    shown = measurement if intervals(measurement) else error["sinceStart"]
    for part, suffix in (("estimate", ""), ("lower", "_lower_bound"), ("upper", "_upper_bound")):
        for event, interval in intervals(shown).items():
            close(f"metric of {event}, {part}",
                  a.metrics["calibd_binned_error" + suffix, f'event="{event}"'], interval[part])
    same("metric of the limit", a.metrics["calibd_error_limit", ""], error["limit"])
    for event, interval in intervals(shown).items():
        require(ascending(0, interval["lower"], interval["upper"], 1), f"{event}: {interval}")
        require(event == "coverage" or abs(interval["gap"]) <= interval["estimate"] + 1e-12,
                f"{event}: the gap exceeds the error, {interval}")
    if not intervals(measurement):
        check_no_rows(a, text)
        match = re.search(r"was off by ([\d.]+) points? \(([\d.]+) to ([\d.]+)\) "
                          r"over rows (\d+) to (\d+)", text)
        same(f"former rows in {text!r}", bool(match), bool(intervals(shown)))
        if match:
            for part, printed in zip(("estimate", "lower", "upper"), match.groups()):
                same_points(part, printed, worst(shown)[1][part])
            same("last row", int(match[5]) - int(match[4]) + 1, int(shown["observations"]))
        return
    check_error_sentence("how bad", text, measurement, error["limit"], measurement)
    brief = a.facts["reading"]["howBad"]["brief"]
    if "labels" in a.facts:
        labels = a.facts["labels"]["labels"]
        undecided = sum(label["status"] == "UNDECIDED" for label in labels)
        same("average", f"on average over {len(labels)} labels " in text, len(labels) > 1)
        match = re.search(r"(\d+) labels? (?:is|are) undecided", text)
        same("undecided labels", match and int(match[1]), undecided or None)
    elif not leads:
        same("event", OFF_BY.search(brief)["event"].startswith("P("),
             worst(measurement)[0] == "class_1")
        check_interval("brief", OFF_BY.search(brief), worst(measurement)[1], error["limit"])
    status = ("OVER_LIMIT" if worst(measurement)[1]["lower"] > error["limit"] else "WITHIN_LIMIT"
              if all(i["upper"] <= error["limit"] for i in intervals(measurement).values())
              else "UNDECIDED")
    enough = int(a.facts["watch"].get("minObservations", 0)) <= int(measurement["observations"])
    if not a.active("OVER_LIMIT") and not error["isAcknowledged"] and enough:
        same("status of the interval", error["status"], status)
    for match in OFF_BY.finditer(text):
        if match["event"].endswith("was "):
            row = re.match(r" at row (\d+)", text[match.end():])[1]
            # That of the model itself comes before those of its parts.
            alarm = min((one for one in a.active("OVER_LIMIT") if one["observation"] == row),
                        key=lambda one: "groupValue" in one or "label" in one)
            check_interval("former error", match, alarm["crossing"]["error"], alarm["crossing"]["limit"])
    match = re.search(r"the next alarm is raised above ([\d.]+)", text)
    own = [one for one in a.active("OVER_LIMIT") if "groupValue" not in one and "label" not in one]
    same("raised limit", bool(match), "acknowledgedLimit" in error and not own)
    if match:
        same_points("raised limit", match[1], error["acknowledgedLimit"])


def check_no_rows(a, text):
    match = re.search(r"(\d+) of (\d+) pending rows are labelled", text)
    arrivals = a.facts.get("labelArrivals", {})
    if match:
        same("pending rows", match.groups(), (arrivals["pendingLabelled"], arrivals["pending"]))


def check_now(_, a):
    text, error = a.said("now"), a.facts.get("error", {})
    newest = error.get("newest")
    if newest is None:
        same("now", text, "")
        same("metrics", [key for key in a.metrics if key[0].startswith("calibd_newest")], [])
        return
    for part, suffix in (("estimate", ""), ("lower", "_lower_bound"), ("upper", "_upper_bound")):
        for event, interval in intervals(newest).items():
            close(f"metric of {event}, {part}",
                  a.metrics["calibd_newest_error" + suffix, f'event="{event}"'], interval[part])
    same("metric of the rows", a.metrics["calibd_newest_error_observations", ""],
         float(newest["observations"]))
    same("last row", int(newest["firstObservation"]) + int(newest["observations"]) - 1,
         int(a.facts["observations"]))
    if not text:
        same("first row", newest["firstObservation"], current(error)["firstObservation"])
        return
    rows = "these" if error["isRecovered"] else "the newest"
    leads = a.said("howBad").startswith("group ") and not error["isRecovered"]
    whose = " of all groups" if leads else ""
    require(f"over {rows} {newest['observations']} rows{whose}, " in text, f"rows in {text!r}")
    lead = current(error) if intervals(current(error)) else newest
    check_error_sentence("now", text, newest, error["limit"], lead)
    over = any(interval["lower"] > error["limit"] for interval in intervals(newest).values())
    alarmed = error["status"] == "OVER_LIMIT" and not error["isAcknowledged"]
    again = "overAgainSince" in error
    same("still over", "still over the limit" in text, alarmed and over and not again)
    same("not yet within", "not shown to be within" in text,
         alarmed and not over and not again and not error["isRecovered"])


def check_advice(_, a):
    """What to do next fits the verdict."""
    facts, line = a.facts, a.facts["reading"]["next"]
    between, more = re.fullmatch("(?:.*; then )?" + re.escape(line["commands"][0]) + "(?:(; .*?)" + re.escape(
        line["commands"][-1]) + r")?( \(\d+ alarms are active: calibctl alarms \S+\)|)",
                                 line["text"]).groups()
    count = len(a.active())
    same("active alarms", more, f" ({count} alarms are active: calibctl alarms "
         f"{short_name(facts['model'])})" if count > 1 else "")
    over = facts.get("verdict", {}).get("limitStatus") == "OVER_LIMIT"
    looks = bool(count) and not facts["verdict"]["isRecovered"] and (over or not a.active("OVER_LIMIT"))
    between_commands = ("; when it is repaired or accepted: " if a.active("OVER_LIMIT")
                        else "; when it is repaired: ")
    same("looks first", between == between_commands, looks)
    order = ("OVER_LIMIT", "EVIDENCE", "DRIFT", "CHANGED")
    urgent = next((kind for kind in order if a.active(kind)), None)
    acknowledged = re.findall(r"calibctl acknowledge \S+ (\d+)", "; ".join(line["commands"]))
    require(all(any(alarm["id"] == one for alarm in a.active(urgent)) for one in acknowledged),
            f"next: {line}")
    same("an alarm to acknowledge", bool(acknowledged), urgent is not None)
    verdict = facts.get("verdict")
    if verdict is None:
        return
    same("a small error", "smaller than the limit" in a.said("certain"),
         verdict["status"] == "MISCALIBRATED" and verdict["limitStatus"] == "WITHIN_LIMIT")
    parts = [facts["error"], *(group["error"] for group in facts["groups"] if group["rejected"] or
                               group["error"]["status"] == "OVER_LIMIT")]
    may_be_over = any(part["status"] != "WITHIN_LIMIT" and not part["isRecovered"] for part in parts[1:])
    may_be_over |= any(label["status"] == "OVER_LIMIT" and "recoveredSince" not in label
                       for label in facts.get("labels", {}).get("labels", []))
    require(not a.said("repair") or may_be_over or parts[0]["status"] == "OVER_LIMIT",
            f"repair: {a.said('repair')}")
    require(facts["error"]["status"] != "OVER_LIMIT" or a.said("changed"), "no line about a change")


def check_decides(_, a):
    """How many more rows decide about the limit."""
    if "verdict" not in a.facts:
        return
    certain = a.said("certain")
    match = re.search(r"between (\d+) and (\d+) more labelled rows decide about the limit", certain)
    needed = a.facts["error"].get("observationsNeeded")
    if a.facts["verdict"]["limitStatus"] != "UNDECIDED":
        # The limit is decided, because a group is over it.
        needed = None
    same("rows that decide", match and match.groups(),
         needed and (two_digits(needed["lower"], False), two_digits(needed["upper"], True)))
    match = re.search(r"nothing is decided before (\d+) labelled rows; "
                      r"(\d+) (?:so far|since row (\d+))", certain)
    if match:
        measurement = current(a.facts["error"])
        same("too few rows", match.groups(), (
            a.facts["watch"]["minObservations"], measurement["observations"],
            measurement["firstObservation"] if measurement["firstObservation"] != "1" else None))


def two_digits(number, up):
    """The number, rounded to two digits, up or down."""
    unit = 10**max(0, len(number) - 2)
    return str((int(number) + (unit - 1 if up else 0)) // unit * unit)


def check_decided(_, a):
    """No rows are said to be needed for what is decided."""
    if "decide about the limit" in a.said("certain"):
        same("a limit that is not decided", a.facts["verdict"]["limitStatus"], "UNDECIDED")
        decided = [interval for interval in intervals(current(a.facts["error"])).values()
                   if interval["lower"] > a.facts["error"]["limit"]]
        same("intervals that decide already", decided, [])


def check_repair(_, a):
    text, advice = a.said("repair"), a.facts.get("recalibration")
    if text.startswith(("a map for all rows does not repair ", "too few rows since the change ")):
        return
    if text.startswith("(other groups) mixes"):
        require("(other groups)" in a.facts["verdict"]["groupsOverLimit"], text)
        return
    match = re.match(r"(?:group|label)s? (.*?) (?:is|are) the cause", text)
    if match:
        verdict = a.facts["verdict"]
        named = re.split(", ", re.sub(r" and \d+ others?$", "", match[1]))
        over = (verdict["groupsOverLimit"] + verdict["labelsOverLimit"] + verdict["rejectedGroups"])
        require(set(named) <= set(over), f"a cause that is not off: {text}")
        return
    command = re.search(r"--model ([^`]+)`", text)
    require(not text or command[1] == short_name(a.facts["model"]), f"repair: {text}")
    same("temperature", "temperature" in text, advice is not None)
    if advice is None:
        return
    match = re.search(r"temperature ([\d.]+) would take the error of the model from (.*?) points to (.*?) "
                      r"points.* over rows (\d+) to (\d+)", text)
    same_number("temperature", match[1], advice["map"]["temperature"], 0.01)
    for words, field in ((match[2], "errorBefore"), (match[3], "errorAfter")):
        figures = re.findall(r"[\d.]+", words)
        # The estimate is mostly noise beside an interval that begins at 0.
        same(f"figures of {field}", len(figures), 3 if advice[field]["lower"] > 0 else 2)
        for part, printed in zip(("estimate", "lower", "upper")[-len(figures):], figures):
            same_points(part, printed, advice[field][part])
    same("first row", match[4], advice["firstObservation"])
    same("rows", int(match[5]) - int(match[4]) + 1,
         int(advice["fitObservations"]) + int(advice["testObservations"]))


def check_evidence(_, a):
    watch = a.facts.get("watch", {})
    evidence = watch.get("evidence")
    text = a.said("certain")
    if evidence is None:
        same("e-value", bool(E_VALUE.search(text)), False)
        return
    close("metric", a.metrics["calibd_log10_e_value", ""], evidence["log10EValue"])
    close("metric of the highest", a.metrics["calibd_log10_e_value_max", ""], evidence["maxLog10EValue"])
    same("metric of the rows", a.metrics["calibd_watch_observations", ""], float(watch["observations"]))
    values = {"e-value": evidence["log10EValue"], "highest": evidence["maxLog10EValue"],
              "rejection needs": evidence["threshold"]}
    for channel, line in (("certain", text), ("watch", a.line)):
        for match in E_VALUE.finditer(line):
            check_e_value(channel, match, values[match["what"]])
    match = re.search(r"log10 e-value +(\S+)\n +highest +(\S+) at row (\d+)", a.verbose)
    same_number("verbose", match[1], evidence["log10EValue"], 0.01)
    same_number("verbose, highest", match[2], evidence["maxLog10EValue"], 0.01)
    require(evidence["log10EValue"] <= evidence["maxLog10EValue"] + 1e-9, f"highest: {evidence}")
    status = a.facts["verdict"]["status"]
    if status == "NOT_REJECTED":
        require(evidence["maxLog10EValue"] < evidence["threshold"], f"{status}: {evidence}")
    match = re.search(r"counts after (\d+) labelled rows; (\d+) (?:so far|since row (\d+))", text)
    enough = int(watch["observations"]) >= int(watch["minObservations"])
    is_said = bool(match) or "nothing is decided before" in text
    same("too few rows", is_said, not enough)
    if match:
        first = watch["firstObservation"]
        same("needed", match.groups(), (watch["minObservations"], watch["observations"],
                                        first if first != "1" else None))
    match = re.search(r"(\S+) +(?:20\S+ \S+ UTC|-)[ *]*$", a.list_row)
    check_e_value("list", E_VALUE.fullmatch("e-value " + match[1]), evidence["log10EValue"])
    shares = [family["share"] for family in evidence["families"]]
    close("shares of the families", sum(shares), 1 if shares else 0)


def check_so_far(_, a):
    """Rows "so far" are all rows."""
    for match in re.finditer(r"(\d+) so far", a.said("certain")):
        same("rows so far", match[1], a.facts["observations"])


def check_data(_, a):
    facts, text = a.facts, a.said("data")
    has_truth = (facts.get("labels", {}).get("truths") != "0" or
                 "sinceAcknowledgement" in facts["error"])
    counted = "counted " if "labelArrivals" in facts else "labelled " if has_truth else ""
    numbers = (facts["observations"], facts["rejectedRows"])
    match = re.match(rf"(\d+) {counted}rows?, (\d+) rejected", text)
    same("rows", match and match.groups(), numbers)
    same("metric", a.metrics["calibd_observations_total", ""], float(facts["observations"]))
    arrivals = facts.get("labelArrivals")
    same("arrivals", "pending" in text, arrivals is not None)
    if arrivals:
        for words, field in (("pending", "pending"), ("without a label", "missing"),
                             ("duplicates", "duplicatePredictions")):
            require(f"{arrivals[field]} {words}" in text, f"{field}: {text}")
    since = facts.get("error", {}).get("sinceAcknowledgement")
    same("dropped rows", bool(re.search(r"\d dropped by producers", text)), facts["droppedRows"] != "0")
    dropped = re.search(r"(\d+) labels? dropped by producers", text)
    same("dropped labels", dropped[1] if dropped else "0", facts["droppedLabels"])
    require(facts["droppedRows"] == "0" or f" {facts['droppedRows']} dropped by producers" in text, text)
    match = re.search(r"the error is measured from row (\d+) on", text)
    same("row of the acknowledgement or update", match and match[1], since and since["firstObservation"])
    if "labels" in facts:
        require(f"{facts['labels']['truths']} known truths" in text, f"truths: {text}")
    warnings = facts["warnings"]
    if arrivals and arrivals["missing"] != "0":
        same_number("missing labels", re.match(r"([\d.]+) %", a.said("warning"))[1],
                    100 * int(arrivals["missing"]) / int(arrivals["matured"]), 0.1)
    more = f"(and {len(warnings) - 1} more) " if len(warnings) > 1 else ""
    same("warning", a.said("warning"), more + warnings[0] if warnings else "")


def check_truths(_, a):
    """Without a known truth there is too little data. The evidence goes on after an acknowledgement."""
    require(a.facts.get("labels", {}).get("truths") != "0" or
            "sinceAcknowledgement" in a.facts["error"] or
            a.facts["verdict"]["status"] == "INSUFFICIENT_DATA",
            f"no truth is known, and {a.said('verdict')}")


CHECKS = (check_one_message, check_text, check_name_of_class_1, check_gates, check_verdict,
          check_recovered, check_alarms, check_accepted, check_digits, check_how_bad, check_now, check_advice,
          check_decides, check_decided, check_repair, check_evidence, check_so_far, check_data,
          check_truths)
