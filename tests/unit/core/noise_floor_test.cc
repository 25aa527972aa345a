// Compares the moments under labels drawn from the predictions with sums over all labels.
#include "calibd/core/noise_floor.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/lens.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/running_lens.h"
#include "calibd/core/skce.h"

namespace calibd {
namespace {

constexpr std::size_t kFloorClasses = 4;

PredictionSet DrawCalibrated(std::size_t n, std::size_t m = kFloorClasses) {
  PredictionSet set;
  const std::vector<double> uniform(m, 1.0 / static_cast<double>(m));
  Generator::Create({std::vector<double>(m, 0.7), 0, uniform}, 11)->Draw(n, set);
  return set;
}

// h of two observations after reduction by a lens, part by part.
double Term(const Lens& lens, const Kernel& kernel, std::span<const double> g_i, std::int32_t y_i,
            std::span<const double> g_j, std::int32_t y_j) {
  PredictionSet pair{{g_i.begin(), g_i.end()}, {y_i, y_j}, g_i.size()};
  pair.probabilities.insert(pair.probabilities.end(), g_j.begin(), g_j.end());
  const LensBatch seen = *ApplyLens(pair.view(), lens);
  double sum = 0;
  for (const PredictionSet& part : seen.parts) {
    sum += SkceTerm(part.view().row(0), part.labels[0], part.view().row(1), part.labels[1], kernel);
  }
  return seen.weight * sum;
}

template <typename TermOf>
double ExpectedSquare(std::span<const double> g_i, std::span<const double> g_j,
                      const TermOf& term) {
  double sum = 0;
  for (std::size_t a = 0; a < g_i.size(); ++a) {
    for (std::size_t b = 0; b < g_j.size(); ++b) {
      const double h = term(static_cast<std::int32_t>(a), static_cast<std::int32_t>(b));
      sum += g_i[a] * g_j[b] * h * h;
    }
  }
  return sum;
}

TEST(NullMomentsTest, EqualTheSumsOverAllLabelsForEachLens) {
  const PredictionSet set = DrawCalibrated(9);
  const PredictionBatch batch = set.view();
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.4);
  for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise(),
                           Lens::OneClass(2), Lens::Grouped({0, 1, 1, 0})}) {
    SCOPED_TRACE(lens.name());
    double squares = 0;
    double diagonal = 0;
    for (std::size_t i = 0; i < 9; ++i) {
      const auto g_i = batch.row(i);
      for (std::size_t a = 0; a < kFloorClasses; ++a) {
        const auto y = static_cast<std::int32_t>(a);
        diagonal += g_i[a] * Term(lens, kernel, g_i, y, g_i, y) / 9;
      }
      for (std::size_t j = i + 1; j < 9; ++j) {
        const auto g_j = batch.row(j);
        const auto term = [&](std::int32_t a, std::int32_t b) {
          return Term(lens, kernel, g_i, a, g_j, b);
        };
        squares += ExpectedSquare(g_i, g_j, term) / 36;
      }
    }
    const auto moments = EstimateNullMoments(*ApplyLens(batch, lens), kernel);
    ASSERT_TRUE(moments.ok());
    EXPECT_NEAR(moments->mean_diagonal, diagonal, 1e-13);
    EXPECT_NEAR(moments->mean_square, squares, 1e-13);
  }
}

// Calls body(labels, probability) for all labels of the rows.
void ForAllLabels(const PredictionBatch& batch,
                  const std::function<void(const std::vector<std::int32_t>&, double)>& body) {
  std::vector<std::int32_t> labels(batch.size());
  const auto last = static_cast<std::int32_t>(batch.class_count) - 1;
  for (;;) {
    double probability = 1;
    for (std::size_t i = 0; i < labels.size(); ++i) {
      probability *= batch.row(i)[static_cast<std::size_t>(labels[i])];
    }
    body(labels, probability);
    std::size_t i = 0;
    while (i < labels.size() && labels[i] == last) labels[i++] = 0;
    if (i == labels.size()) return;
    ++labels[i];
  }
}

