#include "server/ingest/ingest_queue.h"

#include <utility>

namespace calibd::server {
namespace {

// One part in this many of the queue is kept for batches that cannot wait.
constexpr std::size_t kKeptPart = 8;

}  // namespace

IngestQueue::RoomPtr IngestQueue::Take(std::int64_t model, std::size_t bytes) {
  RoomPtr room(new Room(*this, model));
  const std::lock_guard lock(mutex_);
  Add(ShareOf(model), *room, bytes);
  return room;
}

IngestQueue::RoomPtr IngestQueue::TryTake(std::int64_t model, std::size_t bytes) {
  RoomPtr room(new Room(*this, model));
  const std::lock_guard lock(mutex_);
  Share& share = ShareOf(model);
  // A large batch leaves room for smaller ones.
  const bool fits = Fits(share, bytes, /*kept=*/bytes);
  if (fits) Add(share, *room, bytes);
  EraseUnused(model);
  return fits ? room : nullptr;
}

IngestQueue::RoomPtr IngestQueue::TakeOrWait(std::int64_t model, std::size_t bytes,
                                             Granted granted) {
  RoomPtr room(new Room(*this, model));
  const std::lock_guard lock(mutex_);
  Share& share = ShareOf(model);
  if (share.waiting.empty() && starved_.empty() && Fits(share, bytes, most_bytes_ / kKeptPart)) {
    Add(share, *room, bytes);
    return room;
  }
  if (!granted) {
    EraseUnused(model);
    return nullptr;
  }
  share.waiting.push_back({.room = std::move(room), .bytes = bytes, .granted = std::move(granted)});
  ++waiting_;
  if (share.bytes == 0) starved_.splice(starved_.end(), share.place);
  return nullptr;
}

std::size_t IngestQueue::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t IngestQueue::waiting() const {
  const std::lock_guard lock(mutex_);
  return waiting_;
}

IngestQueue::Share& IngestQueue::ShareOf(std::int64_t model) {
  if (const auto found = shares_.find(model); found != shares_.end()) return found->second;
  // First, so that no share is without one.
  std::list<Share*> place(1);
  Share& share = shares_[model];
  place.front() = &share;
  share.place.swap(place);
  return share;
}

void IngestQueue::EraseUnused(std::int64_t model) {
  const auto entry = shares_.find(model);
  if (entry->second.bytes == 0 && entry->second.waiting.empty()) shares_.erase(entry);
}

bool IngestQueue::Fits(const Share& share, std::size_t bytes, std::size_t kept) const {
  return bytes_ == 0 ||
         (bytes_ < most_bytes_ && share.bytes + bytes + kept <= most_bytes_ - bytes_);
}

void IngestQueue::Add(Share& share, Room& room, std::size_t bytes) {
  room.bytes_ += bytes;
  share.bytes += bytes;
  bytes_ += bytes;
}

void IngestQueue::Subtract(Share& share, Room& room, std::size_t bytes) {
  room.bytes_ -= bytes;
  share.bytes -= bytes;
  bytes_ -= bytes;
}

bool IngestQueue::Grant(Share& share, std::list<Waiting>& granted) {
  if (share.waiting.empty()) return false;
  const Waiting& next = share.waiting.front();
  if (!Fits(share, next.bytes, most_bytes_ / kKeptPart)) return false;
  Add(share, *next.room, next.bytes);
  --waiting_;
  granted.splice(granted.end(), share.waiting, share.waiting.begin());
  return true;
}

void IngestQueue::Release(Room& room) {
  if (room.bytes_ == 0) return;  // It was never granted.
  std::list<Waiting> granted;
  {
    const std::lock_guard lock(mutex_);
    Share& share = ShareOf(room.model_);
    Subtract(share, room, room.bytes_);
    if (share.bytes == 0 && !share.waiting.empty()) starved_.splice(starved_.end(), share.place);
    // Other models wait until the first of these fits, so that even a large batch gets room.
    while (!starved_.empty() && Grant(*starved_.front(), granted)) {
      Share& first = *starved_.front();
      first.place.splice(first.place.end(), starved_, starved_.begin());
    }
    while (starved_.empty() && Grant(share, granted)) {
    }
    EraseUnused(room.model_);
  }
  for (Waiting& next : granted) next.granted(std::move(next.room));
}

void IngestQueue::Resize(Room& room, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  Share& share = ShareOf(room.model_);
  Subtract(share, room, room.bytes_);
  Add(share, room, bytes);
}

}  // namespace calibd::server
