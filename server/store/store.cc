#include "server/store/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/failpoint.h"
#include "server/store/log_upgrade.h"
#include "server/store/store_file.h"

namespace calibd::server {
namespace {

// "cali", see the magic numbers of SQLite's file format.
constexpr std::int64_t kApplicationId = 0x63616c69;
constexpr std::int64_t kVersion = 3;

// Rows that one transaction deletes besides what it is for.
constexpr std::size_t kMostDeleted = 1024;
// What is copied at a time from a file of the log.
constexpr std::size_t kCopiedBytes = std::size_t{1} << 20;

// What makes version N of the format out of version N - 1. Steps are only ever added.
constexpr std::array<const char*, kVersion> kMigrations{R"sql(
CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  declaration BLOB NOT NULL
);
CREATE TABLE cursors (
  model_id INTEGER NOT NULL,
  producer_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  last_sequence INTEGER NOT NULL,
  contents BLOB NOT NULL,
  PRIMARY KEY (model_id, producer_id)
) WITHOUT ROWID;
CREATE TABLE log (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL,
  time_us INTEGER NOT NULL,
  data BLOB NOT NULL
);
CREATE TABLE snapshots (
  model_id INTEGER PRIMARY KEY,
  log_id INTEGER NOT NULL,
  data BLOB NOT NULL
);
)sql",
                                                        R"sql(
CREATE TABLE maturity (
  model_id INTEGER PRIMARY KEY,
  log_id INTEGER NOT NULL
);
)sql",
                                                        R"sql(
ALTER TABLE snapshots ADD COLUMN first_log_id INTEGER NOT NULL DEFAULT 0;
CREATE TABLE log_files (
  first_log_id INTEGER NOT NULL
);
INSERT INTO log_files (first_log_id) VALUES (0);
CREATE TABLE history (
  model_id INTEGER NOT NULL,
  resolution INTEGER NOT NULL,
  start_s INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (model_id, resolution, start_s)
) WITHOUT ROWID;
)sql"};

absl::Status FolderError(const std::string& folder, std::string_view reason) {
  return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                   absl::StrCat("data-dir ", Quoted(folder, 300), " ",
                                absl::string_view(reason.data(), reason.size())));
}

// Returns the open lock file.
absl::StatusOr<int> LockFolder(const std::string& folder) {
  std::error_code error;
  if (std::filesystem::create_directories(folder, error)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  }
  if (error) {
    return FolderError(folder, absl::StrCat("cannot be made: ", error.message()));
  }
  const int lock = open(absl::StrCat(folder, "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) {
    return FolderError(folder, absl::StrCat("cannot be written: ", std::strerror(errno)));
  }
  if (flock(lock, LOCK_EX | LOCK_NB) != 0) {
    close(lock);
    return FolderError(folder, "is in use by another calibd");
  }
  return lock;
}

// Returns the id of the store, which the file `store` keeps.
absl::StatusOr<StoreId> OpenOrMakeStoreFile(const std::string& folder) {
  const absl::StatusOr<std::optional<StoreFile>> file = StoreFile::Open(folder);
  if (!file.ok()) {
    return file.status();
  }
  if (file->has_value()) {
    return (*file)->mark().id;
  }
  const StoreId id = StoreId::Random();
  const absl::StatusOr<StoreFile> created = StoreFile::Create(folder, {.id = id});
  return created.ok() ? absl::StatusOr<StoreId>(id) : created.status();
}

absl::Status Migrate(Database& database, std::int64_t from) {
  absl::Status status = database.Execute("BEGIN IMMEDIATE");
  for (std::int64_t version = from; status.ok() && version < kVersion; ++version) {
    Failpoint("migration");
    status = database.Execute(kMigrations[static_cast<std::size_t>(version)]);
  }
  if (status.ok()) {
    status = database.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                           "; PRAGMA user_version = ", kVersion)
                                  .c_str());
  }
  if (status.ok()) {
    Failpoint("migration");
    status = database.Execute("COMMIT");
    Failpoint("migration");
  }
  if (!status.ok() && database.in_transaction()) {
    static_cast<void>(database.Execute("ROLLBACK"));
  }
  return status;
}

