// The state of the evidence does not depend on batches or threads, and is saved and restored.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>
#include <vector>

#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "support/draw.h"
#include "support/evidence_reference.h"

namespace calibd {
namespace {

using testing::MakeBasis;
using testing::ReferenceExperts;

TEST(EvidenceTest, DoesNotDependOnTheBatches) {
  const std::size_t m = 11;
  const PredictionSet set = Draw(GeneratorSpec::M2(m), 2023, 4);
  const auto basis = MakeBasis(m);
  auto whole = *EvidenceProcess::Create(basis);
  whole.Add(set.view());
  for (const std::size_t step : {1u, 7u, 16u, 61u, 64u, 1000u}) {
    auto cut = *EvidenceProcess::Create(basis);
    for (std::size_t i = 0; i < set.labels.size(); i += step) {
      cut.Add(set.view().rows(i, std::min(step, set.labels.size() - i)));
      // Means in between have no effect on the bits.
      cut.Consider({.log_class_mean = 40, .log_group_mean = 1});
    }
    cut.Consider({});
    whole.Consider({});
    EXPECT_TRUE(cut.Save() == whole.Save()) << step;
    EXPECT_EQ(cut.Read().skce_unbiased, whole.Read().skce_unbiased) << step;
    EXPECT_EQ(cut.Read().maximum, whole.Read().maximum) << step;
  }
}

TEST(EvidenceTest, DoesNotDependOnTheThreads) {
  // Runs the parts on threads of their own, the last one first.
  const ParallelLoop loop = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    std::vector<std::jthread> threads;
    for (std::size_t i = count; i > 0; --i) threads.emplace_back(body, i - 1);
  };
  for (const std::size_t m : {2u, 10u, 45u}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(m), 1400, 5);
    auto alone = *EvidenceProcess::Create(MakeBasis(m));
    alone.Add(set.view());
    auto shared = *EvidenceProcess::Create(MakeBasis(m));
    // The cut is in the middle of a chunk and of a strip.
    const std::size_t cut = 1290;
    shared.Add(set.view().rows(0, cut), loop);
    shared.Add(set.view().rows(cut, 1400 - cut), loop);
    EXPECT_EQ(shared.Save(), alone.Save()) << m;
  }
}

// A reading between rows that are added ahead of their turn knows nothing of later ones.
TEST(EvidenceTest, RowsWhoseBetsAreComputedAheadHaveTheSameReadings) {
  const ParallelLoop loop = [](std::size_t count, const std::function<void(std::size_t)>& body) {
    for (std::size_t i = count; i > 0; --i) body(i - 1);
  };
  const std::size_t m = 7;
  const PredictionSet set = Draw(GeneratorSpec::M2(m), 1400, 6);
  const auto basis = MakeBasis(m);
  for (const ParallelLoop& parallel : {ParallelLoop(), loop}) {
    auto ahead = *EvidenceProcess::Create(basis);
    auto singly = *EvidenceProcess::Create(basis);
    // Batches of some rows, each added in parts of 1, 2, ... rows.
    std::size_t part = 1;
    for (std::size_t first = 0; first < set.labels.size();) {
      const PredictionBatch batch =
          set.view().rows(first, std::min<std::size_t>(83, set.labels.size() - first));
      for (std::size_t row = 0; row < batch.size();) {
        const std::size_t rows = std::min(part, batch.size() - row);
        part = part % 19 + 1;
        ahead.AddFirst(batch.rows(row, batch.size() - row), rows, parallel);
        singly.Add(batch.rows(row, rows));
        row += rows;
        const EvidenceReading of_ahead = ahead.Read();
        const EvidenceReading expected = singly.Read();
        ASSERT_EQ(of_ahead.count, expected.count);
        ASSERT_EQ(of_ahead.evidence.log10_e_value, expected.evidence.log10_e_value);
        ASSERT_EQ(of_ahead.maximum, expected.maximum);
        ASSERT_EQ(of_ahead.skce_unbiased, expected.skce_unbiased);
        ASSERT_EQ(ahead.maxima().log_shiryaev_roberts, expected.drift.maximum.log_value);
      }
      first += batch.size();
      ASSERT_EQ(ahead.Save(), singly.Save());
    }
  }
}

