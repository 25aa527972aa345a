"""Results: the messages of the protocol, with a short text and a table for notebooks."""
from __future__ import annotations

import enum
import math
import pathlib
from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from calibd import errors, recalibration
from calibd.arguments import short_name
from calibd.arrays import Classes
from calibd.diagram import Band, Cell, Interval, Point, coverage_svg, reliability_svg
from calibd.evaluation_lines import (action_lines, consistency_lines, count, forecast_lines, interval,
                                     simulated, test_lines, tested_lines)
from calibd.facts import Facts
from calibd.reading_text import INDENT, reading_lines, reading_text, table_html, table_text, wrapped
from calibd.v1 import calibration_service_pb2 as calibration
from calibd.v1 import comparison_pb2
from calibd.v1 import evaluation_pb2 as evaluation
from calibd.v1 import monitoring_pb2 as monitoring
from calibd.v1 import multilabel_pb2, reading_pb2, recalibration_pb2

if TYPE_CHECKING:
    import pandas

_Message = TypeVar("_Message", bound=Message)


class Status(str, enum.Enum):
    """How far off a model is, against its limit; see CalibrationError.Status of the protocol.

    Each equals its text: Status.OVER_LIMIT == "OVER_LIMIT".
    """

    UNDECIDED = "UNDECIDED"
    WITHIN_LIMIT = "WITHIN_LIMIT"
    OVER_LIMIT = "OVER_LIMIT"

    # Versions of Python differ in the text that format() makes of an enum without this line.
    __str__ = str.__str__


class Result(Facts[_Message]):
    """A message with the name of its model, `model`, and a text for people; see Facts."""

    def __init__(self, model: str, message: _Message) -> None:
        super().__init__(message)
        self.model = model

    # Whether the values are sentences, which are wrapped, and not rows of a table.
    _has_sentences = False

    def _headline(self) -> str:
        raise NotImplementedError

    def _lines(self) -> list[tuple[str, str]]:
        """Names and values, the most important first."""
        raise NotImplementedError

    def _diagram(self) -> str:
        """SVG, or nothing."""
        return ""

    def _table(self) -> reading_pb2.Table | None:
        """A table below the lines."""
        return None

    def __repr__(self) -> str:
        lines = self._lines()
        width = max((len(name) for name, _ in lines), default=0) + 2
        texts = [f"{self.model}: {self._headline()}",
                 *(f"{name:<{width}}{value}" for name, value in lines)]
        return self._with_table("\n".join([wrapped(text, width) for text in texts]
                                          if self._has_sentences else texts))

    def _with_table(self, text: str) -> str:
        table = self._table()
        return text if table is None else f"{text}\n\n{table_text(table)}"

    def _repr_html_(self) -> str:
        table = self._table()
        rows = "".join(f"<tr><th style='text-align:left'>{escape(name)}</th>"
                       f"<td style='text-align:left'>{escape(value)}</td></tr>"
                       for name, value in self._lines())
        return (f"<div><b>{escape(self.model)}</b>: {escape(self._headline())}"
                f"<table>{rows}</table>{'' if table is None else table_html(table)}"
                f"{self._diagram()}</div>")


def _class_1(name: str) -> str:
    """The probability of class 1 of two classes, as calibctl names it."""
    return f"P(class {name or 1})" if not name or name.isdigit() else f"P({name})"


def _differences(compared: comparison_pb2.Comparison) -> list[str]:
    scores = (compared.log_loss, compared.brier, compared.binned_error,
              compared.crps, compared.log_score)
    return [score.text for score in scores if score.text]


