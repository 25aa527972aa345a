#include "reference_text.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {

std::string FindingText(const v1::ReferenceChange::Finding& finding) {
  return absl::StrFormat(
      "%s errors since about row %d: %d of %d predictions were wrong, %.*f are expected by the "
      "reference",
      finding.more_errors() ? "more" : "fewer", finding.since_observation(), finding.wrong(),
      finding.observations(), finding.expected_wrong() < 10 ? 1 : 0, finding.expected_wrong());
}

std::string ReferenceText(const v1::GetCalibrationResponse& answer) {
  const v1::ReferenceChange& change = answer.reference_change();
  const std::int64_t rows = change.reference_observations();
  if (change.status() == v1::ReferenceChange::UNSPECIFIED) return "";
  if (change.status() == v1::ReferenceChange::COLLECTING) {
    return absl::StrCat("since the reference: not known yet, because ",
                        change.observations_needed(), " of its ", rows, " rows are still to come");
  }
  const std::string reference =
      absl::StrCat("since the reference (rows ", change.first_observation(), " to ",
                   change.first_observation() + rows - 1, "): ");
  if (change.status() == v1::ReferenceChange::NOT_CHANGED) {
    return absl::StrCat(reference, "no change of the error is shown by ",
                        CountText(change.later_observations(), "later row"));
  }
  const v1::Alarm* const alarm = Active(answer, v1::Alarm::CHANGED);
  return absl::StrCat(
      reference, "yes, ", FindingText(change.finding()),
      alarm == nullptr
          ? ""
          : absl::StrCat(", alarm on ", TimeOfRow(alarm->raise_time(), alarm->observation())),
      "; this does not say whether the error is too large");
}

}  // namespace calibd::convert
