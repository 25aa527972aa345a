#include "server/store/local/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

absl::Status SyncError(const std::string& path) {
  return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED",
                   absl::StrCat("the store cannot sync ", path, ": ", std::strerror(errno)));
}

}  // namespace

bool IsFull(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

absl::Status FileError(const std::string& path, std::string_view action, int error) {
  const std::string message =
      absl::StrCat("the store cannot ", std::string(action), " ", path, ": ", std::strerror(error));
  return IsFull(error) ? MakeError(absl::StatusCode::kResourceExhausted, "DISK_FULL", message)
                       : MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", message);
}

absl::Status DamageError(const std::string& path, std::string_view reason,
                         std::string_view remedy) {
  return MakeError(absl::StatusCode::kDataLoss, "STORE_DAMAGED",
                   absl::StrCat("the store is damaged: ", path, " ", std::string(reason), "; ",
                                std::string(remedy), remedy.empty() ? "" : ", ",
                                "restore a backup into an empty folder, or move the folder away to "
                                "start with an empty store"));
}

absl::StatusOr<File> File::Open(std::string path, int flags, std::string_view action) {
  const int descriptor = open(path.c_str(), flags | O_CLOEXEC, 0600);
  if (descriptor < 0) return FileError(path, action, errno);
  return File(descriptor, std::move(path));
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

absl::StatusOr<std::size_t> File::Read(char* data, std::size_t size, std::uint64_t offset) const {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t read =
        pread(descriptor_, data + done, size - done, static_cast<off_t>(offset + done));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return FileError(path_, "read", errno);
    if (read == 0) break;
    done += static_cast<std::size_t>(read);
  }
  return done;
}

absl::Status File::Write(std::span<iovec> pieces, std::uint64_t offset) const {
  while (!pieces.empty()) {
    const auto count = static_cast<int>(std::min<std::size_t>(pieces.size(), IOV_MAX));
    const ssize_t written = pwritev(descriptor_, pieces.data(), count, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return FileError(path_, "write", written < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(written);
    auto left = static_cast<std::size_t>(written);
    while (!pieces.empty() && left >= pieces.front().iov_len) {
      left -= pieces.front().iov_len;
      pieces = pieces.subspan(1);
    }
    if (left > 0) {
      iovec& first = pieces.front();
      first = Piece(static_cast<const char*>(first.iov_base) + left, first.iov_len - left);
    }
  }
  return absl::OkStatus();
}

absl::Status File::SyncData() const {
  return fdatasync(descriptor_) == 0 ? absl::OkStatus() : SyncError(path_);
}

absl::Status File::Sync() const {
  return fsync(descriptor_) == 0 ? absl::OkStatus() : SyncError(path_);
}

absl::Status File::Rename(std::string path) {
  if (std::rename(path_.c_str(), path.c_str()) != 0) return FileError(path_, "rename", errno);
  path_ = std::move(path);
  return absl::OkStatus();
}

absl::Status File::CheckInPlace() const {
  struct stat opened {};
  struct stat named {};
  return fstat(descriptor_, &opened) == 0 && stat(path_.c_str(), &named) == 0 &&
                 opened.st_ino == named.st_ino && opened.st_dev == named.st_dev
             ? absl::OkStatus()
             : DamageError(path_, "was removed or replaced while calibd ran", kPutFileBack);
}

absl::StatusOr<std::int64_t> FileSize(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return FileError(path, "read", errno);
  return static_cast<std::int64_t>(status.st_size);
}

iovec Piece(const void* data, std::size_t size) {
  // The memory is only read.
  return {.iov_base = const_cast<void*>(data), .iov_len = size};
}

absl::Status SyncFolder(const std::string& path) {
  CALIBD_ASSIGN_OR_RETURN(const File folder, File::Open(path, O_RDONLY | O_DIRECTORY, "sync"));
  return folder.Sync();
}

}  // namespace calibd::server
