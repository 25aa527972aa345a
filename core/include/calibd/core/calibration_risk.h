#ifndef CALIBD_CORE_CALIBRATION_RISK_H_
#define CALIBD_CORE_CALIBRATION_RISK_H_

#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/calibration_function.h"
#include "calibd/core/run_control.h"

namespace calibd {

// The risk R(h) = E (<D, D'> - h(p, p'))^2 over pairs of different rows that were not used for the
// fit, and what it says about h. Source: Gruber & Bach 2025, Eq. 17 and 20.
struct CalibrationRisk {
  // U-statistic of the risk; R(h) - R(h*) = E (h - h*)^2.
  double risk = 0;
  // Unbiased for R(h) - R(0), in which the noise of the risk cancels; negative if h is better than
  // 0. Standard error: that of a U-statistic.
  double excess = 0;
  double standard_error = 0;
  // For each row i the mean over j of H_ij^2 - 2 <D_i, D_j> H_ij; their mean is the excess.
  std::vector<double> row_excess;
};

// values: h at `rows`, of which there are at least two. Errors: Cancelled. Cost: O(n width^2);
// no n x n matrix.
[[nodiscard]] absl::StatusOr<CalibrationRisk> ComputeCalibrationRisk(const ResidualSample& rows,
                                                                     const FunctionValues& values,
                                                                     const RunControl& control);

// The mean of h(p, p): the estimate of the squared calibration error. May be negative. values: of
// at least one row.
[[nodiscard]] double SquaredCalibrationError(const FunctionValues& values);

// 2 sd / sqrt(n) of the row means of a U-statistic, at least two. For the difference between two
// estimators: the moments of the differences of their row_excess.
[[nodiscard]] double PairStandardError(std::span<const double> row_means);

}  // namespace calibd

#endif  // CALIBD_CORE_CALIBRATION_RISK_H_
