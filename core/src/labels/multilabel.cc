#include "calibd/core/multilabel.h"

#include <cmath>
#include <numbers>
#include <optional>

#include "absl/strings/str_cat.h"

namespace calibd {
namespace {

std::optional<Violation> FindRowViolation(const MultilabelBatch& batch, std::size_t i) {
  for (std::size_t k = 0; k < batch.label_count; ++k) {
    const double g = batch.probabilities[i * batch.label_count + k];
    const std::int8_t truth = batch.truths[i * batch.label_count + k];
    // Written so that NaN fails the check too.
    if (!(g >= 0 && g <= 1)) {
      return Violation{"probabilities", absl::StrCat("is ", g, ", expected a number in [0, 1]"), i,
                       k};
    }
    if (truth < kMissingTruth || truth > 1) {
      return Violation{
          "truths", absl::StrCat("is ", truth, ", expected 0, 1, or -1 for a missing truth"), i, k};
    }
  }
  return std::nullopt;
}

}  // namespace

double RowDeviation(const MultilabelBatch& batch, std::size_t row) {
  double sum = 0;
  double known = 0;
  double weight = 1;
  for (std::size_t k = 0; k < batch.label_count; ++k) {
    const std::size_t place = row * batch.label_count + k;
    const double sign = k % 2 == 0 ? 1 : -1;
    if (batch.truths[place] != kMissingTruth) {
      sum += sign * weight * (batch.probabilities[place] - batch.truths[place]);
      ++known;
    }
    // Evenly spread over [.5, 1.5).
    weight += std::numbers::phi - 1;
    if (weight >= 1.5) weight -= 1;
  }
  return known == 0 ? 0 : sum / std::sqrt(known);
}

std::vector<Violation> FindViolations(const MultilabelBatch& batch) {
  if (batch.label_count < 1 || batch.label_count > kMaxLabelCount) {
    return {
        {"label_count", absl::StrCat("is ", batch.label_count, ", expected 1..", kMaxLabelCount)}};
  }
  if (batch.truths.empty() || batch.truths.size() % batch.label_count != 0) {
    return {{"truths", absl::StrCat("has ", batch.truths.size(), " values, expected a multiple of ",
                                    batch.label_count)}};
  }
  if (batch.probabilities.size() != batch.truths.size()) {
    return {{"probabilities", absl::StrCat("has ", batch.probabilities.size(), " values, expected ",
                                           batch.truths.size())}};
  }
  std::vector<Violation> violations;
  for (std::size_t i = 0; i < batch.size() && violations.size() < kMaxReportedViolations; ++i) {
    if (std::optional<Violation> violation = FindRowViolation(batch, i)) {
      violations.push_back(*std::move(violation));
    }
  }
  return violations;
}

}  // namespace calibd
