#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/convert/reading.h"

namespace calibd::convert {

std::string AcknowledgedText(const v1::Alarm& alarm, std::int64_t first_observation) {
  if (first_observation == 0) return "it had been acknowledged before, so nothing changes";
  if (alarm.kind() == v1::Alarm::DRIFT) {
    return "the drift detectors begin anew, and the evidence continues";
  }
  if (alarm.kind() == v1::Alarm::EVIDENCE) {
    return absl::StrCat("the evidence begins anew with row ", first_observation);
  }
  if (alarm.kind() == v1::Alarm::CHANGED) {
    return first_observation > alarm.observation()
               ? absl::StrCat("a new reference begins with row ", first_observation)
               : "the model has no reference any more";
  }
  if (first_observation > alarm.observation()) {
    return absl::StrCat("the error is measured anew from row ", first_observation,
                        " on, and the evidence continues");
  }
  return "the error was not over the limit any more, so it is measured on as before";
}

}  // namespace calibd::convert
