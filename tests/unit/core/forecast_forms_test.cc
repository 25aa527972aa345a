// Kernels of outcomes that are a product, and the forms of quantiles.
#include "calibd/core/forecast_forms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/forecast_evaluation.h"
#include "calibd/core/forecast_metrics.h"
#include "numbers/product_discrepancy.h"
#include "support/small_forecasts.h"

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<double> kLevels = {0.1, 0.5, 0.9};
constexpr std::array kNormalQuantiles = {-1.2815515655446004, 0.0, 1.2815515655446004};

// Quantiles of normal distributions, whose outcomes are `scale` times as far from the median.
struct DrawnQuantiles {
  explicit DrawnQuantiles(std::size_t n, std::uint64_t seed, double scale = 1) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < n; ++i) {
      const double median = normal(rng);
      const double deviation = std::exp(0.35 * normal(rng));
      for (const double z : kNormalQuantiles) values.push_back(median + deviation * z);
      outcomes.push_back(median + scale * deviation * normal(rng));
      features.insert(features.end(), {median, normal(rng)});
      groups.push_back(static_cast<std::int32_t>(i % 3));
    }
  }

  [[nodiscard]] ForecastBatch view() const {
    return {ForecastKind::kQuantiles, values, kLevels.size(), {}, outcomes};
  }
  [[nodiscard]] std::vector<Condition> conditions() const {
    return {ForecastCondition{.bandwidth = {}, .gamma = 0.4}, NoCondition(),
            FeatureCondition{features, 0.3}, GroupCondition{groups}};
  }
  // k_z of rows i and j under condition number c.
  [[nodiscard]] double kernel(std::size_t c, std::size_t i, std::size_t j) const {
    if (c == 1) return 1;
    if (c == 3) return groups[i] == groups[j] ? 1 : 0;
    const std::vector<double>& points = c == 0 ? values : features;
    const std::size_t width = points.size() / outcomes.size();
    double square = 0;
    for (std::size_t k = 0; k < width; ++k) {
      square += std::pow(points[i * width + k] - points[j * width + k], 2);
    }
    return std::exp(c == 0 ? -0.4 * square / 3 : -0.3 * square);
  }

  std::vector<double> values;
  std::vector<double> outcomes;
  std::vector<double> features;
  std::vector<std::int32_t> groups;
};

ForecastTestResult Tested(const ForecastBatch& batch, const OutcomeKernel& kernel,
                          const Condition& condition,
                          NullHypothesis null = NullHypothesis::kForecast, std::uint64_t seed = 5) {
  const auto result =
      TestForecasts(batch, {.outcome_kernel = kernel,
                            .condition = condition,
                            .resampling = {.replicates = 99, .seed = seed, .null = null}});
  EXPECT_TRUE(result.ok()) << result.status();
  return result.value_or(ForecastTestResult());
}

TEST(ForecastFormsTest, TheDiscrepancyOfQuantilesEqualsItsDefinition) {
  const DrawnQuantiles drawn(40, 3, 1.5);
  const std::vector<Condition> conditions = drawn.conditions();
  for (std::size_t c = 0; c < conditions.size(); ++c) {
    double different = 0;
    double diagonal = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      for (std::size_t j = 0; j < 40; ++j) {
        double product = 0;
        for (std::size_t k = 0; k < 3; ++k) {
          const auto f = [&](std::size_t row) {
            return (drawn.outcomes[row] <= drawn.values[3 * row + k] ? 1 : 0) - kLevels[k];
          };
          product += f(i) * f(j) / 3;
        }
        (i == j ? diagonal : different) += drawn.kernel(c, i, j) * product;
      }
    }
    for (const NullHypothesis null : {NullHypothesis::kForecast, NullHypothesis::kForm}) {
      const ForecastTestResult result =
          Tested(drawn.view(), LevelsKernel{kLevels}, conditions[c], null);
      EXPECT_NEAR(result.mmd_squared, different / 40 / 39, 1e-12);
      EXPECT_NEAR(result.biased_mmd_squared, (different + diagonal) / 1600, 1e-12);
      EXPECT_EQ(std::get<LevelsKernel>(result.outcome_kernel).levels, kLevels);
    }
  }
}

