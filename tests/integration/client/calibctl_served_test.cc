// calibctl as a process against the real server.
#include "integration/client/calibctl_served.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "calibd/convert/recalibration.h"
#include "calibd/convert/text.h"
#include "calibd/core/generator.h"
#include "calibd/core/recalibration.h"
#include "google/protobuf/util/json_util.h"
#include "support/test_data.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CalibctlServedCifar10Test : public CalibctlServedTest,
                                  public ::testing::WithParamInterface<const char*> {};

TEST_P(CalibctlServedCifar10Test, SendShowAndTestReproduceTheReference) {
  const std::string predictions = Cifar10Dir() / (std::string(GetParam()) + ".csv");
  if (!std::filesystem::exists(predictions)) GTEST_SKIP() << "no data in " << Cifar10Dir();
  const nlohmann::json expected = ReadJson(Cifar10Dir() / "expected.json").at(GetParam());
  const std::string model = GetParam();
  RunJson({"model", "create", model, "--classes", "10", "--warmup", "10000", "--block-sizes",
           "2,10,100"});
  const nlohmann::json sent =
      RunJson({"send", model, predictions, Cifar10Dir() / "labels.csv", "--label-base", "1"});
  EXPECT_EQ(sent.at("acceptedRows"), "10000");
  const nlohmann::json shown = RunJson({"show", model});
  EXPECT_EQ(shown.at("observations"), "10000");
  ExpectClose(shown.at("provenance"), "bandwidth", expected, "nu", 1e-12);
  ExpectCifar10Estimates(shown.at("estimates"), expected);
  const nlohmann::json tested = RunJson({"test", model, "--replicates", "99", "--seed", "5"});
  ExpectClose(tested.at("provenance"), "bandwidth", expected, "nu", 1e-12);
  ExpectQuadratic(tested, expected);
  EXPECT_EQ(tested.at("seed"), "5");
}

