// What the evidence promises, however often one looks: false alarms, run lengths, coverage.
// monitoring_page_test.cc measures how soon errors are detected. Seeds are fixed. With S
// simulations a count at rate p is Binomial(S, p); bounds are 5 standard deviations away, which
// gives a false-failure probability below 1e-6. CALIBD_TEST_REPETITIONS multiplies the simulations.
// Above 600 lines: each promise has a simulation of its own.
#include "calibd/core/evidence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/class_evidence.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/e_bh.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_skce.h"
#include "evidence_streams.h"
#include "support/evidence_reference.h"

namespace calibd {
namespace {

using testing::AlarmRate;
using testing::BasisOf;
using testing::Dirichlet;
using testing::Draw;
using testing::FirstTime;
using testing::KernelOf;
using testing::kLevel;
using testing::LabelAtTemperature;
using testing::Margin;
using testing::Repeated;

// Adds the value to the report of the test.
void Record(const std::string& name, double value) {
  ::testing::Test::RecordProperty(name, std::to_string(value));
}

TEST(EvidenceLevelTest, FalseAlarmsStayBelowTheLevelWhenPolledAtEveryPrediction) {
  double sum = 0;
  int models = 0;
  const int simulations = Repeated(300);
  for (const std::size_t m : {2u, 10u, 100u}) {
    for (const double alpha : {0.1, 1.0}) {
      const GeneratorSpec spec = Dirichlet(m, alpha);
      const double rate = AlarmRate(BasisOf(spec), simulations, kDefaultTolerance, [&spec](int i) {
        return Draw(spec, 1000, 1000 + static_cast<std::uint64_t>(i));
      });
      EXPECT_LE(rate, kLevel + Margin(kLevel, simulations)) << "m=" << m << " alpha=" << alpha;
      Record("m" + std::to_string(m) + (alpha < 1 ? "_sparse" : "_flat"), rate);
      sum += rate;
      ++models;
    }
  }
  // All models together are 1800 streams. A mixture over experts has a rate of .03, because its
  // wealth is shared; the level is 5 standard deviations above it, and a rate of .07 would be
  // detected.
  EXPECT_LE(sum / models, kLevel);
}

std::size_t Median(std::vector<std::size_t> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Mean {
  double mean;
  // Standard error.
  double error;
};
Mean MeanOf(const std::vector<std::size_t>& values) {
  RunningMoments moments;
  for (const std::size_t value : values) moments.Add(static_cast<double>(value));
  return {moments.mean, std::sqrt(moments.Variance() / static_cast<double>(moments.count))};
}

TEST(DriftLevelTest, AverageRunLengthsAreAtLeastThePromisedOnes) {
  constexpr double kRunLength = 300;
  // Runs are truncated, which makes their mean smaller.
  constexpr std::size_t kLongest = 1500;
  const double threshold = DriftThreshold(kRunLength);
  for (const std::size_t m : {2u, 10u}) {
    const GeneratorSpec spec = GeneratorSpec::M1(m);
    const auto basis = BasisOf(spec);
    std::vector<std::size_t> shiryaev_roberts;
    for (int i = 0; i < Repeated(150); ++i) {
      const PredictionSet set = Draw(spec, kLongest, 300 + static_cast<std::uint64_t>(i));
      shiryaev_roberts.push_back(FirstTime(set, basis, [&](const EvidenceReading& reading) {
        return reading.drift.log10_now >= threshold;
      }));
    }
    const Mean r = MeanOf(shiryaev_roberts);
    Record("shiryaev_roberts_m" + std::to_string(m), r.mean);
    EXPECT_GE(r.mean + 5 * r.error, kRunLength) << "m=" << m;
    // Without bets, Shiryaev-Roberts increases by 1 per prediction: it raises an alarm sooner or
    // later.
    EXPECT_LE(r.mean, 4 * kRunLength) << "m=" << m;
  }
}

TEST(DriftPowerTest, AChangeIsDetectedSoonAfterALongCalibratedPeriod) {
  // Measured: 78 predictions (median) after 3000 without a change.
  constexpr std::size_t kCalm = 3000;
  const double threshold = DriftThreshold(1e6);
  const auto basis = BasisOf(GeneratorSpec::M1());
  std::vector<std::size_t> delays;
  for (int i = 0; i < Repeated(31); ++i) {
    const auto seed = 900 + static_cast<std::uint64_t>(i);
    PredictionSet set = Draw(GeneratorSpec::M1(), kCalm + 2000, seed);
    LabelAtTemperature(set, 2, kCalm, seed);
    const std::size_t alarm = FirstTime(set, basis, [&](const EvidenceReading& reading) {
      return reading.drift.log10_now >= threshold;
    });
    EXPECT_GT(alarm, kCalm);
    delays.push_back(alarm - kCalm);
  }
  const auto delay = static_cast<double>(Median(delays));
  Record("delay", delay);
  EXPECT_LE(delay, 1.3 * 78);
}

TEST(ConfidenceSequenceTest, HoldsAtAllPredictionsSimultaneously) {
  GeneratorSpec some = GeneratorSpec::M3();
  some.pi = 0.3;
  for (const GeneratorSpec& spec : {GeneratorSpec::M1(), some, GeneratorSpec::M3()}) {
    const auto basis = BasisOf(spec);
    // KCE from so many observations that it is accurate to a percent; the SKCE of the calibrated
    // model is 0.
    auto many = *EvidenceProcess::Create(basis);
    many.Add(Draw(spec, 50000, 7).view());
    const double kce = spec.pi == 0 ? 0 : std::sqrt(*many.Read().skce_unbiased);
    const int simulations = Repeated(200);
    int missed_above = 0;
    int missed_below = 0;
    int above_zero = 0;
    double widest = 0;
    for (int i = 0; i < simulations; ++i) {
      const PredictionSet set = Draw(spec, 1500, 40 + static_cast<std::uint64_t>(i));
      auto process = *EvidenceProcess::Create(basis);
      bool above = false;
      bool below = false;
      double lower = 0;
      double upper = 0;
      for (std::size_t row = 0; row < set.labels.size(); ++row) {
        process.Add(set.view().row(row), set.labels[row]);
        const EvidenceReading reading = process.Read();
        lower = *LowerConfidenceSequence(reading.projections, kProjectionBound, kLevel);
        upper = *KceUpperConfidenceSequence(reading.witness_norm, kLevel);
        above = above || lower > 1.01 * kce;
        below = below || upper < 0.99 * kce;
        ASSERT_LT(lower, upper) << row;
      }
      if (above) ++missed_above;
      if (below) ++missed_below;
      if (lower > 0) ++above_zero;
      widest = std::max(widest, upper - kce);
    }
    const std::string model = "_pi" + std::to_string(spec.pi);
    Record("missed_above" + model, static_cast<double>(missed_above) / simulations);
    Record("missed_below" + model, static_cast<double>(missed_below) / simulations);
    Record("widest" + model, widest);
    const double allowed = kLevel + Margin(kLevel, simulations);
    EXPECT_LE(static_cast<double>(missed_above) / simulations, allowed) << model;
    EXPECT_LE(static_cast<double>(missed_below) / simulations, allowed) << model;
    // The bounds are useful: the lower one exceeds zero. The mean of |d|^2 is at most .9, and log
    // log n and a level of .05 make its root 4 sqrt(.9 / 1500).
    if (spec.pi == 1) {
      EXPECT_EQ(above_zero, simulations);
    }
    EXPECT_LT(widest, 0.2) << model;
  }
}

// Two classes: always the same prediction, `confidence` for class 0; one in 1 / error labels is
// class 1.
PredictionSet DrawConfident(double confidence, double error, std::size_t n, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::bernoulli_distribution is_wrong(error);
  PredictionSet set;
  set.class_count = 2;
  for (std::size_t i = 0; i < n; ++i) {
    set.probabilities.insert(set.probabilities.end(), {confidence, 1 - confidence});
    set.labels.push_back(is_wrong(rng) ? 1 : 0);
  }
  return set;
}

TEST(ConfidenceSequenceTest, TheLowerBoundHoldsForConfidentModelsThatAreCalibrated) {
  const auto basis = *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.5), 2);
  const int simulations = Repeated(200);
  for (const double confidence : {0.98, 0.99, 0.999}) {
    int missed = 0;
    for (int i = 0; i < simulations; ++i) {
      const PredictionSet set =
          DrawConfident(confidence, 1 - confidence, 2000, 60000 + static_cast<std::uint64_t>(i));
      auto process = *EvidenceProcess::Create(basis);
      bool above = false;
      for (std::size_t row = 0; row < set.labels.size(); ++row) {
        process.Add(set.view().row(row), set.labels[row]);
        above = above ||
                *LowerConfidenceSequence(process.Read().projections, kProjectionBound, kLevel) > 0;
      }
      if (above) ++missed;
    }
    Record("missed_" + std::to_string(confidence), static_cast<double>(missed) / simulations);
    EXPECT_LE(static_cast<double>(missed) / simulations, kLevel + Margin(kLevel, simulations))
        << confidence;
  }
}

// The share of streams whose upper bound of the SKCE, from blocks of size 2, is ever below it.
// useful: the maximum distance of the bound at the end. draw(i): returns stream i.
template <typename DrawStream>
double UpperMissRate(const Kernel& kernel, double skce, double useful, const DrawStream& draw) {
  const int simulations = Repeated(300);
  int missed = 0;
  for (int i = 0; i < simulations; ++i) {
    const PredictionSet set = draw(20000 + static_cast<std::uint64_t>(i));
    auto blocks = *RunningBlockSkce::Create(2, set.class_count, kernel);
    bool below = false;
    double last = 0;
    for (std::size_t row = 0; row < set.labels.size(); ++row) {
      blocks.Add(set.view().row(row), set.labels[row]);
      if (blocks.pending() > 0) continue;
      last = *UpperConfidenceSequence(blocks.moments(), Kernel::DistributionFreeBound(), kLevel);
      below = below || last < skce;
    }
    if (below) ++missed;
    EXPECT_LT(last, skce + useful);
  }
  return static_cast<double>(missed) / simulations;
}

TEST(ConfidenceSequenceTest, TheUpperBoundHoldsAtAllBlocksSimultaneously) {
  const double allowed = kLevel + Margin(kLevel, Repeated(300));
  const auto stream = [](const GeneratorSpec& spec) {
    return [spec](std::uint64_t seed) { return Draw(spec, 4000, seed); };
  };
  // 2000 values with a standard deviation below 1 determine their mean to .08.
  const double useful = 0.08 + 5 / std::sqrt(2000);
  // For a calibrated model it is 0 with any kernel.
  const double calibrated =
      UpperMissRate(KernelOf(GeneratorSpec::M1()), 0, useful, stream(GeneratorSpec::M1()));
  Record("calibrated", calibrated);
  EXPECT_LE(calibrated, allowed);
  // With a kernel that is 1 everywhere (up to 1e-9), SKCE = |E d|^2, and E d = pi (beta - E g).
  const GeneratorSpec spec = GeneratorSpec::M2();
  double skce = 0;
  for (std::size_t k = 0; k < spec.beta.size(); ++k) {
    skce += std::pow(spec.pi * (spec.beta[k] - 1 / static_cast<double>(spec.beta.size())), 2);
  }
  EXPECT_NEAR(skce, 0.225, 1e-12);
  const double m2 =
      UpperMissRate(*Kernel::ExponentialTotalVariation(1e9), skce, useful, stream(spec));
  Record("m2", m2);
  EXPECT_LE(m2, allowed);
}

TEST(ConfidenceSequenceTest, TheUpperBoundHoldsForConfidentModelsThatErr) {
  // While there was no error, all values are nearly equal.
  const double allowed = kLevel + Margin(kLevel, Repeated(300));
  struct Case {
    double confidence;
    double error;
  };
  for (const Case& one : {Case{0.95, 0.1}, {0.99, 0.05}, {0.999, 0.01}, {1, 0.01}}) {
    const double off = one.error - (1 - one.confidence);
    const double missed = UpperMissRate(
        *Kernel::ExponentialTotalVariation(1e9), 2 * off * off, 0.1,
        [&](std::uint64_t seed) { return DrawConfident(one.confidence, one.error, 4000, seed); });
    Record("missed_" + std::to_string(one.confidence), missed);
    EXPECT_LE(missed, allowed) << one.confidence << " " << one.error;
  }
}

TEST(ConfidenceSequenceTest, TheUpperBoundOfKceHoldsForConfidentModelsThatErr) {
  const auto basis = *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.5), 2);
  const int simulations = Repeated(100);
  for (const auto& [confidence, error] : std::vector<std::pair<double, double>>{
           {0.95, 0.1}, {0.99, 0.05}, {0.999, 0.01}, {1, 0.01}}) {
    // For a single prediction |phi| = 1, and therefore KCE = |E d|.
    const double kce = std::numbers::sqrt2 * (error - (1 - confidence));
    int missed = 0;
    for (int i = 0; i < simulations; ++i) {
      const PredictionSet set =
          DrawConfident(confidence, error, 2000, 80000 + static_cast<std::uint64_t>(i));
      auto process = *EvidenceProcess::Create(basis);
      bool below = false;
      for (std::size_t row = 0; row < set.labels.size(); ++row) {
        process.Add(set.view().row(row), set.labels[row]);
        below = below || *KceUpperConfidenceSequence(process.Read().witness_norm, kLevel) < kce;
      }
      if (below) ++missed;
    }
    Record("missed_" + std::to_string(confidence), static_cast<double>(missed) / simulations);
    EXPECT_LE(static_cast<double>(missed) / simulations, kLevel + Margin(kLevel, simulations))
        << confidence;
  }
}

