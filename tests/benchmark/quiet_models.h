#ifndef CALIBD_TESTS_BENCHMARK_QUIET_MODELS_H_
#define CALIBD_TESTS_BENCHMARK_QUIET_MODELS_H_

#include <cstddef>
#include <string>

#include "benchmark/ingest_report.h"

namespace calibd {

// Streams batches of this number of rows to this number of models until it is killed.
int RunLoad(const std::string& address, std::size_t models, std::size_t rows);

// The latency of unary calls beside busy models, of calibd and of servers that only acknowledge.
void MeasureQuietModels(IngestReport& report);

}  // namespace calibd

#endif  // CALIBD_TESTS_BENCHMARK_QUIET_MODELS_H_
