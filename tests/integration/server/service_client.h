#ifndef CALIBD_TESTS_INTEGRATION_SERVER_SERVICE_CLIENT_H_
#define CALIBD_TESTS_INTEGRATION_SERVER_SERVICE_CLIENT_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "calibd/core/prediction_batch.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "calibd/v1/model_service.grpc.pb.h"

namespace calibd::testing {

using Request = v1::StreamObservationsRequest;
using Response = v1::StreamObservationsResponse;

// A ClientContext with a deadline that no normal call reaches.
class CallContext : public grpc::ClientContext {
 public:
  CallContext();
};

// The API on the wire, without the SDK: tests control what is sent and when.
class ServiceClient {
 public:
  explicit ServiceClient(const std::string& address);

  // Returns the status, and the declaration on the server in *created.
  grpc::Status Create(const v1::Model& model, v1::Model* created = nullptr);
  // Creates a model with this many classes and a fixed bandwidth.
  v1::Model CreateFixed(const std::string& name, int class_count, double bandwidth = 0.5);
  grpc::Status Delete(const std::string& name);
  // Changes the label grace of a model, also of its pending predictions. A test whose labels must
  // come in time declares an hour; when they have come, kEndedGrace matures all predictions.
  void SetLabelGrace(const std::string& name, std::chrono::milliseconds grace);
  static constexpr std::chrono::milliseconds kEndedGrace{1};
  grpc::Status Observe(const v1::ObserveRequest& request, v1::ObserveResponse* response = nullptr);
  v1::GetCalibrationResponse GetCalibration(const std::string& name);
  // Runs to the end; returns the result, if there is one.
  grpc::Status RunTest(const v1::RunTestRequest& request, v1::QuadraticTestResult* result);
  // Runs to the end, like RunTest.
  grpc::Status Evaluate(const v1::EvaluateRequest& request, v1::Evaluation* evaluation);
  // Runs to the end, like RunTest.
  grpc::Status Recalibrate(const v1::RecalibrateRequest& request, v1::Recalibration* recalibration);
  grpc::Status EstimateCalibrationError(const v1::EstimateCalibrationErrorRequest& request,
                                        v1::CalibrationErrorEstimate* estimate);
  grpc::Status CompareModels(const v1::CompareModelsRequest& request,
                             v1::ModelComparison* comparison);
  // The health service: 1 SERVING, 2 NOT_SERVING; the status code if the call fails.
  struct Health {
    grpc::StatusCode code = grpc::OK;
    std::uint32_t serving = 0;
  };
  Health CheckHealth(const std::string& service);

  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::ModelService::Stub> models;
  std::unique_ptr<v1::IngestService::Stub> ingest;
  std::unique_ptr<v1::CalibrationService::Stub> calibration;
};

v1::Observations ToProto(const PredictionBatch& batch);

// Returns the ErrorInfo.reason of an error; empty if it has none.
std::string Reason(const grpc::Status& status);

// Draws n observations of M2 over m classes.
PredictionSet Draw(std::size_t n, std::size_t class_count = 10, std::uint64_t seed = 1);

// Makes one call of StreamObservations.
class ObservationCall {
 public:
  explicit ObservationCall(ServiceClient& client);
  // Ends the call if it has not ended.
  ~ObservationCall();
  ObservationCall(const ObservationCall&) = delete;
  ObservationCall& operator=(const ObservationCall&) = delete;

  // Sends Open and reads Opened. Returns next_sequence, or nothing if the stream ended.
  std::optional<std::int64_t> Open(const std::string& model, const std::string& producer,
                                   std::int64_t epoch = 0);
  bool Send(const Request& request);
  bool SendBatch(std::int64_t sequence, const PredictionBatch& batch);
  bool SendFinish(std::int64_t last_sequence);
  // Returns the next message, or nothing if the stream has ended.
  std::optional<Response> Read();
  // Reads until `sequence` is acknowledged; passes every other message to on_other.
  bool ReadAck(std::int64_t sequence, const std::function<void(const Response&)>& on_other = {});
  // Half-closes the stream, reads to the end and returns the status.
  grpc::Status End();
  // Reads to the end without half-closing, and returns the status.
  grpc::Status Await();
  void Cancel() { context_.TryCancel(); }

 private:
  CallContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> call_;
  bool ended_ = false;
};

// The text of an answer without its sentences, which say how old the newest row is.
inline std::string WithoutReading(v1::GetCalibrationResponse answer) {
  answer.clear_reading();
  return answer.DebugString();
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_SERVER_SERVICE_CLIENT_H_
