#ifndef CALIBD_CORE_NEWEST_STRETCH_H_
#define CALIBD_CORE_NEWEST_STRETCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "calibd/core/error_interval.h"

namespace calibd {

// How far off the newest observations of a stream are, and whether an error that was over its limit
// is within it again.
//
// The sums of a stream are kept at some of the observation numbers that are multiples of 1024,
// which are the starts of stretches: the stretch (s, t] holds the observations s + 1 to t, and its
// sums are the difference of the sums at t and at s. Which starts are kept, and which stretch is
// shown, depends on observation numbers alone and never on data. So the interval of the stretch
// (s, t] is that of a stream that begins after s: it holds with 95 % at all t at once, however
// often one looks (kSingleErrorLevels). The intervals of several stretches need not hold together.
inline constexpr std::int64_t kStretchSpacing = 1024;
// Observations of the shortest stretch.
inline constexpr std::int64_t kLeastStretch = 1000;

// The start s of the stretch that is shown after `count` >= 0 observations: the newest multiple of
// 1024 that is at most count - 1000, so that the stretch has 1000 to 2023 observations. Unset for
// fewer than 1000.
[[nodiscard]] std::optional<std::int64_t> NewestStart(std::int64_t count) noexcept;

// The level a_s of the stretch that begins after `start`, for the statement that an error which was
// found to be over its limit at observation `alarm` is within it again:
//   a_s = .05 / (j (j + 1)),  j = number of multiples of 1024 in [alarm, start].
// The levels of all starts after an alarm add up to .05. `alarm` is a stopping time, and each
// interval is valid at all times at once. So after one alarm, the probability that an interval at
// its level a_s is ever wrong, for any start and at any time, is at most .05.
//
// alarm: >= 0. start: a multiple of 1024 that is at least `alarm`.
[[nodiscard]] double RecoveryLevel(std::int64_t alarm, std::int64_t start) noexcept;

// The ends of the interval of the error of a stretch, as probabilities; of several events, the
// largest lower and the largest upper end.
struct ErrorEnds {
  double lower = 0;
  double upper = 1;
};

// The start since which the error is within its limit again. Of the starts s >= alarm whose
// stretches have at least 1000 observations, one is within the limit if the upper end of (s, count]
// at the level a_s is at most the limit. The result is the oldest start of the newest such starts
// that follow one another, unless a later stretch has a lower end above the limit at its own level.
// - An average over a stretch is at most the limit. That this is ever said of a stretch whose error
//   exceeds the limit, at any time after one alarm, has a probability of at most .05, whichever
//   start is chosen. It says nothing about the observations before s.
// - When the newest observations are over the limit again, it is withdrawn before their share in
//   the average has grown. When they are within it once more, a stretch without those that were
//   over the limit is found first.
//
// starts: kept starts, ascending multiples of 1024. ends(start, level): the ErrorEnds of the
// stretch at this level; with several events, each at an equal share of it. Unset without such a
// start. Cost: a call of `ends` for each start.
template <typename EndsOf>
[[nodiscard]] std::optional<std::int64_t> RecoveredSince(std::span<const std::int64_t> starts,
                                                         std::int64_t count, std::int64_t alarm,
                                                         double limit, const EndsOf& ends) {
  std::optional<std::int64_t> since;
  for (std::size_t i = starts.size(); i > 0; --i) {
    const std::int64_t start = starts[i - 1];
    if (start > count - kLeastStretch) continue;
    if (start < alarm) break;
    const ErrorEnds of_stretch = ends(start, RecoveryLevel(alarm, start));
    const bool is_within = of_stretch.upper <= limit;
    if (of_stretch.lower > limit || (since.has_value() && !is_within)) break;
    if (is_within) since = start;
  }
  return since;
}

// The start since which an error that had recovered is over its limit again. The stretch after this
// start has a lower end above the limit, no later stretch is within the limit, and a stretch that
// began after the alarm and ended with this start was within the limit. All these intervals are at
// the levels a_s, so that they hold together as those of RecoveredSince do. Of several such starts,
// the stretch after the result has the largest lower end: the error changed near it. Unset if
// nothing of this is shown.
//
// starts, count, alarm, limit: as above. ends(start, end, level): the ErrorEnds of the observations
// start + 1 to end, which is `count` or a start. Cost: at most 9 calls of `ends` for each start.
template <typename EndsOf>
[[nodiscard]] std::optional<std::int64_t> OverAgainSince(std::span<const std::int64_t> starts,
                                                         std::int64_t count, std::int64_t alarm,
                                                         double limit, const EndsOf& ends) {
  constexpr std::size_t kMostTried = 8;
  std::vector<std::pair<double, std::int64_t>> over;
  for (std::size_t i = starts.size(); i > 0; --i) {
    const std::int64_t start = starts[i - 1];
    if (start > count - kLeastStretch) continue;
    if (start < alarm) break;
    const ErrorEnds of_stretch = ends(start, count, RecoveryLevel(alarm, start));
    if (of_stretch.upper <= limit) break;
    if (of_stretch.lower > limit) over.emplace_back(of_stretch.lower, start);
  }
  std::ranges::sort(over, std::greater<>());
  if (over.size() > kMostTried) over.resize(kMostTried);
  for (const auto& [lower, end] : over) {
    const bool had_recovered = std::ranges::any_of(starts, [&, end = end](std::int64_t start) {
      return start >= alarm && start <= end - kLeastStretch &&
             ends(start, end, RecoveryLevel(alarm, start)).upper <= limit;
    });
    if (had_recovered) return end;
  }
  return std::nullopt;
}

// The levels of the interval of a stretch whose error is within its limit again: its upper end is
// the one that was compared with the limit. The intervals of the error of all stretches after one
// alarm hold together with 95 %, and so do those of the gap.
[[nodiscard]] inline ErrorLevels RecoveryLevels(double level) noexcept {
  return {.bins = level, .gap = level};
}

}  // namespace calibd

#endif  // CALIBD_CORE_NEWEST_STRETCH_H_
