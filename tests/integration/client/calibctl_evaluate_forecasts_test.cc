// `calibctl evaluate-forecasts` as a process, without a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "calibd/core/forecast_evaluation.h"
#include "integration/client/run_calibctl.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CalibctlEvaluateForecastsTest : public ::testing::Test {
 protected:
  // 300 Normal forecasts, whose outcomes scatter 1.5 times as far as forecast.
  CalibctlEvaluateForecastsTest() {
    std::mt19937_64 rng(3);
    std::normal_distribution<double> normal;
    std::ostringstream text;
    text.precision(17);
    text << "outcome,mean,standard_deviation\n";
    for (int i = 0; i < 300; ++i) {
      const double mean = 100 + 10 * normal(rng);
      const double deviation = 5 * std::exp(0.3 * normal(rng));
      const double outcome = mean + 1.5 * deviation * normal(rng);
      values_.insert(values_.end(), {mean, deviation});
      outcomes_.push_back(outcome);
      text << outcome << ',' << mean << ',' << deviation << '\n';
    }
    path_ = Write("normals.csv", text.str());
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }
  static std::string Fault(const std::vector<std::string>& arguments, int exit_code) {
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), exit_code) << run.output();
    return run.error();
  }

  TemporaryFolder folder_;
  std::vector<double> values_;
  std::vector<double> outcomes_;
  std::string path_;
};

TEST_F(CalibctlEvaluateForecastsTest, FeaturesAndGroupsAddTests) {
  std::mt19937_64 rng(5);
  std::normal_distribution<double> normal;
  std::ostringstream text;
  text << "region,temperature,humidity,standard_deviation,mean,outcome\n";
  for (int i = 0; i < 400; ++i) {
    const double temperature = normal(rng);
    text << (i % 2 == 0 ? "north," : "south,") << temperature << ',' << normal(rng) << ",1,0,"
         << (temperature > 0 ? 0.7 : -0.7) + 0.71 * normal(rng) << '\n';
  }
  const std::string path = Write("days.csv", text.str());
  CalibctlRun run({"evaluate-forecasts", "--normals", path, "--seed", "1", "--replicates", "199",
                   "--group-column", "region", "--feature-column", "temperature,humidity",
                   "--local-feature", "humidity", "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  std::map<std::string, double> p_values;
  const nlohmann::json json = nlohmann::json::parse(run.output());
  for (const auto& one : json.at("discrepancies")) {
    p_values[one.at("form")] = one.at("test").at("pValue");
  }
  ASSERT_EQ(p_values.size(), 5U);
  // Only the forms that see the temperature reject.
  EXPECT_EQ(p_values.at("individual"), 1.0 / 200);
  EXPECT_GT(p_values.at("local"), 0.01);
  EXPECT_GT(p_values.at("group"), 0.01);
  CalibctlRun groups({"evaluate-forecasts", "--normals", path, "--seed", "1", "--replicates", "99",
                      "--group-column", "region", "--drop-column", "temperature,humidity"});
  ASSERT_EQ(groups.exit_code(), 0) << groups.error();
  EXPECT_THAT(groups.output(), HasSubstr("The groups enter only the test of the form group."));
  // Features are not draws.
  CalibctlRun samples({"evaluate-forecasts", "--samples",
                       Write("draws.csv", "a,b,x,outcome\n1,2,9,3\n2,1,7,0\n"), "--feature-column",
                       "x", "--replicates", "99", "--output", "json"});
  EXPECT_EQ(samples.exit_code(), 0) << samples.error();
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path, "--feature-column", "wind"}, 1),
              HasSubstr("--feature-column is \"wind\", expected one of the columns"));
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path, "--feature-column", "humidity",
                     "--local-feature", "temperature"},
                    2),
              HasSubstr("--local-feature temperature is none of --feature-column"));
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path, "--feature-column", "region"}, 1),
              HasSubstr("line 2, column 1 (\"region\"): \"north\" is not a number"));
  EXPECT_THAT(Fault({"evaluate-forecasts", "--model", "m", "--group-column", "region"}, 2),
              HasSubstr("need a file"));
}

