#ifndef CALIBD_SERVER_OBSERVABILITY_PROCESS_METRICS_H_
#define CALIBD_SERVER_OBSERVABILITY_PROCESS_METRICS_H_

#include "server/observability/metric_families.h"

namespace calibd::server {

// Adds the process_* metrics of Prometheus' own client libraries, read from /proc/self. A value
// that cannot be read is missing.
void AddProcessFamilies(Scrape& scrape);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_PROCESS_METRICS_H_
