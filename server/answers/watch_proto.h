#ifndef CALIBD_SERVER_ANSWERS_WATCH_PROTO_H_
#define CALIBD_SERVER_ANSWERS_WATCH_PROTO_H_

#include <string>

#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"
#include "server/answers/verdict.h"
#include "server/state/model.h"

namespace calibd::server {

// Fills in the current verdict on the model's calibration. The following functions require the
// snapshot of a monitored model.
void DescribeVerdict(const Model& model, const ModelSnapshot& snapshot, const Verdict& verdict,
                     v1::Verdict& proto);

// The reason for missing evidence in one sentence; empty if there is evidence.
[[nodiscard]] std::string UnavailableReason(const ModelDeclaration& declaration,
                                            const ModelSnapshot& snapshot);

// Describes the watch of the model.
void DescribeWatch(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                   v1::Watch& proto);

// Which groups an answer describes: all, or only those over their limits and those that e-BH
// rejects.
enum class GroupsShown { kAll, kRejected };

// Fills in `groups`, the rejected ones first and then by their errors, and `tested_groups`.
void DescribeGroups(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                    const Verdict& verdict, GroupsShown shown,
                    v1::GetCalibrationResponse& response);

// Whether the rows of the evidence depend on each other, or seem to be repeated, so that its
// e-value may be false. snapshot: with a monitor.
[[nodiscard]] bool HasDoubtfulEvidence(const ModelSnapshot& snapshot);

// Adds the reasons why the evidence may be false or misleading that the newest rows show, and sets
// rows_are_doubtful. response: with `error` and `label_arrivals`.
void WarnOfRows(const ModelDeclaration& declaration, const ModelSnapshot& snapshot,
                v1::GetCalibrationResponse& response);

void DescribeAlarm(const ModelDeclaration& declaration, const Alarm& alarm, v1::Alarm& proto);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_WATCH_PROTO_H_
