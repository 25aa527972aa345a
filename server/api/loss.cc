#include "calibd/convert/loss.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/probability.h"
#include "calibd/core/status_macros.h"
#include "server/api/api.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

// Bounds the memory of the medians over pairs.
constexpr std::size_t kMaxRows = 4096;

absl::Status CheckForecasts(const ForecastBatch& batch, const v1::ComputeLossRequest& request) {
  if (request.forecasts_case() == v1::ComputeLossRequest::FORECASTS_NOT_SET) {
    return InvalidFieldError("forecasts",
                             "is missing, expected probabilities, logits, normals, samples or "
                             "quantiles");
  }
  if (batch.predicts_classes() ? request.outcomes_size() > 0 : request.labels_size() > 0) {
    return batch.predicts_classes()
               ? InvalidFieldError("outcomes", "is set, expected labels for classes")
               : InvalidFieldError("labels", "is set, expected outcomes for numbers");
  }
  if (batch.size() > kMaxRows) {
    return InvalidFieldError(batch.predicts_classes() ? "labels" : "outcomes",
                             absl::StrCat("has ", batch.size(), " rows, expected 1..", kMaxRows));
  }
  const std::vector<Violation> violations = FindViolations(batch);
  return violations.empty() ? absl::OkStatus() : InvalidFieldsError("INVALID_FIELD", violations);
}

}  // namespace

absl::Status Api::ComputeLoss(const v1::ComputeLossRequest& request,
                              const Reply<v1::ComputeLossResponse>& reply) {
  // The copy outlives this function, and the views into it with it.
  const auto copy = std::make_shared<v1::ComputeLossRequest>(request);
  if (copy->has_probabilities()) {
    auto& values = *copy->mutable_probabilities()->mutable_values();
    RoundToProbabilities({values.mutable_data(), static_cast<std::size_t>(values.size())});
  }
  const std::shared_ptr<const v1::ComputeLossRequest> rows = copy;
  const ForecastBatch batch = convert::ForecastsOf(*rows);
  CALIBD_RETURN_IF_ERROR(CheckForecasts(batch, *rows));
  absl::StatusOr<LossOptions> options = convert::FromProto(*rows);
  if (!options.ok()) return InvalidFieldError(options.status());
  if (const absl::Status status = CheckLossOptions(batch, *options); !status.ok()) {
    return InvalidFieldError(status);
  }
  RowsRequest job;
  job.rows = absl::StrCat(batch.size(), " rows of ", batch.width, " values");
  job.cost = {
      .memory_bytes = static_cast<double>(rows->SpaceUsedLong()) + LossMemory(batch, *options),
      .operations = LossOperations(batch, *options)};
  job.remedy = "fewer rows";
  const auto loss = std::make_shared<CalibrationLoss>();
  job.compute = [rows, batch, options = *std::move(options), loss](const RunControl& control) {
    CALIBD_ASSIGN_OR_RETURN(*loss, calibd::ComputeLoss(batch, options, control));
    return absl::OkStatus();
  };
  WindowJobs::Watcher watcher;
  watcher.done = [reply, loss](const absl::Status& computed) {
    reply->Answer([&](v1::ComputeLossResponse& response) {
      if (computed.ok()) response = convert::ToProto(*loss);
      return computed;
    });
  };
  CALIBD_ASSIGN_OR_RETURN(std::shared_ptr<WindowJobs::Job> submitted,
                          parts_.jobs.Submit(std::move(job), std::move(watcher)));
  reply->OnEnd([submitted = std::move(submitted)] { submitted->Cancel(); });
  return absl::OkStatus();
}

}  // namespace calibd::server
