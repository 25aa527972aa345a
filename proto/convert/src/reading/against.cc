#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "calibd/convert/reading.h"
#include "calibd/convert/text.h"
#include "words.h"

namespace calibd::convert {

std::string DifferenceText(const std::string& score, const std::string& unit,
                           const v1::ScoreDifference& difference) {
  const double scale = unit == "points" ? 100 : 1;
  const double value = scale * difference.difference();
  const double lower = scale * difference.lower();
  const double upper = scale * difference.upper();
  // The same decimals for all three, two digits of the largest.
  const double most = std::max({std::abs(value), std::abs(lower), std::abs(upper), 1e-12});
  const int decimals = std::max(0, 1 - static_cast<int>(std::floor(std::log10(most))));
  const std::string size =
      absl::StrFormat("%s %.*f%s%s %s", score, decimals, std::abs(value), unit.empty() ? "" : " ",
                      unit, value > 0 ? "higher" : "lower");
  if (upper < 0) {
    return absl::StrFormat("%s (%.*f to %.*f), better", size, decimals, -upper, decimals, -lower);
  }
  if (lower > 0) {
    return absl::StrFormat("%s (%.*f to %.*f), worse", size, decimals, lower, decimals, upper);
  }
  return absl::StrCat(size, " (", SignedFixed(lower, decimals), " to ",
                      SignedFixed(upper, decimals), "), undecided");
}

std::string AgainstLine(const v1::GetCalibrationResponse& answer) {
  if (answer.baseline().empty()) return "";
  const std::string name = CutName(answer.baseline());
  if (!answer.has_comparison()) return name + ": no labelled row yet";
  const v1::Comparison& comparison = answer.comparison();
  return absl::StrCat(name, ": ", comparison.log_loss().text(), "; ", comparison.brier().text(),
                      "; ", comparison.binned_error().text());
}

}  // namespace calibd::convert
