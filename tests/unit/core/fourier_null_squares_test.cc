#include "calibd/core/fourier_null_squares.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/running_reliability.h"
#include "support/draw.h"

namespace calibd {
namespace {

std::shared_ptr<const FourierBasis> BasisOf(std::size_t m, double bandwidth = 0.5) {
  return *FourierBasis::Create(*Kernel::ExponentialTotalVariation(bandwidth), m);
}

// E h^2 over all pairs of labels, weighted by the predictions.
double BruteForce(const FourierBasis& basis, std::span<const double> a, std::span<const double> b) {
  std::vector<double> phi_a(kFourierCount);
  std::vector<double> phi_b(kFourierCount);
  basis.Map(a, phi_a);
  basis.Map(b, phi_b);
  double kernel = 0;
  for (std::size_t j = 0; j < kFourierCount; ++j) kernel += phi_a[j] * phi_b[j];
  double sum = 0;
  for (std::size_t y = 0; y < a.size(); ++y) {
    for (std::size_t z = 0; z < b.size(); ++z) {
      double product = 0;
      for (std::size_t k = 0; k < a.size(); ++k) {
        product += ((k == y ? 1 : 0) - a[k]) * ((k == z ? 1 : 0) - b[k]);
      }
      sum += a[y] * b[z] * kernel * kernel * product * product;
    }
  }
  return sum;
}

TEST(FourierNullSquaresTest, IsTheMeanOverTheLabelsOfThePairs) {
  for (const std::size_t m : {2U, 3U, 10U}) {
    const auto basis = BasisOf(m);
    const PredictionSet set = Draw(GeneratorSpec::M1(m), 20, 1);
    double sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) {
      sum += BruteForce(*basis, set.view().row(i), set.view().row(i + 1));
    }
    FourierNullSquares squares(basis);
    squares.Add(set.view());
    EXPECT_EQ(squares.moments().count, 10);
    EXPECT_NEAR(squares.moments().mean, sum / 10, 1e-14);
  }
}

// E h_ab h_bc h_ca over all triples of labels, weighted by the predictions.
double BruteForceCube(const FourierBasis& basis, std::span<const double> a,
                      std::span<const double> b, std::span<const double> c) {
  const std::array<std::span<const double>, 3> g = {a, b, c};
  std::array<std::vector<double>, 3> phi;
  for (std::size_t i = 0; i < 3; ++i) {
    phi[i].resize(kFourierCount);
    basis.Map(g[i], phi[i]);
  }
  double kernels = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    kernels *= std::inner_product(phi[i].begin(), phi[i].end(), phi[(i + 1) % 3].begin(), 0.0);
  }
  const auto residual = [&](std::size_t i, std::size_t y, std::size_t k) {
    return (k == y ? 1 : 0) - g[i][k];
  };
  double sum = 0;
  const std::size_t m = a.size();
  for (std::size_t labels = 0; labels < m * m * m; ++labels) {
    const std::array<std::size_t, 3> y = {labels / (m * m), labels / m % m, labels % m};
    double product = kernels;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t j = (i + 1) % 3;
      double inner = 0;
      for (std::size_t k = 0; k < m; ++k) inner += residual(i, y[i], k) * residual(j, y[j], k);
      product *= g[i][y[i]] * inner;
    }
    sum += product;
  }
  return sum;
}

TEST(FourierNullSquaresTest, CubesAreTheMeanOverTheLabelsOfTheTriples) {
  for (const std::size_t m : {2U, 3U, 6U}) {
    const auto basis = BasisOf(m);
    const PredictionSet set = Draw(GeneratorSpec::M1(m), 20, 1);
    double sum = 0;
    for (std::size_t i = 0; i + 2 < 20; i += 2) {
      sum +=
          BruteForceCube(*basis, set.view().row(i), set.view().row(i + 1), set.view().row(i + 2));
    }
    FourierNullSquares squares(basis);
    squares.Add(set.view());
    EXPECT_EQ(squares.cubes().count, 9);
    EXPECT_NEAR(squares.cubes().mean, sum / 9, 1e-14);
  }
}

