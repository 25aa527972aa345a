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
// An error ends the reading.
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

  // Where it is and which batches it held, for the server's log.
  std::string description;
  // All of it was durable, so it was damaged later.
  bool was_durable = false;
  // The batches that were found.
  std::vector<Batch> batches{};
};

// The log of a store: batches in the order in which they count. Ids of batches rise; there may be
// gaps between them. The id of a committed batch is never used again, but that of a batch that was
// rolled back may be.
//
// Errors of a store: see Store.
class StoreLog {
 public:
  virtual ~StoreLog() = default;

  // ---- The start

  // Visits the committed batches in order, including released ones that are not deleted yet. Called
  // once, after ReadModels, before anything else here. Errors also: those of visit.
  [[nodiscard]] virtual absl::Status ReadLog(const VisitBatch& visit) = 0;
  // Everything that was read is consistent; releases these batches. Only after this does Close say
  // that the store is whole.
  virtual void FinishRecovery(std::span<const std::int64_t> unneeded_log_ids) = 0;
  // Unreadable data after the last batch. Known after ReadLog.
  [[nodiscard]] virtual const std::optional<LostTail>& lost_tail() const = 0;
  // No batch that was ever committed has a higher id. Known after ReadLog.
  [[nodiscard]] virtual std::int64_t last_log_id() const = 0;

  // ---- Writing

  // Returns the id of the batch, which is higher than all ids before it.
  virtual std::int64_t AppendBatch(std::int64_t model_id, std::int64_t time_us,
                                   std::string data) = 0;
  // Size of the appended batches that are neither committed nor rolled back; 0 without any.
  [[nodiscard]] virtual std::size_t appended_bytes() const = 0;
  // Makes the appended batches durable, all or none: see OutcomeOf in store.h.
  [[nodiscard]] virtual absl::Status CommitLog() = 0;

  // Visits the data of these batches in the order of log_ids. They are needed, or appended.
  [[nodiscard]] virtual absl::Status ReadBatches(std::span<const std::int64_t> log_ids,
                                                 const VisitData& visit) = 0;

  // These committed batches are not needed once the current transaction commits, of the log or of
  // the catalog. The store deletes them when it suits it.
  virtual void ReleaseBatches(std::span<const std::int64_t> log_ids) = 0;
  // The same, whether the current transaction commits or not.
  virtual void DropBatches(std::span<const std::int64_t> log_ids) = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOG_H_
