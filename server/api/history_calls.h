#ifndef CALIBD_SERVER_API_HISTORY_CALLS_H_
#define CALIBD_SERVER_API_HISTORY_CALLS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/ingest/history_reader.h"

namespace calibd::server {

// The parsed fields of a GetHistoryRequest.
struct HistoryQuery {
  HistoryReader::Range range;
  std::size_t page_size = 0;
  // The page begins after this bucket; unset for the first page.
  std::optional<std::chrono::sys_seconds> after;
};

// Errors: InvalidArgument naming the field.
[[nodiscard]] absl::StatusOr<HistoryQuery> CheckHistoryRequest(
    const v1::GetHistoryRequest& request);

// buckets: all buckets in the range of the query, ascending. snapshot: of the model now.
void DescribeHistory(const HistoryQuery& query, const std::vector<History::Entry>& buckets,
                     const ModelSnapshot& snapshot, v1::GetHistoryResponse& response);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_HISTORY_CALLS_H_