INSTANTIATE_TEST_SUITE_P(Networks, CalibctlServedCifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"));

TEST_F(CalibctlServedTest, EstimatesTheCalibrationError) {
  auto generator = Generator::Create(GeneratorSpec::M3(5), 3);
  PredictionSet set;
  generator->Draw(800, set);
  const PredictionFiles files(set, 0);
  RunJson({"model", "create", "m", "--classes", "5"});
  Send("m", files);
  nlohmann::json estimate = RunJson({"estimate", "--model", "m", "--seed", "3"});
  EXPECT_EQ(estimate.at("anyBetterThanZero"), true);
  EXPECT_EQ(estimate.at("estimators").size(), 6);
  EXPECT_EQ(estimate.at("estimators").at(0).at("estimator"), "FIFTEEN_BINS");
  nlohmann::json of_files = RunJson(
      {"estimate", files.predictions(), files.labels(), "--label-base", "0", "--seed", "3"});
  EXPECT_EQ(of_files.at("fileRows").at("droppedRows"), "0");
  of_files.erase("fileRows");
  for (nlohmann::json* const result : {&estimate, &of_files}) {
    result->erase("elapsed");
    result->at("provenance").erase("computeTime");
    result->at("provenance").erase("threads");
  }
  EXPECT_EQ(of_files, estimate);
  const auto text =
      Run({"estimate", "--model", "m", "--seed", "3", "--estimators", "bins,fifteen_bins"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(), HasSubstr("The probability of the top label is off by "));
  EXPECT_THAT(text->output(), HasSubstr("seed 3."));
}

TEST_F(CalibctlServedTest, ComparesTwoModels) {
  auto generator = Generator::Create(GeneratorSpec::M3(5), 3);
  PredictionSet set;
  generator->Draw(300, set);
  const PredictionFiles files(set, 0);
  for (const char* const model : {"m@1", "m@2"}) {
    RunJson({"model", "create", model, "--classes", "5"});
    Send(model, files);
  }
  const nlohmann::json result = RunJson({"compare", "m@2", "m@1", "--window", "200"});
  EXPECT_EQ(result.at("comparison").at("paired"), false);
  EXPECT_EQ(result.at("comparison").at("observations"), "200");
  EXPECT_EQ(result.at("comparison").at("logLoss").at("difference"), 0);
  EXPECT_EQ(result.at("pairing").at("modelWithoutId"), "200");
  EXPECT_EQ(result.at("firstObservation"), "101");
  const auto text = Run({"compare", "m@2", "m@1"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(),
              StartsWith("m@2 against m@1: log loss 0.0 nats lower (-1.3 to +1.3), undecided; "));
  const auto missing = Run({"compare", "m@2", "m@3"});
  EXPECT_EQ(missing->exit_code(), 1);
  EXPECT_THAT(missing->error(), HasSubstr("models/m/versions/3"));
  EXPECT_EQ(Run({"compare", "m@2"})->exit_code(), 2);
}

TEST_F(CalibctlServedTest, ReproducesTheSmallCases) {
  for (const auto& small_case : SmallCases()) {
    const std::string name = small_case.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const PredictionFiles files(ToPredictionSet(small_case), 0);
    RunJson({"model", "create", name, "--classes", small_case.at("m").dump(), "--bandwidth",
             small_case.at("nu_used").dump(), "--row-sum-tolerance", "0.1"});
    Send(name, files);
    ExpectLinear(RunJson({"show", name}).at("estimates"), small_case);
    ExpectQuadratic(RunJson({"test", name, "--replicates", "99"}), small_case);
  }
}

TEST_F(CalibctlServedTest, ServedNumbersEqualOfflineOnesBitForBit) {
  auto generator = Generator::Create(GeneratorSpec::M3(5), 3);
  PredictionSet set;
  generator->Draw(1234, set);
  const PredictionFiles files(set, 0);
  RunJson(
      {"model", "create", "m", "--classes", "5", "--bandwidth", "0.4", "--block-sizes", "2,7,100"});
  Send("m", files);
  for (const char* const null : {"form", "forecast", "pearson"}) {
    const nlohmann::json offline =
        RunJson({"evaluate", files.predictions(), files.labels(), "--label-base", "0",
                 "--bandwidth", "0.4", "--block-sizes", "2,7,100", "--seed", "11", "--null", null});
    if (std::string_view(null) == "form") {
      EXPECT_EQ(RunJson({"show", "m"}).at("estimates"), offline.at("estimates"));
    }
    nlohmann::json tested = RunJson({"test", "m", "--seed", "11", "--null", null});
    nlohmann::json evaluated = offline.at("lenses").at(0).at("result");
    for (nlohmann::json* const result : {&tested, &evaluated}) {
      result->erase("elapsed");
      result->at("provenance").erase("computeTime");
    }
    EXPECT_EQ(tested, evaluated);
  }
}

TEST_F(CalibctlServedTest, ModelsAreCreatedListedShownAndDeleted) {
  EXPECT_EQ(RunJson({"model", "list"}).at("models").size(), 0u);
  const nlohmann::json created =
      RunJson({"model", "create", "pets@2", "--class-names", "cat,dog", "--window", "500"});
  EXPECT_EQ(created.at("name"), "models/pets/versions/2");
  EXPECT_EQ(created.at("classes").at("names"), nlohmann::json({"cat", "dog"}));
  EXPECT_EQ(RunJson({"model", "list"}).at("models").size(), 1u);
  EXPECT_EQ(RunJson({"model", "show", "pets@2"}), created);
  RunJson({"model", "update", "pets@2", "--error-limit", "3%"});
  const auto shown = Run({"model", "show", "pets@2"});
  EXPECT_EQ(shown->exit_code(), 0) << shown->error();
  EXPECT_THAT(
      shown->output(),
      AllOf(HasSubstr("\nclasses             2: cat, dog\n"),
            HasSubstr("\nwindow              500 newest observations\n"),
            HasSubstr("\nerror limit         0.03\n"), HasSubstr("\nlabel grace         none\n"),
            HasSubstr("\naverage run length  1e+06\n"), EndsWith(" UTC\n")));
  const auto whole = Run({"model", "update", "pets@2", "--error-limit", "2"});
  EXPECT_EQ(whole->exit_code(), 2);
  EXPECT_THAT(whole->error(), HasSubstr("--error-limit: expected a probability in 0.0001..0.5 or "
                                        "a percentage such as 2%, found 2"));
  const auto other = Run({"model", "create", "pets@2", "--classes", "3"});
  EXPECT_EQ(other->exit_code(), 1);
  EXPECT_THAT(other->error(), HasSubstr("already exists"));
  // The error names only the fields that differ, also after an update of another field.
  RunJson({"model", "update", "pets@2", "--tolerance", "1e-3"});
  const auto limit =
      Run({"model", "create", "pets@2", "--class-names", "cat,dog", "--error-limit", "0.05"});
  EXPECT_EQ(limit->exit_code(), 1);
  EXPECT_THAT(limit->error(),
              HasSubstr("another declaration: monitoring.error_limit is 0.03, declared 0.05; "
                        "change this with UpdateModel (calibctl model update)\n"));
  const auto invalid = Run({"model", "create", "My pets@2", "--classes", "3"});
  EXPECT_EQ(invalid->exit_code(), 1);
  EXPECT_THAT(invalid->error(), HasSubstr("the escaped form of \"My pets\" is x--My-20pets\n"));
  RunJson({"model", "create", "x--My-20pets@2", "--classes", "3"});
  RunJson({"model", "delete", "x--My-20pets@2", "--confirm", "x--My-20pets@2"});
  const auto unconfirmed = Run({"model", "delete", "pets@2"});
  EXPECT_EQ(unconfirmed->exit_code(), 2);
  EXPECT_THAT(unconfirmed->error(), HasSubstr("confirm it with --confirm pets@2"));
  const auto wrong = Run({"model", "delete", "pets@2", "--confirm", "pets@1"});
  EXPECT_EQ(wrong->exit_code(), 2);
  EXPECT_THAT(wrong->error(),
              HasSubstr("--confirm is pets@1, expected the name of the model again: pets@2"));
  RunJson({"model", "delete", "pets@2", "--confirm", "pets@2"});
  const auto gone = Run({"show", "pets@2"});
  EXPECT_EQ(gone->exit_code(), 1);
  EXPECT_THAT(gone->error(), HasSubstr("not found"));
  const auto table = Run({"model", "list"});
  EXPECT_EQ(table->exit_code(), 0);
  EXPECT_EQ(table->output(), "no models\n");
}

TEST_F(CalibctlServedTest, ForTwoClassesTheWorseErrorIsShown) {
  // Class 1 is stated 10 points too often, which cancels in the top label.
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < 3000; ++i) {
    const bool high = i % 2 == 1;
    set.probabilities.insert(set.probabilities.end(), {high ? 0.3 : 0.7, high ? 0.7 : 0.3});
    set.labels.push_back(i / 2 % 10 < (high ? 6 : 2) ? 1 : 0);
  }
  const PredictionFiles files(set, 0);
  ASSERT_EQ(
      Run({"model", "create", "m", "--class-names", "no,yes", "--bandwidth", "0.5"})->exit_code(),
      0);
  ASSERT_EQ(
      Run({"send", "m", files.predictions(), files.labels(), "--label-base", "0"})->exit_code(), 0);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"list"},
        {"show", "m"},
        {"evaluate", "--model", "m", "--replicates", "0"}}) {
    const auto run = Run(command);
    ASSERT_EQ(run->exit_code(), 0) << run->error();
    EXPECT_THAT(run->output(),
                AllOf(HasSubstr("OVER_LIMIT"), HasSubstr("P(yes) off by 10 points (")));
  }
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"alarms", "m"}, {"recalibrate", "--model", "m"}}) {
    const auto run = Run(command);
    ASSERT_EQ(run->exit_code(), 0) << run->error();
    EXPECT_THAT(run->output(), AllOf(HasSubstr("P(yes)"), Not(HasSubstr("class 1"))));
  }
  ASSERT_EQ(Run({"model", "update", "m", "--error-limit", "0.03"})->exit_code(), 0);
  const auto history = Run({"history", "m"});
  ASSERT_EQ(history->exit_code(), 0);
  EXPECT_THAT(
      history->output(),
      AllOf(HasSubstr(" 10 ("), HasSubstr(")* "), HasSubstr("or * P(yes), whichever"),
            HasSubstr("\nupdated 20"), HasSubstr(": monitoring.error_limit 0.02 -> 0.03\n")));
  const nlohmann::json bucket = RunJson({"history", "m"}).at("buckets").at(0);
  EXPECT_NEAR(bucket.at("error").at("estimate").get<double>(), 0, 1e-9);
  EXPECT_NEAR(bucket.at("class1Error").at("estimate").get<double>(), 0.1, 1e-9);
  const auto bins = Run({"show", "m", "--bins"});
  ASSERT_EQ(bins->exit_code(), 0) << bins->error();
  EXPECT_THAT(bins->output(),
              AllOf(HasSubstr("right %"), HasSubstr("\nP(yes) "), HasSubstr("+10.0")));
}

