#ifndef CALIBD_SERVER_RPC_CALIBRATION_WATCHES_H_
#define CALIBD_SERVER_RPC_CALIBRATION_WATCHES_H_

#include <grpcpp/server_context.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/status.h"
#include "calibd/v1/calibration_service.pb.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// The open calls of WatchCalibration. One thread looks at all of their models, some ten times a
// second, and writes what has changed; a call that is still being written is passed over.
class CalibrationWatches {
 public:
  // What GetCalibration answers at a time of a model in this state.
  using Describe =
      std::function<void(Model&, const ModelSnapshot&, std::chrono::system_clock::time_point now,
                         v1::GetCalibrationResponse& response)>;

  CalibrationWatches(const ModelRegistry& registry, std::size_t max_watchers, Describe describe);
  // Stop().
  ~CalibrationWatches();
  CalibrationWatches(const CalibrationWatches&) = delete;
  CalibrationWatches& operator=(const CalibrationWatches&) = delete;

  // A new call, which keeps itself alive until gRPC is done with it. Refused with
  // InvalidArgument, NotFound, ResourceExhausted when there are max_watchers, Unavailable.
  grpc::ServerWriteReactor<v1::WatchCalibrationResponse>* Begin(
      const v1::WatchCalibrationRequest& request);

  // The model was deleted: its watchers are told. After it is gone from the registry.
  void EndWatchesOf(const Model& model);
  // Ends all and takes none any more.
  void Drain();
  // Ends the thread, once there are no calls.
  void Stop();

 private:
  class Call;
  using Clock = std::chrono::steady_clock;

  struct Watcher {
    std::shared_ptr<Call> call;
    const Model* model = nullptr;
    // When it is looked at next.
    Clock::time_point due;
  };

  absl::Status Add(const v1::WatchCalibrationRequest& request, const std::shared_ptr<Call>& call);
  void Remove(std::int64_t number);
  // model: or null, for all.
  void End(const Model* model, const absl::Status& status);
  void Run();

  const ModelRegistry& registry_;
  const std::size_t max_watchers_;
  const Describe describe_;
  // Of a call, its own mutex is never locked under this one.
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

#endif  // CALIBD_SERVER_RPC_CALIBRATION_WATCHES_H_
