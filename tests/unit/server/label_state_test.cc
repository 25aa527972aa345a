// A model of several labels, from its declaration to its state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/answers/verdict.h"
#include "server/ingest/decode.h"
#include "server/kinds/labels/label_kind.h"
#include "server/kinds/labels/label_measure.h"
#include "server/rows/row_codec.h"
#include "server/state/check_declaration.h"
#include "server/state/model.h"
#include "support/log_rows.h"

// The names of helpers are those of other kinds.
namespace calibd::server::several_labels {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::size_t kMemory = std::size_t{1} << 30;

v1::Model LabelModel() {
  v1::Model model;
  model.set_name("models/weather");
  for (const char* const name : {"rain", "fog", "wind"}) model.mutable_labels()->add_names(name);
  return model;
}

ModelDeclaration Checked(const v1::Model& model) {
  auto declaration = CheckDeclaration(model, kMemory);
  EXPECT_TRUE(declaration.ok()) << declaration.status();
  return *std::move(declaration);
}

std::string RefusalOf(const v1::Model& model) {
  return std::string(CheckDeclaration(model, kMemory).status().message());
}

TEST(LabelDeclarationTest, IsKeptWithItsDefaults) {
  const ModelDeclaration declaration = Checked(LabelModel());
  EXPECT_EQ(declaration.monitoring.error_limit, 0.02);
  EXPECT_EQ(declaration.warmup, 0U);
  EXPECT_EQ(declaration.row_width(), 3U);
  const v1::Model described = ToProto(declaration);
  EXPECT_THAT(described.labels().names(), ElementsAre("rain", "fog", "wind"));
  EXPECT_TRUE(Checked(described) == declaration);
}

TEST(LabelDeclarationTest, NamesWhatIsInvalid) {
  v1::Model model = LabelModel();
  model.mutable_labels()->clear_names();
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.labels.names has 0 names, expected 1..1000"));
  model = LabelModel();
  model.mutable_labels()->add_names("fog");
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.labels.names[3] is \"fog\" again"));
  model = LabelModel();
  model.mutable_monitoring()->set_group_tag("site");
  EXPECT_THAT(RefusalOf(model),
              HasSubstr("model.monitoring.group_tag is site, expected none because the model "
                        "predicts several labels"));
  model = LabelModel();
  model.add_feature_names("age");
  EXPECT_THAT(RefusalOf(model), HasSubstr("model.feature_names has 1 names, expected none"));
}

TEST(LabelDeclarationTest, ThousandLabelsFitIntoTheDefaultLimits) {
  v1::Model model = LabelModel();
  model.mutable_labels()->clear_names();
  for (int k = 0; k < 1000; ++k) model.mutable_labels()->add_names("label-" + std::to_string(k));
  EXPECT_FALSE(Checked(model).monitoring.disabled);
}

v1::Observations Valid() {
  v1::Observations observations;
  for (const double value : {0.25, 0.75, 0.5, 1.0, 0.0, 0.125}) {
    observations.mutable_probabilities()->add_values(value);
  }
  for (const int truth : {0, 1, -1, 1, -1, 0}) observations.add_labels(truth);
  return observations;
}

std::string RefusalOf(const v1::Observations& observations) {
  const LogRow row = Decode(observations, Checked(LabelModel()));
  EXPECT_EQ(row.validity().code(), absl::StatusCode::kInvalidArgument);
  return std::string(row.validity().message());
}

TEST(LabelDecodeTest, RowsHaveTruthsThatMayBeMissing) {
  const ModelDeclaration declaration = Checked(LabelModel());
  const LogRow row = Decode(Valid(), declaration);
  ASSERT_TRUE(row.validity().ok()) << row.validity();
  EXPECT_EQ(row.values()->labelled(), 2U);
  EXPECT_THAT(row.values()->truths.labels, ElementsAre(0, 1, -1, 1, -1, 0));
  const auto decoded = DecodeRow(EncodeRow(row), declaration.row_shape());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->values()->truths.labels, row.values()->truths.labels);
  EXPECT_EQ(decoded->values()->labelled(), 2U);
}

