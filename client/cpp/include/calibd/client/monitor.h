#ifndef CALIBD_CLIENT_MONITOR_H_
#define CALIBD_CLIENT_MONITOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/client/observation_stream.h"
#include "calibd/client/tls.h"

namespace calibd::client {

class MonitorDelivery;

// What a call does when the buffer is full.
enum class OnFull {
  // It drops the row, for a service.
  kDrop,
  // It waits for room, for a job in which no row may be lost.
  kBlock,
};

struct MonitorOptions {
  // "HOST:PORT"; empty means the environment variable CALIBD_SERVER, or 127.0.0.1:8460.
  std::string address{};
  // With an empty ca: TlsOfEnvironment().
  TlsOptions tls{};
  // See ClientOptions::token.
  std::function<std::string()> token{};
  OnFull on_full = OnFull::kDrop;
  // Size of the rows that are not settled, in bytes of memory, >= 1.
  std::size_t max_buffer_bytes = std::size_t{32} << 20;
  // A connection on which the server settles no batch for this time is replaced; > 0. With kBlock a
  // call that waits for this time fails.
  std::chrono::milliseconds stall_timeout{60000};
  // Maximum duration of Close without a deadline, of the destructor and of the end of the process;
  // > 0.
  std::chrono::milliseconds close_timeout{5000};
  // See StreamOptions.
  std::optional<std::int32_t> positive_class{};
  bool with_baseline = false;
  // Called on a thread of the monitor with a sentence for the log: about dropped rows at once and
  // then once a minute while rows are dropped, about rows that are given up, and about rows that
  // are probably not meant, see StreamOptions. While it runs, rows wait in the buffer. Unset: the
  // sentence is written to standard error.
  std::function<void(const std::string& warning)> on_warning{};
};

// One prediction, and its truth if it is known. The monitor copies all values.
struct Observation {
  // Probabilities or logits of the classes or labels, or the forecast of a number; with a baseline
  // its values follow. See ObservationStream::row_width.
  std::variant<std::span<const double>, std::span<const float>> values{};
  // The true class, or the truths of all labels of a model with several; empty if they come later,
  // by id.
  std::variant<std::monostate, std::int32_t, std::span<const std::int32_t>> label{};
  // The outcome of a forecast of a number.
  std::optional<double> outcome{};
  PredictionKind kind = PredictionKind::kProbabilities;
  // 1 to 128 bytes of UTF-8, by which the truth comes or a duplicate is known; empty without one.
  std::string_view id{};
  // Value of the model's group tag; empty without one.
  std::string_view group{};
  // In the order of Model.feature_names.
  std::span<const double> features{};
  // When the prediction was made; unset: when the server counts it.
  std::optional<std::chrono::sys_seconds> time{};
};

// The stream of a service to the model that it serves:
//
//   const auto monitor = Monitor::Create(ModelName("digits"));     // once, at the start
//   (*monitor)->Observe({.values = probabilities, .id = request_id});   // in a handler
//
// It needs no server to be made. Threads of its own open the stream when there are rows, check
// rows, gather those of all callers into batches, send them, and try again after any error. Each
// row in the buffer is counted once when calibd returns. Rows for which the buffer has no room are
// dropped, and so are invalid ones; both are reported to calibd, counted, and logged. If the model
// was created again or the server has lost data, the rows that were sent and not acknowledged are
// dropped, because some of them may be counted. Memory: max_buffer_bytes.
//
// The monitor has one connection. The end of the process closes a monitor that still exists. A
// process that a signal kills loses the rows that it has not sent.
//
// A fork ends the connection for half a second, and waits at most two seconds until gRPC has ended
// all of its threads. The child then has an empty monitor with a stream of its own. If other parts
// of the process use gRPC at the fork, such as a Client, gRPC cannot be used in the child: its
// monitors drop all rows, and say so in the log. So fork before such an object is made.
//
// Thread-safe, except the destructor.
class Monitor {
 public:
  // model: the result of ModelName. Never waits. Errors: InvalidArgument naming the option.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Monitor>> Create(
      std::string model, const MonitorOptions& options = {});
  // Close(), if it was not called.
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  // Copies a prediction into the buffer. Never waits for the server, never throws. Returns false if
  // there is no room, after Close, or with kBlock when the call has waited for the stall timeout or
  // the server refuses the rows; status() then tells the cause. Cost: some microseconds.
  bool Observe(const Observation& observation) noexcept;

  // Copies the label of a prediction that was sent with this id, here or elsewhere: the true class,
  // all truths, or the outcome of a forecast. Otherwise like Observe.
  bool Label(std::string_view id, std::int32_t label) noexcept;
  bool Label(std::string_view id, std::span<const std::int32_t> truths) noexcept;
  bool LabelOutcome(std::string_view id, double outcome) noexcept;

  // Waits until every row is settled: counted, rejected or dropped. Errors: DeadlineExceeded after
  // the timeout, with the error of the last connection; FailedPrecondition in a child whose process
  // used gRPC at the fork; with kBlock the error that ended the stream.
  [[nodiscard]] absl::Status Flush(std::chrono::milliseconds timeout);

  // Ends the stream within the timeout; unset: close_timeout. Rows that are not settled then are
  // given up and logged.
  StreamCounts Close(std::optional<std::chrono::milliseconds> timeout = std::nullopt);

  // The counts so far, in this process. Counts by outcome are of the newest stream.
  [[nodiscard]] StreamCounts counts() const;

  // OK if the server has settled rows on the newest connection, or none was needed; otherwise why
  // rows wait or are dropped.
  [[nodiscard]] absl::Status status() const;

 private:
  friend class MonitorProcess;
  explicit Monitor(std::unique_ptr<MonitorDelivery> delivery);

  std::unique_ptr<MonitorDelivery> delivery_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_MONITOR_H_
