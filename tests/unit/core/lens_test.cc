#include "calibd/core/lens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "calibd/core/bootstrap.h"
#include "calibd/core/generator.h"
#include "calibd/core/skce.h"
#include "calibd/core/validation.h"
#include "support/draw.h"
#include "support/test_data.h"

namespace calibd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RelativeDifference;

// sum_{i<j} r_i r_j k(|c_i - c_j|), as the scalar lenses are defined.
double ScalarUnbiased(const std::vector<double>& c, const std::vector<double>& r, double nu) {
  double sum = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) sum += r[i] * r[j] * std::exp(-std::abs(c[i] - c[j]) / nu);
  }
  const auto n = static_cast<double>(c.size());
  return 2 * sum / (n * (n - 1));
}

TEST(LensTest, TopLabelIsMmceSquared) {
  const PredictionSet set = Draw(GeneratorSpec::M2(6), 300, 1);
  std::vector<double> c;
  std::vector<double> r;
  for (std::size_t i = 0; i < 300; ++i) {
    const auto g = set.view().row(i);
    const auto top = std::max_element(g.begin(), g.end());
    c.push_back(*top);
    r.push_back((top - g.begin() == set.labels[i] ? 1 : 0) - *top);
  }
  const auto reduced = ApplyLens(set.view(), Lens::TopLabel());
  const auto estimate = EstimateQuadraticSkce(*reduced, MakeKernel(kScalarBandwidth));
  EXPECT_NEAR(estimate->unbiased, ScalarUnbiased(c, r, kScalarBandwidth), 1e-14);
}

TEST(LensTest, ClassWiseIsTheSumOverClasses) {
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 200, 2);
  double sum = 0;
  double sum_of_lenses = 0;
  for (std::size_t k = 0; k < 5; ++k) {
    std::vector<double> c;
    std::vector<double> r;
    for (std::size_t i = 0; i < 200; ++i) {
      c.push_back(set.view().row(i)[k]);
      r.push_back((static_cast<std::size_t>(set.labels[i]) == k ? 1 : 0) - c.back());
    }
    sum += ScalarUnbiased(c, r, 0.3);
    sum_of_lenses +=
        EstimateQuadraticSkce(*ApplyLens(set.view(), Lens::OneClass(k)), MakeKernel(0.3))->unbiased;
  }
  const auto estimate =
      EstimateQuadraticSkce(*ApplyLens(set.view(), Lens::ClassWise()), MakeKernel(0.3));
  EXPECT_NEAR(estimate->unbiased, sum, 1e-14);
  EXPECT_NEAR(estimate->unbiased, sum_of_lenses, 1e-15);
}

TEST(LensTest, TopKSortsAndKeepsTheRest) {
  const std::vector<double> g = {0.125, 0.5, 0.125, 0.25};
  std::vector<double> probabilities(3);
  std::vector<std::int32_t> label(1);
  std::vector<std::uint32_t> order(g.size());
  Lens::TopK(2).Reduce(g, 3, probabilities, label, order);
  EXPECT_THAT(probabilities, ElementsAre(0.5, 0.25, 0.25));
  EXPECT_EQ(label[0], 1);
  Lens::TopK(2).Reduce(g, 2, probabilities, label, order);
  EXPECT_EQ(label[0], 2);
}

TEST(LensTest, TopKOfAllButOneIsCanonicalUpToOrder) {
  const PredictionSet set = Draw(GeneratorSpec::M2(2), 50, 3);
  const auto top = ApplyLens(set.view(), Lens::TopK(1));
  for (std::size_t i = 0; i < 50; ++i) {
    const double largest = std::max(set.view().row(i)[0], set.view().row(i)[1]);
    EXPECT_EQ(top->parts[0].probabilities[2 * i], largest);
  }
}

TEST(LensTest, GroupsSumProbabilities) {
  const PredictionSet set = Draw(GeneratorSpec::M2(4), 100, 4);
  const auto grouped = ApplyLens(set.view(), Lens::Grouped({0, 1, 1, 0}));
  EXPECT_TRUE(ValidateBatch(grouped->parts[0].view(), 1e-12).ok());
  EXPECT_EQ(grouped->parts[0].labels[7], set.labels[7] == 1 || set.labels[7] == 2 ? 1 : 0);
  // Groups of one class each are equivalent to the canonical lens.
  const auto same = ApplyLens(set.view(), Lens::Grouped({0, 1, 2, 3}));
  EXPECT_EQ(same->parts[0].probabilities, set.probabilities);
  EXPECT_EQ(same->parts[0].labels, set.labels);
}

