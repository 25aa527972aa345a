#include "server/api/evaluate_forecasts.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/evaluation.h"
#include "calibd/convert/forecast.h"
#include "calibd/convert/reading.h"
#include "calibd/core/forecast_evaluation.h"
#include "calibd/core/forecast_forms.h"
#include "calibd/core/status_macros.h"
#include "server/api/window_call.h"
#include "server/base/errors.h"
#include "server/base/proto_time.h"
#include "server/kinds/provenance.h"

namespace calibd::server {

namespace {

// The positions of the request's local_features among the declared features.
absl::StatusOr<std::vector<std::size_t>> FindLocalFeatures(const v1::EvaluateRequest& request,
                                                           const std::vector<std::string>& names) {
  std::vector<std::size_t> positions;
  for (int i = 0; i < request.local_features_size(); ++i) {
    const auto found = std::ranges::find(names, request.local_features(i));
    const auto position = static_cast<std::size_t>(found - names.begin());
    const bool again = std::ranges::find(positions, position) != positions.end();
    if (found != names.end() && !again) {
      positions.push_back(position);
      continue;
    }
    const std::string expected =
        again ? " again, expected each name once"
        : names.empty()
            ? ", expected none because the model has no feature_names"
            : ", expected one of the model's feature_names: " + absl::StrJoin(names, ", ");
    return InvalidFieldError(absl::StrCat("local_features[", i, "]"),
                             absl::StrCat("is ", Quoted(request.local_features(i)), expected));
  }
  return positions;
}

// The kernel of the form "distribution".
std::optional<OutcomeKernel> KernelOf(const NumberForecastKind& kind) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (quantiles == nullptr) return std::nullopt;
  return LevelsKernel{quantiles->levels};
}

// Errors: FailedPrecondition if an outcome equals a quantile. The test draws the cells of outcomes,
// and that of this one is not known.
absl::Status CheckTies(const NumberForecastKind& kind, const NumberForecastBatch& batch,
                       std::int64_t first_observation) {
  const auto* const quantiles = std::get_if<QuantileForecasts>(&kind);
  if (quantiles == nullptr) return absl::OkStatus();
  const std::size_t width = quantiles->levels.size();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> row = batch.forecasts.subspan(i * width, width);
    if (std::ranges::find(row, batch.outcomes[i]) == row.end()) continue;
    return MakeError(
        absl::StatusCode::kFailedPrecondition, "TIED_OUTCOMES",
        absl::StrCat("the outcome of row ", first_observation + static_cast<std::int64_t>(i),
                     " equals a quantile of its forecast, so that this test does not apply: "
                     "GetCalibration and Evaluate have the evidence and the coverage of such "
                     "outcomes, or declare samples"));
  }
  return absl::OkStatus();
}

absl::StatusOr<BootstrapOptions> ResamplingOf(const v1::RunTestRequest& request,
                                              const NumberForecastKind& kind) {
  if (request.has_lens()) {
    return InvalidFieldError("lens", "is set, but the model forecasts a number: leave it unset");
  }
  if (request.precision() != v1::Provenance::UNSPECIFIED &&
      request.precision() != v1::Provenance::FLOAT64) {
    return InvalidFieldError("precision",
                             "is not FLOAT64, but the model forecasts a number: leave it unset");
  }
  const absl::StatusOr<NullHypothesis> null = convert::NumberNullFromProto(request.null());
  if (!null.ok()) return InvalidFieldError("null", std::string(null.status().message()));
  BootstrapOptions options{.seed = request.has_seed() ? request.seed() : RandomSeed(),
                           .null = *null};
  if (options.null == NullHypothesis::kForm && std::holds_alternative<SampleForecasts>(kind)) {
    return InvalidFieldError("null",
                             "is FORM, which needs a condition that does not depend on the draws "
                             "of samples: expected FORECAST");
  }
  options.replicates = request.has_replicates() ? request.replicates() : kDefaultReplicates;
  if (options.replicates < kMinReplicates || options.replicates > kMaxReplicates) {
    return InvalidFieldError("replicates", absl::StrCat("is ", options.replicates, ", expected ",
                                                        kMinReplicates, "..", kMaxReplicates));
  }
  return options;
}

}  // namespace

