#ifndef CALIBD_SERVER_STORE_LOCAL_CHECKPOINTER_H_
#define CALIBD_SERVER_STORE_LOCAL_CHECKPOINTER_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/local/sqlite.h"

namespace calibd::server {

// Copies the write-ahead log of a database into the database, on its own thread and through its own
// connection, while commits continue. Thread-safe.
class Checkpointer {
 public:
  // path: the path of an existing database. Errors: those of sqlite.h.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Checkpointer>> Start(const std::string& path);
  // Stop().
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  // Call it after each commit. wal_pages: size of the write-ahead log.
  void OnCommit(int wal_pages);
  // Waits for the running checkpoint. No further one runs while the result exists: two connections
  // cannot make a checkpoint at the same time, and the second one fails.
  [[nodiscard]] std::unique_lock<std::mutex> Pause();
  // The first error, after which no checkpoint is made; a full disk is not an error.
  [[nodiscard]] absl::Status status() const;
  // Waits for the running checkpoint, and starts no further one.
  void Stop();

 private:
  explicit Checkpointer(Database database);
  void Run();

  Database database_;
  // Held while a checkpoint runs.
  std::mutex running_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int wal_pages_ = 0;      // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  absl::Status status_;    // guarded by mutex_
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_CHECKPOINTER_H_
