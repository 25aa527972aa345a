#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/bandwidth.h"
#include "calibd/core/class_evidence.h"
#include "server/kinds/classes/effect_size.h"
#include "server/watch/monitor.h"
#include "unit/server/watched_model.h"

namespace calibd::server {
namespace {

// A monitor that gets rows like a model's monitor, but without the model.
class MonitorTest : public ::testing::Test {
 protected:
  void Send(const PredictionSet& set, std::size_t batch) {
    for (std::size_t done = 0; done < set.labels.size(); done += batch) {
      observations_ += static_cast<std::int64_t>(batch);
      AddAndDecide(monitor_, set.view().rows(done, batch), At(observations_), observations_);
    }
  }

  static Monitoring AtOnce() {
    Monitoring monitoring;
    monitoring.min_observations = 1;
    return monitoring;
  }

  Monitoring monitoring_ = AtOnce();
  const std::unique_ptr<ClassMonitor> begun_ = BegunMonitor(monitoring_, kModelMonitorClasses);
  ClassMonitor& monitor_ = *begun_;
  std::int64_t observations_ = 0;
};

TEST(ModelMonitorTest, EvidenceIsThatOfTheRowsInOrderForAnyBatchesAndWarmup) {
  const PredictionSet set = DrawFrom(GeneratorSpec::M3(kModelMonitorClasses), 1000);
  ThreadPool pool("test", 1);
  for (const std::size_t warmup : {0U, 100U}) {
    const ModelDeclaration declaration = Watched(warmup);
    const double bandwidth =
        warmup == 0
            ? 0.5
            : *MedianBandwidth(set.view().rows(0, warmup).probabilities, kModelMonitorClasses);
    const auto basis =
        FourierBasis::Create(*Kernel::ExponentialTotalVariation(bandwidth), kModelMonitorClasses);
    auto process = EvidenceProcess::Create(*basis);
    process->Add(set.view());
    const EvidenceReading expected = process->Read();
    for (const std::vector<std::size_t>& cut :
         std::vector<std::vector<std::size_t>>{{1000}, {99, 1, 900}, {99, 2, 899}, {7, 993}}) {
      Model model(1, declaration, {}, {}, pool, nullptr);
      std::size_t done = 0;
      for (const std::size_t size : cut) {
        model.strand_state().Observe(set.view().rows(done, size));
        done += size;
      }
      model.Publish();
      const auto snapshot = model.snapshot();
      ASSERT_TRUE(snapshot->monitor.has_value());
      ASSERT_TRUE(snapshot->monitor->watch.has_value());
      const EvidenceReading& reading = snapshot->monitor->watch->reading;
      EXPECT_EQ(snapshot->monitor->watch->first_observation, 1);
      EXPECT_EQ(reading.count, 1000);
      EXPECT_EQ(reading.evidence.log10_e_value, expected.evidence.log10_e_value);
      EXPECT_EQ(reading.maximum, expected.maximum);
      EXPECT_EQ(reading.drift.log10_now, expected.drift.log10_now);
      EXPECT_EQ(reading.skce_unbiased, expected.skce_unbiased);
      EXPECT_EQ(reading.projections, expected.projections);
      EXPECT_EQ(snapshot->monitor->watch->As<ClassWatchDetails>()->reliability.Total().count, 1000);
    }
  }
}

TEST(ModelMonitorTest, WithoutAKernelOrMonitoringThereIsNoEvidence) {
  ThreadPool pool("test", 1);
  Model young(1, Watched(100), {}, {}, pool, nullptr);
  EXPECT_FALSE(young.snapshot()->monitor->watch.has_value());
  PredictionSet equal;
  equal.class_count = kModelMonitorClasses;
  for (int i = 0; i < 20; ++i) {
    equal.probabilities.insert(equal.probabilities.end(), {0.2, 0.3, 0.5});
    equal.labels.push_back(i % 3);
  }
  Model without_kernel(1, Watched(10), {}, {}, pool, nullptr);
  without_kernel.strand_state().Decide(without_kernel.strand_state().Observe(equal.view()), At(1));
  without_kernel.Publish();
  EXPECT_FALSE(without_kernel.snapshot()->lenses.front().kernel.has_value());
  EXPECT_FALSE(without_kernel.snapshot()->monitor->watch.has_value());
  EXPECT_EQ(without_kernel.snapshot()->monitor->last_counted_time, At(1));
  ModelDeclaration disabled = Watched();
  disabled.monitoring.disabled = true;
  EXPECT_FALSE(Model(1, disabled, {}, {}, pool, nullptr).snapshot()->monitor.has_value());
}

TEST(ModelMonitorTest, AWarmupOfMostlyEqualPredictionsIsFollowedByEvidence) {
  PredictionSet set = DrawFrom(GeneratorSpec::M1(kModelMonitorClasses), 20);
  for (int i = 0; i < 80; ++i) {
    set.probabilities.insert(set.probabilities.end(), {0.2, 0.3, 0.5});
    set.labels.push_back(i % 3);
  }
  ThreadPool pool("test", 1);
  Model model(1, Watched(100), {}, {}, pool, nullptr);
  model.strand_state().Decide(model.strand_state().Observe(set.view()), At(1));
  model.Publish();
  const auto snapshot = model.snapshot();
  EXPECT_EQ(snapshot->lenses.front().bandwidth_error, "");
  ASSERT_TRUE(snapshot->monitor->watch.has_value());
  EXPECT_EQ(snapshot->monitor->watch->reading.count, 100);
}

TEST(ModelMonitorTest, LensesWithAFixedBandwidthAnswerDuringTheWarmup) {
  const PredictionSet set = DrawFrom(GeneratorSpec::M1(kModelMonitorClasses), 120);
  ThreadPool pool("test", 1);
  ModelDeclaration declaration = Watched(100);
  std::get<ClassesSpec>(declaration.kind).lenses.push_back(Lens::TopLabel());
  Model model(1, declaration, {}, {}, pool, nullptr);
  model.strand_state().Observe(set.view().rows(0, 40));
  model.Publish();
  EXPECT_TRUE(model.snapshot()->warming_up());
  ASSERT_EQ(model.snapshot()->early_lenses.size(), 1U);
  EXPECT_FALSE(model.snapshot()->early_lenses[0].lens.is_canonical());
  EXPECT_EQ(model.snapshot()->early_lenses[0].blocks[0].moments.count, 20);
  // After the warm-up, every lens has counted every observation once.
  model.strand_state().Observe(set.view().rows(40, 80));
  model.Publish();
  EXPECT_FALSE(model.snapshot()->warming_up());
  EXPECT_TRUE(model.snapshot()->early_lenses.empty());
  for (const LensSnapshot& lens : model.snapshot()->lenses) {
    EXPECT_EQ(lens.blocks[0].moments.count, 60);
  }
}

TEST(EffectSizeTest, TheUpperBoundIsAtMostTheLargestSkce) {
  auto process =
      *EvidenceProcess::Create(*FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.5), 2));
  for (int i = 0; i < 300; ++i) process.Add(std::vector<double>{1, 0}, 1);
  const EffectSize effect = ComputeEffectSize(process.Read(), {}, 0.05);
  EXPECT_EQ(effect.skce_upper_bound, 2);
  EXPECT_LT(*effect.skce_lower_bound, 2);
}