TEST_F(CalibctlServedTest, SimulateShowsWhichModelsAreCalibrated) {
  const auto decide = [&](const char* model, const char* generator) {
    const nlohmann::json sent =
        RunJson({"simulate", model, "--generator", generator, "--n", "2000", "--seed", "1"});
    EXPECT_EQ(sent.at("acceptedRows"), "2000");
    const auto test = Run({"test", model, "--seed", "1", "--fail-on", "p-value",
                           "--significance-level", "0.01", "--output", "json"});
    const int code = test->exit_code();
    EXPECT_EQ(test->json().at("gate").at("decision"), code == 3 ? "REJECTED" : "NOT_REJECTED");
    return code;
  };
  EXPECT_EQ(decide("m1", "M1"), 0);
  EXPECT_EQ(decide("m2", "M2"), 3);
  EXPECT_EQ(decide("m3", "M3"), 3);
  EXPECT_EQ(Run({"show", "m2", "--fail-on", "over-limit"})->exit_code(), 3);
  EXPECT_EQ(Run({"show", "m2", "--fail-on", "miscalibration,drift"})->exit_code(), 3);
  EXPECT_EQ(Run({"show", "m2", "--fail-on", "undecided"})->exit_code(), 0);
  EXPECT_EQ(Run({"show", "m1", "--fail-on", "over-limit,miscalibration,drift"})->exit_code(), 0);
  EXPECT_EQ(Run({"list", "--fail-on", "over-limit"})->exit_code(), 3);
  const auto window = Run({"evaluate", "--model", "m2", "--replicates", "0"});
  EXPECT_EQ(window->exit_code(), 0) << window->error();
  EXPECT_THAT(window->output(), StartsWith("verdict   OVER_LIMIT\nhow bad   off by "));
  // The window could contradict the verdict.
  const auto gate = Run({"evaluate", "--model", "m2", "--fail-on", "over-limit"});
  EXPECT_EQ(gate->exit_code(), 2);
  EXPECT_THAT(gate->error(), HasSubstr("`calibctl show m2 --fail-on over-limit`"));
  EXPECT_EQ(Run({"show", "m2"})->exit_code(), 0);
  const auto table = Run({"show", "m2", "--verbose", "--bins"});
  ASSERT_EQ(table->exit_code(), 0);
  EXPECT_THAT(table->output(), AllOf(HasSubstr("2000 observations"), HasSubstr("SKCE_ul (b = 2)"),
                                     HasSubstr("p (one look)"), HasSubstr("ONE look"),
                                     HasSubstr("right %"), Not(HasSubstr("class 1 %"))));
}

