// calibctl evaluate: what it says of the rows of a file, their groups, their order and constant
// predictions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "integration/client/run_calibctl.h"
#include "support/temporary_folder.h"
#include "support/test_data.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// 92 forecasts of rain by an ensemble: off by 20 points, which is above 2 points for one look.
TEST(CalibctlEvaluateRowsTest, FewRowsAreEnoughForALargeError) {
  const std::filesystem::path path = Cifar10Dir().parent_path() / "cases" / "niamey_ens.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  std::vector<std::string> arguments = {"evaluate",         path, "--label-column", "rain",
                                        "--positive-class", "1",  "--replicates",   "99",
                                        "--seed",           "1",  "--fail-on",      "over-limit"};
  CalibctlRun run(arguments);
  EXPECT_EQ(run.exit_code(), 3) << run.error();
  EXPECT_THAT(run.output(), AllOf(StartsWith("verdict   OVER_LIMIT, MISCALIBRATED\n"),
                                  HasSubstr("95 % for one look at these rows"),
                                  HasSubstr("over-confident by 20.2 points (2.5 to 37.8)"),
                                  EndsWith("\nfailed on over-limit\n")));
  // A little narrower than Hoeffding's bound for two events: .2015 +- sqrt(log(320) / 184), which
  // is 2.4 to 37.9.
  arguments.push_back("--predictions-follow-labels");
  CalibctlRun in_order(arguments);
  EXPECT_EQ(in_order.exit_code(), 3) << in_order.error();
  EXPECT_THAT(in_order.output(), HasSubstr("over-confident by 20.2 points (2.5 to 37.8)"));
}

TEST(CalibctlEvaluateRowsTest, TestsARandomPartOfManyRows) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "many.csv";
  {
    std::ofstream out(path);
    out << "p,y\n";
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> uniform;
    for (int i = 0; i < 30000; ++i) {
      const double p = uniform(random);
      out << p << ',' << (uniform(random) < p ? 1 : 0) << '\n';
    }
  }
  std::vector<std::string> arguments = {"evaluate",         path, "--label-column", "y",
                                        "--positive-class", "1",  "--replicates",   "99",
                                        "--seed",           "1"};
  CalibctlRun run(arguments);
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(),
              AllOf(HasSubstr("tested\n          with 10000 of the 30000 rows, drawn at random"),
                    HasSubstr("10000 observations (drawn at random from numbers 1 to 30000)"),
                    HasSubstr("(median over these 10000 predictions)"),
                    HasSubstr("use these 10000 rows. All else uses all 30000 rows."),
                    HasSubstr(") of the 10000 drawn rows: p = ")));
  arguments.insert(arguments.end(), {"--test-rows", "30000", "--cme-locations", "0"});
  CalibctlRun all(arguments);
  ASSERT_EQ(all.exit_code(), 0) << all.error();
  EXPECT_THAT(all.output(), AllOf(HasSubstr("\n30000 observations (numbers 1 to 30000)"),
                                  Not(HasSubstr("at random"))));
  arguments[arguments.size() - 3] = "1";
  CalibctlRun one(arguments);
  EXPECT_EQ(one.exit_code(), 2);
  EXPECT_THAT(one.error(), HasSubstr("--test-rows"));
}

TEST(CalibctlEvaluateRowsTest, EachGroupHasAnAnswer) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "groups.csv";
  {
    // Two groups that are off by 20 points in opposite directions: all rows together are right.
    std::ofstream out(path);
    out << "region,p,y\n";
    for (int i = 0; i < 800; ++i) {
      const bool north = i % 2 == 0;
      const double stated = i / 2 % 2 == 0 ? 0.3 : 0.7;
      const double frequency = stated + (north ? 0.2 : -0.2);
      out << (north ? "north" : "south") << ',' << stated << ','
          << (i / 4 % 10 < std::lround(10 * frequency) ? 1 : 0) << '\n';
    }
  }
  const std::vector<std::string> all = {
      "evaluate",         path, "--label-column", "y",
      "--positive-class", "1",  "--replicates",   "199",
      "--seed",           "1",  "--fail-on",      "over-limit,miscalibration"};
  std::vector<std::string> grouped = all;
  grouped.insert(grouped.end(), {"--group-column", "region"});
  CalibctlRun run(grouped);
  EXPECT_EQ(run.exit_code(), 3) << run.error();
  EXPECT_THAT(run.output(),
              AllOf(StartsWith("verdict   OVER_LIMIT in groups north, south, MISCALIBRATED\n"),
                    HasSubstr("group north: P(class 1) off by 20 points ("),
                    HasSubstr("\nGroups:\ngroup  rows"),
                    EndsWith("\nfailed on over-limit, miscalibration\n")));
  grouped.insert(grouped.end(), {"--output", "json"});
  CalibctlRun json(grouped);
  ASSERT_EQ(json.exit_code(), 3) << json.error();
  ASSERT_EQ(json.json().at("groups").size(), 2U);
  for (const nlohmann::json& group : json.json().at("groups")) {
    EXPECT_EQ(group.at("observations"), "400");
    EXPECT_EQ(group.at("status"), "OVER_LIMIT");
    EXPECT_TRUE(group.at("rejected").get<bool>());
    EXPECT_GT(group.at("log10EValue").get<double>(), 2);
  }
  std::vector<std::string> ungrouped = all;
  ungrouped.insert(ungrouped.end(), {"--drop-column", "region"});
  CalibctlRun together(ungrouped);
  EXPECT_EQ(together.exit_code(), 0) << together.output();
}

