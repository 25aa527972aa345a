#include "calibd/core/group_evaluation.h"

#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/class_evidence.h"
#include "calibd/core/e_bh.h"
#include "calibd/core/evidence.h"
#include "calibd/core/fourier_basis.h"
#include "calibd/core/running_reliability.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// The rows of each group, in their order.
absl::StatusOr<std::vector<PredictionSet>> RowsOfGroups(const PredictionBatch& batch,
                                                        std::span<const std::int32_t> groups,
                                                        std::size_t group_count) {
  if (groups.size() != batch.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups has ", groups.size(), " values, expected ", batch.size()));
  }
  std::vector<PredictionSet> rows(group_count);
  for (PredictionSet& set : rows) set.class_count = batch.class_count;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto group = static_cast<std::size_t>(groups[i]);
    // A negative number is out of range after the conversion too.
    if (group >= group_count) {
      return absl::InvalidArgumentError(
          absl::StrCat("groups[", i, "] is ", groups[i], ", expected 0..", group_count, " - 1"));
    }
    const std::span<const double> row = batch.row(i);
    rows[group].probabilities.insert(rows[group].probabilities.end(), row.begin(), row.end());
    rows[group].labels.push_back(batch.labels[i]);
  }
  return rows;
}

// A kernel that depends on no prediction.
absl::StatusOr<std::shared_ptr<const FourierBasis>> FixedBasis(std::size_t class_count) {
  const KernelRule rule{.distance = Distance::kTotalVariation,
                        .bandwidth = {.kind = BandwidthRule::Kind::kMeanTotalVariation,
                                      .alpha = std::vector<double>(class_count, 1.0)}};
  CALIBD_ASSIGN_OR_RETURN(const Kernel kernel, ChooseKernel(rule, {}, class_count));
  return FourierBasis::Create(kernel, class_count);
}

absl::StatusOr<GroupResult> EvaluateGroup(const PredictionBatch& batch, const ErrorLevels& levels,
                                          const std::shared_ptr<const FourierBasis>& basis) {
  RunningReliability top_label;
  top_label.Add(batch);
  ReliabilitySums class_1;
  if (batch.class_count == 2) class_1.AddClass(batch, 1);
  CALIBD_ASSIGN_OR_RETURN(EvidenceProcess evidence, EvidenceProcess::Create(basis));
  evidence.Add(batch);
  ClassEvidence classes(batch.class_count, kDefaultTolerance);
  classes.Add(batch);
  evidence.Consider({.log_class_mean = classes.LogMean()});
  const ReliabilitySums::Bin total = top_label.Total();
  const auto n = static_cast<double>(total.count);
  return GroupResult{.count = total.count,
                     .mean_confidence = total.confidence / n,
                     .accuracy = static_cast<double>(total.correct) / n,
                     .error = EventIntervals(top_label, class_1, levels).value_or(ErrorIntervals()),
                     .log10_e_value = evidence.Read().evidence.log10_e_value};
}

}  // namespace

absl::StatusOr<std::vector<GroupResult>> EvaluateGroups(const PredictionBatch& batch,
                                                        std::span<const std::int32_t> groups,
                                                        std::size_t group_count,
                                                        const GroupOptions& options,
                                                        const RunControl& control) {
  CALIBD_ASSIGN_OR_RETURN(const std::vector<PredictionSet> rows,
                          RowsOfGroups(batch, groups, group_count));
  CALIBD_ASSIGN_OR_RETURN(const auto basis, FixedBasis(batch.class_count));
  const ErrorLevels levels = options.levels.SharedBy(group_count);
  std::vector<GroupResult> results(group_count);
  std::mutex mutex;
  absl::Status failure;
  RunLoop(control.parallel_for, group_count, [&](std::size_t g) {
    absl::Status status = control.CheckCancelled();
    if (status.ok()) {
      absl::StatusOr<GroupResult> result = EvaluateGroup(rows[g].view(), levels, basis);
      status = result.status();
      if (status.ok()) results[g] = *std::move(result);
    }
    const std::scoped_lock lock(mutex);
    failure.Update(status);
  });
  CALIBD_RETURN_IF_ERROR(failure);
  std::vector<double> e_values(group_count);
  for (std::size_t g = 0; g < group_count; ++g) e_values[g] = results[g].log10_e_value;
  const std::vector<bool> rejected = RejectedByEbh(e_values, options.significance_level);
  for (std::size_t g = 0; g < group_count; ++g) results[g].rejected = rejected[g];
  return results;
}

double GroupEvaluationMemory(std::size_t n, std::size_t class_count, std::size_t threads) noexcept {
  // The rows of all groups, whose vectors may have twice the room that they need.
  const std::size_t copies = 2 * n * (class_count * sizeof(double) + sizeof(std::int32_t));
  return static_cast<double>(copies + threads * EvidenceProcess::MaxMemory(class_count));
}

}  // namespace calibd
