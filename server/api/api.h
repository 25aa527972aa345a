#ifndef CALIBD_SERVER_API_API_H_
#define CALIBD_SERVER_API_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/status_macros.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "calibd/v1/store_service.pb.h"
#include "server/access/access_control.h"
#include "server/api/audited_sink.h"
#include "server/api/calibration_watches.h"
#include "server/api/call.h"
#include "server/api/forwarder.h"
#include "server/api/health.h"
#include "server/api/store_upkeep.h"
#include "server/api/verdict_list.h"
#include "server/base/rules.h"
#include "server/compute/window_jobs.h"
#include "server/executor/thread_pool.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/history_reader.h"
#include "server/ingest/ingestor.h"
#include "server/ingest/open_streams.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// Dependencies of the API functions.
struct ApiParts {
  ModelRegistry& registry;
  CommitQueue& commits;
  WindowJobs& jobs;
  Ingestor& ingestor;
  OpenStreams& streams;
  HistoryReader& history;
  AccessControl& access;
  AuditLog& audit;
  ThreadPool& writers;
  // Receives reports of damage that a backup or verification finds.
  Health& health;
  // Null if no other process can answer calls.
  Forwarder* forwarder = nullptr;
  // Maximum number of bytes that the declaration of a new model may reserve.
  std::size_t model_memory_bytes = 0;
  std::size_t model_disk_bytes = 0;
  std::size_t max_watchers = 0;
};

// field: the request field that holds the name, for the error. Errors: InvalidArgument naming the
// field; NotFound; Unavailable before the models are recovered.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> FindModel(const ModelRegistry& registry,
                                                               const char* field,
                                                               const std::string& name);

// What the role of a caller must cover.
enum class Scope {
  kModel,     // the model that the request names
  kReadable,  // nothing: the answer has only the models that the caller may read
  kStore,     // all models
};

// The right that a call needs.
struct Right {
  Role role;
  Scope scope = Scope::kModel;
  // The audit log records the call.
  bool audited = false;
};

inline constexpr bool kAudited = true;

// One method of the API: its name, the right that its caller needs, and the function that serves
// it.
template <typename Function>
struct Method {
  const char* name;
  Right right;
  Function function;
};
template <typename Function>
Method(const char*, Right, Function) -> Method<Function>;

// The API, independent of the transport. Each function takes the request and answers through
// `reply`, immediately or later; if it returns an error, the call ends with it. The request is
// valid until the function returns. `model` is the model that the request names. No function
// blocks. Thread-safe.
class Api {
 public:
  explicit Api(const ApiParts& parts);

  // Serves a call with the function of its method, or has the owner of the store serve it: checks
  // the right of its caller and the rules of the request, finds the model that it names, and ends
  // the call with the error or exception of the function. Errors of the call: those of CheckAccess,
  // CheckRules, FindModel and the function.
  template <typename Request, typename Response, typename... Extra>
  void Serve(
      const Method<absl::Status (Api::*)(const Request&, const Reply<Response>&, Extra...)>& method,
      const Request& request, const Reply<Response>& transport) {
    transport->Guard(Stage::kStart, [&]() -> absl::Status {
      if (const auto owner = OtherOwner(transport->context())) {
        return Forward(method.right, *owner, request, transport);
      }
      CALIBD_RETURN_IF_ERROR(CheckRight(transport->context(), method.right, request));
      const Reply<Response> reply = Audited(method.right, request, transport);
      absl::Status status = Run(method, request, reply);
      // Through the reply, which may record the error.
      if (!status.ok()) reply->End(std::move(status));
      return absl::OkStatus();
    });
  }

  // Checks the right of a caller on one model. field: of the request, that holds the name, for the
  // error. Errors: those of the identification of the caller; InvalidArgument for a name that no
  // model can have; those of Identity::Check.
  [[nodiscard]] absl::Status CheckAccess(const CallContext& call, Role role, const char* field,
                                         const std::string& name) const;

