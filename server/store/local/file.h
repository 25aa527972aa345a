#ifndef CALIBD_SERVER_STORE_LOCAL_FILE_H_
#define CALIBD_SERVER_STORE_LOCAL_FILE_H_

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::server {

// True if the errno value means a full disk, or EFBIG: the process may not write so large a file.
[[nodiscard]] bool IsFull(int error);
// ResourceExhausted if the disk is full, else Unavailable. action: what failed, such as "read".
[[nodiscard]] absl::Status FileError(const std::string& path, std::string_view action, int error);
// Returns a DataLoss error. reason: what the file "has" or "is". remedy: what may help before a
// backup is restored.
[[nodiscard]] absl::Status DamageError(const std::string& path, std::string_view reason,
                                       std::string_view remedy = "");
// Remedies for a file that is missing or in the place of another one.
inline constexpr std::string_view kPutFileBack = "put the file back";
inline constexpr std::string_view kPutRightFileBack =
    "move it away and put the right file in its place, if there is one";

// An open file of the store. The destructor closes it. Errors: FileError.
class File {
 public:
  // flags: the flags of open(2). action: the action that fails without the file, for the error.
  [[nodiscard]] static absl::StatusOr<File> Open(std::string path, int flags,
                                                 std::string_view action);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  [[nodiscard]] int get() const noexcept { return descriptor_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  // Returns the number of bytes read, which is less than `size` at the end of the file.
  [[nodiscard]] absl::StatusOr<std::size_t> Read(char* data, std::size_t size,
                                                 std::uint64_t offset) const;
  // Writes the pieces one after another, and modifies the span.
  [[nodiscard]] absl::Status Write(std::span<iovec> pieces, std::uint64_t offset) const;
  // A failed sync is never retried, because the contents of the disk are unknown then. The error is
  // therefore Unavailable, even if the disk is full.
  [[nodiscard]] absl::Status SyncData() const;
  // Also syncs the file's metadata.
  [[nodiscard]] absl::Status Sync() const;
  [[nodiscard]] absl::Status Rename(std::string path);
  // DataLoss if the file was removed or replaced since it was opened, which loses written data.
  [[nodiscard]] absl::Status CheckInPlace() const;

 private:
  File(int descriptor, std::string path) noexcept
      : descriptor_(descriptor), path_(std::move(path)) {}

  int descriptor_ = -1;
  std::string path_;
};

// Returns the size of the file in bytes. Errors: FileError.
[[nodiscard]] absl::StatusOr<std::int64_t> FileSize(const std::string& path);

// A piece of memory for File::Write.
[[nodiscard]] iovec Piece(const void* data, std::size_t size);

// Makes the names of the files in the folder durable.
[[nodiscard]] absl::Status SyncFolder(const std::string& path);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_FILE_H_
