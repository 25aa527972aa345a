#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/store/local/database_state.h"
#include "server/store/local/history_table.h"
#include "server/store/local/local_store.h"
#include "server/store/local/local_view.h"
#include "server/store/local/table.h"

namespace calibd::server {
namespace {

// SQLite instructions between two checks for a stop.
constexpr int kInstructions = 100000;

absl::Status VerificationStopped() { return absl::CancelledError("the verification was stopped"); }

class Verifier {
 public:
  // database: must be in a read transaction.
  Verifier(std::string folder, Database& database, StoreContents& contents,
           const OnProgress& progress)
      : folder_(std::move(folder)), database_(database), contents_(contents), progress_(progress) {}

  // begun, mark: the results of the view.
  absl::Status Run(const absl::Status& begun, const absl::Status& mark,
                   const std::vector<LogFiles::Extent>& extents) {
    absl::Status status = Judge(begun);
    status.Update(CheckFile());
    status.Update(Judge(mark));
    status.Update(ReadDatabaseState());
    status.Update(ReadModels());
    status.Update(ReadCursors());
    status.Update(ReadHistorySeries());
    status.Update(ReadLog(extents));
    return status;
  }

 private:
  // Clients may see the names of files, but not the folder.
  void Report(std::string_view problem, std::int64_t model_id = 0) {
    contents_.AddProblem(model_id,
                         absl::StrReplaceAll(std::string(problem), {{folder_ + "/", ""}}));
  }

  // Reports damage as a problem. Returns other errors.
  absl::Status Judge(const absl::Status& status) {
    if (!absl::IsDataLoss(status)) return status;
    Report(std::string(status.message()));
    return absl::OkStatus();
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
      if (!GoOn()) return VerificationStopped();
    }
    return Judge(CheckSum(table, state_.sum(table), rows->sum()));
  }

  absl::Status ReadDatabaseState() {
    const absl::StatusOr<DatabaseState> state = ReadState(database_);
    if (state.ok()) state_ = *state;
    return Judge(state.status());
  }

  absl::Status CheckFile() {
    // The check is a single statement; the progress handler can stop it.
    sqlite3_progress_handler(
        database_.handle(), kInstructions,
        [](void* self) { return static_cast<Verifier*>(self)->GoOn() ? 0 : 1; }, this);
    const absl::Status status = CheckIntegrity();
    sqlite3_progress_handler(database_.handle(), 0, nullptr, nullptr);
    return stopped_ ? VerificationStopped() : status;
  }

  absl::Status CheckIntegrity() {
    absl::StatusOr<Statement> check = Statement::Prepare(database_, "PRAGMA integrity_check(100)");
    if (!check.ok()) return Judge(check.status());
    absl::StatusOr<bool> row = check->Next();
    for (; row.ok() && *row; row = check->Next()) {
      if (check->Text(0) != "ok") {
        Report(absl::StrCat("the file is damaged: ", std::string(check->Text(0))));
      }
    }
    return Judge(row.status());
  }

  bool GoOn() {
    stopped_ = stopped_ || !progress_(fraction_);
    return !stopped_;
  }

  absl::Status ReadModels() {
    absl::Status status = ReadTable(Table::kModels, "ORDER BY id", [this](const CheckedRows& row) {
      contents_.AddModel(row.Integer(0), row.Blob(1));
    });
    status.Update(ReadTable(Table::kMaturity, "ORDER BY model_id", [this](const CheckedRows& row) {
      contents_.AddMaturity(row.Integer(0), row.Integer(1));
    }));
    status.Update(ReadTable(Table::kSnapshots, "ORDER BY model_id", [this](const CheckedRows& row) {
      contents_.AddSnapshot({.model_id = row.Integer(0),
                             .log_id = row.Integer(1),
                             .data = row.Blob(3),
                             .first_log_id = row.Integer(2)});
    }));
    return status;
  }

  absl::Status ReadCursors() {
    return ReadTable(Table::kCursors, "", [this](const CheckedRows& row) {
      contents_.AddCursor({.model_id = row.Integer(0),
                           .producer_id = std::string(row.Blob(1)),
                           .epoch = row.Integer(2),
                           .last_sequence = row.Integer(3),
                           .contents = row.Blob(4)});
    });
  }

  absl::Status ReadHistorySeries() {
    std::int64_t rows = 0;
    absl::Status status = ReadTable(
        Table::kHistorySpans, "ORDER BY model_id, resolution",
        [this, &rows](const CheckedRows& row) {
          rows += row.Integer(4);
          const HistorySeries series{.model_id = row.Integer(0), .resolution = row.Integer(1)};
          const absl::Status read =
              ReadHistory(database_, series, {}, [&](std::int64_t start_s, std::string_view data) {
                contents_.AddHistory(series, start_s, data);
                return absl::OkStatus();
              });
          if (!read.ok()) Report(std::string(read.message()), series.model_id);
        });
    const absl::StatusOr<std::int64_t> all = database_.QueryInteger("SELECT count(*) FROM history");
    if (all.ok() && *all != rows) {
      Report(absl::StrCat("table history has ", *all, " rows, expected ", rows));
    }
    status.Update(Judge(all.status()));
    return status;
  }

  absl::Status ReadLog(const std::vector<LogFiles::Extent>& extents) {
    std::size_t batches = 0;
    for (const LogFiles::Extent& extent : extents) batches += extent.needed.size();
    double read = 0;
    // Only a backup has rows in this table.
    absl::Status status = ReadTable(Table::kLog, "", [](const CheckedRows& /*row*/) {});
    for (const LogFiles::Extent& extent : extents) {
      if (!status.ok()) break;
      status = Judge(LogFiles::ReadExtent(
          extent, [&](const StoredBatch& batch, bool /*needed*/) -> absl::Status {
            contents_.AddBatch(batch);
            fraction_ = ++read / static_cast<double>(batches);
            return GoOn() ? absl::OkStatus() : VerificationStopped();
          }));
    }
    return status;
  }

  const std::string folder_;
  Database& database_;
  StoreContents& contents_;
  const OnProgress& progress_;
  DatabaseState state_;
  // The fraction of the log that was read.
  double fraction_ = 0;
  bool stopped_ = false;
};

}  // namespace

LocalView::LocalView(LocalStore& store, Database database)
    : store_(store),
      folder_(store.folder()),
      database_(std::move(database)),
      begun_(database_.QueryInteger("SELECT count(*) FROM sqlite_master").status()),
      mark_(store.CheckMark()),
      extents_(store.extents()) {
  store_.HoldLog();
}

LocalView::~LocalView() { store_.ReleaseLog(); }

absl::Status LocalView::Verify(StoreContents& contents, const OnProgress& progress) const {
  return Verifier(folder_, database_, contents, progress).Run(begun_, mark_, extents_);
}

}  // namespace calibd::server
