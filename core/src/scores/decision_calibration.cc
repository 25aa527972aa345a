#include "calibd/core/decision_calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/normal_mean.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"

namespace calibd {
namespace {

// Adds rows, and computes the squared errors from sums.
class DecisionSums {
 public:
  DecisionSums(std::size_t action_count, std::size_t row_count)
      : action_count_(action_count), sums_(action_count * action_count) {
    result_.actions.reserve(row_count);
  }

  // expected: the expected loss of each action; realised: its loss. Returns the best action.
  std::size_t Add(std::span<const double> expected, std::span<const double> realised) {
    const auto action =
        static_cast<std::size_t>(std::ranges::min_element(expected) - expected.begin());
    result_.actions.push_back(action);
    result_.realised_loss += realised[action];
    result_.expected_loss += expected[action];
    for (std::size_t a = 0; a < action_count_; ++a) {
      const double residual = realised[a] - expected[a];
      sums_[action * action_count_ + a] += residual;
      squares_ += residual * residual;
    }
    return action;
  }

  DecisionCalibration Finish() && {
    const auto n = static_cast<double>(result_.actions.size());
    result_.realised_loss /= n;
    result_.expected_loss /= n;
    double all = 0;
    double given = 0;
    for (std::size_t a = 0; a < action_count_; ++a) {
      double total = 0;
      for (std::size_t action = 0; action < action_count_; ++action) {
        const double sum = sums_[action * action_count_ + a];
        total += sum;
        given += sum * sum;
      }
      all += total * total;
    }
    result_.squared_error = all / n / n;
    result_.given_action = given / n / n;
    if (n > 1) {
      result_.squared_error_unbiased = (all - squares_) / n / (n - 1);
      result_.given_action_unbiased = (given - squares_) / n / (n - 1);
    }
    return std::move(result_);
  }

