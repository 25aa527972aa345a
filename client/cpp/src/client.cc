#include "calibd/client/client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backoff.h"
#include "backup_file.h"
#include "calibd/text/model_id.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "calibd/v1/model_service.grpc.pb.h"
#include "calibd/v1/store_service.grpc.pb.h"
#include "google/protobuf/util/time_util.h"
#include "grpcpp/channel.h"
#include "status_conversion.h"
#include "stream_impl.h"
#include "tls.h"

namespace calibd::client {
namespace {

using Clock = std::chrono::system_clock;

// A page of the largest declarations fits into one response: see ChannelSettings.
constexpr int kModelsPerPage = 20;
constexpr int kVerdictsPerPage = 100;
// The largest answer in pages: more than a server has.
constexpr std::size_t kMaxPages = 100'000;
constexpr std::size_t kMaxPagedBytes = std::size_t{1} << 30;
constexpr std::chrono::minutes kMaxPagedTime{10};

// Streams on one connection. They share its flow control, and the server limits the calls of a
// connection.
constexpr long kStreamsPerConnection = 8;

// A watch ends after so many calls in a row that ended without a message that could be read.
constexpr int kMaxBrokenCalls = 5;

// Maximum delay until Connect notices a stop.
constexpr std::chrono::milliseconds kBetweenLooks{100};
// Maximum time for the call that learns why no connection was made.
constexpr std::chrono::seconds kReasonTimeout{1};
// Between attempts while none of several servers serves.
constexpr std::chrono::milliseconds kTakeoverPause{100};

absl::Status Cancelled() { return absl::CancelledError("the call was cancelled"); }

// The reason why a channel is not connected, in the words of gRPC, which only a call tells.
std::string ConnectionError(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(Clock::now() + kReasonTimeout);
  v1::ListModelsResponse response;
  return v1::ModelService::NewStub(channel)->ListModels(&context, {}, &response).error_message();
}

// Says why a channel is not connected, if the reason is known; else empty. text: in the words of
// gRPC.
std::string ExplainConnection(const std::string& address, const std::string& text,
                              const TlsOptions& tls) {
  constexpr std::string_view kPortHint =
      "the address has no port, and 443 is tried without one: state HOST:PORT, such as HOST:8460";
  const bool has_port = address.find(':') != std::string::npos;
  if (text.find("DNS resolution failed") != std::string::npos) {
    return "the name of the host has no address";
  }
  const std::string cause = ExplainTls(text, tls);
  return cause.empty() && !has_port ? std::string(kPortHint) : cause;
}

// Waits until the delay is over or a stop is requested.
void WaitFor(std::chrono::milliseconds delay, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, stop, delay, [] { return false; });
}

// Cancels a call whose first message does not come in time, if a thread can be started.
class FirstMessageTimer {
 public:
  FirstMessageTimer(grpc::ClientContext& context, std::chrono::milliseconds timeout)
      : thread_(TryStartThread([this, &context, timeout] {
          WaitFor(timeout, stop_.get_token());
          if (stop_.stop_requested()) return;
          is_late_ = true;
          context.TryCancel();
        })) {}
  ~FirstMessageTimer() {
    stop_.request_stop();
    if (thread_.has_value()) thread_->join();
  }
  FirstMessageTimer(const FirstMessageTimer&) = delete;
  FirstMessageTimer& operator=(const FirstMessageTimer&) = delete;

  void NoteMessage() { stop_.request_stop(); }
  [[nodiscard]] bool is_late() const { return is_late_; }

 private:
  std::stop_source stop_;
  std::atomic<bool> is_late_ = false;
  std::optional<std::thread> thread_;
};

// Reports the progress of a long call. The fraction never decreases, even if a retry starts over.
class Progress {
 public:
  explicit Progress(const LongCallOptions& options) : options_(options) {}

  void Tell(double fraction) {
    // The comparison is false for NaN.
    if (!options_.on_progress || !(fraction > told_)) return;
    told_ = std::min(fraction, 1.0);
    options_.on_progress(told_);
  }

