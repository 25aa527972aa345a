#include "loss/class_pairs.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/disabled_targets.h"
#include "calibd/core/distance.h"
#include "calibd/core/status_macros.h"
#include "kernels/tile_engine.h"
#include "kernels/tile_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "loss/class_pairs.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#ifndef CALIBD_CORE_SRC_CLASS_PAIRS_TASK_
#define CALIBD_CORE_SRC_CLASS_PAIRS_TASK_
namespace calibd {

// The derivative of the distance with respect to the first point, up to a factor: the signs of the
// differences, or the differences.
enum class Slope { kSigns, kDifferences };

// The sums of the gradients of these rows are kept by lane, of which there are at most this many.
inline constexpr std::size_t kGradientLanes = 8;

// Consecutive rows against the columns of one panel.
struct ClassGradientTask {
  std::size_t class_count;
  Slope slope;
  // Of the engine: the predictions of all observations, [panel][class][observation].
  const double* panels;
  // q - e_y in the same layout.
  const double* residuals;
  std::size_t row_begin;
  std::size_t row_count;
  // The first observation of the panel.
  std::size_t column_begin;
  // Row-major with kTileSize values per row: the factors of the slopes and of the residuals. They
  // are 0 for columns that do not exist.
  const double* slope_weights;
  const double* residual_weights;
  // [row][class][lane].
  double* sums;
};

// One row of pairs.
struct ClassPairRow {
  // A multiple of kGradientLanes.
  std::size_t count;
  // Multiplied by `factor`, and, unless `distances` is null, divided by the distances.
  double* terms;
  const double* distances;
  double factor;
};

}  // namespace calibd
#endif  // CALIBD_CORE_SRC_CLASS_PAIRS_TASK_

HWY_BEFORE_NAMESPACE();
namespace calibd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<double, kGradientLanes>;
using V = hn::Vec<D>;

// AVX-512 adds under a mask in one instruction; the others need fewer without a blend.
constexpr bool kHasMasks = HWY_TARGET <= HWY_AVX3;

template <class M>
HWY_INLINE V AddWhere(M mask, V sum, V term) {
  if constexpr (kHasMasks) return hn::IfThenElse(mask, hn::Add(sum, term), sum);
  return hn::Add(sum, hn::IfThenElseZero(mask, term));
}
template <class M>
HWY_INLINE V SubtractWhere(M mask, V sum, V term) {
  if constexpr (kHasMasks) return hn::IfThenElse(mask, hn::Sub(sum, term), sum);
  return hn::Sub(sum, hn::IfThenElseZero(mask, term));
}

// kRows rows against kVectors vectors of columns.
template <Slope kSlope, std::size_t kRows, std::size_t kVectors>
HWY_INLINE void AddBlock(const ClassGradientTask& task, std::size_t first_row,
                         std::size_t first_column) {
  constexpr std::size_t kWidth = kPanelWidth<double>;
  const D d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t m = task.class_count;
  const double* rows[kRows];
  V slopes[kRows][kVectors];
  V weights[kRows][kVectors];
  HWY_UNROLL(4)
  for (std::size_t r = 0; r < kRows; ++r) {
    const std::size_t row = task.row_begin + first_row + r;
    rows[r] = task.panels + row / kWidth * m * kWidth + row % kWidth;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      const std::size_t at = (first_row + r) * kTileSize + first_column + v * lanes;
      slopes[r][v] = hn::LoadU(d, task.slope_weights + at);
      weights[r][v] = hn::LoadU(d, task.residual_weights + at);
    }
  }
  const std::size_t panel = task.column_begin * m + first_column;
  for (std::size_t k = 0; k < m; ++k) {
    V points[kVectors];
    V residuals[kVectors];
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < kVectors; ++v) {
      points[v] = hn::LoadU(d, task.panels + panel + k * kWidth + v * lanes);
      residuals[v] = hn::LoadU(d, task.residuals + panel + k * kWidth + v * lanes);
    }
    HWY_UNROLL(4)
    for (std::size_t r = 0; r < kRows; ++r) {
      const V own = hn::Set(d, rows[r][k * kWidth]);
      double* const out = task.sums + ((first_row + r) * m + k) * kGradientLanes;
      V of_slopes = hn::LoadU(d, out);
      V of_residuals = hn::Zero(d);
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < kVectors; ++v) {
        if constexpr (kSlope == Slope::kSigns) {
          of_slopes = AddWhere(hn::Gt(own, points[v]), of_slopes, slopes[r][v]);
          of_slopes = SubtractWhere(hn::Lt(own, points[v]), of_slopes, slopes[r][v]);
        } else {
          of_slopes = hn::MulAdd(hn::Sub(own, points[v]), slopes[r][v], of_slopes);
        }
        of_residuals = hn::MulAdd(weights[r][v], residuals[v], of_residuals);
      }
      hn::StoreU(hn::Add(of_slopes, of_residuals), d, out);
    }
  }
}

