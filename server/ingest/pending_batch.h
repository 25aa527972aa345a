#ifndef CALIBD_SERVER_INGEST_PENDING_BATCH_H_
#define CALIBD_SERVER_INGEST_PENDING_BATCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/ingest/log_clock.h"
#include "server/ingest/logged_batch.h"
#include "server/ingest/settlement.h"
#include "server/state/model.h"
#include "server/state/producer_cursors.h"
#include "server/store/store.h"

namespace calibd::server {

// Opens a producer. Returns the number expected next and, unless the log knows it open so
// already, the row of the log that says so.
struct OpenedProducer {
  std::int64_t next_sequence = 0;
  std::string encoded;
};
[[nodiscard]] absl::StatusOr<OpenedProducer> OpenProducer(Model& model,
                                                          const std::string& producer_id,
                                                          std::int64_t epoch,
                                                          std::chrono::microseconds elapsed);

// A batch on its way to its model's state. What `Write` found out is read after the commit.
struct PendingBatch {
  enum class Outcome { kNew, kSettledBefore, kRefused };

  std::shared_ptr<Model> model;
  std::optional<ProducerPosition> position;
  // Whether it is also what opens its producer.
  bool opens = false;
  LoggedBatch logged;
  std::string encoded;
  std::size_t bytes = 0;
  std::function<void(Settlement)> done;

  Outcome outcome = Outcome::kRefused;
  absl::Status refusal;
  // 0: there is no row of it.
  std::int64_t log_id = 0;
  std::int64_t time_us = 0;
  // Of the row that says that its producer was opened, if the batch has none that says it.
  std::int64_t opened_log_id = 0;
  Settlement settlement;
  // What there is to undo. The cursor is the one before this batch, unset for a new producer.
  bool moved_cursor = false;
  std::optional<ProducerCursors::Cursor> former_cursor;
  bool labelled = false;
  bool tracked = false;

  // The one place that decides by the producer's numbering whether a batch is new, by the
  // ids what it does to predictions that wait, and puts it into the order in which it
  // counts. On the storage thread.
  [[nodiscard]] absl::Status Write(Store& store, const LogClock& clock);
  // Takes back what Write did in memory.
  void Undo();

 private:
  // The row, if there is one, that says that the producer was opened.
  void WriteOpened(Store& store, std::string opened);
  // Leaves out the predictions whose ids are known. An error when the rest is too many.
  [[nodiscard]] absl::Status Admit();
  [[nodiscard]] absl::Status PendingFullError(std::size_t rows) const;
  // Gives the labels to their predictions, and leaves out those that change nothing.
  void Resolve();
  void Track();
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_PENDING_BATCH_H_