TEST(LensTest, ErrorsNameTheInvalidLens) {
  const auto error = [](const Lens& lens) { return std::string(lens.Check(4).message()); };
  EXPECT_THAT(error(Lens::OneClass(4)), HasSubstr("class is 4, expected [0, 4)"));
  EXPECT_THAT(error(Lens::TopK(0)), HasSubstr("top_k is 0, expected 1..3"));
  EXPECT_THAT(error(Lens::TopK(4)), HasSubstr("top_k is 4"));
  EXPECT_THAT(error(Lens::Grouped({0, 1})), HasSubstr("has 2 entries, expected 4"));
  EXPECT_THAT(error(Lens::Grouped({0, 0, 0, 0})), HasSubstr("1 group, expected at least 2"));
  EXPECT_THAT(error(Lens::Grouped({0, 2, 2, 0})), HasSubstr("no class in group 1"));
  EXPECT_THAT(error(Lens::Grouped({0, -1, 1, 0})), HasSubstr("groups[1] is -1"));
  EXPECT_THAT(error(Lens::Grouped({0, 9, 1, 0})), HasSubstr("groups[1] is 9"));
  EXPECT_THAT(error(Lens::Grouped({})), HasSubstr("has 0 entries"));
}

TEST(LensTest, EveryKindIsNamedAndWrittenInOneWay) {
  const std::vector<std::pair<std::string, std::string>> written = {
      {"canonical", "canonical"},   {"top_label", "top_label"}, {"class_wise", "class_wise"},
      {"class:3", "class_wise[3]"}, {"top_k:5", "top_k[5]"},    {"grouped:0/1/0", "grouped"}};
  ASSERT_EQ(written.size(), std::variant_size_v<Lens::Kind>);
  std::set<absl::string_view> blind_spots;
  for (std::size_t i = 0; i < written.size(); ++i) {
    const auto lens = Lens::Parse(written[i].first);
    ASSERT_TRUE(lens.ok()) << lens.status();
    EXPECT_EQ(lens->kind().index(), i);
    EXPECT_EQ(lens->name(), written[i].second);
    EXPECT_TRUE(blind_spots.insert(BlindSpot(lens->name())).second) << lens->name();
  }
  EXPECT_EQ(Lens::Parse("grouped:0/1/0").value(), Lens::Grouped({0, 1, 0}));
  EXPECT_EQ(Lens::Parse("class:3").value(), Lens::OneClass(3));
  EXPECT_EQ(Lens::Syntax(),
            "canonical, top_label, class_wise, class:K, top_k:K, or grouped:G0/G1/... with the "
            "group of each class");
}

TEST(LensTest, BoundHolds) {
  for (const Lens& lens : {Lens::TopLabel(), Lens::ClassWise(), Lens::OneClass(1), Lens::TopK(2),
                           Lens::Grouped({0, 0, 1, 1}), Lens::Canonical()}) {
    // A confident, wrong prediction has the largest term.
    const std::vector<double> g = {1, 0, 0, 0};
    const std::vector<std::int32_t> y = {2};
    const auto reduced = ApplyLens({g, y, 4}, lens);
    double term = 0;
    for (const PredictionSet& part : reduced->parts) {
      const auto row = part.view().row(0);
      term += reduced->weight * SkceTerm(row, part.labels[0], row, part.labels[0], MakeKernel(1));
    }
    EXPECT_LE(term, reduced->bound) << lens.name();
  }
}

