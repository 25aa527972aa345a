#include "client/offline/numbers.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "calibd/convert/dated_change.h"
#include "calibd/convert/recalibration.h"
#include "calibd/core/forecast_recalibration.h"
#include "calibd/core/status_macros.h"

namespace calibd::offline {

absl::StatusOr<v1::Recalibration> RecalibrateOffline(const NumberForecastKind& kind,
                                                     const NumberForecastBatch& batch,
                                                     const RunControl& control) {
  const std::vector<CentralDeviations> events = DeviationsOf(kind, batch);
  std::vector<DeviationBlocks> blocks;
  blocks.reserve(events.size());
  for (const CentralDeviations& event : events) blocks.push_back(event.blocks);
  CALIBD_ASSIGN_OR_RETURN(const std::optional<EventChange> change, FindChangeBeforeMap(blocks, 1));
  const std::size_t older = change.has_value() ? static_cast<std::size_t>(change->change.from) : 0;
  CALIBD_ASSIGN_OR_RETURN(
      const ForecastRecalibrationAdvice advice,
      AdviseForecastRecalibration(
          kind, batch,
          change.has_value() ? RecalibrationSplit::kAlternating : RecalibrationSplit::kHalves,
          control, older));
  std::optional<v1::DatedChange> dated;
  if (change.has_value()) {
    dated = convert::ToProto(change->change, 1, blocks.front().rows());
    dated->set_event(v1::DatedChange::CENTRAL_INTERVAL);
    dated->set_promised(events[change->event].promised);
  }
  return convert::ToProto(advice, static_cast<std::int64_t>(older) + 1, dated);
}

}  // namespace calibd::offline
