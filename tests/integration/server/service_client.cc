#include "integration/server/service_client.h"

#include <google/protobuf/wrappers.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <utility>

#include "calibd/core/generator.h"
#include "calibd/rpc/status.pb.h"

namespace calibd::testing {

CallContext::CallContext() {
  set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(10));
}

ServiceClient::ServiceClient(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A separate connection, even if the process has one to this address.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  models = v1::ModelService::NewStub(channel);
  ingest = v1::IngestService::NewStub(channel);
  calibration = v1::CalibrationService::NewStub(channel);
}

grpc::Status ServiceClient::Create(const v1::Model& model, v1::Model* created) {
  CallContext context;
  v1::CreateModelRequest request;
  *request.mutable_model() = model;
  v1::CreateModelResponse response;
  grpc::Status status = models->CreateModel(&context, request, &response);
  if (created != nullptr) *created = response.model();
  return status;
}

v1::Model ServiceClient::CreateFixed(const std::string& name, int class_count, double bandwidth) {
  v1::Model model;
  model.set_name(name);
  model.mutable_classes()->set_count(class_count);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(bandwidth);
  v1::Model created;
  const grpc::Status status = Create(model, &created);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return created;
}

grpc::Status ServiceClient::Delete(const std::string& name) {
  CallContext context;
  v1::DeleteModelRequest request;
  request.set_name(name);
  request.set_confirmation(name);
  v1::DeleteModelResponse response;
  return models->DeleteModel(&context, request, &response);
}