// Compares the recursion on a line with the tiles. The tiles are used for a Euclidean distance with
// the same kernel values, |x - z|_2 = sqrt(2) |c - c'|, because a row is off the line by more than
// rounding.
TEST(LineTest, EqualsTheTiles) {
  for (const std::size_t n : {2u, 3u, 50u, 1000u}) {
    PredictionSet line = Draw(GeneratorSpec::M2(2), n, n);
    for (std::size_t i = 0; i < n; ++i) {
      line.probabilities[2 * i + 1] = 1 - line.probabilities[2 * i];
    }
    PredictionSet tiles = line;
    for (std::size_t i = 0; i < n; i += 7) tiles.probabilities[2 * i + 1] += 1e-13;
    const auto fast = BootstrapTest(line.view(), MakeKernel(0.2), {.replicates = 200, .seed = 5});
    const auto slow = BootstrapTest(tiles.view(), MakeKernel(0.2), {.replicates = 200, .seed = 5});
    EXPECT_NEAR(fast->skce.biased, slow->skce.biased, 1e-12);
    EXPECT_NEAR(fast->skce.unbiased, slow->skce.unbiased, 1e-12);
    // The tiles are multiplied in float32.
    const double sd = slow->replicate_standard_deviation;
    EXPECT_NEAR(fast->replicate_mean, slow->replicate_mean, 1e-3 * sd);
    EXPECT_NEAR(fast->replicate_standard_deviation, sd, 1e-3 * sd);
    EXPECT_NEAR(fast->exceedances, slow->exceedances, 1);
  }
}

TEST(LineTest, SurvivesTiesAndEnds) {
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < 100; ++i) {
    const double p = i % 3 * 0.5;
    set.probabilities.insert(set.probabilities.end(), {p, 1 - p});
    set.labels.push_back(i % 2);
  }
  double sum = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      sum += SkceTerm(set.view().row(i), set.labels[i], set.view().row(j), set.labels[j],
                      MakeKernel(1e-5));
    }
  }
  EXPECT_NEAR(EstimateQuadraticSkce(set.view(), MakeKernel(1e-5))->unbiased, sum / 4950, 1e-14);
}

class Cifar10LensTest : public ::testing::TestWithParam<const char*> {};

TEST_P(Cifar10LensTest, TopLabelMatchesTheReferenceMmce) {
  const auto set = testing::ReadCifar10(GetParam());
  if (!set) GTEST_SKIP() << "no predictions in " << testing::Cifar10Dir();
  const auto expected = testing::ReadJson(testing::Cifar10Dir() / "expected.json").at(GetParam());
  const auto estimate = EstimateQuadraticSkce(*ApplyLens(set->view(), Lens::TopLabel()),
                                              MakeKernel(kScalarBandwidth));
  EXPECT_LE(RelativeDifference(estimate->biased, expected.at("MMCE2_biased")), 1e-10);
  EXPECT_LE(RelativeDifference(estimate->unbiased, expected.at("MMCE2_unbiased")), 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Networks, Cifar10LensTest,
                         ::testing::Values("densenet121", "resnet18", "googlenet"),
                         [](const auto& network) { return std::string(network.param); });

TEST(SmallCasesLensTest, MatchTheReference) {
  for (const auto& small : testing::SmallCases()) {
    SCOPED_TRACE(small.at("name").get<std::string>());
    const PredictionSet set = testing::ToPredictionSet(small);
    const auto estimate = EstimateQuadraticSkce(*ApplyLens(set.view(), Lens::TopLabel()),
                                                MakeKernel(kScalarBandwidth));
    EXPECT_NEAR(estimate->biased, small.at("MMCE2_b").get<double>(), 1e-15);
    EXPECT_NEAR(estimate->unbiased, small.at("MMCE2_u").get<double>(), 1e-15);
    // Kernels over other distances: length scale l = .5 is exp(-d / l), and for RBF
    // exp(-d^2 / (2 l^2)).
    const auto unbiased = [&](const absl::StatusOr<Kernel>& kernel) {
      return EstimateQuadraticSkce(set.view(), *kernel)->unbiased;
    };
    EXPECT_LE(RelativeDifference(unbiased(Kernel::Over(Distance::kEuclidean, 0.5)),
                                 small.at("SKCE_uq_exp_l2_0.5")),
              1e-12);
    EXPECT_LE(RelativeDifference(unbiased(Kernel::Over(Distance::kCityblock, 0.5)),
                                 small.at("SKCE_uq_exp_l1_0.5")),
              1e-12);
    EXPECT_LE(RelativeDifference(unbiased(Kernel::Over(Distance::kSquaredEuclidean, 1 / 2.0)),
                                 small.at("SKCE_uq_rbf_l2_ls0.5")),
              1e-12);
  }
}

}  // namespace
}  // namespace calibd
