#include "server/store/local/disk_room.h"

#include <fcntl.h>
#include <unistd.h>

#include "calibd/core/status_macros.h"
#include "server/store/local/file.h"

namespace calibd::server {

absl::Status CheckDiskRoom(const std::string& folder, std::uint64_t bytes) {
  const std::string path = folder + "/room";
  CALIBD_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDWR | O_CREAT | O_TRUNC, "make"));
  // A file without a name disappears when it is closed, whatever happens to this process.
  unlink(path.c_str());
  const int error = posix_fallocate(file.get(), 0, static_cast<off_t>(bytes));
  return error == 0 ? absl::OkStatus() : FileError(path, "write", error);
}

}  // namespace calibd::server
