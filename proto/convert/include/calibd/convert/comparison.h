#ifndef CALIBD_CONVERT_COMPARISON_H_
#define CALIBD_CONVERT_COMPARISON_H_

#include "calibd/core/comparison.h"
#include "calibd/v1/comparison.pb.h"

namespace calibd::convert {

// Sets the three scores and the level.
[[nodiscard]] v1::Comparison ToProto(const Comparison& comparison);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_COMPARISON_H_
