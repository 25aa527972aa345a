#include "server/store/local/local_store.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"
#include "server/store/local/disk_room.h"
#include "server/store/local/history_table.h"
#include "server/store/local/local_view.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// Delay between two attempts to make room on a full disk.
constexpr std::chrono::seconds kFullDiskInterval{1};
// If the write-ahead log has more pages of 4 KiB than this, because the Checkpointer does not keep
// up, a checkpoint is made between two commits.
constexpr int kMostPages = 32000;

// Describes the batches in a tail of the log.
std::string Describe(const LogTail& tail) {
  const std::string batches =
      tail.end_log_id <= tail.first_log_id ? absl::StrCat("batches from ", tail.first_log_id, " on")
      : tail.end_log_id == tail.first_log_id + 1
          ? absl::StrCat("batch ", tail.first_log_id)
          : absl::StrCat("batches ", tail.first_log_id, " to ", tail.end_log_id - 1);
  return absl::StrCat(tail.path, " at byte ", tail.offset, ", ", batches, " of the log");
}

}  // namespace

struct LocalStore::Statements {
  std::optional<Statement> begin;
  std::optional<Statement> commit;
  std::optional<StateWriter> state;
  std::optional<TableWriter> models;
  std::optional<TableWriter> cursors;
  std::optional<TableWriter> maturity;
  std::optional<TableWriter> snapshots;
  std::optional<HistoryTable> history;
  std::optional<Statement> delete_cursors;
};

LocalStore::LocalStore(std::string path, File lock, StoreParts parts)
    : path_(std::move(path)),
      lock_(std::move(lock)),
      database_(std::move(parts.database)),
      state_(parts.state),
      committed_(parts.state),
      file_(std::move(parts.file)),
      warnings_(std::move(parts.warnings)),
      log_(std::move(parts.log)) {}

LocalStore::~LocalStore() = default;

absl::StatusOr<std::unique_ptr<LocalStore>> LocalStore::Open(const std::string& folder,
                                                             std::uint64_t segment_bytes) {
  CALIBD_ASSIGN_OR_RETURN(File lock, LockFolder(folder));
  CALIBD_ASSIGN_OR_RETURN(StoreParts parts, OpenStore(folder, segment_bytes));
  std::unique_ptr<LocalStore> store(
      new LocalStore(DatabasePath(folder), std::move(lock), std::move(parts)));
  CALIBD_RETURN_IF_ERROR(store->Prepare());
  CALIBD_ASSIGN_OR_RETURN(store->checkpointer_, Checkpointer::Start(store->path_));
  RemoveUnfinishedCopy(folder);
  return store;
}

absl::Status LocalStore::Prepare() {
  statements_ = std::make_unique<Statements>();
  const auto prepare = [this](const char* sql) { return Statement::Prepare(database_, sql); };
  const auto writer = [this](Table table) {
    return TableWriter::Prepare(database_, table, &state_.sum(table));
  };
  CALIBD_ASSIGN_OR_RETURN(statements_->begin, prepare("BEGIN IMMEDIATE"));
  CALIBD_ASSIGN_OR_RETURN(statements_->commit, prepare("COMMIT"));
  CALIBD_ASSIGN_OR_RETURN(statements_->state, StateWriter::Prepare(database_));
  CALIBD_ASSIGN_OR_RETURN(statements_->models, writer(Table::kModels));
  CALIBD_ASSIGN_OR_RETURN(statements_->cursors, writer(Table::kCursors));
  CALIBD_ASSIGN_OR_RETURN(statements_->maturity, writer(Table::kMaturity));
  CALIBD_ASSIGN_OR_RETURN(statements_->snapshots, writer(Table::kSnapshots));
  CALIBD_ASSIGN_OR_RETURN(statements_->history,
                          HistoryTable::Prepare(database_, state_.sum(Table::kHistorySpans)));
  CALIBD_ASSIGN_OR_RETURN(statements_->delete_cursors,
                          prepare("DELETE FROM cursors WHERE model_id = ?1 RETURNING checksum"));
  sqlite3_wal_hook(
      database_.handle(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int*>(pages) = count;
        return SQLITE_OK;
      },
      &wal_pages_);
  return absl::OkStatus();
}

