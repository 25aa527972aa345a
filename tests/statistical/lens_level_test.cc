// The level and the power of the quadratic bootstrap test with lenses and a matrix-valued kernel,
// on the reference models with n = 250, m = 10 (Widmann et al. 2019, Sec. 7). Seeds are fixed. A
// bound is 5 standard deviations of the binomial share away, which gives a false-failure
// probability below 1e-6.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/lens_evaluation.h"
#include "calibd/core/lens_kernel.h"
#include "level_bound.h"

namespace calibd {
namespace {

using testing::kLevel;
using testing::Margin;

double RejectionRate(const GeneratorSpec& spec, const Lens& lens, const KernelSpec& asked,
                     int simulations, std::uint64_t seed) {
  auto generator = Generator::Create(spec, seed);
  int rejected = 0;
  for (int i = 0; i < simulations; ++i) {
    PredictionSet set;
    generator->Draw(250, set);
    const auto result = TestLens(set.view(), lens,
                                 {.kernel = KernelOfLens(lens, asked),
                                  .replicates = 199,
                                  .seed = seed + static_cast<std::uint64_t>(i)});
    if (result->test.p_value <= kLevel) ++rejected;
  }
  return static_cast<double>(rejected) / simulations;
}

std::vector<Lens> Lenses() {
  return {Lens::TopLabel(), Lens::ClassWise(), Lens::OneClass(0), Lens::TopK(3),
          Lens::Grouped({0, 1, 1, 1, 1, 1, 1, 1, 1, 2})};
}

// A kernel that couples neighbouring classes, and a second term that includes all classes.
KernelSpec MatrixValued() {
  constexpr std::size_t kM = 10;
  std::vector<double> neighbours(kM * kM);
  std::vector<double> identity(kM * kM);
  for (std::size_t k = 0; k < kM; ++k) {
    identity[k * kM + k] = 1;
    neighbours[k * kM + k] = 2;
    neighbours[k * kM + (k + 1) % kM] = 1;
    neighbours[(k + 1) % kM * kM + k] = 1;
  }
  return {.rule = {},
          .matrix = std::make_shared<const MatrixKernel>(*MatrixKernel::Create(
              {{*Kernel::ExponentialTotalVariation(0.9), neighbours},
               {*Kernel::Over(Distance::kSquaredEuclidean, 1 / 1.0), identity}},
              kM))};
}

TEST(LensLevelTest, QuadraticTestHasItsLevelOnM1WithEachLens) {
  constexpr int kSimulations = 500;
  for (const Lens& lens : Lenses()) {
    SCOPED_TRACE(lens.name());
    // The bootstrap is asymptotic: at n = 250 the level may deviate by .01 in either direction.
    EXPECT_NEAR(RejectionRate(GeneratorSpec::M1(), lens, {}, kSimulations, 401), kLevel,
                Margin(kLevel, kSimulations) + 0.01);
  }
  EXPECT_NEAR(
      RejectionRate(GeneratorSpec::M1(), Lens::Canonical(), MatrixValued(), kSimulations, 402),
      kLevel, Margin(kLevel, kSimulations) + 0.01);
}

TEST(LensLevelTest, QuadraticTestDetectsM2WithEachLens) {
  // A power of .99 would show at least this. Each of these lenses includes the first class.
  constexpr int kSimulations = 100;
  const double least = 0.99 - Margin(0.99, kSimulations);
  for (const Lens& lens : Lenses()) {
    SCOPED_TRACE(lens.name());
    EXPECT_GE(RejectionRate(GeneratorSpec::M2(), lens, {}, kSimulations, 403), least);
  }
  EXPECT_GE(
      RejectionRate(GeneratorSpec::M2(), Lens::Canonical(), MatrixValued(), kSimulations, 404),
      least);
}

TEST(LensLevelTest, GroupsCannotDetectConfusionWithinAGroup) {
  // Each label moves to the next class of its group: the predictions are right only about groups.
  constexpr int kSimulations = 500;
  const auto swap_in_group = [](PredictionSet& set) {
    for (std::int32_t& label : set.labels) label = label < 5 ? (label + 1) % 5 : label;
  };
  const Lens groups = Lens::Grouped({0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  auto generator = Generator::Create(GeneratorSpec::M1(), 405);
  int seen_by_groups = 0;
  int seen_by_canonical = 0;
  for (int i = 0; i < kSimulations; ++i) {
    PredictionSet set;
    generator->Draw(250, set);
    swap_in_group(set);
    const auto p_value = [&](const Lens& lens) {
      return TestLens(set.view(), lens,
                      {.kernel = KernelOfLens(lens, {}),
                       .replicates = 199,
                       .seed = static_cast<std::uint64_t>(i)})
          ->test.p_value;
    };
    if (p_value(groups) <= kLevel) ++seen_by_groups;
    if (i < 100 && p_value(Lens::Canonical()) <= kLevel) ++seen_by_canonical;
  }
  EXPECT_NEAR(static_cast<double>(seen_by_groups) / kSimulations, kLevel,
              Margin(kLevel, kSimulations) + 0.01);
  EXPECT_EQ(seen_by_canonical, 100);
}

}  // namespace
}  // namespace calibd
