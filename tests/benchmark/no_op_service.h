#ifndef CALIBD_TESTS_BENCHMARK_NO_OP_SERVICE_H_
#define CALIBD_TESTS_BENCHMARK_NO_OP_SERVICE_H_

#include <grpcpp/support/server_callback.h>

#include <mutex>

#include "calibd/v1/ingest_service.grpc.pb.h"

namespace calibd {

// Reads messages as they arrive and acknowledges the newest one.
class NoOpStream final : public grpc::ServerBidiReactor<v1::StreamObservationsRequest,
                                                        v1::StreamObservationsResponse> {
 public:
  explicit NoOpStream(int max_batches_in_flight) : max_batches_in_flight_(max_batches_in_flight) {
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    const bool ends = !ok || request_.has_finish();
    if (ok) Answer();
    if (ends) {
      ending_ = true;
    } else {
      StartRead(&request_);
    }
    Advance();
  }

  void OnWriteDone(bool /*ok*/) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    Advance();
  }

  void OnDone() override { delete this; }

 private:
  void Answer() {
    if (request_.has_open()) {
      next_.mutable_opened()->set_next_sequence(1);
      next_.mutable_opened()->set_max_batches_in_flight(max_batches_in_flight_);
    } else if (request_.has_batch()) {
      next_.mutable_ack()->set_sequence(request_.batch().sequence());
    } else {
      next_.mutable_finished()->set_last_sequence(request_.finish().last_sequence());
    }
  }

  void Advance() {
    if (writing_) return;
    if (next_.message_case() != v1::StreamObservationsResponse::MESSAGE_NOT_SET) {
      writing_ = true;
      written_.Swap(&next_);
      next_.Clear();
      StartWrite(&written_);
    } else if (ending_) {
      Finish(grpc::Status::OK);
    }
  }

  const int max_batches_in_flight_;
  std::mutex mutex_;
  v1::StreamObservationsRequest request_;
  v1::StreamObservationsResponse next_;
  v1::StreamObservationsResponse written_;
  bool writing_ = false;
  bool ending_ = false;
};

// A service that does what gRPC alone costs.
class NoOpService final : public v1::IngestService::CallbackService {
 public:
  explicit NoOpService(int max_batches_in_flight) : max_batches_in_flight_(max_batches_in_flight) {}

  grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>*
  StreamObservations(grpc::CallbackServerContext* /*context*/) override {
    return new NoOpStream(max_batches_in_flight_);
  }

 private:
  const int max_batches_in_flight_;
};

}  // namespace calibd

#endif  // CALIBD_TESTS_BENCHMARK_NO_OP_SERVICE_H_