// Returns the version of the format.
absl::StatusOr<std::int64_t> CheckFormat(Database& database, const std::string& folder) {
  const absl::StatusOr<std::int64_t> application = database.QueryInteger("PRAGMA application_id");
  if (!application.ok()) {
    return application.status();
  }
  const absl::StatusOr<std::int64_t> version = database.QueryInteger("PRAGMA user_version");
  if (!version.ok()) {
    return version.status();
  }
  const absl::StatusOr<std::int64_t> tables =
      database.QueryInteger("SELECT count(*) FROM sqlite_master");
  if (!tables.ok()) {
    return tables.status();
  }
  if (*application != kApplicationId && !(*application == 0 && *version == 0 && *tables == 0)) {
    return FolderError(folder, "holds the database of another program");
  }
  if (*version > kVersion) {
    return FolderError(folder, absl::StrCat("was written by a newer calibd (format ", *version,
                                            ", this one knows up to ", kVersion, ")"));
  }
  return *version;
}

}  // namespace

struct Store::Statements {
  Statement begin;
  Statement commit;
  Statement insert_model;
  Statement delete_model;
  Statement delete_cursors;
  Statement delete_snapshot;
  Statement insert_batch;
  Statement put_first_log_id;
  Statement put_cursor;
  Statement put_snapshot;
  Statement put_maturity;
  Statement delete_maturity;
  Statement put_history;
  Statement delete_history;
  Statement delete_all_history;
  Statement read_batch;
  Statement delete_batch;
};

Store::Store(std::string path, int lock, Database database)
    : path_(std::move(path)), lock_(lock), database_(std::move(database)) {}

Store::~Store() {
  statements_.reset();
  // Closing it may take a checkpoint, which must not meet the next holder.
  database_ = Database();
  close(lock_);
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& folder,
                                                   std::uint64_t segment_bytes) {
  const absl::StatusOr<int> lock = LockFolder(folder);
  if (!lock.ok()) {
    return lock.status();
  }
  std::string path = absl::StrCat(folder, "/calibd.db");
  absl::StatusOr<Database> database = Database::Open(path);
  if (!database.ok()) {
    close(*lock);
    return database.status();
  }
  std::unique_ptr<Store> store(new Store(std::move(path), *lock, *std::move(database)));
  // Nothing is changed in a file that is not ours. Checkpoints are made apart from the
  // commits: see Checkpoint.
  absl::StatusOr<std::int64_t> version = CheckFormat(store->database_, folder);
  absl::Status status = version.status();
  if (status.ok()) {
    status = store->database_.Execute(
        "PRAGMA trusted_schema = OFF; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
        "PRAGMA wal_autocheckpoint = 0; PRAGMA cell_size_check = ON");
  }
  if (status.ok() && *version < kVersion) {
    status = Migrate(store->database_, *version);
  }
  if (status.ok()) {
    status = store->Prepare();
  }
  if (status.ok()) {
    status = store->OpenLog(folder, segment_bytes);
  }
  if (!status.ok()) {
    return status;
  }
  return store;
}

