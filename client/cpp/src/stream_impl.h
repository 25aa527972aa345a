#ifndef CALIBD_CLIENT_SRC_STREAM_IMPL_H_
#define CALIBD_CLIENT_SRC_STREAM_IMPL_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
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

// The caller's thread checks rows and fills batches. The connection thread opens connections one
// after another and writes to them. A reader thread per connection handles the server's messages.
// The threads share the fields below the mutex.
class StreamImpl final : public ObservationStream {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ObservationStream>> Open(
      std::shared_ptr<v1::IngestService::Stub> stub, std::string model, StreamOptions options,
      std::chrono::milliseconds open_timeout, const std::stop_token& stop);
  ~StreamImpl() override;

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
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;
  using GrpcStream = grpc::ClientReaderWriterInterface<v1::StreamObservationsRequest,
                                                       v1::StreamObservationsResponse>;

  StreamImpl(std::shared_ptr<v1::IngestService::Stub> stub, std::string model,
             StreamOptions options);

  // Connection thread.
  void RunConnections();
  // Runs one connection from Open to its end. Returns the status with which it ended.
  [[nodiscard]] absl::Status RunConnection();
  [[nodiscard]] bool OpenOn(GrpcStream& stream);
  void WriteTo(GrpcStream& stream);
  [[nodiscard]] absl::Status HandleOpened(const v1::StreamObservationsResponse& response);

  // Reader thread.
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

  // Ends the stream and wakes up all threads. Requires the mutex to be held.
  void Fail(absl::Status status);

  const std::shared_ptr<v1::IngestService::Stub> stub_;
  const std::string model_;
  StreamOptions options_;

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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
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
  // The status of the last connection if the server had no room for more rows.
  absl::Status refusal_;
  // Time of the last message from the server, or of the start of the wait for the first one.
  Clock::time_point last_progress_;
  StreamCounts counts_;
  std::deque<RejectedBatch> rejected_;

  std::thread connection_thread_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_STREAM_IMPL_H_
