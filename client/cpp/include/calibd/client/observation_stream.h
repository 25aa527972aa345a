#ifndef CALIBD_CLIENT_OBSERVATION_STREAM_H_
#define CALIBD_CLIENT_OBSERVATION_STREAM_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace calibd::client {

// The kind of the values of a prediction. Logits become probabilities by the
// softmax, which the server applies in double.
enum class PredictionKind { kProbabilities, kLogits };

// The handling of invalid predictions and invalid labels by id.
enum class InvalidRows {
  // Send fails and accepts no row of the call.
  kReject,
  // The row is left out and counted; the server is told the count.
  kDrop,
  // All rows are sent, and the server leaves out the invalid ones: it counts them as rejected rows
  // of the model, and reports them (TakeRejected). Invalid labels by id are rejected as with
  // kReject.
  kSkip,
};

struct StreamOptions {
  // Names the producer to the server, which counts its batches once by this
  // name. ^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$. Empty means a random one.
  std::string producer_id{};
  // Whether the producer sends nothing more after Finish, so that the server need not keep its
  // cursor. Always true for a random producer_id and with an idempotency_key.
  bool ends_producer = false;
  // Makes the whole stream repeatable, without producer_id: a stream with the same key, rows and
  // options counts only the rows that no earlier one has counted, and reports the others as
  // duplicates. It sends all batches from the first one, and fails with ALREADY_EXISTS if the rows
  // differ from those of the earlier stream. ^[A-Za-z0-9._:-]{1,112}$. The server remembers a
  // limited number of finished streams: see max-expired-producers-per-model.
  std::string idempotency_key{};
  // Counts the restarts of the producer, >= 0. A higher epoch fences streams of lower ones.
  std::int64_t epoch = 0;
  InvalidRows invalid_rows = InvalidRows::kReject;
  // 0 or 1, only for models of two classes: each row is one value, the probability or logit of this
  // class. Without it, a row has class_count() values.
  std::optional<std::int32_t> positive_class{};
  // True for a model that declares a baseline: each row is followed by the values of the baseline
  // for the same prediction, of the same kind and number. All row widths below then double.
  bool with_baseline = false;
  // Maximum number of rows in one message, within the server's limit; 0 means that limit.
  std::int32_t max_rows_per_batch = 0;
  // Maximum number of unacknowledged batches, within the server's limit; 0 means that limit. At the
  // maximum, Send blocks.
  std::int32_t max_unacknowledged_batches = 0;
  // The stream fails with DEADLINE_EXCEEDED if a call waits for the server and no batch is
  // acknowledged for this time, reconnects included; > 0. It fails with RESOURCE_EXHAUSTED if the
  // server refuses more rows for this time, e.g. because max_pending predictions are pending.
  std::chrono::milliseconds stall_timeout{60000};
  // The class names in the producer's order. If it is not empty, it is checked against the model's.
  std::vector<std::string> class_names{};
  // Called on the thread of Send with a sentence about rows that are valid but probably not meant,
  // at most once in a stream: all probabilities of the first 20 rows or more are 0 or 1, as if
  // predicted classes were sent. Unset: it is written to standard error.
  std::function<void(const std::string& warning)> on_warning{};
};

// An invalid row. Rows are numbered from 0 in the order in which they were given to the functions
// that send them, including dropped ones but not the rows of failed calls. The labels given to
// Label have their own numbers in the same way.
struct RowError {
  // -1 if the error is not about one row.
  std::int64_t row = -1;
  // The path of the value in the call or in the server's batch, such as "rows[17].probabilities[2]"
  // or "labels[17]".
  std::string field;
  // What was found and what was expected.
  std::string description;
};

// The invalid rows that an error names: InvalidArgument of a function that sends rows or labels.
// Empty if it names none.
[[nodiscard]] std::vector<RowError> RowErrors(const absl::Status& status);

// A batch that the server rejected: none of its rows was counted. Or, if the status is OK, a batch
// of which the server skipped invalid rows.
struct RejectedBatch {
  std::int64_t sequence = 0;
  // If true, its rows are labels that were given to Label.
  bool labels = false;
  // The caller's number of the first and the last row, and the number of rows that were rejected or
  // skipped.
  std::int64_t first_row = 0;
  std::int64_t last_row = 0;
  std::int64_t row_count = 0;
  absl::Status status;
  // The first invalid rows.
  std::vector<RowError> errors;
};

