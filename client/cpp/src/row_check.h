#ifndef CALIBD_CLIENT_SRC_ROW_CHECK_H_
#define CALIBD_CLIENT_SRC_ROW_CHECK_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "calibd/client/observation_stream.h"
#include "calibd/core/probability.h"
#include "calibd/core/row_sum.h"
#include "calibd/core/violation.h"
#include "calibd/v1/model_service.pb.h"

namespace calibd::client {

// Each function returns what is wrong with a prediction or label by the rules of the server,
// without a row.

std::optional<Violation> FindIdFault(std::string_view id);
// value: not empty.
std::optional<Violation> FindGroupFault(std::string_view value);

inline std::optional<Violation> FindLabelFault(std::int32_t label, std::size_t class_count) {
  if (label >= 0 && static_cast<std::size_t>(label) < class_count) return std::nullopt;
  return Violation{"labels", absl::StrCat("is ", label, ", expected [0, ", class_count, ")")};
}

// truths: of all labels of a prediction.
std::optional<Violation> FindTruthFault(const v1::LabelSet& labels,
                                        std::span<const std::int32_t> truths);

// row: the features of a prediction.
std::optional<Violation> FindFeatureFault(std::span<const double> row);

// row: the values of a forecast of this kind.
std::optional<Violation> FindForecastFault(const v1::Forecast& forecast,
                                           std::span<const double> row);
// outcome: the outcome of `row`, a valid forecast. An empty row is a forecast that was sent before.
std::optional<Violation> FindOutcomeFault(const v1::Forecast& forecast, std::span<const double> row,
                                          double outcome);

// The tolerance of a model whose rows have no sum.
inline constexpr double kNoRowSum = std::numeric_limits<double>::infinity();

template <typename T>
std::optional<Violation> FindRowFault(PredictionKind kind, std::span<const T> row,
                                      double row_sum_tolerance) {
  double sum = 0;
  for (std::size_t k = 0; k < row.size(); ++k) {
    auto value = static_cast<double>(row[k]);
    // The server rounds too.
    if (kind == PredictionKind::kProbabilities) value = RoundToProbability(value);
    if (kind == PredictionKind::kLogits) {
      if (!std::isfinite(value)) {
        return Violation{"logits", absl::StrCat("is ", value, ", expected a finite number"), {}, k};
      }
    } else if (!(value >= 0 && value <= 1)) {  // catches NaN too
      return Violation{"probabilities",
                       absl::StrCat("is ", Exact(value), ", expected a number in [0, 1]"),
                       {},
                       k};
    }
    sum += value;
  }
  // One probability of two classes has no sum, nor have those of several labels.
  if (kind == PredictionKind::kProbabilities && row.size() > 1 && row_sum_tolerance < kNoRowSum &&
      !IsRowSum(sum, row.size(), row_sum_tolerance)) {
    return Violation{"probabilities", DescribeRowSum(sum, row_sum_tolerance)};
  }
  return std::nullopt;
}

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_ROW_CHECK_H_
