#ifndef CALIBD_CORE_BOOTSTRAP_H_
#define CALIBD_CORE_BOOTSTRAP_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/lens.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "calibd/core/skce.h"

namespace calibd {

inline constexpr std::int32_t kMinReplicates = 99;
inline constexpr std::int32_t kMaxReplicates = 100000;

// What a resampling test rejects, which decides how its replicates are drawn.
enum class NullHypothesis {
  // The model is calibrated in the tested part of its predictions. Observations are drawn with
  // replacement. Asymptotic.
  kForm,
  // Each label is drawn from its prediction, independently of the others. The predictions are kept
  // and labels are drawn from them, so that the test is exact for every n and every statistic:
  // P(p <= a) <= a. For one part with its own predictions (every lens but class_wise) this follows
  // from the calibration of that part; the sum over classes can be calibrated class by class and
  // still be rejected.
  kForecast,
};

// The hypothesis in words, e.g. for a report.
[[nodiscard]] std::string_view Describe(NullHypothesis null) noexcept;

// With 999 the size of an exact test is the level, if it is a multiple of .001 and ties are rare.
[[nodiscard]] constexpr std::int32_t DefaultReplicates(NullHypothesis null) noexcept {
  return null == NullHypothesis::kForecast ? 999 : 1000;
}

struct BootstrapOptions {
  // In [kMinReplicates, kMaxReplicates].
  std::int32_t replicates = 1000;
  // The same seed on the same batch gives the same result, whatever the threads.
  std::uint64_t seed = 0;
  NullHypothesis null = NullHypothesis::kForm;
};

// How a statistic compares with its replicates.
struct ResamplingResult {
  // (1 + exceedances) / (1 + replicates): never 0. For ONE look.
  double p_value = 1;
  std::int32_t replicates = 0;
  // #{replicates >= statistic}.
  std::int32_t exceedances = 0;
  std::uint64_t seed = 0;
  NullHypothesis null = NullHypothesis::kForm;
  // Mean and standard deviation of the replicates, with divisor replicates - 1, and their 95 %
  // quantile. With kForecast they are the simulated noise floor of the statistic.
  double replicate_mean = 0;
  double replicate_standard_deviation = 0;
  double replicate_upper_quantile = 0;
};

// A statistic with its test.
struct SimulatedStatistic {
  double value = 0;
  ResamplingResult test;
};

struct BootstrapTestResult : ResamplingResult {
  QuadraticSkce skce;
  // BootstrapStatistic(skce), or the LabelSkce of the labels with kForecast.
  double statistic = 0;
};

// n/(n-1) SKCE_uq - SKCE_b.
[[nodiscard]] double BootstrapStatistic(const QuadraticSkce& skce) noexcept;

// The asymptotic quadratic test by the bootstrap of the degenerate U-statistic (Arcones & Gine):
// Widmann, Lindsten & Zachariah, NeurIPS 2019, Sec. 6 and App. G. For replicate r draw n indices
// with replacement, C_i = the number of times i was drawn, H = (h_ij), R_i = sum_j h_ij:
//   T = n^-2 [ n/(n-1) (C'HC - sum_i C_i h_ii) - 2 sum_i C_i R_i ].
//
// batch: valid, n >= 2. options.null: kForm.
// Errors: InvalidArgument (replicates, null); FailedPrecondition if n < 2; Cancelled.
// Cost: O(n^2 (m + replicates) / 2) time; memory n x min(replicates, 1024) x 4
// bytes and tiles, see BootstrapMemory; never n^2.
// Accuracy: the statistic is in double; the replicates use H in float32, with an error below 1e-3
// of their standard deviation (tests/unit/core/bootstrap_test.cc).
[[nodiscard]] absl::StatusOr<BootstrapTestResult> BootstrapTest(const PredictionBatch& batch,
                                                                const Kernel& kernel,
                                                                const BootstrapOptions& options,
                                                                const RunControl& control = {});

// The same test after reduction by a lens. All parts share the draws of each replicate. Two-class
// parts with an exponential kernel cost O(n (log n + replicates)). precision: that of the
// statistic.
[[nodiscard]] absl::StatusOr<BootstrapTestResult> BootstrapTest(
    const LensBatch& batch, const Kernel& kernel, const BootstrapOptions& options,
    const RunControl& control = {}, Precision precision = Precision::kFloat64);

// The number of times that BootstrapTest computes H: once for every 1024 replicates, rounded up.
[[nodiscard]] std::int32_t BootstrapPasses(std::int32_t replicates) noexcept;

// Bytes that BootstrapTest allocates in addition to its input, for resource limits.
[[nodiscard]] std::size_t BootstrapMemory(std::size_t n, std::size_t class_count,
                                          std::int32_t replicates, std::size_t threads) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_BOOTSTRAP_H_
