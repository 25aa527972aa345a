#include "calibd/core/estimator_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>

#include "calibd/core/calibration_function.h"
#include "calibd/core/calibration_risk.h"
#include "calibd/core/generator.h"
#include "calibd/core/moments.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using nlohmann::json;

constexpr double kSelectionTolerance = 1e-9;

void ExpectNear(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, std::max(1e-12, kSelectionTolerance * std::abs(expected))) << what;
}

json SmallCases34() {
  return testing::ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json");
}

ResidualSample SampleOf(const json& small_case, const std::string& suffix, const Lens& lens) {
  const json input = {{"m", small_case.at("m")},
                      {"P", small_case.at("P" + suffix)},
                      {"y0", small_case.at("y0" + suffix)}};
  return *ReduceToResiduals(testing::ToPredictionSet(input).view(), lens);
}

// The values of one estimator at any rows.
using Estimator = std::function<FunctionValues(const ResidualSample& rows)>;

// name: such as "kde_0.1"; the number is the parameter, for the ridge estimators the constant.
Estimator EstimatorOf(const std::string& name, const ResidualSample& fit) {
  const double value = std::stod(name.substr(name.find_first_of("0123456789")));
  if (name.starts_with("bin")) {
    return [&fit, value](const ResidualSample& rows) {
      return EvaluateBins(fit, rows, static_cast<std::size_t>(value));
    };
  }
  if (name.starts_with("kde")) {
    return [&fit, value](const ResidualSample& rows) {
      return EvaluateKernelDensity(fit, rows, {&value, 1}, {})->front();
    };
  }
  return [ridge = *KernelRidge::Fit(fit, {}), name, value](const ResidualSample& rows) {
    const std::vector<double> eigenfunctions = *ridge.Eigenfunctions(rows, {});
    return name.starts_with("kkr")
               ? *ridge.EvaluateProduct(eigenfunctions, value / ridge.product_scale(), {})
               : ridge.EvaluateFunction(eigenfunctions, value / ridge.function_scale());
  };
}

TEST(CalibrationFunctionTest, MatchesSmallCases) {
  for (const json& small_case : SmallCases34()) {
    if (small_case.at("kind") != "squared_calibration_error") continue;
    for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel()}) {
      const bool canonical = lens.is_canonical();
      const ResidualSample fit = SampleOf(small_case, "_fit", lens);
      const ResidualSample rows = SampleOf(small_case, "_eval", lens);
      for (const auto& [name, expected] : small_case.items()) {
        const bool bins = name.starts_with("bin");
        if (!expected.is_object() || (bins && canonical)) continue;
        const std::string what =
            small_case.at("name").get<std::string>() + " " + name + " " + lens.name();
        const Estimator estimator = EstimatorOf(name, fit);
        const FunctionValues values = estimator(rows);
        ExpectNear(SquaredCalibrationError(values),
                   expected.at(canonical ? "cce_sq_eval" : "tce_sq_eval"), what);
        const std::string risk = bins ? "risk" : canonical ? "risk_canonical" : "risk_top_label";
        const CalibrationRisk found = *ComputeCalibrationRisk(rows, values, {});
        ExpectNear(found.risk, expected.at(risk), what);
        ExpectNear(found.risk - found.excess,
                   small_case.at(canonical ? "risk_zero_canonical" : "risk_zero_top_label"), what);
        if (canonical || bins) {
          ExpectNear(SquaredCalibrationError(estimator(fit)),
                     expected.at(bins ? "tce_sq_in" : "cce_sq_in"), what + " in sample");
        }
        const std::string each = name.starts_with("kkr") ? "H_eval" : "g_eval";
        if (!canonical || !expected.contains(each)) continue;
        for (std::size_t i = 0; i < rows.size(); ++i) {
          for (std::size_t j = 0; j < expected.at(each).at(i).size(); ++j) {
            double value = values.left[i * values.width + j];
            if (each == "H_eval") {
              value = 0;
              for (std::size_t k = 0; k < values.width; ++k) {
                value += values.left[i * values.width + k] * values.right[j * values.width + k];
              }
            }
            ExpectNear(value, expected.at(each).at(i).at(j), what);
          }
        }
      }
    }
  }
}

