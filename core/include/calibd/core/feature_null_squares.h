#ifndef CALIBD_CORE_FEATURE_NULL_SQUARES_H_
#define CALIBD_CORE_FEATURE_NULL_SQUARES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "calibd/core/prediction_batch.h"
#include "calibd/core/random_features.h"
#include "calibd/core/running_skce.h"

namespace calibd {

// E h_ij^2 of pairs of predictions under labels drawn from them, with the kernel phi'phi:
//   (phi(g_i)'phi(g_j))^2 tr(S_i S_j),  S = diag(g) - g g',
//   tr(S_i S_j) = sum a b - sum a b^2 - sum a^2 b + (sum a b)^2 for a = g_i, b = g_j:
// NullMoments::mean_square of the SKCE that an EvidenceProcess estimates. Labels play no part.
// Pairs are disjoint pairs of consecutive predictions: all of them among the first 4096
// predictions, and every eighth after that, with a weight of eight. Not thread-safe.
class FeatureNullSquares {
 public:
  explicit FeatureNullSquares(std::shared_ptr<const RandomFeatures> features);

  // batch: valid. The result has the same bits however a sequence is split into calls. Allocates no
  // memory. Cost: O(R m) for a prediction of a pair.
  void Add(const PredictionBatch& batch) noexcept;

  // The count is the sum of the weights of the pairs.
  [[nodiscard]] const RunningMoments& moments() const noexcept { return state_.moments; }

  struct State {
    // Number of predictions, >= 0.
    std::int64_t count = 0;
    RunningMoments moments;
    // The first prediction of an incomplete pair: m values, or empty.
    std::vector<double> previous;
  };
  [[nodiscard]] const State& Save() const noexcept { return state_; }
  // Returns false, and leaves this object unchanged, when the state is invalid for it.
  [[nodiscard]] bool Restore(State state);

 private:
  std::shared_ptr<const RandomFeatures> features_;
  State state_;
  std::vector<double> mapped_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_FEATURE_NULL_SQUARES_H_
