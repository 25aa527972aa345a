#ifndef CALIBD_CORE_MISSING_LABELS_H_
#define CALIBD_CORE_MISSING_LABELS_H_

#include <cstdint>
#include <optional>
#include <span>

namespace calibd {

// Predictions of one kind, 0 <= missing <= predictions.
struct LabelledCount {
  std::int64_t predictions = 0;
  // Predictions without a label.
  std::int64_t missing = 0;
};

// p-value of the hypothesis that a label is missing with the same probability for each kind:
// Pearson's chi-squared test of homogeneity, sum (O - E)^2 / E over labelled and missing with E
// from the pooled share, K - 1 degrees of freedom. Kinds in which either E is below 5 (Cochran's
// rule) are pooled. Unset if fewer than two kinds remain. The p-value is small if the presence of a
// label depends on the prediction. The test cannot detect a dependence on the label itself among
// predictions of one kind. For ONE look.
[[nodiscard]] std::optional<double> MissingLabelsPValue(std::span<const LabelledCount> kinds);

}  // namespace calibd

#endif  // CALIBD_CORE_MISSING_LABELS_H_