 private:
  const LongCallOptions& options_;
  double told_ = 0;
};

}  // namespace

struct Client::Impl {
  Impl(std::string the_address, const std::shared_ptr<grpc::Channel>& channel,
       const ClientOptions& the_options)
      : address(std::move(the_address)),
        options(the_options),
        models(v1::ModelService::NewStub(channel)),
        calibration(v1::CalibrationService::NewStub(channel)),
        store(v1::StoreService::NewStub(channel)),
        ingest(v1::IngestService::NewStub(channel)) {}

  // Returns the stub of a connection that has room for another stream.
  std::shared_ptr<v1::IngestService::Stub> StubForStream() {
    const std::lock_guard lock(mutex);
    // One owner is this object.
    if (ingest.use_count() <= kStreamsPerConnection) return ingest;
    std::erase_if(further_ingest, [](const auto& stub) { return stub.expired(); });
    for (const auto& stub : further_ingest) {
      if (stub.use_count() >= kStreamsPerConnection) continue;
      if (auto found = stub.lock()) return found;
    }
    std::shared_ptr<v1::IngestService::Stub> stub =
        v1::IngestService::NewStub(CreateChannel(address, options.tls, options.token));
    further_ingest.push_back(stub);
    return stub;
  }

  // call(context, attempt) makes one attempt. Repeats it while this is safe and within the
  // deadline, unless stopped.
  template <typename Call>
  absl::Status Retry(std::chrono::milliseconds timeout, const std::stop_token& stop,
                     const Call& call) const {
    const Clock::time_point deadline = Clock::now() + timeout;
    Backoff backoff(std::random_device{}());
    int failed = 0;
    for (int attempt = 1;; ++attempt) {
      if (stop.stop_requested()) return Cancelled();
      grpc::ClientContext context;
      context.set_deadline(deadline);
      const std::stop_callback cancel(stop, [&context] { context.TryCancel(); });
      absl::Status status = call(context, attempt);
      if (!status.ok() && stop.stop_requested()) return Cancelled();
      // A server that begins to stop cancels calls that reach it at this moment.
      const bool was_cancelled = absl::IsCancelled(status) && IsCutOff(status);
      if (!IsRetryable(status) && !was_cancelled) return status;
      auto asked = RetryDelay(status);
      // One of several servers takes the store over.
      if (!asked.has_value() && NamesSeveral(address)) asked = kTakeoverPause;
      // A refusal with a retry delay by a starting or stopping server is not a failed attempt.
      const bool awaited = absl::IsUnavailable(status) && asked.has_value();
      if (!awaited && ++failed >= options.max_attempts) return status;
      const auto delay = backoff.Next(asked);
      if (Clock::now() + delay >= deadline) return status;
      WaitFor(delay, stop);
    }
  }

  // Makes one unary call.
  template <typename Response, typename Call>
  absl::StatusOr<Response> Unary(const Call& call) const {
    Response response;
    absl::Status status = Retry(options.call_timeout, options.stop,
                                [&](grpc::ClientContext& context, int /*attempt*/) {
                                  return FromGrpcStatus(call(&context, &response));
                                });
    if (!status.ok()) return status;
    return response;
  }

  // Makes a unary call for each page, calls take(page), and sets the next page token in `request`.
  // of: what the pages contain, for errors. Errors: also DataLoss if the server never ends with a
  // last page.
  template <typename Response, typename Request, typename Call, typename Take>
  absl::Status ReadPages(const char* of, Request& request, const Call& call,
                         const Take& take) const {
    const std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
    std::set<std::string> tokens;
    std::size_t bytes = 0;
    for (;;) {
      absl::StatusOr<Response> page = Unary<Response>(call);
      if (!page.ok()) return page.status();
      const std::string token = page->next_page_token();
      bytes += page->ByteSizeLong();
      if (!token.empty() &&
          (!tokens.insert(token).second || tokens.size() > kMaxPages || bytes > kMaxPagedBytes)) {
        return absl::DataLossError(absl::StrCat("the server sent ", tokens.size(), " pages of ", of,
                                                " with ", bytes,
                                                " bytes and no last one, or the same page again"));
      }
      take(*page);
      if (token.empty()) return absl::OkStatus();
      if (std::chrono::steady_clock::now() - begin > kMaxPagedTime) {
        return absl::DeadlineExceededError(
            absl::StrCat("the server sent ", tokens.size(), " pages of ", of, " within ",
                         kMaxPagedTime.count(), " minutes, and none was the last one"));
      }
      request.set_page_token(token);
    }
  }

