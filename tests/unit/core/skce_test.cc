#include "calibd/core/skce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "calibd/core/generator.h"
#include "support/draw.h"

namespace calibd {
namespace {

// The definition with residual vectors and the matrix-valued kernel k I.
double DefinedTerm(const PredictionBatch& batch, std::size_t i, std::size_t j, double bandwidth) {
  double distance = 0;
  double product = 0;
  for (std::size_t k = 0; k < batch.class_count; ++k) {
    const double d_i = (static_cast<std::size_t>(batch.labels[i]) == k ? 1 : 0) - batch.row(i)[k];
    const double d_j = (static_cast<std::size_t>(batch.labels[j]) == k ? 1 : 0) - batch.row(j)[k];
    product += d_i * d_j;
    distance += std::abs(batch.row(i)[k] - batch.row(j)[k]) / 2;
  }
  return std::exp(-distance / bandwidth) * product;
}

TEST(KernelTest, RejectsABandwidthThatIsNotPositive) {
  for (const double bandwidth : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    EXPECT_EQ(Kernel::ExponentialTotalVariation(bandwidth).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(SkceTermTest, EqualsTheDefinition) {
  for (const std::size_t m : {2u, 3u, 4u, 7u, 10u, 1000u}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(m), 20, m);
    const PredictionBatch batch = set.view();
    for (std::size_t i = 0; i < 20; ++i) {
      for (std::size_t j = 0; j < 20; ++j) {
        const double term =
            SkceTerm(batch.row(i), batch.labels[i], batch.row(j), batch.labels[j], MakeKernel(0.7));
        EXPECT_NEAR(term, DefinedTerm(batch, i, j, 0.7), 1e-14);
        EXPECT_EQ(term, SkceTerm(batch.row(j), batch.labels[j], batch.row(i), batch.labels[i],
                                 MakeKernel(0.7)));
        EXPECT_LE(std::abs(term), Kernel::DistributionFreeBound());
      }
    }
  }
}

TEST(QuadraticSkceTest, EqualsTheDoubleSum) {
  for (const std::size_t n : {2u, 3u, 100u, 255u, 256u, 257u, 700u}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(5), n, n);
    double all = 0;
    double diagonal = 0;
    for (std::size_t i = 0; i < n; ++i) {
      diagonal += DefinedTerm(set.view(), i, i, 0.4);
      for (std::size_t j = 0; j < n; ++j) all += DefinedTerm(set.view(), i, j, 0.4);
    }
    const auto size = static_cast<double>(n);
    const auto estimate = EstimateQuadraticSkce(set.view(), MakeKernel(0.4));
    ASSERT_TRUE(estimate.ok());
    EXPECT_NEAR(estimate->biased, all / (size * size), 1e-14);
    EXPECT_NEAR(estimate->unbiased, (all - diagonal) / (size * (size - 1)), 1e-14);
    // n SKCE_b = (n - 1) SKCE_uq + mean h_ii, and mean h_ii is the Brier score.
    EXPECT_NEAR(size * estimate->biased, (size - 1) * estimate->unbiased + estimate->mean_diagonal,
                1e-13);
    double brier = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < 5; ++k) {
        const double d =
            set.view().row(i)[k] - (static_cast<std::size_t>(set.labels[i]) == k ? 1 : 0);
        brier += d * d / size;
      }
    }
    EXPECT_NEAR(estimate->mean_diagonal, brier, 1e-14);
  }
}

TEST(QuadraticSkceTest, DoesNotDependOnTheOrderOfObservations) {
  const PredictionSet set = Draw(GeneratorSpec::M2(4), 300, 3);
  std::vector<std::size_t> order(300);
  std::iota(order.begin(), order.end(), 0u);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  PredictionSet permuted;
  permuted.class_count = 4;
  for (const std::size_t i : order) {
    const auto row = set.view().row(i);
    permuted.probabilities.insert(permuted.probabilities.end(), row.begin(), row.end());
    permuted.labels.push_back(set.labels[i]);
  }
  const auto a = EstimateQuadraticSkce(set.view(), MakeKernel(0.5));
  const auto b = EstimateQuadraticSkce(permuted.view(), MakeKernel(0.5));
  EXPECT_NEAR(a->unbiased, b->unbiased, 1e-15);
  EXPECT_NEAR(a->biased, b->biased, 1e-15);
}

TEST(QuadraticSkceTest, DoesNotDependOnTheThreads) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 2000, 4);
  RunControl threaded;
  threaded.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::vector<std::jthread> threads;
    for (std::size_t i = count; i-- > 0;) threads.emplace_back([&body, i] { body(i); });
  };
  const auto alone = EstimateQuadraticSkce(set.view(), MakeKernel(0.5));
  const auto together = EstimateQuadraticSkce(set.view(), MakeKernel(0.5), threaded);
  EXPECT_EQ(alone->biased, together->biased);
  EXPECT_EQ(alone->unbiased, together->unbiased);
}

TEST(QuadraticSkceTest, ErrorsSayHowManyObservationsAreNeeded) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 1, 4);
  EXPECT_EQ(EstimateQuadraticSkce(set.view(), MakeKernel(1)).status().message(),
            "not enough observations: 1, at least 2 are needed");
}

TEST(QuadraticSkceTest, ProgressNeverDecreasesAndEndsAtOne) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 1500, 4);
  std::vector<double> told;
  RunControl control;
  control.progress = [&told](double fraction) { told.push_back(fraction); };
  ASSERT_TRUE(EstimateQuadraticSkce(set.view(), MakeKernel(1), control).ok());
  ASSERT_FALSE(told.empty());
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.back(), 1);
}

TEST(QuadraticSkceTest, CanBeCancelledHalfWay) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 2000, 4);
  RunControl control;
  double reached = 0;
  control.progress = [&reached](double fraction) { reached = fraction; };
  control.cancelled = [&reached] { return reached > 0.3; };
  EXPECT_EQ(EstimateQuadraticSkce(set.view(), MakeKernel(1), control).status().code(),
            absl::StatusCode::kCancelled);
  EXPECT_LT(reached, 0.5);
}

TEST(QuadraticSkceTest, HostilePredictionsGiveFiniteEstimates) {
  // Certain predictions: all right, all wrong, all equal.
  for (const std::int32_t label : {0, 1}) {
    PredictionSet set;
    set.class_count = 2;
    for (int i = 0; i < 50; ++i) {
      set.probabilities.insert(set.probabilities.end(), {1, 0});
      set.labels.push_back(label);
    }
    const auto estimate = EstimateQuadraticSkce(set.view(), MakeKernel(1e-3));
    EXPECT_EQ(estimate->unbiased, label == 0 ? 0 : 2);
  }
}

}  // namespace
}  // namespace calibd
