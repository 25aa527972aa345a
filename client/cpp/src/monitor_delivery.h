#ifndef CALIBD_CLIENT_SRC_MONITOR_DELIVERY_H_
#define CALIBD_CLIENT_SRC_MONITOR_DELIVERY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "backoff.h"
#include "calibd/client/monitor.h"
#include "stream_impl.h"

namespace calibd::client {

// A copy of one prediction, or of a label by id.
struct QueuedRow {
  bool is_label = false;
  std::variant<std::vector<double>, std::vector<float>> values;
  std::vector<std::int32_t> labels;
  std::optional<double> outcome;
  PredictionKind kind = PredictionKind::kProbabilities;
  std::string id;
  std::string group;
  std::vector<double> features;
  std::optional<std::chrono::sys_seconds> time;

  // Size in memory.
  [[nodiscard]] std::size_t bytes() const;
};

// The buffer of a Monitor and the thread that gives its rows to a stream. A stream that an error
// has ended is replaced by another one. The fields are protected by the lock that the streams
// share, except those of the thread.
class MonitorDelivery {
 public:
  using Clock = StreamImpl::Clock;

  // is_unusable: the process was forked while gRPC was in use, so all rows are dropped.
  MonitorDelivery(std::string model, MonitorOptions options, bool is_unusable);
  // Waits for the thread. Precondition: it was never started, or EndClose was called.
  ~MonitorDelivery();

  [[nodiscard]] const std::string& model() const { return model_; }
  [[nodiscard]] const MonitorOptions& options() const { return options_; }

  // See Monitor.
  bool Accept(QueuedRow row);
  // Counts a row or label for whose copy there is no memory.
  void DropUnread(bool is_label);
  [[nodiscard]] absl::Status Flush(std::chrono::milliseconds timeout);
  [[nodiscard]] StreamCounts counts() const;
  [[nodiscard]] absl::Status status() const;

  // Makes the stream finish when all rows are settled.
  void BeginClose();
  // Waits for that until the deadline, and gives up what is left. what: has happened to the
  // monitor, for the log.
  void EndClose(Clock::time_point deadline, const char* what);

  // Ends the connection until Unpark, and connects again at `begin`. Park returns whether the
  // monitor used gRPC.
  bool Park();
  [[nodiscard]] bool is_parked() const;
  void Unpark(Clock::time_point begin);

 private:
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] std::mutex& mutex() const { return lock_->mutex; }
  [[nodiscard]] std::condition_variable& changed() const { return lock_->changed; }

  // These functions require the mutex to be held.
  [[nodiscard]] std::size_t buffered_bytes() const;
  [[nodiscard]] bool HasRoomFor(std::size_t bytes) const;
  [[nodiscard]] bool IsSettled() const;
  [[nodiscard]] StreamCounts Counts() const;
  [[nodiscard]] absl::Status Error() const;
  // Waits with kBlock until there is room. Returns false after the stall timeout or an error.
  [[nodiscard]] bool WaitForRoom(Lock& lock, std::size_t bytes);
  void Drop(bool is_label);
  // Starts the thread if it does not run.
  void Start();

  // These functions belong to the thread. They are called with the mutex held, and release it while
  // they use the stream.
  void Run();
  // Delivers rows until the monitor ends. Throws if there is no memory.
  void Work(Lock& lock);
  // Makes the state whole after an exception, at which any of the functions below may have ended.
  void Recover();
  void StartStream();
  [[nodiscard]] bool HasWork() const;
  void DeliverSome(Lock& lock);
  // Ends a stream that has failed. Its rows that are not settled become dropped ones.
  void StartOver(Lock& lock);
  void EndStream(Lock& lock);
  void LogIfDue(Lock& lock);
  [[nodiscard]] Clock::time_point NextWake() const;

  void Warn(const std::string& sentence) const;
  // Gives a warning to the caller, or to standard error.
  void Tell(const std::string& warning) const;

  const std::string model_;
  const MonitorOptions options_;
  const std::shared_ptr<StreamLock> lock_ = std::make_shared<StreamLock>();
  const bool is_unusable_;

  std::deque<QueuedRow> queue_;
  // Size of the rows in queue_ and taken_.
  std::size_t queue_bytes_ = 0;
  // When the first row in the queue has waited for others for long enough.
  Clock::time_point due_;
  // The thread holds rows that are neither in the queue nor with the server.
  bool delivering_ = false;
  // Number of callers who wait for the rows.
  int flushing_ = 0;
  bool closing_ = false;
  bool gives_up_ = false;
  bool loss_is_logged_ = false;
  // The error that ended the monitor with kBlock.
  absl::Status failure_;
  // The error of the last stream; OK after progress.
  absl::Status error_;

  std::unique_ptr<StreamImpl> stream_;
  bool stream_is_ending_ = false;
  bool is_parked_ = false;
  Clock::time_point starts_from_;

  std::int64_t rows_ = 0;
  std::int64_t labels_ = 0;
  // Counts of earlier streams, and rows that were dropped outside of streams.
  StreamCounts past_;
  // Dropped rows and labels of which no stream has been told.
  Dropped unreported_;
  // The number of dropped rows and labels that the log has stated, and what is wrong with the first
  // invalid one.
  std::int64_t logged_ = 0;
  std::string first_fault_;
  Clock::time_point next_log_;

  // The thread: rows that it has taken from the queue.
  std::deque<QueuedRow> taken_;
  bool is_prepared_ = false;
  Backoff backoff_;
  bool has_ended_ = false;
  std::optional<std::thread> thread_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_MONITOR_DELIVERY_H_
