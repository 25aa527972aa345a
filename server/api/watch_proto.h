#ifndef CALIBD_SERVER_API_WATCH_PROTO_H_
#define CALIBD_SERVER_API_WATCH_PROTO_H_

#include <chrono>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"
#include "server/state/model.h"

namespace calibd::server {

// True if no observation was counted for stale_after: the only state that time alone brings about.
// Always false for a model that is not watched.
[[nodiscard]] bool IsStale(const Model& model, const ModelSnapshot& snapshot,
                           std::chrono::system_clock::time_point now);

// Fills in the current verdict on the model's calibration. snapshot: of a model that is watched.
void DescribeVerdict(const Model& model, const ModelSnapshot& snapshot,
                     std::chrono::system_clock::time_point now, v1::Verdict& proto);

// snapshot: of a model that is watched.
void DescribeWatch(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                   v1::Watch& proto);

// `groups`, those with the most evidence first, and `tested_groups`. snapshot: of a model that is
// watched.
void DescribeGroups(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                    v1::GetCalibrationResponse& response);

// What may make the evidence false or misleading, as far as the newest rows show it. snapshot: of
// a model that is watched.
void WarnOfRows(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                google::protobuf::RepeatedPtrField<std::string>& warnings);

void DescribeAlarm(const Alarm& alarm, v1::Alarm& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_WATCH_PROTO_H_
