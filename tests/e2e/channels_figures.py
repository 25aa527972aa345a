"""The tables of `calibctl show --verbose`, the settings and the other metrics agree with the answer."""
import calendar
import re
import time

from channels_checks import plain, spoken_lines
from channels_numbers import close, current, intervals, require, same, same_number, same_printed


def column(text, title):
    """The value of a line of the table of numbers; None without it."""
    match = re.search(rf"^ *{re.escape(title)} +(\S.*)$", text, re.MULTILINE)
    return match and match[1]


def seconds(timestamp):
    """Seconds since 1970 of a time in JSON, without its fraction."""
    return calendar.timegm(time.strptime(timestamp[:19], "%Y-%m-%dT%H:%M:%S"))


def same_scientific(what, printed, fact):
    require(abs(float(printed) - fact) <= 0.0051 * abs(fact) + 1e-12, f"{what}: {printed}, not {fact!r}")


def check_verbose(_, a):
    """The numbers of `show --verbose` besides its first lines, which are those of `show`."""
    same("the first lines", plain(spoken_lines(a.verbose)), plain(spoken_lines(a.text)))
    facts = a.facts
    if facts.get("alarms"):
        require(a.alarms in a.verbose, "the alarms of `show --verbose` are not those of `alarms`")
    match = re.search(r"(\d+) observations? accepted, (\d+) rows? rejected, (\d+) dropped", a.verbose)
    if match:
        same("counts", match.groups(),
             (facts["observations"], facts["rejectedRows"], facts["droppedRows"]))
    watch = facts.get("watch")
    if watch is None or "evidence" not in watch:
        return
    evidence, drift = watch["evidence"], watch["drift"]
    first, highest = column(a.verbose, "log10 e-value"), re.search(
        r"log10 e-value .*\n +highest +(\S+) at row (\d+)\n +rejects at +(\S+)", a.verbose)
    same_printed("e-value", first, evidence["log10EValue"])
    same_printed("highest", highest[1], evidence["maxLog10EValue"])
    same("row", int(highest[2]), int(watch["firstObservation"]) - 1 + int(evidence["maxObservation"]))
    same_printed("rejects at", highest[3], evidence["threshold"])
    same_printed("drift", column(a.verbose, "log10 of the drift detector"), drift["log10Statistic"])
    match = re.search(r"drift detector .*\n +highest +(\S+)\n +alarm at +(\S+)", a.verbose)
    same_printed("highest drift", match[1], drift["maxLog10Statistic"])
    same_printed("alarm at", match[2], drift["threshold"])
    check_effect(a, watch)
    check_direction(a)
    check_classes(a)


def check_effect(a, watch):
    effect, discrepancy = watch.get("effectSize", {}), watch.get("discrepancy", {})
    for title, value in (("SKCE", effect.get("skce")),
                         ("calibrated: 95 % below", effect.get("noiseFloor")),
                         ("MMD^2", discrepancy.get("mmdSquared"))):
        if value is not None:
            same_scientific(title, column(a.verbose, title), value)
    for title, message, name in (("interval at all times", effect, "skce"),
                                 ("interval of MMD at all times", discrepancy, "mmd")):
        # The discrepancy of one row has bounds and no estimate.
        if f"{name}LowerBound" in message and column(a.verbose, title) is not None:
            lower, upper = column(a.verbose, title).split(" to ")
            same_scientific(title, lower, message[f"{name}LowerBound"])
            same_scientific(title, upper, message[f"{name}UpperBound"])
    for metric, field in (("calibd_effect_skce", "skce"),
                          ("calibd_effect_skce_noise_floor", "noiseFloor"),
                          ("calibd_effect_skce_lower_bound", "skceLowerBound"),
                          ("calibd_effect_skce_upper_bound", "skceUpperBound")):
        if field in effect:
            close(metric, a.metrics[metric, ""], effect[field])


def check_direction(a):
    direction = a.facts["verdict"].get("direction", {})
    forecast = direction.get("forecast", {})
    for title, value, scale in (
            ("mean confidence", direction.get("meanConfidence"), 100),
            ("accuracy", direction.get("accuracy"), 100), ("difference", direction.get("gap"), 100),
            ("fitted mean (0 if calibrated)", forecast.get("shift"), 1),
            ("fitted deviation (1 if calibrated)", forecast.get("scale"), 1),
            ("mean residual (0 if calibrated)", forecast.get("residualMean"), 1),
            ("residual deviation (1 if calibrated)", forecast.get("residualStandardDeviation"), 1)):
        printed = column(a.verbose, title)
        if printed is not None:
            same_printed(title, re.sub(" (%|points?)$", "", printed), scale * value)
    # The evidence and the error cover the same rows unless one of them began anew.
    measured = current(a.facts["error"])
    if measured["observations"] == a.facts["watch"]["observations"] and "topLabel" in measured:
        close("the gap of the error", direction["gap"], measured["topLabel"]["gap"], 1e-7)


