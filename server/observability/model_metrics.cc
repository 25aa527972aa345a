#include "server/observability/model_metrics.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "calibd/core/p_value.h"
#include "server/answers/verdict.h"
#include "server/kinds/classes/class_measure.h"
#include "server/kinds/classes/evidence_watch.h"
#include "server/kinds/kind_table.h"
#include "server/kinds/labels/label_kind.h"
#include "server/kinds/numbers/coverage_measure.h"
#include "server/kinds/numbers/number_kind.h"

namespace calibd::server {
namespace {

using enum prometheus::MetricType;

// Maximum number of classes with series of their own. Models with more classes export one series
// with an empty predicted_class for all classes together.
constexpr std::size_t kMostClassSeries = 32;
// The kinds of alarms, in the order of MonitorSnapshot::raised.
constexpr std::array<std::pair<Alarm::Kind, const char*>, 4> kAlarmKinds{
    {{Alarm::Kind::kEvidence, "evidence"},
     {Alarm::Kind::kDrift, "drift"},
     {Alarm::Kind::kOverLimit, "over_limit"},
     {Alarm::Kind::kChanged, "changed"}}};

// A model that never had a reference has no series for changes since it.
bool HasKind(const MonitorSnapshot& monitor, Alarm::Kind kind) {
  return kind != Alarm::Kind::kChanged || monitor.reference.has_value() ||
         monitor.raised[static_cast<std::size_t>(kind) - 1] > 0;
}

double Seconds(std::chrono::duration<double> duration) { return duration.count(); }

// 0 means that the time is unknown.
std::optional<double> KnownSeconds(std::int64_t time_us) {
  if (time_us == 0) return std::nullopt;
  return static_cast<double>(time_us) / 1e6;
}

struct ModelSource {
  const Model& model;
  const ModelSnapshot& snapshot;
};

// The rows of these two tables come first for all models: alerts on any model need them.
constexpr FamilyRow<ModelSource> kModelRows[] = {
    {"calibd_model_info", Gauge, "Declared models; the value is always 1.",
     [](auto& source, auto& out) {
       const ModelDeclaration& declaration = *source.snapshot.declaration;
       out.Add(1, {{"classes", absl::StrCat(declaration.class_count())},
                   {"kernel", KindOf(declaration).kernel_name(declaration)}});
     }},
    {"calibd_last_observation_timestamp_seconds", Gauge,
     "Time of the newest accepted batch, in seconds since the Unix epoch.",
     [](auto& source, auto& out) {
       const std::optional<ModelSnapshot::Time>& time = source.snapshot.last_observation_time;
       if (time.has_value()) out.Add(Seconds(time->time_since_epoch()));
     }},
};

struct AlarmSource {
  const Model& model;
  const MonitorSnapshot& monitor;
  const Verdict& verdict;
};

constexpr FamilyRow<AlarmSource> kAlarmRows[] = {
    {"calibd_verdict", Gauge,
     "The current verdict, as labels: how far off the model is against its limit, whether only the "
     "recent error exceeds it, whether this was acknowledged, and whether calibration is rejected. "
     "The value is always 1.",
     [](auto& source, auto& out) {
       const Verdict& verdict = source.verdict;
       out.Add(1, {{"limit_status", convert::StatusName(verdict.limit_status)},
                   {"recent", verdict.is_recent ? "true" : "false"},
                   {"acknowledged", verdict.is_acknowledged ? "true" : "false"},
                   {"status", convert::StatusName(verdict.status)}});
     }},
    {"calibd_alarm_active", Gauge,
     "1 while an alarm of this kind (evidence, drift, over_limit; changed for a model with a "
     "reference) is raised and not acknowledged, else 0.",
     [](auto& source, auto& out) {
       for (const auto& [kind, name] : kAlarmKinds) {
         if (!HasKind(source.monitor, kind)) continue;
         out.Add(source.monitor.FindActive(kind) != nullptr ? 1 : 0, {{"kind", name}});
       }
     }},
    {"calibd_alarm_recovered", Gauge,
     "1 while alarms of this kind (over_limit) are active and what they found has ended: the "
     "newest predictions of the model, group or label are shown to be within the limit, else 0.",
     [](auto& source, auto& out) {
       out.Add(source.verdict.is_recovered ? 1 : 0, {{"kind", "over_limit"}});
     }},
    {"calibd_alarm_limit_raised", Gauge,
     "1 while alarms of this kind (over_limit) are active although nothing is over the limit, "
     "because the limit was raised above what they found, else 0.",
     [](auto& source, auto& out) {
       const bool is_active = source.monitor.FindActive(Alarm::Kind::kOverLimit) != nullptr;
       const bool is_over = source.verdict.limit_status == v1::CalibrationError::OVER_LIMIT;
       out.Add(is_active && !is_over ? 1 : 0, {{"kind", "over_limit"}});
     }},
    {"calibd_alarm_raise_timestamp_seconds", Gauge,
     "Time at which the oldest active alarm of this kind was raised, in seconds since the Unix "
     "epoch.",
     [](auto& source, auto& out) {
       for (const auto& [kind, name] : kAlarmKinds) {
         const Alarm* const alarm = source.monitor.FindActive(kind);
         if (alarm == nullptr) continue;
         out.Add(Seconds(alarm->raise_time.time_since_epoch()), {{"kind", name}});
       }
     }},
    {"calibd_last_counted_timestamp_seconds", Gauge,
     "Time of the newest labelled prediction that was counted, or of the model's creation if none "
     "was, in seconds since the Unix epoch.",
     [](auto& source, auto& out) {
       const std::optional<Alarm::Time>& time = source.monitor.last_counted_time;
       out.Add(Seconds(time.value_or(source.model.create_time()).time_since_epoch()));
     }},
    {"calibd_stale_after_seconds", Gauge,
     "The model is stale when calibd_last_counted_timestamp_seconds is older than this.",
     [](auto& source, auto& out) {
       out.Add(Seconds(source.model.declaration()->monitoring.stale_after));
     }},
};

constexpr FamilyRow<ModelSource> kCountRows[] = {
    {"calibd_observations_total", Counter, "Number of accepted labelled predictions.",
     [](auto& source, auto& out) { out.Add(source.snapshot.observations); }},
    {"calibd_batches_total", Counter,
     "Number of acknowledged batches: accepted, duplicate (accepted before) or rejected (invalid).",
     [](auto& source, auto& out) {
       out.Add(source.snapshot.accepted_batches, {{"outcome", "accepted"}});
       out.Add(source.snapshot.duplicate_batches, {{"outcome", "duplicate"}});
       out.Add(source.snapshot.rejected_batches, {{"outcome", "rejected"}});
     }},
    {"calibd_rejected_rows_total", Counter,
     "Number of rows in rejected batches, and of skipped rows.",
     [](auto& source, auto& out) { out.Add(source.snapshot.rejected_rows); }},
    {"calibd_dropped_rows_total", Counter,
     "Number of rows that producers report to have dropped before sending.",
     [](auto& source, auto& out) { out.Add(source.snapshot.dropped_rows); }},
    {"calibd_dropped_labels_total", Counter,
     "Number of labels by id that producers report to have dropped before sending.",
     [](auto& source, auto& out) { out.Add(source.snapshot.dropped_labels); }},
    {"calibd_window_observations", Gauge, "Number of observations in the window.",
     [](auto& source, auto& out) { out.Add(source.snapshot.window.size()); }},
    {"calibd_bandwidth_failed", Gauge,
     "1 if no bandwidth could be chosen from the warm-up, so that nothing is estimated, else 0.",
     [](auto& source, auto& out) {
       const std::vector<LensSnapshot>& lenses = source.snapshot.lenses;
       out.Add(!lenses.empty() && !lenses.front().kernel.has_value() ? 1 : 0);
     }},
    {"calibd_snapshot_timestamp_seconds", Gauge,
     "Time of the newest persisted snapshot, in seconds since the Unix epoch.",
     [](auto& source, auto& out) { out.Add(KnownSeconds(source.model.stored_time_us())); }},
    {"calibd_producers", Gauge,
     "Number of producers with a complete cursor. Producers that have ended or were idle for long "
     "are not included.",
     [](auto& source, auto& out) { out.Add(source.model.producers()); }},
    {"calibd_oldest_pending_timestamp_seconds", Gauge,
     "Time at which the oldest pending prediction was accepted, in seconds since the Unix epoch.",
     [](auto& source, auto& out) { out.Add(KnownSeconds(source.model.oldest_pending_time_us())); }},
};

// Scores over all observations, of which there is at least one.
constexpr FamilyRow<RunningReliability> kScoreRows[] = {
    {"calibd_brier_score", Gauge, "Mean Brier score of all observations, in [0, 2].",
     [](auto& sums, auto& out) { out.Add(sums.brier / static_cast<double>(sums.Total().count)); }},
    {"calibd_log_loss", Gauge,
     "Mean log loss of all observations, in nats. Each term is at most 36.04.",
     [](auto& sums, auto& out) {
       out.Add(sums.log_loss / static_cast<double>(sums.Total().count));
     }},
};

// Adds the differences of a model with a baseline and at least one observation.
void AddDifferences(const Comparison& comparison, double ScoreDifference::*value, Series& out) {
  out.Add(comparison.log_loss.*value, {{"score", "log_loss"}});
  out.Add(comparison.brier.*value, {{"score", "brier"}});
  out.Add(comparison.binned_error.*value, {{"score", "binned_error"}});
}

constexpr FamilyRow<Comparison> kComparisonRows[] = {
    {"calibd_baseline_difference", Gauge,
     "Score of the model minus that of its baseline for the same observations, in nats (log_loss), "
     "in [-2, 2] (brier) or as a probability (binned_error). It is negative if the model is "
     "better.",
     [](auto& all, auto& out) { AddDifferences(all, &ScoreDifference::difference, out); }},
    {"calibd_baseline_difference_lower_bound", Gauge,
     "Lower end of the interval of calibd_baseline_difference. It holds at any time.",
     [](auto& all, auto& out) { AddDifferences(all, &ScoreDifference::lower, out); }},
    {"calibd_baseline_difference_upper_bound", Gauge,
     "Upper end of the interval of calibd_baseline_difference. It holds at any time.",
     [](auto& all, auto& out) { AddDifferences(all, &ScoreDifference::upper, out); }},
};

constexpr FamilyRow<LabelArrivals> kArrivalRows[] = {
    {"calibd_predictions_total", Counter,
     "Number of predictions with an id: taken, or duplicate (the id was known).",
     [](auto& arrivals, auto& out) {
       out.Add(arrivals.predictions, {{"outcome", "taken"}});
       out.Add(arrivals.duplicate_predictions, {{"outcome", "duplicate"}});
     }},
    {"calibd_labels_total", Counter,
     "Number of labels sent by id: matched, repeated, conflicting (the first label is kept), late "
     "(after label_grace) or unknown (its prediction did not arrive within a minute).",
     [](auto& arrivals, auto& out) {
       out.Add(arrivals.labels.matched, {{"outcome", "matched"}});
       out.Add(arrivals.labels.repeated, {{"outcome", "repeated"}});
       out.Add(arrivals.labels.conflicting, {{"outcome", "conflicting"}});
       out.Add(arrivals.labels.late, {{"outcome", "late"}});
       out.Add(arrivals.labels.unknown, {{"outcome", "unknown"}});
     }},
    {"calibd_labels_waiting", Gauge,
     "Number of labels sent by id that wait for their predictions, at most a minute each.",
     [](auto& arrivals, auto& out) { out.Add(arrivals.labels.waiting); }},
};

constexpr FamilyRow<ClassArrivals> kClassRows[] = {
    {"calibd_predictions_pending", Gauge,
     "Number of predictions that are younger than label_grace, by their most probable class. "
     "Models "
     "with more than 32 classes have one series for all classes.",
     [](auto& arrivals, auto& out) {
       out.Add(arrivals.pending.labelled, {{"labelled", "true"}});
       out.Add(arrivals.pending.all - arrivals.pending.labelled, {{"labelled", "false"}});
     }},
    {"calibd_predictions_matured_total", Counter,
     "Number of predictions that reached label_grace, by their most probable class.",
     [](auto& arrivals, auto& out) { out.Add(arrivals.matured); }},
    {"calibd_predictions_unlabelled_total", Counter,
     "Number of matured predictions without a label. Estimates do not include them.",
     [](auto& arrivals, auto& out) { out.Add(arrivals.missing); }},
    {"calibd_predicted_class_labels_total", Counter,
     "Number of late and conflicting labels, by the most probable class of their prediction.",
     [](auto& arrivals, auto& out) {
       out.Add(arrivals.late, {{"outcome", "late"}});
       out.Add(arrivals.conflicting, {{"outcome", "conflicting"}});
     }},
};

constexpr FamilyRow<Kernel> kKernelRows[] = {
    {"calibd_bandwidth", Gauge, "Bandwidth of the kernel, in units of its distance.",
     [](auto& kernel, auto& out) { out.Add(kernel.bandwidth()); }},
};

// Estimators with at least one block.
constexpr FamilyRow<RunningBlock> kBlockRows[] = {
    {"calibd_skce", Gauge,
     "Running, unbiased estimate of the squared kernel calibration error. It may be negative.",
     [](auto& block, auto& out) { out.Add(block.moments.mean); }},
    {"calibd_skce_noise_floor", Gauge,
     "95 % quantile of calibd_skce for a calibrated model that makes the same predictions.",
     [](auto& block, auto& out) {
       if (block.noise_floor.has_value()) out.Add(block.noise_floor->upper_quantile);
     }},
    {"calibd_skce_lower_bound", Gauge,
     "One-sided asymptotic 95 % lower confidence bound of calibd_skce. For one look only; absent "
     "below 30 blocks.",
     [](auto& block, auto& out) {
       if (const auto test = TestBlocks(block.moments)) out.Add(test->skce_lower_bound);
     }},
    {"calibd_estimate_samples", Gauge,
     "Number of observations from which calibd_skce and calibd_test_p_value with the same labels "
     "are "
     "computed.",
     [](auto& block, auto& out) {
       out.Add(static_cast<double>(block.moments.count) * static_cast<double>(block.block_size));
     }},
    {"calibd_test_p_value", Gauge,
     "Asymptotic p-value of the null hypothesis that the model is calibrated; absent below 30 "
     "blocks. For one look only: an alert on it fires on calibrated models.",
     [](auto& block, auto& out) {
       if (const auto test = TestBlocks(block.moments)) out.Add(test->p_value);
     }},
    {"calibd_test_statistic", Gauge,
     "z of the asymptotic test: sqrt(blocks) mean / standard deviation. For one look only; absent "
     "below 30 blocks.",
     [](auto& block, auto& out) {
       if (const auto test = TestBlocks(block.moments)) out.Add(test->z);
     }},
};

struct WatchSource {
  const EvidenceReading& reading;
  EffectSize effect;
};

constexpr FamilyRow<WatchSource> kWatchRows[] = {
    {"calibd_log10_e_value", Gauge,
     "log10 of the e-value against the null hypothesis that the model is calibrated. A calibrated "
     "model ever reaches log10(1 / alpha) with a probability of at most alpha.",
     [](auto& watch, auto& out) { out.Add(watch.reading.evidence.log10_e_value); }},
    {"calibd_log10_e_value_max", Gauge, "Largest calibd_log10_e_value since the watch began.",
     [](auto& watch, auto& out) { out.Add(watch.reading.maximum.log_value / std::numbers::ln10); }},
    {"calibd_watch_observations", Gauge,
     "Number of observations since the watch began: at the first observation, or at the newest "
     "acknowledgement of an evidence alarm.",
     [](auto& watch, auto& out) { out.Add(watch.reading.count); }},
    {"calibd_drift_log10_statistic", Gauge,
     "log10(1 + R) of the Shiryaev-Roberts detector of a change from calibrated to miscalibrated. "
     "A "
     "calibrated model reaches log10(1 + c) at most once in c observations, on average.",
     [](auto& watch, auto& out) { out.Add(watch.reading.drift.log10_now); }},
    {"calibd_effect_skce", Gauge,
     "Unbiased estimate of the squared kernel calibration error from all pairs of observations of "
     "the watch, with Fourier terms of the kernel. It may be negative.",
     [](auto& watch, auto& out) { out.Add(watch.effect.skce); }},
    {"calibd_effect_skce_lower_bound", Gauge,
     "Lower confidence bound of the squared kernel calibration error; holds at any time.",
     [](auto& watch, auto& out) { out.Add(watch.effect.skce_lower_bound); }},
    {"calibd_effect_skce_upper_bound", Gauge,
     "Upper confidence bound of the squared kernel calibration error; holds at any time.",
     [](auto& watch, auto& out) { out.Add(watch.effect.skce_upper_bound); }},
    {"calibd_effect_skce_noise_floor", Gauge,
     "95 % quantile of calibd_effect_skce for a calibrated model that makes the same predictions.",
     [](auto& watch, auto& out) { out.Add(watch.effect.noise_floor); }},
};

// The two series of the error; models of more than two classes have only the first one.
using ShownIntervals =
    std::array<std::optional<ErrorInterval>, std::tuple_size_v<MeasuredError::Events>>;

struct MonitorSource {
  const MonitorSnapshot& monitor;
  const Verdict& verdict;
  ShownIntervals error;
  const MeasuredError::Events& events;
};

void AddError(const MonitorSource& source, double ErrorInterval::*end, Series& out) {
  for (std::size_t s = 0; s < source.error.size(); ++s) {
    if (!source.error[s].has_value()) continue;
    out.Add((*source.error[s]).*end, {{"event", source.events[s]}});
  }
}

constexpr FamilyRow<MonitorSource> kMonitorRows[] = {
    {"calibd_binned_error", Gauge,
     "Estimated calibration error since the newest acknowledgement of an alarm over_limit, or "
     "since "
     "the start, as a probability: the mean over these predictions of how far the stated "
     "probability was off in its bin. Event top_label: the most probable class is right. Event "
     "class_1, only for two classes: the label is class 1. Event coverage, for forecasts of a "
     "number: half the sum over the cells of the forecasts of |stated probability - frequency|. "
     "Event labels, for several labels: the average over their known truths. "
     "The estimate is biased upwards.",
     [](auto& source, auto& out) { AddError(source, &ErrorInterval::estimate, out); }},
    {"calibd_binned_error_lower_bound", Gauge,
     "Lower end of the interval of calibd_binned_error. It holds at any time.",
     [](auto& source, auto& out) { AddError(source, &ErrorInterval::lower, out); }},
    {"calibd_binned_error_upper_bound", Gauge,
     "Upper end of the interval of calibd_binned_error. It holds at any time.",
     [](auto& source, auto& out) { AddError(source, &ErrorInterval::upper, out); }},
    {"calibd_error_limit", Gauge, "Calibration error that the model's declaration accepts.",
     [](auto& source, auto& out) { out.Add(source.monitor.error.error_limit); }},
    {"calibd_confidence_minus_accuracy", Gauge,
     "Mean probability of the most probable class minus the accuracy, over the predictions of "
     "calibd_binned_error. It is positive if the model is over-confident.",
     [](auto& source, auto& out) {
       if (source.error[0].has_value() &&
           source.monitor.error.template As<MeasuredClassError>() != nullptr) {
         out.Add(source.error[0]->gap);
       }
     }},
    {"calibd_rejected_groups", Gauge,
     "Number of groups for which calibration is rejected, by e-BH over all tested groups.",
     [](auto& source, auto& out) {
       out.Add(static_cast<double>(source.verdict.rejected_groups.size()));
     }},
    {"calibd_rejected_classes", Gauge,
     "Number of classes for which calibration is rejected, by e-BH over all classes. It is 0 "
     "before min_observations.",
     [](auto& source, auto& out) {
       if (source.monitor.watch.has_value()) out.Add(source.verdict.rejected_classes);
     }},
    {"calibd_alarms_total", Counter, "Number of raised alarms, by kind.",
     [](auto& source, auto& out) {
       for (std::size_t i = 0; i < kAlarmKinds.size(); ++i) {
         if (!HasKind(source.monitor, kAlarmKinds[i].first)) continue;
         out.Add(source.monitor.raised[i], {{"kind", kAlarmKinds[i].second}});
       }
     }},
};

struct NewestSource {
  const ErrorStretch& stretch;
  const MeasuredError::Events& events;
};

void AddNewest(const NewestSource& source, double ErrorInterval::*value, auto& out) {
  for (std::size_t s = 0; s < source.events.size(); ++s) {
    const std::optional<ErrorInterval>& interval = source.stretch.intervals[s];
    if (interval.has_value()) out.Add((*interval).*value, {{"event", source.events[s]}});
  }
}

// Set from 1000 predictions on.
constexpr FamilyRow<NewestSource> kNewestRows[] = {
    {"calibd_newest_error", Gauge,
     "Estimated calibration error, as calibd_binned_error, of the newest predictions: the newest "
     "1000 to 2023, or those since an active alarm over_limit has recovered. The estimate is "
     "biased upwards.",
     [](auto& source, auto& out) { AddNewest(source, &ErrorInterval::estimate, out); }},
    {"calibd_newest_error_lower_bound", Gauge,
     "Lower end of the interval of calibd_newest_error, at 95 % for these predictions.",
     [](auto& source, auto& out) { AddNewest(source, &ErrorInterval::lower, out); }},
    {"calibd_newest_error_upper_bound", Gauge,
     "Upper end of the interval of calibd_newest_error, at 95 % for these predictions.",
     [](auto& source, auto& out) { AddNewest(source, &ErrorInterval::upper, out); }},
    {"calibd_newest_error_observations", Gauge, "Number of predictions of calibd_newest_error.",
     [](auto& source, auto& out) { out.Add(source.stretch.observations); }},
};

// The intervals that `calibctl show` prints. An acknowledgement empties the sums; those since the
// start bridge the time until the next observation, so that no series ends.
ShownIntervals ShownError(const ErrorSnapshot& error) {
  const ErrorReading& reading = error.Read();
  return error.count > 0 ? reading.now : reading.since_start;
}

std::int64_t ShownCount(const ErrorSnapshot& error) {
  return error.count > 0 ? error.count : error.measured->count_since_start();
}

constexpr FamilyRow<GroupSnapshot> kGroupRows[] = {
    {"calibd_group_over_limit", Gauge,
     "1 while the calibration error of the group exceeds the model's limit, acknowledged or not, "
     "else 0.",
     [](auto& group, auto& out) {
       out.Add(group.error.Read().status == LimitStatus::kOverLimit ? 1 : 0);
     }},
    {"calibd_group_observations", Gauge,
     "Number of labelled predictions of the group since the newest acknowledgement of an alarm "
     "over_limit of it, or since the start.",
     [](auto& group, auto& out) { out.Add(ShownCount(group.error)); }},
    {"calibd_group_confidence_minus_accuracy", Gauge,
     "calibd_confidence_minus_accuracy of the group, over the predictions of "
     "calibd_group_observations.",
     [](auto& group, auto& out) {
       const std::optional<ErrorInterval> interval = ShownError(group.error)[0];
       if (interval.has_value() && group.error.template As<MeasuredClassError>() != nullptr) {
         out.Add(interval->gap);
       }
     }},
    {"calibd_group_log10_e_value", Gauge,
     "calibd_log10_e_value of the observations with one value of the model's group tag. The series "
     "with overflow=\"true\" covers all values without a group of their own.",
     [](auto& group, auto& out) { out.Add(group.watch.reading.evidence.log10_e_value); }},
};

// A label of a model of several labels.
struct LabelSource {
  const ErrorSnapshot& error;
  double log10_e_value;
};

// The most labels of a model that have series of their own.
constexpr std::size_t kMostLabelSeries = 100;

constexpr FamilyRow<LabelSource> kLabelRows[] = {
    {"calibd_label_over_limit", Gauge,
     "1 while the calibration error of the label exceeds the model's limit, acknowledged or not, "
     "else 0. A model with more than 100 labels has series only of those over the limit, 100 at "
     "most.",
     [](auto& label, auto& out) {
       out.Add(label.error.Read().status == LimitStatus::kOverLimit ? 1 : 0);
     }},
    {"calibd_label_binned_error", Gauge,
     "calibd_binned_error of the label, over its known truths since the newest acknowledgement of "
     "an alarm over_limit of it, or since the start.",
     [](auto& label, auto& out) {
       const std::optional<ErrorInterval> interval = ShownError(label.error)[0];
       if (interval.has_value()) out.Add(interval->estimate);
     }},
    {"calibd_label_binned_error_lower_bound", Gauge,
     "Lower end of the interval of calibd_label_binned_error. It holds at any time, together with "
     "those of the other labels.",
     [](auto& label, auto& out) {
       const std::optional<ErrorInterval> interval = ShownError(label.error)[0];
       if (interval.has_value()) out.Add(interval->lower);
     }},
    {"calibd_label_stated_minus_held", Gauge,
     "Mean stated probability of the label minus the share of its truths that hold, over the "
     "truths of calibd_label_binned_error.",
     [](auto& label, auto& out) {
       const std::optional<ErrorInterval> interval = ShownError(label.error)[0];
       if (interval.has_value()) out.Add(interval->gap);
     }},
    {"calibd_label_truths", Gauge, "Number of known truths of calibd_label_binned_error.",
     [](auto& label, auto& out) { out.Add(ShownCount(label.error)); }},
    {"calibd_label_log10_e_value", Gauge,
     "calibd_log10_e_value of the label's probabilities alone.",
     [](auto& label, auto& out) { out.Add(label.log10_e_value); }},
};

constexpr FamilyRow<DecisionReading> kDecisionRows[] = {
    {"calibd_forecast_decision_realised_loss", Gauge,
     "Mean cost of the model's declared decision since the evidence began, in the unit of its "
     "costs.",
     [](auto& reading, auto& out) { out.Add(reading.realised_loss); }},
    {"calibd_forecast_decision_expected_loss", Gauge,
     "The mean cost that the forecasts promise for calibd_forecast_decision_realised_loss.",
     [](auto& reading, auto& out) { out.Add(reading.expected_loss); }},
    {"calibd_forecast_decision_gap_lower_bound", Gauge,
     "Lower bound of the realised minus the expected cost. Above 0: the decisions cost more than "
     "the "
     "forecasts promise. It holds at all times at once with "
     "calibd_forecast_decision_gap_upper_bound.",
     [](auto& reading, auto& out) { out.Add(reading.gap_lower); }},
    {"calibd_forecast_decision_gap_upper_bound", Gauge,
     "Upper bound of the realised minus the expected cost of the model's declared decision.",
     [](auto& reading, auto& out) { out.Add(reading.gap_upper); }},
};

struct ForecastSource {
  const ForecastSums& sums;
  bool normal;

