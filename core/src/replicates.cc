#include "replicates.h"

#include <atomic>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "calibd/core/running_skce.h"
#include "tile_walk.h"

namespace calibd {

absl::Status CheckReplicates(const BootstrapOptions& options) {
  if (options.replicates >= kMinReplicates && options.replicates <= kMaxReplicates) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "replicates is ", options.replicates, ", expected ", kMinReplicates, "..", kMaxReplicates));
}

absl::Status RunReplicates(std::size_t count, const RunControl& control,
                           const std::function<void(std::size_t)>& body) {
  ProgressMeter meter(control, count, 0, 1);
  std::atomic<bool> cancelled = false;
  ParallelFor(control, count, [&](std::size_t r) {
    if (cancelled) return;
    if (control.IsCancelled()) {
      cancelled = true;
      return;
    }
    body(r);
    meter.Advance();
  });
  if (cancelled) return absl::CancelledError("the computation was cancelled");
  return absl::OkStatus();
}

ResamplingResult CompareWithReplicates(double statistic, std::span<const double> replicates,
                                       std::uint64_t seed) {
  ResamplingResult result;
  result.replicates = static_cast<std::int32_t>(replicates.size());
  result.seed = seed;
  RunningMoments moments;
  for (const double replicate : replicates) {
    moments.Add(replicate);
    if (replicate >= statistic) ++result.exceedances;
  }
  result.p_value = (1.0 + result.exceedances) / (1.0 + result.replicates);
  result.replicate_mean = moments.mean;
  result.replicate_standard_deviation = std::sqrt(moments.Variance());
  return result;
}

}  // namespace calibd
