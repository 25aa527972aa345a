#ifndef CALIBD_CORE_FORECAST_BLOCKS_H_
#define CALIBD_CORE_FORECAST_BLOCKS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/discrepancy_kernel.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/moments.h"

namespace calibd {

// The block estimator of the squared maximum mean discrepancy between outcomes and forecasts, given
// the forecasts: the mean over disjoint blocks of consecutive observations of the unbiased estimate
// over the pairs of a block. The blocks are independent, so that the mean has a standard error and
// is tested with TestBlocks, as those of RunningSkce. Normal forecasts and quantiles have the exact
// kernel of DiscrepancyKernel. Samples have the Fourier terms of ForecastDiscrepancy, because the
// pairs of all draws would be too dear. Source: Marx, Zalouk & Ermon, NeurIPS 2023, Eq. 2 and 3.
// Not thread-safe.
class ForecastBlocks {
 public:
  static constexpr std::size_t kBlockSize = 50;

  // kind, kernel: valid, see ForecastDiscrepancy::Create.
  ForecastBlocks(NumberForecastKind kind, const DiscrepancyKernel& kernel);

  // batch: valid, but not of samples. completed: null, or where the blocks that this call completes
  // are counted too. On one CPU, the bits of the result do not depend on how a sequence is split
  // into calls. May throw bad_alloc. Cost: O(kBlockSize w) a forecast of the width w.
  void Add(const NumberForecastBatch& batch, RunningMoments* completed = nullptr);
  // Samples: psi of the next observation, see ForecastDiscrepancy; kFourierCount values.
  void AddResidual(std::span<const double> psi, RunningMoments* completed) noexcept;

  // The estimates of the complete blocks, in [-4, 4].
  [[nodiscard]] const RunningMoments& moments() const noexcept { return state_.blocks; }

  struct State {
    RunningMoments blocks;
    // The forecasts, n x w, and the n outcomes of the incomplete block, n < kBlockSize.
    std::vector<double> forecasts{};
    std::vector<double> outcomes{};
    // Samples: instead the number of observations of the incomplete block, sum psi, which is empty
    // for 0 of them, and sum |psi|^2.
    std::size_t residuals = 0;
    std::vector<double> sums{};
    double square_sum = 0;

    friend bool operator==(const State&, const State&) = default;
  };
  [[nodiscard]] const State& state() const noexcept { return state_; }
  // Errors: InvalidArgument for a state that is invalid; this object is then unchanged.
  [[nodiscard]] absl::Status Restore(State state);
  // Adds the complete blocks of another object of equal kind and kernel.
  void Merge(const ForecastBlocks& other) noexcept { state_.blocks.Merge(other.state_.blocks); }

  // Upper bound of the bytes that an object holds, and uses during Add.
  [[nodiscard]] static std::size_t MaxMemory(const NumberForecastKind& kind) noexcept;

 private:
  void Reserve();
  void CloseBlock(RunningMoments* completed);
  void AddEstimate(double estimate, RunningMoments* completed) noexcept;

  NumberForecastKind kind_;
  DiscrepancyKernel kernel_;
  State state_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_BLOCKS_H_
