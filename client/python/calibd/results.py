"""Results: the messages of the protocol, with a short text and a table for notebooks."""
from __future__ import annotations

import pathlib
from collections.abc import Iterable
from html import escape
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from calibd import recalibration
from calibd.arguments import short_name
from calibd.arrays import Classes
from calibd.diagram import Band, Cell, Interval, Point, coverage_svg, reliability_svg
from calibd.v1 import calibration_service_pb2 as calibration
from calibd.v1 import comparison_pb2
from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1 import recalibration_pb2

_Message = TypeVar("_Message", bound=Message)

# A verdict shows so many groups over their limits, and so many characters of each.
_MAX_GROUPS = 3
_MAX_GROUP_NAME = 24


class Result(Generic[_Message]):
    """A message, `message`, all of whose fields are attributes of this object too."""

    def __init__(self, model: str, message: _Message) -> None:
        self.model = model
        self.message = message

    def __getattr__(self, name: str) -> Any:
        # Copies are made without __init__, and look for attributes before there is a message.
        if name == "message" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.message, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.message.DESCRIPTOR.fields_by_name]

    def _headline(self) -> str:
        raise NotImplementedError

    def _lines(self) -> list[tuple[str, str]]:
        """Names and values, the most important first."""
        raise NotImplementedError

    def _diagram(self) -> str:
        """SVG, or nothing."""
        return ""

    def __repr__(self) -> str:
        lines = self._lines()
        width = max((len(name) for name, _ in lines), default=0) + 2
        return "\n".join([f"{self.model}: {self._headline()}",
                          *(f"{name:<{width}}{value}" for name, value in lines)])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th>"
                       f"<td style='text-align:left'>{escape(value)}</td></tr>"
                       for name, value in self._lines())
        return (f"<div><b>{escape(self.model)}</b>: {escape(self._headline())}"
                f"<table>{rows}</table>{self._diagram()}</div>")


def _points_text(value: float) -> str:
    """As the server writes percentage points in its sentences."""
    points = 100 * value
    text = f"{points:.{2 if points < 1 else 1}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _off_by(estimate: float, lower: float, upper: float) -> str:
    if lower <= 0 and upper > 0.5:
        return f"off by 0 to {_points_text(upper)} points (too few rows to say more)"
    return (f"off by {_points_text(estimate)} points ({_points_text(lower)} to "
            f"{_points_text(upper)})")


def _power_of_ten(exponent: float) -> str:
    """As `calibctl show` writes it."""
    if abs(exponent) >= 6:
        return f"10^{exponent:.4g}"
    value = 10.0**exponent
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _exact(value: float) -> str:
    """The shortest text of exactly this number."""
    return repr(value).removesuffix(".0")


def _interval(error: monitoring.ErrorInterval) -> str:
    return f"{_off_by(error.estimate, error.lower, error.upper)}, {_direction(error.gap)}"


def _forecast_interval(error: monitoring.ErrorInterval, has_central: bool) -> str:
    text = _off_by(error.estimate, error.lower, error.upper)
    if not has_central:
        return text
    return (f"{text}, the widest intervals cover {_points_text(abs(error.gap))} "
            f"{'less' if error.gap > 0 else 'more'} than promised")


def _limit_status(verdict: monitoring.Verdict, error: monitoring.CalibrationError) -> str:
    """How far off the model itself is, and which groups are over their limits, as in calibctl."""
    groups = [_group_name(value) for value in verdict.groups_over_limit]
    is_own = not groups or error.status == monitoring.CalibrationError.OVER_LIMIT
    text: str = monitoring.CalibrationError.Status.Name(verdict.limit_status)
    if is_own and error.is_recent:
        text += " (recent)"
    if is_own and error.is_acknowledged:
        text += " (acknowledged)"
    if not groups:
        return text
    if is_own:
        group_is_active = error.is_acknowledged and not verdict.is_acknowledged
        text += ", OVER_LIMIT" if group_is_active else ", also"
    more = len(groups) - _MAX_GROUPS
    text += f" in group{'s' if len(groups) > 1 else ''} {', '.join(groups[:_MAX_GROUPS])}"
    text += f" and {more} more" if more > 0 else ""
    return text + (" (acknowledged)" if not is_own and verdict.is_acknowledged else "")


