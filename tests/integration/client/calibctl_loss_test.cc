// `calibctl loss` as a process, without a server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>

#include "calibd/core/calibration_loss.h"
#include "integration/client/run_calibctl.h"
#include "support/temporary_folder.h"
#include "support/test_data.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CalibctlLossTest : public ::testing::Test {
 protected:
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  // The values of an NPY file of this shape.
  static std::vector<double> ReadGradient(const std::string& path, const std::string& shape) {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(bytes, AllOf(HasSubstr("NUMPY"), HasSubstr("'shape': " + shape)));
    const std::size_t start = bytes.find('\n') + 1;
    EXPECT_EQ(start % 64, 0U);
    std::vector<double> values((bytes.size() - start) / sizeof(double));
    std::memcpy(values.data(), bytes.data() + start, values.size() * sizeof(double));
    return values;
  }
  static std::string Error(const std::vector<std::string>& arguments, int exit_code) {
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), exit_code) << run.output();
    return run.error();
  }

  TemporaryFolder folder_;
};

TEST_F(CalibctlLossTest, FormsOfClassesMatchTheSmallCases) {
  const nlohmann::json small =
      ReadJson(std::filesystem::path(CALIBD_GOLDEN_DIR) / "small_cases_34.json").at(0);
  const PredictionFiles files(ToPredictionSet(small), 0);
  const auto loss = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"loss", files.predictions(), files.labels(),
                                         "--label-base", "0", "--output", "json"});
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 0) << run.error();
    return run.json();
  };
  const std::vector<std::string> gaussian = {"--kernel", "gaussian", "--bandwidth", "2"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), gaussian.begin(), gaussian.end());
    return loss(more);
  };
  EXPECT_LT(RelativeDifference(with({}).at("value"), small.at("mmd_canonical_identity_unbiased")),
            1e-9);
  EXPECT_LT(RelativeDifference(with({"--biased", "--form", "top_label"}).at("penaltyValue"),
                               small.at("mmd_top_label_identity_biased")),
            1e-9);
  EXPECT_LT(
      RelativeDifference(with({"--form", "marginal", "--outcome-kernel", "rbf:0.5"}).at("value"),
                         small.at("mmd_marginal_sum_rbf_unbiased")),
      1e-9);
  EXPECT_LT(RelativeDifference(loss({"--bandwidth", "0.5"}).at("value"),
                               small.at("mmd_canonical_tv_identity_unbiased")),
            1e-9);
}

TEST_F(CalibctlLossTest, WritesTheGradientOfLogits) {
  const std::string logits = Write("logits.csv", "0.3,-1.2,0.5\n2,0.1,-0.7\n-0.4,0.9,0.2\n");
  const std::string labels = Write("labels.csv", "2\n0\n0\n");
  const std::string gradient = folder_.path() / "g.npy";
  CalibctlRun run({"loss", logits, labels, "--label-base", "0", "--logits", "--penalty-weight", "5",
                   "--gradient", gradient});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), AllOf(HasSubstr("over 3 rows"), HasSubstr("negative log likelihood"),
                                  HasSubstr("unbiased")));
  LossOptions options;
  options.penalty_weight = 5;
  const std::vector<double> values = {0.3, -1.2, 0.5, 2, 0.1, -0.7, -0.4, 0.9, 0.2};
  const std::vector<std::int32_t> truths = {2, 0, 0};
  EXPECT_EQ(ReadGradient(gradient, "(3, 3)"),
            ComputeLoss({ForecastKind::kLogits, values, 3, truths, {}}, options)->gradient);
}

TEST_F(CalibctlLossTest, MeasuresOtherPenaltiesOfClasses) {
  const std::string rows =
      Write("rows.csv",
            "cold,mild,warm,label\n0.7,0.2,0.1,0\n0.1,0.6,0.3,2\n0.3,0.3,0.4,2\n"
            "0.05,0.15,0.8,2\n0.5,0.4,0.1,1\n0.2,0.7,0.1,1\n");
  const auto value = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"loss", rows, "--label-column", "label", "--label-base",
                                         "0", "--output", "json"});
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 0) << run.error();
    return run.json();
  };
  EXPECT_NEAR(value({"--penalty", "mmce"}).at("value"), 0.103267380603365, 1e-14);
  EXPECT_NEAR(value({"--penalty", "weighted_mmce"}).at("value"), 0.310953443506304, 1e-14);
  const auto density = value({"--penalty", "kernel_density_l2", "--bandwidth", "0.1"});
  EXPECT_NEAR(density.at("penaltyValue"), 0.309385959978315, 1e-12);
  // The kernel is Dirichlet, and none that can be chosen.
  EXPECT_EQ(density.at("condition"), nlohmann::json({{"forecast", {{"bandwidth", 0.1}}}}));
  EXPECT_EQ(value({"--penalty", "kernel_density_l1"}).at("condition"),
            nlohmann::json({{"forecast", {{"bandwidth", 1}}}}));
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(),
                     {"loss", rows, "--label-column", "label", "--label-base", "0"});
    return Error(arguments, 2);
  };
  EXPECT_THAT(error({"--penalty", "mmce", "--form", "canonical"}),
              HasSubstr("--form is canonical, expected top_label for --penalty mmce"));
  EXPECT_THAT(error({"--penalty", "mmce", "--biased"}), HasSubstr("--biased is set"));
  EXPECT_THAT(error({"--penalty", "brier"}), HasSubstr("--penalty"));
}

