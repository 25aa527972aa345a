// The continuous monitoring of a model: verdict, alarms and their acknowledgement, over the wire
// and across restarts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibd/core/class_evidence.h"
#include "calibd/core/confidence_sequence.h"
#include "calibd/core/evidence.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_reliability.h"
#include "integration/server/monitored_server.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(MonitoringTest, AMiscalibratedModelIsDetectedAndTheVerdictStays) {
  Create(Declared());
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 300);
  Send(bad);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  EXPECT_FALSE(answer.verdict().stale());
  EXPECT_THAT(answer.reading().verdict().text(), HasSubstr(", MISCALIBRATED"));
  EXPECT_TRUE(answer.verdict().has_since());
  EXPECT_GT(answer.verdict().evidence_families_size(), 0);

  // The numbers follow from the rows.
  auto process = EvidenceProcess::Create(*FourierBasis::Create(
      *Kernel::ExponentialTotalVariation(kMonitoringBandwidth), kMonitoringClasses));
  process->Add(bad.view());
  const EvidenceReading expected = process->Read();
  const v1::Watch& watch = answer.watch();
  EXPECT_EQ(watch.observations(), 300);
  EXPECT_EQ(watch.first_observation(), 1);
  EXPECT_EQ(watch.unavailable_reason(), "");
  EXPECT_EQ(watch.evidence().log10_e_value(), expected.evidence.log10_e_value);
  EXPECT_DOUBLE_EQ(watch.evidence().max_log10_e_value(), expected.maximum.log_value / std::log(10));
  EXPECT_EQ(watch.evidence().max_observation(), expected.maximum.at);
  EXPECT_EQ(watch.evidence().anytime_p_value(), AnytimePValue(expected.maximum));
  EXPECT_DOUBLE_EQ(watch.evidence().threshold(), std::log10(20));
  EXPECT_TRUE(watch.evidence().valid_for_repeated_looks());
  double shares = 0;
  for (const auto& family : watch.evidence().families()) shares += family.share();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_EQ(watch.drift().log10_statistic(), expected.drift.log10_now);
  EXPECT_DOUBLE_EQ(watch.drift().threshold(), std::log10(1e6 + 1));
  const v1::EffectSize& effect = watch.effect_size();
  EXPECT_EQ(effect.skce(), *expected.skce_unbiased);
  const double kce =
      std::max(0.0, *LowerConfidenceSequence(expected.projections, kProjectionBound, 0.025));
  EXPECT_DOUBLE_EQ(effect.skce_lower_bound(), kce * kce);
  EXPECT_GT(effect.skce(), effect.skce_lower_bound());
  EXPECT_LT(effect.one_look_p_value(), 1e-6);

  const v1::Alarm& alarm = answer.alarms(answer.alarms_size() - 1);
  EXPECT_EQ(alarm.id(), 1);
  EXPECT_EQ(alarm.kind(), v1::Alarm::EVIDENCE);
  EXPECT_FALSE(alarm.has_acknowledge_time());
  EXPECT_EQ(alarm.observation(), answer.verdict().since_observation());
  EXPECT_EQ(alarm.raise_time().ShortDebugString(), answer.verdict().since().ShortDebugString());

  // Neither calibrated data nor a restart withdraws the alarm.
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 1000));
  const v1::GetCalibrationResponse before = Answer();
  server_->Kill();
  Start();
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  EXPECT_EQ(answer.verdict().DebugString(), before.verdict().DebugString());
  EXPECT_EQ(answer.watch().DebugString(), before.watch().DebugString());
  ASSERT_EQ(answer.alarms_size(), before.alarms_size());
  for (int i = 0; i < answer.alarms_size(); ++i) {
    EXPECT_EQ(answer.alarms(i).DebugString(), before.alarms(i).DebugString());
  }
}