TEST_F(CalibctlEvaluateForecastsTest, HeavyTailsAreNotOnlyWideIntervals) {
  // The outcomes are within .9 standard deviations, but 20 of 1000 are 4 above the mean.
  std::string rows = "mean,standard_deviation,outcome\n";
  for (int i = 0; i < 1000; ++i) {
    const double near = 1.8 * ((i * 7 % 1000) / 1000.0 - 0.5);
    rows += "0,1," + std::to_string(i % 50 == 0 ? 4 : near) + "\n";
  }
  const std::vector<std::string> command = {"evaluate-forecasts", "--normals",
                                            Write("heavy.csv", rows), "--replicates", "99"};
  CalibctlRun run(command);
  EXPECT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(Unwrapped(run.output()),
              AllOf(HasSubstr(": too wide"),
                    HasSubstr("above the 99.9 % quantile: 20 outcomes, 1 expected")));
  std::vector<std::string> json = command;
  json.insert(json.end(), {"--output", "json"});
  CalibctlRun all(json);
  EXPECT_EQ(all.exit_code(), 0) << all.error();
  const nlohmann::json cells = nlohmann::json::parse(all.output()).at("cells");
  EXPECT_EQ(cells.size(), 24U);
  EXPECT_EQ(cells.back().at("observations"), "20");
  CalibctlRun one({"evaluate-forecasts", "--normals",
                   Write("one.csv", "mean,standard_deviation,outcome\n0,1,0.3\n"), "--replicates",
                   "99"});
  EXPECT_EQ(one.exit_code(), 0) << one.error();
  EXPECT_THAT(one.output(), HasSubstr("too few rows to say more"));
}

TEST_F(CalibctlEvaluateForecastsTest, InvalidRowsAreLeftOutOnRequest) {
  std::string valid = "mean,standard_deviation,outcome,wind\n";
  std::string all = valid;
  for (int i = 0; i < 100; ++i) {
    const std::string row = "1,1," + std::to_string(0.02 * i) + "," + std::to_string(i % 7) + "\n";
    valid += row;
    all += row;
    if (i == 10) all += "1,NA,1,1\n1,-1,1,1\n1,1,,1\n1,1\n1,1,1,calm\n";
  }
  const auto evaluate = [&](const std::string& text, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"evaluate-forecasts",
                                          "--normals",
                                          Write("w.csv", text),
                                          "--feature-column",
                                          "wind",
                                          "--replicates",
                                          "99",
                                          "--seed",
                                          "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CalibctlRun run(arguments);
    return run.exit_code() == 0 ? run.output() : run.error();
  };
  EXPECT_THAT(evaluate(all, {}),
              AllOf(HasSubstr("w.csv line 13, column 2 (\"standard_deviation\"): the value is "
                              "missing, expected a number"),
                    HasSubstr("--drop-invalid")));
  EXPECT_EQ(evaluate(all, {"--drop-invalid"}),
            evaluate(valid, {}) + "\n5 invalid rows were left out\n");
  const std::string json = evaluate(all, {"--drop-invalid", "--output", "json"});
  EXPECT_EQ(nlohmann::json::parse(json).at("fileRows").at("droppedRows"), "5");
}

TEST_F(CalibctlEvaluateForecastsTest, AFileWithoutAValidRowIsAnError) {
  const std::string path = Write("invalid.csv", "outcome,mean,standard_deviation\n1,2,-1\n,2,1\n");
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path, "--drop-invalid"}, 1),
              HasSubstr("invalid.csv: has no valid rows"));
}

