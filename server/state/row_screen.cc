#include "server/state/row_screen.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace calibd::server {
namespace {

// A single-precision number differs from its decimal form by up to 6e-8 of its value.
constexpr double kRelativeError = 1e-7;
constexpr std::uint64_t kHashMask = (std::uint64_t{1} << 60) - 1;

std::size_t RowsOf(std::size_t window) { return std::min(window, RowScreen::kMostRows); }
// Twice the largest number of entries: when tombstones fill the table, it rehashes in place instead
// of allocating, so Add never allocates.
std::size_t ReservedOf(std::size_t rows) { return 2 * (rows + 1); }

// Returns the smallest number of decimal digits that suffices for all values, up to
// RowScreen::kMostDigits + 1.
std::uint8_t DigitsOf(std::span<const double> row) noexcept {
  static constexpr std::array<double, RowScreen::kMostDigits + 1> kScales{1,   1e1, 1e2, 1e3,
                                                                          1e4, 1e5, 1e6};
  std::size_t digits = 0;
  for (const double value : row) {
    while (digits < kScales.size()) {
      const double scaled = value * kScales[digits];
      if (std::abs(scaled - std::nearbyint(scaled)) <= kRelativeError * scaled) break;
      ++digits;
    }
  }
  return static_cast<std::uint8_t>(digits);
}

}  // namespace

RowScreen::RowScreen(std::size_t window)
    : rows_(RowsOf(window)), places_(0, PlaceHash{rows_.data()}, PlaceEqual{rows_.data()}) {
  static_assert(sizeof(Row) == sizeof(std::uint64_t));
  places_.reserve(ReservedOf(rows_.size()));
}

void RowScreen::CountDigits(const Row& row, std::int64_t sign) noexcept {
  counts_.digit_rows += sign;
  counts_.hard += row.digits == 0 ? sign : 0;
  for (std::size_t digits = std::max<std::size_t>(1, row.digits); digits <= kMostDigits; ++digits) {
    counts_.at_most_digits[digits - 1] += sign;
  }
}

void RowScreen::Add(const PredictionBatch& batch) noexcept {
  const std::size_t few_digits = batch.class_count == 2 ? kFewDigitsOfTwoClasses : kFewDigits;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> g = batch.row(i);
    Row row;
    row.hash =
        XXH3_64bits_withSeed(g.data(), g.size_bytes(), static_cast<XXH64_hash_t>(batch.labels[i])) &
        kHashMask;
    row.digits = DigitsOf(g) & 7U;
    // Before the oldest row is removed, so that a repeated data set of this many rows is detected.
    const auto equal = places_.find(std::uint64_t{row.hash});
    row.duplicate = equal != places_.end() && row.digits > few_digits ? 1 : 0;
    if (equal != places_.end()) places_.erase(equal);
    const std::size_t digit_rows = std::min(rows_.size(), kMostDigitRows);
    if (size_ >= digit_rows) {
      CountDigits(rows_[(next_ + rows_.size() - digit_rows) % rows_.size()], -1);
    }
    if (size_ == rows_.size()) {
      counts_.duplicates -= rows_[next_].duplicate != 0 ? 1 : 0;
      const auto oldest = places_.find(std::uint64_t{rows_[next_].hash});
      if (oldest != places_.end() && *oldest == next_) places_.erase(oldest);
    } else {
      ++size_;
      ++counts_.rows;
    }
    rows_[next_] = row;
    places_.insert(static_cast<std::uint32_t>(next_));
    counts_.duplicates += row.duplicate != 0 ? 1 : 0;
    CountDigits(row, 1);
    next_ = (next_ + 1) % rows_.size();
  }
}

std::size_t RowScreen::MaxMemory(std::size_t window) noexcept {
  // A slot has a control byte, and at most 7/8 of the slots are used.
  constexpr std::size_t kSlotBytes = sizeof(std::uint32_t) + 1;
  return sizeof(RowScreen) + RowsOf(window) * sizeof(Row) +
         std::bit_ceil(ReservedOf(RowsOf(window)) * 8 / 7 + 1) * kSlotBytes;
}

}  // namespace calibd::server