class Measurement(Facts[monitoring.ErrorMeasurement]):
    """The error over the observations since one of them; fields of ErrorMeasurement."""

    @property
    def error(self) -> monitoring.ErrorInterval:
        """How far off these predictions are: `estimate`, `lower` and `upper` in [0, 1], and `gap`.

        Of two classes it is the error of the top label or of class 1, whichever is worse, as in the
        text; see ErrorMeasurement.class_1_is_worse of the protocol. Raises FailedPrecondition if
        there is no observation yet.
        """
        message = self.message
        if message.class_1_is_worse:
            return message.class_1
        # A model has one kind of them.
        for name, measured in (("coverage", message.coverage), ("labels", message.labels),
                               ("top_label", message.top_label)):
            if message.HasField(name):
                return measured
        raise errors.FailedPrecondition("there is no labelled observation yet, so the error is not "
                                        "known: ask again when there are some",
                                        reason="INSUFFICIENT_DATA")


class _Judged(Result[_Message]):
    """An answer that says whether an error is within its limit."""

    @property
    def status(self) -> Status:
        """How far off the predictions are, against the limit."""
        raise NotImplementedError

    @property
    def over_limit(self) -> bool:
        """Whether the status is OVER_LIMIT. False is no proof that the error is within its limit."""
        return self.status is Status.OVER_LIMIT

    def assert_within_limit(self) -> None:
        """Raises AssertionError with the text of the answer unless the status is WITHIN_LIMIT.

        To accept too little data to decide: `assert not answer.over_limit, answer`.
        """
        if self.status is not Status.WITHIN_LIMIT:
            raise AssertionError(
                f"{short_name(self.model)} is {self.status}, expected WITHIN_LIMIT: "
                f"{self._error_text()}; {self._way_out()}\n{self._grounds()}".strip())

    def _error_text(self) -> str:
        """The error with its interval and its limit."""
        raise NotImplementedError

    def _way_out(self) -> str:
        """What makes the status WITHIN_LIMIT."""
        if self.status is Status.UNDECIDED:
            return "give more rows or a larger error_limit"
        return "repair the probabilities (recalibrate), or give a larger error_limit"

    def _grounds(self) -> str:
        """What else a failed test says."""
        raise NotImplementedError


def _error_of(group: evaluation.EvaluatedGroup) -> monitoring.ErrorInterval:
    """Of two classes, the error of the worse event."""
    return group.class_1_error if group.class_1_is_worse else group.error


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise errors.Unimplemented(f"the status {text} is not known to this version of the package: "
                                   "install the one of the server") from None


class Calibration(_Judged[calibration.GetCalibrationResponse]):
    """The running estimates and the verdict; fields of GetCalibrationResponse."""

    revision: int = 0

    @property
    def status(self) -> Status:
        """How far off the model is, against its limit, groups and labels included.

        WITHIN_LIMIT, OVER_LIMIT, or UNDECIDED while there is too little data. OVER_LIMIT stays until
        the alarm is acknowledged. Raises FailedPrecondition if the model is not monitored.
        """
        self._check_monitored()
        return _status(Facts(self.message.verdict).limit_status)

    @property
    def now(self) -> Measurement:
        """The error of the newest observations, up to 2023 of them; of all of them while they are few.

        Its intervals hold however often one looks; see CalibrationError.newest of the protocol. Raises
        FailedPrecondition if the model is not monitored.
        """
        self._check_monitored()
        error = self.message.error
        return Measurement(error.newest if error.HasField("newest") else self._current)

    def _error_text(self) -> str:
        return self.message.reading.how_bad.text

    def _way_out(self) -> str:
        if self.status is Status.UNDECIDED:
            return "send more rows, or give the model a larger error_limit"
        return "repair the model (recalibrate), or give it a larger error_limit"

    def _grounds(self) -> str:
        return repr(self)

    def _check_monitored(self) -> None:
        if not self.message.HasField("verdict"):
            raise errors.FailedPrecondition(
                f"{short_name(self.model)} is not monitored, so no error is measured against its limit: "
                "create it with monitoring, perhaps as a new version")

    def __repr__(self) -> str:
        return self._with_table(reading_text(short_name(self.model), self.message.reading))

    def _table(self) -> reading_pb2.Table | None:
        return self.message.labels.table if self.message.HasField("labels") else None

    def _headline(self) -> str:
        return self.message.reading.verdict.text

    def _lines(self) -> list[tuple[str, str]]:
        return reading_lines(self.message.reading)[1:]

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
        event = (_class_1(scores.class_1_name) if scores.class_1_bins
                 else "the predicted class is right")
        rows = ", all rows" if self._current.first_observation > 1 else ""
        return reliability_svg(points, event, f"{short_name(self.model)}: {event}{rows}")


