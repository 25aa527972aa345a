#include "server/api/evaluate_forecasts.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/forecast.h"
#include "calibd/convert/reading.h"
#include "calibd/core/forecast_evaluation.h"
#include "calibd/core/status_macros.h"
#include "server/api/window_call.h"
#include "server/base/errors.h"
#include "server/base/proto_time.h"

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

}  // namespace

absl::Status EvaluateForecastModel(WindowJobs& jobs, const v1::EvaluateRequest& request,
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
  job.remedy = "a smaller window or fewer replicates";
  job.cost = [options = *options, kind, sizes](std::size_t n, std::size_t threads) {
    return JobCost{.memory_bytes = ForecastEvaluationMemory(n, kind, options, sizes, threads),
                   .operations = ForecastEvaluationOperations(n, kind, options, sizes)};
  };
  job.compute = [options = *options, kind, declaration, local_features, result](
                    const WindowSample& sample, const RunControl& control) {
    const auto start = std::chrono::steady_clock::now();
    const NumberForecastBatch batch = sample.rows.view().numbers();
    const ForecastCovariates covariates{.groups = sample.groups,
                                        .features = sample.features,
                                        .feature_count = declaration->feature_names.size(),
                                        .local_features = local_features};
    CALIBD_ASSIGN_OR_RETURN(const ForecastEvaluation evaluation,
                            EvaluateForecasts(kind, batch, options, covariates, control));
    v1::ForecastEvaluation& proto = *result->mutable_evaluation()->mutable_forecast();
    proto = convert::ToProto(evaluation, options, covariates, declaration->feature_names);
    proto.set_first_observation(sample.first_observation);
    proto.set_last_observation(sample.last_observation);
    *proto.mutable_compute_time() = ToTimestamp(sample.compute_time);
    v1::Evaluation& answer = *result->mutable_evaluation();
    *answer.mutable_reading() = convert::ReadingOf(answer, declaration->monitoring.error_limit);
    *answer.mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(jobs, std::move(job), reply, result);
}

}  // namespace calibd::server
