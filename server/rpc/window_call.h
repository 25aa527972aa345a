#ifndef CALIBD_SERVER_RPC_WINDOW_CALL_H_
#define CALIBD_SERVER_RPC_WINDOW_CALL_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/compute/window_jobs.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {

// One call that is computed on a model's window: writes progress now and then, and the
// result. Its end, however it comes, stops the computation. Response: a message with a
// `progress` field.
template <typename Response>
class WindowCall final : public grpc::ServerWriteReactor<Response>,
                         public std::enable_shared_from_this<WindowCall<Response>> {
 public:
  using Watcher = WindowJobs::Watcher;
  using Job = std::shared_ptr<WindowJobs::Job>;
  // Submits the computation, whose result goes into *result before the watcher is told.
  using Submit =
      std::function<absl::StatusOr<Job>(std::shared_ptr<Response> result, Watcher watcher)>;

  // The call keeps itself alive until gRPC is done with it.
  static WindowCall* Begin(const Submit& submit) {
    auto call = std::make_shared<WindowCall>();
    const std::lock_guard lock(call->mutex_);
    call->self_ = call;
    const absl::Status submitted = CatchExceptions([&]() -> absl::Status {
      Watcher watcher;
      watcher.progress = [call](double fraction) { call->OnProgress(fraction); };
      watcher.done = [call](const absl::Status& status) { call->OnComputed(status); };
      absl::StatusOr<Job> job = submit(call->result_, std::move(watcher));
      if (!job.ok()) {
        return job.status();
      }
      call->job_ = *std::move(job);
      return absl::OkStatus();
    });
    if (submitted.ok()) {
      // Tells the client that the call is accepted.
      call->next_.emplace().mutable_progress();
    } else {
      call->end_status_ = submitted;
    }
    call->Advance();
    return call.get();
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      Stop();
    }
    Advance();
  }

  void OnCancel() override {
    const std::lock_guard lock(mutex_);
    Stop();
    Advance();
  }

  void OnDone() override {
    // Goes, maybe as the last owner, after the lock is released.
    std::shared_ptr<WindowCall> self;
    const std::lock_guard lock(mutex_);
    self = std::move(self_);
  }

 private:
  static constexpr std::chrono::milliseconds kProgressInterval{100};

  void OnProgress(double fraction) {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (now < next_progress_) {
      return;
    }
    next_progress_ = now + kProgressInterval;
    next_.emplace().mutable_progress()->set_fraction(fraction);
    Advance();
  }

  void OnComputed(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    next_.reset();
    if (status.ok()) {
      next_ = std::move(*result_);
    }
    end_status_ = status;
    Advance();
  }

  // The following with mutex_ held.
  void Stop() {
    cancelled_ = true;
    if (job_ != nullptr) {
      job_->Cancel();
    }
  }

  // Writes or finishes, if there is something to write or finish with.
  void Advance() {
    // A write that is pending comes back by itself, also when cancelled.
    if (self_ == nullptr || finished_ || writing_) {
      return;
    }
    if (cancelled_) {
      finished_ = true;
      this->Finish(ToGrpcStatus(absl::CancelledError("the client is gone")));
    } else if (next_.has_value()) {
      written_ = *std::move(next_);
      next_.reset();
      writing_ = true;
      this->StartWrite(&written_);
    } else if (end_status_.has_value()) {
      finished_ = true;
      this->Finish(ToGrpcStatus(*end_status_));
    }
  }

  std::mutex mutex_;
  // Itself, until OnDone.
  std::shared_ptr<WindowCall> self_;
  Job job_;
  // Of the computation alone until it is done.
  std::shared_ptr<Response> result_ = std::make_shared<Response>();
  std::optional<Response> next_;
  Response written_;
  bool writing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::chrono::steady_clock::time_point next_progress_;
  // How the call ends, once next_ is written.
  std::optional<absl::Status> end_status_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_WINDOW_CALL_H_