  [[nodiscard]] double Mean(double sum) const { return sum / static_cast<double>(sums.count); }
};

constexpr FamilyRow<ForecastSource> kForecastRows[] = {
    {"calibd_forecast_crps", Gauge,
     "Mean continuous ranked probability score of all outcomes of a model that forecasts a number, "
     "in the unit of the outcome; for quantiles twice the mean pinball loss.",
     [](auto& source, auto& out) { out.Add(source.Mean(source.sums.crps)); }},
    {"calibd_forecast_log_score", Gauge,
     "Mean negative log density of all outcomes of Normal forecasts, in nats.",
     [](auto& source, auto& out) {
       if (source.normal) out.Add(source.Mean(source.sums.log_score));
     }},
    {"calibd_forecast_residual_mean", Gauge,
     "Mean of (outcome - mean) / standard deviation over all outcomes of Normal forecasts. It is "
     "positive if the forecasts are too low.",
     [](auto& source, auto& out) {
       if (source.normal) out.Add(source.Mean(source.sums.t));
     }},
    {"calibd_forecast_residual_standard_deviation", Gauge,
     "Standard deviation of (outcome - mean) / standard deviation over all outcomes of Normal "
     "forecasts. It is above 1 if the forecasts are too narrow.",
     [](auto& source, auto& out) {
       const double mean = source.Mean(source.sums.t);
       const double square = source.Mean(source.sums.t_square);
       if (source.normal) out.Add(std::sqrt(std::max(0.0, square - mean * mean)));
     }},
};

constexpr FamilyRow<CentralCoverage> kCoverageOfForecastsRows[] = {
    {"calibd_forecast_coverage", Gauge,
     "Share of all outcomes in the central interval of the forecast, by its nominal probability.",
     [](auto& central, auto& out) { out.Add(central.coverage); }},
    {"calibd_forecast_promised_coverage", Gauge,
     "Probability that the ends of the interval of calibd_forecast_coverage promise.",
     [](auto& central, auto& out) { out.Add(central.promised); }},
};

// The effect of a watch that has just restarted is still unknown: the last one bridges the time.
void KeepLast(std::optional<double>& value, std::optional<double>& last) {
  (value.has_value() ? last : value) = value.has_value() ? value : last;
}

void KeepLast(EffectSize& effect, EffectSize& last) {
  KeepLast(effect.skce, last.skce);
  KeepLast(effect.skce_lower_bound, last.skce_lower_bound);
  KeepLast(effect.skce_upper_bound, last.skce_upper_bound);
  KeepLast(effect.noise_floor, last.noise_floor);
}

// A model at the time of the scrape.
struct ScrapedModel {
  explicit ScrapedModel(const Model& scraped)
      : model(scraped),
        labels({{"model", scraped.original().name.model},
                {"version", scraped.original().name.version}}),
        snapshot(scraped.snapshot()) {
    if (snapshot->monitor.has_value()) {
      verdict = MakeVerdict(model, *snapshot, std::chrono::system_clock::now());
    }
  }

