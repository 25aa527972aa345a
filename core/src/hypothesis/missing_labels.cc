#include "calibd/core/missing_labels.h"

#include <algorithm>
#include <boost/math/special_functions/gamma.hpp>
#include <cstddef>

#include "base/boost_policy.h"

namespace calibd {
namespace {

constexpr double kLeastExpected = 5;

}  // namespace

std::optional<double> MissingLabelsPValue(std::span<const LabelledCount> kinds) {
  double predictions = 0;
  double missing = 0;
  for (const LabelledCount& kind : kinds) {
    predictions += static_cast<double>(kind.predictions);
    missing += static_cast<double>(kind.missing);
  }
  if (missing == 0 || missing == predictions) return std::nullopt;
  const double share = missing / predictions;
  const auto is_small = [share](double n) {
    return n * std::min(share, 1 - share) < kLeastExpected;
  };
  double statistic = 0;
  std::size_t count = 0;
  const auto add = [&](double n, double missing_of_n) {
    const double difference = missing_of_n - n * share;
    statistic += difference * difference / (n * share * (1 - share));
    ++count;
  };
  double small_predictions = 0;
  double small_missing = 0;
  for (const LabelledCount& kind : kinds) {
    const auto n = static_cast<double>(kind.predictions);
    const auto missing_of_n = static_cast<double>(kind.missing);
    if (is_small(n)) {
      small_predictions += n;
      small_missing += missing_of_n;
    } else {
      add(n, missing_of_n);
    }
  }
  if (!is_small(small_predictions)) add(small_predictions, small_missing);
  if (count < 2) return std::nullopt;
  return boost::math::gamma_q(static_cast<double>(count - 1) / 2, statistic / 2, MathPolicy());
}

}  // namespace calibd
