#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "support/small_forecasts.h"
#include "unit/core/drawn_losses.h"

// The penalties of classes that are no discrepancy.
namespace calibd {
namespace {

using testing::Compute;
using testing::DrawClasses;
using testing::ForecastSet;
using ::testing::HasSubstr;
using testing::Mmd;

ForecastSet SixRows() {
  return {ForecastKind::kProbabilities,
          3,
          {.7, .2, .1, .1, .6, .3, .3, .3, .4, .05, .15, .8, .5, .4, .1, .2, .7, .1},
          {0, 2, 2, 2, 1, 1},
          {}};
}

LossOptions OptionsOf(Penalty penalty, std::optional<double> bandwidth = std::nullopt) {
  LossOptions options;
  options.penalty = penalty;
  if (IsMmce(penalty)) options.lens = Lens::TopLabel();
  options.condition = ForecastCondition{.bandwidth = bandwidth, .gamma = {}};
  return options;
}

// By the definitions of both papers, in plain Python.
constexpr double kMmce = 0.103267380603365;
constexpr double kNarrowMmce = 0.167711711582801;
constexpr double kWeighted = 0.310953443506304;
constexpr double kNarrowWeighted = 0.418186675683897;
// Of the lenses canonical, top_label and class_wise.
struct DensityCase {
  double bandwidth;
  double absolute[3];
  double squared[3];
};
constexpr DensityCase kDensityCases[] = {
    {0.5,
     {0.58122629887939, 0.160728686681349, 0.553051217815377},
     {0.216289677727785, 0.0306159761402332, 0.18613434978282}},
    {0.1,
     {0.713409106503098, 0.112628609782644, 0.541366833934795},
     {0.309385959978315, 0.0173469164899543, 0.202919261846223}},
    {0.02,
     {1.01955364735277, 0.151272985434711, 0.849722783075012},
     {0.544566256079956, 0.037608428763313, 0.397576936060545}}};

TEST(ClassPenaltiesTest, MmceEqualsItsDefinition) {
  const ForecastSet set = SixRows();
  EXPECT_NEAR(Compute(set, OptionsOf(Penalty::kMmce)).value, kMmce, 1e-14);
  EXPECT_NEAR(Compute(set, OptionsOf(Penalty::kMmce, .1)).value, kNarrowMmce, 1e-14);
  EXPECT_NEAR(Compute(set, OptionsOf(Penalty::kWeightedMmce)).value, kWeighted, 1e-14);
  EXPECT_NEAR(Compute(set, OptionsOf(Penalty::kWeightedMmce, .1)).value, kNarrowWeighted, 1e-14);
}

TEST(ClassPenaltiesTest, MmceIsTheRootOfHalfTheBiasedDiscrepancy) {
  const ForecastSet set = DrawClasses(ForecastKind::kProbabilities, 40, 4);
  LossOptions options = OptionsOf(Penalty::kMmce);
  const double mmce = Compute(set, options).value;
  options.penalty = Penalty::kMmd;
  EXPECT_NEAR(mmce * mmce, 0.5 * Mmd(set, options, true), 1e-15);
}

TEST(ClassPenaltiesTest, WeightedMmceIsTwiceTheMmceIfHalfOfTheRowsAreCorrect) {
  ForecastSet set = SixRows();
  // Four of the six rows are correct.
  const auto ratio = [&] {
    return Compute(set, OptionsOf(Penalty::kWeightedMmce)).value /
           Compute(set, OptionsOf(Penalty::kMmce)).value;
  };
  EXPECT_GT(std::abs(ratio() - 2), 0.1);
  set.labels[0] = 1;
  EXPECT_NEAR(ratio(), 2, 1e-14);
}

TEST(ClassPenaltiesTest, WeightedMmceOfOneKindOfRowsIsZero) {
  ForecastSet set = SixRows();
  for (const std::vector<std::int32_t>& labels :
       {std::vector<std::int32_t>{0, 1, 2, 2, 0, 1}, std::vector<std::int32_t>{1, 0, 0, 0, 1, 0}}) {
    set.labels = labels;
    const CalibrationLoss loss = Compute(set, OptionsOf(Penalty::kWeightedMmce));
    EXPECT_EQ(loss.value, 0);
    EXPECT_THAT(loss.gradient, ::testing::Each(0));
    EXPECT_GT(Compute(set, OptionsOf(Penalty::kMmce)).value, 0.1);
  }
}

TEST(ClassPenaltiesTest, KernelDensitiesEqualTheirDefinition) {
  const ForecastSet set = SixRows();
  for (const DensityCase& one : kDensityCases) {
    SCOPED_TRACE(one.bandwidth);
    const Lens lenses[] = {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise()};
    for (std::size_t k = 0; k < 3; ++k) {
      LossOptions options = OptionsOf(Penalty::kKernelDensityL1, one.bandwidth);
      options.lens = lenses[k];
      EXPECT_NEAR(Compute(set, options).value, one.absolute[k], 1e-12);
      options.penalty = Penalty::kKernelDensityL2;
      EXPECT_NEAR(Compute(set, options).value, one.squared[k], 1e-12);
    }
  }
}

// Of two classes, both have the error of one event.
TEST(ClassPenaltiesTest, TwoClassesHaveTwiceTheErrorOfAnEvent) {
  const ForecastSet set = DrawClasses(ForecastKind::kProbabilities, 20, 2);
  for (const Penalty penalty : {Penalty::kKernelDensityL1, Penalty::kKernelDensityL2}) {
    LossOptions options = OptionsOf(penalty, .05);
    const double canonical = Compute(set, options).value;
    options.lens = Lens::ClassWise();
    EXPECT_NEAR(Compute(set, options).value, canonical, 1e-13);
  }
}

// A wide kernel gives each row the class shares of the other rows. ln k varies by at most
// 14 / bandwidth between the rows.
TEST(ClassPenaltiesTest, AWideKernelGivesTheSharesOfTheOtherRows) {
  const ForecastSet set = SixRows();
  double expected = 0;
  for (std::size_t j = 0; j < 6; ++j) {
    for (std::size_t k = 0; k < 3; ++k) {
      double share = 0;
      for (std::size_t i = 0; i < 6; ++i) {
        share += i != j && set.labels[i] == static_cast<std::int32_t>(k) ? 0.2 : 0;
      }
      expected += std::pow(share - set.values[3 * j + k], 2) / 6;
    }
  }
  EXPECT_NEAR(Compute(set, OptionsOf(Penalty::kKernelDensityL2, 1e9)).value, expected, 1e-7);
}

// Rows that are far apart in units of a small bandwidth have kernels below the range of double. The
// nearest row alone then gives the estimate.
TEST(ClassPenaltiesTest, ANarrowKernelTakesTheNearestRow) {
  const ForecastSet set{
      ForecastKind::kProbabilities, 2, {.1, .9, .11, .89, .8, .2, .82, .18}, {0, 1, 0, 0}, {}};
  const CalibrationLoss loss = Compute(set, OptionsOf(Penalty::kKernelDensityL1, 1e-5));
  // The estimates of the first class are 0, 1, 1, 1.
  EXPECT_NEAR(loss.value, 2 * (.1 + .89 + .2 + .18) / 4, 1e-12);
  for (const double value : loss.gradient) EXPECT_TRUE(std::isfinite(value));
  // Probabilities of 0 and 1 have no logarithm. The rows have the errors 0, 1 and 2.
  const ForecastSet hard{ForecastKind::kProbabilities, 2, {0, 1, 1, 0, 0, 1}, {0, 0, 1}, {}};
  EXPECT_NEAR(Compute(hard, OptionsOf(Penalty::kKernelDensityL1, .1)).value, 1, 1e-12);
}

TEST(ClassPenaltiesTest, TheLikeliestBandwidthIsChosenAndReturned) {
  ForecastSet set = SixRows();
  const auto chosen_of = [](const CalibrationLoss& loss) {
    return std::get<ForecastCondition>(loss.condition).bandwidth.value();
  };
  EXPECT_EQ(chosen_of(Compute(set, OptionsOf(Penalty::kKernelDensityL2))), 1);
  // Three pairs of rows.
  set.values = {.7, .2, .1, .68, .22, .1, .1, .6, .3, .12, .58, .3, .3, .3, .4, .32, .3, .38};
  const CalibrationLoss loss = Compute(set, OptionsOf(Penalty::kKernelDensityL2));
  const double chosen = chosen_of(loss);
  EXPECT_NEAR(chosen, 0.0019306977288832496, 1e-15);
  EXPECT_EQ(Compute(set, OptionsOf(Penalty::kKernelDensityL2, chosen)).value, loss.value);
  ForecastSet one = set;
  one.values.resize(3);
  one.labels.resize(1);
  EXPECT_THAT(ComputeLoss(one.view(), OptionsOf(Penalty::kKernelDensityL2)).status().message(),
              HasSubstr("not enough data: 1 row, a kernel density needs 2"));
}

struct PenaltyCase {
  std::string name;
  ForecastSet set;
  LossOptions options;
};

// Every penalty with every lens that it has.
std::vector<PenaltyCase> AllPenalties(std::size_t n) {
  std::vector<PenaltyCase> cases;
  for (const ForecastKind kind : {ForecastKind::kProbabilities, ForecastKind::kLogits}) {
    for (const Penalty penalty : {Penalty::kMmce, Penalty::kWeightedMmce, Penalty::kKernelDensityL1,
                                  Penalty::kKernelDensityL2}) {
      for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise()}) {
        LossOptions options = OptionsOf(penalty, 0.15);
        if (IsMmce(penalty) && lens.is_canonical()) continue;
        if (IsMmce(penalty) && lens.name() != options.lens.name()) continue;
        options.lens = lens;
        options.penalty_weight = 3;
        cases.push_back({std::string(PenaltyName(penalty)) + " " + lens.name(),
                         DrawClasses(kind, n, 4), options});
      }
    }
  }
  return cases;
}

