#include "calibd/core/forecast_discrepancy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "base/rng.h"
#include "calibd/core/calibration_loss.h"

namespace calibd {
namespace {

double GaussianDraw(Rng& rng) {
  return std::sqrt(-2 * std::log(rng.Uniform())) * std::cos(2 * std::numbers::pi * rng.Uniform());
}

// n forecasts with the mean `center` + N(0, 1) and the standard deviation e^{.35 N(0, 1)}, and
// outcomes from them with other parameters.
struct ForecastsToCompare {
  ForecastsToCompare(const NumberForecastKind& kind, std::size_t n, double shift, double scale,
                     double center = 0, std::uint64_t seed = 1) {
    Rng rng(seed);
    for (std::size_t i = 0; i < n; ++i) {
      const double mean = center + GaussianDraw(rng);
      const double deviation = std::exp(.35 * GaussianDraw(rng));
      if (std::holds_alternative<NormalForecasts>(kind)) {
        forecasts.insert(forecasts.end(), {mean, deviation});
      } else if (std::holds_alternative<QuantileForecasts>(kind)) {
        // The quantile of the distribution at the level l is ln(l / (1 - l)).
        for (const double level : std::get<QuantileForecasts>(kind).levels) {
          forecasts.push_back(mean + deviation * std::log(level / (1 - level)));
        }
      } else {
        for (std::size_t s = 0; s < ForecastWidth(kind); ++s) {
          forecasts.push_back(mean + deviation * GaussianDraw(rng));
        }
      }
      outcomes.push_back(mean + deviation * (shift + scale * GaussianDraw(rng)));
    }
  }
  [[nodiscard]] NumberForecastBatch batch() const {
    return {.forecasts = forecasts, .outcomes = outcomes};
  }
  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

// The residuals of forecasts by quantiles.
std::vector<std::vector<double>> QuantileResidualsByFormula(const std::vector<double>& levels,
                                                            const DiscrepancyKernel& kernel,
                                                            const NumberForecastBatch& batch) {
  const std::size_t width = levels.size();
  std::vector<std::vector<double>> residuals(batch.size(), std::vector<double>(128));
  std::vector<std::vector<double>> phases(batch.size(), std::vector<double>(64));
  std::vector<std::vector<double>> sums = phases;
  for (std::size_t k = 0; k < width; ++k) {
    Rng frequency(0x63616c69626422ULL, 3 + k);
    Rng sign(0x63616c69626422ULL, 66 + k);
    for (std::size_t r = 0; r < 64; ++r) {
      const double w = GaussianDraw(frequency) / std::sqrt(static_cast<double>(width));
      const double e = sign.Next() >> 63 != 0 ? 1 : -1;
      for (std::size_t i = 0; i < batch.size(); ++i) {
        const double quantile = batch.forecasts[i * width + k];
        if (kernel.forecast_length > 0) {
          phases[i][r] += w * (quantile - kernel.center) / kernel.forecast_length;
        }
        sums[i][r] += e * ((batch.outcomes[i] <= quantile ? 1 : 0) - levels[k]);
      }
    }
  }
  const double scale = std::sqrt(64 * static_cast<double>(width));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t r = 0; r < 64; ++r) {
      residuals[i][r] = std::cos(phases[i][r]) * sums[i][r] / scale;
      residuals[i][64 + r] = std::sin(phases[i][r]) * sums[i][r] / scale;
    }
  }
  return residuals;
}

// psi of all rows, from the formula with the same frequencies, computed with std::cos.
std::vector<std::vector<double>> ResidualsByFormula(const NumberForecastKind& kind,
                                                    const DiscrepancyKernel& kernel,
                                                    const NumberForecastBatch& batch) {
  if (const auto* const quantiles = std::get_if<QuantileForecasts>(&kind)) {
    return QuantileResidualsByFormula(quantiles->levels, kernel, batch);
  }
  std::vector<std::vector<double>> w(3, std::vector<double>(64));
  for (std::size_t input = 0; input < 3; ++input) {
    Rng rng(0x63616c69626422ULL, input);
    for (double& value : w[input]) value = GaussianDraw(rng);
  }
  const std::size_t width = ForecastWidth(kind);
  std::vector<std::vector<double>> residuals;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const auto row = batch.forecasts.subspan(i * width, width);
    double mean = row[0];
    double deviation = row[1];
    if (std::holds_alternative<SampleForecasts>(kind)) {
      mean = batch.outcomes[i];
      for (const double draw : row) mean += draw;
      mean /= static_cast<double>(width + 1);
      deviation = (batch.outcomes[i] - mean) * (batch.outcomes[i] - mean);
      for (const double draw : row) deviation += (draw - mean) * (draw - mean);
      deviation = std::sqrt(deviation / static_cast<double>(width));
    }
    std::vector<double>& residual = residuals.emplace_back();
    for (const bool sine : {false, true}) {
      for (std::size_t r = 0; r < 64; ++r) {
        const auto feature = [&](double value) {
          double phase = w[0][r] * (value - kernel.center) / kernel.outcome_length;
          if (kernel.forecast_length > 0) {
            phase +=
                (w[1][r] * (mean - kernel.center) + w[2][r] * deviation) / kernel.forecast_length;
          }
          return (sine ? std::sin(phase) : std::cos(phase)) / 8;
        };
        double expected = 0;
        if (std::holds_alternative<SampleForecasts>(kind)) {
          for (const double draw : row) expected += feature(draw) / static_cast<double>(width);
        } else {
          const double spread = w[0][r] * deviation / kernel.outcome_length;
          expected = std::exp(-spread * spread / 2) * feature(mean);
        }
        residual.push_back(feature(batch.outcomes[i]) - expected);
      }
    }
  }
  return residuals;
}

