#ifndef CALIBD_SERVER_STORE_LOG_H_
#define CALIBD_SERVER_STORE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace calibd::server {

// A batch of the log.
struct StoredBatch {
  std::int64_t log_id = 0;
  std::int64_t model_id = 0;
  // Microseconds since 1970.
  std::int64_t time_us = 0;
  // A store.v1.LogRow.
  std::string_view data;
};
// An error that it returns ends the reading.
using VisitBatch = std::function<absl::Status(const StoredBatch&)>;
using VisitData = std::function<absl::Status(std::string_view data)>;

// Data at the end of the log that cannot be read. Either its write was interrupted, and it was
// never acknowledged, or it was damaged later.
struct LostTail {
  struct Batch {
    std::int64_t model_id = 0;
    // A store.v1.LogRow. It and model_id may be wrong.
    std::string data;
  };

  // Its place and its batches, for the server's log.
  std::string description;
  // True if all of it was durable, and was therefore damaged later.
  bool was_durable = false;
  // The batches that were found.
  std::vector<Batch> batches{};
};

// The log of a store: batches in the order in which they are applied. Ids ascend, and there may be
// gaps between them. The id of a committed batch is never reused; that of a batch that was rolled
// back may be. Errors: see Store.
class StoreLog {
 public:
  virtual ~StoreLog() = default;

  // ---- The start

  // Visits the committed batches in order, including released ones that are not deleted yet. Call
  // it once, after ReadModels and before any other function of the log. Errors: also those of
  // visit.
  [[nodiscard]] virtual absl::Status ReadLog(const VisitBatch& visit) = 0;
  // Call it when everything that was read is consistent; releases these batches. Only after this
  // call, Close marks the store as undamaged.
  virtual void FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) = 0;
  // Unreadable data after the last batch. Known after ReadLog.
  [[nodiscard]] virtual const std::optional<LostTail>& lost_tail() const = 0;
  // No committed batch has a higher id. Known after ReadLog.
  [[nodiscard]] virtual std::int64_t last_log_id() const = 0;

  // ---- Writing

  // Returns the id of the batch, which is higher than all ids before it.
  virtual std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us,
                                   std::string data) = 0;
  // Size of the appended batches that are neither committed nor rolled back; 0 without any.
  [[nodiscard]] virtual std::size_t appended_bytes() const = 0;
  // Makes all appended batches durable, or none: see OutcomeOf in store.h.
  [[nodiscard]] virtual absl::Status CommitLog() = 0;

  // Visits the data of these batches, which must be needed or appended, in the order of log_ids.
  [[nodiscard]] virtual absl::Status ReadBatches(std::span<const std::int64_t> log_ids,
                                                 const VisitData& visit) = 0;

  // Releases committed batches once the current transaction, of the log or of the catalog, commits.
  // The store deletes them at a time of its choice.
  virtual void ReleaseBatches(std::span<const std::int64_t> log_ids) = 0;
  // Releases committed batches whether or not the current transaction commits.
  virtual void DropBatches(std::span<const std::int64_t> log_ids) = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOG_H_