TEST_F(CalibctlEvaluateForecastsTest, FailOnTurnsTheErrorIntoTheExitCode) {
  // Outcomes far above the forecasts: every cell but the last is empty.
  std::string far = "mean,standard_deviation,outcome\n";
  for (int i = 0; i < 300; ++i) far += std::to_string(i) + ",1," + std::to_string(i + 9) + "\n";
  const std::string path = Write("far.csv", far);
  const std::vector<std::string> command = {
      "evaluate-forecasts", "--normals", path, "--replicates", "99", "--fail-on", "over-limit"};
  CalibctlRun failed(command);
  EXPECT_EQ(failed.exit_code(), 3) << failed.error();
  EXPECT_THAT(failed.output(), HasSubstr("\nfailed on over-limit\n"));
  std::vector<std::string> json = command;
  json.insert(json.end(), {"--output", "json", "--error-limit", "0.01"});
  CalibctlRun gate(json);
  EXPECT_EQ(gate.exit_code(), 3);
  EXPECT_EQ(nlohmann::json::parse(gate.output()).at("gate").at("decision"),
            "OVER_LIMIT, MISCALIBRATED");
  // The interval of these forecasts begins below half.
  CalibctlRun passed({"evaluate-forecasts", "--normals", path_, "--replicates", "99", "--fail-on",
                      "over-limit", "--error-limit", "50%"});
  EXPECT_EQ(passed.exit_code(), 0) << passed.error();
  EXPECT_THAT(passed.output(),
              AllOf(HasSubstr("; limit 50 points)"), HasSubstr("\ndid not fail on over-limit: ")));
  EXPECT_THAT(Fault({"evaluate-forecasts", "--model", "m", "--fail-on", "over-limit"}, 2),
              HasSubstr("calibctl show m --fail-on over-limit"));
}

