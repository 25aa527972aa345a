#ifndef CALIBD_CORE_SRC_NUMBERS_PRODUCT_DISCREPANCY_H_
#define CALIBD_CORE_SRC_NUMBERS_PRODUCT_DISCREPANCY_H_

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "calibd/core/condition.h"
#include "calibd/core/forecast.h"
#include "calibd/core/outcome_kernel.h"

namespace calibd {

// The squared discrepancy for kernels of outcomes that are a product, A_ij = <f_i, f_j> with
// f_i = phi(y_i) - E phi(Y'_i), O(n) for one set of outcomes: the sums of f over all rows, or over
// each group, give the sum over the pairs exactly. Given forecasts or features, f is multiplied by
// 2 kFrequencyCount Fourier terms of k_z: see FourierDiscrepancy.
//
// Immutable, and thread-safe.
class ProductDiscrepancy {
 public:
  // Returns null unless the kernel is MomentsKernel, ThresholdKernel, TanhKernel or LevelsKernel.
  // All parameters are set. batch: its outcomes are not used, but those of samples together with
  // the draws.
  [[nodiscard]] static std::unique_ptr<const ProductDiscrepancy> Create(const ForecastBatch& batch,
                                                                        const OutcomeKernel& kernel,
                                                                        const Condition& condition);

  // (|sum_i psi_i|^2 - sum_i |psi_i|^2) / (n (n - 1)). batch: as FourierDiscrepancy::Unbiased, or
  // quantiles of which each has the same cells as in Create.
  [[nodiscard]] double Unbiased(const ForecastBatch& batch) const;

 private:
  explicit ProductDiscrepancy(OutcomeKernel kernel) : kernel_(std::move(kernel)) {}

  // phi(y), or for quantiles whether the outcome is at most each of them.
  void Map(double y, std::span<const double> row, std::span<double> mapped) const noexcept;
  void SetExpectations(const ForecastBatch& batch);
  void SetCondition(const ForecastBatch& batch, const Condition& condition);

  const OutcomeKernel kernel_;
  std::size_t dimensions_ = 1;
  // f_i = factor phi(y_i) - expectation_i. Samples: with the sum over draws and outcome, which does
  // not change if they change places.
  double factor_ = 1;
  // n x dimensions.
  std::vector<double> expectations_;
  // n x 2 kFrequencyCount Fourier terms of k_z; empty: k_z = 1 within each group.
  std::vector<double> condition_;
  // The group of each row. Empty if all rows are one group.
  std::vector<std::size_t> groups_;
  std::size_t group_count_ = 1;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_PRODUCT_DISCREPANCY_H_