QuantileForecasts ManyLevels() {
  QuantileForecasts kind;
  for (std::size_t k = 1; k <= kMaxQuantileLevels; ++k) {
    kind.levels.push_back(static_cast<double>(k) / (kMaxQuantileLevels + 1));
  }
  return kind;
}

double InnerProductOf(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

TEST(ForecastDiscrepancyTest, AgreesWithTheSumOverPairs) {
  for (const NumberForecastKind& kind :
       {NumberForecastKind(NormalForecasts{}), NumberForecastKind(SampleForecasts{2}),
        NumberForecastKind(SampleForecasts{37}),
        NumberForecastKind(QuantileForecasts{{.1, .5, .8}}), NumberForecastKind(ManyLevels())}) {
    for (const double forecast_length : {0., 1.7}) {
      const DiscrepancyKernel kernel{
          .outcome_length = 2.1, .forecast_length = forecast_length, .center = .3};
      const ForecastsToCompare drawn(kind, 35, .4, 1.3);
      const auto residuals = ResidualsByFormula(kind, kernel, drawn.batch());
      double pairs = 0;
      for (std::size_t i = 0; i < residuals.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) pairs += 2 * InnerProductOf(residuals[i], residuals[j]);
      }
      const double n = 35;
      auto discrepancy = *ForecastDiscrepancy::Create(kind, kernel);
      discrepancy.Add(drawn.batch());
      EXPECT_NEAR(*discrepancy.Unbiased(), pairs / (n * (n - 1)), 1e-12);
      EXPECT_EQ(discrepancy.norm().count, 35);
      // The projections, by their definition.
      RunningMoments projections;
      std::vector<double> sum(128);
      for (const std::vector<double>& residual : residuals) {
        const double norm = std::sqrt(InnerProductOf(sum, sum));
        projections.Add(norm > 0 ? InnerProductOf(residual, sum) / norm : 0);
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += residual[k];
      }
      EXPECT_NEAR(discrepancy.projections().mean, projections.mean, 1e-12);
      EXPECT_NEAR(discrepancy.projections().m2, projections.m2, 1e-10);
    }
  }
}

// The features approximate the kernel in closed form, each pair to about 1/8.
TEST(ForecastDiscrepancyTest, ApproximatesTheDiscrepancyInClosedForm) {
  const NumberForecastKind kind = NormalForecasts{};
  for (const double shift : {0., .5, 1.}) {
    const ForecastsToCompare drawn(kind, 1000, shift, 1);
    const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(kind, drawn.forecasts);
    auto discrepancy = *ForecastDiscrepancy::Create(kind, kernel);
    discrepancy.Add(drawn.batch());
    LossOptions options;
    options.gradient = false;
    const ForecastBatch batch{.kind = ForecastKind::kNormal,
                              .values = drawn.forecasts,
                              .width = 2,
                              .labels = {},
                              .outcomes = drawn.outcomes};
    const CalibrationLoss exact = *ComputeLoss(batch, options);
    // The same lengths are chosen.
    const auto gamma = [](double length) { return 1 / (2 * length * length); };
    EXPECT_NEAR(*std::get<RbfKernel>(*exact.outcome_kernel).gamma, gamma(kernel.outcome_length),
                1e-9);
    EXPECT_NEAR(*std::get<ForecastCondition>(exact.condition).gamma, gamma(kernel.forecast_length),
                1e-9);
    EXPECT_NEAR(*discrepancy.Unbiased(), exact.penalty_value, .3 * exact.penalty_value + 5e-4);
  }
}

