#include "support/memory_store.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::testing {
namespace {

using server::MakeError;
using server::Outcome;

// The ids of an owner are above those of all earlier owners, as in a store on several machines.
constexpr int kOwnerShift = 40;
constexpr std::int64_t kIdStep = 7;

absl::Status StatusOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCommitted:
      return absl::OkStatus();
    case Outcome::kRefused:
      return MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", "the memory is full");
    case Outcome::kFenced:
      return absl::AbortedError("another owner has the store");
    case Outcome::kUnknown:
      return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", "the commit has no answer");
  }
  std::abort();
}

}  // namespace

MemoryStore::MemoryStore(std::shared_ptr<MemoryDisk> disk)
    : disk_(std::move(disk)),
      owner_([this] {
        const std::lock_guard lock(disk_->mutex_);
        return ++disk_->owner_;
      }()),
      next_log_id_(owner_ << kOwnerShift) {}

void MemoryStore::SetNextOutcome(Outcome outcome, bool durable) {
  next_outcome_ = outcome;
  next_is_durable_ = durable;
}

template <typename Apply>
absl::Status MemoryStore::EndTransaction(const Apply& apply) {
  if (disk_->owner_ != owner_) return StatusOf(Outcome::kFenced);
  if (std::exchange(next_is_durable_, true)) {
    apply();
    EraseReleased();
  }
  return StatusOf(std::exchange(next_outcome_, Outcome::kCommitted));
}

void MemoryStore::EraseReleased() {
  for (const std::int64_t log_id : std::exchange(released_, {})) disk_->Release(log_id);
}

