"""More models of channels_test: an error that came back, parts that are its cause, and rows that are
not counted. Each says what its sentences must say; see channels_models and channels_checks.
"""
import datetime
import re

import numpy as np
from channels_checks import group_name
from channels_models import (Rows, Situation, acknowledge, acknowledge_limit, active, classes, declared,
                             grouped, labels_later, numbers, several_labels, two_classes)
from channels_numbers import intervals, require, same


def only_invalid_rows(client, name):
    """Sends 30 rows whose probabilities do not sum to 1, all of which the SDK drops."""
    with client.stream(name, on_invalid="drop") as stream:
        stream.send(np.full((30, 10), 0.5), np.zeros(30, np.int64))


def by_truth(rows):
    """The rows in the order of their truths; of several labels, the first one comes first."""
    order = np.lexsort(np.atleast_2d(rows.truths.T)[::-1])
    return Rows(rows.predictions[order], rows.truths[order])


def acknowledge_group(value):
    """Acknowledges the alarms over the limit of a group."""
    def step(client, name):
        for alarm in active(client, name):
            if alarm.group_value == value:
                client.acknowledge_alarm(name, alarm.id, note="known")
    return step


def without_labels(rows):
    """Sends rows by id, for labels that have not come yet."""
    def step(client, name):
        with client.stream(name) as stream:
            stream.send(rows.predictions, ids=[f"row-{i}" for i in range(len(rows))])
    return step


def certain_labels(seed, count):
    """Predicted labels in place of probabilities, of which one in ten is wrong."""
    rng = np.random.default_rng(seed)
    truths = (rng.random((count, 3)) < 0.5).astype(float)
    wrong = rng.random(truths.shape) < 0.1
    return Rows(np.where(wrong, 1 - truths, truths), truths)


