#include "server/state/row_screen.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>

namespace calibd::server {
namespace {

// Single-precision numbers are off what was printed by 6e-8 of it.
constexpr double kRelativeError = 1e-7;
constexpr std::uint64_t kHashMask = (std::uint64_t{1} << 60) - 1;

std::size_t RowsOf(std::size_t window) { return std::min(window, RowScreen::kMostRows); }
std::size_t SlotsOf(std::size_t rows) { return std::bit_ceil(2 * rows); }

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

RowScreen::RowScreen(std::size_t window) : rows_(RowsOf(window)), places_(SlotsOf(rows_.size())) {
  static_assert(sizeof(Row) == sizeof(std::uint64_t));
}

void RowScreen::CountDigits(const Row& row, std::int64_t sign) noexcept {
  counts_.digit_rows += sign;
  counts_.hard += row.digits == 0 ? sign : 0;
  for (std::size_t digits = std::max<std::size_t>(1, row.digits); digits <= kMostDigits; ++digits) {
    counts_.at_most_digits[digits - 1] += sign;
  }
}

std::size_t RowScreen::Find(std::uint64_t hash) const noexcept {
  std::size_t slot = hash & (places_.size() - 1);
  while (places_[slot] != 0 && rows_[places_[slot] - 1].hash != hash) {
    slot = (slot + 1) & (places_.size() - 1);
  }
  return slot;
}

void RowScreen::Erase(std::size_t slot) noexcept {
  const std::size_t mask = places_.size() - 1;
  // Whoever is further on than its hash says may not lie behind a free slot.
  for (std::size_t next = (slot + 1) & mask; places_[next] != 0; next = (next + 1) & mask) {
    const std::size_t home = rows_[places_[next] - 1].hash & mask;
    if (((next - home) & mask) >= ((next - slot) & mask)) {
      places_[slot] = places_[next];
      slot = next;
    }
  }
  places_[slot] = 0;
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
    // Before the oldest goes: a data set of as many rows that comes again is seen.
    row.duplicate = places_[Find(row.hash)] != 0 && row.digits > few_digits ? 1 : 0;
    const std::size_t digit_rows = std::min(rows_.size(), kMostDigitRows);
    if (size_ >= digit_rows) {
      CountDigits(rows_[(next_ + rows_.size() - digit_rows) % rows_.size()], -1);
    }
    if (size_ == rows_.size()) {
      counts_.duplicates -= rows_[next_].duplicate != 0 ? 1 : 0;
      const std::size_t oldest = Find(rows_[next_].hash);
      if (places_[oldest] == next_ + 1) {
        Erase(oldest);
      }
    } else {
      ++size_;
      ++counts_.rows;
    }
    rows_[next_] = row;
    places_[Find(row.hash)] = static_cast<std::uint32_t>(next_ + 1);
    counts_.duplicates += row.duplicate != 0 ? 1 : 0;
    CountDigits(row, 1);
    next_ = (next_ + 1) % rows_.size();
  }
}

std::size_t RowScreen::MaxMemory(std::size_t window) noexcept {
  return sizeof(RowScreen) + RowsOf(window) * sizeof(Row) +
         SlotsOf(RowsOf(window)) * sizeof(std::uint32_t);
}

}  // namespace calibd::server
