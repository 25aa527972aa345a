#include "calibd/core/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "calibd/core/generator.h"
#include "calibd/core/kernel.h"
#include "support/draw.h"
#include "support/evidence_reference.h"

namespace calibd {
namespace {

using testing::MakeBasis;
using testing::ReferenceExperts;

void Append(PredictionSet& set, const std::vector<double>& g, std::int32_t y) {
  set.probabilities.insert(set.probabilities.end(), g.begin(), g.end());
  set.labels.push_back(y);
}

// Predictions of the reference models and, between them, predictions at the limits of validity.
PredictionSet Mixed(std::size_t m, std::size_t n, std::uint64_t seed) {
  PredictionSet set = Draw(GeneratorSpec::M2(m), n / 2, seed);
  std::vector<double> one_hot(m);
  one_hot[m - 1] = 1;
  Append(set, one_hot, 0);
  Append(set, one_hot, static_cast<std::int32_t>(m) - 1);
  Append(set, std::vector<double>(m, 1 / static_cast<double>(m)), 1);
  std::vector<double> heavy(m, 1 / static_cast<double>(m));
  heavy[0] += 9e-4;
  Append(set, heavy, 0);
  heavy[0] -= 18e-4;
  Append(set, heavy, 1);
  Generator::Create(GeneratorSpec::M1(m), seed + 1)->Draw(n / 2, set);
  return set;
}

TEST(ExpertsTest, PriorsAreEqualWithinAKindAndSumToOne) {
  for (std::size_t j = 0; j < kExpertCount; ++j) {
    const auto same = std::find_if(kExperts.begin(), kExperts.end(),
                                   [j](const Expert& one) { return one.kind == kExperts[j].kind; });
    EXPECT_EQ(kPriors[j], kPriors[static_cast<std::size_t>(same - kExperts.begin())]) << j;
    EXPECT_GT(kPriors[j], 0) << j;
  }
  EXPECT_NEAR(std::accumulate(kPriors.begin(), kPriors.end(), 0.0), 1, 1e-15);
}

TEST(ExpertsTest, IdsAreUnique) {
  std::set<std::int32_t> ids;
  for (const Expert& expert : kExperts) {
    EXPECT_GT(expert.id, 0);
    EXPECT_TRUE(ids.insert(expert.id).second) << expert.id;
  }
}

// F has the rounding errors of float: some 1e-6 of its size in each row, which the largest rate of
// the tilts multiplies by up to 16. Powers have about the same errors. Other experts are computed
// in double precision.
double ToleranceOf(std::size_t expert) {
  const ExpertKind kind = kExperts[expert].kind;
  return kind == ExpertKind::kWitness || kind == ExpertKind::kTilt || kind == ExpertKind::kPower
             ? 1e-4
             : 1e-7;
}

TEST(EvidenceTest, EveryExpertEqualsItsFormulaAtEveryStep) {
  for (const std::size_t m : {2u, 3u, 10u, 17u}) {
    const auto basis = MakeBasis(m);
    for (const double tolerance : {1e-9, 1e-5, 0.1}) {
      // It is long enough for chunks of 8.
      const PredictionSet set = Mixed(m, 150, 7 * m);
      auto process = *EvidenceProcess::Create(basis, tolerance);
      ReferenceExperts all(*basis, tolerance);
      ReferenceExperts recent(*basis, tolerance, 1 - 1 / kMemory);
      std::vector<long double> log_w(kBettorCount);
      std::vector<long double> log_r1(kBettorCount);
      for (std::size_t i = 0; i < set.labels.size(); ++i) {
        const auto g = set.view().row(i);
        const auto y = static_cast<std::size_t>(set.labels[i]);
        process.Add(g, set.labels[i]);
        const auto log_e = all.LogE(g, y);
        const auto log_recent = recent.LogE(g, y);
        all.Join(g, y);
        recent.Join(g, y);
        const ExpertLogs logs = LogsOf(process.Save());
        for (std::size_t j = 0; j < kBettorCount; ++j) {
          log_w[j] += log_e[j];
          log_r1[j] = std::log1p(std::exp(log_r1[j] + log_recent[j]));
          ASSERT_NEAR(logs.e[j], static_cast<double>(log_w[j]), ToleranceOf(j))
              << "expert " << j << " step " << i;
          ASSERT_NEAR(logs.shiryaev_roberts[j], static_cast<double>(log_r1[j]), ToleranceOf(j))
              << j << " step " << i;
        }
      }
    }
  }
}

TEST(EvidenceTest, ChunksOf64EqualTheirFormulas) {
  const std::size_t m = 3;
  const auto basis = MakeBasis(m);
  const PredictionSet set = Mixed(m, 1400, 5);
  auto process = *EvidenceProcess::Create(basis);
  ReferenceExperts all(*basis, kDefaultTolerance);
  std::vector<long double> log_w(kBettorCount);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const auto g = set.view().row(i);
    const auto y = static_cast<std::size_t>(set.labels[i]);
    process.Add(g, set.labels[i]);
    const auto log_e = all.LogE(g, y);
    all.Join(g, y);
    for (std::size_t j = 0; j < kBettorCount; ++j) log_w[j] += log_e[j];
    if (i < 1000) continue;
    const ExpertLogs logs = LogsOf(process.Save());
    for (std::size_t j = 0; j < kBettorCount; ++j) {
      ASSERT_NEAR(logs.e[j], static_cast<double>(log_w[j]), ToleranceOf(j)) << j << " step " << i;
    }
  }
}

TEST(EvidenceTest, ChunksEndAtMultiplesOfAPowerOfTwo) {
  for (const auto& [count, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, 1},
                                                          {1, 2},
                                                          {31, 32},
                                                          {32, 34},
                                                          {33, 34},
                                                          {62, 64},
                                                          {64, 68},
                                                          {127, 128},
                                                          {128, 136},
                                                          {300, 304},
                                                          {512, 544},
                                                          {1023, 1024},
                                                          {1024, 1088},
                                                          {1087, 1088},
                                                          {1000000, 1000000 / 64 * 64 + 64}}) {
    EXPECT_EQ(ChunkEnd(count), end) << count;
  }
}

