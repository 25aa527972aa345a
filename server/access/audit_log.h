#ifndef CALIBD_SERVER_ACCESS_AUDIT_LOG_H_
#define CALIBD_SERVER_ACCESS_AUDIT_LOG_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/base/token_bucket.h"

namespace calibd::server {

// One line of the audit log, without any content of a call.
struct AuditEntry {
  // Who called; empty without an identity.
  std::string principal{};
  // The client's address.
  std::string address{};
  // A method of the API, a path of HTTP, or "ReloadAccessFile".
  std::string method{};
  // The name of the model, "models/*", or empty.
  std::string resource{};
  absl::StatusCode status = absl::StatusCode::kOk;
};

// Appends entries to a file, as JSON lines, and syncs them, on a thread of its own. A file that has
// reached its size becomes FILE.1, and FILE.1 becomes FILE.2, up to FILE.9. If there can be no new
// file, the present one grows. Thread-safe.
class AuditLog {
 public:
  // Drops all entries.
  AuditLog() = default;
  // file: the path; empty for none. max_bytes: size at which the file is rotated. Errors:
  // InvalidArgument if it cannot be written.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& file,
                                                                      std::size_t max_bytes);
  // Writes what is queued, with one sync, and joins the thread.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  [[nodiscard]] bool enabled() const noexcept { return fd_ >= 0; }

  // Queues an entry. Does not block. If kMostQueued entries wait for the disk, the entry is lost
  // and counted.
  void Record(AuditEntry entry);
  // Records a call that was refused or failed, at most kDenialsPerSecond on average: peers cause
  // such entries as often as they like.
  void RecordDenial(AuditEntry entry);

  static constexpr std::size_t kMostQueued = 10000;
  static constexpr double kDenialsPerSecond = 10;
  static constexpr double kDenialBurst = 100;

  struct Statistics {
    std::int64_t written = 0;
    // Entries that could not be written or queued.
    std::int64_t lost = 0;
    // Calls that RecordDenial left out.
    std::int64_t denials_left_out = 0;
  };
  [[nodiscard]] Statistics statistics() const;

 private:
  struct Queued {
    AuditEntry entry;
    std::chrono::system_clock::time_point time;
  };

  void Run();
  // Writes the lines of batch_ and syncs them.
  void WriteBatch();
  // Returns false with errno if the line is not written.
  bool Write(const Queued& next);
  // Returns false with errno. Continues with the present file then.
  bool Rotate();
  // done: the last write, rotation or sync has succeeded, otherwise errno says why not.
  void Report(bool done, const char* what);

  std::string file_;
  std::size_t max_bytes_ = 0;
  int fd_ = -1;
  // Only the thread uses them.
  std::deque<Queued> batch_;
  std::size_t size_ = 0;
  // The byte at the end of the file.
  char last_ = '\n';
  bool failed_ = false;
  // No file is rotated before.
  std::chrono::steady_clock::time_point next_rotation_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;                              // guarded by mutex_
  bool stopping_ = false;                                 // guarded by mutex_
  TokenBucket denials_{kDenialsPerSecond, kDenialBurst};  // guarded by mutex_
  std::atomic<std::int64_t> written_ = 0;
  std::atomic<std::int64_t> lost_ = 0;
  std::atomic<std::int64_t> denials_left_out_ = 0;
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ACCESS_AUDIT_LOG_H_
