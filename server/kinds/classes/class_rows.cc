#include "server/kinds/classes/class_rows.h"

#include <cstdint>
#include <span>

#include "calibd/core/probability.h"

namespace calibd::server {
namespace {

// Converts rows of the model or its baseline to probabilities, and checks them and the labels.
std::vector<Violation> ConvertMatrix(bool are_logits, double row_sum_tolerance,
                                     std::span<double> values, std::span<const std::int32_t> labels,
                                     std::size_t m) {
  if (are_logits) {
    std::vector<Violation> violations = SoftmaxRows(values, m);
    if (!violations.empty()) return violations;
  }
  std::vector<Violation> violations = FindViolations({values, labels, m}, row_sum_tolerance);
  // Nearly all batches are valid as they are.
  if (!violations.empty() && RoundToProbabilities(values) > 0) {
    violations = FindViolations({values, labels, m}, row_sum_tolerance);
  }
  return violations;
}

}  // namespace

std::vector<Violation> ConvertClassRows(const ValueForm& form, const ClassesSpec& spec,
                                        std::size_t first, std::size_t count, RowValues& values) {
  const std::size_t m = spec.count;
  // Pending predictions have no labels.
  const std::vector<std::int32_t> valid_labels(values.truths.empty() ? count : 0);
  const std::span<const std::int32_t> labels =
      values.truths.empty()
          ? std::span<const std::int32_t>(valid_labels)
          : std::span<const std::int32_t>(values.truths.labels).subspan(first, count);
  const auto rows_of = [&](std::vector<double>& matrix) {
    return std::span(matrix).subspan(first * m, count * m);
  };
  std::vector<Violation> violations =
      ConvertMatrix(form.logits, spec.row_sum_tolerance, rows_of(values.values), labels, m);
  if (violations.empty() && !values.baseline_values.empty()) {
    violations = ConvertMatrix(form.baseline_logits, spec.row_sum_tolerance,
                               rows_of(values.baseline_values), labels, m);
    for (Violation& violation : violations) {
      // The labels are valid, so the field is that of the values.
      violation.field.insert(0, "baseline_");
    }
  }
  for (Violation& violation : violations) {
    if (violation.row.has_value()) *violation.row += first;
  }
  return violations;
}

}  // namespace calibd::server
