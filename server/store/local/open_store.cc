#include "server/store/local/open_store.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/store/local/schema.h"
#include "server/store/local/wal_check.h"

namespace calibd::server {
namespace {

// SQLite needs the file calibd.db-shm to read a database with a write-ahead log: 32 KiB per 16 MiB
// of the log. The rest is for the first files of a new store.
constexpr std::uint64_t kRoomToOpen = std::uint64_t{1} << 20;

// Returns 0 if there is no such file.
std::uintmax_t SizeOf(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  return error ? 0 : size;
}

// Returns the name of a segment in the folder, or an empty string if the folder has no segments.
absl::StatusOr<std::string> FindSegment(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (absl::StartsWith(entry->path().filename().string(), "log-")) {
      names.push_back(entry->path().filename().string());
    }
  }
  if (error) return FileError(folder, "read", error.value());
  return names.empty() ? "" : *std::min_element(names.begin(), names.end());
}

// A backup is a complete store in one file: other files in the folder belong to another store.
absl::Status BackupBesideError(const std::string& folder, std::string_view file) {
  return FolderError(folder,
                     absl::StrCat("holds a backup, calibd.db, and the file ", std::string(file),
                                  " of another store; move the backup into an empty folder, "
                                  "as calibd.db, and start calibd with --data-dir FOLDER"));
}

// Whether SQLite wrote the database without a write-ahead log, as in backups.
absl::StatusOr<bool> IsWithoutWal(const std::string& path) {
  // "File format write version" and "read version", see SQLite's file format.
  constexpr std::uint64_t kVersionsOffset = 18;
  CALIBD_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY, "open"));
  std::array<char, 2> versions{};
  CALIBD_RETURN_IF_ERROR(file.Read(versions.data(), versions.size(), kVersionsOffset).status());
  return versions == std::array<char, 2>{1, 1};
}

// Opens the files of a store step by step.
class Opening {
 public:
  Opening(const std::string& folder, std::uint64_t segment_bytes)
      : folder_(folder), path_(DatabasePath(folder)), segment_bytes_(segment_bytes) {}

  absl::StatusOr<StoreParts> Run() {
    for (const auto step :
         {&Opening::LookAtFiles, &Opening::OpenDatabase, &Opening::CreateTables,
          &Opening::CheckParts, &Opening::MakeStoreFile, &Opening::OpenLog, &Opening::Complete}) {
      CALIBD_RETURN_IF_ERROR((this->*step)());
    }
    return StoreParts{.database = std::move(database_),
                      .state = state_,
                      .file = *std::move(file_),
                      .log = std::move(log_),
                      .warnings = std::move(warnings_)};
  }

 private:
  // Changes nothing. SQLite would create a missing database, and delete the log of an empty one.
  absl::Status LookAtFiles() {
    CALIBD_ASSIGN_OR_RETURN(file_, StoreFile::Open(folder_));
    CALIBD_ASSIGN_OR_RETURN(segment_, FindSegment(folder_));
    const bool has_wal = HasWal(path_);
    if (SizeOf(path_) == 0 && (file_.has_value() || !segment_.empty() || has_wal)) {
      return DamageError(path_, absl::StrCat("is missing or empty, but the folder holds the file ",
                                             file_.has_value()   ? "store"
                                             : !segment_.empty() ? segment_
                                                                 : "calibd.db-wal"));
    }
    if (has_wal) {
      CALIBD_ASSIGN_OR_RETURN(const bool is_backup, IsWithoutWal(path_));
      if (is_backup) return BackupBesideError(folder_, "calibd.db-wal");
    }
    if (has_wal && file_.has_value() && file_->mark().clean) {
      return DamageError(path_ + "-wal",
                         "did not exist when calibd stopped: it belongs to another database",
                         "move the file away");
    }
    CALIBD_ASSIGN_OR_RETURN(const WalContents wal, ReadWal(path_));
    if (wal.discarded_frames > 0) {
      warnings_.push_back(absl::StrCat(
          path_, "-wal ends with ", wal.discarded_frames,
          " pages of an incomplete transaction, which is ignored: calibd was killed before it "
          "acknowledged the transaction, or the file is damaged"));
    }
    return absl::OkStatus();
  }

