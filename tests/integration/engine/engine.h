#ifndef CALIBD_TESTS_INTEGRATION_ENGINE_ENGINE_H_
#define CALIBD_TESTS_INTEGRATION_ENGINE_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/executor/thread_pool.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/due_work.h"
#include "server/ingest/ingestor.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/recovery.h"
#include "server/state/model_registry.h"
#include "server/store/local/log_files.h"
#include "server/store/store.h"

namespace calibd::testing {

// Clocks that stand still until they are moved.
class FakeClock {
 public:
  [[nodiscard]] server::Clock clock() {
    return {.wall = [this] { return std::chrono::system_clock::time_point(wall_.load()); },
            .steady = [this] { return std::chrono::steady_clock::time_point(steady_.load()); }};
  }
  void MoveWall(std::chrono::seconds by) { wall_ = wall_.load() + by; }
  // Moves both clocks, like passing time.
  void Move(std::chrono::seconds by) {
    MoveWall(by);
    MoveSteady(by);
  }
  void MoveSteady(std::chrono::milliseconds by) { steady_ = steady_.load() + by; }

 private:
  std::atomic<std::chrono::system_clock::duration> wall_{std::chrono::hours(24 * 365 * 50)};
  std::atomic<std::chrono::steady_clock::duration> steady_{std::chrono::hours(1)};
};

// An event for which others wait.
class Signal {
 public:
  void Set() {
    // The lock is held to the end, because a waiting thread may destroy this object after that.
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Blocks the storage thread, so that operations posted meanwhile form one transaction.
class Blocker {
 public:
  explicit Blocker(server::CommitQueue& commits);
  ~Blocker() { Release(); }
  Blocker(const Blocker&) = delete;
  Blocker& operator=(const Blocker&) = delete;
  void Release() { release_->Set(); }

 private:
  std::shared_ptr<Signal> release_ = std::make_shared<Signal>();
};

// Runs a transaction that fails as on a full disk. `post` posts its operations to the storage
// thread; called once.
void FailTransaction(server::CommitQueue& commits, const std::function<void()>& post);

// The parts of calibd that count, over a store, without a transport.
class Engine {
 public:
  struct Options {
    server::Clock clock{};
    std::size_t queue_bytes = std::size_t{64} << 20;
    // Whether work that is due by time starts by itself.
    bool matures = true;
    std::uint64_t segment_bytes = server::LogFiles::kSegmentBytes;
    server::ProducerLimits producers{};
  };

  // Aborts the test if the folder cannot be opened or read.
  explicit Engine(const std::filesystem::path& folder) : Engine(folder, Options{}) {}
  Engine(const std::filesystem::path& folder, const Options& options);
  Engine(std::unique_ptr<server::Store> store, const Options& options);
  // Ends like the server, except that no snapshots are stored.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] server::Store& store() { return store_; }
  [[nodiscard]] server::CommitQueue& commits() { return commits_; }
  [[nodiscard]] server::Ingestor& ingestor() { return ingestor_; }
  [[nodiscard]] server::ModelRegistry& registry() { return registry_; }
  [[nodiscard]] const server::Recovery& recovery() const { return recovery_; }
  // True if the store failed.
  [[nodiscard]] bool failed() const { return *failed_; }

  // These do what the calls CreateModel and DeleteModel do, and return when the change is on disk.
  absl::Status CreateModel(const v1::Model& model);
  absl::Status DeleteModel(const std::string& name);
  // Returns null if there is no such model.
  [[nodiscard]] std::shared_ptr<server::Model> Find(const std::string& name) const;

  // Submits a batch and waits for its settlement.
  server::Settlement Submit(const std::shared_ptr<server::Model>& model,
                            std::optional<server::ProducerPosition> position, server::LogRow batch);
  // Matures due predictions, up to one transaction. Returns whether the write was committed.
  bool Mature(const std::shared_ptr<server::Model>& model);
  // From now on, nothing becomes due by time.
  void StopDueWork() { due_work_->Stop(); }

  // The state of a model after everything that was submitted.
  struct State {
    // Serialized like a snapshot.
    std::string saved;
    std::size_t window = 0;
    // Number of pending predictions in the tracker.
    std::size_t pending = 0;
    std::chrono::microseconds next_due{};
    // The published counts; empty without a label_grace.
    std::vector<server::PendingCounts> pending_by_class;
    std::map<std::string, std::int64_t> last_sequences;

    friend bool operator==(const State&, const State&) = default;
  };
  // producers: the producers whose sequences are returned.
  [[nodiscard]] State StateOf(const std::shared_ptr<server::Model>& model,
                              const std::vector<std::string>& producers = {});

 private:
  server::ThreadPool writers_;
  server::ModelRegistry registry_;
  server::Recovery recovery_;
  server::LogClock clock_;
  // The store of commits_.
  server::Store& store_;
  std::shared_ptr<std::atomic<bool>> failed_ = std::make_shared<std::atomic<bool>>(false);
  server::CommitQueue commits_;
  server::Ingestor ingestor_;
  std::unique_ptr<server::DueWork> due_work_;
};

// Returns the declaration of a model with a fixed bandwidth. grace: 0 for no label_grace.
v1::Model Declare(const std::string& name, int class_count = 4,
                  std::chrono::milliseconds grace = std::chrono::milliseconds(0));

// Returns a valid batch of n rows; equal arguments give equal batches. ids: if not empty, the ids
// of the predictions, which then have no labels.
server::LogRow MakeBatch(const server::Model& model, std::size_t n, std::uint64_t seed,
                         const std::vector<std::string>& ids = {});
server::LogRow MakeInvalidBatch(const server::Model& model);
// Returns labels that are all of this class.
server::LogRow MakeLabels(const server::Model& model, const std::vector<std::string>& ids,
                          std::int32_t label = 1);
// Returns prefix0, prefix1, ...
std::vector<std::string> MakeIds(const std::string& prefix, std::size_t n);

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_ENGINE_ENGINE_H_
