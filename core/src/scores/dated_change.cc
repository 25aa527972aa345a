#include "calibd/core/dated_change.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "calibd/core/error_interval.h"

namespace calibd {
namespace {

// How far Lambda may be below its maximum within the range of a change.
constexpr double kDrop = 3;
// The smallest variance of deviations: that of a probability of .002 or .998.
constexpr double kLeastDeviationVariance = .002;
// How many blocks the stretch before a change may be extended.
constexpr std::size_t kMostExtension = 128;

using Sums = DeviationBlocks::Sums;

// The boundary between two blocks.
struct Boundary {
  double row;
  Sums sums;
};

double Mean(const Boundary& start, const Boundary& end) noexcept {
  return (end.sums.deviation - start.sums.deviation) / (end.row - start.row);
}

// log(1 / level) of each side of the intervals that begin at this boundary.
double LogInverseLevel(const Boundary& start, double alpha) noexcept {
  const double j = start.row / static_cast<double>(DeviationBlocks::kSmallestBlock) + 1;
  return std::log(2 / alpha) + std::log(j * (j + 1));
}

double Squares(const Boundary& start, const Boundary& end) noexcept {
  // Rounding may make the difference of two sums negative.
  return std::max(0.0, end.sums.squares - start.sums.squares);
}

double Radius(const Boundary& start, const Boundary& end, double log_inverse_level) noexcept {
  return MixtureBoundary(Squares(start, end), log_inverse_level) / (end.row - start.row);
}

double Variance(const Boundary& start, const Boundary& end) noexcept {
  const double mean = Mean(start, end);
  return std::max(kLeastDeviationVariance,
                  Squares(start, end) / (end.row - start.row) - mean * mean);
}

// The logarithm of the likelihood ratio of a change of the mean at `k`, for Normal deviations.
double Lambda(const Boundary& start, const Boundary& k, const Boundary& end) noexcept {
  const double n1 = k.row - start.row;
  const double n2 = end.row - k.row;
  const double v = (n1 * Variance(start, k) + n2 * Variance(k, end)) / (n1 + n2);
  const double difference = Mean(start, k) - Mean(k, end);
  return difference * difference / (2 * v * (1 / n1 + 1 / n2));
}

// Finds parts of stretches with one end that differ.
class Splitter {
 public:
  Splitter(std::span<const Boundary> boundaries, std::size_t end, double alpha)
      : boundaries_(boundaries), end_(end), alpha_(alpha) {
    for (std::size_t k = 0; k < end; ++k) {
      const double level = LogInverseLevel(boundaries[k], alpha);
      means_.push_back(Mean(boundaries[k], boundaries[end]));
      radii_.push_back(Radius(boundaries[k], boundaries[end], level));
    }
  }

  // Whether the parts (start, k] and (k, end] differ for some k.
  [[nodiscard]] bool Splits(std::size_t start) const noexcept {
    for (std::size_t k = start + 1; k < end_; ++k) {
      if (SplitsAt(start, k)) return true;
    }
    return false;
  }
  // Whether the parts (start, k] and (k, end] differ: their intervals are apart.
  [[nodiscard]] bool SplitsAt(std::size_t start, std::size_t k) const noexcept {
    const Boundary& first = boundaries_[start];
    const Boundary& middle = boundaries_[k];
    const double level = LogInverseLevel(first, alpha_);
    const double room = std::abs(Mean(first, middle) - means_[k]) - radii_[k];
    // No mixture boundary is below the best fixed rate, sqrt(2 V K).
    const double n = middle.row - first.row;
    if (room <= 0 || room * room * n * n <= 2 * Squares(first, middle) * level) return false;
    return room > Radius(first, middle, level);
  }

