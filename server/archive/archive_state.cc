#include "server/archive/archive_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

// Makes a rename in the folder durable. Returns 0 or an errno value.
int SyncStateFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = fsync(fd) == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

store::v1::ArchiveState ReadArchiveState(const std::string& path, const std::string& store_id) {
  std::ifstream file(path, std::ios::binary);
  store::v1::ArchiveState state;
  if (file && state.ParseFromIstream(&file) && state.store_id() == store_id) return state;
  state.Clear();
  state.set_store_id(store_id);
  return state;
}

absl::Status WriteArchiveState(const std::string& path, const store::v1::ArchiveState& state) {
  const std::string unfinished = path + ".new";
  const int fd = open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  bool written = fd >= 0 && state.SerializeToFileDescriptor(fd) && fsync(fd) == 0;
  int error = errno;
  if (fd >= 0) close(fd);
  if (written && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    written = false;
    error = errno;
  }
  if (written) {
    error = SyncStateFolder(std::filesystem::path(path).parent_path().string());
    written = error == 0;
  }
  return written
             ? absl::OkStatus()
             : absl::UnavailableError(absl::StrCat("the state of the archive, ", path,
                                                   ", cannot be written: ", std::strerror(error)));
}

}  // namespace calibd::server