def _group_name(value: str) -> str:
    return value if len(value) <= _MAX_GROUP_NAME else value[:_MAX_GROUP_NAME - 3] + "..."


def _status(verdict: monitoring.Verdict, error: monitoring.CalibrationError) -> str:
    """As calibctl writes it."""
    status: str = monitoring.Verdict.Status.Name(verdict.status)
    if verdict.stale and status != "STALE":
        status += ", STALE"
    if verdict.limit_status == monitoring.CalibrationError.UNSPECIFIED:
        return status
    return f"{_limit_status(verdict, error)}, {status}"


def _worse(top_label: monitoring.ErrorInterval, class_1: monitoring.ErrorInterval) -> str:
    """The larger error. Only models of two classes have that of class 1."""
    if class_1.estimate > top_label.estimate:
        return f"the probability of class 1 is {_interval(class_1)}"
    return _interval(top_label)


def _direction(gap: float) -> str:
    confident = "over-confident" if gap > 0 else "under-confident"
    return f"{confident} by {_points_text(abs(gap))}"


def _estimate(estimate: evaluation.BlockEstimate) -> str:
    text = f"{estimate.skce:.4g}"
    if estimate.HasField("z"):
        text += f", z = {estimate.z:.3g}, p = {estimate.p_value:.3g} for one look"
    if estimate.HasField("noise_floor"):
        text += f"; calibrated: below {estimate.noise_floor.upper_quantile:.3g} (95 %)"
    return text


def _differences(compared: comparison_pb2.Comparison) -> list[tuple[str, str]]:
    return [(name, f"{score.difference:+.3g} ({score.lower:.3g} to {score.upper:.3g}), "
             + ("better" if score.upper < 0 else "worse" if score.lower > 0 else "undecided"))
            for name, score in (("log loss", compared.log_loss), ("Brier score", compared.brier),
                                ("binned error", compared.binned_error))]


def _coverage_lines(central: Iterable[monitoring.CentralCoverage]) -> list[tuple[str, str]]:
    return [("coverage", f"{100 * c.promised:.3g} % intervals cover {100 * c.coverage:.1f} "
             f"% ({100 * c.lower:.1f} to {100 * c.upper:.1f})") for c in central]


def _forecast_lines(evaluated: evaluation.ForecastEvaluation) -> list[tuple[str, str]]:
    lines = _coverage_lines(evaluated.scores.central_coverage)
    lines.append(("CRPS", f"{evaluated.scores.crps:.4g}"))
    if evaluated.HasField("decision"):
        lines.append(("decision", _decided(evaluated.decision)))
    tests = [(name.replace("_", " "), getattr(evaluated, name))
             for name in ("quantile_calibration_error", "quantile_level_error", "cramer_von_mises",
                          "level_error") if evaluated.HasField(name)]
    if evaluated.decision.HasField("calibration_error"):
        tests.append(("decision calibration error", evaluated.decision.calibration_error))
    tests += [(f"MMD^2 {d.form}", d.test) for d in evaluated.discrepancies]
    if evaluated.HasField("local"):
        tests.append(("local error", evaluated.local.mean_error))
    lines += [(name, _simulated(test)) for name, test in tests]
    return lines + _local_lines(evaluated.local)


def _simulated(test: evaluation.SimulatedStatistic) -> str:
    return (f"{test.value:.4g}, calibrated: below {test.replicate_upper_quantile:.3g} (95 %), "
            f"p = {test.p_value:.3g} for one look")


def _local_lines(local: evaluation.LocalCalibration) -> list[tuple[str, str]]:
    """The cases at which an error is significant."""
    return [("wrong near", ", ".join(f"{name} {value:.3g}" for name, value in zip(
        local.feature_names, place.features)) + f": 90 % intervals cover {100 * place.inside_90:.3g} "
        f"%, {100 * place.below_median:.3g} % below the median, about "
        f"{place.effective_observations:.0f} similar cases, p = {place.p_value:.3g}")
            for place in local.places if place.p_value <= 0.05]


