// The families of the evidence that look for a shift of the classes, for one class and for one
// group: how soon they detect it, and how rarely they raise a false alarm. Seeds are fixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/class_evidence.h"
#include "calibd/core/e_bh.h"
#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "evidence_streams.h"

namespace calibd {
namespace {

using testing::BasisOf;
using testing::Dirichlet;
using testing::Draw;
using testing::EvidenceCrossed;
using testing::FirstCrossing;
using testing::kLevel;
using testing::LabelAtTemperature;
using testing::Margin;
using testing::Repeated;
using testing::WatchedEvidence;

// Draws the labels from g_k weights_k, normalised.
void LabelWithOdds(PredictionSet& set, const std::vector<double>& weights, std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<double> q(set.class_count);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    const auto g = set.view().row(i);
    for (std::size_t k = 0; k < q.size(); ++k) q[k] = g[k] * weights[k];
    set.labels[i] = std::discrete_distribution<std::int32_t>(q.begin(), q.end())(rng);
  }
}

TEST(ShiftPowerTest, ShiftsOfClassesAreDetectedSoon) {
  // With seven kinds of experts of equal shares, without class counts and means, the delays were
  // 3295, 1204 and 2205. The best known mixture needs .71, .90 and .81 times as long on streams of
  // this kind; the limits are 1.15 times that.
  std::vector<double> one_class(10, 1.0);
  one_class[3] = 1.5;
  std::vector<double> all_classes;
  for (int k = 0; k < 10; ++k) all_classes.push_back(std::exp(0.073 * (k - 4.5)));
  struct Case {
    std::string name;
    GeneratorSpec spec;
    std::vector<double> weights;
    std::size_t longest;
    double most;
  };
  const std::vector<Case> cases = {
      {"odds_of_one_class", Dirichlet(10, 0.1), one_class, 6000, 1.15 * .71 * 3295},
      {"label_shift", Dirichlet(10, 0.1), all_classes, 3000, 1.15 * .90 * 1204},
      {"binary_intercept", Dirichlet(2, 1), {1, std::exp(0.2)}, 6000, 1.15 * .81 * 2205},
  };
  for (const Case& one : cases) {
    const auto basis = BasisOf(one.spec);
    std::vector<std::size_t> times;
    for (int i = 0; i < Repeated(41); ++i) {
      const auto seed = 5000 + static_cast<std::uint64_t>(i);
      PredictionSet set = Draw(one.spec, one.longest, seed);
      LabelWithOdds(set, one.weights, seed);
      times.push_back(FirstCrossing(set, basis));
    }
    std::sort(times.begin(), times.end());
    const auto median = static_cast<double>(times[times.size() / 2]);
    RecordProperty(one.name, std::to_string(median));
    EXPECT_LE(median, one.most) << one.name;
  }
}

// The evidence of a model whose predictions belong to groups, as a server collects it.
class GroupedEvidence {
 public:
  GroupedEvidence(const std::shared_ptr<const FourierBasis>& basis, std::size_t slots)
      : basis_(basis),
        slots_(slots),
        process_(*EvidenceProcess::Create(basis)),
        classes_(basis->class_count(), kDefaultTolerance) {}

  // group: below the number of slots.
  void Add(const PredictionBatch& row, std::size_t group) {
    while (groups_.size() <= group) groups_.emplace_back(basis_);
    process_.Add(row);
    classes_.Add(row);
    groups_[group].Add(row);
    if (++count_ % 64 != 0) return;
    double mean = static_cast<double>(slots_ - groups_.size()) / static_cast<double>(slots_);
    double log10_product = 0;
    for (const double value : Log10EValues()) {
      mean += std::pow(10, value) / static_cast<double>(slots_);
      log10_product += value;
    }
    process_.Consider({.log_class_mean = classes_.LogMean(),
                       .log_group_mean = std::log(mean),
                       .log_group_product = log10_product * std::numbers::ln10});
    process_.RecordMaximum();
  }

  std::vector<double> Log10EValues() {
    std::vector<double> values;
    for (WatchedEvidence& group : groups_) {
      group.Consider();
      values.push_back(group.Read().evidence.log10_e_value);
    }
    return values;
  }
  bool Crossed() const { return EvidenceCrossed(process_.Read()); }

