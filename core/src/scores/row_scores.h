#ifndef CALIBD_CORE_SRC_SCORES_ROW_SCORES_H_
#define CALIBD_CORE_SRC_SCORES_ROW_SCORES_H_

#include <array>
#include <cstddef>

#include "calibd/core/prediction_batch.h"

namespace calibd {

inline constexpr std::size_t kMaxScoredRows = 32;

// Scores of predictions g with labels y.
struct RowScores {
  // max_k g_k, and the first class of that probability.
  std::array<double, kMaxScoredRows> confidence;
  std::array<double, kMaxScoredRows> predicted_class;
  // sum_k (g_k - [k = y])^2.
  std::array<double, kMaxScoredRows> brier;
  // -ln max(g_y, kLogLossFloor).
  std::array<double, kMaxScoredRows> log_loss;
};

// batch: 1 to kMaxScoredRows valid rows. The scores of a row have the same bits in any batch and on
// every CPU, because each lane processes one row. Cost: O(m) per row.
void ComputeRowScores(const PredictionBatch& batch, RowScores& scores) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_SCORES_ROW_SCORES_H_