 private:
  std::span<const Boundary> boundaries_;
  std::size_t end_;
  double alpha_;
  // Of the stretches from each boundary to the end.
  std::vector<double> means_;
  std::vector<double> radii_;
};

}  // namespace

DeviationBlocks::DeviationBlocks(State state)
    : rows_(state.rows),
      block_rows_(state.block_rows),
      total_(state.total),
      ends_(std::make_shared<std::vector<Sums>>(std::move(state.ends))) {}

void DeviationBlocks::Add(double x) {
  ++rows_;
  total_.deviation += x;
  total_.squares += x * x;
  // block_rows_ is a power of two: a division would take longer than the rest.
  if ((rows_ & (block_rows_ - 1)) != 0) return;
  auto ends = std::make_shared<std::vector<Sums>>();
  ends->reserve(ends_->size() + 1);
  *ends = *ends_;
  ends->push_back(total_);
  if (ends->size() == kMaxBlocks) {
    for (std::size_t i = 0; i < kMaxBlocks / 2; ++i) (*ends)[i] = (*ends)[2 * i + 1];
    ends->resize(kMaxBlocks / 2);
    block_rows_ *= 2;
  }
  ends_ = std::move(ends);
}

DeviationBlocks::Sums DeviationBlocks::SumsAt(std::int64_t row) const noexcept {
  if (row == 0) return {};
  if (row == rows_) return total_;
  return (*ends_)[static_cast<std::size_t>(row / block_rows_) - 1];
}

MeanDeviation DeviationBlocks::Mean(std::int64_t start, std::int64_t end, double alpha) const {
  const Boundary from{static_cast<double>(start), SumsAt(start)};
  const Boundary to{static_cast<double>(end), SumsAt(end)};
  return {.mean = calibd::Mean(from, to), .radius = Radius(from, to, LogInverseLevel(from, alpha))};
}

std::optional<DatedChange> DeviationBlocks::Find(double alpha) const {
  // The rows after the last whole block belong to it.
  std::vector<Boundary> boundaries = {{.row = 0, .sums = {}}};
  for (std::size_t i = 0; i + 1 < ends_->size(); ++i) {
    const auto row = static_cast<double>(static_cast<std::int64_t>(i + 1) * block_rows_);
    boundaries.push_back({.row = row, .sums = (*ends_)[i]});
  }
  if (ends_->empty()) return std::nullopt;
  boundaries.push_back({.row = static_cast<double>(rows_), .sums = total_});

  const std::size_t end = boundaries.size() - 1;
  const Splitter newest(boundaries, end, alpha);
  std::size_t start = end;
  do {
    if (start == 0) return std::nullopt;
    --start;
  } while (!newest.Splits(start));

  const auto lambda = [&](std::size_t k) {
    return Lambda(boundaries[start], boundaries[k], boundaries[end]);
  };
  // Only where the parts differ: they are what is said of the change. Unset if they do nowhere.
  const auto most_likely = [&] {
    std::optional<std::size_t> best;
    for (std::size_t k = start + 1; k < end; ++k) {
      if (!newest.SplitsAt(start, k)) continue;
      if (!best.has_value() || lambda(k) > lambda(*best)) best = k;
    }
    return best;
  };
  const std::size_t newest_start = start;
  std::size_t best = *most_likely();
  const Splitter before(boundaries, best, alpha);
  for (std::size_t i = 0; i < kMostExtension && start > 0 && !before.Splits(start - 1); ++i) {
    --start;
  }
  if (const auto of_longer = most_likely()) {
    best = *of_longer;
  } else {
    start = newest_start;
  }
  const double least = lambda(best) - kDrop;
  std::size_t first = best;
  std::size_t last = best;
  for (std::size_t k = start + 1; k < end; ++k) {
    if (lambda(k) < least) continue;
    first = std::min(first, k);
    last = std::max(last, k);
  }
  const auto row = [&](std::size_t k) { return static_cast<std::int64_t>(boundaries[k].row); };
  return DatedChange{.from = row(first - 1),
                     .to = row(last + 1),
                     .best = row(best),
                     .before_from = row(start),
                     .before = Mean(row(start), row(best), alpha),
                     .after = Mean(row(best), row(end), alpha)};
}

std::vector<EventChange> FindChanges(std::span<const DeviationBlocks> events) {
  std::vector<EventChange> changes;
  const double level = kChangeLevel / static_cast<double>(events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (const auto change = events[i].Find(level)) changes.push_back({i, *change});
  }
  return changes;
}

}  // namespace calibd