TEST(ClassPenaltiesTest, GradientsEqualFiniteDifferences) {
  // Central differences have an error of about step^2 = 1e-10 and, by rounding, 1e-16 / step.
  constexpr double kStep = 1e-5;
  for (const PenaltyCase& one : AllPenalties(7)) {
    SCOPED_TRACE(one.name);
    const CalibrationLoss loss = Compute(one.set, one.options);
    LossOptions value_only = one.options;
    value_only.gradient = false;
    for (std::size_t k = 0; k < one.set.values.size(); ++k) {
      const auto shifted = [&](double step) {
        ForecastSet moved = one.set;
        moved.values[k] += step;
        return Compute(moved, value_only).value;
      };
      EXPECT_NEAR(loss.gradient[k], (shifted(kStep) - shifted(-kStep)) / (2 * kStep),
                  1e-7 * (1 + std::abs(loss.gradient[k])))
          << k;
    }
  }
}

TEST(ClassPenaltiesTest, RowsAndClassesInAnyOrderHaveTheSameLoss) {
  for (const PenaltyCase& one : AllPenalties(70)) {
    SCOPED_TRACE(one.name);
    const CalibrationLoss loss = Compute(one.set, one.options);
    ForecastSet reversed = one.set;
    // Reverses rows and classes.
    std::ranges::reverse(reversed.values);
    std::ranges::reverse(reversed.labels);
    for (std::int32_t& label : reversed.labels) label = 3 - label;
    CalibrationLoss other = Compute(reversed, one.options);
    EXPECT_NEAR(other.value, loss.value, 1e-12);
    std::ranges::reverse(other.gradient);
    for (std::size_t k = 0; k < loss.gradient.size(); ++k) {
      EXPECT_NEAR(other.gradient[k], loss.gradient[k], 1e-11);
    }
  }
}

