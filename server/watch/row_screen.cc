#include "server/watch/row_screen.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "absl/hash/hash.h"
#include "calibd/core/validation.h"
#include "server/watch/outcome_probability.h"

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
// Half of the buckets are empty.
std::size_t BucketsOf(std::size_t rows) { return 2 * std::bit_ceil(rows); }

// Those of the labels, or of the hashes of outcomes.
constexpr std::uint32_t kLabelBits = 0x1ffff;
constexpr unsigned kMarkBits = 15;

// The hashes of so many rows are computed together, so that their buckets are in the cache when
// they are needed.
constexpr std::size_t kRowsTogether = 8;

constexpr std::array<double, RowScreen::kMostDigits + 1> kScales{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};

// Returns the nearest integer of a value in [0, 2^51] like std::nearbyint, which is a call of a
// library.
double NearestInteger(double value) noexcept {
  constexpr double kShift = 0x1p52;
  return value + kShift - kShift;
}

// Returns the smallest number of decimal digits that suffices for all values, up to
// RowScreen::kMostDigits + 1.
std::uint8_t DigitsOf(std::span<const double> row) noexcept {
  std::size_t digits = 0;
  for (const double value : row) {
    while (digits < kScales.size()) {
      const double scaled = value * kScales[digits];
      if (std::abs(scaled - NearestInteger(scaled)) <= kRelativeError * scaled) break;
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
    : rows_(RowsOf(window)), buckets_(BucketsOf(rows_.size()), kNone), links_(rows_.size(), kNone) {
  static_assert(sizeof(Row) == 2 * sizeof(std::uint64_t));
  static_assert(kMostRows <= kNone && kMostRows <= 1U << 15);
  static_assert(kMaxClassCount <= 1U << 17);
}

bool RowScreen::Repeats::LabelsAgreeTooOften(double disagreement) const noexcept {
  const auto differ = static_cast<double>(differing);
  const double expected = disagreement * static_cast<double>(expected_differing) / kExpectedUnits;
  if (differ > expected / 4) return false;
  const double log_ratio = differing == 0 ? 0 : std::log(differ / expected);
  return expected - differ + differ * log_ratio >= kLogLevel;
}

bool RowScreen::Repeats::FollowTheOrder(double disagreement) const noexcept {
  return aligned >= std::max(kLeastAligned, rows / 2) &&
         4 * kExpectedUnits * static_cast<double>(differing) <=
             disagreement * static_cast<double>(expected_differing);
}

std::int64_t RowScreen::Counts::Duplicates(double disagreement) const noexcept {
  if (repeats.LabelsAgreeTooOften(disagreement) && repeats.FollowTheOrder(disagreement)) {
    return repeats.rows - repeats.differing;
  }
  return rare_repeats.LabelsAgreeTooOften(disagreement) || rare_repeats.FollowTheOrder(disagreement)
             ? rare_repeats.rows - rare_repeats.differing
             : 0;
}

void RowScreen::Count(const Row& row, bool aligned, std::int64_t sign, Repeats& repeats) noexcept {
  repeats.rows += sign;
  repeats.differing += row.differs != 0 ? sign : 0;
  repeats.expected_differing += sign * static_cast<std::int64_t>(row.expected);
  repeats.aligned += aligned ? sign : 0;
}

void RowScreen::CountRepeat(const Row& row, std::int64_t sign) noexcept {
  if (row.repeat != 0) Count(row, row.aligned != 0, sign, counts_.repeats);
  CountRareRepeat(row, sign);
}

void RowScreen::CountRareRepeat(const Row& row, std::int64_t sign) noexcept {
  const bool aligned = row.aligned != 0 && row.second != 0;
  if (row.rare != 0) Count(row, aligned, sign, counts_.rare_repeats);
}

void RowScreen::SetRare(std::size_t newest, bool rare) noexcept {
  std::size_t place = newest;
  for (std::size_t left = rows_[newest].others + std::size_t{1}; left > 0; --left) {
    Row& row = rows_[place];
    CountRareRepeat(row, -1);
    row.rare = rare ? row.repeat : 0;
    CountRareRepeat(row, 1);
    place = row.earlier;
  }
}

void RowScreen::CountMark(const Row& row, std::int64_t sign) noexcept {
  counts_.digit_rows += sign;
  if (numbers_) {
    counts_.outcomes_as_forecast += (row.mark & kAsForecast) != 0 ? sign : 0;
    counts_.outcomes_as_before += (row.mark & kAsBefore) != 0 ? sign : 0;
    return;
  }
  counts_.certain_rows += (row.mark & kDigits) == 0 ? sign : 0;
  counts_.inexact_sums += (row.mark & kInexactSum) != 0 ? sign : 0;
  for (std::size_t digits = std::max<std::size_t>(1, row.mark & kDigits); digits <= kMostDigits;
       ++digits) {
    counts_.at_most_digits[digits - 1] += sign;
  }
}

std::size_t RowScreen::After(std::size_t place, std::size_t steps) const noexcept {
  // A division would take as long as the rest.
  const std::size_t sum = place + steps;
  return sum < rows_.size() ? sum : sum - rows_.size();
}

std::uint16_t& RowScreen::BucketOf(std::uint64_t hash) noexcept {
  // Hashed again with the seed of this process, so that no client can fill a single bucket.
  return buckets_[absl::HashOf(hash) & (buckets_.size() - 1)];
}

std::uint16_t& RowScreen::Find(std::uint64_t hash) noexcept {
  std::uint16_t* link = &BucketOf(hash);
  while (*link != kNone && rows_[*link].hash != hash) link = &links_[*link];
  return *link;
}

template <typename Equals>
RowScreen::Row RowScreen::Compare(std::uint64_t hash, std::uint32_t label,
                                  const Equals& equals) noexcept {
  Row row;
  row.hash = hash;
  row.label = label & kLabelBits;
  std::uint16_t& place = Find(hash);
  if (place == kNone) return row;
  const Row& earlier = rows_[place];
  const std::size_t distance = After(next_, rows_.size() - place - 1) + 1;
  row.repeat = 1;
  row.differs = earlier.label != row.label ? 1 : 0;
  row.expected =
      static_cast<std::uint8_t>(kExpectedUnits * (1 - std::min(1.0, equals(earlier.label))));
  row.aligned = row.differs == 0 && distance > 1 && distance == distance_ ? 1 : 0;
  row.second = earlier.others == 0 ? 1 : 0;
  // The oldest row, which leaves now, may be one of them.
  const bool replaces = size_ == rows_.size() && rows_[next_].hash == hash;
  row.others = (earlier.others + (replaces ? 0U : 1U)) & 0x7fffU;
  row.rare = row.others < kRare ? 1 : 0;
  row.earlier = place & 0x7fffU;
  distance_ = distance;
  place = links_[place];
  return row;
}

void RowScreen::RemoveOldest() noexcept {
  CountRepeat(rows_[next_], -1);
  const std::uint64_t hash = rows_[next_].hash;
  // Found by its index, because the hashes of the rows before it are rarely in the cache.
  std::uint16_t* link = &BucketOf(hash);
  while (*link != kNone && *link != next_) link = &links_[*link];
  if (*link == next_) {
    *link = links_[next_];
    return;
  }
  const std::uint16_t newest = Find(hash);
  if (newest != kNone && --rows_[newest].others == kRare - 1) SetRare(newest, true);
}

void RowScreen::Append(const Row& row) noexcept {
  const std::size_t digit_rows = std::min(rows_.size(), kMostDigitRows);
  if (size_ >= digit_rows) CountMark(rows_[After(next_, rows_.size() - digit_rows)], -1);
  if (size_ == rows_.size()) {
    RemoveOldest();
  } else {
    ++size_;
    ++counts_.rows;
  }
  rows_[next_] = row;
  std::uint16_t& bucket = BucketOf(row.hash);
  links_[next_] = std::exchange(bucket, static_cast<std::uint16_t>(next_));
  CountRepeat(row, 1);
  CountMark(row, 1);
  if (row.others == kRare) SetRare(next_, false);
  next_ = After(next_, 1);
}

void RowScreen::Add(const PredictionBatch& batch) noexcept {
  std::array<std::uint64_t, kRowsTogether> hashes{};
  for (std::size_t first = 0; first < batch.size(); first += kRowsTogether) {
    const std::size_t end = std::min(first + kRowsTogether, batch.size());
    for (std::size_t i = first; i < end; ++i) {
      const std::span<const double> row = batch.row(i);
      hashes[i - first] = XXH3_64bits(row.data(), row.size_bytes());
      __builtin_prefetch(&BucketOf(hashes[i - first]));
      __builtin_prefetch(&BucketOf(rows_[After(next_, std::min(i - first, rows_.size()))].hash));
    }
    for (std::size_t i = first; i < end; ++i) {
      const std::uint16_t newest = BucketOf(hashes[i - first]);
      if (newest != kNone) __builtin_prefetch(&rows_[newest]);
    }
    for (std::size_t i = first; i < end; ++i) {
      const std::span<const double> g = batch.row(i);
      // Before the oldest row is removed, so that a repeated data set of this many rows is
      // detected.
      Row row = Compare(hashes[i - first], static_cast<std::uint32_t>(batch.labels[i]),
                        [g](std::size_t label) { return g[label]; });
      const unsigned digits = DigitsOf(g);
      row.mark = (digits | (HasInexactSum(g, digits) ? kInexactSum : 0U)) & kMarkBits;
      Append(row);
    }
  }
}

void RowScreen::Add(const NumberForecastKind& kind, const NumberForecastBatch& batch) noexcept {
  numbers_ = true;
  const std::size_t width = ForecastWidth(kind);
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> forecast = batch.forecasts.subspan(i * width, width);
    // Adding 0 turns -0 into 0.
    const double outcome = batch.outcomes[i] + 0.0;
    const std::uint64_t hash = XXH3_64bits(forecast.data(), forecast.size_bytes());
    const bool as_forecast = outcome == ForecastLocation(kind, forecast);
    const bool as_before =
        size_ > 0 && outcome == last_outcome_ && hash != rows_[After(next_, rows_.size() - 1)].hash;
    Row row = Compare(hash, static_cast<std::uint32_t>(XXH3_64bits(&outcome, sizeof(outcome))),
                      [&](std::size_t /*earlier*/) {
                        return as_before ? 1 : ProbabilityOfOutcome(kind, forecast, outcome);
                      });
    if (2.0 * static_cast<double>(row.expected) <= kExpectedUnits) row.aligned = 0;
    if ((as_forecast || as_before) && ProbabilityOfOutcome(kind, forecast, outcome) <= kSurprise) {
      row.mark = ((as_forecast ? kAsForecast : 0U) | (as_before ? kAsBefore : 0U)) & kMarkBits;
    }
    last_outcome_ = outcome;
    Append(row);
  }
}

std::size_t RowScreen::MaxMemory(std::size_t window) noexcept {
  const std::size_t rows = RowsOf(window);
  return sizeof(RowScreen) + rows * (sizeof(Row) + sizeof(std::uint16_t)) +
         BucketsOf(rows) * sizeof(std::uint16_t);
}

}  // namespace calibd::server