  absl::Status OpenDatabase() {
    CALIBD_ASSIGN_OR_RETURN(database_, Database::Open(path_));
    // If the start fails, the files stay as they are: see Store::Close.
    sqlite3_db_config(database_.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    // The database of another program is not changed.
    CALIBD_ASSIGN_OR_RETURN(const std::int64_t version, CheckFormat(database_, folder_));
    is_new_ = version == 0;
    if (sqlite3_db_readonly(database_.handle(), "main") != 0) {
      return DamageError(path_,
                         "can only be read: calibd may not write the file, or its header is "
                         "damaged");
    }
    // Checkpoints are separate from commits: see Store::Checkpoint. Debian's SQLite overwrites the
    // pages of deleted rows with zeros by default, which would write each snapshot twice.
    return database_.Execute(
        "PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
        "PRAGMA wal_autocheckpoint = 0; PRAGMA cell_size_check = ON; PRAGMA secure_delete = OFF");
  }

  absl::Status CreateTables() {
    if (!is_new_) return absl::OkStatus();
    if (file_.has_value() || !segment_.empty()) {
      return DamageError(path_, absl::StrCat("has no tables and is older than the file ",
                                             segment_.empty() ? "store" : segment_,
                                             ": it belongs to another store"));
    }
    return CreateDatabase(database_);
  }

  absl::Status CheckParts() {
    CALIBD_ASSIGN_OR_RETURN(state_, ReadState(database_));
    if (!file_.has_value()) {
      if (!state_.complete) return DamageError(absl::StrCat(folder_, "/store"), "is missing");
      return segment_.empty() ? absl::OkStatus() : BackupBesideError(folder_, segment_);
    }
    const StoreMark& mark = file_->mark();
    if (mark.id != state_.id) {
      return state_.complete
                 ? BackupBesideError(folder_, "store")
                 : DamageError(path_,
                               "and the file store beside it belong to different stores: one of "
                               "them was replaced",
                               kPutRightFileBack);
    }
    if (state_.commit_number < mark.commit || (mark.clean && state_.commit_number != mark.commit)) {
      return DamageError(path_, absl::StrCat("ends with transaction ", state_.commit_number,
                                             ", expected ", mark.commit,
                                             ": it was replaced, or calibd.db-wal is missing or "
                                             "damaged"));
    }
    return absl::OkStatus();
  }

  // Each store made from a backup gets its own id, so that their files cannot be mixed up.
  absl::Status MakeStoreFile() {
    if (file_.has_value()) return absl::OkStatus();
    state_.id = StoreId::Random();
    CALIBD_RETURN_IF_ERROR(Write(""));
    Failpoint("first_start");
    CALIBD_ASSIGN_OR_RETURN(
        file_, StoreFile::Create(folder_, {.id = state_.id, .commit = state_.commit_number}));
    Failpoint("first_start");
    return absl::OkStatus();
  }

  absl::Status OpenLog() {
    CALIBD_ASSIGN_OR_RETURN(
        log_, LogFiles::Open(folder_, {.segment_bytes = segment_bytes_,
                                       .first_log_id = state_.complete ? 0 : state_.first_log_id,
                                       .next_log_id = state_.first_log_id,
                                       .mark = file_->mark()}));
    Failpoint("first_start");
    return absl::OkStatus();
  }

  // All files exist now, and the rows of a backup can move to segments.
  absl::Status Complete() {
    CALIBD_RETURN_IF_ERROR(MoveRows());
    if (!state_.complete) return absl::OkStatus();
    state_.complete = false;
    state_.first_log_id = log_->first_log_id();
    state_.sum(Table::kLog) = {};
    Failpoint("move_rows");
    CALIBD_RETURN_IF_ERROR(Write("DELETE FROM log"));
    Failpoint("move_rows");
    return absl::OkStatus();
  }

  // Copies the rows of the table `log` to segments.
  absl::Status MoveRows() {
    CALIBD_ASSIGN_OR_RETURN(CheckedRows rows,
                            CheckedRows::Select(database_, Table::kLog, "ORDER BY id"));
    return log_->Prepend([&](StoredBatch& batch) -> absl::StatusOr<bool> {
      CALIBD_ASSIGN_OR_RETURN(const bool row, rows.Next());
      if (!row) {
        CALIBD_RETURN_IF_ERROR(CheckSum(Table::kLog, state_.sum(Table::kLog), rows.sum()));
        return false;
      }
      if (rows.Integer(0) <= batch.log_id) {
        return DatabaseDamage(absl::StrCat("has batch ", rows.Integer(0),
                                           " of the log after batch ", batch.log_id,
                                           ": the rows of table log are out of order"));
      }
      batch = {.log_id = rows.Integer(0),
               .model_id = rows.Integer(1),
               .time_us = rows.Integer(2),
               .data = rows.Blob(3)};
      return true;
    });
  }

  // Runs statements and writes the state in a transaction.
  absl::Status Write(const char* statements) {
    ++state_.commit_number;
    absl::Status status = database_.Execute("BEGIN IMMEDIATE");
    if (status.ok()) status = database_.Execute(statements);
    if (status.ok()) {
      absl::StatusOr<StateWriter> writer = StateWriter::Prepare(database_);
      status = writer.ok() ? writer->WriteAll(state_) : writer.status();
    }
    if (status.ok()) status = database_.Execute("COMMIT");
    if (!status.ok() && database_.in_transaction()) {
      static_cast<void>(database_.Execute("ROLLBACK"));
    }
    return status;
  }

  const std::string& folder_;
  const std::string path_;
  const std::uint64_t segment_bytes_;
  std::optional<StoreFile> file_;
  // The name of the first segment that existed, empty if there was none.
  std::string segment_;
  // The database did not exist.
  bool is_new_ = false;
  Database database_;
  DatabaseState state_;
  std::unique_ptr<LogFiles> log_;
  std::vector<std::string> warnings_;
};

}  // namespace