TEST_F(MonitoringTest, ReportsDirectionAndPlace) {
  v1::Model model = Declared();
  for (const char* name : {"a", "b", "c", "d"}) model.mutable_classes()->add_names(name);
  Create(model);
  // Half of the labels are the first class.
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 2000);
  Send(bad, 500);
  double confidence = 0;
  std::int64_t correct = 0;
  double predicted = 0;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < 2000; ++i) {
    const auto row = bad.view().row(i);
    const auto top = std::max_element(row.begin(), row.end());
    confidence += *top;
    correct += top - row.begin() == bad.labels[i] ? 1 : 0;
    predicted += row[0];
    first += bad.labels[i] == 0 ? 1 : 0;
  }
  const v1::GetCalibrationResponse answer = Answer();
  const v1::Direction& direction = answer.verdict().direction();
  EXPECT_NEAR(direction.mean_confidence(), confidence / 2000, 1e-12);
  EXPECT_DOUBLE_EQ(direction.accuracy(), static_cast<double>(correct) / 2000);
  EXPECT_NEAR(direction.gap(), direction.mean_confidence() - direction.accuracy(), 1e-12);
  EXPECT_GT(direction.gap(), 5 * direction.gap_standard_deviation());
  const v1::Whereabouts& whereabouts = answer.verdict().whereabouts();
  ASSERT_EQ(whereabouts.classes_size(), static_cast<int>(kMonitoringClasses));
  EXPECT_EQ(whereabouts.classes(0).class_index(), 0);
  EXPECT_EQ(whereabouts.classes(0).class_name(), "a");
  EXPECT_DOUBLE_EQ(whereabouts.classes(0).observed(), static_cast<double>(first) / 2000);
  EXPECT_NEAR(whereabouts.classes(0).predicted(), predicted / 2000, 1e-12);
  EXPECT_GT(whereabouts.classes(0).z(), 5);
  EXPECT_TRUE(whereabouts.classes(0).stands_out());
  ClassEvidence of_classes(kMonitoringClasses, kDefaultTolerance);
  of_classes.Add(bad.view());
  EXPECT_EQ(whereabouts.classes(0).log10_e_value(), of_classes.Log10EValue(0));
  EXPECT_TRUE(whereabouts.classes(0).rejected());
  EXPECT_EQ(whereabouts.rejected_classes(), static_cast<std::int64_t>(kMonitoringClasses));
  std::int64_t binned = 0;
  for (const auto& bin : whereabouts.confidence_bins()) {
    EXPECT_GT(bin.observations(), 0);
    EXPECT_GE(bin.mean_confidence(), bin.lower());
    EXPECT_LE(bin.mean_confidence(), bin.upper());
    binned += bin.observations();
  }
  EXPECT_EQ(binned, 2000);
  const auto& last = whereabouts.confidence_bins(whereabouts.confidence_bins_size() - 1);
  EXPECT_LT(last.z(), -5);
  EXPECT_TRUE(last.stands_out());

  RunningReliability reliability;
  reliability.Add(bad.view());
  const v1::RunningScores& scores = answer.scores();
  EXPECT_EQ(scores.observations(), 2000);
  EXPECT_DOUBLE_EQ(scores.brier_score(), reliability.brier / 2000);
  EXPECT_DOUBLE_EQ(scores.log_loss(), reliability.log_loss / 2000);
  EXPECT_DOUBLE_EQ(scores.ece(), reliability.ExpectedCalibrationError());
  EXPECT_DOUBLE_EQ(scores.mean_confidence(), reliability.Total().confidence / 2000);
  EXPECT_DOUBLE_EQ(scores.accuracy(), static_cast<double>(reliability.Total().correct) / 2000);
  ASSERT_EQ(scores.bins_size(), static_cast<int>(kReliabilityBinCount));
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    EXPECT_EQ(scores.bins(static_cast<int>(b)).observations(), reliability.bins[b].count);
  }

  // The interval contains the estimate, which is above the noise floor.
  const v1::EffectSize& effect = answer.watch().effect_size();
  EXPECT_GT(effect.noise_floor(), 0);
  EXPECT_GT(effect.skce(), 5 * effect.noise_floor());
  EXPECT_GT(effect.skce_upper_bound(), effect.skce());
  EXPECT_GT(effect.skce(), effect.skce_lower_bound());
  EXPECT_GT(effect.skce_lower_bound(), 0);
  EXPECT_EQ(answer.warnings_size(), 0);
}

TEST_F(MonitoringTest, TheWatchCoversOnlyItsObservations) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 1000), 500);
  ASSERT_TRUE(Acknowledge(1, "").ok());
  const PredictionSet good = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 2000, 4);
  Send(good, 500);
  const v1::GetCalibrationResponse answer = Answer();
  // Equal to the watch of a model that received only these rows.
  v1::Model other = Declared();
  other.set_name("models/other");
  Create(other);
  v1::ObserveRequest request;
  request.set_model("models/other");
  *request.mutable_observations() = ToProto(good.view());
  ASSERT_TRUE(client_->Observe(request).ok());
  const v1::GetCalibrationResponse alone = client_->GetCalibration("models/other");
  const v1::EffectSize& effect = answer.watch().effect_size();
  const v1::EffectSize& expected = alone.watch().effect_size();
  EXPECT_EQ(effect.skce(), expected.skce());
  EXPECT_EQ(effect.noise_floor(), expected.noise_floor());
  EXPECT_EQ(effect.skce_lower_bound(), expected.skce_lower_bound());
  ASSERT_TRUE(expected.has_skce_upper_bound());
  EXPECT_EQ(effect.skce_upper_bound(), expected.skce_upper_bound());
  EXPECT_EQ(answer.verdict().whereabouts().DebugString(),
            alone.verdict().whereabouts().DebugString());
}

