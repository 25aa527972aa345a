#include "server/store/postgres/postgres_store.h"

#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/store/postgres/migrate.h"
#include "server/store/postgres/pg_errors.h"
#include "server/store/postgres/queries.h"

namespace calibd::server {
namespace {

using std::chrono::steady_clock;

// The only cell.
constexpr std::int32_t kCell = 0;
// The ids of an owner are above those of all earlier owners.
constexpr int kEpochShift = 40;
// The cost of a batch in addition to its bytes.
constexpr std::size_t kBatchCost = 64;
constexpr std::size_t kReadBytes = std::size_t{4} << 20;
// How often a standby looks whether the store is free, and the longest wait for an answer.
constexpr std::chrono::milliseconds kPollInterval{200};
constexpr std::chrono::seconds kPollTime{5};
constexpr std::chrono::seconds kTakeReportInterval{10};

std::string RandomOwner() {
  std::string owner(16, '\0');
  if (getrandom(owner.data(), owner.size(), 0) != static_cast<ssize_t>(owner.size())) std::abort();
  return owner;
}

}  // namespace

PostgresStore::PostgresStore(const Settings& settings)
    : settings_(settings),
      owner_(RandomOwner()),
      node_(settings.connection, owner_, kCell, settings.times),
      session_(settings.connection,
               [this](PgConnection& connection) {
                 return phase_ == Phase::kStandby ? absl::OkStatus() : CheckOwner(connection);
               }),
      tables_(settings.generation_bytes) {
  freed_at_.fill(steady_clock::now());
}

PostgresStore::~PostgresStore() = default;

absl::StatusOr<std::unique_ptr<PostgresStore>> PostgresStore::Open(const Settings& settings) {
  CALIBD_ASSIGN_OR_RETURN(std::unique_ptr<PgConnection> connection,
                          PgConnection::Open(settings.connection));
  std::unique_ptr<PostgresStore> store(new PostgresStore(settings));
  CALIBD_RETURN_IF_ERROR(store->CheckDatabase(*connection));
  store->session_.Begin(std::move(connection));
  return store;
}

absl::Status PostgresStore::CheckDatabase(PgConnection& connection) {
  const auto deadline = steady_clock::now() + kPgAnswerTime;
  const absl::StatusOr<PgResult> meta = connection.RunOne({.query = &queries::kReadMeta}, deadline);
  if (absl::IsFailedPrecondition(meta.status())) {
    return PgError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("the database has no store that calibd may use: run `calibd "
                                "migrate` with the role that shall own it (",
                                meta.status().message(), ")"));
  }
  CALIBD_RETURN_IF_ERROR(meta.status());
  if (meta->rows() != 1) return PgDamage("has no state");
  const PgRow state = meta->row(0);
  if (state.Int4(0) != kPostgresFormat || state.Int4(1) != 1) return PgUnknownFormat();
  if (!id_.empty() && id_ != state.Bytes(2)) {
    return PgError(absl::StatusCode::kFailedPrecondition,
                   "the database has another store than when calibd started; start it again");
  }
  id_ = std::string(state.Bytes(2));
  CALIBD_ASSIGN_OR_RETURN(const PgResult durability,
                          connection.RunOne({.query = &queries::kDurability}, deadline));
  const PgRow settings = durability.row(0);
  if (settings.Bytes(0) != "on" || settings.Bytes(1) != "on") {
    return PgError(
        absl::StatusCode::kFailedPrecondition,
        "the PostgreSQL server runs with fsync or full_page_writes off, so that a power cut loses "
        "what was acknowledged; turn both on");
  }
  return absl::OkStatus();
}