TEST(ProjectionTestTest, HasItsLevelAtOneLook) {
  const auto basis = BasisOf(GeneratorSpec::M1());
  const int simulations = Repeated(2000);
  int rejected = 0;
  for (int i = 0; i < simulations; ++i) {
    const PredictionSet set = Draw(GeneratorSpec::M1(), 500, 70000 + static_cast<std::uint64_t>(i));
    auto process = *EvidenceProcess::Create(basis);
    process.Add(set.view());
    const EvidenceReading reading = process.Read();
    if (TestProjections(reading.projections, reading.projection_variance)->p_value <= kLevel) {
      ++rejected;
    }
  }
  Record("size", static_cast<double>(rejected) / simulations);
  // The level follows from a martingale central limit theorem; at n = 500 it may deviate by .01.
  EXPECT_NEAR(static_cast<double>(rejected) / simulations, kLevel,
              Margin(kLevel, simulations) + 0.01);
}

// Distributes a stream over 8 replicas, prediction by prediction.
std::vector<EvidenceProcess> DealOut(const PredictionSet& set,
                                     const std::shared_ptr<const FourierBasis>& basis) {
  constexpr std::size_t kParts = 8;
  std::vector<EvidenceProcess> parts;
  for (std::size_t part = 0; part < kParts; ++part) {
    auto process = *EvidenceProcess::Create(basis);
    for (std::size_t i = part; i < set.labels.size(); i += kParts) {
      process.Add(set.view().row(i), set.labels[i]);
    }
    parts.push_back(std::move(process));
  }
  return parts;
}

