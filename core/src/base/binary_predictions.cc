#include "calibd/core/binary_predictions.h"

#include <algorithm>
#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd {

std::size_t PredictedClass(std::span<const double> g) noexcept {
  constexpr std::size_t kTogether = 8;
  if (g.size() < 2 * kTogether) {
    return static_cast<std::size_t>(std::max_element(g.begin(), g.end()) - g.begin());
  }
  // Independent maxima, whose comparisons do not wait for one another.
  std::array<double, kTogether> maxima;
  std::copy_n(g.begin(), kTogether, maxima.begin());
  for (std::size_t k = kTogether; k + kTogether <= g.size(); k += kTogether) {
    for (std::size_t i = 0; i < kTogether; ++i) {
      maxima[i] = maxima[i] < g[k + i] ? g[k + i] : maxima[i];
    }
  }
  const double rest = *std::max_element(g.end() - kTogether, g.end());
  const double maximum = std::max(rest, *std::max_element(maxima.begin(), maxima.end()));
  return static_cast<std::size_t>(std::find(g.begin(), g.end(), maximum) - g.begin());
}

BinaryPredictions TopLabelPredictions(const PredictionBatch& batch) {
  BinaryPredictions predictions;
  predictions.probabilities.reserve(batch.size());
  predictions.outcomes.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::size_t predicted = PredictedClass(batch.row(i));
    predictions.probabilities.push_back(batch.row(i)[predicted]);
    predictions.outcomes.push_back(static_cast<std::size_t>(batch.labels[i]) == predicted ? 1 : 0);
  }
  return predictions;
}

absl::StatusOr<BinaryPredictions> ClassPredictions(const PredictionBatch& batch, std::size_t k) {
  if (k >= batch.class_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("class is ", k, ", expected [0, ", batch.class_count, ")"));
  }
  BinaryPredictions predictions;
  predictions.probabilities.reserve(batch.size());
  predictions.outcomes.reserve(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    predictions.probabilities.push_back(batch.row(i)[k]);
    predictions.outcomes.push_back(static_cast<std::size_t>(batch.labels[i]) == k ? 1 : 0);
  }
  return predictions;
}

}  // namespace calibd
