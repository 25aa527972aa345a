#ifndef CALIBD_CORE_SKCE_H_
#define CALIBD_CORE_SKCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/lens.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Estimators of the squared kernel calibration error SKCE = E[h(i, j)] over two
// independent observations i, j, with
//   h(i, j) = (e_{y_i} - g_i)' k(g_i, g_j) (e_{y_j} - g_j).
// Source: Widmann, Lindsten & Zachariah, NeurIPS 2019, Sec. 5 and Table 1.

// h of two labelled predictions over the same m classes, |h| <= 2. Cost: O(m).
// The result does not depend on the CPU.
[[nodiscard]] double SkceTerm(std::span<const double> g_i, std::int32_t y_i,
                              std::span<const double> g_j, std::int32_t y_j,
                              const Kernel& kernel) noexcept;

// h of two predictions whose residuals were projected, see MatrixKernel::Project. Cost:
// O(m + rank) a term. The result does not depend on the CPU.
[[nodiscard]] double SkceTerm(std::span<const double> g_i, std::span<const double> projected_i,
                              std::span<const double> g_j, std::span<const double> projected_j,
                              const MatrixKernel& kernel) noexcept;
// h of two labelled predictions for a matrix-valued kernel. Cost: O(m rank) a term.
[[nodiscard]] double SkceTerm(std::span<const double> g_i, std::int32_t y_i,
                              std::span<const double> g_j, std::int32_t y_j,
                              const MatrixKernel& kernel) noexcept;

// Floating-point type of the pairwise terms. Their sums always use double.
enum class Precision {
  // The default and the reference.
  kFloat64,
  // About twice as fast; the error of an estimate is below 1e-3 of its standard deviation under the
  // null hypothesis (tests/property/precision_test.cc).
  kFloat32,
};

// Both quadratic estimators, which share their n^2 terms.
struct QuadraticSkce {
  std::size_t n = 0;
  // SKCE_b (Table 1 row 1) = n^-2 sum_ij h_ij, >= 0.
  double biased = 0;
  // SKCE_uq (Table 1 row 2) = mean of h_ij over i < j. Signed.
  double unbiased = 0;
  // mean_i h_ii; the Brier score since k(x, x) = 1. n SKCE_b = (n-1) SKCE_uq +
  // mean_diagonal.
  double mean_diagonal = 0;
};

// batch: valid (see validation.h), n >= 2.
// Errors: FailedPrecondition if n < 2; Cancelled.
// Cost: O(n^2 m / 2) time; memory for a copy of the input, see QuadraticMemory. With
// m = 2 and an exponential kernel O(n log n), exact, in double.
// Accuracy: SIMD against scalar code within 1e-12 relative to the mean |h_ij|.
[[nodiscard]] absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(
    const PredictionBatch& batch, const Kernel& kernel, const RunControl& control = {},
    Precision precision = Precision::kFloat64);

// The estimators after reduction by a lens: the weighted sum over its parts.
[[nodiscard]] absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(
    const LensBatch& batch, const Kernel& kernel, const RunControl& control = {},
    Precision precision = Precision::kFloat64);

// The weighted sum over several batches of the same n observations. parts: at least one.
[[nodiscard]] absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(
    std::span<const PredictionBatch> parts, double weight, const Kernel& kernel,
    const RunControl& control = {}, Precision precision = Precision::kFloat64);

// The estimators for a matrix-valued kernel. Errors: also InvalidArgument unless batch.class_count
// is that of the kernel. Cost: O(n m rank) once and O(n^2 (m + rank) / 2) a term of the kernel, in
// double.
[[nodiscard]] absl::StatusOr<QuadraticSkce> EstimateQuadraticSkce(const PredictionBatch& batch,
                                                                  const MatrixKernel& kernel,
                                                                  const RunControl& control = {});

// Errors: FailedPrecondition if n < 2.
[[nodiscard]] absl::Status CheckSampleSize(std::size_t n);

// Bytes that the quadratic estimators allocate in addition to their input, for resource limits.
// Each thread allocates another 2 x 256 x m values.
[[nodiscard]] std::size_t QuadraticMemory(std::size_t n, std::size_t class_count,
                                          Precision precision = Precision::kFloat64) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SKCE_H_