EvidenceReading Combined(const std::vector<EvidenceProcess>& processes) {
  std::vector<const EvidenceProcess*> parts;
  for (const EvidenceProcess& process : processes) parts.push_back(&process);
  return *CombineDisjoint(parts);
}

TEST(CombinedEvidenceTest, PartsHaveTheStrengthOfTheWhole) {
  const auto basis = BasisOf(GeneratorSpec::M1());
  std::vector<double> pooled;
  std::vector<double> combined;
  for (int i = 0; i < Repeated(31); ++i) {
    const auto seed = 600 + static_cast<std::uint64_t>(i);
    PredictionSet set = Draw(GeneratorSpec::M1(), 4000, seed);
    LabelAtTemperature(set, 1.2, 0, seed);
    auto whole = *EvidenceProcess::Create(basis);
    whole.Add(set.view());
    pooled.push_back(whole.Read().evidence.log10_e_value);
    combined.push_back(Combined(DealOut(set, basis)).evidence.log10_e_value);
  }
  const auto median = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  Record("pooled", median(pooled));
  Record("combined", median(combined));
  EXPECT_GT(median(pooled), 5);
  EXPECT_NEAR(median(combined) / median(pooled), 1, 0.01);
}

TEST(CombinedEvidenceTest, FalseAlarmsOfCombinedPartsStayBelowTheLevel) {
  const auto basis = BasisOf(GeneratorSpec::M1());
  const int simulations = Repeated(200);
  int alarms = 0;
  for (int i = 0; i < simulations; ++i) {
    const PredictionSet set = Draw(GeneratorSpec::M1(), 800, 8000 + static_cast<std::uint64_t>(i));
    std::vector<EvidenceProcess> parts;
    for (int part = 0; part < 8; ++part) parts.push_back(*EvidenceProcess::Create(basis));
    bool alarm = false;
    for (std::size_t row = 0; row < 800; ++row) {
      parts[row % 8].Add(set.view().row(row), set.labels[row]);
      if (row % 50 != 49) continue;
      alarm = alarm || Combined(parts).evidence.log10_e_value >= -std::log10(kLevel);
    }
    if (alarm) ++alarms;
  }
  Record("rate", static_cast<double>(alarms) / simulations);
  EXPECT_LE(static_cast<double>(alarms) / simulations, kLevel + Margin(kLevel, simulations));
}

