#include "client/cli/commands/offline_evaluation.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "calibd/convert/estimate.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "calibd/convert/reading.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/group_evaluation.h"
#include "calibd/core/lens.h"
#include "calibd/core/run_control.h"
#include "calibd/core/status_macros.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::util::TimeUtil;

google::protobuf::Duration Since(std::chrono::steady_clock::time_point start) {
  return TimeUtil::NanosecondsToDuration(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
}

// The fields of the provenance that the computation does not know.
void DescribeInput(const PredictionBatch& batch, unsigned threads, v1::Provenance& provenance) {
  const auto n = static_cast<std::int64_t>(batch.size());
  provenance.set_observations(n);
  provenance.set_first_observation(1);
  provenance.set_last_observation(n);
  provenance.set_class_count(static_cast<std::int32_t>(batch.class_count));
  *provenance.mutable_compute_time() = TimeUtil::GetCurrentTime();
  provenance.set_threads(static_cast<std::int32_t>(threads));
  provenance.set_version(CALIBD_VERSION);
}

// Adds an answer for each group. levels: of the intervals of all groups together.
absl::Status AddGroups(const PredictionBatch& batch, const OfflineOptions& options,
                       const ErrorLevels& levels, const RunControl& control,
                       v1::Evaluation& evaluation) {
  std::vector<std::int32_t> groups;
  std::vector<std::string> names;
  absl::flat_hash_map<std::string, std::int32_t> indices;
  for (const std::string& name : options.groups) {
    const auto [at, is_new] = indices.try_emplace(name, static_cast<std::int32_t>(names.size()));
    if (is_new) names.push_back(name);
    groups.push_back(at->second);
  }
  CALIBD_ASSIGN_OR_RETURN(
      const std::vector<GroupResult> results,
      EvaluateGroups(
          batch, groups, names.size(),
          {.levels = levels, .significance_level = convert::LevelOfGroups(options.criteria)},
          control.WithoutProgress()));
  for (std::size_t g = 0; g < names.size(); ++g) {
    *evaluation.add_groups() = convert::ToProto(results[g], names[g], options.criteria.error_limit);
  }
  return absl::OkStatus();
}

}  // namespace

ParallelLoop LoopOnThreads(unsigned threads) {
  return [threads](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < count; i = next++) body(i);
    };
    std::vector<std::jthread> others;
    for (unsigned t = 1; t < threads && t < count; ++t) others.emplace_back(work);
    work();
  };
}

absl::StatusOr<calibd::EvaluationOptions> EvaluationOptionsOf(const OfflineOptions& options,
                                                              std::size_t class_count) {
  CALIBD_ASSIGN_OR_RETURN(const KernelSpec kernel,
                          convert::FromProto(options.kernel, options.bandwidth, class_count));
  const std::vector<Lens> lenses = {Lens::TopLabel(), Lens::ClassWise()};
  CALIBD_ASSIGN_OR_RETURN(calibd::EvaluationOptions evaluation_options,
                          convert::FromProto(options.request, kernel, lenses, class_count));
  evaluation_options.block_sizes = options.block_sizes;
  if (!options.groups.empty()) {
    evaluation_options.error_levels = evaluation_options.error_levels.SharedBy(2);
  }
  return evaluation_options;
}

absl::StatusOr<v1::Evaluation> EvaluateOffline(const PredictionBatch& batch,
                                               const OfflineOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  CALIBD_ASSIGN_OR_RETURN(const calibd::EvaluationOptions evaluation_options,
                          EvaluationOptionsOf(options, batch.class_count));
  RunControl control;
  control.parallel_for = LoopOnThreads(options.threads);
  control.progress = options.on_progress;
  control.cancelled = [&options] { return options.stop.stop_requested(); };
  CALIBD_ASSIGN_OR_RETURN(const calibd::Evaluation evaluation,
                          calibd::Evaluate(batch, evaluation_options, control));

  v1::Evaluation proto = convert::ToProto(evaluation, evaluation_options);
  convert::NameActions(options.request.actions(), proto);
  for (v1::LensEvaluation& lens : *proto.mutable_lenses()) {
    if (lens.has_result()) {
      DescribeInput(batch, options.threads, *lens.mutable_result()->mutable_provenance());
    }
  }
  if (!options.features.empty() && evaluation_options.replicates > 0) {
    CALIBD_ASSIGN_OR_RETURN(
        *proto.mutable_individual(),
        convert::ToProto(TestIndividual(batch, options.features, options.feature_count,
                                        {.replicates = evaluation_options.replicates,
                                         .seed = evaluation_options.seed,
                                         .null = NullHypothesis::kForecast},
                                        control.WithoutProgress())));
  }
  if (!options.groups.empty()) {
    CALIBD_RETURN_IF_ERROR(
        AddGroups(batch, options, evaluation_options.error_levels, control, proto));
  }
  *proto.mutable_elapsed() = Since(started);
  return proto;
}

absl::StatusOr<v1::CalibrationErrorEstimate> EstimateOffline(
    const PredictionBatch& batch, const v1::EstimateCalibrationErrorRequest& request,
    unsigned threads, const client::LongCallOptions& call) {
  const auto started = std::chrono::steady_clock::now();
  CALIBD_ASSIGN_OR_RETURN(SelectionOptions options, convert::FromProto(request, batch.class_count));
  options.seed = request.seed();
  const RunControl control{.parallel_for = LoopOnThreads(threads),
                           .progress = call.on_progress,
                           .cancelled = [&call] { return call.stop.stop_requested(); }};
  CALIBD_ASSIGN_OR_RETURN(const SelectionResult selected, SelectEstimator(batch, options, control));
  v1::CalibrationErrorEstimate proto = convert::ToProto(options, selected);
  DescribeInput(batch, threads, *proto.mutable_provenance());
  *proto.mutable_elapsed() = Since(started);
  return proto;
}

}  // namespace calibd::cli