def _decided(decision: evaluation.ForecastEvaluation.Decision) -> str:
    """As `calibctl evaluate-forecasts` writes it."""
    at = f"at {_exact(decision.threshold)}: "
    # An earlier server does not say the costs.
    if decision.false_alarm_cost in (0, 1) and decision.miss_cost in (0, 1):
        return (f"{at}{100 * decision.realised_loss:.3g} % of the decisions were wrong, the forecasts "
                f"expected {100 * decision.expected_loss:.3g} %")
    return (f"{at}they cost {decision.realised_loss:.4g} each, the forecasts expected "
            f"{decision.expected_loss:.4g} (a false alarm {decision.false_alarm_cost:g}, a miss "
            f"{decision.miss_cost:g})")


def _action_lines(decision: evaluation.DecisionEvaluation) -> list[tuple[str, str]]:
    """As `calibctl evaluate` writes them."""
    gap = decision.realised_loss - decision.expected_loss
    lines = [("decision", f"the actions cost {decision.realised_loss:.4g} on average, the predictions "
              f"promise {decision.expected_loss:.4g}: {gap:+.3g} ({decision.gap_lower_bound:+.3g} to "
              f"{decision.gap_upper_bound:+.3g})")]
    for action in decision.actions:
        text = f"{action.name}, chosen {_count(action.observations, 'time')}"
        if action.observations:
            text += f": cost {action.realised_loss:.4g}, promised {action.expected_loss:.4g}"
        lines.append(("action", text))
    if decision.HasField("calibration_error"):
        lines.append(("decision calibration error", _simulated(decision.calibration_error)))
    if decision.HasField("test"):
        lines.append(("given the action", f"p = {decision.test.p_value:.3g} for one look"))
    return lines


def _decision_text(loss: monitoring.DecisionLoss, first_observation: int = 0) -> str:
    """As `calibctl show` writes it."""
    declared = loss.decision
    gap = loss.realised_loss - loss.expected_loss
    at = f"at {_exact(declared.threshold)}: "
    since = f" since row {first_observation}" if first_observation > 1 else ""
    if declared.false_alarm_cost == declared.miss_cost == 1:
        text = (f"{at}{100 * loss.realised_loss:.1f} % of {loss.observations} decisions{since} were "
                f"wrong, the forecasts promise {100 * loss.expected_loss:.1f} %: {100 * gap:+.1f} "
                f"points ({100 * loss.gap_lower_bound:+.1f} to {100 * loss.gap_upper_bound:+.1f})")
    else:
        text = (f"{at}{loss.observations} decisions{since} cost {loss.realised_loss:.3g} each, the "
                f"forecasts promise {loss.expected_loss:.3g}: {gap:+.3g} "
                f"({loss.gap_lower_bound:+.3g} to {loss.gap_upper_bound:+.3g})")
    chance = loss.gap_lower_bound <= 0 <= loss.gap_upper_bound
    return text + ("; chance can explain the difference" if chance else "")


