#include "server/state/strand_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibd/core/generator.h"
#include "server/state/model.h"
#include "support/log_rows.h"

namespace calibd::server {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;

constexpr std::size_t kStrandStateClasses = 3;

struct TimedRow {
  LogRow row;
  microseconds time;
};

// Rows of 1 to 300 observations, first calibrated and later not, over several minutes. Some have
// times of their own or single precision; other kinds of rows come in between.
std::vector<TimedRow> Rows() {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(kStrandStateClasses), 1)->Draw(2000, set);
  Generator::Create(GeneratorSpec::M2(kStrandStateClasses), 2)->Draw(4000, set);
  std::vector<TimedRow> rows;
  std::size_t size = 1;
  for (std::size_t done = 0; done < set.labels.size(); done += size, size = (size * 7 + 5) % 301) {
    size = std::clamp<std::size_t>(size, 1, set.labels.size() - done);
    const microseconds time = seconds(1000 + rows.size() * 7);
    LogRow row = testing::ObservedRow(set.view().rows(done, size));
    auto& values = row.As<ObservationsRow>()->values;
    values.baseline_values.assign(values.values.rbegin(), values.values.rend());
    if (rows.size() % 11 == 3) values.times_s.assign(1, 900);
    values.single_precision = rows.size() % 13 == 5;
    rows.push_back({std::move(row), time});
    if (rows.size() % 17 == 2) rows.push_back({testing::RowOf(RejectedRow{.rows = 4}), time});
    if (done % 4 == 1) {
      rows.push_back({testing::RowOf(AcknowledgedRow{.alarm_id = 1, .note = "seen"}), time});
    }
  }
  return rows;
}

ModelDeclaration Declaration(std::size_t warmup) {
  ModelDeclaration declaration;
  declaration.name = {"m", ""};
  auto& classes = declaration.kind.emplace<ClassesSpec>();
  classes.count = kStrandStateClasses;
  classes.block_sizes = {2, 100};
  declaration.window = 500;
  classes.row_sum_tolerance = 1e-3;
  declaration.warmup = warmup;
  declaration.monitoring.min_observations = 50;
  if (warmup == 0) {
    classes.kernel.rule.bandwidth.kind = BandwidthRule::Kind::kFixed;
    classes.kernel.rule.bandwidth.fixed = 0.5;
  }
  return declaration;
}

// Applies this many rows at a time. Returns the saved state.
std::string StateAfter(const std::vector<TimedRow>& rows, const ModelDeclaration& declaration,
                       ThreadPool& pool, std::size_t together) {
  Model model(1, declaration, {}, {}, pool, nullptr);
  StrandState& state = model.strand_state();
  std::int64_t log_id = 0;
  for (const TimedRow& one : rows) {
    state.Append(one.row, ++log_id, one.time);
    if (static_cast<std::size_t>(log_id) % together == 0) state.ApplyAppended();
  }
  state.ApplyAppended();
  return state.Save().SerializeAsString();
}

TEST(StrandStateTest, RowsThatAreAppliedTogetherGiveTheBitsAndAlarmsOfSingleRows) {
  const std::vector<TimedRow> rows = Rows();
  ThreadPool pool("test", 3);
  for (const std::size_t warmup : {0U, 100U}) {
    for (const bool grouped : {false, true}) {
      ModelDeclaration declaration = Declaration(warmup);
      if (!grouped) std::get<ClassesSpec>(declaration.kind).baseline = "3";
      if (grouped) declaration.monitoring.group_tag = "site";
      const std::string expected = StateAfter(rows, declaration, pool, 1);
      store::v1::ModelState state;
      ASSERT_TRUE(state.ParseFromString(expected));
      std::set<int> kinds;
      for (const auto& alarm : state.monitor().alarms()) kinds.insert(alarm.kind());
      EXPECT_EQ(kinds.size(), 3U) << "each kind of alarm must occur";
      for (const std::size_t together : {2U, 5U, 1000U}) {
        EXPECT_EQ(StateAfter(rows, declaration, pool, together), expected)
            << warmup << ' ' << grouped << ' ' << together;
      }
    }
  }
}

// The evidence of the classes is added to that of the model when alarms are decided.
TEST(StrandStateTest, ABucketOfAnEarlierTimeHasTheEvidenceAfterItsRows) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(kStrandStateClasses), 2)->Draw(1200, set);
  ThreadPool pool("test", 1);
  Model model(1, Declaration(0), {}, {}, pool, nullptr);
  StrandState& state = model.strand_state();
  state.Apply(testing::ObservedRow(set.view().rows(0, 100)), 1, seconds(6000));
  for (int i = 1; i < 11; ++i) {
    LogRow row = testing::ObservedRow(set.view().rows(static_cast<std::size_t>(i) * 100, 100));
    row.As<ObservationsRow>()->values.times_s.assign(1, 900);
    state.Apply(row, i + 1, seconds(6000 + i));
    const auto& late = state.history().late();
    const auto minute =
        late.find({HistoryResolution::kMinute, std::chrono::sys_seconds(seconds(900))});
    ASSERT_NE(minute, late.end());
    ASSERT_TRUE(minute->second.watch.has_value());
    EXPECT_EQ(minute->second.watch, state.watch_mark()) << i;
  }
}

TEST(StrandStateTest, ARestoredComparisonContinuesWithTheSameBits) {
  const std::vector<TimedRow> rows = Rows();
  ThreadPool pool("test", 1);
  ModelDeclaration declaration = Declaration(0);
  std::get<ClassesSpec>(declaration.kind).baseline = "3";
  Model whole(1, declaration, {}, {}, pool, nullptr);
  Model restored(2, declaration, {}, {}, pool, nullptr);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto log_id = static_cast<std::int64_t>(i + 1);
    if (i == rows.size() / 2) {
      const store::v1::ModelState saved = whole.strand_state().Save();
      ASSERT_TRUE(restored.strand_state().Restore(saved).ok());
    }
    whole.strand_state().Apply(rows[i].row, log_id, rows[i].time);
    if (i >= rows.size() / 2) restored.strand_state().Apply(rows[i].row, log_id, rows[i].time);
  }
  store::v1::ModelState state = whole.strand_state().Save();
  EXPECT_EQ(state.comparison().brier().model().count(), 6000);
  EXPECT_EQ(restored.strand_state().Save().comparison().SerializeAsString(),
            state.comparison().SerializeAsString());

  // Sums that cannot belong to this model are damage.
  const auto refused = [&](const store::v1::ModelState& damaged) {
    Model model(3, declaration, {}, {}, pool, nullptr);
    return absl::IsDataLoss(model.strand_state().Restore(damaged));
  };
  EXPECT_FALSE(refused(state));
  store::v1::ModelState damaged = state;
  damaged.clear_comparison();
  EXPECT_TRUE(refused(damaged));
  damaged = state;
  damaged.mutable_comparison()->mutable_log_loss()->mutable_difference()->set_count(5999);
  EXPECT_TRUE(refused(damaged));
  damaged = state;
  damaged.mutable_comparison()->mutable_baseline_top_label()->set_counts(0, 1 << 20);
  EXPECT_TRUE(refused(damaged));
}

}  // namespace
}  // namespace calibd::server
