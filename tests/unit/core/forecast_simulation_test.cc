#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <numbers>
#include <random>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_forms.h"
#include "calibd/core/forecast_metrics.h"
#include "numbers/fourier_discrepancy.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

struct DrawnForecasts {
  ForecastKind kind = ForecastKind::kNormal;
  std::size_t width = 2;
  std::vector<double> values;
  std::vector<double> outcomes;
  // Two for each row.
  std::vector<double> features;
  std::vector<std::int32_t> groups;

  [[nodiscard]] ForecastBatch view() const { return {kind, values, width, {}, outcomes}; }
};

// The outcomes are drawn from the forecasts, but `scale` times as far from the mean.
DrawnForecasts Draw(ForecastKind kind, std::size_t n, std::uint64_t seed, double scale = 1) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  DrawnForecasts drawn{.kind = kind,
                       .width = kind == ForecastKind::kNormal ? 2U : 5U,
                       .values = {},
                       .outcomes = {},
                       .features = {},
                       .groups = {}};
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = normal(rng);
    const double deviation = std::exp(0.35 * normal(rng));
    if (kind == ForecastKind::kNormal) {
      drawn.values.insert(drawn.values.end(), {mean, deviation});
    } else {
      for (std::size_t s = 0; s < drawn.width; ++s) {
        drawn.values.push_back(mean + deviation * normal(rng));
      }
    }
    drawn.outcomes.push_back(mean + scale * deviation * normal(rng));
    drawn.features.insert(drawn.features.end(), {mean, normal(rng)});
    drawn.groups.push_back(static_cast<std::int32_t>(i % 3));
  }
  return drawn;
}

ForecastTestOptions WithOptions(std::optional<OutcomeKernel> kernel, Condition condition,
                                NullHypothesis null = NullHypothesis::kForecast) {
  return {.outcome_kernel = std::move(kernel),
          .condition = std::move(condition),
          .resampling = {.replicates = 99, .seed = 5, .null = null}};
}

ForecastTestResult Tested(const DrawnForecasts& drawn, const ForecastTestOptions& options,
                          const RunControl& control = {}) {
  const auto result = TestForecasts(drawn.view(), options, control);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ForecastTestResult());
}

std::vector<Condition> Conditions(const DrawnForecasts& drawn) {
  return {ForecastCondition{.bandwidth = {}, .gamma = 0.4}, NoCondition(),
          FeatureCondition{drawn.features, 0.3}, GroupCondition{drawn.groups}};
}

// Samples are tested given the mean and the standard deviation of the draws and the outcome
// together, in place of their ForecastCondition.
Condition Pooled(const DrawnForecasts& drawn, const Condition& condition) {
  const auto* const forecast = std::get_if<ForecastCondition>(&condition);
  if (forecast == nullptr || drawn.kind == ForecastKind::kNormal) return condition;
  FeatureCondition pooled{{}, forecast->gamma};
  for (std::size_t i = 0; i < drawn.outcomes.size(); ++i) {
    double sum = drawn.outcomes[i];
    double squares = sum * sum;
    for (const double draw : drawn.view().row(i)) {
      sum += draw;
      squares += draw * draw;
    }
    const auto count = static_cast<double>(drawn.width + 1);
    pooled.values.push_back(sum / count);
    pooled.values.push_back(std::sqrt((squares - sum * sum / count) / (count - 1)));
  }
  return pooled;
}

TEST(ForecastSimulationTest, FourierTermsApproximateTheDiscrepancyOfTheKernel) {
  // The mean over many frequencies is the kernel; with 64 the difference has the standard deviation
  // of one frequency over 8. Large discrepancies show the scale and the sign.
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    const DrawnForecasts drawn = Draw(kind, 300, 3, 3);
    std::vector<OutcomeKernel> kernels{RbfKernel{0.2}};
    if (kind == ForecastKind::kNormal) kernels.emplace_back(PitRbfKernel{2});
    for (const OutcomeKernel& kernel : kernels) {
      for (const Condition& condition : Conditions(drawn)) {
        SCOPED_TRACE(::testing::Message() << static_cast<int>(kind) << " " << kernel.index() << " "
                                          << condition.index());
        const auto features =
            FourierDiscrepancy::Create(drawn.view(), kernel, Pooled(drawn, condition));
        ASSERT_NE(features, nullptr);
        const double exact = Tested(drawn, WithOptions(kernel, condition)).mmd_squared;
        ASSERT_GT(exact, 0.005);
        EXPECT_NEAR(features->Unbiased(drawn.view()), exact, 0.4 * exact);
      }
    }
  }
  EXPECT_EQ(FourierDiscrepancy::Create(Draw(ForecastKind::kNormal, 3, 1).view(), EnergyKernel(),
                                       NoCondition()),
            nullptr);
}

