#include "server/store/backup.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/store/held_log.h"
#include "server/store/sqlite.h"

namespace calibd::server {
namespace {

// Of one step, between two looks at whether to go on.
constexpr int kPagesPerStep = 1024;

struct FinishBackup {
  void operator()(sqlite3_backup* backup) const noexcept { sqlite3_backup_finish(backup); }
};

absl::Status Stopped() { return absl::CancelledError("the backup was stopped"); }

absl::Status CopyDatabase(const std::string& path, const std::string& copy,
                          const std::function<bool(double)>& progress) {
  absl::StatusOr<Database> from = Database::Open(path);
  if (!from.ok()) {
    return from.status();
  }
  absl::StatusOr<Database> to = Database::Open(copy);
  if (!to.ok()) {
    return to.status();
  }
  // A transaction that reads holds one state of the database for all steps.
  absl::Status status = from->Execute("BEGIN");
  if (status.ok()) {
    status = from->QueryInteger("SELECT count(*) FROM sqlite_master").status();
  }
  if (!status.ok()) {
    return status;
  }
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
    if (total > 0 && !progress(static_cast<double>(total - left) / total)) {
      return Stopped();
    }
  }
  return code == SQLITE_DONE ? absl::OkStatus() : SqliteError(to->handle(), code, "make a backup");
}

// Puts what is needed of the files into the log of the copy.
absl::Status AddLog(const std::vector<LogFiles::Extent>& extents, const std::string& copy,
                    const std::function<bool(double)>& progress) {
  absl::StatusOr<Database> to = Database::Open(copy);
  if (!to.ok()) {
    return to.status();
  }
  // Nobody has the copy before it is complete.
  absl::Status status =
      to->Execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN IMMEDIATE");
  if (!status.ok()) {
    return status;
  }
  // What was copied to the database while its file was still there is there already. Models may
  // have come or gone since the database was copied.
  absl::StatusOr<Statement> insert = Statement::Prepare(
      *to,
      "INSERT OR IGNORE INTO log (id, model_id, time_us, data) SELECT ?1, ?2, ?3, ?4 "
      "WHERE EXISTS (SELECT 1 FROM models WHERE id = ?2)");
  if (!insert.ok()) {
    return insert.status();
  }
  const LogFiles::Extent& newest = extents.back();
  const std::int64_t first = extents.front().first_log_id;
  const std::int64_t end = newest.first_log_id + static_cast<std::int64_t>(newest.needed.size());
  for (const LogFiles::Extent& extent : extents) {
    status = LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool needed) {
      if (!progress(static_cast<double>(batch.log_id - first) / static_cast<double>(end - first))) {
        return Stopped();
      }
      return needed ? insert->Bind(1, batch.log_id)
                          .Bind(2, batch.model_id)
                          .Bind(3, batch.time_us)
                          .BindBlob(4, batch.data)
                          .Run()
                    : absl::OkStatus();
    });
    if (!status.ok()) {
      return status;
    }
  }
  // It has no files, and numbers go on after all that there were.
  return to->Execute(absl::StrCat("UPDATE log_files SET first_log_id = 0; "
                                  "DELETE FROM sqlite_sequence WHERE name = 'log'; "
                                  "INSERT INTO sqlite_sequence (name, seq) VALUES ('log', ",
                                  end - 1, "); COMMIT")
                         .c_str());
}

absl::Status Copy(const std::string& path, const HeldLog& log, const std::string& copy,
                  const std::function<bool(double)>& progress) {
  absl::Status status =
      CopyDatabase(path, copy, [&](double fraction) { return progress(fraction / 2); });
  if (!status.ok()) {
    return status;
  }
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
  if (!log.ok()) {
    return log.status();
  }
  absl::Status status = Copy(path, **log, copy, progress);
  if (!status.ok()) {
    // Before the log is let go: on a full disk that needs the room.
    std::error_code error;
    std::filesystem::remove(copy, error);
  }
  return status;
}

}  // namespace calibd::server
