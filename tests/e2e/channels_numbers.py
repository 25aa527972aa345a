"""The numbers in sentences of calibd, compared with facts."""
import math
import re

# The statement about an error: with an estimate, or without one if there are too few rows.
OFF_BY = re.compile(
    r"(?P<event>(?:P\([^)]*\)|the top label|it|label \S+|group (?:\(.*?\)|\S+)) was |"
    r"P\([^)]*\) |top label |(?:on average over \d+ labels|the labels on average) |)"
    r"off by (?:(?P<from>[\d.]+) to (?P<only>[\d.]+) points? \((?:(?P<few>too few rows to say more); )?"
    r"|(?P<estimate>[\d.]+) points? \((?P<lower>[\d.]+) to (?P<upper>[\d.]+); )"
    r"limit (?P<limit>[\d.]+) points?\)")
CONFIDENCE = re.compile(r"says (?P<says>[\d.]+) %, right (?P<right>[\d.]+) %(?:, and whether|"
                        r"(?P<both>: over-confident for some)|: (?P<side>over|under)-confident by (?P<gap>[\d.]+) points? "
                        r"\((?P<lower>[-\d.]+) to (?P<upper>[-\d.]+)\))")
STATED = re.compile(r"says (?P<says>[\d.]+) %, is (?P<is>[\d.]+) %(?:, and whether|"
                    r"(?P<both>: too high for some)|: (?:(?P<times>[\d.]+) times )?too (?P<side>high|low),? by (?P<gap>[\d.]+) points "
                    r"\((?P<lower>[-\d.]+) to (?P<upper>[-\d.]+)\))")
COVERS = re.compile(r"the (?P<promised>[\d.]+) % intervals cover (?P<coverage>[\d.]+) % "
                    r"\((?P<lower>[\d.]+) to (?P<upper>[\d.]+)\)(?P<conclusion>: too \w+|)")
BIAS = re.compile(r"on average (?:about )?(?P<size>[\d.]+) standard deviations too (?P<side>high|low)")
E_VALUE = re.compile(r"(?P<what>e-value|highest|rejection needs)(?: an e-value of)? "
                     r"(?:10\^(?P<power>-?[\d.]+)|(?P<value>[\d.]+(?:e[-+]\d+)?))")


def same_message(what, one, other):
    """Two messages in JSON; the error names the first field that differs."""
    if isinstance(one, dict) and isinstance(other, dict):
        for field in sorted({*one, *other}):
            same_message(f"{what}, {field}", one.get(field), other.get(field))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for i, (left, right) in enumerate(zip(one, other)):
            same_message(f"{what}[{i}]", left, right)
    else:
        same(what, one, other)


def same(what, one, other):
    if one != other:
        raise AssertionError(f"{what}: {one!r} is not {other!r}")


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def same_number(what, printed, fact, unit):
    """The printed number is the fact, rounded to the unit."""
    require(abs(float(printed) - fact) <= 0.5 * unit + 1e-9 * (1 + abs(fact)),
            f"{what}: {printed} is printed, the fact is {fact!r}")


def same_printed(what, printed, fact):
    """The printed number is the fact, rounded to the digits that are printed."""
    same_number(what, printed, fact, 10.0**-len(printed.partition(".")[2]))


def same_points(what, printed, fact):
    """Percentage points have one decimal, two below 1, and more beside a limit."""
    decimals = max(2 if float(printed) < 1 else 1, len(printed.partition(".")[2]))
    same_number(what, printed, 100 * fact, 10.0**-decimals)


def close(what, one, other, tolerance=1e-9):
    require(math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance),
            f"{what}: {one!r} is not {other!r}")


def ascending(*numbers):
    return all(low <= high + 1e-12 for low, high in zip(numbers, numbers[1:]))


def overlap(one, other):
    return max(one["lower"], other["lower"]) <= min(one["upper"], other["upper"])


def current(error):
    """The measurement to which the status of an error applies."""
    return error.get("sinceAcknowledgement", error["sinceStart"])


