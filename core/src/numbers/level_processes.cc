#include "numbers/level_processes.h"

#include <algorithm>
#include <cmath>

#include "calibd/core/forecast_cells.h"

namespace calibd {

LevelProcess::LevelProcess(std::size_t experts)
    : log(experts), growth(experts, 1), share(experts), floor(experts) {}

double LevelProcess::LogLargest() const noexcept {
  return *std::ranges::max_element(log) - std::log(static_cast<double>(log.size()));
}

double LevelProcess::Begin(double log_unit) noexcept {
  const double log_prior = -std::log(static_cast<double>(log.size()));
  double sum = 0;
  for (std::size_t i = 0; i < log.size(); ++i) {
    share[i] = std::exp(log[i] + log_prior - log_unit);
    floor[i] = std::exp(std::min(0.0, -log[i]));
    growth[i] = 1;
    sum += share[i];
  }
  return sum;
}

void LevelProcess::Fold(double least) noexcept {
  for (std::size_t i = 0; i < log.size(); ++i) log[i] = std::max(least, LogOf(i));
}

double LevelProcess::LogOf(std::size_t expert) const noexcept {
  return log[expert] + std::log(growth[expert]);
}

LevelProcesses::LevelProcesses(std::span<const double> wins)
    : e(wins.size()),
      r1(wins.size()),
      wins_(wins),
      levels_(wins.size() / (2 * kLevelBets.size())) {}

LevelProcesses::Step LevelProcesses::Advance(std::size_t above, std::size_t ties) noexcept {
  Step step;
  std::size_t i = 0;
  const auto bet = [&](double value) {
    e.growth[i] *= value;
    step.e_sum += e.share[i] * e.growth[i];
    r1.growth[i] = r1.growth[i] * value + r1.floor[i];
    step.r1_sum += r1.share[i] * r1.growth[i];
    step.most_bet = std::max(step.most_bet, value);
    ++i;
  };
  const std::size_t not_below = above + ties;
  for (const double lambda : kLevelBets) {
    const double loss = 1 - lambda;
    step.least_bet = std::min(step.least_bet, loss);
    // The outcome is below the quantiles from `not_below` on.
    for (std::size_t k = 0; k < levels_; ++k) bet(k < not_below ? loss : wins_[i]);
    // It is above the quantiles before `above`.
    for (std::size_t k = 0; k < levels_; ++k) bet(k < above ? wins_[i] : loss);
  }
  return step;
}

}  // namespace calibd
