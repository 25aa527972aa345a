#ifndef CALIBD_CORE_MISSING_LABELS_H_
#define CALIBD_CORE_MISSING_LABELS_H_

#include <cstdint>
#include <optional>
#include <span>

namespace calibd {

// Predictions of one kind, 0 <= missing <= predictions.
struct LabelledCount {
  std::int64_t predictions = 0;
  // Of those, without a label.
  std::int64_t missing = 0;
};

// p-value of the hypothesis that a label is missing with the same probability for each kind:
// Pearson's chi-squared test of homogeneity, sum (O - E)^2 / E over labelled and missing with
// E from the pooled share, K - 1 degrees of freedom. Kinds in which either E is below 5
// (Cochran's rule) are taken together as one. Nothing when fewer than two kinds remain.
// Small when who gets a label depends on what was predicted; blind to a dependence on the
// label itself among predictions of one kind. For one look.
[[nodiscard]] std::optional<double> MissingLabelsPValue(std::span<const LabelledCount> kinds);

}  // namespace calibd

#endif  // CALIBD_CORE_MISSING_LABELS_H_