// The largest sum_y p_y e_y over all p with p_y <= g_y + eps: puts as much as possible on the best
// labels.
double WorstMean(std::span<const double> g, double eps, const std::vector<double>& e) {
  std::vector<std::size_t> order(g.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return e[a] > e[b]; });
  double left = 1;
  double mean = 0;
  for (const std::size_t y : order) {
    const double p = std::min(left, g[y] + eps);
    mean += p * e[y];
    left -= p;
  }
  return mean;
}

TEST(EvidenceTest, NoExpertGainsOnAverageForAnyPastAndPrediction) {
  for (const std::size_t m : {2u, 3u, 10u, 40u}) {
    const auto basis = MakeBasis(m);
    for (const double tolerance : {1e-9, 1e-5, 0.1}) {
      const double eps = tolerance / static_cast<double>(m);
      for (const std::size_t past : {0u, 1u, 30u, 200u}) {
        auto process = *EvidenceProcess::Create(basis, tolerance);
        process.Add(Mixed(m, past, 11 + m).view());
        ASSERT_TRUE(process
                        .Restore([&] {
                          // Small numbers, so that differences of logarithms keep their digits.
                          EvidenceState state = process.Save();
                          std::fill(state.log_e.begin(), state.log_e.end(), 0.0);
                          std::fill(state.log_shiryaev_roberts.begin(),
                                    state.log_shiryaev_roberts.end(), 0.0);
                          state.e_growth.clear();
                          state.shiryaev_roberts_growth.clear();
                          return state;
                        }())
                        .ok());
        const PredictionSet candidates = Mixed(m, 6, 5 + past);
        for (std::size_t i = 0; i < candidates.labels.size(); ++i) {
          const auto g = candidates.view().row(i);
          std::vector<std::vector<double>> e(kBettorCount, std::vector<double>(m));
          std::vector<std::vector<double>> recent = e;
          for (std::size_t y = 0; y < m; ++y) {
            EvidenceProcess copy = process;
            copy.Add(g, static_cast<std::int32_t>(y));
            const ExpertLogs logs = LogsOf(copy.Save());
            for (std::size_t j = 0; j < kBettorCount; ++j) {
              e[j][y] = std::exp(logs.e[j]);
              // R_1 = e.
              recent[j][y] = std::expm1(logs.shiryaev_roberts[j]);
              EXPECT_GE(e[j][y], 0);
            }
          }
          for (std::size_t j = 0; j < kBettorCount; ++j) {
            EXPECT_LE(WorstMean(g, eps, e[j]), 1 + 1e-12) << "expert " << j << " m " << m;
            EXPECT_LE(WorstMean(g, eps, recent[j]), 1 + 1e-12) << "expert " << j << " m " << m;
            // Nothing is lost either: under the smoothed prediction the mean is 1 minus the
            // penalty.
            const double total = std::accumulate(g.begin(), g.end(), 0.0);
            double mean = 0;
            for (std::size_t y = 0; y < m; ++y) {
              mean += (g[y] + eps) / (total + tolerance) * e[j][y];
            }
            EXPECT_NEAR(mean * (std::max(total, 1.0) + tolerance), 1, 1e-11) << "expert " << j;
          }
        }
      }
    }
  }
}

