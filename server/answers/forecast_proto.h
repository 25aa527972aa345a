#ifndef CALIBD_SERVER_ANSWERS_FORECAST_PROTO_H_
#define CALIBD_SERVER_ANSWERS_FORECAST_PROTO_H_

#include "absl/status/status.h"
#include "calibd/core/forecast_coverage.h"
#include "calibd/v1/calibration_service.pb.h"
#include "calibd/v1/monitoring.pb.h"
#include "server/kinds/numbers/number_kind.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// counts: of at least one observation. cells: their cells.
void DescribeScores(const ForecastCells& cells, const ForecastCounts& counts,
                    v1::ForecastScores& proto);
void DescribeDirection(const ForecastCells& cells, const ForecastCounts& counts,
                       v1::ForecastDirection& proto);
[[nodiscard]] v1::DecisionLoss ToProto(const ThresholdDecision& declared,
                                       const DecisionReading& reading);
// Leaves the message unset without a discrepancy.
void DescribeDiscrepancy(const ForecastWatchDetails& watch, v1::Watch& proto);
// Adds all cells.
void DescribeCells(const ForecastWatchDetails& watch, v1::Whereabouts& proto);
[[nodiscard]] const char* FamilyName(ForecastFamily family) noexcept;

// Errors: FailedPrecondition if the model forecasts a number, with what it offers instead. what:
// what needs classes, such as "a test".
[[nodiscard]] absl::Status CheckPredictsClasses(const ModelDeclaration& declaration,
                                                const char* what);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ANSWERS_FORECAST_PROTO_H_
