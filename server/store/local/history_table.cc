#include "server/store/local/history_table.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"

namespace calibd::server {
namespace {

absl::StatusOr<CheckedRows> SelectSpan(const Database& database) {
  return CheckedRows::Select(database, Table::kHistorySpans,
                             "WHERE model_id = ?1 AND resolution = ?2");
}

absl::StatusOr<CheckedRows> SelectRows(const Database& database) {
  return CheckedRows::Select(
      database, Table::kHistory,
      "WHERE model_id = ?1 AND resolution = ?2 AND start_s >= ?3 ORDER BY start_s");
}

absl::StatusOr<std::optional<HistorySpan>> ReadSpan(CheckedRows& spans,
                                                    const HistorySeries& series) {
  spans.statement().Bind(1, series.model_id).Bind(2, series.resolution);
  const absl::StatusOr<bool> row = spans.Next();
  std::optional<HistorySpan> span;
  if (row.ok() && *row) {
    span = HistorySpan{
        .oldest_s = spans.Integer(2),
        .newest_s = spans.Integer(3),
        .sum = {.rows = spans.Integer(4), .sum = static_cast<std::uint64_t>(spans.Integer(5))}};
  }
  spans.statement().Reset();
  CALIBD_RETURN_IF_ERROR(row.status());
  return span;
}

std::string Describe(const HistorySeries& series) {
  return absl::StrCat("the history of model ", series.model_id, " in resolution ",
                      series.resolution);
}

}  // namespace

absl::Status HistoryChain::Add(std::int64_t start_s, std::int64_t previous_s) {
  if (!span_.has_value()) return Missing("its row in history_spans");
  const bool is_oldest = start_s == span_->oldest_s;
  if (start_s < span_->oldest_s || start_s > span_->newest_s ||
      is_oldest != (previous_s < span_->oldest_s)) {
    return DatabaseDamage(absl::StrCat("has a row in ", Describe(series_), " that starts at ",
                                       start_s, " s and does not belong there"));
  }
  const bool follows =
      last_s_ == kNoRow ? is_oldest || previous_s < from_s_ : previous_s == last_s_;
  if (!follows) return Missing(absl::StrCat("rows before the one that starts at ", start_s, " s"));
  last_s_ = start_s;
  return absl::OkStatus();
}

absl::Status HistoryChain::End() const {
  if (!span_.has_value() ||
      (last_s_ == kNoRow ? span_->newest_s < from_s_ : span_->newest_s == last_s_)) {
    return absl::OkStatus();
  }
  return Missing(absl::StrCat("rows up to the one that starts at ", span_->newest_s, " s"));
}

absl::Status HistoryChain::Missing(std::string_view what) const {
  return DatabaseDamage(absl::StrCat("lacks ", std::string(what), " of ", Describe(series_)));
}

absl::Status ReadHistory(const Database& database, const HistorySeries& series,
                         const HistoryRange& range, const VisitHistory& visit) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows spans, SelectSpan(database));
  CALIBD_ASSIGN_OR_RETURN(const std::optional<HistorySpan> span, ReadSpan(spans, series));
  CALIBD_ASSIGN_OR_RETURN(CheckedRows rows, SelectRows(database));
  rows.statement().Bind(1, series.model_id).Bind(2, series.resolution).Bind(3, range.start_s);
  HistoryChain chain(series, span, range.start_s);
  absl::StatusOr<bool> row = rows.Next();
  for (; row.ok() && *row; row = rows.Next()) {
    CALIBD_RETURN_IF_ERROR(chain.Add(rows.Integer(2), rows.Integer(3)));
    // The first row after the range is read too, because it shows whether the row before it exists.
    if (rows.Integer(2) >= range.end_s) return absl::OkStatus();
    CALIBD_RETURN_IF_ERROR(visit(rows.Integer(2), rows.Blob(4)));
  }
  CALIBD_RETURN_IF_ERROR(row.status());
  CALIBD_RETURN_IF_ERROR(chain.End());
  return span.has_value() && range.start_s <= span->oldest_s
             ? CheckSum(Table::kHistory, span->sum, rows.sum())
             : absl::OkStatus();
}

absl::StatusOr<std::optional<HistorySeries>> NextSeries(const Database& database,
                                                        const HistorySeries& after) {
  CALIBD_ASSIGN_OR_RETURN(CheckedRows spans,
                          CheckedRows::Select(database, Table::kHistorySpans,
                                              "WHERE (model_id, resolution) > (?1, ?2) "
                                              "ORDER BY model_id, resolution LIMIT 1"));
  spans.statement().Bind(1, after.model_id).Bind(2, after.resolution);
  CALIBD_ASSIGN_OR_RETURN(const bool row, spans.Next());
  std::optional<HistorySeries> next;
  if (row) {
    next = HistorySeries{.model_id = spans.Integer(0), .resolution = spans.Integer(1)};
  }
  return next;
}

struct HistoryTable::Statements {
  // Row count and checksum sum of the series that is being written.
  TableSum sum;
  std::optional<TableWriter> spans;
  std::optional<TableWriter> rows;
  std::optional<CheckedRows> find_span;
  std::optional<CheckedRows> find_from;
  std::optional<Statement> find_before;
  std::optional<Statement> find_first;
  std::optional<Statement> delete_before;
  std::optional<Statement> delete_spans;
  std::optional<Statement> delete_rows;
};

HistoryTable::HistoryTable(std::unique_ptr<Statements> statements)
    : statements_(std::move(statements)) {}
HistoryTable::~HistoryTable() = default;
HistoryTable::HistoryTable(HistoryTable&& other) noexcept = default;
HistoryTable& HistoryTable::operator=(HistoryTable&& other) noexcept = default;

