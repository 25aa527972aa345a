#ifndef CALIBD_TESTS_INTEGRATION_SERVER_CALIBRATION_FIXTURE_H_
#define CALIBD_TESTS_INTEGRATION_SERVER_CALIBRATION_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "calibd/core/generator.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"

namespace calibd::testing {

class CalibrationTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const std::vector<std::string>& arguments) {
    client_.reset();
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  // Streams the set in batches of random size up to `max_rows`.
  void Stream(const std::string& model, const PredictionSet& set, std::size_t max_rows,
              std::uint64_t seed = 1) {
    std::mt19937_64 random(seed);
    ObservationCall call(*client_);
    ASSERT_EQ(call.Open(model, "p"), 1);
    std::int64_t sequence = 0;
    for (std::size_t done = 0; done < set.labels.size();) {
      const std::size_t size =
          std::min(set.labels.size() - done,
                   std::uniform_int_distribution<std::size_t>(1, max_rows)(random));
      ASSERT_TRUE(call.SendBatch(++sequence, set.view().rows(done, size)));
      done += size;
    }
    ASSERT_TRUE(call.SendFinish(sequence));
    ASSERT_TRUE(call.Await().ok());
    ASSERT_EQ(client_->GetCalibration(model).rejected_rows(), 0);
  }

  v1::RunTestRequest TestRequest(const std::string& model, int replicates) const {
    v1::RunTestRequest request;
    request.set_model(model);
    request.set_replicates(replicates);
    request.set_seed(17);
    return request;
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_INTEGRATION_SERVER_CALIBRATION_FIXTURE_H_