TEST_F(CalibctlServedTest, ShowsTheHistory) {
  RunJson({"simulate", "m2", "--generator", "M2", "--n", "2000", "--seed", "1"});
  const nlohmann::json history = RunJson({"history", "m2", "--resolution", "minute"});
  std::int64_t observations = 0;
  for (const auto& bucket : history.at("buckets")) {
    observations += Integer(bucket.at("observations"));
  }
  EXPECT_EQ(observations, 2000);
  EXPECT_EQ(history.at("total").at("observations"), "2000");
  const nlohmann::json estimate = EstimateOf(RunJson({"show", "m2"}).at("estimates"), 2);
  EXPECT_EQ(history.at("total").at("pairs"), estimate.at("blockCount"));
  ExpectClose(history.at("total"), "skce", estimate, "skce", 1e-12);
  // By default the buckets are hours; incomplete ones at the ends are left out.
  EXPECT_EQ(RunJson({"history", "m2", "--from", "2d"}).at("total").at("observations"), "2000");
  const nlohmann::json none = RunJson({"history", "m2", "--to", "2000-01-01"});
  EXPECT_TRUE(none.at("buckets").empty());
  EXPECT_FALSE(none.contains("total"));

  const auto csv = Run({"history", "m2", "--resolution", "day", "--csv"});
  EXPECT_EQ(csv->exit_code(), 0);
  const std::string lines = csv->output();
  EXPECT_EQ(lines.rfind("start_time,end_time,observations,", 0), 0U) << lines;
  const auto table = Run({"history", "m2"});
  EXPECT_EQ(table->exit_code(), 0);
  EXPECT_THAT(table->output(),
              AllOf(HasSubstr("from (UTC)"), HasSubstr("off by (points)"),
                    HasSubstr(history.at("total").at("offBy").get<std::string>())));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"history", "m2", "--from", "yesterday"},
        {"history", "m2", "--resolution", "week"},
        {"history", "m2", "--csv", "--output", "json"}}) {
    EXPECT_EQ(Run(wrong)->exit_code(), 2) << wrong.back();
  }
}

