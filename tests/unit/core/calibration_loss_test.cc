#include "calibd/core/calibration_loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <string>
#include <thread>

#include "base/normal_mean.h"
#include "calibd/core/bandwidth.h"
#include "calibd/core/skce.h"
#include "support/small_forecasts.h"
#include "unit/core/drawn_losses.h"

namespace calibd {
namespace {

using nlohmann::json;
using testing::ClassesOf;
using testing::ClassOptions;
using testing::Compute;
using testing::DrawClasses;
using testing::DrawNumbers;
using testing::Flatten;
using testing::ForecastSet;
using testing::Mmd;
using testing::NormalsOf;
using testing::NumberOptions;
using testing::SamplesOf;
using testing::SmallCasesOf;

// The tolerance of the small cases: 1e-9 relative and 1e-12 absolute.
void ExpectEqual(double actual, double expected) {
  EXPECT_NEAR(actual, expected, 1e-12 + 1e-9 * std::abs(expected));
}

void ExpectGradient(const ForecastSet& set, LossOptions options, bool biased,
                    const std::vector<double>& expected) {
  options.biased = biased;
  const CalibrationLoss loss = Compute(set, options);
  ASSERT_EQ(loss.gradient.size(), expected.size());
  for (std::size_t k = 0; k < expected.size(); ++k) {
    SCOPED_TRACE(k);
    ExpectEqual(loss.gradient[k], expected[k]);
  }
}

TEST(CalibrationLossTest, ClassesMatchTheSmallCases) {
  int values = 0;
  int gradients = 0;
  for (const json& small : SmallCasesOf("classification")) {
    for (const auto& item : small.items()) {
      const std::string& key = item.key();
      const json& expected = item.value();
      SCOPED_TRACE(small.at("name").get<std::string>() + " " + key);
      const bool biased = key.ends_with("_biased");
      const auto form_of = [&](const std::string& prefix) {
        const std::size_t suffix = biased ? 7 : key.ends_with("_unbiased") ? 9 : 0;
        return key.substr(prefix.size(), key.size() - prefix.size() - suffix);
      };
      if (key.starts_with("mmd_")) {
        ExpectEqual(Mmd(ClassesOf(small), ClassOptions(small, form_of("mmd_")), biased), expected);
        ++values;
      } else if (key.starts_with("grad_p_")) {
        ExpectGradient(ClassesOf(small), ClassOptions(small, form_of("grad_p_")), biased,
                       Flatten(expected));
        ++gradients;
      } else if (key.starts_with("grad_logit_")) {
        ExpectGradient(ClassesOf(small, "logits"), ClassOptions(small, form_of("grad_logit_")),
                       biased, Flatten(expected));
        ++gradients;
      }
    }
  }
  EXPECT_EQ(values, 64);
  EXPECT_EQ(gradients, 35);
}

TEST(CalibrationLossTest, OtherConditionsOfClassesMatchTheSmallCases) {
  int tested = 0;
  for (const json& small : SmallCasesOf("classification")) {
    LossOptions options;
    if (small.contains("group")) {
      options.condition = GroupCondition{small.at("group").at("group")};
      ExpectEqual(Mmd(ClassesOf(small), options, true), small.at("group").at("mmd_biased"));
      ExpectEqual(Mmd(ClassesOf(small), options, false), small.at("group").at("mmd_unbiased"));
      ++tested;
    }
    if (small.contains("individual")) {
      const json& individual = small.at("individual");
      options.condition = FeatureCondition{Flatten(individual.at("X")), individual.at("gamma")};
      ExpectEqual(Mmd(ClassesOf(small), options, true), individual.at("mmd_biased"));
      ExpectEqual(Mmd(ClassesOf(small), options, false), individual.at("mmd_unbiased"));
      ++tested;
    }
  }
  EXPECT_EQ(tested, 3);
}

TEST(CalibrationLossTest, NormalsMatchTheSmallCases) {
  int values = 0;
  int gradients = 0;
  for (const json& small : SmallCasesOf("forecast")) {
    const ForecastSet normals = NormalsOf(small);
    for (const auto& [form, expected] : small.at("mmd").items()) {
      SCOPED_TRACE(small.at("name").get<std::string>() + " " + form);
      const LossOptions options = NumberOptions(small, form);
      ExpectEqual(Mmd(normals, options, true), expected.at("biased"));
      ExpectEqual(Mmd(normals, options, false), expected.at("unbiased"));
      ++values;
    }
    for (const auto& [key, expected] : small.at("gradient").items()) {
      SCOPED_TRACE(small.at("name").get<std::string>() + " gradient " + key);
      const bool biased = key.ends_with("_biased");
      const std::string form = biased ? key.substr(0, key.size() - 7) : key;
      std::vector<double> gradient;
      for (std::size_t i = 0; i < normals.outcomes.size(); ++i) {
        gradient.push_back(expected.at("mean").at(i));
        gradient.push_back(expected.at("standard_deviation").at(i));
      }
      ExpectGradient(normals, NumberOptions(small, form), biased, gradient);
      ++gradients;
    }
    LossOptions objective = NumberOptions(small, "marginal");
    objective.penalty_weight = 0;
    ExpectEqual(Compute(normals, objective).value, small.at("mean_log_loss"));
    // The diagonal terms of the energy kernel are the CRPS: n MMD_v^2 = (n - 1) MMD_u^2 + CRPS.
    const auto n = static_cast<double>(normals.outcomes.size());
    const LossOptions energy = NumberOptions(small, "marginal_min");
    ExpectEqual(n * Mmd(normals, energy, true) - (n - 1) * Mmd(normals, energy, false),
                small.at("mean_crps"));
    ExpectEqual(Mmd(normals, NumberOptions(small, "quantile_min"), true),
                small.at("cramer_von_mises"));
  }
  EXPECT_EQ(values, 42);
  EXPECT_EQ(gradients, 24);
}

TEST(CalibrationLossTest, SamplesMatchTheSmallCases) {
  int tested = 0;
  for (const json& small : SmallCasesOf("forecast")) {
    if (!small.contains("samples")) continue;
    SCOPED_TRACE(small.at("name").get<std::string>());
    const ForecastSet samples = SamplesOf(small);
    const LossOptions options = NumberOptions(small, "marginal");
    ExpectEqual(Mmd(samples, options, true), small.at("samples").at("marginal_biased"));
    ExpectEqual(Mmd(samples, options, false), small.at("samples").at("marginal_unbiased"));
    const auto n = static_cast<double>(samples.outcomes.size());
    const LossOptions energy = NumberOptions(small, "marginal_min");
    ExpectEqual(n * Mmd(samples, energy, true) - (n - 1) * Mmd(samples, energy, false),
                small.at("samples").at("mean_crps"));
    ++tested;
  }
  EXPECT_EQ(tested, 2);
}

// One set of forecasts with options that have no default.
struct LossCase {
  std::string name;
  ForecastSet set;
  LossOptions options;
};

// Every kind of forecast with every kernel and every condition.
std::vector<LossCase> AllCases(std::size_t n) {
  std::vector<LossCase> cases;
  const std::vector<double> features = DrawNumbers(ForecastKind::kNormal, n, 2, 9).values;
  std::vector<std::int32_t> groups(n);
  for (std::size_t i = 0; i < n; ++i) groups[i] = static_cast<std::int32_t>(i % 2);
  const auto add = [&](const std::string& name, const ForecastSet& set, LossOptions options,
                       const ForecastCondition& forecast) {
    for (const Condition& condition :
         {Condition(forecast), Condition(NoCondition()), Condition(FeatureCondition{features, 0.7}),
          Condition(GroupCondition{groups})}) {
      options.condition = condition;
      cases.push_back({name + " condition " + std::to_string(condition.index()), set, options});
    }
  };
  for (const ForecastKind kind : {ForecastKind::kProbabilities, ForecastKind::kLogits}) {
    for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise()}) {
      for (const Distance distance : {Distance::kTotalVariation, Distance::kCityblock,
                                      Distance::kEuclidean, Distance::kSquaredEuclidean}) {
        LossOptions options;
        options.lens = lens;
        options.penalty_weight = 3;
        if (distance == Distance::kCityblock) options.outcome_kernel = RbfKernel{0.8};
        add("classes " + lens.name() + " distance " + std::to_string(static_cast<int>(distance)),
            DrawClasses(kind, n, 5), options,
            {.distance = distance, .bandwidth = 0.3, .gamma = {}});
      }
    }
  }
  const OutcomeKernel kernels[] = {
      RbfKernel{0.4},       EnergyKernel(),  MomentsKernel{0.2, 1.7}, ThresholdKernel{0.3},
      TanhKernel{0.3, 0.6}, PitRbfKernel{3}, PitMinKernel()};
  for (const OutcomeKernel& kernel : kernels) {
    LossOptions options;
    options.outcome_kernel = kernel;
    const ForecastCondition forecast{.bandwidth = {}, .gamma = 0.6};
    const std::string name = " kernel " + std::to_string(kernel.index());
    if (kernel.index() < 5) {
      add("samples" + name, DrawNumbers(ForecastKind::kSamples, n, 4), options, forecast);
    }
    options.penalty_weight = 2;
    add("normals" + name, DrawNumbers(ForecastKind::kNormal, n), options, forecast);
  }
  return cases;
}

