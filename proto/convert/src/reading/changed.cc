#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "google/protobuf/util/time_util.h"
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

// True if the newest rows may be as far off as all rows are.
bool MayBeAsAllRows(const v1::CalibrationError& error) {
  const v1::ErrorInterval* const all = IntervalOf(Current(error));
  const v1::ErrorInterval* const newest = IntervalOf(error.newest());
  return all == nullptr || newest == nullptr ||
         (newest->upper() >= all->lower() && newest->lower() <= all->upper());
}

// Says whether the error of the model itself began with a change. over: its alarm.
Changed ErrorChange(const v1::GetCalibrationResponse& answer, const v1::Alarm& over) {
  const bool is_active = !over.has_acknowledge_time();
  // The rows since an acknowledgement do not tell whether the rows before it had changed.
  const std::int64_t first = is_active ? Current(answer.error()).first_observation()
                                       : answer.error().since_start().first_observation();
  const std::int64_t crossed = over.crossing().first_observation();
  if (over.crossing().is_recent() && crossed > first) {
    return Say(Changed::CHANGED, crossed, absl::StrCat("yes, at about row ", crossed));
  }
  if (is_active && !answer.error().is_recovered() && MayBeAsAllRows(answer.error())) {
    return Say(Changed::NOT_VISIBLE, first,
               absl::StrCat("no change is visible: off from ",
                            first == 1 ? "the first row" : absl::StrCat("row ", first), " on"));
  }
  return Say(Changed::UNKNOWN, 0,
             absl::StrCat("not known; see `calibctl history ", ShortName(answer.model()), "`"));
}

// Whether the evidence over all rows had crossed its threshold when the drift alarm was raised.
bool EvidenceCameFirst(const v1::GetCalibrationResponse& answer, const v1::Alarm& drift) {
  return std::ranges::any_of(answer.alarms(), [&drift](const v1::Alarm& alarm) {
    return alarm.kind() == v1::Alarm::EVIDENCE && alarm.observation() <= drift.observation() &&
           (!alarm.has_acknowledge_time() || alarm.acknowledge_time() > drift.raise_time());
  });
}

}  // namespace

Changed ChangedLine(const v1::GetCalibrationResponse& answer) {
  const v1::Alarm* over = Active(answer, v1::Alarm::OVER_LIMIT, false);
  if (over == nullptr && answer.error().is_acknowledged()) {
    for (const v1::Alarm& alarm : answer.alarms()) {
      const bool is_own =
          alarm.kind() == v1::Alarm::OVER_LIMIT && !alarm.has_group_value() && !alarm.has_label();
      if (is_own && over == nullptr) over = &alarm;
    }
  }
  if (over != nullptr) return ErrorChange(answer, *over);
  const v1::Alarm* const drift = Active(answer, v1::Alarm::DRIFT);
  if (drift == nullptr) return {};
  if (EvidenceCameFirst(answer, *drift)) {
    return Say(
        Changed::PERHAPS_NOT, drift->observation(),
        absl::StrCat(
            "perhaps not: calibration was rejected over all rows before the drift alarm of row ",
            drift->observation()));
  }
  return Say(Changed::PERHAPS, drift->observation(),
             absl::StrCat("perhaps: the drift detector reacted at row ", drift->observation()));
}

}  // namespace calibd::convert
