#ifndef CALIBD_CLIENT_SRC_BACKUP_FILE_H_
#define CALIBD_CLIENT_SRC_BACKUP_FILE_H_

#include <xxhash.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/store_service.pb.h"

namespace calibd::client {

// A backup file that is being written, under another name until it is complete and on disk. The
// destructor deletes it unless it is kept.
class BackupFile {
 public:
  // Bytes of the disk that a backup leaves free, so that one without an end does not fill it.
  static constexpr std::int64_t kReserveBytes = std::int64_t{100} << 20;

  // Errors: AlreadyExists, Unavailable.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<BackupFile>> Create(
      const std::string& path, std::int64_t reserve_bytes = kReserveBytes);
  ~BackupFile();
  BackupFile(const BackupFile&) = delete;
  BackupFile& operator=(const BackupFile&) = delete;

  // Truncates the file and starts again. Errors, also below: Unavailable if it cannot be written.
  [[nodiscard]] absl::Status Begin();
  // Errors also: ResourceExhausted if the file would leave less than reserve_bytes of the disk.
  [[nodiscard]] absl::Status Append(const std::string& data);
  // Errors also: DataLoss when the received data differ from the sent data.
  [[nodiscard]] absl::Status Complete(const v1::BackupResponse::Complete& complete);
  // Gives the file its name and returns its size. Errors also: DataLoss without Complete.
  [[nodiscard]] absl::StatusOr<std::int64_t> Keep();

 private:
  BackupFile(const std::string& path, int file, std::int64_t reserve_bytes);

  const std::string path_;
  const std::string part_;
  const int file_;
  const std::int64_t reserve_bytes_;
  // The largest size that leaves reserve_bytes_ of the disk.
  std::int64_t most_bytes_ = 0;
  std::int64_t size_ = 0;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
  bool complete_ = false;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_BACKUP_FILE_H_
