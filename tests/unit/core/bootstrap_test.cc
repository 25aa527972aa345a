#include "calibd/core/bootstrap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "calibd/core/generator.h"
#include "support/draw.h"

namespace calibd {
namespace {

// The exact mean and variance of a replicate given the sample. With e_i = C_i - 1,
// T = n^-2 [ n/(n-1) (C'HC - C'h) - 2 C'H1 ] and C multinomial(n; 1/n, ..). Over
// ordered pairs a != b of the n draws, C'HC - C'h + (pairs of draws of one sample)
// is: C'HC = sum_{a,b} h(i_a, i_b), where a = b gives h_ii as well as C'h does, so
// that C'HC - C'h = sum_{a != b} h(i_a, i_b).
struct Moments {
  double mean;
  double variance;
};
Moments ExactMoments(const PredictionBatch& batch, const Kernel& kernel) {
  const std::size_t n = batch.size();
  const auto size = static_cast<double>(n);
  std::vector<double> h(n * n);
  std::vector<double> rows(n, 0);
  double mean_h = 0;
  double mean_h2 = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      h[i * n + j] = SkceTerm(batch.row(i), batch.labels[i], batch.row(j), batch.labels[j], kernel);
      rows[i] += h[i * n + j];
      mean_h += h[i * n + j] / (size * size);
    }
  }
  // Hoeffding's decomposition: h = centered + r_i + r_j + mean, with centered terms of
  // different pairs of draws uncorrelated. T = n^-2 [ n/(n-1) sum_{a!=b} centered(a, b)
  //   + 2 n sum_a r_a + n^2 mean - 2 n sum_a (r_a + mean) ], and the r_a cancel.
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      const double centered = h[i * n + j] - rows[i] / size - rows[j] / size + mean_h;
      mean_h2 += centered * centered / (size * size);
    }
  }
  const double scale = 1 / (size * (size - 1));
  return {-mean_h, 2 * size * (size - 1) * mean_h2 * scale * scale};
}

TEST(BootstrapTest, ReplicatesHaveTheExactMeanAndVariance) {
  for (const std::size_t n : {2u, 5u, 60u, 300u}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(4), n, n);
    const Kernel kernel = MakeKernel(0.5);
    const Moments exact = ExactMoments(set.view(), kernel);
    const auto result = BootstrapTest(set.view(), kernel, {.replicates = 40000, .seed = 1});
    ASSERT_TRUE(result.ok());
    const double sd = std::sqrt(exact.variance);
    EXPECT_NEAR(result->replicate_mean, exact.mean, 5 * sd / std::sqrt(40000) + 1e-9);
    // The kurtosis of these replicates is below 30: 5 sqrt(30 / 40000) / 2 < .07.
    EXPECT_NEAR(result->replicate_standard_deviation / sd, 1, 0.07);
  }
}

TEST(BootstrapTest, HasTheStatisticOfTheQuadraticEstimators) {
  const PredictionSet set = Draw(GeneratorSpec::M1(), 500, 2);
  const auto result = BootstrapTest(set.view(), MakeKernel(0.8), {.seed = 3});
  const auto skce = EstimateQuadraticSkce(set.view(), MakeKernel(0.8));
  EXPECT_EQ(result->skce.biased, skce->biased);
  EXPECT_EQ(result->skce.unbiased, skce->unbiased);
  EXPECT_NEAR(result->statistic, 500.0 / 499 * skce->unbiased - skce->biased, 1e-18);
  EXPECT_EQ(result->p_value, (1.0 + result->exceedances) / 1000);
  EXPECT_EQ(result->seed, 3u);
}

TEST(BootstrapTest, DependsOnTheSeedButNotOnTheThreads) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 1500, 2);
  RunControl threaded;
  threaded.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::vector<std::jthread> threads;
    for (std::size_t i = count; i-- > 0;) threads.emplace_back([&body, i] { body(i); });
  };
  const auto alone = BootstrapTest(set.view(), MakeKernel(0.8), {.seed = 9});
  const auto together = BootstrapTest(set.view(), MakeKernel(0.8), {.seed = 9}, threaded);
  EXPECT_EQ(alone->replicate_mean, together->replicate_mean);
  EXPECT_EQ(alone->replicate_standard_deviation, together->replicate_standard_deviation);
  EXPECT_EQ(alone->exceedances, together->exceedances);
  const auto other = BootstrapTest(set.view(), MakeKernel(0.8), {.seed = 10});
  EXPECT_NE(alone->replicate_mean, other->replicate_mean);
}

TEST(BootstrapTest, ReplicatesInSeveralTurnsContinueTheSequence) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 200, 2);
  std::vector<double> told;
  RunControl control;
  control.progress = [&told](double fraction) { told.push_back(fraction); };
  const auto result = BootstrapTest(set.view(), MakeKernel(0.8), {.replicates = 3000}, control);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1);
  EXPECT_EQ(result->replicates, 3000);
}

TEST(BootstrapTest, StopsWhenCancelled) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 2000, 2);
  RunControl control;
  double reached = 0;
  control.progress = [&reached](double fraction) { reached = fraction; };
  control.cancelled = [&reached] { return reached > 0.2; };
  EXPECT_EQ(BootstrapTest(set.view(), MakeKernel(0.8), {}, control).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_LT(reached, 0.4);
}

TEST(BootstrapTest, RejectsBadArguments) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 10, 2);
  for (const std::int32_t replicates : {-1, 0, 98, 100001}) {
    EXPECT_EQ(BootstrapTest(set.view(), MakeKernel(1), {.replicates = replicates}).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(
      BootstrapTest(set.view(), MakeKernel(1), {.null = NullHypothesis::kForecast}).status().code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BootstrapTest(set.view().rows(0, 1), MakeKernel(1), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace calibd
