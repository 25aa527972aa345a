#include "calibd/convert/multilabel.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {
namespace {

std::string LabelNames(const google::protobuf::RepeatedPtrField<std::string>& names) {
  constexpr std::size_t kMostLabels = 10;
  return JoinNames({names.begin(), names.end()}, kMostLabels);
}

}  // namespace

EvaluationVerdict VerdictOf(const v1::MultilabelCalibration& calibration) {
  EvaluationVerdict verdict;
  if (!calibration.over_limit().empty()) {
    verdict.limit = v1::CalibrationError::OVER_LIMIT;
  } else if (calibration.has_error()) {
    verdict.limit = calibration.status();
    const bool any_undecided =
        std::ranges::any_of(calibration.labels(), [](const v1::LabelCalibration& label) {
          return label.status() == v1::CalibrationError::UNDECIDED;
        });
    // Within the limit are the average and each label.
    if (verdict.limit == v1::CalibrationError::WITHIN_LIMIT && any_undecided) {
      verdict.limit = v1::CalibrationError::UNDECIDED;
    }
  }
  verdict.is_rejected = !calibration.rejected().empty();
  return verdict;
}

std::string MultilabelText(const v1::MultilabelCalibration& calibration) {
  if (!calibration.has_error()) return "No truth is known yet.\n";
  std::string text =
      absl::StrCat("On average over ", calibration.labels_size(), " labels, the probabilities are ",
                   OffByText(calibration.error(), calibration.error_limit()), ".\n");
  absl::StrAppend(
      &text, calibration.over_limit().empty()
                 ? std::string("No label is over the limit.\n")
                 : absl::StrCat("Over the limit: ", LabelNames(calibration.over_limit()), ".\n"));
  if (!calibration.rejected().empty()) {
    absl::StrAppend(&text, "Calibration is rejected for ", LabelNames(calibration.rejected()),
                    ": of such labels, at most ", Points(calibration.significance_level()),
                    " % are expected to be calibrated.\n");
  }
  if (calibration.dependence_found_at() > 0) {
    absl::StrAppend(&text,
                    "WARNING: ", DependenceText(calibration.dependence_found_at(), "the e-values"),
                    "\n");
  }
  return text;
}

}  // namespace calibd::convert
