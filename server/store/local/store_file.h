#ifndef CALIBD_SERVER_STORE_LOCAL_STORE_FILE_H_
#define CALIBD_SERVER_STORE_LOCAL_STORE_FILE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/file.h"

namespace calibd::server {

// Tells one store from all others: 128 random bits, the same in all of its files.
struct StoreId {
  std::array<char, 16> bytes{};

  [[nodiscard]] static StoreId Random();
  [[nodiscard]] std::string_view view() const noexcept { return {bytes.data(), bytes.size()}; }

  friend bool operator==(const StoreId&, const StoreId&) = default;
};

// How far a store has come. A mark may be behind the store, but never ahead of it: it is written
// after what it describes became durable. So a store that is behind its mark has lost something.
struct StoreMark {
  StoreId id{};
  // The store was closed in order, without a write that failed, and nothing was written after this
  // mark. It is exact then.
  bool clean = false;
  // Commit number of the newest transaction of the database.
  std::int64_t commit = 0;
  // Id of the first batch of the newest segment of the log; 0: unknown.
  std::int64_t newest_segment = 0;
  // Ids of the first batch of the newest frame of the log, and of the batch after that frame;
  // 0: unknown.
  std::int64_t last_frame_log_id = 0;
  std::int64_t end_log_id = 0;

  friend bool operator==(const StoreMark&, const StoreMark&) = default;
};

// The file `store` of a data folder, which holds the mark of its store. Not thread-safe.
// Errors: those of File.
class StoreFile {
 public:
  // Unset if there is no such file. Errors also: DataLoss when it is damaged or cut;
  // FailedPrecondition when a newer calibd wrote it.
  [[nodiscard]] static absl::StatusOr<std::optional<StoreFile>> Open(const std::string& folder);
  // Makes the file; on return it is durable. There is none yet.
  [[nodiscard]] static absl::StatusOr<StoreFile> Create(const std::string& folder,
                                                        const StoreMark& mark);

  // The mark that was read or written last.
  [[nodiscard]] const StoreMark& mark() const noexcept { return mark_; }
  // Replaces the mark in place. Without `durable` it is not synced: the end of the process loses
  // nothing, and after a power cut an older mark may be read, which only weakens the checks.
  [[nodiscard]] absl::Status Write(const StoreMark& mark, bool durable);
  [[nodiscard]] absl::Status CheckInPlace() const { return file_.CheckInPlace(); }

 private:
  StoreFile(File file, const StoreMark& mark);

  File file_;
  StoreMark mark_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_STORE_FILE_H_