absl::StatusOr<HistoryTable> HistoryTable::Prepare(const Database& database, TableSum& spans_sum) {
  auto made = std::make_unique<Statements>();
  const auto prepare = [&database](const char* sql) { return Statement::Prepare(database, sql); };
  CALIBD_ASSIGN_OR_RETURN(made->spans,
                          TableWriter::Prepare(database, Table::kHistorySpans, &spans_sum));
  CALIBD_ASSIGN_OR_RETURN(made->rows, TableWriter::Prepare(database, Table::kHistory, &made->sum));
  CALIBD_ASSIGN_OR_RETURN(made->find_span, SelectSpan(database));
  CALIBD_ASSIGN_OR_RETURN(made->find_from, SelectRows(database));
  CALIBD_ASSIGN_OR_RETURN(made->find_before,
                          prepare("SELECT max(start_s) FROM history "
                                  "WHERE model_id = ?1 AND resolution = ?2 AND start_s < ?3"));
  CALIBD_ASSIGN_OR_RETURN(
      made->find_first,
      prepare("SELECT min(start_s) FROM history WHERE model_id = ?1 AND resolution = ?2"));
  CALIBD_ASSIGN_OR_RETURN(
      made->delete_before,
      prepare("DELETE FROM history WHERE model_id = ?1 AND resolution = ?2 AND start_s < ?3 "
              "RETURNING checksum"));
  CALIBD_ASSIGN_OR_RETURN(
      made->delete_spans,
      prepare("DELETE FROM history_spans WHERE model_id = ?1 RETURNING checksum"));
  CALIBD_ASSIGN_OR_RETURN(made->delete_rows,
                          prepare("DELETE FROM history WHERE model_id = ?1 RETURNING checksum"));
  return HistoryTable(std::move(made));
}

absl::Status HistoryTable::Put(const HistorySeries& series, std::int64_t start_s,
                               std::string_view data) {
  CALIBD_ASSIGN_OR_RETURN(std::optional<HistorySpan> found,
                          ReadSpan(*statements_->find_span, series));
  const bool last = !found.has_value() || start_s > found->newest_s;
  HistorySpan span = found.value_or(HistorySpan{.oldest_s = start_s, .newest_s = start_s});
  std::int64_t previous_s = found.has_value() ? span.newest_s : kNoRow;
  if (!last) {
    Statement& find = statements_->find_before->Bind(1, series.model_id)
                          .Bind(2, series.resolution)
                          .Bind(3, start_s);
    const absl::StatusOr<bool> row = find.Next();
    previous_s = row.ok() && *row && find.type(0) == SQLITE_INTEGER ? find.Integer(0) : kNoRow;
    find.Reset();
    CALIBD_RETURN_IF_ERROR(row.status());
  }
  statements_->sum = span.sum;
  CALIBD_RETURN_IF_ERROR(
      statements_->rows->Put({series.model_id, series.resolution, start_s, previous_s, data}));
  if (!last) CALIBD_RETURN_IF_ERROR(LinkNext(series, start_s));
  span.oldest_s = std::min(span.oldest_s, start_s);
  span.newest_s = std::max(span.newest_s, start_s);
  span.sum = statements_->sum;
  return PutSpan(series, span);
}

absl::Status HistoryTable::LinkNext(const HistorySeries& series, std::int64_t start_s) {
  CheckedRows& next = *statements_->find_from;
  next.statement().Bind(1, series.model_id).Bind(2, series.resolution).Bind(3, start_s + 1);
  const absl::StatusOr<bool> row = next.Next();
  const bool links = !row.ok() || !*row || next.Integer(3) == start_s;
  const std::int64_t next_s = next.Integer(2);
  const std::string data(links ? std::string_view() : next.Blob(4));
  next.statement().Reset();
  if (links) return row.status();
  return statements_->rows->Put({series.model_id, series.resolution, next_s, start_s, data});
}

absl::Status HistoryTable::PutSpan(const HistorySeries& series, const HistorySpan& span) {
  return statements_->spans->Put({series.model_id, series.resolution, span.oldest_s, span.newest_s,
                                  span.sum.rows, static_cast<std::int64_t>(span.sum.sum)});
}

absl::Status HistoryTable::DeleteBefore(const HistorySeries& series, std::int64_t before_s) {
  const absl::StatusOr<std::optional<HistorySpan>> found =
      ReadSpan(*statements_->find_span, series);
  if (!found.ok() || !found->has_value() || (*found)->oldest_s >= before_s) return found.status();
  HistorySpan span = **found;
  statements_->sum = span.sum;
  CALIBD_RETURN_IF_ERROR(
      statements_->rows->RunDelete(statements_->delete_before->Bind(1, series.model_id)
                                       .Bind(2, series.resolution)
                                       .Bind(3, before_s)));
  if (span.newest_s < before_s) {
    return statements_->spans->Delete({series.model_id, series.resolution});
  }
  Statement& first = statements_->find_first->Bind(1, series.model_id).Bind(2, series.resolution);
  const absl::StatusOr<bool> row = first.Next();
  if (row.ok() && *row) span.oldest_s = first.Integer(0);
  first.Reset();
  CALIBD_RETURN_IF_ERROR(row.status());
  span.sum = statements_->sum;
  return PutSpan(series, span);
}

absl::Status HistoryTable::DeleteModel(std::int64_t model_id) {
  // The sum of the rows is deleted with the row of the series.
  absl::Status status = statements_->rows->RunDelete(statements_->delete_rows->Bind(1, model_id));
  status.Update(statements_->spans->RunDelete(statements_->delete_spans->Bind(1, model_id)));
  return status;
}

}  // namespace calibd::server
