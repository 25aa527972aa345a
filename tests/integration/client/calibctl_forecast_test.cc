// calibctl with models that forecast a number, against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/protobuf/util/time_util.h"
#include "integration/client/calibctl_served.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CalibctlForecastTest : public CalibctlServedTest {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  // An NPY file of n x m doubles.
  std::string WriteArray(const std::string& name, const std::vector<double>& values,
                         std::size_t columns) {
    std::string header = "{'descr': '<f8', 'fortran_order': False, 'shape': (" +
                         std::to_string(values.size() / columns) + ", " + std::to_string(columns) +
                         "), }";
    header.resize(117, ' ');
    std::string bytes = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n";
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    return Write(name, bytes);
  }

  std::string ErrorOf(const std::vector<std::string>& arguments) {
    const auto run = Run(arguments);
    EXPECT_NE(run->exit_code(), 0);
    return run->error();
  }

  std::string OutputOf(const std::vector<std::string>& arguments) {
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->output();
  }

  TemporaryFolder folder_;
};

TEST_F(CalibctlForecastTest, FromTheDeclarationToTheVerdict) {
  const nlohmann::json model =
      RunJson({"model", "create", "demand", "--forecast", "normal", "--group-tag", "region"});
  EXPECT_TRUE(model.at("forecast").contains("normal"));
  EXPECT_FALSE(model.contains("classes"));
  EXPECT_THAT(OutputOf({"model", "show", "demand"}),
              AllOf(HasSubstr("forecast            normal\n"), Not(HasSubstr("kernel"))));
  EXPECT_THAT(OutputOf({"model", "list"}), HasSubstr("normal"));
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::string csv = "day,region,standard_deviation,outcome,mean\n";
  for (int i = 0; i < 3000; ++i) {
    csv += std::to_string(i) + (i % 2 == 0 ? ",north,0.5," : ",south,0.5,") +
           std::to_string(5 + normal(random)) + ",5\n";
  }
  const std::string path = Write("demand.csv", csv);
  EXPECT_EQ(RunJson({"send", "demand", path, "--group-column", "region"}).at("acceptedRows"),
            "3000");
  const std::string shown = Unwrapped(OutputOf({"show", "demand"}));
  // 1.645 x 0.5 standard deviations cover 58.9 %.
  EXPECT_THAT(shown,
              AllOf(HasSubstr("demand: OVER_LIMIT"), HasSubstr("the 90 % intervals cover 5"),
                    HasSubstr("too narrow"), HasSubstr("group"),
                    HasSubstr("repair `calibctl recalibrate --model demand` looks for a map"),
                    Not(HasSubstr("confident"))));
  EXPECT_THAT(OutputOf({"show", "demand", "--verbose"}),
              AllOf(HasSubstr("location_scale"), HasSubstr("\nfitted mean (0 if calibrated) "),
                    HasSubstr("CRPS  promised - covered")));
  EXPECT_THAT(OutputOf({"list"}), HasSubstr("off by"));
  EXPECT_THAT(OutputOf({"history", "demand", "--verbose"}),
              AllOf(HasSubstr("CRPS"), HasSubstr("coverage error"), HasSubstr("3000")));
  const nlohmann::json json = RunJson({"show", "demand"});
  EXPECT_EQ(json.at("forecast").at("observations"), "3000");
  EXPECT_EQ(json.at("error").at("sinceStart").at("centralCoverage").size(), 3U);
  EXPECT_EQ(json.at("verdict").at("whereabouts").at("cells").size(), 24U);
  EXPECT_FALSE(json.contains("scores"));
  EXPECT_THAT(OutputOf({"test", "demand", "--seed", "1"}),
              AllOf(HasSubstr("models/demand: 3000 observations (numbers 1 to 3000), form "
                              "distribution\n"),
                    HasSubstr("estimator  squared discrepancy"),
                    HasSubstr("simulation test: p = 0.001 (one look)"), HasSubstr("; seed 1\n")));
  EXPECT_THAT(ErrorOf({"test", "demand", "--lens", "top_label"}),
              HasSubstr("lens is set, but the model forecasts a number"));
  EXPECT_THAT(ErrorOf({"estimate", "--model", "demand"}),
              AllOf(HasSubstr("calibctl: an estimate needs a model of classes"),
                    HasSubstr("calibctl evaluate-forecasts --model")));
}