TEST(LabelDecodeTest, LogitsAreThoseOfEachLabel) {
  v1::Observations observations = Valid();
  observations.mutable_logits()->clear_values();
  for (const double value : {0.0, -1000.0, 1000.0, 0.0, std::log(3.0), 0.0}) {
    observations.mutable_logits()->add_values(value);
  }
  const LogRow row = Decode(observations, Checked(LabelModel()));
  ASSERT_TRUE(row.validity().ok()) << row.validity();
  EXPECT_THAT(row.values()->values,
              ElementsAre(0.5, 0.0, 1.0, 0.5, ::testing::DoubleEq(0.75), 0.5));
}

TEST(LabelDecodeTest, NamesTheRowTheLabelAndTheValue) {
  v1::Observations observations = Valid();
  observations.set_labels(4, 2);
  EXPECT_THAT(RefusalOf(observations),
              HasSubstr("rows[1].labels[1] (\"fog\") is 2, expected 1, 0, or -1"));
  observations = Valid();
  observations.mutable_probabilities()->set_values(2, std::numeric_limits<double>::quiet_NaN());
  EXPECT_THAT(RefusalOf(observations), HasSubstr("rows[0].probabilities[2] (\"wind\") is nan"));
  observations = Valid();
  observations.mutable_labels()->RemoveLast();
  EXPECT_THAT(RefusalOf(observations), HasSubstr("labels has 5 values, expected 3 for each row"));
  observations = Valid();
  observations.mutable_probabilities()->mutable_values()->RemoveLast();
  EXPECT_THAT(RefusalOf(observations), HasSubstr("probabilities has 5 values with "));
  observations = Valid();
  observations.add_outcomes(1);
  EXPECT_THAT(RefusalOf(observations), HasSubstr("the model predicts several labels"));
  observations = Valid();
  observations.add_class_names("rain");
  EXPECT_THAT(RefusalOf(observations), HasSubstr("class_names has 1 names"));
  observations = Valid();
  observations.set_skip_invalid_rows(true);
  observations.set_labels(0, 7);
  const LogRow row = Decode(observations, Checked(LabelModel()));
  ASSERT_TRUE(row.validity().ok());
  EXPECT_EQ(row.skipped.rows, 1);
  EXPECT_THAT(row.values()->truths.labels, ElementsAre(1, -1, 0));
}

TEST(LabelDecodeTest, AModelOfClassesSaysWhatNTimesKTruthsAre) {
  v1::Model model;
  model.set_name("models/m");
  model.mutable_classes()->set_count(3);
  const LogRow row = Decode(Valid(), Checked(model));
  EXPECT_THAT(std::string(row.validity().message()),
              HasSubstr("a model whose labels do not exclude each other declares `labels`"));
}

TEST(LabelDecodeTest, LaterTruthsAreWholeRows) {
  const ModelDeclaration declaration = [] {
    v1::Model model = LabelModel();
    model.mutable_label_grace()->set_seconds(60);
    return Checked(model);
  }();
  v1::Labels labels;
  labels.add_prediction_ids("a");
  for (const int truth : {1, -1, 0}) labels.add_labels(truth);
  const LogRow row = Decode(labels, declaration);
  ASSERT_TRUE(row.validity().ok()) << row.validity();
  EXPECT_THAT(row.As<LabelsRow>()->truths.labels, ElementsAre(1, -1, 0));
  labels.set_labels(1, 3);
  EXPECT_THAT(std::string(Decode(labels, declaration).validity().message()),
              HasSubstr("labels[1] is 3, expected -1..1"));
  labels.mutable_labels()->RemoveLast();
  EXPECT_THAT(std::string(Decode(labels, declaration).validity().message()),
              HasSubstr("labels has 2 values, expected 1..65536 x 3"));
}