TEST(FourierNullSquaresTest, ALaterPairHasTheWeightOfTheEightItRepresents) {
  // The first half of the predictions is uncertain, the second half certain, with squares of 0.
  const auto basis = BasisOf(2);
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < 8192; ++i) {
    const double g = i < 4096 ? 0.5 : 1;
    set.probabilities.insert(set.probabilities.end(), {g, 1 - g});
    set.labels.push_back(0);
  }
  FourierNullSquares squares(basis);
  squares.Add(set.view().rows(0, 4096));
  const double first_half = squares.moments().mean;
  EXPECT_GT(first_half, 0.1);
  squares.Add(set.view().rows(4096, 4096));
  EXPECT_NEAR(squares.moments().mean, first_half / 2, 1e-12);
  FourierNullSquares restored(basis);
  EXPECT_TRUE(restored.Restore(squares.Save()));
}

TEST(FourierNullSquaresTest, DoesNotDependOnBatchesAndContinuesASavedState) {
  const auto basis = BasisOf(3);
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 4300, 1);
  FourierNullSquares whole(basis);
  whole.Add(set.view());
  // 2048 pairs, then every eighth of 102.
  EXPECT_EQ(whole.moments().count, 2048 + 13 * 8);
  for (const std::size_t cut : {0U, 1U, 2U, 4095U, 4096U, 4097U, 4098U, 4111U, 4113U}) {
    FourierNullSquares before(basis);
    before.Add(set.view().rows(0, cut));
    FourierNullSquares after(basis);
    ASSERT_TRUE(after.Restore(before.Save())) << cut;
    after.Add(set.view().rows(cut, 4300 - cut));
    EXPECT_EQ(after.moments(), whole.moments()) << cut;
    EXPECT_EQ(after.cubes(), whole.cubes()) << cut;
  }
}

TEST(FourierNullSquaresTest, RefusesAnInvalidState) {
  FourierNullSquares squares(BasisOf(3));
  EXPECT_TRUE(squares.Restore({.count = 4, .moments = {2, 0.1, 0}, .previous = {}}));
  EXPECT_FALSE(squares.Restore({.count = -1, .moments = {}, .previous = {}}));
  EXPECT_FALSE(squares.Restore({.count = 3, .moments = {1, 0.1, 0}, .previous = {}}));
  EXPECT_FALSE(squares.Restore({.count = 4, .moments = {2, 0.1, 0}, .previous = {1, 0, 0}}));
  EXPECT_FALSE(squares.Restore({.count = 3, .moments = {1, 0.1, 0}, .previous = {2, 0, 0}}));
  EXPECT_FALSE(squares.Restore({.count = 4, .moments = {3, 0.1, 0}, .previous = {}}));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(squares.Restore({.count = 4, .moments = {2, nan, 0}, .previous = {}}));
  EXPECT_FALSE(squares.Restore({.count = 4, .moments = {2, 0.1, 0}, .previous = {}, .pair = {1}}));
  EXPECT_FALSE(squares.Restore(
      {.count = 4, .moments = {2, 0.1, 0}, .previous = {}, .pair = {1, 0, 0, 0, 0, 2}}));
  EXPECT_FALSE(
      squares.Restore({.count = 4, .moments = {2, 0.1, 0}, .previous = {}, .cubes = {1, nan, 0}}));
  EXPECT_EQ(squares.moments().count, 2);
}

// A calibrated model exceeds the noise floor one time in twenty: 30 of 600 streams of 150
// predictions, with a standard deviation of 5.3. The moments are estimated from half as many pairs,
// and the quantile is that of the limit; together they shift the mean by less than the same amount.
// At a distance of 20 from the mean (3.7 standard deviations, or 2.7 with this shift), a correct
// floor fails for about one seed in a thousand.
TEST(FourierNullSquaresTest, GivesTheNoiseFloorOfTheEstimate) {
  constexpr std::size_t kRows = 150;
  const auto basis = BasisOf(4);
  int above = 0;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    const PredictionSet set = Draw(GeneratorSpec::M1(4), kRows, seed);
    auto process = EvidenceProcess::Create(basis);
    process->Add(set.view());
    FourierNullSquares squares(basis);
    squares.Add(set.view());
    RunningClassFrequencies frequencies(4);
    frequencies.Add(set.view());
    double variance = 0;
    for (const auto& one : frequencies.classes()) variance += one.variance;
    const NullMoments moments{.n = kRows,
                              .mean_diagonal = variance / kRows,
                              .mean_square = squares.moments().mean,
                              .mean_cube = squares.cubes().mean};
    above += *process->Read().skce_unbiased > moments.Unbiased().upper_quantile ? 1 : 0;
  }
  EXPECT_GT(above, 10);
  EXPECT_LT(above, 50);
}

}  // namespace
}  // namespace calibd