  // Makes a call with progress messages and then a result, to which take(response) points.
  template <typename Response, typename Result, typename Start, typename Take>
  absl::StatusOr<Result> Long(const LongCallOptions& call_options, const Start& start,
                              const Take& take) const {
    std::optional<Result> result;
    Progress progress(call_options);
    absl::Status status = Retry(call_options.timeout, call_options.stop,
                                [&](grpc::ClientContext& context, int /*attempt*/) {
                                  const auto reader = start(&context);
                                  Response response;
                                  while (reader->Read(&response)) {
                                    if (response.has_progress()) {
                                      progress.Tell(response.progress().fraction());
                                    } else {
                                      result = std::move(*take(response));
                                    }
                                  }
                                  return FromGrpcStatus(reader->Finish());
                                });
    if (!status.ok()) return status;
    // gRPC may report a broken message as a clean end of the stream.
    if (!result.has_value()) {
      return absl::DataLossError("the server ended the call without a result");
    }
    return *std::move(result);
  }

  const std::string address;
  const ClientOptions options;
  const std::unique_ptr<v1::ModelService::Stub> models;
  const std::unique_ptr<v1::CalibrationService::Stub> calibration;
  const std::unique_ptr<v1::StoreService::Stub> store;
  // Shared with the streams, which may outlive the client. Each stub has a connection.
  const std::shared_ptr<v1::IngestService::Stub> ingest;
  std::mutex mutex;
  std::vector<std::weak_ptr<v1::IngestService::Stub>> further_ingest;  // guarded by mutex
};

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address,
                                                        const ClientOptions& options) {
  if (address.empty()) return absl::InvalidArgumentError("address is empty, expected HOST:PORT");
  if (options.connect_timeout.count() <= 0 || options.call_timeout.count() <= 0 ||
      options.max_attempts < 1) {
    return absl::InvalidArgumentError(
        "connect_timeout, call_timeout and max_attempts must be positive");
  }
  if (absl::Status status = CheckConnection(address, options.tls, options.token); !status.ok()) {
    return status;
  }
  const std::shared_ptr<grpc::Channel> channel = CreateChannel(address, options.tls, options.token);
  const Clock::time_point deadline = Clock::now() + options.connect_timeout;
  // A refused connection is reported at once rather than after the timeout; only
  // a silent peer takes that long.
  for (grpc_connectivity_state state = channel->GetState(true); state != GRPC_CHANNEL_READY;
       state = channel->GetState(true)) {
    if (options.stop.stop_requested()) return Cancelled();
    const Clock::time_point now = Clock::now();
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || now >= deadline) {
      // A silent peer says nothing that could be explained.
      const std::string cause =
          state == GRPC_CHANNEL_TRANSIENT_FAILURE
              ? ExplainConnection(address, ConnectionError(channel), options.tls)
              : "";
      return absl::UnavailableError(
          absl::StrCat("no calibd server answers at ", address, cause.empty() ? "" : ": ", cause));
    }
    channel->WaitForStateChange(state, std::min(deadline, now + kBetweenLooks));
  }
  return std::unique_ptr<Client>(new Client(std::make_unique<Impl>(address, channel, options)));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::~Client() = default;

absl::StatusOr<v1::Model> Client::CreateModel(const v1::Model& model) {
  v1::CreateModelRequest request;
  *request.mutable_model() = model;
  auto response = impl_->Unary<v1::CreateModelResponse>(
      [&](auto* context, auto* out) { return impl_->models->CreateModel(context, request, out); });
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_model());
}

