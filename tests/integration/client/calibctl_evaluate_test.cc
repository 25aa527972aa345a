// calibctl as a process without a server: `evaluate`, help and usage.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "calibd/core/binned_error.h"
#include "calibd/core/generator_closed_forms.h"
#include "calibd/core/kernel.h"
#include "calibd/core/skce.h"
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

PredictionSet Draw(const GeneratorSpec& spec, std::size_t n) {
  auto generator = Generator::Create(spec, 7);
  PredictionSet set;
  generator->Draw(n, set);
  return set;
}

class CalibctlCifar10Test : public ::testing::TestWithParam<const char*> {};

TEST_P(CalibctlCifar10Test, EvaluateReproducesTheReference) {
  const std::string predictions = Cifar10Dir() / (std::string(GetParam()) + ".csv");
  if (!std::filesystem::exists(predictions)) GTEST_SKIP() << "no data in " << Cifar10Dir();
  const nlohmann::json expected = ReadJson(Cifar10Dir() / "expected.json").at(GetParam());
  CalibctlRun run({"evaluate", predictions, Cifar10Dir() / "labels.csv", "--label-base", "1",
                   "--null", "form", "--replicates", "99", "--seed", "1", "--output", "json"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  const nlohmann::json result = run.json();
  EXPECT_EQ(result.at("lenses").at(0).at("result").at("provenance").at("observations"), "10000");
  ExpectClose(result.at("lenses").at(0).at("result").at("provenance"), "bandwidth", expected, "nu",
              1e-12);
  ExpectQuadratic(result.at("lenses").at(0).at("result"), expected);
  ExpectCifar10Estimates(result.at("estimates"), expected);
}

INSTANTIATE_TEST_SUITE_P(Networks, CalibctlCifar10Test,
                         ::testing::Values("densenet121", "resnet18", "googlenet"));

TEST(CalibctlEvaluateTest, ReproducesTheSmallCases) {
  for (const auto& small_case : SmallCases()) {
    SCOPED_TRACE(small_case.at("name").get<std::string>());
    const PredictionFiles files(ToPredictionSet(small_case), 0);
    CalibctlRun run({"evaluate", files.predictions(), files.labels(), "--label-base", "0",
                     "--bandwidth", small_case.at("nu_used").dump(), "--block-sizes", "2,3",
                     "--replicates", "0", "--row-sum-tolerance", "0.1", "--output", "json"});
    ASSERT_EQ(run.exit_code(), 0) << run.error();
    ExpectQuadratic(run.json().at("lenses").at(0).at("result"), small_case);
    ExpectLinear(run.json().at("estimates"), small_case);
  }
}

TEST(CalibctlEvaluateTest, PrintsATableThatMentionsOneLook) {
  const PredictionFiles files(Draw(GeneratorSpec::M2(), 300), 1);
  CalibctlRun run({"evaluate", files.predictions(), files.labels(), "--label-base", "1", "--seed",
                   "1", "--replicates", "199"});
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), AllOf(HasSubstr("SKCE_uq"), HasSubstr("SKCE_ul (b = 2)"),
                                  HasSubstr("p (one look)"), HasSubstr("ONE look")));
  EXPECT_EQ(run.error(), "") << "no progress bar without a terminal";
}

TEST(CalibctlEvaluateTest, SaysWhichHypothesisIsTested) {
  const PredictionFiles files(Draw(GeneratorSpec::M2(), 300), 1);
  std::vector<std::string> arguments = {
      "evaluate", files.predictions(), files.labels(), "--label-base", "1", "--seed", "1"};
  CalibctlRun forecast(arguments);
  ASSERT_EQ(forecast.exit_code(), 0) << forecast.error();
  EXPECT_THAT(forecast.output(),
              AllOf(HasSubstr("simulation test: p = 0.001 (one look); 0 of 999 replicates"),
                    HasSubstr("tested against: labels drawn from the predictions themselves"),
                    HasSubstr("simulation of the ECE"), HasSubstr("The test is exact")));
  arguments.insert(arguments.end(), {"--null", "form"});
  CalibctlRun form(arguments);
  ASSERT_EQ(form.exit_code(), 0) << form.error();
  EXPECT_THAT(form.output(),
              AllOf(HasSubstr("approximate test: p = 0.001 (one look); 0 of 999"),
                    HasSubstr("tested against: a model that is calibrated in the tested part"),
                    HasSubstr("; 95 % of the replicates are at most -")));
  arguments.back() = "labels";
  EXPECT_EQ(CalibctlRun(arguments).exit_code(), 2);
}

