#include "offline_evaluation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "calibd/core/bandwidth.h"
#include "calibd/core/bootstrap_test.h"
#include "calibd/core/hypothesis_test.h"
#include "calibd/core/kernel.h"
#include "calibd/core/run_control.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;

constexpr double kConfidenceLevel = 0.95;

// Lends `threads` threads, this one among them, to a computation.
void ParallelFor(unsigned threads, std::size_t count,
                 const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < threads && t < count; ++t) others.emplace_back(work);
  work();
}

RunControl ControlOf(const EvaluationOptions& options, const std::string& stage) {
  RunControl control;
  control.parallel_for = [threads = options.threads](std::size_t count, const auto& body) {
    ParallelFor(threads, count, body);
  };
  if (options.on_progress) {
    control.progress = [&options, stage](double fraction) { options.on_progress(stage, fraction); };
  }
  control.cancelled = [stop = options.stop] { return stop.stop_requested(); };
  return control;
}

absl::StatusOr<v1::BlockEstimate> EstimateBlocks(const PredictionBatch& batch, const Kernel& kernel,
                                                 std::int32_t block_size) {
  auto running =
      RunningBlockSkce::Create(static_cast<std::size_t>(block_size), batch.class_count, kernel);
  if (!running.ok()) return running.status();
  for (std::size_t i = 0; i < batch.size(); ++i) running->Add(batch.row(i), batch.labels[i]);
  const RunningMoments& moments = running->moments();
  v1::BlockEstimate estimate;
  estimate.set_block_size(block_size);
  estimate.set_block_count(moments.count);
  estimate.set_pending_observations(static_cast<std::int32_t>(running->pending()));
  if (moments.count == 0) return estimate;
  estimate.set_skce(moments.mean);
  estimate.set_p_value_upper_bound(BlockPValueUpperBound(
      moments.mean, moments.count, running->block_size(), Kernel::DistributionFreeBound()));
  if (const auto test = TestMeanIsPositive(moments); test.has_value()) {
    estimate.set_standard_deviation(test->standard_deviation);
    if (test->z.has_value()) estimate.set_z(*test->z);
    estimate.set_p_value(test->p_value);
  }
  if (const auto bound = LowerConfidenceBound(moments, kConfidenceLevel); bound.has_value()) {
    estimate.set_skce_lower_bound(*bound);
  }
  return estimate;
}

absl::Status EvaluateQuadratic(const PredictionBatch& batch, const Kernel& kernel,
                               const EvaluationOptions& options, v1::QuadraticTestResult& result) {
  QuadraticSkce skce;
  if (options.replicates == 0) {
    const auto estimate = EstimateQuadraticSkce(batch, kernel, ControlOf(options, "estimating"));
    if (!estimate.ok()) return estimate.status();
    skce = *estimate;
    const auto n = static_cast<double>(skce.n);
    result.set_statistic(n / (n - 1) * skce.unbiased - skce.biased);
  } else {
    const auto test =
        BootstrapTest(batch, kernel, {.replicates = options.replicates, .seed = options.seed},
                      ControlOf(options, "testing"));
    if (!test.ok()) return test.status();
    skce = test->skce;
    result.set_statistic(test->statistic);
    result.set_p_value(test->p_value);
    result.set_replicates(test->replicates);
    result.set_exceedances(test->exceedances);
    result.set_seed(test->seed);
    result.set_replicate_mean(test->replicate_mean);
    result.set_replicate_standard_deviation(test->replicate_standard_deviation);
  }
  constexpr double kBound = Kernel::DistributionFreeBound();
  result.set_skce_biased(skce.biased);
  result.set_skce_unbiased(skce.unbiased);
  result.set_p_value_upper_bound_biased(BiasedPValueUpperBound(skce.biased, skce.n, kBound));
  result.set_p_value_upper_bound_unbiased(UnbiasedPValueUpperBound(skce.unbiased, skce.n, kBound));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Evaluation> EvaluateOffline(const PredictionBatch& batch,
                                           const EvaluationOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  Evaluation evaluation;
  v1::Provenance& provenance = *evaluation.quadratic.mutable_provenance();
  double bandwidth = 0;
  if (options.bandwidth.has_value()) {
    bandwidth = *options.bandwidth;
    provenance.mutable_bandwidth_rule()->set_fixed(bandwidth);
  } else {
    const auto median =
        MedianBandwidth(batch.probabilities, batch.class_count, ControlOf(options, "bandwidth"));
    if (!median.ok()) return median.status();
    bandwidth = *median;
    provenance.mutable_bandwidth_rule()->mutable_median()->set_warmup(
        static_cast<std::int32_t>(batch.size()));
  }
  const auto kernel = Kernel::ExponentialTotalVariation(bandwidth);
  if (!kernel.ok()) return kernel.status();

  for (const std::int32_t block_size : options.block_sizes) {
    auto estimate = EstimateBlocks(batch, *kernel, block_size);
    if (!estimate.ok()) return estimate.status();
    evaluation.estimates.push_back(*std::move(estimate));
  }
  absl::Status status = EvaluateQuadratic(batch, *kernel, options, evaluation.quadratic);
  if (!status.ok()) return status;

  const auto n = static_cast<std::int64_t>(batch.size());
  provenance.set_observations(n);
  provenance.set_first_observation(1);
  provenance.set_last_observation(n);
  provenance.set_class_count(static_cast<std::int32_t>(batch.class_count));
  provenance.set_lens("canonical");
  provenance.mutable_kernel()->mutable_exponential()->set_distance(v1::DISTANCE_TOTAL_VARIATION);
  provenance.set_bandwidth(bandwidth);
  *provenance.mutable_compute_time() = TimeUtil::GetCurrentTime();
  provenance.set_version(CALIBD_VERSION);
  *evaluation.quadratic.mutable_elapsed() = TimeUtil::NanosecondsToDuration(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - started).count());
  return evaluation;
}

}  // namespace calibd::cli