absl::StatusOr<v1::Model> Client::GetModel(std::string_view name) {
  v1::GetModelRequest request;
  request.set_name(std::string(name));
  auto response = impl_->Unary<v1::GetModelResponse>(
      [&](auto* context, auto* out) { return impl_->models->GetModel(context, request, out); });
  if (!response.ok()) return response.status();
  return std::move(*response->mutable_model());
}

absl::StatusOr<v1::UpdateModelResponse> Client::UpdateModel(const v1::UpdateModelRequest& request) {
  return impl_->Unary<v1::UpdateModelResponse>(
      [&](auto* context, auto* out) { return impl_->models->UpdateModel(context, request, out); });
}

absl::StatusOr<std::vector<v1::Model>> Client::ListModels() {
  std::vector<v1::Model> models;
  v1::ListModelsRequest request;
  request.set_page_size(kModelsPerPage);
  absl::Status status = impl_->ReadPages<v1::ListModelsResponse>(
      "models", request,
      [&](auto* context, auto* out) { return impl_->models->ListModels(context, request, out); },
      [&](v1::ListModelsResponse& page) {
        for (v1::Model& model : *page.mutable_models()) models.push_back(std::move(model));
      });
  if (!status.ok()) return status;
  return models;
}

absl::Status Client::DeleteModel(std::string_view name, std::string_view confirmation) {
  v1::DeleteModelRequest request;
  request.set_name(std::string(name));
  request.set_confirmation(std::string(confirmation));
  return impl_->Retry(impl_->options.call_timeout, impl_->options.stop,
                      [&](grpc::ClientContext& context, int attempt) {
                        v1::DeleteModelResponse response;
                        absl::Status status = FromGrpcStatus(
                            impl_->models->DeleteModel(&context, request, &response));
                        if (attempt > 1 && absl::IsNotFound(status)) return absl::OkStatus();
                        return status;
                      });
}

absl::StatusOr<v1::GetCalibrationResponse> Client::GetCalibration(std::string_view name) {
  v1::GetCalibrationRequest request;
  request.set_model(std::string(name));
  return GetCalibration(request);
}

absl::StatusOr<v1::GetCalibrationResponse> Client::GetCalibration(
    const v1::GetCalibrationRequest& request) {
  return impl_->Unary<v1::GetCalibrationResponse>([&](auto* context, auto* out) {
    return impl_->calibration->GetCalibration(context, request, out);
  });
}

absl::StatusOr<v1::ListVerdictsResponse> Client::ListVerdicts(double false_discovery_rate) {
  v1::ListVerdictsResponse all;
  v1::ListVerdictsRequest request;
  request.set_page_size(kVerdictsPerPage);
  request.set_false_discovery_rate(false_discovery_rate);
  absl::Status status = impl_->ReadPages<v1::ListVerdictsResponse>(
      "verdicts", request,
      [&](auto* context, auto* out) {
        return impl_->calibration->ListVerdicts(context, request, out);
      },
      // MergeFrom appends the models; the counts are those of the newest page.
      [&](const v1::ListVerdictsResponse& page) { all.MergeFrom(page); });
  if (!status.ok()) return status;
  all.clear_next_page_token();
  return all;
}

absl::StatusOr<v1::AcknowledgeAlarmResponse> Client::AcknowledgeAlarm(std::string_view name,
                                                                      std::int64_t alarm_id,
                                                                      std::string_view note) {
  v1::AcknowledgeAlarmRequest request;
  request.set_model(std::string(name));
  request.set_alarm_id(alarm_id);
  request.set_note(std::string(note));
  return impl_->Unary<v1::AcknowledgeAlarmResponse>([&](auto* context, auto* out) {
    return impl_->calibration->AcknowledgeAlarm(context, request, out);
  });
}