TEST(EvidenceTest, TheMixtureIsTheWeightedMeanOfTheExperts) {
  const auto basis = MakeBasis(5);
  auto process = *EvidenceProcess::Create(basis);
  RunningMaximum maximum;
  RunningMaximum r_maximum;
  const PredictionSet set = Draw(GeneratorSpec::M2(5), 40, 2);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    process.Add(set.view().row(i), set.labels[i]);
    process.Consider({.log_class_mean = std::sin(i),
                      .log_group_mean = std::cos(i),
                      .log_group_product = std::sin(2 * i)});
    process.RecordMaximum();
    const ExpertLogs logs = LogsOf(process.Save());
    const EvidenceReading reading = process.Read();
    double e = 0;
    double r = 0;
    std::array<double, kFamilyCount> family{};
    std::array<double, kFamilyCount> prior{};
    for (std::size_t j = 0; j < kExpertCount; ++j) {
      prior[static_cast<std::size_t>(FamilyOf(kExperts[j].kind))] += kPriors[j];
      e += kPriors[j] * std::exp(logs.e[j]);
      family[static_cast<std::size_t>(FamilyOf(kExperts[j].kind))] +=
          kPriors[j] * std::exp(logs.e[j]);
      r += kPriors[j] * std::exp(logs.shiryaev_roberts[j]);
    }
    EXPECT_EQ(reading.count, static_cast<std::int64_t>(i) + 1);
    EXPECT_NEAR(reading.evidence.log10_e_value, std::log10(e), 1e-12);
    EXPECT_NEAR(reading.drift.log10_now, std::log10(r), 1e-12);
    for (std::size_t f = 0; f < kFamilyCount; ++f) {
      EXPECT_NEAR(reading.evidence.family_share[f], family[f] / e, 1e-12);
      EXPECT_NEAR(reading.evidence.family_log10_e_value[f], std::log10(family[f] / prior[f]),
                  1e-12);
    }
    maximum.Add(std::log(e), reading.count);
    r_maximum.Add(std::log(r), reading.count);
    EXPECT_NEAR(reading.maximum.log_value, maximum.log_value, 1e-12);
    EXPECT_EQ(reading.maximum.at, maximum.at);
    EXPECT_NEAR(reading.drift.maximum.log_value, r_maximum.log_value, 1e-12);
  }
}

TEST(EvidenceTest, TheAnytimePValueIsOneOverTheLargestEValueAndNeverZero) {
  EXPECT_EQ(AnytimePValue({}), 1);
  EXPECT_NEAR(AnytimePValue({std::log(40), 3}), 1 / 40.0, 1e-16);
  EXPECT_GT(AnytimePValue({1e6, 3}), 0);
}

TEST(EvidenceTest, DriftThresholdIsLog10OfOnePlusTheRunLength) {
  EXPECT_NEAR(DriftThreshold(999), 3, 1e-15);
}

