// Calls of every method over a real connection to the real server. After any call the server still
// runs, reports what was wrong, and its responses contain no NaN.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "calibd/v1/model_service.grpc.pb.h"
#include "fuzz/require.h"
#include "fuzz/text_input.h"
#include "inputs.pb.h"
#include "server/server.h"
#include "support/http_get.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::MethodDescriptor;

constexpr std::size_t kMaxCalls = 30;

server::Options OptionsFor(const TemporaryFolder& folder) {
  server::Options options;
  options.listen = "127.0.0.1:0";
  options.http_listen = "127.0.0.1:0";
  options.data_dir = folder.path() / "data";
  // Small limits, so that no input takes long.
  options.max_models = 8;
  options.model_memory_bytes = std::int64_t{1} << 20;
  options.state_memory_bytes = std::int64_t{4} << 20;
  options.max_test_operations = 1e6;
  options.compute_threads = 1;
  return options;
}

class ServedModels {
 public:
  ServedModels() {
    spdlog::set_level(spdlog::level::off);
    std::promise<std::string> http_address;
    auto server = server::Server::Start(
        OptionsFor(folder_),
        {.on_serving =
             [&](const std::string& grpc, const std::string& http) {
               channel_ = grpc::CreateChannel(grpc, grpc::InsecureChannelCredentials());
               http_address.set_value(http);
             },
         .on_failure =
             [](const absl::Status& status) { Require(false, std::string(status.message())); }});
    Require(server.ok(), "the server starts");
    server_ = *std::move(server);
    http_address_ = http_address.get_future().get();
    models_ = v1::ModelService::NewStub(channel_);
  }

  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  [[nodiscard]] std::string data_folder() const { return folder_.path().string(); }
  [[nodiscard]] std::string Metrics() const { return HttpGet(http_address_, "/metrics").body; }

  // Deletes all models, so that the server is in the same state for the next input.
  void DeleteAll() const {
    grpc::ClientContext context;
    v1::ListModelsResponse listed;
    Require(models_->ListModels(&context, {}, &listed).ok(), "models can be listed");
    for (const v1::Model& model : listed.models()) {
      grpc::ClientContext deletion;
      v1::DeleteModelRequest request;
      request.set_name(model.name());
      request.set_confirmation(model.name());
      v1::DeleteModelResponse response;
      Require(models_->DeleteModel(&deletion, request, &response).ok(), "a model can be deleted");
    }
  }

 private:
  const TemporaryFolder folder_;
  std::unique_ptr<server::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::string http_address_;
  std::unique_ptr<v1::ModelService::Stub> models_;
};

const ServedModels& Served() {
  static const ServedModels served;
  return served;
}

std::string PathOf(const MethodDescriptor& method) {
  return "/" + method.service()->full_name() + "/" + method.name();
}

// The methods of the API by the types of their requests, which are all different.
const std::map<std::string, const MethodDescriptor*>& Methods() {
  static const auto methods = [] {
    std::map<std::string, const MethodDescriptor*> found;
    for (const char* const name : {"calibd.v1.ModelService", "calibd.v1.IngestService",
                                   "calibd.v1.CalibrationService", "calibd.v1.StoreService"}) {
      const auto* const service = DescriptorPool::generated_pool()->FindServiceByName(name);
      Require(service != nullptr, name);
      for (int i = 0; i < service->method_count(); ++i) {
        found[service->method(i)->input_type()->full_name()] = service->method(i);
      }
    }
    return found;
  }();
  return methods;
}

// A call on the wire.
struct WireCall {
  std::string path;
  std::vector<std::string> messages;
  // The method of the path; null if the path does not belong to the API.
  const MethodDescriptor* method = nullptr;
};

