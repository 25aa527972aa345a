// A saved monitor continues with the same bits, and impossible states are refused.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "server/watch/monitor.h"
#include "unit/server/watched_model.h"

namespace calibd::server {
namespace {

class StoredMonitorTest : public ::testing::Test {
 protected:
  static void Apply(Model& model, const PredictionSet& set, std::size_t first, std::size_t last,
                    std::size_t batch) {
    for (std::size_t done = first; done < last; done += batch) {
      model.strand_state().Apply(testing::ObservedRow(set.view().rows(done, batch)), 0,
                                 std::chrono::seconds(done));
    }
  }

  ThreadPool pool_{"test", 1};
  const PredictionSet set_ = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 1000);
};

TEST_F(StoredMonitorTest, ContinuesASavedStateWithTheSameBitsAndAlarms) {
  for (const std::size_t warmup : {0U, 100U}) {
    const auto play = [&](Model& model, std::size_t first, std::size_t last) {
      for (std::size_t at = first; at < last; at += 50) {
        Apply(model, set_, at, at + 50, 50);
        if (at == 500) Acknowledge(model, "note", At(77));
      }
    };
    Model whole(1, Watched(warmup), {}, {}, pool_, nullptr);
    play(whole, 0, 1000);
    whole.Publish();
    ASSERT_GE(whole.snapshot()->monitor->alarms->size(), 3U);
    const std::string expected = whole.strand_state().Save().SerializeAsString();
    for (const std::size_t cut : {0U, 50U, 100U, 500U, 550U, 1000U}) {
      Model before(1, Watched(warmup), {}, {}, pool_, nullptr);
      play(before, 0, cut);
      Model after(1, Watched(warmup), {}, {}, pool_, nullptr);
      const absl::Status restored = after.strand_state().Restore(before.strand_state().Save());
      ASSERT_TRUE(restored.ok()) << restored;
      EXPECT_EQ(after.strand_state().Save().SerializeAsString(),
                before.strand_state().Save().SerializeAsString());
      after.strand_state().Refill(testing::ObservedRow(set_.view().rows(0, cut)), 0);
      play(after, cut, 1000);
      EXPECT_EQ(after.strand_state().Save().SerializeAsString(), expected) << cut;
    }
  }
}

TEST_F(StoredMonitorTest, RefusesImpossibleStates) {
  Model model(1, Watched(), {}, {}, pool_, nullptr);
  Apply(model, set_, 0, 400, 100);
  const store::v1::ModelState good = model.strand_state().Save();
  const auto code_after = [&](const std::function<void(store::v1::MonitorState&)>& change) {
    store::v1::ModelState state = good;
    change(*state.mutable_monitor());
    return Model(1, Watched(), {}, {}, pool_, nullptr).strand_state().Restore(state).code();
  };
  EXPECT_EQ(code_after([](auto&) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code_after([](auto& state) { state.clear_watch(); }), absl::StatusCode::kDataLoss);
  const std::vector<std::function<void(store::v1::MonitorState&)>> changes{
      [](auto& state) { state.mutable_watch()->clear_evidence(); },
      [](auto& state) { state.mutable_watch()->clear_reliability(); },
      [](auto& state) { state.mutable_watch()->mutable_evidence()->add_log_e(0); },
      [](auto& state) {
        state.mutable_watch()->mutable_evidence()->set_log_shiryaev_roberts(0, NAN);
      },
      [](auto& state) {
        state.mutable_watch()->mutable_evidence()->mutable_all()->mutable_witness()->RemoveLast();
      },
      [](auto& state) { state.mutable_watch()->mutable_reliability()->set_counts(3, -1); },
      [](auto& state) { state.mutable_watch()->mutable_reliability()->set_correct(14, 1 << 20); },
      [](auto& state) { state.mutable_watch()->mutable_reliability()->add_variances(0); },
      [](auto& state) { state.mutable_watch()->mutable_reliability()->set_log_loss(NAN); },
      [](auto& state) { state.mutable_alarms(0)->set_id(0); },
      [](auto& state) { state.mutable_alarms(0)->set_kind(3); },
      [](auto& state) { *state.add_alarms() = state.alarms(0); }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_EQ(code_after(changes[i]), absl::StatusCode::kDataLoss) << i;
  }
}

}  // namespace
}  // namespace calibd::server