TEST(NullMomentsTest, TheThirdMomentOfTheEstimateIsItsSumOverAllLabels) {
  // All 4^5 labels of five rows: E SKCE_uq^3 = 8 (n - 2) / (n (n - 1))^2 mean_cube plus the terms
  // E h_ij^3 that NullMoments omits, 4 / (n (n - 1))^2 times their mean.
  constexpr std::size_t kRows = 5;
  PredictionSet set = DrawCalibrated(kRows);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.4);
  for (const Lens& lens : {Lens::Canonical(), Lens::TopLabel(), Lens::ClassWise(), Lens::TopK(2),
                           Lens::OneClass(2), Lens::Grouped({0, 1, 1, 0})}) {
    SCOPED_TRACE(lens.name());
    double cube = 0;
    double square = 0;
    ForAllLabels(set.view(), [&](const std::vector<std::int32_t>& labels, double probability) {
      set.labels = labels;
      const double estimate = EstimateQuadraticSkce(*ApplyLens(set.view(), lens), kernel)->unbiased;
      cube += probability * estimate * estimate * estimate;
      square += probability * estimate * estimate;
    });
    double omitted = 0;
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = i + 1; j < kRows; ++j) {
        const auto g_i = set.view().row(i);
        const auto g_j = set.view().row(j);
        for (std::size_t a = 0; a < kFloorClasses; ++a) {
          for (std::size_t b = 0; b < kFloorClasses; ++b) {
            omitted += g_i[a] * g_j[b] / 10 *
                       std::pow(Term(lens, kernel, g_i, static_cast<std::int32_t>(a), g_j,
                                     static_cast<std::int32_t>(b)),
                                3);
          }
        }
      }
    }
    const LensBatch seen = *ApplyLens(set.view(), lens);
    EXPECT_NEAR(square, 2 * EstimateNullMoments(seen, kernel)->mean_square / 20, 1e-13);
    EXPECT_NEAR(cube, (8 * 3 * *EstimateNullCube(seen, kernel) + 4 * omitted) / 400, 1e-13);
    EXPECT_GT(std::abs(cube), 1e-9);
  }
}

TEST(NullMomentsTest, RandomTriplesAreAccurateToTwoPercent) {
  // 10.6 million triples, of which 670000 are visited at random.
  const PredictionSet set = DrawCalibrated(400, 10);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(kScalarBandwidth);
  const LensBatch seen = *ApplyLens(set.view(), Lens::Canonical());
  double sum = 0;
  double triples = 0;
  for (std::size_t i = 0; i < 400; ++i) {
    for (std::size_t j = i + 1; j < 400; ++j) {
      for (std::size_t k = j + 1; k < 400; ++k) {
        sum += NullCube(set.view().row(i), set.view().row(j), set.view().row(k), 1, 1, kernel);
        ++triples;
      }
    }
  }
  EXPECT_NEAR(*EstimateNullCube(seen, kernel) / (sum / triples), 1, 0.02);
}

TEST(NullMomentsTest, ThePearsonPValueIsTheTailOfTheCurve) {
  // scipy.stats.pearson3(t / v ** 1.5, 0, v ** 0.5).sf(x) of scipy 1.10.1, where v = 2 * 2 / 380 is
  // the variance and t = 8 * 18 / (20 * 19) ** 2 the third moment.
  const NullMoments moments{.n = 20, .mean_diagonal = 1, .mean_square = 2, .mean_cube = 1};
  EXPECT_NEAR(moments.PearsonPValue(-0.1), 0.8453237712327861, 1e-12);
  EXPECT_NEAR(moments.PearsonPValue(0), 0.43856677944775435, 1e-12);
  EXPECT_NEAR(moments.PearsonPValue(0.1), 0.15684956229720648, 1e-12);
  EXPECT_NEAR(moments.PearsonPValue(0.3), 0.010766321554407488, 1e-12);
  EXPECT_NEAR(moments.PearsonPValue(0.6), 8.922426960489283e-05, 1e-14);
  // pearson3 loses digits here: gamma(k).sf(k + k ** 0.5 * 1.5 / v ** 0.5), k = 4 * v**3 / t**2.
  EXPECT_NEAR(moments.PearsonPValue(1.5) / 6.803279334711544e-12, 1, 1e-9);
  EXPECT_NEAR(moments.PearsonPValue(moments.Unbiased().upper_quantile), 0.05, 1e-12);
  EXPECT_NEAR(moments.Scaled(3).PearsonPValue(0.9), moments.PearsonPValue(0.3), 1e-13);
  // Below the end of the curve, far above it, and for predictions that are certain.
  EXPECT_EQ(moments.PearsonPValue(-10), 1);
  EXPECT_GT(moments.PearsonPValue(1e6), 0);
  const NullMoments certain{.n = 20, .mean_diagonal = 0, .mean_square = 0, .mean_cube = 0};
  EXPECT_EQ(certain.PearsonPValue(0), 1);
  EXPECT_LT(certain.PearsonPValue(0.1), 1e-300);
}

