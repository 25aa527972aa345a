#ifndef CALIBD_SERVER_STATE_MODEL_SNAPSHOT_H_
#define CALIBD_SERVER_STATE_MODEL_SNAPSHOT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibd/core/comparison.h"
#include "calibd/core/lens.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/running_reliability.h"
#include "calibd/v1/model_service.pb.h"
#include "server/kinds/kind_snapshot.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/model/model_declaration.h"
#include "server/rows/label_arrivals.h"
#include "server/rows/observation_window.h"

namespace calibd::server {

// Maximum number of updates of a declaration that are kept for display.
inline constexpr std::size_t kMostUpdates = 16;

// The counts of a model since its creation that are stored.
struct ModelCounts {
  using Time = std::chrono::system_clock::time_point;

  // Accepted observations, warm-up included. Once the bandwidth is known, all are counted.
  std::int64_t observations = 0;
  std::int64_t accepted_batches = 0;
  std::int64_t rejected_batches = 0;
  std::int64_t rejected_rows = 0;
  std::int64_t dropped_rows = 0;
  std::int64_t dropped_labels = 0;
  // Time of the newest accepted batch with predictions.
  std::optional<Time> last_observation_time;
};

// The state of a model at one moment. Immutable once published; any thread may hold it.
struct ModelSnapshot : KindSnapshot, ModelCounts {
  // With all updates so far; never null once published.
  std::shared_ptr<const ModelDeclaration> declaration;
  // The newest updates, at most kMostUpdates, ascending. A change replaces the vector.
  std::shared_ptr<const std::vector<v1::ModelUpdate>> updates =
      std::make_shared<std::vector<v1::ModelUpdate>>();
  std::int64_t duplicate_batches = 0;
  // Set for models with a label_grace.
  std::optional<LabelArrivals> label_arrivals;
  WindowView window;

  [[nodiscard]] bool warming_up() const noexcept { return lenses.empty(); }
  // Returns null if there is no such lens. lens: need not be declared.
  [[nodiscard]] const LensSnapshot* Find(const Lens& lens) const noexcept;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_MODEL_SNAPSHOT_H_