// The share of rejected hypotheses from `first` on among all rejected ones.
double FalseShare(const std::vector<bool>& rejected, std::size_t first) {
  const auto all = std::count(rejected.begin(), rejected.end(), true);
  const auto of_null =
      std::count(rejected.begin() + static_cast<std::ptrdiff_t>(first), rejected.end(), true);
  return all == 0 ? 0 : static_cast<double>(of_null) / static_cast<double>(all);
}

TEST(EbhTest, KeepsTheFalseDiscoveryRateUnderTheWorstDependence) {
  // With probability alpha, distributed over the sizes k, k random hypotheses have e = K / (alpha
  // k) and all others 0. Each mean is then 1, and the false discovery rate is exactly alpha.
  constexpr std::size_t kHypotheses = 8;
  constexpr double kAlpha = 0.2;
  const int simulations = Repeated(40000);
  std::mt19937_64 rng(12);
  std::uniform_real_distribution<double> uniform;
  std::array<std::size_t, kHypotheses> order{};
  std::iota(order.begin(), order.end(), 0);
  RunningMoments share;
  for (int i = 0; i < simulations; ++i) {
    std::vector<double> log10_e(kHypotheses, -HUGE_VAL);
    if (uniform(rng) < kAlpha) {
      const std::size_t k = 1 + rng() % kHypotheses;
      std::shuffle(order.begin(), order.end(), rng);
      for (std::size_t j = 0; j < k; ++j) {
        // Slightly more, so that rounding does not decide.
        log10_e[order[j]] = std::log10(kHypotheses / (kAlpha * static_cast<double>(k))) + 1e-12;
      }
    }
    share.Add(FalseShare(RejectedByEbh(log10_e, kAlpha), 0));
  }
  EXPECT_NEAR(share.mean, kAlpha, Margin(kAlpha, simulations));
}

