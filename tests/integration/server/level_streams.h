#ifndef CALIBD_TESTS_INTEGRATION_SERVER_LEVEL_STREAMS_H_
#define CALIBD_TESTS_INTEGRATION_SERVER_LEVEL_STREAMS_H_

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd::testing {

// Calibrated predictions that are sent to models of their own.
struct LevelStreams {
  int count = 0;
  int batches = 0;
  // The number of rows of a batch.
  int rows = 0;
  // The server is killed after this batch, from 0.
  int killed_after = 0;
  std::function<v1::Model(int stream)> model;
  std::function<v1::ObserveRequest(int stream, std::mt19937_64& random)> next;
  std::function<bool(const v1::GetCalibrationResponse& answer)> is_over_limit;
};

// How many streams were called miscalibrated.
struct LevelCounts {
  int rejected = 0;
  int over_limit = 0;
};

// Sends the streams to a server and counts what it says of them. The evidence and the alarms stay,
// so the last answer tells what any look after a batch has shown.
inline void SendLevelStreams(const LevelStreams& streams, LevelCounts& counts) {
  const TemporaryFolder folder;
  std::unique_ptr<ServerProcess> server;
  std::optional<ServiceClient> client;
  const auto start = [&] {
    client.reset();
    server = ServerProcess::Start({"--data-dir", (folder.path() / "data").string()});
    ASSERT_NE(server, nullptr);
    client.emplace(server->grpc_address());
  };
  ASSERT_NO_FATAL_FAILURE(start());
  std::vector<std::mt19937_64> randoms;
  for (int i = 0; i < streams.count; ++i) {
    const grpc::Status status = client->Create(streams.model(i));
    ASSERT_TRUE(status.ok()) << status.error_message();
    randoms.emplace_back(static_cast<std::uint64_t>(i) + 1);
  }
  for (int batch = 0; batch < streams.batches; ++batch) {
    for (int i = 0; i < streams.count; ++i) {
      const grpc::Status status =
          client->Observe(streams.next(i, randoms[static_cast<std::size_t>(i)]));
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
    if (batch != streams.killed_after) continue;
    server->Kill();
    ASSERT_NO_FATAL_FAILURE(start());
  }
  for (int i = 0; i < streams.count; ++i) {
    const v1::GetCalibrationResponse answer = client->GetCalibration(streams.model(i).name());
    EXPECT_EQ(answer.watch().observations(), streams.batches * streams.rows);
    const v1::Evidence& evidence = answer.watch().evidence();
    EXPECT_EQ(evidence.threshold(), std::log10(20));
    counts.rejected += evidence.max_log10_e_value() >= evidence.threshold() ? 1 : 0;
    counts.over_limit += streams.is_over_limit(answer) ? 1 : 0;
  }
  ::testing::Test::RecordProperty("rejected", counts.rejected);
  ::testing::Test::RecordProperty("over_limit", counts.over_limit);
  std::cout << counts.rejected << " of " << streams.count << " streams were rejected, "
            << counts.over_limit << " were over the limit\n";
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_SERVER_LEVEL_STREAMS_H_