def _reliability_svg(model: str, reliability: evaluation.Reliability,
                     evaluated: evaluation.Evaluation) -> str:
    is_class_1 = reliability.class_index == 1 and evaluated.HasField("class_1_error")
    event = ("the predicted class is right" if not reliability.HasField("class_index")
             else _class_1(evaluated.class_1_name) if is_class_1
             else f"class {reliability.class_index} (counted from 0)")
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


class TestResult(Result[evaluation.QuadraticTestResult]):
    """The quadratic test; fields of QuadraticTestResult."""

    # Not a test of pytest.
    __test__ = False

    def _headline(self) -> str:
        provenance = self.message.provenance
        return f"test of {provenance.lens} on {provenance.observations} observations"

    def _lines(self) -> list[tuple[str, str]]:
        null = self.message.null_description
        return test_lines(self.message) + ([("null", null)] if null else [])


class Evaluation(_Judged[evaluation.Evaluation]):
    """The complete evaluation of a window or of arrays; fields of the message Evaluation."""

    _has_sentences = True

    @property
    def status(self) -> Status:
        """WITHIN_LIMIT, OVER_LIMIT, or UNDECIDED if there are too few rows; groups included."""
        return _status(Facts(self.message).limit_status)

    @property
    def worst_error(self) -> monitoring.ErrorInterval:
        """The error that decides the status, without groups: `estimate`, `lower`, `upper` in [0, 1].

        Of two classes, `error` is that of the top label and `class_1_error` that of class 1, and
        `class_1_decides` says which one it is. Of forecasts it is the coverage error.
        """
        message = self.message
        if message.HasField("forecast"):
            found = message.forecast
            return monitoring.ErrorInterval(
                estimate=found.coverage_error, lower=found.coverage_error_lower,
                upper=found.coverage_error_upper)
        return message.class_1_error if message.class_1_decides else message.error

    def _error_text(self) -> str:
        return self.message.reading.how_bad.text

    def _grounds(self) -> str:
        lines = [line for line in reading_lines(self.message.reading)
                 if line[0] not in ("verdict", "how bad")] + self._group_lines()
        return "\n".join(wrapped(f"{title:<{INDENT}}{words}", INDENT) for title, words in lines)

    def _group_lines(self) -> list[tuple[str, str]]:
        """The groups, the worst first."""
        groups = sorted(self.message.groups, key=lambda group: _error_of(group).lower, reverse=True)
        return [(f"group {group.name or '(none)'}",
                 f"off by {interval(_error_of(group))} points, {count(group.observations, 'row')}, "
                 f"{Facts(group).status}{', MISCALIBRATED' if group.rejected else ''}")
                for group in groups]

    def _headline(self) -> str:
        return self.message.reading.verdict.text

    def _lines(self) -> list[tuple[str, str]]:
        lines = reading_lines(self.message.reading)[1:] + self._group_lines()
        if self.message.HasField("forecast"):
            return lines + forecast_lines(self.message.forecast) + tested_lines(self.message)
        scores = self.message.scores
        lines += [("scores", f"accuracy {scores.accuracy:.4f}, log loss {scores.log_loss:.4f}, Brier "
                   f"{scores.brier:.4f}"),
                  ("Brier", f"{self.message.brier.miscalibration:.4g} miscalibration - "
                   f"{self.message.brier.discrimination:.4g} discrimination + "
                   f"{self.message.brier.uncertainty:.4g} uncertainty")]
        if not any(lens.result.HasField("p_value") for lens in self.message.lenses):
            lines.append(("tests", "the lenses were not tested, because there are no replicates"))
        for lens in self.message.lenses:
            if lens.HasField("result") and not lens.result.HasField("p_value"):
                lines.append((lens.lens, " ".join(test_lines(lens.result)[0])))
            elif lens.HasField("result"):
                lines += [(lens.lens if i == 0 else "", f"{name} {value}")
                          for i, (name, value) in enumerate(test_lines(lens.result)[:2])]
            else:
                lines.append((lens.lens, lens.error))
        for error in self.message.binned_errors:
            kind = error.spec.WhichOneof("bins") or ""
            lines.append(("ECE", f"{error.ece:.4g} ({kind}, {error.bins} bins)"))
        lines += consistency_lines(self.message)
        if self.message.individual.HasField("test"):
            lines.append(("similar cases", f"MMD^2 {simulated(self.message.individual.test)}"))
        if self.message.HasField("decision_loss"):
            lines += action_lines(self.message.decision_loss)
        return lines

    def _diagram(self) -> str:
        if self.message.HasField("forecast"):
            forecast = self.message.forecast
            return _coverage_svg(self.model, forecast.scores.central_coverage, forecast.cells)
        # The diagram of class 1 shows all that the one of the top label shows of two classes.
        of_classes = [r for r in self.message.reliability if r.HasField("class_index")]
        shown = of_classes if self.message.HasField("class_1_error") and of_classes else (
            self.message.reliability)
        return "".join(_reliability_svg(self.model, r, self.message) for r in shown)


