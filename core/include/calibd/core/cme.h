#ifndef CALIBD_CORE_CME_H_
#define CALIBD_CORE_CME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

inline constexpr std::size_t kMaxTestLocations = 256;

// The caveat that must be shown with every result of CmeTest. Measured on the reference model M1
// with m = 10 and ten test locations; see tests/statistical/anticonservative_level_test.cc.
inline constexpr std::string_view kCmeTestCaveat =
    "The CME test is asymptotic and rejects calibrated models too often when there are few "
    "observations: at level .05 some 8 to 9 % of them at n = 250, 5 to 6 % at n = 4000.";

// Why scalar lenses have no CME test.
inline constexpr char kNoScalarCmeTest[] =
    "the asymptotic test rejects 28 to 43 % of calibrated models at level .05 for lenses that "
    "reduce predictions to one number (n = 250)";

struct CmeTestResult {
  std::size_t n = 0;
  // J.
  std::size_t test_locations = 0;
  // The mean of the squared mu_j, >= 0.
  double ucme = 0;
  // n mu' S^-1 mu, >= 0.
  double statistic = 0;
  // Upper tail of chi-square with J degrees of freedom, or that of `simulation`. For ONE look.
  double p_value = 1;
  // The replicates of the statistic, if labels were drawn from the predictions. Its moments are
  // not finite if the covariance of a replicate is ill-conditioned.
  std::optional<ResamplingResult> simulation = {};
  // Condition number of S, the ratio of its largest to its smallest eigenvalue, >= 1. The larger it
  // is, the fewer digits of the statistic are accurate.
  double condition = 1;
};

// The test of calibration by the calibration mean embedding at J test locations
// t_j with labels l_j: with dev_ij = k(g_i, t_j) ([y_i = l_j] - g_i[l_j]), mu_j their
// mean over i and S their sample covariance (divisor n - 1), n mu' S^-1 mu is
// asymptotically chi-square with J degrees of freedom. Source: Widmann, Lindsten &
// Zachariah, "Calibration tests beyond classification", ICLR 2021, Sec. 5 and App. E,
// after Chwialkowski et al., NeurIPS 2015, Sec. 3. See kCmeTestCaveat.
//
// batch: valid, n >= J + 1. test_locations: valid, over the same classes, J in
//   [1, kMaxTestLocations]; chosen without looking at the batch's labels.
// Errors: InvalidArgument (J, classes); FailedPrecondition if n < J + 1, or if S is
// ill-conditioned, a condition above 1e6 (e.g. equal test locations with equal labels);
// Cancelled.
// Cost: O(n J (m + J) + J^3) time, O(n J) memory.
[[nodiscard]] absl::StatusOr<CmeTestResult> CmeTest(const PredictionBatch& batch,
                                                    const Kernel& kernel,
                                                    const PredictionBatch& test_locations,
                                                    const RunControl& control = {});

// The statistic of the CME test with an exact p-value: labels are drawn from the predictions
// (NullHypothesis::kForecast), also for scalar lenses. A replicate whose covariance is
// ill-conditioned counts as an exceedance. options.null is not used. Errors: also InvalidArgument
// (replicates). Cost: O(n J (m + replicates J)) time, O(n J) memory for each thread.
[[nodiscard]] absl::StatusOr<CmeTestResult> SimulateCmeTest(const PredictionBatch& batch,
                                                            const Kernel& kernel,
                                                            const PredictionBatch& test_locations,
                                                            const BootstrapOptions& options,
                                                            const RunControl& control = {});

// J test locations uniform on the simplex with uniform labels, a function of the seed.
// Errors: InvalidArgument unless J is in [1, kMaxTestLocations] and class_count in
// [2, 100000].
[[nodiscard]] absl::StatusOr<PredictionSet> DrawTestLocations(std::size_t count,
                                                              std::size_t class_count,
                                                              std::uint64_t seed);

}  // namespace calibd

#endif  // CALIBD_CORE_CME_H_
