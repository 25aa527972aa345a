#ifndef CALIBD_CORE_SRC_HYPOTHESIS_REPLICATES_H_
#define CALIBD_CORE_SRC_HYPOTHESIS_REPLICATES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/resampling.h"
#include "calibd/core/run_control.h"

namespace calibd {

// Errors: InvalidArgument unless replicates is in [kMinReplicates, kMaxReplicates].
[[nodiscard]] absl::Status CheckReplicates(const BootstrapOptions& options);

// Runs body(0) .. body(count - 1) on the threads of control, each call on one thread; reports
// progress, and stops between calls if cancelled. Errors: Cancelled.
[[nodiscard]] absl::Status RunReplicates(std::size_t count, const RunControl& control,
                                         const std::function<void(std::size_t)>& body);

// The statistic less the rounding of its sums and of those of the replicates, in any unit.
[[nodiscard]] double LowerEndOfTies(double statistic, std::span<const double> replicates) noexcept;

// replicates: values of the statistic under the null hypothesis. One that is NaN counts as reaching
// the statistic.
[[nodiscard]] ResamplingResult CompareWithReplicates(double statistic,
                                                     std::span<const double> replicates,
                                                     const BootstrapOptions& options);

// Compares statistic(LabelledRows(batch)) with replicates whose labels are drawn from the
// predictions: those of the batch with kForecast, and those of rows that are drawn with replacement
// with kForm. Replicates that are smaller than the statistic only by rounding count as ties.
// statistic: thread-safe. unit: the size of the values that it sums, from which the rounding
// follows. Errors: InvalidArgument (replicates); Cancelled. Cost: that of the statistic and O(n log
// m) for each replicate; memory: n m doubles, and O(n) for each thread.
[[nodiscard]] absl::StatusOr<ResamplingResult> SimulateTest(
    const PredictionBatch& batch, const std::function<double(const LabelledRows&)>& statistic,
    const BootstrapOptions& options, const RunControl& control, double unit = 1);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_HYPOTHESIS_REPLICATES_H_