 private:
  std::size_t action_count_;
  // By action of the row, and by action whose residual is summed.
  std::vector<double> sums_;
  double squares_ = 0;
  DecisionCalibration result_;
};

double CountAbove(std::span<const double> draws, double threshold) {
  return static_cast<double>(
      std::ranges::count_if(draws, [threshold](double draw) { return draw >= threshold; }));
}

// The probabilities that the outcome is below the threshold and that it is not. Each is computed by
// itself, because a cost may be so large that a rounded complement decides.
struct Sides {
  double below = 0;
  double above = 0;
};
Sides ProbabilitiesOf(ForecastKind kind, std::span<const double> row, double threshold) {
  if (kind == ForecastKind::kNormal) {
    const double t = (row[0] - threshold) / row[1];
    return {NormalCdf(-t), NormalCdf(t)};
  }
  const auto draws = static_cast<double>(row.size());
  const double above = CountAbove(row, threshold);
  return {(draws - above) / draws, above / draws};
}

}  // namespace

absl::Status CheckLossMatrix(std::span<const double> loss, std::size_t class_count) {
  if (loss.empty() || loss.size() % class_count != 0) {
    return absl::InvalidArgumentError(absl::StrCat("loss has ", loss.size(),
                                                   " values, expected a row of ", class_count,
                                                   " values for each action"));
  }
  const auto invalid =
      std::ranges::find_if(loss, [](double value) { return !(std::abs(value) <= 1e150); });
  if (invalid == loss.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("loss[", invalid - loss.begin(), "] is ", *invalid,
                                                 ", expected a finite number in [-1e150, 1e150]"));
}

namespace {

// rows: PredictionBatch or LabelledRows. loss: valid. on_row, unless null, receives the action of
// each row with its realised and expected loss.
template <typename Rows, typename LabelOf, typename OnRow>
DecisionCalibration Decide(const Rows& rows, const LabelOf& label_of, std::size_t class_count,
                           std::span<const double> loss, const OnRow& on_row) {
  const std::size_t action_count = loss.size() / class_count;
  DecisionSums sums(action_count, rows.size());
  std::vector<double> expected(action_count);
  std::vector<double> realised(action_count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> q = rows.row(i);
    const std::size_t label = label_of(i);
    for (std::size_t a = 0; a < action_count; ++a) {
      const std::span<const double> row = loss.subspan(a * class_count, class_count);
      expected[a] = std::inner_product(row.begin(), row.end(), q.begin(), 0.0);
      realised[a] = row[label];
    }
    const std::size_t action = sums.Add(expected, realised);
    on_row(action, realised[action], expected[action]);
  }
  return std::move(sums).Finish();
}

DecisionCalibration DecideBatch(const PredictionBatch& batch, std::span<const double> loss,
                                const auto& on_row) {
  return Decide(
      batch, [&batch](std::size_t i) { return static_cast<std::size_t>(batch.labels[i]); },
      batch.class_count, loss, on_row);
}

}  // namespace

absl::StatusOr<DecisionCalibration> EvaluateDecisions(const PredictionBatch& batch,
                                                      std::span<const double> loss) {
  CALIBD_RETURN_IF_ERROR(CheckLossMatrix(loss, batch.class_count));
  return DecideBatch(batch, loss, [](std::size_t, double, double) {});
}

namespace {

// Multiplies everything by the unit of the losses.
void Scale(double unit, DecisionTestResult& result) {
  DecisionCalibration& all = result.calibration;
  for (double* const value :
       {&all.realised_loss, &all.expected_loss, &result.gap_lower, &result.gap_upper}) {
    *value *= unit;
  }
  for (ActionLoss& own : result.actions) {
    own.realised_loss *= unit;
    own.expected_loss *= unit;
  }
  for (double* const square : {&all.squared_error, &all.squared_error_unbiased, &all.given_action,
                               &all.given_action_unbiased}) {
    *square *= unit * unit;
  }
  if (!result.test.has_value()) return;
  SimulatedStatistic& error = *result.calibration_error;
  for (double* const value :
       {&error.value, &error.test.replicate_mean, &error.test.replicate_standard_deviation,
        &error.test.replicate_upper_quantile}) {
    *value *= unit;
  }
  for (double* const square :
       {&result.test->replicate_mean, &result.test->replicate_standard_deviation,
        &result.test->replicate_upper_quantile}) {
    *square *= unit * unit;
  }
}

}  // namespace

absl::StatusOr<DecisionTestResult> TestDecisions(const PredictionBatch& batch,
                                                 std::span<const double> loss,
                                                 const BootstrapOptions& resampling,
                                                 const RunControl& control) {
  const std::size_t m = batch.class_count;
  CALIBD_RETURN_IF_ERROR(CheckLossMatrix(loss, m));
  // The fourth powers of larger losses, in the variance of the replicates, are not finite. A power
  // of 2 as the unit changes no digit.
  const double largest =
      std::abs(*std::ranges::max_element(loss, {}, [](double x) { return std::abs(x); }));
  if (largest > 1e50) {
    const double unit = std::exp2(std::ilogb(largest));
    std::vector<double> scaled(loss.begin(), loss.end());
    for (double& value : scaled) value /= unit;
    CALIBD_ASSIGN_OR_RETURN(DecisionTestResult result,
                            TestDecisions(batch, scaled, resampling, control));
    Scale(unit, result);
    return result;
  }
  DecisionTestResult result;
  result.actions.resize(loss.size() / m);
  // Every difference is within this range.
  double range = 0;
  for (std::size_t a = 0; a < result.actions.size(); ++a) {
    const auto [least, most] = std::ranges::minmax(loss.subspan(a * m, m));
    range = std::max(range, most - least);
  }
  RunningMoments gaps;
  result.calibration =
      DecideBatch(batch, loss, [&](std::size_t action, double realised, double expected) {
        ActionLoss& own = result.actions[action];
        ++own.count;
        own.realised_loss += realised;
        own.expected_loss += expected;
        if (range > 0) gaps.Add((realised - expected) / range);
      });
  result.calibration.actions.clear();
  for (ActionLoss& own : result.actions) {
    const auto count = static_cast<double>(std::max<std::int64_t>(own.count, 1));
    own.realised_loss /= count;
    own.expected_loss /= count;
  }
  constexpr double kAlpha = 0.05;
  result.gap_lower = range * LowerConfidenceSequence(gaps, 1, kAlpha / 2).value_or(0);
  result.gap_upper = range * UpperConfidenceSequence(gaps, 1, kAlpha / 2).value_or(0);
  if (resampling.replicates == 0 || batch.size() < 2) return result;
  BootstrapOptions exact = resampling;
  exact.null = NullHypothesis::kForecast;
  const auto decide = [&](const LabelledRows& rows) {
    return Decide(
        rows, [&rows](std::size_t i) { return rows.label(i); }, m, loss,
        [](std::size_t, double, double) {});
  };
  CALIBD_ASSIGN_OR_RETURN(
      result.test,
      SimulateTest(
          batch, [&](const LabelledRows& rows) { return decide(rows).given_action_unbiased; },
          exact, control, range * range));
  // The replicates are those of the first test.
  const auto error = [&](const LabelledRows& rows) {
    return std::sqrt(decide(rows).squared_error);
  };
  CALIBD_ASSIGN_OR_RETURN(const ResamplingResult test,
                          SimulateTest(batch, error, exact, control.WithoutProgress(), range));
  result.calibration_error = {std::sqrt(result.calibration.squared_error), test};
  return result;
}

absl::StatusOr<DecisionCalibration> EvaluateThreshold(const ForecastBatch& batch,
                                                      const ThresholdDecision& decision) {
  if (const std::optional<Violation> violation = FindDecisionViolation(decision)) {
    return absl::InvalidArgumentError(absl::StrCat(violation->field, " ", violation->description));
  }
  const double alarm = decision.false_alarm_cost;
  const double miss = decision.miss_cost;
  DecisionSums sums(2, batch.size());
  double expected = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    expected += LossOfDecision(batch.kind, batch.row(i), batch.outcomes[i], decision).expected;
    const auto [below, above] = ProbabilitiesOf(batch.kind, batch.row(i), decision.threshold);
    const double is_above = batch.outcomes[i] >= decision.threshold ? 1 : 0;
    // Action 1 first, so that it is taken if both are as good.
    sums.Add(std::array{alarm * below, miss * above},
             std::array{alarm * (1 - is_above), miss * is_above});
  }
  DecisionCalibration result = std::move(sums).Finish();
  for (std::size_t& action : result.actions) action = 1 - action;
  result.expected_loss = expected / static_cast<double>(batch.size());
  return result;
}

