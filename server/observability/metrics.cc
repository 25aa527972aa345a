#include "server/observability/metrics.h"

#include <prometheus/text_serializer.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <numbers>
#include <optional>
#include <sstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "calibd/core/p_value.h"
#include "calibd/text/printable.h"
#include "server/observability/process_metrics.h"
#include "server/state/effect_size.h"
#include "server/version.h"

namespace calibd::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

constexpr double kConfidenceLevel = 0.95;
constexpr std::array<const char*, RpcStatistics::kCodes> kCodeNames{
    "OK",       "Cancelled",      "Unknown",          "InvalidArgument",   "DeadlineExceeded",
    "NotFound", "AlreadyExists",  "PermissionDenied", "ResourceExhausted", "FailedPrecondition",
    "Aborted",  "OutOfRange",     "Unimplemented",    "Internal",          "Unavailable",
    "DataLoss", "Unauthenticated"};

MetricFamily Family(const char* name, const char* help, MetricType type) {
  MetricFamily family;
  family.name = name;
  family.help = help;
  family.type = type;
  return family;
}

void Add(MetricFamily& family, Labels labels, double value) {
  ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  if (family.type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
}

MetricFamily Single(const char* name, const char* help, MetricType type, double value,
                    Labels labels = {}) {
  MetricFamily family = Family(name, help, type);
  Add(family, std::move(labels), value);
  return family;
}

// buckets: not cumulative, the last one unbounded.
template <std::size_t kBounds>
void FillHistogram(const std::array<double, kBounds>& bounds,
                   const std::array<std::int64_t, kBounds + 1>& buckets, double sum,
                   ClientMetric& metric) {
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    total += static_cast<std::uint64_t>(buckets[i]);
    const double bound = i < kBounds ? bounds[i] : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({.cumulative_count = total, .upper_bound = bound});
  }
  metric.histogram.sample_count = total;
  metric.histogram.sample_sum = sum;
}

double Count(std::int64_t count) { return static_cast<double>(count); }
double Bytes(std::size_t bytes) { return static_cast<double>(bytes); }

std::string KernelName(const KernelSpec& kernel) {
  if (kernel.matrix != nullptr) return "matrix";
  switch (kernel.rule.distance) {
    case Distance::kTotalVariation:
      return "exponential_total_variation";
    case Distance::kCityblock:
      return "exponential_cityblock";
    case Distance::kEuclidean:
      return "exponential_euclidean";
    case Distance::kSquaredEuclidean:
      return "gaussian";
  }
  return "";
}

// Most classes with series of their own. Models with more classes export all classes together.
constexpr std::size_t kMostClassSeries = 32;

// The series of all models, one family a metric.
class ModelFamilies {
 public:
  explicit ModelFamilies(std::size_t max_series) : room_(max_series) {}

  void AddModel(Model& model) {
    const ModelDeclaration& declaration = model.declaration();
    const std::shared_ptr<const ModelSnapshot> snapshot = model.snapshot();
    const Labels labels{{"model", declaration.name.model}, {"version", declaration.name.version}};
    Labels info = labels;
    info.push_back({"classes", absl::StrCat(declaration.class_count)});
    info.push_back({"kernel", KernelName(declaration.kernel)});
    AddSeries(info_, std::move(info), 1);
    AddSeries(observations_, labels, Count(snapshot->observations));
    AddBatches(labels, "accepted", snapshot->accepted_batches);
    AddBatches(labels, "duplicate", snapshot->duplicate_batches);
    AddBatches(labels, "rejected", snapshot->rejected_batches);
    AddSeries(rejected_rows_, labels, Count(snapshot->rejected_rows));
    AddSeries(dropped_rows_, labels, Count(snapshot->dropped_rows));
    AddSeries(window_, labels, Bytes(snapshot->window.size()));
    const bool failed = !snapshot->warming_up() && !snapshot->lenses.front().kernel.has_value();
    AddSeries(bandwidth_failed_, labels, failed ? 1 : 0);
    if (snapshot->last_observation_time.has_value()) {
      AddSeries(last_observation_, labels,
                std::chrono::duration<double>(snapshot->last_observation_time->time_since_epoch())
                    .count());
    }
    if (const std::int64_t stored_us = model.stored_time_us(); stored_us != 0) {
      AddSeries(stored_, labels, static_cast<double>(stored_us) / 1e6);
    }
    if (snapshot->label_coverage.has_value()) {
      AddLabelCoverage(labels, declaration, *snapshot->label_coverage,
                       model.oldest_pending_time_us());
    }
    for (const LensSnapshot& lens : snapshot->lenses) AddLens(labels, lens);
    if (snapshot->monitor.has_value()) AddMonitor(labels, model, *snapshot);
  }