TEST(ClassPenaltiesTest, ThreadsDoNotChangeABit) {
  RunControl control;
  control.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    for (std::size_t i = count; i > 0; --i) body(i - 1);
  };
  for (PenaltyCase& one : AllPenalties(100)) {
    SCOPED_TRACE(one.name);
    std::get<ForecastCondition>(one.options.condition).bandwidth.reset();
    const auto parallel = ComputeLoss(one.set.view(), one.options, control);
    ASSERT_TRUE(parallel.ok()) << parallel.status();
    const CalibrationLoss serial = Compute(one.set, one.options);
    EXPECT_EQ(parallel->value, serial.value);
    EXPECT_EQ(parallel->gradient, serial.gradient);
  }
}

TEST(ClassPenaltiesTest, CancellationEndsTheComputation) {
  RunControl control;
  control.cancelled = [] { return true; };
  for (const PenaltyCase& one : AllPenalties(40)) {
    EXPECT_TRUE(absl::IsCancelled(ComputeLoss(one.set.view(), one.options, control).status()))
        << one.name;
  }
}

TEST(ClassPenaltiesTest, OptionsThatAPenaltyDoesNotHaveAreNamed) {
  const ForecastSet classes = SixRows();
  const auto error = [&](const ForecastSet& set, LossOptions options) {
    return std::string(CheckLossOptions(set.view(), options).message());
  };
  LossOptions options = OptionsOf(Penalty::kMmce);
  options.lens = Lens::Canonical();
  EXPECT_EQ(error(classes, options), "lens is canonical, expected top_label for the penalty mmce");
  options = OptionsOf(Penalty::kWeightedMmce);
  options.biased = true;
  EXPECT_EQ(error(classes, options), "biased is set, expected none for the penalty weighted_mmce");
  options = OptionsOf(Penalty::kKernelDensityL1);
  options.outcome_kernel = RbfKernel{1};
  EXPECT_EQ(error(classes, options),
            "outcome_kernel is set, expected none for the penalty kernel_density_l1");
  options = OptionsOf(Penalty::kKernelDensityL2);
  options.condition =
      ForecastCondition{.distance = Distance::kEuclidean, .bandwidth = {}, .gamma = {}};
  EXPECT_EQ(error(classes, options),
            "condition.forecast.kernel is set, expected none for the penalty kernel_density_l2");
  options.condition = NoCondition();
  EXPECT_EQ(error(classes, options),
            "condition is not forecast, expected forecast for the penalty kernel_density_l2");
  EXPECT_EQ(error(testing::DrawNumbers(ForecastKind::kNormal, 3), OptionsOf(Penalty::kMmce)),
            "lens is top_label, expected none for forecasts of numbers");
  EXPECT_EQ(
      error(testing::DrawNumbers(ForecastKind::kNormal, 3), OptionsOf(Penalty::kKernelDensityL1)),
      "penalty is kernel_density_l1, expected mmd for forecasts of numbers");
}

}  // namespace
}  // namespace calibd