TEST(EbhTest, FindsTheMiscalibratedModelsAmongManyAndFewOthers) {
  // 20 models, of which the first 5 are miscalibrated. The others have the same predictions and
  // labels, and therefore equal e-values.
  constexpr std::size_t kWrong = 5;
  const auto basis = BasisOf(GeneratorSpec::M1());
  const int simulations = Repeated(100);
  RunningMoments false_share;
  RunningMoments found;
  for (int i = 0; i < simulations; ++i) {
    const auto log10_e = [&](const PredictionSet& set) {
      auto process = *EvidenceProcess::Create(basis);
      process.Add(set.view());
      return process.Read().evidence.log10_e_value;
    };
    const auto seed = 9000 + 10 * static_cast<std::uint64_t>(i);
    std::vector<double> e(20, log10_e(Draw(GeneratorSpec::M1(), 400, seed)));
    for (std::size_t k = 0; k < kWrong; ++k) {
      PredictionSet set = Draw(GeneratorSpec::M1(), 400, seed + 1 + k);
      LabelAtTemperature(set, 1.7, 0, seed + 1 + k);
      e[k] = log10_e(set);
    }
    const std::vector<bool> rejected = RejectedByEbh(e, kLevel);
    false_share.Add(FalseShare(rejected, kWrong));
    found.Add(static_cast<double>(std::count(rejected.begin(), rejected.begin() + kWrong, true)) /
              kWrong);
  }
  Record("false_discovery_rate", false_share.mean);
  Record("found", found.mean);
  EXPECT_LE(false_share.mean, kLevel + Margin(kLevel, simulations));
  EXPECT_GT(found.mean, 0.8);
}

