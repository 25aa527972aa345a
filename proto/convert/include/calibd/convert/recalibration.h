#ifndef CALIBD_CONVERT_RECALIBRATION_H_
#define CALIBD_CONVERT_RECALIBRATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "calibd/core/dated_change.h"
#include "calibd/core/forecast_recalibration.h"
#include "calibd/core/recalibration.h"
#include "calibd/v1/monitoring.pb.h"
#include "calibd/v1/recalibration.pb.h"

namespace calibd::convert {

inline constexpr int kRecalibrationMapVersion = 1;

// The result is valid for the message's class_count. Errors: InvalidArgument that names the field.
[[nodiscard]] absl::StatusOr<RecalibrationMap> FromProto(const v1::RecalibrationMap& proto);

// The map of forecasts of a number; unset if it changes nothing. Errors: as above.
[[nodiscard]] absl::StatusOr<std::optional<LevelCurve>> LevelCurveFromProto(
    const v1::RecalibrationMap& proto);

// change: of the events of DeviationsOf for classes. first_observation, rows: as for the ToProto of
// dated_change.h.
[[nodiscard]] v1::DatedChange ToProto(const EventChange& change, std::int64_t first_observation,
                                      std::int64_t rows);

// Does not set the time. first_observation: number of the first observation of the advice. change:
// the newest change of the error, which is before or within these observations. class_1_name: as
// Recalibration.class_1_name.
[[nodiscard]] v1::Recalibration ToProto(const RecalibrationAdvice& advice, std::size_t class_count,
                                        const std::string& class_1_name,
                                        std::int64_t first_observation,
                                        const std::optional<v1::DatedChange>& change);

// The same for forecasts of a number.
[[nodiscard]] v1::Recalibration ToProto(const ForecastRecalibrationAdvice& advice,
                                        std::int64_t first_observation,
                                        const std::optional<v1::DatedChange>& change);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_RECALIBRATION_H_
