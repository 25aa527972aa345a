#include "calibd/core/serial_dependence.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace calibd {
namespace {

constexpr std::array kRates = {.05, .1, .2, .4, .8};
// The share h of the stated probability that labels have at least.
constexpr double kLeastShare = .2;
// The probability that is stated of the other half of the forecast of a number, at least: a fifth
// of it is .05.
constexpr double kOtherHalf = .25;
// Products stay within these bounds, so that they can be multiplied without logarithms. One that is
// raised to the lower bound adds at most that to the mean of the e-value.
constexpr double kLeastProduct = 1e-300;
constexpr double kMostProduct = 1e300;

// The logarithm of the product for a rate.
double LogProduct(double rate, double sum, double squares) noexcept {
  return rate * sum - rate * rate * squares / 2;
}

// The logarithm of a mean of exponentials, to which values are added.
class LogMean {
 public:
  void Add(double log) noexcept {
    if (log > most_) {
      sum_ = sum_ * std::exp(most_ - log) + 1;
      most_ = log;
    } else {
      sum_ += std::exp(log - most_);
    }
    ++count_;
  }
  // 0 without a value.
  [[nodiscard]] double Value() const noexcept {
    return count_ == 0 ? 0 : most_ + std::log(sum_ / count_);
  }

 private:
  double most_ = 0;
  double sum_ = 0;
  double count_ = 0;
};

}  // namespace

SerialDependence::Shape SerialDependence::Shape::OfClasses(std::size_t class_count) noexcept {
  return {.classes = class_count, .labels = std::min(class_count, kMostClasses)};
}

SerialDependence::Shape SerialDependence::Shape::OfLabels(std::size_t label_count) noexcept {
  return {.sequences = std::min(label_count, kMostSequences)};
}

SerialDependence::SerialDependence(State state) : state_(std::move(state)) {}

void SerialDependence::Add(std::span<const double> g, std::int32_t label, std::size_t predicted) {
  StartRuns(Shape::OfClasses(g.size()));
  const std::int32_t newest = state_.newest[0];
  AddToRun(0, label, newest < 0 ? 0 : 1 - g[static_cast<std::size_t>(newest)]);
  const double hit = label == static_cast<std::int32_t>(predicted) ? 1 : 0;
  AddRow({.label = label, .x = std::min(g[predicted], 1.0) - hit}, [&](std::int32_t y) {
    return (label == y ? 1 : 0) - std::min(g[static_cast<std::size_t>(y)], 1.0);
  });
}

void SerialDependence::AddLabels(double x, std::span<const double> g,
                                 std::span<const std::int8_t> truths) {
  StartRuns(Shape::OfLabels(g.size()));
  for (std::size_t k = 0; k < state_.newest.size(); ++k) {
    if (truths[k] == 0 || truths[k] == 1) {
      AddToRun(k, truths[k], state_.newest[k] == 1 ? 1 - g[k] : g[k]);
    }
  }
  AddRow({.label = 0, .x = x}, [](std::int32_t /*y*/) { return 0.0; });
}

void SerialDependence::AddForecast(double x, double outcome, const Tails& tails) {
  StartRuns(Shape::OfForecasts());
  // The middle of the cells may be 1/2 but for rounding.
  constexpr double kRounding = 1e-9;
  if (std::abs(x) > kRounding) AddToRun(0, x > 0 ? 0 : 1, kOtherHalf);
  AddToOrder(outcome, tails);
  AddRow({.label = 0, .x = x}, [](std::int32_t /*y*/) { return 0.0; });
}

void SerialDependence::StartRuns(const Shape& shape) {
  if (!state_.newest.empty()) return;
  state_.runs.resize(shape.sequences * shape.labels);
  state_.newest.assign(shape.sequences, -1);
}

void SerialDependence::AddToRun(std::size_t sequence, std::int32_t outcome, double other) {
  std::int32_t& newest = state_.newest[sequence];
  if (newest >= 0) {
    const double q = kLeastShare * std::clamp(other, 0.0, 1.0);
    const std::size_t labels = state_.runs.size() / state_.newest.size();
    Run& run = state_.runs[sequence * labels + static_cast<std::size_t>(newest) % labels];
    static const std::array<double, kRunRates.size()> kLogRates = {std::log(kRunRates[0]),
                                                                   std::log(kRunRates[1])};
    for (std::size_t j = 0; j < kRunRates.size(); ++j) {
      run[j] += outcome == newest ? std::log((1 - kRunRates[j] * q) / (1 - q)) : kLogRates[j];
    }
  }
  newest = outcome;
}