// Rows of 1 to 60 predictions over several minutes: rain is calibrated, half of fog's truths are
// missing, and wind is over-stated from the middle on. The second alarm is acknowledged.
std::vector<std::pair<LogRow, std::chrono::microseconds>> Rows() {
  std::vector<std::pair<LogRow, std::chrono::microseconds>> rows;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform;
  for (std::size_t i = 0; i < 400; ++i) {
    ObservationsRow row;
    row.values.width = row.values.truths.each = 3;
    for (std::size_t n = 0; n < 1 + i * 7 % 60; ++n) {
      for (std::size_t k = 0; k < 3; ++k) {
        const double stated = uniform(random);
        const double truth = k == 2 && i > 100 ? 0.7 * stated : stated;
        row.values.values.push_back(stated);
        row.values.truths.labels.push_back(k == 1 && n % 2 == 0      ? -1
                                           : uniform(random) < truth ? 1
                                                                     : 0);
      }
    }
    const std::chrono::microseconds time = seconds(1000 + i * 7);
    rows.emplace_back(testing::RowOf(std::move(row)), time);
    if (i == 350) {
      rows.emplace_back(testing::RowOf(AcknowledgedRow{.alarm_id = 2, .note = "seen"}), time);
    }
  }
  return rows;
}

TEST(LabelStateTest, AlarmsNameTheirLabelAndAreAcknowledgedApart) {
  ThreadPool pool("test", 2);
  Model model(1, Checked(LabelModel()), {}, {}, pool, nullptr);
  std::int64_t log_id = 0;
  for (const auto& [row, time] : Rows()) model.strand_state().Apply(row, ++log_id, time);
  model.Publish();
  const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
  const MonitorSnapshot& monitor = *snapshot->monitor;
  ASSERT_EQ(monitor.labels.size(), 3U);
  for (const Alarm& alarm : *monitor.alarms) {
    if (alarm.kind == Alarm::Kind::kOverLimit && !alarm.label.has_value()) continue;
    EXPECT_EQ(alarm.label, std::optional<std::size_t>(2)) << alarm.id;
  }
  const auto of_wind = std::ranges::find_if(*monitor.alarms, [](const Alarm& alarm) {
    return alarm.kind == Alarm::Kind::kOverLimit && alarm.label.has_value();
  });
  ASSERT_NE(of_wind, monitor.alarms->end());
  EXPECT_GT(of_wind->crossing->interval->lower, 0.02);
  const Verdict verdict = MakeVerdict(model, *snapshot, {});
  EXPECT_EQ(verdict.limit_status, v1::CalibrationError::OVER_LIMIT);
  EXPECT_THAT(verdict.labels_over_limit, ElementsAre(2U));
  EXPECT_FALSE(monitor.labels[0].over);
  // Half of fog's truths are missing.
  EXPECT_NEAR(static_cast<double>(monitor.labels[1].count),
              static_cast<double>(monitor.labels[0].count) / 2, 200);

  model.strand_state().Apply(testing::RowOf(AcknowledgedRow{.alarm_id = of_wind->id, .note = ""}),
                             ++log_id, seconds(9000));
  model.Publish();
  const MonitorSnapshot& after = *model.snapshot()->monitor;
  EXPECT_EQ(after.labels[2].count, 0);
  EXPECT_TRUE(after.labels[2].acknowledged);
  EXPECT_FALSE(after.labels[2].over);
  EXPECT_EQ(after.labels[0].count, monitor.labels[0].count);
}