TEST_F(CalibctlEvaluateForecastsTest, EqualsTheEvaluationOfCore) {
  ForecastEvaluationOptions options;
  options.resampling.seed = 7;
  options.decision = ThresholdDecision{100};
  const auto expected = EvaluateForecasts(NormalForecasts(), {values_, outcomes_}, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  CalibctlRun run({"evaluate-forecasts", "--normals", path_, "--threshold", "100", "--seed", "7",
                   "--threads", "3", "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  const nlohmann::json json = run.json();
  const nlohmann::json& scores = json.at("scores");
  EXPECT_EQ(scores.at("observations"), "300");
  EXPECT_EQ(scores.at("crps"), expected->crps);
  EXPECT_EQ(scores.at("logScore"), *expected->log_score);
  EXPECT_EQ(scores.at("centralCoverage").at(2).at("coverage"),
            expected->coverage.central[2]->coverage);
  EXPECT_EQ(json.at("log10EValue"), expected->log10_e_value);
  EXPECT_EQ(json.at("coverageError"), expected->coverage.error.estimate);
  const SimulatedStatistic& qce = expected->pit->quantile_calibration_error;
  EXPECT_EQ(json.at("quantileCalibrationError").at("value"), qce.value);
  EXPECT_EQ(json.at("quantileCalibrationError").at("pValue"), qce.test.p_value);
  ASSERT_EQ(json.at("discrepancies").size(), 4U);
  for (std::size_t k = 0; k < 4; ++k) {
    const NamedDiscrepancy& named = expected->discrepancies[k];
    EXPECT_EQ(json.at("discrepancies").at(k).at("form"), named.form);
    EXPECT_EQ(json.at("discrepancies").at(k).at("mmdSquared"), named.result.mmd_squared);
    EXPECT_EQ(json.at("discrepancies").at(k).at("test").at("pValue"), named.result.p_value);
  }
  EXPECT_EQ(json.at("decision").at("realisedLoss"), expected->decision->realised_loss);
  EXPECT_EQ(json.at("seed"), "7");
}

TEST_F(CalibctlEvaluateForecastsTest, TestsUseSomeRowsAndSaySo) {
  ForecastEvaluationOptions options;
  options.resampling.seed = 7;
  options.resampling.replicates = 99;
  options.test_rows = 100;
  const auto expected = EvaluateForecasts(NormalForecasts(), {values_, outcomes_}, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  std::vector<std::string> arguments{
      "evaluate-forecasts", "--normals", path_, "--replicates", "99", "--seed", "7",
      "--test-rows",        "100"};
  CalibctlRun text(arguments);
  ASSERT_EQ(text.exit_code(), 0) << text.error();
  EXPECT_THAT(text.output(), HasSubstr("The tests use 100 of the 300 rows, drawn at random. All "
                                       "else uses all rows. --test-rows sets the number."));
  arguments.insert(arguments.end(), {"--output", "json"});
  CalibctlRun run(arguments);
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_EQ(run.json().at("testedObservations"), "100");
  EXPECT_EQ(run.json().at("scores").at("observations"), "300");
  EXPECT_EQ(run.json().at("discrepancies").at(0).at("mmdSquared"),
            expected->discrepancies[0].result.mmd_squared);
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path_, "--test-rows", "1"}, 2),
              HasSubstr("--test-rows"));
}

TEST_F(CalibctlEvaluateForecastsTest, TheKernelOfTheOutcomesIsChosen) {
  ForecastEvaluationOptions options;
  options.resampling.seed = 7;
  options.resampling.replicates = 99;
  options.decision = ThresholdDecision{100};
  options.threshold_alpha = 0.25;
  options.outcome_kernel = TanhKernel{100, 5};
  const auto expected = EvaluateForecasts(NormalForecasts(), {values_, outcomes_}, options);
  ASSERT_TRUE(expected.ok()) << expected.status();
  CalibctlRun run({"evaluate-forecasts", "--normals", path_, "--threshold", "100",
                   "--threshold-alpha", "0.25", "--outcome-kernel", "tanh:100:5", "--seed", "7",
                   "--replicates", "99", "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  const nlohmann::json json = run.json();
  ASSERT_EQ(json.at("discrepancies").size(), 4U);
  for (std::size_t k = 0; k < 4; ++k) {
    const NamedDiscrepancy& named = expected->discrepancies[k];
    const nlohmann::json& one = json.at("discrepancies").at(k);
    EXPECT_EQ(one.at("form"), named.form);
    EXPECT_EQ(one.at("mmdSquared"), named.result.mmd_squared);
    EXPECT_EQ(one.at("test").at("pValue"), named.result.p_value);
  }
  EXPECT_EQ(json.at("discrepancies").at(1).at("outcomeKernel").at("tanh").at("width"), 5);
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path_, "--outcome-kernel", "tanh"}, 2),
              HasSubstr("--outcome-kernel is 'tanh', expected rbf[:GAMMA]"));
  EXPECT_THAT(Fault({"evaluate-forecasts", "--normals", path_, "--threshold-alpha", "0.5"}, 2),
              HasSubstr("--threshold"));
}

