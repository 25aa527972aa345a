#ifndef CALIBD_CORE_LENS_TEST_H_
#define CALIBD_CORE_LENS_TEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "calibd/core/bootstrap_test.h"
#include "calibd/core/kernel.h"
#include "calibd/core/lens.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The quadratic estimators and their test as one lens sees a batch, with the
// exponential kernel over total variation.
struct LensTestResult {
  // nu, in units of the total variation of what the lens shows.
  double bandwidth = 0;
  // The bandwidth is the full-matrix median of what the lens shows, not a given number.
  bool bandwidth_is_median = false;
  // B of the lens, for distribution-free bounds.
  double bound = 2;
  // With 0 replicates only `skce` and `statistic` are set.
  BootstrapTestResult test;
  // What a calibrated model with these predictions would show; unset for a lens of
  // several parts, whose terms are correlated.
  std::optional<NullMoments> null_moments;
};

struct LensTestOptions {
  // nu; unset: kScalarBandwidth for a scalar lens, else the median of all pairwise
  // distances of what the lens shows. Labels play no part.
  std::optional<double> bandwidth;
  // In [kMinReplicates, kMaxReplicates], or 0 for no test.
  std::int32_t replicates = 1000;
  std::uint64_t seed = 0;
};

// batch: valid, n >= 2.
// Errors: InvalidArgument (lens, bandwidth, replicates); FailedPrecondition (n, or a
// median of 0); Cancelled.
// Cost: LensTestOperations; memory LensTestMemory.
[[nodiscard]] absl::StatusOr<LensTestResult> TestLens(const PredictionBatch& batch,
                                                      const Lens& lens,
                                                      const LensTestOptions& options,
                                                      const RunControl& control = {});

// Bytes beside the input and rough number of multiplications, for limits on a request.
// The lens fits a model of class_count classes.
[[nodiscard]] double LensTestMemory(std::size_t n, std::size_t class_count, const Lens& lens,
                                    std::int32_t replicates, std::size_t threads) noexcept;
[[nodiscard]] double LensTestOperations(std::size_t n, std::size_t class_count, const Lens& lens,
                                        std::int32_t replicates) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_LENS_TEST_H_
