"""The numbers of an evaluation as lines: names and values."""
from __future__ import annotations

from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import monitoring_pb2 as monitoring


def count(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def interval(error: monitoring.ErrorInterval) -> str:
    """In percentage points. Beside an interval that begins at 0, the estimate is mostly noise."""
    ends = f"{100 * error.lower:.3g} to {100 * error.upper:.3g}"
    return f"{100 * error.estimate:.3g} ({ends})" if error.lower > 0 else ends


def forecast_lines(evaluated: evaluation.ForecastEvaluation) -> list[tuple[str, str]]:
    lines = [("CRPS", f"{evaluated.scores.crps:.4g}")]
    tests = [(name.replace("_", " "), getattr(evaluated, name))
             for name in ("quantile_calibration_error", "quantile_level_error", "cramer_von_mises",
                          "level_error") if evaluated.HasField(name)]
    if evaluated.decision.HasField("calibration_error"):
        tests.append(("decision calibration error", evaluated.decision.calibration_error))
    tests += [(f"MMD^2 {d.form}", d.test) for d in evaluated.discrepancies]
    if evaluated.HasField("local"):
        tests.append(("local error", evaluated.local.mean_error))
    lines += [(name, simulated(test)) for name, test in tests]
    return lines + _local_lines(evaluated.local)


def tested_lines(evaluated: evaluation.Evaluation) -> list[tuple[str, str]]:
    """How many rows the tests use, if not all."""
    tested, rows = evaluated.tested_observations, evaluated.observations
    return [("tested", f"{tested} of the {rows} rows, drawn at random")] if tested < rows else []


def simulated(test: evaluation.SimulatedStatistic) -> str:
    return (f"{test.value:.4g}, calibrated: below {test.replicate_upper_quantile:.3g} (95 %), "
            f"p = {test.p_value:.3g} for one look")


def _local_lines(local: evaluation.LocalCalibration) -> list[tuple[str, str]]:
    """The cases whose errors are significant, the largest first."""
    return [("near", ", ".join(f"{name} {value:.3g}" for name, value in zip(
        local.feature_names, place.features)) + f": 90 % intervals cover {100 * place.inside_90:.3g} "
        f"%, {100 * place.below_median:.3g} % below the median, about "
        f"{place.effective_observations:.0f} similar cases, p = {place.p_value:.3g}")
            for place in local.places if place.significant]


def action_lines(decision: evaluation.DecisionEvaluation) -> list[tuple[str, str]]:
    lines = []
    for action in decision.actions:
        text = f"{action.name}, chosen {count(action.observations, 'time')}"
        if action.observations:
            text += f": cost {action.realised_loss:.4g}, promised {action.expected_loss:.4g}"
        lines.append(("action", text))
    if decision.HasField("calibration_error"):
        lines.append(("decision calibration error", simulated(decision.calibration_error)))
    if decision.HasField("test"):
        lines.append(("given the action", f"p = {decision.test.p_value:.3g} for one look"))
    return lines


def test_lines(result: evaluation.QuadraticTestResult) -> list[tuple[str, str]]:
    forecasts = result.HasField("outcome_kernel")
    # The replicates are values of the statistic, which may approximate MMD_u^2.
    name, value, below = (("MMD^2", result.statistic, result.replicate_upper_quantile) if forecasts
                          else ("SKCE_uq", result.skce_unbiased,
                                result.noise_floor_unbiased.upper_quantile))
    lines = [(name, f"{value:.4g}; calibrated: below {below:.3g} (95 %)")]
    if result.HasField("p_value"):
        how = f"{result.replicates} replicates" if result.replicates else "a Pearson curve"
        lines.append(("p", f"{result.p_value:.3g} for one look, {how}"))
    if forecasts:
        return lines
    lines.append(("p bound", f"{result.p_value_upper_bound_unbiased:.3g}, for every n"))
    lines.append(("KCE", f"{result.kce_lower_bound:.3g} to {result.kce_upper_bound:.3g}"))
    return lines


def consistency_lines(evaluated: evaluation.Evaluation) -> list[tuple[str, str]]:
    """The test of the first ECE by resampling, or that it was not run."""
    if not evaluated.HasField("consistency_test"):
        return [("test of ECE", "not run, because there are no consistency_replicates")] if (
            evaluated.binned_errors) else []
    test = evaluated.consistency_test
    # The ECE of fewer rows is larger, because it is biased upwards.
    rows = ("" if evaluated.tested_observations == evaluated.observations else
            f" of the {evaluated.tested_observations} drawn rows")
    return [("test of ECE", f"{test.spec.WhichOneof('bins')}{rows}: calibrated "
             f"{test.replicate_mean:.3g} +- {test.replicate_standard_deviation:.2g}, "
             f"p = {test.p_value:.3g} for one look"),
            ("", test.caveat)]
