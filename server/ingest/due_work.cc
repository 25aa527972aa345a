#include "server/ingest/due_work.h"

#include <pthread.h>

#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "server/ingest/snapshots.h"

namespace calibd::server {
namespace {

// Maximum delay of a maturation if nothing else happens.
constexpr std::chrono::milliseconds kInterval{100};
// Each of them uses a megabyte or two.
constexpr std::size_t kMostUnderWay = 8;
// Snapshots that are started in one interval: all models may have become idle at once.
constexpr int kMostSnapshots = 16;

}  // namespace

DueWork::DueWork(const ModelRegistry& registry, Ingestor& ingestor, CommitQueue& commits,
                 std::function<void()> each_interval)
    : registry_(registry),
      ingestor_(ingestor),
      commits_(commits),
      each_interval_(std::move(each_interval)),
      thread_([this] { Run(); }) {}

DueWork::~DueWork() { Stop(); }

void DueWork::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void DueWork::Run() {
  pthread_setname_np(pthread_self(), "calibd-due");
  std::chrono::steady_clock::time_point refresh_at{};
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kInterval, [this] { return stopping_ || finished_; });
      if (stopping_) return;
      finished_ = false;
    }
    const auto now = std::chrono::steady_clock::now();
    try {
      // Reading the list is slow and its lock is shared, so this happens once per interval. Due
      // work does not wait for it.
      if (now >= refresh_at) {
        refresh_at = now + kInterval;
        Refresh();
        AskForSnapshots();
        each_interval_();
      }
      Mature();
    } catch (const std::bad_alloc&) {
      // There may be memory in the next pass.
    }
  }
}

void DueWork::Refresh() {
  models_.clear();
  auto listed = registry_.List("", std::numeric_limits<std::size_t>::max());
  if (listed.ok()) models_ = *std::move(listed);
}

void DueWork::AskForSnapshots() {
  const auto now = ingestor_.clock().steady();
  int asked = 0;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const std::size_t at = (first_asked_ + i) % models_.size();
    const std::shared_ptr<Model>& model = models_[at];
    if (model->snapshot_due_at() > now) continue;
    if (asked == kMostSnapshots) {
      first_asked_ = at;
      return;
    }
    ++asked;
    // The strand sets it again; until then nothing is posted, because the strand may be busy for
    // longer than an interval.
    model->set_snapshot_due_at(LogRetention::kNever);
    try {
      model->strand().Post([model, &commits = commits_, &clock = ingestor_.clock()] {
        PostSnapshotIfDue(model, commits, clock);
      });
    } catch (...) {
      model->set_snapshot_due_at(now);
      throw;
    }
  }
}

void DueWork::Mature() {
  const auto now = ingestor_.clock().elapsed();
  // Begins where the last pass ended, so that every model gets its turn, however many are due.
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const std::size_t at = (first_maturing_ + i) % models_.size();
    const std::shared_ptr<Model>& model = models_[at];
    if (model->next_due() > now) continue;
    {
      const std::lock_guard lock(mutex_);
      if (under_way_.size() >= kMostUnderWay) {
        first_maturing_ = at;
        return;
      }
      if (!under_way_.insert(model->id()).second) continue;
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
