// A reference period: its declaration, the alarm CHANGED and the state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "server/answers/calibration_proto.h"
#include "server/state/check_declaration.h"
#include "server/state/disk_use.h"
#include "server/state/strand_state.h"
#include "server/state/update_declaration.h"
#include "unit/server/golden_blob.h"
#include "unit/server/watched_model.h"

namespace calibd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kReferenceRoom = std::size_t{1} << 30;
constexpr std::size_t kReferenceRows = 1000;

v1::Model ReferenceModel(std::int64_t rows = kReferenceRows) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(3);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.3);
  model.mutable_monitoring()->set_reference_rows(rows);
  return model;
}
ModelDeclaration ReferenceDeclaration(const v1::Model& model) {
  return CheckDeclaration(model, kReferenceRoom).value();
}
std::string ReferenceRefusal(const v1::Model& model) {
  return std::string(CheckDeclaration(model, kReferenceRoom).status().message());
}

// Rows whose labels are those of the predictions, or uniform with the probability pi.
PredictionSet ReferenceStream(std::size_t count, double pi, std::uint64_t seed) {
  GeneratorSpec spec = GeneratorSpec::M3(3);
  spec.pi = pi;
  spec.alpha.assign(3, .5);
  return DrawFrom(spec, count, seed);
}

class ReferenceWatchTest : public ::testing::Test {
 protected:
  using Strand = std::unique_ptr<StrandState>;

  static Strand Begin(const v1::Model& model = ReferenceModel()) {
    return std::make_unique<StrandState>(
        std::make_shared<const ModelDeclaration>(ReferenceDeclaration(model)));
  }
  // Sends the rows in batches of this size, each at its own second.
  void Send(StrandState& state, const PredictionSet& set, std::size_t batch) {
    for (std::size_t done = 0; done < set.labels.size(); done += batch) {
      const std::size_t rows = std::min(batch, set.labels.size() - done);
      ++log_id_;
      state.Apply(testing::ObservedRow(set.view().rows(done, rows)), log_id_,
                  std::chrono::seconds(log_id_));
    }
  }
  static Strand Restored(const StrandState& state, const v1::Model& model = ReferenceModel()) {
    Strand restored = Begin(model);
    const auto status = restored->Restore(state.Save());
    EXPECT_TRUE(status.ok()) << status;
    return restored;
  }
  void Acknowledge(StrandState& state, std::int64_t alarm) {
    ++log_id_;
    state.Apply(testing::RowOf(AcknowledgedRow{.alarm_id = alarm, .note = "seen"}), log_id_,
                std::chrono::seconds(log_id_));
  }
  void Update(StrandState& state, const std::string& path, const v1::Model& model) {
    DeclarationUpdate update{.model = model, .mask = {}};
    update.mask.add_paths(path);
    ++log_id_;
    state.Apply(testing::RowOf(UpdatedRow{.update = update}), log_id_,
                std::chrono::seconds(log_id_));
  }
  static std::string Bytes(const StrandState& state) {
    return state.Save().monitor().SerializeAsString();
  }

  std::int64_t log_id_ = 0;
};

TEST_F(ReferenceWatchTest, IsDeclared) {
  const ModelDeclaration declaration = ReferenceDeclaration(ReferenceModel());
  EXPECT_EQ(declaration.monitoring.reference_rows, 1000);
  EXPECT_EQ(ReferenceDeclaration(ToProto(declaration)), declaration);
  EXPECT_GT(DiskUse(declaration), DiskUse(ReferenceDeclaration(ReferenceModel(0))));
  EXPECT_EQ(ToProto(ReferenceDeclaration(ReferenceModel(0))).monitoring().reference_rows(), 0);
  for (const std::int64_t wrong : {-1, 999, 1000001}) {
    EXPECT_THAT(ReferenceRefusal(ReferenceModel(wrong)),
                HasSubstr("model.monitoring.reference_rows is " + std::to_string(wrong)));
  }
}

TEST_F(ReferenceWatchTest, ModelsWhoseErrorCannotBeComparedAreRefused) {
  v1::Model forecast = ReferenceModel();
  forecast.mutable_forecast()->mutable_normal();
  EXPECT_THAT(ReferenceRefusal(forecast), HasSubstr("reference_rows is 1000, expected none because "
                                                    "only the error of a model of classes"));
  v1::Model labels = ReferenceModel();
  labels.mutable_labels()->add_names("a");
  EXPECT_THAT(ReferenceRefusal(labels), HasSubstr("only the error of a model of classes"));
}