class Calibration(Result[calibration.GetCalibrationResponse]):
    """The running estimates and the verdict; fields of GetCalibrationResponse."""

    revision: int = 0

    def _headline(self) -> str:
        if self.message.HasField("verdict"):
            return self.message.verdict.summary
        if self.message.HasField("insufficient_data"):
            return self.message.insufficient_data.reason
        return f"{self.message.observations} observations, not monitored"

    @property
    def _current(self) -> monitoring.ErrorMeasurement:
        """The status and the limit apply to the rows since an acknowledgement, if there was one."""
        error = self.message.error
        return (error.since_acknowledgement if error.HasField("since_acknowledgement")
                else error.since_start)

    def _lines(self) -> list[tuple[str, str]]:
        m = self.message
        lines = []
        if m.HasField("verdict"):
            lines.append(("verdict", _status(m.verdict, m.error)))
        current = self._current
        # The scores are of all rows.
        all_rows = "; all rows" if current.first_observation > 1 else ""
        limit = f"; limit {_points_text(m.error.limit)}"
        if current.first_observation > 1:
            limit += f"; rows {current.first_observation} and later"
        if current.HasField("top_label"):
            name = "top label" if current.HasField("class_1") else "error"
            lines.append((name, _interval(current.top_label) + limit))
        if current.HasField("class_1"):
            lines.append(("class 1", _interval(current.class_1) + limit))
        if current.HasField("coverage"):
            error = current.coverage
            lines.append(("error", _off_by(error.estimate, error.lower, error.upper) + limit))
            lines += _coverage_lines(current.central_coverage)
        if m.error.is_recent and m.error.recent.HasField("forecast"):
            recent = m.error.recent.forecast
            lines.append((f"newest {recent.observations}",
                          _off_by(recent.coverage.estimate, recent.coverage.lower,
                                  recent.coverage.upper)))
            lines += _coverage_lines(recent.central_coverage)
        if m.watch.HasField("evidence"):
            evidence = m.watch.evidence
            lines.append(("e-value", f"{_power_of_ten(evidence.log10_e_value)}, highest "
                          f"{_power_of_ten(evidence.max_log10_e_value)}; calibration is rejected at "
                          f"{_power_of_ten(evidence.threshold)}"))
        if m.watch.HasField("decision"):
            lines.append(("decision", _decision_text(m.watch.decision, m.watch.first_observation)))
        if m.HasField("comparison"):
            lines.append((f"against {m.baseline}", "; ".join(
                f"{name} {text}" for name, text in _differences(m.comparison))))
        if m.HasField("forecast"):
            lines.append(("CRPS", f"{m.forecast.crps:.4g}{all_rows}"))
        if m.HasField("scores"):
            lines.append(("scores", f"accuracy {m.scores.accuracy:.4f}, log loss "
                          f"{m.scores.log_loss:.4f}, Brier {m.scores.brier_score:.4f}, ECE "
                          f"{m.scores.ece:.4f}{all_rows}"))
        lines += [(f"SKCE ({e.block_size})", _estimate(e)) for e in m.estimates if e.HasField("skce")]
        alarms = [alarm for alarm in m.alarms if not alarm.HasField("acknowledge_time")]
        if alarms:
            lines.append(("alarms", ", ".join(
                f"{alarm.id} ({monitoring.Alarm.Kind.Name(alarm.kind).lower()})"
                for alarm in alarms)))
        rows = f"{m.observations} counted, {m.rejected_rows} rejected, {m.dropped_rows} dropped"
        if m.label_arrivals.pending:
            first = m.label_arrivals.next_maturation_time.ToDatetime()
            rows += (f", {m.label_arrivals.pending} pending, the first of which counts on "
                     f"{first:%Y-%m-%d %H:%M} UTC")
        if m.label_arrivals.missing:
            rows += f", {m.label_arrivals.missing} without a label"
        lines.append(("rows", rows))
        lines += [("warning", text) for text in dict.fromkeys(
            (*m.warnings, *m.label_arrivals.warnings))]
        return lines

    def _diagram(self) -> str:
        if self.message.HasField("forecast"):
            # The intervals of the error. A model that is not monitored has no error.
            central = (self._current.central_coverage if self.message.HasField("error")
                       else self.message.forecast.central_coverage)
            return _coverage_svg(self.model, central)
        # People know the probability of class 1 of a model with two classes.
        scores = self.message.scores
        bins = scores.class_1_bins or scores.bins
        points = [Point(i / len(bins), (i + 1) / len(bins), b.observations, b.mean_confidence,
                        b.accuracy) for i, b in enumerate(bins) if b.observations]
        event = "class 1" if scores.class_1_bins else "the predicted class is right"
        rows = ", all rows" if self._current.first_observation > 1 else ""
        return reliability_svg(points, event, f"{short_name(self.model)}: {event}{rows}")


def _reliability_svg(model: str, reliability: evaluation.Reliability) -> str:
    event = (f"class {reliability.class_index}" if reliability.HasField("class_index")
             else "the predicted class is right")
    points = [Point(b.lower, b.upper, b.n, b.mean_prediction, b.frequency) for b in reliability.bins]
    band = [Band(b.prediction, b.consistency.lower, b.consistency.upper)
            for b in reliability.corp_band]
    steps = [(b.lower, b.upper, b.recalibrated) for b in reliability.corp_blocks]
    return reliability_svg(points, event, f"{short_name(model)}: {event}", band, steps)


def _coverage_svg(model: str, central: Iterable[monitoring.CentralCoverage],
                  cells: Iterable[monitoring.ForecastCell] = ()) -> str:
    return coverage_svg(
        [Interval(c.promised, c.coverage, c.lower, c.upper) for c in central],
        [Cell(c.lower, c.upper, c.observations, c.expected) for c in cells],
        f"{short_name(model)}: coverage")


