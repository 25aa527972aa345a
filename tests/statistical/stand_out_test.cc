// How often a bin or a class of a calibrated model stands out. In S simulations the number is
// Binomial(S, p), where p is at most kStandOutLevel by Bennett's inequality and Bonferroni. Seeds
// are fixed; a bound is 5 standard deviations away, which gives a false-failure probability below
// 1e-6.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "calibd/core/generator.h"
#include "calibd/core/running_reliability.h"
#include "statistical/level_bound.h"

namespace calibd {
namespace {

struct Shares {
  // Shares of the simulations in which a place stands out, and in which one has |Z| >= 2.
  double stands_out = 0;
  double two_deviations = 0;
};

Shares Simulate(const GeneratorSpec& spec, std::size_t n, int simulations) {
  auto generator = Generator::Create(spec, 301);
  const std::size_t m = spec.alpha.size();
  const std::size_t places = m + kReliabilityBinCount;
  int stands_out = 0;
  int two_deviations = 0;
  for (int i = 0; i < simulations; ++i) {
    PredictionSet set;
    generator->Draw(n, set);
    RunningReliability reliability;
    reliability.Add(set.view());
    RunningClassFrequencies frequencies(m);
    frequencies.Add(set.view());
    const auto any = [&](const auto& is) {
      return std::any_of(reliability.bins.begin(), reliability.bins.end(), is) ||
             std::any_of(frequencies.classes().begin(), frequencies.classes().end(), is);
    };
    stands_out += any([&](const auto& place) { return place.StandsOut(places); }) ? 1 : 0;
    two_deviations += any([](const auto& place) { return std::abs(place.Z()) >= 2; }) ? 1 : 0;
  }
  return {static_cast<double>(stands_out) / simulations,
          static_cast<double>(two_deviations) / simulations};
}

TEST(StandOutTest, PlacesOfACalibratedModelRarelyStandOut) {
  constexpr int kSimulations = 400;
  const double bound = kStandOutLevel + testing::Margin(kStandOutLevel, kSimulations);
  for (const std::size_t m : {std::size_t{2}, std::size_t{5}, std::size_t{20}}) {
    // Nearly certain predictions, for which Z is far from normal, and uniform ones.
    for (const double alpha : {0.02, 0.1, 1.0}) {
      for (const std::size_t n : {std::size_t{30}, std::size_t{1000}}) {
        GeneratorSpec spec = GeneratorSpec::M1(m);
        spec.alpha.assign(m, alpha);
        const Shares shares = Simulate(spec, n, kSimulations);
        EXPECT_LE(shares.stands_out, bound) << m << " " << alpha << " " << n;
        // This shows how often two standard deviations are exceeded.
        if (m == 5 && n == 1000) {
          EXPECT_GE(shares.two_deviations, 0.3);
        }
      }
    }
  }
}

TEST(StandOutTest, PlacesOfAMiscalibratedModelStandOut) {
  EXPECT_GE(Simulate(GeneratorSpec::M2(5), 300, 100).stands_out, 0.95);
}

}  // namespace
}  // namespace calibd
