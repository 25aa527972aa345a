"""Results: the messages of the protocol, with a short text and a table for notebooks."""
from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Iterable
from html import escape
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf import json_format
from google.protobuf.message import Message

from calibd import recalibration
from calibd.arguments import short_name
from calibd.arrays import Classes
from calibd.diagram import Band, Cell, Interval, Point, coverage_svg, reliability_svg
from calibd.v1 import calibration_service_pb2 as calibration
from calibd.v1 import comparison_pb2
from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1 import reading_pb2, recalibration_pb2

_Message = TypeVar("_Message", bound=Message)

# The layout of `calibctl show`: the width of a line, and the column where the words begin.
_WIDTH = 100
_INDENT = 10


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

    def to_dict(self) -> dict[str, Any]:
        """The message in protobuf's JSON mapping, as HTTP and `calibctl --output json` print it."""
        message: dict[str, Any] = json_format.MessageToDict(self.message,
                                                            including_default_value_fields=True)
        return message

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


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _reading_lines(reading: reading_pb2.Reading) -> list[tuple[str, str]]:
    """The titles and the words of a reading, in its order."""
    return [(field.name.replace("_", " "), getattr(reading, field.name).text)
            for field in reading.DESCRIPTOR.fields if reading.HasField(field.name)]


def _reading_text(name: str, reading: reading_pb2.Reading) -> str:
    """The text of `calibctl show`."""
    lines = _reading_lines(reading)
    lines[:1] = [(title, f"{name}: {words}") for title, words in lines[:1]]
    return "\n".join(textwrap.fill(f"{title:<{_INDENT}}{words}", _WIDTH,
                                   subsequent_indent=" " * _INDENT, break_long_words=False,
                                   break_on_hyphens=False) for title, words in lines)


def _interval(error: monitoring.ErrorInterval) -> str:
    """In percentage points."""
    return f"{100 * error.estimate:.3g} ({100 * error.lower:.3g} to {100 * error.upper:.3g})"


def _differences(compared: comparison_pb2.Comparison) -> list[str]:
    scores = (compared.log_loss, compared.brier, compared.binned_error,
              compared.crps, compared.log_score)
    return [score.text for score in scores if score.text]


def _forecast_lines(evaluated: evaluation.ForecastEvaluation) -> list[tuple[str, str]]:
    lines = [("CRPS", f"{evaluated.scores.crps:.4g}")]
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
    """The cases whose errors are significant, the largest first."""
    return [("near", ", ".join(f"{name} {value:.3g}" for name, value in zip(
        local.feature_names, place.features)) + f": 90 % intervals cover {100 * place.inside_90:.3g} "
        f"%, {100 * place.below_median:.3g} % below the median, about "
        f"{place.effective_observations:.0f} similar cases, p = {place.p_value:.3g}")
            for place in local.places if place.significant]


def _action_lines(decision: evaluation.DecisionEvaluation) -> list[tuple[str, str]]:
    lines = []
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


class Calibration(Result[calibration.GetCalibrationResponse]):
    """The running estimates and the verdict; fields of GetCalibrationResponse."""

    revision: int = 0

    def __repr__(self) -> str:
        return _reading_text(short_name(self.model), self.message.reading)

    def _headline(self) -> str:
        return self.message.reading.verdict.text

    def _lines(self) -> list[tuple[str, str]]:
        return _reading_lines(self.message.reading)[1:]

    @property
    def _current(self) -> monitoring.ErrorMeasurement:
        """The status and the limit apply to the rows since an acknowledgement, if there was one."""
        error = self.message.error
        return (error.since_acknowledgement if error.HasField("since_acknowledgement")
                else error.since_start)

    def _diagram(self) -> str:
        if self.message.HasField("labels"):
            return ""
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
    forecasts = result.HasField("outcome_kernel")
    # The replicates are values of the statistic, which may approximate MMD_u^2.
    name, value, below = (("MMD^2", result.statistic, result.replicate_upper_quantile) if forecasts
                          else ("SKCE_uq", result.skce_unbiased,
                                result.noise_floor_unbiased.upper_quantile))
    lines = [(name, f"{value:.4g}; calibrated: below {below:.3g} (95 %)")]
    if result.HasField("p_value"):
        lines.append(("p", f"{result.p_value:.3g} for one look, {result.replicates} replicates"))
    if forecasts:
        return lines
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
        return self.message.reading.verdict.text

    def _lines(self) -> list[tuple[str, str]]:
        lines = _reading_lines(self.message.reading)[1:]
        if self.message.HasField("forecast"):
            return lines + _forecast_lines(self.message.forecast)
        scores = self.message.scores
        lines += [("scores", f"accuracy {scores.accuracy:.4f}, log loss {scores.log_loss:.4f}, Brier "
                   f"{scores.brier:.4f}"),
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
        return self.message.text

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
        return [*lines, ("lens", message.provenance.lens), ("seed", str(message.seed))]


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
        return [("", text) for text in _differences(self.message.comparison)]


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
        return self.message.text

    def _lines(self) -> list[tuple[str, str]]:
        m = self.message
        lines = [("error before", _interval(m.error_before)), ("error after", _interval(m.error_after))]
        if m.HasField("class_1_error_after"):
            lines += [("class 1 before", _interval(m.class_1_error_before)),
                      ("class 1 after", _interval(m.class_1_error_after))]
        return [("log loss", f"{m.log_loss_before:.4f} -> {m.log_loss_after:.4f}, improvement "
                 f"{m.improvement:.4g} ({m.improvement_lower:.4g} to {m.improvement_upper:.4g})"),
                *lines, ("data", f"{m.fit_observations} observations chose the map, "
                         f"{m.test_observations} {'other' if m.HasField('change') else 'newer'} ones "
                         "measured it")]


class Verdicts(Result[calibration.ListVerdictsResponse]):
    """The verdicts of all models; fields of ListVerdictsResponse."""

    def _headline(self) -> str:
        return (f"{_count(len(self.message.models), 'model')}, {self.message.rejected_models} of "
                f"{self.message.tested_models} tested ones rejected together")

    def _lines(self) -> list[tuple[str, str]]:
        return [(short_name(m.model), m.reading.verdict.text) for m in self.message.models]


class History(Result[calibration.GetHistoryResponse]):
    """The calibration over time; fields of GetHistoryResponse."""

    def _headline(self) -> str:
        return (f"{_count(len(self.message.buckets), 'bucket')}, "
                f"{_count(self.message.total.observations, 'observation')}")

    def _lines(self) -> list[tuple[str, str]]:
        """The errors are in percentage points."""
        lines = []
        for b in self.message.buckets:
            text = _count(b.observations, "observation")
            if b.HasField("error"):
                text += f", error {_interval(b.error)}"
            for label in b.labels[:1]:
                text += (f", {label.name} {100 * (label.stated - label.held):+.1f} "
                         f"({100 * label.gap_lower:+.1f} to {100 * label.gap_upper:+.1f})")
            if b.HasField("class_1_error"):
                text += f", class 1 {_interval(b.class_1_error)}"
            if b.HasField("decision"):
                text += (f", decisions cost {b.decision.realised_loss:.3g}, promised "
                         f"{b.decision.expected_loss:.3g}")
            lines.append((f"{b.start_time.ToDatetime():%Y-%m-%d %H:%M}", text))
        return lines