TEST_F(CalibctlForecastTest, AMapOfLevelsRepairsForecasts) {
  RunJson({"model", "create", "narrow", "--forecast", "normal"});
  RunJson({"model", "create", "level", "--forecast", "quantiles", "--levels", ".5"});
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::string csv = "mean,standard_deviation,outcome\n";
  for (int i = 0; i < 3000; ++i) {
    const double mean = 10 * normal(random);
    csv += absl::StrFormat("%.17g,0.5,%.17g\n", mean, mean + normal(random));
  }
  const std::string path = Write("narrow.csv", csv);
  RunJson({"send", "narrow", path});
  // A file and a model have the same answer.
  const std::string map = (folder_.path() / "map.json").string();
  nlohmann::json model = RunJson({"recalibrate", "--model", "narrow", "--export", map});
  nlohmann::json file = RunJson({"recalibrate", "--normals", path});
  model.erase("computeTime");
  file.erase("fileRows");
  EXPECT_EQ(model, file);
  EXPECT_EQ(model.at("helps"), true);
  EXPECT_EQ(model.at("map").at("kind"), "isotonic");
  EXPECT_LT(model.at("errorAfter").at("upper"), model.at("errorBefore").at("lower"));
  EXPECT_LT(model.at("pinballLossAfter"), model.at("pinballLossBefore"));
  EXPECT_THAT(OutputOf({"recalibrate", "--normals", path}),
              AllOf(StartsWith("a map of kind isotonic would take the coverage error from "),
                    HasSubstr("\n  twice the pinball loss "), HasSubstr("\n  coverage error ")));
  EXPECT_THAT(Unwrapped(OutputOf({"show", "narrow"})),
              HasSubstr("repair a map of kind isotonic would take the coverage error from "));
  EXPECT_FALSE(RunJson({"show", "narrow"}).at("recalibration").at("map").contains("levelCurve"));
  // The repaired forecasts keep their promises.
  const std::string repaired = (folder_.path() / "repaired.csv").string();
  OutputOf({"recalibrate", "--apply", map, "--normals", path, "-o", repaired});
  const std::string levels =
      "0.05,0.1,0.15,0.2,0.25,0.3,0.35,0.4,0.45,0.5,0.55,0.6,0.65,0.7,0.75,0.8,0.85,0.9,0.95";
  const nlohmann::json evaluated = RunJson(
      {"evaluate-forecasts", "--quantiles", repaired, "--levels", levels, "--replicates", "99"});
  EXPECT_LT(evaluated.at("coverageError"), 0.1);
  // What has no map.
  EXPECT_THAT(ErrorOf({"recalibrate", "--model", "level"}),
              HasSubstr("a recalibration needs quantiles of two or more levels"));
  EXPECT_THAT(ErrorOf({"recalibrate", "--normals", path, "--label-base", "0"}),
              HasSubstr("forecasts of a number exclude --label-base"));
  EXPECT_THAT(ErrorOf({"recalibrate", "--apply", map, path}),
              HasSubstr("the map is for forecasts of a number"));
}

TEST_F(CalibctlForecastTest, ARecentChangeIsShownBesideTheWholeHistory) {
  RunJson({"model", "create", "prices", "--forecast", "normal"});
  RunJson({"simulate", "prices", "--n", "21500", "--seed", "8", "--scale", "1.6", "--drift-at",
           "20001"});
  // 1.645 / 1.6 standard deviations cover 69.6 %.
  const std::string shown = OutputOf({"show", "prices"});
  EXPECT_THAT(
      shown,
      ::testing::MatchesRegex(
          "verdict   prices: OVER_LIMIT, alarm on (.|\n)*how bad   off by (.|\n)*now       over "
          "the "
          "newest "
          "1.*rows, off by (.|\n)*cover\\s+(6[5-9]|7[0-4])(.|\n)*: too\\s+narrow(.|\n)*changed   "
          "yes, between\\s+rows\\s+(19|20)(.|\n)*"));
  EXPECT_THAT(
      OutputOf({"show", "prices", "--verbose"}),
      ::testing::ContainsRegex("\nsince row .*50 % intervals cover %(.|\n)*\n(19|20)[0-9]+ +1"));
}