TEST(ClassEvidenceLevelTest, FalseAlarmsOfEachClassStayBelowTheLevelWhenPolled) {
  for (const std::size_t m : {2u, 10u}) {
    const GeneratorSpec spec = GeneratorSpec::M1(m);
    const int simulations = Repeated(400);
    int alarms = 0;
    int rejecting = 0;
    for (int i = 0; i < simulations; ++i) {
      const PredictionSet set = Draw(spec, 1500, 3000 + static_cast<std::uint64_t>(i));
      ClassEvidence evidence(m, kDefaultTolerance);
      std::vector<bool> alarm(m);
      bool rejects = false;
      for (std::size_t row = 0; row < 1500; row += 5) {
        evidence.Add(set.view().rows(row, 5));
        const std::vector<double> log10_e = evidence.Log10EValues(-std::log10(kLevel));
        for (std::size_t k = 0; k < m; ++k) {
          alarm[k] = alarm[k] || log10_e[k] >= -std::log10(kLevel);
        }
        // The share of false rejections is bounded at any one look: here the last one.
        const std::vector<bool> rejected = RejectedByEbh(log10_e, kLevel);
        rejects = std::count(rejected.begin(), rejected.end(), true) > 0;
      }
      // One class represents all, because the classes of a stream depend on each other.
      if (alarm[static_cast<std::size_t>(i) % m]) ++alarms;
      if (rejects) ++rejecting;
    }
    Record("m" + std::to_string(m), static_cast<double>(alarms) / simulations);
    Record("rejecting_m" + std::to_string(m), static_cast<double>(rejecting) / simulations);
    EXPECT_LE(static_cast<double>(alarms) / simulations, kLevel + Margin(kLevel, simulations));
    EXPECT_LE(static_cast<double>(rejecting) / simulations, kLevel + Margin(kLevel, simulations));
  }
}

TEST(ClassEvidencePowerTest, FindsTheMiscalibratedClassesAndFewOthers) {
  // Three in ten labels of class 3 are predicted as class 0; all other frequencies are as
  // predicted. Also two classes, where the predictions of class 1 are too bold but have the right
  // mean.
  const int simulations = Repeated(100);
  RunningMoments false_share;
  int found = 0;
  int found_bold = 0;
  for (int i = 0; i < simulations; ++i) {
    const auto seed = 4000 + static_cast<std::uint64_t>(i);
    PredictionSet set = Draw(GeneratorSpec::M1(), 1500, seed);
    std::mt19937_64 rng(seed);
    std::bernoulli_distribution is_moved(0.3);
    for (std::int32_t& label : set.labels) {
      if (label == 3 && is_moved(rng)) label = 0;
    }
    ClassEvidence evidence(10, kDefaultTolerance);
    evidence.Add(set.view());
    const std::vector<bool> rejected =
        RejectedByEbh(evidence.Log10EValues(-std::log10(kLevel)), kLevel);
    const auto all = std::count(rejected.begin(), rejected.end(), true);
    const int right = (rejected[0] ? 1 : 0) + (rejected[3] ? 1 : 0);
    false_share.Add(all == 0 ? 0 : static_cast<double>(all - right) / static_cast<double>(all));
    if (right == 2) ++found;

    PredictionSet bold = Draw(GeneratorSpec::M1(2), 1500, seed);
    LabelAtTemperature(bold, 2, 0, seed);
    ClassEvidence of_two(2, kDefaultTolerance);
    of_two.Add(bold.view());
    if (of_two.Log10EValue(1) >= -std::log10(kLevel)) ++found_bold;
  }
  Record("false_discovery_rate", false_share.mean);
  Record("found", static_cast<double>(found) / simulations);
  Record("found_bold", static_cast<double>(found_bold) / simulations);
  EXPECT_LE(false_share.mean, kLevel + Margin(kLevel, simulations));
  EXPECT_GT(static_cast<double>(found) / simulations, 0.8);
  EXPECT_GT(static_cast<double>(found_bold) / simulations, 0.8);
}

