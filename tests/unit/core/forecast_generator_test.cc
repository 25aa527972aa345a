#include "calibd/core/forecast_generator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace calibd {
namespace {

using ::testing::HasSubstr;

struct Drawn {
  std::vector<double> forecasts;
  std::vector<double> outcomes;
};

Drawn DrawForecasts(const ForecastGeneratorSpec& spec, std::uint64_t seed,
                    const std::vector<std::size_t>& calls) {
  Drawn drawn;
  auto generator = ForecastGenerator::Create(spec, seed);
  for (const std::size_t n : calls) generator->Draw(n, drawn.forecasts, drawn.outcomes);
  return drawn;
}

double CdfByErf(double t) { return 0.5 + 0.5 * std::erf(t / std::sqrt(2.0)); }

const std::vector<NumberForecastKind>& AllKinds() {
  static const auto* const kinds = new std::vector<NumberForecastKind>{
      NormalForecasts{}, QuantileForecasts{{0.1, 0.5, 0.8}}, SampleForecasts{7}};
  return *kinds;
}

TEST(ForecastGeneratorTest, DependsOnTheSeedAndNotOnTheCalls) {
  for (const NumberForecastKind& kind : AllKinds()) {
    const ForecastGeneratorSpec spec{.kind = kind, .errors = {0.2, 1.5}, .drift_at = 30};
    const Drawn whole = DrawForecasts(spec, 3, {100});
    const Drawn parts = DrawForecasts(spec, 3, {1, 60, 39});
    EXPECT_EQ(whole.forecasts.size(), 100 * ForecastWidth(kind));
    EXPECT_EQ(whole.forecasts, parts.forecasts);
    EXPECT_EQ(whole.outcomes, parts.outcomes);
    EXPECT_NE(whole.outcomes, DrawForecasts(spec, 4, {100}).outcomes);
  }
}

TEST(ForecastGeneratorTest, RowsAreValid) {
  for (const NumberForecastKind& kind : AllKinds()) {
    for (const LocationScale& errors : {LocationScale{-100, 0.01}, LocationScale{100, 100}}) {
      const Drawn drawn = DrawForecasts({.kind = kind, .errors = errors}, 1, {1000});
      const std::size_t width = ForecastWidth(kind);
      for (std::size_t i = 0; i < drawn.outcomes.size(); ++i) {
        const auto row = std::span(drawn.forecasts).subspan(i * width, width);
        ASSERT_FALSE(FindForecastViolation(kind, row).has_value());
        ASSERT_FALSE(FindOutcomeViolation(kind, row, drawn.outcomes[i]).has_value());
      }
    }
  }
}

// With n residuals from N(m, s^2), bounds are 5 standard errors: s / sqrt(n) of the mean and
// s / sqrt(2 n) of the standard deviation.
TEST(ForecastGeneratorTest, ErrorsBeginWithTheirRow) {
  const ForecastGeneratorSpec spec{
      .kind = NormalForecasts{}, .errors = {-0.4, 1.6}, .drift_at = 20001};
  const Drawn drawn = DrawForecasts(spec, 7, {50000});
  const auto expect_residuals = [&](std::size_t first, std::size_t end, double m, double s) {
    const auto n = static_cast<double>(end - first);
    double sum = 0;
    double squares = 0;
    for (std::size_t i = first; i < end; ++i) {
      const double t = (drawn.outcomes[i] - drawn.forecasts[2 * i]) / drawn.forecasts[2 * i + 1];
      sum += t;
      squares += t * t;
    }
    EXPECT_NEAR(sum / n, m, 5 * s / std::sqrt(n));
    EXPECT_NEAR(std::sqrt(squares / n - sum * sum / n / n), s, 5 * s / std::sqrt(2 * n));
  };
  expect_residuals(0, 20000, 0, 1);
  expect_residuals(20000, 50000, -0.4, 1.6);
}

// The error function gives the quantiles of the stated distribution; draws have its moments.
TEST(ForecastGeneratorTest, AllKindsStateTheSameDistribution) {
  const Drawn normal = DrawForecasts({.kind = NormalForecasts{}}, 9, {2000});
  const Drawn quantiles = DrawForecasts({.kind = QuantileForecasts{{0.1, 0.5, 0.8}}}, 9, {2000});
  const Drawn samples = DrawForecasts({.kind = SampleForecasts{50}}, 9, {2000});
  EXPECT_EQ(quantiles.outcomes, normal.outcomes);
  EXPECT_EQ(samples.outcomes, normal.outcomes);
  double sum = 0;
  double squares = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const double mean = normal.forecasts[2 * i];
    const double sd = normal.forecasts[2 * i + 1];
    EXPECT_NEAR(CdfByErf((quantiles.forecasts[3 * i] - mean) / sd), 0.1, 1e-12);
    EXPECT_NEAR(CdfByErf((quantiles.forecasts[3 * i + 1] - mean) / sd), 0.5, 1e-12);
    EXPECT_NEAR(CdfByErf((quantiles.forecasts[3 * i + 2] - mean) / sd), 0.8, 1e-12);
    for (std::size_t k = 0; k < 50; ++k) {
      const double z = (samples.forecasts[50 * i + k] - mean) / sd;
      sum += z;
      squares += z * z;
    }
  }
  const double n = 2000 * 50;
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
}

