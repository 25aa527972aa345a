#ifndef CALIBD_SERVER_STORE_LOCAL_WAL_CHECK_H_
#define CALIBD_SERVER_STORE_LOCAL_WAL_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::server {

// The part of a write-ahead log that SQLite will recover.
struct WalContents {
  // Number of valid committed transactions.
  std::int64_t commits = 0;
  // Number of frames after the last valid commit that belong to the same generation of the log.
  // Their transaction is incomplete, not committed, or damaged.
  std::int64_t discarded_frames = 0;
};

// Reads the write-ahead log of a database before SQLite opens the database. SQLite silently treats
// a damaged frame as the end of the log, and deletes a log with a damaged header. path: the path of
// the database; without a file PATH-wal, the log is empty. Reads the file once.
//
// Errors: those of File; DataLoss if durable transactions cannot be read: the header is damaged, or
// a frame is damaged and a later frame shows that its transaction was synced. Damage to the last
// transaction alone looks like an incomplete transaction.
[[nodiscard]] absl::StatusOr<WalContents> ReadWal(const std::string& path);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_WAL_CHECK_H_
