#ifndef CALIBD_CORE_SRC_FEATURE_SIMD_H_
#define CALIBD_CORE_SRC_FEATURE_SIMD_H_

#include <cstddef>

namespace calibd {

// The loops of RandomFeatures, with instructions that Highway selects at run time. The last bits of
// sums differ between CPUs.

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

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_FEATURE_SIMD_H_
