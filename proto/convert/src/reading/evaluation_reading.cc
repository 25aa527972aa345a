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
#include "severity.h"
#include "words.h"

namespace calibd::convert {
namespace {

constexpr std::size_t kMostCells = 2;
constexpr std::size_t kMostGroups = 3;

// The names of the lenses whose tests reject, of those whose do not, and of those whose could not,
// because even the smallest p-value of so few replicates is above the level. All are empty if a
// test was not requested.
struct LensAnswers {
  std::vector<std::string> rejected;
  std::vector<std::string> passed;
  std::vector<std::string> unable;
};

// The smallest p-value of n replicates is 1 / (n + 1). 0 without replicates.
double LeastPValue(std::int32_t replicates) { return replicates > 0 ? 1.0 / (replicates + 1) : 0; }

LensAnswers AnswersOf(const v1::Evaluation& evaluation, const EvaluationCriteria& criteria) {
  LensAnswers answers;
  if (evaluation.lenses().empty()) return answers;
  // All lenses use the same data.
  const double level = LevelOfLens(criteria, static_cast<std::size_t>(evaluation.lenses_size()),
                                   !evaluation.groups().empty());
  for (const v1::LensEvaluation& lens : evaluation.lenses()) {
    if (!lens.has_result()) continue;
    if (!lens.result().has_p_value()) return {};
    if (LeastPValue(lens.result().replicates()) > level) {
      answers.unable.push_back(lens.lens());
      continue;
    }
    (lens.result().p_value() <= level ? answers.rejected : answers.passed).push_back(lens.lens());
  }
  return answers;
}

bool IsRejectedByCells(const v1::ForecastEvaluation& evaluation,
                       const EvaluationCriteria& criteria) {
  return evaluation.log10_e_value() >= -std::log10(criteria.significance_level);
}

std::string NameOfGroup(const v1::EvaluatedGroup& group) {
  return CutName(GroupName(group.name(), false));
}

// The event that decides about the limit. Of two classes, the worse one.
const v1::ErrorInterval& ErrorOf(const v1::EvaluatedGroup& group) {
  return group.class_1_is_worse() ? group.class_1_error() : group.error();
}

// The groups over the limit or rejected, by the lower end of their error.
std::vector<const v1::EvaluatedGroup*> NotableGroups(const v1::Evaluation& evaluation) {
  std::vector<const v1::EvaluatedGroup*> found;
  for (const v1::EvaluatedGroup& group : evaluation.groups()) {
    if (group.status() == v1::CalibrationError::OVER_LIMIT || group.rejected()) {
      found.push_back(&group);
    }
  }
  std::ranges::stable_sort(found, [](const auto* a, const auto* b) {
    return ErrorOf(*a).lower() > ErrorOf(*b).lower();
  });
  return found;
}

// "group b: P(yes) off by 17 points (4 to 30; limit 2 points)".
std::string GroupText(const v1::Evaluation& evaluation, const v1::EvaluatedGroup& group,
                      double limit) {
  return absl::StrCat("group ", NameOfGroup(group), ": ",
                      group.class_1_is_worse() ? Class1Event(evaluation.class_1_name()) + " " : "",
                      OffByText(ErrorOf(group), limit));
}

std::vector<std::string> GroupTexts(const v1::Evaluation& evaluation,
                                    const std::vector<const v1::EvaluatedGroup*>& groups,
                                    double limit) {
  std::vector<std::string> texts;
  for (const v1::EvaluatedGroup* const group : groups) {
    if (texts.size() == kMostGroups) {
      texts.push_back(
          absl::StrCat("and ", groups.size() - kMostGroups,
                       groups.size() == kMostGroups + 1 ? " more group" : " more groups"));
      break;
    }
    texts.push_back(
        absl::StrCat(GroupText(evaluation, *group, limit), group->rejected() ? ", rejected" : ""));
  }
  return texts;
}

// " in groups eu, us", or ", also in group eu" if all rows together are over the limit too.
std::string GroupsOverText(const v1::Evaluation& evaluation, bool all_over) {
  std::vector<std::string> names;
  for (const v1::EvaluatedGroup* const group : NotableGroups(evaluation)) {
    if (group->status() == v1::CalibrationError::OVER_LIMIT) names.push_back(NameOfGroup(*group));
  }
  if (names.empty()) return "";
  return absl::StrCat(all_over ? ", also" : "", names.size() == 1 ? " in group " : " in groups ",
                      JoinNames(names, kMaxNames));
}

// "rejected in 2 of 3 groups by e-BH at level 0.025"; empty without groups.
std::string GroupTestText(const v1::Evaluation& evaluation, const EvaluationCriteria& criteria) {
  if (evaluation.groups().empty()) return "";
  const auto rejected = std::ranges::count_if(
      evaluation.groups(), [](const v1::EvaluatedGroup& group) { return group.rejected(); });
  return absl::StrFormat("%d of %d groups rejected by e-BH on e-values at level %.3g", rejected,
                         evaluation.groups_size(), LevelOfGroups(criteria));
}

// Against the limit. Of two classes, the worse event decides; else the second interval is unset.
v1::CalibrationError::Status StatusOf(double limit, const v1::ErrorInterval& first,
                                      const v1::ErrorInterval& second) {
  return StatusAgainst(limit, std::max(first.lower(), second.lower()),
                       std::max(first.upper(), second.upper()));
}

// Whether class 1 of two classes decides the status of all rows.
bool DoesClass1Decide(const v1::Evaluation& evaluation, double limit) {
  if (!evaluation.has_class_1_error()) return false;
  const v1::ErrorInterval& top_label = evaluation.error();
  const v1::ErrorInterval& class_1 = evaluation.class_1_error();
  return StatusOf(limit, top_label, class_1) == v1::CalibrationError::OVER_LIMIT
             ? Exceeds(class_1, top_label)
             : std::pair(class_1.upper(), class_1.estimate()) >
                   std::pair(top_label.upper(), top_label.estimate());
}

v1::ErrorMeasurement MeasurementOf(const v1::Evaluation& evaluation) {
  v1::ErrorMeasurement error;
  if (!evaluation.has_forecast()) {
    *error.mutable_top_label() = evaluation.error();
    error.set_mean_confidence(evaluation.scores().mean_confidence());
    error.set_accuracy(evaluation.scores().accuracy());
    if (evaluation.has_class_1_error()) *error.mutable_class_1() = evaluation.class_1_error();
    error.set_class_1_name(evaluation.class_1_name());
    return error;
  }
  const v1::ForecastEvaluation& forecast = evaluation.forecast();
  const v1::ForecastScores& scores = forecast.scores();
  error.set_observations(scores.observations());
  error.mutable_coverage()->set_estimate(forecast.coverage_error());
  error.mutable_coverage()->set_lower(forecast.coverage_error_lower());
  error.mutable_coverage()->set_upper(forecast.coverage_error_upper());
  *error.mutable_central_coverage() = scores.central_coverage();
  *error.mutable_level_coverage() = scores.level_coverage();
  *error.mutable_direction() = forecast.direction();
  if (scores.has_residual_mean()) {
    error.mutable_direction()->set_residual_mean(scores.residual_mean());
    error.mutable_direction()->set_residual_standard_deviation(
        scores.residual_standard_deviation());
  }
  return error;
}

// Which rows the tests and the decisions use; empty if they use all.
std::string TestedRowsText(const v1::Evaluation& evaluation) {
  if (evaluation.tested_observations() >= evaluation.observations()) return "";
  return absl::StrFormat("%d of the %d rows, drawn at random", evaluation.tested_observations(),
                         evaluation.observations());
}

// What the decisions cost; empty without a decision.
std::string EvaluatedDecision(const v1::Evaluation& evaluation) {
  if (evaluation.has_decision_loss()) {
    const v1::DecisionEvaluation& decision = evaluation.decision_loss();
    const std::string rows = TestedRowsText(evaluation);
    return absl::StrFormat(
        "%sthe actions cost %.3g on average, the predictions promise %.3g: %+.3g (%+.3g to %+.3g)",
        rows.empty() ? "" : absl::StrCat("over ", rows, ": "), decision.realised_loss(),
        decision.expected_loss(), decision.realised_loss() - decision.expected_loss(),
        decision.gap_lower_bound(), decision.gap_upper_bound());
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
std::string IntervalPromise(const v1::Evaluation& evaluation) {
  return absl::StrCat(evaluation.groups().empty() ? "the interval of the error holds"
                                                  : "all intervals, also of groups, hold together",
                      " with 95 % for one look at these rows");
}

// Why all this may be false; empty if nothing is known.
std::string WarningText(const v1::Evaluation& evaluation) {
  if (evaluation.has_forecast()) {
    const v1::ForecastEvaluation& forecast = evaluation.forecast();
    if (forecast.dependence_found_at() == 0) return "";
    // Where outcomes equal quantiles, the bets of the e-value follow the rows.
    const bool ties = !forecast.scores().level_coverage().empty();
    return DependenceText(forecast.dependence_found_at(), ties ? "the e-values" : "");
  }
  if (evaluation.dependence_found_at() == 0) return "";
  return DependenceText(evaluation.dependence_found_at(),
                        evaluation.groups().empty()
                            ? "the estimates and tests of blocks"
                            : "the estimates and tests of blocks and the e-values of groups");
}

// What the tests say; empty without tests.
std::string TestsText(const v1::Evaluation& evaluation, const EvaluationCriteria& criteria) {
  if (evaluation.has_forecast()) {
    return absl::StrCat("e-value ", PowerOfTen(evaluation.forecast().log10_e_value()),
                        " of the cells of the outcomes; rejection needs an e-value of ",
                        PowerOfTen(-std::log10(criteria.significance_level)));
  }
  const LensAnswers answers = AnswersOf(evaluation, criteria);
  std::string text;
  if (!answers.rejected.empty()) {
    const auto first = std::ranges::find(evaluation.lenses(), answers.rejected.front(),
                                         [](const auto& lens) { return lens.lens(); });
    const v1::QuadraticTestResult& tested = first->result();
    text = absl::StrFormat(
        "rejected by %s at level %.3g over %d lens%s; SKCE_uq%s is %+.2e, and of a calibrated "
        "model below %+.2e 19 times in 20",
        absl::StrJoin(answers.rejected, ", "),
        LevelOfLens(criteria, 1, !evaluation.groups().empty()), evaluation.lenses_size(),
        evaluation.lenses_size() == 1 ? "" : "es",
        evaluation.lenses_size() == 1 ? "" : absl::StrCat(" by ", first->lens()),
        tested.skce_unbiased(), tested.noise_floor_unbiased().upper_quantile());
  }
  if (!answers.passed.empty()) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "not rejected by ",
                    absl::StrJoin(answers.passed, ", "), ", which does not prove calibration");
  }
  if (!answers.unable.empty()) {
    const double level = LevelOfLens(criteria, static_cast<std::size_t>(evaluation.lenses_size()),
                                     !evaluation.groups().empty());
    absl::StrAppendFormat(
        &text, "%s%s cannot be rejected at level %.3g with %d replicates: take at least %.0f",
        text.empty() ? "" : "; ", absl::StrJoin(answers.unable, ", "), level,
        evaluation.lenses(0).result().replicates(), std::ceil(1 / level - 1e-9) - 1);
  }
  const std::string rows = TestedRowsText(evaluation);
  if (!text.empty() && !rows.empty()) absl::StrAppend(&text, "; tested with ", rows);
  return text;
}

}  // namespace

double LevelOfLens(const EvaluationCriteria& criteria, std::size_t lens_count, bool has_groups) {
  return criteria.significance_level / static_cast<double>(lens_count * (has_groups ? 2 : 1));
}

double LevelOfGroups(const EvaluationCriteria& criteria) { return criteria.significance_level / 2; }

std::string EvaluationVerdict::Text() const {
  return absl::StrCat(StatusName(limit), groups,
                      !is_rejected.has_value() ? ""
                      : *is_rejected           ? ", MISCALIBRATED"
                                               : ", NOT_REJECTED");
}

EvaluationVerdict VerdictOf(const v1::Evaluation& evaluation, const EvaluationCriteria& criteria) {
  const v1::ErrorMeasurement error = MeasurementOf(evaluation);
  const v1::ErrorInterval& first = *IntervalOf(error);
  // Unset without a second event.
  const v1::ErrorInterval& second = error.class_1();
  EvaluationVerdict verdict;
  verdict.limit = StatusOf(criteria.error_limit, first, second);
  verdict.groups = GroupsOverText(evaluation, verdict.limit == v1::CalibrationError::OVER_LIMIT);
  const LensAnswers answers = AnswersOf(evaluation, criteria);
  if (evaluation.has_forecast()) {
    verdict.is_rejected = IsRejectedByCells(evaluation.forecast(), criteria);
  } else if (!answers.rejected.empty() || !answers.passed.empty() || !evaluation.groups().empty()) {
    verdict.is_rejected = !answers.rejected.empty();
  }
  for (const v1::EvaluatedGroup& group : evaluation.groups()) {
    if (group.status() == v1::CalibrationError::OVER_LIMIT) verdict.limit = group.status();
    if (group.rejected()) verdict.is_rejected = true;
  }
  return verdict;
}

v1::Reading ReadingOf(const v1::Evaluation& evaluation, const EvaluationCriteria& criteria) {
  v1::Reading reading;
  const EvaluationVerdict verdict = VerdictOf(evaluation, criteria);
  const v1::ErrorMeasurement error = MeasurementOf(evaluation);
  reading.mutable_verdict()->set_text(verdict.Text());
  // Lenses, if there are any, know the number of classes.
  const int class_count = error.has_class_1() ? 2
                          : evaluation.lenses().empty()
                              ? 0
                              : evaluation.lenses(0).result().provenance().class_count();
  std::string how_bad =
      ChanceText(error, class_count) + ErrorText(error, criteria.error_limit, error);
  std::string brief = BriefErrorText(error, criteria.error_limit, error);
  const std::vector<const v1::EvaluatedGroup*> groups = NotableGroups(evaluation);
  // A group over the limit is what decides, unless all rows are over it too.
  const bool a_group_leads = verdict.limit == v1::CalibrationError::OVER_LIMIT &&
                             StatusOf(criteria.error_limit, *IntervalOf(error), error.class_1()) !=
                                 v1::CalibrationError::OVER_LIMIT;
  if (a_group_leads) {
    brief = GroupText(evaluation, *groups.front(), criteria.error_limit);
    how_bad = absl::StrCat(brief, "; all rows together: ", how_bad);
    *reading.mutable_how_bad()->mutable_interval() = ErrorOf(*groups.front());
  } else if (const auto event = LeadingEvent(error, criteria.error_limit, error);
             event.interval != nullptr) {
    *reading.mutable_how_bad()->mutable_interval() = *event.interval;
  }
  reading.mutable_how_bad()->set_text(std::move(how_bad));
  reading.mutable_how_bad()->set_brief(std::move(brief));
  std::vector<std::string> places = CellTexts(evaluation.forecast().cells(), kMostCells);
  const std::vector<std::string> levels = WrongLevelNames(error.level_coverage());
  if (!levels.empty()) places.push_back(WrongLevelsTitle(levels) + JoinNames(levels, kMaxNames));
  for (std::string& group : GroupTexts(evaluation, groups, criteria.error_limit)) {
    places.push_back(std::move(group));
  }
  if (!places.empty()) reading.mutable_where()->set_text(absl::StrJoin(places, "; "));
  if (std::string text = EvaluatedDecision(evaluation); !text.empty()) {
    reading.mutable_decision()->set_text(std::move(text));
  }
  std::vector<std::string> certain = {TestsText(evaluation, criteria),
                                      GroupTestText(evaluation, criteria),
                                      IntervalPromise(evaluation)};
  std::erase(certain, "");
  reading.mutable_certain()->set_text(absl::StrJoin(certain, "; "));
  if (std::string text = WarningText(evaluation); !text.empty()) {
    reading.mutable_warning()->set_text(std::move(text));
  }
  reading.set_severity(SeverityOf(verdict, reading.how_bad().interval()));
  return reading;
}

void Judge(const EvaluationCriteria& criteria, v1::Evaluation& evaluation) {
  // A server may have judged the groups by another limit.
  for (v1::EvaluatedGroup& group : *evaluation.mutable_groups()) {
    group.set_status(StatusOf(criteria.error_limit, group.error(), group.class_1_error()));
  }
  evaluation.set_class_1_decides(DoesClass1Decide(evaluation, criteria.error_limit));
  *evaluation.mutable_reading() = ReadingOf(evaluation, criteria);
  evaluation.set_limit_status(VerdictOf(evaluation, criteria).limit);
  evaluation.set_error_limit(criteria.error_limit);
}

}  // namespace calibd::convert