absl::Status MemoryStore::ReadLog(const server::VisitBatch& visit) {
  const std::lock_guard lock(disk_->mutex_);
  for (const auto& [log_id, batch] : disk_->log_) {
    absl::Status status = visit({.log_id = log_id,
                                 .model_id = batch.model_id,
                                 .time_us = batch.time_us,
                                 .data = batch.data});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void MemoryStore::FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) {
  DropBatches(unneeded_log_ids);
}

std::int64_t MemoryStore::last_log_id() const {
  const std::lock_guard lock(disk_->mutex_);
  return disk_->last_log_id_;
}

std::int64_t MemoryStore::AppendBatch(std::int64_t model_id, std::int64_t time_us,
                                      std::string data) {
  next_log_id_ += kIdStep;
  appended_[next_log_id_] = {.model_id = model_id, .time_us = time_us, .data = std::move(data)};
  return next_log_id_;
}

std::size_t MemoryStore::appended_bytes() const {
  std::size_t bytes = 0;
  for (const auto& [log_id, batch] : appended_) bytes += 1 + batch.data.size();
  return bytes;
}

absl::Status MemoryStore::CommitLog() {
  const std::lock_guard lock(disk_->mutex_);
  if (appended_.empty()) {
    EraseReleased();
    return absl::OkStatus();
  }
  absl::Status status = EndTransaction([this] {
    disk_->last_log_id_ = appended_.rbegin()->first;
    disk_->log_.merge(appended_);
  });
  if (status.ok()) appended_.clear();
  return status;
}

absl::Status MemoryStore::ReadBatches(std::span<const std::int64_t> log_ids,
                                      const server::VisitData& visit) {
  const std::lock_guard lock(disk_->mutex_);
  for (const std::int64_t log_id : log_ids) {
    const auto& rows = appended_.contains(log_id) ? appended_ : disk_->log_;
    const auto batch = rows.find(log_id);
    absl::Status status =
        batch == rows.end()
            ? absl::DataLossError(absl::StrCat("the store lacks batch ", log_id, " of the log"))
            : visit(batch->second.data);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void MemoryStore::ReleaseBatches(std::span<const std::int64_t> log_ids) {
  released_.insert(released_.end(), log_ids.begin(), log_ids.end());
}

void MemoryStore::DropBatches(std::span<const std::int64_t> log_ids) {
  const std::lock_guard lock(disk_->mutex_);
  if (disk_->owner_ != owner_) return;
  for (const std::int64_t log_id : log_ids) disk_->Release(log_id);
}

absl::Status MemoryStore::ReadModels(
    const std::function<absl::Status(const server::StoredModel&)>& visit) {
  const std::lock_guard lock(disk_->mutex_);
  for (const auto& [id, model] : disk_->catalog_.models) {
    server::StoredModel stored{.id = id,
                               .declaration = {},
                               .snapshot = model.snapshot,
                               .snapshot_log_id = model.snapshot_log_id,
                               .first_log_id = model.first_log_id,
                               .matured_log_id = model.matured_log_id};
    if (!stored.declaration.ParseFromString(model.declaration)) {
      return absl::DataLossError("a declaration cannot be parsed");
    }
    if (absl::Status status = visit(stored); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status MemoryStore::ReadCursors(
    const std::function<absl::Status(const server::StoredCursor&)>& visit) {
  const std::lock_guard lock(disk_->mutex_);
  for (const auto& [key, cursor] : disk_->catalog_.cursors) {
    absl::Status status = visit({.model_id = key.first,
                                 .producer_id = key.second,
                                 .epoch = cursor.epoch,
                                 .last_sequence = cursor.last_sequence,
                                 .contents = cursor.contents});
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::int64_t MemoryStore::next_model_id() const {
  const std::lock_guard lock(disk_->mutex_);
  return disk_->catalog_.next_model_id;
}

absl::Status MemoryStore::Begin() {
  const std::lock_guard lock(disk_->mutex_);
  catalog_ = disk_->catalog_;
  return absl::OkStatus();
}

absl::Status MemoryStore::Commit() {
  const std::lock_guard lock(disk_->mutex_);
  absl::Status status = EndTransaction([this] { disk_->catalog_ = *catalog_; });
  if (status.ok()) catalog_.reset();
  return status;
}

absl::Status MemoryStore::InsertModel(std::int64_t id, const v1::Model& declaration) {
  catalog_->next_model_id = std::max(catalog_->next_model_id, id + 1);
  const auto [model, is_new] = catalog_->models.try_emplace(id);
  model->second.declaration = declaration.SerializeAsString();
  return is_new ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("there is a model ", id));
}

absl::Status MemoryStore::DeleteModel(std::int64_t id) {
  catalog_->models.erase(id);
  std::erase_if(catalog_->cursors, [id](const auto& entry) { return entry.first.first == id; });
  std::erase_if(catalog_->history, [id](const auto& entry) { return entry.first.model_id == id; });
  return absl::OkStatus();
}

absl::Status MemoryStore::PutCursor(const server::StoredCursor& cursor) {
  catalog_->cursors[{cursor.model_id, cursor.producer_id}] = {
      .epoch = cursor.epoch,
      .last_sequence = cursor.last_sequence,
      .contents = std::string(cursor.contents)};
  return absl::OkStatus();
}

absl::Status MemoryStore::DeleteCursor(std::int64_t model_id, std::string_view producer_id) {
  catalog_->cursors.erase({model_id, std::string(producer_id)});
  return absl::OkStatus();
}

absl::Status MemoryStore::PutSnapshot(const server::StoredSnapshot& snapshot) {
  MemoryDisk::Model& model = catalog_->models[snapshot.model_id];
  model.snapshot = snapshot.data;
  model.snapshot_log_id = snapshot.log_id;
  model.first_log_id = snapshot.first_log_id;
  if (snapshot.matured_log_id != 0) model.matured_log_id = snapshot.matured_log_id;
  return absl::OkStatus();
}

absl::Status MemoryStore::PutHistory(const server::StoredBucket& bucket) {
  catalog_->history[bucket.series][bucket.start_s] = bucket.data;
  return absl::OkStatus();
}

absl::Status MemoryStore::DeleteHistory(const server::HistorySeries& series,
                                        std::int64_t before_s) {
  auto& buckets = catalog_->history[series];
  buckets.erase(buckets.begin(), buckets.lower_bound(before_s));
  if (buckets.empty()) catalog_->history.erase(series);
  return absl::OkStatus();
}

absl::Status MemoryStore::ReadHistory(const server::HistorySeries& series,
                                      const server::HistoryRange& range,
                                      const server::VisitHistory& visit) const {
  const std::lock_guard lock(disk_->mutex_);
  const auto buckets = disk_->catalog_.history.find(series);
  if (buckets == disk_->catalog_.history.end()) return absl::OkStatus();
  const auto end = buckets->second.lower_bound(range.end_s);
  for (auto at = buckets->second.lower_bound(range.start_s); at != end; ++at) {
    if (absl::Status status = visit(at->first, at->second); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<server::HistorySeries>> MemoryStore::NextHistory(
    const server::HistorySeries& after) const {
  const std::lock_guard lock(disk_->mutex_);
  const auto next = disk_->catalog_.history.upper_bound(after);
  if (next == disk_->catalog_.history.end()) return std::nullopt;
  return next->first;
}

absl::StatusOr<std::unique_ptr<server::StoreView>> MemoryStore::OpenView() {
  return MakeError(absl::StatusCode::kUnimplemented, "STORE_WITHOUT_BACKUP",
                   "a store in memory cannot be backed up or verified");
}

server::StoreMaintenance::Sizes MemoryStore::sizes() const {
  const std::lock_guard lock(disk_->mutex_);
  Sizes sizes;
  for (const auto& [log_id, batch] : disk_->log_) {
    sizes.log_bytes += static_cast<std::int64_t>(batch.data.size());
  }
  for (const auto& [id, model] : disk_->catalog_.models) {
    sizes.catalog_bytes += static_cast<std::int64_t>(model.snapshot.size());
  }
  return sizes;
}

void MemoryStore::Rollback() {
  appended_.clear();
  released_.clear();
  catalog_.reset();
}

}  // namespace calibd::testing