TEST(CalibrationLossTest, GradientsEqualFiniteDifferences) {
  // Central differences have an error of about step^2 = 1e-10 and, by rounding, 1e-16 / step.
  constexpr double kStep = 1e-5;
  for (LossCase& one : AllCases(6)) {
    for (const bool biased : {false, true}) {
      SCOPED_TRACE(one.name + (biased ? " biased" : " unbiased"));
      one.options.biased = biased;
      const CalibrationLoss loss = Compute(one.set, one.options);
      LossOptions value_only = one.options;
      value_only.gradient = false;
      for (std::size_t k = 0; k < one.set.values.size(); ++k) {
        const auto shifted = [&](double step) {
          ForecastSet moved = one.set;
          moved.values[k] += step;
          return Compute(moved, value_only).value;
        };
        EXPECT_NEAR(loss.gradient[k], (shifted(kStep) - shifted(-kStep)) / (2 * kStep), 1e-7) << k;
      }
    }
  }
}

TEST(CalibrationLossTest, BiasedEstimatesAreNotNegative) {
  for (const LossCase& one : AllCases(7)) {
    SCOPED_TRACE(one.name);
    // The diagonal leaves out equal draws, so that only the expectation is not negative.
    if (one.set.kind == ForecastKind::kSamples) continue;
    EXPECT_GE(Mmd(one.set, one.options, true), -1e-15);
  }
}