TEST(EvidenceTest, ContinuesWithTheSameBitsFromEveryPositionInAChunk) {
  const std::size_t m = 5;
  const PredictionSet set = Draw(GeneratorSpec::M2(m), 1200, 4);
  const auto basis = MakeBasis(m);
  auto whole = *EvidenceProcess::Create(basis);
  whole.Add(set.view());
  auto before = *EvidenceProcess::Create(basis);
  before.Add(set.view().rows(0, 1023));
  for (std::size_t cut = 1023; cut < 1090; ++cut) {
    auto after = *EvidenceProcess::Create(basis);
    ASSERT_TRUE(after.Restore(before.Save()).ok()) << cut;
    EXPECT_TRUE(after.Save() == before.Save()) << cut;
    EXPECT_EQ(after.Read().skce_unbiased, before.Read().skce_unbiased) << cut;
    after.Add(set.view().rows(cut, 1200 - cut));
    EXPECT_TRUE(after.Save() == whole.Save()) << cut;
    before.Add(set.view().row(cut), set.labels[cut]);
  }
}

TEST(EvidenceTest, TheRecentPastForgets) {
  const std::size_t m = 2;
  const auto basis = MakeBasis(m);
  const PredictionSet set = Draw(GeneratorSpec::M1(m), 16390, 4);
  auto process = *EvidenceProcess::Create(basis);
  ReferenceExperts recent(*basis, kDefaultTolerance, 1 - 1 / kMemory);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    recent.Join(set.view().row(i), static_cast<std::size_t>(set.labels[i]));
    process.Add(set.view().row(i), set.labels[i]);
  }
  const PastState state = process.Save().recent;
  EXPECT_EQ(state.weight, 1);
  for (std::size_t i = 0; i < state.witness.size(); ++i) {
    // 256 chunks, each with the rounding error of a float of size 10 or less.
    EXPECT_NEAR(state.witness[i], static_cast<double>(recent.witness()[i]), 1e-4);
  }
  for (std::size_t i = 0; i < state.class_expected.size(); ++i) {
    EXPECT_NEAR(state.class_expected[i], static_cast<double>(recent.class_expected()[i]), 1e-9);
  }
}

TEST(EvidenceTest, AStateOfAnOlderVersionContinuesInMidChunk) {
  const std::size_t m = 4;
  const auto basis = MakeBasis(m);
  const PredictionSet set = Draw(GeneratorSpec::M2(m), 1400, 8);
  auto process = *EvidenceProcess::Create(basis);
  process.Add(set.view().rows(0, 1024));
  // Older versions had neither chunks nor growths, and their recent past has a weight.
  EvidenceState old = process.Save();
  old.count = old.projections.count = 1030;
  old.e_growth = old.shiryaev_roberts_growth = {};
  old.recent.weight = 2;
  for (auto* const values : {&old.recent.fourier_sums, &old.recent.witness,
                             &old.recent.class_observed, &old.recent.class_expected}) {
    for (double& value : *values) value *= 2;
  }
  auto continued = *EvidenceProcess::Create(basis);
  ASSERT_TRUE(continued.Restore(old).ok());
  EXPECT_EQ(continued.Read().maximum, process.Read().maximum);
  EXPECT_EQ(continued.Read().evidence.log10_e_value, process.Read().evidence.log10_e_value);
  EXPECT_EQ(continued.Save().recent, process.Save().recent);
  // The next chunk ends at a multiple of 64.
  continued.Add(set.view().rows(1030, 57));
  EXPECT_EQ(continued.Save().pending_labels.size(), 57U);
  continued.Add(set.view().rows(1087, 1));
  EXPECT_TRUE(continued.Save().pending_labels.empty());
  EXPECT_GE(continued.Read().maximum.log_value, process.Read().maximum.log_value);
}