// The error of the only label is that of the model: one alarm, whose acknowledgement ends both.
TEST(LabelStateTest, ASingleLabelRaisesOneAlarm) {
  v1::Model declared;
  declared.set_name("models/rain");
  declared.mutable_labels()->add_names("rain");
  ThreadPool pool("test", 1);
  const auto new_model = [&] {
    return std::make_unique<Model>(1, Checked(declared), ModelSnapshot::Time{}, ProducerLimits{},
                                   pool, nullptr);
  };
  auto model = new_model();
  std::mt19937_64 random(12);
  std::uniform_real_distribution<double> uniform;
  ObservationsRow rows;
  rows.values.width = rows.values.truths.each = 1;
  for (int i = 0; i < 2000; ++i) {
    const double stated = uniform(random);
    rows.values.values.push_back(stated);
    rows.values.truths.labels.push_back(i % 10 == 0 ? -1 : uniform(random) < 0.5 * stated ? 1 : 0);
  }
  model->strand_state().Apply(testing::RowOf(std::move(rows)), 1, seconds(1));
  const store::v1::ModelState saved = model->strand_state().Save();
  model = new_model();
  ASSERT_TRUE(model->strand_state().Restore(saved).ok());
  model->Publish();
  std::shared_ptr<const ModelSnapshot> snapshot = model->snapshot();
  std::vector<Alarm> over;
  std::ranges::copy_if(*snapshot->monitor->alarms, std::back_inserter(over),
                       [](const Alarm& one) { return one.kind == Alarm::Kind::kOverLimit; });
  ASSERT_EQ(over.size(), 1U);
  EXPECT_FALSE(over[0].label.has_value());
  ASSERT_EQ(snapshot->monitor->labels.size(), 1U);
  EXPECT_TRUE(snapshot->monitor->labels[0].over);
  // An alarm of the evidence names its label.
  const Alarm* const evidence = snapshot->monitor->FindActive(Alarm::Kind::kEvidence);
  ASSERT_NE(evidence, nullptr);
  EXPECT_EQ(evidence->label, std::optional<std::size_t>(0));
  EXPECT_THAT(MakeVerdict(*model, *snapshot, {}).labels_over_limit, ElementsAre(0U));

  const Verdict verdict = MakeVerdict(*model, *snapshot, {});
  EXPECT_FALSE(verdict.is_acknowledged);
  model->strand_state().Apply(testing::RowOf(AcknowledgedRow{.alarm_id = over[0].id, .note = ""}),
                              2, seconds(2));
  model->Publish();
  snapshot = model->snapshot();
  EXPECT_EQ(snapshot->monitor->FindActive(Alarm::Kind::kOverLimit), nullptr);
  EXPECT_TRUE(MakeVerdict(*model, *snapshot, {}).is_acknowledged);
  EXPECT_TRUE(snapshot->monitor->labels[0].acknowledged);
}

TEST(LabelStateTest, RowsThatAreAppliedTogetherAndARestoredStateGiveTheSameBits) {
  const auto rows = Rows();
  ThreadPool pool("test", 3);
  const auto state_after = [&](std::size_t together, std::size_t restored_at) {
    auto model = std::make_unique<Model>(1, Checked(LabelModel()), ModelSnapshot::Time{},
                                         ProducerLimits{}, pool, nullptr);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (i == restored_at) {
        model->strand_state().ApplyAppended();
        const store::v1::ModelState saved = model->strand_state().Save();
        model = std::make_unique<Model>(1, Checked(LabelModel()), ModelSnapshot::Time{},
                                        ProducerLimits{}, pool, nullptr);
        EXPECT_TRUE(model->strand_state().Restore(saved).ok());
      }
      model->strand_state().Append(rows[i].first, static_cast<std::int64_t>(i + 1), rows[i].second);
      if (i % together == 0) model->strand_state().ApplyAppended();
    }
    model->strand_state().ApplyAppended();
    store::v1::ModelState state = model->strand_state().Save();
    state.clear_snapshot_time_us();
    return state.SerializeAsString();
  };
  const std::string expected = state_after(1, rows.size());
  EXPECT_EQ(state_after(7, rows.size()), expected);
  EXPECT_EQ(state_after(1000, rows.size()), expected);
  EXPECT_EQ(state_after(1, 200), expected);
  EXPECT_EQ(state_after(5, 360), expected);
}

