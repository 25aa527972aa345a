#ifndef CALIBD_SERVER_STORE_LOCAL_STORE_H_
#define CALIBD_SERVER_STORE_LOCAL_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
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
#include "calibd/v1/model_service.pb.h"
#include "server/store/local/log_files.h"
#include "server/store/local/open_store.h"
#include "server/store/local/sqlite.h"

namespace calibd::server {

// The store on the disk: models, the log of their batches, the positions of their producers, and
// snapshots of their state. A folder that one process holds at a time; FORMAT.md describes it. The
// log is written to files of its own (LogFiles); the rest, and what is still needed of older
// files, is an SQLite database. The log is never behind the database. Not thread-safe.
//
// Whatever is read is checked. Errors: those of sqlite.h and LogFiles; DataLoss when something is
// damaged or missing, and it says what to do.
class Store {
 public:
  // Opens the store of a folder. Creates it if neither the folder nor any file of a store exists;
  // upgrades an older one. segment_bytes: see LogFiles.
  // Errors also: FailedPrecondition when another process holds the folder, the database is
  // another program's, or a newer calibd wrote it. DataLoss when files are missing, or are not of
  // one store; then nothing has changed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Store>> Open(
      const std::string& folder, std::uint64_t segment_bytes = LogFiles::kSegmentBytes);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  struct StoredModel {
    std::int64_t id = 0;
    // As the model was created, create_time set.
    v1::Model declaration;
    // Data of the newest snapshot; empty before the first one. It includes all batches up to
    // `snapshot_log_id`.
    std::string snapshot;
    std::int64_t snapshot_log_id = 0;
    // Id of the first batch of the log that is needed, as of the snapshot.
    std::int64_t first_log_id = 0;
    // Predictions up to this batch have matured, as of the snapshot or later.
    std::int64_t matured_log_id = 0;
  };
  // By id, ascending; checks models, snapshots, maturity and the summaries of the history. Visitors
  // end the reading by an error.
  [[nodiscard]] absl::Status ReadModels(
      const std::function<absl::Status(const StoredModel&)>& visit) const;

  struct StoredCursor {
    std::int64_t model_id = 0;
    std::string producer_id;
    std::int64_t epoch = 0;
    std::int64_t last_sequence = 0;
    // See ProducerCursors.
    std::string_view contents;
  };
  [[nodiscard]] absl::Status ReadCursors(
      const std::function<absl::Status(const StoredCursor&)>& visit) const;

  // Once, before anything is written to the log or asked of it: see LogFiles::Read. In the order
  // of the log; also batches that are not needed any more, as far as the files still hold them.
  [[nodiscard]] absl::Status ReadLog(const VisitBatch& visit);
  // All that was read is consistent. These batches of it are not needed. Only after this, Close
  // says that the store is whole.
  void FinishRecovery(std::span<const std::int64_t> unneeded_log_ids);
  // Findings of Open that may be the end of a write that was cut short, or damage: one sentence
  // each.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  // The unreadable end of the log. Known after ReadLog.
  [[nodiscard]] const std::optional<LogTail>& log_tail() const noexcept { return log_->tail(); }

  // The data of one batch that is committed or appended.
  [[nodiscard]] absl::StatusOr<std::string> ReadBatch(std::int64_t log_id);

  // ---- Writes to the log