TEST(CalibrationLossTest, RowsInAnyOrderHaveTheSameLoss) {
  for (const LossCase& one : AllCases(6)) {
    SCOPED_TRACE(one.name);
    const CalibrationLoss loss = Compute(one.set, one.options);
    LossCase reversed = one;
    const std::size_t n = one.set.values.size() / one.set.width;
    const auto reverse_rows = [n](std::vector<double>& values, std::size_t width) {
      for (std::size_t i = 0; i < n / 2; ++i) {
        std::swap_ranges(values.begin() + static_cast<std::ptrdiff_t>(i * width),
                         values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width),
                         values.begin() + static_cast<std::ptrdiff_t>((n - 1 - i) * width));
      }
    };
    reverse_rows(reversed.set.values, one.set.width);
    std::reverse(reversed.set.labels.begin(), reversed.set.labels.end());
    std::reverse(reversed.set.outcomes.begin(), reversed.set.outcomes.end());
    if (auto* const features = std::get_if<FeatureCondition>(&reversed.options.condition)) {
      reverse_rows(features->values, features->values.size() / n);
    }
    if (auto* const groups = std::get_if<GroupCondition>(&reversed.options.condition)) {
      std::reverse(groups->groups.begin(), groups->groups.end());
    }
    CalibrationLoss other = Compute(reversed.set, reversed.options);
    EXPECT_NEAR(other.value, loss.value, 1e-13 * (1 + std::abs(loss.value)));
    reverse_rows(other.gradient, one.set.width);
    for (std::size_t k = 0; k < loss.gradient.size(); ++k) {
      EXPECT_NEAR(other.gradient[k], loss.gradient[k], 1e-13);
    }
  }
}