  const Model& model;
  Labels labels;
  std::shared_ptr<const ModelSnapshot> snapshot;
  // The verdict about a monitored model. It points into the snapshot.
  Verdict verdict;
};

class ModelFamilies {
 public:
  explicit ModelFamilies(Scrape& scrape) : scrape_(scrape) {}

  void AddVerdict(const ScrapedModel& one) {
    models_.Add({one.model, *one.snapshot}, one.labels);
    if (!one.snapshot->monitor.has_value()) return;
    alarms_.Add({one.model, *one.snapshot->monitor, one.verdict}, one.labels);
  }

  // last_effect: the effect at the previous scrape. It is replaced by the present one.
  void AddDetails(const ScrapedModel& one, EffectSize& last_effect) {
    const ModelSnapshot& snapshot = *one.snapshot;
    counts_.Add({one.model, snapshot}, one.labels);
    if (snapshot.monitor.has_value()) AddMonitor(one, *snapshot.monitor, last_effect);
    if (snapshot.reliability.Total().count > 0) scores_.Add(snapshot.reliability, one.labels);
    if (snapshot.forecasts.count > 0) AddForecasts(snapshot, one.labels);
    if (snapshot.comparison.has_value()) {
      if (const auto comparison = snapshot.comparison->Read()) {
        comparisons_.Add(*comparison, one.labels);
      }
    }
    if (snapshot.label_arrivals.has_value()) AddArrivals(*snapshot.label_arrivals, one.labels);
    for (const LensSnapshot& lens : snapshot.lenses) AddLens(lens, one.labels);
  }

