#include "client/cli/files/observation_file.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"
#include "calibd/core/validation.h"
#include "client/cli/commands/command.h"

namespace calibd::cli {
namespace {

// Keeps the valid rows in `input` and returns the number of dropped ones.
std::size_t DropInvalidRows(Input& input, double row_sum_tolerance) {
  const std::size_t m = input.class_count;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < input.labels.size(); ++i) {
    const PredictionBatch all{input.values, input.labels, m};
    if (!FindViolations(all.rows(i, 1), row_sum_tolerance).empty()) continue;
    std::copy_n(input.values.begin() + static_cast<std::ptrdiff_t>(i * m), m,
                input.values.begin() + static_cast<std::ptrdiff_t>(kept * m));
    input.labels[kept++] = input.labels[i];
  }
  const std::size_t dropped = input.labels.size() - kept;
  input.values.resize(kept * m);
  input.labels.resize(kept);
  return dropped;
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
    input.labels.assign(input.values.size() / input.class_count, 0);
  }
  if (input.labels.empty()) return UsageFault("LABELS is missing: an evaluation needs labels");
  TellNote(input);
  absl::Status status =
      options.logits ? ApplySoftmax(input, options.drop_invalid) : absl::OkStatus();
  FileChanges changes;
  if (options.renormalise) changes.renormalisation = input.renormalisation;
  if (options.drop_invalid) {
    changes.dropped_rows = DropInvalidRows(input, row_sum_tolerance);
  } else if (status.ok()) {
    status = ValidateBatch({input.values, input.labels, input.class_count}, row_sum_tolerance);
  }
  if (!status.ok()) return DescribeFaults(input, status);
  return changes;
}

FileRows ToProto(const FileChanges& changes) {
  FileRows rows;
  if (changes.renormalisation.has_value()) rows = ToProto(*changes.renormalisation);
  rows.set_dropped_rows(static_cast<std::int64_t>(changes.dropped_rows));
  return rows;
}

std::string Describe(const FileChanges& changes) {
  std::string text;
  if (changes.dropped_rows > 0) {
    absl::StrAppend(&text, "\n", changes.dropped_rows, " invalid rows were left out\n");
  }
  if (changes.renormalisation.has_value()) {
    absl::StrAppend(&text, "\n", Describe(*changes.renormalisation));
  }
  return text;
}

}  // namespace calibd::cli