TEST(ForecastSimulationTest, ExpectedFeaturesAreThoseOfManyDraws) {
  // The mean of the statistic over outcomes that are drawn from the forecasts is 0: its standard
  // error over 4000 draws is known from their spread.
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    DrawnForecasts drawn = Draw(kind, 4, 8);
    for (const Condition& condition : Conditions(drawn)) {
      std::vector<OutcomeKernel> kernels{RbfKernel{0.7}};
      if (kind == ForecastKind::kNormal) kernels.emplace_back(PitRbfKernel{2});
      for (const OutcomeKernel& kernel : kernels) {
        const auto features =
            FourierDiscrepancy::Create(drawn.view(), kernel, Pooled(drawn, condition));
        std::mt19937_64 rng(1);
        std::normal_distribution<double> normal;
        double sum = 0;
        double squares = 0;
        constexpr int kDraws = 4000;
        for (int draw = 0; draw < kDraws; ++draw) {
          DrawnForecasts other = drawn;
          for (std::size_t i = 0; i < 4; ++i) {
            if (kind == ForecastKind::kNormal) {
              other.outcomes[i] = drawn.values[2 * i] + drawn.values[2 * i + 1] * normal(rng);
            } else if (const std::size_t picked = rng() % 6; picked < 5) {
              std::swap(other.outcomes[i], other.values[i * 5 + picked]);
            }
          }
          const double value = features->Unbiased(other.view());
          sum += value;
          squares += value * value;
        }
        const double error = std::sqrt(squares) / kDraws;
        EXPECT_NEAR(sum / kDraws, 0, 5 * error)
            << static_cast<int>(kind) << " " << kernel.index() << " " << condition.index();
      }
    }
  }
}

TEST(ForecastSimulationTest, EqualsTheLossAndDoesNotDependOnThreads) {
  const RunControl threads{.parallel_for =
                               [](std::size_t count, const std::function<void(std::size_t)>& body) {
                                 std::atomic<std::size_t> next = 0;
                                 std::vector<std::jthread> running;
                                 for (int t = 0; t < 3; ++t) {
                                   running.emplace_back([&] {
                                     for (std::size_t i = next++; i < count; i = next++) body(i);
                                   });
                                 }
                               },
                           .progress = nullptr,
                           .cancelled = nullptr};
  const std::vector<OutcomeKernel> kernels{RbfKernel{0.5}, EnergyKernel(), MomentsKernel(),
                                           ThresholdKernel{.2}, TanhKernel{0, 1}};
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    const DrawnForecasts drawn = Draw(kind, 60, 4);
    for (const OutcomeKernel& kernel : kernels) {
      for (const Condition& condition : Conditions(drawn)) {
        for (const NullHypothesis null : {NullHypothesis::kForecast, NullHypothesis::kForm}) {
          const ForecastTestOptions options = WithOptions(kernel, condition, null);
          const ForecastTestResult result = Tested(drawn, options);
          LossOptions loss;
          loss.outcome_kernel = kernel;
          loss.condition = Pooled(drawn, condition);
          loss.gradient = false;
          EXPECT_NEAR(result.mmd_squared, ComputeLoss(drawn.view(), loss)->penalty_value, 1e-12);
          loss.biased = true;
          EXPECT_NEAR(result.biased_mmd_squared, ComputeLoss(drawn.view(), loss)->penalty_value,
                      1e-12);
          EXPECT_EQ(result.replicates, 99);
          EXPECT_EQ(result.seed, 5);
          EXPECT_GT(result.p_value, 0);
          const ForecastTestResult parallel = Tested(drawn, options, threads);
          EXPECT_EQ(parallel.p_value, result.p_value);
          EXPECT_EQ(parallel.replicate_mean, result.replicate_mean);
        }
      }
    }
  }
}

TEST(ForecastSimulationTest, RandomSignsEqualTheDefinition) {
  const DrawnForecasts drawn = Draw(ForecastKind::kNormal, 100, 6);
  const ForecastTestOptions options =
      WithOptions(MomentsKernel(), NoCondition(), NullHypothesis::kForm);
  const ForecastTestResult result = Tested(drawn, options);
  // f = (y - mean, y^2 - mean^2 - variance), and h_ij = f_i' f_j.
  double mean = 0;
  std::vector<double> replicates;
  for (std::size_t r = 0; r < 99; ++r) {
    Rng rng(5, r);
    double sums[2] = {};
    double squares = 0;
    for (std::size_t i = 0; i < 100; ++i) {
      const double w = rng.Next() >> 63 != 0 ? 1 : -1;
      const double m = drawn.values[2 * i];
      const double sd = drawn.values[2 * i + 1];
      const double y = drawn.outcomes[i];
      const double f[2] = {y - m, y * y - m * m - sd * sd};
      for (int k = 0; k < 2; ++k) {
        sums[k] += w * f[k];
        squares += f[k] * f[k];
      }
    }
    replicates.push_back((sums[0] * sums[0] + sums[1] * sums[1] - squares) / 100 / 99);
    mean += replicates.back() / 99;
  }
  EXPECT_NEAR(result.replicate_mean, mean, 1e-5 * std::abs(result.replicate_standard_deviation));
  const auto exceedances =
      std::ranges::count_if(replicates, [&](double value) { return value >= result.mmd_squared; });
  EXPECT_EQ(result.exceedances, exceedances);
}

