#include <chrono>
#include <memory>

#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"
#include "calibd/core/status_macros.h"
#include "server/answers/calibration_proto.h"
#include "server/answers/watch_proto.h"
#include "server/api/api.h"
#include "server/api/history_calls.h"
#include "server/api/verdict_list.h"
#include "server/base/errors.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

// An alarm and the state that it belongs to.
struct FoundAlarm {
  std::shared_ptr<const ModelSnapshot> snapshot;
  const Alarm* alarm = nullptr;
};

// Errors: NotFound.
absl::StatusOr<FoundAlarm> FindAlarm(const Model& model, std::int64_t alarm_id) {
  FoundAlarm found{.snapshot = model.snapshot()};
  if (found.snapshot->monitor.has_value()) {
    found.alarm = found.snapshot->monitor->FindAlarm(alarm_id);
  }
  if (found.alarm != nullptr) return found;
  return MakeError(absl::StatusCode::kNotFound, "ALARM_NOT_FOUND",
                   absl::StrCat(model.declaration()->name.ToString(), " has no alarm ", alarm_id));
}

// The first observation that counts for what the alarm is about.
std::int64_t FirstCounted(const MonitorSnapshot& monitor, const Alarm& alarm) {
  if (alarm.kind == Alarm::Kind::kChanged) {
    return monitor.reference.has_value() ? monitor.reference->first_observation : 1;
  }
  if (alarm.kind != Alarm::Kind::kOverLimit) {
    return monitor.watch.has_value() ? monitor.watch->first_observation : 1;
  }
  if (alarm.label.has_value()) return monitor.labels[*alarm.label].first_observation;
  for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
    if (alarm.group == group->id) return group->error.first_observation;
  }
  return monitor.error.first_observation;
}

// Describes an alarm after its acknowledgement. changed: false if it was acknowledged before.
// Errors: NotFound.
absl::Status DescribeAcknowledged(Model& model, std::int64_t alarm_id, bool changed,
                                  v1::AcknowledgeAlarmResponse& response) {
  CALIBD_ASSIGN_OR_RETURN(const FoundAlarm found, FindAlarm(model, alarm_id));
  DescribeAlarm(*found.snapshot->declaration, *found.alarm, *response.mutable_alarm());
  const std::int64_t first =
      changed ? FirstCounted(*found.snapshot->monitor, *found.alarm) : std::int64_t{0};
  response.set_effect(convert::AcknowledgedText(response.alarm(), first));
  v1::ListVerdictsResponse::ModelVerdict headlines;
  DescribeListed(model, std::chrono::system_clock::now(), headlines);
  response.mutable_reading()->Swap(headlines.mutable_reading());
  return absl::OkStatus();
}

}  // namespace

absl::Status Api::GetCalibration(const v1::GetCalibrationRequest& request,
                                 const Reply<v1::GetCalibrationResponse>& reply, NamedModel model) {
  CALIBD_RETURN_IF_ERROR(
      CheckLabelNames("label_diagrams", request.label_diagrams(), *model->declaration()));
  // To foresee a decision takes some milliseconds, see ErrorSnapshot::Foresee.
  parts_.writers.Post([reply, model, request] {
    reply->Answer([&](v1::GetCalibrationResponse& response) {
      DescribeCalibration(*model, *model->snapshot(), std::chrono::system_clock::now(), response,
                          request);
      return absl::OkStatus();
    });
  });
  return absl::OkStatus();
}

absl::Status Api::AcknowledgeAlarm(const v1::AcknowledgeAlarmRequest& request,
                                   const Reply<v1::AcknowledgeAlarmResponse>& reply,
                                   NamedModel model) {
  const std::int64_t alarm_id = request.alarm_id();
  CALIBD_ASSIGN_OR_RETURN(const FoundAlarm found, FindAlarm(*model, alarm_id));
  const bool changes = !found.alarm->acknowledge_time.has_value();
  const auto answer = [reply, model, alarm_id, changes](const absl::Status& acknowledged) {
    reply->Answer([&](v1::AcknowledgeAlarmResponse& response) {
      return acknowledged.ok() ? DescribeAcknowledged(*model, alarm_id, changes, response)
                               : acknowledged;
    });
  };
  if (!changes) {
    // A visible acknowledgement is on disk.
    reply->ChangesNothing();
    answer(absl::OkStatus());
  } else {
    parts_.ingestor.Acknowledge(model, alarm_id, request.note(), answer);
  }
  return absl::OkStatus();
}

absl::Status Api::GetHistory(const v1::GetHistoryRequest& request,
                             const Reply<v1::GetHistoryResponse>& reply, NamedModel model) {
  CALIBD_ASSIGN_OR_RETURN(HistoryQuery query, CheckHistoryRequest(request, *model->declaration()));
  const HistoryReader::Range range = query.range;
  const auto page = std::make_shared<HistoryPage>(std::move(query));
  return parts_.history.Read(
      model, range,
      [model, page](const History::Entry& entry) { page->Add(entry, *model->snapshot()); },
      [model, page, reply](const absl::Status& status) {
        reply->Answer([&](v1::GetHistoryResponse& response) {
          if (status.ok()) response = page->Finish(*model->snapshot());
          return status;
        });
      });
}

}  // namespace calibd::server
