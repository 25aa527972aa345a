// calibctl with models of several labels, against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "integration/client/calibctl_served.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class CalibctlLabelsTest : public CalibctlServedTest {
 protected:
  std::string OutputOf(const std::vector<std::string>& arguments) {
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->output();
  }

  // Sends n rows. Fog holds half as often as it is stated.
  void Send(std::size_t n) {
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> uniform;
    std::vector<double> probabilities;
    std::vector<std::int32_t> truths;
    for (std::size_t i = 0; i < n; ++i) {
      for (const double share : {1.0, 0.5}) {
        probabilities.push_back(uniform(random));
        truths.push_back(uniform(random) < share * probabilities.back() ? 1 : 0);
      }
    }
    auto client = client::Client::Connect(server_->grpc_address());
    ASSERT_TRUE(client.ok());
    auto stream = (*client)->OpenStream("models/sky", {});
    ASSERT_TRUE(stream.ok()) << stream.status();
    ASSERT_TRUE(
        (*stream)->Send(client::PredictionKind::kProbabilities, probabilities, truths).ok());
    ASSERT_TRUE((*stream)->Finish().ok());
  }

  TemporaryFolder folder_;
};

TEST_F(CalibctlLabelsTest, FromTheDeclarationToTheVerdict) {
  const nlohmann::json model = RunJson({"model", "create", "sky", "--labels", "rain,fog"});
  EXPECT_EQ(model.at("labels").at("names").size(), 2U);
  EXPECT_FALSE(model.contains("classes"));
  EXPECT_THAT(OutputOf({"model", "show", "sky"}),
              AllOf(HasSubstr("2: rain, fog\n"), Not(HasSubstr("kernel"))));
  EXPECT_THAT(OutputOf({"model", "list"}), HasSubstr("2 labels"));
  Send(3000);
  const std::string shown = OutputOf({"show", "sky", "--verbose", "--bins"});
  EXPECT_THAT(shown, AllOf(HasSubstr("OVER_LIMIT"), HasSubstr("in label fog (alarm at"),
                           HasSubstr("over the limit, rejected"), HasSubstr("no reliability"),
                           Not(HasSubstr("recalibrate")), Not(HasSubstr("confident"))));
  // The worst label is first.
  EXPECT_LT(shown.find("\nfog "), shown.find("\nrain "));
  EXPECT_THAT(OutputOf({"history", "sky"}),
              AllOf(HasSubstr("label furthest off"), HasSubstr("fog +2"),
                    HasSubstr("Each row names one of 2 labels.")));
  EXPECT_THAT(
      OutputOf({"history", "sky", "--label", "rain", "--label", "fog"}),
      AllOf(ContainsRegex("gap \\(points\\) +rain +fog\n"), Not(HasSubstr("Each row names"))));
  EXPECT_THAT(OutputOf({"history", "sky", "--csv"}), HasSubstr(",\"fog\",0.2"));
  EXPECT_THAT(OutputOf({"list"}), HasSubstr("fog off by "));
  const nlohmann::json answer = RunJson({"show", "sky"});
  EXPECT_EQ(answer.at("labels").at("overLimit").at(0), "fog");
}

TEST_F(CalibctlLabelsTest, RowsWithoutATruthHaveTheTablesOfLabels) {
  RunJson({"model", "create", "sky", "--labels", "rain,fog"});
  const std::string path = folder_.path() / "unknown.csv";
  std::ofstream(path) << "prob_rain,label_rain,prob_fog,label_fog\n.5,,.25,\n.5,,.25,\n";
  EXPECT_EQ(RunJson({"send", "sky", path}).at("acceptedRows"), "2");
  EXPECT_THAT(OutputOf({"show", "sky"}),
              AllOf(HasSubstr("no known truth yet"), ContainsRegex("rain +0 +- +- +- +- ")));
  EXPECT_THAT(OutputOf({"history", "sky"}), HasSubstr("label furthest off"));
  const auto refused = [this](const std::vector<std::string>& arguments, int exit_code) {
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), exit_code);
    return run->error();
  };
  EXPECT_THAT(refused({"evaluate-forecasts", "--model", "sky"}, 2), HasSubstr("several labels"));
  EXPECT_THAT(refused({"evaluate", "--model", "sky"}, 1), HasSubstr("several labels"));
  EXPECT_THAT(refused({"simulate", "sky", "--n", "10"}, 2), HasSubstr("cannot be simulated"));
}

TEST_F(CalibctlLabelsTest, OptionsOfClassesAreRefused) {
  const auto run = Run({"model", "create", "sky", "--labels", "rain,fog", "--baseline", "3"});
  EXPECT_EQ(run->exit_code(), 2);
  EXPECT_THAT(run->error(), HasSubstr("--baseline is for models of classes, not for --labels"));
}

}  // namespace
}  // namespace calibd::testing
