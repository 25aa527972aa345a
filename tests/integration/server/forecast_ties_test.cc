// Quantiles that equal outcomes, such as those of rain, over gRPC: no answer contradicts another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>

#include "integration/server/service_client.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kRainModel[] = "models/rain";

class ForecastTiesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start({"--data-dir", (folder_.path() / "data").string()});
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
    v1::Model model;
    model.set_name(kRainModel);
    for (const double level : {.1, .5, .9}) {
      model.mutable_forecast()->mutable_quantiles()->add_levels(level);
    }
    const grpc::Status status = client_->Create(model);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  // Days that are dry with `dry` times the stated probability of .4 to .8.
  void Send(int n, double dry) {
    std::uniform_real_distribution<double> uniform;
    v1::ObserveRequest observe;
    observe.set_model(kRainModel);
    for (int i = 0; i < n; ++i) {
      const double stated = .4 + .4 * uniform(random_);
      const double mean = 1 + 4 * uniform(random_);
      for (const double level : {.1, .5, .9}) {
        const double wet = std::max(0.0, (level - stated) / (1 - stated));
        observe.mutable_observations()->mutable_forecasts()->add_values(-mean * std::log1p(-wet));
      }
      observe.mutable_observations()->add_outcomes(
          uniform(random_) < dry * stated ? 0 : -mean * std::log1p(-uniform(random_)));
    }
    const grpc::Status status = client_->Observe(observe);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
  std::mt19937_64 random_{5};
};

TEST_F(ForecastTiesTest, ExactQuantilesOfRainAreWithinTheLimit) {
  for (int i = 0; i < 6; ++i) Send(1000, 1);
  const v1::GetCalibrationResponse answer = client_->GetCalibration(kRainModel);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::NOT_REJECTED);
  EXPECT_EQ(answer.error().status(), v1::CalibrationError::WITHIN_LIMIT);
  const v1::ErrorMeasurement& all = answer.error().since_start();
  ASSERT_EQ(all.level_coverage_size(), 3);
  EXPECT_EQ(all.level_coverage(0).below(), 0);
  EXPECT_NEAR(all.level_coverage(0).at_most(), .6, .05);
  EXPECT_TRUE(all.central_coverage().empty());
  EXPECT_TRUE(answer.forecast().central_coverage().empty());
  EXPECT_EQ(answer.forecast().level_coverage_size(), 3);
  EXPECT_FALSE(answer.watch().has_discrepancy());
  EXPECT_TRUE(answer.verdict().whereabouts().cells().empty());
  EXPECT_THAT(answer.reading().how_bad().text(),
              AllOf(HasSubstr("; level .5: between "), HasSubstr(" % fell below"),
                    Not(HasSubstr("too")), Not(HasSubstr("interval"))));
  EXPECT_EQ(answer.reading().where().text(), "nothing stands out");
}

TEST_F(ForecastTiesTest, TooFewDryDaysAreSeenAndTheTestIsRefused) {
  for (int i = 0; i < 4; ++i) Send(1000, .5);
  const v1::GetCalibrationResponse answer = client_->GetCalibration(kRainModel);
  EXPECT_EQ(answer.verdict().status(), v1::Verdict::MISCALIBRATED);
  EXPECT_EQ(answer.error().status(), v1::CalibrationError::OVER_LIMIT);
  EXPECT_THAT(answer.reading().how_bad().text(),
              AllOf(HasSubstr("level .5: between "), HasSubstr("the quantile is too low")));
  EXPECT_THAT(answer.reading().where().text(), HasSubstr("wrong level"));
  EXPECT_THAT(answer.reading().changed().text(), HasSubstr("from the first rows on"));
  v1::RunTestRequest request;
  request.set_model(kRainModel);
  v1::QuadraticTestResult result;
  const grpc::Status status = client_->RunTest(request, &result);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "TIED_OUTCOMES");
}

}  // namespace
}  // namespace calibd::testing