def _test_lines(result: evaluation.QuadraticTestResult) -> list[tuple[str, str]]:
    lines = [("SKCE_uq", f"{result.skce_unbiased:.4g}; calibrated: below "
              f"{result.noise_floor_unbiased.upper_quantile:.3g} (95 %)")]
    if result.HasField("p_value"):
        lines.append(("p", f"{result.p_value:.3g} for one look, {result.replicates} replicates"))
    lines.append(("p bound", f"{result.p_value_upper_bound_unbiased:.3g}, for every n"))
    lines.append(("KCE", f"{result.kce_lower_bound:.3g} to {result.kce_upper_bound:.3g}"))
    return lines


class TestResult(Result[evaluation.QuadraticTestResult]):
    """The quadratic test; fields of QuadraticTestResult."""

    # Not a test of pytest.
    __test__ = False

    def _headline(self) -> str:
        provenance = self.message.provenance
        return f"test of {provenance.lens} on {provenance.observations} observations"

    def _lines(self) -> list[tuple[str, str]]:
        null = self.message.null_description
        return _test_lines(self.message) + ([("null", null)] if null else [])


class Evaluation(Result[evaluation.Evaluation]):
    """The complete evaluation of a window; fields of the message Evaluation."""

    def _headline(self) -> str:
        if self.message.HasField("forecast"):
            forecast = self.message.forecast
            return "coverage " + _off_by(forecast.coverage_error, forecast.coverage_error_lower,
                                         forecast.coverage_error_upper)
        return _worse(self.message.error, self.message.class_1_error)

    def _lines(self) -> list[tuple[str, str]]:
        if self.message.HasField("forecast"):
            return _forecast_lines(self.message.forecast)
        scores = self.message.scores
        lines = [("scores", f"accuracy {scores.accuracy:.4f}, log loss {scores.log_loss:.4f}, Brier "
                  f"{scores.brier:.4f}"),
                 ("direction", _direction(scores.confidence_minus_accuracy)),
                 ("Brier", f"{self.message.brier.miscalibration:.4g} miscalibration - "
                  f"{self.message.brier.discrimination:.4g} discrimination + "
                  f"{self.message.brier.uncertainty:.4g} uncertainty")]
        for lens in self.message.lenses:
            if lens.HasField("result"):
                lines += [(lens.lens if i == 0 else "", f"{name} {value}")
                          for i, (name, value) in enumerate(_test_lines(lens.result)[:2])]
            else:
                lines.append((lens.lens, lens.error))
        for error in self.message.binned_errors:
            kind = error.spec.WhichOneof("bins") or ""
            lines.append(("ECE", f"{error.ece:.4g} ({kind}, {error.bins} bins)"))
        if self.message.individual.HasField("test"):
            lines.append(("similar cases", f"MMD^2 {_simulated(self.message.individual.test)}"))
        if self.message.HasField("decision_loss"):
            lines += _action_lines(self.message.decision_loss)
        return lines

    def _diagram(self) -> str:
        if self.message.HasField("forecast"):
            forecast = self.message.forecast
            return _coverage_svg(self.model, forecast.scores.central_coverage, forecast.cells)
        # The diagram of class 1 shows all that the one of the top label shows of two classes.
        of_classes = [r for r in self.message.reliability if r.HasField("class_index")]
        shown = of_classes if self.message.HasField("class_1_error") and of_classes else (
            self.message.reliability)
        return "".join(_reliability_svg(self.model, r) for r in shown)


class Estimate(Result[calibration.CalibrationErrorEstimate]):
    """How large the calibration error is; fields of CalibrationErrorEstimate."""

    def _headline(self) -> str:
        lens = self.message.provenance.lens
        if not self.message.any_better_than_zero:
            return f"{lens}: no estimator is better than saying that the error is 0"
        error = next(e.error for e in self.message.estimators
                     if e.estimator == self.message.chosen)
        return (f"{lens}: off by {100 * error:.3g} points (root mean square), estimated by "
                f"{_estimator_name(self.message.chosen)}")

    def _lines(self) -> list[tuple[str, str]]:
        message = self.message
        lines = [(_estimator_name(e.estimator),
                  f"{100 * e.error:.3g} points +- {100 * e.error_standard_error:.2g}, "
                  f"risk minus that of 0: {e.excess_risk:.2g} +- {e.excess_risk_standard_error:.2g}")
                 for e in message.estimators]
        lines += [(_estimator_name(e.estimator), e.reason) for e in message.left_out]
        if message.HasField("simulation"):
            lines.append(("p-value", f"{message.simulation.p_value:.3g} (one look), "
                          f"{message.simulation.replicates} replicates"))
        return [*lines, ("seed", str(message.seed))]


