// GetHistory of the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "calibd/core/running_reliability.h"
#include "calibd/core/running_skce.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;
using History = v1::GetHistoryResponse;
using Resolution = v1::GetHistoryRequest::Resolution;

constexpr std::size_t kHistoryClasses = 10;

class GetHistoryTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    server_ = ServerProcess::Start({"--data-dir", (folder_.path() / "data").string()});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  static v1::GetHistoryRequest Request(Resolution resolution) {
    v1::GetHistoryRequest request;
    request.set_model("models/m");
    request.set_resolution(resolution);
    return request;
  }
  grpc::Status Call(const v1::GetHistoryRequest& request, History* response) {
    CallContext context;
    return client_->calibration->GetHistory(&context, request, response);
  }
  History Get(const v1::GetHistoryRequest& request) {
    History response;
    const grpc::Status status = Call(request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  History Get(Resolution resolution) { return Get(Request(resolution)); }
  void ExpectInvalid(const v1::GetHistoryRequest& request, const std::string& field) {
    History response;
    const grpc::Status status = Call(request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(field));
  }

  void Observe(const PredictionBatch& batch) {
    v1::ObserveRequest request;
    request.set_model("models/m");
    *request.mutable_observations() = ToProto(batch);
    const grpc::Status status = client_->Observe(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  const TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

// Expects the values of a bucket that follow from its observations.
void ExpectBucketOf(const v1::HistoryBucket& bucket, const PredictionSet& set, double bandwidth) {
  const PredictionBatch all = set.view();
  const auto n = static_cast<double>(all.size());
  RunningReliability reliability;
  reliability.Add(all);
  auto skce =
      RunningBlockSkce::Create(2, kHistoryClasses, *Kernel::ExponentialTotalVariation(bandwidth));
  for (std::size_t i = 0; i < all.size(); ++i) skce->Add(all.row(i), all.labels[i]);
  const RunningMoments& moments = skce->moments();
  EXPECT_EQ(bucket.observations(), static_cast<std::int64_t>(all.size()));
  EXPECT_EQ(bucket.pairs(), moments.count);
  EXPECT_NEAR(bucket.skce(), moments.mean, 1e-13);
  EXPECT_NEAR(bucket.skce_standard_error(),
              std::sqrt(moments.Variance() / static_cast<double>(moments.count)), 1e-13);
  EXPECT_NEAR(bucket.mean_confidence(), reliability.Total().confidence / n, 1e-13);
  EXPECT_EQ(bucket.accuracy(), static_cast<double>(reliability.Total().correct) / n);
  EXPECT_NEAR(bucket.brier_score(), reliability.brier / n, 1e-13);
  EXPECT_NEAR(bucket.log_loss(), reliability.log_loss / n, 1e-12);
  EXPECT_NEAR(bucket.ece(), reliability.ExpectedCalibrationError(), 1e-13);
  ASSERT_EQ(bucket.bins_size(), static_cast<int>(kReliabilityBinCount));
  for (std::size_t b = 0; b < kReliabilityBinCount; ++b) {
    const RunningReliability::Bin& expected = reliability.bins[b];
    const v1::HistoryBucket::Bin& bin = bucket.bins(static_cast<int>(b));
    EXPECT_EQ(bin.observations(), expected.count);
    if (expected.count == 0) continue;
    const auto count = static_cast<double>(expected.count);
    EXPECT_NEAR(bin.mean_confidence(), expected.confidence / count, 1e-13);
    EXPECT_EQ(bin.accuracy(), static_cast<double>(expected.correct) / count);
  }
}

TEST_F(GetHistoryTest, ContainsTheCountedObservationsAfterAKillAndAfterAStop) {
  client_->CreateFixed("models/m", kHistoryClasses);
  const PredictionSet set = Draw(4999, kHistoryClasses);
  // There are several snapshots meanwhile.
  for (std::size_t done = 0; done < set.labels.size();) {
    const std::size_t rows = std::min<std::size_t>(77, set.labels.size() - done);
    Observe(set.view().rows(done, rows));
    done += rows;
  }
  v1::ObserveRequest invalid;
  invalid.set_model("models/m");
  *invalid.mutable_observations() = ToProto(set.view().rows(0, 3));
  invalid.mutable_observations()->mutable_probabilities()->set_values(0, 7);
  EXPECT_EQ(client_->Observe(invalid).error_code(), grpc::StatusCode::INVALID_ARGUMENT);

  const v1::Watch watch = client_->GetCalibration("models/m").watch();
  EXPECT_NE(watch.evidence().log10_e_value(), 0);
  std::vector<std::string> before;
  constexpr Resolution kAll[] = {v1::GetHistoryRequest::MINUTE, v1::GetHistoryRequest::HOUR,
                                 v1::GetHistoryRequest::DAY};
  for (const Resolution resolution : kAll) {
    const History history = Get(resolution);
    ExpectBucketOf(history.total(), set, 0.5);
    EXPECT_EQ(history.total().rejected_rows(), 3);
    EXPECT_EQ(history.total().log10_e_value(), watch.evidence().log10_e_value());
    EXPECT_EQ(history.total().max_log10_e_value(), watch.evidence().max_log10_e_value());
    EXPECT_EQ(history.total().drift_log10_statistic(), watch.drift().log10_statistic());
    std::int64_t observations = 0;
    std::int64_t end = 0;
    for (const v1::HistoryBucket& bucket : history.buckets()) {
      observations += bucket.observations();
      EXPECT_GE(bucket.start_time().seconds(), end);
      end = bucket.end_time().seconds();
    }
    EXPECT_EQ(observations, 4999);
    EXPECT_EQ(history.total().start_time().seconds(), history.buckets(0).start_time().seconds());
    EXPECT_EQ(history.total().end_time().seconds(), end);
    before.push_back(history.SerializeAsString());
  }
  const auto expect_as_before = [&] {
    for (std::size_t i = 0; i < before.size(); ++i) {
      EXPECT_TRUE(Get(kAll[i]).SerializeAsString() == before[i]) << i;
    }
  };
  server_->Kill();
  Start();
  expect_as_before();
  EXPECT_EQ(server_->Terminate(), 0);
  Start();
  expect_as_before();
}

TEST_F(GetHistoryTest, RefusesInvalidRequests) {
  History response;
  v1::GetHistoryRequest request = Request(v1::GetHistoryRequest::HOUR);
  EXPECT_EQ(Call(request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
  client_->CreateFixed("models/m", kHistoryClasses);
  EXPECT_EQ(Get(request).buckets_size(), 0);
  EXPECT_FALSE(Get(request).has_total());

  request.set_model("m");
  ExpectInvalid(request, "model");
  request = Request(static_cast<Resolution>(17));
  ExpectInvalid(request, "resolution is 17");
  request = Request(v1::GetHistoryRequest::UNSPECIFIED);
  request.set_page_size(-1);
  ExpectInvalid(request, "page_size is -1");
  request.set_page_size(1 << 30);
  EXPECT_TRUE(Call(request, &response).ok());
  request.mutable_start_time()->set_seconds(1000);
  request.mutable_end_time()->set_seconds(1000);
  ExpectInvalid(request, "end_time");
  request.mutable_end_time()->set_nanos(1);
  EXPECT_TRUE(Call(request, &response).ok());
  request.mutable_start_time()->set_nanos(-1);
  ExpectInvalid(request, "start_time");
  request.mutable_start_time()->set_nanos(0);
  request.mutable_end_time()->set_seconds(253402300800);
  ExpectInvalid(request, "end_time");
  request.clear_end_time();
  for (const char* token : {"x", "YWZ0ZXI6eA==", "aGlzdG9yeToyOg=="}) {
    request.set_page_token(token);
    ExpectInvalid(request, "page_token");
  }
}

}  // namespace
}  // namespace calibd::testing