// Calibrated rows of three independent labels, in random order, sorted by their truths, or each
// twice.
TEST(LabelStateTest, RowsInAnOrderAreFound) {
  ThreadPool pool("test", 1);
  enum class Order { kRandom, kSorted, kTwice };
  const auto found_at = [&pool](Order order) {
    std::mt19937_64 random(11);
    std::uniform_real_distribution<double> uniform;
    struct Row {
      std::array<double, 3> stated;
      std::array<std::int32_t, 3> truths;
    };
    std::vector<Row> drawn(4000);
    for (Row& row : drawn) {
      for (std::size_t k = 0; k < 3; ++k) {
        row.stated[k] = uniform(random);
        row.truths[k] = uniform(random) < row.stated[k] ? 1 : 0;
      }
    }
    if (order == Order::kSorted) std::ranges::stable_sort(drawn, {}, &Row::truths);
    if (order == Order::kTwice) {
      for (std::size_t i = 1; i < drawn.size(); i += 2) drawn[i] = drawn[i - 1];
    }
    Model model(1, Checked(LabelModel()), {}, {}, pool, nullptr);
    for (std::size_t first = 0; first < drawn.size(); first += 500) {
      ObservationsRow batch;
      batch.values.width = batch.values.truths.each = 3;
      for (std::size_t i = first; i < first + 500; ++i) {
        for (std::size_t k = 0; k < 3; ++k) {
          batch.values.values.push_back(drawn[i].stated[k]);
          batch.values.truths.labels.push_back(drawn[i].truths[k]);
        }
      }
      model.strand_state().Apply(testing::RowOf(std::move(batch)),
                                 static_cast<std::int64_t>(first + 1), seconds(first));
    }
    model.Publish();
    return model.snapshot()->monitor->dependence_found_at;
  };
  EXPECT_EQ(found_at(Order::kRandom), 0);
  EXPECT_GT(found_at(Order::kSorted), 0);
  EXPECT_GT(found_at(Order::kTwice), 0);
}

// Classes that are sent as probabilities, until a row has another probability.
TEST(LabelStateTest, RowsThatAreCertainOfEachLabelAreCounted) {
  ThreadPool pool("test", 1);
  Model model(1, Checked(LabelModel()), {}, {}, pool, nullptr);
  std::int64_t log_id = 0;
  const auto certain_after = [&](int rows, double probability) {
    ObservationsRow batch;
    batch.values.width = batch.values.truths.each = 3;
    for (int i = 0; i < 3 * rows; ++i) {
      batch.values.values.push_back(i % 2 == 0 ? 1 : probability);
      batch.values.truths.labels.push_back(i % 2);
    }
    ++log_id;
    model.strand_state().Apply(testing::RowOf(std::move(batch)), log_id, seconds(log_id));
    model.Publish();
    const RowScreen::Counts& screen = model.snapshot()->monitor->screen;
    EXPECT_EQ(screen.certain_rows, screen.digit_rows);
    return screen.certain_rows;
  };
  EXPECT_EQ(certain_after(500, 0), 500);
  EXPECT_EQ(certain_after(700, 1), 1200);
  EXPECT_EQ(certain_after(4000, 0), LabelKind::kMostCertainRows);
  EXPECT_EQ(certain_after(1, 0.5), 0);
  EXPECT_EQ(certain_after(2, 0), 2);
}

TEST(LabelStateTest, AStateThatCannotBeIsDamage) {
  ThreadPool pool("test", 1);
  Model model(1, Checked(LabelModel()), {}, {}, pool, nullptr);
  std::int64_t log_id = 0;
  for (const auto& [row, time] : Rows()) model.strand_state().Apply(row, ++log_id, time);
  const store::v1::ModelState state = model.strand_state().Save();
  const auto refused = [&](const store::v1::ModelState& damaged) {
    Model other(2, Checked(LabelModel()), {}, {}, pool, nullptr);
    return absl::IsDataLoss(other.strand_state().Restore(damaged));
  };
  EXPECT_FALSE(refused(state));
  store::v1::ModelState damaged = state;
  damaged.mutable_monitor()->mutable_label_errors()->RemoveLast();
  EXPECT_TRUE(refused(damaged));
  damaged = state;
  damaged.mutable_monitor()->mutable_alarms(0)->set_label(3);
  EXPECT_TRUE(refused(damaged));
  damaged = state;
  damaged.mutable_monitor()->mutable_watch()->mutable_labels()->mutable_inverses()->RemoveLast();
  EXPECT_TRUE(refused(damaged));
  damaged = state;
  damaged.mutable_monitor()->mutable_label_errors(0)->mutable_sums()->clear_labels();
  EXPECT_TRUE(refused(damaged));
  damaged = state;
  damaged.mutable_history()->mutable_open(0)->mutable_labels()->add_truths(1);
  EXPECT_TRUE(refused(damaged));
}

