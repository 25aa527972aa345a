#include "client/cli/files/forecast_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/client/prediction_files.h"

namespace calibd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ForecastFileTest : public PredictionFiles {
 protected:
  absl::StatusOr<Table> Read(const std::string& text, const std::vector<double>& levels) {
    v1::Forecast forecast;
    if (levels.empty()) {
      forecast.mutable_samples();
    } else {
      forecast.mutable_quantiles()->mutable_levels()->Add(levels.begin(), levels.end());
    }
    InputOptions options;
    options.predictions = Write("f.csv", text);
    return ReadForecasts(options, forecast);
  }

  std::string Fault(const std::string& text, const std::vector<double>& levels) {
    return std::string(Read(text, levels).status().message());
  }
};

TEST_F(ForecastFileTest, RefusesQuantilesWithNamesOfOtherLevels) {
  EXPECT_THAT(
      Fault("q0.05,q0.5,q0.95,outcome\n1,2,3,2\n", {0.1, 0.5, 0.9}),
      HasSubstr("f.csv: the columns \"q0.05\", \"q0.5\", \"q0.95\" are named after other "
                "levels than the forecast has: the levels are 0.1,0.5,0.9, and those of the "
                "names 0.05,0.5,0.95"));
  EXPECT_THAT(Fault("p5,p95,outcome\n1,3,2\n", {0.1, 0.9}),
              HasSubstr("those of the names 0.05,0.95"));
  EXPECT_THAT(Fault("q0.1,q0.5,q0.9,outcome\n3,2,1,2\n", {0.1, 0.5}),
              HasSubstr("has 3 columns of quantiles, \"q0.1\", \"q0.5\", \"q0.9\", but there are 2 "
                        "levels: 0.1,0.5; leave columns out with --drop-column q0.9"));
  EXPECT_THAT(Read("q0.9,q0.1,outcome\n3,1,2\n", {0.1, 0.9})->values, ElementsAre(1, 3));
  EXPECT_THAT(Read("q1,q2,outcome\n1,3,2\n", {0.1, 0.9})->values, ElementsAre(1, 3));
  EXPECT_THAT(Read("q0.1,q0.9,note,outcome\n1,3,9,2\n", {0.1, 0.9})->values, ElementsAre(1, 3));
}

TEST_F(ForecastFileTest, RefusesMomentsAsDrawsAndQuantiles) {
  for (const std::vector<double>& levels : {std::vector<double>(), {0.1, 0.9}}) {
    EXPECT_THAT(Fault("mean,standard_deviation,outcome\n5,1,5\n", levels),
                HasSubstr("has the columns \"mean\", \"standard_deviation\", which are Normal "
                          "forecasts and no draws or quantiles: call them mean and "
                          "standard_deviation and use --normals"));
  }
  EXPECT_THAT(Fault("a,b,mean,outcome\n5,1,3,5\n", {}),
              HasSubstr("the column \"mean\" is no draw and no quantile: leave it out with "
                        "--drop-column mean"));
}

}  // namespace
}  // namespace calibd::cli