def with_blocks_of_one_label(seed, count):
    """The truths of the first label come in blocks, and its probabilities do not say so."""
    rows = several_labels(seed, count, (0, 0, 0))
    rng = np.random.default_rng(seed + 1000)
    rows.predictions[:, 0] = 0.5
    rows.truths[:, 0] = np.repeat(rng.integers(2, size=count // 100), 100)
    return rows


def states():
    """By name: (situation, {line: pattern that its sentence has})."""
    ten = {"classes": 10, "bandwidth": 0.5}
    two = {"classes": 2, "bandwidth": 0.5}
    region = {"declaration": declared(group_tag="region")}
    labels = {"labels": ["rain", "fog", "wind"]}
    over, again = "OVER_LIMIT MISCALIBRATED", {
        "verdict": r"OVER_LIMIT, alarm on .* \(row \d+\), again since row \d+, ",
        "now": r"; it had recovered, and is over the limit again since row \d+; "}
    forgotten = "UNDECIDED INSUFFICIENT_DATA"
    kept = {"howBad": r"^(on average .*)?was off by .* over rows 1 to \d+; no labelled row since$",
            "now": r"^over the newest \d+ rows, all before the acknowledgement, .*off by "}
    return {
        "ten_came_back": (Situation(
            {**ten, "error_limit": 0.05},
            [classes(201, 2000, 0.15), classes(202, 8000), classes(203, 2500, 0.2)], over), again),
        "two_came_back": (Situation(
            {**two, "error_limit": 0.1},
            [two_classes(204, 2000, 0.3), two_classes(205, 12000), two_classes(206, 2500, 0.4)], over),
                          again),
        "number_came_back": (Situation(
            {"forecast": "normal", "error_limit": 0.1},
            [numbers(207, 2000, 2.0), numbers(208, 15000), numbers(209, 2500, 2.5)], over), again),
        "labels_came_back": (Situation(
            {**labels, "error_limit": 0.08},
            [several_labels(210, 2000, (0, 0, 0.25)), several_labels(211, 15000, (0, 0, 0)),
             several_labels(212, 2500, (0, 0, 0.4))], over),
                             {"verdict": r" in label wind, alarm on .* \(row \d+\), again since row \d+",
                              "where": r"label wind .*, over again since row \d+"}),
        # An error that is too small to be shown in the newest rows is not said to be over again. But
        # they are not like those that had recovered.
        "ten_barely_back": (Situation(
            {**ten, "error_limit": 0.05},
            [classes(213, 2000, 0.15), classes(214, 12000), classes(215, 1200, 0.06)], over),
                            {"verdict": r"^(?!.*(again|recovered))",
                             "now": r"; not shown to be within the limit since the change before row "
                                    r"1[34]\d\d\d; "}),
        # The stretch that is over the limit again begins before the change, because no later one is
        # long enough.
        "ten_just_back": (Situation(
            {**ten, "error_limit": 0.05},
            [classes(247, 2000, 0.15), classes(248, 10000), classes(249, 1100, 0.3)], over),
                          {"verdict": r"^(?!.*(again|recovered))", "now": r"; still over the limit; "}),
        # A stretch that begins at row 1025 is on average within the limit.
        "ten_average_recovered": (Situation(
            {**ten, "error_limit": 0.12}, [classes(241, 2000, 0.3), classes(242, 6500)], over),
                                  {"verdict": r", recovered since [-\d]+ [\d:]+ UTC \(row (2049|3073)\) "}),
        "number_average_recovered": (Situation(
            {"forecast": "normal", "error_limit": 0.12}, [numbers(243, 3000, 2.5), numbers(244, 5500)],
            over), {"verdict": r", recovered since [-\d]+ [\d:]+ UTC \(row (3073|4097)\) "}),
        "labels_average_recovered": (Situation(
            {**labels, "error_limit": 0.1},
            [several_labels(245, 2000, (0, 0, 0.4)), several_labels(246, 6100, (0, 0, 0))], over),
                                     {"where": r"label wind .*, on average within the limit since row "
                                               r"1025$"}),
        "ten_just_acknowledged": (Situation(
            {**ten, "error_limit": 0.05},
            [classes(216, 2000, 0.15), classes(217, 12000), acknowledge], forgotten), kept),
        "two_just_acknowledged": (Situation(
            {**two, "error_limit": 0.08},
            [two_classes(218, 2000, 0.2), two_classes(219, 12000), acknowledge], forgotten),
                                  {"now": kept["now"]}),
        "number_just_acknowledged": (Situation(
            {"forecast": "normal", "error_limit": 0.1},
            [numbers(220, 2000, 2.0), numbers(221, 15000), acknowledge], forgotten), kept),
        "labels_just_acknowledged": (Situation(
            {"labels": ["rain"], "error_limit": 0.08},
            [several_labels(222, 2000, [0.25]), several_labels(223, 15000, [0]), acknowledge],
            forgotten), kept),
        # The model as a whole is over its limit too.
        "ten_group_cause": (Situation(
            {**ten, "error_limit": 0.04, **region},
            [grouped(224, {"us": classes(225, 2500), "eu": classes(226, 1200, 0.5)})], over),
                            {"verdict": r"OVER_LIMIT, alarm on .* \(row \d+\), also in group eu "
                                        r"\(alarm at row \d+\), ",
                             "repair": r"^group eu is the cause, and a map for all rows can make "}),
        # Each group has its own row, and one is acknowledged.
        "ten_two_groups": (Situation(
            {**ten, "error_limit": 0.15, **region},
            [grouped(230, {"us": classes(231, 9000), "eu": classes(232, 1000, 0.4),
                           "asia": classes(233, 1000, 0.6)}), acknowledge_group("eu")], over),
                           {"verdict": r"^OVER_LIMIT in groups asia \(alarm at row \d+\), eu \(acknowledged\), "
                                       r"first alarm on .* \(row \d+\), ",
                            "where": r"^group asia .* points off \(.*\), group eu "}),
        "number_group_cause": (Situation(
            {"forecast": "normal", "error_limit": 0.15, **region},
            [grouped(227, {"us": numbers(228, 6000), "eu": numbers(229, 1000, 1.0, 2.0)})], over),
                               {"repair": r"^group eu is the cause: look at its rows first$"}),
        "labels_cause": (Situation(
            {**labels, "error_limit": 0.05}, [several_labels(234, 15000, (0, 0, 0.2))], over),
                         {"verdict": r" in label wind(?:, alarm on .* \(row \d+\)| \(alarm at row \d+\)), ",
                          "repair": r"^label wind is the cause: look at its probabilities and truths"}),
        # A person has accepted each of them, and the evidence goes on.
        "labels_accepted": (Situation(
            labels, [several_labels(240, 3000, (0.15, 0.1, 0.15)), acknowledge_limit], over),
                            {"verdict": r"^OVER_LIMIT \(acknowledged\), also in labels \w+, \w+, \w+ "
                                        r"\(all acknowledged\), MISCALIBRATED, alarm on ",
                             "where": r"^labels \w+, \w+, \w+ \(not measured yet since the acknowledgement",
                             "howBad": r"^was off by .* over rows 1 to 3000; no labelled row since$"}),
        "labels_two_off": (Situation(labels, [several_labels(235, 4000, (0.1, 0, 0.3))], over),
                           {"verdict": r" in labels wind \(alarm at row \d+\), rain \(alarm at row \d+\)"}),
        "labels_certain": (Situation(labels, [certain_labels(236, 2000)], over),
                           {"warning": r"All probabilities of the newest \d+ rows are exactly 0 or 1"}),
        "labels_in_blocks": (Situation({**labels, "error_limit": 0.2},
                                       [with_blocks_of_one_label(237, 4000)], over),
                             {"warning": r"The outcomes of label rain alone show this"}),
        # Files that are sorted by what is forecast. A stretch of one outcome looks like an error.
        "number_sorted": (Situation({"forecast": "normal", "error_limit": 0.1},
                                    [by_truth(numbers(250, 10500))], over),
                          {"warning": r"^Outcomes of neighbouring rows go together more than "}),
        "labels_sorted": (Situation({**labels, "error_limit": 0.1},
                                    [by_truth(several_labels(251, 6000, (0, 0, 0)))], over),
                          {"warning": r"^Outcomes of neighbouring rows go together more than "}),
        "ten_waiting": (Situation(
            {**ten, "label_grace": datetime.timedelta(hours=1)},
            [labels_later(classes(238, 300), 200)], "UNDECIDED INSUFFICIENT_DATA"),
                        {"verdict": r": no row is counted, because 300 rows wait, 200 of them labelled; "
                                    r"the first counts from 20\S+ \S+ UTC on$",
                         "next": r"^300 rows wait, 200 of them labelled; the first counts from "
                                 r"20\S+ \S+ UTC on; then calibctl show "}),
        "ten_without_labels": (Situation(
            {**ten, "label_grace": datetime.timedelta(hours=1)},
            [without_labels(classes(239, 300))], "UNDECIDED INSUFFICIENT_DATA"),
                               {"next": r"^300 rows wait for labels, the first of which must come by "
                                        r"20\S+ \S+ UTC; "}),
        "ten_all_dropped": (Situation(ten, [only_invalid_rows], "UNDECIDED INSUFFICIENT_DATA"),
                            {"verdict": r": no row is counted, because producers dropped 30 rows$",
                             "next": r"^the logs of the producers say why rows are dropped"}),
    }


def check_sentences(patterns, a):
    for line, pattern in patterns.items():
        require(re.search(pattern, a.said(line)), f"{line}: no {pattern!r} in {a.said(line)!r}")


def parts_over(a):
    """{name of a group or label: (its error or label, since when it is over the limit again)}"""
    parts = {group_name(group["value"], group["overflow"]): group["error"]
             for group in a.facts["groups"] if group["error"]["status"] == "OVER_LIMIT"}
    labels = a.facts.get("labels", {}).get("labels", [])
    return parts | {label["name"]: label for label in labels
                    if len(labels) > 1 and label["status"] == "OVER_LIMIT"}


def check_parts(_, a):
    """Each group and label over its limit is told with the row of its own alarm."""
    verdict, text = a.facts.get("verdict", {}), a.said("verdict")
    if verdict.get("limitStatus") != "OVER_LIMIT":
        return
    text = text.replace(" (all acknowledged)", " (acknowledged)")
    alarms = {group_name(alarm["groupValue"], alarm["isOverflowGroup"]) if "groupValue" in alarm
              else alarm["label"]: alarm for alarm in a.active("OVER_LIMIT")
              if "groupValue" in alarm or "label" in alarm}
    for name, part in parts_over(a).items():
        match = re.search(rf"(?:group|label)s? [^;]*?{re.escape(name)}(?: \((alarm at row (\d+)(?:, again "
                          r"since row (\d+))?|acknowledged)\)|(?! \())", text)
        if match is None:
            require(" other" in text, f"{name} is not told: {text}")
            continue
        if match[2]:
            same(f"row of {name}", match[2], alarms[name]["observation"])
            same(f"{name} again", match[3], part.get("overAgainSince"))
        elif match[1]:
            same(f"{name} is acknowledged", name in alarms, False)


def check_over_again(_, a):
    """An error that came back came back after it had recovered, and all channels say so."""
    error = a.facts.get("error", {})
    row = error.get("overAgainSince")
    same("now", re.findall(r"is over the limit again since row (\d+)", a.said("now")),
         [row] if row else [])
    own = re.match(r"OVER_LIMIT, alarm on [^,]*, again since row (\d+)", a.said("verdict"))
    same("verdict", own and own[1], row)
    for name, part in (("the model", error), *parts_over(a).items()):
        if "overAgainSince" not in part:
            continue
        same(f"status of {name}", part["status"], "OVER_LIMIT")
        require(not part.get("isRecovered") and "recoveredSince" not in part, f"{name}: {part}")
        first = min(int(alarm["observation"]) for alarm in a.active("OVER_LIMIT"))
        require(first < int(part["overAgainSince"]) <= int(a.facts["observations"]) - 999,
                f"{name} since {part['overAgainSince']}, and the alarm is of row {first}")
        if name != "the model":
            require(f"again since row {part['overAgainSince']}" in a.said("where"), a.said("where"))
    if row:
        require("off from the first rows on" not in a.said("changed"), a.said("changed"))


def check_kept_recovery(_, a):
    """After an acknowledgement of what had recovered, the newest rows are told until others come."""
    error = a.facts.get("error", {})
    newest, since = error.get("newest"), error.get("sinceAcknowledgement")
    is_kept = bool(newest and since and int(newest["firstObservation"]) < int(since["firstObservation"]))
    for text in (a.said("now"), a.facts["reading"].get("howBad", {}).get("brief", "")):
        same(f"before the acknowledgement: {text}", "all before the acknowledgement" in text, is_kept)
    if is_kept:
        same("rows since", since["observations"], "0")
        require(all(interval["upper"] <= error["limit"] for interval in intervals(newest).values()),
                f"a recovery that is over the limit: {newest}")
        require(error["status"] != "OVER_LIMIT", f"status: {error}")


def check_not_counted(_, a):
    """If no row is counted, the first line says why, and the numbers are those of `data`."""
    facts, text = a.facts, a.said("verdict")
    arrivals = facts.get("labelArrivals", {})
    numbers_ = {"producers dropped": facts["droppedRows"], "rejected": facts["rejectedRows"],
                "wait": arrivals.get("pending", "0")}
    has_reason = facts["observations"] == "0" and any(count != "0" for count in numbers_.values())
    same("no row is counted", ": no row is counted, because " in text,
         has_reason and "verdict" in facts)
    if not has_reason:
        return
    for pattern, fact in ((r"producers dropped (\d+)", facts["droppedRows"]),
                          (r"(\d+) rows? (?:was|were) rejected", facts["rejectedRows"]),
                          (r"(\d+) rows? waits?", arrivals.get("pending", "0"))):
        same(pattern, (re.findall(pattern, text) or ["0"])[0], fact)
    match = re.search(r"(?:counts? from|come by) (\S+ \S+) UTC", text)
    time = arrivals.get("nextMaturationTime")
    same("until", match and match[1], time and time[:16].replace("T", " "))
    if time:
        require(f"{match[0]}" in a.said("next"), f"next: {a.said('next')}")


CHECKS = (check_parts, check_over_again, check_kept_recovery, check_not_counted)
