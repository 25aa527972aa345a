#include "calibd/convert/text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace calibd::convert {
namespace {

// "; the newest 1548 rows: off by 20.5 points (10.5 to 30.5)". Empty if the error is not recent.
// Only forecasts have an interval of it.
std::string RecentText(const v1::CalibrationError& error) {
  if (!error.is_recent()) return "";
  const v1::CalibrationError::RecentError& recent = error.recent();
  const bool is_forecast = recent.has_forecast();
  const v1::ErrorInterval& coverage = recent.forecast().coverage();
  const std::int64_t rows = is_forecast ? recent.forecast().observations() : recent.observations();
  return absl::StrCat("; the newest ", rows, " rows: off by ",
                      PointsText(is_forecast ? coverage.estimate() : recent.estimate()),
                      is_forecast ? absl::StrCat(" (", Points(coverage.lower()), " to ",
                                                 Points(coverage.upper()), ")")
                                  : "");
}

// Larger numbers have three digits and a power of ten.
constexpr double kMostFixed = 1e6;

// Whether a formatted number shows nothing but zeros after a minus sign.
bool IsMinusZero(const std::string& number) {
  return number.starts_with('-') && number.find_first_not_of("0.", 1) == std::string::npos;
}

}  // namespace

std::string Fixed(double value, int decimals) {
  if (std::abs(value) >= kMostFixed) return absl::StrFormat("%.3g", value);
  const std::string text = absl::StrFormat("%.*f", decimals, value);
  return IsMinusZero(text) ? text.substr(1) : text;
}

std::string Exact(double value) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.begin(), text.end(), value);
  return {text.begin(), end};
}

std::string SignedFixed(double value, int decimals) {
  if (std::abs(value) >= kMostFixed) return absl::StrFormat("%+.3g", value);
  std::string text = absl::StrFormat("%+.*f", decimals, value);
  if (IsMinusZero(text)) text[0] = '+';
  return text;
}

std::string Points(double probability) {
  const double points = 100 * probability;
  const std::string text = Fixed(points, points < 1 ? 2 : 1);
  // The format always writes a decimal point.
  const std::size_t last = text.find_last_not_of('0');
  return text.substr(0, text[last] == '.' ? last : last + 1);
}

std::string PointsText(double probability) {
  const std::string points = Points(probability);
  return points + (points == "1" ? " point" : " points");
}

std::string RoundedCount(std::int64_t count) {
  std::int64_t unit = 1;
  while (count / unit >= 100) unit *= 10;
  return absl::StrCat((count + unit - 1) / unit * unit);
}

bool SaysLittle(double lower, double upper) { return lower <= 0 && upper > 0.5; }

std::string OffByText(double estimate, double lower, double upper, double limit) {
  if (SaysLittle(lower, upper)) {
    return absl::StrCat("off by 0 to ", PointsText(upper), " (too few rows to say more; limit ",
                        Points(limit), ")");
  }
  return absl::StrCat("off by ", PointsText(estimate), " (", Points(lower), " to ", Points(upper),
                      "; limit ", Points(limit), ")");
}

std::string OffByText(const v1::CalibrationError& error) {
  const v1::ErrorMeasurement& current =
      error.has_since_acknowledgement() ? error.since_acknowledgement() : error.since_start();
  if (current.has_coverage()) {
    const v1::ErrorInterval& coverage = current.coverage();
    return OffByText(coverage.estimate(), coverage.lower(), coverage.upper(), error.limit()) +
           RecentText(error);
  }
  if (!current.has_top_label()) return "";
  const bool is_class_1 = current.has_class_1() && Exceeds(current.class_1(), current.top_label());
  const v1::ErrorInterval& interval = is_class_1 ? current.class_1() : current.top_label();
  return absl::StrCat(
      is_class_1 ? "P(class 1) " : "",
      OffByText(interval.estimate(), interval.lower(), interval.upper(), error.limit()),
      RecentText(error));
}

bool Exceeds(const v1::ErrorInterval& class_1, const v1::ErrorInterval& top_label) {
  return std::pair(class_1.lower(), class_1.estimate()) >
         std::pair(top_label.lower(), top_label.estimate());
}

v1::CalibrationError::Status StatusAgainst(double limit, double lower, double upper) {
  if (lower > limit) return v1::CalibrationError::OVER_LIMIT;
  return upper <= limit ? v1::CalibrationError::WITHIN_LIMIT : v1::CalibrationError::UNDECIDED;
}

std::string StatusName(v1::CalibrationError::Status status) {
  if (status == 0 || !v1::CalibrationError::Status_IsValid(status)) return "UNKNOWN";
  return v1::CalibrationError::Status_Name(status);
}

std::string StatusName(v1::Verdict::Status status) {
  if (status == 0 || !v1::Verdict::Status_IsValid(status)) return "UNKNOWN";
  return v1::Verdict::Status_Name(status);
}

std::string GapText(double gap) {
  const double points = 100 * std::abs(gap);
  return points < 0.05
             ? "neither over- nor under-confident"
             : absl::StrFormat("%s-confident by %.1f points", gap > 0 ? "over" : "under", points);
}

}  // namespace calibd::convert
