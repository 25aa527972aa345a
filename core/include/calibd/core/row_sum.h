#ifndef CALIBD_CORE_ROW_SUM_H_
#define CALIBD_CORE_ROW_SUM_H_

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

// The rule for the sum of a row of probabilities. The server, the C++ SDK and the offline
// evaluation use it; it needs only the standard library.
namespace calibd {

// Limits of a tolerance: > 0, and at most this.
inline constexpr double kMaxRowSumTolerance = 0.1;

// Maximum deviation of the sum of m probabilities from 1, if none is declared. Rounding to four
// decimals changes each probability by at most 5e-5, and a softmax in single precision is off by
// less.
[[nodiscard]] constexpr double DefaultRowSumTolerance(std::size_t class_count) noexcept {
  return std::clamp(5e-5 * static_cast<double>(class_count), 1e-3, kMaxRowSumTolerance);
}

// True if |sum - 1| <= tolerance, up to the rounding of binary numbers, so that decimal numbers
// that sum to exactly 1 +- tolerance are accepted. A sum of m doubles near 1, each a rounded
// decimal number, is off by less than (m + 2) 2^-52. In single precision the rounded numbers may be
// off by 6e-8 together, which is below 1e-4 of the smallest default tolerance.
[[nodiscard]] inline bool IsRowSum(double sum, std::size_t class_count, double tolerance) noexcept {
  const double rounding =
      static_cast<double>(class_count + 2) * std::numeric_limits<double>::epsilon();
  return std::abs(sum - 1) <= tolerance * (1 + 1e-4) + rounding;
}

// Six digits, or as many as identify the value if it would look like 0 or 1 otherwise: 1 + 2^-52 is
// not shown as 1.
[[nodiscard]] inline std::string Exact(double value) {
  const bool near_limit = std::abs(value) < 1e-5 || std::abs(value - 1) < 1e-5;
  std::array<char, 32> text;
  char* const last = text.data() + text.size();
  const auto end = near_limit
                       ? std::to_chars(text.data(), last, value)
                       : std::to_chars(text.data(), last, value, std::chars_format::general, 6);
  return {text.data(), end.ptr};
}

// What to do about a sum that is a little off, and about sums below and above 1 that no tolerance
// allows. The values of the latter two are no probabilities of classes, and dividing them by their
// sum would hide that.
inline constexpr char kRowSumAdvice[] =
    ": normalise the rows (calibctl --renormalise), or declare a larger row_sum_tolerance";
inline constexpr char kNoSumAdvice[] =
    ": the probabilities of classes sum to 1, so one may be missing; if the classes do not exclude "
    "each other, they are several labels (calibctl evaluate-labels, calibctl model create "
    "--labels)";
inline constexpr char kLargeSumAdvice[] =
    ": the probabilities of classes sum to 1, so one value may be no probability of a class; if "
    "the classes do not exclude each other, they are several labels (calibctl evaluate-labels, "
    "calibctl model create --labels)";

// Describes a sum that IsRowSum rejects: how far it is off, and then kRowSumAdvice, or if it is off
// by more than kMaxRowSumTolerance, kNoSumAdvice or kLargeSumAdvice.
[[nodiscard]] inline std::string DescribeRowSum(double sum, double tolerance) {
  const auto digits = [](double value, int count) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                   std::chars_format::general, count);
    return std::string(text.data(), end.ptr);
  };
  const double off = std::abs(sum - 1);
  return "sums to " + digits(sum, 10) + ", off by " + digits(off, 4) +
         ", more than the tolerance of " + Exact(tolerance) +
         (off <= kMaxRowSumTolerance ? kRowSumAdvice
          : sum < 1                  ? kNoSumAdvice
                                     : kLargeSumAdvice);
}

}  // namespace calibd

#endif  // CALIBD_CORE_ROW_SUM_H_