TEST_F(CalibctlServedTest, TooLittleDataIsASentence) {
  RunJson({"simulate", "young", "--generator", "M1", "--n", "100"});
  const auto show = Run({"show", "young", "--verbose"});
  EXPECT_EQ(show->exit_code(), 0);
  EXPECT_THAT(show->output(), HasSubstr("Not enough data: 100 observations, 400 more needed"));
  EXPECT_EQ(Run({"show", "young", "--fail-on", "undecided"})->exit_code(), 3);
  RunJson({"model", "create", "empty", "--classes", "3"});
  const auto empty = Run({"show", "empty", "--fail-on", "over-limit"});
  EXPECT_EQ(empty->exit_code(), 3);
  EXPECT_THAT(
      empty->output(),
      HasSubstr(
          "failed on insufficient-data\nempty has 0 labelled rows: the gate needs 100 more\n"));
  const auto all = Run({"list", "--fail-on", "over-limit"});
  EXPECT_EQ(all->exit_code(), 3);
  EXPECT_THAT(all->output(), HasSubstr("failed on insufficient-data of empty\n"))
      << "100 rows answer about the limit";
  const auto drift = Run({"list", "--fail-on", "drift"});
  EXPECT_EQ(drift->exit_code(), 3);
  EXPECT_THAT(drift->output(),
              HasSubstr("\nyoung has 100 labelled rows: the gate needs 400 more\n"));
}

TEST_F(CalibctlServedTest, ShowPrintsTheServersLines) {
  RunJson({"model", "create", "stale", "--classes", "10", "--stale-after", "1s"});
  RunJson({"simulate", "stale", "--generator", "M1", "--n", "3000", "--seed", "1"});
  RunJson({"simulate", "wrong", "--generator", "M2", "--n", "3000", "--seed", "1"});
  RunJson({"simulate", "right", "--generator", "M1", "--n", "3000", "--seed", "1"});
  RunJson({"model", "create", "few", "--classes", "10", "--min-observations", "2000"});
  RunJson({"simulate", "few", "--generator", "M1", "--n", "700", "--seed", "1"});
  RunJson({"simulate", "none", "--generator", "M1", "--n", "10", "--seed", "1"});
  for (const auto& [model, status] :
       {std::pair("stale", "STALE"), std::pair("wrong", "MISCALIBRATED"),
        std::pair("right", "NOT_REJECTED"), std::pair("few", "INSUFFICIENT_DATA"),
        std::pair("none", "INSUFFICIENT_DATA")}) {
    SCOPED_TRACE(model);
    nlohmann::json shown;
    EXPECT_TRUE(WaitFor([&, model = model, status = status] {
      shown = RunJson({"show", model});
      return shown.at("verdict").at("status") == status;
    }));
    const auto text = Run({"show", model, "--verbose"});
    ASSERT_EQ(text->exit_code(), 0);
    const std::string verdict = shown.at("reading").at("verdict").at("text");
    EXPECT_THAT(verdict, HasSubstr(status));
    EXPECT_THAT(text->output(), StartsWith("verdict   " + std::string(model) + ": " + verdict));
  }
}