TEST(EvidenceLongRunTest, StaysFiniteAndItsSumsDoNotDriftAway) {
  // Two classes: predictions of the generator, every other one rounded to three decimals, one in
  // 100 certain, and one in 100000 certain and wrong.
  const auto predictions = static_cast<std::size_t>(Repeated(1'000'000));
  constexpr std::size_t kCompared = 1'000'000;
  constexpr std::size_t kStep = 1000;
  const GeneratorSpec spec = GeneratorSpec::M1(2);
  const auto basis = BasisOf(spec);
  auto generator = *Generator::Create(spec, 5);
  auto process = *EvidenceProcess::Create(basis);
  testing::ReferenceExperts reference(*basis, kDefaultTolerance);
  long double square_sum = 0;
  RunningMaximum before;
  for (std::size_t n = 0; n < predictions; n += kStep) {
    PredictionSet set;
    generator.Draw(kStep, set);
    for (std::size_t i = 0; i < kStep; ++i) {
      double* const g = &set.probabilities[2 * i];
      if (i % 2 == 1) {
        g[0] = std::round(g[0] * 1000) / 1000;
        g[1] = 1 - g[0];
      } else if (i % 100 == 0) {
        g[0] = 1;
        g[1] = 0;
        set.labels[i] = (n + i) % 100'000 == 0 ? 1 : 0;
      }
    }
    process.Add(set.view());
    const EvidenceReading reading = process.Read();
    ASSERT_EQ(reading.count, static_cast<std::int64_t>(n + kStep));
    ASSERT_TRUE(std::isfinite(reading.evidence.log10_e_value));
    ASSERT_TRUE(std::isfinite(reading.drift.log10_now));
    ASSERT_TRUE(std::isfinite(*reading.skce_unbiased));
    ASSERT_GE(reading.maximum.log_value, before.log_value);
    ASSERT_GE(reading.maximum.at, before.at);
    before = reading.maximum;
    if (n >= kCompared) continue;
    for (std::size_t i = 0; i < kStep; ++i) {
      const auto g = set.view().row(i);
      const auto y = static_cast<std::size_t>(set.labels[i]);
      reference.Join(g, y);
      square_sum += std::pow((y == 0 ? 1 : 0) - static_cast<long double>(g[0]), 2) +
                    std::pow((y == 1 ? 1 : 0) - static_cast<long double>(g[1]), 2);
    }
    if (n + kStep != kCompared) continue;
    // Each sum of doubles is accurate to 1e-12 per prediction. The errors of float, at most 2e-7 of
    // a term, add up like independent ones in the residuals, and in full in the Fourier terms,
    // whose sums grow as fast as the number of predictions.
    constexpr double kAllowed = 1e-12 * kCompared;
    constexpr double kAllowedWitness = 1e-3;
    constexpr double kAllowedTerms = 2e-7 * kCompared;
    const EvidenceState state = process.Save();
    ASSERT_EQ(state.all.weight, 1);
    for (std::size_t j = 0; j < state.all.witness.size(); ++j) {
      ASSERT_NEAR(state.all.witness[j], static_cast<double>(reference.witness()[j]),
                  kAllowedWitness);
    }
    for (std::size_t j = 0; j < state.all.fourier_sums.size(); ++j) {
      ASSERT_NEAR(state.all.fourier_sums[j], static_cast<double>(reference.fourier_sums()[j]),
                  kAllowedTerms);
    }
    for (std::size_t j = 0; j < state.all.class_expected.size(); ++j) {
      ASSERT_NEAR(state.all.class_expected[j], static_cast<double>(reference.class_expected()[j]),
                  kAllowed);
    }
    EXPECT_NEAR(state.square_sum, static_cast<double>(square_sum), kAllowed);
    const long double norm = reference.WitnessNorm();
    const auto count = static_cast<long double>(kCompared);
    const auto skce = static_cast<double>((norm * norm - square_sum) / (count * (count - 1)));
    EXPECT_NEAR(*reading.skce_unbiased, skce, 1e-12);
  }
  Record("log10_e_value", process.Read().evidence.log10_e_value);
}

}  // namespace
}  // namespace calibd