def intervals(measurement):
    """The intervals of a measurement, by the names that metrics give to their events."""
    names = {"topLabel": "top_label", "class1": "class_1", "coverage": "coverage", "labels": "labels"}
    return {event: measurement[field] for field, event in names.items() if field in measurement}


def is_same_event(found):
    """Whether the top label is always the same one of two classes."""
    return len(found) == 2 and all(
        math.isclose(abs(found["class_1"][part]), abs(found["top_label"][part]), abs_tol=1e-9)
        for part in ("estimate", "lower", "upper", "gap"))


def worst(measurement):
    """The event with the largest lower end, and its interval."""
    found = intervals(measurement)
    event = ("class_1" if is_same_event(found) else
             max(found, key=lambda name: (found[name]["lower"], found[name]["estimate"])))
    return event, found[event]


def check_interval(where, match, interval, limit):
    """A match of OFF_BY against an interval and its limit."""
    same_points(f"{where}, limit", match["limit"], limit)
    # The estimate is mostly noise.
    is_noise = interval["lower"] <= 0 or interval["lower"] <= limit < interval["estimate"]
    same(f"{where}, without an estimate", bool(match["only"]), is_noise)
    if match["only"]:
        same(f"{where}, few rows", bool(match["few"]),
             interval["lower"] <= 0 and interval["upper"] > 0.5)
        same_points(f"{where}, lower end", match["from"], interval["lower"])
        same_points(f"{where}, upper end", match["only"], interval["upper"])
        return
    for part in ("estimate", "lower", "upper"):
        same_points(f"{where}, {part}", match[part], interval[part])


def event_of(match, measurement):
    """The event that a match of OFF_BY is about."""
    if match["event"].startswith("P("):
        return "class_1"
    found = intervals(measurement)
    return next(name for name in ("coverage", "labels", "top_label") if name in found)


def leading(measurement, limit, lead):
    """The event that a sentence begins with: the worst one of `lead`, unless only the worst one of the
    measurement is over the limit."""
    found = intervals(measurement)
    same_event, worst_event = worst(lead)[0], worst(measurement)[0]
    if len(found) == 1 or same_event not in found:
        return worst_event
    only_worst = found[worst_event]["lower"] > limit >= found[same_event]["lower"]
    return worst_event if only_worst else same_event


def check_error_sentence(where, text, measurement, limit, lead):
    """All numbers of a sentence about a measurement, besides those of a former alarm. lead: the
    measurement whose worst event comes first."""
    found = intervals(measurement)
    told = [match for match in OFF_BY.finditer(text) if not match["event"].endswith("was ")]
    for match in told:
        check_interval(where, match, found[event_of(match, measurement)], limit)
    events = [event_of(match, measurement) for match in told]
    expected = [leading(measurement, limit, lead)]
    if len(found) == 2 and not is_same_event(found):
        expected += [event for event, interval in found.items() if event not in expected and
                     (interval["lower"] > limit or interval["gapLower"] > 0 or interval["gapUpper"] < 0)]
    same(f"{where}, events", events, expected)
    confidence, stated = CONFIDENCE.search(text), STATED.search(text)
    same(f"{where}, directions", (bool(confidence), bool(stated)),
         ("top_label" in events, "class_1" in events))
    if confidence:
        check_confidence(where, confidence, measurement)
    if stated:
        check_stated(where, stated, found["class_1"])
    if "coverage" in found:
        check_coverage(where, text, measurement)