TEST(CalibctlEvaluateRowsTest, TheGateOfLabelsFollowsTheVerdict) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "labels.csv";
  {
    // Rain is right; wind holds in 3 of 10 rows in place of 6.
    std::ofstream out(path);
    out << "prob_rain,label_rain,prob_wind,label_wind\n";
    for (int i = 0; i < 1000; ++i) {
      out << "0.5," << i % 2 << ",0.6," << (i % 10 < 3 ? 1 : 0) << '\n';
    }
  }
  const auto run = [&path](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"evaluate-labels", path};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<CalibctlRun>(arguments);
  };
  const auto plain = run({});
  EXPECT_EQ(plain->exit_code(), 0) << plain->error();
  EXPECT_THAT(plain->output(), AllOf(StartsWith("verdict   OVER_LIMIT, MISCALIBRATED\n"),
                                     HasSubstr("95 %, for one look at these rows")));
  EXPECT_EQ(run({"--fail-on", "over-limit"})->exit_code(), 3);
  EXPECT_EQ(run({"--fail-on", "miscalibration"})->exit_code(), 3);
  const auto undecided = run({"--fail-on", "undecided"});
  EXPECT_EQ(undecided->exit_code(), 0);
  EXPECT_THAT(undecided->output(),
              EndsWith("\ndid not fail on undecided: OVER_LIMIT, MISCALIBRATED\n"));
  const auto json = run({"--fail-on", "over-limit", "--error-limit", "0.5", "--output", "json"});
  EXPECT_EQ(json->exit_code(), 0);
  EXPECT_EQ(json->json().at("gate").at("decision"), "WITHIN_LIMIT, MISCALIBRATED");
}

TEST(CalibctlEvaluateRowsTest, RowsAreInTheOrderOfTheirTimes) {
  const TemporaryFolder folder;
  const auto write = [&folder](const std::string& name, bool reversed) {
    const std::string path = folder.path() / name;
    std::ofstream out(path);
    out << "when,a,b,label\n";
    for (int k = 0; k < 200; ++k) {
      const int i = reversed ? 199 - k : k;
      out << 1700000000 + 60 * i << ',' << 0.2 + 0.003 * i << ',' << 0.8 - 0.003 * i << ','
          << (i * i % 7 < 3 ? 'a' : 'b') << '\n';
    }
    return path;
  };
  const auto run = [](const std::string& path) {
    CalibctlRun evaluate({"evaluate", path, "--label-column", "label", "--time-column", "when",
                          "--replicates", "99", "--seed", "1", "--output", "json"});
    EXPECT_EQ(evaluate.exit_code(), 0) << evaluate.error();
    return evaluate.json();
  };
  const nlohmann::json ordered = run(write("ordered.csv", false));
  const nlohmann::json reversed = run(write("reversed.csv", true));
  // The estimates of blocks depend on the order.
  EXPECT_EQ(ordered.at("estimates"), reversed.at("estimates"));
  EXPECT_EQ(ordered.at("fileRows").at("movedRows"), "0");
  EXPECT_EQ(reversed.at("fileRows").at("movedRows"), "200");
}

TEST(CalibctlEvaluateRowsTest, ConstantPredictionsAreAnswered) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "constant.csv";
  {
    std::ofstream out(path);
    out << "p,y\n";
    for (int i = 0; i < 300; ++i) out << "0.7," << (i % 2) << '\n';
  }
  CalibctlRun run({"evaluate", path, "--label-column", "y", "--positive-class", "1", "--replicates",
                   "199", "--seed", "1"});
  EXPECT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(),
              AllOf(StartsWith("verdict   OVER_LIMIT, MISCALIBRATED\n"),
                    HasSubstr("says 70.0 %, is 50.0 %: too"), HasSubstr("high by 20.0 points (")));
}

