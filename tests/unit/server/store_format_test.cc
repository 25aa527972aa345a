// The bytes of the store's blobs: the files in tests/golden/store contain what was written once,
// and calibd reads these bytes for ever. CALIBD_TEST_WRITE_GOLDEN writes them anew: no released
// calibd has written this format yet.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "calibd/core/experts.h"
#include "calibd/store/v1/store.pb.h"
#include "server/ingest/decode.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/classes/evidence_watch.h"
#include "server/rows/producer_cursors.h"
#include "server/rows/row_codec.h"
#include "server/state/history.h"
#include "server/state/model.h"
#include "unit/server/golden_blob.h"

namespace calibd::server {
namespace {

constexpr std::chrono::microseconds kElapsed{123456789};

RowValues Values(std::vector<double> probabilities, std::vector<std::int32_t> labels) {
  RowValues values;
  values.values = std::move(probabilities);
  values.truths = std::move(labels);
  values.width = kStoreFormatClasses;
  return values;
}

PredictionsRow Predictions(std::vector<std::int32_t> labels) {
  PredictionsRow row;
  row.values = Values({0.25, 0.5, 0.25, 0.125, 0.125, 0.75}, std::move(labels));
  row.ids = {HashId("order-1"), HashId("order-2")};
  row.predicted_classes = {1, 2};
  return row;
}

struct Row {
  std::string name;
  LogRow row;
};

// One row of each kind.
std::vector<Row> Rows() {
  const ProducerPosition position{.producer_id = "producer", .epoch = 3, .sequence = 70000};
  std::vector<Row> rows;
  const auto add = [&rows](const std::string& name, auto kind,
                           std::optional<ProducerPosition> of = std::nullopt) {
    LogRow row;
    row.kind = std::move(kind);
    row.position = std::move(of);
    row.content_hash = row.position.has_value() ? 0x0123456789abcdef : 0;
    row.elapsed = kElapsed;
    rows.push_back({name, std::move(row)});
  };
  add("opened", OpenedRow(), ProducerPosition{.producer_id = "producer", .epoch = 3});
  add("rejected", RejectedRow{.rows = 300}, position);

  const RowValues single = Values({0.25, 0.5, 0.25, 0, 0, 1}, {1, 2});
  add("observations_float", ObservationsRow{.values = single, .dropped = {.rows = 5}}, position);
  add("observations_double",
      ObservationsRow{.values = Values({0.1, 0.2, 0.7, 0.25, 0.5, 0.25}, {0, 2})});
  ObservationsRow grouped{.values = single};
  grouped.values.group_values = {"eu", ""};
  add("grouped", grouped, position);

  PredictionsRow predictions = Predictions({});
  predictions.duplicates = 4;
  add("predictions", predictions, position);
  add("predictions_labelled", Predictions({1, 0}));
  PredictionsRow known;
  known.values.width = kStoreFormatClasses;
  known.duplicates = 7;
  add("predictions_known", known, position);

  LabelsRow labels;
  labels.ids = {HashId("order-2"), HashId("order-1")};
  labels.truths.labels = {2, 0};
  labels.counts = {.matched = 2, .repeated = 3, .conflicting = 4, .late = 5, .unknown = 6};
  add("labels", labels, position);
  labels.classes = {.matched = {}, .conflicting = {2, 1, 0, 0}, .late = {0, 2, 2, 1, 1}};
  add("labels_classes", labels, position);
  labels.waiting_ids = {HashId("order-9")};
  labels.waiting_truths.labels = {1};
  labels.counts.waiting = 1 - 2;
  labels.ended_waiting_log_id = 40;
  add("labels_waiting", labels, position);

  MaturedRow matured;
  matured.values = Values({0.25, 0.5, 0.25}, {1});
  matured.through_log_id = 41;
  matured.missing_predicted_classes = {2, 2, 0};
  add("matured", matured);
  matured.values.id_hashes = {HashId("order-1").low};
  add("matured_ids", matured);
  add("acknowledgement", AcknowledgedRow{.alarm_id = 3, .note = "retrained"});
  add("ended", EndedRow(), position);
  add("request", ObservationsRow{.values = single},
      ProducerPosition{.producer_id = "request-7", .sequence = 1, .request = true});
  return rows;
}

TEST(StoreFormatTest, RowsAreWrittenUnchanged) {
  for (const Row& one : Rows()) {
    std::string encoded = EncodeRow(one.row);
    AppendElapsed(one.row.elapsed, encoded);
    ExpectGolden("row_" + one.name, encoded);
  }
}

void ExpectSameValues(const RowValues* read, const RowValues* expected) {
  ASSERT_EQ(read == nullptr, expected == nullptr);
  if (read == nullptr) return;
  EXPECT_EQ(read->values, expected->values);
  EXPECT_EQ(read->truths, expected->truths);
  EXPECT_EQ(read->group_values, expected->group_values);
  EXPECT_EQ(read->id_hashes, expected->id_hashes);
  EXPECT_EQ(read->width, expected->width);
}

void ExpectSameLabels(const LabelsRow& read, const LabelsRow& expected) {
  EXPECT_EQ(read.truths, expected.truths);
  EXPECT_EQ(read.counts.matched, expected.counts.matched);
  EXPECT_EQ(read.counts.repeated, expected.counts.repeated);
  EXPECT_EQ(read.counts.conflicting, expected.counts.conflicting);
  EXPECT_EQ(read.counts.late, expected.counts.late);
  EXPECT_EQ(read.counts.unknown, expected.counts.unknown);
  EXPECT_EQ(read.counts.waiting, expected.counts.waiting);
  EXPECT_EQ(read.waiting_ids, expected.waiting_ids);
  EXPECT_EQ(read.waiting_truths, expected.waiting_truths);
  EXPECT_EQ(read.ended_waiting_log_id, expected.ended_waiting_log_id);
  EXPECT_EQ(read.classes.conflicting, expected.classes.conflicting);
  EXPECT_EQ(read.classes.late, expected.classes.late);
}

void ExpectSamePredictions(const PredictionsRow& read, const PredictionsRow& expected) {
  EXPECT_EQ(read.dropped.rows, expected.dropped.rows);
  EXPECT_EQ(read.predicted_classes, expected.predicted_classes);
  EXPECT_EQ(read.duplicates, expected.duplicates);
}

void ExpectSameRow(const LogRow& read, const LogRow& expected) {
  ASSERT_EQ(read.kind.index(), expected.kind.index());
  EXPECT_EQ(read.elapsed, expected.elapsed);
  EXPECT_EQ(read.rows(), expected.rows());
  EXPECT_EQ(read.validity().ok(), expected.validity().ok());
  EXPECT_EQ(read.content_hash, expected.content_hash);
  EXPECT_TRUE(std::ranges::equal(read.tracked_ids(), expected.tracked_ids()));
  ExpectSameValues(read.values(), expected.values());
  if (const auto* const observations = expected.As<ObservationsRow>()) {
    EXPECT_EQ(read.As<ObservationsRow>()->dropped.rows, observations->dropped.rows);
  } else if (const auto* const predictions = expected.As<PredictionsRow>()) {
    ExpectSamePredictions(*read.As<PredictionsRow>(), *predictions);
  } else if (const auto* const labels = expected.As<LabelsRow>()) {
    ExpectSameLabels(*read.As<LabelsRow>(), *labels);
  } else if (const auto* const matured = expected.As<MaturedRow>()) {
    EXPECT_EQ(read.As<MaturedRow>()->through_log_id, matured->through_log_id);
    EXPECT_EQ(read.As<MaturedRow>()->missing_predicted_classes, matured->missing_predicted_classes);
  } else if (const auto* const acknowledged = expected.As<AcknowledgedRow>()) {
    EXPECT_EQ(read.As<AcknowledgedRow>()->alarm_id, acknowledged->alarm_id);
    EXPECT_EQ(read.As<AcknowledgedRow>()->note, acknowledged->note);
  }
  ASSERT_EQ(read.position.has_value(), expected.position.has_value());
  if (expected.position.has_value()) {
    EXPECT_EQ(read.position->producer_id, expected.position->producer_id);
    EXPECT_EQ(read.position->epoch, expected.position->epoch);
    EXPECT_EQ(read.position->sequence, expected.position->sequence);
    EXPECT_EQ(read.position->request, expected.position->request);
  }
}

TEST(StoreFormatTest, RowsAreReadUnchanged) {
  for (const Row& one : Rows()) {
    SCOPED_TRACE(one.name);
    const auto read = DecodeRow(ReadGolden("row_" + one.name), kStoreFormatClasses);
    ASSERT_TRUE(read.ok()) << read.status();
    ExpectSameRow(*read, one.row);
  }
}

ModelDeclaration WatchedDeclaration() {
  ModelDeclaration declaration = StoreFormatDeclaration();
  declaration.monitoring = {};
  declaration.monitoring.group_tag = "region";
  declaration.monitoring.max_groups = 1;
  return declaration;
}

store::v1::Moments Moments(std::int64_t count, double mean, double m2) {
  store::v1::Moments moments;
  moments.set_count(count);
  moments.set_mean(mean);
  moments.set_m2(m2);
  return moments;
}

// shown: each row after reduction by the lens.
store::v1::LensState StateOfLens(double bandwidth, const std::vector<double>& shown) {
  store::v1::LensState lens;
  lens.set_bandwidth(bandwidth);
  store::v1::BlockState& pairs = *lens.add_blocks();
  *pairs.mutable_moments() = Moments(8, 0.1 * bandwidth, 0.2);
  pairs.mutable_pending_probabilities()->Add(shown.begin(), shown.end());
  pairs.add_pending_labels(1);
  store::v1::BlockState& sevens = *lens.add_blocks();
  *sevens.mutable_moments() = Moments(2, 0.3 * bandwidth, 0.4);
  for (int i = 0; i < 3; ++i) {
    sevens.mutable_pending_probabilities()->Add(shown.begin(), shown.end());
    sevens.add_pending_labels(i % 2);
  }
  *lens.mutable_null_squares() = Moments(16, 0.01, 0.02);
  lens.mutable_previous_probabilities()->Add(shown.begin(), shown.end());
  return lens;
}

store::v1::ModelState State() {
  store::v1::ModelState state;
  state.set_observations(17);
  state.set_accepted_batches(5);
  state.set_rejected_batches(6);
  state.set_rejected_rows(700);
  state.set_dropped_rows(8);
  state.set_last_observation_time_us(1700000000123456);
  *state.add_lenses() = StateOfLens(0.5, {0.2, 0.3, 0.5});
  *state.add_lenses() = StateOfLens(0.25, {0.5, 0.5});
  store::v1::LabelArrivals& coverage = *state.mutable_label_arrivals();
  coverage.set_predictions(31);
  coverage.set_duplicate_predictions(2);
  coverage.set_labelled(19);
  coverage.set_matched_labels(14);
  coverage.set_repeated_labels(15);
  coverage.set_conflicting_labels(16);
  coverage.set_late_labels(17);
  coverage.set_unknown_labels(18);
  for (int i = 0; i < 3; ++i) {
    coverage.add_matured(7 + i);
    coverage.add_missing(3 - i);
    coverage.add_late(4 + i);
    coverage.add_conflicting(6 - i);
  }
  return state;
}

// Values that identify their positions.
void Fill(int count, double scale, google::protobuf::RepeatedField<double>& out) {
  for (int i = 0; i < count; ++i) out.Add(scale * (i % 5));
}

store::v1::PastState Past(double scale) {
  constexpr int kM = static_cast<int>(kStoreFormatClasses);
  store::v1::PastState past;
  past.set_weight(1);
  Fill(128, scale, *past.mutable_fourier_sums());
  Fill(128 * kM, -scale, *past.mutable_witness());
  Fill(24 * kM, 3 * scale, *past.mutable_class_observed());
  Fill(24 * kM, 4 * scale, *past.mutable_class_expected());
  return past;
}

void SetMaximum(double log_value, std::int64_t at, store::v1::RunningMaximum& maximum) {
  maximum.set_log_value(log_value);
  maximum.set_at(at);
}

store::v1::MonitorState MonitorOf17() {
  constexpr int kCount = static_cast<int>(kExpertCount);
  store::v1::MonitorState monitor;
  store::v1::WatchState& watch = *monitor.mutable_watch();
  watch.set_first_observation(11);
  store::v1::EvidenceState& evidence = *watch.mutable_evidence();
  evidence.set_count(7);
  for (const Expert& expert : kExperts) evidence.add_expert_ids(expert.id);
  evidence.mutable_priors()->Add(kPriors.begin(), kPriors.end());
  evidence.set_log_offset(0.0625);
  Fill(kCount, -0.25, *evidence.mutable_log_e());
  SetMaximum(0.5, 3, *evidence.mutable_maximum());
  Fill(kCount, 0.25, *evidence.mutable_log_shiryaev_roberts());
  SetMaximum(0.75, 4, *evidence.mutable_shiryaev_roberts_maximum());
  Fill(kCount, 0.5, *evidence.mutable_e_growth());
  Fill(kCount, 1.5, *evidence.mutable_shiryaev_roberts_growth());
  for (auto* const growth :
       {evidence.mutable_e_growth(), evidence.mutable_shiryaev_roberts_growth()}) {
    for (double& value : *growth) value += 1;
  }
  evidence.set_square_sum(2.5);
  *evidence.mutable_projections() = Moments(7, 0.1, 0.2);
  evidence.set_projection_variance(0.3);
  *evidence.mutable_all() = Past(1);
  *evidence.mutable_recent() = Past(0.5);
  store::v1::ReliabilityState& reliability = *watch.mutable_reliability();
  for (int i = 0; i < 15; ++i) {
    reliability.add_counts(i < 7 ? 1 : 0);
    reliability.add_correct(i < 4 ? 1 : 0);
  }
  Fill(15, 0.1, *reliability.mutable_confidences());
  Fill(15, 0.2, *reliability.mutable_variances());
  reliability.set_brier(3.5);
  reliability.set_log_loss(4.5);
  for (int k = 0; k < 3; ++k) {
    watch.add_class_labels(4 - k);
    watch.add_class_predicted(1 + k);
    watch.add_class_variances(0.25 * (1 + k));
  }
  *watch.mutable_null_squares() = Moments(3, 0.375, 0.5);
  for (const double value : {0.25, 0.25, 0.5}) watch.add_null_squares_previous(value);
  store::v1::WatchState::ClassEvidence& classes = *watch.mutable_class_evidence();
  classes.set_count(7);
  // Each bet of the lower side of class 1 has won a factor of 10, all others nothing.
  for (int i = 0; i < 36; ++i) classes.add_inverses(i < 18 && i % 3 == 1 ? 0.1 : 1);
  store::v1::Alarm& dealt_with = *monitor.add_alarms();
  dealt_with.set_id(4);
  dealt_with.set_kind(1);
  dealt_with.set_raise_time_us(1700000000000001);
  dealt_with.set_observation(9);
  dealt_with.set_log10_value(1.5);
  dealt_with.set_threshold(1.25);
  dealt_with.set_skce(0.01);
  dealt_with.set_skce_lower_bound(0.001);
  dealt_with.set_gap(-0.5);
  Fill(kFamilyCount, 0.1, *dealt_with.mutable_family_shares());
  dealt_with.set_acknowledge_time_us(1700000000000002);
  dealt_with.set_note("retrained");
  store::v1::Alarm& active = *monitor.add_alarms();
  active.set_id(5);
  active.set_kind(2);
  active.set_raise_time_us(1700000000000003);
  active.set_observation(16);
  active.set_log10_value(7);
  active.set_threshold(6);
  Fill(kFamilyCount, 0.1, *active.mutable_family_shares());
  monitor.set_last_counted_time_us(1700000000000004);
  store::v1::GroupState& group = *monitor.add_groups();
  group.set_value("eu");
  *group.mutable_watch() = monitor.watch();
  store::v1::GroupState& overflow = *monitor.add_groups();
  overflow.set_overflow(true);
  *overflow.mutable_watch() = monitor.watch();
  // The error is measured from observation 18 on.
  const auto save = [](const ErrorBudget& budget, store::v1::ErrorState& out) {
    ClassErrorWatch(ClassMeasure(budget), {.error_limit = 0.02, .min_observations = 100}, 18)
        .Save(out);
  };
  save(ErrorBudget::OfModel(0.05, kStoreFormatClasses), *monitor.mutable_error());
  for (store::v1::GroupState& one : *monitor.mutable_groups()) {
    save(ErrorBudget::OfGroup(0.05, 2, kStoreFormatClasses), *one.mutable_error());
  }
  monitor.set_evidence_alarms(3);
  monitor.set_drift_alarms(2);
  return monitor;
}

TEST(StoreFormatTest, MonitoredStatesAreWrittenUnchanged) {
  ThreadPool pool("test", 1);
  Model model(1, WatchedDeclaration(), {}, {}, pool, nullptr);
  store::v1::ModelState state = State();
  *state.mutable_monitor() = MonitorOf17();
  const absl::Status restored = model.strand_state().Restore(state);
  ASSERT_TRUE(restored.ok()) << restored;
  ExpectGolden("model_state_watched", model.strand_state().Save().SerializeAsString());
}

TEST(StoreFormatTest, MonitoredStatesAreReadUnchanged) {
  store::v1::ModelState golden;
  ASSERT_TRUE(golden.ParseFromString(ReadGolden("model_state_watched")));
  ThreadPool pool("test", 1);
  Model model(1, WatchedDeclaration(), {}, {}, pool, nullptr);
  const absl::Status restored = model.strand_state().Restore(golden);
  ASSERT_TRUE(restored.ok()) << restored;
  model.Publish();
  const MonitorSnapshot& monitor = *model.snapshot()->monitor;
  const auto time = [](std::int64_t microseconds) {
    return Alarm::Time(std::chrono::microseconds(microseconds));
  };
  EXPECT_EQ(monitor.last_counted_time, time(1700000000000004));
  EXPECT_EQ(monitor.raised, (Alarm::Counts{3, 2, 0, 0}));
  EXPECT_EQ(monitor.watch->first_observation, 11);
  const auto& details = *monitor.watch->As<ClassWatchDetails>();
  EXPECT_EQ(details.null_moments.n, 7U);
  EXPECT_EQ(details.null_moments.mean_square, 0.375);
  // (0.25 + 0.5 + 0.75) / 7.
  EXPECT_DOUBLE_EQ(details.null_moments.mean_diagonal, 1.5 / 7);
  ASSERT_EQ(details.deviating_classes.size(), 3U);
  EXPECT_EQ(details.deviating_classes[0].index, 0U);
  EXPECT_EQ(details.deviating_classes[0].frequencies, (RunningClassFrequencies::Class{4, 1, 0.25}));
  for (const DeviatingClass& one : details.deviating_classes) {
    EXPECT_NEAR(one.log10_e_value, one.index == 1 ? 1 : 0, 1e-15);
  }
  const EvidenceReading& reading = monitor.watch->reading;
  EXPECT_EQ(reading.count, 7);
  EXPECT_EQ(reading.maximum, (RunningMaximum{0.5, 3}));
  EXPECT_EQ(reading.drift.maximum, (RunningMaximum{0.75, 4}));
  EXPECT_EQ(reading.projections, (RunningMoments{7, 0.1, 0.2}));
  EXPECT_EQ(reading.projection_variance, 0.3);
  double norm2 = 0;
  for (const double value : golden.monitor().watch().evidence().all().witness()) {
    norm2 += value * value;
  }
  EXPECT_DOUBLE_EQ(*reading.skce_unbiased, (norm2 - 2.5) / (7 * 6));
  const RunningReliability::Bin total = details.reliability.Total();
  EXPECT_EQ(total.count, 7);
  EXPECT_EQ(total.correct, 4);
  EXPECT_DOUBLE_EQ(total.confidence, 3.0);
  EXPECT_DOUBLE_EQ(total.variance, 6.0);
  EXPECT_EQ(details.reliability.brier, 3.5);
  EXPECT_EQ(details.reliability.log_loss, 4.5);
  ASSERT_EQ(monitor.groups.size(), 2U);
  EXPECT_EQ(monitor.groups[0]->id.value, "eu");
  EXPECT_FALSE(monitor.groups[0]->id.overflow);
  EXPECT_EQ(monitor.groups[0]->watch.reading.count, 7);
  EXPECT_TRUE(monitor.groups[1]->id.overflow);
  ASSERT_EQ(monitor.alarms->size(), 2U);
  const Alarm& dealt_with = monitor.alarms->front();
  EXPECT_EQ(dealt_with.id, 4);
  EXPECT_EQ(dealt_with.kind, Alarm::Kind::kEvidence);
  EXPECT_EQ(dealt_with.raise_time, time(1700000000000001));
  EXPECT_EQ(dealt_with.observation, 9);
  EXPECT_EQ(dealt_with.log10_value, 1.5);
  EXPECT_EQ(dealt_with.threshold, 1.25);
  EXPECT_EQ(dealt_with.skce, 0.01);
  EXPECT_EQ(dealt_with.skce_lower_bound, 0.001);
  EXPECT_EQ(dealt_with.gap, -0.5);
  EXPECT_EQ(dealt_with.family_share[4], 0.1 * 4);
  EXPECT_EQ(dealt_with.acknowledge_time, time(1700000000000002));
  EXPECT_EQ(dealt_with.note, "retrained");
  const Alarm& active = *monitor.FindActive(Alarm::Kind::kDrift);
  EXPECT_EQ(active.id, 5);
  EXPECT_FALSE(active.skce.has_value());
  EXPECT_FALSE(active.acknowledge_time.has_value());
}

TEST(StoreFormatTest, ImpossibleClassEvidenceIsRefused) {
  ThreadPool pool("test", 1);
  store::v1::ModelState state = State();
  for (const bool too_many : {false, true}) {
    Model other(1, WatchedDeclaration(), {}, {}, pool, nullptr);
    *state.mutable_monitor() = MonitorOf17();
    auto& classes = *state.mutable_monitor()->mutable_watch()->mutable_class_evidence();
    too_many ? classes.set_count(8) : classes.mutable_inverses()->RemoveLast();
    EXPECT_EQ(other.strand_state().Restore(state).code(), absl::StatusCode::kDataLoss);
  }
}

TEST(StoreFormatTest, StatesAreWrittenUnchanged) {
  ThreadPool pool("test", 1);
  Model model(1, StoreFormatDeclaration(), {}, {}, pool, nullptr);
  const absl::Status restored = model.strand_state().Restore(State());
  ASSERT_TRUE(restored.ok()) << restored;
  ExpectGolden("model_state", model.strand_state().Save().SerializeAsString());
}

TEST(StoreFormatTest, StatesAreReadUnchanged) {
  store::v1::ModelState golden;
  ASSERT_TRUE(golden.ParseFromString(ReadGolden("model_state")));
  ThreadPool pool("test", 1);
  Model model(1, StoreFormatDeclaration(), {}, {}, pool, nullptr);
  const absl::Status restored = model.strand_state().Restore(golden);
  ASSERT_TRUE(restored.ok()) << restored;
  model.Publish();
  const auto state = model.snapshot();
  EXPECT_EQ(state->observations, 17);
  EXPECT_EQ(state->accepted_batches, 5);
  EXPECT_EQ(state->rejected_batches, 6);
  EXPECT_EQ(state->rejected_rows, 700);
  EXPECT_EQ(state->dropped_rows, 8);
  EXPECT_EQ(state->last_observation_time,
            ModelSnapshot::Time(std::chrono::microseconds(1700000000123456)));
  ASSERT_EQ(state->lenses.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const double bandwidth = i == 0 ? 0.5 : 0.25;
    const LensSnapshot& lens = state->lenses[i];
    EXPECT_EQ(std::get<Kernel>(*lens.kernel).bandwidth(), bandwidth);
    ASSERT_EQ(lens.blocks.size(), 2U);
    EXPECT_EQ(lens.blocks[0].moments, (RunningMoments{8, 0.1 * bandwidth, 0.2}));
    EXPECT_EQ(lens.blocks[0].pending, 1U);
    EXPECT_EQ(lens.blocks[1].moments, (RunningMoments{2, 0.3 * bandwidth, 0.4}));
    EXPECT_EQ(lens.blocks[1].pending, 3U);
    // The noise floor comes from 8 pairs.
    EXPECT_DOUBLE_EQ(lens.blocks[0].noise_floor->standard_deviation, std::sqrt(0.01 / 8));
  }
  const LabelArrivals& coverage = *state->label_arrivals;
  EXPECT_EQ(coverage.predictions, 31);
  EXPECT_EQ(coverage.duplicate_predictions, 2);
  EXPECT_EQ(coverage.labelled, 19);
  EXPECT_EQ(coverage.labels.matched, 14);
  EXPECT_EQ(coverage.labels.repeated, 15);
  EXPECT_EQ(coverage.labels.conflicting, 16);
  EXPECT_EQ(coverage.labels.late, 17);
  EXPECT_EQ(coverage.labels.unknown, 18);
  EXPECT_EQ(coverage.matured, 7 + 8 + 9);
  EXPECT_EQ(coverage.missing, 3 + 2 + 1);
  for (std::size_t i = 0; i < kStoreFormatClasses; ++i) {
    EXPECT_EQ((*coverage.classes)[i].matured, static_cast<std::int64_t>(7 + i));
    EXPECT_EQ((*coverage.classes)[i].missing, static_cast<std::int64_t>(3 - i));
    EXPECT_EQ((*coverage.classes)[i].late, static_cast<std::int64_t>(4 + i));
    EXPECT_EQ((*coverage.classes)[i].conflicting, static_cast<std::int64_t>(6 - i));
  }
}

}  // namespace
}  // namespace calibd::server