TEST_F(CalibctlServedTest, AnAcknowledgementShowsTheFormerError) {
  RunJson({"model", "create", "over", "--classes", "10", "--bandwidth", "0.5", "--group-tag",
           "region"});
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(10), 7)->Draw(2000, set);
  const PredictionFiles files(set, 0);
  const TemporaryFolder folder;
  const std::string groups = folder.path() / "groups.csv";
  std::ofstream out(groups);
  for (int i = 0; i < 2000; ++i) out << "asia\n";
  out.close();
  RunJson({"send", "over", files.predictions(), files.labels(), "--label-base", "0", "--groups",
           groups});
  const auto show = [&] {
    const auto run = Run({"show", "over"});
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->output();
  };
  EXPECT_THAT(show(), AllOf(HasSubstr("verdict   over: OVER_LIMIT, alarm on 20"),
                            HasSubstr("), also in"), HasSubstr("asia (alarm at")));
  // An evaluation of the newest observations has the groups too.
  const nlohmann::json evaluation =
      RunJson({"evaluate", "--model", "over", "--replicates", "99", "--consistency-replicates", "0",
               "--cme-locations", "0"});
  ASSERT_EQ(evaluation.at("groups").size(), 1U);
  EXPECT_EQ(evaluation.at("groups")[0].at("name"), "asia");
  EXPECT_EQ(evaluation.at("groups")[0].at("observations"), "2000");
  EXPECT_EQ(evaluation.at("groups")[0].at("status"), "OVER_LIMIT");
  EXPECT_THAT(evaluation.at("reading").at("where").at("text").get<std::string>(),
              StartsWith("group asia: "));
  const nlohmann::json found = RunJson({"alarms", "over"});
  std::string printed;
  for (const auto& alarm : found.at("alarms")) {
    const auto run =
        Run({"acknowledge", "over", alarm.at("id").get<std::string>(), "--error-limit", "0.2"});
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    printed += run->output();
  }
  // The limit changes once.
  EXPECT_THAT(printed,
              AllOf(StartsWith("updated models/over: monitoring.error_limit 0.02 -> 0.2\n"),
                    Not(ContainsRegex("\nupdated"))));
  EXPECT_THAT(
      show(),
      AllOf(HasSubstr("OVER_LIMIT (acknowledged), also in group asia (acknowledged), "),
            HasSubstr("how bad   was off by "), HasSubstr(" over rows 1 to 2000; "),
            HasSubstr("group asia (not measured yet since the acknowledgement or update)")));
}

TEST_F(CalibctlServedTest, EvaluateOfAModelEqualsThatOfItsFile) {
  auto generator = Generator::Create(GeneratorSpec::M2(5), 3);
  PredictionSet set;
  generator->Draw(700, set);
  const PredictionFiles files(set, 0);
  RunJson({"model", "create", "m", "--classes", "5", "--kernel", "euclidean", "--bandwidth", "0.4",
           "--block-sizes", "2,50", "--lens", "top_label,grouped:0/0/1/1/1"});
  Send("m", files);
  const std::vector<std::string> same = {"--seed", "11",     "--replicates",
                                         "199",    "--lens", "top_label,class:3,top_k:2"};
  std::vector<std::string> offline = {
      "evaluate",  files.predictions(), files.labels(), "--label-base",  "0",   "--kernel",
      "euclidean", "--bandwidth",       "0.4",          "--block-sizes", "2,50"};
  std::vector<std::string> served = {"evaluate", "--model", "m"};
  offline.insert(offline.end(), same.begin(), same.end());
  served.insert(served.end(), same.begin(), same.end());
  nlohmann::json file = RunJson(offline);
  nlohmann::json model = RunJson(served);
  for (nlohmann::json* result : {&file, &model}) {
    result->erase("elapsed");
    result->erase("fileRows");
    for (nlohmann::json& lens : result->at("lenses")) {
      lens.at("result").erase("provenance");
      lens.at("result").erase("elapsed");
    }
  }
  EXPECT_EQ(file, model);
  // By default, the lenses of the declaration are used.
  const nlohmann::json declared = RunJson({"evaluate", "--model", "m", "--replicates", "99"});
  EXPECT_EQ(declared.at("lenses").size(), 3u);
  EXPECT_EQ(declared.at("lenses").at(2).at("lens"), "grouped");
  const auto both = Run({"evaluate", files.predictions(), "--model", "m"});
  EXPECT_EQ(both->exit_code(), 2);
}

