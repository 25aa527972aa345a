#ifndef CALIBD_SERVER_OBSERVABILITY_PROCESS_METRICS_H_
#define CALIBD_SERVER_OBSERVABILITY_PROCESS_METRICS_H_

#include <prometheus/metric_family.h>

#include <vector>

namespace calibd::server {

// The process_* metrics of Prometheus' own client libraries, read from /proc/self. Values that
// cannot be read are absent.
[[nodiscard]] std::vector<prometheus::MetricFamily> CollectProcessMetrics();

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_PROCESS_METRICS_H_
