#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/commands/time_option.h"
#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using ::testing::HasSubstr;

std::int64_t Nanoseconds(const std::string& text) {
  const auto duration = ParseDuration(text);
  EXPECT_TRUE(duration.ok()) << duration.status();
  return duration.ok() ? google::protobuf::util::TimeUtil::DurationToNanoseconds(*duration) : -1;
}

TEST(ParseDurationTest, ReadsANumberAndAUnit) {
  EXPECT_EQ(Nanoseconds("90s"), 90'000'000'000);
  EXPECT_EQ(Nanoseconds("0.2s"), 200'000'000);
  EXPECT_EQ(Nanoseconds("1m"), 60'000'000'000);
  EXPECT_EQ(Nanoseconds("1.5h"), 5400'000'000'000);
  EXPECT_EQ(Nanoseconds("7d"), 604800'000'000'000);
  EXPECT_EQ(Nanoseconds("400d"), 34560000'000'000'000);
}

TEST(ParseDurationTest, RefusesEverythingElse) {
  for (const char* text : {"", "7", "d", "7w", "7dd", "7 d", " 7d", "0s", "-1s", "nans", "infs",
                           "1e300d", "1e-12s", "1,5h", "0x10s"}) {
    const auto duration = ParseDuration(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_THAT(std::string(duration.status().message()),
                HasSubstr("s, m, h or d (seconds, minutes, hours, days), such as 60s or 1.5h"));
  }
}

TEST(ShortDurationTest, TakesTheLargestUnit) {
  for (const char* text : {"7d", "1.5d", "1.5h", "30m", "1.5m", "59s", "0.2s"}) {
    EXPECT_EQ(ShortDuration(*ParseDuration(text)), text);
  }
  EXPECT_EQ(ShortDuration(*ParseDuration("24h")), "1d");
}

}  // namespace
}  // namespace calibd::cli
