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

#define CALIBD_UNARY_CALL(Name)                                                                  \
  grpc::ServerUnaryReactor* Name(grpc::CallbackServerContext* context,                           \
                                 const v1::Name##Request* request, v1::Name##Response* response) \
      override {                                                                                 \
    return server_.Serve<UnaryCall, v1::Name##Response>(k##Name, *context, *request, response);  \
  }
#define CALIBD_STREAM_CALL(Name)                                                                  \
  grpc::ServerWriteReactor<v1::Name##Response>* Name(grpc::CallbackServerContext* context,        \
                                                     const v1::Name##Request* request) override { \
    return server_.Serve<ResponseStream, v1::Name##Response>(k##Name, *context, *request,         \
                                                             nullptr);                            \
  }

class ModelService final : public v1::ModelService::CallbackService {
 public:
  explicit ModelService(const CallServer& server) : server_(server) {}

  CALIBD_UNARY_CALL(CreateModel)
  CALIBD_UNARY_CALL(GetModel)
  CALIBD_UNARY_CALL(ListModels)
  CALIBD_UNARY_CALL(UpdateModel)
  CALIBD_UNARY_CALL(DeleteModel)

 private:
  const CallServer server_;
};

class IngestService final : public v1::IngestService::CallbackService {
 public:
  IngestService(const CallServer& server, const StreamLimits& limits)
      : server_(server), limits_(limits) {}

  CALIBD_UNARY_CALL(Observe)
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

  CALIBD_UNARY_CALL(GetCalibration)
  CALIBD_UNARY_CALL(AcknowledgeAlarm)
  CALIBD_UNARY_CALL(ListVerdicts)
  CALIBD_UNARY_CALL(GetHistory)
  CALIBD_STREAM_CALL(RunTest)
  CALIBD_STREAM_CALL(Evaluate)
  CALIBD_STREAM_CALL(Recalibrate)
  CALIBD_STREAM_CALL(EstimateCalibrationError)
  CALIBD_STREAM_CALL(CompareModels)
  CALIBD_STREAM_CALL(WatchCalibration)

 private:
  const CallServer server_;
};

class StoreService final : public v1::StoreService::CallbackService {
 public:
  explicit StoreService(const CallServer& server) : server_(server) {}

  CALIBD_STREAM_CALL(Backup)
  CALIBD_STREAM_CALL(Verify)

 private:
  const CallServer server_;
};

#undef CALIBD_UNARY_CALL
#undef CALIBD_STREAM_CALL

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_SERVICES_H_
