#ifndef CALIBD_CORE_BINARY_PREDICTIONS_H_
#define CALIBD_CORE_BINARY_PREDICTIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// n probabilities of an event with its outcomes: the input of scalar reliability diagrams and
// scores.
struct BinaryPredictions {
  // n values in [0, 1].
  std::vector<double> probabilities;
  // n values, 0 or 1.
  std::vector<std::uint8_t> outcomes;

  [[nodiscard]] std::size_t size() const noexcept { return probabilities.size(); }
};

// The most probable class; the first of them on ties. g: m >= 1 probabilities.
[[nodiscard]] std::size_t PredictedClass(std::span<const double> g) noexcept;

// Top-label: the confidence max_k g_ik, and whether the label is the predicted
// class. batch: valid. Cost: O(n m).
[[nodiscard]] BinaryPredictions TopLabelPredictions(const PredictionBatch& batch);

// One class: g_ik and whether the label is k. batch: valid.
// Errors: InvalidArgument unless k is in [0, m). Cost: O(n).
[[nodiscard]] absl::StatusOr<BinaryPredictions> ClassPredictions(const PredictionBatch& batch,
                                                                 std::size_t k);

}  // namespace calibd

#endif  // CALIBD_CORE_BINARY_PREDICTIONS_H_
