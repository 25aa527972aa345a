#include "benchmark/ingest_report.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <vector>

namespace calibd {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

nlohmann::ordered_json IngestReport::Compare(const std::string& baseline_name,
                                             const Measure& calibd, const Measure& baseline,
                                             const Measure& durable) const {
  calibd(seconds_ / 2);
  baseline(seconds_ / 2);
  if (durable) durable(seconds_ / 2);
  std::vector<double> calibd_each;
  std::vector<double> baseline_each;
  std::vector<double> durable_each;
  std::vector<double> ratios;
  std::vector<double> durable_ratios;
  for (int round = 0; round < rounds_; ++round) {
    calibd_each.push_back(std::round(calibd(seconds_)));
    baseline_each.push_back(std::round(baseline(seconds_)));
    ratios.push_back(calibd_each.back() / baseline_each.back());
    if (durable) {
      durable_each.push_back(std::round(durable(seconds_)));
      durable_ratios.push_back(calibd_each.back() / durable_each.back());
    }
  }
  nlohmann::ordered_json row{{"baseline", baseline_name},
                             {"calibd_per_second", calibd_each},
                             {"baseline_per_second", baseline_each},
                             {"median_per_second", Median(calibd_each)},
                             {"median_baseline_per_second", Median(baseline_each)},
                             {"median_ratio", Median(ratios)}};
  if (durable) {
    row["durable_per_second"] = durable_each;
    row["median_durable_per_second"] = Median(durable_each);
    row["median_durable_ratio"] = Median(durable_ratios);
  }
  return row;
}

void IngestReport::Add(const std::string& name, nlohmann::ordered_json row) {
  std::cerr << name << ' ' << row.dump() << std::endl;
  rows_[name] = std::move(row);
}

}  // namespace calibd
