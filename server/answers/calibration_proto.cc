#include "server/answers/calibration_proto.h"

#include <chrono>
#include <cstdint>

#include "calibd/convert/multilabel.h"
#include "calibd/convert/reading.h"
#include "server/answers/error_proto.h"
#include "server/answers/label_arrivals_proto.h"
#include "server/answers/reference_proto.h"
#include "server/answers/verdict.h"
#include "server/answers/watch_proto.h"
#include "server/base/proto_time.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

void DescribeMonitor(const Model& model, const ModelSnapshot& snapshot,
                     std::chrono::system_clock::time_point now,
                     v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  const Verdict verdict = MakeVerdict(model, snapshot, now);
  DescribeVerdict(model, snapshot, verdict, *response.mutable_verdict());
  DescribeError(declaration, snapshot.monitor->error, *response.mutable_error());
  DescribeRowsUntilDecided(snapshot.monitor->error, *response.mutable_error());
  DescribeChange(snapshot.monitor->error, *response.mutable_error());
  DescribeWatch(declaration, snapshot, *response.mutable_watch());
  if (snapshot.monitor->reference.has_value()) {
    DescribeReference(declaration, *snapshot.monitor, *response.mutable_reference_change());
  }
  const std::vector<Alarm>& alarms = *snapshot.monitor->alarms;
  // The newest first.
  for (std::size_t i = alarms.size(); i-- > 0;) {
    DescribeAlarm(declaration, alarms[i], *response.add_alarms());
  }
  DescribeGroups(declaration, snapshot, verdict, GroupsShown::kAll, response);
  WarnOfRows(declaration, snapshot, response);
}

void DescribeCounts(Model& model, const ModelSnapshot& snapshot,
                    v1::GetCalibrationResponse& response) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  response.set_model(declaration.name.ToString());
  response.set_observations(snapshot.observations);
  response.set_window_observations(static_cast<std::int64_t>(snapshot.window.size()));
  response.set_rejected_rows(snapshot.rejected_rows);
  response.set_dropped_rows(snapshot.dropped_rows);
  response.set_dropped_labels(snapshot.dropped_labels);
  if (snapshot.last_observation_time.has_value()) {
    *response.mutable_last_observation_time() = ToTimestamp(*snapshot.last_observation_time);
  }
  if (snapshot.label_arrivals.has_value()) {
    DescribeLabelArrivals(model, *snapshot.label_arrivals, *response.mutable_label_arrivals());
  }
  if (const auto advice = model.recalibration()) *response.mutable_recalibration() = *advice;
}

}  // namespace

void DescribeCalibration(Model& model, const ModelSnapshot& snapshot,
                         std::chrono::system_clock::time_point now,
                         v1::GetCalibrationResponse& response,
                         const v1::GetCalibrationRequest& request) {
  DescribeCounts(model, snapshot, response);
  if (snapshot.monitor.has_value()) DescribeMonitor(model, snapshot, now, response);
  const ModelDeclaration& declaration = *snapshot.declaration;
  KindOf(declaration)
      .Describe({declaration, snapshot, snapshot.observations, now, request}, response);
  *response.mutable_reading() = convert::ReadingOf(response, ToTimestamp(now));
  if (response.has_labels()) {
    convert::AddTable(*response.mutable_labels(), request.whole_table(), response.error().change());
  }
}

}  // namespace calibd::server
