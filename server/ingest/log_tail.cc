#include "server/ingest/log_tail.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/errors.h"
#include "server/rows/row_codec.h"

namespace calibd::server {
namespace {

constexpr std::size_t kMostProducers = 20;

std::string SenderOf(const LostTail::Batch& batch, const std::string& model_name) {
  // The fields before the damage are read, even if the rest cannot be parsed.
  store::v1::LogRow row;
  static_cast<void>(ParseRow(batch.data, row));
  const std::string& producer_id = row.producer().producer_id();
  const std::string producer =
      producer_id.empty() ? ""
                          : absl::StrCat(row.producer().is_request() ? "request " : "producer ",
                                         Quoted(producer_id));
  return absl::StrCat(producer, producer.empty() || model_name.empty() ? "" : " of ", model_name);
}

}  // namespace

std::string DescribeTail(const LostTail& tail,
                         const std::function<std::string(std::int64_t)>& model_name) {
  std::vector<std::string> senders;
  std::size_t unnamed = 0;
  for (const LostTail::Batch& batch : tail.batches) {
    std::string sender = SenderOf(batch, model_name(batch.model_id));
    if (sender.empty() || std::find(senders.begin(), senders.end(), sender) != senders.end()) {
      continue;
    }
    if (senders.size() < kMostProducers) {
      senders.push_back(std::move(sender));
    } else {
      ++unnamed;
    }
  }
  return absl::StrCat(
      "the end of the log cannot be read and is discarded: ", tail.description,
      senders.empty() ? "" : absl::StrCat(" (", absl::StrJoin(senders, ", ")),
      unnamed > 0 ? absl::StrCat(" and ", unnamed, " more") : "", senders.empty() ? "" : ")",
      tail.was_durable
          ? "; all of it had been stored, so the file was damaged later: compare with the data of "
            "the producers"
          : "; either the server ended during the write, and none of it was acknowledged, or the "
            "file was damaged later");
}

}  // namespace calibd::server