TEST_F(MonitoringTest, ScoresCoverAllObservationsDespiteAcknowledgements) {
  Create(Declared());
  v1::Model unwatched = Declared();
  unwatched.set_name("models/unwatched");
  unwatched.mutable_monitoring()->set_disabled(true);
  Create(unwatched);
  EXPECT_FALSE(Answer().has_scores());
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 1000);
  const PredictionSet good = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 500, 4);
  Send(bad, 500);
  ASSERT_TRUE(Acknowledge(1, "").ok());
  EXPECT_EQ(Answer().watch().observations(), 0);
  EXPECT_EQ(Answer().scores().observations(), 1000);
  Send(good, 500);
  for (const PredictionSet* set : {&bad, &good}) {
    v1::ObserveRequest request;
    request.set_model("models/unwatched");
    *request.mutable_observations() = ToProto(set->view());
    ASSERT_TRUE(client_->Observe(request).ok());
  }
  RunningReliability reliability;
  reliability.Add(bad.view());
  reliability.Add(good.view());
  const auto expect_scores = [&] {
    for (const v1::GetCalibrationResponse& answer :
         {Answer(), client_->GetCalibration("models/unwatched")}) {
      const v1::RunningScores& scores = answer.scores();
      EXPECT_EQ(scores.observations(), 1500);
      EXPECT_NEAR(scores.brier_score(), reliability.brier / 1500, 1e-13);
      EXPECT_NEAR(scores.log_loss(), reliability.log_loss / 1500, 1e-12);
      EXPECT_NEAR(scores.ece(), reliability.ExpectedCalibrationError(), 1e-13);
    }
  };
  expect_scores();
  server_->Kill();
  Start();
  expect_scores();
  EXPECT_EQ(server_->Terminate(), 0);
  Start();
  expect_scores();
}

TEST_F(MonitoringTest, WarnsOfRepeatedAndOfRoundedRows) {
  Create(Declared());
  const PredictionSet good = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 500);
  Send(good, 500);
  EXPECT_EQ(Answer().warnings_size(), 0);
  Send(good, 500);
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.warnings_size(), 1);
  EXPECT_THAT(answer.warnings(0),
              HasSubstr("50.0 % of the newest 1000 observations seem to repeat earlier ones"));
  EXPECT_TRUE(answer.rows_are_doubtful());
  EXPECT_TRUE(Listed().reading().has_warning());
  // A start screens the window again.
  server_->Kill();
  Start();
  EXPECT_EQ(Answer().warnings_size(), 1);
  EXPECT_EQ(Answer().warnings(0), answer.warnings(0));

  ASSERT_TRUE(client_->Delete(kMonitoringModel).ok());
  v1::Model loose = Declared();
  loose.mutable_classes()->set_row_sum_tolerance(0.01);
  Create(loose);
  // More rows than are screened. No row is nearly certain, because such rows are often equal.
  GeneratorSpec flat = GeneratorSpec::M1(kMonitoringClasses);
  flat.alpha.assign(kMonitoringClasses, 1);
  const auto warning_of = [&](double unit) {
    PredictionSet rounded = DrawFrom(flat, 2500, 5);
    for (double& value : rounded.probabilities) value = std::round(value / unit) * unit;
    Send(rounded, 500);
    answer = Answer();
    return answer.warnings_size() == 1 ? answer.warnings(0) : "";
  };
  EXPECT_THAT(warning_of(1e-5), HasSubstr("have 5 decimal digits"));
  EXPECT_FALSE(answer.rows_are_doubtful()) << "a map may be fitted to rounded probabilities";
  EXPECT_THAT(warning_of(1e-3), HasSubstr("have 3 decimal digits"));
  EXPECT_THAT(answer.warnings(0), HasSubstr("monitoring.tolerance = 0.002"));
}

// However much evidence there is, repeated rows do not let a model count as rejected among all.
TEST_F(MonitoringTest, RepeatedRowsVoidTheEvidenceAmongAllModels) {
  Create(Declared());
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 1000);
  Send(bad, 500);
  EXPECT_TRUE(Listed().rejected_among_all());
  Send(bad, 500);
  EXPECT_FALSE(Listed().rejected_among_all());
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::MISCALIBRATED);
}

