#ifndef CALIBD_SERVER_OBSERVABILITY_METRIC_FAMILIES_H_
#define CALIBD_SERVER_OBSERVABILITY_METRIC_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace calibd::server {

using Labels = std::vector<prometheus::ClientMetric::Label>;

// The metric families of one scrape, and the number of series that may still be added to them.
struct Scrape {
  std::vector<prometheus::MetricFamily> families;
  std::size_t series_left = std::numeric_limits<std::size_t>::max();
  std::int64_t dropped_series = 0;
};

// Adds series to one family. All of them begin with the same labels.
class Series {
 public:
  Series(Scrape& scrape, prometheus::MetricFamily& family, const Labels& labels)
      : scrape_(scrape), family_(family), labels_(labels) {}

  // Does nothing if the value is missing.
  void Add(std::optional<double> value, const Labels& more_labels = {});
  // bounds: inclusive upper bounds of all buckets but the last. The counts are not cumulative.
  void AddHistogram(std::span<const double> bounds, std::span<const std::int64_t> counts,
                    double sum);

 private:
  // Returns null if no further series may be added.
  prometheus::ClientMetric* NewMetric(const Labels& more_labels);

  Scrape& scrape_;
  prometheus::MetricFamily& family_;
  const Labels& labels_;
};

// A row of a table of metric families.
template <typename Source>
struct FamilyRow {
  const char* name;
  prometheus::MetricType type;
  const char* help;
  void (*add)(const Source& source, Series& out);
};

// The families of a table, filled source by source.
template <typename Source>
class Families {
 public:
  template <std::size_t kRows>
  Families(const FamilyRow<Source> (&rows)[kRows], Scrape& scrape)
      : rows_(rows), scrape_(scrape), first_(scrape.families.size()) {
    for (const FamilyRow<Source>& row : rows) {
      scrape.families.push_back({row.name, row.help, row.type, {}});
    }
  }

  // labels: the first labels of all series of this source.
  void Add(const Source& source, const Labels& labels = {}) {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      Series series(scrape_, scrape_.families[first_ + i], labels);
      rows_[i].add(source, series);
    }
  }

 private:
  const std::span<const FamilyRow<Source>> rows_;
  Scrape& scrape_;
  const std::size_t first_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_OBSERVABILITY_METRIC_FAMILIES_H_