TEST(EffectSizeTest, TheUpperBoundIsAtMostTwo) {
  EvidenceReading reading;
  reading.count = 1;
  reading.witness_norm = {.count = 1, .norm2 = 2, .square_sum = 2};
  EXPECT_EQ(ComputeEffectSize(reading, {}, 0.05).skce_upper_bound, 2);
}

TEST_F(MonitorTest, AnAlarmIsRaisedByTheFirstRowThatCrossesAndStays) {
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 500);
  auto basis = FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.5), kModelMonitorClasses);
  auto process = EvidenceProcess::Create(*basis);
  ClassEvidence classes(kModelMonitorClasses, kDefaultTolerance);
  std::int64_t evidence_at = 0;
  std::int64_t drift_at = 0;
  EvidenceReading at_alarm;
  for (std::size_t i = 0; i < 500; ++i) {
    process->Add(bad.view().row(i), bad.labels[i]);
    classes.Add(bad.view().rows(i, 1));
    process->Consider({.log_class_mean = classes.LogMean()});
    if (i % 64 == 63) process->RecordMaximum();
    const EvidenceReading reading = process->Read();
    if (evidence_at == 0 && reading.maximum.log_value >= std::log(20)) {
      evidence_at = reading.count;
      at_alarm = reading;
    }
    if (drift_at == 0 && reading.drift.maximum.log_value >= std::log1p(1e6)) {
      drift_at = reading.count;
    }
  }
  ASSERT_GT(evidence_at, 1);
  ASSERT_GT(drift_at, evidence_at);
  Send(bad, 1);
  const auto alarms = monitor_.Snapshot().alarms;
  ASSERT_EQ(alarms->size(), 2U);
  const Alarm& evidence = alarms->front();
  EXPECT_EQ(evidence.id, 1);
  EXPECT_EQ(evidence.kind, Alarm::Kind::kEvidence);
  EXPECT_EQ(evidence.observation, evidence_at);
  EXPECT_EQ(evidence.raise_time, At(evidence_at));
  EXPECT_DOUBLE_EQ(evidence.threshold, std::log10(20));
  EXPECT_DOUBLE_EQ(evidence.log10_value, at_alarm.maximum.log_value / std::log(10));
  EXPECT_EQ(evidence.skce, at_alarm.skce_unbiased);
  EXPECT_EQ(evidence.skce_lower_bound, ComputeEffectSize(at_alarm, {}, 0.05).skce_lower_bound);
  EXPECT_TRUE(evidence.skce_lower_bound.has_value());
  EXPECT_EQ(evidence.family_share, at_alarm.evidence.family_share);
  EXPECT_FALSE(evidence.acknowledge_time.has_value());
  // The row at which the alarm is raised does not depend on the batches.
  const auto at_once = BegunMonitor(monitoring_, kModelMonitorClasses);
  AddAndDecide(*at_once, bad.view(), At(9), static_cast<std::int64_t>(bad.labels.size()));
  const auto same = at_once->Snapshot().alarms;
  ASSERT_EQ(same->size(), 2U);
  EXPECT_EQ(same->front().observation, evidence_at);
  EXPECT_EQ(same->back().observation, drift_at);
  const Alarm& drift = alarms->back();
  EXPECT_EQ(drift.id, 2);
  EXPECT_EQ(drift.kind, Alarm::Kind::kDrift);
  EXPECT_EQ(drift.observation, drift_at);
  EXPECT_DOUBLE_EQ(drift.threshold, std::log10(1e6 + 1));

  // Good data does not withdraw the alarm.
  Send(DrawFrom(GeneratorSpec::M1(kModelMonitorClasses), 2000), 100);
  ASSERT_EQ(monitor_.Snapshot().alarms->size(), 2U);
  EXPECT_EQ(monitor_.Snapshot().FindActive(Alarm::Kind::kEvidence)->observation, evidence_at);
}

