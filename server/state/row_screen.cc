#include "server/state/row_screen.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace calibd::server {
namespace {

constexpr std::size_t kMostRows = 2048;
// Single-precision numbers are off what was printed by 6e-8 of it.
constexpr double kRelativeError = 1e-7;

std::size_t RowsOf(std::size_t window) { return std::min(window, kMostRows); }

// The least number of decimal digits that all have, up to RowScreen::kMostDigits + 1.
std::uint8_t DigitsOf(std::span<const double> row) noexcept {
  static constexpr std::array<double, RowScreen::kMostDigits + 1> kScales{1,   1e1, 1e2, 1e3,
                                                                          1e4, 1e5, 1e6};
  std::size_t digits = 0;
  for (const double value : row) {
    while (digits < kScales.size()) {
      const double scaled = value * kScales[digits];
      if (std::abs(scaled - std::nearbyint(scaled)) <= kRelativeError * scaled) {
        break;
      }
      ++digits;
    }
  }
  return static_cast<std::uint8_t>(digits);
}

}  // namespace

RowScreen::RowScreen(std::size_t window) : rows_(RowsOf(window)) {
  // Twice what there may be: where erased ones fill it, it is cleared in place, and nothing is
  // allocated later.
  hashes_.reserve(2 * (rows_.size() + 1));
}

void RowScreen::Count(const Row& row, std::int64_t sign) noexcept {
  counts_.rows += sign;
  counts_.duplicates += row.duplicate ? sign : 0;
  counts_.hard += row.digits == 0 ? sign : 0;
  for (std::size_t digits = std::max<std::size_t>(1, row.digits); digits <= kMostDigits; ++digits) {
    counts_.at_most_digits[digits - 1] += sign;
  }
}

void RowScreen::Add(const PredictionBatch& batch) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    Row& row = rows_[next_];
    if (size_ == rows_.size()) {
      Count(row, -1);
      const auto oldest = hashes_.find(row.hash);
      if (--oldest->second == 0) {
        hashes_.erase(oldest);
      }
    } else {
      ++size_;
    }
    const std::span<const double> g = batch.row(i);
    row.hash =
        XXH3_64bits_withSeed(g.data(), g.size_bytes(), static_cast<XXH64_hash_t>(batch.labels[i]));
    row.digits = DigitsOf(g);
    std::uint32_t& equal = hashes_[row.hash];
    row.duplicate = equal > 0 && row.digits > kFewDigits;
    ++equal;
    Count(row, 1);
    next_ = (next_ + 1) % rows_.size();
  }
}

std::size_t RowScreen::MaxMemory(std::size_t window) noexcept {
  // Slots of 17 bytes: at most 7/8 of 2^k - 1 are reserved, and so more than 7/16, for two a row.
  constexpr std::size_t kTableBytes = 80;
  return sizeof(RowScreen) + RowsOf(window) * (sizeof(Row) + kTableBytes);
}

}  // namespace calibd::server
