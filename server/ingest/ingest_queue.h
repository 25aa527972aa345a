#ifndef CALIBD_SERVER_INGEST_INGEST_QUEUE_H_
#define CALIBD_SERVER_INGEST_INGEST_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace calibd::server {

// Limits the memory of rows that are not applied yet, and shares it among the models. A batch gets
// room if its model then has at most as many bytes in the queue as were free. One busy model
// therefore occupies half of the queue, and each of n busy models one part in n + 1. Batches that
// can wait leave a further eighth of the queue free for those that cannot. A batch of any size fits
// into an empty queue. Thread-safe.
class IngestQueue {
 public:
  // A part of the queue, which its destructor returns.
  class Room {
   public:
    ~Room() { queue_.Release(*this); }
    Room(const Room&) = delete;
    Room& operator=(const Room&) = delete;

    // Replaces an estimated number of bytes.
    void Resize(std::size_t bytes) { queue_.Resize(*this, bytes); }

   private:
    friend class IngestQueue;
    Room(IngestQueue& queue, std::int64_t model) : queue_(queue), model_(model) {}

    IngestQueue& queue_;
    const std::int64_t model_;
    std::size_t bytes_ = 0;
  };
  using RoomPtr = std::shared_ptr<Room>;
  using Granted = std::function<void(RoomPtr)>;

  // The queue must outlive its rooms.
  explicit IngestQueue(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  // model: the id of the model of a batch. bytes: its size, here and below.

  // Returns room even if there is none: for rows that are always accepted.
  [[nodiscard]] RoomPtr Take(std::int64_t model, std::size_t bytes);
  // Returns null if the batch exceeds the share of its model.
  [[nodiscard]] RoomPtr TryTake(std::int64_t model, std::size_t bytes);
  // Returns null if the batch exceeds the share of its model, or others have waited for longer.
  // Then, unless it is empty, `granted` is called once with the room, on the thread that returns
  // room. The batches of a model get room in the order of these calls. Of the models that wait,
  // those with nothing in the queue are first.
  [[nodiscard]] RoomPtr TakeOrWait(std::int64_t model, std::size_t bytes, Granted granted);

  // Number of bytes in use, and of batches that wait for room.
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] std::size_t waiting() const;

 private:
  struct Waiting {
    RoomPtr room;
    std::size_t bytes = 0;
    Granted granted;
  };
  // Of a model with bytes in the queue or waiting batches. Lists, because Release must not
  // allocate.
  struct Share {
    std::size_t bytes = 0;
    std::list<Waiting> waiting;
    // One element, which is in starved_ while the model has waiting batches and had no bytes.
    std::list<Share*> place;
  };

  [[nodiscard]] Share& ShareOf(std::int64_t model);
  void EraseUnused(std::int64_t model);
  // kept: bytes to be left free in addition.
  [[nodiscard]] bool Fits(const Share& share, std::size_t bytes, std::size_t kept) const;
  void Add(Share& share, Room& room, std::size_t bytes);
  void Subtract(Share& share, Room& room, std::size_t bytes);
  // Moves the first waiting batch of the model to `granted` if it fits.
  bool Grant(Share& share, std::list<Waiting>& granted);
  void Release(Room& room);
  void Resize(Room& room, std::size_t bytes);

  const std::size_t most_bytes_;
  mutable std::mutex mutex_;
  // Everything below is guarded by mutex_.
  std::size_t bytes_ = 0;
  std::size_t waiting_ = 0;
  // Not a map of absl, which would keep an element that was not made for lack of memory.
  std::unordered_map<std::int64_t, Share> shares_;
  // Models that wait with nothing in the queue, in the order in which they get room.
  std::list<Share*> starved_;
};

// Estimates the bytes of a batch in the queue, decoded and encoded, before it is decoded.
// message_bytes: of the serialized message.
[[nodiscard]] constexpr std::size_t QueuedBytes(std::size_t message_bytes) {
  return 2 * message_bytes;
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_INGEST_QUEUE_H_
