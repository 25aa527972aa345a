#ifndef CALIBD_SERVER_RPC_WINDOW_CALL_H_
#define CALIBD_SERVER_RPC_WINDOW_CALL_H_

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/compute/window_jobs.h"
#include "server/rpc/progress_sender.h"
#include "server/rpc/response_stream.h"

namespace calibd::server {

// Serves a call that is computed on a model's window: sends progress now and then, and the result.
// Its end, however it comes, stops the computation. submit(result, watcher): submits the
// computation, which writes *result before it calls watcher.done. Response: a message with a
// `progress` field.
template <typename Response, typename Request, typename Submit>
grpc::ServerWriteReactor<Response>* ServeWindowCall(const char* method, CallMemory& memory,
                                                    const grpc::CallbackServerContext& context,
                                                    const Request& request, const Submit& submit) {
  const auto serve = [&submit](const auto& stream) -> absl::Status {
    const auto result = std::make_shared<Response>();
    WindowJobs::Watcher watcher;
    watcher.progress = ProgressSender<Response>(stream);
    watcher.done = [stream, result](const absl::Status& computed) {
      stream->Guard(Stage::kAnswer, [&] {
        if (computed.ok()) {
          stream->SendLast(std::move(*result));
        }
        return computed;
      });
    };
    absl::StatusOr<std::shared_ptr<WindowJobs::Job>> job = submit(result, std::move(watcher));
    if (!job.ok()) {
      return job.status();
    }
    // Tells the client that the call is accepted.
    Response accepted;
    accepted.mutable_progress();
    stream->Send(std::move(accepted));
    stream->OnEnd([job = *std::move(job)] { job->Cancel(); });
    return absl::OkStatus();
  };
  return ServeStream<Response>(method, memory, context, request, serve);
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_WINDOW_CALL_H_
