#include "calibd/core/validation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "calibd/core/row_sum.h"

namespace calibd {
namespace {

std::optional<Violation> CheckShape(const PredictionBatch& batch) {
  const std::size_t m = batch.class_count;
  if (m < kMinClassCount || m > kMaxClassCount) {
    return Violation{"class_count",
                     absl::StrCat("is ", m, ", expected ", kMinClassCount, "..", kMaxClassCount)};
  }
  if (batch.labels.empty()) return Violation{"labels", "is empty, expected at least 1 row"};
  // Uses division, because n * m could overflow.
  if (batch.probabilities.size() % m != 0 || batch.probabilities.size() / m != batch.size()) {
    return Violation{"probabilities",
                     absl::StrCat("has ", batch.probabilities.size(), " values, expected ",
                                  batch.size(), " labels x ", m, " classes")};
  }
  return std::nullopt;
}

std::optional<Violation> CheckRow(const PredictionBatch& batch, std::size_t i, double tolerance) {
  const std::span<const double> g = batch.row(i);
  double sum = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    // Written so that NaN fails too.
    if (!(g[k] >= 0 && g[k] <= 1)) {
      return Violation{"probabilities",
                       absl::StrCat("is ", Exact(g[k]), ", expected a number in [0, 1]"), i, k};
    }
    sum += g[k];
  }
  if (!IsRowSum(sum, g.size(), tolerance)) {
    return Violation{"probabilities", DescribeRowSum(sum, tolerance), i};
  }
  const std::int32_t y = batch.labels[i];
  if (y < 0 || static_cast<std::size_t>(y) >= batch.class_count) {
    return Violation{"labels", absl::StrCat("is ", y, ", expected [0, ", batch.class_count, ")"),
                     i};
  }
  return std::nullopt;
}

// A fast check of many rows at a time. True only when all rows are valid. It sums each row in the
// same order as CheckRow, so that both decide alike, except that it returns false for a row with
// -0.
bool AreSurelyValid(const PredictionBatch& batch, double tolerance) {
  const std::size_t m = batch.class_count;
  const std::span<const double> values = batch.probabilities;
  // For a value in [0, 1] the highest bit is clear both in its bits and in the sum of its bits and
  // this constant. For every other value, and for -0, the highest bit is set in at least one of the
  // two.
  constexpr std::uint64_t kOverOne =
      (std::uint64_t{1} << 63) - 1 - std::bit_cast<std::uint64_t>(1.0);
  std::uint64_t seen = 0;
  for (const double value : values) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    seen |= bits | (bits + kOverOne);
  }
  bool valid = seen >> 63 == 0;
  // Several rows are summed together, since their chains of additions are independent.
  constexpr std::size_t kTogether = 8;
  std::size_t row = 0;
  for (; row + kTogether <= batch.size(); row += kTogether) {
    const double* const first = &values[row * m];
    double sums[kTogether] = {};
    for (std::size_t k = 0; k < m; ++k) {
      for (std::size_t r = 0; r < kTogether; ++r) sums[r] += first[r * m + k];
    }
    for (const double sum : sums) valid &= IsRowSum(sum, m, tolerance);
  }
  for (; row < batch.size(); ++row) {
    double sum = 0;
    for (const double value : batch.row(row)) sum += value;
    valid &= IsRowSum(sum, m, tolerance);
  }
  std::uint32_t largest = 0;
  for (const std::int32_t y : batch.labels) {
    largest = std::max(largest, static_cast<std::uint32_t>(y));
  }
  return valid && largest < m;
}

}  // namespace

std::vector<Violation> FindViolations(const PredictionBatch& batch, double row_sum_tolerance) {
  if (row_sum_tolerance == 0) row_sum_tolerance = DefaultRowSumTolerance(batch.class_count);
  if (auto shape = CheckShape(batch)) return {*std::move(shape)};
  if (AreSurelyValid(batch, row_sum_tolerance)) return {};
  std::vector<Violation> violations;
  for (std::size_t i = 0; i < batch.size() && violations.size() < kMaxReportedViolations; ++i) {
    if (auto row = CheckRow(batch, i, row_sum_tolerance)) violations.push_back(*std::move(row));
  }
  return violations;
}

absl::Status ValidateBatch(const PredictionBatch& batch, double row_sum_tolerance) {
  const std::vector<Violation> violations = FindViolations(batch, row_sum_tolerance);
  if (violations.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(DescribeViolations(violations));
}

double Softmax(std::span<double> logits) noexcept {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double& value : logits) {
    value = std::exp(value - max);
    sum += value;
  }
  for (double& value : logits) value /= sum;
  return max + std::log(sum);
}

std::vector<Violation> SoftmaxRows(std::span<double> logits, std::size_t class_count) {
  std::vector<Violation> violations;
  std::size_t bad_row = logits.size();
  for (std::size_t k = 0; k < logits.size() && violations.size() < kMaxReportedViolations; ++k) {
    const std::size_t row = k / class_count;
    if (std::isfinite(logits[k]) || row == bad_row) continue;
    bad_row = row;
    violations.push_back({"logits", absl::StrCat("is ", logits[k], ", expected a finite number"),
                          row, k % class_count});
  }
  if (!violations.empty()) return violations;
  for (std::size_t begin = 0; begin + class_count <= logits.size(); begin += class_count) {
    Softmax(logits.subspan(begin, class_count));
  }
  return violations;
}

}  // namespace calibd