TEST(CalibrationLossTest, DrawsInAnyOrderHaveTheSameLoss) {
  ForecastSet samples = DrawNumbers(ForecastKind::kSamples, 5, 3);
  LossOptions options;
  options.condition = ForecastCondition{.bandwidth = {}, .gamma = 0.5};
  const CalibrationLoss loss = Compute(samples, options);
  std::swap(samples.values[0], samples.values[2]);
  const CalibrationLoss other = Compute(samples, options);
  EXPECT_EQ(other.value, loss.value);
  EXPECT_EQ(other.gradient[0], loss.gradient[2]);
  EXPECT_EQ(other.gradient[2], loss.gradient[0]);
}

// A PIT statistic of u alone does not depend on the forecasts that give these u.
TEST(CalibrationLossTest, PitKernelsIntegrateTheUniformDistribution) {
  const ForecastSet normals = DrawNumbers(ForecastKind::kNormal, 4);
  const double gamma = 5;
  std::vector<double> u;
  for (std::size_t i = 0; i < 4; ++i) {
    u.push_back(0.5 * std::erfc(-(normals.outcomes[i] - normals.values[2 * i]) /
                                normals.values[2 * i + 1] / std::numbers::sqrt2));
  }
  // The midpoint rule has an error of about 1e-7 with 2000 nodes.
  constexpr int kNodes = 2000;
  const auto kernel = [gamma](double a, double b) { return std::exp(-gamma * (a - b) * (a - b)); };
  const auto mean = [&](double a) {
    double sum = 0;
    for (int k = 0; k < kNodes; ++k) sum += kernel(a, (k + 0.5) / kNodes) / kNodes;
    return sum;
  };
  double both = 0;
  for (int k = 0; k < kNodes; ++k) both += mean((k + 0.5) / kNodes) / kNodes;
  double expected = 0;
  for (const double a : u) {
    for (const double b : u) expected += (kernel(a, b) - mean(a) - mean(b) + both) / 16;
  }
  LossOptions options;
  options.outcome_kernel = PitRbfKernel{gamma};
  options.condition = NoCondition();
  EXPECT_NEAR(Mmd(normals, options, true), expected, 1e-6);
}

// A kernel of numbers, written without the closed forms.
double KernelValue(const OutcomeKernel& kernel, double a, double b) {
  switch (kernel.index()) {
    case 0:
      return std::exp(-std::get<0>(kernel).gamma.value() * (a - b) * (a - b));
    case 1:
      return -0.5 * std::abs(a - b);
    case 2: {
      const MomentsKernel& moments = std::get<2>(kernel);
      const double x = (a - moments.center) / moments.scale;
      const double z = (b - moments.center) / moments.scale;
      return x * z + x * x * z * z;
    }
    case 3: {
      const double c = std::get<3>(kernel).threshold;
      return (a >= c ? 1 : -1) * (b >= c ? 1 : -1);
    }
    default: {
      const TanhKernel& smooth = std::get<4>(kernel);
      return std::tanh((a - smooth.threshold) / smooth.width) *
             std::tanh((b - smooth.threshold) / smooth.width);
    }
  }
}

constexpr std::size_t kNumberKernels = 5;
const OutcomeKernel kNumberKernelList[kNumberKernels] = {
    RbfKernel{0.4}, EnergyKernel(), MomentsKernel{0.2, 1.7}, ThresholdKernel{0.3},
    TanhKernel{0.3, 0.05}};

