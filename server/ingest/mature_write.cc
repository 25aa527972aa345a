#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/ingest/model_writes.h"
#include "server/kinds/kind_table.h"
#include "server/rows/row_codec.h"

namespace calibd::server {

absl::Status MatureWrite::Write(Store& store) {
  // Limits of one transaction.
  constexpr std::size_t kMostValues = std::size_t{1} << 17;
  constexpr std::size_t kMostReleased = 1024;
  if (model_->deleted()) return absl::OkStatus();
  PredictionTracker& tracker = *model_->storage_state().tracker;
  row_.elapsed = clock_.elapsed();
  time_ = std::chrono::microseconds(clock_.wall_us());
  EndWaiting(store);
  matured_ = tracker.Mature(
      row_.elapsed,
      std::max<std::size_t>(1, kMostValues / model_->declaration()->values_per_row()));
  if (!matured_.runs.empty()) CALIBD_RETURN_IF_ERROR(Append(store));
  unneeded_ = tracker.FindUnneeded(row_.elapsed, kMostReleased);
  store.ReleaseBatches(unneeded_.log_ids);
  return absl::OkStatus();
}

void MatureWrite::EndWaiting(Store& store) {
  ended_ = model_->storage_state().tracker->EndWaiting(row_.elapsed);
  if (ended_.batches.empty()) return;
  const auto ended = static_cast<std::int64_t>(ended_.labels.ids.size());
  ended_row_.elapsed = row_.elapsed;
  // Also if all of them were matched: the row says that the rows of the labels are not needed.
  auto& row = ended_row_.kind.emplace<LabelsRow>();
  row.counts = {.unknown = ended, .waiting = -ended};
  row.ended_waiting_log_id = ended_.last_log_id();
  std::string encoded = EncodeRow(ended_row_);
  AppendElapsed(ended_row_.elapsed, encoded);
  ended_log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded));
}

absl::Status MatureWrite::Append(Store& store) {
  const RowShape shape = model_->declaration()->row_shape();
  auto& matured = row_.kind.emplace<MaturedRow>();
  matured.through_log_id = matured_.runs.back().log_id;
  matured.values.width = shape.width;
  matured.values.feature_count = shape.features;
  matured.values.single_precision = true;
  std::vector<std::int64_t> log_ids;
  for (const PredictionTracker::Matured::Run& run : matured_.runs) log_ids.push_back(run.log_id);
  auto next_run = matured_.runs.begin();
  const absl::Status read = store.ReadBatches(log_ids, [&](std::string_view data) -> absl::Status {
    const PredictionTracker::Matured::Run& run = *next_run++;
    CALIBD_ASSIGN_OR_RETURN(const LogRow row, DecodeRow(data, shape));
    const auto* const predictions = row.As<PredictionsRow>();
    if (predictions == nullptr || predictions->ids.size() != run.labelled.size()) {
      return MakeError(
          absl::StatusCode::kDataLoss, "STORE_DAMAGED",
          absl::StrCat("batch ", run.log_id, " of the log holds ", row.tracked_ids().size(),
                       " predictions, expected ", run.labelled.size()));
    }
    Add(*predictions, run, matured);
    return absl::OkStatus();
  });
  CALIBD_RETURN_IF_ERROR(read);
  std::vector<std::int64_t>& times_s = matured.values.times_s;
  if (std::ranges::all_of(times_s, [](std::int64_t time) { return time == RowValues::kNoTime; })) {
    times_s.clear();
  }
  std::string encoded = EncodeRow(row_);
  AppendElapsed(row_.elapsed, encoded);
  log_id_ = store.AppendBatch(model_->id(), time_.count(), std::move(encoded));
  Failpoint("maturity");
  return absl::OkStatus();
}

void MatureWrite::Add(const PredictionsRow& predictions, const PredictionTracker::Matured::Run& run,
                      MaturedRow& matured) const {
  const std::size_t m = matured.values.width;
  matured.values.single_precision &= predictions.values.single_precision;
  std::vector<bool> labelled = run.labelled;
  const std::shared_ptr<const ModelDeclaration> declaration = model_->declaration();
  KindOf(*declaration).LeaveOut(*declaration, predictions.values, run.truths, labelled);
  for (std::size_t i = 0; i < run.labelled.size(); ++i) {
    if (!labelled[i]) {
      matured.missing_predicted_classes.push_back(predictions.predicted_classes[i]);
      continue;
    }
    const auto copy_row = [i](const std::vector<double>& from, std::size_t width,
                              std::vector<double>& to) {
      if (from.empty()) return;
      const std::span<const double> row = std::span(from).subspan(i * width, width);
      to.insert(to.end(), row.begin(), row.end());
    };
    copy_row(predictions.values.values, m, matured.values.values);
    copy_row(predictions.values.baseline_values, m, matured.values.baseline_values);
    copy_row(predictions.values.features, matured.values.feature_count, matured.values.features);
    matured.values.truths.Append(run.truths.view().rows(i, 1));
    matured.values.id_hashes.push_back(predictions.ids[i].low);
    if (!declaration->monitoring.group_tag.empty()) {
      matured.values.group_values.push_back(predictions.values.groups()[i]);
    }
    matured.values.times_s.push_back(predictions.values.time_s(i));
  }
}

void MatureWrite::Undo() {
  // Skipped if nothing matured, or if Write was not called.
  if (!matured_.runs.empty()) model_->storage_state().tracker->UndoMature(matured_);
  if (ended_.batches.empty()) return;
  model_->storage_state().tracker->UndoEndWaiting(ended_);
}

void MatureWrite::Finish(Store& /*store*/, const absl::Status& committed) {
  committed_ = committed.ok();
  if (committed_) model_->storage_state().tracker->Forget(unneeded_);
}

void MatureWrite::Apply() {
  if (!committed_) return;
  if (ended_log_id_ != 0) model_->strand_state().Append(ended_row_, ended_log_id_, time_);
  if (log_id_ != 0) model_->strand_state().Append(row_, log_id_, time_);
}

}  // namespace calibd::server
