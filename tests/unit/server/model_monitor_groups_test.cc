// The groups of a model are monitored by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "calibd/core/bandwidth.h"
#include "calibd/core/class_evidence.h"
#include "server/watch/monitor.h"
#include "unit/server/watched_model.h"

namespace calibd::server {
namespace {

// Rows with group values, in batches with one value per row, one for all rows, or none.
class GroupTest : public ::testing::Test {
 protected:
  static ModelDeclaration Grouped(std::size_t warmup, std::size_t max_groups) {
    ModelDeclaration declaration = Watched(warmup);
    declaration.monitoring.group_tag = "region";
    declaration.monitoring.max_groups = max_groups;
    declaration.monitoring.min_group_observations = 10;
    return declaration;
  }

  GroupTest() {
    std::uint64_t random = 1;
    for (std::size_t i = 0; i < 1000; ++i) {
      random = random * 6364136223846793005U + 1442695040888963407U;
      // Runs of some rows; the rows from 400 on are in a batch without values.
      values_.push_back(i >= 400 && i < 500   ? ""
                        : i >= 500 && i < 600 ? "b"
                                              : std::string(1, "abcde"[(random >> 40) % 5]));
    }
  }

  // One value per row, except for batches with a shorter form.
  void Apply(Model& model, std::size_t first, std::size_t last) {
    std::vector<std::string> values(values_.begin() + static_cast<std::ptrdiff_t>(first),
                                    values_.begin() + static_cast<std::ptrdiff_t>(last));
    if (std::all_of(values.begin(), values.end(),
                    [&](const std::string& value) { return value == values.front(); })) {
      values.resize(values.front().empty() ? 0 : 1);
    }
    model.strand_state().Decide(model.strand_state().Observe({set_.view().rows(first, last - first),
                                                              {.groups = GroupValues(values)}}),
                                At(1));
  }

  // The evidence of the rows since `first` whose value is one of these.
  EvidenceReading Expected(double bandwidth, const std::vector<std::string>& values,
                           std::size_t first = 0) const {
    auto process = EvidenceProcess::Create(
        *FourierBasis::Create(*Kernel::ExponentialTotalVariation(bandwidth), kModelMonitorClasses));
    ClassEvidence classes(kModelMonitorClasses, kDefaultTolerance);
    for (std::size_t i = first; i < 1000; ++i) {
      if (std::find(values.begin(), values.end(), values_[i]) != values.end()) {
        process->Add(set_.view().row(i), set_.labels[i]);
        classes.Add(set_.view().rows(i, 1));
      }
    }
    process->Consider({.log_class_mean = classes.LogMean()});
    return process->Read();
  }

