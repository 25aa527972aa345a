#include "calibd/core/discrepancy_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/pair_median.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// W of two forecasts of quantiles.
double QuantileDistance(std::span<const double> a, std::span<const double> b) {
  double largest = 0;
  for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a[k] - b[k]));
  if (largest == 0 || !std::isfinite(largest)) return largest;
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) {
    const double relative = (a[k] - b[k]) / largest;
    sum += relative * relative;
  }
  return largest * std::sqrt(sum / static_cast<double>(a.size()));
}

}  // namespace

absl::StatusOr<DiscrepancyKernel> ChooseDiscrepancyKernel(const NumberForecastKind& kind,
                                                          std::span<const double> forecasts) {
  const std::size_t width = ForecastWidth(kind);
  const std::size_t n = forecasts.size() / width;
  if (n < 2) {
    return absl::FailedPreconditionError(absl::StrCat("has ", n, " forecasts, expected 2 or more"));
  }
  const auto row = [&](std::size_t i) { return forecasts.subspan(i * width, width); };
  const bool quantiles = std::holds_alternative<QuantileForecasts>(kind);
  std::vector<double> means;
  std::vector<double> deviations;
  for (std::size_t i = 0; i < n; ++i) {
    means.push_back(ForecastLocation(kind, row(i)));
    deviations.push_back(ForecastScale(kind, row(i)));
  }
  DiscrepancyKernel kernel;
  if (!quantiles) {
    CALIBD_ASSIGN_OR_RETURN(kernel.outcome_length,
                            MedianDistance(n, {}, [&](std::size_t i, std::size_t j) {
                              return std::hypot(means[i] - means[j], deviations[i], deviations[j]);
                            }));
  }
  CALIBD_ASSIGN_OR_RETURN(
      kernel.forecast_length, MedianDistance(n, {}, [&](std::size_t i, std::size_t j) {
        return quantiles ? QuantileDistance(row(i), row(j))
                         : std::hypot(means[i] - means[j], deviations[i] - deviations[j]);
      }));
  kernel.center = MedianOf(means);
  if (!(kernel.outcome_length > 0) || !std::isfinite(kernel.outcome_length) ||
      !std::isfinite(kernel.forecast_length) || !std::isfinite(kernel.center)) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the median distances of the forecasts are ", Exact(kernel.outcome_length), " and ",
        Exact(kernel.forecast_length), ", expected finite numbers, and the first > 0"));
  }
  return kernel;
}

}  // namespace calibd
