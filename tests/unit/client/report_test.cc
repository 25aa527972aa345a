#include "report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;

TEST(ReportTest, JsonNumbersReadBackAsTheSameDoubles) {
  v1::BlockEstimate estimate;
  estimate.set_block_size(2);
  estimate.set_skce(0.1 + 0.2);
  const Json json = Json::parse(ToJson(estimate).dump());
  EXPECT_EQ(json.at("skce").get<double>(), 0.1 + 0.2);
}

TEST(ReportTest, JsonSaysNullForWhatIsUnknown) {
  v1::BlockEstimate estimate;
  estimate.set_block_size(100);
  const Json json = ToJson(estimate);
  for (const char* key :
       {"skce", "standard_deviation", "z", "p_value", "p_value_upper_bound", "skce_lower_bound"}) {
    EXPECT_TRUE(json.at(key).is_null()) << key;
  }
}

TEST(ReportTest, SaysHowManyObservationsATestNeeds) {
  google::protobuf::RepeatedPtrField<v1::BlockEstimate> estimates;
  v1::BlockEstimate& estimate = *estimates.Add();
  estimate.set_block_size(100);
  estimate.set_pending_observations(25);
  const std::string text = DescribeEstimates(estimates);
  EXPECT_THAT(text, HasSubstr("blocks of 100: 25 observations, 200 needed"));
  EXPECT_THAT(text, HasSubstr("ONE look"));
}

TEST(ReportTest, NeverPrintsAPValueOfZero) {
  google::protobuf::RepeatedPtrField<v1::BlockEstimate> estimates;
  v1::BlockEstimate& estimate = *estimates.Add();
  estimate.set_block_size(2);
  estimate.set_p_value(0);
  EXPECT_THAT(DescribeEstimates(estimates), HasSubstr("<1e-300"));
}

TEST(ReportTest, JsonNamesEnumsOneofsTimesAndDurations) {
  v1::QuadraticTestResult result;
  result.mutable_provenance()->mutable_kernel()->mutable_exponential()->set_distance(
      v1::DISTANCE_CITYBLOCK);
  result.mutable_provenance()->mutable_compute_time()->set_seconds(86400);
  result.mutable_elapsed()->set_nanos(500000000);
  result.set_seed(18446744073709551615U);
  result.set_replicates(99);
  const Json json = ToJson(result);
  EXPECT_EQ(json.at("provenance").at("kernel").dump(),
            R"({"exponential":{"distance":"cityblock"}})");
  EXPECT_EQ(json.at("provenance").at("compute_time"), "1970-01-02T00:00:00Z");
  EXPECT_EQ(json.at("elapsed_seconds"), 0.5);
  EXPECT_EQ(json.at("seed"), 18446744073709551615U);
  EXPECT_TRUE(json.at("provenance").at("bandwidth_rule").is_null());
  EXPECT_EQ(json.at("classes").size(), 0u);
  result.set_replicates(0);
  EXPECT_TRUE(ToJson(result).at("p_value").is_null());
}

TEST(FormatTableTest, AlignsColumns) {
  EXPECT_EQ(FormatTable({{"a", "bb"}, {"ccc", "d"}}), "a    bb\nccc   d\n");
}

}  // namespace
}  // namespace calibd::cli
