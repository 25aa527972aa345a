#ifndef CALIBD_CORE_CME_H_
#define CALIBD_CORE_CME_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

inline constexpr std::size_t kMaxTestLocations = 256;

struct CmeTestResult {
  std::size_t n = 0;
  // J.
  std::size_t test_locations = 0;
  // The mean of the squared mu_j, >= 0.
  double ucme = 0;
  // n mu' S^+ mu, >= 0.
  double statistic = 0;
  // The number of eigenvectors of S that S^+ keeps, in 1..J.
  std::size_t directions = 0;
  // (1 + exceedances) / (1 + replicates) of `simulation`, for ONE look.
  double p_value = 1;
  // The replicates of the statistic. Its moments are not finite if the deviations of a replicate do
  // not vary.
  ResamplingResult simulation;
  // Condition number of what S^+ keeps of S, the ratio of its largest to its smallest eigenvalue,
  // in [1, 1e3]. The larger it is, the fewer digits of the statistic are accurate.
  double condition = 1;
};

// The test of calibration by the calibration mean embedding at J test locations t_j with labels
// l_j: with dev_ij = k(g_i, t_j) ([y_i = l_j] - g_i[l_j]), mu_j their mean over i and S their
// sample covariance (divisor n - 1), the statistic is n mu' S^-1 mu. Source: Widmann, Lindsten &
// Zachariah, "Calibration tests beyond classification", ICLR 2021, Sec. 5 and App. E, after
// Chwialkowski et al., NeurIPS 2015, Sec. 3. With 2 classes and for scalar lenses the deviations at
// all locations are nearly functions of a few numbers, and S is nearly singular. So its inverse is
// taken in the directions of the eigenvectors whose eigenvalue is at least 1e-3 of the largest one
// alone, S^+: the others hold noise alone. Where all are kept, it is S^-1.
//
// They compare it with chi-square with J degrees of freedom, its limit for many observations. That
// test rejects too many calibrated models at level .05: 9 % with 10 classes and 10 locations at n =
// 250, 31 % with 2 classes, where residuals of one sign are nearly collinear at all locations and S
// is nearly singular, and up to 43 % for scalar lenses. So the statistic is compared with that of
// labels drawn from the predictions (NullHypothesis::kForecast), from which the statistic is
// computed in the same way, with directions of its own. This is exact for every n, class count and
// lens. A replicate whose deviations do not vary counts as an exceedance.
//
// batch: valid, n >= J + 1. test_locations: valid, over the same classes, J in
//   [1, kMaxTestLocations]; chosen without looking at the batch's labels. options.null is not used.
// Errors: InvalidArgument (J, classes, replicates); FailedPrecondition if n < J + 1, or if S is 0,
// e.g. because all predictions are certain and right; Cancelled.
// Cost: O(n J (m + replicates J) + replicates J^3) time, O(n J) memory for each thread.
[[nodiscard]] absl::StatusOr<CmeTestResult> CmeTest(const PredictionBatch& batch,
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
