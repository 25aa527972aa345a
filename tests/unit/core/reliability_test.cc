#include "calibd/core/reliability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calibd/core/binned_error.h"
#include "calibd/core/generator.h"

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

BinaryPredictions DrawTopLabel(const GeneratorSpec& spec, std::size_t n, std::uint64_t seed = 3) {
  PredictionSet set;
  Generator::Create(spec, seed)->Draw(n, set);
  return TopLabelPredictions(set.view());
}

// P(a <= X <= b) for X ~ Binomial(n, p), term by term.
double BinomialMass(int n, double p, int a, int b) {
  double mass = 0;
  for (int k = a; k <= b; ++k) {
    mass += std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) +
                     k * std::log(p) + (n - k) * std::log1p(-p));
  }
  return mass;
}

TEST(BinnedReliabilityTest, RunningSumsGiveTheSameBins) {
  const BinaryPredictions predictions = DrawTopLabel(GeneratorSpec::M2(5), 400);
  ReliabilitySums sums;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    sums.Add(predictions.probabilities[i], predictions.outcomes[i] == 1);
  }
  const auto expected =
      BinnedReliability(predictions, {.bins = kReliabilityBinCount, .level = 0.8});
  const std::vector<ReliabilityBin> bins = BinnedReliability(sums, 0.8);
  ASSERT_EQ(bins.size(), expected->size());
  for (std::size_t b = 0; b < bins.size(); ++b) {
    const ReliabilityBin& one = (*expected)[b];
    EXPECT_EQ(bins[b].n, one.n);
    EXPECT_EQ(bins[b].lower, one.lower);
    EXPECT_EQ(bins[b].frequency, one.frequency);
    EXPECT_NEAR(bins[b].mean_prediction, one.mean_prediction, 1e-12);
    EXPECT_EQ(bins[b].confidence.upper, one.confidence.upper);
    EXPECT_EQ(bins[b].consistency.lower, one.consistency.lower);
  }
  EXPECT_THAT(BinnedReliability(ReliabilitySums()), IsEmpty());
}

TEST(BinnedReliabilityTest, MatchesValuesComputedByHand) {
  const auto bins = BinnedReliability({{0.05, 0.62, 0.68, 0.61, 1}, {0, 1, 0, 1, 1}}, {.bins = 10});
  ASSERT_THAT(*bins, SizeIs(3));
  const ReliabilityBin& middle = (*bins)[1];
  EXPECT_DOUBLE_EQ(middle.lower, 0.6);
  EXPECT_DOUBLE_EQ(middle.upper, 0.7);
  EXPECT_EQ(middle.n, 3u);
  EXPECT_DOUBLE_EQ(middle.mean_prediction, (0.62 + 0.68 + 0.61) / 3);
  EXPECT_DOUBLE_EQ(middle.frequency, 2.0 / 3);
  // Binomial(3, .6367): P(0) = .048 is below .05, P(3) = .258 is not.
  EXPECT_DOUBLE_EQ(middle.consistency.lower, 1.0 / 3);
  EXPECT_DOUBLE_EQ(middle.consistency.upper, 1);
  // Clopper-Pearson 90 % of 2 in 3: P(X >= 2 | .13535) = P(X <= 2 | .98305) = .05.
  EXPECT_NEAR(BinomialMass(3, middle.confidence.lower, 2, 3), 0.05, 1e-12);
  EXPECT_NEAR(BinomialMass(3, middle.confidence.upper, 0, 2), 0.05, 1e-12);
  EXPECT_NEAR(middle.confidence.lower, 0.13535, 1e-5);
  // Certain predictions have bands without width.
  EXPECT_EQ(bins->back().consistency.lower, 1);
  EXPECT_EQ(bins->back().consistency.upper, 1);
  EXPECT_EQ(bins->back().confidence.upper, 1);
  EXPECT_DOUBLE_EQ(bins->back().confidence.lower, 0.05);
  EXPECT_EQ(bins->front().confidence.lower, 0);
}

