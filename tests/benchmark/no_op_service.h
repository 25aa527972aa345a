#ifndef CALIBD_TESTS_BENCHMARK_NO_OP_SERVICE_H_
#define CALIBD_TESTS_BENCHMARK_NO_OP_SERVICE_H_

#include <fcntl.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/server_callback.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/load.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"

namespace calibd {

// Runs the functions that are posted to it on one thread. It takes the place of calibd's thread
// that commits: what arrives while it runs is written to the file, if there is one, and
// acknowledged together.
class NoOpCommitter {
 public:
  // log_file: empty to discard the messages.
  explicit NoOpCommitter(const std::string& log_file) {
    if (log_file.empty()) return;
    file_ = open(log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    Check(file_ >= 0, "the file cannot be made");
  }

  // message: what the file gets before settle is called; the caller keeps it only for this call.
  void Post(const google::protobuf::MessageLite& message, std::function<void()> settle) {
    {
      const std::lock_guard lock(mutex_);
      if (file_ >= 0) Check(message.AppendToString(&unwritten_), "a message cannot be written");
      if (settle) posted_.push_back(std::move(settle));
    }
    changed_.notify_one();
  }

 private:
  void Run(const std::stop_token& stop) {
    std::vector<std::function<void()>> taken;
    std::string bytes;
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, stop, [this] { return !posted_.empty(); });
        taken.swap(posted_);
        bytes.swap(unwritten_);
      }
      if (file_ >= 0) {
        Check(write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
                  fdatasync(file_) == 0,
              "the file cannot be written");
        bytes.clear();
      }
      for (const std::function<void()>& settle : taken) settle();
      taken.clear();
    }
  }

  int file_ = -1;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::function<void()>> posted_;
  // The messages that are not in the file yet.
  std::string unwritten_;
  std::jthread thread_{[this](const std::stop_token& stop) { Run(stop); }};
};

// Reads messages as they arrive and acknowledges the newest one.
class NoOpStream final : public grpc::ServerBidiReactor<v1::StreamObservationsRequest,
                                                        v1::StreamObservationsResponse> {
 public:
  NoOpStream(NoOpCommitter& committer, int max_batches_in_flight)
      : committer_(committer), max_batches_in_flight_(max_batches_in_flight) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    ending_ = !ok || request_.has_finish();
    if (ok) Handle();
    if (!ending_) StartRead(&request_);
    Advance();
  }

  void OnWriteDone(bool /*ok*/) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    Advance();
  }

  void OnDone() override { delete this; }

 private:
  void Handle() {
    if (request_.has_open()) {
      next_.mutable_opened()->set_next_sequence(1);
      next_.mutable_opened()->set_max_batches_in_flight(max_batches_in_flight_);
    } else if (request_.has_batch()) {
      received_ = request_.batch().sequence();
      committer_.Post(
          request_, settling_ ? std::function<void()>() : [this] { Settle(); });
      settling_ = true;
    } else {
      finished_ = true;
    }
  }

  void Settle() {
    const std::lock_guard lock(mutex_);
    settling_ = false;
    next_.mutable_ack()->set_sequence(received_);
    Advance();
  }

  void Advance() {
    if (writing_ || settling_) return;
    if (next_.message_case() == v1::StreamObservationsResponse::MESSAGE_NOT_SET && finished_) {
      next_.mutable_finished()->set_last_sequence(received_);
      finished_ = false;
    }
    if (next_.message_case() != v1::StreamObservationsResponse::MESSAGE_NOT_SET) {
      writing_ = true;
      written_.Swap(&next_);
      next_.Clear();
      StartWrite(&written_);
    } else if (ending_) {
      Finish(grpc::Status::OK);
    }
  }

  NoOpCommitter& committer_;
  const int max_batches_in_flight_;
  std::mutex mutex_;
  v1::StreamObservationsRequest request_;
  v1::StreamObservationsResponse next_;
  v1::StreamObservationsResponse written_;
  std::int64_t received_ = 0;
  // The committer is going to acknowledge the received batches.
  bool settling_ = false;
  bool writing_ = false;
  // Finish was received and is not answered.
  bool finished_ = false;
  bool ending_ = false;
};

// A service that costs what gRPC alone costs.
class NoOpService final : public v1::IngestService::CallbackService {
 public:
  // log_file: empty to discard the messages.
  NoOpService(int max_batches_in_flight, const std::string& log_file)
      : max_batches_in_flight_(max_batches_in_flight), committer_(log_file) {}

  grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>*
  StreamObservations(grpc::CallbackServerContext* /*context*/) override {
    return new NoOpStream(committer_, max_batches_in_flight_);
  }

  grpc::ServerUnaryReactor* Observe(grpc::CallbackServerContext* context,
                                    const v1::ObserveRequest* request,
                                    v1::ObserveResponse* response) override {
    response->set_accepted_rows(request->observations().labels_size());
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    committer_.Post(*request, [reactor] { reactor->Finish(grpc::Status::OK); });
    return reactor;
  }

 private:
  const int max_batches_in_flight_;
  NoOpCommitter committer_;
};

// Answers with an empty message.
class NoOpCalibration final : public v1::CalibrationService::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* /*request*/,
                                           v1::GetCalibrationResponse* /*response*/) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace calibd

#endif  // CALIBD_TESTS_BENCHMARK_NO_OP_SERVICE_H_