  // Series that there was no room for.
  [[nodiscard]] std::int64_t dropped() const { return dropped_; }

  void MoveTo(std::vector<MetricFamily>& families) {
    for (MetricFamily* family : {&info_,
                                 &observations_,
                                 &batches_,
                                 &rejected_rows_,
                                 &dropped_rows_,
                                 &window_,
                                 &bandwidth_failed_,
                                 &last_observation_,
                                 &stored_,
                                 &predictions_,
                                 &pending_,
                                 &oldest_pending_,
                                 &matured_,
                                 &missing_,
                                 &labels_,
                                 &class_labels_,
                                 &bandwidth_,
                                 &skce_,
                                 &noise_floor_,
                                 &lower_bound_,
                                 &samples_,
                                 &p_value_,
                                 &statistic_,
                                 &log10_e_value_,
                                 &log10_e_value_max_,
                                 &watched_,
                                 &last_counted_,
                                 &stale_after_,
                                 &alarm_active_,
                                 &alarms_,
                                 &drift_,
                                 &effect_,
                                 &effect_lower_,
                                 &effect_upper_,
                                 &effect_floor_,
                                 &gap_,
                                 &group_log10_e_value_}) {
      if (!family->metric.empty()) families.push_back(std::move(*family));
    }
  }

 private:
  void AddSeries(MetricFamily& family, Labels labels, double value) {
    if (room_ == 0) {
      ++dropped_;
      return;
    }
    --room_;
    Add(family, std::move(labels), value);
  }

  void AddBatches(Labels labels, const char* outcome, std::int64_t count) {
    labels.push_back({"outcome", outcome});
    AddSeries(batches_, std::move(labels), Count(count));
  }

  void AddLabelCoverage(const Labels& labels, const ModelDeclaration& declaration,
                        const LabelCoverage& coverage, std::int64_t oldest_pending_us) {
    const auto with = [&labels](const char* name, const std::string& value) {
      Labels all = labels;
      all.push_back({name, value});
      return all;
    };
    AddSeries(predictions_, with("outcome", "taken"), Count(coverage.predictions));
    AddSeries(predictions_, with("outcome", "duplicate"), Count(coverage.duplicate_predictions));
    if (oldest_pending_us != 0) {
      AddSeries(oldest_pending_, labels, static_cast<double>(oldest_pending_us) / 1e6);
    }
    AddSeries(labels_, with("outcome", "matched"), Count(coverage.labels.matched));
    AddSeries(labels_, with("outcome", "repeated"), Count(coverage.labels.repeated));
    AddSeries(labels_, with("outcome", "conflicting"), Count(coverage.labels.conflicting));
    AddSeries(labels_, with("outcome", "late"), Count(coverage.labels.late));
    AddSeries(labels_, with("outcome", "unknown"), Count(coverage.labels.unknown));
    if (declaration.class_count > kMostClassSeries) {
      AddClassCoverage(with("predicted_class", ""),
                       {.pending = {coverage.pending(), coverage.pending_labelled()},
                        .matured = coverage.matured,
                        .missing = coverage.missing,
                        .late = coverage.labels.late,
                        .conflicting = coverage.labels.conflicting});
      return;
    }
    for (std::size_t k = 0; k < declaration.class_count; ++k) {
      AddClassCoverage(with("predicted_class", absl::StrCat(k)), (*coverage.classes)[k]);
    }
  }

