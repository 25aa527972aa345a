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
#include "calibd/store/v1/archive.pb.h"
#include "server/store/catalog.h"
#include "server/store/log.h"

namespace calibd::server {

// Receives the completed fraction; returning false stops the work with Cancelled.
using OnProgress = std::function<bool(double fraction)>;

// A finished copy of a store. The destructor deletes the copy.
class StoreCopy {
 public:
  virtual ~StoreCopy() = default;
  // Returns the number of bytes read, which is less than the size of the chunk only at the end.
  [[nodiscard]] virtual absl::StatusOr<std::size_t> Read(std::uint64_t offset,
                                                         std::span<char> chunk) const = 0;
};

// A file that was made for an archive.
struct ArchiveFile {
  std::string path;
  // Its name in the archive.
  std::string name;
  // The checksum of its content, which is a part of the name.
  std::string checksum;
  std::int64_t bytes = 0;
};

// Receives the contents of a store, in the order of the functions here.
class StoreContents {
 public:
  virtual ~StoreContents() = default;
  virtual void AddModel(std::int64_t id, std::string_view declaration) = 0;
  virtual void AddMaturity(std::int64_t model_id, std::int64_t matured_log_id) = 0;
  virtual void AddSnapshot(const StoredSnapshot& snapshot) = 0;
  virtual void AddCursor(const StoredCursor& cursor) = 0;
  // Receives the buckets, ordered by series.
  virtual void AddHistory(const HistorySeries& series, std::int64_t start_s,
                          std::string_view data) = 0;
  // Receives the batches in the order of the log.
  virtual void AddBatch(const StoredBatch& batch) = 0;
  // Receives a problem as one sentence, at any time. model_id: the affected model; 0 if unknown.
  virtual void AddProblem(std::int64_t model_id, std::string_view problem) = 0;
};

// A store as it is at one moment. It may be used on any thread, by one thread at a time, while the
// store is written. The store deletes nothing that the view contains.
class StoreView {
 public:
  virtual ~StoreView() = default;
  // Makes a copy from which a store can be restored. One call at a time for all views of a store.
  // Errors: also Cancelled.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<StoreCopy>> Copy(
      const OnProgress& progress) const = 0;
  // Reads everything and checks the form in which it is stored. progress: reports how much of the
  // log was read. Errors: Cancelled; Unavailable. Damage is reported as a problem and does not end
  // the reading.
  [[nodiscard]] virtual absl::Status Verify(StoreContents& contents,
                                            const OnProgress& progress) const = 0;

  // The next batch and the next model of the store would get ids that are not below these.
  struct End {
    std::int64_t log_id = 0;
    std::int64_t model_id = 0;
  };
  [[nodiscard]] virtual absl::StatusOr<End> end() const = 0;
  // Makes a copy from which a store can be restored, as the base of an archive. folder: gets the
  // file, and has no other base. Errors: also Cancelled.
  [[nodiscard]] virtual absl::StatusOr<ArchiveFile> WriteArchiveBase(
      std::int64_t number, const std::string& folder, const OnProgress& progress) const = 0;
  // Makes a log file for an archive: batches and models from those on that the header names, as far
  // as one file of the log holds them. header: has number, previous, base_numbers,
  // time_us, first_log_id and first_model_id, and gets the other fields; time_us becomes 0 if the
  // store has more batches. folder: gets the file, and has no other log file. Errors: also
  // FailedPrecondition if the store no longer has all of them.
  [[nodiscard]] virtual absl::StatusOr<ArchiveFile> WriteArchiveLog(
      store::v1::ArchiveHeader& header, const std::string& folder) const = 0;
};

// Functions for the operator of a store, and its own upkeep. Errors: see Store.
class StoreMaintenance {
 public:
  virtual ~StoreMaintenance() = default;

  // Findings of the opening that may be an interrupted write or damage, one sentence each.
  [[nodiscard]] virtual const std::vector<std::string>& warnings() const = 0;

  // Returns the state after the newest transaction. The view must be destroyed before the store, on
  // the store's thread. Errors: also Unimplemented, with a sentence that names the tools of such a
  // store.
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<StoreView>> OpenView() = 0;

  // Does one short step of upkeep between two transactions: frees space, and does whatever else
  // this kind of store needs. refused: whether the last transaction was refused. Returns whether
  // there is more to do at once. Errors: ResourceExhausted if it needs more space; it is retried
  // later.
  [[nodiscard]] virtual absl::StatusOr<bool> Maintain(bool refused) = 0;

  // Keeps all batches from this id on, even if they are not needed, until another call. The default
  // is to keep none.
  virtual void KeepLog(std::int64_t from_log_id) = 0;
  // Approximate number of bytes of the log that the batches from this id on occupy, needed or not.
  // Known after ReadLog. Cost: O(files of the log).
  [[nodiscard]] virtual std::int64_t LogBytesFrom(std::int64_t log_id) const = 0;
  // 16 bytes: the id of the store, which no other store has.
  [[nodiscard]] virtual std::string id() const = 0;

  // Errors: ResourceExhausted if there is no room for this many bytes.
  [[nodiscard]] virtual absl::Status CheckRoom(std::uint64_t bytes) const = 0;
  // Number of bytes that the log can accept if there is no other room. Known after ReadLog.
  [[nodiscard]] virtual std::uint64_t log_room() const = 0;
  // Checks that nobody removed or replaced the store while it was open. Errors: DataLoss.
  [[nodiscard]] virtual absl::Status CheckInPlace() const = 0;

  struct Sizes {
    // Number of bytes in use.
    std::int64_t log_bytes = 0;
    std::int64_t catalog_bytes = 0;
    // Number of bytes that were appended to the log since the store was opened.
    std::int64_t appended_log_bytes = 0;
  };
  // May be called on any thread. Known after ReadLog.
  [[nodiscard]] virtual Sizes sizes() const = 0;
  struct Space {
    // Number of bytes that the store occupies.
    std::uint64_t used = 0;
    // Number of bytes that it can occupy in addition.
    std::uint64_t available = 0;
  };
  // Returns nothing if the store does not know.
  [[nodiscard]] virtual std::optional<Space> space() const = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_MAINTENANCE_H_