namespace {

// Steps through a table whose rows belong to models, in the order of the models' ids.
class RowsOfModels {
 public:
  static absl::StatusOr<RowsOfModels> Select(const Database& database, Table table) {
    CALIBD_ASSIGN_OR_RETURN(CheckedRows rows,
                            CheckedRows::Select(database, table, "ORDER BY model_id"));
    RowsOfModels made(table, std::move(rows));
    CALIBD_RETURN_IF_ERROR(made.Next());
    return made;
  }

  // True if the model has a row. Ids must be passed in ascending order.
  [[nodiscard]] bool Has(std::int64_t model_id) const noexcept {
    return has_row_ && rows_.Integer(0) == model_id;
  }
  [[nodiscard]] const CheckedRows& row() const noexcept { return rows_; }
  absl::Status Next() {
    const absl::StatusOr<bool> row = rows_.Next();
    has_row_ = row.ok() && *row;
    return row.status();
  }
  // Call it after the last model.
  [[nodiscard]] absl::Status Check(const DatabaseState& state) const {
    return has_row_ ? DatabaseDamage(absl::StrCat("has a row in table ", InfoOf(table_).name,
                                                  " of model ", rows_.Integer(0),
                                                  ", which does not exist"))
                    : CheckSum(table_, state.sum(table_), rows_.sum());
  }

 private:
  RowsOfModels(Table table, CheckedRows rows) : table_(table), rows_(std::move(rows)) {}

  Table table_;
  CheckedRows rows_;
  bool has_row_ = false;
};

}  // namespace

absl::Status LocalStore::ReadModels(const std::function<absl::Status(const StoredModel&)>& visit) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows models,
                          CheckedRows::Select(database_, Table::kModels, "ORDER BY id"));
  CALIBD_ASSIGN_OR_RETURN(RowsOfModels snapshots,
                          RowsOfModels::Select(database_, Table::kSnapshots));
  CALIBD_ASSIGN_OR_RETURN(RowsOfModels maturity, RowsOfModels::Select(database_, Table::kMaturity));
  absl::StatusOr<bool> row = models.Next();
  for (; row.ok() && *row; row = models.Next()) {
    StoredModel model;
    model.id = models.Integer(0);
    const std::string_view declaration = models.Blob(1);
    if (!model.declaration.ParseFromArray(declaration.data(),
                                          static_cast<int>(declaration.size()))) {
      return DatabaseDamage(
          absl::StrCat("has a declaration of model ", model.id, " that cannot be parsed"));
    }
    if (snapshots.Has(model.id)) {
      model.snapshot_log_id = snapshots.row().Integer(1);
      model.first_log_id = snapshots.row().Integer(2);
      model.snapshot = snapshots.row().Blob(3);
      CALIBD_RETURN_IF_ERROR(snapshots.Next());
    }
    if (maturity.Has(model.id)) {
      model.matured_log_id = maturity.row().Integer(1);
      CALIBD_RETURN_IF_ERROR(maturity.Next());
    }
    CALIBD_RETURN_IF_ERROR(visit(model));
  }
  CALIBD_RETURN_IF_ERROR(row.status());
  CALIBD_RETURN_IF_ERROR(CheckSum(Table::kModels, committed_.sum(Table::kModels), models.sum()));
  CALIBD_RETURN_IF_ERROR(snapshots.Check(committed_));
  CALIBD_RETURN_IF_ERROR(maturity.Check(committed_));
  return CheckHistorySpans();
}

absl::Status LocalStore::CheckHistorySpans() const {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows spans,
                          CheckedRows::Select(database_, Table::kHistorySpans, ""));
  absl::StatusOr<bool> row = true;
  while (row.ok() && *row) row = spans.Next();
  CALIBD_RETURN_IF_ERROR(row.status());
  return CheckSum(Table::kHistorySpans, committed_.sum(Table::kHistorySpans), spans.sum());
}

