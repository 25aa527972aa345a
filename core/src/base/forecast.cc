#include "calibd/core/forecast.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "calibd/core/quantile_order.h"
#include "calibd/core/row_sum.h"

namespace calibd {
namespace {

// The name of the field that holds the values, and the names of the columns of a row.
const char* ValuesField(ForecastKind kind) {
  switch (kind) {
    case ForecastKind::kProbabilities:
      return "probabilities";
    case ForecastKind::kLogits:
      return "logits";
    case ForecastKind::kNormal:
      return "normals";
    case ForecastKind::kSamples:
      return "samples";
    case ForecastKind::kQuantiles:
      return "quantiles";
  }
  return "";
}

std::optional<Violation> CheckShape(const ForecastBatch& batch) {
  const char* const truths = batch.predicts_classes() ? "labels" : "outcomes";
  const bool normal = batch.kind == ForecastKind::kNormal;
  const std::size_t min = batch.kind == ForecastKind::kQuantiles ? 1 : 2;
  const std::size_t max = normal                                   ? 2
                          : batch.kind == ForecastKind::kSamples   ? kMaxDraws
                          : batch.kind == ForecastKind::kQuantiles ? kMaxQuantileLevels
                                                                   : kMaxClassCount;
  if (batch.size() == 0) return Violation{truths, "is empty, expected at least 1 row"};
  // Uses division, because the product could overflow.
  if (batch.width < min || batch.width > max || batch.values.size() % batch.width != 0 ||
      batch.values.size() / batch.width != batch.size()) {
    return Violation{ValuesField(batch.kind),
                     absl::StrCat("has ", batch.values.size(), " values, expected ", batch.size(),
                                  " ", truths, " x ", normal ? "2" : absl::StrCat(min, "..", max))};
  }
  return std::nullopt;
}

Violation NotFinite(const char* field, double value, std::size_t row,
                    std::optional<std::size_t> column = std::nullopt) {
  return {field, absl::StrCat("is ", Exact(value), ", expected a finite number"), row, column};
}

std::optional<Violation> CheckRow(const ForecastBatch& batch, std::size_t i) {
  const std::span<const double> row = batch.row(i);
  const bool normal = batch.kind == ForecastKind::kNormal;
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (std::isfinite(row[k])) continue;
    if (normal) return NotFinite(k == 0 ? "mean" : "standard_deviation", row[k], i);
    return NotFinite(ValuesField(batch.kind), row[k], i, k);
  }
  if (batch.predicts_classes()) {
    const std::int32_t y = batch.labels[i];
    if (y >= 0 && static_cast<std::size_t>(y) < batch.width) return std::nullopt;
    return Violation{"labels", absl::StrCat("is ", y, ", expected [0, ", batch.width, ")"), i};
  }
  const auto smaller = std::ranges::adjacent_find(row, std::greater<>());
  if (batch.kind == ForecastKind::kQuantiles && smaller != row.end()) {
    return Violation{"quantiles", DescribeCrossing(smaller[1], smaller[0]), i,
                     static_cast<std::size_t>(smaller - row.begin()) + 1};
  }
  if (!std::isfinite(batch.outcomes[i])) return NotFinite("outcome", batch.outcomes[i], i);
  if (!normal) return std::nullopt;
  if (!(row[1] >= kMinStandardDeviation)) {
    return Violation{
        "standard_deviation",
        absl::StrCat("is ", Exact(row[1]), ", expected at least ", kMinStandardDeviation), i};
  }
  if (!std::isfinite((batch.outcomes[i] - row[0]) / row[1])) {
    return Violation{"outcome",
                     absl::StrCat("is ", Exact(batch.outcomes[i]),
                                  ", expected a finite (outcome - mean) / standard_deviation"),
                     i};
  }
  return std::nullopt;
}

}  // namespace

std::vector<Violation> FindViolations(const ForecastBatch& batch) {
  if (auto shape = CheckShape(batch)) return {*std::move(shape)};
  if (batch.kind == ForecastKind::kProbabilities) {
    std::vector<Violation> violations =
        FindViolations(PredictionBatch{batch.values, batch.labels, batch.width});
    // No model declares a tolerance here.
    for (Violation& violation : violations) {
      std::string& text = violation.description;
      if (!text.ends_with(kRowSumAdvice)) continue;
      text.resize(text.size() - std::char_traits<char>::length(kRowSumAdvice));
      text += ": normalise the rows";
    }
    return violations;
  }
  std::vector<Violation> violations;
  for (std::size_t i = 0; i < batch.size() && violations.size() < kMaxReportedViolations; ++i) {
    if (auto row = CheckRow(batch, i)) violations.push_back(*std::move(row));
  }
  return violations;
}

}  // namespace calibd
