#ifndef CALIBD_SERVER_STORE_CATALOG_H_
#define CALIBD_SERVER_STORE_CATALOG_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/model_service.pb.h"

namespace calibd::server {

struct StoredModel {
  std::int64_t id = 0;
  // The declaration with which the model was created, with create_time set.
  v1::Model declaration;
  // A store.v1.ModelState: the newest snapshot, which covers all batches up to snapshot_log_id.
  // Empty before the first one.
  std::string snapshot;
  std::int64_t snapshot_log_id = 0;
  // Batches with lower ids are not needed since the snapshot.
  std::int64_t first_log_id = 0;
  // Predictions up to this batch have matured, at the snapshot or since.
  std::int64_t matured_log_id = 0;
};

struct StoredCursor {
  std::int64_t model_id = 0;
  // The id of the producer, or another key of CursorKey.
  std::string producer_id;
  std::int64_t epoch = 0;
  std::int64_t last_sequence = 0;
  // Hashes of what the producer sent; see EncodeContents.
  std::string_view contents;
};

struct StoredSnapshot {
  std::int64_t model_id = 0;
  std::int64_t log_id = 0;
  std::string_view data;
  std::int64_t first_log_id = 0;
  // Predictions up to this batch have matured. 0 if none has; a previous value is kept then.
  std::int64_t matured_log_id = 0;
};

// The history of a model in one resolution.
struct HistorySeries {
  std::int64_t model_id = 0;
  // A HistoryResolution.
  std::int64_t resolution = 0;

  friend auto operator<=>(const HistorySeries&, const HistorySeries&) = default;
};

// A closed bucket of a history.
struct StoredBucket {
  HistorySeries series;
  // Seconds since 1970.
  std::int64_t start_s = 0;
  // A store.v1.HistoryBucket.
  std::string data;
};

// Start times in seconds since 1970. The default is all times.
struct HistoryRange {
  std::int64_t start_s = std::numeric_limits<std::int64_t>::min();
  // The end is exclusive.
  std::int64_t end_s = std::numeric_limits<std::int64_t>::max();
};
using VisitHistory = std::function<absl::Status(std::int64_t start_s, std::string_view data)>;

// The catalog of a store: models, cursors of their producers, snapshots of their state, and
// histories. All writes between Begin and Commit are one transaction. Errors: see Store.
class StoreCatalog {
 public:
  virtual ~StoreCatalog() = default;

  // ---- The start. An error that a visitor returns ends the reading.

  // Visits the models by ascending id.
  [[nodiscard]] virtual absl::Status ReadModels(
      const std::function<absl::Status(const StoredModel&)>& visit) = 0;
  [[nodiscard]] virtual absl::Status ReadCursors(
      const std::function<absl::Status(const StoredCursor&)>& visit) = 0;
  // Greater than the ids of all models so far.
  [[nodiscard]] virtual std::int64_t next_model_id() const = 0;

  // ---- Writing

  [[nodiscard]] virtual absl::Status Begin() = 0;
  // Makes all writes since Begin durable, or none: see OutcomeOf in store.h.
  [[nodiscard]] virtual absl::Status Commit() = 0;

  // id: must never have been used before.
  [[nodiscard]] virtual absl::Status InsertModel(std::int64_t id, const v1::Model& declaration) = 0;
  // Deletes the model with its cursors, snapshot and history, but not its batches.
  [[nodiscard]] virtual absl::Status DeleteModel(std::int64_t id) = 0;
  // Each of these functions replaces the row with the same key, if there is one.
  [[nodiscard]] virtual absl::Status PutCursor(const StoredCursor& cursor) = 0;
  [[nodiscard]] virtual absl::Status PutSnapshot(const StoredSnapshot& snapshot) = 0;
  [[nodiscard]] virtual absl::Status PutHistory(const StoredBucket& bucket) = 0;
  // Deletes the cursor with this key, if there is one.
  [[nodiscard]] virtual absl::Status DeleteCursor(std::int64_t model_id,
                                                  std::string_view producer_id) = 0;
  // Deletes the buckets that start before before_s.
  [[nodiscard]] virtual absl::Status DeleteHistory(const HistorySeries& series,
                                                   std::int64_t before_s) = 0;

  // ---- Histories, on any thread, also during writes

  // Visits the committed buckets that start in the range, in order.
  [[nodiscard]] virtual absl::Status ReadHistory(const HistorySeries& series,
                                                 const HistoryRange& range,
                                                 const VisitHistory& visit) const = 0;
  // Returns the first series that is greater than `after` and has a bucket, if one exists.
  [[nodiscard]] virtual absl::StatusOr<std::optional<HistorySeries>> NextHistory(
      const HistorySeries& after) const = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_CATALOG_H_
