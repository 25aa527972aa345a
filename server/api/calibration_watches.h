#ifndef CALIBD_SERVER_API_CALIBRATION_WATCHES_H_
#define CALIBD_SERVER_API_CALIBRATION_WATCHES_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/api/call.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// The open calls of WatchCalibration. One thread looks at all of their models, some ten times a
// second, and writes what has changed; a call that is still being written is passed over.
class CalibrationWatches {
 public:
  CalibrationWatches(const ModelRegistry& registry, std::size_t max_watchers);
  // Stop().
  ~CalibrationWatches();
  CalibrationWatches(const CalibrationWatches&) = delete;
  CalibrationWatches& operator=(const CalibrationWatches&) = delete;

  // Errors: InvalidArgument, NotFound, ResourceExhausted when there are max_watchers, Unavailable.
  [[nodiscard]] absl::Status Add(const v1::WatchCalibrationRequest& request,
                                 const Reply<v1::WatchCalibrationResponse>& stream,
                                 const std::shared_ptr<Model>& model);

  // The model was deleted: its watchers are told. After it is gone from the registry.
  void EndWatchesOf(const Model& model);
  // Ends all watches and accepts no new ones.
  void Drain();
  // Ends the thread, once there are no calls.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Watcher {
    Reply<v1::WatchCalibrationResponse> stream;
    // A deleted model must not live on in a call whose client does not read.
    std::weak_ptr<Model> model;
    std::chrono::nanoseconds interval{};
    // Revision of the newest message that was sent to the client or is being sent.
    std::int64_t revision = 0;
    // True until the first message is sent.
    bool silent = true;
    // When it is looked at next.
    Clock::time_point due;
  };
  struct Shown;

  void Remove(std::int64_t number);
  // Sends the watcher the state of its model, if that has changed, and says when to look again.
  // shown: what was made for other watchers in this pass.
  void Look(Watcher& watcher, std::map<const Model*, Shown>& shown);
  // Waits until watchers are due, and returns them; nothing when this stops.
  std::map<std::int64_t, Watcher> AwaitDue();
  // model: or null, for all.
  void End(const Model* model, const absl::Status& status);
  void Run();

  const ModelRegistry& registry_;
  const std::size_t max_watchers_;
  // No function of a stream is called under it.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, Watcher> watchers_;  // guarded by mutex_
  std::int64_t next_number_ = 1;              // guarded by mutex_
  bool added_ = false;                        // guarded by mutex_: since the last look
  bool draining_ = false;                     // guarded by mutex_
  bool stopping_ = false;                     // guarded by mutex_
  std::thread thread_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_CALIBRATION_WATCHES_H_