// The exact estimate of quantiles is that of one block.
TEST(ForecastDiscrepancyTest, ApproximatesTheBlocksOfQuantiles) {
  for (const QuantileForecasts& kind : {QuantileForecasts{{.1, .5, .8}}, ManyLevels()}) {
    for (const double shift : {.5, 1.}) {
      const ForecastsToCompare drawn(kind, 5000, shift, 1);
      const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(
          kind, std::span(drawn.forecasts).first(300 * kind.levels.size()));
      auto discrepancy = *ForecastDiscrepancy::Create(kind, kernel);
      discrepancy.Add(drawn.batch());
      const RunningMoments& blocks = discrepancy.blocks().moments();
      ASSERT_EQ(blocks.count, 100);
      EXPECT_NEAR(*discrepancy.Unbiased(), blocks.mean,
                  .3 * blocks.mean + 4 * std::sqrt(blocks.Variance() / 100));
    }
  }
}

// The blocks of samples are the unbiased estimates of 50 rows each.
TEST(ForecastDiscrepancyTest, BlocksOfSamplesHaveTheSameFeatures) {
  const NumberForecastKind kind = SampleForecasts{4};
  const ForecastsToCompare drawn(kind, 130, .4, 1.3);
  const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(kind, drawn.forecasts);
  auto whole = *ForecastDiscrepancy::Create(kind, kernel);
  whole.Add(drawn.batch());
  RunningMoments blocks;
  for (const std::size_t first : {0U, 50U}) {
    auto block = *ForecastDiscrepancy::Create(kind, kernel);
    block.Add({.forecasts = std::span(drawn.forecasts).subspan(4 * first, 200),
               .outcomes = std::span(drawn.outcomes).subspan(first, 50)});
    blocks.Add(*block.Unbiased());
  }
  EXPECT_EQ(whole.blocks().moments().count, 2);
  EXPECT_NEAR(whole.blocks().moments().mean, blocks.mean, 1e-14);
  EXPECT_EQ(whole.blocks().state().residuals, 30U);
}

TEST(ForecastDiscrepancyTest, BitsDoNotDependOnTheBatches) {
  for (const NumberForecastKind& kind :
       {NumberForecastKind(NormalForecasts{}), NumberForecastKind(SampleForecasts{50}),
        NumberForecastKind(QuantileForecasts{{.1, .5, .8}})}) {
    const ForecastsToCompare drawn(kind, 100, .4, 1.3);
    const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(kind, drawn.forecasts);
    auto whole = *ForecastDiscrepancy::Create(kind, kernel);
    whole.Add(drawn.batch());
    const std::size_t width = ForecastWidth(kind);
    for (const std::size_t size : {1U, 5U, 64U}) {
      auto split = *ForecastDiscrepancy::Create(kind, kernel);
      for (std::size_t first = 0; first < 100; first += size) {
        const std::size_t rows = std::min(size, 100 - first);
        auto restored = *ForecastDiscrepancy::Create(kind, kernel);
        ASSERT_TRUE(restored.Restore(split.Save()).ok());
        split = restored;
        split.Add({.forecasts = std::span(drawn.forecasts).subspan(first * width, rows * width),
                   .outcomes = std::span(drawn.outcomes).subspan(first, rows)});
      }
      EXPECT_EQ(split.Save(), whole.Save()) << size;
    }
  }
}

TEST(ForecastDiscrepancyTest, PartsAddUp) {
  const NumberForecastKind kind = NormalForecasts{};
  const ForecastsToCompare drawn(kind, 300, .4, 1.3);
  const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(kind, drawn.forecasts);
  auto whole = *ForecastDiscrepancy::Create(kind, kernel);
  whole.Add(drawn.batch());
  auto first = *ForecastDiscrepancy::Create(kind, kernel);
  auto second = first;
  first.Add({.forecasts = std::span(drawn.forecasts).first(200),
             .outcomes = std::span(drawn.outcomes).first(100)});
  second.Add({.forecasts = std::span(drawn.forecasts).subspan(200),
              .outcomes = std::span(drawn.outcomes).subspan(100)});
  first.Merge(second);
  EXPECT_NEAR(*first.Unbiased(), *whole.Unbiased(), 1e-12);
  EXPECT_EQ(first.projections().count, 300);
}

TEST(ForecastDiscrepancyTest, TheIntervalContainsTheDiscrepancy) {
  const NumberForecastKind kind = NormalForecasts{};
  // There are so many that the error of the estimate is small.
  const ForecastsToCompare many(kind, 200000, 1, 1, 0, 5);
  const DiscrepancyKernel kernel =
      *ChooseDiscrepancyKernel(kind, std::span(many.forecasts).first(1000));
  auto discrepancy = *ForecastDiscrepancy::Create(kind, kernel);
  EXPECT_FALSE(discrepancy.Interval(.05).has_value());
  EXPECT_FALSE(discrepancy.Unbiased().has_value());
  discrepancy.Add(many.batch());
  const double truth = std::sqrt(*discrepancy.Unbiased());
  double width = 2;
  for (const std::size_t n : {100U, 1000U, 10000U}) {
    auto part = *ForecastDiscrepancy::Create(kind, kernel);
    part.Add({.forecasts = std::span(many.forecasts).first(2 * n),
              .outcomes = std::span(many.outcomes).first(n)});
    const DiscrepancyInterval interval = *part.Interval(.05);
    EXPECT_LE(interval.lower, truth);
    EXPECT_GE(interval.upper, truth);
    EXPECT_LT(interval.upper - interval.lower, .5 * width);
    width = interval.upper - interval.lower;
  }
  EXPECT_LT(width, .1);
}

