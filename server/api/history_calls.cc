#include "server/api/history_calls.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "calibd/convert/evaluation.h"
#include "calibd/core/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/answers/forecast_proto.h"
#include "server/answers/reliability_proto.h"
#include "server/base/errors.h"
#include "server/kinds/numbers/coverage_measure.h"

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

// The scores and the error of forecasts.
void DescribeForecasts(const ForecastSums& sums, const ForecastCells& cells,
                       v1::HistoryBucket& out) {
  const ForecastCounts counts = sums.ToCounts();
  out.set_observations(sums.count);
  DescribeScores(cells, counts, *out.mutable_forecast());
  DescribeDirection(cells, counts, *out.mutable_direction());
  const double level = kSingleErrorLevels.total();
  const auto coverage = CoverageOf(cells, counts, {.error = level / 2, .central = level / 2});
  *out.mutable_error() = convert::ToProto(IntervalOf(*coverage));
}

// What the decisions of the forecasts cost.
void DescribeDecisions(const HistoryBucket& bucket, const ThresholdDecision& decision,
                       v1::HistoryBucket& out) {
  const std::optional<DecisionReading> reading =
      ReadDecisions(decision, bucket.decisions, kSingleErrorLevels.total());
  if (reading.has_value()) *out.mutable_decision() = ToProto(decision, *reading);
}

// The calibration error within pairs of observations, or within blocks of forecasts.
void DescribePairs(const RunningMoments& pairs, bool forecasts, v1::HistoryBucket& out) {
  forecasts ? out.set_discrepancy_blocks(pairs.count) : out.set_pairs(pairs.count);
  if (pairs.count == 0) return;
  forecasts ? out.set_mmd_squared(pairs.mean) : out.set_skce(pairs.mean);
  if (pairs.count == 1) return;
  const double error = std::sqrt(pairs.Variance() / static_cast<double>(pairs.count));
  forecasts ? out.set_mmd_squared_standard_error(error) : out.set_skce_standard_error(error);
}

void DescribeBucket(const HistoryBucket& bucket, sys_seconds start, sys_seconds end,
                    const HistoryForecasts& forecasts, v1::HistoryBucket& out) {
  const ForecastCells* const cells = forecasts.cells;
  out.mutable_start_time()->set_seconds(start.time_since_epoch().count());
  out.mutable_end_time()->set_seconds(end.time_since_epoch().count());
  out.set_rejected_rows(bucket.rejected_rows);
  out.set_missing_labels(bucket.missing_labels);
  DescribePairs(bucket.pairs, cells != nullptr, out);
  // A damaged bucket may have another number of cells.
  if (cells != nullptr && bucket.forecasts.cells.size() == cells->cell_count() &&
      bucket.forecasts.count > 0) {
    DescribeForecasts(bucket.forecasts, *cells, out);
    if (forecasts.decision.has_value()) DescribeDecisions(bucket, *forecasts.decision, out);
  } else if (bucket.reliability.Total().count > 0) {
    DescribeReliability(bucket.reliability, out);
    const ErrorIntervals error = *SingleErrorIntervals(bucket.reliability, bucket.class_1);
    *out.mutable_error() = convert::ToProto(error.top_label);
    if (error.class_1.has_value()) *out.mutable_class_1_error() = convert::ToProto(*error.class_1);
  }
  if (bucket.watch.has_value()) {
    out.set_log10_e_value(bucket.watch->log10_e_value);
    out.set_max_log10_e_value(bucket.watch->max_log10_e_value);
    out.set_drift_log10_statistic(bucket.watch->drift_log10_statistic);
  }
}

}  // namespace

absl::StatusOr<HistoryQuery> CheckHistoryRequest(const v1::GetHistoryRequest& request) {
  HistoryQuery query;
  CALIBD_ASSIGN_OR_RETURN(query.range.resolution, CheckResolution(request.resolution()));
  CALIBD_RETURN_IF_ERROR(CheckRange(request, query.range));
  if (request.page_size() < 0) {
    return InvalidFieldError(
        "page_size", absl::StrCat("is ", request.page_size(), ", expected 0..", kMaxHistoryPage));
  }
  query.page_size = static_cast<std::size_t>(
      request.page_size() == 0 ? kMaxHistoryPage : std::min(request.page_size(), kMaxHistoryPage));
  CALIBD_RETURN_IF_ERROR(CheckHistoryToken(request.page_token(), query));
  return query;
}

void DescribeHistory(const HistoryQuery& query, const std::vector<History::Entry>& buckets,
                     const HistoryForecasts& forecasts, v1::GetHistoryResponse& response) {
  if (buckets.empty()) return;
  const seconds span = SpanOf(query.range.resolution);
  HistoryBucket total;
  for (const History::Entry& entry : buckets) total.Merge(entry.bucket);
  DescribeBucket(total, buckets.front().start, buckets.back().start + span, forecasts,
                 *response.mutable_total());
  auto entry = buckets.begin();
  if (query.after.has_value()) {
    entry = std::find_if(buckets.begin(), buckets.end(),
                         [&query](const History::Entry& one) { return one.start > *query.after; });
  }
  for (; entry != buckets.end(); ++entry) {
    if (static_cast<std::size_t>(response.buckets_size()) == query.page_size) {
      const sys_seconds last = std::prev(entry)->start;
      absl::WebSafeBase64Escape(
          absl::StrCat(TokenPrefix(query.range.resolution), last.time_since_epoch().count()),
          response.mutable_next_page_token());
      break;
    }
    DescribeBucket(entry->bucket, entry->start, entry->start + span, forecasts,
                   *response.add_buckets());
  }
}

}  // namespace calibd::server
