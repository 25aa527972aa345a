#ifndef CALIBD_SERVER_STORE_POSTGRES_POSTGRES_STORE_H_
#define CALIBD_SERVER_STORE_POSTGRES_POSTGRES_STORE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/postgres/log_tables.h"
#include "server/store/postgres/node.h"
#include "server/store/postgres/session.h"
#include "server/store/store.h"

namespace calibd::server {

// A store in a PostgreSQL database, which `calibd migrate` has made; FORMAT.md describes it. One
// owner at a time may write it: Own takes it when the former owner has left it or has expired, and
// transactions of the former owner are fenced from then on. While the database is away, all writes
// wait. Errors: those of Store, and FailedPrecondition if the database can never accept the
// statements.
class PostgresStore final : public Store {
 public:
  struct Settings {
    // See PgConnection::Open.
    std::string connection;
    // A generation of the log gets at least as many bytes.
    std::int64_t generation_bytes = std::int64_t{1} << 30;
    // A table is emptied if it was free for this long: until then, a pg_dump with an older snapshot
    // has locked it.
    std::chrono::milliseconds free_time = std::chrono::seconds(60);
    PgNodeTimes times{};
  };

  // Connects, and takes nothing. Errors: also FailedPrecondition if the database has no store, or a
  // newer calibd wrote it.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<PostgresStore>> Open(
      const Settings& settings);
  ~PostgresStore() override;
  PostgresStore(const PostgresStore&) = delete;
  PostgresStore& operator=(const PostgresStore&) = delete;

  // ---- Ownership

  [[nodiscard]] absl::Status Own(const std::string& address,
                                 const std::atomic<bool>& stop) override;
  [[nodiscard]] std::optional<Owner> other_owner() const override;
  [[nodiscard]] std::string owner_id() const override { return owner_; }
  [[nodiscard]] absl::Status CheckOwned() const override;
  void StopWaiting() override { session_.StopWaiting(); }
  [[nodiscard]] std::optional<bool> synchronous() const override { return node_.synchronous(); }

  // ---- Log

