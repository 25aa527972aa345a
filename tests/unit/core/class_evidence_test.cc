#include "calibd/core/class_evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "calibd/core/generator.h"
#include "support/draw.h"

namespace calibd {
namespace {

constexpr double kClassTolerance = 1e-5;

// One class by the formulas of the header.
double Reference(const PredictionSet& set, std::size_t k, double tolerance) {
  const double eps = tolerance / static_cast<double>(set.class_count);
  long double product = 1;
  for (const bool above : {false, true}) {
    long double mixture = 0;
    for (const long double r : kClassOddsRatios) {
      long double e = 1;
      for (std::size_t i = 0; i < set.labels.size(); ++i) {
        const auto g = set.view().row(i);
        if ((g[k] > 0.5) != above) continue;
        const double sum = std::accumulate(g.begin(), g.end(), 0.0);
        const double h = r > 1 ? std::min(1.0, g[k] + eps)
                               : std::max(0.0, g[k] - std::max(0.0, sum - 1) - tolerance);
        e *= (set.labels[i] == static_cast<std::int32_t>(k) ? r : 1) / (1 + h * (r - 1));
      }
      mixture += e / kClassOddsRatios.size();
    }
    product *= mixture;
  }
  return static_cast<double>(std::log10(product));
}

TEST(ClassEvidenceTest, IsTheMixtureOfTheProducts) {
  for (const std::size_t m : {2U, 5U, 8U, 19U}) {
    // It is so long that the products are clamped.
    const PredictionSet set = Draw(GeneratorSpec::M1(m), 1500, 1);
    ClassEvidence evidence(m, kClassTolerance);
    for (std::size_t k = 0; k < m; ++k) {
      EXPECT_EQ(evidence.Log10EValue(k), 0);
    }
    evidence.Add(set.view());
    for (std::size_t k = 0; k < m; ++k) {
      EXPECT_NEAR(evidence.Log10EValue(k), Reference(set, k, kClassTolerance), 1e-9) << k;
    }
  }
}

TEST(ClassEvidenceTest, NoBetGainsOnAverageUnderTheNullHypothesis) {
  constexpr double kWide = 1e-3;
  constexpr double kEps = kWide / 3;
  // Rows that do not sum to 1, with zeros, and with certain predictions.
  const std::vector<std::vector<double>> rows = {{0.2, 0.3, 0.5},    {0.2, 0.3, 0.5009},
                                                 {0, 0.4, 0.6},      {1, 0, 0},
                                                 {0.1, 0.1, 0.7997}, {0.6, 0.3995, 0}};
  const PredictionSet past = Draw(GeneratorSpec::M1(3), 300, 1);
  for (const std::vector<double>& g : rows) {
    const double sum = std::accumulate(g.begin(), g.end(), 0.0);
    for (std::size_t k = 0; k < 3; ++k) {
      const auto e_value = [&](std::int32_t y) {
        ClassEvidence evidence(3, kWide);
        evidence.Add(past.view());
        const double before = evidence.Log10EValue(k);
        evidence.Add({.probabilities = g, .labels = {&y, 1}, .class_count = 3});
        return std::pow(10, evidence.Log10EValue(k) - before);
      };
      const double if_it_comes = e_value(static_cast<std::int32_t>(k));
      const double if_another = e_value(static_cast<std::int32_t>((k + 1) % 3));
      EXPECT_EQ(e_value(static_cast<std::int32_t>((k + 2) % 3)), if_another);
      // The largest and smallest probability of the class if no class has more than g + eps.
      for (const double p :
           {std::min(1.0, g[k] + kEps), std::max(0.0, 1 - (sum - g[k]) - 2 * kEps)}) {
        const double mean = p * if_it_comes + (1 - p) * if_another;
        EXPECT_LE(mean, 1 + 1e-12) << k << " " << p;
        EXPECT_GT(mean, 1 - 5 * kWide) << k << " " << p;
      }
    }
  }
}

TEST(ClassEvidenceTest, DoesNotDependOnBatchesAndContinuesASavedState) {
  const PredictionSet set = Draw(GeneratorSpec::M1(3), 700, 1);
  ClassEvidence whole(3, kClassTolerance);
  whole.Add(set.view());
  for (const std::size_t cut : {0U, 1U, 255U, 256U, 257U, 700U}) {
    ClassEvidence before(3, kClassTolerance);
    before.Add(set.view().rows(0, cut));
    ClassEvidence after(3, kClassTolerance);
    ASSERT_TRUE(after.Restore(before.Save()));
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(after.Log10EValue(k), before.Log10EValue(k)) << cut;
    }
    after.Add(set.view().rows(cut, 700 - cut));
    EXPECT_EQ(after.Save(), whole.Save()) << cut;
    for (std::size_t k = 0; k < 3; ++k) {
      EXPECT_EQ(after.Log10EValue(k), whole.Log10EValue(k)) << cut;
    }
  }
}

TEST(ClassEvidenceTest, RefusesAnImpossibleState) {
  ClassEvidence evidence(3, kClassTolerance);
  const ClassEvidence::State good = ClassEvidence(3, kClassTolerance).Save();
  EXPECT_TRUE(evidence.Restore(good));
  EXPECT_FALSE(evidence.Restore({}));
  EXPECT_FALSE(evidence.Restore(ClassEvidence(2, kClassTolerance).Save()));
  for (const double value : {0.0, -0.5, std::nan(""), HUGE_VAL}) {
    ClassEvidence::State bad = good;
    bad.inverses[4] = value;
    EXPECT_FALSE(evidence.Restore(bad)) << value;
  }
  EXPECT_EQ(evidence.Save(), good);
}

TEST(ClassEvidenceTest, StaysFiniteForImpossibleLabels) {
  // Always class 1, which has probability 0; class 0, which has probability 1, never occurs.
  ClassEvidence evidence(2, kClassTolerance);
  const std::vector<double> g = {1, 0};
  const std::int32_t y = 1;
  for (int i = 0; i < 10000; ++i) {
    evidence.Add({.probabilities = g, .labels = {&y, 1}, .class_count = 2});
  }
  // One side each: a sixth of 1e150, and the winnings of the boldest bet since the last clamping.
  for (const std::size_t k : {0U, 1U}) {
    EXPECT_GE(evidence.Log10EValue(k), 149) << k;
    EXPECT_LE(evidence.Log10EValue(k), 300) << k;
  }
}

TEST(ClassEvidenceTest, AllLargeValuesEqualThoseOfTheSingleClasses) {
  PredictionSet set = Draw(GeneratorSpec::M1(20), 400, 1);
  for (std::size_t i = 0; i < 400; i += 4) set.labels[i] = 7;
  ClassEvidence evidence(20, kClassTolerance);
  evidence.Add(set.view());
  const std::vector<double> values = evidence.Log10EValues(1.3);
  ASSERT_EQ(values.size(), 20U);
  for (std::size_t k = 0; k < 20; ++k) {
    const double value = evidence.Log10EValue(k);
    EXPECT_TRUE(values[k] == value || (value < 1.3 && std::isinf(values[k]))) << k;
  }
  EXPECT_GT(values[7], 10);
}

TEST(ClassEvidenceTest, FindsTheMiscalibratedClassAndItsSide) {
  // Predictions that are too bold: the sums per class are right.
  PredictionSet set;
  set.class_count = 2;
  ClassEvidence found(2, kClassTolerance);
  for (int i = 0; i < 500; ++i) {
    const double bold = i % 2 == 0 ? 0.95 : 0.05;
    set.probabilities.insert(set.probabilities.end(), {bold, 1 - bold});
    // One in five labels differs from the prediction.
    set.labels.push_back((i % 2 == 0) == (i / 2 % 5 != 0) ? 0 : 1);
  }
  found.Add(set.view());
  EXPECT_GT(found.Log10EValue(0), 5);
  EXPECT_GT(found.Log10EValue(1), 5);
}

}  // namespace
}  // namespace calibd
