#ifndef CALIBD_SERVER_STORE_LOCAL_DISK_ROOM_H_
#define CALIBD_SERVER_STORE_LOCAL_DISK_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace calibd::server {

// Checks that a file of this many bytes could be written in this folder now. Allocates the space in
// a temporary file and frees it, so that quotas and file size limits count too. Errors: those of
// FileError, ResourceExhausted if there is not enough room.
[[nodiscard]] absl::Status CheckDiskRoom(const std::string& folder, std::uint64_t bytes);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_DISK_ROOM_H_
