#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "google/protobuf/util/time_util.h"
#include "limit_alarm.h"
#include "reference_text.h"
#include "words.h"

namespace calibd::convert {
namespace {

using Changed = v1::Reading::Changed;

Changed Say(Changed::Answer answer, std::int64_t observation, std::string text) {
  Changed line;
  line.set_answer(answer);
  if (observation > 0) line.set_observation(observation);
  line.set_text(std::move(text));
  return line;
}

// The average error of the event in a stretch, such as "over-confident by 4 points (2.9 to 5.1)".
std::string StretchText(const v1::DatedChange& change, const v1::DatedChange::Stretch& stretch) {
  if (change.event() == v1::DatedChange::CENTRAL_INTERVAL) {
    const auto share = [&change](double gap) {
      return std::clamp(100 * (change.promised() - gap), 0.0, 100.0);
    };
    return absl::StrFormat("%.3g %% (%.3g to %.3g)", share(stretch.gap()),
                           share(stretch.gap_upper()), share(stretch.gap_lower()));
  }
  const bool is_high = stretch.gap() >= 0;
  const double sign = is_high ? 1 : -1;
  const double lower = sign * (is_high ? stretch.gap_lower() : stretch.gap_upper());
  const double upper = sign * (is_high ? stretch.gap_upper() : stretch.gap_lower());
  if (lower <= 0) {
    // Neither direction is certain.
    return absl::StrCat("off by at most ", PointsText(std::max(upper, -lower)), " on average");
  }
  const std::string size = PointsText(std::abs(stretch.gap()));
  const std::string range = absl::StrCat(" (", Points(lower), " to ", Points(upper), ")");
  return change.event() == v1::DatedChange::TOP_LABEL
             ? absl::StrCat(is_high ? "over" : "under", "-confident by ", size, range)
             : absl::StrCat(size, is_high ? " too high" : " too low", range);
}

// "over-confident by 4 points (2.9 to 5.1) in rows 1 to 5000".
std::string StretchOfRows(const v1::DatedChange& change, const v1::DatedChange::Stretch& stretch) {
  return absl::StrCat(StretchText(change, stretch), " in rows ", stretch.first_observation(),
                      " to ", stretch.first_observation() + stretch.observations() - 1);
}

// "yes, between rows 4801 and 5300: it was over-confident by 4 points (2.9 to 5.1) in rows 1 to
// 5000, and ...". error: since the start.
std::string ChangeText(const v1::DatedChange& change, const v1::ErrorMeasurement& error) {
  // The top label of two classes is one of two events.
  const bool has_events = error.has_class_1();
  std::string event;
  if (change.event() == v1::DatedChange::CLASS_1) {
    event = Class1Event(error.class_1_name()) + " was ";
  }
  if (change.event() == v1::DatedChange::LABELS) event = "the probabilities were ";
  if (change.event() == v1::DatedChange::TOP_LABEL) {
    event = has_events ? "the top label was " : "it was ";
  }
  if (change.event() == v1::DatedChange::CENTRAL_INTERVAL) {
    event = absl::StrFormat("the %.3g %% interval covered ", 100 * change.promised());
  }
  return absl::StrCat("yes, between rows ", change.from_observation(), " and ",
                      change.to_observation(), ": ", event, StretchOfRows(change, change.before()),
                      ", and ", StretchOfRows(change, change.after()));
}

// An alarm within this many rows says that the model was off from the start.
constexpr std::int64_t kFirstRows = 1000;

// The first row of those that an alarm is about: of all, or of those since an acknowledgement.
std::int64_t FirstRowBefore(const v1::GetCalibrationResponse& answer, const v1::Alarm& alarm) {
  std::int64_t first = 1;
  for (const std::int64_t start :
       {answer.watch().first_observation(), Current(answer.error()).first_observation()}) {
    if (start <= alarm.observation()) first = std::max(first, start);
  }
  return first;
}

// Whether it is known that the error exceeded its limit before this row, or a person accepted that.
// Evidence and drift alone say that the model is not calibrated, and not how far off it is.
bool WasOverBefore(const v1::GetCalibrationResponse& answer, std::int64_t row) {
  const v1::Alarm* const alarm = FirstLimitAlarm(answer, AlarmsOf::kAll);
  return answer.error().is_acknowledged() || (alarm != nullptr && alarm->observation() < row);
}

// The earliest alarm over all rows that is active, or was when the drift alarm was raised; or null.
// drift: the active one, or null.
const v1::Alarm* FirstOfAllRows(const v1::GetCalibrationResponse& answer, const v1::Alarm* drift) {
  const v1::Alarm* first = nullptr;
  for (const v1::Alarm& alarm : answer.alarms()) {
    // The evidence and the drift of all labels together name the label with the largest value.
    const bool is_of_all_rows = alarm.group_value().empty() && !alarm.is_overflow_group() &&
                                (alarm.label().empty() || alarm.kind() != v1::Alarm::OVER_LIMIT);
    const bool was_active = !alarm.has_acknowledge_time() ||
                            (drift != nullptr && alarm.acknowledge_time() > drift->raise_time());
    if (!is_of_all_rows || !was_active) continue;
    if (first == nullptr || alarm.observation() < first->observation()) first = &alarm;
  }
  return first;
}

Changed CalibrationLine(const v1::GetCalibrationResponse& answer) {
  if (answer.error().has_change()) {
    const v1::DatedChange& change = answer.error().change();
    return Say(Changed::CHANGED, change.after().first_observation(),
               ChangeText(change, answer.error().since_start()));
  }
  const v1::Alarm* const drift = Active(answer, v1::Alarm::DRIFT);
  const bool is_over = answer.error().status() == v1::CalibrationError::OVER_LIMIT;
  if (drift == nullptr && !is_over) return {};
  const v1::Alarm* const alarm = FirstOfAllRows(answer, drift);
  // A model that has recovered did change, also if it is over the limit again.
  const bool had_recovered = answer.error().is_recovered() || answer.error().has_over_again_since();
  if (alarm != nullptr && !had_recovered) {
    const std::int64_t first = FirstRowBefore(answer, *alarm);
    if (alarm->observation() < first + kFirstRows) {
      return Say(Changed::NOT_DATED, 0,
                 absl::StrCat(WasOverBefore(answer, first + kFirstRows) ? "off" : "not calibrated",
                              first == 1 ? " from the first rows on"
                                         : absl::StrCat(" already in the rows from ", first,
                                                        " on, where counting began anew"),
                              ", as far as can be seen"));
    }
  }
  if (drift == nullptr) return Say(Changed::NOT_DATED, 0, "no change can be dated");
  // A drift alarm alone does not tell a change from a small error, which raises it late.
  return Say(Changed::PERHAPS, drift->observation(),
             absl::StrCat("perhaps: drift was detected at ",
                          TimeOfRow(drift->raise_time(), drift->observation()),
                          "; no change can be dated yet, and a small error from the first rows on "
                          "raises such an alarm too"));
}

}  // namespace

Changed ChangedLine(const v1::GetCalibrationResponse& answer) {
  Changed line = CalibrationLine(answer);
  const std::string reference = ReferenceText(answer);
  if (reference.empty()) return line;
  const bool has_changed = answer.reference_change().status() == v1::ReferenceChange::CHANGED;
  if (has_changed && line.answer() != Changed::CHANGED) {
    line.set_answer(Changed::CHANGED);
    line.set_observation(answer.reference_change().finding().since_observation());
  }
  line.set_text(absl::StrCat(line.text(), line.text().empty() ? "" : "; ", reference));
  return line;
}

}  // namespace calibd::convert