absl::Status Store::Prepare() {
  absl::Status status;
  const auto prepare = [&](const char* sql) {
    absl::StatusOr<Statement> statement = Statement::Prepare(database_, sql);
    status.Update(statement.status());
    return statement;
  };
  absl::StatusOr<Statement> begin = prepare("BEGIN IMMEDIATE");
  absl::StatusOr<Statement> commit = prepare("COMMIT");
  absl::StatusOr<Statement> insert_model =
      prepare("INSERT INTO models (id, name, declaration) VALUES (?, ?, ?)");
  absl::StatusOr<Statement> delete_model = prepare("DELETE FROM models WHERE id = ?");
  absl::StatusOr<Statement> delete_cursors = prepare("DELETE FROM cursors WHERE model_id = ?");
  absl::StatusOr<Statement> delete_snapshot = prepare("DELETE FROM snapshots WHERE model_id = ?");
  absl::StatusOr<Statement> insert_batch =
      prepare("INSERT INTO log (id, model_id, time_us, data) VALUES (?, ?, ?, ?)");
  absl::StatusOr<Statement> put_first_log_id = prepare("UPDATE log_files SET first_log_id = ?");
  absl::StatusOr<Statement> put_cursor = prepare(
      "INSERT OR REPLACE INTO cursors (model_id, producer_id, epoch, last_sequence, contents) "
      "VALUES (?, ?, ?, ?, ?)");
  absl::StatusOr<Statement> put_snapshot = prepare(
      "INSERT OR REPLACE INTO snapshots (model_id, log_id, data, first_log_id) "
      "VALUES (?, ?, ?, ?)");
  absl::StatusOr<Statement> put_maturity =
      prepare("INSERT OR REPLACE INTO maturity (model_id, log_id) VALUES (?, ?)");
  absl::StatusOr<Statement> delete_maturity = prepare("DELETE FROM maturity WHERE model_id = ?");
  absl::StatusOr<Statement> put_history = prepare(
      "INSERT OR REPLACE INTO history (model_id, resolution, start_s, data) VALUES (?, ?, ?, ?)");
  absl::StatusOr<Statement> delete_history =
      prepare("DELETE FROM history WHERE model_id = ? AND resolution = ? AND start_s < ?");
  absl::StatusOr<Statement> delete_all_history = prepare("DELETE FROM history WHERE model_id = ?");
  absl::StatusOr<Statement> read_batch = prepare("SELECT data FROM log WHERE id = ?");
  absl::StatusOr<Statement> delete_batch = prepare("DELETE FROM log WHERE id = ?");
  if (!status.ok()) {
    return status;
  }
  statements_ = std::make_unique<Statements>(
      Statements{*std::move(begin), *std::move(commit), *std::move(insert_model),
                 *std::move(delete_model), *std::move(delete_cursors), *std::move(delete_snapshot),
                 *std::move(insert_batch), *std::move(put_first_log_id), *std::move(put_cursor),
                 *std::move(put_snapshot), *std::move(put_maturity), *std::move(delete_maturity),
                 *std::move(put_history), *std::move(delete_history),
                 *std::move(delete_all_history), *std::move(read_batch), *std::move(delete_batch)});
  // AUTOINCREMENT keeps the greatest id there ever was.
  const absl::StatusOr<std::int64_t> last =
      database_.QueryInteger("SELECT seq FROM sqlite_sequence WHERE name = 'models'");
  if (!last.ok()) {
    return last.status();
  }
  next_model_id_ = *last + 1;
  sqlite3_wal_hook(
      database_.handle(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int*>(pages) = count;
        return SQLITE_OK;
      },
      &wal_pages_);
  return absl::OkStatus();
}

absl::Status Store::OpenLog(const std::string& folder, std::uint64_t segment_bytes) {
  const absl::StatusOr<std::int64_t> first =
      database_.QueryInteger("SELECT first_log_id FROM log_files");
  if (!first.ok()) {
    return first.status();
  }
  const absl::StatusOr<std::int64_t> last =
      database_.QueryInteger("SELECT seq FROM sqlite_sequence WHERE name = 'log'");
  if (!last.ok()) {
    return last.status();
  }
  const absl::StatusOr<StoreId> id = OpenOrMakeStoreFile(folder);
  if (!id.ok()) {
    return id.status();
  }
  if (absl::Status status = UpgradeSegments(folder, *id, *first); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::unique_ptr<LogFiles>> log =
      LogFiles::Open(folder, {.segment_bytes = segment_bytes,
                              .first_log_id = *first,
                              .next_log_id = *last + 1,
                              .mark = {.id = *id}});
  if (!log.ok()) {
    return log.status();
  }
  log_ = *std::move(log);
  copied_until_ = log_->first_log_id();
  // What of the oldest file was copied before the end of another process is copied again.
  absl::Status status = Begin();
  if (status.ok()) {
    status = database_.Execute(
        absl::StrCat("DELETE FROM log WHERE id >= ", log_->first_log_id()).c_str());
  }
  if (status.ok() && *first == 0) {
    status = statements_->put_first_log_id.Bind(1, log_->first_log_id()).Run();
  }
  if (status.ok()) {
    status = Commit();
  }
  if (!status.ok()) {
    Rollback();
  }
  return status;
}

absl::Status Store::ReadModels(const std::function<absl::Status(const StoredModel&)>& visit) const {
  absl::StatusOr<Statement> models =
      Statement::Prepare(database_,
                         "SELECT models.id, models.declaration, snapshots.log_id, snapshots.data, "
                         "snapshots.first_log_id, maturity.log_id FROM models LEFT JOIN snapshots "
                         "ON snapshots.model_id = models.id "
                         "LEFT JOIN maturity ON maturity.model_id = models.id ORDER BY models.id");
  if (!models.ok()) {
    return models.status();
  }
  absl::StatusOr<bool> row = models->Next();
  for (; row.ok() && *row; row = models->Next()) {
    StoredModel model;
    model.id = models->Integer(0);
    const std::string_view declaration = models->Blob(1);
    if (!model.declaration.ParseFromArray(declaration.data(),
                                          static_cast<int>(declaration.size()))) {
      return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                       absl::StrCat("the declaration of model ", model.id, " cannot be read"));
    }
    model.snapshot_log_id = models->Integer(2);
    model.snapshot = models->Blob(3);
    model.first_log_id = models->Integer(4);
    model.matured_log_id = models->Integer(5);
    if (absl::Status status = visit(model); !status.ok()) {
      return status;
    }
  }
  return row.status();
}

