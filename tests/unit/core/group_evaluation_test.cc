#include "calibd/core/group_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "calibd/core/running_reliability.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

// Rows of two classes in groups; class 1 happens as often as is said, plus `excess` of the group.
struct Groups {
  PredictionSet set{{}, {}, 2};
  std::vector<std::int32_t> group;

  Groups(std::size_t n, const std::vector<double>& excess, std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<double> uniform(0, 1);
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t g = i % excess.size();
      const double p = 0.3 + 0.4 * uniform(rng);
      set.probabilities.insert(set.probabilities.end(), {1 - p, p});
      set.labels.push_back(uniform(rng) < p + excess[g] ? 1 : 0);
      group.push_back(static_cast<std::int32_t>(g));
    }
  }
};

TEST(GroupEvaluationTest, FindsErrorsThatCancelOverAllRows) {
  const Groups data(1500, {0.25, -0.25, 0}, 1);
  const auto results = EvaluateGroups(data.set.view(), data.group, 3, {});
  ASSERT_TRUE(results.ok()) << results.status();
  for (std::size_t g = 0; g < 2; ++g) {
    const GroupResult& group = (*results)[g];
    EXPECT_EQ(group.count, 500);
    EXPECT_TRUE(group.rejected) << g;
    EXPECT_GT(group.error.class_1->lower, 0.05) << g;
    EXPECT_LT(group.error.class_1->gap * (g == 0 ? 1 : -1), 0) << g;
  }
  EXPECT_FALSE((*results)[2].rejected);
  EXPECT_LT((*results)[2].error.class_1->lower, 0.01);
}

// Each group has an equal share of the levels, and the sums of its own rows.
TEST(GroupEvaluationTest, EqualsTheIntervalsOfItsRows) {
  const Groups data(300, {0.1, 0}, 2);
  const auto results = EvaluateGroups(data.set.view(), data.group, 2, {});
  RunningReliability top_label;
  ReliabilitySums class_1;
  for (std::size_t i = 0; i < 300; i += 2) {
    top_label.Add(data.set.view().rows(i, 1));
    class_1.AddClass(data.set.view().rows(i, 1), 1);
  }
  const ErrorIntervals expected =
      *EventIntervals(top_label, class_1, kOneLookErrorLevels.SharedBy(2));
  EXPECT_EQ((*results)[0].error.top_label.upper, expected.top_label.upper);
  EXPECT_EQ((*results)[0].error.class_1->lower, expected.class_1->lower);
  EXPECT_EQ((*results)[0].count, 150);
}

TEST(GroupEvaluationTest, DoesNotDependOnOtherGroupsOrThreads) {
  const Groups data(400, {0.2, 0, -0.2, 0.1}, 3);
  const auto forth = EvaluateGroups(data.set.view(), data.group, 4, {});
  RunControl backwards;
  backwards.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    for (std::size_t i = count; i-- > 0;) body(i);
  };
  const auto back = EvaluateGroups(data.set.view(), data.group, 4, {}, backwards);
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_EQ((*forth)[g].log10_e_value, (*back)[g].log10_e_value);
    EXPECT_EQ((*forth)[g].error.top_label.lower, (*back)[g].error.top_label.lower);
  }
  // The rows of group 1 alone, as a group of their own.
  PredictionSet rows{{}, {}, 2};
  for (std::size_t i = 1; i < 400; i += 4) {
    const std::span<const double> row = data.set.view().row(i);
    rows.probabilities.insert(rows.probabilities.end(), row.begin(), row.end());
    rows.labels.push_back(data.set.labels[i]);
  }
  const std::vector<std::int32_t> one(100, 0);
  EXPECT_EQ((*EvaluateGroups(rows.view(), one, 1, {}))[0].log10_e_value, (*forth)[1].log10_e_value);
}

TEST(GroupEvaluationTest, ErrorsNameTheRow) {
  const Groups data(10, {0}, 4);
  const std::vector<std::int32_t> few(9, 0);
  EXPECT_THAT(std::string(EvaluateGroups(data.set.view(), few, 1, {}).status().message()),
              HasSubstr("groups has 9 values, expected 10"));
  std::vector<std::int32_t> wrong(10, 0);
  wrong[3] = -1;
  EXPECT_THAT(std::string(EvaluateGroups(data.set.view(), wrong, 1, {}).status().message()),
              HasSubstr("groups[3] is -1"));
  RunControl control;
  control.cancelled = [] { return true; };
  EXPECT_TRUE(
      absl::IsCancelled(EvaluateGroups(data.set.view(), data.group, 1, {}, control).status()));
}

// e-BH bounds the probability that any group of a calibrated model is rejected, and the intervals
// of all groups hold together.
TEST(GroupEvaluationTest, CalibratedGroupsAreRarelyRejected) {
  int rejected = 0;
  int wrong = 0;
  constexpr int kFiles = 300;
  for (int i = 0; i < kFiles; ++i) {
    const Groups data(400, std::vector<double>(8, 0), static_cast<std::uint64_t>(i) + 10);
    const auto results = EvaluateGroups(data.set.view(), data.group, 8, {});
    rejected += std::ranges::any_of(*results, [](const auto& g) { return g.rejected; }) ? 1 : 0;
    wrong += std::ranges::any_of(*results,
                                 [](const auto& g) {
                                   return g.error.top_label.lower > 0 || g.error.class_1->lower > 0;
                                 })
                 ? 1
                 : 0;
  }
  // 3 standard errors above .05.
  const double bound = kFiles * (0.05 + 3 * std::sqrt(0.05 * 0.95 / kFiles));
  EXPECT_LE(rejected, bound);
  EXPECT_LE(wrong, bound);
}

}  // namespace
}  // namespace calibd