  void AddClassCoverage(const Labels& labels, const ClassCoverage& one) {
    const auto with = [&labels](const char* name, const char* value) {
      Labels all = labels;
      all.push_back({name, value});
      return all;
    };
    AddSeries(matured_, labels, Count(one.matured));
    AddSeries(missing_, labels, Count(one.missing));
    AddSeries(pending_, with("labelled", "true"), Count(one.pending.labelled));
    AddSeries(pending_, with("labelled", "false"), Count(one.pending.all - one.pending.labelled));
    AddSeries(class_labels_, with("outcome", "late"), Count(one.late));
    AddSeries(class_labels_, with("outcome", "conflicting"), Count(one.conflicting));
  }

  void AddMonitor(const Labels& labels, const Model& model, const ModelSnapshot& snapshot) {
    const Monitoring& monitoring = model.declaration().monitoring;
    const MonitorSnapshot& monitor = *snapshot.monitor;
    const ModelSnapshot::Time last_counted =
        monitor.last_counted_time.value_or(model.create_time());
    AddSeries(last_counted_, labels,
              std::chrono::duration<double>(last_counted.time_since_epoch()).count());
    AddSeries(stale_after_, labels, std::chrono::duration<double>(monitoring.stale_after).count());
    AddAlarms(labels, "evidence", monitor, Alarm::Kind::kEvidence, monitor.raised[0]);
    AddAlarms(labels, "drift", monitor, Alarm::Kind::kDrift, monitor.raised[1]);
    for (const std::shared_ptr<const GroupSnapshot>& group : monitor.groups) {
      Labels with_group = labels;
      with_group.push_back({"group", group->value});
      with_group.push_back({"overflow", group->overflow ? "true" : "false"});
      AddSeries(group_log10_e_value_, std::move(with_group),
                group->watch.reading.evidence.log10_e_value);
    }
    if (!monitor.watch.has_value()) return;
    const EvidenceReading& reading = monitor.watch->reading;
    AddSeries(watched_, labels, Count(reading.count));
    AddSeries(log10_e_value_, labels, reading.evidence.log10_e_value);
    AddSeries(log10_e_value_max_, labels, reading.maximum.log_value / std::numbers::ln10);
    AddSeries(drift_, labels, reading.drift.shiryaev_roberts.log10_now);
    const EffectSize effect =
        ComputeEffectSize(reading, monitor.watch->null_moments, monitoring.significance_level);
    const auto add = [&](MetricFamily& family, const std::optional<double>& value) {
      if (value.has_value()) AddSeries(family, labels, *value);
    };
    add(effect_, effect.skce);
    add(effect_lower_, effect.skce_lower_bound);
    add(effect_upper_, effect.skce_upper_bound);
    add(effect_floor_, effect.noise_floor);
    const RunningReliability::Bin total = monitor.watch->reliability.Total();
    if (total.count > 0) {
      AddSeries(gap_, labels, (total.confidence - Count(total.correct)) / Count(total.count));
    }
  }

  void AddAlarms(Labels labels, const char* name, const MonitorSnapshot& monitor, Alarm::Kind kind,
                 std::int64_t raised) {
    labels.push_back({"kind", name});
    AddSeries(alarm_active_, labels, monitor.FindActive(kind) != nullptr ? 1 : 0);
    AddSeries(alarms_, std::move(labels), Count(raised));
  }

  void AddLens(Labels labels, const LensSnapshot& lens) {
    const Kernel* const kernel =
        lens.kernel.has_value() ? std::get_if<Kernel>(&*lens.kernel) : nullptr;
    labels.push_back({"lens", lens.lens.name()});
    if (kernel != nullptr) AddSeries(bandwidth_, labels, kernel->bandwidth());
    for (const RunningBlock& block : lens.blocks) AddEstimate(labels, block);
  }

  void AddEstimate(Labels labels, const RunningBlock& block) {
    if (block.moments.count < 1) return;
    labels.push_back({"estimator", absl::StrCat("block_", block.block_size)});
    AddSeries(skce_, labels, block.moments.mean);
    if (block.noise_floor.has_value()) {
      AddSeries(noise_floor_, labels, block.noise_floor->upper_quantile);
    }
    AddSeries(samples_, labels, Count(block.moments.count) * static_cast<double>(block.block_size));
    if (const auto bound = LowerConfidenceBound(block.moments, kConfidenceLevel)) {
      AddSeries(lower_bound_, labels, *bound);
    }
    if (const std::optional<NormalTest> test = TestMeanIsPositive(block.moments)) {
      AddSeries(p_value_, labels, test->p_value);
      if (test->z.has_value()) AddSeries(statistic_, labels, *test->z);
    }
  }

