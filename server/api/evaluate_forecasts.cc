#include "server/api/evaluate_forecasts.h"

#include <chrono>
#include <utility>

#include "calibd/convert/forecast.h"
#include "calibd/core/forecast_evaluation.h"
#include "calibd/core/status_macros.h"
#include "server/api/proto_time.h"
#include "server/api/window_call.h"
#include "server/errors.h"

namespace calibd::server {

absl::Status EvaluateForecastModel(WindowJobs& jobs, const v1::EvaluateRequest& request,
                                   const Reply<v1::EvaluateResponse>& reply,
                                   const std::shared_ptr<Model>& model) {
  const NumberForecastKind kind = *model->declaration()->forecast;
  absl::StatusOr<ForecastEvaluationOptions> options =
      convert::ForecastOptionsFromProto(request, kind);
  if (!options.ok()) return InvalidFieldError(options.status());
  if (!request.has_seed()) options->resampling.seed = RandomSeed();
  const auto result = std::make_shared<v1::EvaluateResponse>();
  WindowRequest job;
  job.model = model;
  job.observations = static_cast<std::size_t>(request.window());
  job.needs_bandwidth = false;
  job.remedy = "a smaller window or fewer replicates";
  job.cost = [options = *options, kind](std::size_t n, std::size_t threads) {
    return JobCost{.memory_bytes = ForecastEvaluationMemory(n, kind, options, threads),
                   .operations = ForecastEvaluationOperations(n, kind, options)};
  };
  job.compute = [options = *options, kind, result](const WindowSample& sample,
                                                   const RunControl& control) {
    const auto start = std::chrono::steady_clock::now();
    const NumberForecastBatch batch{.forecasts = sample.forecasts.forecasts,
                                    .outcomes = sample.forecasts.outcomes};
    CALIBD_ASSIGN_OR_RETURN(const ForecastEvaluation evaluation,
                            EvaluateForecasts(kind, batch, options, {}, control));
    v1::ForecastEvaluation& proto = *result->mutable_evaluation()->mutable_forecast();
    proto = convert::ToProto(evaluation, options);
    proto.set_first_observation(sample.first_observation);
    proto.set_last_observation(sample.last_observation);
    *proto.mutable_compute_time() = ToTimestamp(sample.compute_time);
    *result->mutable_evaluation()->mutable_elapsed() = Since(start);
    return absl::OkStatus();
  };
  return SubmitWindowJob(jobs, std::move(job), reply, result);
}

}  // namespace calibd::server