// Counts of the labels given to Label, by outcome.
struct LabelCounts {
  // Labels given to Label, dropped ones included.
  std::int64_t labels = 0;
  // Labels that the server accepted, each counted once, with any outcome.
  std::int64_t accepted = 0;
  // Labels of batches that the server rejected.
  std::int64_t rejected = 0;
  // Labels that were dropped before sending, for the reasons of dropped_rows, and reported like
  // them.
  std::int64_t dropped = 0;

  // The accepted labels by outcome; each label is in exactly one count. The server reports these
  // counts only at Finish, and for one connection: after a reconnect they cover only the labels
  // accepted on the last connection, and with an idempotency_key not those of earlier streams. They
  // then add up to less than `accepted`.
  //
  // matched: assigned to a pending prediction. repeated: equal to the known label. conflicting:
  // different from the known label, which is kept. late: the prediction had already matured.
  // unknown: no prediction with this id is known. waiting: the prediction has not arrived yet; the
  // server keeps the label for a minute.
  std::int64_t matched = 0;
  std::int64_t repeated = 0;
  std::int64_t conflicting = 0;
  std::int64_t late = 0;
  std::int64_t unknown = 0;
  std::int64_t waiting = 0;
};

struct StreamCounts {
  // Rows given to the functions that send them, dropped ones included.
  std::int64_t rows = 0;
  // Rows that the server has accepted, each counted once.
  std::int64_t accepted_rows = 0;
  // Rows that the server ignored because their ids were known. Reported only at Finish; such rows
  // count as accepted until then. After a reconnect only the rows of the last connection are
  // included, without rows that were resent.
  std::int64_t duplicate_rows = 0;
  // Rows of batches that the server rejected, and rows that it skipped.
  std::int64_t rejected_rows = 0;
  // Rows left out as invalid before sending. Flush and Finish report their number to the server.
  // Of a Monitor also those for which its buffer had no room, and those that were sent on a stream
  // that broke, so that it is unknown whether they are counted.
  std::int64_t dropped_rows = 0;
  // Of a Monitor: rows and labels for which its buffer had no room; 0 otherwise.
  std::int64_t overflowed = 0;
  LabelCounts labels;
  // Rejected batches of rows and of labels.
  std::int64_t rejected_batches = 0;
  // Connections after the first, and batches sent again on them.
  std::int64_t reconnects = 0;
  std::int64_t resent_batches = 0;
};

// A producer's stream of predictions to one model, with their labels, or with ids by which the
// labels come later on this or another stream. Ids require a model with a label_grace.
//
// Rows are checked, gathered into batches within the server's limits, numbered, and kept until they
// are acknowledged. They arrive in the order of the calls. Alternating between rows with and
// without ids or labels, or labels by id, makes batches small. The stream reopens a lost connection
// with growing, jittered delays and sends all unacknowledged batches again; the server counts each
// batch once. If the server has no room for more rows, the stream retries after the delay in its
// response. Memory: max_unacknowledged_batches batches, and the one that is being filled.
//
// If a function fails for a reason other than invalid rows, the stream has ended: all functions
// then return the same error. The rows that were not acknowledged may or may not have been counted.
//
// Threads: Send, SendWithIds, SetGroup, SetFeatures, SetTime, Label, Flush and Finish from one
// thread at a time; the others from any thread. The stream runs two threads of its own.
class ObservationStream {
 public:
  // Ends the stream, without Finish if it was not called.
  virtual ~ObservationStream() = default;
  ObservationStream(const ObservationStream&) = delete;
  ObservationStream& operator=(const ObservationStream&) = delete;

  // Accepts n rows of class_count() values (one value with positive_class), row-major, with their
  // labels in [0, class_count()). For a model of K labels (v1.LabelSet) a row has K probabilities,
  // which have no sum, or K logits, and its `labels` are K truths: 1, 0, or -1 for a missing one;
  // in the same way in the functions with ids. Rows are buffered until a batch is full, Flush or
  // Finish. Blocks while there are too many unacknowledged batches. Errors: InvalidArgument naming
  // the first invalid rows (no row was accepted); or the error that ended the stream.
  [[nodiscard]] virtual absl::Status Send(PredictionKind kind, std::span<const double> values,
                                          std::span<const std::int32_t> labels) = 0;
  [[nodiscard]] virtual absl::Status Send(PredictionKind kind, std::span<const float> values,
                                          std::span<const std::int32_t> labels) = 0;