absl::Status Store::ReadCursors(
    const std::function<absl::Status(const StoredCursor&)>& visit) const {
  absl::StatusOr<Statement> cursors = Statement::Prepare(
      database_, "SELECT model_id, producer_id, epoch, last_sequence, contents FROM cursors");
  if (!cursors.ok()) {
    return cursors.status();
  }
  absl::StatusOr<bool> row = cursors->Next();
  for (; row.ok() && *row; row = cursors->Next()) {
    absl::Status status = visit({.model_id = cursors->Integer(0),
                                 .producer_id = std::string(cursors->Text(1)),
                                 .epoch = cursors->Integer(2),
                                 .last_sequence = cursors->Integer(3),
                                 .contents = cursors->Blob(4)});
    if (!status.ok()) {
      return status;
    }
  }
  return row.status();
}

absl::Status Store::ReadLog(const VisitBatch& visit) {
  absl::StatusOr<Statement> log =
      Statement::Prepare(database_, "SELECT id, model_id, time_us, data FROM log ORDER BY id");
  if (!log.ok()) {
    return log.status();
  }
  absl::StatusOr<bool> row = log->Next();
  for (; row.ok() && *row; row = log->Next()) {
    absl::Status status = visit({.log_id = log->Integer(0),
                                 .model_id = log->Integer(1),
                                 .time_us = log->Integer(2),
                                 .data = log->Blob(3)});
    if (!status.ok()) {
      return status;
    }
  }
  return row.ok() ? log_->Read(visit) : row.status();
}

std::int64_t Store::AppendBatch(std::int64_t model_id, std::int64_t time_us, std::string data) {
  return log_->Append(model_id, time_us, std::move(data));
}

absl::Status Store::CommitLog() {
  absl::Status status = log_->Commit();
  if (status.ok()) {
    ApplyReleased();
  }
  return status;
}

absl::Status Store::Begin() { return statements_->begin.Run(); }

absl::Status Store::Commit() {
  const std::size_t deleted = std::min(stale_.size(), kMostDeleted);
  for (std::size_t i = 0; i < deleted; ++i) {
    if (absl::Status status = statements_->delete_batch.Bind(1, stale_[i]).Run(); !status.ok()) {
      return status;
    }
  }
  absl::Status status = statements_->commit.Run();
  if (status.ok()) {
    stale_.erase(stale_.begin(), stale_.begin() + static_cast<std::ptrdiff_t>(deleted));
    ApplyReleased();
  }
  return status;
}

void Store::ReleaseBatches(std::span<const std::int64_t> log_ids) {
  released_.insert(released_.end(), log_ids.begin(), log_ids.end());
}

void Store::DropBatches(std::span<const std::int64_t> log_ids) {
  for (const std::int64_t log_id : log_ids) {
    if (log_id < copied_until_) {
      stale_.push_back(log_id);
    }
  }
  log_->MarkUnneeded(log_ids);
}

void Store::Rollback() {
  released_.clear();
  log_->Rollback();
  // A full disk may have ended the transaction already.
  if (database_.in_transaction()) {
    static_cast<void>(database_.Execute("ROLLBACK"));
  }
}

