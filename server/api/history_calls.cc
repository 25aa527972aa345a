#include "server/api/history_calls.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "calibd/convert/text.h"
#include "calibd/core/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/base/errors.h"
#include "server/kinds/kind_table.h"

namespace calibd::server {
namespace {

using google::protobuf::util::TimeUtil;
using std::chrono::seconds;
using std::chrono::sys_seconds;

constexpr std::int32_t kMaxHistoryPage = 1000;

// Rounds the timestamp up to whole seconds.
absl::StatusOr<sys_seconds> CheckTime(const char* field, const google::protobuf::Timestamp& time) {
  if (time.seconds() < TimeUtil::kTimestampMinSeconds ||
      time.seconds() > TimeUtil::kTimestampMaxSeconds || time.nanos() < 0 ||
      time.nanos() > 999999999) {
    return InvalidFieldError(field, absl::StrCat("is ", time.seconds(), " s and ", time.nanos(),
                                                 " ns, expected a time in the years 1..9999"));
  }
  return sys_seconds(seconds(time.seconds() + (time.nanos() > 0 ? 1 : 0)));
}

absl::StatusOr<HistoryResolution> CheckResolution(v1::GetHistoryRequest::Resolution resolution) {
  switch (resolution) {
    case v1::GetHistoryRequest::MINUTE:
      return HistoryResolution::kMinute;
    case v1::GetHistoryRequest::UNSPECIFIED:
    case v1::GetHistoryRequest::HOUR:
      return HistoryResolution::kHour;
    case v1::GetHistoryRequest::DAY:
      return HistoryResolution::kDay;
    default:
      return InvalidFieldError("resolution", absl::StrCat("is ", static_cast<int>(resolution),
                                                          ", expected minute, hour, day or none"));
  }
}

// Precedes the start of the page's last bucket in a token, so that other text is not accepted as a
// token.
std::string TokenPrefix(HistoryResolution resolution) {
  return absl::StrCat("history:", static_cast<int>(resolution), ":");
}

absl::Status CheckHistoryToken(const std::string& token, HistoryQuery& query) {
  if (token.empty()) return absl::OkStatus();
  std::string text;
  std::int64_t start = 0;
  absl::string_view rest;
  if (absl::WebSafeBase64Unescape(token, &text)) rest = text;
  if (!absl::ConsumePrefix(&rest, TokenPrefix(query.range.resolution)) ||
      !absl::SimpleAtoi(rest, &start)) {
    return InvalidFieldError("page_token",
                             "is not from a previous page, expected its next_page_token");
  }
  query.after = sys_seconds(seconds(start));
  return absl::OkStatus();
}

absl::Status CheckRange(const v1::GetHistoryRequest& request, HistoryReader::Range& range) {
  range.start = sys_seconds::min();
  range.end = sys_seconds::max();
  if (request.has_start_time()) {
    CALIBD_ASSIGN_OR_RETURN(range.start, CheckTime("start_time", request.start_time()));
  }
  if (request.has_end_time()) {
    CALIBD_ASSIGN_OR_RETURN(range.end, CheckTime("end_time", request.end_time()));
  }
  if (range.end <= range.start) {
    return InvalidFieldError("end_time", "is not after start_time, expected a later one");
  }
  return absl::OkStatus();
}

void DescribeBucket(const HistoryBucket& bucket, sys_seconds start, sys_seconds end,
                    const std::vector<std::string>& labels, const ModelSnapshot& snapshot,
                    v1::HistoryBucket& out) {
  out.mutable_start_time()->set_seconds(start.time_since_epoch().count());
  out.mutable_end_time()->set_seconds(end.time_since_epoch().count());
  out.set_rejected_rows(bucket.rejected_rows);
  out.set_missing_labels(bucket.missing_labels);
  KindOf(*snapshot.declaration)
      .DescribeBucket(*snapshot.declaration, snapshot, bucket, labels, out);
  if (out.has_error()) {
    const v1::ErrorInterval& class_1 = out.class_1_error();
    out.set_class_1_is_worse(
        out.has_class_1_error() &&
        (convert::Exceeds(class_1, out.error()) || convert::IsSameEvent(class_1, out.error())));
    out.set_off_by(convert::IntervalText(out.class_1_is_worse() ? class_1 : out.error()));
  }
  if (bucket.watch.has_value()) {
    out.set_log10_e_value(bucket.watch->log10_e_value);
    out.set_max_log10_e_value(bucket.watch->max_log10_e_value);
    out.set_drift_log10_statistic(bucket.watch->drift_log10_statistic);
  }
}

}  // namespace

absl::StatusOr<HistoryQuery> CheckHistoryRequest(const v1::GetHistoryRequest& request,
                                                 const ModelDeclaration& declaration) {
  HistoryQuery query;
  CALIBD_ASSIGN_OR_RETURN(query.range.resolution, CheckResolution(request.resolution()));
  CALIBD_RETURN_IF_ERROR(CheckRange(request, query.range));
  query.page_size = static_cast<std::size_t>(
      request.page_size() == 0 ? kMaxHistoryPage : std::min(request.page_size(), kMaxHistoryPage));
  CALIBD_RETURN_IF_ERROR(CheckHistoryToken(request.page_token(), query));
  CALIBD_RETURN_IF_ERROR(CheckLabelNames("labels", request.labels(), declaration));
  query.labels.assign(request.labels().begin(), request.labels().end());
  return query;
}

void HistoryPage::Add(const History::Entry& entry, const ModelSnapshot& snapshot) {
  if (total_.has_value()) {
    total_->Merge(entry.bucket);
  } else {
    total_ = entry.bucket;
    first_ = entry.start;
  }
  const sys_seconds before = std::exchange(last_, entry.start);
  if (query_.after.has_value() && entry.start <= *query_.after) return;
  if (static_cast<std::size_t>(page_.buckets_size()) < query_.page_size) {
    DescribeBucket(entry.bucket, entry.start, entry.start + SpanOf(query_.range.resolution),
                   query_.labels, snapshot, *page_.add_buckets());
  } else if (page_.next_page_token().empty()) {
    absl::WebSafeBase64Escape(
        absl::StrCat(TokenPrefix(query_.range.resolution), before.time_since_epoch().count()),
        page_.mutable_next_page_token());
  }
}

v1::GetHistoryResponse HistoryPage::Finish(const ModelSnapshot& snapshot) {
  const ModelDeclaration& declaration = *snapshot.declaration;
  page_.set_kind(FieldName(KindOf(declaration)));
  page_.set_class_1_name(declaration.class_1_name());
  page_.set_label_count(
      static_cast<std::int32_t>(KindOf(declaration).label_names(declaration).size()));
  page_.mutable_updates()->Add(snapshot.updates->begin(), snapshot.updates->end());
  if (total_.has_value()) {
    DescribeBucket(*total_, first_, last_ + SpanOf(query_.range.resolution), query_.labels,
                   snapshot, *page_.mutable_total());
  }
  return std::move(page_);
}

}  // namespace calibd::server
