#include "calibd/core/label_report.h"

#include <algorithm>

#include "calibd/core/e_bh.h"

namespace calibd {

std::vector<std::size_t> LabelReport::OverLimit() const {
  std::vector<std::size_t> found;
  for (const LabelResult& label : labels) {
    if (label.over_limit) found.push_back(label.index);
  }
  // A label may be over the limit by truths that are no longer measured.
  const auto lower = [this](std::size_t k) {
    return labels[k].error.has_value() ? labels[k].error->lower : 0;
  };
  std::ranges::stable_sort(found,
                           [&lower](std::size_t a, std::size_t b) { return lower(a) > lower(b); });
  return found;
}

std::vector<std::size_t> LabelReport::Rejected() const {
  std::vector<std::size_t> found;
  for (const LabelResult& label : labels) {
    if (label.rejected) found.push_back(label.index);
  }
  std::ranges::stable_sort(found, [this](std::size_t a, std::size_t b) {
    return labels[a].log10_e_value > labels[b].log10_e_value;
  });
  return found;
}

LabelReport ReportOnLabels(const LabelErrors& errors, const LabelEvidenceReading& evidence,
                           const LabelReportOptions& options) {
  const std::size_t label_count = errors.labels.size();
  const LabelErrorLevels levels(options.levels, label_count);
  const std::vector<bool> rejected =
      RejectedByEbh(evidence.label_log10_e_values, options.significance_level);
  const LabelTotals totals = errors.Totals();
  LabelReport report{.rows = totals.rows,
                     .truths = totals.sums.Total().count,
                     .brier = totals.Brier(),
                     .error = totals.Interval(label_count, levels.of_all),
                     .log10_e_value = evidence.log10_e_value,
                     .labels = std::vector<LabelResult>(label_count)};
  for (std::size_t k = 0; k < label_count; ++k) {
    const ReliabilitySums::Bin total = errors.labels[k].Total();
    LabelResult& label = report.labels[k];
    label.index = k;
    label.truths = total.count;
    if (total.count > 0) {
      const auto truths = static_cast<double>(total.count);
      label.held = static_cast<double>(total.correct) / truths;
      label.stated = total.confidence / truths;
    }
    label.error = errors.IntervalOf(k, levels.of_each);
    label.over_limit = label.error.has_value() && label.error->lower > options.error_limit;
    label.log10_e_value = evidence.label_log10_e_values[k];
    label.rejected = rejected[k];
  }
  return report;
}

}  // namespace calibd