  [[nodiscard]] absl::Status ReadLog(const VisitBatch& visit) override;
  void FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) override;
  [[nodiscard]] const std::optional<LostTail>& lost_tail() const override { return lost_tail_; }
  [[nodiscard]] std::int64_t last_log_id() const override { return last_log_id_; }
  std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us, std::string data) override;
  [[nodiscard]] std::size_t appended_bytes() const override { return appended_bytes_; }
  [[nodiscard]] absl::Status CommitLog() override;
  [[nodiscard]] absl::Status ReadBatches(std::span<const std::int64_t> log_ids,
                                         const VisitData& visit) override;
  void ReleaseBatches(std::span<const std::int64_t> log_ids) override;
  void DropBatches(std::span<const std::int64_t> log_ids) override;

  // ---- Catalog. The writes of a transaction are kept until Commit sends them.

  [[nodiscard]] absl::Status ReadModels(
      const std::function<absl::Status(const StoredModel&)>& visit) override;
  [[nodiscard]] absl::Status ReadCursors(
      const std::function<absl::Status(const StoredCursor&)>& visit) override;
  [[nodiscard]] std::int64_t next_model_id() const override { return next_model_id_; }
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
  // These two do not wait while the database is away.
  [[nodiscard]] absl::Status ReadHistory(const HistorySeries& series, const HistoryRange& range,
                                         const VisitHistory& visit) const override;
  [[nodiscard]] absl::StatusOr<std::optional<HistorySeries>> NextHistory(
      const HistorySeries& after) const override;

  // ---- Maintenance

  [[nodiscard]] const std::vector<std::string>& warnings() const override { return warnings_; }
  // Returns Unimplemented.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<StoreView>> OpenView() override;
  // Begins a new generation of the log, or copies needed batches out of the oldest one.
  [[nodiscard]] absl::StatusOr<bool> Maintain(bool refused) override;
  // An archive needs a view, so these two are never called.
  void KeepLog(std::int64_t /*from_log_id*/) override {}
  [[nodiscard]] std::int64_t LogBytesFrom(std::int64_t /*log_id*/) const override { return 0; }
  [[nodiscard]] std::string id() const override { return id_; }
  // The next transaction finds out.
  [[nodiscard]] absl::Status CheckRoom(std::uint64_t /*bytes*/) const override {
    return absl::OkStatus();
  }
  [[nodiscard]] std::uint64_t log_room() const override { return 0; }
  // Each transaction checks the owner too, but there may be none for long.
  [[nodiscard]] absl::Status CheckInPlace() const override;
  [[nodiscard]] Sizes sizes() const override;
  [[nodiscard]] std::optional<Space> space() const override { return std::nullopt; }

  void Rollback() override;
  // Gives the store up for the next owner.
  [[nodiscard]] absl::Status Close() override;

 private:
  explicit PostgresStore(const Settings& settings);

  struct Appended {
    std::int64_t model_id = 0;
    std::int64_t time_us = 0;
    std::string data;
  };

  [[nodiscard]] absl::Status CheckDatabase(PgConnection& connection);
  // Takes the cell if it is free. Returns whether it was taken.
  [[nodiscard]] absl::StatusOr<bool> TryTake(PgConnection& connection);
  [[nodiscard]] absl::Status ReadTaken(PgConnection& connection, const PgRow& cell);
  [[nodiscard]] absl::Status CheckMarkers(PgConnection& connection) const;
  // Checks that the store is still that of this owner, and has what was acknowledged.
  [[nodiscard]] absl::Status CheckOwner(PgConnection& connection) const;
  // A statement of this cell; `fenced` ones have the owner too.
  [[nodiscard]] PgStatement Of(const PgQuery& query) const;
  [[nodiscard]] PgStatement Fenced(const PgQuery& query) const;
  void Write(PgStatement statement) { writes_.push_back(std::move(statement)); }
  [[nodiscard]] absl::Status CommitWrites(PgConnection& connection,
                                          PgConnection::Deadline deadline) const;
  void ApplyReleased();
  // Reads chunks of batches: all of one call fit into memory.
  [[nodiscard]] absl::Status ReadChunk(std::span<const std::int64_t> log_ids,
                                       const VisitData& visit);
  void BeginRotation();
  // Takes over the result of a rotation that has ended.
  void FinishRotation();
  // Does a step of the copying. Returns whether there is more to do.
  [[nodiscard]] absl::StatusOr<bool> CopyOld();
  void CountBytes();
  // Runs `read` on the connection for readers, which it opens if necessary.
  [[nodiscard]] absl::Status ReadAside(
      const std::function<absl::Status(PgConnection&)>& read) const;

  const Settings settings_;
  // 16 bytes that name this owner.
  const std::string owner_;
  PgNode node_;
  PgSession session_;
  std::string id_;
  enum class Phase { kStandby, kTakingOver, kOwner };
  std::atomic<Phase> phase_ = Phase::kStandby;
  mutable std::mutex other_mutex_;
  // Guarded by other_mutex_: nothing while nobody owns the store.
  std::optional<Owner> other_;
  std::int64_t epoch_ = 0;
  std::int64_t next_model_id_ = 1;
  std::int64_t next_log_id_ = 0;
  std::int64_t last_log_id_ = 0;
  // The table of that batch, unless it has been emptied since.
  std::int64_t last_table_ = 0;
  const std::optional<LostTail> lost_tail_;
  const std::vector<std::string> warnings_;
  bool recovered_ = false;

  LogTables tables_;
  // The batches of the current transaction; the last one has the id next_log_id_ - 1.
  std::vector<Appended> appended_;
  std::size_t appended_bytes_ = 0;
  // Batches that the pending writes release.
  std::vector<std::int64_t> released_;
  // The statements of the current transaction of the catalog, and next_model_id_ before it.
  std::vector<PgStatement> writes_;
  std::optional<std::int64_t> former_next_model_id_;

  // The generation after the rotation that is under way.
  std::future<absl::StatusOr<std::int64_t>> rotation_;
  std::chrono::steady_clock::time_point rotates_at_{};
  // When each table was last seen to become free. At the start, none was before.
  std::array<std::chrono::steady_clock::time_point, LogTables::kTables> freed_at_;

  std::atomic<std::int64_t> log_bytes_ = 0;
  std::atomic<std::int64_t> catalog_bytes_ = 0;
  std::atomic<std::int64_t> total_appended_bytes_ = 0;
  std::chrono::steady_clock::time_point counts_catalog_at_{};

  mutable std::mutex reader_mutex_;
  mutable std::unique_ptr<PgConnection> reader_;  // guarded by reader_mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_POSTGRES_STORE_H_
