#ifndef CALIBD_SERVER_STATE_MODEL_H_
#define CALIBD_SERVER_STATE_MODEL_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_skce.h"
#include "server/executor/thread_pool.h"
#include "server/state/model_declaration.h"
#include "server/state/observation_window.h"
#include "server/state/producer_cursors.h"

namespace calibd::server {

// One block estimator as it was at one moment.
struct BlockSnapshot {
  std::size_t block_size = 0;
  RunningMoments moments;
  std::size_t pending = 0;
};

// What is known of a model at one moment. Immutable once published.
struct ModelSnapshot {
  using Time = std::chrono::system_clock::time_point;

  // Accepted, warm-up included. Once the bandwidth is known all are counted.
  std::int64_t observations = 0;
  std::int64_t accepted_batches = 0;
  std::int64_t duplicate_batches = 0;
  std::int64_t rejected_batches = 0;
  std::int64_t rejected_rows = 0;
  std::int64_t dropped_rows = 0;
  // Of the newest accepted batch.
  std::optional<Time> last_observation_time;

  // Unset during warm-up and when it could not be chosen.
  std::optional<double> bandwidth;
  std::string bandwidth_error;
  // One for each block size of the declaration; empty while there is no bandwidth.
  std::vector<BlockSnapshot> blocks;
  WindowView window;
};

// The state of one watched model. Functions under "strand only" are called on
// the model's strand, one at a time; all others from any thread.
class Model {
 public:
  // reservation: kept as long as the model lives.
  Model(ModelDeclaration declaration, ModelSnapshot::Time create_time, std::size_t max_producers,
        ThreadPool& writers, std::shared_ptr<void> reservation);

  [[nodiscard]] const ModelDeclaration& declaration() const noexcept { return declaration_; }
  [[nodiscard]] ModelSnapshot::Time create_time() const noexcept { return create_time_; }
  // Everything that changes the state runs here, in order.
  [[nodiscard]] Strand& strand() noexcept { return strand_; }
  // The newest published state. Never waits for a batch that is being counted.
  [[nodiscard]] std::shared_ptr<const ModelSnapshot> snapshot() const;

  // Deleted models count nothing more.
  void MarkDeleted() noexcept { deleted_ = true; }
  [[nodiscard]] bool deleted() const noexcept { return deleted_; }

  // Strand only.
  [[nodiscard]] ProducerCursors& cursors() noexcept { return cursors_; }
  // Strand only. Counts a valid batch. When the batch completes the warm-up, the
  // bandwidth is chosen and the kept observations are counted first; the result
  // does not depend on how the sequence is cut into batches. May throw bad_alloc,
  // and then nothing has changed.
  void Apply(const PredictionBatch& batch, std::int64_t dropped_rows, ModelSnapshot::Time now);
  // Strand only.
  void CountDuplicate() noexcept { ++state_.duplicate_batches; }
  // Strand only.
  void CountRejected(std::int64_t rows) noexcept;
  // Strand only. Makes the state visible to readers. May throw bad_alloc, and
  // then readers see the older state until the next call.
  void Publish();

 private:
  // The running states for a bandwidth, or why there is none.
  struct Estimators {
    std::optional<double> bandwidth;
    std::string bandwidth_error;
    std::vector<RunningBlockSkce> blocks;
  };

  [[nodiscard]] Estimators CreateEstimators(const absl::StatusOr<double>& bandwidth) const;
  [[nodiscard]] bool warming_up() const noexcept {
    return !estimators_.bandwidth.has_value() && estimators_.bandwidth_error.empty();
  }

  const ModelDeclaration declaration_;
  const ModelSnapshot::Time create_time_;
  const std::shared_ptr<void> reservation_;
  std::atomic<bool> deleted_ = false;
  Strand strand_;

  // Strand only. state_ holds the counters; the rest of it is filled in by Publish.
  ProducerCursors cursors_;
  ModelSnapshot state_;
  Estimators estimators_;
  ObservationWindow window_;

  mutable std::mutex snapshot_mutex_;
  std::shared_ptr<const ModelSnapshot> snapshot_;  // guarded by snapshot_mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_H_
