#ifndef CALIBD_CONVERT_COMPARISON_H_
#define CALIBD_CONVERT_COMPARISON_H_

#include "calibd/core/comparison.h"
#include "calibd/core/forecast_comparison.h"
#include "calibd/v1/comparison.pb.h"

namespace calibd::convert {

// Both set the scores and the level.
[[nodiscard]] v1::Comparison ToProto(const Comparison& comparison);
[[nodiscard]] v1::Comparison ToProto(const ForecastComparison& comparison);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_COMPARISON_H_