TEST(ForecastSimulationTest, PValuesOfCalibratedForecastsAreUniform) {
  // P(p <= a) <= a, and = a for a (R + 1) an integer: 400 runs at .05 and .2, five standard errors.
  constexpr int kRuns = 400;
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    std::array<int, 2> features{};
    std::array<int, 2> pairs{};
    std::array<int, 2> pit_tests{};
    for (int run = 0; run < kRuns; ++run) {
      const auto seed = static_cast<std::uint64_t>(run) + 100;
      const DrawnForecasts drawn = Draw(kind, 20, seed);
      ForecastTestOptions options = WithOptions(std::nullopt, ForecastCondition());
      options.resampling.seed = seed;
      const double by_features = Tested(drawn, options).p_value;
      options.outcome_kernel = EnergyKernel();
      options.condition = NoCondition();
      const double by_pairs = Tested(drawn, options).p_value;
      const auto pit =
          TestPit(ProbabilityIntegralTransforms(drawn.view(), seed), options.resampling);
      ASSERT_TRUE(pit.ok());
      constexpr std::array kPLevels = {0.05, 0.2};
      for (std::size_t k = 0; k < 2; ++k) {
        features[k] += by_features <= kPLevels[k] ? 1 : 0;
        pairs[k] += by_pairs <= kPLevels[k] ? 1 : 0;
        pit_tests[k] += pit->cramer_von_mises.test.p_value <= kPLevels[k] ? 1 : 0;
      }
    }
    for (const auto& counts : {features, pairs, pit_tests}) {
      EXPECT_NEAR(counts[0], 20, 5 * std::sqrt(400 * .05 * .95));
      EXPECT_NEAR(counts[1], 80, 5 * std::sqrt(400 * .2 * .8));
    }
  }
}

// This holds also for two draws, whose discrepancy given the draws alone would be far from 0.
TEST(ForecastSimulationTest, TheDiscrepancyOfCalibratedSamplesHasTheMeanZero) {
  const std::vector<OutcomeKernel> kernels = {RbfKernel{0.3}, EnergyKernel(), TanhKernel{0.2, 1}};
  for (const OutcomeKernel& kernel : kernels) {
    for (const std::size_t draws : {2U, 5U}) {
      std::mt19937_64 rng(3);
      std::normal_distribution<double> normal;
      RunningMoments estimates;
      for (int run = 0; run < 300; ++run) {
        std::vector<double> values;
        std::vector<double> outcomes;
        for (int i = 0; i < 30; ++i) {
          const double mean = normal(rng);
          for (std::size_t s = 0; s < draws; ++s) values.push_back(mean + normal(rng));
          outcomes.push_back(mean + normal(rng));
        }
        const ForecastBatch batch{ForecastKind::kSamples, values, draws, {}, outcomes};
        estimates.Add(TestForecasts(batch, WithOptions(kernel, ForecastCondition()))->mmd_squared);
      }
      EXPECT_NEAR(estimates.mean, 0, 4 * std::sqrt(estimates.Variance() / 300)) << draws;
    }
  }
}

TEST(ForecastSimulationTest, WrongForecastsAreRejected) {
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    const DrawnForecasts drawn = Draw(kind, 400, 2, 1.7);
    for (const NullHypothesis null : {NullHypothesis::kForecast, NullHypothesis::kForm}) {
      const ForecastTestResult result =
          Tested(drawn, WithOptions(std::nullopt, ForecastCondition(), null));
      EXPECT_EQ(result.p_value, 0.01) << static_cast<int>(kind);
      EXPECT_GT(result.mmd_squared, result.replicate_upper_quantile);
    }
    const auto pit = TestPit(ProbabilityIntegralTransforms(drawn.view(), 1),
                             {.replicates = 99, .seed = 1, .null = NullHypothesis::kForecast});
    ASSERT_TRUE(pit.ok());
    EXPECT_EQ(pit->quantile_calibration_error.test.p_value, 0.01);
    EXPECT_EQ(pit->quantile_level_error.test.p_value, 0.01);
  }
}

