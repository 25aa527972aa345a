#include "client/cli/commands/time_option.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/protobuf/util/time_util.h"

namespace calibd::cli {
namespace {

using google::protobuf::Timestamp;
using google::protobuf::util::TimeUtil;
using ::testing::HasSubstr;

Timestamp At(const std::string& text) {
  Timestamp time;
  EXPECT_TRUE(TimeUtil::FromString(text, &time)) << text;
  return time;
}

std::string Parsed(const std::string& text) {
  const auto time = ParseTime(text, At("2026-03-01T06:00:00Z"));
  EXPECT_TRUE(time.ok()) << time.status();
  return time.ok() ? TimeUtil::ToString(*time) : "";
}

TEST(ParseTimeTest, ReadsDatesTimesAndHowLongAgo) {
  EXPECT_EQ(Parsed("2026-01-31"), "2026-01-31T00:00:00Z");
  EXPECT_EQ(Parsed("2024-02-29"), "2024-02-29T00:00:00Z");
  EXPECT_EQ(Parsed("2026-01-31T12:30:00Z"), "2026-01-31T12:30:00Z");
  EXPECT_EQ(Parsed("2026-01-31T12:30:00+02:00"), "2026-01-31T10:30:00Z");
  EXPECT_EQ(Parsed("1.5h"), "2026-03-01T04:30:00Z");
  EXPECT_EQ(Parsed("7d"), "2026-02-22T06:00:00Z");
}

TEST(ParseTimeTest, RefusesEverythingElse) {
  for (const char* text : {"", "now", "7", "-7d", "2026", "2026-13-01", "2026-02-30", "01.02.2026",
                           "2026-01-31 12:30", "2026-01-31T12:30:00", "2026-01-3"}) {
    const auto time = ParseTime(text, At("2026-03-01T06:00:00Z"));
    ASSERT_FALSE(time.ok()) << text;
    EXPECT_THAT(std::string(time.status().message()), HasSubstr("how long ago"));
  }
}

TEST(ParseTimestampTest, ReadsRfc3339AndSecondsSince1970) {
  const auto parsed = [](const std::string& text) {
    const auto time = ParseTimestamp(text);
    EXPECT_TRUE(time.ok()) << time.status();
    return time.ok() ? TimeUtil::ToString(*time) : "";
  };
  EXPECT_EQ(parsed("2026-01-31T12:30:00Z"), "2026-01-31T12:30:00Z");
  EXPECT_EQ(parsed("2026-01-31 12:30:00.250+02:00"), "2026-01-31T10:30:00.250Z");
  EXPECT_EQ(parsed("2026-01-31"), "2026-01-31T00:00:00Z") << "a day in UTC";
  EXPECT_EQ(parsed("2026-01-31T12:30:00+0100"), "2026-01-31T11:30:00Z");
  EXPECT_EQ(parsed("2026-01-31 12:30:00.250-0530"), "2026-01-31T18:00:00.250Z");
  EXPECT_EQ(parsed("2026-01-31 12:30:00+01"), "2026-01-31T11:30:00Z");
  EXPECT_EQ(parsed("1769862600"), "2026-01-31T12:30:00Z");
  EXPECT_EQ(parsed("1769862600.25"), "2026-01-31T12:30:00.250Z");
  EXPECT_EQ(parsed("-1.5"), "1969-12-31T23:59:58.500Z");
}

TEST(ParseTimestampTest, RefusesTimesWithoutAZoneAndMilliseconds) {
  for (const char* text : {"", "nan", "1e300", "1769862600000", "2026-02-30", "2026-01-31 12:30:00",
                           "31.01.2026", "2026-01-31T12:30:00+1", "2026-01-31T12:30:00+01000"}) {
    const auto time = ParseTimestamp(text);
    ASSERT_FALSE(time.ok()) << text;
    EXPECT_THAT(std::string(time.status().message()), HasSubstr("RFC 3339 with a zone"));
  }
}

}  // namespace
}  // namespace calibd::cli
