#ifndef CALIBD_CORE_LABEL_REPORT_H_
#define CALIBD_CORE_LABEL_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "calibd/core/label_errors.h"
#include "calibd/core/label_evidence.h"

namespace calibd {

// What is known about one label.
struct LabelResult {
  // Its position among the labels.
  std::size_t index = 0;
  // Number of known truths.
  std::int64_t truths = 0;
  // The share of them that hold, and the mean stated probability; 0 without a truth.
  double held = 0;
  double stated = 0;
  // Unset without a truth.
  std::optional<ErrorInterval> error;
  // The whole interval is above the limit.
  bool over_limit = false;
  double log10_e_value = 0;
  // Chosen by e-BH among all labels.
  bool rejected = false;
};

// What is known about a model of several labels.
struct LabelReport {
  std::int64_t rows = 0;
  std::int64_t truths = 0;
  double brier = 0;
  // The error of all labels together; unset without a truth.
  std::optional<ErrorInterval> error;
  double log10_e_value = 0;
  // All labels in their order.
  std::vector<LabelResult> labels;

  // Indices of the labels that are over the limit, by descending lower end of their error.
  [[nodiscard]] std::vector<std::size_t> OverLimit() const;
  // Indices of the rejected labels, by descending e-value.
  [[nodiscard]] std::vector<std::size_t> Rejected() const;
};

struct LabelReportOptions {
  // All intervals hold together at these levels; see LabelErrorLevels.
  ErrorLevels levels;
  // The acceptable error, of each label and of all together.
  double error_limit = kDefaultErrorLimit;
  // The level of e-BH: the largest expected share of calibrated labels among the rejected ones.
  double significance_level = 0.05;
};

// errors, evidence: of equally many labels. Cost: O(K log K).
[[nodiscard]] LabelReport ReportOnLabels(const LabelErrors& errors,
                                         const LabelEvidenceReading& evidence,
                                         const LabelReportOptions& options);

}  // namespace calibd

#endif  // CALIBD_CORE_LABEL_REPORT_H_
