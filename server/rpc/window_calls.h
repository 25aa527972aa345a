#ifndef CALIBD_SERVER_RPC_WINDOW_CALLS_H_
#define CALIBD_SERVER_RPC_WINDOW_CALLS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/compute/window_jobs.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// What the calls of CalibrationService ask of the compute threads: each checks its
// request and submits a job that fills in the response.
// Errors: those of the request's fields; NotFound; those of WindowJobs::Submit.
[[nodiscard]] absl::StatusOr<std::shared_ptr<WindowJobs::Job>> SubmitRunTest(
    const ModelRegistry& registry, WindowJobs& jobs, const v1::RunTestRequest& request,
    const std::shared_ptr<v1::RunTestResponse>& response, WindowJobs::Watcher watcher);
[[nodiscard]] absl::StatusOr<std::shared_ptr<WindowJobs::Job>> SubmitEvaluate(
    const ModelRegistry& registry, WindowJobs& jobs, const v1::EvaluateRequest& request,
    const std::shared_ptr<v1::EvaluateResponse>& response, WindowJobs::Watcher watcher);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_WINDOW_CALLS_H_
