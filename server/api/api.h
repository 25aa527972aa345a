#ifndef CALIBD_SERVER_API_API_H_
#define CALIBD_SERVER_API_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/status_macros.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/ingest_service.pb.h"
#include "calibd/v1/model_service.pb.h"
#include "calibd/v1/store_service.pb.h"
#include "server/api/calibration_watches.h"
#include "server/api/call.h"
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
  ThreadPool& writers;
  // Receives reports of damage that a backup or verification finds.
  Health& health;
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

// Permission that a call requires.
enum class Rights { kRead, kWrite, kAdmin };

// One method of the API: its name, the rights that its caller needs, and the function that serves
// it. The rights are not enforced yet.
template <typename Function>
struct Method {
  const char* name;
  Rights rights;
  Function function;
};
template <typename Function>
Method(const char*, Rights, Function) -> Method<Function>;

// The API, independent of the transport. Each function takes the request and answers through
// `reply`, immediately or later; if it returns an error, the call ends with it. The request is
// valid until the function returns. `model` is the model that the request names. No function
// blocks. Thread-safe.
class Api {
 public:
  explicit Api(const ApiParts& parts);

  // Serves a call with the function of its method: checks the rules of the request, finds the model
  // that it names, and ends the call with the error or exception of the function.
  // Errors of the call: those of CheckRules, FindModel and the function.
  template <typename Request, typename Response, typename... Extra>
  void Serve(
      const Method<absl::Status (Api::*)(const Request&, const Reply<Response>&, Extra...)>& method,
      const Request& request, const Reply<Response>& reply) {
    reply->Guard(Stage::kStart, [&]() -> absl::Status {
      CALIBD_RETURN_IF_ERROR(CheckRules(request));
      if constexpr (sizeof...(Extra) == 0) {
        return (this->*method.function)(request, reply);
      } else {
        const absl::StatusOr<std::shared_ptr<Model>> model = Find(request);
        return model.ok() ? (this->*method.function)(request, reply, *model) : model.status();
      }
    });
  }

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
  template <typename Request>
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> Find(const Request& request) const {
    if constexpr (requires { request.model().name(); }) {
      return FindModel(parts_.registry, "model.name", request.model().name());
    } else if constexpr (requires { request.model(); }) {
      return FindModel(parts_.registry, "model", request.model());
    } else {
      return FindModel(parts_.registry, "name", request.name());
    }
  }

  const ApiParts parts_;
  VerdictList verdicts_;
  CalibrationWatches watches_;
  StoreUpkeep upkeep_;
};

// The methods of the API. StreamObservations is not among the functions: the transport serves it.
inline constexpr Method kCreateModel{"CreateModel", Rights::kWrite, &Api::CreateModel};
inline constexpr Method kGetModel{"GetModel", Rights::kRead, &Api::GetModel};
inline constexpr Method kListModels{"ListModels", Rights::kRead, &Api::ListModels};
inline constexpr Method kUpdateModel{"UpdateModel", Rights::kAdmin, &Api::UpdateModel};
inline constexpr Method kDeleteModel{"DeleteModel", Rights::kAdmin, &Api::DeleteModel};
inline constexpr Method kObserve{"Observe", Rights::kWrite, &Api::Observe};
inline constexpr Method kStreamObservations{"StreamObservations", Rights::kWrite, nullptr};
inline constexpr Method kGetCalibration{"GetCalibration", Rights::kRead, &Api::GetCalibration};
inline constexpr Method kRunTest{"RunTest", Rights::kRead, &Api::RunTest};
inline constexpr Method kEvaluate{"Evaluate", Rights::kRead, &Api::Evaluate};
inline constexpr Method kRecalibrate{"Recalibrate", Rights::kRead, &Api::Recalibrate};
inline constexpr Method kEstimateCalibrationError{"EstimateCalibrationError", Rights::kRead,
                                                  &Api::EstimateCalibrationError};
inline constexpr Method kCompareModels{"CompareModels", Rights::kRead, &Api::CompareModels};
inline constexpr Method kAcknowledgeAlarm{"AcknowledgeAlarm", Rights::kWrite,
                                          &Api::AcknowledgeAlarm};
inline constexpr Method kListVerdicts{"ListVerdicts", Rights::kRead, &Api::ListVerdicts};
inline constexpr Method kGetHistory{"GetHistory", Rights::kRead, &Api::GetHistory};
inline constexpr Method kWatchCalibration{"WatchCalibration", Rights::kRead,
                                          &Api::WatchCalibration};
inline constexpr Method kBackup{"Backup", Rights::kAdmin, &Api::Backup};
inline constexpr Method kVerify{"Verify", Rights::kAdmin, &Api::Verify};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_API_H_
