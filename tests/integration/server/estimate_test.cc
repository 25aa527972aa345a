#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calibd/core/estimator_selection.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

class EstimateTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& arguments, std::size_t rows) {
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
    client_->CreateFixed("models/m", 10);
    set_ = Draw(rows);
    ObservationCall call(*client_);
    ASSERT_EQ(call.Open("models/m", "p"), 1);
    for (std::size_t first = 0; first < rows; first += 100) {
      const auto sequence = static_cast<std::int64_t>(first / 100 + 1);
      ASSERT_TRUE(call.SendBatch(sequence, set_.view().rows(first, 100)));
    }
    ASSERT_TRUE(call.SendFinish(static_cast<std::int64_t>(rows / 100)));
    ASSERT_TRUE(call.Await().ok());
    request_.set_model("models/m");
    request_.set_seed(17);
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
  PredictionSet set_;
  v1::EstimateCalibrationErrorRequest request_;
};

TEST_F(EstimateTest, EqualsTheCore) {
  Start({}, 600);
  request_.set_window(500);
  request_.set_folds(3);
  request_.set_test_share(0.25);
  v1::CalibrationErrorEstimate estimate;
  const grpc::Status status = client_->EstimateCalibrationError(request_, &estimate);
  ASSERT_TRUE(status.ok()) << status.error_message();
  SelectionOptions options;
  options.folds = 3;
  options.test_share = 0.25;
  options.seed = 17;
  const SelectionResult expected = *SelectEstimator(set_.view().rows(100, 500), options);
  ASSERT_EQ(estimate.estimators_size(), 6);
  for (int i = 0; i < 6; ++i) {
    const v1::EstimatorOutcome& outcome = estimate.estimators(i);
    const EstimatorResult& result = expected.estimators[static_cast<std::size_t>(i)];
    EXPECT_EQ(outcome.estimator(), i + 1);
    EXPECT_EQ(outcome.parameter(), result.grid[result.best]);
    EXPECT_DOUBLE_EQ(outcome.squared_error(), result.squared_error);
    EXPECT_DOUBLE_EQ(outcome.excess_risk(), result.excess);
  }
  EXPECT_EQ(estimate.chosen(), static_cast<int>(expected.chosen) + 1);
  EXPECT_EQ(estimate.tuning_observations(), 375);
  EXPECT_EQ(estimate.test_observations(), 125);
  EXPECT_EQ(estimate.seed(), 17U);
  EXPECT_EQ(estimate.provenance().first_observation(), 101);
  EXPECT_EQ(estimate.provenance().lens(), "top_label");
  EXPECT_EQ(estimate.left_out_size(), 0);
  EXPECT_FALSE(estimate.has_simulation());
}

TEST_F(EstimateTest, SimulatesTheNoiseFloor) {
  Start({}, 200);
  request_.add_estimators(v1::EstimatorOutcome::BINS);
  request_.set_replicates(99);
  v1::CalibrationErrorEstimate estimate;
  const grpc::Status status = client_->EstimateCalibrationError(request_, &estimate);
  ASSERT_TRUE(status.ok()) << status.error_message();
  SelectionOptions options;
  std::erase_if(options.estimators,
                [](const EstimatorGrid& grid) { return grid.kind != EstimatorKind::kBins; });
  options.seed = 17;
  options.replicates = 99;
  const SelectionResult expected = *SelectEstimator(set_.view(), options);
  const v1::CalibrationErrorSimulation& simulation = estimate.simulation();
  EXPECT_EQ(simulation.p_value(), expected.simulation->p_value);
  EXPECT_EQ(simulation.replicates(), 99);
  EXPECT_EQ(simulation.exceedances(), expected.simulation->exceedances);
  EXPECT_DOUBLE_EQ(simulation.replicate_mean(), expected.simulation->replicate_mean);
  EXPECT_DOUBLE_EQ(simulation.replicate_standard_deviation(),
                   expected.simulation->replicate_standard_deviation);
  EXPECT_DOUBLE_EQ(simulation.replicate_upper_quantile(),
                   expected.simulation->replicate_upper_quantile);
  EXPECT_EQ(simulation.null(), v1::QuadraticTestResult::FORECAST);
}