absl::Status Client::Watch(
    std::string_view name,
    const std::function<bool(const v1::WatchCalibrationResponse& change)>& on_change,
    const WatchOptions& options) {
  v1::WatchCalibrationRequest request;
  request.set_model(std::string(name));
  *request.mutable_min_interval() =
      google::protobuf::util::TimeUtil::MillisecondsToDuration(options.min_interval.count());
  request.set_after_revision(options.after_revision);
  Backoff backoff(std::random_device{}());
  bool lost = false;
  bool has_message = false;
  int broken_calls = 0;
  while (!options.stop.stop_requested()) {
    grpc::ClientContext context;
    const std::stop_callback cancel(options.stop, [&context] { context.TryCancel(); });
    const auto reader = impl_->calibration->WatchCalibration(&context, request);
    FirstMessageTimer timer(context, impl_->options.call_timeout);
    v1::WatchCalibrationResponse change;
    std::int64_t last = -1;
    while (reader->Read(&change)) {
      timer.NoteMessage();
      has_message = true;
      broken_calls = 0;
      if (change.revision() <= last) {
        context.TryCancel();
        reader->Finish();
        return absl::DataLossError(absl::StrCat("the server sent revision ", change.revision(),
                                                " after ", last, ", expected a higher one"));
      }
      last = change.revision();
      backoff.Reset();
      if (std::exchange(lost, false) && options.on_connection) {
        options.on_connection(absl::OkStatus());
      }
      request.set_after_revision(change.revision());
      // The first message is empty if nothing has changed since after_revision.
      if (change.has_calibration() && !on_change(change)) {
        context.TryCancel();
        reader->Finish();
        return absl::OkStatus();
      }
    }
    absl::Status status = FromGrpcStatus(reader->Finish());
    if (options.stop.stop_requested()) break;
    if (timer.is_late()) {
      const std::string silence = absl::StrCat("the server sent nothing within ",
                                               impl_->options.call_timeout.count(), " ms");
      // A server that was there before may come back.
      if (!has_message) return absl::DeadlineExceededError(silence);
      status = absl::UnavailableError(silence);
    }
    // gRPC may report a broken message as a clean end of the stream.
    const bool is_broken = status.ok() || IsCutOff(status);
    if (status.ok()) status = absl::UnavailableError("the server ended the call");
    if (is_broken && ++broken_calls >= kMaxBrokenCalls) {
      return absl::DataLossError(absl::StrCat("the server ended ", broken_calls,
                                              " calls without a message that can be read; the last "
                                              "one: ",
                                              status.message()));
    }
    if (!IsRetryable(status) && !is_broken) return status;
    if (!std::exchange(lost, true) && options.on_connection) options.on_connection(status);
    WaitFor(backoff.Next(RetryDelay(status)), options.stop);
  }
  return absl::CancelledError("the watch was stopped");
}

absl::StatusOr<v1::GetHistoryResponse> Client::GetHistory(const v1::GetHistoryRequest& request) {
  v1::GetHistoryRequest page_request = request;
  page_request.clear_page_size();
  page_request.clear_page_token();
  v1::GetHistoryResponse history;
  absl::Status status = impl_->ReadPages<v1::GetHistoryResponse>(
      "the history", page_request,
      [&](auto* context, auto* out) {
        return impl_->calibration->GetHistory(context, page_request, out);
      },
      [&](v1::GetHistoryResponse& page) {
        for (v1::HistoryBucket& bucket : *page.mutable_buckets()) {
          *history.add_buckets() = std::move(bucket);
        }
        if (page.has_total()) *history.mutable_total() = std::move(*page.mutable_total());
        *history.mutable_updates() = std::move(*page.mutable_updates());
        history.set_kind(page.kind());
        history.set_class_1_name(page.class_1_name());
        history.set_label_count(page.label_count());
      });
  if (!status.ok()) return status;
  return history;
}

absl::StatusOr<v1::QuadraticTestResult> Client::RunTest(const v1::RunTestRequest& request,
                                                        const LongCallOptions& options) {
  return impl_->Long<v1::RunTestResponse, v1::QuadraticTestResult>(
      options, [&](auto* context) { return impl_->calibration->RunTest(context, request); },
      [](v1::RunTestResponse& response) { return response.mutable_result(); });
}

