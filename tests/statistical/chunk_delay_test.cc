// Bets are chosen once for a chunk of predictions. This hardly delays the detection of an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/experts.h"
#include "evidence_streams.h"
#include "support/evidence_reference.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using testing::ErrorCase;
using testing::kLevel;
using testing::MedianBasis;
using testing::ReferenceExperts;

using BasisPtr = std::shared_ptr<const FourierBasis>;

// The first prediction after which the evidence is at least 20, counted from 1, or n + 1. Without
// the experts that are means, which do not bet.
std::size_t TimeWithChunks(const PredictionSet& set, const BasisPtr& basis) {
  auto process = *EvidenceProcess::Create(basis, kDefaultTolerance, {.log_e = -std::log(kLevel)});
  process.Add(set.view());
  const std::int64_t reached = process.Read().evidence_reached_at;
  return reached > 0 ? static_cast<std::size_t>(reached) : set.labels.size() + 1;
}

// The time if the bets on each prediction are chosen from all predictions before it.
std::size_t TimeWithoutChunks(const PredictionSet& set, const BasisPtr& basis) {
  ReferenceExperts experts(*basis, kDefaultTolerance);
  std::vector<long double> log_e(kBettorCount);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const auto g = set.view().row(i);
    const auto y = static_cast<std::size_t>(set.labels[i]);
    const auto bets = experts.LogE(g, y);
    long double mixture = 0;
    for (std::size_t j = 0; j < kBettorCount; ++j) {
      log_e[j] += bets[j];
      mixture += kPriors[j] * std::exp(log_e[j]);
    }
    if (mixture >= 1 / kLevel) return i + 1;
    experts.Join(g, y);
    experts.Flush();
  }
  return set.labels.size() + 1;
}

// Labels whose odds of class 0 are this many times those of the prediction. Only experts that bet
// from the past find the error.
PredictionSet ShiftedOdds(double factor, std::size_t n, std::uint64_t seed) {
  PredictionSet set = testing::Draw(GeneratorSpec::M1(), n, seed);
  std::mt19937_64 rng(seed);
  for (std::size_t i = 0; i < n; ++i) {
    const auto g = set.view().row(i);
    std::vector<double> q(g.begin(), g.end());
    q[0] *= factor;
    set.labels[i] = std::discrete_distribution<std::int32_t>(q.begin(), q.end())(rng);
  }
  return set;
}

// Compares the medians of both times for one kind of error after another.
class Delays {
 public:
  void Compare(const std::string& name, const std::vector<PredictionSet>& streams,
               const std::vector<BasisPtr>& basis) {
    std::vector<std::size_t> with;
    std::vector<std::size_t> without;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      with.push_back(TimeWithChunks(streams[i], basis[i]));
      without.push_back(TimeWithoutChunks(streams[i], basis[i]));
    }
    const double now = Median(std::move(with));
    const double before = Median(std::move(without));
    ::testing::Test::RecordProperty(name, std::to_string(now) + " " + std::to_string(before));
    EXPECT_LE(now, std::max(1.1 * before, before + 1)) << name;
    log_ratios_.push_back(std::log(now / before));
  }
  [[nodiscard]] double GeometricMean() const {
    return std::exp(std::accumulate(log_ratios_.begin(), log_ratios_.end(), 0.0) /
                    static_cast<double>(log_ratios_.size()));
  }

 private:
  static double Median(std::vector<std::size_t> times) {
    const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    return static_cast<double>(*middle);
  }

  std::vector<double> log_ratios_;
};

TEST(ChunkDelayTest, IsAtMostFivePercentOnAverageAndTenPercentForAnyError) {
  constexpr int kStreams = 51;
  constexpr int kOrders = 15;
  Delays delays;
  const auto basis = testing::BasisOf(GeneratorSpec::M1());
  for (const ErrorCase& one : testing::ErrorCases()) {
    std::vector<PredictionSet> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(one.Stream(5000 + static_cast<std::uint64_t>(i)));
    }
    delays.Compare(one.name, streams, std::vector<BasisPtr>(streams.size(), basis));
  }
  for (const double factor : {4., 16.}) {
    std::vector<PredictionSet> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(ShiftedOdds(factor, 1000, 5000 + static_cast<std::uint64_t>(i)));
    }
    delays.Compare("odds_" + std::to_string(static_cast<int>(factor)), streams,
                   std::vector<BasisPtr>(streams.size(), basis));
  }
  for (const std::string network : {"resnet18", "densenet121"}) {
    const auto set = testing::ReadCifar10(network);
    if (!set.has_value()) continue;
    std::mt19937_64 rng(3);
    std::vector<std::size_t> order(set->labels.size());
    std::iota(order.begin(), order.end(), 0);
    std::vector<PredictionSet> streams;
    std::vector<BasisPtr> kernels;
    for (int i = 0; i < kOrders; ++i) {
      std::shuffle(order.begin(), order.end(), rng);
      streams.push_back(testing::Select(*set, order));
      kernels.push_back(MedianBasis(streams.back()));
    }
    delays.Compare(network, streams, kernels);
  }
  RecordProperty("geometric_mean", std::to_string(delays.GeometricMean()));
  EXPECT_LE(delays.GeometricMean(), 1.05);
}

}  // namespace
}  // namespace calibd
