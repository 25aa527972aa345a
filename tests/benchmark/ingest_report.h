#ifndef CALIBD_TESTS_BENCHMARK_INGEST_REPORT_H_
#define CALIBD_TESTS_BENCHMARK_INGEST_REPORT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "benchmark/load.h"

namespace calibd {

// Measures rows of the tables, prints them and keeps their numbers.
class IngestReport {
 public:
  // filter: part of the names of the rows that are measured.
  IngestReport(int rounds, Seconds seconds, std::string filter)
      : rounds_(rounds), seconds_(seconds), filter_(std::move(filter)) {}

  // Units per second, measured for this time.
  using Measure = std::function<double(Seconds)>;

  [[nodiscard]] bool Includes(const std::string& name) const {
    return name.find(filter_) != std::string::npos;
  }

  // Measures calibd and its baselines in turn. durable: a second baseline, which syncs a file; may
  // be null. Returns the numbers of a row.
  [[nodiscard]] nlohmann::ordered_json Compare(const std::string& baseline_name,
                                               const Measure& calibd, const Measure& baseline,
                                               const Measure& durable = nullptr) const;

  void Add(const std::string& name, nlohmann::ordered_json row);

  [[nodiscard]] const nlohmann::ordered_json& rows() const { return rows_; }
  [[nodiscard]] Seconds seconds() const { return seconds_; }

 private:
  const int rounds_;
  const Seconds seconds_;
  const std::string filter_;
  nlohmann::ordered_json rows_;
};

}  // namespace calibd

#endif  // CALIBD_TESTS_BENCHMARK_INGEST_REPORT_H_