TEST_F(MonitorTest, AnAlarmOfTheClassesDoesNotDependOnTheBatches) {
  // The odds of one class are three times the predicted ones. In about half of the streams, the
  // evidence against classes reveals that first.
  constexpr std::size_t kFew = 5;
  constexpr std::size_t kRows = 1000;
  int of_classes = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    PredictionSet set = DrawFrom(GeneratorSpec::M1(kFew), kRows, seed);
    std::mt19937_64 rng(seed);
    for (std::size_t i = 0; i < kRows; ++i) {
      std::vector<double> q(set.view().row(i).begin(), set.view().row(i).end());
      q[0] *= 3;
      std::discrete_distribution<std::int32_t> label(q.begin(), q.end());
      set.labels[i] = label(rng);
    }
    std::optional<Alarm> first;
    std::optional<RunningMaximum> first_maximum;
    for (const std::size_t batch : {kRows, std::size_t{1}, std::size_t{7}, std::size_t{50}}) {
      const auto monitor = BegunMonitor(monitoring_, kFew);
      for (std::size_t done = 0; done < kRows; done += batch) {
        const std::size_t rows = std::min(batch, kRows - done);
        AddAndDecide(*monitor, set.view().rows(done, rows), At(1),
                     static_cast<std::int64_t>(done + rows));
      }
      const MonitorSnapshot snapshot = monitor->Snapshot();
      const Alarm* const alarm = snapshot.FindActive(Alarm::Kind::kEvidence);
      ASSERT_NE(alarm, nullptr) << batch;
      if (!first.has_value()) {
        first = *alarm;
        first_maximum = snapshot.watch->reading.maximum;
      }
      EXPECT_EQ(alarm->observation, first->observation) << batch;
      EXPECT_EQ(snapshot.watch->reading.maximum, *first_maximum) << batch;
      // 1000 is no multiple of 64, so that the classes of the last rows are not recorded yet.
      EXPECT_LE(snapshot.watch->reading.evidence.log10_e_value * std::numbers::ln10,
                first_maximum->log_value * (1 + 1e-12));
    }
    if (first->observation % 64 == 0) ++of_classes;
  }
  EXPECT_GE(of_classes, 2);
}

