#ifndef CALIBD_CORE_SRC_LOSS_DISTRIBUTION_MATCHING_H_
#define CALIBD_CORE_SRC_LOSS_DISTRIBUTION_MATCHING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/forecast.h"
#include "calibd/core/kernel.h"
#include "calibd/core/outcome_kernel.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The squared maximum mean discrepancy of h_ij = k_z(z_i, z_j) A_ij, computed row by row: see
// ComputeLoss. theta_i are the values of forecast i, in the order of the gradient.

// Columns first .. first + size - 1 of one row of the matrix of pairs.
struct PairRow {
  std::size_t i = 0;
  std::size_t first = 0;
};
// The largest number of columns of a call.
inline constexpr std::size_t kMaxPairColumns = 512;

// A_ij = <psi_i, psi_j> of psi_i = k_y(y_i, .) - E k_y(Y'_i, .). Thread-safe.
class OutcomeTerms {
 public:
  virtual ~OutcomeTerms() = default;

  // terms: set to A_ij. gradient, unless empty: weights[j] dA_ij/dtheta_i, the derivative with
  // respect to the first argument, is added for each column j.
  virtual void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
                       std::span<double> gradient) const = 0;
};

// k_z(z_i, z_j), 1 for i = j. Thread-safe.
class ConditionTerms {
 public:
  virtual ~ConditionTerms() = default;

  virtual void Compute(PairRow row, std::span<double> kernel) const = 0;
  // Adds weights[j] d ln k_z(z_i, z_j)/dtheta_i to the gradient for each column j.
  virtual void AddGradient(PairRow row, std::span<const double> weights,
                           std::span<double> gradient) const = 0;
};

// h_ij = k_z(z_i, z_j) A_ij without its derivatives. Thread-safe.
class PairProducts {
 public:
  virtual ~PairProducts() = default;

  // Sets products to h_ij, and returns their sum.
  virtual double Compute(PairRow row, std::span<double> products) const = 0;
};

// n x width values, row-major, one row per observation.
struct Points {
  std::vector<double> values;
  std::size_t width = 0;

  [[nodiscard]] std::span<const double> row(std::size_t i) const noexcept {
    return std::span<const double>(values).subspan(i * width, width);
  }
};

// A_ij = scale <r_i, r_j> with the residuals r_i = e_{y_i} - q_i, for any k_y that only knows
// whether classes are equal; theta_i = q_i. weights: of the residuals, n of them; empty: all are 1.
[[nodiscard]] std::unique_ptr<const OutcomeTerms> MakeClassTerms(Points residuals, double scale,
                                                                 std::vector<double> weights = {});
// batch: Normal forecasts, or samples with ascending draws. RbfKernel has its gamma. Samples: no
// kernel of the probability integral transform.
[[nodiscard]] std::unique_ptr<const OutcomeTerms> MakeNormalTerms(const ForecastBatch& batch,
                                                                  const OutcomeKernel& kernel);
[[nodiscard]] std::unique_ptr<const OutcomeTerms> MakeSampleTerms(const ForecastBatch& batch,
                                                                  const OutcomeKernel& kernel);

// batch: quantiles. Without a gradient.
[[nodiscard]] std::unique_ptr<const OutcomeTerms> MakeLevelTerms(const ForecastBatch& batch,
                                                                 std::span<const double> levels);

// The products of any terms and condition, which outlive the result.
[[nodiscard]] std::unique_ptr<const PairProducts> MakeProducts(const OutcomeTerms& terms,
                                                               const ConditionTerms& condition);
// The products of RbfKernel or EnergyKernel for Normal forecasts and k_z = exp(-condition_gamma
// W^2), faster than any terms. Null for other kernels, and if the values are so large that a
// product may not be finite.
[[nodiscard]] std::unique_ptr<const PairProducts> MakeNormalProducts(const ForecastBatch& batch,
                                                                     const OutcomeKernel& kernel,
                                                                     double condition_gamma);

// k_z = 1.
[[nodiscard]] std::unique_ptr<const ConditionTerms> MakeNoCondition();
// k_z = [g = g'].
[[nodiscard]] std::unique_ptr<const ConditionTerms> MakeGroupCondition(
    std::vector<std::int32_t> groups);
// A kernel of points x_i, with dx_i/dtheta_i = slope times the identity. slope: 0 if the points do
// not depend on the forecasts. kernel: over the squared Euclidean distance, or over the cityblock
// distance of points that are single values; SumClassPairs has the others.
[[nodiscard]] std::unique_ptr<const ConditionTerms> MakePointCondition(const Points& points,
                                                                       const Kernel& kernel,
                                                                       double slope);

struct PairSums {
  // Sums of h_ij over the pairs i != j, both orders, and over i = j.
  double off_diagonal = 0;
  double diagonal = 0;
};

// Adds the sums of the rows in their order, so that the total does not depend on the threads.
// Errors: Cancelled.
[[nodiscard]] absl::StatusOr<PairSums> AddRows(std::span<const PairSums> rows,
                                               const RunControl& control);

// The columns of one Compute between two checks of cancellation, from 1 to kMaxPairColumns.
// pair_operations: cost of a term.
[[nodiscard]] std::size_t ColumnsAtOnce(double pair_operations) noexcept;

// pair_operations: cost of a term, from which the intervals of cancellation follow. Errors:
// Cancelled.
[[nodiscard]] absl::StatusOr<PairSums> SumPairs(std::size_t n, const PairProducts& products,
                                                double pair_operations, const RunControl& control);

// biased: the gradient is that of the mean over all n^2 pairs, else of the n (n - 1) pairs i != j.
// gradient: n x width, set.
[[nodiscard]] absl::StatusOr<PairSums> SumPairsWithGradient(
    std::size_t n, const OutcomeTerms& terms, const ConditionTerms& condition, bool biased,
    double pair_operations, std::span<double> gradient, const RunControl& control);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_LOSS_DISTRIBUTION_MATCHING_H_
