#ifndef CALIBD_CLIENT_OBSERVATION_STREAM_H_
#define CALIBD_CLIENT_OBSERVATION_STREAM_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::client {

// What the numbers of a prediction are. Logits become probabilities by the
// softmax, which the server applies in double.
enum class PredictionKind { kProbabilities, kLogits };

// What happens to a row that is not a valid labelled prediction.
enum class InvalidRows {
  // Send fails and takes none of the rows it was given.
  kReject,
  // The row is left out and counted; the server is told the count.
  kDrop,
};

struct StreamOptions {
  // Names the producer to the server, which counts its batches once by this
  // name. ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$. Empty: a random one.
  std::string producer_id{};
  // Incarnation of the producer, >= 0. A stream of a higher epoch ends those of
  // lower ones.
  std::int64_t epoch = 0;
  InvalidRows invalid_rows = InvalidRows::kReject;
  // At most this many rows in one message, within the server's limit. 0: that limit.
  std::int32_t max_rows_per_batch = 0;
  // At most this many batches sent and not yet acknowledged, within the server's
  // limit. 0: that limit. With as many, Send blocks.
  std::int32_t max_unacknowledged_batches = 0;
  // The stream fails with DEADLINE_EXCEEDED when a call waits for the server and
  // this long nothing was acknowledged, reconnecting included; > 0.
  std::chrono::milliseconds stall_timeout{60000};
  // The producer's class order; checked against the model's. Empty: not checked.
  std::vector<std::string> class_names{};
};

// Rows are numbered from 0 in the order in which they were given to Send, dropped
// ones included; the rows of a Send that failed are not numbered.
struct RowError {
  // Unset (-1) when the error is not about one row.
  std::int64_t row = -1;
  // "probabilities", "logits", "labels", or the server's path of the field.
  std::string field;
  // What was found and what was expected.
  std::string description;
};

// A batch that the server rejected, whole: none of its rows was counted.
struct RejectedBatch {
  std::int64_t sequence = 0;
  // The caller's rows: the first, the last, and how many of them were sent.
  std::int64_t first_row = 0;
  std::int64_t last_row = 0;
  std::int64_t row_count = 0;
  absl::Status status;
  // The first bad rows.
  std::vector<RowError> errors;
};

struct StreamCounts {
  // Rows given to Send, dropped ones included.
  std::int64_t rows = 0;
  // Rows that the server has counted, once.
  std::int64_t accepted_rows = 0;
  // Rows of batches that the server rejected.
  std::int64_t rejected_rows = 0;
  // Rows left out as invalid before sending.
  std::int64_t dropped_rows = 0;
  // Dropped rows that the server was told of: all, unless no valid row followed
  // the last Flush.
  std::int64_t reported_dropped_rows = 0;
  std::int64_t rejected_batches = 0;
  // Connections after the first, and batches sent again on them.
  std::int64_t reconnects = 0;
  std::int64_t resent_batches = 0;
};

// A producer's stream of labelled predictions to one model.
//
// Rows are checked, gathered into batches within the server's limits, numbered,
// and kept until acknowledged. A lost connection is opened again with growing,
// jittered delays and what was not acknowledged is sent again; the server counts
// each batch once. Memory: max_unacknowledged_batches batches and one in the
// making.
//
// Once a function has failed for another reason than invalid rows, the stream is
// over: the others return the same error. Rows that were not acknowledged then
// may or may not have been counted.
//
// Threads: Send, Flush and Finish from one thread at a time; the others from any.
// The stream runs two threads of its own.
class ObservationStream {
 public:
  // Ends the stream without Finish if there was none.
  ~ObservationStream();
  ObservationStream(const ObservationStream&) = delete;
  ObservationStream& operator=(const ObservationStream&) = delete;

  // Takes n rows of class_count() values, row-major, with their labels in
  // [0, class_count()). Rows wait until a batch is full, Flush or Finish.
  // Blocks while too many batches are unacknowledged.
  // Errors: InvalidArgument naming the first bad rows (no row was taken); or why
  // the stream is over.
  [[nodiscard]] absl::Status Send(PredictionKind kind, std::span<const double> values,
                                  std::span<const std::int32_t> labels);
  [[nodiscard]] absl::Status Send(PredictionKind kind, std::span<const float> values,
                                  std::span<const std::int32_t> labels);

  // Sends the rows that wait, without waiting for the acknowledgement.
  [[nodiscard]] absl::Status Flush();

  // Sends what waits and returns when both sides agree that every batch was
  // counted or rejected. The stream is over then.
  [[nodiscard]] absl::StatusOr<StreamCounts> Finish();

  // Ends the stream: blocked and later calls return CANCELLED.
  void Cancel();

  [[nodiscard]] StreamCounts counts() const;

  // The batches rejected since the last call, at most 100 of them; counts() tells
  // of all.
  [[nodiscard]] std::vector<RejectedBatch> TakeRejected();

  [[nodiscard]] std::size_t class_count() const;
  [[nodiscard]] const std::string& producer_id() const;

 private:
  friend class Client;
  class Impl;
  explicit ObservationStream(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_OBSERVATION_STREAM_H_
