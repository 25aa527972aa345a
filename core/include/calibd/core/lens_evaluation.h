#ifndef CALIBD_CORE_LENS_EVALUATION_H_
#define CALIBD_CORE_LENS_EVALUATION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/bootstrap.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "calibd/core/skce.h"

namespace calibd {

// The quadratic estimators of a batch and their test for one lens.
struct LensTestResult {
  RunningKernel kernel;
  // Whether the rule of the bandwidth needs predictions, and all of them are equal as the lens sees
  // them. Every bandwidth then gives the same kernel values, and `kernel` has 1.
  bool is_constant = false;
  // B of the lens and its kernel, for distribution-free bounds.
  double bound = 2;
  // With 0 replicates in the options only `skce` and `statistic` are set.
  BootstrapTestResult test;
  // Moments under the null hypothesis, given these predictions.
  NullMoments null_moments;

  // One class of the class-wise lens: Lens::OneClass.
  struct OneClass {
    std::size_t class_index = 0;
    QuadraticSkce skce;
    NullMoments null_moments;
  };
  // For the class-wise lens, in ascending order of class: all classes, or the kMaxReportedClasses
  // of them whose SKCE_uq is largest.
  std::vector<OneClass> classes;
};

inline constexpr std::size_t kMaxReportedClasses = 1000;

struct LensTestOptions {
  // The kernel for this lens, see KernelOfLens.
  KernelSpec kernel;
  // Precision of SKCE_b and SKCE_uq. Scalar lenses and matrix-valued kernels always use double.
  Precision precision = Precision::kFloat64;
  // In [kMinReplicates, kMaxReplicates], or 0 for no test.
  std::int32_t replicates = kDefaultReplicates;
  std::uint64_t seed = 0;
  // With kForecast the statistic is SKCE_uq. Above 2000 observations its kernel is approximated by
  // Fourier terms (fourier_basis.h), except over exponential kernels of two-class parts.
  // With kPearson the statistic is SKCE_uq, the kernel must be real-valued, and unless `replicates`
  // is 0 the test has a p-value, no replicates, and the moments of the curve as those of
  // replicates.
  NullHypothesis null = NullHypothesis::kForm;
};

// batch: valid, n >= 2.
// Errors: InvalidArgument (lens, kernel, replicates); FailedPrecondition (n); Cancelled.
// Cost: LensTestOperations; memory LensTestMemory.
[[nodiscard]] absl::StatusOr<LensTestResult> TestLens(const PredictionBatch& batch,
                                                      const Lens& lens,
                                                      const LensTestOptions& options,
                                                      const RunControl& control = {});

// Bytes in addition to the input, and the approximate number of multiplications, for resource
// limits. The lens fits a model of class_count classes.
[[nodiscard]] double LensTestMemory(std::size_t n, std::size_t class_count, const Lens& lens,
                                    const LensTestOptions& options, std::size_t threads) noexcept;
[[nodiscard]] double LensTestOperations(std::size_t n, std::size_t class_count, const Lens& lens,
                                        const LensTestOptions& options) noexcept;
// Approximate seconds of one CPU with AVX2, for progress and announcements. Operations of different
// kinds take different times: multiplications of a matrix product 4e-11 s, others 1e-9 s.
[[nodiscard]] double LensTestSeconds(std::size_t n, std::size_t class_count, const Lens& lens,
                                     const LensTestOptions& options) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_LENS_EVALUATION_H_
