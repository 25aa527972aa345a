#include "calibd/core/recalibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "calibd/core/binary_predictions.h"
#include "calibd/core/generator.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

constexpr RecalibrationKind kMapKinds[] = {
    RecalibrationKind::kNone, RecalibrationKind::kTemperature, RecalibrationKind::kVector,
    RecalibrationKind::kIsotonic};

// Calibrated observations whose predictions are uniform on the simplex: few of their probabilities
// are so small that smoothing matters.
PredictionSet Calibrated(std::size_t n, std::size_t class_count, std::uint64_t seed) {
  GeneratorSpec spec = GeneratorSpec::M1(class_count);
  spec.alpha.assign(class_count, 1);
  PredictionSet set;
  Generator::Create(spec, seed)->Draw(n, set);
  return set;
}

// Calibrated observations of which the probabilities are then distorted by the temperature 1 /
// `temperature`, so that this temperature repairs them.
PredictionSet Distorted(std::size_t n, std::size_t class_count, double temperature) {
  PredictionSet set = Calibrated(n, class_count, 3);
  ApplyRecalibration(TemperatureMap{1 / temperature}, class_count, set.probabilities);
  return set;
}

double LogLoss(const PredictionBatch& batch, const RecalibrationMap& map) {
  std::vector<double> rows(batch.probabilities.begin(), batch.probabilities.end());
  ApplyRecalibration(map, batch.class_count, rows);
  const PredictionBatch mapped{rows, batch.labels, batch.class_count};
  double sum = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    sum -= std::log((mapped.row(i)[static_cast<std::size_t>(batch.labels[i])] +
                     1e-5 / static_cast<double>(batch.class_count)) /
                    (1 + 1e-5));
  }
  return sum / static_cast<double>(batch.size());
}

TEST(RecalibrationTest, TemperatureHasAClosedFormForEqualRows) {
  // Rows (.9, .1) of which 3 in 4 are right: the fitted odds are 3, so 1 / T = log 3 / log 9 = 1/2,
  // up to the smoothing: the odds of a smoothed row are (.9 + 5e-6) / (.1 + 5e-6).
  const PredictionSet set{
      .probabilities = {.9, .1, .9, .1, .9, .1, .9, .1}, .labels = {0, 0, 1, 0}, .class_count = 2};
  const auto map = FitRecalibration(set.view(), RecalibrationKind::kTemperature);
  ASSERT_TRUE(map.ok());
  EXPECT_NEAR(std::get<TemperatureMap>(*map).temperature,
              std::log((.9 + 5e-6) / (.1 + 5e-6)) / std::log(3), 1e-9);
}

TEST(RecalibrationTest, TheTemperatureOfDistortedPredictionsIsRecovered) {
  for (const double temperature : {.5, 2.0}) {
    const PredictionSet set = Distorted(20000, 5, temperature);
    const auto map = FitRecalibration(set.view(), RecalibrationKind::kTemperature);
    ASSERT_TRUE(map.ok());
    // The standard error of 1 / T is 1 / sqrt(n E Var log g), about 1 % of it here.
    EXPECT_NEAR(std::get<TemperatureMap>(*map).temperature / temperature, 1, .04);
  }
}

TEST(RecalibrationTest, VectorScalingIsTheMinimumOfItsPenalisedLoss) {
  const PredictionSet set = Distorted(300, 3, 2);
  const auto fitted = FitRecalibration(set.view(), RecalibrationKind::kVector);
  const auto scaling = FitRecalibration(set.view(), RecalibrationKind::kTemperature);
  ASSERT_TRUE(fitted.ok() && scaling.ok());
  const double centre = 1 / std::get<TemperatureMap>(*scaling).temperature;
  const VectorMap best = std::get<VectorMap>(*fitted);
  // An independent computation of the objective, without the smoothing of the results.
  const auto objective = [&](const VectorMap& map) {
    double sum = 0;
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      double total = 0;
      double label = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        const double g = (set.view().row(i)[k] + 1e-5 / 3) / (1 + 1e-5);
        const double score = map.scales[k] * std::log(g) + map.offsets[k];
        total += std::exp(score);
        if (static_cast<std::size_t>(set.labels[i]) == k) label = score;
      }
      sum += std::log(total) - label;
    }
    for (std::size_t k = 0; k < 3; ++k) {
      sum += (std::pow(map.scales[k] - centre, 2) + std::pow(map.offsets[k], 2)) / 2;
    }
    return sum / 300;
  };
  const double least = objective(best);
  for (std::size_t k = 0; k < 3; ++k) {
    for (const double change : {-1e-3, 1e-3}) {
      VectorMap other = best;
      other.scales[k] += change;
      EXPECT_GT(objective(other), least);
      other = best;
      other.offsets[k] += change;
      EXPECT_GT(objective(other), least);
    }
  }
}

