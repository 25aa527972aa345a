#ifndef CALIBD_SERVER_API_WINDOW_CALL_H_
#define CALIBD_SERVER_API_WINDOW_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/api/api.h"
#include "server/api/call.h"
#include "server/api/progress_sender.h"
#include "server/api/quota_use.h"
#include "server/base/errors.h"
#include "server/compute/window_jobs.h"

namespace calibd::server {

inline std::uint64_t RandomSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

inline google::protobuf::Duration Since(std::chrono::steady_clock::time_point start) {
  return google::protobuf::util::TimeUtil::NanosecondsToDuration(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count());
}

// The times that core announces are those of a CPU with AVX2. One without takes up to so many times
// as long: it multiplies two numbers at once, not four, and adds them in another instruction.
inline constexpr double kSlowestCpu = 4;

// Submits a job that computes `result`. Sends progress messages and then the result. When the call
// ends for any reason, the job stops. Response: a message with a `progress` field.
template <typename Response>
absl::Status SubmitWindowJob(const ApiParts& parts, WindowRequest request,
                             const Reply<Response>& reply,
                             const std::shared_ptr<Response>& result) {
  request.owner = reply->context().owner;
  if (reply->context().identity->quota() != nullptr) {
    request.admit = [&access = parts.access, call = reply->context(),
                     model = request.model->original().name.ToString()](
                        double seconds) -> absl::StatusOr<std::shared_ptr<void>> {
      const auto part = std::make_shared<Quota::Part>();
      const auto refusal = call.identity->quota()->TakeCompute(seconds, *part, Quota::Clock::now());
      if (refusal.has_value()) return RefuseByQuota(access, call, model, *refusal);
      return part;
    };
    request.spent = [identity = *reply->context().identity](double seconds) {
      identity.quota()->SpendCompute(seconds, Quota::Clock::now());
    };
  }
  WindowJobs::Watcher watcher;
  watcher.progress = ProgressSender(reply);
  watcher.done = [reply, result](const absl::Status& computed) {
    reply->Answer([&](Response& response) {
      response = std::move(*result);
      return computed;
    });
  };
  CALIBD_ASSIGN_OR_RETURN(std::shared_ptr<WindowJobs::Job> job,
                          parts.jobs.Submit(std::move(request), std::move(watcher)));
  // This empty message tells the client that the call is accepted.
  Response accepted;
  accepted.mutable_progress();
  reply->Send(std::move(accepted));
  reply->OnEnd([job = std::move(job)] { job->Cancel(); });
  return absl::OkStatus();
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_WINDOW_CALL_H_