  std::size_t room_;
  std::int64_t dropped_ = 0;
  MetricFamily info_ = Family("calibd_model_info", "Declared models.", MetricType::Gauge);
  MetricFamily observations_ =
      Family("calibd_observations_total", "Labelled predictions accepted.", MetricType::Counter);
  MetricFamily batches_ =
      Family("calibd_batches_total",
             "Batches settled: accepted, duplicate (counted before) or rejected (invalid).",
             MetricType::Counter);
  MetricFamily rejected_rows_ =
      Family("calibd_rejected_rows_total", "Rows of rejected batches.", MetricType::Counter);
  MetricFamily dropped_rows_ =
      Family("calibd_dropped_rows_total", "Rows that producers say they dropped before sending.",
             MetricType::Counter);
  MetricFamily window_ = Family("calibd_window_observations",
                                "Newest observations kept for quadratic tests.", MetricType::Gauge);
  MetricFamily bandwidth_failed_ =
      Family("calibd_bandwidth_failed",
             "1 if the bandwidth could not be chosen from the warm-up, so that nothing is "
             "estimated, else 0.",
             MetricType::Gauge);
  MetricFamily last_observation_ =
      Family("calibd_last_observation_timestamp_seconds",
             "Time of the newest accepted batch since the Unix epoch.", MetricType::Gauge);
  MetricFamily stored_ =
      Family("calibd_snapshot_timestamp_seconds",
             "Of when the newest stored snapshot of the model's state is, since the Unix epoch. "
             "A start replays the batches after it; without anything new there is no "
             "newer one.",
             MetricType::Gauge);
  MetricFamily predictions_ = Family(
      "calibd_predictions_total", "Predictions with an id: taken, or duplicate (the id was known).",
      MetricType::Counter);
  MetricFamily pending_ =
      Family("calibd_predictions_pending",
             "Predictions that are younger than label_grace, with their label and without, by "
             "their most probable class; of models with more than 32 classes together.",
             MetricType::Gauge);
  MetricFamily oldest_pending_ = Family(
      "calibd_oldest_pending_timestamp_seconds",
      "When the oldest prediction that waits came, since the Unix epoch.", MetricType::Gauge);
  MetricFamily matured_ =
      Family("calibd_predictions_matured_total",
             "Predictions that reached label_grace, by their most probable class; of models with "
             "more than 32 classes together.",
             MetricType::Counter);
  MetricFamily missing_ =
      Family("calibd_predictions_unlabelled_total",
             "Of calibd_predictions_matured_total, those without a label. Estimates say nothing "
             "of them.",
             MetricType::Counter);
  MetricFamily labels_ =
      Family("calibd_labels_total",
             "Labels that came by id: matched, repeated, conflicting (the first stays), late "
             "(after label_grace) or unknown (no such prediction).",
             MetricType::Counter);
  MetricFamily class_labels_ =
      Family("calibd_predicted_class_labels_total",
             "Of calibd_labels_total, those that were late or conflicting, by the most probable "
             "class of their prediction; of models with more than 32 classes together.",
             MetricType::Counter);
  MetricFamily bandwidth_ = Family(
      "calibd_bandwidth", "Bandwidth of the kernel in units of its distance.", MetricType::Gauge);
  MetricFamily skce_ = Family(
      "calibd_skce",
      "Running estimate of the squared kernel calibration error, unbiased and so maybe negative.",
      MetricType::Gauge);
  MetricFamily noise_floor_ =
      Family("calibd_skce_noise_floor",
             "95 % quantile of calibd_skce if the model were calibrated and made the same "
             "predictions.",
             MetricType::Gauge);
  MetricFamily lower_bound_ =
      Family("calibd_skce_lower_bound",
             "One-sided 95 % asymptotic lower confidence bound of calibd_skce, for one look only.",
             MetricType::Gauge);
  MetricFamily samples_ =
      Family("calibd_estimate_samples",
             "Observations behind calibd_skce and calibd_test_p_value with the same labels.",
             MetricType::Gauge);
  MetricFamily p_value_ =
      Family("calibd_test_p_value",
             "Asymptotic p-value of the null hypothesis that the model is calibrated. For one "
             "look only: an alert on it fires on calibrated models.",
             MetricType::Gauge);
  MetricFamily statistic_ =
      Family("calibd_test_statistic",
             "z of the asymptotic test: sqrt(blocks) mean / standard deviation. For one look only.",
             MetricType::Gauge);
  MetricFamily log10_e_value_ = Family(
      "calibd_log10_e_value",
      "log10 of the e-value against the null hypothesis that the model is calibrated. May be "
      "looked at all the time: a calibrated model ever reaches log10(1 / alpha) with a probability "
      "of at most alpha.",
      MetricType::Gauge);
  MetricFamily log10_e_value_max_ =
      Family("calibd_log10_e_value_max", "Largest calibd_log10_e_value since the watch began.",
             MetricType::Gauge);
  MetricFamily group_log10_e_value_ =
      Family("calibd_group_log10_e_value",
             "calibd_log10_e_value of the observations with one value of the model's group tag; "
             "overflow: of all values without a group of their own.",
             MetricType::Gauge);
  MetricFamily watched_ =
      Family("calibd_watch_observations",
             "Observations since the watch began: at the first one, or where an evidence alarm was "
             "acknowledged.",
             MetricType::Gauge);
  MetricFamily last_counted_ = Family(
      "calibd_last_counted_timestamp_seconds",
      "When the newest labelled prediction came to count, or the model was created if none did, "
      "since the Unix epoch.",
      MetricType::Gauge);
  MetricFamily stale_after_ =
      Family("calibd_stale_after_seconds",
             "The model is stale when calibd_last_counted_timestamp_seconds is older than this.",
             MetricType::Gauge);
  MetricFamily alarm_active_ =
      Family("calibd_alarm_active",
             "1 while an alarm of the kind (evidence, drift) was raised and is not acknowledged, "
             "else 0.",
             MetricType::Gauge);
  MetricFamily alarms_ =
      Family("calibd_alarms_total", "Alarms raised, by kind.", MetricType::Counter);
  MetricFamily drift_ =
      Family("calibd_drift_log10_statistic",
             "log10(1 + R) of the Shiryaev-Roberts detector of a change from calibrated to not. A "
             "calibrated model reaches log10(1 + c) once in c observations at most, on average.",
             MetricType::Gauge);
  MetricFamily effect_ =
      Family("calibd_effect_skce",
             "Estimate of the squared kernel calibration error from all pairs of observations of "
             "the watch, with the kernel's random features; unbiased and so maybe negative.",
             MetricType::Gauge);
  MetricFamily effect_lower_ = Family(
      "calibd_effect_skce_lower_bound",
      "Lower end of the interval of what calibd_effect_skce estimates, which holds at all times at "
      "once.",
      MetricType::Gauge);
  MetricFamily effect_upper_ = Family(
      "calibd_effect_skce_upper_bound",
      "Upper end of the interval of what calibd_effect_skce estimates, which holds at all times at "
      "once.",
      MetricType::Gauge);
  MetricFamily effect_floor_ =
      Family("calibd_effect_skce_noise_floor",
             "95 % quantile of calibd_effect_skce if the model were calibrated and made the same "
             "predictions.",
             MetricType::Gauge);
  MetricFamily gap_ =
      Family("calibd_confidence_minus_accuracy",
             "Mean probability of the most probable class minus its share of being right: "
             "positive when over-confident.",
             MetricType::Gauge);
};

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  std::vector<MetricFamily> families;
  CollectServer(families);
  CollectStore(families);
  CollectModels(families);
  CollectRpcs(families);
  for (MetricFamily& family : CollectProcessMetrics()) families.push_back(std::move(family));
  return families;
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

