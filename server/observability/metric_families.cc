#include "server/observability/metric_families.h"

namespace calibd::server {

using prometheus::ClientMetric;
using prometheus::MetricType;

ClientMetric* Series::NewMetric(const Labels& more_labels) {
  if (scrape_.series_left == 0) {
    ++scrape_.dropped_series;
    return nullptr;
  }
  --scrape_.series_left;
  ClientMetric& metric = family_.metric.emplace_back();
  metric.label = labels_;
  metric.label.insert(metric.label.end(), more_labels.begin(), more_labels.end());
  return &metric;
}

void Series::Add(std::optional<double> value, const Labels& more_labels) {
  if (!value.has_value()) return;
  ClientMetric* const metric = NewMetric(more_labels);
  if (metric == nullptr) return;
  (family_.type == MetricType::Counter ? metric->counter.value : metric->gauge.value) = *value;
}

void Series::AddHistogram(std::span<const double> bounds, std::span<const std::int64_t> counts,
                          double sum) {
  ClientMetric* const metric = NewMetric({});
  if (metric == nullptr) return;
  ClientMetric::Histogram& histogram = metric->histogram;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    histogram.sample_count += static_cast<std::uint64_t>(counts[i]);
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({histogram.sample_count, bound});
  }
  histogram.sample_sum = sum;
}

}  // namespace calibd::server
