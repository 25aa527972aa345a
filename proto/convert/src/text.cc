#include "calibd/convert/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::convert {
namespace {

// Larger numbers have three digits and a power of ten.
constexpr double kMostFixed = 1e6;
constexpr double kMostDecimals = 10;
// Larger exponents have no digits after the decimal point, and no exponent of their own.
constexpr double kMostFixedPower = 1e3;

// Whether a byte of a text in UTF-8 is the first one of a character.
bool BeginsCharacter(char byte) noexcept {
  return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U;
}

// Whether a formatted number shows nothing but zeros after a minus sign.
bool IsMinusZero(const std::string& number) {
  return number.starts_with('-') && number.find_first_not_of("0.", 1) == std::string::npos;
}

// The power of ten that leaves at most two digits of the count.
std::int64_t UnitOfTwoDigits(std::int64_t count) {
  std::int64_t unit = 1;
  while (count / unit >= 100) unit *= 10;
  return unit;
}

// The end of an interval. One that is close to the limit has as many decimals as show on which side
// of the limit it is.
std::string PointsBeside(double end, double limit) {
  constexpr int kFinest = 4;
  std::string text = Points(end);
  if (text != Points(limit)) return text;
  for (int decimals = 2; decimals <= kFinest; ++decimals) {
    std::string finer = Fixed(100 * end, decimals);
    if (finer != Fixed(100 * limit, decimals)) return finer;
  }
  return text;
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

int DecimalsOf(double points, int least) {
  if (points == 0) return least;
  // 0.01 may be computed as a little less.
  constexpr double kRounding = 1e-9;
  const double decimals = 1 - std::floor(std::log10(std::abs(points)) + kRounding);
  return static_cast<int>(std::clamp<double>(decimals, least, kMostDecimals));
}

std::string Percent(double probability, int least_decimals) {
  const double percent = 100 * probability;
  constexpr double kLeastFixed = 1e-10;
  return absl::StrCat(percent > 0 && percent < kLeastFixed
                          ? absl::StrFormat("%.1e", percent)
                          : Fixed(percent, DecimalsOf(percent, least_decimals)),
                      " %");
}

std::string RoundedDown(std::int64_t count) {
  const std::int64_t unit = UnitOfTwoDigits(count);
  return absl::StrCat(count / unit * unit);
}

std::string RoundedUp(std::int64_t count) {
  const std::int64_t unit = UnitOfTwoDigits(count);
  return absl::StrCat((count + unit - 1) / unit * unit);
}

bool SaysLittle(double lower, double upper) { return lower <= 0 && upper > 0.5; }

bool TellsEstimate(double estimate, double lower, double limit) {
  return lower > limit || (lower > 0 && estimate <= limit);
}

std::string IntervalText(const v1::ErrorInterval& error) {
  const std::string interval = absl::StrCat(Points(error.lower()), " to ", Points(error.upper()));
  return error.lower() <= 0 ? interval
                            : absl::StrCat(Points(error.estimate()), " (", interval, ")");
}

std::string OffByText(double estimate, double lower, double upper, double limit) {
  if (SaysLittle(lower, upper)) {
    return absl::StrCat("off by 0 to ", PointsText(upper), " (too few rows to say more; limit ",
                        PointsText(limit), ")");
  }
  if (!TellsEstimate(estimate, lower, limit)) {
    const std::string end = PointsBeside(upper, limit);
    return absl::StrCat("off by ", PointsBeside(lower, limit), " to ", end,
                        end == "1" ? " point" : " points", " (limit ", PointsText(limit), ")");
  }
  return absl::StrCat("off by ", PointsText(estimate), " (", PointsBeside(lower, limit), " to ",
                      PointsBeside(upper, limit), "; limit ", PointsText(limit), ")");
}

bool Exceeds(const v1::ErrorInterval& class_1, const v1::ErrorInterval& top_label) {
  return std::pair(class_1.lower(), class_1.estimate()) >
         std::pair(top_label.lower(), top_label.estimate());
}

bool IsSameEvent(const v1::ErrorInterval& class_1, const v1::ErrorInterval& top_label) noexcept {
  constexpr double kRounding = 1e-9;
  const auto equal = [](double a, double b) { return std::abs(a - b) < kRounding; };
  return equal(class_1.lower(), top_label.lower()) && equal(class_1.upper(), top_label.upper()) &&
         equal(class_1.estimate(), top_label.estimate()) &&
         equal(std::abs(class_1.gap()), std::abs(top_label.gap()));
}

std::string Class1Name(std::span<const std::string> class_names) {
  return class_names.size() == 2 ? Plain(class_names[1]) : "";
}

std::string Class1Event(const std::string& class_1_name) {
  if (class_1_name.empty()) return "P(class 1)";
  if (std::ranges::all_of(class_1_name, absl::ascii_isdigit)) {
    return absl::StrCat("P(class ", CutName(class_1_name), ")");
  }
  return absl::StrCat("P(", CutName(class_1_name), ")");
}

std::string LevelName(double level) {
  const std::string number = absl::StrFormat("%.6g", level);
  return number.starts_with("0.") ? number.substr(1) : number;
}

std::string LevelText(const v1::LevelCoverage& level) {
  const std::string low = Points(level.below());
  const std::string high = Points(level.at_most());
  return absl::StrCat("level ", LevelName(level.level()), ": ",
                      low == high ? low : absl::StrCat("between ", low, " and ", high),
                      " % fell below");
}

std::string LevelConclusion(const v1::LevelCoverage& level) {
  if (level.level() < level.lower()) return ": the quantile is too high";
  return level.level() > level.upper() ? ": the quantile is too low" : "";
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

std::string PowerOfTen(double x) {
  if (std::abs(x) >= kMostFixedPower) return absl::StrFormat("10^%.0f", x);
  if (std::abs(x) >= 6) return absl::StrFormat("10^%.4g", x);
  const double value = std::pow(10, x);
  return value < 100 ? absl::StrFormat("%.3g", value) : absl::StrFormat("%.0f", value);
}

std::string MinuteText(const google::protobuf::Timestamp& time) {
  using google::protobuf::util::TimeUtil;
  std::string text = TimeUtil::ToString(TimeUtil::SecondsToTimestamp(time.seconds() / 60 * 60));
  text.resize(text.find(":00Z"));
  text[text.find('T')] = ' ';
  return text + " UTC";
}

std::string AgeText(std::int64_t seconds) {
  constexpr std::pair<std::int64_t, char> kUnits[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}};
  for (const auto& [unit, name] : kUnits) {
    if (seconds >= 2 * unit) return absl::StrCat(seconds / unit, std::string(1, name));
  }
  return absl::StrCat(seconds, "s");
}

std::string Plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

std::size_t CountCharacters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
}

std::string CutLines(const std::string& text, std::size_t width) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    std::size_t characters = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (!BeginsCharacter(line[i])) continue;
      if (characters == width) {
        line.resize(i);
        break;
      }
      ++characters;
    }
  }
  return absl::StrJoin(lines, "\n");
}

std::string CutName(const std::string& name) {
  constexpr std::size_t kMaxName = 24;
  const std::string plain = Plain(name);
  return plain.size() <= kMaxName ? plain : CutLines(plain, kMaxName - 3) + "...";
}

std::string ShortName(std::string_view model) {
  constexpr std::string_view kPrefix = "models/";
  if (model.starts_with(kPrefix)) model.remove_prefix(kPrefix.size());
  return absl::StrReplaceAll(absl::string_view(model.data(), model.size()), {{"/versions/", "@"}});
}

std::string GroupName(const std::string& value, bool is_overflow) {
  if (is_overflow) return "(other groups)";
  return value.empty() ? "(no value)" : Plain(value);
}

}  // namespace calibd::convert