def check_classes(a):
    places = a.facts["verdict"].get("whereabouts", {})
    lines = a.verbose.partition("\nClasses with the ")[2].split("\n\n")[0].splitlines()
    for share in places.get("classes", []):
        name = share["className"] or str(share["classIndex"])
        line = next(line.split() for line in lines if line.split()[:1] == [name])
        for printed, fact in zip(line[1:5], (100 * share["predicted"], 100 * share["observed"],
                                             share["z"], share["log10EValue"])):
            same_printed(f"class {line[0]}", printed, fact)
        same(f"class {line[0]} is rejected", line[-1] == "*", share["rejected"])
    for row in re.findall(r"^([\d.]+) to [\d.]+ +(\d+) +([\d.]+)(?: +([\d.]+))? +([-+]\S+)$", a.verbose,
                          re.MULTILINE):
        cells = places.get("confidenceBins") or places["cells"]
        cell = next(cell for cell in cells if abs(cell["lower"] - float(row[0])) < 6e-4)
        same("rows of the range", row[1], cell["observations"])
        same_printed("z", row[4], cell["z"])
        if "expected" in cell:
            same_printed("expected", row[2], cell["expected"])
        else:
            same_printed("says", row[2], 100 * cell["meanConfidence"])
            same_printed("right", row[3], 100 * cell["accuracy"])


def check_stretches(_, a):
    """The table of forecasts over all rows and over the newest ones."""
    table = a.verbose.partition("\nsince row ")[2].split("\n\n")[0].splitlines()[1:]
    table = [line for line in table if not line.startswith("WARNING: ")]
    error = a.facts.get("error", {"sinceStart": {}})
    stretches = [current(error), error.get("newest", {})] if "coverage" in current(error) else []
    if len(stretches) == 2 and stretches[0]["firstObservation"] == stretches[1].get("firstObservation"):
        stretches.pop()
    stretches = [one for one in stretches if "coverage" in one]
    same("stretches", len(table), len(stretches))
    for line, stretch in zip(table, stretches):
        row = line.split()
        same("rows", row[:2], [stretch["firstObservation"], stretch["observations"]])
        facts = [stretch["coverage"][part] for part in ("estimate", "lower", "upper")]
        facts += [one["coverage"] for one in stretch["centralCoverage"]]
        same("columns", len(row), 2 + len(facts))
        for printed, fact in zip(row[2:], facts):
            same_printed(f"stretch since {row[0]}", printed, 100 * fact)


def check_settings(_, a):
    """The verdict uses the declared settings."""
    monitoring = a.declared["monitoring"]
    for title, field in (("error limit", "errorLimit"), ("significance level", "significanceLevel"),
                         ("min observations", "minObservations")):
        match = re.search(rf"^{title} +(\S+)$", a.settings, re.MULTILINE)
        same(f"{title} is shown", bool(match), not monitoring["disabled"])
        if match:
            close(title, float(match[1]), float(monitoring[field]))
    if "error" in a.facts:
        same("limit", monitoring["errorLimit"], a.facts["error"]["limit"])
    if "evidence" in a.facts.get("watch", {}):
        close("level", 10**-a.facts["watch"]["evidence"]["threshold"], monitoring["significanceLevel"])
        close("run length", 10**a.facts["watch"]["drift"]["threshold"],
              1 + monitoring["averageRunLength"])
        same("rows", monitoring["minObservations"], a.facts["watch"]["minObservations"])
    changes = re.findall(r"^updated \S+: (.*)$", a.history_text, re.MULTILINE)
    same("updates", len(changes), len(a.history["updates"]))
    for line, one in zip(changes, a.history["updates"]):
        told = ", ".join(f"{c['path']} {c['oldValue']} -> {c['newValue']}" for c in one["changes"])
        require(line.startswith(told), f"{line!r}: {one}")


