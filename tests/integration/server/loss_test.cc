// ComputeLoss over a real socket: through the C++ SDK, and on the wire where the SDK would hide it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "calibd/core/calibration_loss.h"
#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

class LossTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& arguments = {}) {
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  grpc::Status Call(const v1::ComputeLossRequest& request, v1::ComputeLossResponse* response) {
    CallContext context;
    return client_->calibration->ComputeLoss(&context, request, response);
  }
  // The message of an expected refusal.
  std::string Refusal(const v1::ComputeLossRequest& request,
                      grpc::StatusCode code = grpc::INVALID_ARGUMENT) {
    v1::ComputeLossResponse response;
    const grpc::Status status = Call(request, &response);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    return status.error_message();
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

// n forecasts of `width` values: Normal forecasts for width 2, else samples.
v1::ComputeLossRequest DrawNumbers(std::size_t n, std::size_t width) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  v1::ComputeLossRequest request;
  auto& values =
      *(width == 2 ? request.mutable_normals() : request.mutable_samples())->mutable_values();
  for (std::size_t i = 0; i < n; ++i) {
    request.add_outcomes(normal(random));
    for (std::size_t k = 0; k < width; ++k) {
      values.Add(width == 2 && k == 1 ? std::exp(normal(random)) : normal(random));
    }
  }
  request.set_compute_gradient(true);
  return request;
}

// m: at least 3.
v1::ComputeLossRequest DrawLogits(std::size_t n, std::size_t m) {
  v1::ComputeLossRequest request;
  *request.mutable_logits() = DrawNumbers(n, m).samples();
  for (std::size_t i = 0; i < n; ++i) request.add_labels(static_cast<std::int32_t>(i % m));
  request.set_compute_gradient(true);
  return request;
}

TEST_F(LossTest, NormalsEqualTheCore) {
  Start();
  v1::ComputeLossRequest request = DrawNumbers(64, 2);
  request.set_mmd_weight(10);
  const auto client = client::Client::Connect(server_->grpc_address());
  ASSERT_TRUE(client.ok());
  const auto response = (*client)->ComputeLoss(request);
  ASSERT_TRUE(response.ok()) << response.status();
  const std::vector<double> values(request.normals().values().begin(),
                                   request.normals().values().end());
  const std::vector<double> outcomes(request.outcomes().begin(), request.outcomes().end());
  LossOptions options;
  options.mmd_weight = 10;
  const CalibrationLoss expected =
      *ComputeLoss({ForecastKind::kNormal, values, 2, {}, outcomes}, options);
  EXPECT_EQ(response->value(), expected.value);
  EXPECT_EQ(response->mmd_squared(), expected.mmd_squared);
  EXPECT_EQ(response->negative_log_likelihood(), *expected.negative_log_likelihood);
  EXPECT_THAT(response->gradient().values(), ElementsAreArray(expected.gradient));
  EXPECT_EQ(response->outcome_kernel().rbf().gamma(),
            *std::get<RbfKernel>(*expected.outcome_kernel).gamma);
  EXPECT_EQ(response->condition().forecast().gamma(),
            *std::get<ForecastCondition>(expected.condition).gamma);
}

TEST_F(LossTest, EveryOptionReachesTheCore) {
  Start();
  v1::ComputeLossRequest request = DrawLogits(20, 3);
  const std::vector<double> logits(request.logits().values().begin(),
                                   request.logits().values().end());
  const std::vector<std::int32_t> labels(request.labels().begin(), request.labels().end());
  const ForecastBatch batch{ForecastKind::kLogits, logits, 3, labels, {}};
  const auto expect_equal = [&](const LossOptions& options) {
    v1::ComputeLossResponse response;
    const grpc::Status status = Call(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    const CalibrationLoss expected = *ComputeLoss(batch, options);
    EXPECT_EQ(response.value(), expected.value);
    EXPECT_THAT(response.gradient().values(), ElementsAreArray(expected.gradient));
    EXPECT_EQ(response.has_negative_log_likelihood(), options.mmd_weight.has_value());
  };
  request.set_biased(true);
  LossOptions options;
  options.biased = true;
  expect_equal(options);
  request.mutable_lens()->mutable_top_label();
  options.lens = Lens::TopLabel();
  request.mutable_condition()->mutable_forecast()->mutable_kernel()->mutable_gaussian();
  request.mutable_condition()->mutable_forecast()->set_bandwidth(0.3);
  options.condition =
      ForecastCondition{.distance = Distance::kSquaredEuclidean, .bandwidth = 0.3, .gamma = {}};
  request.mutable_outcome_kernel()->mutable_rbf()->set_gamma(2);
  options.outcome_kernel = RbfKernel{2};
  expect_equal(options);
  request.mutable_lens()->mutable_class_wise();
  options.lens = Lens::ClassWise();
  v1::Condition::Features& features = *request.mutable_condition()->mutable_features();
  FeatureCondition condition;
  for (int i = 0; i < 20; ++i) features.add_values(0.1 * i);
  condition.values.assign(features.values().begin(), features.values().end());
  options.condition = condition;
  expect_equal(options);
  v1::Condition::Groups& groups = *request.mutable_condition()->mutable_groups();
  for (int i = 0; i < 20; ++i) groups.add_groups(i / 7);
  options.condition = GroupCondition{{groups.groups().begin(), groups.groups().end()}};
  expect_equal(options);
  request.mutable_condition()->mutable_none();
  options.condition = NoCondition();
  request.set_compute_gradient(false);
  options.gradient = false;
  expect_equal(options);
}

TEST_F(LossTest, EveryOutcomeKernelReachesTheCore) {
  Start();
  v1::ComputeLossRequest request = DrawNumbers(20, 2);
  const std::vector<double> values(request.normals().values().begin(),
                                   request.normals().values().end());
  const std::vector<double> outcomes(request.outcomes().begin(), request.outcomes().end());
  const auto expect_equal = [&](const OutcomeKernel& kernel) {
    v1::ComputeLossResponse response;
    const grpc::Status status = Call(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    LossOptions options;
    options.outcome_kernel = kernel;
    EXPECT_EQ(response.value(),
              ComputeLoss({ForecastKind::kNormal, values, 2, {}, outcomes}, options)->value);
    // The answer is a valid request.
    *request.mutable_outcome_kernel() = response.outcome_kernel();
    v1::ComputeLossResponse again;
    EXPECT_TRUE(Call(request, &again).ok());
    EXPECT_EQ(again.value(), response.value());
  };
  v1::OutcomeKernel& kernel = *request.mutable_outcome_kernel();
  kernel.mutable_rbf()->set_gamma(0.7);
  expect_equal(RbfKernel{0.7});
  kernel.mutable_energy();
  expect_equal(EnergyKernel());
  kernel.mutable_moments()->set_center(0.5);
  expect_equal(MomentsKernel{0.5, 1});
  kernel.mutable_moments()->set_scale(2);
  expect_equal(MomentsKernel{0.5, 2});
  kernel.mutable_threshold()->set_threshold(0.4);
  expect_equal(ThresholdKernel{0.4});
  kernel.mutable_tanh()->set_threshold(0.4);
  expect_equal(TanhKernel{0.4, 1});
  kernel.mutable_tanh()->set_width(0.2);
  expect_equal(TanhKernel{0.4, 0.2});
  kernel.mutable_pit_rbf();
  expect_equal(PitRbfKernel());
  kernel.mutable_pit_rbf()->set_gamma(5);
  expect_equal(PitRbfKernel{5});
  kernel.mutable_pit_min();
  expect_equal(PitMinKernel());
}

TEST_F(LossTest, QuantilesHaveTheErrorOfTheirLevels) {
  Start();
  // Of 4 outcomes, 1 is at most the first quantile and 3 are at most the second one.
  v1::ComputeLossRequest request;
  for (const double value : {0, 2, 0, 2, 0, 2, 0, 2})
    request.mutable_quantiles()->add_values(value);
  for (const double outcome : {0, 1, 2, 3}) request.add_outcomes(outcome);
  for (const double level : {0.1, 0.9}) {
    request.mutable_outcome_kernel()->mutable_levels()->add_levels(level);
  }
  request.mutable_condition()->mutable_none();
  request.set_biased(true);
  v1::ComputeLossResponse response;
  ASSERT_TRUE(Call(request, &response).ok());
  EXPECT_NEAR(response.value(), (std::pow(0.25 - 0.1, 2) + std::pow(0.75 - 0.9, 2)) / 2, 1e-15);
  EXPECT_THAT(response.outcome_kernel().levels().levels(), ElementsAreArray({0.1, 0.9}));

  auto wrong = request;
  wrong.mutable_quantiles()->set_values(3, -1);
  EXPECT_THAT(Refusal(wrong), HasSubstr("rows[1].quantiles[1] is -1, expected at least 0, the"));
  wrong = request;
  wrong.clear_outcome_kernel();
  EXPECT_THAT(Refusal(wrong), HasSubstr("outcome_kernel.levels has 0 values, expected 2, the"));
  wrong = request;
  wrong.mutable_outcome_kernel()->mutable_levels()->set_levels(1, 0.1);
  EXPECT_THAT(Refusal(wrong), HasSubstr("outcome_kernel.levels does not increase"));
  wrong = request;
  wrong.set_compute_gradient(true);
  EXPECT_THAT(Refusal(wrong), HasSubstr("gradient or mmd_weight is set, expected none for quant"));
  wrong = DrawNumbers(5, 2);
  wrong.mutable_outcome_kernel()->mutable_levels()->add_levels(0.5);
  EXPECT_THAT(Refusal(wrong), HasSubstr("outcome_kernel is levels, expected another one"));
}

TEST_F(LossTest, RefusesInvalidRequests) {
  Start();
  EXPECT_THAT(Refusal({}),
              HasSubstr("forecasts is not set, expected one of probabilities, logits"));
  const v1::ComputeLossRequest valid = DrawNumbers(5, 2);
  auto request = valid;
  request.add_labels(1);
  EXPECT_THAT(Refusal(request), HasSubstr("labels is set, expected outcomes"));
  request = valid;
  request.clear_outcomes();
  EXPECT_THAT(Refusal(request), HasSubstr("outcomes is empty"));
  request = valid;
  request.mutable_normals()->set_values(3, -1);
  EXPECT_THAT(Refusal(request), HasSubstr("rows[1].standard_deviation is -1, expected at least"));
  request = valid;
  request.mutable_normals()->add_values(1);
  EXPECT_THAT(Refusal(request), HasSubstr("normals has 11 values, expected 5 outcomes x 2"));
  request = valid;
  request.mutable_outcome_kernel()->mutable_tanh()->set_width(0);
  EXPECT_THAT(Refusal(request), HasSubstr("outcome_kernel.tanh.width is 0"));
  request = valid;
  request.mutable_lens()->mutable_top_label();
  EXPECT_THAT(Refusal(request), HasSubstr("lens is top_label, expected none"));
  request = valid;
  request.mutable_condition()->mutable_forecast()->mutable_kernel()->mutable_matrix();
  EXPECT_THAT(Refusal(request), HasSubstr("condition.forecast.kernel.matrix"));
  request = DrawLogits(4097, 3);
  EXPECT_THAT(Refusal(request), HasSubstr("labels has 4097 rows, expected 1..4096"));
  request = DrawLogits(3, 3);
  request.set_labels(2, 3);
  EXPECT_THAT(Refusal(request), HasSubstr("labels[2] is 3, expected [0, 3)"));
  request.add_outcomes(1);
  EXPECT_THAT(Refusal(request), HasSubstr("outcomes is set, expected labels"));
  request = DrawNumbers(1, 2);
  EXPECT_THAT(Refusal(request, grpc::FAILED_PRECONDITION), HasSubstr("not enough data: 1 row"));
}

TEST_F(LossTest, RefusesWorkAboveTheLimit) {
  Start({"--max-test-operations", "1e6"});
  v1::ComputeLossResponse response;
  EXPECT_TRUE(Call(DrawNumbers(64, 2), &response).ok());
  EXPECT_THAT(Refusal(DrawNumbers(128, 2), grpc::RESOURCE_EXHAUSTED),
              HasSubstr("this, of 128 rows of 2 values, needs"));
}

TEST_F(LossTest, StopsWhenTheCallIsCancelled) {
  // It takes more than 1e11 exponentials, a quarter of an hour on one thread.
  Start({"--compute-threads", "1", "--max-message-bytes", "8388608", "--max-test-operations",
         "1e15"});
  const v1::ComputeLossRequest large = DrawNumbers(2048, 256);
  CallContext context;
  auto status = std::async(std::launch::async, [&] {
    v1::ComputeLossResponse response;
    return client_->calibration->ComputeLoss(&context, large, &response);
  });
  EXPECT_TRUE(WaitFor([&] {
    return HttpGet(server_->http_address(), "/metrics").body.find("calibd_jobs_running 1") !=
           std::string::npos;
  }));
  context.TryCancel();
  EXPECT_EQ(status.get().error_code(), grpc::CANCELLED);
  // The only thread is free for the next call.
  v1::ComputeLossResponse response;
  EXPECT_TRUE(Call(DrawNumbers(10, 2), &response).ok());
}

}  // namespace
}  // namespace calibd::testing