// The warning of sorted rows stays while an alarm of them is active, also after a start.
TEST_F(MonitoringTest, DoubtOutlivesTheAcknowledgementOfTheEvidence) {
  Create(Declared());
  PredictionSet sorted = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 6000);
  std::vector<std::size_t> order(sorted.labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return sorted.labels[i]; });
  PredictionSet rows;
  rows.class_count = sorted.class_count;
  for (const std::size_t i : order) {
    const auto row = sorted.view().rows(i, 1);
    rows.probabilities.insert(rows.probabilities.end(), row.probabilities.begin(),
                              row.probabilities.end());
    rows.labels.push_back(row.labels[0]);
  }
  Send(rows, 500);
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.warnings_size(), 1);
  EXPECT_THAT(answer.warnings(0), HasSubstr("go together more than the predictions say"));
  std::vector<std::int64_t> others;
  std::int64_t evidence = 0;
  for (const v1::Alarm& alarm : answer.alarms()) {
    if (alarm.kind() == v1::Alarm::EVIDENCE) evidence = alarm.id();
    if (alarm.kind() != v1::Alarm::EVIDENCE) others.push_back(alarm.id());
  }
  ASSERT_GT(evidence, 0);
  ASSERT_FALSE(others.empty());
  ASSERT_TRUE(Acknowledge(evidence, "").ok());
  EXPECT_EQ(Answer().warnings_size(), 1);
  EXPECT_EQ(server_->Terminate(), 0);
  Start();
  EXPECT_EQ(Answer().warnings_size(), 1);
  for (const std::int64_t id : others) ASSERT_TRUE(Acknowledge(id, "").ok());
  EXPECT_EQ(Answer().warnings_size(), 0);
}

TEST_F(MonitoringTest, WarnsOfClassesThatAreSentAsProbabilities) {
  Create(Declared());
  PredictionSet classes = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 1000);
  for (std::size_t i = 0; i < classes.labels.size(); ++i) {
    const std::span row =
        std::span(classes.probabilities).subspan(i * kMonitoringClasses, kMonitoringClasses);
    const auto most = std::max_element(row.begin(), row.end()) - row.begin();
    std::ranges::fill(row, 0);
    row[static_cast<std::size_t>(most)] = 1;
  }
  const auto warns = [&] {
    return Answer().reading().warning().text().starts_with(
        "All probabilities of the newest 1000 rows are exactly 0 or 1");
  };
  PredictionSet first = classes;
  first.probabilities.resize(999 * kMonitoringClasses);
  first.labels.resize(999);
  Send(first, 333);
  EXPECT_FALSE(warns());
  PredictionSet last = classes;
  last.probabilities.erase(last.probabilities.begin(),
                           last.probabilities.begin() + 999 * kMonitoringClasses);
  last.labels.erase(last.labels.begin(), last.labels.begin() + 999);
  Send(last, 1);
  EXPECT_TRUE(warns()) << Answer().reading().warning().text();
  server_->Kill();
  Start();
  EXPECT_TRUE(warns());
  // One row that is not certain shows that probabilities are sent.
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 1, 8), 1);
  EXPECT_FALSE(warns());
}

TEST_F(MonitoringTest, ACalibratedModelIsNotRejected) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 99));
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_THAT(Answer().reading().certain().text(),
              HasSubstr("nothing is decided before 100 labelled rows; 99 so far"));
  EXPECT_FALSE(Answer().verdict().has_since());
  EXPECT_EQ(Answer().watch().min_observations(), 100);
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 3000, 4));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_LT(answer.watch().evidence().log10_e_value(), 0);
  EXPECT_EQ(answer.verdict().evidence_families_size(), 0);
  for (const auto& bin : answer.verdict().whereabouts().confidence_bins()) {
    EXPECT_FALSE(bin.stands_out());
  }
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::NOT_REJECTED);
  EXPECT_THAT(answer.reading().verdict().text(), HasSubstr("NOT_REJECTED"));
  EXPECT_EQ(answer.alarms_size(), 0);
  EXPECT_FALSE(answer.verdict().has_since());
  EXPECT_EQ(answer.watch().effect_size().skce_lower_bound(), 0);
}

