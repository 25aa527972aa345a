#ifndef CALIBD_CORE_SRC_EVIDENCE_SIMD_H_
#define CALIBD_CORE_SRC_EVIDENCE_SIMD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "calibd/core/experts.h"

namespace calibd {

// The loops of the evidence over classes and experts, with instructions that Highway selects at run
// time. The last bits of sums differ between CPUs.

// Arrays over classes or experts are padded to a multiple of this many values on every CPU.
inline constexpr std::size_t kGroup = 8;
[[nodiscard]] constexpr std::size_t Padded(std::size_t n) {
  return (n + kGroup - 1) / kGroup * kGroup;
}
inline constexpr std::size_t kPaddedExperts = Padded(kExpertCount);

// The whole past, and the recent past with exponentially decaying weights.
inline constexpr std::size_t kAll = 0;
inline constexpr std::size_t kRecent = 1;
inline constexpr std::size_t kPasts = 2;
template <typename T>
using OfPasts = std::array<T, kPasts>;

// The counts of a class's bin for each past: the observed and the expected number of labels.
inline constexpr std::size_t kObserved = 0;
inline constexpr std::size_t kExpected = kPasts;
inline constexpr std::size_t kCellSize = 2 * kPasts;

// Bins of the log odds: bin b holds [b - 12, b - 11), and the end bins hold all values beyond.
inline constexpr std::size_t kBinCount = 24;

// For each row: phases[r] += sum_k g[k] frequencies[k][r], k ascending.
struct PhaseTask {
  std::size_t rows;
  // rows x class_count, beginning at these `count` classes.
  const double* probabilities;
  std::size_t class_count;
  std::size_t count;
  const double* frequencies;
  // rows x kFeatureCount.
  double* phases;
};
void AddPhases(const PhaseTask& task) noexcept;
// Converts 64 phases in turns to the 128 features, in place: the second half of the array is unused
// on entry.
void PhasesToFeatures(double* features) noexcept;
// Returns features' sums, then sums += weight features.
[[nodiscard]] double AdvanceMatch(const double* features, double weight, double* sums) noexcept;

// The sums A, groups of kGroup classes, each kFeatureCount x kGroup, as rows pass one after the
// other: out = phi'A / before, then A += after phi d'.
struct WitnessTask {
  double* sums;
  std::size_t rows;
  // rows x kFeatureCount.
  const double* features;
  // rows x stride; stride is the padded number of classes.
  const double* residuals;
  double* out;
  std::size_t stride;
  // For each row, the inverse of the weight of the newest row before it, and its own weight.
  const double* inverse_before;
  const double* after;
};
void AdvanceWitness(const WitnessTask& task) noexcept;

// A prediction before its label is known. Arrays over classes, padded to `size`.
struct PredictionTerms {
  // Smoothed; 0 for padding.
  double* p;
  // Natural logarithm.
  double* log_p;
  // kCellSize (bin * size + class): position of the counts of each class's bin.
  std::int64_t* cells;
  std::int32_t* bins;
  std::size_t class_count;
  std::size_t size;
  // Sums over the classes of each bin, before and after smoothing.
  std::array<double, kBinCount> given_in_bin;
  std::array<double, kBinCount> p_in_bin;
  // sum_k p_k^beta.
  std::array<double, kPowers.size()> power_sums;
  // Sum of the prediction before smoothing.
  double total;
};
// g: class_count values. eps: added to each. edges: the 23 lower edges of bins 1..23, as
// probabilities.
void Smooth(const double* g, double eps, const double* edges, PredictionTerms& terms) noexcept;

// Reductions of F that the experts need. The padding of F is overwritten with copies of its first
// value.
struct WitnessTerms {
  double min;
  double max;
  // L = <p, F> - min as sum_k p_k (F_k - min), which avoids cancellation if F is almost constant.
  double largest_loss;
  // sum_k p_k e^{eta (F_k - max) / (10 + M)}.
  std::array<double, kTiltRates.size()> tilt_sums;
};
[[nodiscard]] WitnessTerms ReduceWitness(const PredictionTerms& terms, double* witness,
                                         double match) noexcept;
// d'F,
// d
// ^2, and sum_k g_k (F_k - <g, F>)^2 for g = e_y - d. `at_label` is F_y; the padding of d is 0.
struct Projection {
  double product;
  double square;
  double variance;
};
[[nodiscard]] Projection ProjectResidual(const double* residual, const double* witness,
                                         double at_label, std::size_t size) noexcept;

// sum_k p_k r_k^theta with r_k = (observed_k + 3 w) / (expected_k + 3 w).
using HistogramSums = std::array<double, kHistogramPowers.size()>;
// Sums over bins, or over classes; `size` values each, a multiple of kGroup.
[[nodiscard]] HistogramSums SumHistogram(const double* p, const double* observed,
                                         const double* expected, std::size_t size,
                                         double weight) noexcept;
// Sums over classes, each with its own bin; cells: counts of all bins and classes.
[[nodiscard]] OfPasts<HistogramSums> SumClassHistograms(const PredictionTerms& terms,
                                                        const double* cells,
                                                        const OfPasts<double>& weights) noexcept;
// E of each class's bin += weight g.
void AddClassExpectations(const PredictionTerms& terms, const double* g,
                          const OfPasts<double>& weights, double* cells) noexcept;

// The e-values of all experts as e^linear numerator / denominator, so that their logarithms are
// computed together; 0, 1, 1 for padding.
struct ExpertBets {
  std::array<double, kPaddedExperts> linear;
  std::array<double, kPaddedExperts> numerator;
  std::array<double, kPaddedExperts> denominator;
};
// Arrays over kPaddedExperts: log W, log(1 + R), log max(1, C).
struct ExpertProcesses {
  double* log_e;
  double* log_r1;
  double* log_c1;
};
// The logarithms of the mixtures over experts.
struct ProcessMixtures {
  double log_e;
  double log_r1;
  double log_c1;
};
// log W += log e with the bets from the whole past; R <- (1 + R) e and C <- max(1, C) e with the
// bets from the recent past. penalty: subtracted from each log e.
ProcessMixtures AdvanceProcesses(const ExpertBets& all, const ExpertBets& recent, double penalty,
                                 const ExpertProcesses& processes) noexcept;
// log sum_j prior_j e^{values_j}.
[[nodiscard]] double LogMixture(const double* values) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_SIMD_H_