class LabelEvaluation(_Judged[multilabel_pb2.MultilabelCalibration]):
    """The evaluation of predictions of several labels; fields of MultilabelCalibration."""

    def __init__(self, model: str, message: multilabel_pb2.MultilabelCalibration, text: str,
                 status: int) -> None:
        super().__init__(model, message)
        self._texts = text.strip().split("\n")
        self._limit_status = status

    @property
    def status(self) -> Status:
        """WITHIN_LIMIT, OVER_LIMIT, or UNDECIDED if there are too few rows: of any label or of all."""
        return _status(monitoring.CalibrationError.Status.Name(self._limit_status))

    def _error_text(self) -> str:
        return self._texts[1].strip().removesuffix(".")

    def _grounds(self) -> str:
        return "\n".join(text.strip() for text in self._texts[2:])

    def _headline(self) -> str:
        return self._texts[0]

    def _lines(self) -> list[tuple[str, str]]:
        return [("", text) for text in self._texts[1:]]

    def _table(self) -> reading_pb2.Table | None:
        return self.message.table


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
    """A map that makes predictions better calibrated; fields of the message Recalibration.

    It needs no server: it can be pickled, or saved with save().
    """

    def __init__(self, model: str, message: recalibration_pb2.Recalibration, classes: Classes) -> None:
        super().__init__(model, message)
        self._classes = classes

    @property
    def map(self) -> recalibration_pb2.RecalibrationMap:
        """The map alone, for transform() of the package."""
        return self.message.map

    @property
    def levels(self) -> list[float]:
        """The levels of the quantiles that transform() gives for forecasts of a number, else empty."""
        forecast = self._classes.forecast
        return [] if forecast is None else recalibration.repaired_levels(forecast)

    def transform(self, predictions: Any) -> npt.NDArray[np.float64]:
        """Better calibrated probabilities, or quantiles of forecasts, as a new array of float64.

        predictions: of classes, n x class count in the order of the classes, also for two classes; a
        frame whose columns are the names of the classes, or their numbers; or one row, as a list, an
        array, a Series or a dictionary. Forecasts of a number: n rows as the model has them; the result
        has n x levels quantiles.
        """
        forecast = self._classes.forecast
        if forecast is not None:
            return recalibration.repair_forecasts(forecast, self.message.map, predictions)
        return recalibration.transform_of(self._classes, self.message.map, predictions)

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the map as JSON: see recalibration.load_map()."""
        recalibration.save_map(self.message.map, path)

    def _headline(self) -> str:
        return self.message.text

    def _lines(self) -> list[tuple[str, str]]:
        m = self.message
        lines = [("error before", interval(m.error_before)), ("error after", interval(m.error_after))]
        if m.HasField("class_1_error_after"):
            event = _class_1(m.class_1_name)
            lines += [(f"{event} before", interval(m.class_1_error_before)),
                      (f"{event} after", interval(m.class_1_error_after))]
        of_numbers = m.HasField("pinball_loss_before")
        before, after = ((m.pinball_loss_before, m.pinball_loss_after) if of_numbers
                         else (m.log_loss_before, m.log_loss_after))
        return [("twice the pinball loss" if of_numbers else "log loss",
                 f"{before:.4f} -> {after:.4f}, improvement "
                 f"{m.improvement:.4g} ({m.improvement_lower:.4g} to {m.improvement_upper:.4g})"),
                *lines, ("data", f"{m.fit_observations} observations chose the map, "
                         f"{m.test_observations} {'other' if m.HasField('change') else 'newer'} ones "
                         "measured it")]


class Verdicts(Result[calibration.ListVerdictsResponse]):
    """The verdicts of all models; fields of ListVerdictsResponse."""

    def _headline(self) -> str:
        return (f"{count(len(self.message.models), 'model')}, {self.message.rejected_models} of "
                f"{self.message.tested_models} tested ones rejected together")

    def _lines(self) -> list[tuple[str, str]]:
        return [(short_name(m.model), m.reading.verdict.text + (
            "; a warning says why numbers may be false" if m.reading.HasField("warning") else ""))
                for m in self.message.models]


class History(Result[calibration.GetHistoryResponse]):
    """The calibration over time; fields of GetHistoryResponse."""

    def _headline(self) -> str:
        return (f"{count(len(self.message.buckets), 'bucket')}, "
                f"{count(self.message.total.observations, 'observation')}")

    def _lines(self) -> list[tuple[str, str]]:
        """The errors are in percentage points."""
        lines = []
        for b in self.message.buckets:
            text = count(b.observations, "observation")
            if b.HasField("error"):
                text += f", error {interval(b.error)}"
            for label in b.labels[:1]:
                text += (f", {label.name} {100 * (label.stated - label.held):+.1f} "
                         f"({100 * label.gap_lower:+.1f} to {100 * label.gap_upper:+.1f})")
            if b.HasField("class_1_error"):
                text += f", {_class_1(self.message.class_1_name)} {interval(b.class_1_error)}"
            if b.HasField("decision"):
                text += (f", decisions cost {b.decision.realised_loss:.3g}, promised "
                         f"{b.decision.expected_loss:.3g}")
            lines.append((f"{b.start_time.ToDatetime():%Y-%m-%d %H:%M}", text))
        return lines

    def to_frame(self) -> pandas.DataFrame:
        """A row for each bucket, by its start_time, and a column for each number.

        The columns are the fields of HistoryBucket, those of its messages such as `error.upper`. What
        is unset is NaN. Lists, such as bins, are left out. Needs pandas.
        """
        # Only this function needs it.
        import pandas
        rows = [_numbers(bucket) for bucket in self.message.buckets]
        columns = dict.fromkeys(name for row in (_numbers(calibration.HistoryBucket()), *rows)
                                for name in row if name != "start_time")
        starts = pandas.to_datetime([row["start_time"] for row in rows], utc=True)
        return pandas.DataFrame(rows, pandas.DatetimeIndex(starts, name="start_time"), list(columns))


def _numbers(message: Message, prefix: str = "") -> dict[str, Any]:
    """The single values of a message and of the messages in it, by their names."""
    facts, found = Facts(message), {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(facts, field.name)
        if isinstance(value, Facts):
            found.update(_numbers(value.message, f"{prefix}{field.name}."))
        elif not isinstance(value, list) and (value is not None or field.message_type is None):
            found[prefix + field.name] = math.nan if value is None else value
    return found