  ThreadPool pool_{"test", 1};
  const PredictionSet set_ = DrawFrom(GeneratorSpec::M1(kModelMonitorClasses), 1000);
  std::vector<std::string> values_;
};

TEST_F(GroupTest, TheMeanAndTheProductOfTheGroupsAreAFamilyOfTheModel) {
  // Each of the six values has one of 8 slots, or only the first three values have one. The others
  // share the overflow group, which is a factor of the product only.
  for (const std::size_t max_groups : {8U, 3U}) {
    Model model(1, Grouped(0, max_groups), {}, {}, pool_, nullptr);
    for (std::size_t at = 0; at < 1000; at += 100) Apply(model, at, at + 100);
    model.Publish();
    const MonitorSnapshot& monitor = *model.snapshot()->monitor;
    double mean = 0;
    double log10_product = 0;
    std::size_t seen = 0;
    for (const auto& group : monitor.groups) {
      log10_product += group->watch.reading.evidence.log10_e_value;
      if (group->id.overflow) continue;
      mean += std::pow(10, group->watch.reading.evidence.log10_e_value);
      ++seen;
    }
    mean = (mean + static_cast<double>(max_groups - seen)) / static_cast<double>(max_groups);
    const auto family = static_cast<std::size_t>(ExpertFamily::kGroups);
    // Both have the same share.
    EXPECT_NEAR(monitor.watch->reading.evidence.family_log10_e_value[family],
                std::log10((mean + std::pow(10, log10_product)) / 2), 1e-12);
    EXPECT_GT(monitor.watch->reading.evidence.family_share[family], 0);
  }
}

TEST_F(GroupTest, TheFirstValuesHaveTheirOwnGroupsAndTheOthersShareOne) {
  struct Case {
    std::size_t warmup;
    std::size_t batch;
  };
  // In the last case all rows of a group are gathered, which are more than are added together.
  for (const auto [warmup, batch] : {Case{0, 100}, {150, 100}, {0, 1000}}) {
    const double bandwidth =
        warmup == 0
            ? 0.5
            : *MedianBandwidth(set_.view().rows(0, warmup).probabilities, kModelMonitorClasses);
    Model model(1, Grouped(warmup, 3), {}, {}, pool_, nullptr);
    for (std::size_t at = 0; at < 1000; at += batch) Apply(model, at, at + batch);
    model.Publish();
    const auto groups = model.snapshot()->monitor->groups;
    ASSERT_EQ(groups.size(), 4U);
    std::vector<std::string> own;
    std::int64_t observations = 0;
    for (std::size_t g = 0; g < 4; ++g) {
      EXPECT_EQ(groups[g]->id.overflow, g == 3);
      if (g < 3) own.push_back(groups[g]->id.value);
      observations += groups[g]->watch.reading.count;
    }
    EXPECT_EQ(observations, 1000);
    std::vector<std::string> others;
    for (const char* const value : {"a", "b", "c", "d", "e", ""}) {
      if (std::find(own.begin(), own.end(), value) == own.end()) others.emplace_back(value);
    }
    ASSERT_EQ(others.size(), 3U);
    for (std::size_t g = 0; g < 4; ++g) {
      const EvidenceReading expected =
          Expected(bandwidth, g < 3 ? std::vector<std::string>{own[g]} : others);
      const EvidenceReading& reading = groups[g]->watch.reading;
      EXPECT_EQ(reading.count, expected.count) << g;
      EXPECT_EQ(reading.evidence.log10_e_value, expected.evidence.log10_e_value) << g;
      EXPECT_EQ(reading.skce_unbiased, expected.skce_unbiased) << g;
      const auto first = std::find_if(values_.begin(), values_.end(), [&](const auto& value) {
        return g < 3 ? value == own[g]
                     : std::find(others.begin(), others.end(), value) != others.end();
      });
      EXPECT_EQ(groups[g]->watch.first_observation, first - values_.begin() + 1) << g;
    }
  }
}

TEST_F(GroupTest, ContinueASavedStateBitForBitAlsoInTheWarmup) {
  for (const std::size_t warmup : {0U, 150U}) {
    Model whole(1, Grouped(warmup, 3), {}, {}, pool_, nullptr);
    for (std::size_t at = 0; at < 1000; at += 50) Apply(whole, at, at + 50);
    const std::string expected = whole.strand_state().Save().SerializeAsString();
    for (const std::size_t cut : {50U, 100U, 150U, 500U, 1000U}) {
      Model before(1, Grouped(warmup, 3), {}, {}, pool_, nullptr);
      for (std::size_t at = 0; at < cut; at += 50) Apply(before, at, at + 50);
      Model after(1, Grouped(warmup, 3), {}, {}, pool_, nullptr);
      const absl::Status restored = after.strand_state().Restore(before.strand_state().Save());
      ASSERT_TRUE(restored.ok()) << restored;
      after.strand_state().Refill(
          testing::ObservedRow(
              set_.view().rows(0, cut),
              {values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(cut)}),
          0);
      for (std::size_t at = cut; at < 1000; at += 50) Apply(after, at, at + 50);
      EXPECT_EQ(after.strand_state().Save().SerializeAsString(), expected) << warmup << " " << cut;
    }
  }
}

TEST_F(GroupTest, TheStateDoesNotDependOnTheBatches) {
  // A batch adds its groups before its first row, so that a group may be empty at first.
  std::string expected;
  for (const std::size_t batch : {1U, 7U, 50U, 300U, 1000U}) {
    Model model(1, Grouped(0, 8), {}, {}, pool_, nullptr);
    for (std::size_t at = 0; at < 1000; at += batch) {
      Apply(model, at, std::min<std::size_t>(at + batch, 1000));
    }
    const std::string state = model.strand_state().Save().SerializeAsString();
    if (expected.empty()) expected = state;
    EXPECT_EQ(state, expected) << batch;
  }
}

TEST_F(GroupTest, RestartWithTheModelsWatch) {
  Model model(1, Grouped(0, 5), {}, {}, pool_, nullptr);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 300);
  model.strand_state().Decide(
      model.strand_state().Observe(
          {bad.view(), {.groups = GroupValues(std::span(values_).first(300))}}),
      At(1));
  Acknowledge(model, "", At(2));
  model.Publish();
  for (const auto& group : model.snapshot()->monitor->groups) {
    EXPECT_EQ(group->watch.reading.count, 0);
    EXPECT_GE(group->error.As<MeasuredClassError>()->since_start.count(), 50);
  }
  model.strand_state().Observe(
      {set_.view().rows(500, 10), {.groups = GroupValues(std::span(values_).subspan(500, 1))}});
  model.Publish();
  const auto groups = model.snapshot()->monitor->groups;
  const auto b = std::find_if(groups.begin(), groups.end(),
                              [](const auto& group) { return group->id.value == "b"; });
  ASSERT_NE(b, groups.end());
  EXPECT_EQ((*b)->watch.first_observation, 301);
  EXPECT_EQ((*b)->watch.reading.count, 10);
}

}  // namespace
}  // namespace calibd::server
