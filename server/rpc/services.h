#ifndef CALIBD_SERVER_RPC_SERVICES_H_
#define CALIBD_SERVER_RPC_SERVICES_H_

#include <grpcpp/server_context.h>

#include "calibd/v1/calibration_service.grpc.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "calibd/v1/model_service.grpc.pb.h"
#include "calibd/v1/store_service.grpc.pb.h"
#include "server/rpc/observation_stream.h"
#include "server/rpc/serve.h"

namespace calibd::server {

// gRPC's services. Each of their methods calls the API's method of the same name.

class ModelService final : public v1::ModelService::CallbackService {
 public:
  explicit ModelService(const CallServer& server) : server_(server) {}

  grpc::ServerUnaryReactor* CreateModel(grpc::CallbackServerContext* context,
                                        const v1::CreateModelRequest* request,
                                        v1::CreateModelResponse* response) override {
    return server_.Serve(kCreateModel, *context, *request, response);
  }
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override {
    return server_.Serve(kGetModel, *context, *request, response);
  }
  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override {
    return server_.Serve(kListModels, *context, *request, response);
  }
  grpc::ServerUnaryReactor* DeleteModel(grpc::CallbackServerContext* context,
                                        const v1::DeleteModelRequest* request,
                                        v1::DeleteModelResponse* response) override {
    return server_.Serve(kDeleteModel, *context, *request, response);
  }

 private:
  const CallServer server_;
};

class IngestService final : public v1::IngestService::CallbackService {
 public:
  IngestService(const CallServer& server, const StreamLimits& limits)
      : server_(server), limits_(limits) {}

  grpc::ServerUnaryReactor* Observe(grpc::CallbackServerContext* context,
                                    const v1::ObserveRequest* request,
                                    v1::ObserveResponse* response) override {
    return server_.Serve(kObserve, *context, *request, response);
  }
  grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>*
  StreamObservations(grpc::CallbackServerContext* context) override {
    return ObservationStream::Begin(server_, limits_, *context);
  }

 private:
  const CallServer server_;
  const StreamLimits limits_;
};

class CalibrationService final : public v1::CalibrationService::CallbackService {
 public:
  explicit CalibrationService(const CallServer& server) : server_(server) {}

  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::GetCalibrationResponse* response) override {
    return server_.Serve(kGetCalibration, *context, *request, response);
  }
  grpc::ServerUnaryReactor* AcknowledgeAlarm(grpc::CallbackServerContext* context,
                                             const v1::AcknowledgeAlarmRequest* request,
                                             v1::AcknowledgeAlarmResponse* response) override {
    return server_.Serve(kAcknowledgeAlarm, *context, *request, response);
  }
  grpc::ServerUnaryReactor* ListVerdicts(grpc::CallbackServerContext* context,
                                         const v1::ListVerdictsRequest* request,
                                         v1::ListVerdictsResponse* response) override {
    return server_.Serve(kListVerdicts, *context, *request, response);
  }
  grpc::ServerUnaryReactor* GetHistory(grpc::CallbackServerContext* context,
                                       const v1::GetHistoryRequest* request,
                                       v1::GetHistoryResponse* response) override {
    return server_.Serve(kGetHistory, *context, *request, response);
  }
  grpc::ServerWriteReactor<v1::RunTestResponse>* RunTest(
      grpc::CallbackServerContext* context, const v1::RunTestRequest* request) override {
    return server_.Serve(kRunTest, *context, *request);
  }
  grpc::ServerWriteReactor<v1::EvaluateResponse>* Evaluate(
      grpc::CallbackServerContext* context, const v1::EvaluateRequest* request) override {
    return server_.Serve(kEvaluate, *context, *request);
  }
  grpc::ServerWriteReactor<v1::WatchCalibrationResponse>* WatchCalibration(
      grpc::CallbackServerContext* context, const v1::WatchCalibrationRequest* request) override {
    return server_.Serve(kWatchCalibration, *context, *request);
  }

 private:
  const CallServer server_;
};

class StoreService final : public v1::StoreService::CallbackService {
 public:
  explicit StoreService(const CallServer& server) : server_(server) {}

  grpc::ServerWriteReactor<v1::BackupResponse>* Backup(grpc::CallbackServerContext* context,
                                                       const v1::BackupRequest* request) override {
    return server_.Serve(kBackup, *context, *request);
  }
  grpc::ServerWriteReactor<v1::VerifyResponse>* Verify(grpc::CallbackServerContext* context,
                                                       const v1::VerifyRequest* request) override {
    return server_.Serve(kVerify, *context, *request);
  }

 private:
  const CallServer server_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_SERVICES_H_
