#include "server/access/audit_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace calibd::server {
namespace {

constexpr int kKeptFiles = 9;
// Time after which a rotation that has failed is tried again.
constexpr std::chrono::seconds kRotationDelay{60};
// Longer than any name of a model. A caller without an identity may send any text.
constexpr std::size_t kLongestResource = 300;
// Only the owner reads who did what.
constexpr mode_t kFileMode = 0600;

int OpenToAppend(const std::string& file) {
  return open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode);
}

std::string LineOf(const AuditEntry& entry, std::chrono::system_clock::time_point time) {
  const nlohmann::ordered_json line = {
      {"time",
       absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromChrono(time), absl::UTCTimeZone())},
      {"principal", entry.principal},
      {"address", entry.address},
      {"method", entry.method},
      {"resource", entry.resource.substr(0, kLongestResource)},
      {"status", absl::StatusCodeToString(entry.status)}};
  // ASCII only: what a client names stays within its line.
  return line.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// Returns the number of bytes that were written; if it is not the size of the text, with errno.
std::size_t WriteAll(int fd, std::string_view text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(fd, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  return done;
}

// Renames a file, which may be missing. Returns false with errno.
bool Rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str()) == 0 || errno == ENOENT;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& file,
                                                         std::size_t max_bytes) {
  auto log = std::make_unique<AuditLog>();
  if (file.empty()) return log;
  log->file_ = file;
  log->max_bytes_ = max_bytes;
  log->fd_ = OpenToAppend(file);
  struct stat status {};
  if (log->fd_ < 0 || fstat(log->fd_, &status) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--audit-log ", file, " cannot be written: ", std::strerror(errno),
                     "; name a file in a folder in which calibd may create files"));
  }
  log->size_ = static_cast<std::size_t>(status.st_size);
  // A line that a full disk or a crash has torn must not take the next one with it.
  if (log->size_ > 0 && pread(log->fd_, &log->last_, 1, status.st_size - 1) != 1) log->last_ = '\0';
  log->thread_ = std::thread([raw = log.get()] { raw->Run(); });
  return log;
}

AuditLog::~AuditLog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (fd_ >= 0) close(fd_);
}

void AuditLog::Record(AuditEntry entry) {
  if (!enabled()) return;
  {
    const std::lock_guard lock(mutex_);
    if (queue_.size() >= kMostQueued) {
      ++lost_;
      return;
    }
    queue_.push_back({.entry = std::move(entry), .time = std::chrono::system_clock::now()});
  }
  changed_.notify_all();
}

void AuditLog::RecordDenial(AuditEntry entry) {
  if (!enabled()) return;
  {
    const std::lock_guard lock(mutex_);
    if (!denials_.Take(TokenBucket::Time::clock::now())) {
      ++denials_left_out_;
      return;
    }
  }
  Record(std::move(entry));
}

AuditLog::Statistics AuditLog::statistics() const {
  return {.written = written_, .lost = lost_, .denials_left_out = denials_left_out_};
}

void AuditLog::Run() {
  pthread_setname_np(pthread_self(), "calibd-audit");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    batch_.swap(queue_);
    lock.unlock();
    WriteBatch();
    lock.lock();
  }
}

void AuditLog::WriteBatch() {
  std::int64_t lines = 0;
  for (const Queued& next : batch_) {
    try {
      const bool written = Write(next);
      written ? ++lines : ++lost_;
      Report(written, "written");
    } catch (const std::exception&) {
      // There was no memory for the line, or for a message about it.
      ++lost_;
    }
  }
  batch_.clear();
  if (lines == 0) return;
  const bool synced = fdatasync(fd_) == 0;
  (synced ? written_ : lost_) += lines;
  try {
    Report(synced, "synced");
  } catch (const std::exception&) {
    // The metric counts the lines as lost.
  }
}

bool AuditLog::Write(const Queued& next) {
  std::string line = LineOf(next.entry, next.time);
  if (size_ > 0 && size_ + line.size() > max_bytes_) Report(Rotate(), "rotated");
  // The part of a line for which the disk had no room stays a line of its own.
  if (last_ != '\n') line.insert(line.begin(), '\n');
  const std::size_t done = WriteAll(fd_, line);
  size_ += done;
  if (done > 0) last_ = line[done - 1];
  return done == line.size();
}

void AuditLog::Report(bool done, const char* what) {
  const int error = errno;
  if (!done && !std::exchange(failed_, true)) {
    spdlog::error("the audit log {} cannot be {}: {}", file_, what, std::strerror(error));
  }
  // Only a write shows that the disk works again.
  if (done && std::string_view(what) == "written") failed_ = false;
}

bool AuditLog::Rotate() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_rotation_) return true;
  next_rotation_ = now + kRotationDelay;
  // A file that cannot be made must not cost the oldest one.
  const std::string fresh = absl::StrCat(file_, ".new");
  const int next = OpenToAppend(fresh);
  if (next < 0) return false;
  bool renamed = fdatasync(fd_) == 0;
  for (int i = kKeptFiles; renamed && i > 0; --i) {
    const std::string from = i == 1 ? file_ : absl::StrCat(file_, ".", i - 1);
    renamed = Rename(from, absl::StrCat(file_, ".", i));
  }
  // enabled() reads the number of the descriptor, which stays the same.
  const bool rotated = renamed && Rename(fresh, file_) && dup3(next, fd_, O_CLOEXEC) == fd_;
  const int error = errno;
  close(next);
  errno = error;
  if (!rotated) return false;
  size_ = 0;
  last_ = '\n';
  next_rotation_ = {};
  return true;
}

}  // namespace calibd::server