TEST(CalibctlEvaluateTest, FeaturesTestSimilarCases) {
  const TemporaryFolder folder;
  const auto write = [&folder](const std::string& name, const std::string& text) {
    const std::string path = folder.path() / name;
    std::ofstream(path) << text;
    return path;
  };
  // All cases together are right with probability 1/2, as is said; those of an age are not.
  std::string rows = "healthy,sick,label\n";
  std::string features = "age,weight\n";
  for (int i = 0; i < 400; ++i) {
    rows += i % 2 == 0 ? "0.51,0.49," : "0.49,0.51,";
    rows += i % 5 < (i < 200 ? 1 : 4) ? "sick\n" : "healthy\n";
    features += std::to_string(20 + i / 10) + "," + std::to_string(60 + i % 7) + "\n";
  }
  const auto with = [&](const std::string& path) {
    return std::vector<std::string>{"evaluate",       write("scored.csv", rows),
                                    "--label-column", "label",
                                    "--replicates",   "99",
                                    "--seed",         "2",
                                    "--features",     path};
  };
  CalibctlRun run(with(write("features.csv", features)));
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  EXPECT_THAT(run.output(), HasSubstr("similar cases (individual calibration): discrepancy"));
  EXPECT_THAT(run.output(), HasSubstr("p = 0.01 (one look), simulated with labels drawn from"));
  // The features of a row that is left out are left out too.
  std::vector<std::string> damaged = with(write("more.csv", features + "1,1\n"));
  damaged[1] = write("damaged.csv", rows + "2,2,sick\n");
  damaged.emplace_back("--drop-invalid");
  CalibctlRun dropped(damaged);
  ASSERT_EQ(dropped.exit_code(), 0) << dropped.error();
  EXPECT_EQ(dropped.output(), run.output() + "\n1 invalid row was left out\n");
  CalibctlRun few(with(write("few.csv", "1,2\n3,4\n")));
  EXPECT_EQ(few.exit_code(), 1);
  EXPECT_THAT(few.error(), HasSubstr("has 2 rows, expected one for each of 400 predictions"));
  CalibctlRun text(with(write("text.csv", "1,x\n")));
  EXPECT_EQ(text.exit_code(), 1);
  EXPECT_THAT(text.error(), HasSubstr("text.csv line 1, column 2: \"x\" is not a number"));
  CalibctlRun served({"evaluate", "--model", "m", "--features", "features.csv"});
  EXPECT_EQ(served.exit_code(), 2);
  EXPECT_THAT(served.error(), HasSubstr("--features needs files"));
}

TEST(CalibctlEvaluateTest, RefusesASeedThatIsNoWholeNumber) {
  for (const std::string seed : {"-1", "99999999999999999999", "1.5", "x"}) {
    CalibctlRun run({"evaluate", "p.csv", "--seed", seed});
    EXPECT_EQ(run.exit_code(), 2) << seed;
    EXPECT_THAT(run.error(),
                HasSubstr("expected a whole number in 0..18446744073709551615, found " + seed));
  }
}