TEST_F(MonitoringTest, AnEvidenceAlarmIsAcknowledgedOnce) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 120));
  ASSERT_EQ(Answer().verdict().status(), v1::Verdict::MISCALIBRATED);
  v1::Alarm alarm;
  grpc::Status status = Acknowledge(1, "retrained on Monday", &alarm);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(alarm.id(), 1);
  EXPECT_TRUE(alarm.has_acknowledge_time());
  EXPECT_EQ(alarm.note(), "retrained on Monday");
  v1::GetCalibrationResponse answer = Answer();
  for (const v1::Alarm& other : answer.alarms()) {
    if (!other.has_acknowledge_time()) {
      ASSERT_TRUE(Acknowledge(other.id(), "").ok());
    }
  }
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_EQ(answer.watch().observations(), 0);
  EXPECT_EQ(answer.watch().first_observation(), 121);
  EXPECT_EQ(answer.observations(), 120);
  // Durable: the server is killed at once.
  server_->Kill();
  Start();
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_EQ(answer.watch().first_observation(), 121);
  v1::Alarm again;
  status = Acknowledge(1, "another note", &again);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(again.DebugString(), alarm.DebugString());
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 500));
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::NOT_REJECTED);
  EXPECT_EQ(Answer().watch().observations(), 500);
}

// An alarm of the newest rows, whose error is small on average over all rows.
TEST_F(MonitoringTest, ASlightlyHigherLimitAcceptsNoLargeRecentError) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 20000), 1000);
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 1100, 5), 100);
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  ASSERT_TRUE(answer.error().is_recent());
  ASSERT_LT(answer.error().since_start().top_label().lower(), 0.021);
  const double newest = answer.error().newest().top_label().lower();
  ASSERT_GT(newest, 0.05);
  answer = WithLimit(newest - 0.01);
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_THAT(answer.reading().now().text(), HasSubstr("; still over the limit; "));
  EXPECT_EQ(WithLimit(0.02).verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_NE(WithLimit(0.5).verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
}

TEST_F(MonitoringTest, AHigherLimitIsADecisionThatTheStatusFollows) {
  Create(Declared());
  const PredictionSet rows = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 1000);
  Send(rows);
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  const v1::ErrorInterval error = answer.error().since_start().top_label();
  const auto find = [&answer] {
    return std::ranges::find(answer.alarms(), v1::Alarm::OVER_LIMIT, &v1::Alarm::kind);
  };
  ASSERT_NE(find(), answer.alarms().end());
  const std::string alarm = find()->DebugString();
  const auto set_limit = [&](double limit) {
    answer = WithLimit(limit);
    EXPECT_EQ(answer.error().limit(), limit);
  };
  set_limit(error.lower() - 0.01);
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  set_limit(error.estimate());
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::UNDECIDED);
  // The alarm stays active, and says against which limit it was raised.
  EXPECT_EQ(find()->DebugString(), alarm);
  EXPECT_EQ(find()->crossing().limit(), 0.02);
  EXPECT_THAT(answer.reading().verdict().text(), StartsWith("UNDECIDED, MISCALIBRATED, alarm on "));
  EXPECT_THAT(
      answer.reading().how_bad().text(),
      AnyOf(HasSubstr("; limit 2 points) at row "), HasSubstr("were off by more than 2 points")));
  EXPECT_THAT(answer.reading().next().text(), HasSubstr("acknowledge"));
  // Nothing of this is lost.
  server_->Kill();
  Start();
  EXPECT_EQ(Answer().error().DebugString(), answer.error().DebugString());
  // The largest limit.
  set_limit(0.5);
  const v1::CalibrationError::Status accepted =
      error.upper() <= 0.5 ? v1::CalibrationError::WITHIN_LIMIT : v1::CalibrationError::UNDECIDED;
  EXPECT_EQ(answer.verdict().limit_status(), accepted);
  ASSERT_TRUE(Acknowledge(find()->id(), "accepted").ok());
  answer = Answer();
  EXPECT_TRUE(find()->has_acknowledge_time());
  EXPECT_EQ(answer.verdict().limit_status(), accepted);
  EXPECT_FALSE(answer.error().has_since_acknowledgement());
  EXPECT_EQ(answer.error().since_start().observations(), 1000);
}