TEST(RecalibrationTest, VectorScalingRepairsWrongOdds) {
  PredictionSet set = Calibrated(20000, 3, 5);
  ApplyRecalibration(VectorMap{.scales = {1, 1, 1}, .offsets = {1, 0, -1}}, 3, set.probabilities);
  const auto map = FitRecalibration(set.view(), RecalibrationKind::kVector);
  ASSERT_TRUE(map.ok());
  const VectorMap& fitted = std::get<VectorMap>(*map);
  // Standard errors are about 3 / sqrt(20000) = .02.
  EXPECT_NEAR(fitted.offsets[0] - fitted.offsets[1], -1, .1);
  EXPECT_NEAR(fitted.offsets[1] - fitted.offsets[2], -1, .1);
}

TEST(RecalibrationTest, IsotonicCurvesEqualTheMaxMinFormula) {
  const PredictionSet set = Distorted(60, 2, 3);
  const auto map = FitRecalibration(set.view(), RecalibrationKind::kIsotonic);
  ASSERT_TRUE(map.ok());
  std::vector<double> rows = set.probabilities;
  ApplyRecalibration(*map, 2, rows);
  const BinaryPredictions class_1 = *ClassPredictions(set.view(), 1);
  const auto mean = [&](double low, double high) {
    double sum = 0;
    double count = 0;
    for (std::size_t i = 0; i < 60; ++i) {
      if (class_1.probabilities[i] < low || class_1.probabilities[i] > high) continue;
      sum += class_1.outcomes[i];
      count += 1;
    }
    return sum / count;
  };
  for (std::size_t i = 0; i < 60; ++i) {
    double value = 0;
    for (const double low : class_1.probabilities) {
      if (low > class_1.probabilities[i]) continue;
      double least = 1;
      for (const double high : class_1.probabilities) {
        if (high >= class_1.probabilities[i]) least = std::min(least, mean(low, high));
      }
      value = std::max(value, least);
    }
    // The generator's rows are continuous, so both classes have the same blocks.
    EXPECT_NEAR(rows[2 * i + 1], std::clamp(value, 1. / 62, 61. / 62), 1e-12);
  }
}

TEST(RecalibrationTest, HostileRowsStayOnTheSimplexAndNoFitWorsensItsLogLoss) {
  const std::vector<PredictionSet> sets = {
      {.probabilities = {1, 0, 0, 0, 1, 0}, .labels = {0, 1}, .class_count = 3},
      {.probabilities = {1, 0, 0, 0, 1, 0}, .labels = {2, 2}, .class_count = 3},
      {.probabilities = {.5, .5, .5, .5}, .labels = {0, 0}, .class_count = 2},
      {.probabilities = {.2, .8, .2, .8, .2, .8}, .labels = {0, 1, 1}, .class_count = 2},
      {.probabilities = {1, 0}, .labels = {1}, .class_count = 2},
      Distorted(200, 2, 3),
      Distorted(200, 100, .3)};
  for (std::size_t s = 0; s < sets.size(); ++s) {
    const PredictionBatch batch = sets[s].view();
    for (const RecalibrationKind kind : kMapKinds) {
      SCOPED_TRACE(::testing::Message() << "set " << s << ", kind " << static_cast<int>(kind));
      const auto map = FitRecalibration(batch, kind);
      ASSERT_TRUE(map.ok()) << map.status();
      EXPECT_TRUE(CheckRecalibrationMap(*map, batch.class_count).ok());
      EXPECT_LE(LogLoss(batch, *map), LogLoss(batch, IdentityMap{}));
      std::vector<double> rows = sets[s].probabilities;
      ApplyRecalibration(*map, batch.class_count, rows);
      const PredictionBatch mapped{rows, batch.labels, batch.class_count};
      for (std::size_t i = 0; i < batch.size(); ++i) {
        double sum = 0;
        for (const double q : mapped.row(i)) {
          EXPECT_GE(q, 0);
          sum += q;
        }
        EXPECT_NEAR(sum, 1, 1e-12);
        if (kind == RecalibrationKind::kTemperature) {
          EXPECT_EQ(PredictedClass(mapped.row(i)), PredictedClass(batch.row(i)));
        }
      }
    }
  }
}