// Bounds of estimates from n rows: 5 standard errors of means, shares and standard deviations; and
// of half the sum of |share - probability| over K cells, its largest mean sqrt(K / n) / 2 and
// sqrt(ln(10^6) / (2 n)) more, which McDiarmid's inequality exceeds with a probability of 10^-6.
TEST_F(CalibctlForecastTest, ShowReportsTheSimulatedErrors) {
  RunJson({"model", "create", "demand", "--forecast", "normal"});
  const nlohmann::json sent = RunJson(
      {"simulate", "demand", "--n", "20000", "--seed", "4", "--shift", "-0.3", "--scale", "1.4"});
  EXPECT_EQ(sent.at("acceptedRows"), "20000");
  const double n = 20000;
  const nlohmann::json error = RunJson({"show", "demand"}).at("error").at("sinceStart");
  EXPECT_NEAR(error.at("direction").at("residualMean").get<double>(), -0.3, 5 * 1.4 / std::sqrt(n));
  EXPECT_NEAR(error.at("direction").at("residualStandardDeviation").get<double>(), 1.4,
              5 * 1.4 / std::sqrt(2 * n));
  const nlohmann::json& exact = sent.at("generator");
  // Phi((1.645 + .3) / 1.4) - Phi((-1.645 + .3) / 1.4).
  EXPECT_NEAR(exact.at("centralCoverage").at(2).at("coverage").get<double>(), 0.7492, 1e-4);
  for (std::size_t i = 0; i < 3; ++i) {
    const double expected = exact.at("centralCoverage").at(i).at("coverage");
    EXPECT_NEAR(error.at("centralCoverage").at(i).at("coverage").get<double>(), expected,
                5 * std::sqrt(expected * (1 - expected) / n));
  }
  const double bound = std::sqrt(20 / n) / 2 + std::sqrt(std::log(1e6) / (2 * n));
  EXPECT_NEAR(error.at("coverage").at("estimate").get<double>(),
              exact.at("coverageError").get<double>(), bound);
  EXPECT_EQ(exact.at("coverageError"), exact.at("meanCoverageError"));
}

TEST_F(CalibctlForecastTest, SimulatesADriftOfQuantiles) {
  RunJson({"model", "create", "q", "--forecast", "quantiles", "--levels", ".05,.25,.5,.75,.95"});
  const nlohmann::json sent = RunJson(
      {"simulate", "q", "--n", "12000", "--seed", "5", "--scale", "2", "--drift-at", "10001"});
  const nlohmann::json& exact = sent.at("generator");
  const double coverage_error = exact.at("coverageError");
  EXPECT_NEAR(exact.at("meanCoverageError").get<double>(), coverage_error / 6, 1e-12);
  const nlohmann::json error = RunJson({"show", "q"}).at("error");
  const auto bound = [](double n) {
    return std::sqrt(6 / n) / 2 + std::sqrt(std::log(1e6) / (2 * n));
  };
  EXPECT_NEAR(error.at("sinceStart").at("coverage").at("estimate").get<double>(),
              coverage_error / 6, bound(12000));
  EXPECT_EQ(error.at("isRecent"), true);
  // The newest stretch begins with observation 10241.
  const nlohmann::json& newest = error.at("newest");
  EXPECT_EQ(Integer(newest.at("firstObservation")), 10241);
  const auto n = static_cast<double>(Integer(newest.at("observations")));
  EXPECT_EQ(n, 12000 - 10240);
  EXPECT_NEAR(newest.at("coverage").at("estimate").get<double>(), coverage_error, bound(n));
  EXPECT_LE(newest.at("coverage").at("lower").get<double>(), coverage_error);
  EXPECT_GE(newest.at("coverage").at("upper").get<double>(), coverage_error);
}

