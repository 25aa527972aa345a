// The announcement of long work, and the progress of work without a terminal.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "client/cli/commands/command.h"
#include "client/cli/commands/progress_bar.h"

namespace calibd::cli {
namespace {

// Work whose time is `speed` times what is expected, except for a fixed time that is not.
struct Machine {
  double speed = 1;
  double overhead = 0;
  std::vector<std::size_t> measured;

  std::optional<double> Extrapolate(std::size_t rows, double seconds_per_pair) {
    const auto expected = [=](std::size_t n) {
      return seconds_per_pair * static_cast<double>(n) * static_cast<double>(n);
    };
    return ExtrapolateSeconds({.rows = rows, .seconds = expected, .measure = [&](std::size_t n) {
                                 measured.push_back(n);
                                 return std::optional(overhead + speed * expected(n));
                               }});
  }
};

TEST(ExtrapolateSecondsTest, CorrectsTheExpectedTimeByAMeasuredPart) {
  for (const double speed : {0.2, 1.0, 6.0}) {
    Machine machine{.speed = speed, .measured = {}};
    const double seconds = machine.Extrapolate(100000, 1e-8).value();
    EXPECT_NEAR(seconds, 100 * speed, 1e-9 * seconds) << speed;
    double spent = 0;
    for (const std::size_t n : machine.measured) {
      spent += speed * 1e-8 * static_cast<double>(n) * static_cast<double>(n);
    }
    // A part is at most 4 times as long as the shortest that can be measured.
    EXPECT_LE(spent, 0.05 * seconds) << speed;
  }
}

TEST(ExtrapolateSecondsTest, AFixedTimeIsOfLittleWeight) {
  Machine machine{.speed = 1, .overhead = 0.05, .measured = {}};
  EXPECT_NEAR(machine.Extrapolate(100000, 1e-8).value(), 100, 50);
}

TEST(ExtrapolateSecondsTest, DoesNotMeasureShortWork) {
  Machine machine;
  EXPECT_FALSE(machine.Extrapolate(1000, 1e-8).has_value());
  EXPECT_TRUE(machine.measured.empty());
}

TEST(ExtrapolateSecondsTest, ScalesAPartOfTheWorkOnAllRows) {
  const auto seconds = [](std::size_t rows) { return 1e-3 * static_cast<double>(rows); };
  const auto measure = [&](std::size_t rows) { return std::optional(3 * seconds(rows)); };
  EXPECT_FALSE(
      ExtrapolateSeconds({.rows = 1000, .seconds = seconds, .measure = measure}).has_value());
  EXPECT_NEAR(
      ExtrapolateSeconds({.rows = 1000, .seconds = seconds, .measure = measure, .scale = 50})
          .value(),
      150, 1e-9);
}

TEST(ExtrapolateSecondsTest, IsUnsetIfAPartFails) {
  EXPECT_FALSE(ExtrapolateSeconds({.rows = 1000,
                                   .seconds = [](std::size_t) { return 100.0; },
                                   .measure = [](std::size_t) { return std::optional<double>(); }})
                   .has_value());
}

TEST(ProgressNoteTest, SaysHowMuchIsDone) {
  EXPECT_EQ(ProgressNote("estimating", 0.25, 1, 12), "estimating: 25 % after 12 s");
  EXPECT_EQ(ProgressNote("estimating", 0, 1, 75), "estimating: 0 % after 1 min 15 s");
  EXPECT_EQ(ProgressNote("sending", 3000, 3000, 10), "sending: 100 % after 10 s");
}

}  // namespace
}  // namespace calibd::cli
