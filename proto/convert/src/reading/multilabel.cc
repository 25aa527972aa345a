#include "calibd/convert/multilabel.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "severity.h"
#include "words.h"

namespace calibd::convert {
namespace {

std::string LabelNames(const google::protobuf::RepeatedPtrField<std::string>& names) {
  constexpr std::size_t kMostLabels = 10;
  return JoinNames({names.begin(), names.end()}, kMostLabels);
}

std::string ErrorLine(const v1::MultilabelCalibration& calibration) {
  if (!calibration.has_error()) return "No truth is known yet.";
  const bool is_one = calibration.labels_size() == 1;
  return absl::StrCat(is_one ? "The probabilities are "
                             : absl::StrCat("On average over ", calibration.labels_size(),
                                            " labels, the probabilities are "),
                      OffByText(calibration.error(), calibration.error_limit()), ".");
}

std::string OverLimitLine(const v1::MultilabelCalibration& calibration) {
  if (calibration.over_limit().empty()) return "No label is over the limit.";
  return absl::StrCat("Over the limit: ", LabelNames(calibration.over_limit()), ".");
}

// Empty if no label is rejected.
std::string RejectedLine(const v1::MultilabelCalibration& calibration) {
  if (calibration.rejected().empty()) return "";
  return absl::StrCat("Calibration is rejected for ", LabelNames(calibration.rejected()),
                      ": of such labels, at most ", Points(calibration.significance_level()),
                      " % are expected to be calibrated.");
}

// Empty if the rows do not go together.
std::string DependenceLine(const v1::MultilabelCalibration& calibration) {
  if (calibration.dependence_found_at() == 0) return "";
  return DependenceText(calibration.dependence_found_at(), "the e-values");
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
  std::string text = ErrorLine(calibration) + "\n";
  if (!calibration.has_error()) return text;
  absl::StrAppend(&text, OverLimitLine(calibration), "\n");
  const std::string rejected = RejectedLine(calibration);
  if (!rejected.empty()) absl::StrAppend(&text, rejected, "\n");
  const std::string warning = DependenceLine(calibration);
  if (!warning.empty()) absl::StrAppend(&text, "WARNING: ", warning, "\n");
  return text;
}

v1::Reading ReadingOf(const v1::MultilabelCalibration& calibration) {
  v1::Reading reading;
  const EvaluationVerdict verdict = VerdictOf(calibration);
  reading.mutable_verdict()->set_text(verdict.Text());
  reading.mutable_how_bad()->set_text(ErrorLine(calibration));
  if (calibration.has_error()) {
    *reading.mutable_how_bad()->mutable_interval() = calibration.error();
    reading.mutable_where()->set_text(OverLimitLine(calibration));
  }
  if (std::string text = RejectedLine(calibration); !text.empty()) {
    reading.mutable_certain()->set_text(std::move(text));
  }
  if (std::string text = DependenceLine(calibration); !text.empty()) {
    reading.mutable_warning()->set_text(std::move(text));
  }
  reading.set_severity(SeverityOf(verdict, calibration.error()));
  return reading;
}

}  // namespace calibd::convert
