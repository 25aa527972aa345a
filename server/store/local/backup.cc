#include "server/store/local/backup.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/store/local/database_state.h"
#include "server/store/local/held_log.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// Pages copied in one step, between two checks for cancellation.
constexpr int kPagesPerStep = 1024;

struct FinishBackup {
  void operator()(sqlite3_backup* backup) const noexcept { sqlite3_backup_finish(backup); }
};

absl::Status Stopped() { return absl::CancelledError("the backup was stopped"); }

absl::Status CopyDatabase(const std::string& path, const std::string& copy,
                          const std::function<bool(double)>& progress) {
  absl::StatusOr<Database> from = Database::OpenExisting(path);
  if (!from.ok()) return from.status();
  absl::StatusOr<Database> to = Database::Open(copy);
  if (!to.ok()) return to.status();
  // A transaction that reads holds one state of the database for all steps.
  absl::Status status = from->Execute("BEGIN");
  if (status.ok()) status = from->QueryInteger("SELECT count(*) FROM sqlite_master").status();
  if (!status.ok()) return status;
  const std::unique_ptr<sqlite3_backup, FinishBackup> backup(
      sqlite3_backup_init(to->handle(), "main", from->handle(), "main"));
  if (backup == nullptr) {
    return SqliteError(to->handle(), sqlite3_extended_errcode(to->handle()), "begin a backup");
  }
  int code = SQLITE_OK;
  while (code == SQLITE_OK) {
    code = sqlite3_backup_step(backup.get(), kPagesPerStep);
    const int total = sqlite3_backup_pagecount(backup.get());
    const int left = sqlite3_backup_remaining(backup.get());
    if (total > 0 && !progress(static_cast<double>(total - left) / total)) return Stopped();
  }
  return code == SQLITE_DONE ? absl::OkStatus() : SqliteError(to->handle(), code, "make a backup");
}

absl::StatusOr<absl::flat_hash_set<std::int64_t>> ReadModelIds(const Database& database) {
  absl::StatusOr<Statement> rows = Statement::Prepare(database, "SELECT id FROM models");
  if (!rows.ok()) return rows.status();
  absl::flat_hash_set<std::int64_t> ids;
  absl::StatusOr<bool> row = rows->Next();
  for (; row.ok() && *row; row = rows->Next()) ids.insert(rows->Integer(0));
  if (!row.ok()) return row.status();
  return ids;
}

// Writes the batches of the extents that are needed.
absl::Status InsertBatches(const std::vector<LogFiles::Extent>& extents,
                           const absl::flat_hash_set<std::int64_t>& model_ids, std::int64_t end,
                           TableWriter& log, const std::function<bool(double)>& progress) {
  const std::int64_t first = extents.front().first_log_id;
  for (const LogFiles::Extent& extent : extents) {
    absl::Status status =
        LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool needed) -> absl::Status {
          if (!progress(static_cast<double>(batch.log_id - first) /
                        static_cast<double>(end - first))) {
            return Stopped();
          }
          // Models may have come or gone since the database was copied.
          return needed && model_ids.contains(batch.model_id)
                     ? log.Insert({batch.log_id, batch.model_id, batch.time_us, batch.data})
                     : absl::OkStatus();
        });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Makes a store of the copy: with what is needed of the extents, and an id of its own.
absl::Status AddLog(const std::vector<LogFiles::Extent>& extents, const std::string& copy,
                    const std::function<bool(double)>& progress) {
  absl::StatusOr<Database> to = Database::Open(copy);
  if (!to.ok()) return to.status();
  // Nobody has the copy before it is complete.
  absl::Status status =
      to->Execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN IMMEDIATE");
  if (!status.ok()) return status;
  absl::StatusOr<DatabaseState> state = ReadState(*to);
  absl::StatusOr<StateWriter> writer = StateWriter::Prepare(*to);
  const absl::StatusOr<absl::flat_hash_set<std::int64_t>> model_ids = ReadModelIds(*to);
  absl::StatusOr<Statement> remove =
      Statement::Prepare(*to, "DELETE FROM log WHERE id >= ?1 RETURNING checksum");
  for (const absl::Status& one :
       {state.status(), writer.status(), model_ids.status(), remove.status()}) {
    if (!one.ok()) return one;
  }
  absl::StatusOr<TableWriter> log =
      TableWriter::Prepare(*to, Table::kLog, &state->sum(Table::kLog));
  if (!log.ok()) return log.status();
  // What a retirement that is under way has copied of the oldest segment is in that too.
  status = log->RunDelete(remove->Bind(1, extents.front().first_log_id));
  const LogFiles::Extent& newest = extents.back();
  state->first_log_id = newest.first_log_id + static_cast<std::int64_t>(newest.needed.size());
  state->complete = true;
  state->id = StoreId::Random();
  ++state->commit_number;
  if (status.ok()) status = InsertBatches(extents, *model_ids, state->first_log_id, *log, progress);
  if (status.ok()) status = writer->WriteAll(*state);
  return status.ok() ? to->Execute("COMMIT") : status;
}

absl::Status Copy(const std::string& path, const HeldLog& log, const std::string& copy,
                  const std::function<bool(double)>& progress) {
  absl::Status status =
      CopyDatabase(path, copy, [&](double fraction) { return progress(fraction / 2); });
  if (!status.ok()) return status;
  // The log is ahead of the database that was copied.
  const absl::StatusOr<std::vector<LogFiles::Extent>> extents = log.extents();
  return extents.ok()
             ? AddLog(*extents, copy, [&](double fraction) { return progress(0.5 + fraction / 2); })
             : extents.status();
}

}  // namespace

absl::Status CopyStore(const std::string& path, CommitQueue& commits, const std::string& copy,
                       const std::function<bool(double)>& progress) {
  const absl::StatusOr<std::unique_ptr<HeldLog>> log = HeldLog::Hold(commits);
  if (!log.ok()) return log.status();
  absl::Status status = Copy(path, **log, copy, progress);
  if (!status.ok()) {
    // Before the log is let go: on a full disk that needs the room.
    std::error_code error;
    std::filesystem::remove(copy, error);
  }
  return status;
}

}  // namespace calibd::server