TEST_F(MonitorTest, MiscalibratedClassesAreRejectedAndShown) {
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 1000);
  Send(bad, 100);
  ClassEvidence expected(kModelMonitorClasses, monitoring_.tolerance);
  expected.Add(bad.view());
  const WatchSnapshot snapshot = *monitor_.Snapshot().watch;
  const auto& watch = *snapshot.As<ClassWatchDetails>();
  EXPECT_EQ(watch.rejected_classes, static_cast<std::int64_t>(kModelMonitorClasses));
  ASSERT_EQ(watch.deviating_classes.size(), kModelMonitorClasses);
  for (const DeviatingClass& one : watch.deviating_classes) {
    EXPECT_EQ(one.log10_e_value, expected.Log10EValue(one.index));
    EXPECT_TRUE(one.rejected);
  }
  // The restored state continues with the same bits.
  store::v1::MonitorState stored;
  monitor_.Save(stored);
  const auto restored = BegunMonitor(monitoring_, kModelMonitorClasses);
  ASSERT_TRUE(restored->Restore(stored).ok());
  const WatchSnapshot again = *restored->Snapshot().watch;
  EXPECT_EQ(again.As<ClassWatchDetails>()->deviating_classes[0].log10_e_value,
            watch.deviating_classes[0].log10_e_value);
}

TEST_F(MonitorTest, ARejectedClassIsShownEvenIfItsFrequencyIsRight) {
  // The predictions of the first of seven classes are too bold, but its frequency is as predicted;
  // the others deviate by chance.
  constexpr std::size_t kM = 7;
  const auto monitor = BegunMonitor(monitoring_, kM);
  PredictionSet set;
  set.class_count = kM;
  for (int i = 0; i < 1200; ++i) {
    const bool bold = i % 2 == 0;
    set.probabilities.push_back(bold ? 0.94 : 0.04);
    // .7 of the time if .94 is predicted, and .3 of the time if .04 is predicted.
    const bool comes = bold ? i % 20 < 14 : i % 20 > 13;
    for (std::size_t k = 1; k < kM; ++k) set.probabilities.push_back((bold ? 0.06 : 0.96) / 6);
    set.labels.push_back(comes ? 0 : 1 + i / 2 % 5);
  }
  AddAndDecide(*monitor, set.view(), At(1), 1200);
  const WatchSnapshot snapshot = *monitor->Snapshot().watch;
  const auto& watch = *snapshot.As<ClassWatchDetails>();
  ASSERT_GT(watch.deviating_classes.size(), EvidenceWatch::kShownClasses);
  const DeviatingClass& shown = watch.deviating_classes[EvidenceWatch::kShownClasses];
  EXPECT_EQ(shown.index, 0U);
  EXPECT_TRUE(shown.rejected);
  EXPECT_GT(shown.log10_e_value, 10);
}

TEST_F(MonitorTest, TheGapOfAnAlarmIsConfidenceMinusAccuracy) {
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 200);
  Send(bad, 200);
  double confidence = 0;
  double correct = 0;
  for (std::size_t i = 0; i < 200; ++i) {
    const auto row = bad.view().row(i);
    const auto top = std::max_element(row.begin(), row.end());
    confidence += *top;
    correct += top - row.begin() == bad.labels[i] ? 1 : 0;
  }
  EXPECT_NEAR(monitor_.Snapshot().alarms->front().gap, (confidence - correct) / 200, 1e-12);
}

