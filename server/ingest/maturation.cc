#include "server/ingest/maturation.h"

#include <pthread.h>

#include <chrono>
#include <limits>
#include <new>
#include <vector>

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
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kInterval, [this] { return stopping_ || finished_; });
      if (stopping_) {
        return;
      }
      finished_ = false;
    }
    Begin();
  }
}

void Maturation::Begin() {
  const auto now = ingestor_.clock().elapsed();
  const auto listed = registry_.List("", std::numeric_limits<std::size_t>::max());
  if (!listed.ok()) {
    return;
  }
  const std::vector<std::shared_ptr<Model>>& models = *listed;
  // From where the last look ended: all have their turn, however many are due.
  for (std::size_t i = 0; i < models.size(); ++i) {
    const std::shared_ptr<Model>& model = models[(first_ + i) % models.size()];
    if (model->tracker() == nullptr || model->tracker()->next_due() > now) {
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      if (under_way_.size() >= kMostUnderWay) {
        first_ = (first_ + i) % models.size();
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
      // The next look may find memory.
      const std::lock_guard lock(mutex_);
      under_way_.erase(model->id());
    }
  }
}

}  // namespace calibd::server
