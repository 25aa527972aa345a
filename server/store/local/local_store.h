#ifndef CALIBD_SERVER_STORE_LOCAL_LOCAL_STORE_H_
#define CALIBD_SERVER_STORE_LOCAL_LOCAL_STORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/checkpointer.h"
#include "server/store/local/log_files.h"
#include "server/store/local/open_store.h"
#include "server/store/local/sqlite.h"
#include "server/store/store.h"

namespace calibd::server {

// A store in a folder, which one process at a time may hold; FORMAT.md describes it. The log is
// written to its own files (LogFiles), and everything else to an SQLite database. The log is never
// behind the database. Everything that is read is checked. Errors: those of Store, sqlite.h and
// LogFiles.
class LocalStore final : public Store {
 public:
  // Opens the store of a folder. Creates it if neither the folder nor any file of a store exists.
  // segment_bytes: see LogFiles. Errors: also FailedPrecondition if another
  // process holds the folder, the database belongs to another program, or a newer calibd wrote it;
  // DataLoss if files are missing or belong to different stores, after which nothing has changed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<LocalStore>> Open(
      const std::string& folder, std::uint64_t segment_bytes = LogFiles::kSegmentBytes);
  ~LocalStore() override;
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  // ---- Log

  [[nodiscard]] absl::Status ReadLog(const VisitBatch& visit) override;
  void FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) override;
  [[nodiscard]] const std::optional<LostTail>& lost_tail() const override { return lost_tail_; }
  [[nodiscard]] std::int64_t last_log_id() const override { return log_->next_log_id() - 1; }
  std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us, std::string data) override;
  [[nodiscard]] std::size_t appended_bytes() const override { return log_->appended_bytes(); }
  [[nodiscard]] absl::Status CommitLog() override;
  [[nodiscard]] absl::Status ReadBatches(std::span<const std::int64_t> log_ids,
                                         const VisitData& visit) override;
  void ReleaseBatches(std::span<const std::int64_t> log_ids) override;
  void DropBatches(std::span<const std::int64_t> log_ids) override;

  // ---- Catalog

  // Also checks snapshots, maturity and the summaries of the history.
  [[nodiscard]] absl::Status ReadModels(
      const std::function<absl::Status(const StoredModel&)>& visit) override;
  [[nodiscard]] absl::Status ReadCursors(
      const std::function<absl::Status(const StoredCursor&)>& visit) override;
  [[nodiscard]] std::int64_t next_model_id() const override { return state_.next_model_id; }
  [[nodiscard]] absl::Status Begin() override;
  [[nodiscard]] absl::Status Commit() override;
  [[nodiscard]] absl::Status InsertModel(std::int64_t id, const v1::Model& declaration) override;
  [[nodiscard]] absl::Status DeleteModel(std::int64_t id) override;
  [[nodiscard]] absl::Status PutCursor(const StoredCursor& cursor) override;
  [[nodiscard]] absl::Status DeleteCursor(std::int64_t model_id,
                                          std::string_view producer_id) override;
  [[nodiscard]] absl::Status PutSnapshot(const StoredSnapshot& snapshot) override;
  [[nodiscard]] absl::Status PutHistory(const StoredBucket& bucket) override;
  [[nodiscard]] absl::Status DeleteHistory(const HistorySeries& series,
                                           std::int64_t before_s) override;
  // Each call opens a connection of its own.
  [[nodiscard]] absl::Status ReadHistory(const HistorySeries& series, const HistoryRange& range,
                                         const VisitHistory& visit) const override;
  [[nodiscard]] absl::StatusOr<std::optional<HistorySeries>> NextHistory(
      const HistorySeries& after) const override;

  // ---- Maintenance

  [[nodiscard]] const std::vector<std::string>& warnings() const override { return warnings_; }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<StoreView>> OpenView() override;
  // Checkpoints if the write-ahead log is long or the disk is full, then retires.
  [[nodiscard]] absl::StatusOr<bool> Maintain(bool refused) override;
  void KeepLog(std::int64_t from_log_id) override { log_->KeepFrom(from_log_id); }
  [[nodiscard]] std::int64_t LogBytesFrom(std::int64_t log_id) const override {
    return log_->BytesFrom(log_id);
  }
  [[nodiscard]] std::string id() const override { return std::string(state_.id.view()); }
  [[nodiscard]] absl::Status CheckRoom(std::uint64_t bytes) const override;
  [[nodiscard]] std::uint64_t log_room() const override { return log_->room(); }
  [[nodiscard]] absl::Status CheckInPlace() const override;
  [[nodiscard]] Sizes sizes() const override;
  [[nodiscard]] std::optional<Space> space() const override;

  void Rollback() override;
  [[nodiscard]] absl::Status Close() override;

  // ---- For LocalView and tests

  // The path of the database.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string folder() const;
  // Removes the oldest file of the log, or does a step of a compaction, if either is due. Between
  // transactions. Returns whether there is more to do at once.
  [[nodiscard]] absl::StatusOr<bool> Retire();
  // Until ReleaseLog, the files of the log change only by appended batches.
  void HoldLog() noexcept { log_->Hold(); }
  void ReleaseLog() { log_->Release(); }
  [[nodiscard]] std::vector<LogFiles::Extent> extents() const { return log_->extents(); }
  // Checks that the file `store` has the content that was written. Errors: DataLoss otherwise.
  [[nodiscard]] absl::Status CheckMark() const;
  // Number of pages in the write-ahead log after the newest commit.
  [[nodiscard]] int wal_pages() const noexcept { return wal_pages_; }
  // Copies the complete write-ahead log into the database, so that it starts anew.
  [[nodiscard]] absl::Status Checkpoint();

 private:
  struct Statements;
  LocalStore(std::string path, File lock, StoreParts parts);

  [[nodiscard]] absl::Status Prepare();
  [[nodiscard]] absl::Status CheckHistorySpans() const;
  // Removes the oldest file of the log, none of whose batches is needed.
  [[nodiscard]] absl::Status RemoveOldest();
  // Call it before every write: it records that the store is no longer closed properly. Errors:
  // also those of the background checkpoint.
  [[nodiscard]] absl::Status BeginWrite();
  // Writes the position of the store to the file `store`.
  void Mark() noexcept;
  void ApplyReleased() { DropBatches(std::exchange(released_, {})); }
  // Returns a connection whose reads all show the state of the database at the first read.
  [[nodiscard]] absl::StatusOr<Database> OpenSnapshot() const;

  const std::string path_;
  const File lock_;
  Database database_;
  // The state within the transaction, and after the newest commit.
  DatabaseState state_;
  DatabaseState committed_;
  StoreFile file_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Statements> statements_;
  std::unique_ptr<LogFiles> log_;
  std::optional<LostTail> lost_tail_;
  bool recovered_ = false;
  // Batches that the pending writes release.
  std::vector<std::int64_t> released_;
  int wal_pages_ = 0;
  // When Maintain last made a checkpoint because the disk was full, and when it may retire again.
  std::chrono::steady_clock::time_point checkpoint_at_{};
  std::chrono::steady_clock::time_point retires_at_{};
  std::unique_ptr<Checkpointer> checkpointer_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_LOCAL_STORE_H_
