#ifndef CALIBD_CORE_SRC_PAST_SUMS_H_
#define CALIBD_CORE_SRC_PAST_SUMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/line_vector.h"
#include "evidence_simd.h"

namespace calibd {

// Predictions that are processed together, so that the sums are read once for all of them.
inline constexpr std::size_t kRowsAtOnce = 16;
// The weight is rescaled to 1 after this many predictions: (1 - 1/5000)^-16384 is 26.
inline constexpr std::int64_t kRescalePeriod = 16384;

// The terms of a prediction with label y that depend on the past.
struct PastTerms {
  // F_y and M.
  double witness_at_label;
  double match;
  WitnessTerms witness;
  // (O + 3) / (E + 3) of the label's bin, all classes together, and sum_k p_k r_k^theta.
  double pooled_ratio;
  HistogramSums pooled_sums;
  // (c_y + 1/2) / (n + m/2).
  double label_share;
  // The same as for the pooled bins, for classes instead of bins.
  double count_ratio;
  HistogramSums count_sums;
};

// The sums over the past from which experts bet, except those of ClassCounts. Each new prediction
// decays the sums by the factor `retention`. This is implemented by a growing weight of new
// predictions instead.
class PastSums {
 public:
  PastSums(std::size_t class_count, double retention);

  // features: rows x kFeatureCount; residuals: rows x padded classes. Writes F and M of each row,
  // computed from the rows before it, and adds the rows to A and S. F has the shape of `residuals`.
  void AdvanceWitness(std::size_t rows, const double* features, const double* residuals,
                      double* witness, double* match) noexcept;

  // witness: F of the prediction, padded. Uses the past without this prediction.
  [[nodiscard]] PastTerms Terms(const PredictionTerms& prediction, double* witness, double match,
                                std::size_t label) const noexcept;
  // Adds the prediction to all sums except A and S. g: before smoothing.
  void AddLabel(const PredictionTerms& prediction, const double* g, std::size_t label) noexcept;
  // The weight of the newest prediction.
  [[nodiscard]] double weight() const noexcept { return weight_; }
  // Rescales the weight to 1. Called at multiples of kRescalePeriod, after all sums were updated.
  void Rescale() noexcept;

  // Saves all fields except those of ClassCounts.
  [[nodiscard]] PastState Save() const;
  // Returns true if the state has the shape for class_count classes and is finite.
  [[nodiscard]] static bool Fits(const PastState& state, std::size_t class_count);
  // state: must fit.
  void Restore(const PastState& state);
  [[nodiscard]] static std::size_t Memory(std::size_t class_count) noexcept;

 private:
  std::size_t class_count_;
  std::size_t size_;
  double growth_;
  double weight_ = 1;
  double count_ = 0;
  std::array<double, kFeatureCount> feature_sums_{};
  // Groups of kGroup classes, each kFeatureCount x kGroup.
  LineVector witness_;
  std::array<double, kBinCount> pooled_observed_{};
  std::array<double, kBinCount> pooled_expected_{};
  // Padded.
  LineVector label_counts_;
  LineVector label_expected_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_PAST_SUMS_H_
