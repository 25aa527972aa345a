#include "benchmark/quiet_models.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <latch>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "benchmark/servers.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "support/server_process.h"
#include "support/wait_for.h"

namespace calibd {
namespace {

// The outcome of unary calls.
struct Latencies {
  std::vector<double> milliseconds;
  std::int64_t calls = 0;
  std::int64_t refused = 0;
  // Why the last refused call was refused.
  std::string error;

  void Add(const Latencies& other) {
    milliseconds.insert(milliseconds.end(), other.milliseconds.begin(), other.milliseconds.end());
    calls += other.calls;
    refused += other.refused;
    if (other.refused > 0) error = other.error;
  }

  nlohmann::ordered_json ToJson() {
    std::ranges::sort(milliseconds);
    nlohmann::ordered_json row{{"calls", calls}, {"refused", refused}};
    if (refused > 0) row["error"] = error;
    if (const std::size_t n = milliseconds.size(); n > 0) {
      row["p50_ms"] = milliseconds[n / 2];
      row["p99_ms"] = milliseconds[n * 99 / 100];
    }
    return row;
  }
};

template <typename Request, typename Response>
struct QuietCall {
  grpc::ClientContext context;
  Request request;
  Response response;
  Clock::time_point begin;
  Clock::time_point end;
  grpc::Status status;
};

struct Schedule {
  Clock::time_point begin;
  Seconds interval;
  Seconds duration;
};

// Starts a call at regular times, whether or not the calls before are answered. The calls of the
// first second are not reported. start: sets the request and starts the call.
template <typename Request, typename Response>
Latencies CallRegularly(const Schedule& schedule,
                        const std::function<void(QuietCall<Request, Response>&,
                                                 std::function<void(grpc::Status)>)>& start) {
  const auto warmup = static_cast<std::size_t>(Seconds(1) / schedule.interval);
  std::vector<QuietCall<Request, Response>> calls(
      warmup + static_cast<std::size_t>(schedule.duration / schedule.interval));
  std::latch pending(static_cast<std::ptrdiff_t>(calls.size()));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    QuietCall<Request, Response>& call = calls[i];
    call.begin = schedule.begin + std::chrono::duration_cast<Clock::duration>(
                                      static_cast<double>(i) * schedule.interval);
    std::this_thread::sleep_until(call.begin);
    start(call, [&call, &pending](const grpc::Status& status) {
      call.end = Clock::now();
      call.status = status;
      pending.count_down();
    });
  }
  pending.wait();
  Latencies result;
  for (const QuietCall<Request, Response>& call : std::span(calls).subspan(warmup)) {
    ++result.calls;
    if (call.status.ok()) {
      result.milliseconds.push_back(1e3 * Seconds(call.end - call.begin).count());
    } else {
      ++result.refused;
      result.error = call.status.error_message();
    }
  }
  return result;
}

Latencies CallObserve(const std::string& address, const std::string& model, std::size_t rows,
                      const Schedule& schedule) {
  const auto stub = v1::IngestService::NewStub(Connect(address));
  Batches batches(rows, 10, /*float32=*/false, 1);
  return CallRegularly<v1::ObserveRequest, v1::ObserveResponse>(
      schedule, [&](auto& call, std::function<void(grpc::Status)> done) {
        call.request.set_model(model);
        *call.request.mutable_observations() = batches.Next().batch().observations();
        stub->async()->Observe(&call.context, &call.request, &call.response, std::move(done));
      });
}

Latencies CallGetCalibration(const std::string& address, const std::string& model,
                             const Schedule& schedule) {
  const auto stub = v1::CalibrationService::NewStub(Connect(address));
  return CallRegularly<v1::GetCalibrationRequest, v1::GetCalibrationResponse>(
      schedule, [&](auto& call, std::function<void(grpc::Status)> done) {
        call.request.set_model(model);
        stub->async()->GetCalibration(&call.context, &call.request, &call.response,
                                      std::move(done));
      });
}

struct QuietRow {
  std::string name;
  std::size_t quiet_models = 1;
  std::size_t rows = 1;
  Seconds interval{0.02};
  std::size_t busy_models = 16;
  std::size_t busy_rows = 2048;
};

std::string QuietName(std::size_t model) { return "models/quiet-" + std::to_string(model); }

// Adds what was measured of one server to a row.
void MeasureServer(const std::string& server, const std::string& address, const QuietRow& row,
                   Seconds duration, nlohmann::ordered_json& result) {
  const testing::TemporaryFolder folder;
  const testing::ChildProcess load({"/proc/self/exe", "load", address,
                                    std::to_string(row.busy_models), std::to_string(row.busy_rows)},
                                   folder.path() / "load.txt");
  Check(testing::WaitFor([&] { return load.Output() == "streaming\n"; }), "there is no load");
  std::vector<Latencies> observed(row.quiet_models);
  std::vector<Latencies> read(row.quiet_models);
  std::vector<std::jthread> callers;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < row.quiet_models; ++i) {
    const auto schedule = [&](double place) {
      const Seconds phase = place / static_cast<double>(row.quiet_models) * row.interval;
      return Schedule{.begin = begin + std::chrono::duration_cast<Clock::duration>(phase),
                      .interval = row.interval,
                      .duration = duration};
    };
    callers.emplace_back([&, i, schedule = schedule(static_cast<double>(i))] {
      observed[i] = CallObserve(address, QuietName(i), row.rows, schedule);
    });
    callers.emplace_back([&, i, schedule = schedule(static_cast<double>(i) + 0.5)] {
      read[i] = CallGetCalibration(address, QuietName(i), schedule);
    });
  }
  callers.clear();
  Latencies all_observed;
  for (const Latencies& one : observed) all_observed.Add(one);
  Latencies all_read;
  for (const Latencies& one : read) all_read.Add(one);
  result[server + ", Observe"] = all_observed.ToJson();
  result[server + ", GetCalibration"] = all_read.ToJson();
}

}  // namespace

int RunLoad(const std::string& address, std::size_t models, std::size_t rows) {
  Load load(address, {.rows = rows, .models = models});
  std::cout << "streaming" << std::endl;
  while (true) load.PredictionsPerSecond(Seconds(3600));
}

void MeasureQuietModels(IngestReport& report) {
  std::vector<QuietRow> rows;
  for (const std::size_t busy_rows : {1UL, 16UL, 256UL, 2048UL}) {
    rows.push_back(
        {.name = "quiet-model/busy-rows=" + std::to_string(busy_rows), .busy_rows = busy_rows});
  }
  rows.push_back({.name = "50-quiet-models",
                  .quiet_models = 50,
                  .rows = 10,
                  .interval = Seconds(0.1),
                  .busy_models = 1});
  for (const QuietRow& row : rows) {
    if (!report.Includes(row.name)) continue;
    const Servers servers;
    for (std::size_t i = 0; i < row.quiet_models; ++i) {
      CreateModel(servers.calibd(), QuietName(i), 10);
    }
    for (std::size_t i = 0; i < row.busy_models; ++i) {
      CreateModel(servers.calibd(), Load::ModelName(i), 10);
    }
    nlohmann::ordered_json result;
    const Seconds duration = 6 * report.seconds();
    MeasureServer("calibd", servers.calibd(), row, duration, result);
    MeasureServer("gRPC alone", servers.no_op(), row, duration, result);
    MeasureServer("gRPC and a file", servers.durable_no_op(), row, duration, result);
    report.Add(row.name, std::move(result));
  }
}

}  // namespace calibd