TEST_F(EstimateTest, LeavesOutTheDensityAboveTheLimit) {
  // The density takes 600^2 pairs in 20 exponentials each; the rest some 600 x 32^2 for each
  // penalty.
  Start({"--max-test-operations", "1e8"}, 600);
  v1::CalibrationErrorEstimate estimate;
  const grpc::Status status = client_->EstimateCalibrationError(request_, &estimate);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(estimate.estimators_size(), 5);
  ASSERT_EQ(estimate.left_out_size(), 1);
  EXPECT_EQ(estimate.left_out(0).estimator(), v1::EstimatorOutcome::KERNEL_DENSITY);
  EXPECT_THAT(estimate.left_out(0).reason(), HasSubstr("the limit is 1e+08"));

  // The replicates count as well: the others need some 4e6 operations.
  request_.set_replicates(99);
  EXPECT_EQ(client_->EstimateCalibrationError(request_, &estimate).error_code(),
            grpc::RESOURCE_EXHAUSTED);
  request_.set_replicates(0);
  request_.add_estimators(v1::EstimatorOutcome::KERNEL_DENSITY);
  EXPECT_EQ(client_->EstimateCalibrationError(request_, &estimate).error_code(),
            grpc::RESOURCE_EXHAUSTED);
}

TEST_F(EstimateTest, RefusesInvalidRequests) {
  Start({}, 100);
  const auto refusal = [this](const v1::EstimateCalibrationErrorRequest& request) {
    v1::CalibrationErrorEstimate estimate;
    const grpc::Status status = client_->EstimateCalibrationError(request, &estimate);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    return status.error_message();
  };
  auto request = request_;
  request.mutable_lens()->mutable_top_k()->set_k(1);
  EXPECT_THAT(
      refusal(request),
      HasSubstr("lens is top_k[1], expected canonical, top_label, class_wise or one_class"));
  request.mutable_lens()->mutable_canonical();
  request.add_estimators(static_cast<v1::EstimatorOutcome::Estimator>(99));
  EXPECT_THAT(refusal(request), HasSubstr("estimators[0] is 99, expected"));
  request.clear_estimators();
  request.add_estimators(v1::EstimatorOutcome::BINS);
  EXPECT_THAT(refusal(request), HasSubstr("estimators[0] is BINS"));
  request = request_;
  request.set_folds(21);
  EXPECT_THAT(refusal(request), HasSubstr("folds is 21, expected 2..20"));
  request = request_;
  request.set_test_share(1);
  EXPECT_THAT(refusal(request), HasSubstr("test_share is 1"));
  request = request_;
  request.set_replicates(98);
  EXPECT_THAT(refusal(request), HasSubstr("replicates is 98, expected 99..100000"));

  v1::CalibrationErrorEstimate estimate;
  request_.set_window(12);
  const grpc::Status status = client_->EstimateCalibrationError(request_, &estimate);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "INSUFFICIENT_DATA");
  EXPECT_THAT(status.error_message(),
              HasSubstr("not enough observations in the window: 12, at least 13 are needed"));
}

TEST_F(EstimateTest, StopsWhenTheCallIsCancelled) {
  // Both would take at least 10 s on one thread: the one the densities, the other one the
  // replicates.
  Start({"--compute-threads", "1"}, 8000);
  for (const std::int32_t replicates : {0, 100000}) {
    request_.set_window(replicates == 0 ? 0 : 500);
    request_.set_replicates(replicates);
    CallContext context;
    const auto reader = client_->calibration->EstimateCalibrationError(&context, request_);
    v1::EstimateCalibrationErrorResponse response;
    ASSERT_TRUE(reader->Read(&response));
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
    // The only thread is free for the next call.
    v1::EstimateCalibrationErrorRequest next = request_;
    next.set_window(100);
    next.set_replicates(0);
    v1::CalibrationErrorEstimate estimate;
    EXPECT_TRUE(client_->EstimateCalibrationError(next, &estimate).ok());
  }
}

TEST_F(EstimateTest, ACancelledRecalibrationStops) {
  Start({"--compute-threads", "1"}, 8000);
  v1::RecalibrateRequest request;
  request.set_model("models/m");
  CallContext context;
  const auto reader = client_->calibration->Recalibrate(&context, request);
  v1::RecalibrateResponse response;
  ASSERT_TRUE(reader->Read(&response));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  // The only thread is free for the next call.
  request.set_window(100);
  v1::Recalibration result;
  EXPECT_TRUE(client_->Recalibrate(request, &result).ok());
}

}  // namespace
}  // namespace calibd::testing