 private:
  static Labels With(Labels labels, const Labels& more) {
    labels.insert(labels.end(), more.begin(), more.end());
    return labels;
  }

  void AddArrivals(const LabelArrivals& all, const Labels& labels) {
    arrivals_.Add(all, labels);
    const std::size_t class_count = all.classes->size();
    if (class_count == 1 || class_count > kMostClassSeries) {
      classes_.Add({.pending = {all.pending(), all.pending_labelled()},
                    .matured = all.matured,
                    .missing = all.missing,
                    .late = all.labels.late,
                    .conflicting = all.labels.conflicting},
                   With(labels, {{"predicted_class", ""}}));
      return;
    }
    for (std::size_t k = 0; k < class_count; ++k) {
      classes_.Add((*all.classes)[k], With(labels, {{"predicted_class", absl::StrCat(k)}}));
    }
  }

  void AddForecasts(const ModelSnapshot& snapshot, const Labels& labels) {
    const ForecastCells& cells = *snapshot.forecast_cells;
    forecasts_.Add({snapshot.forecasts, std::holds_alternative<NormalForecasts>(cells.kind())},
                   labels);
    const auto coverage = CoverageOf(cells, snapshot.forecasts.ToCounts(), {});
    for (const std::optional<CentralCoverage>& central : coverage->central) {
      if (!central.has_value()) continue;
      coverage_.Add(*central, With(labels, {{"nominal", absl::StrCat(central->nominal)}}));
    }
  }

