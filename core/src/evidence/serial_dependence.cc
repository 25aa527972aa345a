#include "calibd/core/serial_dependence.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace calibd {
namespace {

constexpr std::array kRates = {.05, .1, .2, .4, .8};
constexpr std::size_t kLeastPool = 32;
constexpr std::int64_t kGrowthSpacing = 4;

// The mixer of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
std::uint64_t Hash(std::int64_t i) noexcept {
  auto z = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U + 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

// The logarithm of the product for a rate.
double LogProduct(double rate, double sum, double squares) noexcept {
  return rate * sum - rate * rate * squares / 2;
}

}  // namespace

SerialDependence::SerialDependence(State state) : state_(std::move(state)) {}

void SerialDependence::Add(std::span<const double> g, std::int32_t label, std::size_t predicted) {
  const double hit = label == static_cast<std::int32_t>(predicted) ? 1 : 0;
  AddRow({.label = label, .x = std::min(g[predicted], 1.0) - hit}, [&](std::int32_t y) {
    return (label == y ? 1 : 0) - std::min(g[static_cast<std::size_t>(y)], 1.0);
  });
}

void SerialDependence::AddDeviation(double x) {
  AddRow({.label = 0, .x = x}, [](std::int32_t /*y*/) { return 0.0; });
}

template <typename Excess>
void SerialDependence::AddRow(const Row& row, const Excess& excess) {
  const std::int64_t i = state_.rows / 3;
  const auto place = static_cast<std::size_t>(state_.rows % 3);
  ++state_.rows;
  if (place < 2) {
    state_.unfinished[place] = row;
    return;
  }
  const Row& candidate = state_.unfinished[0];
  const Row& neighbour = state_.unfinished[1];
  const std::size_t size = state_.pool.size();
  if (size < kLeastPool || (size < kMostPool && i % kGrowthSpacing == 0)) {
    state_.pool.push_back(candidate);
    return;
  }
  Row& other = state_.pool[Hash(i) % size];
  const std::array z = {excess(neighbour.label) - excess(other.label),
                        4 * row.x * (neighbour.x - other.x)};
  other = candidate;
  bool may_reach = false;
  for (std::size_t lane = 0; lane < z.size(); ++lane) {
    state_.sums[lane] += z[lane];
    state_.squares[lane] += z[lane] * z[lane];
    for (const double rate : kRates) {
      const double log = LogProduct(rate, state_.sums[lane], state_.squares[lane]);
      may_reach = may_reach || log >= std::log(kThreshold);
    }
  }
  // The mean is at most the largest product.
  if (state_.reached_at == 0 && may_reach && LogEValue() >= std::log(kThreshold)) {
    state_.reached_at = state_.rows;
  }
}

double SerialDependence::LogEValue() const noexcept {
  std::array<double, 2 * kRates.size()> logs{};
  for (std::size_t j = 0; j < logs.size(); ++j) {
    const std::size_t lane = j / kRates.size();
    logs[j] = LogProduct(kRates[j % kRates.size()], state_.sums[lane], state_.squares[lane]);
  }
  const double most = std::ranges::max(logs);
  double sum = 0;
  for (const double log : logs) sum += std::exp(log - most);
  return most + std::log(sum / static_cast<double>(logs.size()));
}

}  // namespace calibd