TEST_F(CalibctlForecastTest, SimulatesSamples) {
  RunJson({"model", "create", "s", "--forecast", "samples", "--draws", "19"});
  const nlohmann::json sent =
      RunJson({"simulate", "s", "--n", "20000", "--seed", "6", "--scale", "0.7"});
  EXPECT_FALSE(sent.at("generator").contains("coverageError"));
  // Inside the 90 % interval: neither below nor above all 19 draws, given the outcome t.
  double inside = 0;
  for (int i = -800; i <= 800; ++i) {
    const double z = i / 100.0;
    const double below = std::erfc(-0.7 * z / std::sqrt(2.0)) / 2;
    inside += std::exp(-z * z / 2) / std::sqrt(2 * M_PI) / 100 *
              (1 - std::pow(below, 19) - std::pow(1 - below, 19));
  }
  const nlohmann::json shown = RunJson({"show", "s"}).at("error").at("sinceStart");
  EXPECT_NEAR(shown.at("centralCoverage").at(2).at("coverage").get<double>(), inside,
              5 * std::sqrt(inside * (1 - inside) / 20000));
  EXPECT_THAT(OutputOf({"simulate", "s", "--n", "500", "--seed", "7"}),
              HasSubstr("The generator's forecasts are calibrated."));
}

TEST_F(CalibctlForecastTest, SimulateSaysWhichOptionsAreForWhichModels) {
  EXPECT_THAT(ErrorOf({"simulate", "missing", "--n", "1", "--scale", "2"}),
              HasSubstr("`calibctl model create missing --forecast normal`"));
  RunJson({"model", "create", "n", "--forecast", "normal"});
  EXPECT_THAT(ErrorOf({"simulate", "n", "--n", "1", "--generator", "M2"}),
              HasSubstr("--generator is for models of classes, and models/n forecasts a number"));
  EXPECT_THAT(ErrorOf({"simulate", "n", "--n", "1", "--scale", "2", "--pi", "0.5"}),
              HasSubstr("--pi is for models of classes, --scale for models that forecast"));
  EXPECT_THAT(ErrorOf({"simulate", "n", "--n", "1", "--scale", "0"}),
              HasSubstr("scale is 0, expected a number in [0.01, 100]"));
  RunJson({"model", "create", "f", "--forecast", "normal", "--feature-names", "age"});
  EXPECT_THAT(ErrorOf({"simulate", "f", "--n", "1"}),
              HasSubstr("models/f declares features, which simulated forecasts do not have"));
  RunJson({"simulate", "classes", "--n", "10"});
  EXPECT_THAT(ErrorOf({"simulate", "classes", "--n", "1", "--drift-at", "2"}),
              HasSubstr("--drift-at is for models that forecast a number, and models/classes"));
}

