// calibctl with models that forecast a number, against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "integration/client/calibctl_served.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_EQ(model.at("class_count"), 0);
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
  EXPECT_EQ(RunJson({"send", "demand", path, "--group-column", "region"}).at("accepted_rows"),
            3000);
  const std::string shown = OutputOf({"show", "demand"});
  // 1.645 x 0.5 standard deviations cover 58.9 %.
  EXPECT_THAT(shown, AllOf(HasSubstr("demand: OVER_LIMIT"), HasSubstr("the 90 % intervals cover 5"),
                           HasSubstr("too narrow"), HasSubstr("group"),
                           Not(HasSubstr("recalibrate")), Not(HasSubstr("confident"))));
  EXPECT_THAT(OutputOf({"show", "demand", "--verbose"}),
              AllOf(HasSubstr("The intervals are too narrow"), HasSubstr("location_scale"),
                    HasSubstr("standard deviation 2,"), HasSubstr("promised - covered")));
  EXPECT_THAT(OutputOf({"list"}), HasSubstr("off by"));
  EXPECT_THAT(OutputOf({"history", "demand", "--verbose"}),
              AllOf(HasSubstr("CRPS"), HasSubstr("coverage error"), HasSubstr("3000")));
  const nlohmann::json json = RunJson({"show", "demand"});
  EXPECT_EQ(json.at("forecast").at("observations"), 3000);
  EXPECT_EQ(json.at("error").at("since_start").at("central_coverage").size(), 3U);
  EXPECT_EQ(json.at("verdict").at("whereabouts").at("cells").size(), 24U);
  EXPECT_TRUE(json.at("scores").is_null());
  EXPECT_THAT(ErrorOf({"recalibrate", "--model", "demand"}), HasSubstr("needs a model of classes"));
  EXPECT_THAT(ErrorOf({"test", "demand"}), HasSubstr("calibctl show"));
}

TEST_F(CalibctlForecastTest, ARecentChangeIsShownBesideTheWholeHistory) {
  RunJson({"model", "create", "prices", "--forecast", "normal"});
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  std::string csv = "mean,standard_deviation,outcome\n";
  for (int i = 0; i < 21500; ++i) {
    csv += "0,1," + std::to_string((i < 20000 ? 1 : 1.6) * normal(random)) + "\n";
  }
  RunJson({"send", "prices", Write("prices.csv", csv)});
  // 1.645 / 1.6 standard deviations cover 69.6 %.
  const std::string shown = OutputOf({"show", "prices"});
  EXPECT_THAT(
      shown,
      ::testing::MatchesRegex(
          "verdict   prices: OVER_LIMIT .recent.(.|\n)*; the 90 % intervals\\s+cover "
          "(89|88)(.|\n)*the\\s+newest\\s+1.*rows:\\s+off\\s+by(.|\n)*cover\\s+(69|7.)(.|\n)*"
          "narrow(.|\n)*changed   yes, at about row (19|20)(.|\n)*"));
  EXPECT_THAT(OutputOf({"show", "prices", "--verbose"}),
              AllOf(HasSubstr("Recently: the 1"), HasSubstr("the 50 % intervals cover 3")));
}

TEST_F(CalibctlForecastTest, ADecisionIsComparedWithItsPromise) {
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "normal", "--miss-cost", "3"}),
              HasSubstr("--miss-cost requires --decision-threshold"));
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
              AllOf(HasSubstr("decision  at 5: 2"), HasSubstr("the forecasts promise 1"),
                    HasSubstr("points (+"), Not(HasSubstr("chance"))));
  EXPECT_THAT(OutputOf({"show", "costs"}), HasSubstr("decision  at 5: they cost "));
}

TEST_F(CalibctlForecastTest, ArraysAndOutcomesInOtherFiles) {
  RunJson({"model", "create", "q", "--forecast", "quantiles", "--levels", ".1,.5,.9"});
  EXPECT_EQ(
      RunJson({"send", "q", WriteArray("q.npy", {1, 2, 3, 2, 4, 5, 6, 5}, 4)}).at("accepted_rows"),
      2);
  EXPECT_EQ(RunJson({"send", "q", WriteArray("f.npy", {1, 2, 3, 4, 5, 6}, 3),
                     Write("y.csv", "outcome\n2\n7\n")})
                .at("accepted_rows"),
            2);
  EXPECT_THAT(OutputOf({"model", "show", "q"}), HasSubstr("quantiles at 0.1, 0.5, 0.9"));
  RunJson({"model", "create", "s", "--forecast", "samples", "--draws", "3"});
  EXPECT_EQ(RunJson({"send", "s", Write("s.csv", "1,2,3,2.5\n4,5,6,5.5\n")}).at("accepted_rows"),
            2);
  EXPECT_EQ(RunJson({"send", "s", Write("s.jsonl", R"({"a":1,"b":2,"c":3,"outcome":0})")})
                .at("accepted_rows"),
            1);
}

TEST_F(CalibctlForecastTest, OutcomesCanComeLater) {
  RunJson({"model", "create", "d", "--forecast", "normal", "--label-grace", "1h"});
  const std::string forecasts = Write("f.csv", "id,mean,standard_deviation\na,1,2\nb,2,3\nc,3,4\n");
  EXPECT_EQ(RunJson({"send", "d", forecasts}).at("accepted_rows"), 3);
  const nlohmann::json labelled =
      RunJson({"label", "d", Write("o.csv", "outcome,id\n1.5,a\n2.5,c\n9,unknown\n")});
  EXPECT_EQ(labelled.at("matched"), 2);
  EXPECT_EQ(labelled.at("unknown"), 1);
  EXPECT_EQ(RunJson({"show", "d"}).at("label_coverage").at("pending_labelled"), 2);
}

TEST_F(CalibctlForecastTest, ErrorsSayWhatToDo) {
  EXPECT_THAT(ErrorOf({"model", "create", "x"}), HasSubstr("--forecast normal"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "quantiles"}), HasSubstr("--levels"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "samples"}), HasSubstr("--draws"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "normal", "--classes", "3"}),
              HasSubstr("--classes is for models of classes"));
  EXPECT_THAT(ErrorOf({"model", "create", "x", "--forecast", "quantiles", "--levels", ".5,.1"}),
              HasSubstr("levels[1]"));
  RunJson({"model", "create", "n", "--forecast", "normal"});
  const std::string header = "mean,standard_deviation,outcome\n";
  EXPECT_THAT(ErrorOf({"send", "n", Write("a.csv", header + "1,1,1\n1,-2,0\n")}),
              AllOf(HasSubstr("a.csv line 3"), HasSubstr("is -2")));
  EXPECT_THAT(ErrorOf({"send", "n", Write("b.csv", header + "1,x,1\n")}),
              HasSubstr("b.csv line 2, column 2: \"x\" is not a number"));
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
                .at("dropped_rows"),
            1);
}

}  // namespace
}  // namespace calibd::testing
