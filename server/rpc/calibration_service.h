#ifndef CALIBD_SERVER_RPC_CALIBRATION_SERVICE_H_
#define CALIBD_SERVER_RPC_CALIBRATION_SERVICE_H_

#include "calibd/v1/calibration_service.grpc.pb.h"
#include "server/compute/quadratic_tests.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// CalibrationService. GetCalibration answers from the published snapshot on the
// rpc thread; RunTest is computed elsewhere. No call blocks.
class CalibrationServiceImpl final : public v1::CalibrationService::CallbackService {
 public:
  CalibrationServiceImpl(ModelRegistry& registry, QuadraticTests& tests)
      : registry_(registry), tests_(tests) {}

  grpc::ServerUnaryReactor* GetCalibration(grpc::CallbackServerContext* context,
                                           const v1::GetCalibrationRequest* request,
                                           v1::GetCalibrationResponse* response) override;
  grpc::ServerWriteReactor<v1::RunTestResponse>* RunTest(
      grpc::CallbackServerContext* context, const v1::RunTestRequest* request) override;

 private:
  ModelRegistry& registry_;
  QuadraticTests& tests_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_CALIBRATION_SERVICE_H_
