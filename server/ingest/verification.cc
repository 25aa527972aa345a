#include "server/ingest/verification.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "calibd/store/v1/store.pb.h"
#include "server/errors.h"
#include "server/ingest/row_codec.h"
#include "server/state/history.h"
#include "server/state/model_declaration.h"
#include "server/state/strand_state.h"
#include "server/store/local/database_state.h"
#include "server/store/local/held_log.h"
#include "server/store/local/history_table.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

constexpr int kMostProblems = 100;
// SQLite instructions between two checks for a stop.
constexpr int kInstructions = 100000;

class Verifier {
 public:
  // folder: ends with a slash.
  Verifier(std::string folder, Database& database, const HeldLog& log,
           const std::function<bool(double)>& progress)
      : folder_(std::move(folder)), database_(database), log_(log), progress_(progress) {}

  absl::StatusOr<v1::Verification> Run() {
    // The transaction gives all reads the same state of the database.
    absl::Status status = database_.Execute("BEGIN");
    status.Update(CheckFile());
    status.Update(Judge(log_.CheckMark()));
    status.Update(ReadDatabaseState());
    status.Update(ReadModels());
    status.Update(ReadSnapshots());
    status.Update(ReadCursors());
    status.Update(ReadHistorySeries());
    status.Update(ReadLog());
    if (!status.ok()) return status;
    CheckModels();
    return std::move(result_);
  }

 private:
  struct Producer {
    std::int64_t cursor = 0;
    // Number of the producer's newest batch in the log.
    std::int64_t last_sequence = 0;
    // True if this batch follows the snapshot. From the snapshot on, the log holds every batch.
    bool is_new = false;
  };
  struct StoredModel {
    std::string name;
    ModelDeclaration declaration;
    std::int64_t snapshot_log_id = 0;
    std::int64_t snapshot_observations = 0;
    std::int64_t matured_log_id = 0;
    // Number of observations in the log: all, and those after the snapshot.
    std::int64_t observations = 0;
    std::int64_t new_observations = 0;
    std::map<std::string, Producer> producers{};
  };

  template <typename... Parts>
  void Report(const Parts&... parts) {
    if (result_.problems_size() < kMostProblems) {
      // Clients learn the names of files, but not the folder.
      result_.add_problems(absl::StrReplaceAll(absl::StrCat(parts...), {{folder_, ""}}));
    }
  }

  // Reports damage as a problem. Returns other errors.
  absl::Status Judge(const absl::Status& status) {
    if (absl::IsDataLoss(status)) {
      Report(status.message());
      return absl::OkStatus();
    }
    return status;
  }

  // Checks every row of a table, calls visit for each valid row, and compares the rows with the sum
  // of the table, if it has one.
  template <typename Visit>
  absl::Status ReadTable(Table table, std::string_view rest, const Visit& visit) {
    absl::StatusOr<CheckedRows> rows = CheckedRows::Select(database_, table, rest);
    if (!rows.ok()) return Judge(rows.status());
    while (true) {
      const absl::StatusOr<bool> row = rows->Next();
      if (row.ok() && !*row) break;
      if (row.ok()) {
        visit(*rows);
      } else if (absl::Status status = Judge(row.status()); !status.ok() || !rows->at_row()) {
        return status;
      }
      if (stopped_) return absl::CancelledError("the verification was stopped");
    }
    return table == Table::kHistory ? absl::OkStatus()
                                    : Judge(CheckSum(table, state_.sum(table), rows->sum()));
  }

  absl::Status ReadDatabaseState() {
    const absl::StatusOr<DatabaseState> state = ReadState(database_);
    if (state.ok()) state_ = *state;
    return Judge(state.status());
  }

  // visit: called for each row.
  template <typename Visit>
  absl::Status Read(const char* sql, const Visit& visit) {
    absl::StatusOr<Statement> statement = Statement::Prepare(database_, sql);
    if (!statement.ok()) return Judge(statement.status());
    absl::StatusOr<bool> row = statement->Next();
    for (; row.ok() && *row; row = statement->Next()) {
      visit(*statement);
      if (stopped_) return absl::CancelledError("the verification was stopped");
    }
    return Judge(row.status());
  }

  absl::Status CheckFile() {
    // The check is a single statement; the progress handler can stop it.
    sqlite3_progress_handler(
        database_.handle(), kInstructions,
        [](void* self) { return static_cast<Verifier*>(self)->GoOn(0) ? 0 : 1; }, this);
    const absl::Status status = Read("PRAGMA integrity_check(100)", [this](const Statement& row) {
      if (row.Text(0) != "ok") Report("the file is damaged: ", std::string(row.Text(0)));
    });
    sqlite3_progress_handler(database_.handle(), 0, nullptr, nullptr);
    return stopped_ ? absl::CancelledError("the verification was stopped") : status;
  }

  bool GoOn(double fraction) {
    stopped_ = stopped_ || !progress_(fraction);
    return !stopped_;
  }