template <Slope kSlope>
HWY_INLINE void AddPanel(const ClassGradientTask& task) {
  // The weights of the rows stay in registers, of which there are 32 or 16.
  constexpr std::size_t kRows = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON ? 2 : 1;
  constexpr std::size_t kVectors = HWY_MAX_BYTES >= 64 || HWY_TARGET == HWY_NEON ? 4 : 2;
  const std::size_t step = kVectors * hn::Lanes(D());
  for (std::size_t column = 0; column < kPanelWidth<double>; column += step) {
    std::size_t row = 0;
    for (; row + kRows <= task.row_count; row += kRows) {
      AddBlock<kSlope, kRows, kVectors>(task, row, column);
    }
    for (; row < task.row_count; ++row) AddBlock<kSlope, 1, kVectors>(task, row, column);
  }
}

void AddClassGradient(const ClassGradientTask& task) {
  task.slope == Slope::kSigns ? AddPanel<Slope::kSigns>(task) : AddPanel<Slope::kDifferences>(task);
}

// Returns the sum of the terms before they are multiplied.
double MultiplyTerms(const ClassPairRow& row) {
  const D d;
  const V factor = hn::Set(d, row.factor);
  const V zero = hn::Zero(d);
  V sum = zero;
  for (std::size_t j = 0; j < row.count; j += hn::Lanes(d)) {
    V term = hn::LoadU(d, row.terms + j);
    sum = hn::Add(sum, term);
    term = hn::Mul(term, factor);
    if (row.distances != nullptr) {
      // Equal points have no direction: the derivative there is set to 0.
      const V distance = hn::LoadU(d, row.distances + j);
      term = hn::IfThenElseZero(hn::Gt(distance, zero), hn::Div(term, distance));
    }
    hn::StoreU(term, d, row.terms + j);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace calibd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace calibd {

HWY_EXPORT(AddClassGradient);
HWY_EXPORT(MultiplyTerms);

namespace {

// d(distance)/dq_i = factor slope_ij, and, of the Euclidean distance, also divided by the distance.
double SlopeFactor(Distance distance) {
  switch (distance) {
    case Distance::kTotalVariation:
      return 0.5;
    case Distance::kCityblock:
    case Distance::kEuclidean:
      return 1;
    case Distance::kSquaredEuclidean:
      break;
  }
  return 2;
}

// Computes the gradients of some rows at a time, each against all columns.
class GradientRows {
 public:
  GradientRows(const PredictionBatch& batch, const Kernel& kernel, double scale, bool biased,
               std::span<double> gradient)
      : engine_(batch, kernel),
        kernel_(kernel),
        m_(batch.class_count),
        n_(batch.size()),
        biased_(biased),
        scale_(scale),
        gradient_(gradient),
        residuals_(engine_.panels().begin(), engine_.panels().end()) {
    constexpr std::size_t kWidth = kPanelWidth<double>;
    for (std::size_t i = 0; i < n_; ++i) {
      const auto label = static_cast<std::size_t>(batch.labels[engine_.order()[i]]);
      residuals_[(i / kWidth * m_ + label) * kWidth + i % kWidth] -= 1;
    }
  }

  // Sets the gradients of the observations at the positions begin .. end - 1 of the engine, and
  // sums[i - begin], which does not depend on the other rows of the call.
  void Compute(std::size_t begin, std::size_t end, const RunControl& control,
               std::span<PairSums> sums) const {
    const std::size_t rows = end - begin;
    const bool divides = kernel_.distance() == Distance::kEuclidean;
    const std::size_t tile_terms = rows * kTileSize;
    const auto buffer = std::make_unique_for_overwrite<double[]>((divides ? 3 : 2) * tile_terms);
    double* const terms = buffer.get();
    double* const kernels = terms + tile_terms;
    double* const distances = divides ? kernels + tile_terms : nullptr;
    std::vector<double> gradients(rows * m_ * kGradientLanes);
    const double factor = -SlopeFactor(kernel_.distance()) / kernel_.bandwidth();
    for (std::size_t first = 0; first < n_; first += kTileSize) {
      if (control.IsCancelled()) return;
      const Tile tile{begin, rows, first, std::min(kTileSize, n_ - first)};
      engine_.TermsAndKernels(tile, control.cancelled, terms, kernels);
      if (divides) engine_.Distances(tile, control.cancelled, distances);
      const std::size_t padded = RoundUp(tile.column_count);
      for (std::size_t r = 0; r < rows; ++r) {
        double* const row_terms = terms + r * kTileSize;
        double* const row_kernels = kernels + r * kTileSize;
        std::fill(row_terms + tile.column_count, row_terms + padded, 0.0);
        std::fill(row_kernels + tile.column_count, row_kernels + padded, 0.0);
        const std::size_t own = begin + r - first;
        if (own < tile.column_count) {
          sums[r].diagonal = scale_ * row_terms[own];
          row_terms[own] = 0;
          if (!biased_) row_kernels[own] = 0;
        }
        sums[r].off_diagonal +=
            scale_ * HWY_DYNAMIC_DISPATCH(MultiplyTerms)(
                         {.count = padded,
                          .terms = row_terms,
                          .distances = divides ? distances + r * kTileSize : nullptr,
                          .factor = factor});
      }
      AddGradients(tile, terms, kernels, gradients);
    }
    const auto size = static_cast<double>(n_);
    const double mean = 2 * scale_ / (biased_ ? size * size : size * (size - 1));
    for (std::size_t r = 0; r < rows; ++r) {
      const std::span<double> out = gradient_.subspan(engine_.order()[begin + r] * m_, m_);
      for (std::size_t k = 0; k < m_; ++k) {
        const double* const lanes = &gradients[(r * m_ + k) * kGradientLanes];
        out[k] = mean * (((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
                         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7])));
      }
    }
  }

 private:
  // The columns of complete panels.
  static std::size_t RoundUp(std::size_t columns) {
    constexpr std::size_t kWidth = kPanelWidth<double>;
    return (columns + kWidth - 1) / kWidth * kWidth;
  }

  void AddGradients(const Tile& tile, const double* terms, const double* kernels,
                    std::vector<double>& gradients) const {
    const bool signs = kernel_.distance() == Distance::kTotalVariation ||
                       kernel_.distance() == Distance::kCityblock;
    ClassGradientTask task{.class_count = m_,
                           .slope = signs ? Slope::kSigns : Slope::kDifferences,
                           .panels = engine_.panels().data(),
                           .residuals = residuals_.data(),
                           .row_begin = tile.row_begin,
                           .row_count = tile.row_count,
                           .column_begin = 0,
                           .slope_weights = nullptr,
                           .residual_weights = nullptr,
                           .sums = gradients.data()};
    for (std::size_t column = 0; column < tile.column_count; column += kPanelWidth<double>) {
      task.column_begin = tile.column_begin + column;
      task.slope_weights = terms + column;
      task.residual_weights = kernels + column;
      HWY_DYNAMIC_DISPATCH(AddClassGradient)(task);
    }
  }

  const TileEngine<double> engine_;
  const Kernel kernel_;
  const std::size_t m_;
  const std::size_t n_;
  const bool biased_;
  const double scale_;
  const std::span<double> gradient_;
  // The layout is that of the engine's panels.
  std::vector<double> residuals_;
};

// The number of rows whose sums fit into a cache.
std::size_t RowsAtOnce(std::size_t class_count) {
  constexpr std::size_t kSums = 4096;
  return std::clamp<std::size_t>(kSums / class_count, 8, kPanelWidth<double>);
}

}  // namespace

double ClassGradientMemory(std::size_t n, std::size_t class_count) noexcept {
  constexpr std::size_t kMostThreads = 64;
  const std::size_t rows = RowsAtOnce(class_count);
  const std::size_t at_once = std::min(n / rows + 1, kMostThreads);
  return static_cast<double>(sizeof(double) * at_once * rows *
                             (3 * kTileSize + kGradientLanes * class_count));
}

absl::StatusOr<PairSums> SumClassPairs(const PredictionBatch& batch, const Kernel& kernel,
                                       double scale, bool biased, std::span<double> gradient,
                                       const RunControl& control) {
  if (gradient.empty()) {
    CALIBD_ASSIGN_OR_RETURN(const TermSums sums,
                            SumTiles(TileEngine<double>(batch, kernel), control));
    return PairSums{.off_diagonal = 2 * scale * sums.above_diagonal,
                    .diagonal = scale * sums.diagonal};
  }
  const std::size_t n = batch.size();
  const GradientRows gradients(batch, kernel, scale, biased, gradient);
  const std::size_t rows = RowsAtOnce(batch.class_count);
  std::vector<PairSums> sums(n);
  RunLoop(control.parallel_for, (n + rows - 1) / rows, [&](std::size_t task) {
    const std::size_t begin = task * rows;
    const std::size_t end = std::min(n, begin + rows);
    gradients.Compute(begin, end, control, std::span(sums).subspan(begin, end - begin));
  });
  return AddRows(sums, control);
}

}  // namespace calibd
#endif  // HWY_ONCE