TEST(RecalibrationTest, TheAdviceFindsATemperatureAndItsBenefit) {
  const PredictionSet set = Distorted(10000, 10, 2);
  const auto advice = AdviseRecalibration(set.view(), RecalibrationSplit::kHalves);
  ASSERT_TRUE(advice.ok());
  ASSERT_TRUE(std::holds_alternative<TemperatureMap>(advice->map));
  EXPECT_TRUE(advice->helps());
  EXPECT_EQ(advice->fit_observations, 5000);
  EXPECT_EQ(advice->test_observations, 5000);
  const PredictionBatch newer = set.view().rows(5000, 5000);
  EXPECT_NEAR(advice->improvement, LogLoss(newer, IdentityMap{}) - LogLoss(newer, advice->map),
              1e-12);
  // The newer half has no influence on the map.
  EXPECT_EQ(*FitRecalibration(set.view().rows(0, 5000), RecalibrationKind::kTemperature),
            advice->map);
  EXPECT_GT(advice->error_before.top_label.lower, .02);
  EXPECT_EQ(advice->error_after.top_label.lower, 0);
}

TEST(RecalibrationTest, TheAdviceHasTheReliabilityBeforeAndAfter) {
  const PredictionSet set = Distorted(10000, 10, 2);
  const auto advice = AdviseRecalibration(set.view(), RecalibrationSplit::kHalves);
  ASSERT_TRUE(advice.ok());
  const BinaryPredictions newer = TopLabelPredictions(set.view().rows(5000, 5000));
  const auto right = std::accumulate(newer.outcomes.begin(), newer.outcomes.end(), 0.0);
  // The mean distance of the steps from the diagonal.
  std::vector<double> distances;
  for (const auto& blocks : {advice->reliability_before, advice->reliability_after}) {
    double rows = 0;
    double events = 0;
    double distance = 0;
    for (const ReliabilityBlock& block : blocks) {
      const auto n = static_cast<double>(block.n);
      rows += n;
      events += n * block.recalibrated;
      distance += n * std::abs(block.recalibrated - block.mean_prediction);
    }
    EXPECT_EQ(rows, 5000);
    EXPECT_NEAR(events, right, 1e-6);
    distances.push_back(distance / rows);
  }
  EXPECT_GT(distances[0], .05);
  EXPECT_LT(distances[1], distances[0] / 3);
}

TEST(RecalibrationTest, NothingHelpsACalibratedModel) {
  const PredictionSet set = Calibrated(4000, 10, 11);
  const auto advice = AdviseRecalibration(set.view(), RecalibrationSplit::kHalves);
  ASSERT_TRUE(advice.ok());
  EXPECT_FALSE(advice->helps());
}

TEST(RecalibrationTest, TheAdviceNeedsObservationsAndCanBeCancelled) {
  const PredictionSet set = Distorted(100, 2, 2);
  EXPECT_TRUE(AdviseRecalibration(set.view(), RecalibrationSplit::kHalves).ok());
  EXPECT_THAT(
      AdviseRecalibration(set.view().rows(0, 99), RecalibrationSplit::kHalves).status().message(),
      HasSubstr("recalibration: 99, at least 100 are needed"));
  EXPECT_EQ(
      FitRecalibration(set.view().rows(0, 0), RecalibrationKind::kTemperature).status().code(),
      absl::StatusCode::kFailedPrecondition);
  RunControl control;
  control.cancelled = [] { return true; };
  EXPECT_EQ(AdviseRecalibration(set.view(), RecalibrationSplit::kHalves, control).status().code(),
            absl::StatusCode::kCancelled);
}