absl::Status LocalStore::ReadCursors(
    const std::function<absl::Status(const StoredCursor&)>& visit) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows cursors, CheckedRows::Select(database_, Table::kCursors, ""));
  absl::StatusOr<bool> row = cursors.Next();
  for (; row.ok() && *row; row = cursors.Next()) {
    CALIBD_RETURN_IF_ERROR(visit({.model_id = cursors.Integer(0),
                                  .producer_id = std::string(cursors.Blob(1)),
                                  .epoch = cursors.Integer(2),
                                  .last_sequence = cursors.Integer(3),
                                  .contents = cursors.Blob(4)}));
  }
  CALIBD_RETURN_IF_ERROR(row.status());
  return CheckSum(Table::kCursors, committed_.sum(Table::kCursors), cursors.sum());
}

absl::Status LocalStore::ReadLog(const VisitBatch& visit) {
  absl::Status status = log_->Read([&](const StoredBatch& batch) {
    // The id of a deleted model was issued too.
    return batch.model_id < next_model_id()
               ? visit(batch)
               : DamageError(path_, absl::StrCat("is older than the log: batch ", batch.log_id,
                                                 " belongs to model ", batch.model_id,
                                                 ", which was created later"));
  });
  if (const std::optional<LogTail>& tail = log_->tail(); tail.has_value()) {
    lost_tail_ = LostTail{.description = Describe(*tail), .was_durable = tail->was_durable};
    for (const LogTail::Batch& batch : tail->batches) {
      lost_tail_->batches.push_back({.model_id = batch.model_id, .data = batch.data});
    }
  }
  return status;
}

void LocalStore::FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) {
  DropBatches(unneeded_log_ids);
  recovered_ = true;
}

std::int64_t LocalStore::AppendBatch(std::int64_t model_id, std::int64_t time_us,
                                     std::string data) {
  return log_->Append(model_id, time_us, std::move(data));
}

absl::Status LocalStore::CommitLog() {
  if (appended_bytes() == 0) {
    ApplyReleased();
    return absl::OkStatus();
  }
  CALIBD_RETURN_IF_ERROR(BeginWrite());
  CALIBD_RETURN_IF_ERROR(log_->Commit());
  Mark();
  ApplyReleased();
  return absl::OkStatus();
}

absl::Status LocalStore::BeginWrite() {
  CALIBD_RETURN_IF_ERROR(checkpointer_->status());
  StoreMark mark = file_.mark();
  if (!mark.clean) return absl::OkStatus();
  mark.clean = false;
  return file_.Write(mark, /*durable=*/true);
}

void LocalStore::Mark() noexcept {
  StoreMark mark = file_.mark();
  mark.commit = committed_.commit_number;
  log_->Mark(mark);
  // The mark describes only committed data. If it is outdated, the next start can only check less.
  static_cast<void>(file_.Write(mark, /*durable=*/false));
}

absl::Status LocalStore::CheckMark() const {
  CALIBD_ASSIGN_OR_RETURN(const std::optional<StoreFile> file, StoreFile::Open(folder()));
  return file.has_value() && file->mark() == file_.mark()
             ? absl::OkStatus()
             : DamageError(folder() + "/store", "is missing, or differs from what was written");
}

absl::Status LocalStore::CheckInPlace() const {
  absl::Status status = file_.CheckInPlace();
  status.Update(log_->CheckInPlace());
  status.Update(database_.CheckInPlace());
  return status;
}

absl::Status LocalStore::Begin() {
  CALIBD_RETURN_IF_ERROR(BeginWrite());
  return statements_->begin->Run();
}

absl::Status LocalStore::Commit() {
  ++state_.commit_number;
  CALIBD_RETURN_IF_ERROR(statements_->state->Write(state_, committed_));
  CALIBD_RETURN_IF_ERROR(statements_->commit->Run());
  committed_ = state_;
  checkpointer_->OnCommit(wal_pages_);
  Mark();
  ApplyReleased();
  return absl::OkStatus();
}