// With one label, all labels together are this label.
TEST(LabelMeasureTest, OneLabelHasTheIntervalOfBinnedErrors) {
  const ErrorLevels levels{.bins = 0.03, .gap = 0.01};
  LabelMeasure measure(LabelMeasure::Of::kModel, 1, levels);
  LabelErrorSums since_start = LabelMeasure::NewSums(1);
  LabelErrorSums sums = since_start;
  ReliabilitySums expected;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 3000; ++i) {
    const double stated = uniform(random);
    const std::int8_t truth = uniform(random) < 0.8 * stated ? 1 : 0;
    LabelMeasure::Add({.probabilities = {&stated, 1}, .truths = {&truth, 1}, .label_count = 1}, 0,
                      since_start, sums, {});
    expected.Add(stated, truth == 1);
  }
  const ErrorInterval interval = *measure.Interval(sums, 0);
  const ErrorInterval binned = *BinnedErrorInterval(expected, levels);
  EXPECT_NEAR(interval.lower, binned.lower, 1e-12);
  EXPECT_NEAR(interval.upper, binned.upper, 1e-12);
  const LimitCheck check = measure.Check(sums, 3000, 0.5, 0.02);
  EXPECT_FALSE(check.over.has_value());
  EXPECT_NEAR(check.rows_to_over, 3000 * (0.5 - interval.lower), 1e-6);
  EXPECT_TRUE(measure.Check(sums, 3000, 0.02, 0.02).over.has_value());
}

using LabelWatch = LimitWatch<LabelMeasure>;

LabelWatch WatchOfLabels(LabelMeasure::Of of) {
  return LabelWatch(LabelMeasure(of, 1, {.bins = 0.03, .gap = 0.01}),
                    {.error_limit = 0.05, .min_observations = 100}, 1);
}

// Adds n rows of a label that holds with the stated probability minus `off`.
void AddRows(LabelWatch& watch, int n, double off, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < n; ++i) {
    const double stated = 0.8 + 0.2 * uniform(random);
    const std::int8_t truth = uniform(random) < stated - off ? 1 : 0;
    watch.Add({.probabilities = {&stated, 1}, .truths = {&truth, 1}, .label_count = 1},
              watch.count() + 1);
  }
}

store::v1::ErrorState StateOf(const LabelWatch& watch) {
  store::v1::ErrorState state;
  watch.Save(state);
  return state;
}

TEST(LabelMeasureTest, AnAlarmOfALabelRecoversAndItsMarksAreKeptMeanwhile) {
  for (const LabelMeasure::Of of : {LabelMeasure::Of::kModel, LabelMeasure::Of::kLabel}) {
    const bool is_label = of == LabelMeasure::Of::kLabel;
    std::mt19937_64 random(5);
    LabelWatch watch = WatchOfLabels(of);
    AddRows(watch, 3000, 0, random);
    EXPECT_EQ(StateOf(watch).marks_size(), is_label ? 0 : 2);
    EXPECT_EQ(watch.Snapshot().Read().newest.has_value(), !is_label);
    AddRows(watch, 3000, 0.3, random);
    ASSERT_TRUE(watch.TakeCrossing().has_value());
    EXPECT_FALSE(watch.Snapshot().Read().recovered);
    int good = 0;
    for (; good < 40000 && !watch.Snapshot().Read().recovered; good += 500) {
      AddRows(watch, 500, 0, random);
    }
    ASSERT_LT(good, 40000);
    const ErrorSnapshot snapshot = watch.Snapshot();
    const ErrorStretch newest = *snapshot.Read().newest;
    EXPECT_EQ(newest.start % 1024, 0);
    EXPECT_GE(newest.start, snapshot.over_at);
    EXPECT_LE(newest.intervals[0]->upper, 0.05);
    EXPECT_EQ(newest.observations, watch.count() - newest.start);

    LabelWatch restored = WatchOfLabels(of);
    ASSERT_TRUE(restored.Restore(StateOf(watch)).ok());
    EXPECT_EQ(StateOf(restored).SerializeAsString(), StateOf(watch).SerializeAsString());
    EXPECT_TRUE(restored.Snapshot().Read().recovered);

    // It stays right for some time, and is off again.
    AddRows(restored, 8000, 0, random);
    const auto back = static_cast<double>(restored.count());
    AddRows(restored, 2048, 0.3, random);
    EXPECT_FALSE(restored.Snapshot().Read().recovered);
    EXPECT_NEAR(static_cast<double>(restored.Snapshot().OverAgainSince().value_or(0)), back, 1100);

    watch.Acknowledge(watch.count());
    EXPECT_FALSE(watch.Snapshot().acknowledged);
    EXPECT_EQ(watch.Snapshot().Read().status, LimitStatus::kUndecided);
    EXPECT_EQ(StateOf(watch).marks_size(), 0);
    EXPECT_EQ(watch.Snapshot().recovery != nullptr, !is_label);
  }
}