  // Like Send, for a model that forecasts a number: n rows of row_width() values (mean and standard
  // deviation, quantiles, or draws; see v1.Forecast), row-major, with their outcomes.
  [[nodiscard]] virtual absl::Status SendForecasts(std::span<const double> forecasts,
                                                   std::span<const double> outcomes) = 0;

  // Like Send, with an id of 1 to 128 bytes of UTF-8 for each row, chosen by the caller. labels:
  // one for each row, or empty if they come later. The server ignores a row with a known id.
  [[nodiscard]] virtual absl::Status SendWithIds(PredictionKind kind,
                                                 std::span<const double> values,
                                                 std::span<const std::string> ids,
                                                 std::span<const std::int32_t> labels = {}) = 0;
  [[nodiscard]] virtual absl::Status SendWithIds(PredictionKind kind, std::span<const float> values,
                                                 std::span<const std::string> ids,
                                                 std::span<const std::int32_t> labels = {}) = 0;

  // Like SendForecasts and SendWithIds. outcomes: one for each row, or empty if they come later.
  [[nodiscard]] virtual absl::Status SendForecastsWithIds(
      std::span<const double> forecasts, std::span<const std::string> ids,
      std::span<const double> outcomes = {}) = 0;

  // Sets the value of the model's group tag, 1 to 64 bytes of printable UTF-8, for all later rows,
  // also of forecasts; empty, the default, means no value. Alternating between rows with and
  // without a value makes batches small. Errors: InvalidArgument, after which nothing has changed.
  [[nodiscard]] virtual absl::Status SetGroup(std::string_view value) = 0;

  // Sets the features of the rows of the next call of Send, SendForecasts or one of them with ids,
  // and of no other: n rows of feature_count() numbers, row-major, in the order of
  // Model.feature_names. Required before each such call if the model has feature names.
  virtual void SetFeatures(std::vector<double> features) = 0;

  // Sets the time at which the predictions of all later rows, also of forecasts, were made, for the
  // history. If it is unset, the default, they count at the server's time. See
  // v1.Observations.prediction_times for its limits, which the server checks. Alternating between
  // rows with and without a time makes batches small.
  virtual void SetTime(std::optional<std::chrono::sys_seconds> time) = 0;

  // Accepts the labels, in [0, class_count()), of predictions that were sent with these ids, on
  // this stream or another. Buffers, blocks and fails like Send. A label that the server cannot use
  // is not an error: see LabelCounts.
  [[nodiscard]] virtual absl::Status Label(std::span<const std::string> ids,
                                           std::span<const std::int32_t> labels) = 0;

  // Accepts the outcomes of forecasts that were sent with these ids; otherwise like Label.
  [[nodiscard]] virtual absl::Status LabelOutcomes(std::span<const std::string> ids,
                                                   std::span<const double> outcomes) = 0;

  // Sends the buffered rows, without waiting for the acknowledgement.
  [[nodiscard]] virtual absl::Status Flush() = 0;

  // Sends the buffered rows and returns when both sides agree that every batch was counted or
  // rejected. The stream has then ended.
  [[nodiscard]] virtual absl::StatusOr<StreamCounts> Finish() = 0;

  // Ends the stream: blocked and later calls return CANCELLED.
  virtual void Cancel() = 0;

  [[nodiscard]] virtual StreamCounts counts() const = 0;

  // The batches rejected, or skipped in part, since the last call, at most 100 of them; counts()
  // includes all.
  [[nodiscard]] virtual std::vector<RejectedBatch> TakeRejected() = 0;

  // 0 for a model that forecasts a number or predicts several labels.
  [[nodiscard]] virtual std::size_t class_count() const = 0;
  // Number of values of a row of Send, SendForecasts and the functions with ids.
  [[nodiscard]] virtual std::size_t row_width() const = 0;
  // Number of Model.feature_names.
  [[nodiscard]] virtual std::size_t feature_count() const = 0;
  [[nodiscard]] virtual const std::string& producer_id() const = 0;

 protected:
  ObservationStream() = default;
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_OBSERVATION_STREAM_H_