absl::StatusOr<File> LockFolder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (error) return FolderError(folder, absl::StrCat("cannot be created: ", error.message()));
  // A file in the folder could be removed while it is locked, and the next process would lock a new
  // one. The folder itself cannot be removed while it holds the store.
  absl::StatusOr<File> lock = File::Open(folder, O_RDONLY | O_DIRECTORY, "open");
  if (!lock.ok()) {
    return FolderError(folder, absl::StrCat("cannot be read: ", lock.status().message()));
  }
  if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) {
    return FolderError(folder, errno == EWOULDBLOCK
                                   ? "is in use by another calibd"
                                   : absl::StrCat("cannot be locked: ", std::strerror(errno)));
  }
  return lock;
}

absl::StatusOr<StoreParts> OpenStore(const std::string& folder, std::uint64_t segment_bytes) {
  absl::StatusOr<StoreParts> parts = Opening(folder, segment_bytes).Run();
  if (absl::IsResourceExhausted(parts.status())) {
    return MakeError(
        absl::StatusCode::kResourceExhausted, "DISK_FULL",
        absl::StrCat(parts.status().message(),
                     ": the disk is full, and the store needs some room to open, also "
                     "if nothing is written; nothing is lost: free at least ",
                     kRoomToOpen, " bytes on the disk of ", folder, " and start calibd again"));
  }
  return parts;
}

std::string DatabasePath(const std::string& folder) { return folder + "/calibd.db"; }

bool HasWal(const std::string& database_path) { return SizeOf(database_path + "-wal") > 0; }

}  // namespace calibd::server
