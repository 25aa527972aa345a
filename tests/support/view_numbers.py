"""The numbers that the views show, from the JSON of calibctl."""
import decimal
import re

_HALF_UP = decimal.ROUND_HALF_UP
_TWO_DIGITS = decimal.Context(prec=2, rounding=_HALF_UP)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_FEW_BUCKETS = 3


def _shown(value):
    """As src/format.ts of the page has it."""
    exact = decimal.Decimal(value)
    if exact == 0:
        return "0"
    if abs(exact) >= decimal.Decimal("0.95"):
        return f"{float(exact.quantize(decimal.Decimal('0.1'), _HALF_UP)):.12g}"
    return f"{float(_TWO_DIGITS.create_decimal(exact)):.12g}"


def numbers_in(text):
    """The numbers in a text that people see, as a set of texts."""
    plain = text.replace("\u202f", "").replace("\u2212", "-")
    return {f"{float(number):.12g}" for number in _NUMBER.findall(plain)}


def forms_of(value):
    """All forms in which the numbers of JSON may be shown, as a set of texts."""
    if isinstance(value, str):
        # Integers of 64 bits are texts.
        return numbers_in(value) | (forms_of(float(value)) if _NUMBER.fullmatch(value) else set())
    if isinstance(value, dict):
        forms = {form for one in value.values() for form in forms_of(one)}
        if "stated" in value and "gap" in value:
            forms |= forms_of(value["stated"] - value["gap"])
        if "missingRate" in value:
            forms |= forms_of(1 - value["missingRate"])
        return forms
    if isinstance(value, list):
        return {form for one in value for form in forms_of(one)}
    if isinstance(value, bool) or value is None:
        return set()
    return {f"{value:.12g}", _shown(value), _shown(100 * value)}


# The texts of each part of the page of a model that may have numbers, by the id of the part, and the
# times by the name "times". Left out are sentences, which are the server's, ticks of axes, choices and
# commands.
SHOWN_PARTS = """return await page.evaluate(() => {
  const parts = {times: [...document.querySelectorAll('main time')].map((one) => one.dateTime)};
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const one = node.parentElement;
    if (one.closest('.banner, .sentences, time, option, pre, .axis g')) continue;
    const part = one.closest('section')?.getAttribute('aria-labelledby') ?? 'tiles';
    (parts[part] ??= []).push(node.data);
  }
  return parts;
});"""

# What the views say about every model.
_FIXED = re.compile("|".join(map(re.escape, (
    "log10", "95 % for each span", "95 % intervals", "95 % if calibrated", "has height 1",
    "with 90 % in each cell", "the middle 50, 80 and 90 %", "the middle 50 and 90 %", "better than 0"))))


def unknown_numbers(parts, answers):
    """The texts of SHOWN_PARTS with a number that is none of the answers from which the part is made, each with its part.
    answers: JSON by the commands of calibctl, and "other": the model to compare with.
    """
    times = _texts_of(answers)
    unknown = []
    for part, texts in parts.items():
        if part == "times":
            unknown += [(part, text) for text in texts if text not in times]
            continue
        forms = forms_of(_source_of(part, answers))
        unknown += [(part, text) for text in texts if not numbers_in(_FIXED.sub("", text)) <= forms]
    return unknown


def _texts_of(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in _texts_of(one)]
    return [value] if isinstance(value, str) else []


def _source_of(part, answers):
    """What the numbers of a part are made of: of rows without a server, all answers."""
    show = answers.get("show", {})
    evaluation = answers.get("evaluate", {})
    where = show.get("verdict", {}).get("whereabouts", {})
    model = answers.get("model", {})
    other = answers.get("other")
    diagrams = evaluation.get("reliability", [])
    error = show.get("error", {})
    names = model.get("classes", {}).get("names") or [
        f"class {k}" for k in range(int(model.get("classes", {}).get("count", 0)))]
    rows = [sum(int(one["n"]) for one in diagram["bins"]) for diagram in diagrams]
    corp = [[f"{value:.4f}" for value in one["corp"].values()] for one in diagrams if "corp" in one]
    if not show:
        return [answers.get("list", answers), rows, corp, tables_of(answers)]
    gaps = [one["meanPrediction"] - one["frequency"] for diagram in diagrams for one in diagram["bins"]]
    sources = {
        "tiles": [show.get("reading", {}).get("howBad"), error, show.get("labelArrivals"),
                  *(show.get(name) for name in ("observations", "rejectedRows", "droppedRows"))],
        "reliability": [diagrams, rows, names, other, show.get("scores", {}).get("bins"), show.get("insufficientData"),
                        corp],
        "label-diagram": [show.get("labels"), tables_of(answers).get("Labels: stated and observed")],
        "history": [answers.get("history"), error.get("limit"), show.get("watch"), show.get("alarms"),
                    # Of alarms whose marks lie on each other.
                    list(range(2, len(show.get("alarms", [])) + 1))],
        "groups": [show.get("groups")],
        "labels": [show.get("labels")],
        "classes": [where, names],
        "lenses": [evaluation.get("lenses")],
        "heat-map": [diagrams, [abs(gap) for gap in gaps], gaps, names, len(diagrams) - 1, len(names)],
        "pit": [where.get("cells"), sum(int(one["observations"]) for one in where.get("cells", []))],
        "coverage": [error],
        "fan": [answers.get("history")],
        "estimate": [answers.get("estimate")],
        "recalibration": [answers.get("recalibrate"), show.get("recalibration"), error.get("limit")],
        "comparison": [show.get("comparison"), show.get("baseline"), answers.get("compare"), other],
        "data": [show.get("labelArrivals"), names, show.get("warnings"),
                 *(show.get(name) for name in ("observations", "windowObservations", "rejectedRows", "droppedRows",
                                           "droppedLabels"))],
        "alarms": [show.get("alarms"), error],
        "source": [show.get("watch"), show.get("provenance")],
    }
    return sources[part]


