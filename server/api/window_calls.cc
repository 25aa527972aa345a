#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/dated_change.h"
#include "calibd/convert/estimate.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/kernel.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/recalibration.h"
#include "calibd/convert/text.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/core/evaluation.h"
#include "calibd/core/forecast_recalibration.h"
#include "calibd/core/group_evaluation.h"
#include "calibd/core/individual_calibration.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/recalibration.h"
#include "calibd/core/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/answers/calibration_proto.h"
#include "server/api/api.h"
#include "server/api/evaluate_forecasts.h"
#include "server/api/window_call.h"
#include "server/base/errors.h"
#include "server/base/proto_time.h"
#include "server/kinds/kind_table.h"
#include "server/kinds/provenance.h"

namespace calibd::server {
namespace {

// The kernel of the running estimates of this lens, or the kernel that they would have.
KernelSpec KernelNow(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                     const Lens& lens) {
  KernelSpec spec = KernelOfLens(lens, declaration.classes()->kernel);
  const LensSnapshot* const running = snapshot.Find(lens);
  if (running == nullptr || !running->kernel.has_value()) return spec;
  if (const auto* const kernel = std::get_if<Kernel>(&*running->kernel)) {
    spec.rule.bandwidth = {};
    spec.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    spec.rule.bandwidth.fixed = kernel->bandwidth();
  }
  return spec;
}

// Fills in the provenance that the computation does not know. The bandwidth rule is the declared
// one if the bandwidth is that of the running estimates.
void Describe(const Model& model, const WindowSample& sample, std::size_t threads, const Lens& lens,
              v1::Provenance& provenance) {
  const std::shared_ptr<const ModelDeclaration> declaration = model.declaration();
  DescribeProvenance(*declaration, sample.first_observation, sample.last_observation,
                     sample.compute_time, provenance);
  provenance.set_threads(static_cast<std::int32_t>(threads));
  const LensSnapshot* const running = sample.snapshot->Find(lens);
  const KernelSpec spec = KernelOfLens(lens, declaration->classes()->kernel);
  if (running != nullptr && running->kernel.has_value() && spec.matrix == nullptr) {
    *provenance.mutable_bandwidth_rule() =
        convert::BandwidthToProto(spec.rule.bandwidth, declaration->warmup);
  }
}

// Removes the kernel density estimator if the work for n rows of m classes exceeds the limit,
// unless it is the only estimator. Returns whether it did.
bool LeaveOutDensity(std::size_t n, std::size_t m, double max_operations,
                     SelectionOptions& options) {
  if (SelectionOperations(n, m, options) <= max_operations || options.estimators.size() == 1) {
    return false;
  }
  return std::erase_if(options.estimators, [](const EstimatorGrid& grid) {
           return grid.kind == EstimatorKind::kKernelDensity;
         }) > 0;
}

// Computes fewer folds at the same time than there are threads if memory is short.
void FitMemory(std::size_t n, std::size_t m, std::size_t threads, double max_memory,
               SelectionOptions& options) {
  // The rows with their labels, which the caller adds.
  const auto input = static_cast<double>(n * (m + 1) * sizeof(double));
  options.most_at_once = threads;
  while (options.most_at_once > 1 && SelectionMemory(n, m, options, threads) + input > max_memory) {
    --options.most_at_once;
  }
}

// The groups of the rows of a sample, numbered in the order of their first rows, with their names.
// Values that the monitor counts together are one group.
struct NamedGroups {
  std::vector<std::int32_t> numbers;
  std::vector<std::string> names;
};

NamedGroups NameGroups(const WindowSample& sample) {
  std::unordered_map<std::uint64_t, std::string> values;
  for (const auto& group : sample.snapshot->monitor->groups) {
    if (!group->id.overflow) values.emplace(HashOfGroup(group->id.value), group->id.value);
  }
  NamedGroups named;
  std::unordered_map<std::string, std::int32_t> places;
  std::vector<std::int32_t> place_of;
  for (const std::uint64_t hash : sample.groups.hashes) {
    const auto value = values.find(hash);
    const std::string name =
        value == values.end() ? convert::GroupName("", /*is_overflow=*/true) : value->second;
    const auto [place, is_new] =
        places.try_emplace(name, static_cast<std::int32_t>(named.names.size()));
    if (is_new) named.names.push_back(name);
    place_of.push_back(place->second);
  }
  for (const std::int32_t number : sample.groups.numbers) {
    named.numbers.push_back(place_of[static_cast<std::size_t>(number)]);
  }
  return named;
}

// Adds an answer for each group. levels: of the intervals of all groups together.
absl::Status EvaluateEachGroup(const WindowSample& sample, const ErrorLevels& levels,
                               const convert::EvaluationCriteria& criteria,
                               const RunControl& control, v1::Evaluation& evaluation) {
  const NamedGroups groups = NameGroups(sample);
  CALIBD_ASSIGN_OR_RETURN(
      const std::vector<GroupResult> results,
      EvaluateGroups(sample.rows.view().classes(), groups.numbers, groups.names.size(),
                     {.levels = levels, .significance_level = convert::LevelOfGroups(criteria)},
                     control.WithoutProgress()));
  for (std::size_t g = 0; g < results.size(); ++g) {
    *evaluation.add_groups() = convert::ToProto(results[g], groups.names[g], criteria.error_limit);
  }
  return absl::OkStatus();
}

// The change of the error after whose lower end a map is fitted; unset if none can be dated.
// Errors: FailedPrecondition if too few observations follow it.
absl::StatusOr<std::optional<v1::DatedChange>> ChangeBeforeMap(const ModelSnapshot& snapshot) {
  if (!snapshot.monitor.has_value()) return std::nullopt;
  const ErrorSnapshot& error = snapshot.monitor->error;
  const std::vector<EventDeviations>& deviations = error.deviations;
  if (deviations.empty() || !error.measured->dates_changes()) return std::nullopt;
  std::vector<DeviationBlocks> events;
  events.reserve(deviations.size());
  for (const EventDeviations& event : deviations) events.push_back(event.blocks);
  // All events have the same observations.
  const std::int64_t first = deviations.front().first_observation;
  const absl::StatusOr<std::optional<EventChange>> change = FindChangeBeforeMap(events, first);
  if (!change.ok()) return WithReason(change.status(), "INSUFFICIENT_DATA");
  if (!change->has_value()) return std::nullopt;
  v1::DatedChange proto = convert::ToProto((*change)->change, first, events.front().rows());
  error.measured->DescribeEvent((*change)->event, proto);
  return proto;
}

// The advice about the rows of a sample from the index `older` on, from the observation `first` on.
absl::StatusOr<v1::Recalibration> Advise(const ModelDeclaration& declaration,
                                         const WindowSample& sample, std::int64_t first,
                                         const std::optional<v1::DatedChange>& change,
                                         const RunControl& control) {
  const auto older = static_cast<std::size_t>(first - sample.first_observation);
  const RecalibrationSplit split =
      change.has_value() ? RecalibrationSplit::kAlternating : RecalibrationSplit::kHalves;
  if (const NumbersSpec* const numbers = declaration.numbers()) {
    CALIBD_ASSIGN_OR_RETURN(
        const ForecastRecalibrationAdvice advice,
        AdviseForecastRecalibration(numbers->forecast, sample.rows.view().numbers(), split, control,
                                    older));
    return convert::ToProto(advice, first, change);
  }
  const PredictionBatch window = sample.rows.view().classes();
  CALIBD_ASSIGN_OR_RETURN(const RecalibrationAdvice advice,
                          AdviseRecalibration(window, split, control, older));
  return convert::ToProto(advice, window.class_count, declaration.class_1_name(), first, change);
}

}  // namespace

absl::Status Api::RunTest(const v1::RunTestRequest& request,
                          const Reply<v1::RunTestResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckCall(*model->declaration(), WindowCall::kTest));
  if (model->declaration()->numbers() != nullptr) {
    return TestForecastModel(parts_, request, reply, model);
  }
  const std::size_t class_count = model->declaration()->class_count();
  const absl::StatusOr<Lens> lens = convert::FromProto(request.lens(), class_count);
  if (!lens.ok()) return InvalidFieldError("lens", std::string(lens.status().message()));
  const absl::StatusOr<Precision> precision = convert::FromProto(request.precision());
  if (!precision.ok()) {
    return InvalidFieldError("precision", std::string(precision.status().message()));
  }
  LensTestOptions options;
  options.kernel = KernelOfLens(*lens, model->declaration()->classes()->kernel);
  options.precision = *precision;
  const absl::StatusOr<NullHypothesis> null = convert::FromProto(request.null());
  if (!null.ok()) return InvalidFieldError("null", std::string(null.status().message()));
  options.null = *null;
  if (options.null == NullHypothesis::kPearson && request.has_replicates()) {
    return InvalidFieldError("replicates", "is set, but null is PEARSON, which has none: unset it");
  }
  options.replicates = request.has_replicates() ? request.replicates() : kDefaultReplicates;
  options.seed = request.has_seed() ? request.seed() : RandomSeed();
  if (options.replicates < kMinReplicates || options.replicates > kMaxReplicates) {
    return InvalidFieldError("replicates", absl::StrCat("is ", options.replicates, ", expected ",
                                                        kMinReplicates, "..", kMaxReplicates));
  }
  const auto result = std::make_shared<v1::RunTestResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  // Other lenses have their own kernels, or choose them from the window.
  job.needs_bandwidth = lens->is_canonical();
  job.remedy = "a smaller window or fewer replicates";
  job.cost = [lens = *lens, options, class_count](std::size_t n, std::size_t threads) {
    return JobCost{.memory_bytes = LensTestMemory(n, class_count, lens, options, threads),
                   .operations = LensTestOperations(n, class_count, lens, options),
                   .seconds = kSlowestCpu * LensTestSeconds(n, class_count, lens, options)};
  };
  job.compute = [model, lens = *lens, options, result, threads = parts_.jobs.threads()](
                    const WindowSample& sample, const RunControl& control) mutable {
    const auto start = std::chrono::steady_clock::now();
    options.kernel = KernelNow(*model->declaration(), *sample.snapshot, lens);
    CALIBD_ASSIGN_OR_RETURN(const LensTestResult tested,
                            TestLens(sample.rows.view().classes(), lens, options, control));
    v1::QuadraticTestResult& proto = *result->mutable_result();
    convert::ToProto(lens, options.kernel, options.precision, tested, proto);
    Describe(*model, sample, threads, lens, *proto.mutable_provenance());
    *proto.mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(parts_, std::move(job), reply, result);
}

absl::Status Api::Evaluate(const v1::EvaluateRequest& request,
                           const Reply<v1::EvaluateResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckCall(*model->declaration(), WindowCall::kEvaluation));
  if (model->declaration()->numbers() != nullptr) {
    return EvaluateForecastModel(parts_, request, reply, model);
  }
  const auto number_field = request.has_threshold()         ? "threshold"
                            : request.has_threshold_alpha() ? "threshold_alpha"
                            : request.has_outcome_kernel()  ? "outcome_kernel"
                                                            : "";
  if (*number_field != '\0') {
    return InvalidFieldError(number_field,
                             "is set, but the model predicts classes: leave it unset");
  }
  if (request.local_features_size() > 0) {
    return InvalidFieldError("local_features",
                             "is set, but the model predicts classes: leave it unset");
  }
  const std::shared_ptr<const ModelDeclaration> declaration = model->declaration();
  const std::size_t class_count = declaration->class_count();
  // The canonical lens is always added in front.
  std::vector<Lens> lenses(declaration->lenses().begin() + 1, declaration->lenses().end());
  if (lenses.empty()) {
    lenses.push_back(Lens::TopLabel());
    lenses.push_back(Lens::ClassWise());
  }
  absl::StatusOr<EvaluationOptions> options =
      convert::FromProto(request, declaration->classes()->kernel, lenses, class_count);
  if (!options.ok()) return InvalidFieldError(options.status());
  if (!request.has_seed()) options->seed = RandomSeed();
  options->block_sizes = declaration->classes()->block_sizes;
  const bool has_groups = declaration->keeps_groups() && !declaration->monitoring.disabled &&
                          !options->reliability_only;
  if (has_groups) options->error_levels = options->error_levels.SharedBy(2);
  const auto result = std::make_shared<v1::EvaluateResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  // Reliability diagrams need no kernel.
  job.needs_bandwidth = !options->reliability_only;
  job.remedy = "a smaller window, fewer lenses or fewer replicates";
  const std::size_t features = declaration->feature_names.size();
  job.cost = [options = *options, class_count, features, has_groups](std::size_t n,
                                                                     std::size_t threads) {
    JobCost cost{.memory_bytes = EvaluationMemory(n, class_count, options, threads),
                 .operations = EvaluationOperations(n, class_count, options),
                 .seconds = kSlowestCpu * EvaluationSeconds(n, class_count, options)};
    if (has_groups) {
      cost.memory_bytes =
          std::max(cost.memory_bytes, GroupEvaluationMemory(n, class_count, threads));
    }
    if (features > 0 && options.replicates > 0) {
      const std::size_t tested = std::min(n, options.test_rows);
      cost.memory_bytes =
          std::max(cost.memory_bytes, IndividualTestMemory(tested, class_count, features, threads));
      const double individual =
          IndividualTestOperations(tested, class_count, features, options.replicates);
      cost.operations += individual;
      *cost.seconds += kMostSecondsPerOperation * individual;
    }
    return cost;
  };
  job.compute = [model, options = *options, actions = request.actions(), features, has_groups,
                 result, threads = parts_.jobs.threads()](const WindowSample& sample,
                                                          const RunControl& control) mutable {
    const auto start = std::chrono::steady_clock::now();
    for (auto& [lens, kernel] : options.lenses) {
      kernel = KernelNow(*model->declaration(), *sample.snapshot, lens);
    }
    CALIBD_ASSIGN_OR_RETURN(const Evaluation evaluation,
                            calibd::Evaluate(sample.rows.view().classes(), options, control));
    v1::Evaluation& proto = *result->mutable_evaluation();
    proto = convert::ToProto(evaluation, options);
    proto.set_class_1_name(model->declaration()->class_1_name());
    *proto.mutable_elapsed() = Since(start);
    if (options.reliability_only) return absl::OkStatus();
    convert::NameActions(actions, proto);
    for (int i = 0; i < proto.lenses_size(); ++i) {
      if (proto.lenses(i).has_result()) {
        v1::Provenance& provenance =
            *proto.mutable_lenses(i)->mutable_result()->mutable_provenance();
        Describe(*model, sample, threads, options.lenses[static_cast<std::size_t>(i)].lens,
                 provenance);
        provenance.set_observations(proto.tested_observations());
      }
    }
    if (features > 0 && options.replicates > 0) {
      CALIBD_ASSIGN_OR_RETURN(
          *proto.mutable_individual(),
          convert::ToProto(EvaluateIndividual(sample.rows.view().classes(), sample.features,
                                              features, options, control.WithoutProgress())));
    }
    const convert::EvaluationCriteria criteria{.error_limit =
                                                   model->declaration()->monitoring.error_limit};
    if (has_groups) {
      CALIBD_RETURN_IF_ERROR(
          EvaluateEachGroup(sample, options.error_levels, criteria, control, proto));
    }
    convert::Judge(criteria, proto);
    *proto.mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(parts_, std::move(job), reply, result);
}

absl::Status Api::Recalibrate(const v1::RecalibrateRequest& request,
                              const Reply<v1::RecalibrateResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckCall(*model->declaration(), WindowCall::kRecalibration));
  const auto result = std::make_shared<v1::RecalibrateResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  job.min_observations = kMinRecalibrationObservations;
  job.needs_bandwidth = false;
  job.remedy = "a smaller window";
  job.cost = [declaration = model->declaration()](std::size_t n, std::size_t /*threads*/) {
    if (const NumbersSpec* const numbers = declaration->numbers()) {
      return JobCost{.memory_bytes = ForecastRecalibrationMemory(n, numbers->forecast),
                     .operations = ForecastRecalibrationOperations(n, numbers->forecast)};
    }
    return JobCost{.memory_bytes = RecalibrationMemory(n, declaration->class_count()),
                   .operations = RecalibrationOperations(n, declaration->class_count())};
  };
  job.compute = [model, result](const WindowSample& sample, const RunControl& control) {
    CALIBD_ASSIGN_OR_RETURN(const std::optional<v1::DatedChange> change,
                            ChangeBeforeMap(*sample.snapshot));
    const std::int64_t first = change.has_value()
                                   ? std::max(sample.first_observation, change->from_observation())
                                   : sample.first_observation;
    v1::Recalibration& proto = *result->mutable_recalibration();
    CALIBD_ASSIGN_OR_RETURN(proto, Advise(*model->declaration(), sample, first, change, control));
    *proto.mutable_compute_time() = ToTimestamp(sample.compute_time);
    if (proto.helps()) {
      v1::GetCalibrationResponse answer;
      DescribeCalibration(*model, *sample.snapshot, std::chrono::system_clock::now(), answer);
      proto.set_caution(convert::MapCaution(answer));
    }
    auto kept = std::make_shared<v1::Recalibration>(proto);
    kept->mutable_map()->clear_scales();
    kept->mutable_map()->clear_offsets();
    kept->mutable_map()->clear_curves();
    kept->mutable_map()->clear_level_curve();
    kept->clear_corp_before();
    kept->clear_corp_after();
    model->SetRecalibration(std::move(kept));
    return absl::OkStatus();
  };
  return SubmitWindowJob(parts_, std::move(job), reply, result);
}

