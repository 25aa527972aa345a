#ifndef CALIBD_SERVER_STORE_DISK_ROOM_H_
#define CALIBD_SERVER_STORE_DISK_ROOM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace calibd::server {

// Whether a file of so many bytes could be written in this folder now. Takes the room with a file
// of its own, and gives it back: a quota or a limit of the size of files counts too.
// Errors: those of FileError, ResourceExhausted if there is not enough room.
[[nodiscard]] absl::Status CheckDiskRoom(const std::string& folder, std::uint64_t bytes);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_DISK_ROOM_H_