void SerialDependence::AddToOrder(double outcome, const Tails& tails) {
  if (state_.order.empty()) state_.order.assign(kOrderProducts, 1);
  if (!state_.pair_outcome.has_value()) {
    state_.pair_outcome = outcome;
    return;
  }
  const double before = *std::exchange(state_.pair_outcome, std::nullopt);
  const auto multiply = [&](std::size_t first, double tail, bool happened) {
    const double q = std::clamp(tail, 0.0, .5);
    for (std::size_t j = 0; j < kRunRates.size(); ++j) {
      const double factor = happened ? (1 - kRunRates[j] * q) / (1 - q) : kRunRates[j];
      double& product = state_.order[first + j];
      product = std::clamp(product * factor, kLeastProduct, kMostProduct);
    }
  };
  multiply(0, tails.at_most, outcome > before);
  multiply(kRunRates.size(), tails.at_least, outcome < before);
}

template <typename Excess>
void SerialDependence::AddRow(const Row& row, const Excess& excess) {
  const auto i = static_cast<std::size_t>(state_.rows / 3);
  const auto place = static_cast<std::size_t>(state_.rows % 3);
  ++state_.rows;
  if (place < 2) {
    state_.unfinished[place] = row;
    return;
  }
  const Row& neighbour = state_.unfinished[1];
  if (state_.kept.size() < kLag) {
    state_.kept.push_back(state_.unfinished[0]);
  } else {
    Row& other = state_.kept[i % kLag];
    const std::array z = {excess(neighbour.label) - excess(other.label),
                          4 * row.x * (neighbour.x - other.x)};
    other = state_.unfinished[0];
    for (std::size_t lane = 0; lane < z.size(); ++lane) {
      state_.sums[lane] += z[lane];
      state_.squares[lane] += z[lane] * z[lane];
    }
  }
  if (state_.reached_at == 0 && MayReachThreshold() && LogEValue() >= std::log(kThreshold)) {
    state_.reached_at = state_.rows;
  }
}

template <typename Visit>
void SerialDependence::VisitNeighbours(const Visit& visit) const noexcept {
  for (std::size_t lane = 0; lane < state_.sums.size(); ++lane) {
    for (const double rate : kRates) {
      visit(LogProduct(rate, state_.sums[lane], state_.squares[lane]));
    }
  }
}

template <typename Visit>
void SerialDependence::VisitRuns(const Visit& visit) const noexcept {
  const std::size_t labels = state_.newest.empty() ? 0 : state_.runs.size() / state_.newest.size();
  for (std::size_t sequence = 0; sequence < state_.newest.size(); ++sequence) {
    const auto products = std::span(state_.runs).subspan(sequence * labels, labels);
    for (std::size_t j = 0; j < kRunRates.size(); ++j) {
      double sum = 0;
      double most = products[0][j];
      for (const Run& run : products) {
        sum += run[j];
        most = std::max(most, run[j]);
      }
      visit(sequence, sum - most);
    }
  }
}

std::optional<std::size_t> SerialDependence::WorstSequence() const noexcept {
  // The runs are half of the e-value of several labels, and each product has an equal share of
  // them.
  const auto products = static_cast<double>(kRunRates.size() * state_.newest.size());
  double largest = std::log(2 * products * kThreshold);
  std::optional<std::size_t> worst;
  VisitRuns([&](std::size_t sequence, double log) {
    if (log < largest) return;
    largest = log;
    worst = sequence;
  });
  return worst;
}

bool SerialDependence::MayReachThreshold() const noexcept {
  // The margin is for rounding.
  constexpr double kMargin = 1e-6;
  const double least = std::log(kThreshold) - kMargin;
  bool may = false;
  VisitNeighbours([&](double log) { may |= log >= least; });
  VisitRuns([&](std::size_t /*sequence*/, double log) { may |= log >= least; });
  for (const double product : state_.order) may |= product >= kThreshold * (1 - kMargin);
  return may;
}

double SerialDependence::LogEValue() const noexcept {
  LogMean neighbours;
  VisitNeighbours([&neighbours](double log) { neighbours.Add(log); });
  LogMean runs;
  VisitRuns([&runs](std::size_t /*sequence*/, double log) { runs.Add(log); });
  LogMean parts;
  parts.Add(neighbours.Value());
  parts.Add(runs.Value());
  if (!state_.order.empty()) {
    LogMean order;
    for (const double product : state_.order) order.Add(std::log(product));
    parts.Add(order.Value());
  }
  return parts.Value();
}

}  // namespace calibd
