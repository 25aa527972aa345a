#ifndef CALIBD_SERVER_KINDS_KIND_SNAPSHOT_H_
#define CALIBD_SERVER_KINDS_KIND_SNAPSHOT_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/comparison.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/lens.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/running_reliability.h"
#include "server/kinds/history_bucket.h"
#include "server/kinds/numbers/forecast_sums.h"
#include "server/watch/monitor_snapshot.h"

namespace calibd::server {

// The state of one lens at one moment.
struct LensSnapshot {
  Lens lens = Lens::Canonical();
  // If the bandwidth could not be chosen, kernel is unset and bandwidth_error is the reason.
  std::optional<RunningKernel> kernel;
  std::string bandwidth_error;
  // One for each block size of the declaration; empty without a kernel.
  std::vector<RunningBlock> blocks;
};

// The part of a model's snapshot that depends on the kind of its predictions.
struct KindSnapshot {
  // Set unless monitoring is disabled.
  std::optional<MonitorSnapshot> monitor;
  // Set for models with a baseline.
  std::optional<RunningComparison> comparison;

  // Lenses of the declaration, the canonical one first; empty during warm-up.
  std::vector<LensSnapshot> lenses;
  // During warm-up, the lenses that need none, in the order of the declaration.
  std::vector<LensSnapshot> early_lenses;
  // Reliability diagram over all observations, as far back as it is kept; see History.
  RunningReliability reliability;
  // The sums of forecasts, and their cells, without strata; empty and null for classes.
  ForecastSums forecasts{};
  std::shared_ptr<const ForecastCells> forecast_cells{};

  // all: History::AllTime.
  void SetScores(HistoryBucket all) {
    reliability = all.reliability;
    forecasts = std::move(all.forecasts);
  }
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_KIND_SNAPSHOT_H_
