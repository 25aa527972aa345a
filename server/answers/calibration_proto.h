#ifndef CALIBD_SERVER_ANSWERS_CALIBRATION_PROTO_H_
#define CALIBD_SERVER_ANSWERS_CALIBRATION_PROTO_H_

#include <chrono>

#include "calibd/v1/calibration_service.pb.h"
#include "server/state/model.h"

namespace calibd::server {

// Writes the response of GetCalibration for this state of the model. request: valid, and only its
// fields about the answer are read.
void DescribeCalibration(
    Model& model, const ModelSnapshot& snapshot, std::chrono::system_clock::time_point now,
    v1::GetCalibrationResponse& response,
    const v1::GetCalibrationRequest& request = v1::GetCalibrationRequest::default_instance());

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_CALIBRATION_PROTO_H_
