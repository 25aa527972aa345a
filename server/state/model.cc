#include "server/state/model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/kernel.h"

namespace calibd::server {
namespace {

void Add(const PredictionBatch& batch, std::vector<RunningBlockSkce>& blocks) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (RunningBlockSkce& block : blocks) {
      block.Add(batch.row(i), batch.labels[i]);
    }
  }
}

// A client may claim any count; the sum must not overflow.
void AddSaturating(std::int64_t& total, std::int64_t amount) noexcept {
  total = amount > std::numeric_limits<std::int64_t>::max() - total
              ? std::numeric_limits<std::int64_t>::max()
              : total + amount;
}

}  // namespace

Model::Model(ModelDeclaration declaration, ModelSnapshot::Time create_time,
             std::size_t max_producers, ThreadPool& writers, std::shared_ptr<void> reservation)
    : declaration_(std::move(declaration)),
      create_time_(create_time),
      reservation_(std::move(reservation)),
      strand_(writers),
      cursors_(max_producers),
      window_(declaration_.class_count, declaration_.window,
              WindowChunkRows(declaration_.class_count, declaration_.window)) {
  if (declaration_.fixed_bandwidth.has_value()) {
    estimators_ = CreateEstimators(*declaration_.fixed_bandwidth);
  }
  Publish();
}

std::shared_ptr<const ModelSnapshot> Model::snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  return snapshot_;
}

Model::Estimators Model::CreateEstimators(const absl::StatusOr<double>& bandwidth) const {
  Estimators estimators;
  const auto fail = [&estimators](const absl::Status& status) {
    estimators.bandwidth_error =
        absl::StrCat(status.message(),
                     ": create the model with a fixed bandwidth, or with a warm-up whose "
                     "predictions differ more");
    estimators.blocks.clear();
    return std::move(estimators);
  };
  if (!bandwidth.ok()) {
    return fail(bandwidth.status());
  }
  const absl::StatusOr<Kernel> kernel = Kernel::ExponentialTotalVariation(*bandwidth);
  if (!kernel.ok()) {
    return fail(kernel.status());
  }
  for (const std::size_t block_size : declaration_.block_sizes) {
    absl::StatusOr<RunningBlockSkce> block =
        RunningBlockSkce::Create(block_size, declaration_.class_count, *kernel);
    if (!block.ok()) {
      return fail(block.status());
    }
    estimators.blocks.push_back(*std::move(block));
  }
  estimators.bandwidth = *bandwidth;
  return estimators;
}

void Model::Apply(const PredictionBatch& batch, std::int64_t dropped_rows,
                  ModelSnapshot::Time now) {
  // The rows that belong to the warm-up. The window is at least as large, so
  // that it holds all of them until the bandwidth is known.
  const std::size_t missing =
      warming_up() ? declaration_.warmup - static_cast<std::size_t>(state_.observations) : 0;
  const std::size_t head = std::min(missing, batch.size());
  const std::size_t rest = batch.size() - head;
  const std::size_t kept_rest = std::min(rest, declaration_.window);
  const bool completes_warmup = missing > 0 && head == missing;

  // All that may fail comes before anything changes.
  window_.Reserve(head + kept_rest);
  PredictionSet warmup;
  Estimators estimators;
  if (completes_warmup) {
    warmup = window_.View().CopyNewest(window_.size());
    const PredictionBatch rows = batch.rows(0, head);
    warmup.probabilities.insert(warmup.probabilities.end(), rows.probabilities.begin(),
                                rows.probabilities.end());
    warmup.labels.insert(warmup.labels.end(), rows.labels.begin(), rows.labels.end());
    estimators = CreateEstimators(MedianBandwidth(warmup.probabilities, declaration_.class_count));
  }

  if (completes_warmup) {
    estimators_ = std::move(estimators);
    Add(warmup.view(), estimators_.blocks);
  }
  window_.Append(batch.rows(0, head));
  Add(batch.rows(head, rest), estimators_.blocks);
  window_.Append(batch.rows(batch.size() - kept_rest, kept_rest));
  state_.observations += static_cast<std::int64_t>(batch.size());
  ++state_.accepted_batches;
  AddSaturating(state_.dropped_rows, dropped_rows);
  state_.last_observation_time = now;
}

void Model::CountRejected(std::int64_t rows) noexcept {
  ++state_.rejected_batches;
  AddSaturating(state_.rejected_rows, rows);
}

void Model::Publish() {
  auto snapshot = std::make_shared<ModelSnapshot>(state_);
  snapshot->bandwidth = estimators_.bandwidth;
  snapshot->bandwidth_error = estimators_.bandwidth_error;
  snapshot->blocks.reserve(estimators_.blocks.size());
  for (const RunningBlockSkce& block : estimators_.blocks) {
    snapshot->blocks.push_back(
        {.block_size = block.block_size(), .moments = block.moments(), .pending = block.pending()});
  }
  snapshot->window = window_.View();
  std::shared_ptr<const ModelSnapshot> published = std::move(snapshot);
  const std::lock_guard lock(snapshot_mutex_);
  // The older one is freed after the lock is released, by its last holder.
  snapshot_.swap(published);
}

}  // namespace calibd::server