 private:
  std::shared_ptr<const FourierBasis> basis_;
  std::size_t slots_;
  EvidenceProcess process_;
  ClassEvidence classes_;
  std::vector<WatchedEvidence> groups_;
  std::size_t count_ = 0;
};

TEST(GroupLevelTest, FalseAlarmsStayBelowTheLevel) {
  const int simulations = Repeated(200);
  for (const std::size_t m : {2U, 10U}) {
    const GeneratorSpec spec = Dirichlet(m, 1);
    const auto basis = BasisOf(spec);
    int alarms = 0;
    for (int i = 0; i < simulations; ++i) {
      const PredictionSet set = Draw(spec, 1000, 20000 + static_cast<std::uint64_t>(i));
      GroupedEvidence evidence(basis, 4);
      for (std::size_t row = 0; row < 1000; ++row) {
        evidence.Add(set.view().rows(row, 1), row * row % 7 % 4);
      }
      if (evidence.Crossed()) ++alarms;
    }
    RecordProperty("rate_m" + std::to_string(m),
                   std::to_string(static_cast<double>(alarms) / simulations));
    EXPECT_LE(static_cast<double>(alarms) / simulations, kLevel + Margin(kLevel, simulations));
  }
}

TEST(GroupPowerTest, TheModelIsRejectedSoonAfterItsOnlyBadGroup) {
  // One prediction in 20 belongs to the bad group, whose labels are drawn at temperature 2.
  constexpr std::size_t kGroups = 20;
  constexpr std::size_t kLongest = 20000;
  const GeneratorSpec spec = GeneratorSpec::M1();
  const auto basis = BasisOf(spec);
  std::vector<double> ratios;
  for (int i = 0; i < Repeated(5); ++i) {
    const auto seed = 300 + static_cast<std::uint64_t>(i);
    const PredictionSet good = Draw(spec, kLongest, seed);
    PredictionSet bad = good;
    LabelAtTemperature(bad, 2, 0, seed);
    GroupedEvidence evidence(basis, kGroups);
    std::size_t group_at = 0;
    std::size_t model_at = 0;
    for (std::size_t row = 0; row < kLongest && (group_at == 0 || model_at == 0); ++row) {
      const std::size_t group = row % kGroups;
      evidence.Add((group == 7 ? bad : good).view().rows(row, 1), group);
      if (model_at == 0 && evidence.Crossed()) model_at = row + 1;
      if (group_at == 0 && row % 64 == 63 && row > 64 &&
          RejectedByEbh(evidence.Log10EValues(), kLevel)[7]) {
        group_at = row + 1;
      }
    }
    ASSERT_GT(group_at, 0U);
    ASSERT_GT(model_at, 0U) << "the group was rejected at " << group_at;
    ratios.push_back(static_cast<double>(model_at) / static_cast<double>(group_at));
  }
  std::sort(ratios.begin(), ratios.end());
  RecordProperty("ratio", std::to_string(ratios[ratios.size() / 2]));
  RecordProperty("largest_ratio", std::to_string(ratios.back()));
  EXPECT_LE(ratios[ratios.size() / 2], 1.5);
}

TEST(GroupPowerTest, GroupsThatAreOffInOppositeDirectionsAreFoundSoon) {
  // Ten groups of two classes. Class 1 is 4 points more frequent than predicted in every other
  // group, and 4 points less frequent in the others, so that all rows together are calibrated. With
  // the mean of the groups alone, the median of 20 streams was 4032 rows, and with the product
  // 1664.
  constexpr std::size_t kGroups = 10;
  constexpr std::size_t kLongest = 8000;
  const auto basis = BasisOf(Dirichlet(2, 1));
  std::vector<std::size_t> times;
  for (int i = 0; i < Repeated(11); ++i) {
    std::mt19937_64 rng(9100 + static_cast<std::uint64_t>(i));
    std::gamma_distribution<double> six(6, 1);
    std::gamma_distribution<double> one(1, 1);
    std::uniform_real_distribution<double> uniform;
    GroupedEvidence evidence(basis, kGroups);
    std::size_t row = 0;
    while (row < kLongest && (row % 64 != 0 || !evidence.Crossed())) {
      const std::size_t group = row++ % kGroups;
      const double correct = six(rng);
      const double g = correct / (correct + one(rng));
      const double truth = std::clamp(g + (group % 2 == 0 ? .04 : -.04), 0., 1.);
      const std::array<double, 2> probabilities = {1 - g, g};
      const std::array<std::int32_t, 1> label = {uniform(rng) < truth ? 1 : 0};
      evidence.Add({probabilities, label, 2}, group);
    }
    times.push_back(row);
  }
  std::sort(times.begin(), times.end());
  RecordProperty("median", std::to_string(times[times.size() / 2]));
  EXPECT_LE(times[times.size() / 2], 3000U);
}

TEST(ClassPowerTest, TheModelIsRejectedSoonAfterItsOnlyBadClass) {
  // One class in 1000 has the predicted probability .02 and the true one .04.
  constexpr std::size_t kClasses = 1000;
  constexpr std::size_t kLongest = 6400;
  std::vector<double> ratios;
  for (int i = 0; i < Repeated(3); ++i) {
    const auto seed = 700 + static_cast<std::uint64_t>(i);
    PredictionSet set = Draw(Dirichlet(kClasses, 0.02), kLongest, seed);
    std::mt19937_64 rng(seed);
    std::bernoulli_distribution is_bad(0.04);
    for (std::size_t row = 0; row < kLongest; ++row) {
      double* const g = &set.probabilities[row * kClasses];
      const double scale = 0.98 / (1 - g[7]);
      for (std::size_t k = 0; k < kClasses; ++k) g[k] = k == 7 ? 0.02 : g[k] * scale;
      if (is_bad(rng)) {
        set.labels[row] = 7;
      } else {
        std::vector<double> others(g, g + kClasses);
        others[7] = 0;
        set.labels[row] =
            std::discrete_distribution<std::int32_t>(others.begin(), others.end())(rng);
      }
    }
    const auto basis = *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.8), kClasses);
    WatchedEvidence evidence(basis);
    ClassEvidence classes(kClasses, kDefaultTolerance);
    std::size_t class_at = 0;
    std::size_t model_at = 0;
    for (std::size_t row = 0; row < kLongest && (class_at == 0 || model_at == 0); row += 64) {
      evidence.Add(set.view().rows(row, 64));
      classes.Add(set.view().rows(row, 64));
      if (model_at == 0 && EvidenceCrossed(evidence.Read())) model_at = row + 64;
      if (class_at == 0 && classes.Log10EValue(7) >= std::log10(kClasses / kLevel)) {
        class_at = row + 64;
      }
    }
    ASSERT_GT(class_at, 0U);
    ASSERT_GT(model_at, 0U) << "the class was rejected at " << class_at;
    ratios.push_back(static_cast<double>(model_at) / static_cast<double>(class_at));
    RecordProperty("class_" + std::to_string(i), std::to_string(class_at));
    RecordProperty("model_" + std::to_string(i), std::to_string(model_at));
  }
  EXPECT_LE(*std::max_element(ratios.begin(), ratios.end()), 1.5);
}

}  // namespace
}  // namespace calibd