// Given points, each of the 64 frequencies has the variance 1/2 for a pair. So the standard error
// is at most sqrt(1 / 128) of the mean of |A_ij|, which is at most the mean of A_ii: five of them.
TEST(ForecastFormsTest, ProductsAreExactWithoutAConditionOnPoints) {
  const DrawnQuantiles drawn(200, 4, 1.5);
  std::vector<double> normals;
  for (std::size_t i = 0; i < 200; ++i) {
    const double median = drawn.values[3 * i + 1];
    normals.insert(normals.end(), {median, (drawn.values[3 * i + 2] - median) / 1.28});
  }
  const ForecastBatch of_normals{ForecastKind::kNormal, normals, 2, {}, drawn.outcomes};
  const ForecastBatch of_samples{ForecastKind::kSamples, drawn.values, 3, {}, drawn.outcomes};
  const auto check = [&](const ForecastBatch& batch, const OutcomeKernel& kernel) {
    for (const Condition& condition : drawn.conditions()) {
      // The features of samples are those of moments: see ForecastSimulationTest.
      if (batch.kind == ForecastKind::kSamples &&
          std::holds_alternative<ForecastCondition>(condition)) {
        continue;
      }
      const ForecastTestResult result = Tested(batch, kernel, condition);
      const double by_products =
          ProductDiscrepancy::Create(batch, kernel, condition)->Unbiased(batch);
      const bool sums = std::holds_alternative<NoCondition>(condition) ||
                        std::holds_alternative<GroupCondition>(condition);
      const double diagonal = 200 * result.biased_mmd_squared - 199 * result.mmd_squared;
      EXPECT_NEAR(by_products, result.mmd_squared, sums ? 1e-12 : 5 * diagonal / std::sqrt(128))
          << condition.index();
      EXPECT_NEAR(by_products, result.statistic, 1e-12) << condition.index();
    }
  };
  check(drawn.view(), LevelsKernel{kLevels});
  for (const OutcomeKernel& kernel :
       {OutcomeKernel(MomentsKernel{0.5, 2}), OutcomeKernel(ThresholdKernel{0.3}),
        OutcomeKernel(TanhKernel{0.3, 0.7})}) {
    check(of_normals, kernel);
    check(of_samples, kernel);
  }
  EXPECT_EQ(ProductDiscrepancy::Create(of_normals, EnergyKernel(), NoCondition()), nullptr);
}

TEST(ForecastFormsTest, PValuesOfCalibratedQuantilesAreUniform) {
  // P(p <= a) <= a, and = a for a (R + 1) an integer, without ties: 400 runs at .05 and .2, five
  // standard errors. Without a condition few values are possible, and ties make p larger.
  constexpr int kRuns = 400;
  std::array<std::array<int, 2>, 5> counts{};
  for (int run = 0; run < kRuns; ++run) {
    const auto seed = static_cast<std::uint64_t>(run) + 100;
    const DrawnQuantiles drawn(30, seed);
    std::vector<std::int64_t> cells(4);
    for (std::size_t i = 0; i < 30; ++i) {
      std::size_t above = 0;
      for (std::size_t k = 0; k < 3; ++k) {
        above += drawn.outcomes[i] > drawn.values[3 * i + k] ? 1U : 0U;
      }
      ++cells[above];
    }
    std::vector<double> p_values;
    for (const Condition& condition : drawn.conditions()) {
      p_values.push_back(
          Tested(drawn.view(), LevelsKernel{kLevels}, condition, NullHypothesis::kForecast, seed)
              .p_value);
    }
    p_values.push_back(
        TestLevels(cells, kLevels,
                   {.replicates = 99, .seed = seed, .null = NullHypothesis::kForecast})
            ->test.p_value);
    for (std::size_t c = 0; c < p_values.size(); ++c) {
      counts[c][0] += p_values[c] <= 0.05 ? 1 : 0;
      counts[c][1] += p_values[c] <= 0.2 ? 1 : 0;
    }
  }
  for (std::size_t c = 0; c < counts.size(); ++c) {
    const double most[2] = {20 + 5 * std::sqrt(400 * .05 * .95), 80 + 5 * std::sqrt(400 * .2 * .8)};
    const bool points = c == 0 || c == 2;
    for (std::size_t k = 0; k < 2; ++k) {
      EXPECT_LT(counts[c][k], most[k]) << c;
      EXPECT_GT(counts[c][k], points ? (k == 0 ? 40 : 160) - most[k] : 0) << c;
    }
  }
}

