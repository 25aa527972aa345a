#ifndef CALIBD_CORE_FORECAST_BLOCKS_H_
#define CALIBD_CORE_FORECAST_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/forecast_discrepancy.h"
#include "calibd/core/running_skce.h"

namespace calibd {

// The block estimator of the squared maximum mean discrepancy between outcomes and Normal
// forecasts, given the forecasts, with the exact kernel of DiscrepancyKernel: the mean over
// disjoint blocks of consecutive observations of the unbiased estimate over the pairs of a block.
// The blocks are independent, so that the mean has a standard error and is tested with TestBlocks,
// as those of RunningSkce. Source: Marx, Zalouk & Ermon, NeurIPS 2023, Eq. 2 and 3. Not
// thread-safe.
class ForecastBlocks {
 public:
  static constexpr std::size_t kBlockSize = 50;

  // kernel: valid, see ForecastDiscrepancy::Create.
  explicit ForecastBlocks(const DiscrepancyKernel& kernel);

  // batch: valid Normal forecasts. On one CPU, the bits of the result do not depend on how a
  // sequence is split into calls. May throw bad_alloc. Cost: O(kBlockSize) a forecast.
  void Add(const NumberForecastBatch& batch);

  // The estimates of the complete blocks, in [-4, 4].
  [[nodiscard]] const RunningMoments& moments() const noexcept { return state_.blocks; }

  struct State {
    RunningMoments blocks;
    // The forecasts, n x 2, and the n outcomes of the incomplete block, n < kBlockSize.
    std::vector<double> forecasts;
    std::vector<double> outcomes;

    friend bool operator==(const State&, const State&) = default;
  };
  [[nodiscard]] const State& state() const noexcept { return state_; }
  // Errors: InvalidArgument for a state that is invalid; this object is then unchanged.
  [[nodiscard]] absl::Status Restore(State state);

  // Upper bound of the bytes that an object holds, and uses during Add.
  [[nodiscard]] static std::size_t MaxMemory() noexcept;

 private:
  void CloseBlock();

  DiscrepancyKernel kernel_;
  State state_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_FORECAST_BLOCKS_H_