TEST(CalibctlEvaluateTest, SaysWhatDecisionsCost) {
  const TemporaryFolder folder;
  const auto write = [&folder](const std::string& name, const std::string& text) {
    const std::string path = folder.path() / name;
    std::ofstream(path) << text;
    return path;
  };
  std::string rows = "healthy,sick,label\n";
  for (int i = 0; i < 300; ++i) {
    rows += i % 2 == 0 ? "0.95,0.05," : "0.94,0.06,";
    rows += i % 3 == 0 ? "sick\n" : "healthy\n";
  }
  const std::vector<std::string> command = {
      "evaluate", write("scored.csv", rows), "--label-column", "label", "--replicates", "99",
      "--actions"};
  const auto with = [&command](const std::string& path) {
    std::vector<std::string> arguments = command;
    arguments.push_back(path);
    return arguments;
  };
  // The columns are matched to the classes.
  CalibctlRun other(with(write("other.csv", "action,sick,healthy\nwait,10,0\ntreat,0,1\n")));
  ASSERT_EQ(other.exit_code(), 0) << other.error();
  EXPECT_THAT(other.output(), HasSubstr("the actions cost 3.33 on average"));
  CalibctlRun partial(with(write("partial.csv", "action,sick,well\nwait,10,0\ntreat,0,1\n")));
  EXPECT_EQ(partial.exit_code(), 2);
  EXPECT_THAT(partial.error(),
              HasSubstr("the columns are sick, well, expected each class once: healthy, sick"));
  CalibctlRun run(with(write("actions.csv", "action,healthy,sick\nwait,0,10\ntreat,1,0\n")));
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  // All wait, a third is sick; .055 x 10 was promised.
  EXPECT_THAT(run.output(),
              HasSubstr("the actions cost 3.33 on average, the predictions promise 0.55: +2.78"));
  EXPECT_THAT(run.output(),
              HasSubstr("wait       300  3.33      0.55\ntreat        0     -         -"));
  EXPECT_THAT(run.output(), HasSubstr("calibration given the action: p = 0.01"));
  CalibctlRun text(with(write("text.csv", "wait,1,x\n")));
  EXPECT_NE(text.exit_code(), 0);
  EXPECT_THAT(text.error(), HasSubstr("text.csv line 1, column 3: \"x\" is not a number"));
  CalibctlRun few(with(write("few.csv", "wait,1\n")));
  EXPECT_NE(few.exit_code(), 0);
  EXPECT_THAT(few.error(), HasSubstr("actions[0].losses has 1 values"));
  CalibctlRun none(with(write("none.csv", "action,healthy,sick\n")));
  EXPECT_NE(none.exit_code(), 0);
  EXPECT_THAT(none.error(), HasSubstr("has no actions"));
  std::string actions;
  for (int a = 0; a < 1001; ++a) actions += "a,0,1\n";
  CalibctlRun many(with(write("many.csv", actions)));
  EXPECT_NE(many.exit_code(), 0);
  EXPECT_THAT(many.error(), HasSubstr("actions has 1001 elements, expected at most 1000"));
}

TEST(CalibctlEvaluateTest, AcceptsKernelsAndBandwidthRules) {
  const PredictionSet set = Draw(GeneratorSpec::M2(3), 200);
  const PredictionFiles files(set, 0);
  const auto evaluate = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "evaluate", files.predictions(), files.labels(), "--label-base", "0", "--replicates",
        "0",        "--output",          "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 0) << run.error();
    return run.json();
  };
  const auto unbiased = [](const nlohmann::json& result) {
    return result.at("lenses").at(0).at("result").at("skceUnbiased").get<double>();
  };
  const double gaussian = unbiased(evaluate({"--kernel", "gaussian", "--bandwidth", "0.5"}));
  EXPECT_LE(RelativeDifference(
                gaussian, EstimateQuadraticSkce(set.view(),
                                                *Kernel::Over(Distance::kSquaredEuclidean, 1 / 2.0))
                              ->unbiased),
            1e-12);
  EXPECT_LE(RelativeDifference(evaluate({"--bandwidth", "mean_total_variation:0.1"})
                                   .at("lenses")
                                   .at(0)
                                   .at("result")
                                   .at("provenance")
                                   .at("bandwidth")
                                   .get<double>(),
                               *MeanTotalVariation(std::vector<double>(3, 0.1))),
            1e-12);
  // A kernel from a file: the identity matrix gives the same as the scalar kernel.
  const std::string path = files.predictions() + ".kernel.json";
  std::ofstream(path) << R"({"matrix": {"terms": [{"gaussian": {}, "bandwidth": 0.5,
                            "matrix": [1, 0, 0, 0, 1, 0, 0, 0, 1]}]}})";
  const nlohmann::json matrix = evaluate({"--kernel", "file:" + path});
  EXPECT_LE(RelativeDifference(unbiased(matrix), gaussian), 1e-10);
  EXPECT_EQ(matrix.at("lenses").at(0).at("result").at("provenance").at("universalKernel"), true);
  EXPECT_FALSE(matrix.at("lenses").at(0).contains("cmeTest"));
  const nlohmann::json binned = evaluate({"--binned-errors", "uniform:4:euclidean,top_label:5"});
  ASSERT_EQ(binned.at("binnedErrors").size(), 2u);
  EXPECT_EQ(binned.at("binnedErrors").at(0).at("ece").get<double>(),
            EstimateBinnedError(set.view(), UniformBins{4, Distance::kEuclidean})->ece);
  EXPECT_EQ(binned.at("consistencyTest").at("spec").dump(),
            R"({"uniform":{"binsPerClass":4,"distance":"EUCLIDEAN"}})");
  const nlohmann::json single = evaluate({"--float32"});
  EXPECT_EQ(single.at("lenses").at(0).at("result").at("provenance").at("precision"), "FLOAT32");
  CalibctlRun wrong(
      {"evaluate", files.predictions(), files.labels(), "--label-base", "0", "--kernel", "cosine"});
  EXPECT_EQ(wrong.exit_code(), 1);
  EXPECT_THAT(wrong.error(), HasSubstr("--kernel is 'cosine', expected total_variation"));
}