TEST(LabelMeasureTest, ARecoveryBeginsAfterTheDatedChange) {
  std::mt19937_64 random(7);
  LabelWatch watch = WatchOfLabels(LabelMeasure::Of::kModel);
  watch.SetLimit(0.1, 0);
  AddRows(watch, 2000, 0.3, random);
  ASSERT_LE(watch.Snapshot().over_at, 1024) << "a stretch that begins there has 976 bad rows";
  int recovered = 0;
  for (int good = 500; good <= 20000; good += 500) {
    AddRows(watch, 500, 0, random);
    const ErrorSnapshot snapshot = watch.Snapshot();
    if (!snapshot.Read().recovered) continue;
    ++recovered;
    EXPECT_GE(snapshot.ChangedUntil(), 2000);
    EXPECT_GT(snapshot.Read().newest->first_observation, snapshot.ChangedUntil());
  }
  EXPECT_GT(recovered, 20);
}

TEST(LabelMeasureTest, KeepsAFewMarksForLong) {
  std::mt19937_64 random(6);
  LabelWatch watch = WatchOfLabels(LabelMeasure::Of::kLabel);
  AddRows(watch, 1000, 0.5, random);
  ASSERT_TRUE(watch.TakeCrossing().has_value());
  AddRows(watch, 1100 * 1024, 0.5, random);
  const store::v1::ErrorState state = StateOf(watch);
  EXPECT_GT(state.marks_size(), 15);
  EXPECT_LE(state.marks_size(), 24);
  EXPECT_LT(state.marks(0).first_observation(), 600 * 1024);
}

TEST(LabelStateTest, TheVerdictRecoversOnceAllAlarmsHave) {
  ErrorSnapshot label;
  const auto read = [&](bool over, bool recovered) {
    LabelWatch watch = WatchOfLabels(LabelMeasure::Of::kLabel);
    std::mt19937_64 random(8);
    AddRows(watch, 500, over ? 0.5 : 0, random);
    if (recovered) AddRows(watch, 30000, 0, random);
    EXPECT_EQ(watch.Snapshot().over, over);
    EXPECT_EQ(watch.Snapshot().Read().recovered, recovered);
    return watch.Snapshot();
  };
  ThreadPool pool("test", 1);
  Model model(1, Checked(LabelModel()), {}, {}, pool, nullptr);
  model.Publish();
  const auto verdict_of = [&](std::vector<ErrorSnapshot> labels) {
    ModelSnapshot snapshot = *model.snapshot();
    MonitorSnapshot monitor = *snapshot.monitor;
    monitor.error = read(false, false);
    monitor.labels = std::move(labels);
    snapshot.monitor = std::move(monitor);
    return MakeVerdict(model, snapshot, {});
  };
  EXPECT_FALSE(verdict_of({read(false, false)}).is_recovered) << "no alarm";
  EXPECT_TRUE(verdict_of({read(true, true), read(false, false)}).is_recovered);
  EXPECT_FALSE(verdict_of({read(true, true), read(true, false)}).is_recovered);
  EXPECT_EQ(verdict_of({read(true, true)}).limit_status, v1::CalibrationError::OVER_LIMIT);
}

}  // namespace
}  // namespace calibd::server::several_labels