TEST(EvidenceTest, EstimatesEqualTheirFormulas) {
  const std::size_t m = 4;
  const auto basis = MakeBasis(m);
  const PredictionSet set = Draw(GeneratorSpec::M3(m), 80, 5);
  auto process = *EvidenceProcess::Create(basis);
  ReferenceExperts reference(*basis, kDefaultTolerance);
  RunningMoments projections;
  double variance = 0;
  double pairs = 0;
  std::vector<std::vector<double>> phi;
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const auto g = set.view().row(i);
    const auto y = static_cast<std::size_t>(set.labels[i]);
    // sum_{j<i} h_ij.
    phi.emplace_back(kFourierCount);
    basis->Map(g, phi.back());
    for (std::size_t j = 0; j < i; ++j) {
      const double k = std::inner_product(phi[i].begin(), phi[i].end(), phi[j].begin(), 0.0);
      const auto y_j = static_cast<std::size_t>(set.labels[j]);
      double product = 0;
      for (std::size_t c = 0; c < m; ++c) {
        product += ((c == y ? 1 : 0) - g[c]) * ((c == y_j ? 1 : 0) - set.view().row(j)[c]);
      }
      pairs += k * product;
    }
    const auto f = reference.Witness(g);
    long double mean = 0;
    for (std::size_t c = 0; c < m; ++c) mean += g[c] * f[c];
    const long double norm = reference.WitnessNorm();
    projections.Add(i == 0 ? 0 : static_cast<double>((f[y] - mean) / norm));
    for (std::size_t c = 0; c < m && i > 0; ++c) {
      variance += static_cast<double>(g[c] * (f[c] - mean) * (f[c] - mean) / (norm * norm));
    }
    reference.Join(g, y);
    process.Add(g, set.labels[i]);
    const EvidenceReading reading = process.Read();
    const auto n = static_cast<double>(i + 1);
    EXPECT_EQ(reading.skce_unbiased.has_value(), i > 0);
    // The Fourier terms and A have the rounding errors of float, below 1e-6 of their size.
    if (i > 0) {
      EXPECT_NEAR(*reading.skce_unbiased, 2 * pairs / (n * (n - 1)), 1e-6);
    }
    EXPECT_EQ(reading.projections.count, projections.count);
    EXPECT_NEAR(reading.projections.mean, projections.mean, 1e-6);
    EXPECT_NEAR(reading.projections.m2, projections.m2, 1e-5);
    EXPECT_NEAR(reading.projection_variance, variance, 1e-5);
  }
}

