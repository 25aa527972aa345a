// calibctl with models that declare features, against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "integration/client/calibctl_served.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Files of 400 rows. On warm days, the outcomes are above the forecasts, and class 1 is more likely
// than predicted; on cold days below.
class CalibctlFeaturesTest : public CalibctlServedTest {
 protected:
  CalibctlFeaturesTest() {
    std::mt19937_64 rng(2);
    std::normal_distribution<double> normal;
    std::ostringstream demand;
    std::ostringstream loans;
    std::ostringstream plain;
    std::ostringstream features;
    demand << "temperature,hour,mean,standard_deviation,outcome\n";
    loans << "no,yes,label,temperature,hour\n";
    for (int i = 0; i < 400; ++i) {
      const double temperature = normal(rng);
      const double outcome = std::copysign(normal(rng), temperature);
      demand << temperature << ',' << i % 24 << ",0,1," << outcome << '\n';
      loans << "0.5,0.5," << (outcome > 0 ? "yes" : "no") << ',' << temperature << ',' << i % 24
            << '\n';
      plain << "0,1," << outcome << '\n';
      features << temperature << ',' << i % 24 << '\n';
    }
    demand_ = Write("demand.csv", demand.str());
    loans_ = Write("loans.csv", loans.str());
    plain_ = Write("plain.csv", plain.str());
    features_ = Write("features.csv", features.str());
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }

  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const auto run = Run(arguments);
    EXPECT_NE(run->exit_code(), 0);
    return run->error();
  }

  void Create(const std::string& name, const std::vector<std::string>& kind) {
    std::vector<std::string> command = {"model", "create", name, "--feature-names",
                                        "temperature,hour"};
    command.insert(command.end(), kind.begin(), kind.end());
    const nlohmann::json model = RunJson(command);
    EXPECT_EQ(model.at("featureNames"), (std::vector<std::string>{"temperature", "hour"}));
  }

  TemporaryFolder folder_;
  std::string demand_, loans_, plain_, features_;
};

TEST_F(CalibctlFeaturesTest, FeaturesAreTheColumnsWithTheirNames) {
  Create("demand", {"--forecast", "normal"});
  EXPECT_EQ(RunJson({"send", "demand", demand_}).at("acceptedRows"), "400");
  // The same rows are sent from two files.
  Create("apart", {"--forecast", "normal"});
  EXPECT_EQ(
      RunJson({"send", "apart", plain_, "--no-header", "--features", features_}).at("acceptedRows"),
      "400");
  const auto evaluated = [&](const std::string& model) {
    nlohmann::json json = RunJson({"evaluate-forecasts", "--model", model, "--seed", "1",
                                   "--replicates", "199", "--local-feature", "temperature"});
    json.erase("computeTime");
    return json;
  };
  const nlohmann::json json = evaluated("demand");
  EXPECT_EQ(json, evaluated("apart"));
  std::map<std::string, double> p_values;
  for (const auto& one : json.at("discrepancies")) {
    p_values[one.at("form")] = one.at("test").at("pValue");
  }
  EXPECT_GT(p_values.at("marginal"), 0.01);
  EXPECT_EQ(p_values.at("local"), 1.0 / 200);
  const nlohmann::json& local = json.at("local");
  EXPECT_EQ(local.at("featureNames"), std::vector<std::string>{"temperature"});
  EXPECT_EQ(local.at("places")[0].at("pValue"), 1.0 / 200);
  const auto run = Run({"evaluate-forecasts", "--model", "demand", "--replicates", "199"});
  EXPECT_EQ(run->exit_code(), 0) << run->error();
  EXPECT_THAT(run->output(),
              AllOf(HasSubstr("local calibration error"), HasSubstr("near temperature "),
                    HasSubstr(", hour "), HasSubstr("are below the median; about "),
                    HasSubstr("so that the discrepancy distribution has no condition")));
  const auto shown = Run({"model", "show", "demand"});
  EXPECT_EQ(shown->exit_code(), 0);
  EXPECT_THAT(shown->output(), HasSubstr("features            temperature, hour\n"));
}

TEST_F(CalibctlFeaturesTest, ClassesAreEvaluatedAmongSimilarCases) {
  Create("loans", {"--class-names", "no,yes", "--bandwidth", "0.5"});
  EXPECT_EQ(RunJson({"send", "loans", loans_, "--label-column", "label"}).at("acceptedRows"),
            "400");
  const nlohmann::json json =
      RunJson({"evaluate", "--model", "loans", "--seed", "1", "--replicates", "199"});
  EXPECT_EQ(json.at("individual").at("test").at("pValue"), 1.0 / 200);
  const auto evaluated = Run({"evaluate", "--model", "loans"});
  EXPECT_EQ(evaluated->exit_code(), 0) << evaluated->error();
  EXPECT_THAT(evaluated->output(), HasSubstr("similar cases"));
  // An invalid feature is an invalid row.
  const std::string invalid = Write("invalid.csv",
                                    "no,yes,label,temperature,hour\n"
                                    "0.5,0.5,yes,20,3\n0.5,0.5,yes,,3\n");
  EXPECT_THAT(ErrorOf({"send", "loans", invalid, "--label-column", "label"}),
              AllOf(HasSubstr("line 3, column 4 (\"temperature\")"), HasSubstr("--drop-invalid")));
  const nlohmann::json sent =
      RunJson({"send", "loans", invalid, "--label-column", "label", "--drop-invalid"});
  EXPECT_EQ(sent.at("acceptedRows"), "1");
  EXPECT_EQ(sent.at("droppedRows"), "1");
  // The features may be in a file of their own.
  const std::string predictions = Write("p.csv", "no,yes,label\n0.5,0.5,yes\n0.5,0.5,yes\n");
  const std::string features = Write("f.csv", "temperature,hour\n20,3\n,3\n");
  const nlohmann::json own = RunJson({"send", "loans", predictions, "--label-column", "label",
                                      "--features", features, "--drop-invalid"});
  EXPECT_EQ(own.at("acceptedRows"), "1");
  EXPECT_EQ(own.at("droppedRows"), "1");
}

TEST_F(CalibctlFeaturesTest, ErrorsSayWhereFeaturesBelong) {
  Create("demand", {"--forecast", "normal"});
  EXPECT_THAT(
      ErrorOf({"send", "demand", plain_, "--no-header"}),
      HasSubstr("--features is not given, and the model's feature is \"temperature\", exp"));
  EXPECT_THAT(ErrorOf({"send", "demand", plain_, "--no-header", "--features", plain_}),
              HasSubstr("has 400 rows of 3 columns, expected 400 rows of the features temperature, "
                        "hour"));
  RunJson({"model", "create", "plain", "--forecast", "normal"});
  EXPECT_THAT(ErrorOf({"send", "plain", plain_, "--no-header", "--features", features_}),
              HasSubstr("plain has no features: create it with --feature-names"));
  RunJson({"model", "create", "q", "--forecast", "quantiles", "--levels", ".5", "--feature-names",
           "a"});
  Create("loans", {"--classes", "2"});
  EXPECT_THAT(ErrorOf({"simulate", "loans", "--classes", "2", "--n", "10"}),
              HasSubstr("use a model without --feature-names"));
  EXPECT_THAT(ErrorOf({"evaluate-forecasts", "--model", "demand", "--local-feature", "wind"}),
              HasSubstr("expected one of the model's feature_names: temperature, hour"));
}

}  // namespace
}  // namespace calibd::testing
