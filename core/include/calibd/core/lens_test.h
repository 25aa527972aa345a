#ifndef CALIBD_CORE_LENS_TEST_H_
#define CALIBD_CORE_LENS_TEST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/bootstrap_test.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_kernel.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"
#include "calibd/core/skce.h"

namespace calibd {

// The quadratic estimators and their test as one lens sees a batch.
struct LensTestResult {
  RunningKernel kernel;
  // B of the lens and its kernel, for distribution-free bounds.
  double bound = 2;
  // With 0 replicates only `skce` and `statistic` are set.
  BootstrapTestResult test;
  // What a calibrated model with these predictions would show.
  NullMoments null_moments;

  // One class of the class-wise lens: Lens::OneClass.
  struct OneClass {
    std::size_t class_index = 0;
    QuadraticSkce skce;
    NullMoments null_moments;
  };
  // Of the class-wise lens, ascending: all classes, or the kMaxReportedClasses of them whose
  // SKCE_uq is largest.
  std::vector<OneClass> classes;
};

inline constexpr std::size_t kMaxReportedClasses = 1000;

struct LensTestOptions {
  // Of this lens, see KernelOfLens.
  KernelSpec kernel;
  // Of SKCE_b and SKCE_uq. Scalar lenses and matrix-valued kernels are in double always.
  Precision precision = Precision::kFloat64;
  // In [kMinReplicates, kMaxReplicates], or 0 for no test.
  std::int32_t replicates = 1000;
  std::uint64_t seed = 0;
};

// batch: valid, n >= 2.
// Errors: InvalidArgument (lens, kernel, replicates); FailedPrecondition (n, or a
// median of 0); Cancelled.
// Cost: LensTestOperations; memory LensTestMemory.
[[nodiscard]] absl::StatusOr<LensTestResult> TestLens(const PredictionBatch& batch,
                                                      const Lens& lens,
                                                      const LensTestOptions& options,
                                                      const RunControl& control = {});

// Bytes beside the input and rough number of multiplications, for limits on a request.
// The lens fits a model of class_count classes.
[[nodiscard]] double LensTestMemory(std::size_t n, std::size_t class_count, const Lens& lens,
                                    const LensTestOptions& options, std::size_t threads) noexcept;
[[nodiscard]] double LensTestOperations(std::size_t n, std::size_t class_count, const Lens& lens,
                                        const LensTestOptions& options) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_LENS_TEST_H_