TEST(ForecastDiscrepancyTest, ExtremeValuesAreFinite) {
  const double most = std::numeric_limits<double>::max();
  const NumberForecastKind normal = NormalForecasts{};
  const std::vector<double> forecasts = {-most, 1, most, most, 0, 1e-300, 0, 1};
  const std::vector<double> outcomes = {most, -most, 1e7, most};
  for (const double length : {1e-300, 1., 1e300}) {
    auto discrepancy = *ForecastDiscrepancy::Create(
        normal, {.outcome_length = length, .forecast_length = length, .center = -most / 2});
    discrepancy.Add({.forecasts = forecasts, .outcomes = outcomes});
    EXPECT_TRUE(std::isfinite(*discrepancy.Unbiased()));
    auto samples = *ForecastDiscrepancy::Create(
        SampleForecasts{2}, {.outcome_length = length, .forecast_length = length, .center = 0});
    samples.Add({.forecasts = forecasts, .outcomes = outcomes});
    EXPECT_TRUE(std::isfinite(*samples.Unbiased()));
    EXPECT_TRUE(samples.Restore(samples.Save()).ok());
    auto quantiles = *ForecastDiscrepancy::Create(
        QuantileForecasts{{.1, .9}},
        {.outcome_length = 1, .forecast_length = length, .center = -most / 2});
    const std::vector<double> ascending = {-most, most, most, most, 0, 1e-300, 0, 1};
    quantiles.Add({.forecasts = ascending, .outcomes = outcomes});
    EXPECT_TRUE(std::isfinite(*quantiles.Unbiased()));
    EXPECT_LE(quantiles.Interval(.05)->upper, 2);
    EXPECT_TRUE(quantiles.Restore(quantiles.Save()).ok());
  }
}

TEST(ForecastDiscrepancyTest, NamesWhatIsInvalid) {
  EXPECT_FALSE(ForecastDiscrepancy::Create(QuantileForecasts{{}}, {}).ok());
  EXPECT_FALSE(ForecastDiscrepancy::Create(SampleForecasts{1}, {}).ok());
  EXPECT_EQ(
      ForecastDiscrepancy::Create(NormalForecasts{}, {.outcome_length = 0}).status().message(),
      "outcome_length is 0, expected a finite number > 0");
  EXPECT_FALSE(ForecastDiscrepancy::Create(NormalForecasts{}, {.forecast_length = -1}).ok());
  EXPECT_FALSE(ForecastDiscrepancy::Create(NormalForecasts{}, {.center = std::nan("")}).ok());
  const std::vector<double> equal = {1, 2, 1, 2, 1, 2};
  const DiscrepancyKernel kernel = *ChooseDiscrepancyKernel(NormalForecasts{}, equal);
  EXPECT_NEAR(kernel.outcome_length, std::sqrt(8), 1e-12);
  EXPECT_EQ(kernel.forecast_length, 0);
  EXPECT_EQ(kernel.center, 1);
  EXPECT_FALSE(ChooseDiscrepancyKernel(NormalForecasts{}, std::vector<double>{1, 2}).ok());
  EXPECT_FALSE(ChooseDiscrepancyKernel(SampleForecasts{2}, std::vector<double>{1, 1, 1, 1}).ok());
  // W of quantiles: here sqrt((1^2 + 3^2) / 2) between the two forecasts.
  const DiscrepancyKernel quantiles =
      *ChooseDiscrepancyKernel(QuantileForecasts{{.2, .6}}, std::vector<double>{1, 2, 2, 5});
  EXPECT_NEAR(quantiles.forecast_length, std::sqrt(5), 1e-12);
  EXPECT_EQ(quantiles.outcome_length, 1);
  auto discrepancy = *ForecastDiscrepancy::Create(NormalForecasts{}, {});
  ForecastDiscrepancy::State state = discrepancy.Save();
  state.sums.pop_back();
  EXPECT_FALSE(discrepancy.Restore(state).ok());
  state.sums.push_back(std::nan(""));
  EXPECT_FALSE(discrepancy.Restore(state).ok());
}

}  // namespace
}  // namespace calibd