TEST_F(ReferenceWatchTest, AStableWrongModelIsOffAndHasNotChanged) {
  const Strand state = Begin();
  Send(*state, ReferenceStream(6000, .5, 3), 100);
  const auto snapshot = state->Snapshot();
  EXPECT_NE(snapshot->monitor->FindActive(Alarm::Kind::kEvidence), nullptr);
  EXPECT_EQ(snapshot->monitor->FindActive(Alarm::Kind::kChanged), nullptr);
  EXPECT_EQ(snapshot->monitor->reference->changed_at, 0);
  EXPECT_EQ(snapshot->monitor->reference->rows, 6000);
  EXPECT_EQ(snapshot->monitor->reference->start_time, At(1));
  EXPECT_EQ(snapshot->monitor->reference->end_time, At(10));
}

TEST_F(ReferenceWatchTest, AChangeRaisesOneAlarmAtItsRowForAnyBatches) {
  std::int64_t observation = 0;
  for (const std::size_t batch : {1U, 250U, 1500U}) {
    log_id_ = 0;
    const Strand state = Begin();
    Send(*state, ReferenceStream(1500, .1, 3), batch);
    EXPECT_EQ(state->Snapshot()->monitor->FindActive(Alarm::Kind::kChanged), nullptr);
    Send(*state, ReferenceStream(1500, .6, 4), batch);
    const auto snapshot = state->Snapshot();
    const Alarm* const alarm = snapshot->monitor->FindActive(Alarm::Kind::kChanged);
    ASSERT_NE(alarm, nullptr);
    EXPECT_EQ(snapshot->monitor->raised, (Alarm::Counts{1, snapshot->monitor->raised[1], 1, 1}));
    if (observation == 0) observation = alarm->observation;
    EXPECT_EQ(alarm->observation, observation);
    EXPECT_GT(alarm->observation, 1500);
    EXPECT_EQ(snapshot->monitor->reference->changed_at, alarm->observation);
    EXPECT_NEAR(alarm->threshold, std::log10(20), 1e-12);
    EXPECT_GE(alarm->log10_value, alarm->threshold);
    ASSERT_TRUE(alarm->finding.has_value());
    EXPECT_TRUE(alarm->finding->more_errors);
    EXPECT_GT(alarm->finding->direction_share, .9);
    EXPECT_NEAR(static_cast<double>(alarm->finding->since_observation), 1501, 150);
    EXPECT_EQ(alarm->finding->since_observation + alarm->finding->observations - 1, observation);
    EXPECT_GT(static_cast<double>(alarm->finding->wrong), alarm->finding->expected_wrong);
  }
}

TEST_F(ReferenceWatchTest, ARestoredStateContinuesWithEqualBits) {
  const PredictionSet before = ReferenceStream(1300, .1, 3);
  const PredictionSet after = ReferenceStream(1700, .6, 4);
  const Strand whole = Begin();
  Send(*whole, before, 100);
  Send(*whole, after, 100);
  log_id_ = 0;
  Strand part = Begin();
  for (const PredictionSet* const set : {&before, &after}) {
    for (std::size_t done = 0; done < set->labels.size(); done += 100) {
      PredictionSet one;
      one.class_count = 3;
      const PredictionBatch rows = set->view().rows(done, 100);
      one.probabilities.assign(rows.probabilities.begin(), rows.probabilities.end());
      one.labels.assign(rows.labels.begin(), rows.labels.end());
      part = Restored(*part);
      Send(*part, one, 100);
    }
  }
  ASSERT_EQ(whole->Snapshot()->monitor->raised[3], 1);
  EXPECT_EQ(Bytes(*part), Bytes(*whole));
  // Its alarm is not raised again.
  part = Restored(*part);
  Send(*part, ReferenceStream(10, .6, 5), 10);
  EXPECT_EQ(part->Snapshot()->monitor->raised[3], 1);
}

TEST_F(ReferenceWatchTest, AnAcknowledgementBeginsANewReference) {
  const Strand state = Begin();
  Send(*state, ReferenceStream(1500, .1, 3), 100);
  Send(*state, ReferenceStream(1500, .6, 4), 100);
  const auto* alarm = state->Snapshot()->monitor->FindActive(Alarm::Kind::kChanged);
  ASSERT_NE(alarm, nullptr);
  const std::int64_t evidence = state->Snapshot()->monitor->watch->first_observation;
  Acknowledge(*state, alarm->id);
  const auto snapshot = state->Snapshot();
  EXPECT_EQ(snapshot->monitor->FindActive(Alarm::Kind::kChanged), nullptr);
  EXPECT_EQ(snapshot->monitor->reference->first_observation, 3001);
  EXPECT_EQ(snapshot->monitor->reference->rows, 0);
  // The alarm of the evidence stays: nothing else begins anew.
  EXPECT_EQ(snapshot->monitor->watch->first_observation, evidence);
  EXPECT_NE(snapshot->monitor->FindActive(Alarm::Kind::kEvidence), nullptr);
  // The new state is the reference now.
  Send(*state, ReferenceStream(4000, .6, 5), 100);
  EXPECT_EQ(state->Snapshot()->monitor->raised[3], 1);
  Send(*state, ReferenceStream(3000, 0, 6), 100);
  const auto recovered = state->Snapshot();
  alarm = recovered->monitor->FindActive(Alarm::Kind::kChanged);
  ASSERT_NE(alarm, nullptr);
  EXPECT_FALSE(alarm->finding->more_errors);
}