TEST_F(MonitoringTest, ErrorsOfAnAcknowledgementNameTheField) {
  Create(Declared());
  EXPECT_EQ(Acknowledge(1, "", nullptr, "models/absent").error_code(), grpc::NOT_FOUND);
  grpc::Status status = Acknowledge(1, "");
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Reason(status), "ALARM_NOT_FOUND");
  EXPECT_THAT(status.error_message(), HasSubstr("models/watched has no alarm 1"));
  status = Acknowledge(0, "");
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("alarm_id is 0, expected >= 1"));
  status = Acknowledge(1, std::string(501, 'x'));
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("note has 501 bytes, expected at most 500"));
  EXPECT_EQ(Acknowledge(1, "", nullptr, "Models/x").error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(MonitoringTest, AChangeAfterManyGoodObservationsIsDrift) {
  v1::Model model = Declared();
  // The threshold is far above the evidence of these few observations.
  model.mutable_monitoring()->set_significance_level(1e-9);
  model.mutable_monitoring()->set_average_run_length(1e4);
  Create(model);
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 3000), 500);
  ASSERT_EQ(Answer().verdict().status(), v1::Verdict::NOT_REJECTED);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 400, 9);
  for (std::size_t done = 0; Answer().alarms_size() == 0 && done < 400; done += 5) {
    PredictionSet piece;
    piece.class_count = kMonitoringClasses;
    const PredictionBatch rows = bad.view().rows(done, 5);
    piece.probabilities.assign(rows.probabilities.begin(), rows.probabilities.end());
    piece.labels.assign(rows.labels.begin(), rows.labels.end());
    Send(piece);
  }
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.alarms_size(), 1);
  EXPECT_EQ(answer.alarms(0).kind(), v1::Alarm::DRIFT);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::DRIFTED);
  EXPECT_GT(answer.verdict().since_observation(), 3000);
  EXPECT_EQ(answer.reading().changed().answer(), v1::Reading::Changed::PERHAPS);
  ASSERT_TRUE(Acknowledge(answer.alarms(0).id(), "").ok());
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::NOT_REJECTED);
  EXPECT_NEAR(answer.watch().drift().log10_statistic(), 0, 1e-12);
  // The evidence continues.
  EXPECT_EQ(answer.watch().first_observation(), 1);
}

TEST_F(MonitoringTest, RowsThatAreSortedByLabelAreWarnedOfUntilTheEvidenceIsAcknowledged) {
  Create(Declared());
  const PredictionSet drawn = DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 6000);
  PredictionSet sorted;
  sorted.class_count = kMonitoringClasses;
  for (std::size_t k = 0; k < kMonitoringClasses; ++k) {
    for (std::size_t i = 0; i < drawn.labels.size(); ++i) {
      if (drawn.labels[i] != static_cast<std::int32_t>(k)) continue;
      const auto row = drawn.view().row(i);
      sorted.probabilities.insert(sorted.probabilities.end(), row.begin(), row.end());
      sorted.labels.push_back(drawn.labels[i]);
    }
  }
  Send(sorted, 500);
  const auto is_warning = HasSubstr("Outcomes of neighbouring rows go together");
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_THAT(answer.warnings(), ::testing::Contains(is_warning));
  EXPECT_THAT(answer.reading().warning().text(), is_warning);
  server_->Kill();
  Start();
  EXPECT_EQ(Answer().warnings(0), answer.warnings(0));
  // Each alarm restarts what it is about.
  for (const v1::Alarm& alarm : answer.alarms()) ASSERT_TRUE(Acknowledge(alarm.id(), "").ok());
  EXPECT_THAT(Answer().warnings(), ::testing::Not(::testing::Contains(is_warning)));
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 6000, 3), 500);
  EXPECT_THAT(Answer().warnings(), ::testing::Not(::testing::Contains(is_warning)));
}

TEST_F(MonitoringTest, AModelThatIsWrongFromItsStartRaisesBothAlarms) {
  Create(Declared());
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 300));
  v1::GetCalibrationResponse answer = Answer();
  ASSERT_EQ(answer.alarms_size(), 3);
  EXPECT_EQ(answer.verdict().limit_status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_THAT(answer.reading().verdict().text(), StartsWith("OVER_LIMIT, alarm on "));
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  // The remaining drift alarm is not described as a change.
  ASSERT_TRUE(Acknowledge(1, "").ok());
  answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::DRIFTED);
  EXPECT_EQ(answer.reading().changed().answer(), v1::Reading::Changed::NOT_DATED);
}

TEST_F(MonitoringTest, AModelWithoutNewObservationsIsStale) {
  v1::Model model = Declared();
  model.mutable_monitoring()->mutable_stale_after()->set_nanos(300000000);
  Create(model);
  Send(DrawFrom(GeneratorSpec::M1(kMonitoringClasses), 200));
  ASSERT_TRUE(WaitFor([&] { return Answer().verdict().stale(); }));
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::STALE);
  EXPECT_EQ(answer.verdict().since_observation(), 200);
  EXPECT_THAT(answer.reading().data().text(),
              HasSubstr(": STALE, because this is longer than stale_after; all this may "));
  EXPECT_GE(answer.verdict().since().seconds(), answer.last_observation_time().seconds());
  // An alarm takes precedence.
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 300));
  ASSERT_TRUE(WaitFor([&] { return Answer().verdict().stale(); }));
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::MISCALIBRATED);
}

