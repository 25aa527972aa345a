#include "server/observability/metrics.h"

#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "calibd/convert/text.h"
#include "calibd/core/p_value.h"
#include "calibd/text/printable.h"
#include "server/observability/metric_families.h"
#include "server/observability/process_metrics.h"
#include "server/state/effect_size.h"
#include "server/state/verdict.h"
#include "server/version.h"

namespace calibd::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using enum prometheus::MetricType;

// Maximum number of classes with series of their own. Models with more classes export one series
// with an empty predicted_class for all classes together.
constexpr std::size_t kMostClassSeries = 32;
constexpr std::array<const char*, RpcStatistics::kCodes> kCodeNames{
    "OK",       "Cancelled",      "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

constexpr FamilyRow<Metrics::Sources> kServerRows[] = {
    {"calibd_build_info", Gauge, "Version and revision of this server; the value is always 1.",
     [](auto&, auto& out) {
       out.Add(1, {{"version", kVersion}, {"revision", kRevision}});
     }},
    {"calibd_ingest_streams", Gauge, "Number of open observation streams.",
     [](auto& server, auto& out) { out.Add(server.streams.count()); }},
    {"calibd_ingest_queue_bytes", Gauge,
     "Size of the batches that are queued or being applied, in bytes.",
     [](auto& server, auto& out) { out.Add(server.ingestor.queued_bytes()); }},
    {"calibd_ingest_queue_limit_bytes", Gauge,
     "Value of calibd_ingest_queue_bytes at which the server stops reading from streams.",
     [](auto& server, auto& out) { out.Add(server.ingest_queue_bytes); }},
    {"calibd_call_memory_bytes", Gauge, "Memory that the messages of all calls occupy, in bytes.",
     [](auto& server, auto& out) { out.Add(server.call_memory.reserved()); }},
    {"calibd_call_memory_limit_bytes", Gauge, "Limit of calibd_call_memory_bytes.",
     [](auto& server, auto& out) { out.Add(server.call_memory.limit()); }},
    {"calibd_state_reserved_bytes", Gauge, "Memory that is reserved for all models, in bytes.",
     [](auto& server, auto& out) { out.Add(server.registry.reserved_bytes()); }},
    {"calibd_state_limit_bytes", Gauge,
     "Limit of calibd_state_reserved_bytes. A model that would exceed it is refused.",
     [](auto& server, auto& out) { out.Add(server.state_memory_bytes); }},
    {"calibd_producers_limit", Gauge,
     "Value of calibd_producers of a model at which idle producers expire to make room for a new "
     "one, which is refused if all were used within the last minute.",
     [](auto& server, auto& out) { out.Add(server.registry.limits().producers.producers); }},
    {"calibd_store_damaged", Gauge,
     "1 if damage to the store was found since the server started, else 0.",
     [](auto& server, auto& out) { out.Add(server.store_damaged ? 1 : 0); }},
    {"calibd_store_reserved_bytes", Gauge,
     "Disk space that the store may need, in bytes: the reservations of all models and 512 MiB "
     "that they share.",
     [](auto& server, auto& out) { out.Add(server.registry.reserved_disk_bytes()); }},
    {"calibd_store_limit_bytes", Gauge,
     "Limit of calibd_store_reserved_bytes. A model that would exceed it is refused.",
     [](auto& server, auto& out) { out.Add(server.disk_bytes); }},
    {"calibd_recovering", Gauge,
     "1 while the server recovers the models and answers calls with UNAVAILABLE, else 0.",
     [](auto& server, auto& out) { out.Add(server.registry.CheckRestored().ok() ? 0 : 1); }},
    {"calibd_recovery_models", Gauge, "Number of models that the recovery has read.",
     [](auto& server, auto& out) { out.Add(server.recovery.models.load()); }},
    {"calibd_recovery_batches", Gauge,
     "Number of batches that the recovery has read from the log, to fill windows or to replay "
     "them.",
     [](auto& server, auto& out) { out.Add(server.recovery.batches.load()); }},
    {"calibd_store_recovery_seconds", Gauge, "Duration of the recovery, in seconds.",
     [](auto& server, auto& out) {
       if (server.registry.CheckRestored().ok()) out.Add(server.recovery.seconds);
     }},
    {"calibd_connections_closed_total", Counter,
     "Number of gRPC connections that the server closed to protect itself, to make room or to shut "
     "down, by reason.",
     [](auto& server, auto& out) {
       for (std::size_t i = 0; i < RelayStatistics::kCloseReasons.size(); ++i) {
         out.Add(server.relay.closed(i), {{"reason", RelayStatistics::kCloseReasons[i]}});
       }
     }},
    {"calibd_calls_ended_total", Counter,
     "Number of calls that the server ended before they reached their handler or because the "
     "client stalled, by reason.",
     [](auto& server, auto& out) {
       for (std::size_t i = 0; i < RelayStatistics::kCallEnds.size(); ++i) {
         out.Add(server.relay.ended(i), {{"reason", RelayStatistics::kCallEnds[i]}});
       }
     }},
};

constexpr FamilyRow<WindowJobs::Counts> kJobRows[] = {
    {"calibd_jobs_running", Gauge, "Number of running tests and evaluations.",
     [](auto& jobs, auto& out) { out.Add(jobs.running); }},
    {"calibd_jobs_queued", Gauge, "Number of queued tests and evaluations.",
     [](auto& jobs, auto& out) { out.Add(jobs.queued); }},
    {"calibd_jobs_total", Counter, "Number of tests and evaluations that ended, by outcome.",
     [](auto& jobs, auto& out) {
       out.Add(jobs.completed, {{"outcome", "completed"}});
       out.Add(jobs.cancelled, {{"outcome", "cancelled"}});
       out.Add(jobs.failed, {{"outcome", "failed"}});
     }},
};

constexpr FamilyRow<CommitQueue::Statistics> kCommitRows[] = {
    {"calibd_store_commit_seconds", Histogram, "Duration of the store's commits, in seconds.",
     [](auto& commits, auto& out) {
       out.AddHistogram(CommitQueue::Statistics::kBuckets, commits.buckets, commits.seconds);
     }},
    {"calibd_store_failed_commits_total", Counter,
     "Number of failed commits. Their batches were not acknowledged.",
     [](auto& commits, auto& out) { out.Add(commits.failed_commits); }},
    {"calibd_store_queue_operations", Gauge,
     "Number of batches and other writes that are queued for a commit.",
     [](auto& commits, auto& out) { out.Add(commits.queued); }},
    {"calibd_store_size_bytes", Gauge,
     "Size of the store, in bytes. Part log: bytes written to the log files, each of which "
     "occupies up to 64 MiB of disk from the start. Part database: everything else, which reuses "
     "the space of deleted models.",
     [](auto& commits, auto& out) {
       out.Add(commits.sizes.log_bytes, {{"part", "log"}});
       out.Add(commits.sizes.catalog_bytes, {{"part", "database"}});
     }},
};

// The calls of one method.
constexpr FamilyRow<RpcStatistics::Calls> kCallRows[] = {
    {"grpc_server_started_total", Counter, "Number of calls that began.",
     [](auto& calls, auto& out) { out.Add(calls.started); }},
    {"grpc_server_handled_total", Counter,
     "Number of calls that ended, including failures, by status code.",
     [](auto& calls, auto& out) {
       for (std::size_t code = 0; code < calls.handled.size(); ++code) {
         if (calls.handled[code] == 0) continue;
         out.Add(calls.handled[code], {{"grpc_code", kCodeNames[code]}});
       }
     }},
    {"grpc_server_handling_seconds", Histogram,
     "Duration of calls, including failures, in seconds.",
     [](auto& calls, auto& out) {
       out.AddHistogram(RpcStatistics::kBuckets, calls.buckets, calls.seconds);
     }},
};

double Seconds(std::chrono::duration<double> duration) { return duration.count(); }

// 0 means that the time is unknown.
std::optional<double> KnownSeconds(std::int64_t time_us) {
  if (time_us == 0) return std::nullopt;
  return static_cast<double>(time_us) / 1e6;
}

std::string KernelName(const KernelSpec& kernel) {
  if (kernel.matrix != nullptr) return "matrix";
  constexpr std::array kNames{"exponential_total_variation", "exponential_cityblock",
                              "exponential_euclidean", "gaussian"};
  return kNames[static_cast<std::size_t>(kernel.rule.distance)];
}

struct ModelSource {
  const Model& model;
  const ModelSnapshot& snapshot;
};

constexpr FamilyRow<ModelSource> kModelRows[] = {
    {"calibd_model_info", Gauge, "Declared models; the value is always 1.",
     [](auto& source, auto& out) {
       const ModelDeclaration& declaration = *source.snapshot.declaration;
       out.Add(1, {{"classes", absl::StrCat(declaration.class_count)},
                   {"kernel", KernelName(declaration.kernel)}});
     }},
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
    {"calibd_window_observations", Gauge, "Number of observations in the window.",
     [](auto& source, auto& out) { out.Add(source.snapshot.window.size()); }},
    {"calibd_bandwidth_failed", Gauge,
     "1 if no bandwidth could be chosen from the warm-up, so that nothing is estimated, else 0.",
     [](auto& source, auto& out) {
       const std::vector<LensSnapshot>& lenses = source.snapshot.lenses;
       out.Add(!lenses.empty() && !lenses.front().kernel.has_value() ? 1 : 0);
     }},
    {"calibd_last_observation_timestamp_seconds", Gauge,
     "Time of the newest accepted batch, in seconds since the Unix epoch.",
     [](auto& source, auto& out) {
       const std::optional<ModelSnapshot::Time>& time = source.snapshot.last_observation_time;
       if (time.has_value()) out.Add(Seconds(time->time_since_epoch()));
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

// Of all observations; at least one.
constexpr FamilyRow<RunningReliability> kScoreRows[] = {
    {"calibd_brier_score", Gauge, "Mean Brier score of all observations, in [0, 2].",
     [](auto& sums, auto& out) { out.Add(sums.brier / static_cast<double>(sums.Total().count)); }},
    {"calibd_log_loss", Gauge,
     "Mean log loss of all observations, in nats. Each term is at most 36.04.",
     [](auto& sums, auto& out) {
       out.Add(sums.log_loss / static_cast<double>(sums.Total().count));
     }},
};

constexpr FamilyRow<LabelCoverage> kCoverageRows[] = {
    {"calibd_predictions_total", Counter,
     "Number of predictions with an id: taken, or duplicate (the id was known).",
     [](auto& coverage, auto& out) {
       out.Add(coverage.predictions, {{"outcome", "taken"}});
       out.Add(coverage.duplicate_predictions, {{"outcome", "duplicate"}});
     }},
    {"calibd_labels_total", Counter,
     "Number of labels sent by id: matched, repeated, conflicting (the first label is kept), late "
     "(after label_grace) or unknown (no such prediction).",
     [](auto& coverage, auto& out) {
       out.Add(coverage.labels.matched, {{"outcome", "matched"}});
       out.Add(coverage.labels.repeated, {{"outcome", "repeated"}});
       out.Add(coverage.labels.conflicting, {{"outcome", "conflicting"}});
       out.Add(coverage.labels.late, {{"outcome", "late"}});
       out.Add(coverage.labels.unknown, {{"outcome", "unknown"}});
     }},
};

constexpr FamilyRow<ClassCoverage> kClassRows[] = {
    {"calibd_predictions_pending", Gauge,
     "Number of predictions that are younger than label_grace, by their most probable class. "
     "Models "
     "with more than 32 classes have one series for all classes.",
     [](auto& coverage, auto& out) {
       out.Add(coverage.pending.labelled, {{"labelled", "true"}});
       out.Add(coverage.pending.all - coverage.pending.labelled, {{"labelled", "false"}});
     }},
    {"calibd_predictions_matured_total", Counter,
     "Number of predictions that reached label_grace, by their most probable class.",
     [](auto& coverage, auto& out) { out.Add(coverage.matured); }},
    {"calibd_predictions_unlabelled_total", Counter,
     "Number of matured predictions without a label. Estimates do not include them.",
     [](auto& coverage, auto& out) { out.Add(coverage.missing); }},
    {"calibd_predicted_class_labels_total", Counter,
     "Number of late and conflicting labels, by the most probable class of their prediction.",
     [](auto& coverage, auto& out) {
       out.Add(coverage.late, {{"outcome", "late"}});
       out.Add(coverage.conflicting, {{"outcome", "conflicting"}});
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
     [](auto& watch, auto& out) { out.Add(watch.reading.drift.shiryaev_roberts.log10_now); }},
    {"calibd_effect_skce", Gauge,
     "Unbiased estimate of the squared kernel calibration error from all pairs of observations of "
     "the watch, with random features of the kernel. It may be negative.",
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

struct MonitorSource {
  const Model& model;
  const MonitorSnapshot& monitor;
  Verdict verdict;
  // Of the top label, since the start.
  std::optional<ErrorInterval> error;
};

constexpr FamilyRow<MonitorSource> kMonitorRows[] = {
    {"calibd_verdict", Gauge,
     "The current verdict, as labels: how far off the model is against its limit, and whether "
     "calibration is rejected. The value is always 1.",
     [](auto& source, auto& out) {
       out.Add(1, {{"limit_status", convert::StatusName(source.verdict.limit_status)},
                   {"status", convert::StatusName(source.verdict.status)}});
     }},
    {"calibd_binned_error", Gauge,
     "Estimated calibration error of the top label since the start, as a probability: the mean "
     "over all predictions of how far the confidence was off in its bin. It is biased upwards.",
     [](auto& source, auto& out) {
       if (source.error.has_value()) out.Add(source.error->estimate);
     }},
    {"calibd_binned_error_lower_bound", Gauge,
     "Lower end of the interval of the calibration error. It holds at any time.",
     [](auto& source, auto& out) {
       if (source.error.has_value()) out.Add(source.error->lower);
     }},
    {"calibd_binned_error_upper_bound", Gauge,
     "Upper end of the interval of the calibration error. It holds at any time.",
     [](auto& source, auto& out) {
       if (source.error.has_value()) out.Add(source.error->upper);
     }},
    {"calibd_error_limit", Gauge, "Calibration error that the model's declaration accepts.",
     [](auto& source, auto& out) { out.Add(source.monitor.error.error_limit); }},
    {"calibd_confidence_minus_accuracy", Gauge,
     "Mean probability of the most probable class minus the accuracy since the start. It is "
     "positive if the model is over-confident.",
     [](auto& source, auto& out) {
       if (source.error.has_value()) out.Add(source.error->gap);
     }},
    {"calibd_rejected_groups", Gauge,
     "Number of groups for which calibration is rejected, by e-BH over all tested groups.",
     [](auto& source, auto& out) {
       out.Add(static_cast<double>(source.verdict.rejected_groups.size()));
     }},
    {"calibd_rejected_classes", Gauge,
     "Number of classes for which calibration is rejected, by e-BH over all classes. It is 0 "
     "before "
     "min_observations.",
     [](auto& source, auto& out) {
       if (source.monitor.watch.has_value()) out.Add(source.verdict.rejected_classes);
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
    {"calibd_alarm_active", Gauge,
     "1 while an alarm of this kind (evidence, drift, over_limit) is raised and not acknowledged, "
     "else 0.",
     [](auto& source, auto& out) {
       const auto active = [&source](Alarm::Kind kind) {
         return source.monitor.FindActive(kind) != nullptr ? 1 : 0;
       };
       out.Add(active(Alarm::Kind::kEvidence), {{"kind", "evidence"}});
       out.Add(active(Alarm::Kind::kDrift), {{"kind", "drift"}});
       out.Add(active(Alarm::Kind::kOverLimit), {{"kind", "over_limit"}});
     }},
    {"calibd_alarms_total", Counter, "Number of raised alarms, by kind.",
     [](auto& source, auto& out) {
       out.Add(source.monitor.raised[0], {{"kind", "evidence"}});
       out.Add(source.monitor.raised[1], {{"kind", "drift"}});
       out.Add(source.monitor.raised[2], {{"kind", "over_limit"}});
     }},
};

constexpr FamilyRow<GroupSnapshot> kGroupRows[] = {
    {"calibd_group_over_limit", Gauge,
     "1 while the calibration error of the group exceeds the model's limit, acknowledged or not, "
     "else 0.",
     [](auto& group, auto& out) {
       out.Add(group.error.Read().status == LimitStatus::kOverLimit ? 1 : 0);
     }},
    {"calibd_group_observations", Gauge, "Number of labelled observations of the group.",
     [](auto& group, auto& out) { out.Add(group.error.since_start.count()); }},
    {"calibd_group_confidence_minus_accuracy", Gauge,
     "calibd_confidence_minus_accuracy of the group.",
     [](auto& group, auto& out) {
       const auto& interval = group.error.Read().since_start[0];
       if (interval.has_value()) out.Add(interval->gap);
     }},
    {"calibd_group_log10_e_value", Gauge,
     "calibd_log10_e_value of the observations with one value of the model's group tag. The series "
     "with overflow=\"true\" covers all values without a group of their own.",
     [](auto& group, auto& out) { out.Add(group.watch.reading.evidence.log10_e_value); }},
};

class ModelFamilies {
 public:
  explicit ModelFamilies(Scrape& scrape) : scrape_(scrape) {}

  // Alarms, ages and verdict: all models come before the details of any model, for which the
  // series may not suffice.
  void AddVerdict(const Model& model) {
    const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
    const Labels labels = LabelsOf(model);
    models_.Add({model, *snapshot}, labels);
    if (!snapshot->monitor.has_value()) return;
    const ErrorSnapshot& error = snapshot->monitor->error;
    monitors_.Add(
        {model, *snapshot->monitor, MakeVerdict(model, *snapshot, std::chrono::system_clock::now()),
         error.Read().since_start[0]},
        labels);
  }

  void AddDetails(const Model& model) {
    const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
    const ModelDeclaration& declaration = *snapshot->declaration;
    const Labels labels = LabelsOf(model);
    if (snapshot->reliability.Total().count > 0) scores_.Add(snapshot->reliability, labels);
    if (snapshot->label_coverage.has_value()) {
      AddCoverage(*snapshot->label_coverage, declaration.class_count, labels);
    }
    for (const LensSnapshot& lens : snapshot->lenses) AddLens(lens, labels);
    if (snapshot->monitor.has_value()) AddMonitor(model, *snapshot->monitor, labels);
  }

 private:
  static Labels LabelsOf(const Model& model) {
    const ModelName& name = model.original().name;
    return {{"model", name.model}, {"version", name.version}};
  }

  static Labels With(Labels labels, const Labels& more) {
    labels.insert(labels.end(), more.begin(), more.end());
    return labels;
  }

  void AddCoverage(const LabelCoverage& all, std::size_t class_count, const Labels& labels) {
    coverages_.Add(all, labels);
    if (class_count > kMostClassSeries) {
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

  void AddMonitor(const Model& model, const MonitorSnapshot& monitor, const Labels& labels) {
    for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
      const char* const overflow = group->id.overflow ? "true" : "false";
      groups_.Add(*group, With(labels, {{"group", group->id.value}, {"overflow", overflow}}));
    }
    if (!monitor.watch.has_value()) return;
    const WatchSnapshot& watch = *monitor.watch;
    const double level = model.declaration()->monitoring.significance_level;
    watches_.Add({watch.reading, ComputeEffectSize(watch.reading, watch.null_moments, level)},
                 labels);
  }

  Scrape& scrape_;
  Families<ModelSource> models_{kModelRows, scrape_};
  Families<RunningReliability> scores_{kScoreRows, scrape_};
  Families<LabelCoverage> coverages_{kCoverageRows, scrape_};
  Families<ClassCoverage> classes_{kClassRows, scrape_};
  Families<Kernel> kernels_{kKernelRows, scrape_};
  Families<RunningBlock> blocks_{kBlockRows, scrape_};
  Families<WatchSource> watches_{kWatchRows, scrape_};
  Families<MonitorSource> monitors_{kMonitorRows, scrape_};
  Families<GroupSnapshot> groups_{kGroupRows, scrape_};
};

struct ModelTotals {
  std::size_t models = 0;
  std::int64_t dropped_series = 0;
};

constexpr FamilyRow<ModelTotals> kModelTotalRows[] = {
    {"calibd_models", Gauge, "Number of models.",
     [](auto& totals, auto& out) { out.Add(totals.models); }},
    {"calibd_series_dropped_total", Counter,
     "Number of series of models that were left out of /metrics because of --max-series.",
     [](auto& totals, auto& out) { out.Add(totals.dropped_series); }},
};

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  Scrape scrape;
  Families(kServerRows, scrape).Add(sources_);
  Families(kJobRows, scrape).Add(sources_.jobs.counts());
  Families(kCommitRows, scrape).Add(sources_.commits.statistics());
  Families methods(kCallRows, scrape);
  for (const RpcStatistics::Calls& calls : sources_.rpcs.Snapshot()) {
    methods.Add(calls, {{"grpc_type", calls.method.type},
                        {"grpc_service", calls.method.service},
                        {"grpc_method", calls.method.method}});
  }
  AddProcessFamilies(scrape);
  const auto models = sources_.registry.List("", std::numeric_limits<std::size_t>::max());
  if (models.ok()) {
    scrape.series_left = sources_.max_series;
    ModelFamilies families(scrape);
    for (const std::shared_ptr<Model>& model : *models) families.AddVerdict(*model);
    for (const std::shared_ptr<Model>& model : *models) families.AddDetails(*model);
    scrape.series_left = std::numeric_limits<std::size_t>::max();
    if (scrape.dropped_series > 0 && dropped_series_ == 0) {
      spdlog::warn(
          "/metrics leaves out details of models: {} series exceed --max-series {}. Alarms and "
          "verdicts come first. Raise --max-series, or delete models.",
          scrape.dropped_series, sources_.max_series);
    }
    dropped_series_ += scrape.dropped_series;
    Families(kModelTotalRows, scrape).Add({models->size(), dropped_series_});
  }
  std::erase_if(scrape.families, [](const MetricFamily& family) { return family.metric.empty(); });
  return std::move(scrape.families);
}

std::string Metrics::Text() const {
  std::vector<MetricFamily> families = Collect();
  for (MetricFamily& family : families) {
    for (ClientMetric& metric : family.metric) {
      for (ClientMetric::Label& label : metric.label) {
        // One value that is not UTF-8 would make the whole text invalid.
        if (FindUnprintable(label.value).has_value()) label.value = EscapeUnprintable(label.value);
      }
    }
  }
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families);
  return std::move(text).str();
}

}  // namespace calibd::server