TEST_F(CalibctlEvaluateForecastsTest, AModelHasTheEvaluationOfItsFile) {
  const auto server = ServerProcess::Start();
  ASSERT_NE(server, nullptr);
  const auto run = [&](std::vector<std::string> arguments, int exit_code = 0) {
    arguments.insert(arguments.end(), {"--server", server->grpc_address()});
    CalibctlRun calibctl(arguments);
    EXPECT_EQ(calibctl.exit_code(), exit_code) << calibctl.output() << calibctl.error();
    return exit_code == 0 ? calibctl.output() : calibctl.error();
  };
  run({"model", "create", "demand", "--forecast", "normal"});
  run({"send", "demand", path_});
  const std::vector<std::string> options{"--threshold", "100", "--seed", "7"};
  std::vector<std::string> served{"evaluate-forecasts", "--model", "demand"};
  std::vector<std::string> file{"evaluate-forecasts", "--normals", path_};
  served.insert(served.end(), options.begin(), options.end());
  file.insert(file.end(), options.begin(), options.end());
  // The output about the model also says which rows it has.
  std::string of_model = run(served);
  const std::string rows = ", rows 1 to 300";
  const std::size_t place = of_model.find(rows);
  ASSERT_NE(place, std::string::npos) << of_model;
  EXPECT_EQ(of_model.erase(place, rows.size()), run(file));
  EXPECT_THAT(run({"evaluate", "--model", "demand"}, 2),
              HasSubstr("demand forecasts a number: use `calibctl evaluate-forecasts"));
  run({"model", "create", "digits", "--classes", "10"});
  EXPECT_THAT(run({"evaluate-forecasts", "--model", "digits"}, 2),
              HasSubstr("digits predicts classes: use `calibctl evaluate --model digits`"));
  run({"model", "create", "empty", "--forecast", "quantiles", "--levels", "0.1,0.9"});
  EXPECT_THAT(run({"evaluate-forecasts", "--model", "empty", "--threshold", "1"}, 1),
              HasSubstr("threshold_alpha is 0.5, expected one of the levels"));
  EXPECT_THAT(run({"evaluate-forecasts", "--model", "empty"}, 1),
              HasSubstr("not enough observations in the window: 0"));
}

TEST_F(CalibctlEvaluateForecastsTest, SaysWhichWayTheIntervalsAreWrong) {
  CalibctlRun run({"evaluate-forecasts", "--normals", path_, "--seed", "1"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), HasSubstr("300 forecasts (normal) with outcomes"));
  EXPECT_THAT(Unwrapped(run.output()),
              AllOf(HasSubstr("; the 90 % intervals cover "), HasSubstr("too narrow")));
  EXPECT_THAT(run.output(), HasSubstr("MISCALIBRATED"));
}

TEST_F(CalibctlEvaluateForecastsTest, ReadsQuantilesAndSamples) {
  std::string quantiles;
  std::string samples;
  for (std::size_t i = 0; i < outcomes_.size(); ++i) {
    const double mean = values_[2 * i];
    const double deviation = values_[2 * i + 1];
    for (const double z : {-1.2815515655446004, 0.0, 1.2815515655446004}) {
      quantiles += std::to_string(mean + z * deviation) + ",";
      samples += std::to_string(mean + z * deviation) + ",";
    }
    quantiles += std::to_string(outcomes_[i]) + "\n";
    samples += std::to_string(outcomes_[i]) + "\n";
  }
  CalibctlRun run({"evaluate-forecasts", "--quantiles", Write("q.csv", quantiles), "--levels",
                   "0.1,0.5,0.9", "--seed", "1", "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_LT(run.json().at("scores").at("centralCoverage").at(0).at("coverage"), 0.75);
  EXPECT_LT(run.json().at("levelError").at("pValue"), 0.01);
  EXPECT_FALSE(run.json().at("scores").contains("logScore"));
  CalibctlRun drawn({"evaluate-forecasts", "--samples", Write("s.csv", samples), "--seed", "1",
                     "--output", "json"});
  ASSERT_EQ(drawn.exit_code(), 0) << drawn.error();
  EXPECT_TRUE(drawn.json().contains("cramerVonMises"));
}

TEST_F(CalibctlEvaluateForecastsTest, ReadsTheFileThatIsSent) {
  std::string plain;
  std::string sent = "id;low;shop;high;demand;note\n";
  for (int i = 0; i < 40; ++i) {
    const std::string low = std::to_string(i);
    const std::string high = std::to_string(i + 2);
    const std::string outcome = std::to_string(i + i % 4);
    plain += low + "," + high + "," + outcome + "\n";
    sent += "day-" + low + ";" + low + ";north;" + high + ";" + outcome + ";-\n";
  }
  for (const char* const kind : {"--samples", "--quantiles"}) {
    SCOPED_TRACE(kind);
    const auto evaluate = [&](const std::string& path, const std::vector<std::string>& more) {
      std::vector<std::string> arguments{"evaluate-forecasts", kind, path, "--seed", "1"};
      if (kind == std::string("--quantiles")) {
        arguments.insert(arguments.end(), {"--levels", "0.1,0.9"});
      }
      arguments.insert(arguments.end(), more.begin(), more.end());
      CalibctlRun run(arguments);
      EXPECT_EQ(run.exit_code(), 0) << run.error();
      return run.output();
    };
    EXPECT_EQ(
        evaluate(Write("sent.csv", sent), {"--delimiter", ";", "--label-column", "demand",
                                           "--group-column", "shop", "--drop-column", "note"}),
        evaluate(Write("plain.csv", plain), {}));
  }
}

TEST_F(CalibctlEvaluateForecastsTest, ErrorsNameTheOptionAndTheRow) {
  const auto usage = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "evaluate-forecasts");
    return Fault(arguments, 2);
  };
  EXPECT_THAT(usage({}), HasSubstr("give one of --normals, --samples, --quantiles and --model"));
  EXPECT_THAT(usage({"--normals", path_, "--samples", path_}), HasSubstr("give one of"));
  EXPECT_THAT(usage({"--quantiles", path_}), HasSubstr("--quantiles needs --levels"));
  EXPECT_THAT(usage({"--quantiles", path_, "--levels", "0.9,0.1"}), HasSubstr("--levels: "));
  EXPECT_THAT(usage({"--quantiles", path_, "--levels", "0.1,0.9", "--threshold", "1"}),
              HasSubstr("threshold_alpha is 0.5, expected one of the levels"));
  const auto file = [&](const std::string& text, const std::string& levels) {
    return Fault({"evaluate-forecasts", "--quantiles", Write("bad.csv", text), "--levels", levels},
                 1);
  };
  EXPECT_THAT(file("1,2,3\n3,2,1\n", "0.1,0.9"), HasSubstr("bad.csv line 2, column 2 is 2"));
  EXPECT_THAT(file("1,2,3\n", "0.1,0.5,0.9"),
              HasSubstr("bad.csv: has no outcomes: add a column named outcome"));
  EXPECT_THAT(file("", "0.1,0.9"), HasSubstr("has no forecasts"));
}

