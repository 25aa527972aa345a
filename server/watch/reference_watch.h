#ifndef CALIBD_SERVER_WATCH_REFERENCE_WATCH_H_
#define CALIBD_SERVER_WATCH_REFERENCE_WATCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "calibd/core/reference_change.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// What changed, see v1.ReferenceChange.Finding.
struct ReferenceFinding {
  bool more_errors = false;
  double direction_share = 0;
  std::int64_t since_observation = 0;
  std::int64_t observations = 0;
  std::int64_t wrong = 0;
  double expected_wrong = 0;
};

// The comparison with a reference at one moment.
struct ReferenceSnapshot {
  using Time = std::chrono::system_clock::time_point;

  // Of the reference, within the model.
  std::int64_t first_observation = 1;
  std::int64_t reference_rows = 0;
  // Rows so far, and times of the first and the last row of the reference.
  std::int64_t rows = 0;
  std::optional<Time> start_time;
  std::optional<Time> end_time;
  ReferenceChange::Reading reading;
  // The observation at which the change was shown; 0 before.
  std::int64_t changed_at = 0;

  // Unset unless a change was shown.
  [[nodiscard]] std::optional<ReferenceFinding> Finding() const;
};

// Whether the error of a model is still what it was in its reference period. It decides at each
// observation, so the answer does not depend on how a sequence is divided into batches. Not
// thread-safe.
class ReferenceWatch {
 public:
  using Time = ReferenceSnapshot::Time;

  explicit ReferenceWatch(const ReferenceChange::Settings& settings) : change_(settings) {}

  // See ReferenceChange::Add.
  void Add(double stated, bool wrong) noexcept { change_.Add(stated, wrong); }
  // Sets the times that are missing, because their rows are in the newest row of the log.
  void SetTime(Time time) noexcept;
  // Returns true once, after the row that showed a change.
  [[nodiscard]] bool TakeChange() noexcept;
  // See ReferenceChange::RestartBets.
  void RestartBets(double significance_level) noexcept { change_.RestartBets(significance_level); }
  [[nodiscard]] ReferenceSnapshot Snapshot() const noexcept;

  void Save(store::v1::ReferenceState& out) const;
  // Restores a saved state, with the settings of this object but for the first observation. Errors:
  // InvalidArgument; this object must not be used then.
  [[nodiscard]] absl::Status Restore(const store::v1::ReferenceState& stored);

  // Number of bytes of this object and of its saved state.
  [[nodiscard]] static constexpr std::size_t MaxMemory() noexcept {
    return sizeof(ReferenceWatch) + sizeof(ReferenceChange::State);
  }

 private:
  ReferenceChange change_;
  std::optional<Time> start_time_;
  std::optional<Time> end_time_;
  bool is_taken_ = false;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_REFERENCE_WATCH_H_
