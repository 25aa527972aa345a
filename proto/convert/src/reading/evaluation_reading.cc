#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

// Significance level of all tests of one evaluation together.
constexpr double kTestLevel = 0.05;
constexpr std::size_t kMostCells = 2;

// The names of the lenses whose tests reject, and of those whose do not. Both are empty if a test
// was not requested.
struct LensAnswers {
  std::vector<std::string> rejected;
  std::vector<std::string> passed;
};

LensAnswers AnswersOf(const v1::Evaluation& evaluation) {
  LensAnswers answers;
  const auto lenses = static_cast<double>(evaluation.lenses_size());
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    if (!lens.has_result()) continue;
    if (!lens.result().has_p_value()) return {};
    // Bonferroni: all lenses use the same data.
    (lens.result().p_value() <= kTestLevel / lenses ? answers.rejected : answers.passed)
        .push_back(lens.lens());
  }
  return answers;
}

bool IsRejectedByCells(const v1::ForecastEvaluation& evaluation) {
  return evaluation.log10_e_value() >= -std::log10(kTestLevel);
}

v1::ErrorMeasurement MeasurementOf(const v1::Evaluation& evaluation) {
  v1::ErrorMeasurement error;
  if (!evaluation.has_forecast()) {
    *error.mutable_top_label() = evaluation.error();
    error.set_mean_confidence(evaluation.scores().mean_confidence());
    error.set_accuracy(evaluation.scores().accuracy());
    if (evaluation.has_class_1_error()) *error.mutable_class_1() = evaluation.class_1_error();
    return error;
  }
  const v1::ForecastEvaluation& forecast = evaluation.forecast();
  const v1::ForecastScores& scores = forecast.scores();
  error.set_observations(scores.observations());
  error.mutable_coverage()->set_estimate(forecast.coverage_error());
  error.mutable_coverage()->set_lower(forecast.coverage_error_lower());
  error.mutable_coverage()->set_upper(forecast.coverage_error_upper());
  *error.mutable_central_coverage() = scores.central_coverage();
  *error.mutable_direction() = forecast.direction();
  if (scores.has_residual_mean()) {
    error.mutable_direction()->set_residual_mean(scores.residual_mean());
    error.mutable_direction()->set_residual_standard_deviation(
        scores.residual_standard_deviation());
  }
  return error;
}

// What the decisions cost; empty without a decision.
std::string EvaluatedDecision(const v1::Evaluation& evaluation) {
  if (evaluation.has_decision_loss()) {
    const v1::DecisionEvaluation& decision = evaluation.decision_loss();
    return absl::StrFormat(
        "the actions cost %.3g on average, the predictions promise %.3g: %+.3g (%+.3g to %+.3g)",
        decision.realised_loss(), decision.expected_loss(),
        decision.realised_loss() - decision.expected_loss(), decision.gap_lower_bound(),
        decision.gap_upper_bound());
  }
  if (!evaluation.forecast().has_decision()) return "";
  const v1::ForecastEvaluation::Decision& decision = evaluation.forecast().decision();
  const std::string at = absl::StrCat("at ", Exact(decision.threshold()), ": ");
  if (decision.false_alarm_cost() == 1 && decision.miss_cost() == 1) {
    return absl::StrFormat("%s%.3g %% of the decisions were wrong, the forecasts expected %.3g %%",
                           at, 100 * decision.realised_loss(), 100 * decision.expected_loss());
  }
  return absl::StrFormat(
      "%sthey cost %.3g each, the forecasts expected %.3g (a false alarm %g, a miss %g)", at,
      decision.realised_loss(), decision.expected_loss(), decision.false_alarm_cost(),
      decision.miss_cost());
}

// What the interval of the error promises.
constexpr char kIntervalPromise[] =
    "the interval of the error holds with 95 % for one look at these rows";

// What the tests say; empty without tests.
std::string TestsText(const v1::Evaluation& evaluation) {
  if (evaluation.has_forecast()) {
    return absl::StrCat("e-value ", PowerOfTen(evaluation.forecast().log10_e_value()),
                        " of the cells of the outcomes; calibration is rejected at ",
                        PowerOfTen(-std::log10(kTestLevel)));
  }
  const LensAnswers answers = AnswersOf(evaluation);
  std::string text;
  if (!answers.rejected.empty()) {
    const v1::QuadraticTestResult& canonical = evaluation.lenses(0).result();
    text = absl::StrFormat(
        "rejected by %s at level %.3g over %d lens%s; SKCE_uq is %+.2e, and of a calibrated model "
        "below %+.2e 19 times in 20",
        absl::StrJoin(answers.rejected, ", "), kTestLevel, evaluation.lenses_size(),
        evaluation.lenses_size() == 1 ? "" : "es", canonical.skce_unbiased(),
        canonical.noise_floor_unbiased().upper_quantile());
  }
  if (!answers.passed.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "not rejected by ",
                    absl::StrJoin(answers.passed, ", "), ", which does not prove calibration");
  }
  return text;
}

}  // namespace

v1::CalibrationError::Status StatusAgainst(const v1::Evaluation& evaluation, double error_limit) {
  const v1::ErrorMeasurement error = MeasurementOf(evaluation);
  const v1::ErrorInterval& first = *IntervalOf(error);
  // Unset without a second event.
  const v1::ErrorInterval& second = error.class_1();
  return StatusAgainst(error_limit, std::max(first.lower(), second.lower()),
                       std::max(first.upper(), second.upper()));
}

v1::Reading ReadingOf(const v1::Evaluation& evaluation, double error_limit) {
  v1::Reading reading;
  const LensAnswers answers = AnswersOf(evaluation);
  const bool is_tested =
      evaluation.has_forecast() || !answers.rejected.empty() || !answers.passed.empty();
  const bool is_rejected = evaluation.has_forecast() ? IsRejectedByCells(evaluation.forecast())
                                                     : !answers.rejected.empty();
  reading.mutable_verdict()->set_text(absl::StrCat(
      StatusName(StatusAgainst(evaluation, error_limit)), !is_tested    ? ""
                                                          : is_rejected ? ", MISCALIBRATED"
                                                                        : ", NOT_REJECTED"));
  const v1::ErrorMeasurement error = MeasurementOf(evaluation);
  reading.mutable_how_bad()->set_text(ErrorText(error, error_limit));
  reading.mutable_how_bad()->set_brief(BriefErrorText(error, error_limit));
  const std::vector<std::string> cells = CellTexts(evaluation.forecast().cells(), kMostCells);
  if (!cells.empty()) reading.mutable_where()->set_text(absl::StrJoin(cells, "; "));
  if (std::string text = EvaluatedDecision(evaluation); !text.empty()) {
    reading.mutable_decision()->set_text(std::move(text));
  }
  const std::string tests = TestsText(evaluation);
  reading.mutable_certain()->set_text(
      absl::StrCat(tests, tests.empty() ? "" : "; ", kIntervalPromise));
  return reading;
}

}  // namespace calibd::convert