void Metrics::CollectServer(std::vector<MetricFamily>& families) const {
  const WindowJobs::Counts jobs = sources_.jobs.counts();
  families.push_back(Single("calibd_build_info", "Version and revision of this server.",
                            MetricType::Gauge, 1,
                            {{"version", kVersion}, {"revision", kRevision}}));
  families.push_back(Single("calibd_ingest_streams", "Open observation streams.", MetricType::Gauge,
                            Bytes(sources_.streams.count())));
  families.push_back(Single("calibd_ingest_queue_bytes",
                            "Observations that are queued or being counted.", MetricType::Gauge,
                            Bytes(sources_.ingestor.queued_bytes())));
  families.push_back(Single("calibd_ingest_queue_limit_bytes",
                            "Size of calibd_ingest_queue_bytes at which calibd stops reading "
                            "streams.",
                            MetricType::Gauge, Bytes(sources_.ingest_queue_bytes)));
  families.push_back(Single("calibd_call_memory_bytes",
                            "Memory that the messages of all calls occupy.", MetricType::Gauge,
                            Bytes(sources_.call_memory.reserved())));
  families.push_back(Single("calibd_call_memory_limit_bytes", "Limit of calibd_call_memory_bytes.",
                            MetricType::Gauge, Bytes(sources_.call_memory.limit())));
  families.push_back(Single("calibd_state_reserved_bytes", "Memory that all models reserve.",
                            MetricType::Gauge, Bytes(sources_.registry.reserved_bytes())));
  families.push_back(Single("calibd_state_limit_bytes",
                            "Limit of calibd_state_reserved_bytes for new models.",
                            MetricType::Gauge, Bytes(sources_.state_memory_bytes)));
  families.push_back(Single("calibd_jobs_running", "Running tests and evaluations.",
                            MetricType::Gauge, Count(jobs.running)));
  families.push_back(Single("calibd_jobs_queued", "Queued tests and evaluations.",
                            MetricType::Gauge, Count(jobs.queued)));
  MetricFamily ended = Family("calibd_jobs_total", "Tests and evaluations that ended, by outcome.",
                              MetricType::Counter);
  Add(ended, {{"outcome", "completed"}}, Count(jobs.completed));
  Add(ended, {{"outcome", "cancelled"}}, Count(jobs.cancelled));
  Add(ended, {{"outcome", "failed"}}, Count(jobs.failed));
  families.push_back(std::move(ended));
}