TEST_F(CalibctlForecastTest, ADecisionIsComparedWithItsPromise) {
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "normal", "--miss-cost", "3"}),
              HasSubstr("--miss-cost requires --decision-threshold"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "normal", "--decision-threshold", "6",
                       "--miss-cost", "0"}),
              HasSubstr("--miss-cost: is 0, expected more than 0"));
  RunJson({"model", "create", "stock", "--forecast", "normal", "--decision-threshold", "5"});
  RunJson({"model", "create", "costs", "--forecast", "normal", "--decision-threshold", "5",
           "--false-alarm-cost", "2", "--miss-cost", "30"});
  EXPECT_THAT(OutputOf({"model", "show", "costs"}),
              HasSubstr("at 5; costs of a false alarm 2, of a miss 30\n"));
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  std::string csv = "mean,standard_deviation,outcome\n";
  for (int i = 0; i < 3000; ++i) {
    const double mean = 5 + normal(random);
    csv += std::to_string(mean) + ",0.5," + std::to_string(mean + normal(random)) + "\n";
  }
  const std::string path = Write("stock.csv", csv);
  for (const char* const model : {"stock", "costs"}) RunJson({"send", model, path});
  // The side of the threshold is wrong with probability atan(s) / pi: 1/4, and .148 for s = 1/2.
  EXPECT_THAT(OutputOf({"show", "stock"}),
              AllOf(HasSubstr("decision  at 5: 2"), HasSubstr(" of 3000 decisions were wrong"),
                    HasSubstr("forecasts promise 1"), HasSubstr("(+"), Not(HasSubstr("chance"))));
  EXPECT_THAT(OutputOf({"history", "stock"}), HasSubstr("Decisions (at 5): how many more"));
  EXPECT_THAT(OutputOf({"show", "costs"}), HasSubstr("decision  at 5: 3000 decisions cost "));
  // Evaluate has the decision of the model, and its costs.
  const nlohmann::json watched = RunJson({"show", "costs"}).at("watch").at("decision");
  const std::vector<std::string> evaluate = {
      "evaluate-forecasts", "--model", "costs", "--seed", "1", "--replicates", "99"};
  const nlohmann::json evaluated = RunJson(evaluate);
  const nlohmann::json& decision = evaluated.at("decision");
  EXPECT_EQ(decision.at("threshold"), 5);
  EXPECT_EQ(decision.at("falseAlarmCost"), 2);
  EXPECT_EQ(decision.at("missCost"), 30);
  // These are the same sums in another order.
  EXPECT_NEAR(decision.at("realisedLoss"), watched.at("realisedLoss"), 1e-9);
  EXPECT_NEAR(decision.at("expectedLoss"), watched.at("expectedLoss"), 1e-9);
  EXPECT_EQ(evaluated.at("discrepancies").size(), 4U);
  EXPECT_THAT(OutputOf(evaluate), HasSubstr("(a false alarm 2, a miss 30)\n"));
  std::vector<std::string> other = evaluate;
  other.insert(other.end(), {"--threshold", "6"});
  EXPECT_THAT(OutputOf(other), AllOf(HasSubstr(" of the decisions were wrong"),
                                     HasSubstr("decision calibration error "),
                                     HasSubstr("* 64 Fourier frequencies, with which the test is "
                                               "exact too. Over all pairs, MMD^2 is: ")));
}

TEST_F(CalibctlForecastTest, AMissingOutcomeIsDroppedOnRequest) {
  RunJson({"model", "create", "gaps", "--forecast", "normal"});
  const std::string path =
      Write("gaps.csv", "mean,standard_deviation,outcome\n1,1,\n2,1,2\n,1,3\n");
  EXPECT_THAT(ErrorOf({"send", "gaps", path}),
              HasSubstr("line 2, column 3 (\"outcome\"): the value is missing"));
  const nlohmann::json sent = RunJson({"send", "gaps", path, "--drop-invalid"});
  EXPECT_EQ(sent.at("acceptedRows"), "1");
  EXPECT_EQ(sent.at("droppedRows"), "2");
}

TEST_F(CalibctlForecastTest, TheBiasAndTheCellsOfQuantilesAreShown) {
  RunJson({"model", "create", "q", "--forecast", "quantiles", "--levels", ".1,.5,.9"});
  EXPECT_THAT(OutputOf({"show", "q", "--bins"}), HasSubstr("no labelled row yet\n"));
  RunJson({"simulate", "q", "--n", "3000", "--seed", "8", "--shift", "0.5"});
  EXPECT_THAT(OutputOf({"show", "q", "--bins"}), HasSubstr("90 % to 100 %"));
  const nlohmann::json history = RunJson({"history", "q"});
  // Five standard errors, which are at most 1.5 / sqrt(3000).
  EXPECT_NEAR(history.at("total").at("direction").at("shift"), 0.5, 0.14);
  EXPECT_THAT(OutputOf({"history", "q", "--csv"}), HasSubstr("residual_standard_deviation,bias,"));
}

TEST_F(CalibctlForecastTest, ArraysAndOutcomesInOtherFiles) {
  RunJson({"model", "create", "q", "--forecast", "quantiles", "--levels", ".1,.5,.9"});
  EXPECT_EQ(
      RunJson({"send", "q", WriteArray("q.npy", {1, 2, 3, 2, 4, 5, 6, 5}, 4)}).at("acceptedRows"),
      "2");
  EXPECT_EQ(RunJson({"send", "q", WriteArray("f.npy", {1, 2, 3, 4, 5, 6}, 3),
                     Write("y.csv", "outcome\n2\n7\n")})
                .at("acceptedRows"),
            "2");
  EXPECT_THAT(OutputOf({"model", "show", "q"}), HasSubstr("quantiles at 0.1, 0.5, 0.9"));
  RunJson({"model", "create", "s", "--forecast", "samples", "--draws", "3"});
  EXPECT_EQ(RunJson({"send", "s", Write("s.csv", "1,2,3,2.5\n4,5,6,5.5\n")}).at("acceptedRows"),
            "2");
  EXPECT_EQ(RunJson({"send", "s", Write("s.jsonl", R"({"a":1,"b":2,"c":3,"outcome":0})")})
                .at("acceptedRows"),
            "1");
}

