#ifndef CALIBD_CORE_GROUP_EVALUATION_H_
#define CALIBD_CORE_GROUP_EVALUATION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/error_interval.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/run_control.h"

namespace calibd {

// What is known about one group of the rows of a batch.
struct GroupResult {
  // Number of rows.
  std::int64_t count = 0;
  // The mean probability of the top label, and the share of rows in which it is right.
  double mean_confidence = 0;
  double accuracy = 0;
  ErrorIntervals error;
  // log10 of the e-value of EvidenceProcess, with ClassEvidence, over the rows of the group in
  // their order.
  double log10_e_value = 0;
  // Chosen by e-BH among all groups.
  bool rejected = false;
};

struct GroupOptions {
  // The intervals of all groups hold together at these levels: each has an equal share.
  ErrorLevels levels = kOneLookErrorLevels;
  // The level of e-BH: the largest expected share of calibrated groups among the rejected ones. It
  // also bounds the probability that any group of a calibrated model is rejected.
  double significance_level = 0.05;
};

// The group of each row must be known before its label, and its evidence is valid for all orders of
// the rows, and if predictions are made from labels of earlier rows: the kernel of the bets depends
// on the number of classes alone, exp(-TV / nu) with the mean total variation nu of two uniform
// vectors.
//
// batch: valid. groups: one for each row, in [0, group_count); each group has a row. Errors:
// InvalidArgument (groups); Cancelled. Cost: that of EvidenceProcess, O(n m), and
// EvidenceProcess::MaxMemory on each thread.
[[nodiscard]] absl::StatusOr<std::vector<GroupResult>> EvaluateGroups(
    const PredictionBatch& batch, std::span<const std::int32_t> groups, std::size_t group_count,
    const GroupOptions& options, const RunControl& control = {});

// Maximum number of bytes of EvaluateGroups beside the rows. threads: >= 1.
[[nodiscard]] double GroupEvaluationMemory(std::size_t n, std::size_t class_count,
                                           std::size_t threads) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_GROUP_EVALUATION_H_
