#include "offline_evaluation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "calibd/convert/lens.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/hypothesis_test.h"
#include "calibd/core/kernel.h"
#include "calibd/core/lens.h"
#include "calibd/core/lens_test.h"
#include "calibd/core/run_control.h"
#include "calibd/core/running_skce.h"
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

// What is the same of every result.
void DescribeInput(const PredictionBatch& batch, v1::Provenance& provenance) {
  const auto n = static_cast<std::int64_t>(batch.size());
  provenance.set_observations(n);
  provenance.set_first_observation(1);
  provenance.set_last_observation(n);
  provenance.set_class_count(static_cast<std::int32_t>(batch.class_count));
  provenance.mutable_kernel()->mutable_exponential()->set_distance(v1::DISTANCE_TOTAL_VARIATION);
  *provenance.mutable_compute_time() = TimeUtil::GetCurrentTime();
  provenance.set_version(CALIBD_VERSION);
}

// bandwidth: unset for the lens's own choice.
absl::StatusOr<v1::QuadraticTestResult> EvaluateLens(const PredictionBatch& batch, const Lens& lens,
                                                     std::optional<double> bandwidth,
                                                     const EvaluationOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  const absl::StatusOr<LensTestResult> result = TestLens(
      batch, lens, {.bandwidth = bandwidth, .replicates = options.replicates, .seed = options.seed},
      ControlOf(options, lens.name()));
  if (!result.ok()) return result.status();
  v1::QuadraticTestResult proto;
  DescribeInput(batch, *proto.mutable_provenance());
  convert::ToProto(lens, *result, proto);
  *proto.mutable_elapsed() = TimeUtil::NanosecondsToDuration(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - started).count());
  return proto;
}

absl::Status ScorePredictions(const PredictionBatch& batch, Evaluation& evaluation) {
  const auto scores = ComputeScores(batch);
  if (!scores.ok()) return scores.status();
  const auto top_label = EstimateBinnedError(batch, TopLabelBins{});
  if (!top_label.ok()) return top_label.status();
  const auto class_wise = EstimateBinnedError(batch, ClassWiseBins{});
  if (!class_wise.ok()) return class_wise.status();
  const auto corp = DecomposeCorp(TopLabelPredictions(batch));
  if (!corp.ok()) return corp.status();
  evaluation.scores = *scores;
  evaluation.top_label_error = *top_label;
  evaluation.class_wise_error = *class_wise;
  evaluation.top_label_brier = *corp;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Evaluation> EvaluateOffline(const PredictionBatch& batch,
                                           const EvaluationOptions& options) {
  Evaluation evaluation;
  absl::StatusOr<v1::QuadraticTestResult> canonical =
      EvaluateLens(batch, Lens::Canonical(), options.bandwidth, options);
  if (!canonical.ok()) return canonical.status();
  evaluation.quadratic = *std::move(canonical);

  const auto kernel =
      Kernel::ExponentialTotalVariation(evaluation.quadratic.provenance().bandwidth());
  if (!kernel.ok()) return kernel.status();
  for (const std::int32_t block_size : options.block_sizes) {
    auto estimate = EstimateBlocks(batch, *kernel, block_size);
    if (!estimate.ok()) return estimate.status();
    evaluation.estimates.push_back(*std::move(estimate));
  }
  for (const v1::Lens& proto : options.lenses) {
    const absl::StatusOr<Lens> lens = convert::FromProto(proto, batch.class_count);
    if (!lens.ok()) return lens.status();
    absl::StatusOr<v1::QuadraticTestResult> result =
        EvaluateLens(batch, *lens, std::nullopt, options);
    if (!result.ok()) return result.status();
    evaluation.lenses.push_back(*std::move(result));
  }
  if (absl::Status status = ScorePredictions(batch, evaluation); !status.ok()) return status;
  return evaluation;
}

}  // namespace calibd::cli