TEST(RecalibrationTest, EvenRowsChooseTheMapAndOddRowsMeasureIt) {
  const PredictionSet set = Distorted(2001, 3, 2);
  const auto advice = AdviseRecalibration(set.view(), RecalibrationSplit::kAlternating);
  ASSERT_TRUE(advice.ok());
  EXPECT_EQ(advice->split, RecalibrationSplit::kAlternating);
  EXPECT_EQ(advice->fit_observations, 1001);
  EXPECT_EQ(advice->test_observations, 1000);
  PredictionSet sorted{.probabilities = {}, .labels = {}, .class_count = 3};
  for (const std::size_t first : {std::size_t{0}, std::size_t{1}}) {
    for (std::size_t i = first; i < set.labels.size(); i += 2) {
      const auto row = set.view().row(i);
      sorted.probabilities.insert(sorted.probabilities.end(), row.begin(), row.end());
      sorted.labels.push_back(set.labels[i]);
    }
  }
  const PredictionBatch even = sorted.view().rows(0, 1001);
  const PredictionBatch odd = sorted.view().rows(1001, 1000);
  const auto kind = static_cast<RecalibrationKind>(advice->map.index());
  EXPECT_EQ(*FitRecalibration(even, kind), advice->map);
  EXPECT_NEAR(advice->log_loss_after, LogLoss(odd, advice->map), 1e-12);
  // The promise is the interval for one look at the mapped odd rows.
  ApplyRecalibration(advice->map, 3, sorted.probabilities);
  RunningReliability mapped;
  mapped.Add(odd);
  const auto interval = BinnedErrorInterval(mapped, kOneLookErrorLevels);
  EXPECT_EQ(advice->error_after.top_label.estimate, interval->estimate);
  EXPECT_EQ(advice->error_after.top_label.upper, interval->upper);
}

TEST(RecalibrationTest, TheRowsAfterAChangeMustBeEnough) {
  // Deviations that alternate have the mean `shift`.
  const auto stream = [](std::int64_t change, double before, double after, std::int64_t rows) {
    DeviationBlocks blocks;
    for (std::int64_t i = 0; i < rows; ++i) {
      blocks.Add((i < change ? before : after) + (i % 2 == 0 ? .2 : -.2));
    }
    return blocks;
  };
  EXPECT_FALSE(FindChangeBeforeMap({}, 1)->has_value());
  const DeviationBlocks flat = stream(0, 0, 0, 4992);
  const DeviationBlocks early = stream(1984, 0, .3, 4992);
  EXPECT_FALSE(FindChangeBeforeMap(std::vector{flat}, 1)->has_value());
  const auto one = FindChangeBeforeMap(std::vector{flat, early}, 1);
  EXPECT_EQ((*one)->event, 1);
  EXPECT_LE((*one)->change.from, 1984);
  EXPECT_GT((*one)->change.to, 1984);
  // The newest change counts, although it is smaller.
  const auto newest = FindChangeBeforeMap(std::vector{early, stream(3200, 0, .2, 4992)}, 1);
  EXPECT_EQ((*newest)->event, 1);
  EXPECT_THAT(
      FindChangeBeforeMap(std::vector{early, stream(4480, 0, .3, 4992)}, 101).status().ToString(),
      HasSubstr(
          "FAILED_PRECONDITION: too few rows since the change (576 of 1000): the error changed "
          "between rows 4517 and 4644; recalibrate after 424 more rows"));
}

TEST(RecalibrationTest, DeviationsAreOfTheTopLabelAndOfClass1) {
  const PredictionSet two{
      .probabilities = {.3, .7, .6, .4, .5, .5}, .labels = {1, 1, 0}, .class_count = 2};
  const std::vector<DeviationBlocks> events = DeviationsOf(two.view());
  ASSERT_EQ(events.size(), 2);
  EXPECT_NEAR(events[0].state().total.deviation, -.3 + .6 - .5, 1e-15);
  EXPECT_NEAR(events[0].state().total.squares, .09 + .36 + .25, 1e-15);
  EXPECT_NEAR(events[1].state().total.deviation, -.3 - .6 + .5, 1e-15);
  EXPECT_EQ(events[1].rows(), 3);
  EXPECT_EQ(DeviationsOf(Distorted(10, 3, 1).view()).size(), 1);
}

