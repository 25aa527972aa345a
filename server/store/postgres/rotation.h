#ifndef CALIBD_SERVER_STORE_POSTGRES_ROTATION_H_
#define CALIBD_SERVER_STORE_POSTGRES_ROTATION_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace calibd::server {

// Begins generation `newest` + 1 of the log: empties its table. Does nothing if another one began
// it, or if a cell still needs what the table has. Waits 100 ms at most for readers of the table.
// Returns the newest generation. Errors: those of PgConnection.
[[nodiscard]] absl::StatusOr<std::int64_t> RotateLog(const std::string& connection,
                                                     std::int64_t newest);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_ROTATION_H_