TEST(ForecastFormsTest, WrongQuantilesAreRejectedInEveryForm) {
  const DrawnQuantiles drawn(400, 2, 1.7);
  for (const Condition& condition : drawn.conditions()) {
    for (const NullHypothesis null : {NullHypothesis::kForecast, NullHypothesis::kForm}) {
      const ForecastTestResult result =
          Tested(drawn.view(), LevelsKernel{kLevels}, condition, null);
      EXPECT_EQ(result.p_value, 0.01) << condition.index();
      EXPECT_GT(result.mmd_squared, result.replicate_upper_quantile) << condition.index();
    }
  }
}

// Calibrated Normal forecasts and samples, by kernels whose replicates are O(n).
TEST(ForecastFormsTest, PValuesOfProductKernelsAreUniform) {
  constexpr int kRuns = 400;
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    std::array<int, 2> counts{};
    for (int run = 0; run < kRuns; ++run) {
      const auto seed = static_cast<std::uint64_t>(run) + 100;
      std::mt19937_64 rng(seed);
      std::normal_distribution<double> normal;
      std::vector<double> values;
      std::vector<double> outcomes;
      for (int i = 0; i < 20; ++i) {
        const double mean = normal(rng);
        if (kind == ForecastKind::kNormal) {
          values.insert(values.end(), {mean, 1.0});
        } else {
          for (int s = 0; s < 4; ++s) values.push_back(mean + normal(rng));
        }
        outcomes.push_back(mean + normal(rng));
      }
      const ForecastBatch batch{kind, values, values.size() / 20, {}, outcomes};
      const double p_value =
          Tested(batch, TanhKernel{0, 1}, ForecastCondition{}, NullHypothesis::kForecast, seed)
              .p_value;
      counts[0] += p_value <= 0.05 ? 1 : 0;
      counts[1] += p_value <= 0.2 ? 1 : 0;
    }
    EXPECT_NEAR(counts[0], 20, 5 * std::sqrt(400 * .05 * .95));
    EXPECT_NEAR(counts[1], 80, 5 * std::sqrt(400 * .2 * .8));
  }
}

TEST(ForecastFormsTest, QuantilesHaveNoOtherKernel) {
  const DrawnQuantiles drawn(5, 1);
  const auto message = [&](const std::optional<OutcomeKernel>& kernel) {
    ForecastTestOptions options;
    options.outcome_kernel = kernel;
    return std::string(TestForecasts(drawn.view(), options).status().message());
  };
  EXPECT_THAT(message(std::nullopt), HasSubstr(", the level of each quantile"));
  EXPECT_THAT(message(EnergyKernel()), HasSubstr(", the level of each quantile"));
  EXPECT_THAT(message(LevelsKernel{{0.5}}), HasSubstr(", the level of each quantile"));
  EXPECT_THAT(message(LevelsKernel{{0.5, 0.5, 0.6}}), HasSubstr("does not increase strictly"));
  LossOptions loss;
  loss.outcome_kernel = LevelsKernel{kLevels};
  EXPECT_THAT(std::string(ComputeLoss(drawn.view(), loss).status().message()),
              HasSubstr("expected none for quantiles"));
}

const ForecastTestResult* FindForm(const ForecastEvaluation& evaluation, const std::string& form) {
  const auto found = std::ranges::find(evaluation.discrepancies, form, &NamedDiscrepancy::form);
  return found == evaluation.discrepancies.end() ? nullptr : &found->result;
}