TEST(BinnedReliabilityTest, BandsAreTheNarrowestWithTheirLevelAndTheMean) {
  for (const int n : {1, 2, 7, 40, 300}) {
    for (const double p : {1e-9, 0.003, 0.2, 0.5, 0.77, 0.999}) {
      for (const double level : {0.5, 0.9, 0.99}) {
        const BinaryPredictions equal{std::vector<double>(static_cast<std::size_t>(n), p),
                                      std::vector<std::uint8_t>(static_cast<std::size_t>(n), 1)};
        const auto bins = BinnedReliability(equal, {.bins = 10, .level = level});
        const Band band = bins->front().consistency;
        const int a = static_cast<int>(std::lround(band.lower * n));
        const int b = static_cast<int>(std::lround(band.upper * n));
        const double tail = (1 - level) / 2;
        EXPECT_LE(BinomialMass(n, p, 0, a - 1), tail + 1e-12);
        EXPECT_LE(BinomialMass(n, p, b + 1, n), tail + 1e-12);
        EXPECT_LE(a, n * p + 1e-9);
        EXPECT_GE(b, n * p - 1e-9);
        if (a < std::floor(n * p)) {
          EXPECT_GT(BinomialMass(n, p, 0, a), tail - 1e-12);
        }
        if (b > std::ceil(n * p)) {
          EXPECT_GT(BinomialMass(n, p, b, n), tail - 1e-12);
        }
      }
    }
  }
}

TEST(BinnedReliabilityTest, CountsEveryObservationInAutomaticBins) {
  for (const std::size_t n : {1u, 8u, 9u, 1000u, 1001u}) {
    const auto bins = BinnedReliability(DrawTopLabel(GeneratorSpec::M1(2), n));
    std::size_t sum = 0;
    for (const ReliabilityBin& bin : *bins) {
      EXPECT_GE(bin.n, 1u);
      EXPECT_GT(bin.mean_prediction, bin.lower);
      EXPECT_LE(bin.mean_prediction, bin.upper);
      EXPECT_LE(bin.confidence.lower, bin.frequency);
      EXPECT_GE(bin.confidence.upper, bin.frequency);
      EXPECT_LE(bin.consistency.lower, bin.mean_prediction);
      EXPECT_GE(bin.consistency.upper, bin.mean_prediction);
      // ceil(n^(1/3)) bins over [0, 1].
      const double count = n == 1 ? 1 : n == 8 ? 2 : n == 9 ? 3 : n == 1000 ? 10 : 11;
      EXPECT_NEAR(bin.upper - bin.lower, 1 / count, 1e-15);
      sum += bin.n;
    }
    EXPECT_EQ(sum, n);
  }
}

TEST(BinnedReliabilityTest, EqualsTheBinnedErrorOfTheSameBins) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(), 5)->Draw(700, set);
  const auto bins = BinnedReliability(TopLabelPredictions(set.view()), {.bins = 15});
  double ece = 0;
  for (const ReliabilityBin& bin : *bins) {
    ece += static_cast<double>(bin.n) / 700 * std::abs(bin.mean_prediction - bin.frequency);
  }
  EXPECT_NEAR(ece, EstimateBinnedError(set.view(), TopLabelBins{15})->ece, 1e-13);
}