TEST_F(CalibctlLossTest, ReadsForecastsOfNumbers) {
  const std::vector<double> values = {0.1, 0.5, -0.6, 1.2, 1.2, 0.7};
  const std::vector<double> outcomes = {0.3, -1.1, 2.4};
  const std::string plain = Write("plain.csv", "0.1,0.5,0.3\n-0.6,1.2,-1.1\n1.2,0.7,2.4\n");
  const std::string named = Write("named.csv",
                                  "day,outcome,standard_deviation,mean\n1,0.3,0.5,0.1\n"
                                  "2,-1.1,1.2,-0.6\n3,2.4,0.7,1.2\n");
  const auto expect_value = [&](std::vector<std::string> arguments, ForecastKind kind,
                                const LossOptions& options) {
    arguments.insert(arguments.end(), {"--output", "json"});
    CalibctlRun run(arguments);
    ASSERT_EQ(run.exit_code(), 0) << run.error();
    EXPECT_EQ(run.json().at("value"), ComputeLoss({kind, values, 2, {}, outcomes}, options)->value);
  };
  LossOptions options;
  // Without --gradient, the sums are in another order.
  options.gradient = false;
  expect_value({"loss", "--normals", plain}, ForecastKind::kNormal, options);
  expect_value({"loss", "--normals", named}, ForecastKind::kNormal, options);
  expect_value({"loss", "--samples", plain}, ForecastKind::kSamples, options);
  options.condition = ForecastCondition{.bandwidth = {}, .gamma = 2};
  options.outcome_kernel = EnergyKernel();
  expect_value({"loss", "--samples", plain, "--outcome-kernel", "energy", "--gamma", "2"},
               ForecastKind::kSamples, options);
  options.condition = NoCondition();
  expect_value({"loss", "--normals", plain, "--form", "marginal", "--outcome-kernel", "energy"},
               ForecastKind::kNormal, options);
  options.outcome_kernel = PitRbfKernel();
  expect_value({"loss", "--normals", plain, "--form", "quantile"}, ForecastKind::kNormal, options);
  options.outcome_kernel = TanhKernel{0.2, 0.5};
  expect_value(
      {"loss", "--normals", plain, "--form", "decision", "--outcome-kernel", "tanh:0.2:0.5"},
      ForecastKind::kNormal, options);
}