TEST_F(CalibctlServedTest, RecalibrateNamesWhatItDoesWithGroups) {
  CalibctlRun run({"recalibrate", "p.csv", "--label-column", "label", "--group-column", "region"});
  EXPECT_EQ(run.exit_code(), 2);
  EXPECT_THAT(run.error(), HasSubstr("one map to all rows, whatever their groups: leave the column "
                                     "out with --drop-column region"));
}

TEST_F(CalibctlServedTest, RecalibrateFitsExportsAndAppliesAMap) {
  PredictionSet set;
  Generator::Create(GeneratorSpec::M1(5), 3)->Draw(2000, set);
  ApplyRecalibration(TemperatureMap{0.5}, 5, set.probabilities);
  const PredictionFiles files(set, 0);
  RunJson({"model", "create", "m", "--classes", "5", "--bandwidth", "1"});
  Send("m", files);
  const TemporaryFolder folder;
  const std::string map = folder.path() / "map.json";
  const std::string rows = folder.path() / "rows.csv";
  nlohmann::json model = RunJson({"recalibrate", "--model", "m", "--export", map});
  nlohmann::json file =
      RunJson({"recalibrate", files.predictions(), files.labels(), "--label-base", "0"});
  EXPECT_TRUE(model.at("helps").get<bool>());
  EXPECT_EQ(ReadJson(map), model.at("map"));
  model.erase("computeTime");
  file.erase("computeTime");
  EXPECT_EQ(file.at("fileRows").at("droppedRows"), "0");
  file.erase("fileRows");
  EXPECT_EQ(file, model);

  const auto text = Run({"recalibrate", "--model", "m"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(),
              AllOf(HasSubstr(" would take the error "), HasSubstr("newer 1000"),
                    HasSubstr("error of the top label"), HasSubstr("  log loss (nats) 0.")));

  const auto applied = Run({"recalibrate", "--apply", map, files.predictions(), "-o", rows});
  ASSERT_EQ(applied->exit_code(), 0) << applied->error();
  v1::RecalibrationMap proto;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(ReadJson(map).dump(), &proto).ok());
  ApplyRecalibration(*convert::FromProto(proto), 5, set.probabilities);
  std::ifstream written(rows);
  for (const double expected : set.probabilities) {
    double value = 0;
    ASSERT_TRUE(written >> value);
    EXPECT_EQ(value, expected);
    written.get();
  }

  std::ofstream(map) << R"({"version": 1, "kind": "temperature", "class_count": 4})";
  const auto invalid = Run({"recalibrate", "--apply", map, files.predictions()});
  EXPECT_EQ(invalid->exit_code(), 1);
  EXPECT_THAT(invalid->error(), HasSubstr("expected 0.05..20"));
  EXPECT_EQ(Run({"recalibrate", "--apply", map, "--model", "m"})->exit_code(), 2);

  std::ofstream(files.predictions(), std::ios::app) << "2,0,0,0,0\n1,0,0,0,nan\n";
  std::ofstream(files.labels(), std::ios::app) << "0\n0\n";
  const auto dropped = Run(
      {"recalibrate", files.predictions(), files.labels(), "--label-base", "0", "--drop-invalid"});
  EXPECT_EQ(dropped->exit_code(), 0) << dropped->error();
  EXPECT_THAT(dropped->output(), HasSubstr("\n2 invalid rows were left out\n"));
  // The window is that of a model: files are used whole.
  for (const char* const command : {"recalibrate", "evaluate"}) {
    const auto windowed = Run({command, files.predictions(), "--window", "100"});
    EXPECT_EQ(windowed->exit_code(), 2);
    EXPECT_THAT(windowed->error(), HasSubstr("--window requires --model"));
  }
}