  // Returns the batch's number in the log, above all before it.
  std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us, std::string data);
  [[nodiscard]] std::size_t appended_bytes() const noexcept { return log_->appended_bytes(); }
  // Commits the appended batches: all are on disk when this returns OK, and none after any error
  // and Rollback.
  [[nodiscard]] absl::Status CommitLog();

  // ---- Writes to the database

  // A transaction: all writes between Begin and Commit are on disk when Commit returns OK, and none
  // after any error and Rollback.
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status Commit();

  // Ids are never reused.
  [[nodiscard]] absl::Status InsertModel(std::int64_t id, const v1::Model& declaration);
  // With its cursors, snapshot, maturity and history; its batches are for ReleaseBatches.
  [[nodiscard]] absl::Status DeleteModel(std::int64_t id);
  [[nodiscard]] absl::Status PutCursor(const StoredCursor& cursor);
  struct Snapshot {
    std::int64_t model_id = 0;
    std::int64_t log_id = 0;
    std::string_view data;
    std::int64_t first_log_id = 0;
    // 0: no prediction has.
    std::int64_t matured_log_id = 0;
  };
  [[nodiscard]] absl::Status PutSnapshot(const Snapshot& snapshot);
  // A closed span of a model's history.
  struct StoredBucket {
    std::int64_t model_id = 0;
    // A HistoryResolution.
    std::int64_t resolution = 0;
    // Seconds since 1970.
    std::int64_t start_s = 0;
    // A store.v1.HistoryBucket.
    std::string data;
  };
  // Replaces the bucket with the same start, if there is one.
  [[nodiscard]] absl::Status PutHistory(const StoredBucket& bucket);
  // Deletes the buckets of the resolution that start before before_s, in seconds since 1970.
  [[nodiscard]] absl::Status DeleteHistory(std::int64_t model_id, std::int64_t resolution,
                                           std::int64_t before_s);

  // ---- Both

  // These batches are not needed once the pending writes are committed.
  void ReleaseBatches(std::span<const std::int64_t> log_ids);
  void Rollback();
  // These batches are not needed, whether the pending writes are committed or not.
  void DropBatches(std::span<const std::int64_t> log_ids);

  // Takes the oldest file of the log away if it is time for it, step by step, each at most a
  // transaction: what is needed of it goes into the database first. Between transactions.
  // Returns whether there is more to do at once.
  [[nodiscard]] absl::StatusOr<bool> Retire();

  // The files of the log stay as they are, but for what is appended, until ReleaseLog. A copy of
  // the database, made from now on, and what extents() says later of the log are a store.
  void HoldLog() noexcept { log_->Hold(); }
  void ReleaseLog() { log_->Release(); }
  [[nodiscard]] std::vector<LogFiles::Extent> extents() const { return log_->extents(); }

  // The log's next, after ReadLog.
  [[nodiscard]] std::int64_t next_log_id() const noexcept { return log_->next_log_id(); }
  // Bytes written in the files of the log. Any thread; known after ReadLog.
  [[nodiscard]] std::int64_t log_bytes() const noexcept { return log_->written_bytes(); }
  // Disk that the files of the log occupy, written or not.
  [[nodiscard]] std::int64_t log_file_bytes() const noexcept { return log_->bytes(); }
  // Bytes that the log's newest file can still take. After ReadLog.
  [[nodiscard]] std::uint64_t log_room() const noexcept { return log_->room(); }
  // Above the ids of all models ever.
  [[nodiscard]] std::int64_t next_model_id() const noexcept { return state_.next_model_id; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Checks that the file `store` is as it was written. Errors: DataLoss if it is not.
  [[nodiscard]] absl::Status CheckMark() const;
  // Checks that the files are still those that were opened. Errors: DataLoss if one was removed or
  // replaced.
  [[nodiscard]] absl::Status CheckInPlace() const;
  // Pages of the write-ahead log after the newest commit.
  [[nodiscard]] int wal_pages() const noexcept { return wal_pages_; }
  // Moves all of the write-ahead log into the database, and begins it anew.
  [[nodiscard]] absl::Status Checkpoint();

  // Closes the database, and notes that the store was closed in order and how far it has come: the
  // next start then expects exactly that. Between transactions, after FinishRecovery, and when
  // nothing failed. Nothing else may be called after it.
  [[nodiscard]] absl::Status Close();

 private:
  struct Statements;
  Store(std::string path, File lock, StoreParts parts);

  [[nodiscard]] absl::Status Prepare();
  [[nodiscard]] absl::Status CheckHistorySpans() const;
  // Before anything is written: a store that was closed in order is so no longer.
  [[nodiscard]] absl::Status MarkOpen();
  // Notes how far the store has come.
  void Mark() noexcept;
  void ApplyReleased() { DropBatches(std::exchange(released_, {})); }

  const std::string path_;
  const File lock_;
  mutable Database database_;
  // As it is in the transaction, and as it was after the newest commit.
  DatabaseState state_;
  DatabaseState committed_;
  StoreFile file_;
  std::vector<std::string> warnings_;
  std::unique_ptr<Statements> statements_;
  std::unique_ptr<LogFiles> log_;
  bool recovered_ = false;
  // Batches below this are in the database: those before the oldest file, and those of it that
  // were copied.
  std::int64_t copied_until_ = 0;
  // Batches that the pending writes release.
  std::vector<std::int64_t> released_;
  // Rows of the database that nobody needs; they go with its transactions.
  std::deque<std::int64_t> stale_;
  int wal_pages_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_STORE_H_
