#include "row_check.h"

#include <utility>

#include "calibd/core/quantile_order.h"
#include "calibd/text/printable.h"

namespace calibd::client {
namespace {

constexpr std::size_t kMaxIdBytes = 128;
constexpr char kField[] = "prediction_ids";
constexpr std::size_t kMaxGroupBytes = 64;
constexpr char kGroupField[] = "group_values";
// The server has the same limit.
constexpr double kLeastStandardDeviation = 1e-300;

}  // namespace

std::optional<Violation> FindIdFault(std::string_view id) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return Violation{kField,
                     absl::StrCat("is of ", id.size(), " bytes, expected 1 to ", kMaxIdBytes)};
  }
  if (!IsUtf8(id)) return Violation{kField, "is not valid UTF-8"};
  return std::nullopt;
}

std::optional<Violation> FindGroupFault(std::string_view value) {
  if (value.size() > kMaxGroupBytes) {
    return Violation{kGroupField, absl::StrCat("is of ", value.size(), " bytes, expected 1 to ",
                                               kMaxGroupBytes)};
  }
  if (auto fault = FindUnprintable(value)) return Violation{kGroupField, *std::move(fault)};
  return std::nullopt;
}

std::optional<Violation> FindTruthFault(const v1::LabelSet& labels,
                                        std::span<const std::int32_t> truths) {
  for (std::size_t k = 0; k < truths.size(); ++k) {
    if (truths[k] >= -1 && truths[k] <= 1) continue;
    return Violation{"labels",
                     absl::StrCat("(\"", labels.names(static_cast<int>(k)), "\") is ", truths[k],
                                  ", expected 1, 0, or -1 for a missing truth"),
                     {},
                     k};
  }
  return std::nullopt;
}

std::optional<Violation> FindFeatureFault(std::span<const double> row) {
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (std::isfinite(row[k])) continue;
    return Violation{"features", absl::StrCat("is ", row[k], ", expected a finite number"), {}, k};
  }
  return std::nullopt;
}

std::optional<Violation> FindForecastFault(const v1::Forecast& forecast,
                                           std::span<const double> row) {
  for (std::size_t k = 0; k < row.size(); ++k) {
    const auto fault = [k](std::string description) {
      return Violation{"forecasts", std::move(description), {}, k};
    };
    if (!std::isfinite(row[k])) {
      return fault(absl::StrCat("is ", row[k], ", expected a finite number"));
    }
    if (forecast.has_normal() && k == 1 && row[k] < kLeastStandardDeviation) {
      return fault(absl::StrCat("is ", Exact(row[k]),
                                ", expected a standard deviation of at least ",
                                kLeastStandardDeviation));
    }
    if (forecast.has_quantiles() && k > 0 && row[k] < row[k - 1]) {
      return fault(DescribeCrossing(row[k], row[k - 1]));
    }
  }
  return std::nullopt;
}

std::optional<Violation> FindOutcomeFault(const v1::Forecast& forecast, std::span<const double> row,
                                          double outcome) {
  if (!std::isfinite(outcome)) {
    return Violation{"outcomes", absl::StrCat("is ", outcome, ", expected a finite number")};
  }
  if (forecast.has_normal() && !row.empty() && !std::isfinite((outcome - row[0]) / row[1])) {
    return Violation{"outcomes",
                     absl::StrCat("is ", Exact(outcome),
                                  ", expected a finite (outcome - mean) / standard deviation")};
  }
  return std::nullopt;
}

}  // namespace calibd::client