std::optional<Violation> FindDecisionViolation(const ThresholdDecision& decision) {
  if (!std::isfinite(decision.threshold)) {
    return Violation{"threshold",
                     absl::StrCat("is ", decision.threshold, ", expected a finite number")};
  }
  const std::pair<const char*, double> costs[] = {{"false_alarm_cost", decision.false_alarm_cost},
                                                  {"miss_cost", decision.miss_cost}};
  for (const auto& [field, cost] : costs) {
    // Written so that NaN fails the check too.
    if (!(cost >= 1e-100 && cost <= 1e100)) {
      return Violation{field, absl::StrCat("is ", cost, ", expected a number in [1e-100, 1e100]")};
    }
  }
  return std::nullopt;
}

ThresholdLoss LossOfDecision(ForecastKind kind, std::span<const double> row, double outcome,
                             const ThresholdDecision& decision) noexcept {
  // True if the expected loss of acting is not larger; weights of the two outcomes.
  const auto acts = [&decision](double above, double below) {
    return decision.miss_cost * above >= decision.false_alarm_cost * below;
  };
  const bool is_above = outcome >= decision.threshold;
  ThresholdLoss loss;
  if (kind == ForecastKind::kNormal) {
    const double t = (row[0] - decision.threshold) / row[1];
    const double above = NormalCdf(t);
    const double below = NormalCdf(-t);
    loss.acts = acts(above, below);
    loss.expected = loss.acts ? decision.false_alarm_cost * below : decision.miss_cost * above;
  } else {
    const auto r = static_cast<double>(row.size());
    const double drawn = CountAbove(row, decision.threshold);
    loss.acts = acts(drawn, r - drawn);
    // Of the r + 1 values, `all` reach the threshold. If one of them is the outcome, all - 1 draws
    // do, else all.
    const double all = drawn + (is_above ? 1 : 0);
    const double missed = acts(all - 1, r - all + 1) ? 0 : all * decision.miss_cost;
    const double alarmed = acts(all, r - all) ? (r + 1 - all) * decision.false_alarm_cost : 0;
    loss.expected = (missed + alarmed) / (r + 1);
  }
  if (loss.acts != is_above) {
    loss.realised = loss.acts ? decision.false_alarm_cost : decision.miss_cost;
  }
  return loss;
}

void DecisionTotals::Merge(const DecisionTotals& other) noexcept {
  actions += other.actions;
  realised += other.realised;
  expected += other.expected;
  gaps.Merge(other.gaps);
}

void AddDecisions(const ForecastBatch& batch, const ThresholdDecision& decision,
                  DecisionTotals& totals) noexcept {
  const double largest = std::max(decision.false_alarm_cost, decision.miss_cost);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const ThresholdLoss loss =
        LossOfDecision(batch.kind, batch.row(i), batch.outcomes[i], decision);
    totals.actions += loss.acts ? 1 : 0;
    totals.realised += loss.realised;
    totals.expected += loss.expected;
    totals.gaps.Add((loss.realised - loss.expected) / largest);
  }
}

std::optional<DecisionReading> ReadDecisions(const ThresholdDecision& decision,
                                             const DecisionTotals& totals, double alpha) noexcept {
  const std::optional<double> lower = LowerConfidenceSequence(totals.gaps, 1, alpha / 2);
  const std::optional<double> upper = UpperConfidenceSequence(totals.gaps, 1, alpha / 2);
  if (!lower.has_value() || !upper.has_value()) return std::nullopt;
  const double largest = std::max(decision.false_alarm_cost, decision.miss_cost);
  const auto n = static_cast<double>(totals.gaps.count);
  return DecisionReading{.count = totals.gaps.count,
                         .actions = totals.actions,
                         .realised_loss = totals.realised / n,
                         .expected_loss = totals.expected / n,
                         .gap_lower = largest * *lower,
                         .gap_upper = largest * *upper};
}

}  // namespace calibd
