// How often calibrated predictions of several labels are called miscalibrated by the real server,
// which is looked at after every batch and killed on the way. Seeds and the places of kills are
// fixed.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

constexpr int kLabelStreams = 400;
constexpr int kLabelBatches = 6;
constexpr int kLabelRows = 300;
constexpr int kKilledAfter = 2;
constexpr int kLabelsOfStream = 4;

v1::Model LevelModelOfLabels(int stream) {
  v1::Model model;
  model.set_name("models/stream-" + std::to_string(stream));
  for (int k = 0; k < kLabelsOfStream; ++k) model.mutable_labels()->add_names(std::to_string(k));
  return model;
}

// Each label holds as often as it is stated. Two labels always hold together, which the intervals
// must allow for, and a fifth of the truths of the last one are missing.
v1::ObserveRequest NextRowsOfLabels(int stream, std::mt19937_64& random) {
  std::uniform_real_distribution<double> uniform;
  v1::ObserveRequest request;
  request.set_model(LevelModelOfLabels(stream).name());
  v1::Observations& observations = *request.mutable_observations();
  for (int i = 0; i < kLabelRows; ++i) {
    double stated = 0;
    double draw = 0;
    for (int k = 0; k < kLabelsOfStream; ++k) {
      if (k != 1) {
        stated = uniform(random);
        draw = uniform(random);
      }
      observations.mutable_probabilities()->add_values(stated);
      const bool missing = k == kLabelsOfStream - 1 && i % 5 == 0;
      observations.add_labels(missing ? -1 : draw < stated ? 1 : 0);
    }
  }
  return request;
}

TEST(LabelLevelTest, CalibratedStreamsAreSeldomRejected) {
  const TemporaryFolder folder;
  std::unique_ptr<ServerProcess> server;
  std::optional<ServiceClient> client;
  const auto start = [&] {
    client.reset();
    server = ServerProcess::Start({"--data-dir", (folder.path() / "data").string()});
    ASSERT_NE(server, nullptr);
    client.emplace(server->grpc_address());
  };
  start();
  std::vector<std::mt19937_64> randoms;
  for (int i = 0; i < kLabelStreams; ++i) {
    const grpc::Status status = client->Create(LevelModelOfLabels(i));
    ASSERT_TRUE(status.ok()) << status.error_message();
    randoms.emplace_back(static_cast<std::uint64_t>(i) + 1);
  }
  for (int batch = 0; batch < kLabelBatches; ++batch) {
    for (int i = 0; i < kLabelStreams; ++i) {
      const grpc::Status status =
          client->Observe(NextRowsOfLabels(i, randoms[static_cast<std::size_t>(i)]));
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
    if (batch != kKilledAfter) continue;
    server->Kill();
    start();
  }
  int rejected = 0;
  int over_limit = 0;
  for (int i = 0; i < kLabelStreams; ++i) {
    const v1::GetCalibrationResponse answer = client->GetCalibration(LevelModelOfLabels(i).name());
    EXPECT_EQ(answer.watch().observations(), kLabelBatches * kLabelRows);
    const v1::Evidence& evidence = answer.watch().evidence();
    EXPECT_EQ(evidence.threshold(), std::log10(20));
    rejected += evidence.max_log10_e_value() >= evidence.threshold() ? 1 : 0;
    // Also if a single label is over the limit. Alarms stay until they are acknowledged, so this is
    // what any look after a batch has shown.
    over_limit += answer.labels().over_limit().empty() &&
                          answer.verdict().limit_status() != v1::CalibrationError::OVER_LIMIT
                      ? 0
                      : 1;
  }
  // P(ever E >= 20) <= 0.05 in each stream, and the intervals of all labels and of all together
  // hold at all times with 95 %. The error of calibrated labels is 0, so an error that is shown to
  // be above the limit contradicts its interval. Four standard deviations for chance.
  const double most = 0.05 * kLabelStreams + 4 * std::sqrt(0.05 * 0.95 * kLabelStreams);
  EXPECT_LE(rejected, most);
  EXPECT_LE(over_limit, most);
  RecordProperty("rejected", rejected);
  RecordProperty("over_limit", over_limit);
  std::cout << rejected << " of " << kLabelStreams << " streams were rejected, " << over_limit
            << " were over the limit\n";
}

}  // namespace
}  // namespace calibd::testing
