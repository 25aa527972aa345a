// The catalog of a store in a database.
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/store/postgres/pg_errors.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/queries.h"

namespace calibd::server {
namespace {

using std::chrono::steady_clock;

}  // namespace

absl::Status PostgresStore::ReadModels(
    const std::function<absl::Status(const StoredModel&)>& visit) {
  std::int64_t after = -1;
  absl::Status visited;
  absl::Status status = session_.Run([&](PgConnection& connection, auto /*deadline*/) {
    PgStatement statement = Of(queries::kReadModels);
    statement.values.Int8(after);
    return connection.Read(
        statement, kPgAnswerTime,
        [&](const PgRow& row) -> absl::Status {
          StoredModel model{.id = row.Int8(0),
                            .declaration = {},
                            .snapshot = std::string(row.Bytes(2)),
                            .snapshot_log_id = row.Int8(3),
                            .first_log_id = row.Int8(4),
                            .matured_log_id = row.Int8(5)};
          after = model.id;
          const std::string_view declaration = row.Bytes(1);
          if (!model.declaration.ParseFromArray(declaration.data(),
                                                static_cast<int>(declaration.size()))) {
            return PgDamage(
                absl::StrCat("has a declaration of model ", model.id, " that cannot be parsed"));
          }
          return visit(model);
        },
        visited);
  });
  if (!visited.ok()) session_.Drop();
  status.Update(visited);
  return status;
}

absl::Status PostgresStore::ReadCursors(
    const std::function<absl::Status(const StoredCursor&)>& visit) {
  std::int64_t after_model = -1;
  std::string after_producer;
  absl::Status visited;
  absl::Status status = session_.Run([&](PgConnection& connection, auto /*deadline*/) {
    PgStatement statement = Of(queries::kReadCursors);
    statement.values.Int8(after_model).Bytes(after_producer);
    return connection.Read(
        statement, kPgAnswerTime,
        [&](const PgRow& row) {
          const StoredCursor cursor{.model_id = row.Int8(0),
                                    .producer_id = std::string(row.Bytes(1)),
                                    .epoch = row.Int8(2),
                                    .last_sequence = row.Int8(3),
                                    .contents = row.Bytes(4)};
          after_model = cursor.model_id;
          after_producer = cursor.producer_id;
          return visit(cursor);
        },
        visited);
  });
  if (!visited.ok()) session_.Drop();
  status.Update(visited);
  return status;
}

absl::Status PostgresStore::Begin() {
  former_next_model_id_ = next_model_id_;
  return absl::OkStatus();
}

absl::Status PostgresStore::Commit() {
  if (!writes_.empty()) {
    Write({.query = &queries::kCommitTransaction});
    CALIBD_RETURN_IF_ERROR(session_.Run([this](PgConnection& connection, auto deadline) {
      return CommitWrites(connection, deadline);
    }));
  }
  writes_.clear();
  former_next_model_id_.reset();
  ApplyReleased();
  return absl::OkStatus();
}

absl::Status PostgresStore::CommitWrites(PgConnection& connection,
                                         PgConnection::Deadline deadline) const {
  const PgStatement rollback{.query = &queries::kRollbackTransaction};
  const std::vector<PgStatement> begin{{.query = &queries::kBeginTransaction},
                                       Fenced(queries::kFence)};
  absl::StatusOr<std::vector<PgResult>> fence = connection.Run(begin, deadline);
  absl::Status status = fence.status();
  if (status.ok()) {
    status = (*fence)[1].rows() == 1 ? connection.Run(writes_, deadline).status() : PgFenced();
  }
  if (!status.ok() && !absl::IsUnavailable(status)) {
    // A commit that was refused has ended the transaction.
    status.Update(connection.RunOne(rollback, deadline).status());
  }
  return status;
}

absl::Status PostgresStore::InsertModel(std::int64_t id, const v1::Model& declaration) {
  PgStatement insert = Of(queries::kInsertModel);
  insert.values.Int8(id).Bytes(declaration.name()).Bytes(declaration.SerializeAsString());
  Write(std::move(insert));
  next_model_id_ = std::max(next_model_id_, id + 1);
  PgStatement raise = Of(queries::kRaiseNextModel);
  raise.values.Int8(id + 1);
  Write(std::move(raise));
  return absl::OkStatus();
}

absl::Status PostgresStore::DeleteModel(std::int64_t id) {
  for (const PgQuery* const query : {&queries::kDeleteModel, &queries::kDeleteCursors,
                                     &queries::kDeleteSnapshot, &queries::kDeleteModelHistory}) {
    PgStatement statement = Of(*query);
    statement.values.Int8(id);
    Write(std::move(statement));
  }
  return absl::OkStatus();
}

absl::Status PostgresStore::PutCursor(const StoredCursor& cursor) {
  PgStatement statement = Of(queries::kPutCursor);
  statement.values.Int8(cursor.model_id)
      .Bytes(cursor.producer_id)
      .Int8(cursor.epoch)
      .Int8(cursor.last_sequence)
      .Bytes(cursor.contents);
  Write(std::move(statement));
  return absl::OkStatus();
}

absl::Status PostgresStore::DeleteCursor(std::int64_t model_id, std::string_view producer_id) {
  PgStatement statement = Of(queries::kDeleteCursor);
  statement.values.Int8(model_id).Bytes(producer_id);
  Write(std::move(statement));
  return absl::OkStatus();
}

absl::Status PostgresStore::PutSnapshot(const StoredSnapshot& snapshot) {
  PgStatement statement = Of(queries::kPutSnapshot);
  statement.values.Int8(snapshot.model_id)
      .Int8(snapshot.log_id)
      .Int8(snapshot.first_log_id)
      .Int8(snapshot.matured_log_id)
      .Bytes(snapshot.data);
  Write(std::move(statement));
  return absl::OkStatus();
}

absl::Status PostgresStore::PutHistory(const StoredBucket& bucket) {
  PgStatement statement = Of(queries::kPutHistory);
  statement.values.Int8(bucket.series.model_id)
      .Int8(bucket.series.resolution)
      .Int8(bucket.start_s)
      .Bytes(bucket.data);
  Write(std::move(statement));
  return absl::OkStatus();
}

absl::Status PostgresStore::DeleteHistory(const HistorySeries& series, std::int64_t before_s) {
  PgStatement statement = Of(queries::kDeleteHistory);
  statement.values.Int8(series.model_id).Int8(series.resolution).Int8(before_s);
  Write(std::move(statement));
  return absl::OkStatus();
}

absl::Status PostgresStore::ReadAside(
    const std::function<absl::Status(PgConnection&)>& read) const {
  const std::lock_guard lock(reader_mutex_);
  // The server may have closed a connection that was idle.
  if (reader_ != nullptr &&
      !reader_->RunOne({.query = &queries::kPing}, steady_clock::now() + kPgAnswerTime).ok()) {
    reader_.reset();
  }
  if (reader_ == nullptr) {
    CALIBD_ASSIGN_OR_RETURN(reader_, PgConnection::Open(settings_.connection));
  }
  absl::Status status = read(*reader_);
  if (!status.ok()) reader_.reset();
  return status;
}

absl::Status PostgresStore::ReadHistory(const HistorySeries& series, const HistoryRange& range,
                                        const VisitHistory& visit) const {
  PgStatement statement = Of(queries::kReadHistory);
  statement.values.Int8(series.model_id)
      .Int8(series.resolution)
      .Int8(range.start_s)
      .Int8(range.end_s);
  return ReadAside([&](PgConnection& connection) {
    absl::Status visited;
    absl::Status status = connection.Read(
        statement, kPgAnswerTime,
        [&](const PgRow& row) { return visit(row.Int8(0), row.Bytes(1)); }, visited);
    status.Update(visited);
    return status;
  });
}

absl::StatusOr<std::optional<HistorySeries>> PostgresStore::NextHistory(
    const HistorySeries& after) const {
  PgStatement statement = Of(queries::kNextHistory);
  statement.values.Int8(after.model_id).Int8(after.resolution);
  std::optional<HistorySeries> next;
  CALIBD_RETURN_IF_ERROR(ReadAside([&](PgConnection& connection) -> absl::Status {
    CALIBD_ASSIGN_OR_RETURN(const PgResult found,
                            connection.RunOne(statement, steady_clock::now() + kPgAnswerTime));
    if (found.rows() == 1) {
      next = HistorySeries{.model_id = found.row(0).Int8(0), .resolution = found.row(0).Int8(1)};
    }
    return absl::OkStatus();
  }));
  return next;
}

}  // namespace calibd::server