TEST(RecalibrationTest, InvalidMapsAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const RecalibrationMap& map : std::vector<RecalibrationMap>{
           TemperatureMap{0}, TemperatureMap{nan}, VectorMap{.scales = {1}, .offsets = {0, 0}},
           VectorMap{.scales = {1, -1}, .offsets = {0, 0}},
           VectorMap{.scales = {1, 1}, .offsets = {0, nan}}, IsotonicMap{},
           IsotonicMap{.curves = {{.starts = {0}, .values = {.5}}, {.starts = {}, .values = {}}}},
           IsotonicMap{
               .curves = {{.starts = {0}, .values = {.5}}, {.starts = {0}, .values = {0}}}}}) {
    EXPECT_EQ(CheckRecalibrationMap(map, 2).code(), absl::StatusCode::kInvalidArgument);
  }
}

// Each would be given a map otherwise.
TEST(FindMapObstacleTest, NamesWhatHasToBeDoneFirst) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> uniform;
  const auto draw = [&](bool swapped, bool certain) {
    PredictionSet set{.probabilities = {}, .labels = {}, .class_count = 2};
    for (int i = 0; i < 4000; ++i) {
      const double p = uniform(rng);
      const std::int32_t label = uniform(rng) < p ? 1 : 0;
      const double stated = certain ? std::round(p) : p;
      set.probabilities.insert(set.probabilities.end(), {1 - stated, stated});
      set.labels.push_back(swapped ? 1 - label : label);
    }
    return set;
  };
  EXPECT_EQ(FindMapObstacle(draw(false, false).view()), MapObstacle::kNone);
  EXPECT_EQ(FindMapObstacle(draw(true, false).view()), MapObstacle::kWorseThanChance);
  EXPECT_EQ(FindMapObstacle(draw(false, true).view()), MapObstacle::kCertainRows);
  PredictionSet sorted{.probabilities = {}, .labels = {}, .class_count = 2};
  const PredictionSet set = draw(false, false);
  for (const std::int32_t label : {0, 1}) {
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      if (set.labels[i] != label) continue;
      const auto row = set.view().row(i);
      sorted.probabilities.insert(sorted.probabilities.end(), row.begin(), row.end());
      sorted.labels.push_back(label);
    }
  }
  EXPECT_EQ(FindMapObstacle(sorted.view()), MapObstacle::kDependentRows);
  for (const PredictionSet& bad : {draw(true, false), draw(false, true), sorted}) {
    const auto advice = AdviseRecalibration(bad.view(), RecalibrationSplit::kHalves);
    ASSERT_TRUE(advice.ok()) << advice.status();
    EXPECT_FALSE(advice->helps());
    EXPECT_TRUE(std::holds_alternative<IdentityMap>(advice->map));
  }
}

TEST(AdviseRecalibrationTest, SearchesOlderRowsForDependence) {
  // Blocks of 50 equal rows, and then rows that are independent.
  std::mt19937_64 rng(6);
  std::uniform_real_distribution<double> uniform;
  PredictionSet set{.probabilities = {}, .labels = {}, .class_count = 2};
  double p = 0;
  std::int32_t label = 0;
  for (int i = 0; i < 3000; ++i) {
    if (i >= 2000 || i % 50 == 0) {
      p = 0.1 + 0.8 * uniform(rng);
      label = uniform(rng) < p ? 1 : 0;
    }
    set.probabilities.insert(set.probabilities.end(), {1 - p, p});
    set.labels.push_back(label);
  }
  const PredictionBatch newest = set.view().rows(2000, 1000);
  ASSERT_EQ(FindMapObstacle(newest), MapObstacle::kNone);
  const auto advice = AdviseRecalibration(set.view(), RecalibrationSplit::kAlternating, {}, 2000);
  ASSERT_TRUE(advice.ok()) << advice.status();
  EXPECT_EQ(advice->obstacle, MapObstacle::kDependentRows);
  EXPECT_EQ(advice->fit_observations + advice->test_observations, 1000);
  // Without the older rows, nothing speaks against a map.
  const auto alone = AdviseRecalibration(newest, RecalibrationSplit::kAlternating);
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(alone->obstacle, MapObstacle::kNone);
}

}  // namespace
}  // namespace calibd