void ServiceClient::SetLabelGrace(const std::string& name, std::chrono::milliseconds grace) {
  CallContext context;
  v1::UpdateModelRequest request;
  request.mutable_model()->set_name(name);
  const std::int64_t ms = grace.count();
  request.mutable_model()->mutable_label_grace()->set_seconds(ms / 1000);
  request.mutable_model()->mutable_label_grace()->set_nanos(
      static_cast<std::int32_t>(ms % 1000 * 1'000'000));
  request.mutable_update_mask()->add_paths("label_grace");
  v1::UpdateModelResponse response;
  const grpc::Status status = models->UpdateModel(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

grpc::Status ServiceClient::Observe(const v1::ObserveRequest& request,
                                    v1::ObserveResponse* response) {
  CallContext context;
  v1::ObserveResponse ignored;
  return ingest->Observe(&context, request, response == nullptr ? &ignored : response);
}

v1::GetCalibrationResponse ServiceClient::GetCalibration(const std::string& name) {
  CallContext context;
  v1::GetCalibrationRequest request;
  request.set_model(name);
  v1::GetCalibrationResponse response;
  const grpc::Status status = calibration->GetCalibration(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

grpc::Status ServiceClient::RunTest(const v1::RunTestRequest& request,
                                    v1::QuadraticTestResult* result) {
  CallContext context;
  const auto reader = calibration->RunTest(&context, request);
  v1::RunTestResponse response;
  double fraction = 0;
  while (reader->Read(&response)) {
    if (response.has_result()) {
      *result = response.result();
    } else {
      EXPECT_GE(response.progress().fraction(), fraction);
      fraction = response.progress().fraction();
    }
  }
  return reader->Finish();
}

grpc::Status ServiceClient::Evaluate(const v1::EvaluateRequest& request,
                                     v1::Evaluation* evaluation) {
  CallContext context;
  const auto reader = calibration->Evaluate(&context, request);
  v1::EvaluateResponse response;
  double fraction = 0;
  while (reader->Read(&response)) {
    if (response.has_evaluation()) {
      *evaluation = response.evaluation();
    } else {
      EXPECT_GE(response.progress().fraction(), fraction);
      fraction = response.progress().fraction();
    }
  }
  return reader->Finish();
}

grpc::Status ServiceClient::Recalibrate(const v1::RecalibrateRequest& request,
                                        v1::Recalibration* recalibration) {
  CallContext context;
  const auto reader = calibration->Recalibrate(&context, request);
  v1::RecalibrateResponse response;
  double fraction = 0;
  while (reader->Read(&response)) {
    if (response.has_recalibration()) {
      *recalibration = response.recalibration();
    } else {
      EXPECT_GE(response.progress().fraction(), fraction);
      fraction = response.progress().fraction();
    }
  }
  return reader->Finish();
}

grpc::Status ServiceClient::EstimateCalibrationError(
    const v1::EstimateCalibrationErrorRequest& request, v1::CalibrationErrorEstimate* estimate) {
  CallContext context;
  const auto reader = calibration->EstimateCalibrationError(&context, request);
  v1::EstimateCalibrationErrorResponse response;
  double fraction = 0;
  while (reader->Read(&response)) {
    if (response.has_result()) {
      *estimate = response.result();
    } else {
      EXPECT_GE(response.progress().fraction(), fraction);
      fraction = response.progress().fraction();
    }
  }
  return reader->Finish();
}

grpc::Status ServiceClient::CompareModels(const v1::CompareModelsRequest& request,
                                          v1::ModelComparison* comparison) {
  CallContext context;
  const auto reader = calibration->CompareModels(&context, request);
  v1::CompareModelsResponse response;
  while (reader->Read(&response)) {
    if (response.has_comparison()) *comparison = response.comparison();
  }
  return reader->Finish();
}

ServiceClient::Health ServiceClient::CheckHealth(const std::string& service) {
  // These messages have the wire form of the health service's messages: one string and one varint,
  // each with field number 1.
  google::protobuf::StringValue request;
  request.set_value(service);
  google::protobuf::UInt32Value response;
  grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::UInt32Value> stub(
      channel);
  CallContext context;
  std::promise<grpc::Status> answered;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&answered](const grpc::Status& status) { answered.set_value(status); });
  const grpc::Status status = answered.get_future().get();
  return {.code = status.error_code(), .serving = response.value()};
}

v1::Observations ToProto(const PredictionBatch& batch) {
  v1::Observations observations;
  observations.mutable_probabilities()->mutable_values()->Add(batch.probabilities.begin(),
                                                              batch.probabilities.end());
  observations.mutable_labels()->Add(batch.labels.begin(), batch.labels.end());
  return observations;
}

std::string Reason(const grpc::Status& status) {
  rpc::Status wire;
  if (!wire.ParseFromString(status.error_details())) return "";
  for (const auto& detail : wire.details()) {
    rpc::ErrorInfo info;
    if (detail.type_url() == "type.googleapis.com/google.rpc.ErrorInfo" &&
        info.ParseFromString(detail.value())) {
      return info.reason();
    }
  }
  return "";
}

PredictionSet Draw(std::size_t n, std::size_t class_count, std::uint64_t seed) {
  PredictionSet set;
  auto generator = Generator::Create(GeneratorSpec::M2(class_count), seed);
  generator->Draw(n, set);
  return set;
}

ObservationCall::ObservationCall(ServiceClient& client)
    : call_(client.ingest->StreamObservations(&context_)) {}

ObservationCall::~ObservationCall() {
  if (!ended_) {
    Cancel();
    Await();
  }
}

std::optional<std::int64_t> ObservationCall::Open(const std::string& model,
                                                  const std::string& producer, std::int64_t epoch) {
  Request request;
  request.mutable_open()->set_model(model);
  request.mutable_open()->set_producer_id(producer);
  request.mutable_open()->set_epoch(epoch);
  Send(request);
  const std::optional<Response> response = Read();
  if (!response.has_value() || !response->has_opened()) return std::nullopt;
  return response->opened().next_sequence();
}

bool ObservationCall::Send(const Request& request) { return call_->Write(request); }

bool ObservationCall::SendBatch(std::int64_t sequence, const PredictionBatch& batch) {
  Request request;
  request.mutable_batch()->set_sequence(sequence);
  *request.mutable_batch()->mutable_observations() = ToProto(batch);
  return Send(request);
}

bool ObservationCall::SendFinish(std::int64_t last_sequence) {
  Request request;
  request.mutable_finish()->set_last_sequence(last_sequence);
  return Send(request);
}

std::optional<Response> ObservationCall::Read() {
  Response response;
  if (!call_->Read(&response)) return std::nullopt;
  return response;
}

bool ObservationCall::ReadAck(std::int64_t sequence,
                              const std::function<void(const Response&)>& on_other) {
  while (const std::optional<Response> response = Read()) {
    if (response->has_ack()) {
      if (response->ack().sequence() >= sequence) return true;
    } else if (on_other) {
      on_other(*response);
    }
  }
  return false;
}

grpc::Status ObservationCall::End() {
  call_->WritesDone();
  return Await();
}

grpc::Status ObservationCall::Await() {
  while (Read().has_value()) {
  }
  ended_ = true;
  return call_->Finish();
}

}  // namespace calibd::testing
