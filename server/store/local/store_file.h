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

// The id of a store: 128 random bits, the same in all of its files.
struct StoreId {
  std::array<char, 16> bytes{};

  [[nodiscard]] static StoreId Random();
  [[nodiscard]] std::string_view view() const noexcept { return {bytes.data(), bytes.size()}; }

  friend bool operator==(const StoreId&, const StoreId&) = default;
};

// The position of a store. A mark may be behind the store, but never ahead of it, because it is
// written after the data that it describes is durable. A store that is behind its mark has
// therefore lost data.
struct StoreMark {
  StoreId id{};
  // True if the store was closed properly, no write had failed, and nothing was written after this
  // mark. The mark is then exact.
  bool clean = false;
  // Commit number of the newest transaction of the database.
  std::int64_t commit = 0;
  // Id of the first batch of the newest segment of the log; 0 if unknown.
  std::int64_t newest_segment = 0;
  // Ids of the first batch of the newest frame of the log, and of the batch after that frame; 0 if
  // unknown.
  std::int64_t last_frame_log_id = 0;
  std::int64_t end_log_id = 0;

  friend bool operator==(const StoreMark&, const StoreMark&) = default;
};

// The file `store` of a data folder, which holds the mark of the store. Not thread-safe. Errors:
// those of File.
class StoreFile {
 public:
  // Returns nothing if there is no such file. Errors: also DataLoss if it is damaged or truncated;
  // FailedPrecondition if a newer calibd wrote it.
  [[nodiscard]] static absl::StatusOr<std::optional<StoreFile>> Open(const std::string& folder);
  // Creates the file, which must not exist yet; afterwards it is durable.
  [[nodiscard]] static absl::StatusOr<StoreFile> Create(const std::string& folder,
                                                        const StoreMark& mark);

  // The mark that was last read or written.
  [[nodiscard]] const StoreMark& mark() const noexcept { return mark_; }
  // Replaces the mark in place. Without `durable` it is not synced: a kill loses nothing, and after
  // a power cut an older mark may be read, which only weakens the checks.
  [[nodiscard]] absl::Status Write(const StoreMark& mark, bool durable);
  [[nodiscard]] absl::Status CheckInPlace() const { return file_.CheckInPlace(); }

 private:
  StoreFile(File file, const StoreMark& mark);

  File file_;
  StoreMark mark_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_STORE_FILE_H_