def check_stated(where, match, interval):
    """A match of STATED against an interval of P(class 1)."""
    same_printed(f"{where}, says", match["says"], 100 * interval["stated"])
    same_printed(f"{where}, is", match["is"], 100 * (interval["stated"] - interval["gap"]))
    if match["side"] is None:
        require(interval["gapLower"] <= 0 <= interval["gapUpper"], f"{where}: no side, {interval}")
        # An error that is larger than the average gap can be has both directions.
        same(f"{where}, both sides", match["both"] is not None,
             interval["lower"] > max(interval["gapUpper"], -interval["gapLower"]))
        return
    sign = 1 if match["side"] == "high" else -1
    lower, upper = (interval["gapLower"], interval["gapUpper"])[::sign]
    same_printed(f"{where}, gap", match["gap"], 100 * sign * interval["gap"])
    larger, smaller = sorted((interval["stated"], interval["stated"] - interval["gap"]), reverse=True)
    says = interval["stated"]
    shown = says / (says - lower) if sign > 0 else (says - lower) / says
    has_ratio = larger >= 2 * smaller > 1e-14 and lower * sign > 0 and shown >= 2
    same(f"{where}, a factor", bool(match["times"]), has_ratio)
    if has_ratio:
        ratio = larger / smaller
        require(abs(float(match["times"]) - ratio) <= 0.06 * ratio, f"{where}: {ratio} times")
    same_printed(f"{where}, lower end of the gap", match["lower"], 100 * sign * lower)
    possible = says if sign > 0 else 1 - says
    same_printed(f"{where}, upper end of the gap", match["upper"], 100 * min(sign * upper, possible))


def check_confidence(where, match, measurement):
    interval = measurement["topLabel"]
    same_printed(f"{where}, says", match["says"], 100 * measurement["meanConfidence"])
    same_printed(f"{where}, right", match["right"], 100 * measurement["accuracy"])
    if match["side"] is None:
        require(interval["gapLower"] <= 0 <= interval["gapUpper"], f"{where}: no side, {interval}")
        # An error that is larger than the average gap can be has both directions.
        same(f"{where}, both sides", match["both"] is not None,
             interval["lower"] > max(interval["gapUpper"], -interval["gapLower"]))
        return
    sign = 1 if match["side"] == "over" else -1
    lower, upper = (interval["gapLower"], interval["gapUpper"])[::sign]
    same_points(f"{where}, gap", match["gap"], sign * interval["gap"])
    require(lower * sign > 0, f"{where}: a side, {interval}")
    # Each of the three figures is rounded on its own.
    same_number(f"{where}, the difference of the printed figures", match["gap"],
                abs(float(match["says"]) - float(match["right"])), 0.31)
    same_number(f"{where}, lower end of the gap", match["lower"], 100 * sign * lower, 0.1)
    same_number(f"{where}, upper end of the gap", match["upper"], 100 * sign * upper, 0.1)


def check_coverage(where, text, measurement):
    central = measurement["centralCoverage"]
    match = COVERS.search(text)
    require(match or not central, f"{where}: no coverage in {text!r}")
    if match:
        one = min(central, key=lambda one: abs(100 * one["promised"] - float(match["promised"])))
        same_number(f"{where}, promised", match["promised"], 100 * one["promised"], 0.1)
        for part in ("coverage", "lower", "upper"):
            same_number(f"{where}, {part}", match[part], 100 * one[part], 0.1)
        conclusion = (": too narrow" if one["upper"] < one["promised"] else
                      ": too wide" if one["lower"] > one["promised"] else "")
        # A bias may be the cause.
        is_caused = "because of this, the " in text
        same(f"{where}, conclusion", match["conclusion"], "" if is_caused else conclusion)
        require(not is_caused or (conclusion == ": too narrow" and BIAS.search(text)),
                f"{where}: {text!r}")
        require(conclusion or all(ascending(c["lower"], c["promised"], c["upper"]) for c in central),
                f"{where}: no conclusion in {text!r}")
    for match in BIAS.finditer(text):
        direction = measurement["direction"]
        mean = direction.get("residualMean", direction["shift"])
        same_printed(f"{where}, bias", match["size"], abs(mean))
        same(f"{where}, side", match["side"], "high" if mean < 0 else "low")


def check_e_value(where, match, log10):
    if match["power"]:
        require(abs(float(match["power"]) - log10) <= 5.1e-4 * max(1, abs(log10)),
                f"{where}: {match[0]}, the fact is {log10}")
    else:
        value = float(match["value"])
        require(math.isclose(value, 10**log10, rel_tol=0.0051), f"{where}: {match[0]}, the fact is "
                f"{10**log10}")
