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
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace calibd::server {
namespace {

constexpr int kKeptFiles = 9;
// Longer than any name of a model. A caller without an identity may send any text.
constexpr std::size_t kLongestResource = 300;
// Only the owner reads who did what.
constexpr mode_t kFileMode = 0600;

int OpenToAppend(const std::string& file) {
  return open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode);
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

// Returns false with errno.
bool WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return fdatasync(fd) == 0;
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
  log->refilled_ = std::chrono::steady_clock::now();
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
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - refilled_).count();
    denials_ = std::min(kDenialBurst, denials_ + seconds * kDenialsPerSecond);
    refilled_ = now;
    if (denials_ < 1) {
      ++denials_left_out_;
      return;
    }
    denials_ -= 1;
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
    const Queued next = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    Write(next.entry, next.time);
    lock.lock();
  }
}

void AuditLog::Write(const AuditEntry& entry, std::chrono::system_clock::time_point time) {
  const std::string line = LineOf(entry, time);
  if (size_ > 0 && size_ + line.size() > max_bytes_) Rotate();
  const bool written = WriteAll(fd_, line);
  written ? ++written_ : ++lost_;
  size_ += line.size();
  if (!written && !failed_) {
    spdlog::error("the audit log {} cannot be written: {}", file_, std::strerror(errno));
  }
  failed_ = !written;
}

void AuditLog::Rotate() {
  for (int i = kKeptFiles; i > 0; --i) {
    const std::string from = i == 1 ? file_ : absl::StrCat(file_, ".", i - 1);
    static_cast<void>(std::rename(from.c_str(), absl::StrCat(file_, ".", i).c_str()));
  }
  const int next = OpenToAppend(file_);
  if (next < 0) return;  // The renamed file is continued.
  // enabled() reads the number of the descriptor, which stays the same.
  dup3(next, fd_, O_CLOEXEC);
  close(next);
  size_ = 0;
}

}  // namespace calibd::server