TEST(CalibrationRiskTest, ExcessOfRowsIsThatOfPairs) {
  const ResidualSample rows{.columns = 1, .predictions = {.1, .5, .9}, .residuals = {.1, -.5, .9}};
  const FunctionValues values{.width = 1, .left = {.2, -.1, .3}, .right = {}};
  const CalibrationRisk risk = *ComputeCalibrationRisk(rows, values, {});
  for (std::size_t i = 0; i < 3; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      const double h = values.left[i] * values.left[j];
      if (j != i) sum += h * h - 2 * rows.residuals[i] * rows.residuals[j] * h;
    }
    EXPECT_NEAR(risk.row_excess[i], sum / 2, 1e-15);
  }
}

const std::map<std::string, EstimatorKind> kNames = {{"bin", EstimatorKind::kBins},
                                                     {"kde", EstimatorKind::kKernelDensity},
                                                     {"kkr", EstimatorKind::kProductRidge},
                                                     {"ukkr", EstimatorKind::kFunctionRidge}};

TEST(EstimatorSelectionTest, MatchesSmallPipeline) {
  int found = 0;
  for (const json& small_case : SmallCases34()) {
    if (small_case.at("kind") != "pipeline") continue;
    const PredictionSet set = testing::ToPredictionSet(small_case);
    for (const auto& [name, kind] : kNames) {
      const json& expected = small_case.at(name);
      SelectionOptions options;
      options.lens = name == "bin" ? Lens::TopLabel() : Lens::Canonical();
      options.folds = small_case.at("folds");
      options.estimators = {{kind, expected.at("grid").get<std::vector<double>>()}};
      const absl::StatusOr<SelectionResult> selected = SelectEstimator(set.view(), options);
      ASSERT_TRUE(selected.ok()) << selected.status();
      const EstimatorResult& result = selected->estimators.front();
      EXPECT_EQ(result.grid[result.best], expected.at("chosen"));
      for (std::size_t i = 0; i < result.grid.size(); ++i) {
        ExpectNear(result.mean_risks[i], expected.at("mean_validation_risk").at(i), name);
      }
      for (std::size_t f = 0; f < options.folds; ++f) {
        ExpectNear(result.fold_squared_errors[f], expected.at("fold_ce_sq").at(f), name);
      }
      ExpectNear(result.squared_error, expected.at("ce_sq"), name);
      ExpectNear(result.error, expected.at("ce"), name);
      ExpectNear(result.error_standard_error, expected.at("ce_standard_error"), name);
      ++found;
    }
  }
  EXPECT_EQ(found, 4);
}

// n rows of m classes: 0 and 1, ties, and rows that repeat.
PredictionSet Degenerate(std::size_t n, std::size_t m, bool identical, bool one_class) {
  PredictionSet set;
  set.class_count = m;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < m; ++k) {
      const bool sure = !identical && i % 2 == 0;
      set.probabilities.push_back(sure ? (k == i % m ? 1 : 0) : 1.0 / static_cast<double>(m));
    }
    set.labels.push_back(one_class ? 0 : static_cast<std::int32_t>(i * 7 / 3 % m));
  }
  return set;
}

TEST(EstimatorSelectionTest, DegenerateRowsGiveNumbers) {
  for (const bool identical : {false, true}) {
    for (const bool one_class : {false, true}) {
      const PredictionSet set = Degenerate(40, 3, identical, one_class);
      for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::OneClass(2)}) {
        SelectionOptions options;
        options.lens = lens;
        options.estimators = DefaultEstimators(lens);
        options.seed = 3;
        const absl::StatusOr<SelectionResult> selected = SelectEstimator(set.view(), options);
        ASSERT_TRUE(selected.ok()) << selected.status();
        for (const EstimatorResult& result : selected->estimators) {
          for (const double risk : result.mean_risks) EXPECT_TRUE(std::isfinite(risk));
          EXPECT_TRUE(std::isfinite(result.squared_error));
          EXPECT_TRUE(std::isfinite(result.error_standard_error));
          EXPECT_TRUE(std::isfinite(result.excess_standard_error));
        }
        EXPECT_TRUE(selected->estimators[selected->chosen].as_good_as_chosen);
      }
    }
  }
}

