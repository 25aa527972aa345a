// Measures what a service with a Monitor notices of an outage of calibd: `monitor_outage
// [SECONDS]`.
//
// Threads run handlers at a fixed rate while calibd works, and then while it is killed, frozen by
// SIGSTOP, or refuses the rows because the model does not exist. Prints the 99th percentile of the
// duration of a handler in both times, and of Observe alone. Fails unless calibd has then counted
// each row once that was not dropped, and knows the number of the dropped ones.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/client/monitor.h"
#include "support/server_process.h"

namespace calibd {
namespace {

using client::Client;
using client::ModelName;
using client::Monitor;
using testing::ServerProcess;
using testing::TemporaryFolder;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kThreads = 4;
// Calls a second of each thread.
constexpr double kRate = 100;
constexpr std::size_t kClasses = 10;
constexpr std::chrono::seconds kBefore{20};
constexpr std::chrono::minutes kPatience{2};
// It overflows in a long outage, which is a part of what is measured.
constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

void Check(bool ok, const std::string& what) {
  if (ok) return;
  std::fprintf(stderr, "monitor_outage: %s\n", what.c_str());
  std::exit(1);
}

// Durations in milliseconds.
struct Durations {
  std::vector<double> handlers;
  std::vector<double> observes;
};

double Quantile(std::vector<double> values, double level) {
  Check(!values.empty(), "no call was measured");
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(level * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// A model of ten classes, as small as one can be: a matrix product and a softmax.
Durations Serve(Monitor& monitor, std::uint64_t seed, Clock::duration duration) {
  constexpr std::size_t kFeatures = 64;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::exponential_distribution<double> gap(kRate);
  std::vector<double> weights(kFeatures * kClasses);
  for (double& weight : weights) weight = normal(random);
  Durations durations;
  Clock::time_point due = Clock::now();
  const Clock::time_point end = due + duration;
  while (due < end) {
    due += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(gap(random)));
    std::this_thread::sleep_until(due);
    const Clock::time_point begin = Clock::now();
    std::vector<double> probabilities(kClasses);
    for (std::size_t i = 0; i < kFeatures; ++i) {
      const double feature = normal(random);
      for (std::size_t k = 0; k < kClasses; ++k) {
        probabilities[k] += feature * weights[i * kClasses + k];
      }
    }
    const double most = *std::max_element(probabilities.begin(), probabilities.end());
    double sum = 0;
    for (double& value : probabilities) sum += value = std::exp(value - most);
    for (double& value : probabilities) value /= sum;
    const Clock::time_point before = Clock::now();
    monitor.Observe({.values = probabilities, .label = static_cast<std::int32_t>(seed % kClasses)});
    const Clock::time_point after = Clock::now();
    durations.observes.push_back(Milliseconds(after - before).count());
    durations.handlers.push_back(Milliseconds(after - begin).count());
  }
  return durations;
}

Durations RunHandlers(Monitor& monitor, Clock::duration duration) {
  std::vector<Durations> parts(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    threads.emplace_back([&, i] { parts[i] = Serve(monitor, i, duration); });
  }
  Durations all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    threads[i].join();
    all.handlers.insert(all.handlers.end(), parts[i].handlers.begin(), parts[i].handlers.end());
    all.observes.insert(all.observes.end(), parts[i].observes.begin(), parts[i].observes.end());
  }
  return all;
}

std::unique_ptr<Monitor> CreateMonitor(const std::string& model, const std::string& address) {
  auto monitor =
      Monitor::Create(ModelName(model), {.address = address, .max_buffer_bytes = kBufferBytes});
  Check(monitor.ok(), "no monitor");
  return *std::move(monitor);
}

void CreateModel(const std::string& name, const std::string& address) {
  const auto client = Client::Connect(address);
  Check(client.ok(), "no client");
  v1::Model model;
  model.set_name(ModelName(name));
  model.mutable_classes()->set_count(kClasses);
  Check((*client)->CreateModel(model).ok(), "no model");
}

void Measure(const std::string& outage, Clock::duration duration) {
  const TemporaryFolder folder;
  const std::string data = folder.path() / "data";
  auto server = ServerProcess::Start({"--data-dir", data});
  Check(server != nullptr, "no server");
  const std::string address = server->grpc_address();
  CreateModel("up", address);
  const Durations before = RunHandlers(*CreateMonitor("up", address), kBefore);
  // A model that does not exist refuses the rows; an open stream notices nothing else.
  const std::string name = outage == "refusing" ? "late" : "model";
  if (outage != "refusing") CreateModel(name, address);
  const auto monitor = CreateMonitor(name, address);
  monitor->Observe({.values = std::vector<double>(kClasses, 1.0 / kClasses), .label = 0});
  if (outage != "refusing") Check(monitor->Flush(kPatience).ok(), "the first row is not counted");
  if (outage == "killed") server->Kill();
  if (outage == "frozen") server->process().Signal(SIGSTOP);
  const Durations during = RunHandlers(*monitor, duration);
  const Clock::time_point begin = Clock::now();
  if (outage == "killed") server = ServerProcess::Start({"--data-dir", data, "--listen", address});
  if (outage == "frozen") server->process().Signal(SIGCONT);
  if (outage == "refusing") CreateModel(name, address);
  Check(monitor->Flush(kPatience).ok(), "not all rows are settled");
  const double healed = std::chrono::duration<double>(Clock::now() - begin).count();
  const client::StreamCounts counts = monitor->Close();
  const auto client = Client::Connect(address);
  Check(client.ok(), "no client after the outage");
  const auto answer = (*client)->GetCalibration(ModelName(name));
  Check(answer.ok(), "no answer");
  Check(counts.rows == static_cast<std::int64_t>(during.observes.size()) + 1, "rows are missing");
  Check(answer->observations() == counts.accepted_rows &&
            counts.accepted_rows == counts.rows - counts.dropped_rows,
        "a row is not counted once");
  Check(answer->dropped_rows() == counts.dropped_rows, "dropped rows are not reported");
  std::printf(
      "%-9s handler p99 %.3f ms before, %.3f ms in the outage; Observe p99 %.4f and %.4f ms, "
      "median "
      "%.4f ms; of %lld rows %lld counted once, %lld dropped and reported; %.1f s until all were "
      "counted\n",
      outage.c_str(), Quantile(before.handlers, 0.99), Quantile(during.handlers, 0.99),
      Quantile(before.observes, 0.99), Quantile(during.observes, 0.99),
      Quantile(during.observes, 0.5), static_cast<long long>(counts.rows),
      static_cast<long long>(counts.accepted_rows), static_cast<long long>(counts.dropped_rows),
      healed);
  std::fflush(stdout);
}

}  // namespace
}  // namespace calibd

int main(int argc, char** argv) {
  const std::chrono::seconds duration(argc > 1 ? std::atoi(argv[1]) : 75);
  for (const char* const outage : {"killed", "frozen", "refusing"}) {
    calibd::Measure(outage, duration);
  }
  return 0;
}
