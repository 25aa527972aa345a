#include "backup_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <new>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace calibd::client {
namespace {

constexpr char kPartSuffix[] = ".part";

absl::Status ExistsError(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(path, " exists; a backup is a new file"));
}

// A full disk is not retried, because each attempt makes the server copy its store.
absl::Status WriteError(const std::string& path) {
  absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  return absl::IsResourceExhausted(status)
             ? absl::ResourceExhaustedError(
                   absl::StrCat(status.message(), "; the backup needs more room there"))
             : status;
}

// Makes the name of a new file durable.
absl::Status SyncFolder(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return WriteError(folder);
  absl::Status status;
  if (fsync(file) != 0) status = WriteError(folder);
  close(file);
  return status;
}

}  // namespace

BackupFile::BackupFile(const std::string& path, int file, std::int64_t reserve_bytes)
    : path_(path),
      part_(path + kPartSuffix),
      file_(file),
      reserve_bytes_(reserve_bytes),
      hash_(XXH3_createState(), XXH3_freeState) {}

BackupFile::~BackupFile() {
  // Removed while it is still locked: another process may take an unlocked file.
  std::error_code error;
  std::filesystem::remove(part_, error);
  close(file_);
}

absl::StatusOr<std::unique_ptr<BackupFile>> BackupFile::Create(const std::string& path,
                                                               std::int64_t reserve_bytes) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) return ExistsError(path);
  const std::string part = path + kPartSuffix;
  const int file = open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return WriteError(part);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return absl::AlreadyExistsError(absl::StrCat(part, " is being written by another process"));
  }
  std::unique_ptr<BackupFile> result(new BackupFile(path, file, reserve_bytes));
  if (result->hash_ == nullptr) throw std::bad_alloc();
  return result;
}

absl::Status BackupFile::Begin() {
  size_ = 0;
  complete_ = false;
  XXH3_64bits_reset(hash_.get());
  if (ftruncate(file_, 0) != 0 || lseek(file_, 0, SEEK_SET) != 0) return WriteError(part_);
  std::error_code error;
  const auto free = static_cast<std::int64_t>(std::filesystem::space(part_, error).available);
  // A file system that does not tell has no limit.
  most_bytes_ = error ? std::numeric_limits<std::int64_t>::max()
                      : std::max<std::int64_t>(0, free - reserve_bytes_);
  return absl::OkStatus();
}

absl::Status BackupFile::Append(const std::string& data) {
  XXH3_64bits_update(hash_.get(), data.data(), data.size());
  size_ += static_cast<std::int64_t>(data.size());
  if (size_ > most_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot write ", part_, "; the backup needs more room there: it would leave less than ",
        reserve_bytes_ >> 20, " MiB of the disk free"));
  }
  for (std::size_t done = 0; done < data.size();) {
    const ssize_t count = write(file_, data.data() + done, data.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return WriteError(part_);
    done += static_cast<std::size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status BackupFile::Complete(const v1::BackupResponse::Complete& complete) {
  if (complete.size_bytes() != size_ || complete.hash() != XXH3_64bits_digest(hash_.get())) {
    return absl::DataLossError(absl::StrCat("the backup arrived damaged: ", size_,
                                            " bytes were received, ", complete.size_bytes(),
                                            " were sent, or their checksums differ"));
  }
  if (fsync(file_) != 0) return WriteError(part_);
  complete_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> BackupFile::Keep() {
  if (!complete_) return absl::DataLossError("the server ended the backup before it was complete");
  if (link(part_.c_str(), path_.c_str()) != 0) {
    return errno == EEXIST ? ExistsError(path_) : WriteError(path_);
  }
  if (absl::Status status = SyncFolder(path_); !status.ok()) {
    unlink(path_.c_str());
    return status;
  }
  return size_;
}

}  // namespace calibd::client