TEST_F(CalibctlForecastTest, PastForecastsCountAtTheirTime) {
  using google::protobuf::util::TimeUtil;
  RunJson({"model", "create", "past", "--forecast", "normal"});
  const std::int64_t now = TimeUtil::GetCurrentTime().seconds();
  std::string rows = "mean,standard_deviation,outcome,time\n";
  for (int day = 5; day > 0; --day) {
    const std::string time =
        TimeUtil::ToString(TimeUtil::SecondsToTimestamp(now - day * std::int64_t{86400}));
    rows += "5,1,5.5," + time + "\n5,1,4.5," + time + "\n";
  }
  EXPECT_EQ(RunJson({"send", "past", Write("past.csv", rows)}).at("acceptedRows"), "10");
  const nlohmann::json history = RunJson({"history", "past", "--from", "7d"});
  const nlohmann::json& buckets = history.at("buckets");
  ASSERT_EQ(buckets.size(), 5U);
  for (const auto& bucket : buckets) EXPECT_EQ(bucket.at("observations"), "2");
  const std::string yesterday =
      TimeUtil::ToString(TimeUtil::SecondsToTimestamp(now - 86400)).substr(0, 10);
  const std::string days = "mean,standard_deviation,outcome,time\n5,1,5.5," + yesterday + "\n";
  EXPECT_EQ(RunJson({"send", "past", Write("days.csv", days)}).at("acceptedRows"), "1")
      << "a day begins in UTC";
  const std::string date =
      "mean,standard_deviation,outcome,day\n5,1,5.5,2016-11-01T12:00:00Z\n"
      "5,1,5.5,Monday\n";
  const std::string old = Write("old.csv", date);
  EXPECT_THAT(ErrorOf({"send", "past", old, "--time-column", "day"}),
              AllOf(HasSubstr("old.csv line 3, column 4 (\"day\"): "), HasSubstr("Monday")));
  EXPECT_THAT(ErrorOf({"send", "past", old, "--time-column", "day", "--drop-invalid"}),
              HasSubstr("no row was counted: all 2 rows are invalid"));
  EXPECT_THAT(ErrorOf({"send", "past", WriteArray("past.npy", {5, 1, 5.5, 1.7e9}, 4),
                       "--time-column", "4"}),
              HasSubstr("--group-column are for CSV and JSON Lines"));
}

TEST_F(CalibctlForecastTest, QuantilesAreFoundByTheirLevels) {
  RunJson({"model", "create", "levels", "--forecast", "quantiles", "--levels", ".1,.5,.9"});
  // In the order of the columns, they decrease.
  for (const char* const header : {"outcome,q0.9,q0.5,q0.1,note", "outcome,p90,p50,p10,note"}) {
    const std::string file = Write("q.csv", absl::StrCat(header, "\n5,9,5,1,text\n"));
    EXPECT_EQ(RunJson({"send", "levels", file}).at("acceptedRows"), "1") << header;
  }
  EXPECT_THAT(ErrorOf({"send", "levels", Write("q.csv", "outcome,c,b,a\n5,9,5,1\n")}),
              AllOf(HasSubstr("line 2, column 3 (\"b\") is 5, expected at least 9, the quantile "
                              "before it"),
                    HasSubstr("sort each row")));
}

