#ifndef CALIBD_SERVER_BASE_READ_FILE_H_
#define CALIBD_SERVER_BASE_READ_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace calibd::server {

// Reads a regular file of at most this many bytes. Does not wait, whatever kind of file it is.
// Errors: InvalidArgument with the reason alone, such as "No such file or directory"; callers name
// the file.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path, std::size_t most_bytes);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_BASE_READ_FILE_H_
