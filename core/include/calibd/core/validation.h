#ifndef CALIBD_CORE_VALIDATION_H_
#define CALIBD_CORE_VALIDATION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/violation.h"

namespace calibd {

// Limits of the declared number of classes.
inline constexpr std::size_t kMinClassCount = 2;
inline constexpr std::size_t kMaxClassCount = 100000;

// Checks that a batch has n >= 1 rows of m probabilities and n labels, that every probability is
// finite and in [0, 1], that every row has a valid sum (IsRowSum), and that every label is in
// [0, m). Rows are never re-normalised. A number that is a rounding away from [0, 1] is a violation
// too: apply RoundToProbabilities before. row_sum_tolerance: 0 means DefaultRowSumTolerance(m).
//
// Returns the violations of the first invalid rows, at most one per row and kMaxReportedViolations
// in total; empty if the batch is valid. If the shape is wrong, only this is reported. Cost: O(n
// m).
[[nodiscard]] std::vector<Violation> FindViolations(const PredictionBatch& batch,
                                                    double row_sum_tolerance = 0);

// OK, or InvalidArgument naming the violations as
// "rows[17].probabilities[2] is nan, expected a number in [0, 1]".
[[nodiscard]] absl::Status ValidateBatch(const PredictionBatch& batch,
                                         double row_sum_tolerance = 0);

// Replaces m >= 1 finite logits by their softmax, in double with the maximum subtracted. Returns
// the logarithm of the sum of their exponentials.
double Softmax(std::span<double> logits) noexcept;

// Applies Softmax to each row of m logits. Logits must be finite. Otherwise the violations name
// those that are not, and the values are unchanged. logits.size() must be a multiple of m.
[[nodiscard]] std::vector<Violation> SoftmaxRows(std::span<double> logits, std::size_t class_count);

}  // namespace calibd

#endif  // CALIBD_CORE_VALIDATION_H_
