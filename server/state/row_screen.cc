#include "server/state/row_screen.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>

namespace calibd::server {
namespace {

// A single-precision number differs from its decimal form by up to 6e-8 of its value.
constexpr double kRelativeError = 1e-7;
// Units of Repeats::expected_differing.
constexpr double kExpectedUnits = 255;
// Minimum number of aligned repeats, and the logarithm of the level: see Repeats.
constexpr std::int64_t kLeastAligned = 10;
constexpr double kLogLevel = 9.21;

std::size_t RowsOf(std::size_t window) { return std::min(window, RowScreen::kMostRows); }
// Twice the largest number of entries: when tombstones fill the table, it rehashes in place instead
// of allocating, so Add never allocates.
std::size_t ReservedOf(std::size_t rows) { return 2 * (rows + 1); }

constexpr std::array<double, RowScreen::kMostDigits + 1> kScales{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};

// Returns the smallest number of decimal digits that suffices for all values, up to
// RowScreen::kMostDigits + 1.
std::uint8_t DigitsOf(std::span<const double> row) noexcept {
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

// digits: those of the row. The sum of single-precision numbers differs by less than half a unit.
bool HasInexactSum(std::span<const double> row, std::size_t digits) noexcept {
  return digits <= RowScreen::kMostDigits &&
         std::abs(std::accumulate(row.begin(), row.end(), 0.0) - 1) * 2 * kScales[digits] >= 1;
}

}  // namespace

RowScreen::RowScreen(std::size_t window)
    : rows_(RowsOf(window)), places_(0, PlaceHash{rows_.data()}, PlaceEqual{rows_.data()}) {
  static_assert(sizeof(Row) == 2 * sizeof(std::uint64_t));
  places_.reserve(ReservedOf(rows_.size()));
}

bool RowScreen::Repeats::LabelsAgreeTooOften() const noexcept {
  const auto differ = static_cast<double>(differing);
  const double expected = static_cast<double>(expected_differing) / kExpectedUnits;
  if (differ > expected / 4) return false;
  const double log_ratio = differing == 0 ? 0 : std::log(differ / expected);
  return expected - differ + differ * log_ratio >= kLogLevel;
}

bool RowScreen::Repeats::FollowTheOrder() const noexcept {
  return aligned >= std::max(kLeastAligned, rows / 2) &&
         4 * kExpectedUnits * static_cast<double>(differing) <=
             static_cast<double>(expected_differing);
}

std::int64_t RowScreen::Counts::Duplicates() const noexcept {
  if (repeats.LabelsAgreeTooOften() && repeats.FollowTheOrder()) {
    return repeats.rows - repeats.differing;
  }
  return rare_repeats.LabelsAgreeTooOften() || rare_repeats.FollowTheOrder()
             ? rare_repeats.rows - rare_repeats.differing
             : 0;
}

void RowScreen::CountRepeat(const Row& row, std::int64_t sign) noexcept {
  const auto count = [&](Repeats& repeats, bool aligned) {
    repeats.rows += sign;
    repeats.differing += row.differs != 0 ? sign : 0;
    repeats.expected_differing += sign * row.expected;
    repeats.aligned += aligned ? sign : 0;
  };
  if (row.repeat != 0) count(counts_.repeats, row.aligned != 0);
  if (row.rare != 0) count(counts_.rare_repeats, row.aligned != 0 && row.second != 0);
}

void RowScreen::CountDigits(const Row& row, std::int64_t sign) noexcept {
  counts_.digit_rows += sign;
  counts_.inexact_sums += row.inexact_sum != 0 ? sign : 0;
  for (std::size_t digits = std::max<std::size_t>(1, row.digits); digits <= kMostDigits; ++digits) {
    counts_.at_most_digits[digits - 1] += sign;
  }
}

RowScreen::Row RowScreen::Compare(std::span<const double> probabilities,
                                  std::int32_t label) noexcept {
  Row row;
  row.hash = XXH3_64bits(probabilities.data(), probabilities.size_bytes());
  row.label = static_cast<std::uint32_t>(label) & 0xfffffU;
  const auto place = places_.find(row.hash);
  if (place == places_.end()) return row;
  const Row& earlier = rows_[*place];
  const std::size_t distance = (next_ + rows_.size() - *place - 1) % rows_.size() + 1;
  row.repeat = 1;
  row.differs = earlier.label != row.label ? 1 : 0;
  row.expected =
      static_cast<std::uint8_t>(kExpectedUnits * (1 - std::min(1.0, probabilities[earlier.label])));
  row.aligned = row.differs == 0 && distance > 1 && distance == distance_ ? 1 : 0;
  row.occurrences = static_cast<std::uint16_t>(earlier.occurrences + 1);
  row.rare = row.occurrences <= kRare ? 1 : 0;
  row.second = row.occurrences == 2 ? 1 : 0;
  distance_ = distance;
  places_.erase(place);
  return row;
}

void RowScreen::RemoveOldest() noexcept {
  CountRepeat(rows_[next_], -1);
  const auto place = places_.find(rows_[next_].hash);
  if (place == places_.end()) return;
  if (*place == next_) {
    places_.erase(place);
  } else {
    --rows_[*place].occurrences;
  }
}

void RowScreen::Add(const PredictionBatch& batch) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    // Before the oldest row is removed, so that a repeated data set of this many rows is detected.
    Row row = Compare(batch.row(i), batch.labels[i]);
    row.digits = DigitsOf(batch.row(i)) & 7U;
    row.inexact_sum = HasInexactSum(batch.row(i), row.digits) ? 1 : 0;
    const std::size_t digit_rows = std::min(rows_.size(), kMostDigitRows);
    if (size_ >= digit_rows) {
      CountDigits(rows_[(next_ + rows_.size() - digit_rows) % rows_.size()], -1);
    }
    if (size_ == rows_.size()) {
      if (row.repeat != 0 && rows_[next_].hash == row.hash) --row.occurrences;
      RemoveOldest();
    } else {
      ++size_;
      ++counts_.rows;
    }
    rows_[next_] = row;
    places_.insert(static_cast<std::uint32_t>(next_));
    CountRepeat(row, 1);
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
