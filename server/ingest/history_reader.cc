#include "server/ingest/history_reader.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/store/sqlite.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kReadRetryDelay{1000};

bool StartsEarlier(const History::Entry& a, const History::Entry& b) { return a.start < b.start; }

}  // namespace

absl::Status HistoryReader::Read(const std::shared_ptr<Model>& model, const Range& range,
                                 Done done) {
  if (reads_.fetch_add(1) >= kMostReads) {
    --reads_;
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_READS",
                  absl::StrCat(kMostReads, " calls wait for a history, expected fewer")),
        kReadRetryDelay);
  }
  const auto finish = [this,
                       done = std::move(done)](absl::StatusOr<std::vector<History::Entry>> result) {
    --reads_;
    done(std::move(result));
  };
  // First what is not known to be stored, then what is: a bucket may be in both, but not in
  // neither.
  const auto view = [this, model, range, finish] {
    try {
      auto unstored = model->history().View(range.resolution, model->watch_mark());
      thread_.Post([this, model, range, finish, unstored = std::move(unstored)]() mutable {
        try {
          finish(ReadAll(*model, range, std::move(unstored)));
        } catch (const std::bad_alloc&) {
          finish(absl::ResourceExhaustedError("out of memory while a history was read"));
        }
      });
    } catch (const std::bad_alloc&) {
      finish(absl::ResourceExhaustedError("out of memory while a history was read"));
    }
  };
  try {
    model->strand().Post(view);
  } catch (...) {
    --reads_;
    throw;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<History::Entry>> HistoryReader::ReadAll(
    const Model& model, const Range& range, std::vector<History::Entry> unstored) const {
  const absl::StatusOr<Database> database = Database::Open(database_);
  if (!database.ok()) {
    return database.status();
  }
  absl::StatusOr<Statement> rows = Statement::Prepare(
      *database,
      "SELECT start_s, data FROM history WHERE model_id = ? AND resolution = ? AND start_s >= ? "
      "AND start_s < ? ORDER BY start_s");
  if (!rows.ok()) {
    return rows.status();
  }
  rows->Bind(1, model.id())
      .Bind(2, static_cast<std::int64_t>(range.resolution))
      .Bind(3, range.start.time_since_epoch().count())
      .Bind(4, range.end.time_since_epoch().count());
  std::vector<History::Entry> stored;
  absl::StatusOr<bool> row = rows->Next();
  for (; row.ok() && *row; row = rows->Next()) {
    absl::StatusOr<HistoryBucket> bucket = DecodeHistoryBucket(rows->Blob(1));
    if (!bucket.ok()) {
      return bucket.status();
    }
    stored.push_back({.resolution = range.resolution,
                      .start = std::chrono::sys_seconds(std::chrono::seconds(rows->Integer(0))),
                      .bucket = *bucket});
  }
  if (!row.ok()) {
    return row.status();
  }
  if (model.deleted()) {
    return ModelNotFoundError(model.declaration().name.ToString());
  }
  unstored.erase(std::remove_if(unstored.begin(), unstored.end(),
                                [&](const History::Entry& entry) {
                                  return entry.start < range.start || entry.start >= range.end ||
                                         std::binary_search(stored.begin(), stored.end(), entry,
                                                            StartsEarlier);
                                }),
                 unstored.end());
  std::vector<History::Entry> all;
  all.reserve(stored.size() + unstored.size());
  std::merge(stored.begin(), stored.end(), unstored.begin(), unstored.end(),
             std::back_inserter(all), StartsEarlier);
  return all;
}

}  // namespace calibd::server
