#ifndef CALIBD_SERVER_API_HISTORY_CALLS_H_
#define CALIBD_SERVER_API_HISTORY_CALLS_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/ingest/history_reader.h"
#include "server/model/model_declaration.h"
#include "server/state/model_snapshot.h"

namespace calibd::server {

// The parsed fields of a GetHistoryRequest.
struct HistoryQuery {
  HistoryReader::Range range;
  std::size_t page_size = 0;
  // The page begins after this bucket; unset for the first page.
  std::optional<std::chrono::sys_seconds> after;
  // Names of labels of the model that are described; empty: those that are furthest off.
  std::vector<std::string> labels{};
};

// declaration: of the model. Errors: InvalidArgument naming the field.
[[nodiscard]] absl::StatusOr<HistoryQuery> CheckHistoryRequest(const v1::GetHistoryRequest& request,
                                                               const ModelDeclaration& declaration);

// Describes a page of a history while it is read. It holds the described buckets of the page, and
// otherwise one bucket: all of them combined.
class HistoryPage {
 public:
  explicit HistoryPage(HistoryQuery query) : query_(std::move(query)) {}

  // entry: the next bucket in the range of the query, ascending. snapshot: of the model now.
  void Add(const History::Entry& entry, const ModelSnapshot& snapshot);
  // Call it after the last bucket. Returns the page, and must not be used again.
  [[nodiscard]] v1::GetHistoryResponse Finish(const ModelSnapshot& snapshot);

 private:
  HistoryQuery query_;
  v1::GetHistoryResponse page_;
  // All buckets; unset before the first one.
  std::optional<HistoryBucket> total_;
  std::chrono::sys_seconds first_;
  std::chrono::sys_seconds last_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_HISTORY_CALLS_H_