TEST(EvidenceTest, ContinuesASavedStateBitForBit) {
  const std::size_t m = 6;
  const auto basis = MakeBasis(m);
  for (const std::size_t cut : {0u, 1u, 333u, 16384u}) {
    const PredictionSet set = Draw(GeneratorSpec::M2(m), cut + 400, 8);
    auto whole = *EvidenceProcess::Create(basis);
    whole.Add(set.view());
    auto before = *EvidenceProcess::Create(basis);
    before.Add(set.view().rows(0, cut));
    auto after = *EvidenceProcess::Create(basis);
    ASSERT_TRUE(after.Restore(before.Save()).ok());
    EXPECT_TRUE(after.Save() == before.Save());
    after.Add(set.view().rows(cut, 400));
    EXPECT_TRUE(after.Save() == whole.Save()) << cut;
  }
}

TEST(EvidenceTest, RefusesAStateOfAnotherProcessAndChangesNothing) {
  const auto basis = MakeBasis(3);
  auto process = *EvidenceProcess::Create(basis);
  process.Add(Draw(GeneratorSpec::M1(3), 20, 1).view());
  const EvidenceState good = process.Save();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<EvidenceState> bad(16, good);
  bad[0].log_e.pop_back();
  bad[1].log_e[3] = nan;
  bad[2].log_shiryaev_roberts[0] = -1;
  bad[3].log_shiryaev_roberts.push_back(0);
  bad[4].count = -1;
  bad[5].maximum.at = 21;
  bad[6].all.weight = 2;
  bad[7].recent.weight = 0;
  bad[8].all.witness.pop_back();
  bad[9].recent.class_expected[5] = -1;
  bad[10].projections.count = 3;
  bad[11].recent.fourier_sums[0] = nan;
  bad[12].pending = {0.5, 0.25, 0.25};
  bad[12].pending_labels = {0};
  bad[13].pending.push_back(0.5);
  bad[14].e_growth[1] = 0;
  bad[15].shiryaev_roberts_growth.pop_back();
  bad.push_back(EvidenceProcess::Create(MakeBasis(4))->Save());
  auto in_chunk = *EvidenceProcess::Create(basis);
  in_chunk.Add(Draw(GeneratorSpec::M1(3), 33, 1).view());
  for (const int what : {0, 1, 2}) {
    bad.push_back(in_chunk.Save());
    ASSERT_EQ(bad.back().pending_labels.size(), 1U);
    if (what == 0) bad.back().pending_labels[0] = 3;
    if (what == 1) bad.back().pending[0] = 1.5;
    if (what == 2) bad.back().pending_product = nan;
  }
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(process.Restore(bad[i]).code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_TRUE(process.Save() == good) << i;
  }
}

TEST(EvidenceTest, CopiesAreIndependent) {
  const auto basis = MakeBasis(3);
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 50, 1);
  auto process = *EvidenceProcess::Create(basis);
  process.Add(set.view().rows(0, 30));
  EvidenceProcess copy = process;
  auto other = *EvidenceProcess::Create(MakeBasis(9), 0.1);
  other = process;
  process.Add(set.view().rows(30, 20));
  EXPECT_EQ(copy.Read().count, 30);
  copy.Add(set.view().rows(30, 20));
  other.Add(set.view().rows(30, 20));
  EXPECT_TRUE(copy.Save() == process.Save());
  EXPECT_TRUE(other.Save() == process.Save());
}

TEST(EvidenceTest, RestartedDetectorsKeepWhatTheyLearnt) {
  const auto basis = MakeBasis(3);
  const PredictionSet set = Draw(GeneratorSpec::M3(3), 300, 1);
  auto process = *EvidenceProcess::Create(basis);
  process.Add(set.view().rows(0, 200));
  const EvidenceState before = process.Save();
  process.RestartDrift(std::numeric_limits<double>::infinity());
  const EvidenceState after = process.Save();
  EXPECT_NEAR(process.Read().drift.log10_now, 0, 1e-15);
  EXPECT_EQ(after.shiryaev_roberts_maximum, (RunningMaximum{0, 200}));
  EXPECT_EQ(after.recent, before.recent);
  EXPECT_EQ(LogsOf(after).e, LogsOf(before).e);
  process.Add(set.view().rows(200, 100));
  EXPECT_GT(process.Read().drift.log10_now, 1);
  EXPECT_GT(process.Read().drift.maximum.at, 200);
}

}  // namespace
}  // namespace calibd
