#include "scores/row_scores.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/disabled_targets.h"
#include "calibd/core/scores.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scores/row_scores.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
// After highway.h, once per target.
#include "base/log-inl.h"
#include "base/row_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

static_assert(kMaxScoredRows % 8 == 0);

// Computes the confidence and the predicted class of each row. In place of the Brier score, stores
// the sum of squares of the row's probabilities.
void ScanRows(const PredictionBatch& batch, RowScores& scores) {
  const RowTag d;
  const std::size_t m = batch.class_count;
  for (std::size_t first = 0; first < batch.size(); first += kRowLanes) {
    const double* rows[kRowLanes];
    const std::size_t count = std::min(kRowLanes, batch.size() - first);
    for (std::size_t lane = 0; lane < kRowLanes; ++lane) {
      // Lanes without a row use the last row.
      rows[lane] = &batch.probabilities[(first + std::min(lane, count - 1)) * m];
    }
    const RowVector one = hn::Set(d, 1);
    RowVector maximum = hn::Set(d, -1);
    RowVector predicted = hn::Zero(d);
    RowVector this_class = hn::Zero(d);
    RowVector squares[4];
    for (RowVector& sum : squares) sum = hn::Zero(d);
    const auto add = [&](RowVector g, std::size_t sum) HWY_ATTR {
      const auto greater = hn::Gt(g, maximum);
      maximum = hn::Max(g, maximum);
      predicted = hn::IfThenElse(greater, this_class, predicted);
      this_class = hn::Add(this_class, one);
      squares[sum] = hn::Add(squares[sum], hn::Mul(g, g));
    };
    std::size_t k = 0;
    const auto row = [&](std::size_t lane) HWY_ATTR { return rows[lane]; };
    for (; k + 4 <= m; k += 4) {
      for (std::size_t i = 0; i < 4; i += kRowLanes) {
        RowVector g[kRowLanes];
        LoadClasses(row, k + i, g);
        for (std::size_t j = 0; j < kRowLanes; ++j) add(g[j], i + j);
      }
    }
    if (kRowLanes == 4 && k > 0 && k < m) {
      // The last four classes; some of them were added before.
      RowVector g[kRowLanes];
      LoadClasses(row, m - kRowLanes, g);
      for (std::size_t j = 0; j < kRowLanes; ++j) {
        if (m - kRowLanes + j != k) continue;
        add(g[j], 0);
        ++k;
      }
    }
    for (; k < m; ++k) add(OfEachLane([&](std::size_t l) { return rows[l][k]; }), 0);

    const RowVector sum = hn::Add(hn::Add(squares[0], squares[1]), hn::Add(squares[2], squares[3]));
    // Lanes without a row are stored too: the arrays have room for them.
    hn::StoreU(maximum, d, &scores.confidence[first]);
    hn::StoreU(predicted, d, &scores.predicted_class[first]);
    hn::StoreU(sum, d, &scores.brier[first]);
  }
}

// In separate loops, so that the long dependency chains of several rows overlap.
void ScoreRows(const PredictionBatch& batch, RowScores& scores) {
  // Initialised, because whole vectors are read.
  scores.brier.fill(1);
  scores.log_loss.fill(1);
  ScanRows(batch, scores);
  using WideTag = hn::CappedTag<double, 8>;
  const WideTag wide;
  const auto one = hn::Set(wide, 1);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    scores.log_loss[i] = batch.row(i)[static_cast<std::size_t>(batch.labels[i])];
  }
  for (std::size_t i = 0; i < batch.size(); i += hn::Lanes(wide)) {
    const auto own = hn::LoadU(wide, &scores.log_loss[i]);
    const auto squares = hn::LoadU(wide, &scores.brier[i]);
    // Rounding must not make it negative.
    const auto others = hn::Max(hn::Sub(squares, hn::Mul(own, own)), hn::Zero(wide));
    const auto residual = hn::Sub(one, own);
    hn::StoreU(hn::Add(others, hn::Mul(residual, residual)), wide, &scores.brier[i]);
    const auto loss = hn::Neg(Log(wide, hn::Max(own, hn::Set(wide, kLogLossFloor))));
    hn::StoreU(loss, wide, &scores.log_loss[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(ScoreRows);

void ComputeRowScores(const PredictionBatch& batch, RowScores& scores) noexcept {
  HWY_DYNAMIC_DISPATCH(ScoreRows)(batch, scores);
}

}  // namespace calibd
#endif  // HWY_ONCE