TEST(ForecastFormsTest, EvaluationsHaveTheDiscrepanciesOfTheSmallCases) {
  for (const nlohmann::json& small : testing::SmallCasesOf("forecast")) {
    const testing::ForecastSet set = testing::NormalsOf(small);
    const auto check = [&](const OutcomeKernel& kernel, const char* form, const char* name) {
      ForecastEvaluationOptions options;
      options.resampling.replicates = 99;
      options.outcome_kernel = kernel;
      options.decision = ThresholdDecision{small.at("threshold_y0").get<double>()};
      options.threshold_alpha = small.at("threshold_alpha").get<double>();
      ForecastCovariates covariates;
      covariates.groups = small.at("group").get<std::vector<std::int32_t>>();
      const auto evaluation =
          EvaluateForecasts(NormalForecasts(), {set.values, set.outcomes}, options, covariates);
      ASSERT_TRUE(evaluation.ok()) << evaluation.status();
      const ForecastTestResult* const result = FindForm(*evaluation, form);
      ASSERT_NE(result, nullptr) << form;
      const nlohmann::json& expected = small.at("mmd").at(name);
      EXPECT_NEAR(result->mmd_squared, expected.at("unbiased").get<double>(), 1e-9) << name;
      EXPECT_NEAR(result->biased_mmd_squared, expected.at("biased").get<double>(), 1e-9) << name;
      EXPECT_EQ(result->outcome_kernel.index(), kernel.index()) << name;
    };
    check(PitRbfKernel(), "quantile", "quantile");
    check(PitMinKernel(), "quantile", "quantile_min");
    check(PitRbfKernel(), "threshold", "threshold");
    check(RbfKernel{small.at("gamma_y").get<double>()}, "marginal", "marginal");
    check(EnergyKernel(), "marginal", "marginal_min");
    check(ThresholdKernel{small.at("decision_c").get<double>()}, "decision_marginal",
          "decision_sign");
  }
}

TEST(ForecastFormsTest, TheCostsOfTheDecisionDivideTheForecasts) {
  // The probabilities of an outcome up to 0 are between .16 and .84.
  std::vector<double> normals;
  std::vector<double> outcomes;
  for (int i = 0; i <= 40; ++i) {
    normals.insert(normals.end(), {i / 20.0 - 1, 1});
    outcomes.push_back(i % 3 - 1.0);
  }
  const auto evaluate = [&](double miss_cost, std::optional<double> alpha) {
    ForecastEvaluationOptions options;
    options.resampling.replicates = 99;
    options.decision = ThresholdDecision{.threshold = 0, .miss_cost = miss_cost};
    options.threshold_alpha = alpha;
    return *EvaluateForecasts(NormalForecasts(), {normals, outcomes}, options);
  };
  const auto mmd = [](const ForecastEvaluation& evaluation) {
    return FindForm(evaluation, "threshold")->mmd_squared;
  };
  // Acting costs 1 if the outcome stays below the threshold, and pays up to the probability 3/4.
  const ForecastEvaluation by_costs = evaluate(3, std::nullopt);
  EXPECT_EQ(mmd(by_costs), mmd(evaluate(3, 0.75)));
  EXPECT_NE(mmd(by_costs), mmd(evaluate(3, 0.5)));
  // A stated probability does not change the decision.
  EXPECT_EQ(by_costs.decision->realised_loss, evaluate(3, 0.5).decision->realised_loss);
  EXPECT_NE(by_costs.decision->realised_loss, evaluate(1, std::nullopt).decision->realised_loss);
}

TEST(ForecastFormsTest, QuantilesHaveFormsByGroupFeaturesAndThreshold) {
  const DrawnQuantiles drawn(300, 8, 1.7);
  ForecastCovariates covariates;
  covariates.groups = drawn.groups;
  covariates.features = drawn.features;
  covariates.feature_count = 2;
  covariates.local_features = {0};
  ForecastEvaluationOptions options;
  options.resampling = {.replicates = 99, .seed = 3, .null = NullHypothesis::kForecast};
  options.decision = ThresholdDecision{0.4};
  options.threshold_alpha = 0.9;
  const auto evaluation = EvaluateForecasts(QuantileForecasts{kLevels},
                                            {drawn.values, drawn.outcomes}, options, covariates);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  std::vector<std::string> forms;
  for (const NamedDiscrepancy& named : evaluation->discrepancies) {
    forms.push_back(named.form);
    EXPECT_EQ(named.result.p_value, 0.01) << named.form;
  }
  EXPECT_THAT(forms, ElementsAre("distribution", "group", "individual", "local", "threshold"));
  EXPECT_FALSE(evaluation->decision.has_value());
  EXPECT_FALSE(evaluation->local.has_value());
  GroupCondition sides;
  for (std::size_t i = 0; i < 300; ++i) {
    sides.groups.push_back(drawn.values[3 * i + 2] >= 0.4 ? 1 : 0);
  }
  EXPECT_NEAR(FindForm(*evaluation, "threshold")->mmd_squared,
              Tested(drawn.view(), LevelsKernel{kLevels}, sides).mmd_squared, 1e-12);

  const auto message = [&](const ForecastEvaluationOptions& wrong) {
    return std::string(
        EvaluateForecasts(QuantileForecasts{kLevels}, {drawn.values, drawn.outcomes}, wrong)
            .status()
            .message());
  };
  options.threshold_alpha = 0.8;
  EXPECT_THAT(message(options), HasSubstr("threshold_alpha is 0.8, expected one of the levels"));
  options.decision.reset();
  EXPECT_THAT(message(options), HasSubstr("threshold_alpha is 0.8, expected a number in (0, 1)"));
  options.threshold_alpha.reset();
  options.outcome_kernel = EnergyKernel();
  EXPECT_THAT(message(options), HasSubstr("outcome_kernel is set, expected none for quantiles"));
}