absl::Status PostgresStore::Own(const std::string& address, const std::atomic<bool>& stop) {
  node_.Start(address);
  steady_clock::time_point report_at{};
  while (!stop) {
    bool taken = false;
    absl::Status status =
        session_.TryOnce([&](PgConnection& connection, auto /*deadline*/) -> absl::Status {
          CALIBD_ASSIGN_OR_RETURN(taken, TryTake(connection));
          return absl::OkStatus();
        });
    if (taken) return absl::OkStatus();
    if (absl::IsUnavailable(status)) {
      session_.Drop();
      if (const auto now = steady_clock::now(); now >= report_at) {
        report_at = now + kTakeReportInterval;
        spdlog::warn("the store cannot be taken: {}", std::string(status.message()));
      }
    } else if (!status.ok()) {
      return status;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
  return absl::CancelledError("stopped before the store was free");
}

absl::StatusOr<bool> PostgresStore::TryTake(PgConnection& connection) {
  const auto deadline = steady_clock::now() + kPollTime;
  PgStatement read = Of(queries::kReadOwner);
  read.values.Bytes(owner_);
  CALIBD_ASSIGN_OR_RETURN(const PgResult seen, connection.RunOne(read, deadline));
  if (seen.rows() != 1) return PgDamage("lacks a cell");
  const PgRow owner = seen.row(0);
  const std::int64_t epoch = owner.Int8(0);
  const bool is_owned = !owner.IsNull(1);
  {
    const std::lock_guard lock(other_mutex_);
    const std::int64_t known = other_.has_value() ? other_->epoch : -1;
    other_.reset();
    if (is_owned) {
      other_ = {.address = std::string(owner.Bytes(1)),
                .epoch = epoch,
                .id = std::string(owner.Bytes(3))};
      if (known != epoch) {
        spdlog::info(
            "standing by: the calibd at {} has the store; if it has ended, the store is free when "
            "it expires, in {:.1f} s",
            other_->address, static_cast<double>(owner.Int8(2)) / 1000);
      }
    }
  }
  // A node that could not send heartbeats would lose the store again.
  if (is_owned || node_.is_clock_off() || !node_.holds_lease()) return false;
  // Another calibd may have changed the format meanwhile, and this may be another server.
  CALIBD_RETURN_IF_ERROR(CheckDatabase(connection));
  PgStatement take = Of(queries::kTakeCell);
  take.values.Int8(epoch).Bytes(owner_);
  const std::vector<PgStatement> statements{{.query = &queries::kBeginTransaction},
                                            {.query = &queries::kLimitWait},
                                            Of(queries::kLockCell),
                                            std::move(take),
                                            {.query = &queries::kCommitTransaction}};
  const absl::StatusOr<std::vector<PgResult>> results = connection.Run(statements, deadline);
  if (absl::IsUnavailable(results.status())) {
    // A process that was stopped within a transaction would hold the cell until it goes on.
    CALIBD_ASSIGN_OR_RETURN(const std::unique_ptr<PgConnection> other,
                            PgConnection::Open(settings_.connection));
    CALIBD_RETURN_IF_ERROR(
        other->RunOne({.query = &queries::kEndStopped}, steady_clock::now() + kPollTime).status());
  }
  CALIBD_RETURN_IF_ERROR(results.status());
  const PgResult& taken = (*results)[3];
  if (taken.rows() == 0) return false;
  CALIBD_RETURN_IF_ERROR(ReadTaken(connection, taken.row(0)));
  phase_ = Phase::kTakingOver;
  node_.Own(epoch_);
  return true;
}

absl::Status PostgresStore::ReadTaken(PgConnection& connection, const PgRow& cell) {
  epoch_ = cell.Int8(0);
  next_model_id_ = cell.Int8(1);
  last_log_id_ = cell.Int8(3);
  next_log_id_ = epoch_ << kEpochShift;
  // The former owner writes to no later generation.
  CALIBD_ASSIGN_OR_RETURN(
      const PgResult newest,
      connection.RunOne({.query = &queries::kReadMeta}, steady_clock::now() + kPgAnswerTime));
  if (newest.rows() != 1 || !tables_.Begin(cell.Int8(2), newest.row(0).Int8(3))) {
    return PgDamage("has an impossible generation");
  }
  return CheckMarkers(connection);
}

std::optional<Store::Owner> PostgresStore::other_owner() const {
  // Each call of an owner asks.
  if (phase_ != Phase::kStandby) return std::nullopt;
  const std::lock_guard lock(other_mutex_);
  return other_;
}

absl::Status PostgresStore::CheckOwned() const {
  switch (phase_) {
    case Phase::kStandby: {
      const std::lock_guard lock(other_mutex_);
      return other_.has_value() ? PgNotOwner(other_->address, other_->epoch) : PgTakingOver();
    }
    case Phase::kTakingOver:
      return PgTakingOver();
    case Phase::kOwner:
      break;
  }
  return node_.holds_lease() ? absl::OkStatus() : PgLeaseLost();
}

absl::Status PostgresStore::CheckInPlace() const {
  return node_.was_fenced() ? PgFenced() : absl::OkStatus();
}

absl::Status PostgresStore::CheckMarkers(PgConnection& connection) const {
  for (std::int64_t generation = tables_.first(); generation <= tables_.newest(); ++generation) {
    CALIBD_ASSIGN_OR_RETURN(
        const PgResult marker,
        connection.RunOne({.query = &queries::MarkerOf(LogTables::TableOf(generation))},
                          steady_clock::now() + kPgAnswerTime));
    if (marker.rows() != 1 || marker.row(0).Int8(0) != generation) {
      return PgDamage(absl::StrCat("lacks a part of the log, generation ", generation));
    }
  }
  return absl::OkStatus();
}

absl::Status PostgresStore::CheckOwner(PgConnection& connection) const {
  PgStatement statement = Fenced(queries::OwnerState(last_table_));
  statement.values.Int8(last_log_id_);
  CALIBD_ASSIGN_OR_RETURN(const PgResult found,
                          connection.RunOne(statement, steady_clock::now() + kPgAnswerTime));
  if (found.rows() == 0) return PgFenced();
  const PgRow cell = found.row(0);
  const bool has_newest = cell.Int8(1) >= last_log_id_ || cell.Int4(2) != 0;
  const std::int64_t next_model_id = former_next_model_id_.value_or(next_model_id_);
  return (recovered_ && !has_newest) || cell.Int8(0) < next_model_id
             ? PgDamage(
                   "has lost acknowledged batches, as after the failover to a standby that "
                   "was behind; start calibd again to go on with what is left")
             : absl::OkStatus();
}

PgStatement PostgresStore::Of(const PgQuery& query) const {
  return {.query = &query, .values = PgValues().Int4(kCell)};
}

PgStatement PostgresStore::Fenced(const PgQuery& query) const {
  return {.query = &query, .values = PgValues().Int4(kCell).Int8(epoch_).Bytes(owner_)};
}

// ---- Log

absl::Status PostgresStore::ReadLog(const VisitBatch& visit) {
  std::int64_t after = -1;
  absl::Status visited;
  absl::Status status = session_.Run([&](PgConnection& connection, auto /*deadline*/) {
    // After a failure, it goes on after the last batch.
    PgStatement statement = Of(queries::ReplayOf(tables_.first(), tables_.newest()));
    statement.values.Int8(after);
    return connection.Read(
        statement, kPgAnswerTime,
        [&](const PgRow& row) -> absl::Status {
          const StoredBatch batch{.log_id = row.Int8(0),
                                  .model_id = row.Int8(1),
                                  .time_us = row.Int8(2),
                                  .data = row.Bytes(3)};
          after = batch.log_id;
          if (!tables_.AddRead(row.Int4(4), batch.log_id, batch.data.size() + kBatchCost)) {
            return absl::OkStatus();
          }
          if (batch.log_id > last_log_id_) {
            last_log_id_ = batch.log_id;
            last_table_ = row.Int4(4);
          }
          return batch.model_id < next_model_id_
                     ? visit(batch)
                     : PgDamage(absl::StrCat("has batch ", batch.log_id, " of model ",
                                             batch.model_id, ", which does not exist"));
        },
        visited);
  });
  // The rest of the rows is still on its way.
  if (!visited.ok()) session_.Drop();
  status.Update(visited);
  CountBytes();
  return status;
}

void PostgresStore::FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) {
  DropBatches(unneeded_log_ids);
  recovered_ = true;
  phase_ = Phase::kOwner;
}

std::int64_t PostgresStore::AppendBatch(std::int64_t model_id, std::int64_t time_us,
                                        std::string data) {
  appended_bytes_ += data.size() + kBatchCost;
  appended_.push_back({.model_id = model_id, .time_us = time_us, .data = std::move(data)});
  return next_log_id_++;
}

absl::Status PostgresStore::CommitLog() {
  if (appended_.empty()) {
    ApplyReleased();
    return absl::OkStatus();
  }
  const auto first_log_id = next_log_id_ - static_cast<std::int64_t>(appended_.size());
  std::vector<std::int64_t> model_ids;
  std::vector<std::int64_t> times;
  std::vector<std::string_view> data;
  for (const Appended& batch : appended_) {
    model_ids.push_back(batch.model_id);
    times.push_back(batch.time_us);
    data.emplace_back(batch.data);
  }
  PgStatement statement = Fenced(queries::AppendTo(LogTables::TableOf(tables_.newest())));
  statement.values.Int8(first_log_id).Int8Array(model_ids).Int8Array(times).BytesArray(data);
  bool again = false;
  CALIBD_RETURN_IF_ERROR(session_.Run([&](PgConnection& connection, auto deadline) -> absl::Status {
    const bool may_exist = std::exchange(again, true);
    CALIBD_ASSIGN_OR_RETURN(const PgResult result, connection.RunOne(statement, deadline));
    if (result.row(0).Int8(0) == 0) return PgFenced();
    const auto inserted = static_cast<std::size_t>(result.row(0).Int8(1));
    const bool is_complete = inserted == appended_.size() || (may_exist && inserted == 0);
    return is_complete ? absl::OkStatus() : PgDamage("has other batches with the same ids");
  }));
  for (std::size_t i = 0; i < appended_.size(); ++i) {
    tables_.AddAppended(first_log_id + static_cast<std::int64_t>(i),
                        appended_[i].data.size() + kBatchCost);
  }
  last_log_id_ = next_log_id_ - 1;
  last_table_ = LogTables::TableOf(tables_.newest());
  total_appended_bytes_ += static_cast<std::int64_t>(appended_bytes_);
  appended_.clear();
  appended_bytes_ = 0;
  ApplyReleased();
  CountBytes();
  return absl::OkStatus();
}

absl::Status PostgresStore::ReadBatches(std::span<const std::int64_t> log_ids,
                                        const VisitData& visit) {
  while (!log_ids.empty()) {
    std::size_t count = 0;
    for (std::size_t bytes = 0; count < log_ids.size() && bytes < kReadBytes; ++count) {
      const std::optional<LogTables::Place> place = tables_.Find(log_ids[count]);
      bytes += place.has_value() ? place->bytes : 0;
    }
    CALIBD_RETURN_IF_ERROR(ReadChunk(log_ids.first(count), visit));
    log_ids = log_ids.subspan(count);
  }
  return absl::OkStatus();
}

absl::Status PostgresStore::ReadChunk(std::span<const std::int64_t> log_ids,
                                      const VisitData& visit) {
  const auto first_appended = next_log_id_ - static_cast<std::int64_t>(appended_.size());
  std::map<std::int64_t, std::vector<std::int64_t>> by_table;
  for (const std::int64_t log_id : log_ids) {
    if (const auto place = tables_.Find(log_id); place.has_value()) {
      by_table[place->table].push_back(log_id);
    }
  }
  std::map<std::int64_t, std::string> read;
  for (const auto& [table, wanted] : by_table) {
    PgStatement statement = Of(queries::ReadFrom(table));
    statement.values.Int8Array(wanted);
    CALIBD_RETURN_IF_ERROR(
        session_.Run([&](PgConnection& connection, auto deadline) -> absl::Status {
          CALIBD_ASSIGN_OR_RETURN(const PgResult rows, connection.RunOne(statement, deadline));
          for (int i = 0; i < rows.rows(); ++i) {
            read[rows.row(i).Int8(0)] = std::string(rows.row(i).Bytes(1));
          }
          return absl::OkStatus();
        }));
  }
  for (const std::int64_t log_id : log_ids) {
    if (log_id >= first_appended && log_id < next_log_id_) {
      CALIBD_RETURN_IF_ERROR(
          visit(appended_[static_cast<std::size_t>(log_id - first_appended)].data));
      continue;
    }
    const auto found = read.find(log_id);
    if (found == read.end()) return PgDamage(absl::StrCat("lacks batch ", log_id, " of the log"));
    CALIBD_RETURN_IF_ERROR(visit(found->second));
  }
  return absl::OkStatus();
}

void PostgresStore::ReleaseBatches(std::span<const std::int64_t> log_ids) {
  released_.insert(released_.end(), log_ids.begin(), log_ids.end());
}

void PostgresStore::DropBatches(std::span<const std::int64_t> log_ids) {
  tables_.MarkUnneeded(log_ids);
}

void PostgresStore::ApplyReleased() { DropBatches(std::exchange(released_, {})); }

void PostgresStore::CountBytes() { log_bytes_ = tables_.bytes(); }

StoreMaintenance::Sizes PostgresStore::sizes() const {
  return {.log_bytes = log_bytes_,
          .catalog_bytes = catalog_bytes_,
          .appended_log_bytes = total_appended_bytes_};
}

void PostgresStore::Rollback() {
  appended_.clear();
  appended_bytes_ = 0;
  released_.clear();
  writes_.clear();
  if (former_next_model_id_.has_value()) next_model_id_ = *former_next_model_id_;
  former_next_model_id_.reset();
}

absl::Status PostgresStore::Close() {
  if (phase_ == Phase::kStandby) return absl::OkStatus();
  absl::Status status = session_.TryOnce([this](PgConnection& connection, auto deadline) {
    return connection.RunOne(Fenced(queries::kLeaveCell), deadline).status();
  });
  // Otherwise the next owner takes the store as after the end of a process.
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

}  // namespace calibd::server
