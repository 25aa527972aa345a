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

// Predictions that are taken together, for the sums to be read once for all.
inline constexpr std::size_t kRowsAtOnce = 16;
// After so many predictions the weight is brought back to 1: (1 - 1/5000)^-16384 is 26.
inline constexpr std::int64_t kRescalePeriod = 16384;

// What the past says of a prediction whose label is y.
struct PastTerms {
  // F_y, and M.
  double witness_at_label;
  double match;
  WitnessTerms witness;
  // (O + 3) / (E + 3) of the label's bin, all classes together, and sum_k p_k r_k^theta.
  double pooled_ratio;
  HistogramSums pooled_sums;
  // (c_y + 1/2) / (n + m/2).
  double label_share;
};

// The sums over the past from which experts bet, but for those of ClassCounts. Each prediction that
// joins multiplies what was there by `retention`; rather than that, it joins with a weight that
// grows.
class PastSums {
 public:
  PastSums(std::size_t class_count, double retention);

  // features: rows x kFeatureCount; residuals: rows x padded classes. Writes F of each row, as
  // many, and M, from what was before it, and lets the rows join A and S.
  void AdvanceWitness(std::size_t rows, const double* features, const double* residuals,
                      double* witness, double* match) noexcept;

  // witness: F of the prediction, padded. Of the past before the prediction joins.
  [[nodiscard]] PastTerms Terms(const PredictionTerms& prediction, double* witness, double match,
                                std::size_t label) const noexcept;
  // Lets the prediction join all but A and S.
  void AddLabel(const PredictionTerms& prediction, std::size_t label) noexcept;
  // Of the newest prediction.
  [[nodiscard]] double weight() const noexcept { return weight_; }
  // Brings the weight back to 1; at multiples of kRescalePeriod, after all sums have advanced.
  void Rescale() noexcept;

  // All but what ClassCounts saves.
  [[nodiscard]] PastState Save() const;
  // Whether the state is of so many classes and finite.
  [[nodiscard]] static bool Fits(const PastState& state, std::size_t class_count);
  // state: one that fits.
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
  std::vector<double> label_counts_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_PAST_SUMS_H_