  using NamedModel = const std::shared_ptr<Model>&;
  absl::Status CreateModel(const v1::CreateModelRequest& request,
                           const Reply<v1::CreateModelResponse>& reply);
  absl::Status GetModel(const v1::GetModelRequest& request,
                        const Reply<v1::GetModelResponse>& reply, NamedModel model);
  absl::Status ListModels(const v1::ListModelsRequest& request,
                          const Reply<v1::ListModelsResponse>& reply);
  absl::Status UpdateModel(const v1::UpdateModelRequest& request,
                           const Reply<v1::UpdateModelResponse>& reply, NamedModel model);
  absl::Status DeleteModel(const v1::DeleteModelRequest& request,
                           const Reply<v1::DeleteModelResponse>& reply, NamedModel model);
  absl::Status Observe(const v1::ObserveRequest& request, const Reply<v1::ObserveResponse>& reply,
                       NamedModel model);
  absl::Status GetCalibration(const v1::GetCalibrationRequest& request,
                              const Reply<v1::GetCalibrationResponse>& reply, NamedModel model);
  absl::Status RunTest(const v1::RunTestRequest& request, const Reply<v1::RunTestResponse>& reply,
                       NamedModel model);
  absl::Status Evaluate(const v1::EvaluateRequest& request,
                        const Reply<v1::EvaluateResponse>& reply, NamedModel model);
  absl::Status Recalibrate(const v1::RecalibrateRequest& request,
                           const Reply<v1::RecalibrateResponse>& reply, NamedModel model);
  absl::Status EstimateCalibrationError(const v1::EstimateCalibrationErrorRequest& request,
                                        const Reply<v1::EstimateCalibrationErrorResponse>& reply,
                                        NamedModel model);
  absl::Status CompareModels(const v1::CompareModelsRequest& request,
                             const Reply<v1::CompareModelsResponse>& reply, NamedModel model);
  absl::Status AcknowledgeAlarm(const v1::AcknowledgeAlarmRequest& request,
                                const Reply<v1::AcknowledgeAlarmResponse>& reply, NamedModel model);
  absl::Status ListVerdicts(const v1::ListVerdictsRequest& request,
                            const Reply<v1::ListVerdictsResponse>& reply);
  absl::Status GetHistory(const v1::GetHistoryRequest& request,
                          const Reply<v1::GetHistoryResponse>& reply, NamedModel model);
  absl::Status WatchCalibration(const v1::WatchCalibrationRequest& request,
                                const Reply<v1::WatchCalibrationResponse>& reply, NamedModel model);
  absl::Status Backup(const v1::BackupRequest& request, const Reply<v1::BackupResponse>& reply);
  absl::Status Verify(const v1::VerifyRequest& request, const Reply<v1::VerifyResponse>& reply);

  [[nodiscard]] const ApiParts& parts() const noexcept { return parts_; }

  // Ends long-running calls and accepts no new ones.
  void Drain();
  // Stops the threads. Call it when there are no calls.
  void Stop();

 private:
  // The field of a request that names its model, and the name in it.
  struct Named {
    const char* field;
    const std::string& name;
  };
  template <typename Request>
  static constexpr bool kNamesModel = requires(const Request& request) {
    request.model();
  }
  || requires(const Request& request) { request.name(); };
  template <typename Request>
  static Named NameIn(const Request& request) {
    if constexpr (requires { request.model().name(); }) {
      return {"model.name", request.model().name()};
    } else if constexpr (requires { request.model(); }) {
      return {"model", request.model()};
    } else {
      return {"name", request.name()};
    }
  }
  template <typename Request>
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> Find(const Request& request) const {
    const Named named = NameIn(request);
    return FindModel(parts_.registry, named.field, named.name);
  }

  template <typename Request, typename Response, typename... Extra>
  [[nodiscard]] absl::Status Run(
      const Method<absl::Status (Api::*)(const Request&, const Reply<Response>&, Extra...)>& method,
      const Request& request, const Reply<Response>& reply) {
    CALIBD_RETURN_IF_ERROR(CheckRules(request));
    if constexpr (sizeof...(Extra) == 0) {
      return (this->*method.function)(request, reply);
    } else {
      const absl::StatusOr<std::shared_ptr<Model>> model = Find(request);
      return model.ok() ? (this->*method.function)(request, reply, *model) : model.status();
    }
  }

  // Returns a reply that records the end of the call, if it is to be recorded.
  template <typename Request, typename Response>
  [[nodiscard]] Reply<Response> Audited(const Right& right, const Request& request,
                                        const Reply<Response>& reply) const {
    if (!right.audited || !parts_.audit.enabled()) return reply;
    std::string resource(kAllModels);
    if constexpr (kNamesModel<Request>) resource = NameIn(request).name;
    return std::make_shared<AuditedSink<Response>>(reply, parts_.audit, std::move(resource));
  }

  // The process that answers a call in place of this one.
  [[nodiscard]] std::optional<Store::Owner> OtherOwner(const CallContext& call) const {
    if (parts_.forwarder == nullptr || call.forwarded) return std::nullopt;
    return parts_.forwarder->other_owner();
  }
  // The owner checks the right of the caller, for which this process vouches.
  template <typename Request, typename Response>
  [[nodiscard]] absl::Status Forward(const Right& right, const Store::Owner& owner,
                                     const Request& request, const Reply<Response>& reply) const {
    const CallContext& call = reply->context();
    CALIBD_RETURN_IF_ERROR(call.identity.status());
    // A watch has no end of its own.
    constexpr bool kEndless = std::is_same_v<Request, v1::WatchCalibrationRequest>;
    std::shared_ptr<void> held;
    if constexpr (kEndless) {
      CALIBD_RETURN_IF_ERROR(CheckRight(call, right, request));
      CALIBD_ASSIGN_OR_RETURN(held, Hold(call.method, right, NameIn(request).name, reply));
    }
    return parts_.forwarder->Forward(owner, request, kEndless, std::move(held),
                                     std::make_shared<AnyReplyOf<Response>>(reply));
  }

