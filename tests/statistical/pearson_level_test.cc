// The level of the test by a Pearson curve for calibrated models. Seeds are fixed. A bound allows 5
// standard deviations of the share, and how much the curve itself is off: a share of 4000
// simulations was within the factor 1.25 of the levels .05 and .01 wherever there are 30 rows or
// more, and several of them have an uncertain label.
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/lens_evaluation.h"
#include "level_bound.h"

namespace calibd {
namespace {

constexpr std::array<double, 4> kPearsonLevels = {0.1, 0.05, 0.01, 0.001};
using Shares = std::array<double, 4>;

// alpha: the parameters of the Dirichlet distribution of the predictions; pi: the share of labels
// that do not follow the predictions. Returns the share of simulations that each level rejects.
Shares PearsonShares(std::size_t m, double alpha, double pi, std::size_t n, const Lens& lens,
                     int simulations) {
  auto generator = Generator::Create(
      {std::vector<double>(m, alpha), pi, std::vector<double>(m, 1.0 / static_cast<double>(m))},
      11);
  Shares shares = {};
  for (int i = 0; i < simulations; ++i) {
    PredictionSet set;
    generator->Draw(n, set);
    const auto result =
        TestLens(set.view(), lens,
                 {.kernel = KernelOfLens(lens, KernelSpec{}), .null = NullHypothesis::kPearson});
    for (std::size_t level = 0; level < shares.size(); ++level) {
      if (result->test.p_value <= kPearsonLevels[level]) shares[level] += 1.0 / simulations;
    }
  }
  std::cout << m << " classes, alpha " << alpha << ", pi " << pi << ", " << n << " rows, "
            << lens.name() << ":";
  for (const double share : shares) std::cout << " " << share;
  std::cout << "\n";
  return shares;
}

void ExpectLevel(double share, double level, int simulations) {
  EXPECT_NEAR(share, level, level / 4 + testing::Margin(level, simulations));
}

TEST(PearsonLevelTest, HoldsAtFivePercentAndOnePercentFromThirtyRows) {
  constexpr int kSimulations = 4000;
  const auto expect = [](const Shares& shares) {
    ExpectLevel(shares[1], kPearsonLevels[1], kSimulations);
    ExpectLevel(shares[2], kPearsonLevels[2], kSimulations);
  };
  expect(PearsonShares(2, 1, 0, 30, Lens::Canonical(), kSimulations));
  expect(PearsonShares(10, 1, 0, 30, Lens::Canonical(), kSimulations));
  expect(PearsonShares(10, 0.1, 0, 30, Lens::Canonical(), kSimulations));
  expect(PearsonShares(10, 0.1, 0, 30, Lens::TopLabel(), kSimulations));
  expect(PearsonShares(3, 1, 0, 30, Lens::ClassWise(), kSimulations));
}

TEST(PearsonLevelTest, HoldsForMoreRows) {
  constexpr int kSimulations = 300;
  const Shares shares = PearsonShares(10, 1, 0, 150, Lens::Canonical(), kSimulations);
  ExpectLevel(shares[0], kPearsonLevels[0], kSimulations);
  ExpectLevel(shares[1], kPearsonLevels[1], kSimulations);
}

// Where the curve is known to be off. The last level is exceeded by more than chance explains.
TEST(PearsonLevelTest, IsOffForTenRowsWithFewUncertainLabels) {
  constexpr int kSimulations = 4000;
  const Shares shares = PearsonShares(2, 0.1, 0, 10, Lens::Canonical(), kSimulations);
  EXPECT_LT(shares[1], kPearsonLevels[1] - testing::Margin(kPearsonLevels[1], kSimulations));
  EXPECT_GT(shares[3], kPearsonLevels[3] + testing::Margin(kPearsonLevels[3], kSimulations));
}

TEST(PearsonLevelTest, RejectsAModelThatIsWrong) {
  const Shares shares = PearsonShares(3, 0.5, 1, 100, Lens::Canonical(), 40);
  EXPECT_GT(shares[3], 0.9);
}

}  // namespace
}  // namespace calibd
