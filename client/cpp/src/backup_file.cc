#include "backup_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <filesystem>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace calibd::client {
namespace {

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

struct BackupFile::State {
  ~State() {
    if (file >= 0) {
      // Removed while it is still locked: another process may take an unlocked file.
      std::error_code error;
      std::filesystem::remove(part, error);
      close(file);
    }
  }

  std::string path;
  std::string part;
  int file = -1;
  std::int64_t size = 0;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash{XXH3_createState(), XXH3_freeState};
  bool complete = false;
};

BackupFile::BackupFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
BackupFile::~BackupFile() = default;
BackupFile::BackupFile(BackupFile&&) noexcept = default;

absl::StatusOr<BackupFile> BackupFile::Create(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(path, " exists; a backup is a new file"));
  }
  auto state = std::make_unique<State>();
  if (state->hash == nullptr) throw std::bad_alloc();
  state->path = path;
  state->part = path + ".part";
  const int file = open(state->part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return WriteError(state->part);
  if (flock(file, LOCK_EX | LOCK_NB) != 0) {
    close(file);
    return absl::AlreadyExistsError(
        absl::StrCat(state->part, " is being written by another process"));
  }
  state->file = file;
  return BackupFile(std::move(state));
}

absl::Status BackupFile::Begin() {
  state_->size = 0;
  state_->complete = false;
  XXH3_64bits_reset(state_->hash.get());
  if (ftruncate(state_->file, 0) != 0 || lseek(state_->file, 0, SEEK_SET) != 0) {
    return WriteError(state_->part);
  }
  return absl::OkStatus();
}

absl::Status BackupFile::Append(const std::string& data) {
  XXH3_64bits_update(state_->hash.get(), data.data(), data.size());
  state_->size += static_cast<std::int64_t>(data.size());
  for (std::size_t done = 0; done < data.size();) {
    const ssize_t count = write(state_->file, data.data() + done, data.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return WriteError(state_->part);
    done += static_cast<std::size_t>(count);
  }
  return absl::OkStatus();
}

absl::Status BackupFile::Complete(const v1::BackupResponse::Complete& complete) {
  if (complete.size_bytes() != state_->size ||
      complete.hash() != XXH3_64bits_digest(state_->hash.get())) {
    return absl::DataLossError(absl::StrCat("the backup arrived damaged: ", state_->size,
                                            " bytes were received, ", complete.size_bytes(),
                                            " were sent, or their checksums differ"));
  }
  if (fsync(state_->file) != 0) return WriteError(state_->part);
  state_->complete = true;
  return absl::OkStatus();
}

absl::StatusOr<std::int64_t> BackupFile::Keep() {
  if (!state_->complete) {
    return absl::DataLossError("the server ended the backup before it was complete");
  }
  if (link(state_->part.c_str(), state_->path.c_str()) != 0) {
    return errno == EEXIST ? absl::AlreadyExistsError(
                                 absl::StrCat(state_->path, " exists; a backup is a new file"))
                           : WriteError(state_->path);
  }
  if (absl::Status status = SyncFolder(state_->path); !status.ok()) {
    unlink(state_->path.c_str());
    return status;
  }
  return state_->size;
}

}  // namespace calibd::client