  void AddLens(const LensSnapshot& lens, const Labels& labels) {
    const Labels with_lens = With(labels, {{"lens", lens.lens.name()}});
    const Kernel* const kernel =
        lens.kernel.has_value() ? std::get_if<Kernel>(&*lens.kernel) : nullptr;
    if (kernel != nullptr) kernels_.Add(*kernel, with_lens);
    for (const RunningBlock& block : lens.blocks) {
      if (block.moments.count < 1) continue;
      blocks_.Add(block,
                  With(with_lens, {{"estimator", absl::StrCat("block_", block.block_size)}}));
    }
  }

  void AddMonitor(const ScrapedModel& one, const MonitorSnapshot& monitor,
                  EffectSize& last_effect) {
    const Labels& labels = one.labels;
    const ErrorReading& reading = monitor.error.Read();
    const MeasuredError::Events& events = monitor.error.measured->events();
    monitors_.Add({monitor, one.verdict, ShownError(monitor.error), events}, labels);
    AddLabels(one, monitor);
    if (reading.newest.has_value()) newest_.Add({*reading.newest, events}, labels);
    for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
      const char* const overflow = group->id.overflow ? "true" : "false";
      groups_.Add(*group, With(labels, {{"group", group->id.value}, {"overflow", overflow}}));
    }
    if (!monitor.watch.has_value()) return;
    const WatchSnapshot& watch = *monitor.watch;
    const double level = one.model.declaration()->monitoring.significance_level;
    EffectSize effect;
    if (const auto* const details = watch.As<ClassWatchDetails>()) {
      effect = ComputeEffectSize(watch.reading, details->null_moments, level);
      KeepLast(effect, last_effect);
    }
    const auto* const forecast = watch.As<ForecastWatchDetails>();
    if (forecast != nullptr && forecast->decision.has_value()) {
      decisions_.Add(forecast->decision->reading, labels);
    }
    watches_.Add({watch.reading, effect}, labels);
  }