def check_metrics(_, a):
    """The metrics that no other check compares."""
    facts, metrics = a.facts, a.metrics
    for metric, value in (("rejected_rows_total", facts["rejectedRows"]),
                          ("dropped_rows_total", facts["droppedRows"]),
                          ("dropped_labels_total", facts["droppedLabels"])):
        same(metric, metrics[f"calibd_{metric}", ""], float(value))
    for kind in ("EVIDENCE", "DRIFT", "OVER_LIMIT", "CHANGED"):
        raised = min((seconds(alarm["raiseTime"]) for alarm in a.active(kind)), default=None)
        value = metrics.get(("calibd_alarm_raise_timestamp_seconds", f'kind="{kind.lower()}"'))
        same(f"time of {kind}", value and int(value), raised)
    for (metric, labels), value in metrics.items():
        if metric == "calibd_verdict":
            same(metric, value, 1.0)
        for estimate in facts["estimates"]:
            if labels == f'lens="canonical",estimator="block_{estimate["blockSize"]}"':
                check_estimate(metric, value, estimate)
    scores = facts.get("scores")
    if scores:
        close("Brier score", metrics["calibd_brier_score", ""], scores["brierScore"])
        close("log loss", metrics["calibd_log_loss", ""], scores["logLoss"])
        match = re.search(r"Scores: Brier (\S+), log loss (\S+), ECE (\S+),", a.verbose)
        for printed, field in zip(match.groups(), ("brierScore", "logLoss", "ece")):
            same_printed(field, printed, scores[field])
    if "error" in facts:
        shown = intervals(current(facts["error"])) or intervals(facts["error"]["sinceStart"])
        if "top_label" in shown:
            close("gap", metrics["calibd_confidence_minus_accuracy", ""], shown["top_label"]["gap"])
    for group in facts["groups"]:
        check_group(metrics, group)
    for label in facts.get("labels", {}).get("labels", []):
        key = f'label="{label["name"]}"'
        close("evidence", metrics["calibd_label_log10_e_value", key], label["log10EValue"])
        if "error" in label:
            same("truths", metrics["calibd_label_truths", key], float(label["truths"]))
            close("lower end", metrics["calibd_label_binned_error_lower_bound", key],
                  label["error"]["lower"])
            close("gap", metrics["calibd_label_stated_minus_held", key], label["stated"] - label["held"])
    if "drift" in facts.get("watch", {}):
        close("drift", metrics["calibd_drift_log10_statistic", ""],
              facts["watch"]["drift"]["log10Statistic"])
    check_forecast(metrics, facts)
    check_arrivals(metrics, facts.get("labelArrivals"))


def check_estimate(metric, value, estimate):
    fields = {"calibd_skce": "skce", "calibd_skce_lower_bound": "skceLowerBound",
              "calibd_test_p_value": "pValue", "calibd_test_statistic": "z"}
    if metric in fields:
        close(metric, value, estimate[fields[metric]])
    if metric == "calibd_skce_noise_floor":
        close(metric, value, estimate["noiseFloor"]["upperQuantile"])
    if metric == "calibd_estimate_samples":
        same(metric, value, float(estimate["blockCount"]) * estimate["blockSize"])


def check_group(metrics, group):
    key = f'group="{group["value"]}",overflow="{str(group["overflow"]).lower()}"'
    close("evidence", metrics["calibd_group_log10_e_value", key],
          group["watch"]["evidence"]["log10EValue"])
    shown = current(group["error"])
    shown = shown if intervals(shown) else group["error"]["sinceStart"]
    if intervals(shown):
        same("rows", metrics["calibd_group_observations", key], float(shown["observations"]))
        if "topLabel" in shown:
            close("gap", metrics["calibd_group_confidence_minus_accuracy", key],
                  shown["topLabel"]["gap"])


def check_forecast(metrics, facts):
    scores = facts.get("forecast", {})
    for metric, field in (("crps", "crps"), ("log_score", "logScore"), ("residual_mean", "residualMean"),
                          ("residual_standard_deviation", "residualStandardDeviation")):
        same(f"{metric} is known", (f"calibd_forecast_{metric}", "") in metrics, field in scores)
        if field in scores:
            close(metric, metrics[f"calibd_forecast_{metric}", ""], scores[field])
    for one in scores.get("centralCoverage", []):
        key = f'nominal="{one["nominal"]:g}"'
        close("coverage", metrics["calibd_forecast_coverage", key], one["coverage"])
        close("promised", metrics["calibd_forecast_promised_coverage", key], one["promised"])
    loss = facts.get("watch", {}).get("decision", {})
    for metric, field in (("realised_loss", "realisedLoss"), ("expected_loss", "expectedLoss"),
                          ("gap_lower_bound", "gapLowerBound"), ("gap_upper_bound", "gapUpperBound")):
        if loss:
            close(metric, metrics[f"calibd_forecast_decision_{metric}", ""], loss[field])


def check_arrivals(metrics, arrivals):
    if arrivals is None:
        return
    for outcome, field in (("taken", "predictions"), ("duplicate", "duplicatePredictions")):
        same(outcome, metrics["calibd_predictions_total", f'outcome="{outcome}"'],
             float(arrivals[field]))
    for outcome, count in arrivals["labels"].items():
        key = (("calibd_labels_waiting", "") if outcome == "waiting" else
               ("calibd_labels_total", f'outcome="{outcome}"'))
        same(outcome, metrics[key], float(count))
    totals = {"matured": 0, "unlabelled": 0}
    for (metric, _), value in metrics.items():
        for name in totals:
            if metric == f"calibd_predictions_{name}_total":
                totals[name] += value
    same("matured", totals["matured"], float(arrivals["matured"]))
    same_number("without a label", str(int(totals["unlabelled"])), int(arrivals["missing"]), 1e-9)


CHECKS = (check_verbose, check_stretches, check_settings, check_metrics)
