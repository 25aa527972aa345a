#ifndef CALIBD_CLIENT_SRC_STREAM_IMPL_H_
#define CALIBD_CLIENT_SRC_STREAM_IMPL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "batch_builder.h"
#include "calibd/client/observation_stream.h"
#include "calibd/rpc/status.pb.h"
#include "calibd/v1/ingest_service.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "row_check.h"
#include "send_window.h"

namespace calibd::client {

// Returns the stub of the server.
using StubSource = std::function<std::shared_ptr<v1::IngestService::Stub>()>;

// What the threads of a stream have in common. A Monitor shares it with its streams.
struct StreamLock {
  std::mutex mutex;
  std::condition_variable changed;
};

// Starts a thread. Returns none if the system has no room or memory for one, or the process ends.
template <typename Function>
[[nodiscard]] std::optional<std::thread> TryStartThread(Function function) {
  try {
    return std::thread(std::move(function));
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// The caller's thread checks rows and fills batches. The connection thread opens connections one
// after another and writes to them. A reader thread per connection handles the server's messages.
// The threads share the fields below the mutex.
class StreamImpl final : public ObservationStream {
 public:
  using Clock = std::chrono::steady_clock;

  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ObservationStream>> Open(
      StubSource stubs, std::string model, StreamOptions options,
      std::chrono::milliseconds open_timeout, const std::stop_token& stop);
  // Starts a stream without waiting for the server. No function that sends rows may be called
  // before Prepare. retries_refusals: an error after which the server cannot have counted a batch,
  // such as NOT_FOUND of the model, does not end the stream, which tries again. Errors: those of
  // the options; Unavailable if no thread can be started.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<StreamImpl>> Start(
      StubSource stubs, std::string model, StreamOptions options, std::shared_ptr<StreamLock> lock,
      bool retries_refusals);
  ~StreamImpl() override;

  // --- for a Monitor, which never waits in a call; all but Prepare, AddDropped and PushBuffered
  // require the mutex to be held ---

  [[nodiscard]] bool is_open() const { return opened_.has_value(); }
  // Whether a row can be added, or a batch pushed, without waiting.
  [[nodiscard]] bool has_room() const { return window_.has_value() && !window_->full(); }
  // Whether the server has settled all batches that were pushed.
  [[nodiscard]] bool is_settled() const { return !window_.has_value() || window_->empty(); }
  [[nodiscard]] bool is_finished() const { return finished_; }
  // The error that ended the stream; OK while it runs.
  [[nodiscard]] const absl::Status& failure() const { return failure_; }
  // The error of the last connection; OK after progress.
  [[nodiscard]] const absl::Status& connection_error() const { return connection_error_; }
  [[nodiscard]] Clock::time_point last_progress() const { return last_progress_; }
  // When ReplaceIfStalled replaces the connection; unset while the stream waits for nothing.
  [[nodiscard]] std::optional<Clock::time_point> stall_deadline() const;
  [[nodiscard]] const StreamCounts& counts_so_far() const { return counts_; }
  // Serialized size of the batches that are not settled.
  [[nodiscard]] std::size_t unsettled_bytes() const {
    return window_.has_value() ? window_->bytes() : 0;
  }
  // What was dropped, of which the server may not know.
  [[nodiscard]] Dropped unsettled_dropped() const;
  // Replaces a connection on which nothing has happened for the stall timeout.
  void ReplaceIfStalled();
  // Finishes the stream as soon as all batches are settled.
  void BeginFinish();
  // Ends the stream and wakes up all threads.
  void Fail(absl::Status status);
  // Ends the connection and releases its stub until Unpark, which connects again at `begin`.
  void Park();
  void Unpark(Clock::time_point begin);
  [[nodiscard]] bool is_parked() const { return connection_is_parked_ || connection_is_over_; }

  // Makes the functions that send rows usable, once is_open(). Errors: FailedPrecondition if the
  // options do not fit the model.
  [[nodiscard]] absl::Status Prepare();
  // Counts what was dropped before it was given to the stream, for the server.
  void AddDropped(const Dropped& dropped) { builder_->AddDropped(dropped); }
  // Pushes the buffered rows if there is room.
  void PushBuffered();
  // Whether the model forecasts a number.
  [[nodiscard]] bool has_forecasts() const { return opened_->has_forecast(); }
  [[nodiscard]] bool has_buffered() const { return builder_.has_value() && !builder_->empty(); }

  absl::Status Send(PredictionKind kind, std::span<const double> values,
                    std::span<const std::int32_t> labels) override;
  absl::Status Send(PredictionKind kind, std::span<const float> values,
                    std::span<const std::int32_t> labels) override;
  absl::Status SendWithIds(PredictionKind kind, std::span<const double> values,
                           std::span<const std::string> ids,
                           std::span<const std::int32_t> labels) override;
  absl::Status SendWithIds(PredictionKind kind, std::span<const float> values,
                           std::span<const std::string> ids,
                           std::span<const std::int32_t> labels) override;
  absl::Status SetGroup(std::string_view value) override;
  void SetFeatures(std::vector<double> features) override { features_ = std::move(features); }
  void SetTime(std::optional<std::chrono::sys_seconds> time) override { time_ = time; }
  absl::Status Label(std::span<const std::string> ids,
                     std::span<const std::int32_t> labels) override;
  absl::Status Flush() override;
  absl::StatusOr<StreamCounts> Finish() override;
  void Cancel() override;
  StreamCounts counts() const override;
  std::vector<RejectedBatch> TakeRejected() override;
  absl::Status SendForecasts(std::span<const double> forecasts,
                             std::span<const double> outcomes) override;
  absl::Status SendForecastsWithIds(std::span<const double> forecasts,
                                    std::span<const std::string> ids,
                                    std::span<const double> outcomes) override;
  absl::Status LabelOutcomes(std::span<const std::string> ids,
                             std::span<const double> outcomes) override;
  std::size_t class_count() const override { return class_count_; }
  std::size_t row_width() const override { return row_width_; }
  std::size_t feature_count() const override {
    return static_cast<std::size_t>(opened_->feature_names_size());
  }
  const std::string& producer_id() const override { return options_.producer_id; }

 private:
  using Lock = std::unique_lock<std::mutex>;
  using GrpcStream = grpc::ClientReaderWriterInterface<v1::StreamObservationsRequest,
                                                       v1::StreamObservationsResponse>;

  StreamImpl(StubSource stubs, std::string model, StreamOptions options,
             std::shared_ptr<StreamLock> lock, bool retries_refusals);

  // Connection thread.
  void RunConnections();
  // Runs one connection from Open to its end. Returns the status with which it ended.
  [[nodiscard]] absl::Status RunConnection();
  // Releases the stub while the stream is parked. Requires the mutex to be held.
  void WaitWhileParked(Lock& lock);
  [[nodiscard]] bool OpenOn(GrpcStream& stream);
  void WriteTo(GrpcStream& stream);
  [[nodiscard]] absl::Status HandleOpened(const v1::StreamObservationsResponse& response);

  // Reader thread. Handle and the functions below it note progress in last_progress_; a repeated
  // or old message is none.
  void ReadFrom(GrpcStream& stream);
  [[nodiscard]] absl::Status Handle(const v1::StreamObservationsResponse& response);
  // Settles every batch up to and including `sequence`.
  [[nodiscard]] absl::Status Settle(std::int64_t sequence);
  [[nodiscard]] absl::Status HandleAck(const v1::StreamObservationsResponse::Ack& message);
  // Notes a rejected batch, or this many skipped rows of a batch.
  [[nodiscard]] absl::Status HandleRejected(std::int64_t sequence,
                                            std::optional<std::int64_t> skipped_rows,
                                            absl::Status status, std::vector<Violation> violations);
  [[nodiscard]] absl::Status HandleFinished(
      const v1::StreamObservationsResponse::Finished& message);

  // Caller's thread. PushBatch waits for room.
  [[nodiscard]] absl::Status CheckOpen() const;
  template <typename T>
  [[nodiscard]] absl::Status SendLabelled(PredictionKind kind, std::span<const T> values,
                                          std::span<const std::int32_t> labels);
  template <typename T>
  [[nodiscard]] absl::Status SendNamed(PredictionKind kind, std::span<const T> values,
                                       std::span<const std::string> ids,
                                       std::span<const std::int32_t> labels);
  // Spans of n elements; ids or labels may be empty.
  template <typename T>
  [[nodiscard]] absl::Status SendRows(PredictionKind kind, std::span<const T> values,
                                      std::span<const std::string> ids,
                                      std::span<const std::int32_t> labels);
  [[nodiscard]] absl::Status SendForecastRows(std::span<const double> forecasts,
                                              std::span<const std::string> ids,
                                              std::span<const double> outcomes);
  // Errors: FailedPrecondition if the model forecasts a number and `forecasts` is false, or if it
  // does not and `forecasts` is true.
  [[nodiscard]] absl::Status CheckKind(bool forecasts) const;
  // labels: the label or the truths of one row.
  [[nodiscard]] std::optional<Violation> FindFaultOfLabels(
      std::span<const std::int32_t> labels) const;
  // Returns the features of the next n rows and forgets them. Errors: InvalidArgument unless there
  // are feature_count() for each.
  [[nodiscard]] absl::StatusOr<std::vector<double>> TakeFeatures(std::size_t n);
  // Sends n rows, row(i), except those for which check(i) finds a fault. The caller's numbers of
  // SendChecked are those of predictions, those of LabelChecked of labels.
  template <typename MakeRow, typename Check>
  [[nodiscard]] absl::Status SendChecked(std::size_t n, const MakeRow& row, const Check& check);
  template <typename MakeRow, typename Check>
  [[nodiscard]] absl::Status LabelChecked(std::size_t n, const MakeRow& row, const Check& check);
  // Warns once if all probabilities of many rows are 0 or 1. width: of a row without its baseline.
  template <typename T>
  void WarnOfClasses(PredictionKind kind, std::span<const T> values, std::size_t width);
  template <typename Row>
  [[nodiscard]] absl::Status Add(const Row& row, std::int64_t row_number);
  [[nodiscard]] absl::Status PushBatch();
  // Waits until done() with the stall timeout. Returns OK, or the error that ended the stream.
  template <typename Done>
  [[nodiscard]] absl::Status WaitFor(Lock& lock, const Done& done);

  // Requires the mutex to be held.
  void NoteProgress();

  const StubSource stubs_;
  const std::string model_;
  StreamOptions options_;
  const bool retries_refusals_;
  const std::shared_ptr<StreamLock> lock_;

  // Caller's thread; set before it runs.
  std::optional<BatchBuilder> builder_;
  std::size_t class_count_ = 0;
  // Number of labels of a row.
  std::size_t label_width_ = 1;
  // Number of values of a row.
  std::size_t row_width_ = 0;
  double row_sum_tolerance_ = 0;
  // Caller's thread.
  std::string group_;
  std::optional<std::chrono::sys_seconds> time_;
  // The features of the next rows.
  std::vector<double> features_;
  // Rows so far if all of their probabilities are 0 or 1; unset if one was not, or after a warning.
  std::optional<std::size_t> whole_rows_ = 0;

  std::mutex& mutex_;
  std::condition_variable& changed_;
  // The error that ended the stream; OK while it is open.
  absl::Status failure_;
  // What the server told when the stream was opened; unset before.
  std::optional<v1::StreamObservationsResponse::Opened> opened_;
  std::optional<SendWindow> window_;
  // True once the caller has asked to finish, and once the server has agreed.
  bool finishing_ = false;
  bool finished_ = false;
  // State of the current connection: its context, whether it has ended, the number of rows and
  // labels written on it, and among them the numbers of resent rows, and of labels that may have
  // been accepted before.
  grpc::ClientContext* context_ = nullptr;
  bool connection_ended_ = false;
  std::int64_t rows_on_connection_ = 0;
  std::int64_t resent_rows_on_connection_ = 0;
  std::int64_t repeatable_labels_on_connection_ = 0;
  // The error of the last connection; OK after progress.
  absl::Status connection_error_;
  // Time at which the server last settled or rejected a batch, or of the start of the wait for it.
  Clock::time_point last_progress_;
  // Time at which ReplaceIfStalled last ended a connection.
  Clock::time_point replaced_;
  // Whether connections wait until Unpark, and the time until which they then wait.
  bool parked_ = false;
  Clock::time_point connects_from_;
  // Whether the connection thread waits without a stub, or has ended.
  bool connection_is_parked_ = false;
  bool connection_is_over_ = false;
  StreamCounts counts_;
  std::deque<RejectedBatch> rejected_;

  // Connection thread: the stub of its connections.
  std::shared_ptr<v1::IngestService::Stub> stub_;
  std::thread connection_thread_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_STREAM_IMPL_H_
