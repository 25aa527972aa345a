#ifndef CALIBD_SERVER_OBSERVABILITY_METRICS_H_
#define CALIBD_SERVER_OBSERVABILITY_METRICS_H_

#include <prometheus/metric_family.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/access/access_control.h"
#include "server/archive/archiver.h"
#include "server/compute/window_jobs.h"
#include "server/ingest/commit_queue.h"
#include "server/ingest/ingestor.h"
#include "server/ingest/open_streams.h"
#include "server/ingest/recovery.h"
#include "server/net/byte_budget.h"
#include "server/net/relay_statistics.h"
#include "server/net/tls_server.h"
#include "server/observability/http_statistics.h"
#include "server/observability/model_metrics.h"
#include "server/observability/rpc_statistics.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// All metrics. Each scrape computes them from the state of the parts of the server, so the series
// of a deleted model disappear at once. A missing value has no series; it is never NaN or 0. Only
// the effect of a watch that has just restarted is that of an earlier scrape; see ModelMetrics.
// Thread-safe.
class Metrics {
 public:
  struct Sources {
    const ModelRegistry& registry;
    const Ingestor& ingestor;
    const OpenStreams& streams;
    const WindowJobs& jobs;
    const RpcStatistics& rpcs;
    const HttpStatistics& http;
    const RelayStatistics& relay;
    // Null without encryption.
    const TlsServer* tls = nullptr;
    const CommitQueue& commits;
    // Null without an archive.
    const Archiver* archiver = nullptr;
    const AccessControl& access;
    const AuditLog& audit;
    const ByteBudget& call_memory;
    // The recovery at the start, which may still be running.
    const Recovery& recovery;
    const Store& store;
    // True if damage was found since the start.
    const std::atomic<bool>& store_damaged;
    // Maximum number of series of models in one response; see ModelMetrics. Further ones are left
    // out and counted.
    std::size_t max_series = 0;
    std::size_t ingest_queue_bytes = 0;
    std::size_t state_memory_bytes = 0;
    std::size_t disk_bytes = 0;
  };

  explicit Metrics(const Sources& sources) : sources_(sources) {}

  // Returns the metrics in the Prometheus text format.
  [[nodiscard]] std::string Text() const;

 private:
  [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const;

  const Sources sources_;
  mutable std::atomic<std::int64_t> dropped_series_ = 0;
  mutable ModelMetrics model_metrics_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_METRICS_H_
