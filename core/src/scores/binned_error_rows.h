#ifndef CALIBD_CORE_SRC_SCORES_BINNED_ERROR_ROWS_H_
#define CALIBD_CORE_SRC_SCORES_BINNED_ERROR_ROWS_H_

#include <cstddef>

#include "absl/status/status.h"
#include "calibd/core/binned_error.h"
#include "base/labelled_rows.h"

namespace calibd {

// Returns OK if EstimateBinnedError accepts spec for n observations.
[[nodiscard]] absl::Status CheckBinnedErrorSpec(const BinnedErrorSpec& spec, std::size_t n);

// EstimateBinnedError for rows that CheckBinnedErrorSpec has accepted.
[[nodiscard]] BinnedError BinnedErrorOfRows(const LabelledRows& rows, const BinnedErrorSpec& spec);

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_SCORES_BINNED_ERROR_ROWS_H_
