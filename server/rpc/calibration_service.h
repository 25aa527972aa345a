#ifndef CALIBD_SERVER_RPC_CALIBRATION_SERVICE_H_
#define CALIBD_SERVER_RPC_CALIBRATION_SERVICE_H_

#include "calibd/v1/calibration_service.grpc.pb.h"
#include "server/compute/window_jobs.h"
#include "server/ingest/history_reader.h"
#include "server/ingest/ingestor.h"
#include "server/rpc/calibration_watches.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/verdict_list.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// CalibrationService. GetCalibration answers from the published snapshot on the
// rpc thread; RunTest and Evaluate are computed, verdicts listed and histories read elsewhere. No
// call blocks.
class CalibrationServiceImpl final : public v1::CalibrationService::CallbackService {
 public:
  CalibrationServiceImpl(CallMemory& memory, ModelRegistry& registry, WindowJobs& jobs,
                         Ingestor& ingestor, HistoryReader& history, std::size_t max_watchers);

  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::GetCalibrationResponse* response) override;
  grpc::ServerWriteReactor<v1::RunTestResponse>* RunTest(
      grpc::CallbackServerContext* context, const v1::RunTestRequest* request) override;
  grpc::ServerWriteReactor<v1::EvaluateResponse>* Evaluate(
      grpc::CallbackServerContext* context, const v1::EvaluateRequest* request) override;
  grpc::ServerUnaryReactor* AcknowledgeAlarm(grpc::CallbackServerContext* context,
                                             const v1::AcknowledgeAlarmRequest* request,
                                             v1::AcknowledgeAlarmResponse* response) override;
  grpc::ServerUnaryReactor* ListVerdicts(grpc::CallbackServerContext* context,
                                         const v1::ListVerdictsRequest* request,
                                         v1::ListVerdictsResponse* response) override;
  grpc::ServerUnaryReactor* GetHistory(grpc::CallbackServerContext* context,
                                       const v1::GetHistoryRequest* request,
                                       v1::GetHistoryResponse* response) override;
  grpc::ServerWriteReactor<v1::WatchCalibrationResponse>* WatchCalibration(
      grpc::CallbackServerContext* context, const v1::WatchCalibrationRequest* request) override;

  [[nodiscard]] CalibrationWatches& watches() noexcept { return watches_; }

 private:
  // The model whose alarm is acknowledged. Errors: InvalidArgument naming the field; NotFound.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<Model>> CheckAcknowledgement(
      const v1::AcknowledgeAlarmRequest& request) const;

  CallMemory& memory_;
  ModelRegistry& registry_;
  WindowJobs& jobs_;
  Ingestor& ingestor_;
  HistoryReader& history_;
  CalibrationWatches watches_;
  VerdictList verdicts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_CALIBRATION_SERVICE_H_