TEST_F(MonitoringTest, WithoutMonitoringNothingIsReported) {
  v1::Model model = Declared();
  model.mutable_monitoring()->set_disabled(true);
  Create(model);
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 300));
  const v1::GetCalibrationResponse answer = Answer();
  EXPECT_FALSE(answer.has_verdict());
  EXPECT_FALSE(answer.has_watch());
  EXPECT_EQ(answer.alarms_size(), 0);
  EXPECT_EQ(answer.observations(), 300);
  EXPECT_EQ(Acknowledge(1, "").error_code(), grpc::NOT_FOUND);
}

TEST_F(MonitoringTest, TheWarmupIsMonitoredOnceItIsComplete) {
  v1::Model model = Declared();
  model.mutable_classes()->mutable_bandwidth()->mutable_median()->set_warmup(200);
  Create(model);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 199);
  Send(bad);
  v1::GetCalibrationResponse answer = Answer();
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::INSUFFICIENT_DATA);
  EXPECT_THAT(answer.watch().unavailable_reason(), HasSubstr("it begins after 200 rows"));
  EXPECT_THAT(answer.reading().certain().text(), HasSubstr("it begins after 200 rows"));
  Send(DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 1, 8));
  answer = Answer();
  EXPECT_EQ(answer.watch().unavailable_reason(), "");
  EXPECT_EQ(answer.watch().observations(), 200);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  // Its rows are judged together: the time of the alarm is that of the last one.
  EXPECT_EQ(answer.verdict().since_observation(), 200);
}

TEST_F(MonitoringTest, PredictionsAreMonitoredWhenTheyMature) {
  v1::Model model = Declared();
  model.mutable_label_grace()->set_nanos(1000000);
  Create(model);
  const PredictionSet bad = DrawFrom(GeneratorSpec::M2(kMonitoringClasses), 300);
  v1::ObserveRequest request;
  request.set_model(kMonitoringModel);
  for (std::size_t done = 0; done < 300; done += 50) {
    *request.mutable_observations() = ToProto(bad.view().rows(done, 50));
    for (std::size_t i = 0; i < 50; ++i) {
      request.mutable_observations()->add_prediction_ids(std::to_string(done + i));
    }
    ASSERT_TRUE(client_->Observe(request).ok());
  }
  ASSERT_TRUE(WaitFor([&] { return Answer().watch().observations() == 300; }));
  auto process = EvidenceProcess::Create(*FourierBasis::Create(
      *Kernel::ExponentialTotalVariation(kMonitoringBandwidth), kMonitoringClasses));
  process->Add(bad.view());
  EXPECT_EQ(Answer().watch().evidence().log10_e_value(), process->Read().evidence.log10_e_value);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::MISCALIBRATED);
}

TEST_F(MonitoringTest, DifferencesBelowTheToleranceAreNoEvidence) {
  // Probabilities with two decimal digits: 0.995 becomes 1, and every other label is infinite
  // evidence.
  v1::Model strict = Declared();
  strict.mutable_monitoring()->set_tolerance(1e-9);
  Create(strict);
  PredictionSet rounded;
  rounded.class_count = kMonitoringClasses;
  for (int i = 0; i < 1000; ++i) {
    rounded.probabilities.insert(rounded.probabilities.end(), {1, 0, 0, 0});
    rounded.labels.push_back(i % 250 == 100 ? 1 : 0);
  }
  Send(rounded, 1000);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::MISCALIBRATED);
  ASSERT_TRUE(client_->Delete(kMonitoringModel).ok());
  v1::Model tolerant = Declared();
  tolerant.mutable_monitoring()->set_tolerance(0.02);
  Create(tolerant);
  Send(rounded, 1000);
  EXPECT_EQ(Answer().verdict().status(), v1::Verdict::NOT_REJECTED);
}