TEST(NullMomentsTest, EqualTheSumsOverAllLabelsForAMatrixValuedKernel) {
  const PredictionSet set = DrawCalibrated(6, 3);
  const PredictionBatch batch = set.view();
  const MatrixKernel kernel = *MatrixKernel::Create(
      {{*Kernel::ExponentialTotalVariation(0.4), {2, 1, 0, 1, 2, 0.5, 0, 0.5, 1}},
       {*Kernel::Over(Distance::kSquaredEuclidean, 1 / 3.0), {1, -1, 0, -1, 1, 0, 0, 0, 0}}},
      3);
  double squares = 0;
  double diagonal = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const auto g_i = batch.row(i);
    for (std::int32_t a = 0; a < 3; ++a) {
      diagonal += g_i[static_cast<std::size_t>(a)] * SkceTerm(g_i, a, g_i, a, kernel) / 6;
    }
    for (std::size_t j = i + 1; j < 6; ++j) {
      const auto g_j = batch.row(j);
      const auto term = [&](std::int32_t a, std::int32_t b) {
        return SkceTerm(g_i, a, g_j, b, kernel);
      };
      squares += ExpectedSquare(g_i, g_j, term) / 15;
    }
  }
  const auto moments = EstimateNullMoments(batch, kernel);
  ASSERT_TRUE(moments.ok());
  EXPECT_NEAR(moments->mean_diagonal, diagonal, 1e-13);
  EXPECT_NEAR(moments->mean_square, squares, 1e-13);
}

TEST(NullMomentsTest, RandomPairsAreAccurateToTwoPercent) {
  // 3.1 million pairs, of which one million are visited at random.
  const PredictionSet set = DrawCalibrated(2500, 20);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(kScalarBandwidth);
  const LensBatch seen = *ApplyLens(set.view(), Lens::ClassWise());
  std::vector<std::vector<double>> rows(set.labels.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const PredictionSet& part : seen.parts) {
      rows[i].insert(rows[i].end(), part.view().row(i).begin(), part.view().row(i).end());
    }
  }
  double sum = 0;
  double pairs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (std::size_t j = i + 1; j < rows.size(); ++j) {
      sum += NullSquare(rows[i], rows[j], seen.parts.size(), seen.weight, kernel);
      ++pairs;
    }
  }
  EXPECT_NEAR(EstimateNullMoments(seen, kernel)->mean_square / (sum / pairs), 1, 0.02);
}

// Concurrent threads must not share scratch memory.
TEST(NullMomentsTest, DoNotDependOnTheThreads) {
  const PredictionSet set = DrawCalibrated(1000, 10);
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.4);
  RunControl control;
  control.parallel_for = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::atomic<std::size_t> next = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) body(i);
      });
    }
  };
  const double alone = EstimateNullMoments(set.view(), kernel)->mean_square;
  for (int repeat = 0; repeat < 60; ++repeat) {
    ASSERT_EQ(EstimateNullMoments(set.view(), kernel, control)->mean_square, alone);
  }
}

TEST(RunningLensTest, EqualsTheBlockEstimatorAndTheNullMomentsOfConsecutivePairs) {
  const PredictionSet set = DrawCalibrated(101);
  const PredictionBatch batch = set.view();
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.4);
  const std::vector<std::size_t> sizes = {2, 10};
  for (const Lens& lens : {Lens::Canonical(), Lens::ClassWise(), Lens::TopK(2)}) {
    SCOPED_TRACE(lens.name());
    auto running = RunningLens::Create(lens, kFloorClasses, kernel, sizes);
    ASSERT_TRUE(running.ok());
    running->Add(batch);
    const std::vector<RunningBlock> blocks = running->Blocks();
    double ten = 0;
    for (std::size_t i = 0; i < 100; ++i) {
      for (std::size_t j = i + 1; j < (i / 10 + 1) * 10; ++j) {
        ten += Term(lens, kernel, batch.row(i), set.labels[i], batch.row(j), set.labels[j]);
      }
    }
    EXPECT_NEAR(blocks[1].moments.mean, ten / 450, 1e-13);
    EXPECT_EQ(blocks[1].pending, 1u);
    if (lens == Lens::TopK(2)) continue;  // the label's position depends on the row
    NullMoments moments;
    for (std::size_t i = 1; i < 101; ++i) {
      const auto term = [&](std::int32_t a, std::int32_t b) {
        return Term(lens, kernel, batch.row(i - 1), a, batch.row(i), b);
      };
      moments.mean_square += ExpectedSquare(batch.row(i - 1), batch.row(i), term) / 100;
    }
    EXPECT_NEAR(blocks[0].noise_floor->upper_quantile, moments.Block(50, 2).upper_quantile, 1e-12);
  }
}

