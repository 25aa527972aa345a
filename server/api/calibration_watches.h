#ifndef CALIBD_SERVER_API_CALIBRATION_WATCHES_H_
#define CALIBD_SERVER_API_CALIBRATION_WATCHES_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/access/access_control.h"
#include "server/api/call.h"
#include "server/executor/fair_shares.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// The open calls of WatchCalibration. One thread examines their models about ten times a second and
// sends the changes. It skips a call whose previous message is still being sent.
class CalibrationWatches {
 public:
  CalibrationWatches(const ModelRegistry& registry, std::size_t max_watchers);
  // Calls Stop().
  ~CalibrationWatches();
  CalibrationWatches(const CalibrationWatches&) = delete;
  CalibrationWatches& operator=(const CalibrationWatches&) = delete;

  // held: the right of the caller, kept while the watch is open. Errors: InvalidArgument; NotFound;
  // ResourceExhausted if there are max_watchers already, or if the caller has its share of them
  // (see FairShares); Unavailable.
  [[nodiscard]] absl::Status Add(const v1::WatchCalibrationRequest& request,
                                 const Reply<v1::WatchCalibrationResponse>& stream,
                                 const std::shared_ptr<Model>& model,
                                 std::shared_ptr<AccessControl::Held> held);

  // Ends the watches of a deleted model. Call it after the model was removed from the registry.
  void EndWatchesOf(const Model& model);
  // Ends all watches and accepts no new ones.
  void Drain();
  // Stops the thread. Call it when there are no calls.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Watcher {
    Reply<v1::WatchCalibrationResponse> stream;
    std::shared_ptr<AccessControl::Held> held;
    // Weak: a call whose client does not read must not keep a deleted model alive.
    std::weak_ptr<Model> model;
    std::chrono::nanoseconds interval{};
    // Revision of the newest message that was sent to the client or is being sent.
    std::int64_t revision = 0;
    // True until the first message is sent.
    bool silent = true;
    // The time at which the watcher is examined next.
    Clock::time_point due;
  };
  struct Shown;

  void Remove(std::int64_t number, const std::string& owner);
  // Sends the state of its model to the watcher if the state has changed, and sets the time of the
  // next examination. shown: responses that were computed for other watchers in this pass.
  void Look(Watcher& watcher, std::map<const Model*, Shown>& shown);
  // Waits until watchers are due and returns them. Returns nothing after Stop().
  std::map<std::int64_t, Watcher> AwaitDue();
  // model: null for all models.
  void End(const Model* model, const absl::Status& status);
  void Run();

  const ModelRegistry& registry_;
  // No function of a stream is called while it is held.
  std::mutex mutex_;
  std::condition_variable changed_;
  FairShares shares_;                         // guarded by mutex_
  std::map<std::int64_t, Watcher> watchers_;  // guarded by mutex_
  std::int64_t next_number_ = 1;              // guarded by mutex_
  bool added_ = false;                        // guarded by mutex_: since the last pass
  bool draining_ = false;                     // guarded by mutex_
  bool stopping_ = false;                     // guarded by mutex_
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_CALIBRATION_WATCHES_H_