// Samples by their definition, as a sum over all draws.
TEST(CalibrationLossTest, SamplesEqualTheSumOverTheirDraws) {
  const std::size_t n = 4;
  const std::size_t r = 3;
  const ForecastSet samples = DrawNumbers(ForecastKind::kSamples, n, r);
  for (const OutcomeKernel& kernel : kNumberKernelList) {
    SCOPED_TRACE(kernel.index());
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        sum += KernelValue(kernel, samples.outcomes[i], samples.outcomes[j]);
        for (std::size_t s = 0; s < r; ++s) {
          const double own = samples.values[i * r + s];
          sum -= KernelValue(kernel, own, samples.outcomes[j]) / r;
          sum -= KernelValue(kernel, samples.outcomes[i], samples.values[j * r + s]) / r;
          for (std::size_t t = 0; t < r; ++t) {
            if (i == j && s == t) continue;
            sum += KernelValue(kernel, own, samples.values[j * r + t]) /
                   static_cast<double>(r * (i == j ? r - 1 : r));
          }
        }
      }
    }
    LossOptions options;
    options.outcome_kernel = kernel;
    options.condition = NoCondition();
    EXPECT_NEAR(Mmd(samples, options, true), sum / static_cast<double>(n * n), 1e-14);
  }
}

// Evenly spaced quantiles as draws: a quadrature of the expectations with an error of about 1 / r.
TEST(CalibrationLossTest, ClosedFormsAgreeWithManyQuantiles) {
  constexpr std::size_t kDraws = 1000;
  const ForecastSet normals = DrawNumbers(ForecastKind::kNormal, 3);
  std::vector<double> standard;
  for (std::size_t k = 0; k < kDraws; ++k) {
    // The quantile by bisection.
    const double level = (static_cast<double>(k) + 0.5) / kDraws;
    double lower = -9;
    double upper = 9;
    for (int step = 0; step < 60; ++step) {
      const double middle = 0.5 * (lower + upper);
      (0.5 * std::erfc(-middle / std::numbers::sqrt2) < level ? lower : upper) = middle;
    }
    standard.push_back(lower);
  }
  ForecastSet samples{ForecastKind::kSamples, kDraws, {}, {}, normals.outcomes};
  for (std::size_t i = 0; i < 3; ++i) {
    for (const double z : standard) {
      samples.values.push_back(normals.values[2 * i] + normals.values[2 * i + 1] * z);
    }
  }
  for (const OutcomeKernel& kernel : kNumberKernelList) {
    SCOPED_TRACE(kernel.index());
    LossOptions options;
    options.outcome_kernel = kernel;
    options.condition = NoCondition();
    EXPECT_NEAR(Mmd(normals, options, false), Mmd(samples, options, false), 0.01);
    // The Wasserstein distance of quantiles is that of the means and the standard deviations.
    options.condition = ForecastCondition{.bandwidth = {}, .gamma = 0.5};
    EXPECT_NEAR(Mmd(normals, options, false), Mmd(samples, options, false), 0.01);
  }
}

TEST(CalibrationLossTest, TheMeanOfTanhIsExactForAnyDeviation) {
  for (const double mean : {0.0, 0.3, -2.0, 15.0}) {
    for (const double deviation : {1e-6, 0.1, 0.999, 1.0, 3.0, 40.0}) {
      SCOPED_TRACE(std::to_string(mean) + " " + std::to_string(deviation));
      // Simpson's rule with 400000 intervals over 10 deviations: its error is below 1e-12 for a
      // step of at most 2e-3 in the argument of tanh.
      constexpr int kIntervals = 400000;
      const double step = 20.0 / kIntervals;
      double sum = 0;
      for (int k = 0; k <= kIntervals; ++k) {
        const double z = -10 + step * k;
        const double weight = k == 0 || k == kIntervals ? 1 : k % 2 == 1 ? 4 : 2;
        sum += weight * std::tanh(mean + deviation * z) * NormalDensity(z);
      }
      EXPECT_NEAR(MeanTanh(mean, deviation).value, sum * step / 3, 1e-12);
    }
  }
}

