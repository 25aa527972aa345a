#ifndef CALIBD_CORE_SRC_EVALUATION_DEPENDENT_ROWS_H_
#define CALIBD_CORE_SRC_EVALUATION_DEPENDENT_ROWS_H_

#include <cstdint>

#include "calibd/core/prediction_batch.h"

namespace calibd {

// The row, from 1, at which SerialDependence is found in a valid batch; 0 if it is not. Cost: O(n).
[[nodiscard]] std::int64_t DependenceFoundAt(const PredictionBatch& batch);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVALUATION_DEPENDENT_ROWS_H_
