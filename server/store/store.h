#ifndef CALIBD_SERVER_STORE_STORE_H_
#define CALIBD_SERVER_STORE_STORE_H_

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
#include "server/store/log_files.h"
#include "server/store/sqlite.h"

namespace calibd::server {

// What is kept on disk: models, the log of their batches, how far their producers have
// come, and snapshots of their state. A folder that one process holds at a time; FORMAT.md
// describes it. The log is written to files of its own (LogFiles); the rest, and what is still
// needed of older files, is an SQLite database. The log is never behind the database. Not
// thread-safe.
//
// Errors: those of sqlite.h and LogFiles.
class Store {
 public:
  // Makes the folder and what belongs into it where it is missing. segment_bytes: see LogFiles.
  // Errors also: FailedPrecondition when another process holds the folder, the file is
  // another program's, or a newer calibd wrote it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Store>> Open(
      const std::string& folder, std::uint64_t segment_bytes = LogFiles::kSegmentBytes);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  struct StoredModel {
    std::int64_t id = 0;
    // As the model was created, create_time set.
    v1::Model declaration;
    // Of the newest snapshot; empty if there is none yet. It holds what the batches up to
    // `snapshot_log_id` did.
    std::string snapshot;
    std::int64_t snapshot_log_id = 0;
    // What is needed of the log begins here, as of the snapshot.
    std::int64_t first_log_id = 0;
    // Predictions up to this batch have matured, as of the snapshot or later.
    std::int64_t matured_log_id = 0;
  };
  // By id, ascending. Visitors end the reading by an error.
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
  // of the log; also what is needed no more, as far as it is still in the files.
  [[nodiscard]] absl::Status ReadLog(const VisitBatch& visit);

  // The data of one batch that is committed or appended. Errors also: DataLoss when it is not
  // there.
  [[nodiscard]] absl::StatusOr<std::string> ReadBatch(std::int64_t log_id);

  // ---- What is written to the log

  // Returns the batch's number in the log, above all before it.
  std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us, std::string data);
  [[nodiscard]] std::size_t appended_bytes() const noexcept { return log_->appended_bytes(); }
  // All that was appended is on disk when this returns OK, and none of it after any error and
  // Rollback.
  [[nodiscard]] absl::Status CommitLog();

  // ---- What is written to the database

  // A transaction: what is written between Begin and Commit is on disk, all of it, when
  // Commit returns OK, and none of it after any error and Rollback.
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status Commit();

  // Ids are never used again.
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
  // In place of the one that begins then, if there is one.
  [[nodiscard]] absl::Status PutHistory(const StoredBucket& bucket);
  // Those of the resolution that begin before.
  [[nodiscard]] absl::Status DeleteHistory(std::int64_t model_id, std::int64_t resolution,
                                           std::int64_t before_s);

  // ---- Both

  // Nobody needs these batches once what is being written is committed.
  void ReleaseBatches(std::span<const std::int64_t> log_ids);
  void Rollback();
  // Nobody needs these batches, whatever becomes of what is being written.
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

  // What could not be read at the end of the log. After ReadLog.
  [[nodiscard]] const std::optional<LogTail>& log_tail() const noexcept { return log_->tail(); }
  // The log's next, after ReadLog.
  [[nodiscard]] std::int64_t next_log_id() const noexcept { return log_->next_log_id(); }
  // Of what is written in the files of the log. On any thread; known after ReadLog.
  [[nodiscard]] std::int64_t log_bytes() const noexcept { return log_->written_bytes(); }
  // Above the ids of all models ever.
  [[nodiscard]] std::int64_t next_model_id() const noexcept { return next_model_id_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // Pages of the write-ahead log after the newest commit.
  [[nodiscard]] int wal_pages() const noexcept { return wal_pages_; }
  // Moves all of the write-ahead log into the database, and begins it anew.
  [[nodiscard]] absl::Status Checkpoint();

 private:
  struct Statements;
  Store(std::string path, int lock, Database database);

  [[nodiscard]] absl::Status Prepare();
  [[nodiscard]] absl::Status OpenLog(const std::string& folder, std::uint64_t segment_bytes);
  // What was released is needed no more.
  void ApplyReleased() { DropBatches(std::exchange(released_, {})); }

  const std::string path_;
  // An open file whose lock says who holds the folder.
  const int lock_;
  mutable Database database_;
  std::unique_ptr<Statements> statements_;
  std::int64_t next_model_id_ = 1;
  std::unique_ptr<LogFiles> log_;
  // Batches below this are in the database: those before the oldest file, and those of it that
  // were copied.
  std::int64_t copied_until_ = 0;
  // By what is being written.
  std::vector<std::int64_t> released_;
  // Rows of the database that nobody needs; they go with its transactions.
  std::deque<std::int64_t> stale_;
  int wal_pages_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_STORE_H_
