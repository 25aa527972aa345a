#include "client/offline/classes.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "calibd/convert/estimate.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/recalibration.h"
#include "calibd/convert/text.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/group_evaluation.h"
#include "calibd/core/lens.h"
#include "calibd/core/recalibration.h"
#include "calibd/core/run_control.h"
#include "calibd/core/status_macros.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::offline {
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
                                               const OfflineOptions& options,
                                               const RunControl& control) {
  const auto started = std::chrono::steady_clock::now();
  CALIBD_ASSIGN_OR_RETURN(const calibd::EvaluationOptions evaluation_options,
                          EvaluationOptionsOf(options, batch.class_count));
  CALIBD_ASSIGN_OR_RETURN(const calibd::Evaluation evaluation,
                          calibd::Evaluate(batch, evaluation_options, control));

  v1::Evaluation proto = convert::ToProto(evaluation, evaluation_options);
  convert::NameActions(options.request.actions(), proto);
  proto.set_class_1_name(convert::Class1Name(options.class_names));
  for (v1::LensEvaluation& lens : *proto.mutable_lenses()) {
    if (lens.has_result()) {
      v1::Provenance& provenance = *lens.mutable_result()->mutable_provenance();
      DescribeInput(batch, options.threads, provenance);
      provenance.set_observations(proto.tested_observations());
    }
  }
  if (!options.features.empty() && evaluation_options.replicates > 0) {
    CALIBD_ASSIGN_OR_RETURN(
        *proto.mutable_individual(),
        convert::ToProto(EvaluateIndividual(batch, options.features, options.feature_count,
                                            evaluation_options, control.WithoutProgress())));
  }
  if (!options.groups.empty()) {
    CALIBD_RETURN_IF_ERROR(
        AddGroups(batch, options, evaluation_options.error_levels, control, proto));
  }
  *proto.mutable_elapsed() = Since(started);
  return proto;
}

absl::StatusOr<v1::CalibrationErrorEstimate> EstimateOffline(
    const PredictionBatch& batch, std::span<const std::string> class_names,
    const v1::EstimateCalibrationErrorRequest& request, unsigned threads,
    const RunControl& control) {
  const auto started = std::chrono::steady_clock::now();
  CALIBD_ASSIGN_OR_RETURN(SelectionOptions options, convert::FromProto(request, batch.class_count));
  options.seed = request.seed();
  CALIBD_ASSIGN_OR_RETURN(const SelectionResult selected, SelectEstimator(batch, options, control));
  v1::CalibrationErrorEstimate proto = convert::ToProto(options, selected);
  DescribeInput(batch, threads, *proto.mutable_provenance());
  proto.set_text(convert::EstimateText(proto, class_names));
  *proto.mutable_elapsed() = Since(started);
  return proto;
}

absl::StatusOr<v1::Recalibration> RecalibrateOffline(const PredictionBatch& batch,
                                                     std::span<const std::string> class_names,
                                                     const RunControl& control) {
  const std::vector<DeviationBlocks> events = DeviationsOf(batch);
  CALIBD_ASSIGN_OR_RETURN(const std::optional<EventChange> change, FindChangeBeforeMap(events, 1));
  const bool changed = change.has_value();
  const std::size_t older = changed ? static_cast<std::size_t>(change->change.from) : 0;
  CALIBD_ASSIGN_OR_RETURN(
      const RecalibrationAdvice advice,
      AdviseRecalibration(batch,
                          changed ? RecalibrationSplit::kAlternating : RecalibrationSplit::kHalves,
                          control, older));
  std::optional<v1::DatedChange> dated;
  if (changed) dated = convert::ToProto(*change, 1, events.front().rows());
  return convert::ToProto(advice, batch.class_count, convert::Class1Name(class_names),
                          static_cast<std::int64_t>(older) + 1, dated);
}

}  // namespace calibd::offline
