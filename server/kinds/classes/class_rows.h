#ifndef CALIBD_SERVER_KINDS_CLASSES_CLASS_ROWS_H_
#define CALIBD_SERVER_KINDS_CLASSES_CLASS_ROWS_H_

#include <cstddef>
#include <vector>

#include "calibd/core/validation.h"
#include "server/kinds/prediction_kind.h"
#include "server/model/model_declaration.h"
#include "server/rows/log_row.h"

namespace calibd::server {

// See PredictionKind::ConvertRows. Cost: O(count m).
[[nodiscard]] std::vector<Violation> ConvertClassRows(const ValueForm& form,
                                                      const ClassesSpec& spec, std::size_t first,
                                                      std::size_t count, RowValues& values);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_CLASS_ROWS_H_
