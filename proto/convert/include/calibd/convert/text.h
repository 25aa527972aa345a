#ifndef CALIBD_CONVERT_TEXT_H_
#define CALIBD_CONVERT_TEXT_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "calibd/v1/monitoring.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace calibd::convert {

// A number with this many decimals, such as "5.4"; SignedFixed adds a plus sign: "+5.4". A number
// that rounds to zero has no minus sign, and one from 1e6 on has a power of ten: "1.31e+142".
[[nodiscard]] std::string Fixed(double value, int decimals);
[[nodiscard]] std::string SignedFixed(double value, int decimals);

// The shortest text that reads back as the same finite number, such as "110" or "100000.5".
[[nodiscard]] std::string Exact(double value);

// probability: >= 0. Returns it in percentage points with one decimal, below 1 with two, without
// trailing zeros: "0.01", "5.4", "20".
[[nodiscard]] std::string Points(double probability);
// The same with its unit: "1 point", "5.4 points".
[[nodiscard]] std::string PointsText(double probability);

// points: a number of percentage points. The number of decimals, at least `least` and at most 10,
// with which it has two significant digits.
[[nodiscard]] int DecimalsOf(double points, int least);
// probability: >= 0. Returns it in percent with at least this many decimals and two significant
// digits: "96.96 %", "0.0010 %", and from 1e-12 downwards "1.2e-13 %".
[[nodiscard]] std::string Percent(double probability, int least_decimals);

// "1 row", "0 rows". count: >= 0. noun: in the singular; its plural ends with an s.
[[nodiscard]] std::string CountText(std::integral auto count, std::string_view noun) {
  std::string text = std::to_string(count) + " ";
  text += noun;
  return count == 1 ? text : text + "s";
}

// count: >= 0. Rounds it to two digits, such as "31000".
[[nodiscard]] std::string RoundedDown(std::int64_t count);
[[nodiscard]] std::string RoundedUp(std::int64_t count);

// Whether an interval of an error says too little for its estimate to mean anything: it begins at 0
// and ends above a half.
[[nodiscard]] bool SaysLittle(double lower, double upper);

// Whether an estimate is told beside its interval. Noise biases it upwards, so it is left out where
// it would be taken for an error that is not shown: if the interval begins at 0, or if the estimate
// is above the limit and the interval is not. All arguments are probabilities.
[[nodiscard]] bool TellsEstimate(double estimate, double lower, double limit);

// "5.4 (4.2 to 6.8)" in points, or only the interval if it begins at 0.
[[nodiscard]] std::string IntervalText(const v1::ErrorInterval& error);

// "off by 5.4 points (4.2 to 6.8; limit 2 points)", without the estimate "off by 0 to 3.1 points
// (limit 2 points)", and of an interval that says little "off by 0 to 95 points (too few rows to
// say more; limit 2 points)". All arguments are probabilities.
[[nodiscard]] std::string OffByText(double estimate, double lower, double upper, double limit);

// True if class_1 is off by more than the top label: its interval begins higher, or as high with a
// larger estimate.
[[nodiscard]] bool Exceeds(const v1::ErrorInterval& class_1, const v1::ErrorInterval& top_label);

// Whether both errors are those of one event, because the top label is always class 0, or always
// class 1, as of a rare event.
[[nodiscard]] bool IsSameEvent(const v1::ErrorInterval& class_1,
                               const v1::ErrorInterval& top_label) noexcept;

// Returns the name of class 1 of two classes, without control characters; empty unless there are
// two names. class_names: in the order of the classes.
[[nodiscard]] std::string Class1Name(std::span<const std::string> class_names);
// The probability of class 1 of two classes, as a reader knows it: "P(yes)". A class without a
// name, or whose name is its number, is "P(class 1)". A name of more than 24 characters is cut.
[[nodiscard]] std::string Class1Event(const std::string& class_1_name);

// level: in (0, 1). ".5".
[[nodiscard]] std::string LevelName(double level);
// Where outcomes equal quantiles: "level .5: between 36 and 62 % fell below", or "level .9: 71 %
// fell below" if no outcome equals this quantile.
[[nodiscard]] std::string LevelText(const v1::LevelCoverage& level);
// ": the quantile is too high" or "... too low" if the level is outside of its interval; else
// empty.
[[nodiscard]] std::string LevelConclusion(const v1::LevelCoverage& level);

// The answer of an interval alone, without alarms. All arguments are probabilities.
[[nodiscard]] v1::CalibrationError::Status StatusAgainst(double limit, double lower, double upper);

// A status as in JSON and metrics, such as "OVER_LIMIT"; "UNKNOWN" for one that is not known.
[[nodiscard]] std::string StatusName(v1::CalibrationError::Status status);
[[nodiscard]] std::string StatusName(v1::Verdict::Status status);

// 10^x as a number, or as "10^x" if the number would be too long to read.
[[nodiscard]] std::string PowerOfTen(double x);
// "2026-01-31 12:30 UTC".
[[nodiscard]] std::string MinuteText(const google::protobuf::Timestamp& time);
// Formats an age in whole units: the largest of which it has at least two, such as "91s" or "47h".
[[nodiscard]] std::string AgeText(std::int64_t seconds);

// Replaces control characters.
[[nodiscard]] std::string Plain(std::string text);
// Number of characters of a text in UTF-8.
[[nodiscard]] std::size_t CountCharacters(std::string_view text);
// Cuts each line to this many UTF-8 characters.
[[nodiscard]] std::string CutLines(const std::string& text, std::size_t width);
// The name without control characters, cut after 24 characters.
[[nodiscard]] std::string CutName(const std::string& name);
// The name of a model without its prefix, such as "resnet18@2".
[[nodiscard]] std::string ShortName(std::string_view model);
// "(no value)" for the group of predictions without a value, "(other groups)" for the overflow
// group.
[[nodiscard]] std::string GroupName(const std::string& value, bool is_overflow);

}  // namespace calibd::convert

#endif  // CALIBD_CONVERT_TEXT_H_