TEST_F(CalibctlEvaluateForecastsTest, TheFirstLineIsAHeaderIfItNamesAColumn) {
  const auto evaluate = [&](const std::string& text, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"evaluate-forecasts",
                                          "--quantiles",
                                          Write("levels.csv", text),
                                          "--levels",
                                          "0.1,0.5,0.9",
                                          "--replicates",
                                          "99",
                                          "--seed",
                                          "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CalibctlRun run(arguments);
    return run.exit_code() == 0 ? run.output() : run.error();
  };
  const std::string rows = "4,5,6,5.5\n2,3,4,3.5\n";
  const std::string expected = evaluate(rows);
  EXPECT_THAT(expected, HasSubstr("2 forecasts (quantiles)"));
  // Names that are numbers do not hide the name of the outcome, stated or not.
  EXPECT_EQ(evaluate("10,50,90,outcome\n" + rows), expected);
  EXPECT_EQ(evaluate("10,50,90,sold\n" + rows, {"--label-column", "sold"}), expected);
  EXPECT_EQ(evaluate("low,middle,high,outcome\n" + rows), expected);
  // Neither a line of data with an odd cell nor one without any number is left out in silence.
  const std::string hint = "; if the first line holds names, say --header";
  EXPECT_THAT(evaluate("1,x,3,2\n" + rows),
              HasSubstr("levels.csv line 1, column 2: \"x\" is not a number" + hint));
  EXPECT_THAT(evaluate("NA,NA,NA,NA\n" + rows),
              HasSubstr("the value is missing, expected a number" + hint));
  EXPECT_THAT(evaluate(rows + "1,x,3,2\n"), ::testing::Not(HasSubstr("--header")));
}

}  // namespace
}  // namespace calibd::testing
