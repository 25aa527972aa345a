// The loss at the limits of validity: equal rows, saturated probabilities, one row, invalid input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/calibration_loss.h"
#include "unit/core/drawn_losses.h"

namespace calibd {
namespace {

using testing::Compute;
using testing::DrawClasses;
using testing::DrawNumbers;
using testing::ForecastSet;
using ::testing::HasSubstr;
using testing::Mmd;

TEST(CalibrationLossTest, EqualForecastsHaveNoGamma) {
  const ForecastSet normals{ForecastKind::kNormal, 2, {1, 2, 1, 2, 1, 2}, {}, {0, 1, 5}};
  const CalibrationLoss loss = Compute(normals, {});
  EXPECT_FALSE(std::get<ForecastCondition>(loss.condition).gamma.has_value());
  LossOptions unconditional;
  unconditional.condition = NoCondition();
  EXPECT_EQ(loss.value, Compute(normals, unconditional).value);
  const ForecastSet classes{ForecastKind::kProbabilities, 2, {0.5, 0.5, 0.5, 0.5}, {0, 1}, {}};
  const CalibrationLoss equal = Compute(classes, {});
  EXPECT_FALSE(std::get<ForecastCondition>(equal.condition).bandwidth.has_value());
  // <(.5, -.5), (-.5, .5)>.
  EXPECT_EQ(equal.value, -0.5);
}

TEST(CalibrationLossTest, DistancesBeyondTheRangeOfDoubleAreNotEqualRows) {
  const ForecastSet set{ForecastKind::kNormal, 2, {-1e200, 1, 1e200, 1, 0, 1}, {}, {0, 1, 2}};
  const auto error = [&set](Condition condition) {
    LossOptions options;
    options.outcome_kernel = ThresholdKernel{0};
    options.condition = std::move(condition);
    return std::string(ComputeLoss(set.view(), options).status().message());
  };
  EXPECT_EQ(error(ForecastCondition()),
            "condition.forecast.gamma cannot be chosen from these rows, give a value");
  EXPECT_EQ(error(FeatureCondition{{-1e200, 1e200, 0}, {}}),
            "condition.features.gamma cannot be chosen from these rows, give a value");
  EXPECT_EQ(error(ForecastCondition{.bandwidth = {}, .gamma = 1}), "");
}

TEST(CalibrationLossTest, SaturatedProbabilitiesHaveAFiniteLoss) {
  const ForecastSet classes{ForecastKind::kProbabilities, 2, {1, 0, 0, 1, 1, 0}, {1, 1, 0}, {}};
  LossOptions options;
  options.penalty_weight = 1;
  const CalibrationLoss loss = Compute(classes, options);
  EXPECT_NEAR(loss.negative_log_likelihood.value(), 52 * std::numbers::ln2 / 3, 1e-14);
  // A probability of 0 has no gradient of the likelihood.
  options.penalty_weight = 0;
  EXPECT_EQ(Compute(classes, options).gradient,
            (std::vector<double>{0, 0, 0, -1.0 / 3, -1.0 / 3, 0}));
  options.penalty_weight = 1;
  // Logits have an exact likelihood, however far they are apart.
  const ForecastSet logits{ForecastKind::kLogits, 2, {800, 0, 0, 800}, {1, 1}, {}};
  const CalibrationLoss exact = Compute(logits, options);
  EXPECT_EQ(exact.negative_log_likelihood.value(), 400);
  EXPECT_TRUE(std::all_of(exact.gradient.begin(), exact.gradient.end(),
                          [](double value) { return std::isfinite(value); }));
}

TEST(CalibrationLossTest, OneRowHasOnlyTheBiasedEstimate) {
  const ForecastSet one{ForecastKind::kNormal, 2, {0, 1}, {}, {0.5}};
  LossOptions options;
  options.outcome_kernel = EnergyKernel();
  EXPECT_THAT(ComputeLoss(one.view(), options).status().message(), HasSubstr("not enough data"));
  // The CRPS: t (2 Phi(t) - 1) + 2 phi(t) - 1 / sqrt(pi) for t = 1/2.
  EXPECT_NEAR(Mmd(one, options, true),
              0.5 * std::erf(0.5 / std::numbers::sqrt2) +
                  2 * std::exp(-0.125) / std::sqrt(2 * std::numbers::pi) -
                  1 / std::sqrt(std::numbers::pi),
              1e-15);
}

TEST(CalibrationLossTest, InvalidOptionsAreNamed) {
  const auto error = [](const ForecastSet& set, const LossOptions& options) {
    const auto loss = ComputeLoss(set.view(), options);
    EXPECT_EQ(loss.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(loss.status().message());
  };
  const ForecastSet classes = DrawClasses(ForecastKind::kProbabilities, 3, 3);
  const ForecastSet normals = DrawNumbers(ForecastKind::kNormal, 3);
  const ForecastSet samples = DrawNumbers(ForecastKind::kSamples, 3, 3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  LossOptions options;
  options.lens = Lens::TopK(2);
  EXPECT_EQ(error(classes, options),
            "lens is top_k[2], expected canonical, top_label or class_wise");
  options.lens = Lens::TopLabel();
  EXPECT_EQ(error(normals, options), "lens is top_label, expected none for forecasts of numbers");
  options = {};
  options.penalty_weight = nan;
  EXPECT_EQ(error(classes, options), "penalty_weight is nan, expected a finite number >= 0");
  options.penalty_weight = 1;
  EXPECT_THAT(error(samples, options),
              HasSubstr("penalty_weight is set, expected none for samples"));
  options = {};
  options.outcome_kernel = EnergyKernel();
  EXPECT_THAT(error(classes, options), HasSubstr("outcome_kernel compares numbers"));
  options.outcome_kernel = RbfKernel();
  EXPECT_THAT(error(classes, options), HasSubstr("outcome_kernel.rbf.gamma is missing"));
  options.outcome_kernel = RbfKernel{0};
  EXPECT_EQ(error(normals, options), "outcome_kernel.rbf.gamma is 0, expected a finite number > 0");
  options.outcome_kernel = PitMinKernel();
  EXPECT_THAT(error(samples, options), HasSubstr("outcome_kernel needs the distribution function"));
  options.outcome_kernel = MomentsKernel{nan, 1};
  EXPECT_THAT(error(normals, options), HasSubstr("outcome_kernel.moments.center is nan"));
  options.outcome_kernel = MomentsKernel{0, -1};
  EXPECT_THAT(error(normals, options), HasSubstr("outcome_kernel.moments.scale is -1"));
  options.outcome_kernel = TanhKernel{0, 0};
  EXPECT_THAT(error(normals, options), HasSubstr("outcome_kernel.tanh.width is 0"));
  options.outcome_kernel = ThresholdKernel{nan};
  EXPECT_THAT(error(normals, options), HasSubstr("outcome_kernel.threshold.threshold is nan"));
  options.outcome_kernel = PitRbfKernel{-1};
  EXPECT_THAT(error(normals, options), HasSubstr("outcome_kernel.pit_rbf.gamma is -1"));
  options = {};
  options.condition = ForecastCondition{.bandwidth = {}, .gamma = 1};
  EXPECT_THAT(error(classes, options), HasSubstr("condition.forecast.gamma is set"));
  options.condition = ForecastCondition{.bandwidth = 1, .gamma = {}};
  EXPECT_THAT(error(normals, options), HasSubstr("condition.forecast.bandwidth is set"));
  options.condition = FeatureCondition{{1, 2}, {}};
  EXPECT_EQ(error(normals, options),
            "condition.features.values has 2 values, expected a multiple of 3 rows");
  options.condition = FeatureCondition{{1, 2, nan}, {}};
  EXPECT_THAT(error(normals, options), HasSubstr("condition.features.values[2] is nan"));
  options.condition = GroupCondition{{1, 2}};
  EXPECT_EQ(error(normals, options), "condition.groups.groups has 2 values, expected 3 rows");
}

TEST(ForecastTest, InvalidRowsAreNamed) {
  const auto violations = [](const ForecastSet& set) {
    return DescribeViolations(FindViolations(set.view()));
  };
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(violations({ForecastKind::kNormal, 2, {0, 1}, {}, {}}),
            "outcomes is empty, expected at least 1 row");
  EXPECT_EQ(violations({ForecastKind::kNormal, 2, {0, 1, 2}, {}, {1, 2}}),
            "normals has 3 values, expected 2 outcomes x 2");
  EXPECT_EQ(violations({ForecastKind::kSamples, 1, {0, 1}, {}, {1, 2}}),
            "samples has 2 values, expected 2 outcomes x 2..1000");
  EXPECT_EQ(violations({ForecastKind::kLogits, 2, {0, inf, 0, 0}, {0, 2}, {}}),
            "rows[0].logits[1] is inf, expected a finite number; labels[1] is 2, expected [0, 2)");
  EXPECT_THAT(violations({ForecastKind::kProbabilities, 2, {0.5, 0.6}, {0}, {}}),
              HasSubstr("rows[0].probabilities"));
  EXPECT_EQ(violations({ForecastKind::kNormal, 2, {0, 0, inf, 1, 0, 1e-300}, {}, {1, 1, 1e10}}),
            "rows[0].standard_deviation is 0, expected at least 1e-300; rows[1].mean is inf, "
            "expected a finite number; rows[2].outcome is 1e+10, expected a finite (outcome - "
            "mean) / standard_deviation");
  EXPECT_EQ(violations({ForecastKind::kSamples, 2, {0, 1}, {}, {inf}}),
            "rows[0].outcome is inf, expected a finite number");
}

}  // namespace
}  // namespace calibd
