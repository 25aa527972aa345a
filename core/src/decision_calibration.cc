#include "calibd/core/decision_calibration.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "normal_mean.h"

namespace calibd {
namespace {

// Adds rows, and computes the squared errors from sums.
class DecisionSums {
 public:
  DecisionSums(std::size_t action_count, std::size_t row_count)
      : action_count_(action_count), sums_(action_count * action_count) {
    result_.actions.reserve(row_count);
  }

  // expected: the expected loss of each action; realised: its loss.
  void Add(std::span<const double> expected, std::span<const double> realised) {
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

// The probability that the outcome is at least the threshold.
double ProbabilityAbove(const ForecastBatch& batch, std::size_t i, double threshold) {
  const std::span<const double> row = batch.row(i);
  if (batch.kind == ForecastKind::kNormal) return NormalCdf((row[0] - threshold) / row[1]);
  const auto above =
      std::ranges::count_if(row, [threshold](double draw) { return draw >= threshold; });
  return static_cast<double>(above) / static_cast<double>(row.size());
}

}  // namespace

absl::StatusOr<DecisionCalibration> EvaluateDecisions(const PredictionBatch& batch,
                                                      std::span<const double> loss) {
  const std::size_t m = batch.class_count;
  if (loss.empty() || loss.size() % m != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loss has ", loss.size(), " values, expected a row of ", m, " values for each action"));
  }
  const auto invalid =
      std::ranges::find_if(loss, [](double value) { return !(std::abs(value) <= 1e150); });
  if (invalid != loss.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("loss[", invalid - loss.begin(), "] is ", *invalid,
                     ", expected a finite number in [-1e150, 1e150]"));
  }
  const std::size_t action_count = loss.size() / m;
  DecisionSums sums(action_count, batch.size());
  std::vector<double> expected(action_count);
  std::vector<double> realised(action_count);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> q = batch.row(i);
    for (std::size_t a = 0; a < action_count; ++a) {
      const std::span<const double> row = loss.subspan(a * m, m);
      expected[a] = 0;
      for (std::size_t k = 0; k < m; ++k) expected[a] += row[k] * q[k];
      realised[a] = row[static_cast<std::size_t>(batch.labels[i])];
    }
    sums.Add(expected, realised);
  }
  return std::move(sums).Finish();
}

absl::StatusOr<DecisionCalibration> EvaluateThreshold(const ForecastBatch& batch,
                                                      double threshold) {
  if (!std::isfinite(threshold)) {
    return absl::InvalidArgumentError(
        absl::StrCat("threshold is ", threshold, ", expected a finite number"));
  }
  DecisionSums sums(2, batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const double above = ProbabilityAbove(batch, i, threshold);
    const double is_above = batch.outcomes[i] >= threshold ? 1 : 0;
    // Action 1 first, so that it is taken if both are as good.
    sums.Add(std::array{1 - above, above}, std::array{1 - is_above, is_above});
  }
  DecisionCalibration result = std::move(sums).Finish();
  for (std::size_t& action : result.actions) action = 1 - action;
  return result;
}

}  // namespace calibd
