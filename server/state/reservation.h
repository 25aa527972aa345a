#ifndef CALIBD_SERVER_STATE_RESERVATION_H_
#define CALIBD_SERVER_STATE_RESERVATION_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "server/state/disk_use.h"

namespace calibd::server {

// Bytes that the declarations of all models reserve.
struct ReservedBytes {
  std::atomic<std::size_t> memory = 0;
  std::atomic<std::size_t> disk = kSharedDiskBytes;
};

// The part of one model, which is returned at the destruction.
class Reservation {
 public:
  explicit Reservation(std::shared_ptr<ReservedBytes> all) noexcept : all_(std::move(all)) {}
  ~Reservation() { Set(0, 0); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  [[nodiscard]] std::size_t memory() const noexcept { return memory_; }
  [[nodiscard]] std::size_t disk() const noexcept { return disk_; }
  void Set(std::size_t memory, std::size_t disk) noexcept {
    // The differences wrap around.
    all_->memory += memory - memory_;
    all_->disk += disk - disk_;
    memory_ = memory;
    disk_ = disk;
  }

 private:
  const std::shared_ptr<ReservedBytes> all_;
  std::size_t memory_ = 0;
  std::size_t disk_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_RESERVATION_H_