TEST(ForecastSimulationTest, AThresholdIsTestedGivenTheDecision) {
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    // Too narrow forecasts: those who act and those who do not are both too sure, and their errors
    // cancel in the discrepancy of all rows.
    const DrawnForecasts drawn = Draw(kind, 2000, 3, 2);
    const auto decision = EvaluateThreshold(drawn.view(), {0.5});
    ASSERT_TRUE(decision.ok());
    for (const NullHypothesis null : {NullHypothesis::kForecast, NullHypothesis::kForm}) {
      const BootstrapOptions resampling{.replicates = 99, .seed = 7, .null = null};
      const auto result = TestThreshold(drawn.view(), {0.5}, resampling);
      ASSERT_TRUE(result.ok()) << result.status();
      LossOptions loss;
      loss.outcome_kernel = ThresholdKernel{0.5};
      loss.condition = GroupCondition{{decision->actions.begin(), decision->actions.end()}};
      loss.gradient = false;
      const ForecastTestResult& given = result->given_action;
      EXPECT_NEAR(given.mmd_squared, ComputeLoss(drawn.view(), loss)->penalty_value, 1e-12);
      EXPECT_EQ(given.p_value, 0.01);
      EXPECT_EQ(given.null, null);
      // The calibration error has no random signs.
      EXPECT_EQ(result->calibration_error.test.null, NullHypothesis::kForecast);
      // The diagonal of the loss of samples leaves out equal draws.
      if (kind != ForecastKind::kNormal) continue;
      loss.biased = true;
      EXPECT_NEAR(given.biased_mmd_squared, ComputeLoss(drawn.view(), loss)->penalty_value, 1e-12);
    }
  }
}

TEST(ForecastSimulationTest, PValuesOfDecisionsOfCalibratedForecastsAreNotTooSmall) {
  // The statistic has ties, so P(p <= a) <= a: 400 runs at .05 and .2, five standard errors.
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    // Given the action, and by the calibration error.
    std::array<std::array<int, 2>, 2> rejected{};
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      const DrawnForecasts drawn = Draw(kind, 20, 1000 + seed);
      const auto result = TestThreshold(
          drawn.view(), {0.5}, {.replicates = 99, .seed = seed, .null = NullHypothesis::kForecast});
      ASSERT_TRUE(result.ok());
      const double p_values[] = {result->given_action.p_value,
                                 result->calibration_error.test.p_value};
      for (std::size_t k = 0; k < rejected.size(); ++k) {
        rejected[k][0] += p_values[k] <= 0.05 ? 1 : 0;
        rejected[k][1] += p_values[k] <= 0.2 ? 1 : 0;
      }
    }
    for (const auto& [few, many] : rejected) {
      EXPECT_LE(few, 20 + 5 * std::sqrt(400 * .05 * .95));
      EXPECT_LE(many, 80 + 5 * std::sqrt(400 * .2 * .8));
      // A test that rejects rarely would have no power.
      EXPECT_GE(many, 40);
    }
  }
}

TEST(ForecastSimulationTest, EqualForecastsHaveNoConditionAndErrorsNameTheField) {
  DrawnForecasts drawn = Draw(ForecastKind::kNormal, 30, 9);
  for (std::size_t i = 0; i < 30; ++i) {
    drawn.values[2 * i] = 1;
    drawn.values[2 * i + 1] = 2;
  }
  const ForecastTestResult result = Tested(drawn, WithOptions(std::nullopt, ForecastCondition()));
  EXPECT_TRUE(std::holds_alternative<NoCondition>(result.condition));
  EXPECT_TRUE(std::get<RbfKernel>(result.outcome_kernel).gamma.has_value());
  const auto status = [&](const ForecastTestOptions& options) {
    return std::string(TestForecasts(drawn.view(), options).status().message());
  };
  EXPECT_THAT(status(WithOptions(RbfKernel{-1}, NoCondition())),
              HasSubstr("outcome_kernel.rbf.gamma is -1"));
  ForecastTestOptions few = WithOptions(std::nullopt, NoCondition());
  few.resampling.replicates = 5;
  EXPECT_THAT(status(few), HasSubstr("replicates is 5, expected 99..100000"));
  const std::vector<double> one{0, 1};
  const std::vector<double> outcome{0};
  EXPECT_TRUE(absl::IsFailedPrecondition(
      TestForecasts({ForecastKind::kNormal, one, 2, {}, outcome}, few).status()));
  const RunControl cancelled{
      .parallel_for = nullptr, .progress = nullptr, .cancelled = [] { return true; }};
  EXPECT_TRUE(absl::IsCancelled(
      TestForecasts(drawn.view(), WithOptions(EnergyKernel(), NoCondition()), cancelled).status()));
}

}  // namespace
}  // namespace calibd
