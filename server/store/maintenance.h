#ifndef CALIBD_SERVER_STORE_MAINTENANCE_H_
#define CALIBD_SERVER_STORE_MAINTENANCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/catalog.h"
#include "server/store/log.h"

namespace calibd::server {

// Told of the fraction that is done; false stops the work with Cancelled.
using OnProgress = std::function<bool(double fraction)>;

// A finished copy of a store. It is gone when this is.
class StoreCopy {
 public:
  virtual ~StoreCopy() = default;
  // Returns how many bytes were read: fewer than the chunk holds only at the end.
  [[nodiscard]] virtual absl::StatusOr<std::size_t> Read(std::uint64_t offset,
                                                         std::span<char> chunk) const = 0;
};

// Is told what a store holds, in the order of the functions here.
class StoreContents {
 public:
  virtual ~StoreContents() = default;
  virtual void AddModel(std::int64_t id, std::string_view declaration) = 0;
  virtual void AddMaturity(std::int64_t model_id, std::int64_t matured_log_id) = 0;
  virtual void AddSnapshot(const StoredSnapshot& snapshot) = 0;
  virtual void AddCursor(const StoredCursor& cursor) = 0;
  // By series.
  virtual void AddHistory(const HistorySeries& series, std::int64_t start_s,
                          std::string_view data) = 0;
  // In the order of the log.
  virtual void AddBatch(const StoredBatch& batch) = 0;
  // Damage, at any time: one sentence. model_id: the model to which it belongs; 0 if none is known.
  virtual void AddProblem(std::int64_t model_id, std::string_view problem) = 0;
};

// A store as it was at one moment. It may be used on any thread, one at a time, while the store is
// written. The store deletes nothing that the view contains.
class StoreView {
 public:
  virtual ~StoreView() = default;
  // Makes a copy from which a store can be restored. One call at a time, over all views of a store.
  // Errors also: Cancelled.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<StoreCopy>> Copy(
      const OnProgress& progress) const = 0;
  // Reads everything and checks the form in which it is stored. progress: of the log.
  // Errors: Cancelled; Unavailable. Damage is a problem, which does not end the reading.
  [[nodiscard]] virtual absl::Status Verify(StoreContents& contents,
                                            const OnProgress& progress) const = 0;
};

// What a store does for its operator, and its own upkeep. Errors: see Store.
class StoreMaintenance {
 public:
  virtual ~StoreMaintenance() = default;

  // What opening the store found that may be an interrupted write, or damage: one sentence each.
  [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;

  // The state after the newest transaction. The view must be destroyed before the store, on its
  // thread. Errors also: Unimplemented, with a sentence that names the tools of such a store.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<StoreView>> OpenView() = 0;

  // Does one short step of upkeep between two transactions: gives room back, and whatever else a
  // store of this kind needs. refused: the last transaction was refused. Returns whether there is
  // more to do at once. Errors: ResourceExhausted if it needs more room; it is tried again later.
  [[nodiscard]] virtual absl::StatusOr<bool> Maintain(bool refused) = 0;

  // Errors: ResourceExhausted unless there is room for so many bytes.
  [[nodiscard]] virtual absl::Status CheckRoom(std::uint64_t bytes) const = 0;
  // Bytes that the log can take when there is no other room. Known after ReadLog.
  [[nodiscard]] virtual std::uint64_t log_room() const = 0;
  // Checks that nobody removed or replaced the store while it was open. Errors: DataLoss.
  [[nodiscard]] virtual absl::Status CheckInPlace() const = 0;

  struct Sizes {
    // Bytes that were written.
    std::int64_t log_bytes = 0;
    std::int64_t catalog_bytes = 0;
  };
  // On any thread. Known after ReadLog.
  [[nodiscard]] virtual Sizes sizes() const = 0;
  struct Space {
    // Bytes that the store occupies.
    std::uint64_t used = 0;
    // Bytes that it can occupy besides.
    std::uint64_t available = 0;
  };
  // Unset if the store cannot tell.
  [[nodiscard]] virtual std::optional<Space> space() const = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_MAINTENANCE_H_
