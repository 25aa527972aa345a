#ifndef CALIBD_CORE_FORECAST_DISCREPANCY_H_
#define CALIBD_CORE_FORECAST_DISCREPANCY_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/discrepancy_kernel.h"
#include "calibd/core/forecast_blocks.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/fourier_size.h"

namespace calibd {

// An interval of the maximum mean discrepancy MMD = |sum E[psi_i | past]| / n that holds at all
// times at once, see ForecastDiscrepancy. 0 <= lower, upper <= 2; not squared.
struct DiscrepancyInterval {
  double lower = 0;
  double upper = 2;
};

// The unbiased quadratic estimate of MMD^2 between outcomes and draws from their forecasts, given
// the forecasts, in O(1) memory: with R = 64 frequencies w = (w_y, w_1, w_2) ~ N(0, diag(2 gamma_y,
// 2 gamma_z, 2 gamma_z)) and phi(y) = [cos, sin](w_y y + w_1 m + w_2 s) / sqrt(R),
//   psi_i = phi(y_i) - E phi(Y'_i),  S = sum psi_i,
//   MMD_u^2 = (|S|^2 - sum |psi_i|^2) / (n (n - 1)).
// For Normal forecasts E phi(Y') = exp(-w_y^2 s^2 / 2) [cos, sin](w_y m + w_1 m + w_2 s) / sqrt(R);
// for samples it is the mean over the draws. For K quantiles q_k at the levels l_k, with w_k ~ N(0,
// 2 gamma_z / K) and random signs e_rk,
//   psi_ir = [cos, sin](sum_k w_rk q_ik) sum_k e_rk ([y_i <= q_ik] - l_k) / sqrt(K R).
// It is exact for the kernel of this map, which approximates that of DiscrepancyKernel to
// about 1/8 a pair. If the forecasts are calibrated, its mean is 0. Sources: Marx, Zalouk & Ermon,
// NeurIPS 2023, Eq. 2 and 3; Rahimi & Recht, NIPS 2007; for the signs Achlioptas, JCSS 2003.
//
// The frequencies are the same in every process, so that the sums of replicas add. Not thread-safe.
class ForecastDiscrepancy {
 public:
  // Errors: InvalidArgument for an invalid kind or an invalid kernel.
  [[nodiscard]] static absl::StatusOr<ForecastDiscrepancy> Create(NumberForecastKind kind,
                                                                  const DiscrepancyKernel& kernel);

  // batch: valid. completed: see ForecastBlocks::Add. On one CPU, the bits of the result do not
  // depend on how a sequence is split into calls. May throw bad_alloc. Cost: O(R) for Normal
  // forecasts, O(R w) for quantiles and samples of the width w, and that of ForecastBlocks.
  void Add(const NumberForecastBatch& batch, RunningMoments* completed = nullptr);

  // n, |S|^2 and sum |psi|^2.
  [[nodiscard]] WitnessNorm norm() const noexcept;
  // MMD_u^2, signed; unset for n < 2.
  [[nodiscard]] std::optional<double> Unbiased() const noexcept;
  // The block estimator of the same discrepancy.
  [[nodiscard]] const ForecastBlocks& blocks() const noexcept { return blocks_; }
  // u_t = <psi_t, S_{t-1}> / |S_{t-1}|, in [-2, 2], and 0 where S is 0.
  [[nodiscard]] const RunningMoments& projections() const noexcept { return projections_; }
  // Both ends together are wrong at any time with a probability of at most alpha. lower: that of
  // u_t by LowerConfidenceSequence; for independent and identically distributed observations E[u_t
  // | past] <= MMD. upper: NormUpperConfidenceSequence. Unset without observations.
  [[nodiscard]] std::optional<DiscrepancyInterval> Interval(double alpha) const noexcept;

  struct State {
    // S: kFourierCount.
    std::vector<double> sums = std::vector<double>(kFourierCount);
    double square_sum = 0;
    // Its count is n.
    RunningMoments projections;
    ForecastBlocks::State blocks{};

    friend bool operator==(const State&, const State&) = default;
  };
  [[nodiscard]] State Save() const;
  // Errors: InvalidArgument for a state that is invalid; this object is then unchanged.
  [[nodiscard]] absl::Status Restore(const State& state);
  // Merge law: sums of parts that share no observation add. other: of equal kind and kernel. Its
  // incomplete block is left out of the blocks.
  void Merge(const ForecastDiscrepancy& other) noexcept;

  // Upper bound of the bytes that an object holds, and uses during Add.
  [[nodiscard]] static std::size_t MaxMemory(const NumberForecastKind& kind) noexcept;

 private:
  ForecastDiscrepancy(NumberForecastKind kind, const DiscrepancyKernel& kernel);

  // Compute psi of at most kForecastsAtOnce Normal forecasts or quantiles, or of one of samples.
  void NormalResiduals(std::span<const double> forecasts,
                       std::span<const double> outcomes) noexcept;
  void QuantileResiduals(std::span<const double> forecasts,
                         std::span<const double> outcomes) noexcept;
  void SampleResidual(std::span<const double> draws, double outcome) noexcept;

  NumberForecastKind kind_;
  DiscrepancyKernel kernel_;
  // Quantiles: sum_k e_rk (1 - l_k).
  std::vector<double> lowest_signs_;
  // The maximum of |psi|^2.
  double largest_square_;
  ForecastBlocks blocks_;
  LineVector sums_;
  double square_sum_ = 0;
  RunningMoments projections_;
  // psi of some rows, and values to subtract.
  LineVector residuals_;
  LineVector buffer_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_DISCREPANCY_H_
