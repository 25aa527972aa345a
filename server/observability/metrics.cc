#include "server/observability/metrics.h"

#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "calibd/text/printable.h"
#include "server/base/errors.h"
#include "server/observability/metric_families.h"
#include "server/observability/process_metrics.h"
#include "server/version.h"

namespace calibd::server {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using enum prometheus::MetricType;

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
     [](auto& server, auto& out) { out.Add(server.ingestor.queue().bytes()); }},
    {"calibd_ingest_queue_limit_bytes", Gauge,
     "Limit of calibd_ingest_queue_bytes. One busy model may use about half of it.",
     [](auto& server, auto& out) { out.Add(server.ingest_queue_bytes); }},
    {"calibd_ingest_waiting_batches", Gauge,
     "Number of received batches whose models have used up their shares of the queue. Their "
     "streams are not read meanwhile.",
     [](auto& server, auto& out) { out.Add(server.ingestor.queue().waiting()); }},
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
    {"calibd_store_owner", Gauge,
     "1 while this server owns the store and may answer for it, else 0.",
     [](auto& server, auto& out) { out.Add(server.store.CheckOwned().ok() ? 1 : 0); }},
    {"calibd_store_synchronous", Gauge,
     "1 if PostgreSQL has a synchronous standby, so that commits are on two machines, else 0. Only "
     "with --store postgres.",
     [](auto& server, auto& out) {
       const std::optional<bool> synchronous = server.store.synchronous();
       if (synchronous.has_value()) out.Add(*synchronous ? 1 : 0);
     }},
    {"calibd_store_reserved_bytes", Gauge,
     "Disk space that the store may need, in bytes: the reservations of all models and 512 MiB "
     "that they share.",
     [](auto& server, auto& out) { out.Add(server.registry.reserved_disk_bytes()); }},
    {"calibd_store_limit_bytes", Gauge,
     "Limit of calibd_store_reserved_bytes. A model that would exceed it is refused.",
     [](auto& server, auto& out) { out.Add(server.disk_bytes); }},
    {"calibd_recovering", Gauge,
     "1 while the server recovers the models and answers calls with UNAVAILABLE, else 0.",
     [](auto& server, auto& out) {
       const auto error = GetErrorInfo(server.registry.CheckRestored());
       const bool recovers =
           error.has_value() && (error->reason() == "STARTING" || error->reason() == "TAKING_OVER");
       out.Add(recovers ? 1 : 0);
     }},
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
    {"calibd_tls_failures_total", Counter,
     "Number of connections of both ports that TLS refused or ended, by reason. Only with "
     "--tls-certificate.",
     [](auto& server, auto& out) {
       if (server.tls == nullptr) return;
       for (std::size_t i = 0; i < TlsServer::kFailures.size(); ++i) {
         out.Add(server.tls->failures(i), {{"reason", TlsServer::kFailures[i]}});
       }
     }},
    {"calibd_tls_certificate_expiry_timestamp_seconds", Gauge,
     "Time until which the certificate of the server is valid, in seconds since 1970. Only with "
     "--tls-certificate.",
     [](auto& server, auto& out) {
       if (server.tls == nullptr) return;
       const auto end = server.tls->certificates().not_after().time_since_epoch();
       out.Add(std::chrono::duration<double>(end).count());
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

constexpr FamilyRow<AccessControl::Statistics> kAccessRows[] = {
    {"calibd_access_principals", Gauge, "Number of principals; 0 without --access-file.",
     [](auto& access, auto& out) { out.Add(access.principals); }},
    {"calibd_access_file_invalid", Gauge,
     "1 if --access-file cannot be read or is invalid, so that its former content applies, else 0.",
     [](auto& access, auto& out) { out.Add(access.file_invalid ? 1 : 0); }},
    {"calibd_access_reloads_total", Counter, "Number of changes of --access-file, by result.",
     [](auto& access, auto& out) {
       out.Add(access.reloads, {{"result", "applied"}});
       out.Add(access.failed_reloads, {{"result", "invalid"}});
     }},
    {"calibd_access_denied_total", Counter,
     "Number of refused calls, by reason: callers without valid credentials, and principals "
     "without the role.",
     [](auto& access, auto& out) {
       out.Add(access.unauthenticated, {{"reason", "unauthenticated"}});
       out.Add(access.denied, {{"reason", "permission_denied"}});
     }},
    {"calibd_quota_refused_total", Counter,
     "Number of calls that were refused because of a quota of their principal, by quota.",
     [](auto& access, auto& out) {
       for (std::size_t i = 0; i < kQuotaKinds; ++i) {
         out.Add(access.quota_refused[i],
                 {{"quota", std::string(QuotaKey(static_cast<QuotaKind>(i)))}});
       }
     }},
    {"calibd_quota_delayed_total", Counter,
     "Number of batches of streams that waited because of a quota of their principal, by quota.",
     [](auto& access, auto& out) {
       for (const QuotaKind kind : {QuotaKind::kRowsPerSecond, QuotaKind::kPendingBytes}) {
         out.Add(access.quota_delayed[static_cast<std::size_t>(kind)],
                 {{"quota", std::string(QuotaKey(kind))}});
       }
     }},
};

constexpr FamilyRow<AuditLog::Statistics> kAuditRows[] = {
    {"calibd_audit_entries_total", Counter, "Number of entries of --audit-log, by result.",
     [](auto& audit, auto& out) {
       out.Add(audit.written, {{"result", "written"}});
       out.Add(audit.lost, {{"result", "lost"}});
       out.Add(audit.denials_left_out, {{"result", "left_out"}});
     }},
};

constexpr FamilyRow<Archiver::Statistics> kArchiveRows[] = {
    {"calibd_archive_lag_seconds", Gauge,
     "Time since which changes of the store may be missing in the archive, in seconds. Until the "
     "first base is in the archive, the time since the start. Only with --archive-command.",
     [](auto& archive, auto& out) { out.Add(archive.lag_seconds); }},
    {"calibd_archive_waiting_bytes", Gauge,
     "Number of bytes of the log that are not in the archive. A quarter of --disk-bytes is the "
     "limit. Only with --archive-command.",
     [](auto& archive, auto& out) { out.Add(archive.waiting_bytes); }},
    {"calibd_archive_commands_total", Counter,
     "Number of times that --archive-command ended, by result. Only with --archive-command.",
     [](auto& archive, auto& out) {
       out.Add(archive.handed_over, {{"result", "handed_over"}});
       out.Add(archive.failed, {{"result", "failed"}});
     }},
    {"calibd_archive_gaps_total", Counter,
     "Number of times that batches waited too long for the archive and were given up. A new base "
     "follows each time. Only with --archive-command.",
     [](auto& archive, auto& out) { out.Add(archive.gaps); }},
    {"calibd_archive_base_timestamp_seconds", Gauge,
     "Time of the newest base in the archive, in seconds since 1970; 0 without one. Only with "
     "--archive-command.",
     [](auto& archive, auto& out) { out.Add(archive.base_time_s); }},
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

// The requests of one route.
constexpr FamilyRow<HttpStatistics::Requests> kHttpRows[] = {
    {"calibd_http_requests_total", Counter,
     "Number of HTTP requests that ended, by status. 499: the client disconnected, or was too "
     "slow, "
     "before its response began.",
     [](auto& requests, auto& out) {
       for (const auto& [status, count] : requests.handled) {
         out.Add(count, {{"code", std::to_string(status)}});
       }
     }},
    {"calibd_http_request_seconds", Histogram,
     "Duration of HTTP requests from the end of the header to the end of the response, in seconds.",
     [](auto& requests, auto& out) {
       out.AddHistogram(RpcStatistics::kBuckets, requests.buckets, requests.seconds);
     }},
};

struct ModelTotals {
  std::size_t models = 0;
  std::int64_t dropped_series = 0;
};

constexpr FamilyRow<ModelTotals> kModelTotalRows[] = {
    {"calibd_models", Gauge, "Number of models.",
     [](auto& totals, auto& out) { out.Add(totals.models); }},
    {"calibd_series_dropped_total", Counter,
     "Number of series of models that were left out of /metrics because of --max-series. Verdicts, "
     "alarms, ages and info of all models come first, then the details of one model after the "
     "other, by name.",
     [](auto& totals, auto& out) { out.Add(totals.dropped_series); }},
};

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  Scrape scrape;
  Families(kServerRows, scrape).Add(sources_);
  Families(kAccessRows, scrape).Add(sources_.access.statistics());
  Families(kAuditRows, scrape).Add(sources_.audit.statistics());
  Families archive(kArchiveRows, scrape);
  if (sources_.archiver != nullptr) archive.Add(sources_.archiver->statistics());
  Families(kJobRows, scrape).Add(sources_.jobs.counts());
  Families(kCommitRows, scrape).Add(sources_.commits.statistics());
  Families methods(kCallRows, scrape);
  for (const RpcStatistics::Calls& calls : sources_.rpcs.Snapshot()) {
    methods.Add(calls, {{"grpc_type", calls.method.type},
                        {"grpc_service", calls.method.service},
                        {"grpc_method", calls.method.method}});
  }
  Families routes(kHttpRows, scrape);
  for (const auto& [route, requests] : sources_.http.Snapshot()) {
    routes.Add(requests, {{"method", route.method}, {"route", route.path}});
  }
  AddProcessFamilies(scrape);
  const auto models = sources_.registry.List("", std::numeric_limits<std::size_t>::max());
  if (models.ok()) {
    scrape.series_left = sources_.max_series;
    model_metrics_.Add(*models, scrape);
    scrape.series_left = std::numeric_limits<std::size_t>::max();
    if (scrape.dropped_series > 0 && dropped_series_ == 0) {
      spdlog::warn(
          "/metrics leaves out {} series of models because of --max-series {}. Verdicts, alarms, "
          "ages and info of all models come first, then the details of one model after the other, "
          "by name. Raise --max-series, or delete models.",
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