TEST(CalibctlEvaluateTest, FailOnTurnsTheVerdictIntoTheExitCode) {
  const PredictionFiles miscalibrated(Draw(GeneratorSpec::M2(), 300), 0);
  const PredictionFiles calibrated(Draw(GeneratorSpec::M1(), 300), 0);
  const auto run = [](const PredictionFiles& files, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "evaluate", files.predictions(), files.labels(), "--label-base", "0",   "--seed",
        "1",        "--replicates",      "199",          "--output",     "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<CalibctlRun>(arguments);
  };
  const auto found = run(miscalibrated, {"--fail-on", "miscalibration"});
  EXPECT_EQ(found->exit_code(), 3) << found->error();
  EXPECT_EQ(found->json().at("gate").at("decision"), "OVER_LIMIT, MISCALIBRATED");
  const auto fine =
      run(calibrated, {"--fail-on", "miscalibration", "--significance-level", "0.02"});
  EXPECT_EQ(fine->exit_code(), 0) << fine->error();
  EXPECT_EQ(fine->json().at("gate").at("decision"), "UNDECIDED, NOT_REJECTED");
  EXPECT_EQ(fine->json().at("reading").at("verdict").at("text"),
            fine->json().at("gate").at("decision"));
  EXPECT_EQ(run(miscalibrated, {})->exit_code(), 0) << "nothing is decided unasked";
  EXPECT_EQ(
      run(calibrated, {"--fail-on", "miscalibration", "--significance-level", "0.01"})->exit_code(),
      2)
      << "199 replicates cannot reach 0.01 / 3";

  const auto over = run(miscalibrated, {"--fail-on", "over-limit"});
  EXPECT_EQ(over->exit_code(), 3) << over->error();
  EXPECT_EQ(over->json().at("gate").dump(),
            R"({"decision":"OVER_LIMIT, MISCALIBRATED","errorLimit":0.02,"failOn":["over-limit"],)"
            R"("failedOn":["over-limit"],"significanceLevel":0.05})");
  const nlohmann::json error = over->json().at("error");
  EXPECT_GT(error.at("lower").get<double>(), 0.02);
  EXPECT_LT(error.at("upper").get<double>(), 0.5);
  const auto undecided = run(calibrated, {"--fail-on", "over-limit"});
  EXPECT_EQ(undecided->exit_code(), 0) << undecided->error();
  EXPECT_EQ(undecided->json().at("gate").at("decision"), "UNDECIDED, NOT_REJECTED");
  EXPECT_EQ(run(calibrated, {"--fail-on", "over-limit,undecided"})->exit_code(), 3);
  const auto within = run(miscalibrated, {"--fail-on", "over-limit", "--error-limit", "0.5"});
  EXPECT_EQ(within->exit_code(), 0) << within->error();
  EXPECT_EQ(within->json().at("gate").at("decision"), "WITHIN_LIMIT, MISCALIBRATED");
}

TEST(CalibctlEvaluateTest, ForTwoClassesTheProbabilityOfClass1DecidesToo) {
  // Class 1 is stated 10 points too often on both sides of 1/2: of the top label, this cancels.
  PredictionSet set;
  set.class_count = 2;
  for (int i = 0; i < 4000; ++i) {
    const double stated = i % 2 == 0 ? 0.3 : 0.7;
    const double frequency = stated - 0.1;
    set.probabilities.insert(set.probabilities.end(), {1 - stated, stated});
    set.labels.push_back(i / 2 % 10 < std::lround(10 * frequency) ? 1 : 0);
  }
  const PredictionFiles files(set, 0);
  CalibctlRun run({"evaluate", files.predictions(), files.labels(), "--label-base", "0",
                   "--class-names", "no,yes", "--replicates", "0", "--consistency-replicates", "0",
                   "--fail-on", "over-limit"});
  EXPECT_EQ(run.exit_code(), 3) << run.error();
  const std::string text = run.output();
  EXPECT_THAT(text, StartsWith("verdict   OVER_LIMIT\nhow bad   P(yes) off by 10 points ("));
  EXPECT_THAT(text, Not(HasSubstr("top label off by")));
  EXPECT_THAT(text, EndsWith("\nfailed on over-limit\n"));
  EXPECT_EQ(text.find("OVER_LIMIT"), text.rfind("OVER_LIMIT")) << "said once";
}