TEST(CalibctlEvaluateRowsTest, RowsThatGoTogetherAreNamed) {
  const TemporaryFolder folder;
  constexpr int kRows = 8000;
  // Calibrated: the event happens in a share p of the rows that state p.
  const auto write = [&folder](const std::string& name, bool sorted) {
    std::vector<std::string> rows;
    for (int i = 0; i < kRows; ++i) {
      // A sequence whose neighbours have nothing in common.
      const std::uint32_t mixed = static_cast<std::uint32_t>(i) * 2654435761U;
      const bool high = (mixed >> 16U) % 2 == 0;
      const bool happens = (mixed >> 20U) % 5 < (high ? 4U : 1U);
      rows.push_back(std::string(high ? "0.8" : "0.2") + (happens ? ",1" : ",0"));
    }
    std::mt19937_64 rng(3);
    std::shuffle(rows.begin(), rows.end(), rng);
    if (sorted) {
      std::ranges::stable_sort(rows, {}, [](const std::string& row) { return row.back(); });
    }
    const std::string path = folder.path() / name;
    std::ofstream out(path);
    out << "p,y\n";
    for (const std::string& row : rows) out << row << '\n';
    return path;
  };
  const auto run = [](const std::string& path, bool json) {
    std::vector<std::string> arguments = {"evaluate",         path, "--label-column", "y",
                                          "--positive-class", "1",  "--replicates",   "99",
                                          "--seed",           "1"};
    if (json) arguments.insert(arguments.end(), {"--output", "json"});
    return std::make_unique<CalibctlRun>(arguments);
  };
  const std::string sorted = write("sorted.csv", true);
  const std::string shuffled = write("shuffled.csv", false);
  const auto text = run(sorted, false);
  EXPECT_EQ(text->exit_code(), 0) << text->error();
  EXPECT_THAT(text->output(), HasSubstr("\nwarning   Outcomes of neighbouring rows go together"));
  const auto json_of = [&run](const std::string& path) {
    const auto done = run(path, true);
    EXPECT_EQ(done->exit_code(), 0) << done->error();
    return done->json();
  };
  const nlohmann::json found = json_of(sorted);
  const nlohmann::json none = json_of(shuffled);
  EXPECT_GT(std::stol(found.at("dependenceFoundAt").get<std::string>()), 100);
  EXPECT_EQ(none.value("dependenceFoundAt", "0"), "0");
  EXPECT_FALSE(none.at("reading").contains("warning"));
  // What the warning says: the interval of the error does not depend on the order.
  EXPECT_NEAR(found.at("error").at("lower").get<double>(),
              none.at("error").at("lower").get<double>(), 1e-12);
  EXPECT_NEAR(found.at("error").at("upper").get<double>(),
              none.at("error").at("upper").get<double>(), 1e-12);
}

TEST(CalibctlEvaluateRowsTest, RowsOfLabelsThatGoTogetherAreNamed) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "labels.csv";
  {
    std::ofstream out(path);
    out << "prob_rain,label_rain\n";
    for (int i = 0; i < 4000; ++i) out << "0.5," << (i < 2000 ? 1 : 0) << '\n';
  }
  CalibctlRun text({"evaluate-labels", path});
  EXPECT_EQ(text.exit_code(), 0) << text.error();
  EXPECT_THAT(text.output(), HasSubstr("WARNING: Outcomes of neighbouring rows go together"));
  CalibctlRun json({"evaluate-labels", path, "--output", "json"});
  EXPECT_EQ(json.exit_code(), 0) << json.error();
  EXPECT_GT(std::stol(json.json().at("dependenceFoundAt").get<std::string>()), 100);
}

// For two classes the deviations at ten locations are nearly functions of one number.
TEST(CalibctlEvaluateRowsTest, TheCmeTestOfTwoClassesIsComputed) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "two.csv";
  {
    std::ofstream out(path);
    out << "p,y\n";
    for (int i = 0; i < 300; ++i) out << 0.1 + 0.8 * (i * 37 % 300) / 300.0 << ',' << i % 2 << '\n';
  }
  CalibctlRun run({"evaluate", path, "--label-column", "y", "--positive-class", "1", "--replicates",
                   "199", "--seed", "1", "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  for (const char* const lens : {"canonical", "top_label"}) {
    const nlohmann::json lenses = run.json().at("lenses");
    const auto found = std::ranges::find_if(
        lenses, [&](const nlohmann::json& one) { return one.at("lens") == lens; });
    ASSERT_NE(found, lenses.end());
    const nlohmann::json& test = found->at("cmeTest");
    EXPECT_EQ(test.value("error", ""), "") << test;
    // The labels have nothing to do with the predictions.
    EXPECT_LT(test.at("pValue").get<double>(), 0.05) << lens;
  }
}

}  // namespace
}  // namespace calibd::testing