TEST_F(CalibctlLossTest, TextHasThreeDigitsOfAChosenGamma) {
  const std::string path = Write("three.csv", "120,15,131\n95,12,70\n140,20,175\n");
  CalibctlRun run({"loss", "--normals", path, "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  const double gamma = run.json().at("condition").at("forecast").at("gamma");
  std::ostringstream three;
  three << std::setprecision(3) << gamma;
  EXPECT_GT(std::abs(std::stod(three.str()) - gamma), 1e-9);
  CalibctlRun text({"loss", "--normals", path});
  ASSERT_EQ(text.exit_code(), 0) << text.error();
  EXPECT_THAT(text.output(), HasSubstr("condition: forecast, gamma " + three.str() + "\n"));
  CalibctlRun given(
      {"loss", "--normals", path, "--form", "decision", "--outcome-kernel", "tanh:1234.5:10"});
  ASSERT_EQ(given.exit_code(), 0) << given.error();
  EXPECT_THAT(given.output(), HasSubstr("outcome kernel: tanh, threshold 1234.5, width 10\n"));
}

TEST_F(CalibctlLossTest, ReadsQuantiles) {
  const std::vector<double> values = {1, 3, -0.6, 1.2, 1.2, 1.7};
  const std::vector<double> outcomes = {0.3, -1.1, 2.4};
  const std::string path =
      Write("quantiles.csv", "low,high,outcome\n1,3,0.3\n-0.6,1.2,-1.1\n1.2,1.7,2.4\n");
  const std::vector<std::string> command = {"loss",    "--quantiles", path,  "--levels",
                                            "0.2,0.8", "--output",    "json"};
  const auto expect_value = [&](const std::vector<std::string>& more, Condition condition) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), more.begin(), more.end());
    CalibctlRun run(arguments);
    ASSERT_EQ(run.exit_code(), 0) << run.error();
    LossOptions options;
    options.gradient = false;
    options.outcome_kernel = LevelsKernel{{0.2, 0.8}};
    options.condition = std::move(condition);
    EXPECT_EQ(run.json().at("value"),
              ComputeLoss({ForecastKind::kQuantiles, values, 2, {}, outcomes}, options)->value);
  };
  expect_value({}, ForecastCondition());
  expect_value({"--form", "quantile"}, NoCondition());
  // Outcomes up to 1.5 have at most the probability .8 if the second quantile is at least 1.5.
  expect_value({"--form", "threshold", "--threshold", "1.5", "--threshold-alpha", "0.8"},
               GroupCondition{{1, 0, 1}});
  const auto fault = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Error(arguments, 2);
  };
  EXPECT_THAT(fault({"--form", "marginal"}), HasSubstr("are compared at their levels"));
  EXPECT_THAT(fault({"--form", "threshold", "--threshold", "1"}),
              HasSubstr("--threshold-alpha is 0.5, expected one of --levels"));
  EXPECT_THAT(fault({"--normals", path}), HasSubstr("give one of --normals"));
  EXPECT_THAT(fault({"--gradient", "g.npy"}), HasSubstr("expected none for quantiles"));
  EXPECT_THAT(Error({"loss", "--quantiles", path}, 2), HasSubstr("--levels: levels has 0 values"));
}

TEST_F(CalibctlLossTest, FormsByThresholdGroupAndFeatures) {
  const std::vector<double> values = {0.1, 0.5, -0.6, 1.2, 1.2, 0.7};
  const std::vector<double> outcomes = {0.3, -1.1, 2.4};
  const std::string path = Write("cases.csv",
                                 "mean,standard_deviation,x,region,z,outcome\n0.1,0.5,1,n,4,0.3\n"
                                 "-0.6,1.2,2,s,1,-1.1\n1.2,0.7,4,n,0,2.4\n");
  const auto expect_value = [&](const std::vector<std::string>& more, const LossOptions& options) {
    std::vector<std::string> arguments = {"loss", "--normals", path, "--output", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CalibctlRun run(arguments);
    ASSERT_EQ(run.exit_code(), 0) << run.error();
    EXPECT_EQ(run.json().at("value"),
              ComputeLoss({ForecastKind::kNormal, values, 2, {}, outcomes}, options)->value);
  };
  LossOptions options;
  options.gradient = false;
  options.condition = GroupCondition{{0, 1, 0}};
  expect_value({"--form", "group", "--group-column", "region"}, options);
  options.condition = FeatureCondition{{1, 4, 2, 1, 4, 0}, 0.5};
  options.outcome_kernel = TanhKernel{0.2, 0.5};
  expect_value({"--form", "individual", "--feature-column", "x,z", "--gamma", "0.5",
                "--outcome-kernel", "tanh:0.2:0.5"},
               options);
  // P(Y <= 0.4) is .73, .80 and .13.
  options.condition = GroupCondition{{1, 0, 1}};
  options.outcome_kernel = PitRbfKernel();
  expect_value({"--form", "threshold", "--threshold", "0.4", "--threshold-alpha", "0.75"}, options);
  EXPECT_THAT(
      Error({"loss", "--normals", path, "--form", "decision", "--outcome-kernel", "moments"}, 2),
      HasSubstr("'moments', expected rbf[:GAMMA], energy, pit_rbf[:GAMMA], pit_min, "
                "moments:CENTER:SCALE"));
  EXPECT_THAT(Error({"loss", "--normals", path, "--form", "local"}, 2),
              HasSubstr("--form local needs --feature-column"));
  EXPECT_THAT(Error({"loss", "--normals", path, "--form", "threshold"}, 2),
              HasSubstr("--form threshold needs --threshold"));
}

TEST_F(CalibctlLossTest, AConditionOnEqualForecastsIsSaidToHaveNoEffect) {
  CalibctlRun run({"loss", "--normals", Write("equal.csv", "1,2,3\n1,2,0\n")});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(),
              HasSubstr("  condition: forecast, without effect because all forecasts are equal\n"));
}

