#include <fcntl.h>

#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "calibd/core/status_macros.h"
#include "server/store/local/database_state.h"
#include "server/store/local/file.h"
#include "server/store/local/local_view.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// Number of pages that are copied in one step, between two checks for cancellation.
constexpr int kPagesPerStep = 1024;

struct FinishBackup {
  void operator()(sqlite3_backup* backup) const noexcept { sqlite3_backup_finish(backup); }
};

absl::Status Stopped() { return absl::CancelledError("the backup was stopped"); }

// from: must be in a read transaction, which shows the same state of the database for all steps.
absl::Status CopyDatabase(const Database& from, const std::string& copy,
                          const OnProgress& progress) {
  CALIBD_ASSIGN_OR_RETURN(Database to, Database::Open(copy));
  const std::unique_ptr<sqlite3_backup, FinishBackup> backup(
      sqlite3_backup_init(to.handle(), "main", from.handle(), "main"));
  if (backup == nullptr) {
    return SqliteError(to.handle(), sqlite3_extended_errcode(to.handle()), "begin a backup");
  }
  int code = SQLITE_OK;
  while (code == SQLITE_OK) {
    code = sqlite3_backup_step(backup.get(), kPagesPerStep);
    const int total = sqlite3_backup_pagecount(backup.get());
    const int left = sqlite3_backup_remaining(backup.get());
    if (total > 0 && !progress(static_cast<double>(total - left) / total)) return Stopped();
  }
  return code == SQLITE_DONE ? absl::OkStatus() : SqliteError(to.handle(), code, "make a backup");
}

absl::StatusOr<absl::flat_hash_set<std::int64_t>> ReadModelIds(const Database& database) {
  CALIBD_ASSIGN_OR_RETURN(Statement rows, Statement::Prepare(database, "SELECT id FROM models"));
  absl::flat_hash_set<std::int64_t> ids;
  absl::StatusOr<bool> row = rows.Next();
  for (; row.ok() && *row; row = rows.Next()) ids.insert(rows.Integer(0));
  CALIBD_RETURN_IF_ERROR(row.status());
  return ids;
}

// Writes the needed batches of the extents.
absl::Status InsertBatches(const std::vector<LogFiles::Extent>& extents,
                           const absl::flat_hash_set<std::int64_t>& model_ids, std::int64_t end,
                           TableWriter& log, const OnProgress& progress) {
  const std::int64_t first = extents.front().first_log_id;
  for (const LogFiles::Extent& extent : extents) {
    CALIBD_RETURN_IF_ERROR(
        LogFiles::ReadExtent(extent, [&](const StoredBatch& batch, bool needed) -> absl::Status {
          if (!progress(static_cast<double>(batch.log_id - first) /
                        static_cast<double>(end - first))) {
            return Stopped();
          }
          // Batches of deleted models may be needed until their deletion is complete.
          return needed && model_ids.contains(batch.model_id)
                     ? log.Insert({batch.log_id, batch.model_id, batch.time_us, batch.data})
                     : absl::OkStatus();
        }));
  }
  return absl::OkStatus();
}

// Completes the copy as a store: adds the needed batches of the extents and gives it its own id.
absl::Status AddLog(const std::vector<LogFiles::Extent>& extents, const std::string& copy,
                    const OnProgress& progress) {
  CALIBD_ASSIGN_OR_RETURN(Database to, Database::Open(copy));
  // The copy need not be durable before it is complete.
  CALIBD_RETURN_IF_ERROR(
      to.Execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN IMMEDIATE"));
  CALIBD_ASSIGN_OR_RETURN(DatabaseState state, ReadState(to));
  CALIBD_ASSIGN_OR_RETURN(StateWriter writer, StateWriter::Prepare(to));
  CALIBD_ASSIGN_OR_RETURN(const absl::flat_hash_set<std::int64_t> model_ids, ReadModelIds(to));
  CALIBD_ASSIGN_OR_RETURN(TableWriter log,
                          TableWriter::Prepare(to, Table::kLog, &state.sum(Table::kLog)));
  const LogFiles::Extent& newest = extents.back();
  state.first_log_id = newest.first_log_id + static_cast<std::int64_t>(newest.needed.size());
  state.complete = true;
  state.id = StoreId::Random();
  ++state.commit_number;
  CALIBD_RETURN_IF_ERROR(InsertBatches(extents, model_ids, state.first_log_id, log, progress));
  CALIBD_RETURN_IF_ERROR(writer.WriteAll(state));
  return to.Execute("COMMIT");
}

std::string CopyPath(const std::string& folder) { return folder + "/backup.tmp"; }

class LocalCopy final : public StoreCopy {
 public:
  explicit LocalCopy(File file) : file_(std::move(file)) {}
  [[nodiscard]] absl::StatusOr<std::size_t> Read(std::uint64_t offset,
                                                 std::span<char> chunk) const override {
    return file_.Read(chunk.data(), chunk.size(), offset);
  }

 private:
  const File file_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<StoreCopy>> LocalView::Copy(const OnProgress& progress) const {
  const std::string path = CopyPath(folder_);
  absl::Status status = MakeCopy(path, progress);
  absl::StatusOr<File> file = status.ok() ? File::Open(path, O_RDONLY | O_CLOEXEC, "send a backup")
                                          : absl::StatusOr<File>(std::move(status));
  // A file without a name disappears with its last user or the process.
  std::error_code error;
  std::filesystem::remove(path, error);
  if (!file.ok()) return file.status();
  return std::make_unique<LocalCopy>(*std::move(file));
}

absl::Status LocalView::MakeCopy(const std::string& path, const OnProgress& progress) const {
  CALIBD_RETURN_IF_ERROR(begun_);
  CALIBD_RETURN_IF_ERROR(
      CopyDatabase(database_, path, [&](double done) { return progress(done / 2); }));
  return AddLog(extents_, path, [&](double done) { return progress(0.5 + done / 2); });
}

void RemoveCopy(const std::string& path) {
  std::error_code error;
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    std::filesystem::remove(path + suffix, error);
  }
}

void RemoveUnfinishedCopy(const std::string& folder) { RemoveCopy(CopyPath(folder)); }

}  // namespace calibd::server
