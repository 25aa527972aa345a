// `calibctl estimate` for files, without a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_format.h"
#include "calibd/core/estimator_selection.h"
#include "calibd/core/generator.h"
#include "integration/client/run_calibctl.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

PredictionSet DrawToEstimate(const GeneratorSpec& spec) {
  auto generator = Generator::Create(spec, 3);
  PredictionSet set;
  generator->Draw(800, set);
  return set;
}

std::vector<std::string> EstimateArguments(const PredictionFiles& files,
                                           const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "estimate", files.predictions(), files.labels(), "--label-base", "0", "--seed", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(CalibctlEstimateTest, AnnouncesLongWorkBeforeItBegins) {
  const PredictionFiles files(DrawToEstimate(GeneratorSpec::M3(5)), 0);
  CalibctlRun run(EstimateArguments(files, {"--replicates", "100000"}));
  EXPECT_TRUE(WaitFor([&run] {
    return run.error().find("calibctl: 800 rows: this takes about ") != std::string::npos;
  }));
  ASSERT_TRUE(run.Interrupt());
  EXPECT_NE(run.exit_code(), 0);
  EXPECT_THAT(run.error(),
              HasSubstr("use fewer rows, or fewer --replicates, or --estimators bins\n"));
}

TEST(CalibctlEstimateTest, EqualsTheCore) {
  const PredictionSet set = DrawToEstimate(GeneratorSpec::M3(5));
  const PredictionFiles files(set, 0);
  CalibctlRun run(EstimateArguments(files, {"--lens", "canonical", "--estimators",
                                            "product_ridge,function_ridge", "--output", "json"}));
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  SelectionOptions options;
  options.lens = Lens::Canonical();
  options.estimators = DefaultEstimators(options.lens);
  options.estimators.erase(options.estimators.begin());
  options.seed = 3;
  const SelectionResult expected = *SelectEstimator(set.view(), options);
  const nlohmann::json estimate = run.json();
  ASSERT_EQ(estimate.at("estimators").size(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const nlohmann::json& outcome = estimate.at("estimators").at(i);
    EXPECT_EQ(outcome.at("squaredError"), expected.estimators[i].squared_error);
    EXPECT_EQ(outcome.at("excessRisk"), expected.estimators[i].excess);
  }
  EXPECT_EQ(estimate.at("seed"), "3");
  EXPECT_EQ(estimate.at("fileRows").at("droppedRows"), "0");
  const nlohmann::json& provenance = estimate.at("provenance");
  EXPECT_EQ(provenance.at("observations"), "800");
  EXPECT_EQ(provenance.at("lastObservation"), "800");
  EXPECT_EQ(provenance.at("lens"), "canonical");
}

TEST(CalibctlEstimateTest, TheClassWiseErrorIsOneNumber) {
  const PredictionFiles files(DrawToEstimate(GeneratorSpec::M3(5)), 0);
  CalibctlRun run(
      EstimateArguments(files, {"--lens", "class_wise", "--estimators", "bins,debiased_bins"}));
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), AllOf(StartsWith("The probability of a class is off by "),
                                  HasSubstr("\ndebiased_bins "), HasSubstr(" bins"),
                                  HasSubstr("; the mean is over rows and classes.\n")));
}

TEST(CalibctlEstimateTest, ReportsTheSimulation) {
  const PredictionFiles files(DrawToEstimate(GeneratorSpec::M3(5)), 0);
  const std::vector<std::string> more = {"--estimators", "bins,fifteen_bins", "--replicates", "99"};
  CalibctlRun text(EstimateArguments(files, more));
  ASSERT_EQ(text.exit_code(), 0) << text.error();
  std::vector<std::string> arguments = EstimateArguments(files, more);
  arguments.insert(arguments.end(), {"--output", "json"});
  CalibctlRun json(arguments);
  ASSERT_EQ(json.exit_code(), 0) << json.error();
  const nlohmann::json simulation = json.json().at("simulation");
  const auto points = [&](const char* key) {
    return absl::StrFormat("%.2g points", 100 * std::sqrt(simulation.at(key).get<double>()));
  };
  EXPECT_EQ(simulation.at("pValue"), 0.01);
  EXPECT_THAT(
      text.output(),
      AllOf(StartsWith("The probability of the top label is off by "),
            HasSubstr("If the model were calibrated, the same procedure would give " +
                      points("replicateMean") + " on average, and at most " +
                      points("replicateUpperQuantile") +
                      " in 95 % of the cases (99 simulations with the same predictions). p = 0.01 "
                      "(one look): none of them reaches the estimate from the data.\n"),
            HasSubstr("\nComputed from observations 1 to 800, of which 640 are for tuning and 160 "
                      "for the errors; seed 3.\n")));
}

TEST(CalibctlEstimateTest, SaysThatNoEstimatorIsBetterThanZero) {
  const PredictionFiles files(DrawToEstimate(GeneratorSpec::M1(5)), 0);
  CalibctlRun run(EstimateArguments(files, {"--estimators", "bins", "--replicates", "99"}));
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(),
              AllOf(StartsWith("No estimator is better than 0 here"),
                    HasSubstr("If the model were calibrated"), Not(HasSubstr("is off by"))));
}

TEST(CalibctlEstimateTest, CountsDroppedRows) {
  const PredictionFiles files(DrawToEstimate(GeneratorSpec::M3(5)), 0);
  std::ofstream(files.predictions(), std::ios::app) << "0.9,0.9,0,0,0\n";
  std::ofstream(files.labels(), std::ios::app) << "1\n";
  CalibctlRun run(EstimateArguments(files, {"--estimators", "bins", "--drop-invalid"}));
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), AllOf(HasSubstr("observations 1 to 800,"),
                                  HasSubstr("\n1 invalid row was left out\n")));
}

TEST(CalibctlEstimateTest, ExplainsWrongUse) {
  CalibctlRun name({"estimate", "resnet18"});
  EXPECT_EQ(name.exit_code(), 1);
  EXPECT_THAT(name.error(), HasSubstr("for a model on a server, give --model resnet18"));
  EXPECT_EQ(CalibctlRun({"estimate"}).exit_code(), 2);
  EXPECT_EQ(CalibctlRun({"estimate", "p.csv", "--model", "m"}).exit_code(), 2);
  const PredictionFiles files(DrawToEstimate(GeneratorSpec::M3(5)), 0);
  CalibctlRun lens(EstimateArguments(files, {"--lens", "top_k:2"}));
  EXPECT_EQ(lens.exit_code(), 1);
  EXPECT_THAT(lens.error(), HasSubstr("lens is top_k[2], expected canonical"));
  CalibctlRun groups({"estimate", "p.csv", "--label-column", "y", "--group-column", "shop"});
  EXPECT_EQ(groups.exit_code(), 2);
  EXPECT_THAT(groups.error(),
              HasSubstr("estimate has no answer for each group: leave the column out "
                        "with --drop-column shop"));
}

}  // namespace
}  // namespace calibd::testing