// With 2 rows in each fold, the standard error of every excess is 0. With the smallest number of
// rows that are compared, at most the share of false alarms that two standard errors promise plus 5
// standard deviations may be found.
TEST(EstimatorSelectionTest, FewRowsOfACalibratedModelAreNotConclusive) {
  constexpr int kModels = 200;
  int false_alarms = 0;
  for (int seed = 0; seed < kModels; ++seed) {
    GeneratorSpec spec = GeneratorSpec::M1(2);
    spec.alpha = {1, 1};
    PredictionSet rows;
    Generator::Create(spec, static_cast<std::uint64_t>(seed))->Draw(50, rows);
    const SelectionOptions options;
    const SelectionResult few = *SelectEstimator(rows.view().rows(0, 49), options);
    EXPECT_FALSE(few.any_better_than_zero);
    for (const EstimatorResult& result : few.estimators) {
      EXPECT_TRUE(result.as_good_as_chosen);
      EXPECT_FALSE(result.worse_than_zero());
    }
    false_alarms += SelectEstimator(rows.view(), options)->any_better_than_zero ? 1 : 0;
  }
  EXPECT_LE(false_alarms, 25);
}

TEST(EstimatorSelectionTest, RefusesPenaltiesBelowPrecision) {
  const PredictionSet set = Degenerate(100, 3, false, false);
  SelectionOptions options;
  options.estimators = {{EstimatorKind::kProductRidge, {1e-16, 1e-3}}};
  const absl::StatusOr<SelectionResult> selected = SelectEstimator(set.view(), options);
  ASSERT_TRUE(selected.ok()) << selected.status();
  EXPECT_EQ(selected->estimators.front().grid, std::vector<double>{1e-3});
  options.estimators = {{EstimatorKind::kProductRidge, {1e-16}}};
  EXPECT_EQ(SelectEstimator(set.view(), options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EstimatorSelectionTest, SaysHowManyRowsAreNeeded) {
  SelectionOptions options;
  EXPECT_TRUE(SelectEstimator(Degenerate(13, 3, false, false).view(), options).ok());
  const absl::Status status =
      SelectEstimator(Degenerate(12, 3, false, false).view(), options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "not enough observations: 12, at least 13 are needed");
  for (const double share : {1e-300, 1e-9, 0.01, 0.2, 0.5, 0.9, 1 - 1e-9, 1 - 0x1p-53}) {
    options.test_share = share;
    const std::size_t least = MinSelectionObservations(options);
    EXPECT_GE(static_cast<double>(least) * (1 - share), 10 - 1e-6) << share;
    if (least > 1'000'000'000) continue;
    // With one row less, too few are for tuning, or none is left.
    const auto tuning = [share](std::size_t n) {
      return std::floor(static_cast<double>(n) * (1 - share) + 1e-9);
    };
    EXPECT_LT(tuning(least), static_cast<double>(least)) << share;
    EXPECT_TRUE(tuning(least - 1) < 10 || tuning(least - 1) >= static_cast<double>(least - 1))
        << share;
  }
}

TEST(EstimatorSelectionTest, SimulatesTheWholeSelection) {
  auto generator = Generator::Create(GeneratorSpec::M2(3), 5);
  PredictionSet set;
  generator->Draw(200, set);
  SelectionOptions options;
  options.estimators = {{EstimatorKind::kBins, {5, 15}},
                        {EstimatorKind::kFunctionRidge, {1e-5, 1e-3}}};
  options.seed = 7;
  options.replicates = 99;
  const absl::StatusOr<SelectionResult> selected = SelectEstimator(set.view(), options);
  ASSERT_TRUE(selected.ok()) << selected.status();
  ASSERT_TRUE(selected->simulation.has_value());
  const ResamplingResult& simulation = *selected->simulation;
  EXPECT_EQ(simulation.p_value, (1.0 + simulation.exceedances) / 100);
  EXPECT_EQ(simulation.seed, 7U);
  EXPECT_EQ(simulation.null, NullHypothesis::kForecast);
  // The labels of M2 ignore the predictions.
  const double estimate = selected->estimators[selected->chosen].squared_error;
  EXPECT_LE(simulation.p_value, 0.05);
  EXPECT_LT(simulation.replicate_upper_quantile, estimate);

  // Neither the threads nor the order of the replicates change the result.
  std::vector<double> progress;
  RunControl backwards;
  backwards.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    while (count > 0) body(--count);
  };
  backwards.progress = [&](double fraction) { progress.push_back(fraction); };
  const SelectionResult again = *SelectEstimator(set.view(), options, backwards);
  EXPECT_EQ(again.simulation->replicate_mean, simulation.replicate_mean);
  EXPECT_EQ(again.estimators[again.chosen].squared_error, estimate);
  EXPECT_TRUE(std::is_sorted(progress.begin(), progress.end()));
  EXPECT_EQ(progress.back(), 1);

  // The other results are those without a simulation.
  options.replicates = 0;
  const SelectionResult plain = *SelectEstimator(set.view(), options);
  EXPECT_FALSE(plain.simulation.has_value());
  EXPECT_EQ(plain.estimators[plain.chosen].squared_error, estimate);
  options.replicates = 98;
  EXPECT_EQ(SelectEstimator(set.view(), options).status().message(),
            "replicates is 98, expected 99..100000");
}

TEST(EstimatorSelectionTest, FewerFoldsAtOnceNeedLessMemoryAndGiveTheSameResult) {
  auto generator = Generator::Create(GeneratorSpec::M2(3), 5);
  PredictionSet set;
  generator->Draw(200, set);
  SelectionOptions options;
  options.seed = 7;
  const double estimate = SelectEstimator(set.view(), options)->estimators[0].squared_error;
  const double memory = SelectionMemory(200, 3, options, 4);
  options.most_at_once = 2;
  EXPECT_LT(SelectionMemory(200, 3, options, 4), memory);
  EXPECT_EQ(SelectionMemory(200, 3, options, 4), SelectionMemory(200, 3, options, 2));
  // The outer loops are those of the folds.
  int depth = 0;
  std::size_t most = 0;
  RunControl control;
  control.parallel_for = [&](std::size_t count, const std::function<void(std::size_t)>& body) {
    if (depth == 0) most = std::max(most, count);
    ++depth;
    for (std::size_t i = 0; i < count; ++i) body(i);
    --depth;
  };
  EXPECT_EQ(SelectEstimator(set.view(), options, control)->estimators[0].squared_error, estimate);
  EXPECT_EQ(most, 2U);
}

TEST(EstimatorSelectionTest, CancelsASimulation) {
  const PredictionSet set = Degenerate(100, 3, false, false);
  SelectionOptions options;
  options.replicates = 200;
  // It is cancelled after a third of the replicates.
  bool cancelled = false;
  RunControl control;
  control.progress = [&](double fraction) { cancelled = fraction > 0.33; };
  control.cancelled = [&] { return cancelled; };
  EXPECT_TRUE(absl::IsCancelled(SelectEstimator(set.view(), options, control).status()));
}

TEST(EstimatorSelectionTest, Cancels) {
  std::atomic<int> calls = 0;
  RunControl control;
  control.cancelled = [&calls] { return ++calls > 3; };
  SelectionOptions options;
  EXPECT_TRUE(absl::IsCancelled(
      SelectEstimator(Degenerate(100, 3, false, false).view(), options, control).status()));
}

// How often the computation asks whether it is cancelled. It must end when the answer is yes.
int CountChecks(const std::function<absl::Status(const RunControl& control)>& compute) {
  int checks = 0;
  int last = std::numeric_limits<int>::max();
  RunControl control;
  control.cancelled = [&] { return ++checks >= last; };
  EXPECT_TRUE(compute(control).ok());
  const int all = checks;
  for (const int k : {1, (all + 1) / 2, all}) {
    checks = 0;
    last = k;
    EXPECT_TRUE(absl::IsCancelled(compute(control))) << k << " of " << all;
    EXPECT_EQ(checks, k);
  }
  return all;
}

TEST(EstimatorSelectionTest, EveryStepOfARidgeCanBeCancelled) {
  constexpr int kRows = 1000;
  auto generator = Generator::Create(GeneratorSpec::M1(3), 5);
  PredictionSet set;
  generator->Draw(kRows, set);
  const ResidualSample rows = *ReduceToResiduals(set.view(), Lens::Canonical());
  const KernelRidge ridge = *KernelRidge::Fit(rows, {});
  const std::vector<double> eigenfunctions = *ridge.Eigenfunctions(rows, {});
  const FunctionValues values = *ridge.EvaluateProduct(eigenfunctions, 1e-3, {});
  // The blocks of pivots, the matrix of products, and three steps of its eigenvectors.
  EXPECT_GE(CountChecks([&](const RunControl& control) {
              return KernelRidge::Fit(rows, control).status();
            }),
            5);
  // It is checked once for about 250 rows.
  EXPECT_GE(CountChecks([&](const RunControl& control) {
              return ridge.Eigenfunctions(rows, control).status();
            }),
            kRows / 250);
  EXPECT_GE(CountChecks([&](const RunControl& control) {
              return ridge.EvaluateProduct(eigenfunctions, 1e-3, control).status();
            }),
            kRows / 250);
  EXPECT_GE(CountChecks([&](const RunControl& control) {
              return ComputeCalibrationRisk(rows, values, control).status();
            }),
            kRows / 250);
}

// NumPy computed the value from the definition, with numpy.array_split of the sorted predictions.
TEST(DebiasedBinsTest, AgreesWithAnIndependentComputation) {
  ResidualSample sample;
  for (int i = 0; i < 60; ++i) {
    const double p = (37 * i % 101 + .5) / 101;
    const bool event = 53 * i % 97 / 97.0 < std::pow(p, 1.5);
    sample.predictions.push_back(p);
    sample.residuals.push_back(event ? p - 1 : p);
  }
  EXPECT_NEAR(SquaredCalibrationError(EvaluateDebiasedBins(sample, sample, 6)), 0.02881981432466679,
              1e-14);
  // Bins of one row say nothing.
  EXPECT_EQ(SquaredCalibrationError(EvaluateDebiasedBins(sample, sample, 60)), 0);
}

TEST(DebiasedBinsTest, CalibratedPredictionsHaveTheErrorZeroOnAverage) {
  constexpr int kSets = 2000;
  constexpr std::size_t kRows = 200;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform;
  RunningMoments debiased;
  RunningMoments plain;
  for (int s = 0; s < kSets; ++s) {
    ResidualSample sample;
    for (std::size_t i = 0; i < kRows; ++i) {
      const double p = uniform(random);
      sample.predictions.push_back(p);
      sample.residuals.push_back(uniform(random) < p ? p - 1 : p);
    }
    debiased.Add(SquaredCalibrationError(EvaluateDebiasedBins(sample, sample, 20)));
    plain.Add(SquaredCalibrationError(EvaluateBins(sample, sample, 20)));
  }
  EXPECT_LE(std::abs(debiased.mean), 4 * StandardError(debiased));
  // The variance of a mean of 10 outcomes, 1 / 6 on average.
  EXPECT_NEAR(plain.mean, 1 / 60.0, 4 * StandardError(plain) + 1e-3);
}

// NumPy computed the values from Algorithm 1.
TEST(EstimatorSelectionTest, ClassWiseIsTheMeanOverTheClasses) {
  PredictionSet set{.probabilities = {}, .labels = {}, .class_count = 3};
  for (int i = 0; i < 100; ++i) {
    const double a = std::pow(37 * i % 101 + 1, 2);
    const double b = std::pow(59 * i % 103 + 1, 2);
    const double c = std::pow(71 * i % 107 + 1, 2);
    for (const double value : {a, b, c}) set.probabilities.push_back(value / (a + b + c));
    const int top = a >= b && a >= c ? 0 : b >= c ? 1 : 2;
    set.labels.push_back(11 * i % 5 < 3 ? top : (7 * i * i + i) % 3);
  }
  SelectionOptions options;
  options.lens = Lens::ClassWise();
  options.estimators = {{EstimatorKind::kFifteenBins, {15}}};
  const auto all = SelectEstimator(set.view(), options);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_NEAR(all->estimators[0].squared_error, 0.07428580529671366, 1e-14);
  EXPECT_NEAR(all->estimators[0].excess, 0.0029047211566908286, 1e-14);
  EXPECT_NEAR(all->estimators[0].excess_standard_error, 0.0008641517950958699, 1e-14);
  // Every estimator, with one value of its parameter, is the mean over the classes.
  options.estimators = {{EstimatorKind::kKernelDensity, {.1}},
                        {EstimatorKind::kProductRidge, {1e-3}},
                        {EstimatorKind::kFunctionRidge, {1e-2}},
                        {EstimatorKind::kDebiasedBins, {5}}};
  const auto together = SelectEstimator(set.view(), options);
  ASSERT_TRUE(together.ok()) << together.status();
  for (std::size_t e = 0; e < options.estimators.size(); ++e) {
    double squared_error = 0;
    double excess = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      SelectionOptions one = options;
      one.lens = Lens::OneClass(k);
      const auto selected = SelectEstimator(set.view(), one);
      ASSERT_TRUE(selected.ok());
      squared_error += selected->estimators[e].squared_error / 3;
      excess += selected->estimators[e].excess / 3;
    }
    EXPECT_NEAR(together->estimators[e].squared_error, squared_error, 1e-14) << e;
    EXPECT_NEAR(together->estimators[e].excess, excess, 1e-14) << e;
  }
}

}  // namespace
}  // namespace calibd
