#ifndef CALIBD_SERVER_API_WATCH_PROTO_H_
#define CALIBD_SERVER_API_WATCH_PROTO_H_

#include <chrono>
#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"
#include "server/state/model.h"

namespace calibd::server {

// True if no observation was counted for stale_after. The verdict's only change that needs no row
// of the log. Always false for a model that is not monitored.
[[nodiscard]] bool IsStale(const Model& model, const ModelSnapshot& snapshot,
                           std::chrono::system_clock::time_point now);

// Fills in the current verdict on the model's calibration. The following functions require the
// snapshot of a monitored model.
void DescribeVerdict(const Model& model, const ModelSnapshot& snapshot,
                     std::chrono::system_clock::time_point now, v1::Verdict& proto);

// Describes the watch of the model.
void DescribeWatch(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                   v1::Watch& proto);

// Fills in `groups`, in descending order of evidence, and `tested_groups`.
void DescribeGroups(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                    v1::GetCalibrationResponse& response);

// Adds the reasons why the evidence may be false or misleading that the newest rows show.
void WarnOfRows(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                google::protobuf::RepeatedPtrField<std::string>& warnings);

void DescribeAlarm(const Alarm& alarm, v1::Alarm& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_WATCH_PROTO_H_
