#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "limit_alarm.h"
#include "rejected_parts.h"
#include "words.h"

namespace calibd::convert {
namespace {

// Whether an alarm about the error of the model itself is active.
bool HasAlarm(const v1::CalibrationError& error) {
  return error.status() == v1::CalibrationError::OVER_LIMIT && !error.is_acknowledged();
}

// Whether no row has come since the acknowledgement of an alarm that had recovered: the newest rows
// are then the last ones before it.
bool IsBeforeAcknowledgement(const v1::CalibrationError& error) {
  return IntervalOf(error.newest()) != nullptr &&
         error.newest().first_observation() < Current(error).first_observation();
}

// whose: " of all groups", or empty.
std::string RowsText(const v1::CalibrationError& error, const char* whose = "") {
  return absl::StrCat("over the newest ", error.newest().observations(), " rows", whose, ", ",
                      IsBeforeAcknowledgement(error) ? "all before the acknowledgement, " : "");
}

// Whether `how bad` begins with a group, of which the newest rows say nothing by themselves.
bool DoesAGroupLead(const v1::GetCalibrationResponse& answer) {
  return !answer.has_labels() && !LeadingPartOf(answer).text.empty();
}

// The error with its direction, of two events first the one with which `how bad` begins; of several
// labels, the average alone.
std::string NewestText(const v1::GetCalibrationResponse& answer) {
  const v1::ErrorMeasurement& newest = answer.error().newest();
  const double limit = answer.error().limit();
  if (!newest.has_labels()) return ErrorText(newest, limit, Current(answer.error()));
  return absl::StrCat(answer.labels().labels_size() == 1 ? "" : "the labels on average ",
                      OffByText(newest.labels(), limit));
}

// What the rows since the alarm, and since a change that came later, say about it. All events must
// be within the limit.
std::string AlarmText(const v1::GetCalibrationResponse& answer) {
  const v1::CalibrationError& error = answer.error();
  if (error.has_over_again_since()) {
    return absl::StrCat("; it had recovered, and is over the limit again since row ",
                        error.over_again_since());
  }
  const v1::ErrorMeasurement& newest = error.newest();
  const bool is_over = IntervalOf(newest)->lower() > error.limit() ||
                       (newest.has_class_1() && newest.class_1().lower() > error.limit());
  if (is_over) return "; still over the limit";
  const v1::Alarm* const alarm = FirstLimitAlarm(answer, AlarmsOf::kModel);
  const bool has_changed = error.has_change() && alarm != nullptr &&
                           error.change().to_observation() > alarm->observation();
  return absl::StrCat(
      "; not shown to be within the limit since ",
      has_changed ? absl::StrCat("the change before row ", error.change().to_observation() + 1)
                  : "the alarm");
}

}  // namespace

std::string BriefNowText(const v1::CalibrationError& error) {
  const v1::ErrorMeasurement& newest = error.newest();
  if (error.is_recovered()) {
    return absl::StrCat(absl::StripLeadingAsciiWhitespace(SinceText(newest)), " ",
                        BriefErrorText(newest, error.limit(), Current(error)));
  }
  const bool is_part = newest.first_observation() > Current(error).first_observation();
  const bool is_shown = (HasAlarm(error) && is_part) || IsBeforeAcknowledgement(error);
  if (IntervalOf(newest) == nullptr || !is_shown) return "";
  return RowsText(error) + BriefErrorText(newest, error.limit(), Current(error));
}

std::string NowLine(const v1::GetCalibrationResponse& answer) {
  const v1::CalibrationError& error = answer.error();
  const v1::ErrorMeasurement& newest = error.newest();
  if (IntervalOf(newest) == nullptr) return "";
  if (error.is_recovered()) {
    // A group or a label may be over the limit still.
    const char* const who = answer.verdict().is_recovered() ? "" : "all rows together ";
    return absl::StrCat(who, "recovered", SinceText(newest), ": over these ", newest.observations(),
                        " rows, ", NewestText(answer));
  }
  if (newest.first_observation() == Current(error).first_observation()) return "";
  std::string text = absl::StrCat(RowsText(error, DoesAGroupLead(answer) ? " of all groups" : ""),
                                  NewestText(answer));
  if (HasAlarm(error)) text += AlarmText(answer);
  return absl::StrCat(text, "; 95 % for these rows, however often you look");
}

std::string NewestSubject(const v1::GetCalibrationResponse& answer) {
  const v1::CalibrationError& error = answer.error();
  if (IntervalOf(error.newest()) == nullptr) return "";
  if (answer.has_labels()) return answer.labels().labels_size() == 1 ? "" : "labels on average";
  const std::string event = LeadingEvent(error.newest(), error.limit(), Current(error)).name;
  return std::string(
      absl::StripAsciiWhitespace(absl::StrCat(DoesAGroupLead(answer) ? "all groups " : "", event)));
}

}  // namespace calibd::convert