TEST(CalibctlEvaluateTest, DropsInvalidRowsOnlyOnRequest) {
  PredictionSet set = Draw(GeneratorSpec::M1(), 100);
  set.probabilities[17 * 10] += 0.31;
  const PredictionFiles files(set, 0);
  CalibctlRun strict({"evaluate", files.predictions(), files.labels(), "--label-base", "0"});
  EXPECT_EQ(strict.exit_code(), 1);
  EXPECT_THAT(strict.error(), HasSubstr(files.predictions() + " line 18 sums to 1.3"));
  CalibctlRun lenient({"evaluate", files.predictions(), files.labels(), "--label-base", "0",
                       "--drop-invalid", "--replicates", "99", "--output", "json"});
  EXPECT_EQ(lenient.exit_code(), 0) << lenient.error();
  EXPECT_EQ(lenient.json().at("lenses").at(0).at("result").at("provenance").at("observations"),
            "99");
  EXPECT_EQ(lenient.json().at("fileRows").at("droppedRows"), "1");
}

TEST(CalibctlEvaluateTest, RecordsRenormalisationInTheProvenance) {
  PredictionSet set = Draw(GeneratorSpec::M1(), 100);
  set.probabilities[17 * 10] += 0.31;
  const PredictionFiles files(set, 0);
  const std::vector<std::string> arguments = {"evaluate",
                                              files.predictions(),
                                              files.labels(),
                                              "--label-base",
                                              "0",
                                              "--renormalise",
                                              "--replicates",
                                              "0",
                                              "--consistency-replicates",
                                              "0"};
  std::vector<std::string> json = arguments;
  json.insert(json.end(), {"--output", "json"});
  CalibctlRun run(json);
  ASSERT_EQ(run.exit_code(), 0) << run.error();
  const nlohmann::json rows = run.json().at("fileRows");
  EXPECT_EQ(run.json().at("lenses").at(0).at("result").at("provenance").at("observations"), "100");
  EXPECT_EQ(rows.at("renormalisedRows"), "1");
  EXPECT_NEAR(rows.at("largestRowSumCorrection").get<double>(), 0.31, 1e-12);
  CalibctlRun table(arguments);
  ASSERT_EQ(table.exit_code(), 0) << table.error();
  EXPECT_THAT(table.output(), HasSubstr("1 row was divided by its sum, which differed from 1 "
                                        "by at most 0.31"));
}

TEST(CalibctlEvaluateTest, NamesAnUnreadableFileAndTheReason) {
  const auto fault = [](const std::string& file) {
    CalibctlRun run({"evaluate", file, "labels.csv", "--label-base", "0"});
    EXPECT_EQ(run.exit_code(), 1);
    return run.error();
  };
  EXPECT_EQ(fault("/nonexistent.csv"),
            "calibctl: not found: cannot read /nonexistent.csv: No such file or directory\n");
  EXPECT_EQ(fault("/tmp"), "calibctl: cannot read /tmp: Is a directory\n");
}

TEST(CalibctlEvaluateTest, AcceptsLogits) {
  PredictionSet set = Draw(GeneratorSpec::M1(3), 100);
  PredictionSet logits = set;
  for (double& value : logits.probabilities) value = std::log(value + 1e-300) + 5;
  const PredictionFiles as_probabilities(set, 0);
  const PredictionFiles as_logits(logits, 0);
  CalibctlRun probabilities({"evaluate", as_probabilities.predictions(), as_probabilities.labels(),
                             "--label-base", "0", "--replicates", "0", "--output", "json"});
  CalibctlRun softmax({"evaluate", as_logits.predictions(), as_logits.labels(), "--label-base", "0",
                       "--replicates", "0", "--output", "json", "--logits"});
  ASSERT_EQ(probabilities.exit_code(), 0) << probabilities.error();
  ASSERT_EQ(softmax.exit_code(), 0) << softmax.error();
  ExpectClose(softmax.json().at("lenses").at(0).at("result"), "skceBiased",
              probabilities.json().at("lenses").at(0).at("result"), "skceBiased");
}

