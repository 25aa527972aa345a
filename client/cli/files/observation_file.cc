#include "client/cli/files/observation_file.h"

#include <span>
#include <vector>

#include "calibd/core/validation.h"
#include "client/cli/commands/command.h"

namespace calibd::cli {
namespace {

// Keeps the valid rows in `input` and returns the number of dropped ones.
std::size_t DropInvalidRows(Input& input, double row_sum_tolerance) {
  const PredictionBatch all{input.values, input.labels, input.class_count};
  std::vector<bool> valid(input.row_count);
  for (std::size_t i = 0; i < valid.size(); ++i) {
    valid[i] = FindViolations(all.rows(i, 1), row_sum_tolerance).empty();
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    if (valid[i]) input.labels[kept++] = input.labels[i];
  }
  input.labels.resize(kept);
  return KeepRows(valid, input);
}

// Applies the softmax. A row without a softmax stays unchanged, and is then invalid.
absl::Status ApplySoftmax(Input& input, bool drop_invalid) {
  const std::size_t m = input.class_count;
  if (!drop_invalid) {
    const auto violations = SoftmaxRows(input.values, m);
    if (violations.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(DescribeViolations(violations));
  }
  const std::span<double> values(input.values);
  for (std::size_t i = 0; i < input.labels.size(); ++i) {
    if (!SoftmaxRows(values.subspan(i * m, m), m).empty()) input.labels[i] = -1;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileChanges> ReadObservations(const InputOptions& options, double row_sum_tolerance,
                                             Input& input) {
  CALIBD_ASSIGN_OR_RETURN(auto read, ReadInput(options));
  input = std::move(read);
  if (!options.labels_needed) {
    input.labels.assign(input.row_count, 0);
  }
  if (input.labels.empty()) return UsageFault("LABELS is missing: an evaluation needs labels");
  TellNote(input);
  absl::Status status =
      options.logits ? ApplySoftmax(input, options.columns.drop_invalid) : absl::OkStatus();
  FileChanges changes;
  if (options.renormalise) changes.renormalisation = input.renormalisation;
  if (options.columns.drop_invalid) {
    changes.dropped_rows = DropInvalidRows(input, row_sum_tolerance);
  } else if (status.ok()) {
    status = ValidateBatch({input.values, input.labels, input.class_count}, row_sum_tolerance);
  }
  if (!status.ok()) return DescribeFaults(input, status);
  return changes;
}

}  // namespace calibd::cli