TEST(CalibrationLossTest, CanonicalClassesAreTheSkce) {
  const ForecastSet set = DrawClasses(ForecastKind::kProbabilities, 40, 4);
  const PredictionBatch batch{set.values, set.labels, 4};
  const double median = *MedianBandwidth(set.values, 4);
  const auto skce = EstimateQuadraticSkce(batch, *Kernel::ExponentialTotalVariation(median));
  ASSERT_TRUE(skce.ok());
  EXPECT_NEAR(Mmd(set, {}, false), skce->unbiased, 1e-14);
  EXPECT_NEAR(Mmd(set, {}, true), skce->biased, 1e-14);
  EXPECT_EQ(std::get<ForecastCondition>(Compute(set, {}).condition).bandwidth, median);
}

TEST(CalibrationLossTest, ChosenValuesAreReturnedAndGiveTheSameLoss) {
  for (const ForecastKind kind : {ForecastKind::kNormal, ForecastKind::kSamples}) {
    // Two draws at mean +- sd have this mean and standard deviation.
    ForecastSet set{kind, 2, {}, {}, {0.1, 1, 4}};
    const double means[] = {0, 1, 5};
    const double deviations[] = {1, 2, 3};
    for (std::size_t i = 0; i < 3; ++i) {
      const bool normal = kind == ForecastKind::kNormal;
      set.values.push_back(normal ? means[i] : means[i] - deviations[i]);
      set.values.push_back(normal ? deviations[i] : means[i] + deviations[i]);
    }
    const CalibrationLoss loss = Compute(set, {});
    // Medians of 1 + 1 + 4, 16 + 4 + 9 and 25 + 1 + 9, and of 1 + 1, 16 + 1 and 25 + 4.
    EXPECT_NEAR(std::get<RbfKernel>(*loss.outcome_kernel).gamma.value(), 1.0 / (2 * 29), 1e-15);
    EXPECT_NEAR(std::get<ForecastCondition>(loss.condition).gamma.value(), 1.0 / (2 * 17), 1e-15);
    LossOptions given;
    given.outcome_kernel = loss.outcome_kernel;
    given.condition = loss.condition;
    EXPECT_EQ(Compute(set, given).value, loss.value);
    EXPECT_EQ(Compute(set, given).gradient, loss.gradient);
  }
}

TEST(CalibrationLossTest, TinyDeviationsHaveAFiniteLoss) {
  const ForecastSet normals{ForecastKind::kNormal, 2, {0, 1e-9, 1, 1e-300, 0, 1}, {}, {0, 1, 0.5}};
  for (const OutcomeKernel& kernel : kNumberKernelList) {
    SCOPED_TRACE(kernel.index());
    LossOptions options;
    options.outcome_kernel = kernel;
    options.gradient = false;
    EXPECT_TRUE(ComputeLoss(normals.view(), options).ok());
  }
}

TEST(CalibrationLossTest, ThreadsDoNotChangeABit) {
  RunControl control;
  control.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(count - 1 - i);
      });
    }
  };
  for (const LossCase& one : AllCases(50)) {
    SCOPED_TRACE(one.name);
    const auto parallel = ComputeLoss(one.set.view(), one.options, control);
    ASSERT_TRUE(parallel.ok()) << parallel.status();
    const CalibrationLoss serial = Compute(one.set, one.options);
    EXPECT_EQ(parallel->value, serial.value);
    EXPECT_EQ(parallel->gradient, serial.gradient);
  }
}

TEST(CalibrationLossTest, CancellationEndsTheComputation) {
  RunControl control;
  int asked = 0;
  control.cancelled = [&asked] { return ++asked > 3; };
  const auto loss = ComputeLoss(DrawNumbers(ForecastKind::kNormal, 100).view(), {}, control);
  EXPECT_TRUE(absl::IsCancelled(loss.status()));
  EXPECT_LT(asked, 300);
}

}  // namespace
}  // namespace calibd