WireCall ToWire(const fuzz::Call& call) {
  WireCall wire;
  if (call.has_raw()) {
    wire.path = call.raw().path();
    wire.messages.assign(call.raw().messages().begin(), call.raw().messages().end());
    for (const auto& [type, method] : Methods()) {
      if (PathOf(*method) == wire.path) wire.method = method;
    }
    return wire;
  }
  std::vector<const FieldDescriptor*> fields;
  call.GetReflection()->ListFields(call, &fields);
  std::string type = fields.front()->message_type()->full_name();
  if (call.has_stream_observations()) {
    for (const auto& request : call.stream_observations().requests()) {
      wire.messages.push_back(request.SerializeAsString());
    }
    type = v1::StreamObservationsRequest::descriptor()->full_name();
  } else {
    wire.messages.push_back(
        call.GetReflection()->GetMessage(call, fields.front()).SerializeAsString());
  }
  wire.method = Methods().at(type);
  wire.path = PathOf(*wire.method);
  return wire;
}

// One call, whose steps run one after another.
class GenericCall {
 public:
  explicit GenericCall(const std::string& path) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::GenericStub stub(Served().channel());
    stream_ = stub.PrepareCall(&context_, path, &queue_);
    stream_->StartCall(nullptr);
    Await();
  }
  ~GenericCall() {
    queue_.Shutdown();
    Await();
  }
  GenericCall(const GenericCall&) = delete;
  GenericCall& operator=(const GenericCall&) = delete;

  bool Write(const std::string& message) {
    const grpc::Slice slice(message);
    stream_->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    return Await();
  }
  void WritesDone() {
    stream_->WritesDone(nullptr);
    Await();
  }
  std::optional<std::string> Read() {
    grpc::ByteBuffer buffer;
    stream_->Read(&buffer, nullptr);
    grpc::Slice slice;
    if (!Await() || !buffer.DumpToSingleSlice(&slice).ok()) return std::nullopt;
    return std::string(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() {
    grpc::Status status;
    stream_->Finish(&status, nullptr);
    Await();
    return status;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
};

void CheckResponse(const WireCall& call, const std::string& data) {
  if (call.method == nullptr) {
    return;  // For example, a method of the health service.
  }
  const std::unique_ptr<Message> response(
      MessageFactory::generated_factory()->GetPrototype(call.method->output_type())->New());
  Require(response->ParseFromString(data), "a response can be parsed");
  Require(IsFinite(*response), "a response is finite");
}

void CheckStatus(const WireCall& call, const grpc::Status& status) {
  static const std::set<grpc::StatusCode> unexpected = {
      grpc::UNKNOWN, grpc::INTERNAL, grpc::DATA_LOSS, grpc::DEADLINE_EXCEEDED, grpc::UNAVAILABLE};
  Require(!unexpected.contains(status.error_code()), call.path + ": " + status.error_message());
  // gRPC itself answers a request that it cannot parse with UNIMPLEMENTED and without details.
  Require(
      status.ok() || !status.error_message().empty() || status.error_code() == grpc::UNIMPLEMENTED,
      "an error says what was wrong");
  Require(status.error_message().find(Served().data_folder()) == std::string::npos,
          "an error names no path of the server");
}

void Perform(const WireCall& wire) {
  GenericCall call(wire.path);
  for (const std::string& message : wire.messages) {
    if (!call.Write(message)) break;
  }
  call.WritesDone();
  while (const std::optional<std::string> response = call.Read()) {
    CheckResponse(wire, *response);
    if (wire.method != nullptr && wire.method->name() == "WatchCalibration") {
      call.Cancel();  // It would never end.
    }
  }
  CheckStatus(wire, call.Finish());
}

// Otherwise Prometheus would refuse all metrics.
void CheckMetrics() {
  for (const char c : Served().Metrics()) {
    Require(c == '\n' || static_cast<unsigned char>(c) >= ' ',
            "metrics hold no control characters");
  }
}

}  // namespace
}  // namespace calibd::testing

CALIBD_FUZZ_MESSAGE(calibd::fuzz::Calls, input) {
  using namespace calibd::testing;
  std::size_t count = 0;
  for (const calibd::fuzz::Call& call : input.calls()) {
    if (++count > kMaxCalls) break;
    if (call.has_scrape()) {
      CheckMetrics();
    } else if (call.request_case() != calibd::fuzz::Call::REQUEST_NOT_SET) {
      Perform(ToWire(call));
    }
  }
  Served().DeleteAll();
}
