#ifndef CALIBD_SERVER_EXECUTOR_FAIR_QUEUE_H_
#define CALIBD_SERVER_EXECUTOR_FAIR_QUEUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace calibd::server {

// A queue that gives the same share to each flow of items: start-time fair queueing (Goyal, Vin and
// Cheng, 1996). On a virtual clock, an item starts when the item before it in its flow ends, but
// not before the item that was popped last. The item that starts first is popped first. The next
// item of a flow that has used less than its share is therefore popped next, however many items the
// other flows have queued. Push and Pop take O(log n). Not thread-safe.
template <typename Item>
class FairQueue {
 public:
  // The virtual time at which the newest item of a flow ends. Initially 0. If the cost of an item
  // is known only later, its flow is advanced by the cost before the next Push.
  using Flow = std::uint64_t;

  // cost: a number in any unit that is the same for all items. Items of one flow are popped in the
  // order of Push.
  void Push(Item item, Flow& flow, std::uint64_t cost) {
    const std::uint64_t start = std::max(flow, now_);
    Insert(start, std::move(item));
    flow = start + cost;
  }
  // The item is popped after all items that are in the queue.
  void PushLast(Item item) { Insert(last_start_, std::move(item)); }

  // The queue must not be empty.
  [[nodiscard]] const Item& front() const { return entries_.front().item; }
  Item Pop() {
    std::pop_heap(entries_.begin(), entries_.end(), IsLater);
    now_ = entries_.back().start;
    Item item = std::move(entries_.back().item);
    entries_.pop_back();
    return item;
  }

  // The virtual time. A flow that does not end later is not ahead of the others.
  [[nodiscard]] Flow now() const noexcept { return now_; }
  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t start;
    // Entries that start at the same time are popped in the order of these numbers.
    std::uint64_t number;
    Item item;
  };

  static bool IsLater(const Entry& a, const Entry& b) {
    return std::pair(a.start, a.number) > std::pair(b.start, b.number);
  }
  void Insert(std::uint64_t start, Item item) {
    entries_.push_back({.start = start, .number = ++last_number_, .item = std::move(item)});
    std::push_heap(entries_.begin(), entries_.end(), IsLater);
    last_start_ = std::max(last_start_, start);
  }

  // A heap: the entry that is popped next is the first.
  std::vector<Entry> entries_;
  // The start of the item that was popped last, and the latest start of all items so far.
  std::uint64_t now_ = 0;
  std::uint64_t last_start_ = 0;
  std::uint64_t last_number_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_EXECUTOR_FAIR_QUEUE_H_
