#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"

namespace calibd::convert {

std::string CertainLine(const v1::GetCalibrationResponse& answer) {
  const v1::Watch& watch = answer.watch();
  std::vector<std::string> facts;
  if (answer.error().has_observations_needed()) {
    facts.push_back(absl::StrCat("about ", RoundedCount(answer.error().observations_needed()),
                                 answer.error().observations_needed() == 1
                                     ? " more labelled row decides about the limit"
                                     : " more labelled rows decide about the limit"));
  }
  if (!watch.unavailable_reason().empty()) {
    facts.push_back("no evidence: " + Plain(watch.unavailable_reason()));
  } else if (watch.has_evidence() && watch.observations() < watch.min_observations()) {
    // There is no highest e-value yet: no alarm was possible.
    facts.push_back(absl::StrCat("e-value ", PowerOfTen(watch.evidence().log10_e_value()),
                                 ", which counts after ", watch.min_observations(),
                                 " labelled rows; ", watch.observations(), " so far"));
  } else if (watch.has_evidence()) {
    const v1::Evidence& evidence = watch.evidence();
    facts.push_back(absl::StrCat("e-value ", PowerOfTen(evidence.log10_e_value()), ", highest ",
                                 PowerOfTen(evidence.max_log10_e_value()),
                                 "; calibration is rejected at ",
                                 PowerOfTen(evidence.threshold())));
  }
  if (answer.verdict().status() == v1::Verdict::MISCALIBRATED &&
      answer.verdict().limit_status() == v1::CalibrationError::WITHIN_LIMIT) {
    facts.emplace_back("the error is real, but smaller than the limit");
  }
  return absl::StrJoin(facts, "; ");
}

}  // namespace calibd::convert