TEST_F(CalibctlForecastTest, MissingOutcomesAreDroppedAndCounted) {
  const std::string rows =
      "mean,standard_deviation,outcome\n10,2,9.1\n11,2,NA\n12,2,12.4\n10,2,\n11,2,None\n12,2,nan\n";
  RunJson({"model", "create", "gappy", "--forecast", "normal"});
  const nlohmann::json sent = RunJson({"send", "gappy", Write("g.csv", rows), "--drop-invalid"});
  EXPECT_EQ(sent.at("acceptedRows"), "2");
  EXPECT_EQ(sent.at("droppedRows"), "4");
}

TEST_F(CalibctlForecastTest, OutcomesCanComeLater) {
  RunJson({"model", "create", "d", "--forecast", "normal", "--label-grace", "1h"});
  const std::string forecasts = Write("f.csv", "id,mean,standard_deviation\na,1,2\nb,2,3\nc,3,4\n");
  EXPECT_EQ(RunJson({"send", "d", forecasts}).at("acceptedRows"), "3");
  const nlohmann::json labelled =
      RunJson({"label", "d", Write("o.csv", "outcome,id\n1.5,a\n2.5,c\n9,unknown\n")});
  EXPECT_EQ(labelled.at("matched"), "2");
  EXPECT_EQ(labelled.at("unknown"), "0");
  EXPECT_EQ(labelled.at("waiting"), "1");
  EXPECT_EQ(RunJson({"show", "d"}).at("labelArrivals").at("pendingLabelled"), "2");
}

TEST_F(CalibctlForecastTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(ErrorOf({"model", "create", "x"}), HasSubstr("--forecast normal"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "quantiles"}), HasSubstr("--levels"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "samples"}), HasSubstr("--draws"));
  // The value of an unset variable of a script.
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "quantiles", "--levels", ""}),
              HasSubstr("--levels is empty, expected a number"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "normal", "--decision-threshold", ""}),
              HasSubstr("--decision-threshold is empty, expected a number"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "normal", "--classes", "3"}),
              HasSubstr("--classes is for models of classes"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "quantiles", "--levels", ".5,.1"}),
              HasSubstr("levels[1]"));
  RunJson({"model", "create", "n", "--forecast", "normal"});
  const std::string header = "mean,standard_deviation,outcome\n";
  EXPECT_THAT(
      ErrorOf({"send", "n", Write("outcome.csv", header + "1,1,1\n1,1,nan\n")}),
      HasSubstr(
          "outcome.csv line 3, column 3 (\"outcome\"): the value is missing, expected a number"));
  EXPECT_THAT(ErrorOf({"send", "n", Write("a.csv", header + "1,1,1\n1,-2,0\n")}),
              AllOf(HasSubstr("a.csv line 3"), HasSubstr("is -2")));
  EXPECT_THAT(ErrorOf({"send", "n", Write("b.csv", header + "1,x,1\n")}),
              HasSubstr("b.csv line 2, column 2 (\"standard_deviation\"): \"x\" is not a number"));
  EXPECT_THAT(
      ErrorOf({"send", "n", Write("empty.csv", header + "1,,1\n")}),
      HasSubstr("empty.csv line 2, column 2 (\"standard_deviation\"): the value is missing"));
  EXPECT_THAT(OutputOf({"send", "n", Write("one.csv", header + "1,1,1\n")}),
              HasSubstr("n: 1 row accepted"));
  EXPECT_THAT(ErrorOf({"send", "n", Write("c.csv", "mean,outcome\n1,1\n")}),
              HasSubstr("standard_deviation"));
  EXPECT_THAT(ErrorOf({"send", "n", Write("d.csv", "mean,standard_deviation\n1,1\n")}),
              HasSubstr("has no outcomes"));
  EXPECT_THAT(ErrorOf({"send", "n", Write("e.csv", header + "1,1,1\n"), "--logits"}),
              HasSubstr("--logits is for models of classes"));
  EXPECT_THAT(ErrorOf({"send", "n", Write("f.csv", "id," + header + "a,1,1,1\n")}),
              HasSubstr("no label grace"));
  // Rows that cannot be counted are left out if wanted.
  EXPECT_EQ(RunJson({"send", "n", Write("g.csv", header + "1,1,1\n1,-2,0\n"), "--drop-invalid"})
                .at("droppedRows"),
            "1");
}

}  // namespace
}  // namespace calibd::testing
