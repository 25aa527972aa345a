#ifndef CALIBD_SERVER_STORE_LOCAL_WAL_CHECK_H_
#define CALIBD_SERVER_STORE_LOCAL_WAL_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::server {

// The part of a write-ahead log that SQLite will recover.
struct WalContents {
  // Committed transactions that are valid.
  std::int64_t commits = 0;
  // Frames after the last valid commit that belong to the same generation of the log: those of a
  // transaction that was not written to its end or not committed, or that is damaged.
  std::int64_t discarded_frames = 0;
};

// Reads the write-ahead log of a database, before SQLite opens the database. SQLite takes a
// damaged frame for the end of the log, silently, and deletes a log whose header is damaged.
// path: of the database; without a file PATH-wal there is nothing in it. Reads the file once.
//
// Errors: those of File, and DataLoss when transactions that were durable cannot be read: the
// header is damaged, or a frame is, and a later frame shows that its transaction was synced.
// Damage to the last transaction alone looks as if it had not been written to its end.
[[nodiscard]] absl::StatusOr<WalContents> ReadWal(const std::string& path);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_WAL_CHECK_H_