def _estimator_name(estimator: calibration.EstimatorOutcome.Estimator) -> str:
    name: str = calibration.EstimatorOutcome.Estimator.Name(estimator)
    return name.lower()


class Comparison(Result[comparison_pb2.ModelComparison]):
    """Two models by their scores; fields of ModelComparison."""

    def __init__(self, model: str, baseline: str, message: comparison_pb2.ModelComparison) -> None:
        super().__init__(model, message)
        self.baseline = baseline

    def _headline(self) -> str:
        compared = self.message.comparison
        rows = f"against {self.baseline}, {compared.observations} observations"
        return f"{rows} that both scored" if compared.paired else f"{rows}, not the same for both"

    def _lines(self) -> list[tuple[str, str]]:
        return _differences(self.message.comparison)


class Recalibration(Result[recalibration_pb2.Recalibration]):
    """A map that makes probabilities better calibrated; fields of the message Recalibration.

    It needs no server: it can be pickled, or saved with save().
    """

    def __init__(self, model: str, message: recalibration_pb2.Recalibration, classes: Classes) -> None:
        super().__init__(model, message)
        self._classes = classes

    def transform(self, probabilities: Any) -> npt.NDArray[np.float64]:
        """Better calibrated probabilities, as a new array of float64.

        probabilities: n x class count in the order of the classes, also for two classes; a frame whose
        columns are the names of the classes, or their numbers; or one row, as a list, an array or a
        Series.
        """
        return recalibration.transform_of(self._classes, self.message.map, probabilities)

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the map as JSON: see recalibration.load_map()."""
        recalibration.save_map(self.message.map, path)

    def _headline(self) -> str:
        kind = self.message.map.kind
        if kind == "none":
            return "no map helps: none is known to lower the log loss"
        return f"{kind} helps" if self.message.helps else f"it is not certain that {kind} helps"

    def _lines(self) -> list[tuple[str, str]]:
        m = self.message
        data = ("data", f"{m.fit_observations} observations chose the map, "
                f"{m.test_observations} newer ones measured it")
        before = _worse(m.error_before, m.class_1_error_before)
        if m.map.kind == "none":
            return [("error", before), data]
        return [("log loss", f"{m.log_loss_before:.4f} -> {m.log_loss_after:.4f}, improvement "
                 f"{m.improvement:.4g} ({m.improvement_lower:.4g} to {m.improvement_upper:.4g})"),
                ("before", before),
                ("after", _worse(m.error_after, m.class_1_error_after)), data]


class Verdicts(Result[calibration.ListVerdictsResponse]):
    """The verdicts of all models; fields of ListVerdictsResponse."""

    def _headline(self) -> str:
        return (f"{_count(len(self.message.models), 'model')}, {self.message.rejected_models} of "
                f"{self.message.tested_models} tested ones rejected together")

    def _lines(self) -> list[tuple[str, str]]:
        return [(short_name(m.model),
                 _status(m.verdict, m.error) if m.HasField("verdict") else "not monitored")
                for m in self.message.models]


class History(Result[calibration.GetHistoryResponse]):
    """The calibration over time; fields of GetHistoryResponse."""

    def _headline(self) -> str:
        return (f"{_count(len(self.message.buckets), 'bucket')}, "
                f"{_count(self.message.total.observations, 'observation')}")

    def _lines(self) -> list[tuple[str, str]]:
        lines = []
        for b in self.message.buckets:
            text = _count(b.observations, "observation")
            if b.HasField("forecast") and b.HasField("error"):
                text += f", {_forecast_interval(b.error, bool(b.forecast.central_coverage))}"
            elif b.HasField("error"):
                text += f", {_worse(b.error, b.class_1_error)}"
            lines.append((f"{b.start_time.ToDatetime():%Y-%m-%d %H:%M}", text))
            if b.HasField("decision"):
                lines.append(("", f"decision {_decision_text(b.decision)}"))
        return lines