void LocalStore::ReleaseBatches(std::span<const std::int64_t> log_ids) {
  released_.insert(released_.end(), log_ids.begin(), log_ids.end());
}

void LocalStore::DropBatches(std::span<const std::int64_t> log_ids) { log_->MarkUnneeded(log_ids); }

void LocalStore::Rollback() {
  released_.clear();
  log_->Rollback();
  state_ = committed_;
  // A full disk may have ended the transaction already.
  if (database_.in_transaction()) static_cast<void>(database_.Execute("ROLLBACK"));
}

absl::StatusOr<bool> LocalStore::Retire() {
  if (!log_->RetirementDue()) return false;
  CALIBD_RETURN_IF_ERROR(BeginWrite());
  CALIBD_RETURN_IF_ERROR(log_->OldestIsUnneeded() ? RemoveOldest() : log_->Compact());
  return log_->RetirementDue();
}

absl::Status LocalStore::RemoveOldest() {
  Failpoint("retire");
  absl::Status status = Begin();
  state_.first_log_id = log_->first_log_id_after_oldest();
  Failpoint("retire");
  if (status.ok()) status = Commit();
  if (!status.ok()) {
    Rollback();
    return status;
  }
  Failpoint("retire");
  return log_->RemoveOldest();
}

absl::Status LocalStore::InsertModel(std::int64_t id, const v1::Model& declaration) {
  const std::string blob = declaration.SerializeAsString();
  state_.next_model_id = std::max(state_.next_model_id, id + 1);
  return statements_->models->Insert({id, std::string_view(blob)});
}

absl::Status LocalStore::DeleteModel(std::int64_t id) {
  absl::Status status = statements_->models->Delete({id});
  status.Update(statements_->cursors->RunDelete(statements_->delete_cursors->Bind(1, id)));
  status.Update(statements_->snapshots->Delete({id}));
  status.Update(statements_->maturity->Delete({id}));
  status.Update(statements_->history->DeleteModel(id));
  return status;
}

absl::Status LocalStore::PutCursor(const StoredCursor& cursor) {
  return statements_->cursors->Put({cursor.model_id, std::string_view(cursor.producer_id),
                                    cursor.epoch, cursor.last_sequence, cursor.contents});
}

absl::Status LocalStore::DeleteCursor(std::int64_t model_id, std::string_view producer_id) {
  return statements_->cursors->Delete({model_id, producer_id});
}

absl::Status LocalStore::PutSnapshot(const StoredSnapshot& snapshot) {
  CALIBD_RETURN_IF_ERROR(statements_->snapshots->Put(
      {snapshot.model_id, snapshot.log_id, snapshot.first_log_id, snapshot.data}));
  return snapshot.matured_log_id == 0
             ? absl::OkStatus()
             : statements_->maturity->Put({snapshot.model_id, snapshot.matured_log_id});
}

absl::Status LocalStore::PutHistory(const StoredBucket& bucket) {
  return statements_->history->Put(bucket.series, bucket.start_s, bucket.data);
}

absl::Status LocalStore::DeleteHistory(const HistorySeries& series, std::int64_t before_s) {
  return statements_->history->DeleteBefore(series, before_s);
}

absl::Status LocalStore::ReadHistory(const HistorySeries& series, const HistoryRange& range,
                                     const VisitHistory& visit) const {
  CALIBD_ASSIGN_OR_RETURN(const Database database, OpenSnapshot());
  return server::ReadHistory(database, series, range, visit);
}

absl::StatusOr<std::optional<HistorySeries>> LocalStore::NextHistory(
    const HistorySeries& after) const {
  CALIBD_ASSIGN_OR_RETURN(const Database database, OpenSnapshot());
  return NextSeries(database, after);
}

absl::StatusOr<Database> LocalStore::OpenSnapshot() const {
  CALIBD_ASSIGN_OR_RETURN(Database database, Database::OpenExisting(path_));
  CALIBD_RETURN_IF_ERROR(database.Execute("BEGIN"));
  return database;
}