TEST_F(CalibctlLossTest, InvalidRowsOfLogitsAreLeftOut) {
  const std::string rows = "0.1,0.5,0\n-0.6,1.2,1\n";
  const auto loss = [&](const std::string& text, std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "loss", Write("logits.csv", text), "--logits", "--label-base",
        "0",    "--label-column",          "3",        "--output",
        "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 0) << run.error();
    return nlohmann::json::parse(run.output());
  };
  const nlohmann::json dropped = loss(rows + "NA,1,0\n1,inf,0\n1,2,\n", {"--drop-invalid"});
  EXPECT_EQ(dropped.at("fileRows").at("droppedRows"), "3");
  EXPECT_EQ(dropped.at("value"), loss(rows, {}).at("value"));
}

TEST_F(CalibctlLossTest, ErrorsNameTheFileAndTheOption) {
  const std::string plain = Write("plain.csv", "0.1,0.5,0.3\n-0.6,1.2,-1.1\n");
  const auto file_error = [&](const std::string& text) {
    return Error({"loss", "--normals", Write("bad.csv", text)}, 1);
  };
  EXPECT_THAT(file_error("1,2\n"), HasSubstr("bad.csv: has no outcomes: add a column"));
  EXPECT_THAT(file_error("mu,sd,y\n1,2,3\n"),
              HasSubstr("has no column named mean: the columns are \"mu\", \"sd\", \"y\""));
  EXPECT_THAT(file_error("mean:standard_deviation:outcome\n1:2:3\n"),
              HasSubstr("; if the columns are not separated by commas, use --delimiter"));
  EXPECT_THAT(file_error("1,2,3\n4,x,5\n"), HasSubstr("bad.csv line 2, column 2: \"x\" is not"));
  EXPECT_THAT(file_error("1,2,3\n4,5\n"), HasSubstr("the line has 2 columns, expected 3"));
  EXPECT_THAT(file_error("1,2,3\n4,-5,6\n"), HasSubstr("bad.csv line 2, standard_deviation is -5"));
  EXPECT_THAT(file_error("1,2,3\n"), HasSubstr("not enough data: 1 row"));
  EXPECT_THAT(Error({"loss", "--normals", "/nonexistent"}, 1), HasSubstr("cannot read"));
  EXPECT_THAT(Error({"loss", "--normals", Write("one.csv", "1,2,3\n"), "--biased"}, 1),
              HasSubstr("--outcome-kernel rbf:GAMMA cannot be chosen"));
  EXPECT_THAT(Error({"loss", "--samples", Write("draw.csv", "1,2\n")}, 1),
              HasSubstr("draw.csv: draws is 1, expected 2..1000"));
  const auto usage_error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"loss", "--normals", plain});
    return Error(arguments, 2);
  };
  EXPECT_THAT(usage_error({"--form", "canonical"}), HasSubstr("--form is canonical, expected"));
  EXPECT_THAT(usage_error({"--form", "decision"}), HasSubstr("needs --outcome-kernel"));
  EXPECT_THAT(usage_error({"--outcome-kernel", "pit_min"}),
              HasSubstr("expected one of rbf, energy for --form distribution"));
  EXPECT_THAT(usage_error({"--outcome-kernel", "rbf:x"}), HasSubstr("--outcome-kernel is 'rbf:x'"));
  EXPECT_THAT(usage_error({"--gamma", "-1"}), HasSubstr("--gamma is -1"));
  EXPECT_THAT(usage_error({"--gamma", ""}), HasSubstr("--gamma is empty, expected a number"));
  EXPECT_THAT(usage_error({"--penalty-weight", "-1"}), HasSubstr("--penalty-weight is -1"));
  EXPECT_THAT(usage_error({"--logits"}), HasSubstr("--normals excludes --logits"));
  EXPECT_THAT(usage_error({"--bandwidth", "1"}), HasSubstr("--normals excludes --bandwidth"));
  EXPECT_THAT(usage_error({"--samples", plain}),
              HasSubstr("give one of --normals, --samples and --quantiles"));
  EXPECT_THAT(Error({"loss"}, 2), HasSubstr("PREDICTIONS is missing"));
  EXPECT_THAT(Error({"loss", plain, plain, "--gamma", "1"}, 2), HasSubstr("--bandwidth"));
}

}  // namespace
}  // namespace calibd::testing