TEST_F(CalibctlServedTest, CtrlCCancelsTheTestOnTheServerToo) {
  RunJson({"simulate", "big", "--generator", "M1", "--n", "10000"});
  const auto test = Run({"test", "big", "--replicates", "100000"});
  ASSERT_TRUE(WaitFor([&] { return RunningTests() == 1; }));
  ASSERT_TRUE(test->Interrupt());
  EXPECT_EQ(test->exit_code(), 1);
  EXPECT_THAT(test->error(), HasSubstr("cancelled"));
  EXPECT_TRUE(WaitFor([&] { return RunningTests() == 0; }));
  // The server can run the next test.
  RunJson({"test", "big", "--replicates", "99", "--window", "100"});
}

TEST_F(CalibctlServedTest, NoServerIsAnOperationalError) {
  server_->Kill();
  const auto run = Run({"model", "list"});
  EXPECT_EQ(run->exit_code(), 1);
  EXPECT_THAT(run->error(), HasSubstr("no calibd server answers at"));
  CalibctlRun no_port({"--server", "localhost", "model", "list"});
  EXPECT_EQ(no_port.exit_code(), 1);
  EXPECT_THAT(no_port.error(), HasSubstr("the address has no port"));
}

TEST_F(CalibctlServedTest, BackupAndVerifyPrintTheirResultInALine) {
  RunJson({"model", "create", "m", "--classes", "10"});
  const TemporaryFolder folder;
  const std::string file = folder.path() / "backup.db";
  const auto backup = Run({"backup", file});
  ASSERT_EQ(backup->exit_code(), 0) << backup->error();
  EXPECT_EQ(backup->output(),
            file + ": " + std::to_string(std::filesystem::file_size(file)) + " bytes\n");
  const auto verify = Run({"verify"});
  ASSERT_EQ(verify->exit_code(), 0) << verify->error();
  EXPECT_EQ(verify->output(),
            "1 models, 0 producers, 0 snapshots, 0 batches of the log with 0 observations: no "
            "problems\n");
}

TEST_F(CalibctlServedTest, ShowSaysWhatTheNewestRecalibrationSaid) {
  RunJson({"model", "create", "m", "--classes", "3", "--bandwidth", "1"});
  RunJson({"simulate", "m", "--generator", "M2", "--classes", "3", "--n", "3000"});
  EXPECT_FALSE(RunJson({"show", "m"}).contains("recalibration"));
  const auto before = Run({"show", "m"});
  EXPECT_EQ(before->exit_code(), 0);
  EXPECT_THAT(before->output(),
              HasSubstr("repair    `calibctl recalibrate --model m` looks for a map"));
  nlohmann::json advice = RunJson({"recalibrate", "--model", "m", "--window", "2000"});
  EXPECT_EQ(advice.at("helps"), true);
  nlohmann::json kept = RunJson({"show", "m"}).at("recalibration");
  EXPECT_EQ(kept.at("firstObservation"), "1001");
  // A map has no bound of its size, and the server does not keep its lists.
  for (const char* const list : {"scales", "offsets", "curves"}) {
    EXPECT_TRUE(kept.at("map").at(list).empty()) << list;
    advice.at("map").erase(list);
    kept.at("map").erase(list);
  }
  // Nor does it keep the diagrams.
  for (const char* const diagram : {"corpBefore", "corpAfter"}) {
    EXPECT_FALSE(advice.at(diagram).empty()) << diagram;
    EXPECT_TRUE(kept.at(diagram).empty()) << diagram;
    advice.erase(diagram);
    kept.erase(diagram);
  }
  EXPECT_EQ(kept, advice);
  const auto after = Run({"show", "m"});
  EXPECT_EQ(after->exit_code(), 0);
  EXPECT_THAT(after->output(), HasSubstr(" would take the error "));
}

}  // namespace
}  // namespace calibd::testing
