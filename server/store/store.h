#ifndef CALIBD_SERVER_STORE_STORE_H_
#define CALIBD_SERVER_STORE_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"
#include "server/store/sqlite.h"

namespace calibd::server {

// What is kept on disk: models, the log of their batches, how far their producers have
// come, and snapshots of their state. One SQLite database in a folder that one process
// holds at a time; FORMAT.md describes it. Not thread-safe.
//
// Errors: those of sqlite.h.
class Store {
 public:
  // Makes the folder and the database where they are missing.
  // Errors also: FailedPrecondition when another process holds the folder, the file is
  // another program's, or a newer calibd wrote it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& folder);
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
    // Predictions up to this batch have matured.
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

  struct StoredBatch {
    std::int64_t log_id = 0;
    std::int64_t model_id = 0;
    // Microseconds since 1970.
    std::int64_t time_us = 0;
    // A store.v1.LoggedBatch.
    std::string_view data;
  };
  // In the order of the log.
  [[nodiscard]] absl::Status ReadLog(
      const std::function<absl::Status(const StoredBatch&)>& visit) const;

  // The data of one batch. Errors also: DataLoss when it is not there.
  [[nodiscard]] absl::StatusOr<std::string> ReadBatch(std::int64_t log_id);

  // A transaction: what is written between Begin and Commit is on disk, all of it, when
  // Commit returns OK, and none of it after any error and Rollback.
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status Commit();
  void Rollback();

  // Ids are never used again.
  [[nodiscard]] absl::Status InsertModel(std::int64_t id, const v1::Model& declaration);
  // With its cursors, snapshot, maturity and history; its batches are for DeleteBatches.
  [[nodiscard]] absl::Status DeleteModel(std::int64_t id);
  // Returns the batch's number in the log, above all before it.
  [[nodiscard]] absl::StatusOr<std::int64_t> AppendBatch(std::int64_t model_id,
                                                         std::int64_t time_us,
                                                         std::string_view data);
  [[nodiscard]] absl::Status PutCursor(const StoredCursor& cursor);
  [[nodiscard]] absl::Status PutSnapshot(std::int64_t model_id, std::int64_t log_id,
                                         std::string_view data);
  [[nodiscard]] absl::Status PutMaturity(std::int64_t model_id, std::int64_t matured_log_id);
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
  [[nodiscard]] absl::Status DeleteBatches(std::span<const std::int64_t> log_ids);

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

  const std::string path_;
  // An open file whose lock says who holds the folder.
  const int lock_;
  mutable Database database_;
  std::unique_ptr<Statements> statements_;
  std::int64_t next_model_id_ = 1;
  std::int64_t next_log_id_ = 1;
  int wal_pages_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_STORE_H_
