#include "hypothesis/replicates.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "calibd/core/moments.h"
#include "calibd/core/status_macros.h"
#include "kernels/tile_walk.h"

namespace calibd {
namespace {

// Statistics that differ by less than this share of their size are considered equal: they may
// differ by the order of summation.
constexpr double kTie = 1e-12;

// Draws labels from predictions. Cumulative sums make a draw O(log m).
class LabelSampler {
 public:
  explicit LabelSampler(const PredictionBatch& batch)
      : cumulative_(batch.probabilities.begin(), batch.probabilities.end()),
        class_count_(batch.class_count) {
    for (std::size_t k = 0; k < cumulative_.size(); ++k) {
      if (k % class_count_ != 0) cumulative_[k] += cumulative_[k - 1];
    }
  }

  // A label from the prediction of a row: never a class of probability 0; the last other class has
  // the rest of a sum below 1.
  std::int32_t Draw(std::size_t row, Rng& rng) const {
    const std::span<const double> sums =
        std::span(cumulative_).subspan(row * class_count_, class_count_);
    const double u = rng.Uniform();
    if (u >= sums.back()) {
      return static_cast<std::int32_t>(std::ranges::lower_bound(sums, sums.back()) - sums.begin());
    }
    if (sums.size() > kMaxCounted) {
      return static_cast<std::int32_t>(std::ranges::upper_bound(sums, u) - sums.begin());
    }
    // For a few classes, comparing all is faster than a search, whose branches are random.
    std::int32_t label = 0;
    for (const double sum : sums) label += sum <= u ? 1 : 0;
    return label;
  }

 private:
  static constexpr std::size_t kMaxCounted = 32;

  std::vector<double> cumulative_;
  std::size_t class_count_;
};

}  // namespace

absl::Status CheckReplicates(const BootstrapOptions& options) {
  if (options.null == NullHypothesis::kPearson) {
    return absl::InvalidArgumentError(
        "null is pearson, expected form or forecast: a Pearson curve has no replicates");
  }
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

double LowerEndOfTies(double statistic, std::span<const double> replicates) noexcept {
  double largest = std::abs(statistic);
  for (const double replicate : replicates) largest = std::max(largest, std::abs(replicate));
  return statistic - kTie * largest;
}

ResamplingResult CompareWithReplicates(double statistic, std::span<const double> replicates,
                                       const BootstrapOptions& options) {
  ResamplingResult result;
  result.replicates = static_cast<std::int32_t>(replicates.size());
  result.seed = options.seed;
  result.null = options.null;
  RunningMoments moments;
  for (const double replicate : replicates) {
    moments.Add(replicate);
    if (!(replicate < statistic)) ++result.exceedances;
  }
  result.p_value = (1.0 + result.exceedances) / (1.0 + result.replicates);
  result.replicate_mean = moments.mean;
  result.replicate_standard_deviation = std::sqrt(moments.Variance());
  std::vector<double> sorted(replicates.begin(), replicates.end());
  // The smallest value that at least 95 % of the replicates do not exceed.
  const auto quantile = sorted.begin() + static_cast<std::ptrdiff_t>((19 * sorted.size() - 1) / 20);
  std::nth_element(sorted.begin(), quantile, sorted.end());
  result.replicate_upper_quantile = *quantile;
  return result;
}

absl::StatusOr<ResamplingResult> SimulateTest(
    const PredictionBatch& batch, const std::function<double(const LabelledRows&)>& statistic,
    const BootstrapOptions& options, const RunControl& control, double unit) {
  CALIBD_RETURN_IF_ERROR(CheckReplicates(options));
  const std::size_t n = batch.size();
  const double observed = statistic(LabelledRows(batch));
  const LabelSampler sampler(batch);
  std::vector<double> replicates(static_cast<std::size_t>(options.replicates));
  CALIBD_RETURN_IF_ERROR(RunReplicates(replicates.size(), control, [&](std::size_t r) {
    Rng rng(options.seed, r);
    std::vector<std::size_t> picked(options.null == NullHypothesis::kForm ? n : 0);
    std::vector<std::int32_t> labels(n);
    for (std::size_t i = 0; i < n; ++i) {
      if (!picked.empty()) picked[i] = rng.Below(static_cast<std::uint32_t>(n));
      labels[i] = sampler.Draw(picked.empty() ? i : picked[i], rng);
    }
    replicates[r] = statistic(LabelledRows(batch, picked, labels));
  }));
  return CompareWithReplicates(observed - kTie * std::max(unit, std::abs(observed)), replicates,
                               options);
}

}  // namespace calibd