TEST_F(MonitoringTest, ListsTheVerdictsOfAllModels) {
  v1::Model model = Declared();
  const auto list = [&](const v1::ListVerdictsRequest& request,
                        v1::ListVerdictsResponse* response) {
    CallContext context;
    return client_->calibration->ListVerdicts(&context, request, response);
  };
  for (const char* name : {"models/a", "models/b", "models/c", "models/d"}) {
    model.set_name(name);
    model.mutable_monitoring()->set_disabled(model.name() == "models/d");
    Create(model);
    v1::ObserveRequest request;
    request.set_model(name);
    const auto spec = model.name() == "models/b" ? GeneratorSpec::M2(kMonitoringClasses)
                                                 : GeneratorSpec::M1(kMonitoringClasses);
    *request.mutable_observations() = ToProto(DrawFrom(spec, 300).view());
    ASSERT_TRUE(client_->Observe(request).ok());
  }
  v1::ListVerdictsResponse all;
  ASSERT_TRUE(list({}, &all).ok());
  ASSERT_EQ(all.models_size(), 4);
  EXPECT_EQ(all.next_page_token(), "");
  EXPECT_EQ(all.tested_models(), 3);
  EXPECT_EQ(all.rejected_models(), 1);
  for (const auto& one : all.models()) {
    EXPECT_EQ(one.rejected_among_all(), one.model() == "models/b") << one.model();
    EXPECT_EQ(one.has_verdict(), one.model() != "models/d");
    EXPECT_EQ(one.observations(), 300);
    EXPECT_TRUE(one.has_last_observation_time());
  }
  EXPECT_EQ(all.models(1).verdict().status(), v1::Verdict::MISCALIBRATED);
  const v1::GetCalibrationResponse b = client_->GetCalibration("models/b");
  EXPECT_EQ(all.models(1).watch().DebugString(), b.watch().DebugString());
  EXPECT_EQ(all.models(1).verdict().DebugString(), b.verdict().DebugString());
  v1::Reading headlines;
  *headlines.mutable_verdict() = b.reading().verdict();
  *headlines.mutable_how_bad() = b.reading().how_bad();
  *headlines.mutable_next() = b.reading().next();
  headlines.set_severity(b.reading().severity());
  EXPECT_EQ(all.models(1).reading().DebugString(), headlines.DebugString());
  EXPECT_THAT(all.models(3).reading().verdict().text(), StartsWith("not monitored"));

  // All pages show the same test.
  v1::ListVerdictsRequest request;
  request.set_page_size(3);
  v1::ListVerdictsResponse page;
  ASSERT_TRUE(list(request, &page).ok());
  EXPECT_EQ(page.models_size(), 3);
  EXPECT_EQ(page.rejected_models(), 1);
  request.set_page_token(page.next_page_token());
  // All models are as they were at the first page.
  ASSERT_TRUE(client_->Delete("models/b").ok());
  v1::ListVerdictsResponse last;
  ASSERT_TRUE(list(request, &last).ok());
  ASSERT_EQ(last.models_size(), 1);
  EXPECT_EQ(last.models(0).model(), "models/d");
  EXPECT_EQ(last.next_page_token(), "");
  EXPECT_EQ(last.tested_models(), 3);
  EXPECT_EQ(last.rejected_models(), 1);
  v1::ListVerdictsResponse anew;
  ASSERT_TRUE(list({}, &anew).ok());
  EXPECT_EQ(anew.tested_models(), 2);
  EXPECT_EQ(anew.rejected_models(), 0);

  v1::ListVerdictsResponse none;
  request.set_page_token("nonsense");
  EXPECT_THAT(list(request, &none).error_message(), HasSubstr("page_token"));
  request.clear_page_token();
  request.set_false_discovery_rate(0.5);
  EXPECT_THAT(list(request, &none).error_message(),
              HasSubstr("false_discovery_rate is 0.5, expected 1e-09..0.25"));
  request.clear_false_discovery_rate();
  request.set_page_size(-1);
  EXPECT_EQ(list(request, &none).error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(MonitoringTest, TheDeclarationIsCheckedAndReturnedWithItsDefaults) {
  v1::Model created;
  ASSERT_TRUE(client_->Create(Declared(), &created).ok());
  EXPECT_EQ(created.monitoring().significance_level(), 0.05);
  EXPECT_EQ(created.monitoring().average_run_length(), 1e6);
  EXPECT_EQ(created.monitoring().stale_after().seconds(), 86400);
  EXPECT_EQ(created.monitoring().min_observations(), 100);
  v1::Model other = Declared();
  other.mutable_monitoring()->set_significance_level(0.01);
  const grpc::Status differs = client_->Create(other);
  EXPECT_EQ(differs.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_THAT(differs.error_message(),
              HasSubstr("monitoring.significance_level is 0.05, declared 0.01"));
  other.set_name("models/other");
  other.mutable_monitoring()->set_significance_level(0.5);
  EXPECT_THAT(client_->Create(other).error_message(),
              HasSubstr("model.monitoring.significance_level is 0.5"));
}

}  // namespace
}  // namespace calibd::testing
