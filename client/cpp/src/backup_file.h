#ifndef CALIBD_CLIENT_SRC_BACKUP_FILE_H_
#define CALIBD_CLIENT_SRC_BACKUP_FILE_H_

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
  // Errors: AlreadyExists, Unavailable.
  [[nodiscard]] static absl::StatusOr<BackupFile> Create(const std::string& path);
  ~BackupFile();
  BackupFile(BackupFile&&) noexcept;
  BackupFile& operator=(BackupFile&&) = delete;

  // Truncates the file and starts again. Errors, here and below: Unavailable if the file cannot be
  // written.
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status Append(const std::string& data);
  // Errors also: DataLoss when the received data differ from the sent data.
  [[nodiscard]] absl::Status Complete(const v1::BackupResponse::Complete& complete);
  // Gives the file its name and returns its size. Errors also: DataLoss without Complete.
  [[nodiscard]] absl::StatusOr<std::int64_t> Keep();

 private:
  struct State;
  explicit BackupFile(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_BACKUP_FILE_H_