TEST(CalibctlEvaluateTest, TooLittleDataIsASentenceWithANumber) {
  const PredictionFiles files(Draw(GeneratorSpec::M1(), 1), 0);
  CalibctlRun run({"evaluate", files.predictions(), files.labels(), "--label-base", "0"});
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.error(), HasSubstr("not enough valid observations: 1, at least 2 are needed"));
}

TEST(CalibctlEvaluateTest, StopsOnCtrlC) {
  const PredictionFiles files(Draw(GeneratorSpec::M1(), 6000), 0);
  CalibctlRun run({"evaluate", files.predictions(), files.labels(), "--label-base", "0",
                   "--replicates", "100000", "--threads", "2"});
  ASSERT_TRUE(run.Interrupt());
  EXPECT_EQ(run.exit_code(), 1);
  EXPECT_THAT(run.error(), HasSubstr("cancelled"));
}

TEST(CalibctlUsageTest, IsExitCode2WithAnExplanation) {
  const PredictionFiles files(Draw(GeneratorSpec::M1(), 10), 0);
  CalibctlRun unstated({"evaluate", files.predictions(), files.labels()});
  EXPECT_EQ(unstated.exit_code(), 2);
  EXPECT_THAT(unstated.error(),
              AllOf(HasSubstr("--label-base is missing"), HasSubstr("does not guess")));
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{},
        {"nonsense"},
        {"show"},
        {"evaluate"},
        {"evaluate", "a", "b", "--label-base", "2"},
        {"show", "m", "--fail-on", "p"},
        {"show", "m", "--fail-on", "p-value"},
        {"evaluate", "a", "b", "--label-base", "0", "--fail-on", "drift"},
        {"evaluate", "a", "b", "--label-base", "0", "--fail-on", "p-value"},
        {"evaluate", "a", "b", "--label-base", "0", "--fail-on", "miscalibration", "--replicates",
         "0"},
        {"evaluate", "--model", "m", "--group-column", "region"},
        {"show", "m", "--output", "xml"},
        {"model"},
        {"model", "create", "m"},
        {"send", "m"},
        {"evaluate", "-", "-"},
        {"show", "m", "--nonsense"},
        {"simulate", "m", "--generator", "M4", "--n", "1"}}) {
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 2) << run.error();
    EXPECT_NE(run.error(), "");
  }
}

TEST(CalibctlUsageTest, NamesAnUnknownCommandAndTheArgumentsThatAreNotExpected) {
  const auto error = [](const std::vector<std::string>& arguments) {
    CalibctlRun run(arguments);
    EXPECT_EQ(run.exit_code(), 2);
    return run.error();
  };
  EXPECT_THAT(error({"sho", "weather"}),
              HasSubstr("unknown command \"sho\"; did you mean \"show\"?"));
  EXPECT_THAT(error({"model", "lst"}), HasSubstr("did you mean \"list\"?"));
  EXPECT_THAT(error({"nonsense"}),
              HasSubstr("unknown command \"nonsense\", expected model, send,"));
  EXPECT_THAT(error({"show", "m", "--failon", "x"}),
              HasSubstr("unknown option --failon; did you mean --fail-on?\n"));
  EXPECT_THAT(error({}), HasSubstr("Start with:"));
}

TEST(CalibctlUsageTest, HelpIsNotAnError) {
  CalibctlRun help({"--help"});
  EXPECT_EQ(help.exit_code(), 0);
  EXPECT_THAT(help.output(), AllOf(HasSubstr("Exit codes"), HasSubstr("evaluate")));
  for (const char* command : {"model", "send", "show", "test", "evaluate", "evaluate-forecasts",
                              "evaluate-labels", "recalibrate", "loss", "simulate", "alarms"}) {
    CalibctlRun run({command, "--help"});
    EXPECT_EQ(run.exit_code(), 0) << command;
    EXPECT_THAT(run.output(), Not(HasSubstr("Start with:"))) << command;
  }
  CalibctlRun update({"model", "update", "--help"});
  EXPECT_EQ(update.exit_code(), 0);
  EXPECT_THAT(update.output(), AllOf(HasSubstr("--error-limit"), Not(HasSubstr("default"))));
  CalibctlRun version({"--version"});
  EXPECT_EQ(version.exit_code(), 0);
  EXPECT_THAT(version.output(), HasSubstr("calibctl "));
}

}  // namespace
}  // namespace calibd::testing