TEST(ForecastFormsTest, SamplesHaveNoKernelOfTheDistributionFunction) {
  const DrawnQuantiles drawn(50, 9);
  ForecastEvaluationOptions options;
  options.resampling.replicates = 99;
  options.decision = ThresholdDecision{0.4};
  options.outcome_kernel = TanhKernel{0.4, 0.5};
  const auto evaluation =
      EvaluateForecasts(SampleForecasts{3}, {drawn.values, drawn.outcomes}, options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  std::vector<std::string> forms;
  for (const NamedDiscrepancy& named : evaluation->discrepancies) forms.push_back(named.form);
  EXPECT_THAT(forms, ElementsAre("distribution", "decision_marginal", "threshold", "decision"));
  EXPECT_THAT(evaluation->left_out, IsEmpty());
  options.outcome_kernel = PitMinKernel();
  EXPECT_THAT(
      std::string(EvaluateForecasts(SampleForecasts{3}, {drawn.values, drawn.outcomes}, options)
                      .status()
                      .message()),
      HasSubstr("outcome_kernel needs the distribution function"));
}

// The form threshold of n calibrated forecasts by `draws` draws, or of such with outcomes that are
// `shift` larger where the mean of the forecast is positive, and smaller elsewhere.
ForecastTestResult ThresholdOfDraws(std::size_t n, std::size_t draws, double shift,
                                    std::uint64_t seed, std::int32_t replicates) {
  std::mt19937_64 rng(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values;
  std::vector<double> outcomes;
  for (std::size_t i = 0; i < n; ++i) {
    const double mean = normal(rng);
    for (std::size_t s = 0; s < draws; ++s) values.push_back(mean + normal(rng));
    outcomes.push_back(mean + normal(rng) + (mean > 0 ? shift : -shift));
  }
  ForecastEvaluationOptions options;
  options.resampling.replicates = replicates;
  options.resampling.seed = seed;
  options.decision = ThresholdDecision{0};
  const auto evaluation = EvaluateForecasts(SampleForecasts{draws}, {values, outcomes}, options);
  const ForecastTestResult* const result = FindForm(*evaluation, "threshold");
  // The definition uses the ranks in (0, 1), and the side of the draws and the outcome together.
  const ForecastBatch batch{ForecastKind::kSamples, values, draws, {}, outcomes};
  const std::vector<double> pit = ProbabilityIntegralTransforms(batch, seed);
  const double gamma = std::get<PitRbfKernel>(result->outcome_kernel).gamma;
  const double root = std::sqrt(gamma);
  const auto mean_at = [&](double u) {
    return std::sqrt(std::numbers::pi / gamma) / 2 *
           (std::erf(root * u) + std::erf(root * (1 - u)));
  };
  const double mean =
      std::sqrt(std::numbers::pi / gamma) * std::erf(root) - (1 - std::exp(-gamma)) / gamma;
  const auto is_above = [&](std::size_t i) {
    std::size_t below = outcomes[i] <= 0 ? 1 : 0;
    for (const double draw : batch.row(i)) below += draw <= 0 ? 1 : 0;
    return 2 * below <= draws + 1;
  };
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      if (i == j || is_above(i) != is_above(j)) continue;
      sum += std::exp(-gamma * (pit[i] - pit[j]) * (pit[i] - pit[j])) - mean_at(pit[i]) -
             mean_at(pit[j]) + mean;
    }
  }
  EXPECT_NEAR(result->mmd_squared, sum / static_cast<double>(n * (n - 1)), 1e-9);
  return *result;
}

