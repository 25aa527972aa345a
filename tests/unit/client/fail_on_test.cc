#include "fail_on.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "progress_bar.h"

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;

using Estimates = google::protobuf::RepeatedPtrField<v1::BlockEstimate>;

Estimates WithPValues(std::initializer_list<double> p_values) {
  Estimates estimates;
  for (const double p : p_values) estimates.Add()->set_p_value(p);
  return estimates;
}

TEST(DecideTest, DividesTheLevelByTheNumberOfTests) {
  const FailOnOptions options{.what = "miscalibration", .significance_level = 0.05};
  EXPECT_EQ(Decide(WithPValues({0.9, 0.026}), options).exit_code(), ExitCode::kOk);
  EXPECT_EQ(Decide(WithPValues({0.9, 0.025}), options).exit_code(), ExitCode::kMiscalibrated);
  EXPECT_EQ(Decide(WithPValues({0.05}), options).exit_code(), ExitCode::kMiscalibrated);
}

TEST(DecideTest, TooLittleDataDoesNotPass) {
  Estimates estimates = WithPValues({});
  estimates.Add()->set_skce(0.5);
  const Decision decision = Decide(estimates, {.what = "miscalibration"});
  EXPECT_EQ(decision.exit_code(), ExitCode::kError);
  EXPECT_THAT(decision.sentence, HasSubstr("not enough data"));
  EXPECT_EQ(ToJson(decision).at("decision"), "INSUFFICIENT_DATA");
}

TEST(DecideTest, ComparesTheBootstrapWithTheLevel) {
  v1::QuadraticTestResult result;
  result.set_replicates(999);
  result.set_p_value(0.05);
  EXPECT_EQ(Decide(result, {.what = "miscalibration"}).exit_code(), ExitCode::kMiscalibrated);
  result.set_p_value(0.051);
  EXPECT_EQ(Decide(result, {.what = "miscalibration"}).exit_code(), ExitCode::kOk);
}

TEST(FailOnTest, RefusesALevelThatTheReplicatesCannotReach) {
  const FailOnOptions strict{.what = "miscalibration", .significance_level = 0.001};
  EXPECT_TRUE(FindUsageFault(strict, 99).has_value());
  EXPECT_FALSE(FindUsageFault(strict, 999).has_value());
  EXPECT_TRUE(FindUsageFault(strict, 0).has_value());
  EXPECT_FALSE(FindUsageFault({}, 0).has_value());
}

TEST(ProgressLineTest, ShowsShareRateAndTimeLeft) {
  const std::string line = ProgressLine("sending", "rows", 2500, 10000, 5);
  EXPECT_THAT(line, HasSubstr(" 25 %"));
  EXPECT_THAT(line, HasSubstr("500 rows/s"));
  EXPECT_THAT(line, HasSubstr("ETA 15 s"));
  EXPECT_THAT(ProgressLine("testing", "", 0, 1, 0), HasSubstr("  0 %"));
}

}  // namespace
}  // namespace calibd::cli
