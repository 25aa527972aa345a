#include "calibd/core/reference_change.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "calibd/core/error_interval.h"

namespace calibd {
namespace {

constexpr double kLeastLevel = .001;
constexpr double kMostLevel = .9;
// The row at which the mean of R reaches 1 / alpha is the last one, so that R stays below 240 (1 +
// 1 / alpha). The settings may have had another alpha, which is at least 1e-9.
constexpr double kMostReferenceWealth = 1e12;
constexpr std::size_t kOddsCount = ReferenceChange::kOdds.size();
constexpr std::array<double, kOddsCount> kNoOdds = [] {
  std::array<double, kOddsCount> ones{};
  ones.fill(1);
  return ones;
}();

// w_j; all of them sum to less than 1.
double StartWeight(double j) noexcept {
  const double log_next = std::log(j + 1);
  return 1 / (RecentErrorEvidence::kStartsNorm * (j + 1) * log_next * log_next);
}

}  // namespace

ReferenceChange::ReferenceChange(const Settings& settings, const State& state) noexcept
    : settings_(settings), state_(state) {
  if (state_.rows >= settings_.reference_rows) BeginBets();
}

bool ReferenceChange::Fits(const Settings& settings, const State& state) noexcept {
  std::int64_t warmup = 0;
  std::int64_t reference = 0;
  std::int64_t all = 0;
  for (const Cell& cell : state.cells) {
    const bool fits = cell.stated_errors >= 0 && cell.reference_wrong <= cell.reference_rows &&
                      cell.reference_wrong <= cell.wrong &&
                      cell.wrong - cell.reference_wrong <= cell.rows - cell.reference_rows;
    if (!fits) return false;
    warmup += cell.warmup_rows;
    reference += cell.reference_rows;
    all += cell.rows;
  }
  const std::int64_t reference_end = std::min(state.rows, settings.reference_rows);
  const bool counts_fit = warmup == std::min(state.rows, kWarmup) &&
                          reference == reference_end - warmup && all == state.rows - warmup &&
                          state.bets <= state.rows - reference_end;
  const auto all_of = [](const Bets& values, double most) {
    return std::ranges::all_of(values,
                               [most](double value) { return value >= 0 && value <= most; });
  };
  const auto bets = static_cast<double>(state.bets);
  const double most_wealth = bets == 0 ? 0 : kMostReferenceWealth;
  return counts_fit && state.wrong_rows >= 0 && state.expected_wrong >= 0 &&
         state.wrong_rows <= bets && state.expected_wrong <= bets &&
         all_of(state.wealth, most_wealth) && all_of(state.start_wealth, most_wealth) &&
         all_of(state.start, bets) && all_of(state.start_wrong, state.wrong_rows) &&
         all_of(state.start_expected, state.expected_wrong) &&
         (state.changed_at == 0 || (bets > 0 && state.changed_at == state.rows));
}

std::size_t ReferenceChange::CellOf(double stated) noexcept {
  std::size_t cell = 0;
  for (const double edge : kEdges) cell += edge < stated ? 1 : 0;
  return cell;
}

void ReferenceChange::Add(double stated, bool wrong) noexcept {
  if (changed()) return;
  const std::size_t k = CellOf(stated);
  Cell& cell = state_.cells[k];
  ++state_.rows;
  if (state_.rows <= kWarmup) {
    ++cell.warmup_rows;
    cell.stated_errors += std::max(0.0, 1 - stated);
    return;
  }
  ++cell.rows;
  cell.wrong += wrong ? 1 : 0;
  if (state_.rows <= settings_.reference_rows) {
    ++cell.reference_rows;
    cell.reference_wrong += wrong ? 1 : 0;
    if (state_.rows == settings_.reference_rows) BeginBets();
    return;
  }
  Bet(k, Place(cell, wrong), wrong);
}

double ReferenceChange::Place(const Cell& cell, bool wrong) const noexcept {
  const auto number = static_cast<std::uint64_t>(settings_.first_observation - 1 + state_.rows);
  const double uniform = Rng(settings_.seed, number).Uniform();
  const double f = static_cast<double>(cell.wrong) / static_cast<double>(cell.rows);
  return wrong ? uniform * f : f + uniform * (1 - f);
}

void ReferenceChange::Bet(std::size_t cell, double u, bool wrong) noexcept {
  const auto j = static_cast<double>(++state_.bets);
  const double weight = StartWeight(j);
  double sum = 0;
  for (std::size_t a = 0; a < kScales.size(); ++a) {
    const std::array<double, kOddsCount>& odds = u < levels_[cell][a] ? kOdds : kNoOdds;
    const std::size_t first = a * kOddsCount;
    for (std::size_t i = 0; i < kOddsCount; ++i) {
      const std::size_t b = first + i;
      const double factor = misses_[cell][b] * odds[i];
      state_.wealth[b] = (state_.wealth[b] + weight) * factor;
      sum += state_.wealth[b];
      const bool starts = weight > state_.start_wealth[b];
      state_.start_wealth[b] = (starts ? weight : state_.start_wealth[b]) * factor;
      state_.start[b] = starts ? j : state_.start[b];
      state_.start_wrong[b] = starts ? state_.wrong_rows : state_.start_wrong[b];
      state_.start_expected[b] = starts ? state_.expected_wrong : state_.start_expected[b];
    }
  }
  state_.wrong_rows += wrong ? 1 : 0;
  state_.expected_wrong += reference_error_[cell];
  if (sum * settings_.significance_level >= static_cast<double>(kBets)) {
    state_.changed_at = state_.rows;
  }
}

void ReferenceChange::BeginBets() noexcept {
  double rows = 0;
  double wrong = 0;
  for (const Cell& cell : state_.cells) {
    rows += static_cast<double>(cell.reference_rows);
    wrong += static_cast<double>(cell.reference_wrong);
  }
  for (std::size_t k = 0; k < kCells; ++k) {
    const Cell& cell = state_.cells[k];
    const double q = (cell.stated_errors + .1) / (static_cast<double>(cell.warmup_rows) + 1);
    for (std::size_t a = 0; a < kScales.size(); ++a) {
      const double z0 = std::clamp(q * kScales[a], kLeastLevel, kMostLevel);
      levels_[k][a] = z0;
      for (std::size_t i = 0; i < kOddsCount; ++i) {
        misses_[k][a * kOddsCount + i] = 1 / (1 - z0 + z0 * kOdds[i]);
      }
    }
    // A cell without a row in the reference has the error of all cells.
    reference_error_[k] = cell.reference_rows > 0 ? static_cast<double>(cell.reference_wrong) /
                                                        static_cast<double>(cell.reference_rows)
                                                  : wrong / rows;
  }
}

void ReferenceChange::RestartBets(double significance_level) noexcept {
  settings_.significance_level = significance_level;
  if (changed()) return;
  State empty;
  empty.rows = state_.rows;
  empty.cells = state_.cells;
  state_ = empty;
}

ReferenceChange::Reading ReferenceChange::Read() const noexcept {
  Reading reading;
  for (const Cell& cell : state_.cells) {
    reading.reference_rows += cell.reference_rows;
    reading.reference_wrong += cell.reference_wrong;
  }
  reading.bets = state_.bets;
  if (reading.bets == 0) return reading;
  const double sum = std::accumulate(state_.wealth.begin(), state_.wealth.end(), 0.0);
  reading.e_value = sum / static_cast<double>(kBets);
  double more = 0;
  for (std::size_t b = 0; b < kBets; ++b) {
    if (b % kOddsCount >= kFewerErrors) more += state_.wealth[b];
  }
  reading.share_of_more = more / sum;
  const auto best = static_cast<std::size_t>(std::ranges::max_element(state_.start_wealth) -
                                             state_.start_wealth.begin());
  reading.rows_since = state_.bets - static_cast<std::int64_t>(state_.start[best]) + 1;
  reading.rows_before = state_.rows - reading.rows_since;
  reading.wrong_since = state_.wrong_rows - state_.start_wrong[best];
  reading.expected_since = state_.expected_wrong - state_.start_expected[best];
  return reading;
}

}  // namespace calibd