TEST(BinnedReliabilityTest, ErrorsNameTheInvalidValue) {
  const BinaryPredictions one{{0.5}, {1}};
  EXPECT_THAT(std::string(BinnedReliability(one, {.level = 1}).status().message()),
              HasSubstr("level is 1, expected a number in (0, 1)"));
  EXPECT_THAT(std::string(BinnedReliability(one, {.level = std::nan("")}).status().message()),
              HasSubstr("level is nan"));
  EXPECT_THAT(std::string(BinnedReliability(one, {.bins = 100001}).status().message()),
              HasSubstr("bins is 100001"));
  EXPECT_EQ(BinnedReliability(BinaryPredictions{}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CorpReliabilityTest, PoolsViolatorsAndTies) {
  // .3 (0), .5 twice (1, 0), .6 (0), which violates the order, .8 (1).
  const auto corp =
      EstimateCorpReliability({{0.8, 0.5, 0.3, 0.6, 0.5}, {1, 1, 0, 0, 0}}, {.replicates = 0});
  ASSERT_THAT(corp->blocks, SizeIs(3));
  const ReliabilityBlock& pooled = corp->blocks[1];
  EXPECT_EQ(pooled.lower, 0.5);
  EXPECT_EQ(pooled.upper, 0.6);
  EXPECT_EQ(pooled.n, 3u);
  EXPECT_DOUBLE_EQ(pooled.mean_prediction, 1.6 / 3);
  EXPECT_DOUBLE_EQ(pooled.recalibrated, 1.0 / 3);
  EXPECT_EQ(corp->blocks[0].recalibrated, 0);
  EXPECT_EQ(corp->blocks[2].recalibrated, 1);
  EXPECT_THAT(corp->band, IsEmpty());
}

TEST(CorpReliabilityTest, AscendsAndCountsEveryObservation) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const auto corp = EstimateCorpReliability(DrawTopLabel(GeneratorSpec::M2(), 200, seed));
    std::size_t sum = 0;
    for (std::size_t b = 0; b < corp->blocks.size(); ++b) {
      sum += corp->blocks[b].n;
      if (b == 0) continue;
      EXPECT_GT(corp->blocks[b].recalibrated, corp->blocks[b - 1].recalibrated);
      EXPECT_GT(corp->blocks[b].lower, corp->blocks[b - 1].upper);
    }
    EXPECT_EQ(sum, 200u);
    for (std::size_t t = 0; t < corp->band.size(); ++t) {
      const Band& band = corp->band[t].consistency;
      EXPECT_LE(0, band.lower);
      EXPECT_LE(band.lower, band.upper);
      EXPECT_LE(band.upper, 1);
      if (t == 0) continue;
      // Order statistics of nondecreasing functions are nondecreasing.
      EXPECT_GE(band.lower, corp->band[t - 1].consistency.lower);
      EXPECT_GE(band.upper, corp->band[t - 1].consistency.upper);
      EXPECT_GT(corp->band[t].prediction, corp->band[t - 1].prediction);
    }
  }
}

