#include "limit_alarm.h"

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

bool IsActive(const v1::Alarm& alarm) {
  return alarm.kind() == v1::Alarm::OVER_LIMIT && !alarm.has_acknowledge_time();
}

bool IsOfPart(const v1::Alarm& alarm) { return alarm.has_group_value() || alarm.has_label(); }

// "group eu", "label rain", or empty for the model itself.
std::string PartName(const v1::Alarm& alarm) {
  if (alarm.has_label()) return absl::StrCat("label ", CutName(alarm.label()));
  if (!alarm.has_group_value()) return "";
  return absl::StrCat("group ", CutName(GroupName(alarm.group_value(), alarm.is_overflow_group())));
}

std::string FoundText(const v1::GetCalibrationResponse& answer, const v1::Alarm& alarm) {
  const v1::Alarm::LimitCrossing& crossing = alarm.crossing();
  const std::string part = PartName(alarm);
  const std::string event = !answer.error().since_start().has_class_1() ? ""
                            : crossing.is_class_1() ? Class1Event(crossing.class_1_name())
                                                    : "the top label";
  if (crossing.is_recent() || !crossing.has_error()) {
    const std::string rows =
        absl::StrCat("the newest rows", part.empty() ? "" : absl::StrCat(" of ", part));
    return absl::StrCat("at row ", alarm.observation(), ", ",
                        event.empty() ? rows + " were" : absl::StrCat(event, " of ", rows, " was"),
                        " off by more than ", PointsText(crossing.limit()));
  }
  const std::string who = part.empty()    ? (event.empty() ? "it" : event)
                          : event.empty() ? part
                                          : absl::StrCat(part, ", ", event);
  return absl::StrCat(who, " was ", OffByText(crossing.error(), crossing.limit()), " at row ",
                      alarm.observation());
}

}  // namespace

const v1::Alarm* FirstLimitAlarm(const v1::GetCalibrationResponse& answer, AlarmsOf whose) {
  const v1::Alarm* first = nullptr;
  for (const v1::Alarm& alarm : answer.alarms()) {
    if (!IsActive(alarm)) continue;
    if (IsOfPart(alarm) && whose == AlarmsOf::kModel) continue;
    if (first == nullptr || alarm.observation() < first->observation()) first = &alarm;
  }
  return first;
}

std::map<std::string, const v1::Alarm*> LimitAlarmsOfParts(
    const v1::GetCalibrationResponse& answer) {
  std::map<std::string, const v1::Alarm*> alarms;
  for (const v1::Alarm& alarm : answer.alarms()) {
    if (!IsActive(alarm) || !IsOfPart(alarm)) continue;
    const v1::Alarm*& first =
        alarms[alarm.has_label() ? alarm.label()
                                 : GroupName(alarm.group_value(), alarm.is_overflow_group())];
    if (first == nullptr || alarm.observation() < first->observation()) first = &alarm;
  }
  return alarms;
}

std::string FormerText(const v1::GetCalibrationResponse& answer, double lower) {
  if (answer.verdict().limit_status() == v1::CalibrationError::OVER_LIMIT) {
    // The alarms of groups and labels have places of their own.
    const v1::Alarm* const own = FirstLimitAlarm(answer, AlarmsOf::kModel);
    return own == nullptr || lower > answer.error().limit() ? "" : FoundText(answer, *own);
  }
  const v1::Alarm* const first = FirstLimitAlarm(answer, AlarmsOf::kAll);
  return first == nullptr
             ? ""
             : absl::StrCat(FoundText(answer, *first), ", before the limit was raised");
}

}  // namespace calibd::convert
