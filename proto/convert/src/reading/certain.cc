#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

// "50 so far", or after an acknowledgement or an update "50 since row 3001".
std::string SoFarText(std::int64_t observations, std::int64_t first_observation) {
  return absl::StrCat(observations, first_observation > 1
                                        ? absl::StrCat(" since row ", first_observation)
                                        : " so far");
}

// When the limit is decided. Empty if it is decided, also because a group is over it, and for
// several labels, for which it is never foreseen.
std::string NeededText(const v1::GetCalibrationResponse& answer) {
  const v1::CalibrationError& error = answer.error();
  const v1::ErrorMeasurement& rows = Current(error);
  if (answer.verdict().limit_status() != v1::CalibrationError::UNDECIDED ||
      error.status() != v1::CalibrationError::UNDECIDED ||
      (!rows.has_top_label() && !rows.has_coverage())) {
    return "";
  }
  const std::int64_t least = answer.watch().min_observations();
  if (rows.observations() < least) {
    return absl::StrCat("nothing is decided before ", least, " labelled rows; ",
                        SoFarText(rows.observations(), rows.first_observation()));
  }
  if (!error.has_observations_needed()) {
    return "not yet foreseeable how many more labelled rows decide about the limit";
  }
  const v1::CalibrationError::ObservationsNeeded& needed = error.observations_needed();
  return absl::StrCat("between ", RoundedDown(needed.lower()), " and ", RoundedUp(needed.upper()),
                      " more labelled rows decide about the limit");
}

}  // namespace

std::string CertainLine(const v1::GetCalibrationResponse& answer) {
  const v1::Watch& watch = answer.watch();
  std::vector<std::string> facts;
  if (std::string needed = NeededText(answer); !needed.empty()) facts.push_back(std::move(needed));
  if (!watch.unavailable_reason().empty()) {
    facts.push_back("no evidence: " + Plain(watch.unavailable_reason()));
  } else if (watch.has_evidence() && watch.observations() < watch.min_observations()) {
    // There is no highest e-value yet: no alarm was possible. Usually both wait for the same rows.
    if (facts.empty() || watch.observations() != Current(answer.error()).observations()) {
      facts.push_back(absl::StrCat("e-value ", PowerOfTen(watch.evidence().log10_e_value()),
                                   ", which counts after ", watch.min_observations(),
                                   " labelled rows; ",
                                   SoFarText(watch.observations(), watch.first_observation())));
    }
  } else if (watch.has_evidence()) {
    const v1::Evidence& evidence = watch.evidence();
    facts.push_back(absl::StrCat("e-value ", PowerOfTen(evidence.log10_e_value()), ", highest ",
                                 PowerOfTen(evidence.max_log10_e_value()),
                                 "; rejection needs an e-value of ",
                                 PowerOfTen(evidence.threshold())));
  }
  if (answer.verdict().status() == v1::Verdict::MISCALIBRATED &&
      answer.verdict().limit_status() == v1::CalibrationError::WITHIN_LIMIT) {
    const v1::ErrorMeasurement& rows = Current(answer.error());
    const v1::ErrorInterval* const interval = IntervalOf(rows);
    const bool is_shown =
        ((interval != nullptr && interval->lower() > 0) || rows.class_1().lower() > 0) &&
        !answer.rows_are_doubtful();
    facts.emplace_back(
        is_shown ? "the average error is real, but smaller than the limit"
                 : "calibration is rejected, but the average error is smaller than the limit");
  }
  return absl::StrJoin(facts, "; ");
}

}  // namespace calibd::convert
