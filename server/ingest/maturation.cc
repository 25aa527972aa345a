#include "server/ingest/maturation.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <new>

namespace calibd::server {
namespace {

// How late a prediction may mature while nothing else goes on.
constexpr std::chrono::milliseconds kInterval{100};
// They hold a megabyte or two each.
constexpr std::size_t kMostUnderWay = 8;

}  // namespace

Maturation::Maturation(const ModelRegistry& registry, Ingestor& ingestor)
    : registry_(registry), ingestor_(ingestor), thread_([this] { Run(); }) {}

Maturation::~Maturation() { Stop(); }

void Maturation::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void Maturation::Run() {
  pthread_setname_np(pthread_self(), "calibd-mature");
  std::chrono::steady_clock::time_point refresh_at{};
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kInterval, [this] { return stopping_ || finished_; });
      if (stopping_) {
        return;
      }
      finished_ = false;
    }
    const auto now = std::chrono::steady_clock::now();
    try {
      // The list is long and its lock others': it waits for the interval, what is due does not.
      if (now >= refresh_at) {
        refresh_at = now + kInterval;
        Refresh();
      }
      Begin();
    } catch (const std::bad_alloc&) {
      // The next look may find memory.
    }
  }
}

void Maturation::Refresh() {
  models_.clear();
  auto listed = registry_.List("", std::numeric_limits<std::size_t>::max());
  if (!listed.ok()) {
    return;
  }
  std::copy_if(std::make_move_iterator(listed->begin()), std::make_move_iterator(listed->end()),
               std::back_inserter(models_),
               [](const std::shared_ptr<Model>& model) { return model->tracker() != nullptr; });
}

void Maturation::Begin() {
  const auto now = ingestor_.clock().elapsed();
  // From where the last look ended: all have their turn, however many are due.
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const std::shared_ptr<Model>& model = models_[(first_ + i) % models_.size()];
    if (model->tracker()->next_due() > now) {
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      if (under_way_.size() >= kMostUnderWay) {
        first_ = (first_ + i) % models_.size();
        return;
      }
      if (!under_way_.insert(model->id()).second) {
        continue;
      }
    }
    try {
      ingestor_.Mature(model, [this, id = model->id()](bool written) {
        {
          const std::lock_guard lock(mutex_);
          under_way_.erase(id);
          finished_ = finished_ || written;
        }
        changed_.notify_all();
      });
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex_);
      under_way_.erase(model->id());
    }
  }
}

}  // namespace calibd::server
