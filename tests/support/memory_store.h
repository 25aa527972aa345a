#ifndef CALIBD_TESTS_SUPPORT_MEMORY_STORE_H_
#define CALIBD_TESTS_SUPPORT_MEMORY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/store.h"

namespace calibd::testing {

// The contents of memory stores. It outlives them like a disk: a store that is opened on it finds
// what earlier ones committed.
class MemoryDisk {
 public:
  // keeps: whether a batch of the log stays on the disk although it is not needed.
  explicit MemoryDisk(std::function<bool(std::int64_t log_id)> keeps = nullptr)
      : keeps_(std::move(keeps)) {}

 private:
  friend class MemoryStore;

  struct Batch {
    std::int64_t model_id = 0;
    std::int64_t time_us = 0;
    std::string data;
  };
  struct Model {
    std::string declaration;
    std::string snapshot = {};
    std::int64_t snapshot_log_id = 0;
    std::int64_t first_log_id = 0;
    std::int64_t matured_log_id = 0;
  };
  struct Cursor {
    std::int64_t epoch = 0;
    std::int64_t last_sequence = 0;
    std::string contents;
  };
  struct Catalog {
    std::int64_t next_model_id = 1;
    std::map<std::int64_t, Model> models;
    // The cursors by model and producer.
    std::map<std::pair<std::int64_t, std::string>, Cursor> cursors;
    std::map<server::HistorySeries, std::map<std::int64_t, std::string>> history;
  };

  // Requires mutex_ to be held.
  void Release(std::int64_t log_id) {
    if (keeps_ == nullptr || !keeps_(log_id)) log_.erase(log_id);
  }

  const std::function<bool(std::int64_t)> keeps_;
  std::mutex mutex_;
  std::int64_t owner_ = 0;             // guarded by mutex_
  std::map<std::int64_t, Batch> log_;  // guarded by mutex_
  std::int64_t last_log_id_ = 0;       // guarded by mutex_
  Catalog catalog_;                    // guarded by mutex_
};

// A store in memory whose transactions have the outcomes that a test sets. There are gaps between
// all log ids, as in a store on several machines. Opening a second store on the same disk fences
// the first.
class MemoryStore final : public server::Store {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryDisk> disk);

  // Sets the outcome of the next committed transaction. durable: for kUnknown, whether it is really
  // committed.
  void SetNextOutcome(server::Outcome outcome, bool durable = false);

  [[nodiscard]] absl::Status ReadLog(const server::VisitBatch& visit) override;
  void FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) override;
  [[nodiscard]] const std::optional<server::LostTail>& lost_tail() const override { return tail_; }
  [[nodiscard]] std::int64_t last_log_id() const override;
  std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us, std::string data) override;
  [[nodiscard]] std::size_t appended_bytes() const override;
  [[nodiscard]] absl::Status CommitLog() override;
  [[nodiscard]] absl::Status ReadBatches(std::span<const std::int64_t> log_ids,
                                         const server::VisitData& visit) override;
  void ReleaseBatches(std::span<const std::int64_t> log_ids) override;
  void DropBatches(std::span<const std::int64_t> log_ids) override;

  [[nodiscard]] absl::Status ReadModels(
      const std::function<absl::Status(const server::StoredModel&)>& visit) override;
  [[nodiscard]] absl::Status ReadCursors(
      const std::function<absl::Status(const server::StoredCursor&)>& visit) override;
  [[nodiscard]] std::int64_t next_model_id() const override;
  [[nodiscard]] absl::Status Begin() override;
  [[nodiscard]] absl::Status Commit() override;
  [[nodiscard]] absl::Status InsertModel(std::int64_t id, const v1::Model& declaration) override;
  [[nodiscard]] absl::Status DeleteModel(std::int64_t id) override;
  [[nodiscard]] absl::Status PutCursor(const server::StoredCursor& cursor) override;
  [[nodiscard]] absl::Status DeleteCursor(std::int64_t model_id,
                                          std::string_view producer_id) override;
  [[nodiscard]] absl::Status PutSnapshot(const server::StoredSnapshot& snapshot) override;
  [[nodiscard]] absl::Status PutHistory(const server::StoredBucket& bucket) override;
  [[nodiscard]] absl::Status DeleteHistory(const server::HistorySeries& series,
                                           std::int64_t before_s) override;
  [[nodiscard]] absl::Status ReadHistory(const server::HistorySeries& series,
                                         const server::HistoryRange& range,
                                         const server::VisitHistory& visit) const override;
  [[nodiscard]] absl::StatusOr<std::optional<server::HistorySeries>> NextHistory(
      const server::HistorySeries& after) const override;

  [[nodiscard]] const std::vector<std::string>& warnings() const override { return warnings_; }
  // Returns Unimplemented.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<server::StoreView>> OpenView() override;
  [[nodiscard]] absl::StatusOr<bool> Maintain(bool /*refused*/) override { return false; }
  void KeepLog(std::int64_t /*from_log_id*/) override {}
  [[nodiscard]] std::int64_t LogBytesFrom(std::int64_t /*log_id*/) const override { return 0; }
  [[nodiscard]] std::string id() const override { return {}; }
  [[nodiscard]] absl::Status CheckRoom(std::uint64_t /*bytes*/) const override {
    return absl::OkStatus();
  }
  [[nodiscard]] std::uint64_t log_room() const override { return 0; }
  [[nodiscard]] absl::Status CheckInPlace() const override { return absl::OkStatus(); }
  [[nodiscard]] Sizes sizes() const override;
  [[nodiscard]] std::optional<Space> space() const override { return std::nullopt; }

  void Rollback() override;
  [[nodiscard]] absl::Status Close() override { return absl::OkStatus(); }

 private:
  // Determines the outcome of a transaction, and applies it if it is durable. Requires
  // disk_->mutex_ to be held.
  template <typename Apply>
  absl::Status EndTransaction(const Apply& apply);
  // Requires disk_->mutex_ to be held.
  void EraseReleased();

  const std::shared_ptr<MemoryDisk> disk_;
  // The number of this store among the stores of the disk, from 1 on.
  const std::int64_t owner_;
  std::int64_t next_log_id_;
  std::map<std::int64_t, MemoryDisk::Batch> appended_;
  std::vector<std::int64_t> released_;
  // The catalog including the writes since Begin.
  std::optional<MemoryDisk::Catalog> catalog_;
  server::Outcome next_outcome_ = server::Outcome::kCommitted;
  bool next_is_durable_ = true;
  const std::optional<server::LostTail> tail_;
  const std::vector<std::string> warnings_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_MEMORY_STORE_H_
