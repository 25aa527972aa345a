// Two producers for one model, one of which loses its connection at random bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "calibd/core/kernel.h"
#include "calibd/core/running_skce.h"
#include "calibd/core/skce.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/tcp_proxy.h"

namespace calibd::testing {
namespace {

constexpr char kReconnectModel[] = "models/m";
constexpr std::size_t kReconnectClasses = 10;
constexpr std::size_t kReconnectRows = 20;
constexpr std::int64_t kBatches = 60;

PredictionBatch Batch(const PredictionSet& set, std::int64_t sequence) {
  return set.view().rows(static_cast<std::size_t>(sequence - 1) * kReconnectRows, kReconnectRows);
}

// Sends unacknowledged batches until all are acknowledged, over as many connections as necessary.
// Returns the number of connections.
int SendAll(const std::string& address, const std::string& producer, const PredictionSet& set) {
  int connections = 0;
  for (bool finished = false; !finished && connections < 100; ++connections) {
    ServiceClient client(address);
    ObservationCall call(client);
    const std::optional<std::int64_t> next = call.Open(kReconnectModel, producer);
    if (!next.has_value()) continue;
    // The first number is one lower, because a settled batch may be sent again.
    std::int64_t last = *next - 1;
    for (std::int64_t i = std::max<std::int64_t>(1, *next - 1); i <= kBatches; ++i) {
      if (!call.SendBatch(i, Batch(set, i))) break;
      last = i;
    }
    call.SendFinish(last);
    finished = call.Await().ok() && last == kBatches;
  }
  return connections;
}

TEST(ReconnectTest, EveryBatchIsCountedOnceWhenAConnectionBreaksAtRandomBytes) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto server = ServerProcess::Start();
  ASSERT_NE(server, nullptr);
  ServiceClient client(server->grpc_address());
  client.CreateFixed(kReconnectModel, kReconnectClasses);
  const PredictionSet steady = Draw(kReconnectRows * kBatches, kReconnectClasses, 1);
  const PredictionSet broken = Draw(kReconnectRows * kBatches, kReconnectClasses, 2);

  TcpProxy proxy(server->grpc_address());
  // All batches together are about 100 kB.
  proxy.CutAfter(std::uniform_int_distribution<std::int64_t>(500, 90000)(random));
  std::thread steady_producer([&] { SendAll(server->grpc_address(), "steady", steady); });
  const int connections = SendAll(proxy.address(), "broken", broken);
  steady_producer.join();
  EXPECT_EQ(proxy.cuts(), 1);
  EXPECT_GE(connections, 2);

  const v1::GetCalibrationResponse calibration = client.GetCalibration(kReconnectModel);
  EXPECT_EQ(calibration.observations(), static_cast<std::int64_t>(2 * kReconnectRows) * kBatches);
  EXPECT_EQ(calibration.rejected_rows(), 0);

  // Regardless of how the two were interleaved, the window contains every batch once.
  v1::RunTestRequest request;
  request.set_model(kReconnectModel);
  request.set_replicates(99);
  v1::QuadraticTestResult result;
  ASSERT_TRUE(client.RunTest(request, &result).ok());
  PredictionSet both = steady;
  both.probabilities.insert(both.probabilities.end(), broken.probabilities.begin(),
                            broken.probabilities.end());
  both.labels.insert(both.labels.end(), broken.labels.begin(), broken.labels.end());
  const auto offline = EstimateQuadraticSkce(both.view(), *Kernel::ExponentialTotalVariation(0.5));
  ASSERT_TRUE(offline.ok());
  EXPECT_NEAR(result.skce_unbiased() / offline->unbiased, 1, 1e-10);
  EXPECT_NEAR(result.skce_biased() / offline->biased, 1, 1e-10);
}

TEST(ReconnectTest, ResumedStreamEqualsTheUninterruptedOneBitForBit) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto server = ServerProcess::Start();
  ASSERT_NE(server, nullptr);
  ServiceClient client(server->grpc_address());
  const v1::Model model = client.CreateFixed(kReconnectModel, kReconnectClasses);
  const PredictionSet set = Draw(kReconnectRows * kBatches, kReconnectClasses, 3);
  TcpProxy proxy(server->grpc_address());
  proxy.CutAfter(std::uniform_int_distribution<std::int64_t>(500, 90000)(random));
  SendAll(proxy.address(), "p", set);
  EXPECT_EQ(proxy.cuts(), 1);

  const v1::GetCalibrationResponse calibration = client.GetCalibration(kReconnectModel);
  ASSERT_EQ(calibration.estimates_size(), model.classes().block_sizes_size());
  for (const v1::BlockEstimate& estimate : calibration.estimates()) {
    auto offline =
        RunningBlockSkce::Create(static_cast<std::size_t>(estimate.block_size()), kReconnectClasses,
                                 *Kernel::ExponentialTotalVariation(0.5));
    ASSERT_TRUE(offline.ok());
    for (std::size_t i = 0; i < set.labels.size(); ++i) {
      offline->Add(set.view().row(i), set.labels[i]);
    }
    EXPECT_EQ(estimate.block_count(), offline->moments().count);
    const double served = estimate.skce();
    EXPECT_EQ(std::memcmp(&served, &offline->moments().mean, sizeof(served)), 0);
  }
}

}  // namespace
}  // namespace calibd::testing