absl::Status LocalStore::ReadBatches(std::span<const std::int64_t> log_ids,
                                     const VisitData& visit) {
  for (const std::int64_t log_id : log_ids) {
    CALIBD_ASSIGN_OR_RETURN(const std::string data, log_->ReadBatch(log_id));
    CALIBD_RETURN_IF_ERROR(visit(data));
  }
  return absl::OkStatus();
}

absl::Status LocalStore::Checkpoint() {
  Failpoint("checkpoint");
  // On a busy machine a checkpoint of the Checkpointer takes long and does not reach the pages that
  // are committed meanwhile. The log would grow without end if commits went on while this one
  // could not begin. Without commits, the running one ends soon.
  const std::unique_lock pause = checkpointer_->Pause();
  // Does not wait for readers such as a backup, because commits would wait too.
  sqlite3_busy_timeout(database_.handle(), 0);
  absl::Status status = database_.Checkpoint(SQLITE_CHECKPOINT_RESTART);
  sqlite3_busy_timeout(database_.handle(), kBusyTimeoutMs);
  return status;
}

absl::StatusOr<std::unique_ptr<StoreView>> LocalStore::OpenView() {
  CALIBD_ASSIGN_OR_RETURN(Database database, OpenSnapshot());
  return std::make_unique<LocalView>(*this, std::move(database));
}

absl::StatusOr<bool> LocalStore::Maintain(bool refused) {
  absl::Status status = checkpointer_->status();
  const auto now = std::chrono::steady_clock::now();
  if (wal_pages_ > kMostPages || (refused && now - checkpoint_at_ >= kFullDiskInterval)) {
    // On a full disk, a checkpoint frees space: the pages move to their places in the database.
    checkpoint_at_ = now;
    status.Update(Checkpoint());
  }
  if (!status.ok() && !absl::IsResourceExhausted(status)) return status;
  if (now < retires_at_) return false;
  absl::StatusOr<bool> more = Retire();
  if (absl::IsResourceExhausted(more.status())) retires_at_ = now + kFullDiskInterval;
  return more;
}

absl::Status LocalStore::CheckRoom(std::uint64_t bytes) const {
  return CheckDiskRoom(folder(), bytes);
}

StoreMaintenance::Sizes LocalStore::sizes() const {
  Sizes sizes{.log_bytes = log_->written_bytes(), .appended_log_bytes = log_->total_bytes()};
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path_ + suffix, error);
    if (!error) sizes.catalog_bytes += static_cast<std::int64_t>(size);
  }
  return sizes;
}

std::optional<StoreMaintenance::Space> LocalStore::space() const {
  std::error_code error;
  const std::filesystem::space_info disk = std::filesystem::space(folder(), error);
  if (error) return std::nullopt;
  return Space{.used = static_cast<std::uint64_t>(log_->bytes() + sizes().catalog_bytes),
               .available = disk.available};
}

std::string LocalStore::folder() const {
  return std::filesystem::path(path_).parent_path().string();
}

absl::Status LocalStore::Close() {
  if (!recovered_ || database_.handle() == nullptr) return absl::OkStatus();
  checkpointer_->Stop();
  CALIBD_RETURN_IF_ERROR(checkpointer_->status());
  checkpointer_.reset();
  statements_.reset();
  sqlite3_db_config(database_.handle(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, nullptr);
  database_ = Database();
  // SQLite does not sync the removal of the write-ahead log, which must not reappear after the mark
  // is written.
  CALIBD_RETURN_IF_ERROR(SyncFolder(folder()));
  StoreMark mark = file_.mark();
  mark.commit = committed_.commit_number;
  log_->Mark(mark);
  // The last connection removes the write-ahead log. Another process may still have a connection.
  mark.clean = !HasWal(path_);
  return mark == file_.mark() ? absl::OkStatus() : file_.Write(mark, /*durable=*/true);
}

}  // namespace calibd::server