def cells(rows):
    """Rows of a table, with numbers as numbers."""
    def cell(value):
        try:
            return float(value)
        except ValueError:
            return value
    return [[cell(value) for value in row] for row in rows]


def tables_of(answers):
    """The tables below the charts, by their titles."""
    show = answers.get("show", {})
    evaluation = answers.get("evaluate", {})
    forecast = answers.get("evaluate-forecasts", {})
    where = show.get("verdict", {}).get("whereabouts", {})
    error = show.get("error", {})
    measured = error.get("sinceAcknowledgement", error.get("sinceStart", {}))
    central = forecast.get("scores", measured).get("centralCoverage", [])
    buckets = answers.get("history", {}).get("buckets", [])
    assert not buckets or len(buckets) >= _FEW_BUCKETS
    diagrams = evaluation.get("reliability", [{}])
    estimators = answers.get("estimate", {}).get("estimators", [])
    labels = answers.get("evaluate-labels", show.get("labels", {})).get("labels", [])
    tables = {
        "Reliability diagram": [
            [*_bin(one), *_ends(one, "confidence"), *_ends(one, "consistency"), _yes(one, "outside")]
            for one in diagrams[0].get("bins", [])],
        "Error, evidence and rows over time": [_bucket(one) for one in buckets],
        "Calibration error by lens": [
            _lens(one) for one in evaluation.get("lenses", []) if "result" in one],
        "Classes by stated probability": _classes(where, diagrams, answers.get("model", {})),
        "Estimated error by estimator": [_estimator(one) for one in estimators],
        "Outcomes by their place in the forecast": [
            [one["lower"], one["upper"], one["observations"], one["expected"], one["z"],
             _yes(one, "standsOut")] for one in forecast.get("cells", where.get("cells", []))],
        "Coverage of central intervals": [
            [one[name] for name in ("nominal", "promised", "coverage", "lower", "upper")]
            for one in central],
        "Outcomes around their forecasts over time": [
            [one["startTime"], one["endTime"], one["observations"], one["direction"]["shift"],
             one["direction"]["scale"],
             *(interval["coverage"] for interval in one["forecast"]["centralCoverage"])]
            for one in buckets if "direction" in one],
        "Labels: stated and observed": [
            [one["name"], one["truths"], one["stated"], one["held"],
             one["stated"] - one["error"]["gapUpper"], one["stated"] - one["error"]["gapLower"],
             one["status"]] for one in labels if "error" in one],
    }
    return {title: cells(rows) for title, rows in tables.items() if rows}


def _bin(one):
    return [one[name] for name in ("lower", "upper", "n", "meanPrediction", "frequency")]


def _ends(one, name):
    band = one.get(name, {})
    return [band.get("lower", ""), band.get("upper", "")]


def _yes(one, name, no=""):
    return "yes" if one[name] else no


def _bucket(one):
    return [one["startTime"], one["endTime"], one["observations"], one["missingLabels"],
            *(one.get("error", {}).get(name, "") for name in ("estimate", "lower", "upper")),
            one.get("log10EValue", ""), one.get("maxLog10EValue", "")]


def _lens(one):
    result = one["result"]
    return [one["lens"], result["skceUnbiased"],
            result.get("noiseFloorUnbiased", {}).get("upperQuantile", ""),
            result.get("kceLowerBound", ""), result.get("kceUpperBound", ""),
            result["provenance"].get("bandwidth", "")]


def _estimator(one):
    return [one["estimator"].lower(), one["error"], one["errorStandardError"], one["squaredError"],
            one["excessRisk"], one["excessRiskStandardError"], one["parameter"],
            _yes(one, "betterThanZero", "no")]


def _classes(where, diagrams, model):
    """The classes that the server names as worst come first."""
    of_classes = {one["classIndex"]: one for one in diagrams if "classIndex" in one}
    if len(of_classes) < 2:
        return []
    names = model.get("classes", {}).get("names") or [f"class {k}" for k in of_classes]
    worst = [one["classIndex"] for one in where.get("classes", [])]
    order = [*worst, *(k for k in of_classes if k not in worst)]
    return [[names[k], *_bin(one), *_ends(one, "consistency"), _yes(one, "outside")]
            for k in order for one in of_classes[k]["bins"]]
