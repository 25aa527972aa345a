#ifndef CALIBD_SERVER_ANSWERS_CALIBRATION_PROTO_H_
#define CALIBD_SERVER_ANSWERS_CALIBRATION_PROTO_H_

#include <chrono>
#include <cstdint>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/evaluation.pb.h"
#include "server/state/model.h"

namespace calibd::server {

// Describes the observations and the time from which a number of a fixed-n method was computed.
// Observations are numbered from 1.
void DescribeProvenance(const ModelDeclaration& declaration, std::int64_t first_observation,
                        std::int64_t last_observation, std::chrono::system_clock::time_point time,
                        v1::Provenance& provenance);

// Writes the response of GetCalibration for this state of the model.
void DescribeCalibration(Model& model, const ModelSnapshot& snapshot,
                         std::chrono::system_clock::time_point now,
                         v1::GetCalibrationResponse& response);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_CALIBRATION_PROTO_H_