absl::StatusOr<v1::Evaluation> Client::Evaluate(const v1::EvaluateRequest& request,
                                                const LongCallOptions& options) {
  return impl_->Long<v1::EvaluateResponse, v1::Evaluation>(
      options, [&](auto* context) { return impl_->calibration->Evaluate(context, request); },
      [](v1::EvaluateResponse& response) { return response.mutable_evaluation(); });
}

absl::StatusOr<v1::Recalibration> Client::Recalibrate(const v1::RecalibrateRequest& request,
                                                      const LongCallOptions& options) {
  return impl_->Long<v1::RecalibrateResponse, v1::Recalibration>(
      options, [&](auto* context) { return impl_->calibration->Recalibrate(context, request); },
      [](v1::RecalibrateResponse& response) { return response.mutable_recalibration(); });
}

absl::StatusOr<v1::CalibrationErrorEstimate> Client::EstimateCalibrationError(
    const v1::EstimateCalibrationErrorRequest& request, const LongCallOptions& options) {
  return impl_->Long<v1::EstimateCalibrationErrorResponse, v1::CalibrationErrorEstimate>(
      options,
      [&](auto* context) { return impl_->calibration->EstimateCalibrationError(context, request); },
      [](v1::EstimateCalibrationErrorResponse& response) { return response.mutable_result(); });
}

absl::StatusOr<v1::ModelComparison> Client::CompareModels(const v1::CompareModelsRequest& request,
                                                          const LongCallOptions& options) {
  return impl_->Long<v1::CompareModelsResponse, v1::ModelComparison>(
      options, [&](auto* context) { return impl_->calibration->CompareModels(context, request); },
      [](v1::CompareModelsResponse& response) { return response.mutable_comparison(); });
}

absl::StatusOr<std::int64_t> Client::Backup(const std::string& path,
                                            const LongCallOptions& options) {
  const auto created = BackupFile::Create(path);
  if (!created.ok()) return created.status();
  BackupFile& file = **created;
  Progress progress(options);
  const auto attempt = [&](grpc::ClientContext& context, int /*attempt*/) {
    if (absl::Status begun = file.Begin(); !begun.ok()) return begun;
    const auto reader = impl_->store->Backup(&context, v1::BackupRequest());
    v1::BackupResponse response;
    absl::Status written;
    while (written.ok() && reader->Read(&response)) {
      if (response.has_progress()) {
        progress.Tell(response.progress().fraction());
      } else if (response.has_complete()) {
        written = file.Complete(response.complete());
      } else {
        written = file.Append(response.data());
      }
    }
    if (!written.ok()) context.TryCancel();
    absl::Status called = FromGrpcStatus(reader->Finish());
    return written.ok() ? called : written;
  };
  if (absl::Status status = impl_->Retry(options.timeout, options.stop, attempt); !status.ok()) {
    return status;
  }
  return file.Keep();
}

absl::StatusOr<v1::Verification> Client::Verify(const LongCallOptions& options) {
  return impl_->Long<v1::VerifyResponse, v1::Verification>(
      options, [&](auto* context) { return impl_->store->Verify(context, v1::VerifyRequest()); },
      [](v1::VerifyResponse& response) { return response.mutable_verification(); });
}

absl::StatusOr<std::unique_ptr<ObservationStream>> Client::OpenStream(
    std::string_view name, const StreamOptions& options) {
  return StreamImpl::Open([stub = impl_->StubForStream()]() mutable { return std::move(stub); },
                          std::string(name), options, impl_->options.call_timeout,
                          impl_->options.stop);
}

std::string EscapeId(std::string_view text) { return EscapeModelId(text); }

std::string ModelName(std::string_view model, std::string_view version) {
  std::string name = "models/";
  name.append(model);
  if (!version.empty()) name.append("/versions/").append(version);
  return name;
}

}  // namespace calibd::client