// P(p <= .05) is .05 for 99 replicates, also for few draws, from 400 evaluations with four standard
// errors. Outcomes beyond the forecasts on both sides cancel in the form without a condition.
TEST(ForecastFormsTest, SamplesHaveAnExactTestOfTheThresholdForm) {
  for (const std::size_t draws : {2U, 9U}) {
    int rejected = 0;
    for (std::uint64_t seed = 0; seed < 400; ++seed) {
      rejected += ThresholdOfDraws(30, draws, 0, seed, 99).p_value <= 0.05 ? 1 : 0;
    }
    EXPECT_NEAR(rejected / 400.0, 0.05, 4 * std::sqrt(0.05 * 0.95 / 400)) << draws;
  }
  EXPECT_EQ(ThresholdOfDraws(400, 9, 0.7, 1, 99).p_value, 0.01);
}

// Random signs reject calibrated samples in about .05 of the evaluations: the test is approximate,
// which the tolerance of four standard errors and .01 allows for.
TEST(ForecastFormsTest, RandomSignsOfSamplesHaveTheirSize) {
  constexpr int kSimulations = 400;
  std::map<std::string, int> rejected;
  for (std::uint64_t seed = 0; seed < kSimulations; ++seed) {
    std::mt19937_64 rng(seed);
    std::normal_distribution<double> normal;
    std::vector<double> values;
    std::vector<double> outcomes;
    ForecastCovariates covariates{
        .groups = {}, .features = {}, .feature_count = 1, .local_features = {}};
    for (std::size_t i = 0; i < 40; ++i) {
      const double mean = normal(rng);
      for (std::size_t s = 0; s < 3; ++s) values.push_back(mean + normal(rng));
      outcomes.push_back(mean + normal(rng));
      covariates.features.push_back(mean + normal(rng));
      covariates.groups.push_back(mean > 0 ? 1 : 0);
    }
    ForecastEvaluationOptions options;
    options.resampling = {.replicates = 99, .seed = seed, .null = NullHypothesis::kForm};
    const auto evaluation =
        EvaluateForecasts(SampleForecasts{3}, {values, outcomes}, options, covariates);
    for (const NamedDiscrepancy& one : evaluation->discrepancies) {
      rejected[one.form] += one.result.p_value <= 0.05 ? 1 : 0;
    }
  }
  EXPECT_THAT(rejected, SizeIs(3));
  for (const auto& [form, count] : rejected) {
    EXPECT_NEAR(count / double{kSimulations}, 0.05,
                0.01 + 4 * std::sqrt(0.05 * 0.95 / kSimulations))
        << form;
  }
}

// The side of the threshold is that of the probability, and not of the mean.
TEST(ForecastFormsTest, TheThresholdFormDividesByTheProbability) {
  const std::vector<double> forecasts = {0, 1, 0, 4, 2, 1, -1, 1};
  const std::vector<double> outcomes = {0.3, -5, 2.5, -0.2};
  ForecastEvaluationOptions options;
  options.resampling.replicates = 99;
  options.decision = ThresholdDecision{1};
  options.threshold_alpha = 0.7;
  const auto evaluation = EvaluateForecasts(NormalForecasts(), {forecasts, outcomes}, options);
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  // P(Y <= 1) is .84, .60, .16 and .98.
  const ForecastBatch batch{ForecastKind::kNormal, forecasts, 2, {}, outcomes};
  EXPECT_NEAR(FindForm(*evaluation, "threshold")->mmd_squared,
              Tested(batch, PitRbfKernel(), GroupCondition{{0, 1, 1, 0}}).mmd_squared, 1e-12);
}

TEST(ForecastFormsTest, TheCostOfAnEvaluationKnowsTheKernel) {
  const auto operations = [](std::optional<OutcomeKernel> kernel) {
    ForecastEvaluationOptions options;
    options.outcome_kernel = std::move(kernel);
    return ForecastEvaluationOperations(10000, NormalForecasts(), options, {});
  };
  // A sum over the pairs for each of the 999 replicates.
  EXPECT_GT(operations(EnergyKernel()), 999 * 0.5e8);
  EXPECT_LT(operations(ThresholdKernel{0}), operations(EnergyKernel()) / 10);
}

}  // namespace
}  // namespace calibd