TEST(RunningLensTest, ReportsThePairsThatACallCompletes) {
  const PredictionSet set = DrawCalibrated(101);
  const PredictionBatch batch = set.view();
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.4);
  const std::vector<std::size_t> sizes = {2, 10};
  for (const Lens& lens : {Lens::Canonical(), Lens::ClassWise()}) {
    SCOPED_TRACE(lens.name());
    auto running = RunningLens::Create(lens, kFloorClasses, kernel, sizes);
    ASSERT_TRUE(running.ok());
    std::size_t done = 0;
    // The cuts are in the middle of a pair, and where there is no pair to complete.
    for (const std::size_t rows : {1U, 6U, 33U, 1U, 60U}) {
      RunningMoments pairs;
      running->Add(batch.rows(done, rows), &pairs);
      std::vector<double> terms;
      for (std::size_t j = done; j < done + rows; ++j) {
        if (j % 2 == 0) continue;
        terms.push_back(
            Term(lens, kernel, batch.row(j - 1), set.labels[j - 1], batch.row(j), set.labels[j]));
      }
      done += rows;
      double sum = 0;
      for (const double term : terms) sum += term;
      const double mean = terms.empty() ? 0 : sum / static_cast<double>(terms.size());
      double squares = 0;
      for (const double term : terms) squares += (term - mean) * (term - mean);
      EXPECT_EQ(pairs.count, static_cast<std::int64_t>(terms.size()));
      EXPECT_NEAR(pairs.mean, mean, 1e-13);
      EXPECT_NEAR(pairs.m2, squares, 1e-13);
    }
    EXPECT_EQ(running->Blocks()[0].moments.count, 50);
  }
}

TEST(RunningLensTest, RefusesWhatDoesNotFit) {
  const std::vector<std::size_t> sizes = {2};
  const std::vector<std::size_t> too_large = {1001};
  const Kernel kernel = *Kernel::ExponentialTotalVariation(0.4);
  EXPECT_FALSE(RunningLens::Create(Lens::TopK(4), kFloorClasses, kernel, sizes).ok());
  EXPECT_FALSE(RunningLens::Create(Lens::Canonical(), kFloorClasses, kernel, too_large).ok());
  const auto matrix =
      std::make_shared<const MatrixKernel>(*MatrixKernel::Create({{kernel, {1, 0, 0, 1}}}, 2));
  EXPECT_FALSE(RunningLens::Create(Lens::TopLabel(), 2, matrix, sizes).ok());
  EXPECT_FALSE(RunningLens::Create(Lens::Canonical(), 3, matrix, sizes).ok());
  EXPECT_TRUE(RunningLens::Create(Lens::Canonical(), 2, matrix, sizes).ok());
}

TEST(NoiseFloorTest, TheQuantileHasTheSkewnessOfTheEstimate) {
  // In the limit n SKCE_uq is a sum of l (chi_1^2 - 1) over the eigenvalues l, with sum l =
  // mean_diagonal, sum l^2 = mean_square and sum l^3 = mean_cube. One eigenvalue of 1 dominates
  // many small ones: the quantile is that of chi_1^2, 3.841459.
  constexpr std::size_t kN = 1'000'000;
  NullMoments moments{.n = kN, .mean_diagonal = 5, .mean_square = 1 + 1e-6, .mean_cube = 1 + 1e-12};
  EXPECT_NEAR(kN * moments.Unbiased().upper_quantile, 3.841459 - 1, 1e-4);
  EXPECT_NEAR(kN * moments.Scaled(0.5).Unbiased().upper_quantile, (3.841459 - 1) / 2, 1e-4);
  // Many equal eigenvalues of 1e-6: normal, and an estimate below 0 counts as 0.
  moments = {.n = kN, .mean_diagonal = 1, .mean_square = 1e-6, .mean_cube = 1e-12};
  EXPECT_NEAR(kN * moments.Unbiased().upper_quantile, 1e-3 * std::sqrt(2) * 1.6449, 1e-5);
  const double normal = moments.Unbiased().upper_quantile;
  moments.mean_cube = -1e-12;
  EXPECT_EQ(moments.Unbiased().upper_quantile, normal);
}

}  // namespace
}  // namespace calibd
