#include "calibd/core/missing_labels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace calibd {
namespace {

TEST(MissingLabelsTest, IsThePearsonTestOfATwoByTwoTable) {
  // Computed by hand: share 30/200; E of missing 15, of labelled 85; (20-15)^2/15 and so on.
  const std::vector<LabelledCount> kinds{{.predictions = 100, .missing = 20},
                                         {.predictions = 100, .missing = 10}};
  const double statistic = 25.0 / 15 + 25.0 / 85 + 25.0 / 15 + 25.0 / 85;
  // One degree of freedom: the tail of the square of a normal variable.
  const double expected = std::erfc(std::sqrt(statistic / 2));
  ASSERT_TRUE(MissingLabelsPValue(kinds).has_value());
  EXPECT_NEAR(*MissingLabelsPValue(kinds), expected, 1e-14);
}

TEST(MissingLabelsTest, SmallKindsArePooled) {
  const std::vector<LabelledCount> small{{.predictions = 1000, .missing = 100},
                                         {.predictions = 30, .missing = 9},
                                         {.predictions = 30, .missing = 7},
                                         {.predictions = 0, .missing = 0}};
  const std::vector<LabelledCount> together{{.predictions = 1000, .missing = 100},
                                            {.predictions = 60, .missing = 16}};
  EXPECT_DOUBLE_EQ(*MissingLabelsPValue(small), *MissingLabelsPValue(together));
}

TEST(MissingLabelsTest, TooLittleDataGivesNoValue) {
  const auto none = [](const std::vector<LabelledCount>& kinds) {
    return !MissingLabelsPValue(kinds).has_value();
  };
  EXPECT_TRUE(none({}));
  EXPECT_TRUE(none({{.predictions = 0, .missing = 0}}));
  EXPECT_TRUE(none({{.predictions = 1000, .missing = 0}, {.predictions = 1000, .missing = 0}}));
  EXPECT_TRUE(none({{.predictions = 1000, .missing = 1000}, {.predictions = 9, .missing = 9}}));
  EXPECT_TRUE(none({{.predictions = 1000, .missing = 500}}));
  EXPECT_TRUE(none({{.predictions = 1000, .missing = 500}, {.predictions = 4, .missing = 4}}));
}

TEST(MissingLabelsTest, KeepsItsLevelAndDetectsADifference) {
  std::mt19937_64 random(5);
  const auto rejections = [&random](const std::vector<double>& shares) {
    int rejected = 0;
    for (int repetition = 0; repetition < 2000; ++repetition) {
      std::vector<LabelledCount> kinds;
      for (const double share : shares) {
        std::binomial_distribution<std::int64_t> missing(300, share);
        kinds.push_back({.predictions = 300, .missing = missing(random)});
      }
      rejected += *MissingLabelsPValue(kinds) < 0.05 ? 1 : 0;
    }
    return rejected;
  };
  // 100 are expected with a standard deviation of 9.7; the bound is five of them.
  EXPECT_NEAR(rejections({0.1, 0.1, 0.1, 0.1, 0.1}), 100, 49);
  EXPECT_GT(rejections({0.1, 0.1, 0.1, 0.1, 0.25}), 1950);
}

}  // namespace
}  // namespace calibd
