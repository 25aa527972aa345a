#ifndef CALIBD_SERVER_INGEST_DECODE_FORECASTS_H_
#define CALIBD_SERVER_INGEST_DECODE_FORECASTS_H_

#include <optional>

#include "absl/status/status.h"
#include "calibd/core/forecast_cells.h"
#include "calibd/core/validation.h"
#include "calibd/v1/ingest_service.pb.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"

namespace calibd::server {

// The parts of Decode that know forecasts of a number. Errors are InvalidArgument.

// Refuses forecasts of a model of classes, and probabilities of a model of forecasts; likewise
// outcomes and labels.
[[nodiscard]] absl::Status CheckKind(const v1::Observations& observations,
                                     const ModelDeclaration& declaration);
[[nodiscard]] absl::Status CheckKind(const v1::Labels& labels, const ModelDeclaration& declaration);
// Checks outcome i of the message.
[[nodiscard]] std::optional<Violation> FindLaterOutcomeViolation(const v1::Labels& labels, int i);
// Checks forecast i, and its outcome unless it is pending.
[[nodiscard]] std::optional<Violation> FindForecastRowViolation(const NumberForecastKind& kind,
                                                                const RowValues& values, int i);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_DECODE_FORECASTS_H_