void Metrics::CollectModels(std::vector<MetricFamily>& families) const {
  const auto models = sources_.registry.List("", std::numeric_limits<std::size_t>::max());
  if (!models.ok()) return;
  ModelFamilies series(sources_.max_series);
  for (const std::shared_ptr<Model>& model : *models) series.AddModel(*model);
  dropped_series_ += series.dropped();
  families.push_back(
      Single("calibd_models", "Number of models.", MetricType::Gauge, Bytes(models->size())));
  families.push_back(Single("calibd_series_dropped_total",
                            "Series of models left out of /metrics because there were too many.",
                            MetricType::Counter, Count(dropped_series_)));
  series.MoveTo(families);
}

void Metrics::CollectStore(std::vector<MetricFamily>& families) const {
  const CommitQueue::Statistics store = sources_.commits.statistics();
  MetricFamily seconds = Family("calibd_store_commit_seconds", "Duration of the store's commits.",
                                MetricType::Histogram);
  FillHistogram(CommitQueue::Statistics::kBuckets, store.buckets, store.seconds,
                seconds.metric.emplace_back());
  families.push_back(std::move(seconds));
  families.push_back(Single("calibd_store_failed_commits_total",
                            "Commits that failed; their batches were not acknowledged.",
                            MetricType::Counter, Count(store.failed_commits)));
  families.push_back(Single("calibd_store_queue_operations",
                            "Batches and other changes that wait for a commit.", MetricType::Gauge,
                            Bytes(store.queued)));
  MetricFamily size =
      Family("calibd_store_size_bytes",
             "Size of the store. Part log: bytes written to the files of the log, each of which "
             "occupies up to 64 MiB of disk from the start; part database: the database and its "
             "write-ahead log, which reuses the space of deleted models.",
             MetricType::Gauge);
  Add(size, {{"part", "log"}}, Count(store.log_bytes));
  Add(size, {{"part", "database"}}, Count(store.database_bytes));
  families.push_back(std::move(size));
  families.push_back(Single("calibd_store_damaged",
                            "1 when damage to the store was found since the start, else 0.",
                            MetricType::Gauge, sources_.store_damaged ? 1 : 0));
  families.push_back(Single("calibd_store_reserved_bytes",
                            "Disk space that the store may need: the sum that all models "
                            "reserve, and 512 MiB that they share.",
                            MetricType::Gauge, Bytes(sources_.registry.reserved_disk_bytes())));
  families.push_back(Single("calibd_store_limit_bytes",
                            "Limit of calibd_store_reserved_bytes for new models.",
                            MetricType::Gauge, Bytes(sources_.disk_bytes)));
  const bool restored = sources_.registry.CheckRestored().ok();
  families.push_back(Single("calibd_recovering",
                            "1 while calibd recovers the models and calls are answered "
                            "with UNAVAILABLE, then 0.",
                            MetricType::Gauge, restored ? 0 : 1));
  families.push_back(Single("calibd_recovery_models", "Models that the start has read.",
                            MetricType::Gauge, Count(sources_.recovery.models)));
  families.push_back(Single("calibd_recovery_batches",
                            "Batches that the start has read from the log, to fill windows or to "
                            "be replayed.",
                            MetricType::Gauge, Count(sources_.recovery.batches)));
  if (restored) {
    families.push_back(Single("calibd_store_recovery_seconds",
                              "How long the start took to recover the models.", MetricType::Gauge,
                              sources_.recovery.seconds));
  }
}

