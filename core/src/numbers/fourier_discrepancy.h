#ifndef CALIBD_CORE_SRC_NUMBERS_FOURIER_DISCREPANCY_H_
#define CALIBD_CORE_SRC_NUMBERS_FOURIER_DISCREPANCY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "calibd/core/condition.h"
#include "calibd/core/forecast.h"
#include "calibd/core/outcome_kernel.h"

namespace calibd {

// The squared discrepancy of forecasts of a number by Fourier terms, O(n) for one set of
// outcomes. With frequencies w of the kernels k_y and k_z, and R = kFrequencyCount,
//   psi_i = F(w_y y_i + w_z z_i) - E F(w_y Y'_i + w_z z_i),  F = [cos, sin] / sqrt(R),
// so that E <psi_i, psi_j> = h_ij over the draw of w. z are features, or the mean and the standard
// deviation of a Normal forecast; groups are sums of their own.
// Source: Rahimi & Recht, NIPS 2007, Algorithm 1.
//
// Immutable, and thread-safe.
class FourierDiscrepancy {
 public:
  // True for RbfKernel and PitRbfKernel.
  [[nodiscard]] static bool Has(const OutcomeKernel& kernel) noexcept;
  // All parameters are set. condition: of samples no ForecastCondition. batch: its outcomes are not
  // used, but those of samples together with the draws. Returns null unless Has(kernel).
  [[nodiscard]] static std::unique_ptr<const FourierDiscrepancy> Create(const ForecastBatch& batch,
                                                                        const OutcomeKernel& kernel,
                                                                        const Condition& condition);

  // (|sum_i psi_i|^2 - sum_i |psi_i|^2) / (n (n - 1)). batch: Normal forecasts as in Create, with
  // other outcomes; or samples, some of whose outcomes have changed places with one of their draws.
  [[nodiscard]] double Unbiased(const ForecastBatch& batch) const;

 private:
  FourierDiscrepancy() = default;

  [[nodiscard]] double Shown(const ForecastBatch& batch, std::size_t i) const noexcept;
  void SetConditionPhases(const ForecastBatch& batch, std::size_t i,
                          std::span<double> phases) const noexcept;
  void ComputeExpectations(const ForecastBatch& batch);

  bool of_pit_ = false;
  // Whether z is the forecast.
  bool on_forecast_ = false;
  // In turns, one for each frequency; of z: dimensions x kFrequencyCount.
  std::vector<double> outcome_frequencies_;
  std::vector<double> condition_frequencies_;
  // n x dimensions; empty unless z are features.
  std::vector<double> points_;
  // The group of each row. Empty if all rows are one group.
  std::vector<std::size_t> groups_;
  std::size_t group_count_ = 1;
  // n x 2 kFrequencyCount: E F(w_y Y' + w_z z); of samples the sum of F(w_y x) over the draws and
  // the outcome.
  std::vector<double> expectations_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_NUMBERS_FOURIER_DISCREPANCY_H_
