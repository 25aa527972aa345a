#ifndef CALIBD_SERVER_KINDS_KIND_STATE_H_
#define CALIBD_SERVER_KINDS_KIND_STATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "absl/status/status.h"
#include "calibd/store/v1/store.pb.h"
#include "server/kinds/history_bucket.h"
#include "server/kinds/kind_snapshot.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"
#include "server/rows/observation_window.h"
#include "server/rows/row_view.h"
#include "server/watch/monitor.h"

namespace calibd::server {

// Runs part(0) .. part(count - 1), which begin in this order, on at most `helpers` other threads
// too.
using RunParts = std::function<void(std::size_t count, std::size_t helpers,
                                    const std::function<void(std::size_t)>& part)>;

// Observations that are being added to a KindState, in parts that may run at the same time on
// different threads. They must begin in their order. All must have returned before End.
class KindAdding {
 public:
  KindAdding() = default;
  KindAdding(const KindAdding&) = delete;
  KindAdding& operator=(const KindAdding&) = delete;
  virtual ~KindAdding() = default;

  [[nodiscard]] virtual std::size_t parts() const noexcept = 0;
  // May throw bad_alloc; only a start can then continue with the log.
  virtual void Run(std::size_t part) = 0;
  // Returns what AnyMonitor::Decide requires; unset without a monitor.
  [[nodiscard]] virtual std::optional<AnyMonitor::Added> End() = 0;
};

// The part of a model's state that depends on the kind of its predictions: estimators and monitor.
// It is chosen when a model is opened; nothing else asks for the kind. Belongs to the model's
// strand.
class KindState {
 public:
  using Added = std::optional<AnyMonitor::Added>;

  KindState() = default;
  KindState(const KindState&) = delete;
  KindState& operator=(const KindState&) = delete;
  virtual ~KindState() = default;

  // Null if monitoring is disabled.
  [[nodiscard]] virtual AnyMonitor* monitor() noexcept = 0;
  // True until EndWarmup. The window is at least as long as the warm-up.
  [[nodiscard]] virtual bool warming_up() const noexcept = 0;

  // ---- Counting. observations: of the model, before the rows. bucket: of the history.

  // Adds rows of the warm-up.
  [[nodiscard]] virtual Added AddWarmup(const RowView& rows, std::int64_t observations,
                                        HistoryBucket& bucket) = 0;
  // Begins the estimators that need the warm-up, with all its rows.
  virtual void EndWarmup(const RowView& warmup, HistoryBucket& bucket) = 0;
  // Adds rows after the warm-up. row_ends: as Monitor::BeginAdd. run: for work within a part. The
  // arguments must live until End.
  [[nodiscard]] virtual std::unique_ptr<KindAdding> BeginAdd(const RowView& rows,
                                                             std::int64_t observations,
                                                             std::span<const RowEnd> row_ends,
                                                             const RunParts& run,
                                                             HistoryBucket& bucket) = 0;
  // The number of threads that help to add so many rows.
  [[nodiscard]] virtual std::size_t Helpers(std::size_t rows) const noexcept = 0;
  // Adds the observations of a row of the log to the comparison with the baseline.
  virtual void Compare(const RowValues& values) noexcept = 0;
  // The index of the prediction among those whose labels are counted apart.
  [[nodiscard]] virtual std::size_t PredictedClass(const RowView& row) const noexcept = 0;

  // ---- Reading and storing

  // Fills in everything except the sums over the whole history.
  virtual void Fill(KindSnapshot& out) = 0;
  // Whether a stored bucket of the history is one of this model.
  [[nodiscard]] virtual bool Fits(const HistoryBucket& bucket) const noexcept = 0;
  virtual void Save(store::v1::ModelState& out) const = 0;
  // Restores a saved state. Call it before the first row. Errors: InvalidArgument; this object must
  // not be used then.
  [[nodiscard]] virtual absl::Status Restore(const store::v1::ModelState& stored) = 0;
  // Sees rows that the restored state includes, in order. kept: the newest of them, which are in
  // the window.
  virtual void Refill(const RowView& rows, const RowView& kept) = 0;
};

// Lets std::optional::emplace take the result of a function that cannot be moved.
template <typename Make>
struct InPlace {
  Make make;
  // NOLINTNEXTLINE(google-explicit-constructor): it is for emplace.
  operator std::invoke_result_t<Make>() const { return make(); }
};
template <typename Make>
InPlace(Make) -> InPlace<Make>;

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_KIND_STATE_H_
