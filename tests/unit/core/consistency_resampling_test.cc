#include "calibd/core/consistency_resampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "calibd/core/generator.h"
#include "support/draw.h"

namespace calibd {
namespace {

using ::testing::HasSubstr;

const std::vector<BinnedErrorSpec>& AllSpecs() {
  static const std::vector<BinnedErrorSpec> specs = {UniformBins{}, MedianVarianceBins{},
                                                     TopLabelBins{}, ClassWiseBins{}};
  return specs;
}

TEST(ConsistencyTestTest, CountsReplicatesWithAtLeastTheErrorOfTheBatch) {
  for (const BinnedErrorSpec& spec : AllSpecs()) {
    const PredictionSet set = Draw(GeneratorSpec::M1(), 100, 31);
    const auto result = ConsistencyTest(set.view(), spec, {.replicates = 199, .seed = 4});
    EXPECT_EQ(result->error.ece, EstimateBinnedError(set.view(), spec)->ece);
    EXPECT_DOUBLE_EQ(result->p_value, (1.0 + result->exceedances) / 200);
    EXPECT_EQ(result->replicates, 199);
    EXPECT_EQ(result->seed, 4u);
    EXPECT_GT(result->replicate_mean, 0);
    EXPECT_GT(result->replicate_standard_deviation, 0);
  }
}

TEST(ConsistencyTestTest, RejectsAModelWithALargeError) {
  for (const BinnedErrorSpec& spec : AllSpecs()) {
    const auto result =
        ConsistencyTest(Draw(GeneratorSpec::M3(), 250, 31).view(), spec, {.replicates = 199});
    EXPECT_EQ(result->exceedances, 0);
    EXPECT_DOUBLE_EQ(result->p_value, 1.0 / 200);
  }
}

TEST(ConsistencyTestTest, FindsNothingIfNothingCanDeviate) {
  // Certain and right: every replicate has error 0, which is a tie.
  const PredictionSet certain{{1, 0, 0, 1, 1, 0}, {0, 1, 0}, 2};
  const auto result = ConsistencyTest(certain.view(), UniformBins{}, {.replicates = 99});
  EXPECT_EQ(result->p_value, 1);
  EXPECT_EQ(result->replicate_standard_deviation, 0);
  // Certain and wrong: no replicate has such an error.
  const PredictionSet wrong{{1, 0, 0, 1}, {1, 0}, 2};
  EXPECT_EQ(ConsistencyTest(wrong.view(), TopLabelBins{}, {.replicates = 99})->p_value, 0.01);
}

TEST(ConsistencyTestTest, TheMeanOfTheReplicatesIsThatOfTheExactDistribution) {
  // One row (1/2, 1/2) in one bin: the replicate's TV is always 1/2.
  const PredictionSet one{{0.5, 0.5}, {0}, 2};
  const auto single = ConsistencyTest(one.view(), UniformBins{1}, {.replicates = 99});
  EXPECT_DOUBLE_EQ(single->replicate_mean, 0.5);
  EXPECT_EQ(single->p_value, 1);
  // Two such rows: the frequencies are (1, 0), (1/2, 1/2) or (0, 1) with chances 1/4,
  // 1/2, 1/4, so the mean is 1/4 and the deviation 1/4.
  const PredictionSet two{{0.5, 0.5, 0.5, 0.5}, {0, 1}, 2};
  const auto pair = ConsistencyTest(two.view(), UniformBins{1}, {.replicates = 10000});
  EXPECT_NEAR(pair->replicate_mean, 0.25, 5 * 0.25 / 100);
  EXPECT_NEAR(pair->replicate_standard_deviation, 0.25, 0.01);
}

TEST(ConsistencyTestTest, DependsOnTheSeedAndNotOnThreads) {
  RunControl threads;
  threads.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::thread odd([&] {
      for (std::size_t i = 1; i < count; i += 2) body(i);
    });
    for (std::size_t i = 0; i < count; i += 2) body(i);
    odd.join();
  };
  double last = 0;
  threads.progress = [&](double fraction) {
    EXPECT_GT(fraction, last);
    last = fraction;
  };
  const PredictionSet set = Draw(GeneratorSpec::M1(), 60, 31);
  const BootstrapOptions options{.replicates = 150, .seed = 7};
  const auto alone = ConsistencyTest(set.view(), TopLabelBins{}, options);
  const auto shared = ConsistencyTest(set.view(), TopLabelBins{}, options, threads);
  EXPECT_EQ(last, 1);
  EXPECT_EQ(alone->replicate_mean, shared->replicate_mean);
  EXPECT_EQ(alone->exceedances, shared->exceedances);
  const auto other = ConsistencyTest(set.view(), TopLabelBins{}, {.replicates = 150, .seed = 8});
  EXPECT_NE(alone->replicate_mean, other->replicate_mean);
}

TEST(ConsistencyTestTest, StopsWhenCancelled) {
  RunControl control;
  int asked = 0;
  control.cancelled = [&] { return ++asked == 5; };
  const auto result =
      ConsistencyTest(Draw(GeneratorSpec::M1(), 50, 31).view(), UniformBins{}, {}, control);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(asked, 5);
}

TEST(ConsistencyTestTest, ErrorsNameTheInvalidValue) {
  const PredictionSet set = Draw(GeneratorSpec::M1(), 5, 31);
  EXPECT_THAT(
      std::string(
          ConsistencyTest(set.view(), UniformBins{}, {.replicates = 98}).status().message()),
      HasSubstr("replicates is 98, expected 99..100000"));
  EXPECT_THAT(std::string(ConsistencyTest(set.view(), UniformBins{0}, {}).status().message()),
              HasSubstr("bins_per_class is 0"));
  EXPECT_EQ(ConsistencyTest(set.view(), MedianVarianceBins{6}, {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace calibd