absl::Status TestForecastModel(const ApiParts& parts, const v1::RunTestRequest& request,
                               const Reply<v1::RunTestResponse>& reply,
                               const std::shared_ptr<Model>& model) {
  const std::shared_ptr<const ModelDeclaration> declaration = model->declaration();
  const NumberForecastKind kind = declaration->numbers()->forecast;
  CALIBD_ASSIGN_OR_RETURN(const BootstrapOptions resampling, ResamplingOf(request, kind));
  const auto result = std::make_shared<v1::RunTestResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  job.needs_bandwidth = false;
  job.remedy = "a smaller window or fewer replicates";
  // The evaluation includes this test.
  job.cost = [kind, options = ForecastEvaluationOptions{.resampling = resampling,
                                                        .outcome_kernel = {},
                                                        .decision = {},
                                                        .threshold_alpha = {}}](
                 std::size_t n, std::size_t threads) {
    return JobCost{.memory_bytes = ForecastEvaluationMemory(n, kind, options, {}, threads),
                   .operations = ForecastEvaluationOperations(n, kind, options, {})};
  };
  job.compute = [kind, resampling, declaration, result, threads = parts.jobs.threads()](
                    const WindowSample& sample, const RunControl& control) {
    const auto start = std::chrono::steady_clock::now();
    const NumberForecastBatch batch = sample.rows.view().numbers();
    CALIBD_RETURN_IF_ERROR(CheckTies(kind, batch, sample.first_observation));
    CALIBD_ASSIGN_OR_RETURN(const ForecastTestResult tested,
                            TestForecasts(WithKind(kind, batch),
                                          {.outcome_kernel = KernelOf(kind),
                                           .condition = ForecastCondition(),
                                           .resampling = resampling},
                                          control));
    v1::QuadraticTestResult& proto = *result->mutable_result();
    convert::ToProto(tested, resampling.seed, proto);
    v1::Provenance& provenance = *proto.mutable_provenance();
    DescribeProvenance(*declaration, sample.first_observation, sample.last_observation,
                       sample.compute_time, provenance);
    provenance.set_threads(static_cast<std::int32_t>(threads));
    *proto.mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(parts, std::move(job), reply, result);
}

absl::Status EvaluateForecastModel(const ApiParts& parts, const v1::EvaluateRequest& request,
                                   const Reply<v1::EvaluateResponse>& reply,
                                   const std::shared_ptr<Model>& model) {
  const std::shared_ptr<const ModelDeclaration> declaration = model->declaration();
  const NumberForecastKind kind = declaration->numbers()->forecast;
  absl::StatusOr<ForecastEvaluationOptions> options =
      convert::ForecastOptionsFromProto(request, kind, declaration->numbers()->decision);
  if (!options.ok()) return InvalidFieldError(options.status());
  if (!request.has_seed()) options->resampling.seed = RandomSeed();
  CALIBD_ASSIGN_OR_RETURN(const std::vector<std::size_t> local_features,
                          FindLocalFeatures(request, declaration->feature_names));
  const CovariateSizes sizes{.groups = declaration->keeps_groups(),
                             .features = declaration->feature_names.size(),
                             .local_features = local_features.size()};
  const auto result = std::make_shared<v1::EvaluateResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  job.needs_bandwidth = false;
  job.remedy = "a smaller window, fewer test_rows or fewer replicates";
  job.cost = [options = *options, kind, sizes](std::size_t n, std::size_t threads) {
    return JobCost{.memory_bytes = ForecastEvaluationMemory(n, kind, options, sizes, threads),
                   .operations = ForecastEvaluationOperations(n, kind, options, sizes)};
  };
  job.compute = [options = *options, kind, declaration, local_features, result](
                    const WindowSample& sample, const RunControl& control) {
    const auto start = std::chrono::steady_clock::now();
    const NumberForecastBatch batch = sample.rows.view().numbers();
    const ForecastCovariates covariates{.groups = sample.groups.numbers,
                                        .features = sample.features,
                                        .feature_count = declaration->feature_names.size(),
                                        .local_features = local_features};
    CALIBD_ASSIGN_OR_RETURN(const ForecastEvaluation evaluation,
                            EvaluateForecasts(kind, batch, options, covariates, control));
    v1::Evaluation& answer = *result->mutable_evaluation();
    answer = convert::ToProto(evaluation, options, covariates, declaration->feature_names);
    v1::ForecastEvaluation& proto = *answer.mutable_forecast();
    proto.set_first_observation(sample.first_observation);
    proto.set_last_observation(sample.last_observation);
    *proto.mutable_compute_time() = ToTimestamp(sample.compute_time);
    convert::Judge({.error_limit = declaration->monitoring.error_limit}, answer);
    *answer.mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(parts, std::move(job), reply, result);
}

}  // namespace calibd::server