TEST_F(ReferenceWatchTest, UpdatesBeginAReferenceOrItsBets) {
  const Strand state = Begin(ReferenceModel(0));
  Send(*state, ReferenceStream(700, .1, 3), 100);
  EXPECT_FALSE(state->Snapshot()->monitor->reference.has_value());
  Update(*state, "monitoring.reference_rows", ReferenceModel());
  EXPECT_EQ(state->Snapshot()->monitor->reference->first_observation, 701);
  EXPECT_THAT(state->updates().back().restarts(), ElementsAre(v1::ModelUpdate::REFERENCE));
  Send(*state, ReferenceStream(1200, .1, 4), 100);
  EXPECT_EQ(state->Snapshot()->monitor->reference->reading.bets, 200);
  v1::Model level = ReferenceModel();
  level.mutable_monitoring()->set_significance_level(.01);
  Update(*state, "monitoring.significance_level", level);
  EXPECT_EQ(state->Snapshot()->monitor->reference->first_observation, 701);
  EXPECT_EQ(state->Snapshot()->monitor->reference->rows, 1200);
  EXPECT_EQ(state->Snapshot()->monitor->reference->reading.bets, 0);
  EXPECT_EQ(state->updates().back().restarts().rbegin()[0], v1::ModelUpdate::REFERENCE_BETS);
  Send(*state, ReferenceStream(50, .1, 5), 50);
  EXPECT_EQ(Bytes(*Restored(*state, ReferenceModel(0))), Bytes(*state));
  Update(*state, "monitoring.reference_rows", ReferenceModel(0));
  EXPECT_FALSE(state->Snapshot()->monitor->reference.has_value());
  EXPECT_FALSE(state->Save().monitor().has_reference());
  EXPECT_EQ(Bytes(*Restored(*state, ReferenceModel(0))), Bytes(*state));
}

TEST_F(ReferenceWatchTest, AStoredStateIsTheGoldenOne) {
  const Strand state = Begin();
  Send(*state, ReferenceStream(1500, .1, 3), 100);
  Send(*state, ReferenceStream(1500, .6, 4), 100);
  const store::v1::MonitorState stored = state->Save().monitor();
  ExpectGolden("reference_state", stored.reference().SerializeAsString());
  const auto alarm = std::ranges::find_if(stored.alarms(), &store::v1::Alarm::has_finding);
  ASSERT_NE(alarm, stored.alarms().end());
  EXPECT_EQ(alarm->kind(), static_cast<int>(Alarm::Kind::kChanged));
  ExpectGolden("reference_finding", alarm->finding().SerializeAsString());
}

TEST_F(ReferenceWatchTest, AStateThatCannotBeIsRefused) {
  const Strand state = Begin();
  Send(*state, ReferenceStream(1300, .1, 3), 100);
  const store::v1::ModelState good = state->Save();
  const auto refusal = [&good](const auto& damage) {
    store::v1::ModelState stored = good;
    damage(*stored.mutable_monitor());
    return std::string(Begin()->Restore(stored).message());
  };
  EXPECT_EQ(refusal([](auto&) {}), "");
  EXPECT_THAT(refusal([](auto& m) { m.clear_reference(); }), HasSubstr("reference"));
  EXPECT_THAT(refusal([](auto& m) { m.mutable_reference()->set_rows(1299); }),
              HasSubstr("has a reference that cannot be"));
  EXPECT_THAT(refusal([](auto& m) { m.mutable_reference()->set_first_observation(0); }),
              HasSubstr("has a reference that cannot be"));
  EXPECT_NE(refusal([](auto& m) { m.mutable_reference()->mutable_wealth()->RemoveLast(); }), "");
  store::v1::ModelState other = good;
  EXPECT_THAT(std::string(Begin(ReferenceModel(0))->Restore(other).message()),
              HasSubstr("reference"));
}

}  // namespace
}  // namespace calibd::server