absl::Status Api::EstimateCalibrationError(const v1::EstimateCalibrationErrorRequest& request,
                                           const Reply<v1::EstimateCalibrationErrorResponse>& reply,
                                           NamedModel model) {
  CALIBD_RETURN_IF_ERROR(CheckCall(*model->declaration(), WindowCall::kErrorEstimate));
  const std::size_t class_count = model->declaration()->class_count();
  absl::StatusOr<SelectionOptions> valid = convert::FromProto(request, class_count);
  if (!valid.ok()) return InvalidFieldError(valid.status());
  SelectionOptions options = *std::move(valid);
  if (!request.has_seed()) options.seed = RandomSeed();
  const double max_operations = parts_.jobs.limits().operations;
  const auto max_memory = static_cast<double>(parts_.jobs.limits().memory_bytes);
  const auto result = std::make_shared<v1::EstimateCalibrationErrorResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  job.min_observations = MinSelectionObservations(options);
  job.needs_bandwidth = false;
  job.remedy = "a smaller window, fewer estimators or fewer replicates";
  job.cost = [options, class_count, max_operations, max_memory](std::size_t n,
                                                                std::size_t threads) {
    SelectionOptions within = options;
    LeaveOutDensity(n, class_count, max_operations, within);
    FitMemory(n, class_count, threads, max_memory, within);
    return JobCost{.memory_bytes = SelectionMemory(n, class_count, within, threads),
                   .operations = SelectionOperations(n, class_count, within)};
  };
  job.compute = [model, options, class_count, max_operations, max_memory, result,
                 threads = parts_.jobs.threads()](const WindowSample& sample,
                                                  const RunControl& control) mutable {
    const auto start = std::chrono::steady_clock::now();
    const PredictionBatch batch = sample.rows.view().classes();
    const double operations = SelectionOperations(batch.size(), class_count, options);
    const bool left_out = LeaveOutDensity(batch.size(), class_count, max_operations, options);
    FitMemory(batch.size(), class_count, threads, max_memory, options);
    CALIBD_ASSIGN_OR_RETURN(const SelectionResult selected,
                            SelectEstimator(batch, options, control));
    v1::CalibrationErrorEstimate& proto = *result->mutable_result();
    proto = convert::ToProto(options, selected);
    if (left_out) {
      v1::CalibrationErrorEstimate::LeftOut& density = *proto.add_left_out();
      density.set_estimator(v1::EstimatorOutcome::KERNEL_DENSITY);
      density.set_reason(
          absl::StrFormat("with it, the request needs %.2g operations, the limit is %.2g",
                          operations, max_operations));
    }
    v1::Provenance& provenance = *proto.mutable_provenance();
    DescribeProvenance(*model->declaration(), sample.first_observation, sample.last_observation,
                       sample.compute_time, provenance);
    provenance.set_threads(static_cast<std::int32_t>(threads));
    proto.set_text(convert::EstimateText(proto, model->declaration()->classes()->names));
    *proto.mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(parts_, std::move(job), reply, result);
}

}  // namespace calibd::server