TEST(EvidenceTest, ToleranceIsCheckedAndCosts) {
  const auto basis = MakeBasis(3);
  for (const double tolerance : {0.0, -1.0, 1e-10, 0.6, std::nan("")}) {
    EXPECT_EQ(EvidenceProcess::Create(basis, tolerance).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  auto process = *EvidenceProcess::Create(basis, 0.3);
  // Without a past there are no bets, so every prediction costs the tolerance, log 1.3.
  process.Add(std::vector<double>{0.2, 0.3, 0.5}, 1);
  EXPECT_LT(process.Read().evidence.log10_e_value, 0);
}

TEST(EvidenceTest, CertainButWrongPredictionsAreFiniteEvidence) {
  // Label 1 although its probability is 0: each is worth about log(1/eps), not infinity.
  const auto basis = MakeBasis(3);
  auto process = *EvidenceProcess::Create(basis);
  double before = 0;
  for (int i = 0; i < 2000; ++i) {
    process.Add(std::vector<double>{1, 0, 0}, 1);
    const EvidenceReading reading = process.Read();
    ASSERT_TRUE(std::isfinite(reading.evidence.log10_e_value));
    ASSERT_GE(reading.evidence.log10_e_value, before);
    ASSERT_EQ(reading.maximum.at, i + 1);
    before = reading.evidence.log10_e_value;
  }
  EXPECT_GT(before, 2000 * 4);
  EXPECT_GT(AnytimePValue(process.Read().maximum), 0);
}

TEST(EvidenceTest, CertainAndRightPredictionsAreNoEvidence) {
  for (const std::size_t m : {2u, 5u}) {
    auto process = *EvidenceProcess::Create(MakeBasis(m));
    for (std::size_t i = 0; i < 3000; ++i) {
      std::vector<double> g(m);
      g[i % m] = 1;
      process.Add(g, static_cast<std::int32_t>(i % m));
    }
    const EvidenceReading reading = process.Read();
    EXPECT_LE(reading.maximum.log_value, 1e-12);
    EXPECT_EQ(*reading.skce_unbiased, 0);
    EXPECT_EQ(reading.projections.mean, 0);
    EXPECT_EQ(reading.projection_variance, 0);
    for (const double value : LogsOf(process.Save()).e) {
      EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(EvidenceTest, HostileStreamsStayFinite) {
  for (const double bandwidth : {1e-300, 1e-3, 1e300}) {
    for (const std::size_t m : {2u, 10u, 1000u}) {
      auto process = *EvidenceProcess::Create(MakeBasis(m, bandwidth), kMinTolerance);
      PredictionSet set = Draw(GeneratorSpec::M3(m), 200, m);
      // The probabilities are rounded to three digits.
      for (double& value : set.probabilities) value = std::round(value * 1000) / 1000;
      for (std::size_t i = 0; i < 100; ++i) {
        std::vector<double> g(m);
        g[0] = 1;
        Append(set, g, static_cast<std::int32_t>(i % m));
        g[0] = 5e-324;
        g[1] = 1;
        Append(set, g, 0);
      }
      process.Add(set.view());
      const EvidenceState state = process.Save();
      for (const auto* const values :
           {&state.log_e, &state.log_shiryaev_roberts, &state.all.witness, &state.recent.witness}) {
        for (const double value : *values) {
          ASSERT_TRUE(std::isfinite(value));
        }
      }
      const EvidenceReading reading = process.Read();
      EXPECT_TRUE(std::isfinite(reading.evidence.log10_e_value));
      EXPECT_TRUE(std::isfinite(*reading.skce_unbiased));
      EXPECT_TRUE(std::isfinite(reading.projections.m2));
      EXPECT_TRUE(std::isfinite(reading.projection_variance));
      EXPECT_LE(std::abs(reading.projections.mean), std::sqrt(2));
      double shares = 0;
      for (const double share : reading.evidence.family_share) shares += share;
      EXPECT_NEAR(shares, 1, 1e-12);
    }
  }
}

TEST(EvidenceTest, LargeEvidenceStaysFinite) {
  // A state like the one after 1e8 predictions.
  const auto basis = MakeBasis(3);
  auto process = *EvidenceProcess::Create(basis);
  process.Add(Draw(GeneratorSpec::M1(3), 100, 1).view());
  EvidenceState state = process.Save();
  constexpr double kFactor = 1e6;
  state.count = state.projections.count = 100000000;
  for (double& value : state.log_e) value = value < 0 ? -1e8 : 1e8;
  for (auto* const values : {&state.all.fourier_sums, &state.all.witness, &state.all.class_observed,
                             &state.all.class_expected, &state.log_shiryaev_roberts}) {
    for (double& value : *values) value *= kFactor;
  }
  state.square_sum *= kFactor;
  ASSERT_TRUE(process.Restore(state).ok());
  const RunningMaximum before = process.Read().maximum;
  process.Add(Draw(GeneratorSpec::M1(3), 100, 2).view());
  const EvidenceReading reading = process.Read();
  EXPECT_TRUE(std::isfinite(reading.evidence.log10_e_value));
  EXPECT_TRUE(std::isfinite(reading.drift.log10_now));
  EXPECT_TRUE(std::isfinite(*reading.skce_unbiased));
  EXPECT_GE(reading.maximum.log_value, before.log_value);
  EXPECT_EQ(reading.count, 100000100);
}

TEST(EvidenceTest, MemoryIsThatOfTheSumsTheChunkAndScratch) {
  // Doubles per class: 256 for A, 202 for the counts and their ratios, 72 for the chunk, and 40 for
  // scratch.
  EXPECT_NEAR(static_cast<double>(EvidenceProcess::MaxMemory(1000)), 8e3 * (256 + 202 + 72 + 40),
              120e3);
}

}  // namespace
}  // namespace calibd