absl::StatusOr<bool> Store::Retire() {
  if (!log_->RetirementDue()) {
    return false;
  }
  Failpoint("retire");
  absl::Status status = Begin();
  const std::int64_t end = log_->first_log_id_after_oldest();
  std::int64_t copied_until = copied_until_;
  if (status.ok()) {
    const absl::StatusOr<std::int64_t> copied =
        log_->ReadNeededOfOldest(copied_until_, kCopiedBytes, [&](const StoredBatch& batch) {
          return statements_->insert_batch.Bind(1, batch.log_id)
              .Bind(2, batch.model_id)
              .Bind(3, batch.time_us)
              .BindBlob(4, batch.data)
              .Run();
        });
    status = copied.status();
    copied_until = copied.ok() ? *copied : copied_until;
  }
  if (status.ok() && copied_until == end) {
    status = statements_->put_first_log_id.Bind(1, end).Run();
  }
  Failpoint("retire");
  if (status.ok()) {
    status = Commit();
  }
  if (!status.ok()) {
    Rollback();
    return status;
  }
  copied_until_ = copied_until;
  Failpoint("retire");
  if (copied_until_ == end) {
    status = log_->RemoveOldest();
  }
  if (!status.ok()) {
    return status;
  }
  return log_->RetirementDue();
}

absl::Status Store::InsertModel(std::int64_t id, const v1::Model& declaration) {
  const std::string blob = declaration.SerializeAsString();
  next_model_id_ = std::max(next_model_id_, id + 1);
  return statements_->insert_model.Bind(1, id)
      .BindText(2, declaration.name())
      .BindBlob(3, blob)
      .Run();
}

absl::Status Store::DeleteModel(std::int64_t id) {
  absl::Status status = statements_->delete_model.Bind(1, id).Run();
  status.Update(statements_->delete_cursors.Bind(1, id).Run());
  status.Update(statements_->delete_snapshot.Bind(1, id).Run());
  status.Update(statements_->delete_maturity.Bind(1, id).Run());
  status.Update(statements_->delete_all_history.Bind(1, id).Run());
  return status;
}

absl::Status Store::PutCursor(const StoredCursor& cursor) {
  return statements_->put_cursor.Bind(1, cursor.model_id)
      .BindText(2, cursor.producer_id)
      .Bind(3, cursor.epoch)
      .Bind(4, cursor.last_sequence)
      .BindBlob(5, cursor.contents)
      .Run();
}

absl::Status Store::PutSnapshot(const Snapshot& snapshot) {
  absl::Status status = statements_->put_snapshot.Bind(1, snapshot.model_id)
                            .Bind(2, snapshot.log_id)
                            .BindBlob(3, snapshot.data)
                            .Bind(4, snapshot.first_log_id)
                            .Run();
  if (status.ok() && snapshot.matured_log_id != 0) {
    status =
        statements_->put_maturity.Bind(1, snapshot.model_id).Bind(2, snapshot.matured_log_id).Run();
  }
  return status;
}

absl::Status Store::PutHistory(const StoredBucket& bucket) {
  return statements_->put_history.Bind(1, bucket.model_id)
      .Bind(2, bucket.resolution)
      .Bind(3, bucket.start_s)
      .BindBlob(4, bucket.data)
      .Run();
}

absl::Status Store::DeleteHistory(std::int64_t model_id, std::int64_t resolution,
                                  std::int64_t before_s) {
  return statements_->delete_history.Bind(1, model_id).Bind(2, resolution).Bind(3, before_s).Run();
}

absl::StatusOr<std::string> Store::ReadBatch(std::int64_t log_id) {
  if (log_id >= log_->first_log_id()) {
    return log_->ReadBatch(log_id);
  }
  Statement& read = statements_->read_batch.Bind(1, log_id);
  absl::StatusOr<bool> row = read.Next();
  if (!row.ok()) {
    return row.status();
  }
  if (!*row) {
    return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                     absl::StrCat("batch ", log_id, " of the log is missing"));
  }
  std::string data(read.Blob(0));
  // To the end, so that it may be run again.
  row = read.Next();
  if (!row.ok()) {
    return row.status();
  }
  return data;
}

absl::Status Store::Checkpoint() {
  Failpoint("checkpoint");
  // Commits do not wait for whoever reads, such as a backup.
  sqlite3_busy_timeout(database_.handle(), 0);
  const int code = sqlite3_wal_checkpoint_v2(database_.handle(), nullptr, SQLITE_CHECKPOINT_RESTART,
                                             nullptr, nullptr);
  sqlite3_busy_timeout(database_.handle(), kBusyTimeoutMs);
  // Another connection is at it: the next time will do.
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
    return SqliteError(database_.handle(), code, "make a checkpoint");
  }
  return absl::OkStatus();
}

}  // namespace calibd::server
