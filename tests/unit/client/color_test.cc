#include "client/cli/reports/color.h"

#include <gtest/gtest.h>

namespace calibd::cli {
namespace {

TEST(ColorTest, PaintsStatusesAndNothingElse) {
  EXPECT_EQ(
      PaintStatuses("a  OVER_LIMIT, alarm on noon, MISCALIBRATED\nb  WITHIN_LIMIT  UNDECIDED\n"),
      "a  \x1b[31mOVER_LIMIT\x1b[0m, alarm on noon, \x1b[31mMISCALIBRATED\x1b[0m\n"
      "b  \x1b[32mWITHIN_LIMIT\x1b[0m  \x1b[33mUNDECIDED\x1b[0m\n");
  for (const char* text : {"", "\n", "MY_OVER_LIMIT OVER_LIMITS over", "évidence drift\n\nx"}) {
    EXPECT_EQ(PaintStatuses(text), text);
  }
}

TEST(ColorTest, PaintsTheKindsOfAlarmsInTheirTableOnly) {
  EXPECT_EQ(PaintStatuses("2      over_limit  -\n1      drift  evidence\n"),
            "2      \x1b[31mover_limit\x1b[0m  -\n1      \x1b[33mdrift\x1b[0m  evidence\n");
  EXPECT_EQ(PaintStatuses("rejects 3 evidence"), "rejects 3 evidence");
}

TEST(ColorTest, PaintsTheTitlesOfAReading) {
  EXPECT_EQ(PaintReading("verdict   m: STALE\n          STALE\nwarning   old\nhow bad   off\n"),
            "\x1b[2mverdict\x1b[0m   m: \x1b[33mSTALE\x1b[0m\n          \x1b[33mSTALE\x1b[0m\n"
            "\x1b[33mwarning\x1b[0m   old\n\x1b[2mhow bad\x1b[0m   off\n");
}

}  // namespace
}  // namespace calibd::cli