  absl::Status ReadModels() {
    return ReadTable(Table::kModels, "ORDER BY id", [this](const CheckedRows& row) {
      static_cast<void>(GoOn(0));
      result_.set_models(result_.models() + 1);
      ReadModel(row.Integer(0), row.Blob(1));
    });
  }

  void ReadModel(std::int64_t id, std::string_view blob) {
    v1::Model declared;
    if (!declared.ParseFromArray(blob.data(), static_cast<int>(blob.size()))) {
      Report("the declaration of model ", id, " cannot be parsed");
      return;
    }
    absl::StatusOr<ModelDeclaration> declaration =
        CheckStoredDeclaration(declared, std::numeric_limits<std::size_t>::max());
    if (!declaration.ok()) {
      Report("the declaration of model ", id,
             " is invalid: ", std::string(declaration.status().message()));
      return;
    }
    // All declarations are in memory at once, and the class names are not needed.
    declaration->class_names.clear();
    models_.emplace(id, StoredModel{.name = declaration->name.ToString(),
                                    .declaration = *std::move(declaration)});
  }

  absl::Status ReadSnapshots() {
    absl::Status status =
        ReadTable(Table::kMaturity, "ORDER BY model_id", [this](const CheckedRows& row) {
          if (StoredModel* const model = FindModel(row.Integer(0), "maturity")) {
            model->matured_log_id = row.Integer(1);
          }
        });
    status.Update(ReadTable(Table::kSnapshots, "ORDER BY model_id", [this](const CheckedRows& row) {
      static_cast<void>(GoOn(0));
      if (StoredModel* const model = FindModel(row.Integer(0), "snapshots")) {
        result_.set_snapshots(result_.snapshots() + 1);
        model->snapshot_log_id = row.Integer(1);
        CheckSnapshot(row.Blob(3), *model);
      }
    }));
    return status;
  }

  // Returns null and reports a problem if there is no such model.
  StoredModel* FindModel(std::int64_t id, const char* table) {
    const auto model = models_.find(id);
    if (model == models_.end()) {
      Report("table ", table, " has a row of model ", id, ", which does not exist or is damaged");
      return nullptr;
    }
    return &model->second;
  }

  // Restores the snapshot to a temporary state to check that it is readable.
  void CheckSnapshot(std::string_view snapshot, StoredModel& model) {
    store::v1::ModelState state;
    if (!state.ParseFromArray(snapshot.data(), static_cast<int>(snapshot.size()))) {
      Report("the snapshot of ", model.name, " cannot be read");
      return;
    }
    model.snapshot_observations = state.observations();
    const absl::Status restored = StrandState(model.declaration).Restore(state);
    if (!restored.ok()) Report(std::string(restored.message()));
  }

  absl::Status ReadCursors() {
    return ReadTable(Table::kCursors, "", [this](const CheckedRows& row) {
      result_.set_producers(result_.producers() + 1);
      const std::string producer(row.Blob(1));
      StoredModel* const model = FindModel(row.Integer(0), "cursors");
      ProducerCursors::Cursor cursor;
      if (model != nullptr && !DecodeContents(row.Blob(4), cursor)) {
        Report(model->name, ": the cursor of producer ", Quoted(producer), " cannot be parsed");
      } else if (model != nullptr) {
        model->producers[producer].cursor = row.Integer(3);
      }
    });
  }

  absl::Status ReadHistorySeries() {
    std::int64_t rows = 0;
    absl::Status status = ReadTable(
        Table::kHistorySpans, "ORDER BY model_id, resolution",
        [this, &rows](const CheckedRows& row) {
          rows += row.Integer(4);
          const StoredModel* const model = FindModel(row.Integer(0), "history_spans");
          if (model != nullptr) {
            ReadSeries({.model_id = row.Integer(0), .resolution = row.Integer(1)}, *model);
          }
        });
    const absl::StatusOr<std::int64_t> all = database_.QueryInteger("SELECT count(*) FROM history");
    if (all.ok() && *all != rows) Report("table history has ", *all, " rows, expected ", rows);
    status.Update(Judge(all.status()));
    return status;
  }

  void ReadSeries(const HistorySeries& series, const StoredModel& model) {
    const absl::Status status =
        ReadHistory(database_, series, kNoRow, std::numeric_limits<std::int64_t>::max(),
                    [&](std::int64_t start_s, std::string_view data) {
                      if (!DecodeHistoryBucket(data).ok()) {
                        Report(model.name, ": the bucket of the history that starts at ", start_s,
                               " s cannot be parsed");
                      }
                      return absl::OkStatus();
                    });
    if (!status.ok()) Report(model.name, ": ", std::string(status.message()));
    static_cast<void>(GoOn(0));
  }

