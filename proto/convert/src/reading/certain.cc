#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

std::string NeededText(const v1::CalibrationError::ObservationsNeeded& needed) {
  return absl::StrCat("between ", RoundedDown(needed.lower()), " and ", RoundedUp(needed.upper()),
                      " more labelled rows decide about the limit");
}

// Whether a later answer may say how many rows decide. That of several labels never does.
bool IsForeseeable(const v1::CalibrationError& error) {
  const v1::ErrorMeasurement& rows = Current(error);
  return error.status() == v1::CalibrationError::UNDECIDED &&
         (rows.has_top_label() || rows.has_coverage());
}

}  // namespace

std::string CertainLine(const v1::GetCalibrationResponse& answer) {
  const v1::Watch& watch = answer.watch();
  std::vector<std::string> facts;
  const v1::CalibrationError& error = answer.error();
  if (error.has_observations_needed()) {
    facts.push_back(NeededText(error.observations_needed()));
  } else if (IsForeseeable(error)) {
    facts.emplace_back("not yet foreseeable how many more labelled rows decide about the limit");
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