TEST(CorpReliabilityTest, GivesTheBandAtBothEndsAndAtMostAtBandPoints) {
  const BinaryPredictions predictions = DrawTopLabel(GeneratorSpec::M1(), 500);
  const auto corp = EstimateCorpReliability(predictions, {.replicates = 19, .band_points = 7});
  ASSERT_THAT(corp->band, SizeIs(7));
  EXPECT_EQ(corp->band.front().prediction, corp->blocks.front().lower);
  EXPECT_EQ(corp->band.back().prediction, corp->blocks.back().upper);
  const auto one = EstimateCorpReliability({{0.5, 0.5}, {1, 0}});
  EXPECT_THAT(one->band, SizeIs(1));
  // Certain predictions have bands without width.
  const auto certain = EstimateCorpReliability({{0, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(certain->band.front().consistency.upper, 0);
  EXPECT_EQ(certain->band.back().consistency.lower, 1);
}

// With more than 16384 distinct predictions, replicates fit groups of neighbours as one.
TEST(CorpReliabilityTest, TheBandOfManyRowsIsThatOfEachRow) {
  constexpr std::size_t kRows = 40000;
  constexpr std::size_t kReplicates = 399;
  BinaryPredictions predictions;
  for (std::size_t i = 0; i < kRows; ++i) {
    predictions.probabilities.push_back((static_cast<double>(i) + 0.5) / kRows);
    predictions.outcomes.push_back(i % 2);
  }
  const auto corp =
      EstimateCorpReliability(predictions, {.level = 0.9, .replicates = kReplicates, .seed = 1});
  ASSERT_TRUE(corp.ok());
  EXPECT_EQ(corp->band.front().prediction, predictions.probabilities.front());
  EXPECT_EQ(corp->band.back().prediction, predictions.probabilities.back());

  // The regression of each row, by pooling adjacent violators, at the same predictions.
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  std::vector<std::vector<double>> fits(corp->band.size());
  for (std::size_t r = 0; r < kReplicates; ++r) {
    std::vector<std::pair<double, double>> blocks;  // rows and events
    for (const double p : predictions.probabilities) {
      blocks.emplace_back(1, uniform(random) < p ? 1 : 0);
      while (blocks.size() > 1) {
        const auto last = blocks.back();
        auto& before = blocks[blocks.size() - 2];
        if (before.second * last.first < last.second * before.first) break;
        before = {before.first + last.first, before.second + last.second};
        blocks.pop_back();
      }
    }
    std::size_t t = 0;
    double rows = 0;
    for (const auto& [count, events] : blocks) {
      rows += count;
      for (; t < fits.size() && corp->band[t].prediction * kRows < rows; ++t) {
        fits[t].push_back(events / count);
      }
    }
  }
  // The mean of the differences at some 100 points has a standard deviation below .1 of that of one
  // quantile, which is .1 of the width of the band (a 5 % quantile of 399 values).
  double difference = 0;
  double width = 0;
  for (std::size_t t = 1; t + 1 < fits.size(); ++t) {
    ASSERT_EQ(fits[t].size(), kReplicates);
    std::ranges::sort(fits[t]);
    const double lower = fits[t][19];
    const double upper = fits[t][kReplicates - 20];
    difference += corp->band[t].consistency.upper - upper;
    difference -= corp->band[t].consistency.lower - lower;
    width += upper - lower;
  }
  EXPECT_NEAR(difference / width, 0, 0.04);
}

TEST(CorpReliabilityTest, DependsOnTheSeedAndNotOnThreads) {
  const BinaryPredictions predictions = DrawTopLabel(GeneratorSpec::M1(), 100);
  RunControl threads;
  threads.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::thread odd([&] {
      for (std::size_t i = 1; i < count; i += 2) body(i);
    });
    for (std::size_t i = 0; i < count; i += 2) body(i);
    odd.join();
  };
  std::vector<double> told;
  threads.progress = [&](double fraction) { told.push_back(fraction); };
  const auto uppers = [&](std::uint64_t seed, const RunControl& control) {
    const auto corp = EstimateCorpReliability(predictions, {.seed = seed}, control);
    std::vector<double> values;
    for (const BandPoint& point : corp->band) values.push_back(point.consistency.upper);
    return values;
  };
  EXPECT_EQ(uppers(1, {}), uppers(1, threads));
  EXPECT_NE(uppers(1, {}), uppers(2, {}));
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1);
}

TEST(CorpReliabilityTest, StopsWhenCancelled) {
  RunControl control;
  int asked = 0;
  control.cancelled = [&] { return ++asked == 3; };
  const BinaryPredictions predictions = DrawTopLabel(GeneratorSpec::M1(), 100);
  EXPECT_EQ(EstimateCorpReliability(predictions, {}, control).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 3);
}

TEST(CorpReliabilityTest, ErrorsNameTheInvalidValue) {
  const auto error = [](const CorpReliabilityOptions& options) {
    return std::string(EstimateCorpReliability({{0.5}, {1}}, options).status().message());
  };
  EXPECT_THAT(error({.level = 0}), HasSubstr("level is 0"));
  EXPECT_THAT(error({.replicates = 18}), HasSubstr("replicates is 18, expected 0 or 19..10000"));
  EXPECT_THAT(error({.replicates = -1}), HasSubstr("replicates is -1"));
  EXPECT_THAT(error({.level = 0.99, .replicates = 198}), HasSubstr("expected 0 or 199.."));
  EXPECT_THAT(error({.band_points = 1}), HasSubstr("band_points is 1, expected 2..1000"));
  EXPECT_EQ(EstimateCorpReliability({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace calibd