  absl::Status ReadLog() {
    // The files are read in their current state: the log is ahead of the database.
    const absl::StatusOr<std::vector<LogFiles::Extent>> extents = log_.extents();
    if (!extents.ok()) return extents.status();
    const LogFiles::Extent& newest = extents->back();
    const std::int64_t first = extents->front().first_log_id;
    const std::int64_t end = newest.first_log_id + static_cast<std::int64_t>(newest.needed.size());
    absl::StatusOr<std::int64_t> rows = database_.QueryInteger("SELECT count(*) FROM log");
    if (!rows.ok()) return Judge(rows.status());
    *rows += end - first;
    const auto read_batch = [&](std::int64_t log_id, std::int64_t model_id, std::string_view data) {
      result_.set_batches(result_.batches() + 1);
      const auto model = models_.find(model_id);
      // Batches of deleted models are removed with their segments, or at the next start.
      if (model != models_.end()) ReadBatch(log_id, data, model->second);
      static_cast<void>(GoOn(static_cast<double>(result_.batches()) /
                             static_cast<double>(std::max<std::int64_t>(1, *rows))));
    };
    absl::Status status = ReadTable(Table::kLog, "ORDER BY id", [&](const CheckedRows& row) {
      // An interrupted retirement may already have copied a part of the oldest segment.
      if (row.Integer(0) < first) read_batch(row.Integer(0), row.Integer(1), row.Blob(3));
    });
    for (const LogFiles::Extent& extent : *extents) {
      if (!status.ok()) break;
      status = Judge(LogFiles::ReadExtent(
          extent, [&](const StoredBatch& batch, bool /*needed*/) -> absl::Status {
            read_batch(batch.log_id, batch.model_id, batch.data);
            return stopped_ ? absl::CancelledError("the verification was stopped")
                            : absl::OkStatus();
          }));
    }
    return status;
  }

  void ReadBatch(std::int64_t log_id, std::string_view data, StoredModel& model) {
    const absl::StatusOr<LogRow> row = DecodeRow(data, model.declaration.class_count);
    if (!row.ok()) {
      Report(model.name, ": batch ", log_id, " of the log cannot be read");
      return;
    }
    if (row->needs_tracker() && model.declaration.max_pending == 0) {
      Report(model.name, ": batch ", log_id,
             " of the log needs a label_grace, which the model does not have");
    }
    const auto* const matured = row->As<MaturedRow>();
    if (matured != nullptr && log_id <= model.snapshot_log_id &&
        matured->through_log_id > model.matured_log_id) {
      Report(model.name, ": predictions up to ", matured->through_log_id, " have matured by batch ",
             log_id, ", but table maturity says up to ", model.matured_log_id);
    }
    const auto rows = static_cast<std::int64_t>(row->counted_rows());
    result_.set_observations(result_.observations() + rows);
    model.observations += rows;
    model.new_observations += log_id > model.snapshot_log_id ? rows : 0;
    if (row->position.has_value() && row->batch_hash().has_value()) {
      CheckPosition(*row->position, log_id, model);
    }
  }

  void CheckPosition(const ProducerPosition& position, std::int64_t log_id, StoredModel& model) {
    Producer& producer = model.producers[position.producer_id];
    if (position.sequence <= producer.last_sequence) {
      Report(model.name, ": batch ", log_id, " of the log is number ", position.sequence,
             " of producer ", Quoted(position.producer_id), ", but follows number ",
             producer.last_sequence);
    }
    // From the snapshot on, the log holds every batch of a producer.
    const std::int64_t known = producer.is_new ? producer.last_sequence
                                               : std::max(producer.cursor, producer.last_sequence);
    if (position.sequence > known + 1) {
      Report(model.name, ": number ", known + 1, " of producer ", Quoted(position.producer_id),
             " is missing from the log after the snapshot of the model");
    }
    producer.last_sequence = position.sequence;
    producer.is_new = log_id > model.snapshot_log_id;
  }

  void CheckModels() {
    for (const auto& [id, model] : models_) {
      for (const auto& [name, producer] : model.producers) {
        if (producer.is_new && producer.last_sequence < producer.cursor) {
          Report(model.name, ": the log ends with number ", producer.last_sequence, " of producer ",
                 Quoted(name), ", but its cursor says ", producer.cursor);
        }
      }
      const std::int64_t all = model.snapshot_observations + model.new_observations;
      const std::int64_t needed =
          std::min(all, static_cast<std::int64_t>(model.declaration.window));
      if (model.observations < needed) {
        Report(model.name, ": the log holds ", model.observations, " of ", all,
               " observations, expected at least the window of ", needed);
      }
    }
  }

  const std::string folder_;
  Database& database_;
  const HeldLog& log_;
  const std::function<bool(double)>& progress_;
  v1::Verification result_;
  DatabaseState state_;
  std::map<std::int64_t, StoredModel> models_;
  bool stopped_ = false;
};

}  // namespace

absl::StatusOr<v1::Verification> VerifyStore(const std::string& path, CommitQueue& commits,
                                             const std::function<bool(double)>& progress) {
  const absl::StatusOr<std::unique_ptr<HeldLog>> log = HeldLog::Hold(commits);
  if (!log.ok()) return log.status();
  absl::StatusOr<Database> database = Database::OpenExisting(path);
  if (!database.ok()) return database.status();
  return Verifier(std::filesystem::path(path).parent_path().string() + "/", *database, **log,
                  progress)
      .Run();
}

}  // namespace calibd::server