  // All labels, or of more than kMostLabelSeries only those over their limits, which are as many at
  // most.
  void AddLabels(const ScrapedModel& one, const MonitorSnapshot& monitor) {
    if (monitor.labels.empty()) return;
    const std::vector<double>& e_values =
        monitor.watch->As<LabelWatchDetails>()->reading.label_log10_e_values;
    const std::shared_ptr<const ModelDeclaration>& declaration = one.snapshot->declaration;
    std::size_t added = 0;
    for (std::size_t k = 0; k < monitor.labels.size() && added < kMostLabelSeries; ++k) {
      const ErrorSnapshot& error = monitor.labels[k];
      if (monitor.labels.size() > kMostLabelSeries &&
          error.Read().status != LimitStatus::kOverLimit) {
        continue;
      }
      labels_.Add({error, e_values[k]},
                  With(one.labels, {{"label", declaration->value_names()[k]}}));
      ++added;
    }
  }

  Scrape& scrape_;
  Families<ModelSource> models_{kModelRows, scrape_};
  Families<AlarmSource> alarms_{kAlarmRows, scrape_};
  Families<ModelSource> counts_{kCountRows, scrape_};
  Families<RunningReliability> scores_{kScoreRows, scrape_};
  Families<ForecastSource> forecasts_{kForecastRows, scrape_};
  Families<DecisionReading> decisions_{kDecisionRows, scrape_};
  Families<CentralCoverage> coverage_{kCoverageOfForecastsRows, scrape_};
  Families<Comparison> comparisons_{kComparisonRows, scrape_};
  Families<LabelArrivals> arrivals_{kArrivalRows, scrape_};
  Families<ClassArrivals> classes_{kClassRows, scrape_};
  Families<Kernel> kernels_{kKernelRows, scrape_};
  Families<RunningBlock> blocks_{kBlockRows, scrape_};
  Families<WatchSource> watches_{kWatchRows, scrape_};
  Families<MonitorSource> monitors_{kMonitorRows, scrape_};
  Families<NewestSource> newest_{kNewestRows, scrape_};
  Families<GroupSnapshot> groups_{kGroupRows, scrape_};
  Families<LabelSource> labels_{kLabelRows, scrape_};
};

}  // namespace

void ModelMetrics::Add(const std::vector<std::shared_ptr<Model>>& models, Scrape& scrape) {
  std::vector<ScrapedModel> scraped;
  scraped.reserve(models.size());
  for (const std::shared_ptr<Model>& model : models) scraped.emplace_back(*model);
  ModelFamilies families(scrape);
  for (const ScrapedModel& one : scraped) families.AddVerdict(one);
  const std::lock_guard lock(mutex_);
  std::map<std::int64_t, EffectSize> effects;
  for (const ScrapedModel& one : scraped) {
    EffectSize& effect = effects[one.model.id()];
    if (const auto last = last_effects_.find(one.model.id()); last != last_effects_.end()) {
      effect = last->second;
    }
    families.AddDetails(one, effect);
  }
  last_effects_ = std::move(effects);
}

}  // namespace calibd::server