void Metrics::CollectRpcs(std::vector<MetricFamily>& families) const {
  MetricFamily started =
      Family("grpc_server_started_total", "Calls that began.", MetricType::Counter);
  MetricFamily handled =
      Family("grpc_server_handled_total", "Calls that ended, including failures, by status code.",
             MetricType::Counter);
  MetricFamily seconds = Family("grpc_server_handling_seconds",
                                "Duration of calls, including failures.", MetricType::Histogram);
  for (const RpcStatistics::Calls& calls : sources_.rpcs.Snapshot()) {
    const Labels labels{{"grpc_type", calls.method.type},
                        {"grpc_service", calls.method.service},
                        {"grpc_method", calls.method.method}};
    Add(started, labels, Count(calls.started));
    for (std::size_t code = 0; code < calls.handled.size(); ++code) {
      if (calls.handled[code] > 0) {
        Labels with_code = labels;
        with_code.push_back({"grpc_code", kCodeNames[code]});
        Add(handled, std::move(with_code), Count(calls.handled[code]));
      }
    }
    ClientMetric& histogram = seconds.metric.emplace_back();
    histogram.label = labels;
    FillHistogram(RpcStatistics::kBuckets, calls.buckets, calls.seconds, histogram);
  }
  for (MetricFamily* family : {&started, &handled, &seconds}) {
    if (!family->metric.empty()) families.push_back(std::move(*family));
  }
  MetricFamily closed = Family("calibd_connections_closed_total",
                               "gRPC connections that the server closed to protect itself, to make "
                               "room or to shut down, by reason.",
                               MetricType::Counter);
  for (std::size_t i = 0; i < RelayStatistics::kCloseReasons.size(); ++i) {
    Add(closed, {{"reason", RelayStatistics::kCloseReasons[i]}}, Count(sources_.relay.closed(i)));
  }
  families.push_back(std::move(closed));
  MetricFamily ended = Family("calibd_calls_ended_total",
                              "Calls that the server ended before they reached their handler or "
                              "because the client stalled, by reason.",
                              MetricType::Counter);
  for (std::size_t i = 0; i < RelayStatistics::kCallEnds.size(); ++i) {
    Add(ended, {{"reason", RelayStatistics::kCallEnds[i]}}, Count(sources_.relay.ended(i)));
  }
  families.push_back(std::move(ended));
}

}  // namespace calibd::server
