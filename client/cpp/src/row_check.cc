#include "row_check.h"

#include <charconv>
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

std::int64_t RowOfField(std::string_view field) {
  const std::size_t bracket = field.find('[');
  std::int64_t row = -1;
  if (bracket == std::string_view::npos || field.starts_with("class_names[")) return row;
  const std::string_view rest = field.substr(bracket + 1);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), row);
  return error == std::errc() && end != rest.data() + rest.size() && *end == ']' ? row : -1;
}

std::optional<RowFault> FindIdFault(std::string_view id) {
  if (id.empty() || id.size() > kMaxIdBytes) {
    return RowFault{kField,
                    absl::StrCat("is of ", id.size(), " bytes, expected 1 to ", kMaxIdBytes)};
  }
  if (!IsUtf8(id)) return RowFault{kField, "is not valid UTF-8"};
  return std::nullopt;
}

std::optional<RowFault> FindGroupFault(std::string_view value) {
  if (value.size() > kMaxGroupBytes) {
    return RowFault{kGroupField,
                    absl::StrCat("is of ", value.size(), " bytes, expected 1 to ", kMaxGroupBytes)};
  }
  if (auto fault = FindUnprintable(value)) return RowFault{kGroupField, *std::move(fault)};
  return std::nullopt;
}

std::optional<RowFault> FindTruthFault(const v1::LabelSet& labels,
                                       std::span<const std::int32_t> truths) {
  for (std::size_t k = 0; k < truths.size(); ++k) {
    if (truths[k] >= -1 && truths[k] <= 1) continue;
    return RowFault{absl::StrCat("labels[", k, "]"),
                    absl::StrCat("(\"", labels.names(static_cast<int>(k)), "\") is ", truths[k],
                                 ", expected 1, 0, or -1 for a missing truth")};
  }
  return std::nullopt;
}

std::optional<RowFault> FindFeatureFault(std::span<const double> row) {
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (std::isfinite(row[k])) continue;
    return RowFault{absl::StrCat("features[", k, "]"),
                    absl::StrCat("is ", row[k], ", expected a finite number")};
  }
  return std::nullopt;
}

std::optional<RowFault> FindForecastFault(const v1::Forecast& forecast,
                                          std::span<const double> row) {
  for (std::size_t k = 0; k < row.size(); ++k) {
    const std::string field = absl::StrCat("forecasts[", k, "]");
    if (!std::isfinite(row[k])) {
      return RowFault{field, absl::StrCat("is ", row[k], ", expected a finite number")};
    }
    if (forecast.has_normal() && k == 1 && row[k] < kLeastStandardDeviation) {
      return RowFault{
          field, absl::StrCat("is ", Exact(row[k]), ", expected a standard deviation of at least ",
                              kLeastStandardDeviation)};
    }
    if (forecast.has_quantiles() && k > 0 && row[k] < row[k - 1]) {
      return RowFault{field, DescribeCrossing(row[k], row[k - 1])};
    }
  }
  return std::nullopt;
}

std::optional<RowFault> FindOutcomeFault(const v1::Forecast& forecast, std::span<const double> row,
                                         double outcome) {
  if (!std::isfinite(outcome)) {
    return RowFault{"outcomes", absl::StrCat("is ", outcome, ", expected a finite number")};
  }
  if (forecast.has_normal() && !row.empty() && !std::isfinite((outcome - row[0]) / row[1])) {
    return RowFault{"outcomes",
                    absl::StrCat("is ", Exact(outcome),
                                 ", expected a finite (outcome - mean) / standard deviation")};
  }
  return std::nullopt;
}

}  // namespace calibd::client
