#ifndef CALIBD_CONVERT_READING_LIMIT_ALARM_H_
#define CALIBD_CONVERT_READING_LIMIT_ALARM_H_

#include <map>
#include <string>

#include "calibd/v1/calibration_service.pb.h"

// What an active alarm OVER_LIMIT is about.
namespace calibd::convert {

// Whose alarms count: those of the model itself, or also those of its groups and labels.
enum class AlarmsOf { kModel, kAll };

// The active alarm OVER_LIMIT that was raised at the first row, or null. One batch may raise the
// alarms of several groups, in the order of the groups.
[[nodiscard]] const v1::Alarm* FirstLimitAlarm(const v1::GetCalibrationResponse& answer,
                                               AlarmsOf whose);

// The first active alarm OVER_LIMIT of each group and label that has one, by the name of the group,
// see GroupName, or of the label.
[[nodiscard]] std::map<std::string, const v1::Alarm*> LimitAlarmsOfParts(
    const v1::GetCalibrationResponse& answer);

// What the first alarm found, if the line does not say so already: "at row 913, the newest rows
// were off by more than 2 points", or "group eu was off by 6 points (2.1 to 10; limit 2 points) at
// row 913, before the limit was raised". Empty without an alarm. lower: the lower end of the
// model's error, which the line says; of two events the larger one.
[[nodiscard]] std::string FormerText(const v1::GetCalibrationResponse& answer, double lower);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_READING_LIMIT_ALARM_H_