TEST_F(MonitorTest, AcknowledgingAnEvidenceAlarmRestartsTheWatch) {
  Send(DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 300), 100);
  ASSERT_NE(monitor_.Snapshot().FindActive(Alarm::Kind::kEvidence), nullptr);
  monitor_.Acknowledge(1, "retrained", At(1000), observations_);
  MonitorSnapshot snapshot = monitor_.Snapshot();
  EXPECT_EQ(snapshot.FindAlarm(1)->acknowledge_time, At(1000));
  EXPECT_EQ(snapshot.FindAlarm(1)->note, "retrained");
  EXPECT_EQ(snapshot.FindActive(Alarm::Kind::kEvidence), nullptr);
  EXPECT_EQ(snapshot.watch->first_observation, 301);
  EXPECT_EQ(snapshot.watch->reading.count, 0);
  EXPECT_EQ(snapshot.watch->reading.maximum.log_value, 0);
  EXPECT_EQ(snapshot.watch->As<ClassWatchDetails>()->reliability.Total().count, 0);

  // A second acknowledgement and an unknown alarm change nothing.
  monitor_.Acknowledge(1, "again", At(2000), observations_);
  monitor_.Acknowledge(77, "", At(2000), observations_);
  EXPECT_EQ(monitor_.Snapshot().FindAlarm(1)->note, "retrained");
  EXPECT_EQ(monitor_.Snapshot().FindAlarm(77), nullptr);

  const PredictionSet good = DrawFrom(GeneratorSpec::M1(kModelMonitorClasses), 1000);
  Send(good, 100);
  snapshot = monitor_.Snapshot();
  EXPECT_EQ(snapshot.FindActive(Alarm::Kind::kEvidence), nullptr);
  auto process = EvidenceProcess::Create(
      *FourierBasis::Create(*Kernel::ExponentialTotalVariation(0.5), kModelMonitorClasses));
  process->Add(good.view());
  ClassEvidence classes(kModelMonitorClasses, kDefaultTolerance);
  classes.Add(good.view());
  process->Consider({.log_class_mean = classes.LogMean()});
  EXPECT_EQ(snapshot.watch->reading.evidence.log10_e_value, process->Read().evidence.log10_e_value);
  // A new alarm can be raised.
  Send(DrawFrom(GeneratorSpec::M3(kModelMonitorClasses), 2000), 100);
  ASSERT_NE(monitor_.Snapshot().FindActive(Alarm::Kind::kEvidence), nullptr);
  EXPECT_GT(monitor_.Snapshot().FindActive(Alarm::Kind::kEvidence)->id, 1);
}

TEST_F(MonitorTest, DriftAfterManyGoodObservationsRaisesOneAlarmUntilAcknowledged) {
  Send(DrawFrom(GeneratorSpec::M1(kModelMonitorClasses), 5000), 100);
  ASSERT_TRUE(monitor_.Snapshot().alarms->empty());
  Send(DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 500), 50);
  const Alarm* drift = monitor_.Snapshot().FindActive(Alarm::Kind::kDrift);
  ASSERT_NE(drift, nullptr);
  EXPECT_GT(drift->observation, 5000);
  const EvidenceReading before = monitor_.Snapshot().watch->reading;
  monitor_.Acknowledge(drift->id, "", At(1), observations_);
  MonitorSnapshot snapshot = monitor_.Snapshot();
  EXPECT_EQ(snapshot.FindActive(Alarm::Kind::kDrift), nullptr);
  EXPECT_NEAR(snapshot.watch->reading.drift.log10_now, 0, 1e-12);
  // The evidence continues.
  EXPECT_EQ(snapshot.watch->reading.count, before.count);
  EXPECT_EQ(snapshot.watch->reading.evidence.log10_e_value, before.evidence.log10_e_value);
  const std::size_t alarms = snapshot.alarms->size();
  Send(DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 500, 6), 50);
  snapshot = monitor_.Snapshot();
  ASSERT_NE(snapshot.FindActive(Alarm::Kind::kDrift), nullptr);
  EXPECT_GT(snapshot.alarms->size(), alarms);
}

TEST_F(MonitorTest, KeepsTheNewestAndTheActiveAlarms) {
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kModelMonitorClasses), 100);
  // The drift alarm that is raised with the first evidence alarm stays active all the time.
  std::int64_t acknowledged = 0;
  for (int i = 0; i < 120; ++i) {
    Send(bad, 100);
    const MonitorSnapshot snapshot = monitor_.Snapshot();
    const Alarm* const alarm = snapshot.FindActive(Alarm::Kind::kEvidence);
    ASSERT_NE(alarm, nullptr);
    monitor_.Acknowledge(alarm->id, std::to_string(i), At(i), observations_);
    acknowledged = alarm->id;
  }
  const MonitorSnapshot snapshot = monitor_.Snapshot();
  EXPECT_EQ(snapshot.alarms->size(), AlarmLog::kMostAlarms);
  EXPECT_EQ(snapshot.alarms->back().id, acknowledged);
  EXPECT_EQ(acknowledged, 121);
  ASSERT_NE(snapshot.FindActive(Alarm::Kind::kDrift), nullptr);
  EXPECT_EQ(snapshot.FindActive(Alarm::Kind::kDrift)->id, 2);
  EXPECT_EQ(snapshot.FindAlarm(1), nullptr);
}

}  // namespace
}  // namespace calibd::server