  // A request that names no model has the scope kReadable or needs the role for all models.
  template <typename Request>
  [[nodiscard]] absl::Status CheckRight(const CallContext& call, const Right& right,
                                        const Request& request) const {
    if constexpr (kNamesModel<Request>) {
      const Named named = NameIn(request);
      if constexpr (std::is_same_v<Request, v1::CreateModelRequest>) {
        if (MayDeclare(call, named.name)) return absl::OkStatus();
      }
      return CheckAccess(call, right.role, named.field, named.name);
    } else {
      return CheckAll(call, right);
    }
  }
  [[nodiscard]] absl::Status CheckAll(const CallContext& call, const Right& right) const;
  // The right of a call that sends for long. The call ends when the right is lost. Errors: those of
  // AccessControl::Hold.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<AccessControl::Held>> Hold(
      const char* method, const Right& right, std::string resource,
      const std::shared_ptr<Call>& call) const;
  // Whether the caller may declare this model again: it may write to it, and the model exists. SDKs
  // do so before they write, and it changes nothing.
  [[nodiscard]] bool MayDeclare(const CallContext& call, const std::string& name) const;

  const ApiParts parts_;
  // Held while the models of a caller with a quota of models are counted, and a new one is
  // inserted.
  std::mutex create_mutex_;
  VerdictList verdicts_;
  CalibrationWatches watches_;
  StoreUpkeep upkeep_;
};

// The methods of the API and their rights. A writer may also declare a model that exists; see
// MayDeclare. Paths of HTTP outside of the API have their rights in kRoutes of http_answer.cc.
// StreamObservations is not among the functions: the transport serves it. AcknowledgeAlarm,
// CreateModel and UpdateModel change what all users of a model see.
inline constexpr Method kCreateModel{
    "CreateModel", {Role::kOperator, Scope::kModel, kAudited}, &Api::CreateModel};
inline constexpr Method kGetModel{"GetModel", {Role::kReader}, &Api::GetModel};
inline constexpr Method kListModels{
    "ListModels", {Role::kReader, Scope::kReadable}, &Api::ListModels};
inline constexpr Method kUpdateModel{
    "UpdateModel", {Role::kOperator, Scope::kModel, kAudited}, &Api::UpdateModel};
inline constexpr Method kDeleteModel{
    "DeleteModel", {Role::kAdmin, Scope::kModel, kAudited}, &Api::DeleteModel};
inline constexpr Method kObserve{"Observe", {Role::kWriter}, &Api::Observe};
inline constexpr Method kStreamObservations{"StreamObservations", {Role::kWriter}, nullptr};
inline constexpr Method kGetCalibration{"GetCalibration", {Role::kReader}, &Api::GetCalibration};
inline constexpr Method kRunTest{"RunTest", {Role::kReader}, &Api::RunTest};
inline constexpr Method kEvaluate{"Evaluate", {Role::kReader}, &Api::Evaluate};
inline constexpr Method kRecalibrate{"Recalibrate", {Role::kReader}, &Api::Recalibrate};
inline constexpr Method kEstimateCalibrationError{
    "EstimateCalibrationError", {Role::kReader}, &Api::EstimateCalibrationError};
inline constexpr Method kCompareModels{"CompareModels", {Role::kReader}, &Api::CompareModels};
inline constexpr Method kAcknowledgeAlarm{
    "AcknowledgeAlarm", {Role::kOperator, Scope::kModel, kAudited}, &Api::AcknowledgeAlarm};
inline constexpr Method kListVerdicts{
    "ListVerdicts", {Role::kReader, Scope::kReadable}, &Api::ListVerdicts};
inline constexpr Method kGetHistory{"GetHistory", {Role::kReader}, &Api::GetHistory};
inline constexpr Method kWatchCalibration{
    "WatchCalibration", {Role::kReader}, &Api::WatchCalibration};
inline constexpr Method kBackup{"Backup", {Role::kAdmin, Scope::kStore, kAudited}, &Api::Backup};
inline constexpr Method kVerify{"Verify", {Role::kAdmin, Scope::kStore}, &Api::Verify};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_API_H_