TEST(ForecastGeneratorTest, ExpectedCoverageIsExact) {
  const LocationScale errors{0.3, 1.5};
  const auto inside = [&](double lower, double upper) {
    return CdfByErf((upper - errors.shift) / errors.scale) -
           CdfByErf((lower - errors.shift) / errors.scale);
  };
  const auto normal = ExpectedCoverage({.kind = NormalForecasts{}, .errors = errors});
  ASSERT_TRUE(normal.has_value());
  // Phi^-1 of .75, .9 and .95.
  const double ends[] = {0.6744897501960817, 1.2815515655446004, 1.6448536269514722};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(normal->central[i]->coverage, inside(-ends[i], ends[i]), 1e-12);
  }
  // With only a shift, the largest difference of 20 cells is that at an edge near shift / 2.
  const auto shifted = ExpectedCoverage({.kind = NormalForecasts{}, .errors = {0.25, 1}});
  const double edge = 0.12566134685507402;  // Phi^-1 of .55
  EXPECT_NEAR(shifted->error.estimate, CdfByErf(edge) - CdfByErf(edge - 0.25), 1e-12);
  const auto quantiles =
      ExpectedCoverage({.kind = QuantileForecasts{{0.1, 0.5, 0.9}}, .errors = errors});
  EXPECT_NEAR(quantiles->central[1]->coverage, inside(-ends[1], ends[1]), 1e-12);
  double error = 0;
  const double edges[] = {-50, -ends[1], 0, ends[1], 50};
  const double stated[] = {0.1, 0.4, 0.4, 0.1};
  for (std::size_t k = 0; k < 4; ++k) {
    error += std::abs(inside(edges[k], edges[k + 1]) - stated[k]) / 2;
  }
  EXPECT_NEAR(quantiles->error.estimate, error, 1e-12);
  for (const NumberForecastKind& kind : AllKinds()) {
    EXPECT_NEAR(ExpectedCoverage({.kind = kind})->error.estimate, 0, 1e-12);
  }
  EXPECT_FALSE(ExpectedCoverage({.kind = SampleForecasts{5}, .errors = errors}).has_value());
}

TEST(ForecastGeneratorTest, NamesWhatIsInvalid) {
  const auto error = [](const ForecastGeneratorSpec& spec) {
    return std::string(ForecastGenerator::Create(spec, 1).status().message());
  };
  EXPECT_THAT(error({.kind = QuantileForecasts{{0.5, 0.5}}}), HasSubstr("level"));
  EXPECT_THAT(error({.kind = NormalForecasts{}, .errors = {std::nan(""), 1}}),
              HasSubstr("shift is nan"));
  EXPECT_THAT(error({.kind = NormalForecasts{}, .errors = {101, 1}}), HasSubstr("shift is 101"));
  EXPECT_THAT(error({.kind = NormalForecasts{}, .errors = {0, 0}}), HasSubstr("scale is 0"));
  EXPECT_THAT(error({.kind = NormalForecasts{}, .drift_at = 0}), HasSubstr("drift_at is 0"));
}

}  // namespace
}  // namespace calibd
