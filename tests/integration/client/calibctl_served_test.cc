// calibctl as a process against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <utility>

#include "calibd/convert/recalibration.h"
#include "calibd/convert/text.h"
#include "calibd/core/generator.h"
#include "calibd/core/recalibration.h"
#include "google/protobuf/util/json_util.h"
#include "integration/client/run_calibctl.h"
#include "support/http_get.h"
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

class CalibctlServedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start();
    ASSERT_NE(server_, nullptr);
  }

  std::unique_ptr<CalibctlRun> Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", server_->grpc_address()});
    return std::make_unique<CalibctlRun>(arguments);
  }
  // Runs calibctl, which must succeed, and returns the JSON.
  nlohmann::json RunJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--output", "json"});
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->json();
  }
  nlohmann::json Send(const std::string& model, const PredictionFiles& files) {
    return RunJson({"send", model, files.predictions(), files.labels(), "--label-base", "0"});
  }

  // From the server's metrics; -1 if they do not contain it.
  double RunningTests() {
    const std::string name = "\ncalibd_jobs_running ";
    const std::string body = HttpGet(server_->http_address(), "/metrics").body;
    const std::size_t at = body.find(name);
    return at == std::string::npos ? -1 : std::stod(body.substr(at + name.size()));
  }

  std::unique_ptr<ServerProcess> server_;
};

TEST_F(CalibctlServedTest, ASendWithAnIdempotencyKeyCanBeRepeated) {
  // Small messages: more batches than single contents are remembered.
  server_ = ServerProcess::Start({"--max-message-bytes", "2048"});
  ASSERT_NE(server_, nullptr);
  constexpr std::size_t kRows = 3000;
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(10), 1)->Draw(kRows, set);
  RunJson({"model", "create", "m", "--classes", "10", "--bandwidth", "1"});
  const auto send = [&](const PredictionSet& rows, const std::string& key) {
    const PredictionFiles files(rows, 0);
    std::vector<std::string> arguments{"send",         "m", files.predictions(), files.labels(),
                                       "--label-base", "0"};
    if (!key.empty()) arguments.insert(arguments.end(), {"--idempotency-key", key});
    const auto run = Run(arguments);
    const int exit_code = run->exit_code();
    return std::pair(exit_code, run->output() + run->error());
  };
  EXPECT_THAT(send(set, "2026-11-22").second, HasSubstr("m: 3000 rows accepted, 0 rejected"));
  EXPECT_THAT(send(set, "2026-11-22").second,
              HasSubstr("m: 0 rows accepted, 3000 duplicates, 0 rejected"));

  // The producers of both commands have ended.
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              HasSubstr("\ncalibd_producers{model=\"m\",version=\"\"} 0\n"));

  PredictionSet changed = set;
  std::swap(changed.labels[0], changed.labels[1]);
  ASSERT_NE(changed.labels, set.labels);
  PredictionSet longer = set;
  Generator::Create(GeneratorSpec::M2(10), 2)->Draw(5, longer);
  PredictionSet shorter = set;
  shorter.labels.resize(kRows - 1000);
  shorter.probabilities.resize((kRows - 1000) * 10);
  for (const PredictionSet& other : {changed, longer, shorter}) {
    const auto [code, output] = send(other, "2026-11-22");
    EXPECT_EQ(code, 1);
    EXPECT_THAT(output,
                HasSubstr("the idempotency key 2026-11-22 was already used with other rows"));
  }
  const auto [code, output] = send(set, "not a key");
  EXPECT_NE(code, 0);
  EXPECT_THAT(output, HasSubstr("\"idempotency-key:not a key\", expected to match"));

  EXPECT_EQ(send(set, "").first, 0);
  EXPECT_EQ(send(set, "").first, 0);
  EXPECT_EQ(RunJson({"show", "m"}).at("observations"), 3 * kRows);
}

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
  EXPECT_EQ(sent.at("accepted_rows"), 10000);
  const nlohmann::json shown = RunJson({"show", model});
  EXPECT_EQ(shown.at("observations"), 10000);
  ExpectClose(shown.at("provenance"), "bandwidth", expected, "nu", 1e-12);
  ExpectCifar10Estimates(shown.at("estimates"), expected);
  const nlohmann::json tested = RunJson({"test", model, "--replicates", "99", "--seed", "5"});
  ExpectClose(tested.at("provenance"), "bandwidth", expected, "nu", 1e-12);
  ExpectQuadratic(tested.at("quadratic"), expected);
  EXPECT_EQ(tested.at("quadratic").at("seed"), 5);
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
  EXPECT_EQ(estimate.at("model"), "models/m");
  EXPECT_EQ(estimate.at("any_better_than_zero"), true);
  EXPECT_EQ(estimate.at("estimators").size(), 5);
  EXPECT_EQ(estimate.at("estimators").at(0).at("estimator"), "fifteen_bins");
  nlohmann::json of_files = RunJson(
      {"estimate", files.predictions(), files.labels(), "--label-base", "0", "--seed", "3"});
  EXPECT_EQ(of_files.at("dropped_rows"), 0);
  of_files.erase("dropped_rows");
  estimate.erase("model");
  for (nlohmann::json* const result : {&estimate, &of_files}) {
    result->erase("elapsed_seconds");
    result->at("provenance").erase("compute_time");
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
  EXPECT_EQ(result.at("model"), "models/m/versions/2");
  EXPECT_EQ(result.at("baseline"), "models/m/versions/1");
  EXPECT_EQ(result.at("comparison").at("paired"), false);
  EXPECT_EQ(result.at("comparison").at("observations"), 200);
  EXPECT_EQ(result.at("comparison").at("log_loss").at("difference"), 0);
  EXPECT_EQ(result.at("pairing").at("model_without_id"), 200);
  EXPECT_EQ(result.at("first_observation"), 101);
  const auto text = Run({"compare", "m@2", "m@1"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(), StartsWith("m@2 against m@1: log loss cannot be told apart, "));
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
    ExpectQuadratic(RunJson({"test", name, "--replicates", "99"}).at("quadratic"), small_case);
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
  for (const char* const null : {"form", "forecast"}) {
    const nlohmann::json offline =
        RunJson({"evaluate", files.predictions(), files.labels(), "--label-base", "0",
                 "--bandwidth", "0.4", "--block-sizes", "2,7,100", "--seed", "11", "--null", null});
    if (std::string_view(null) == "form") {
      EXPECT_EQ(RunJson({"show", "m"}).at("estimates"), offline.at("estimates"));
    }
    nlohmann::json tested = RunJson({"test", "m", "--seed", "11", "--null", null}).at("quadratic");
    nlohmann::json evaluated = offline.at("quadratic");
    tested.erase("elapsed_seconds");
    evaluated.erase("elapsed_seconds");
    EXPECT_EQ(tested, evaluated);
  }
}

TEST_F(CalibctlServedTest, ModelsAreCreatedListedShownAndDeleted) {
  EXPECT_EQ(RunJson({"model", "list"}).at("models").size(), 0u);
  const nlohmann::json created =
      RunJson({"model", "create", "pets@2", "--class-names", "cat,dog", "--window", "500"});
  EXPECT_EQ(created.at("name"), "models/pets/versions/2");
  EXPECT_EQ(created.at("class_names"), nlohmann::json({"cat", "dog"}));
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
  // Only the fields that differ, also after an update of another field.
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
  RunJson({"model", "delete", "x--My-20pets@2"});
  RunJson({"model", "delete", "pets@2"});
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
  ASSERT_EQ(Run({"model", "create", "m", "--classes", "2", "--bandwidth", "0.5"})->exit_code(), 0);
  ASSERT_EQ(
      Run({"send", "m", files.predictions(), files.labels(), "--label-base", "0"})->exit_code(), 0);
  const auto list = Run({"list"});
  ASSERT_EQ(list->exit_code(), 0);
  EXPECT_THAT(list->output(),
              AllOf(HasSubstr("OVER_LIMIT"), HasSubstr("P(class 1) off by 10 points (")));
  ASSERT_EQ(Run({"model", "update", "m", "--error-limit", "0.03"})->exit_code(), 0);
  const auto history = Run({"history", "m"});
  ASSERT_EQ(history->exit_code(), 0);
  EXPECT_THAT(history->output(),
              AllOf(HasSubstr(" 10 ("), HasSubstr(")* "), HasSubstr("\nupdated 20"),
                    HasSubstr(": monitoring.error_limit 0.02 -> 0.03\n")));
  const nlohmann::json bucket = RunJson({"history", "m"}).at("buckets").at(0);
  EXPECT_NEAR(bucket.at("error").at("estimate").get<double>(), 0, 1e-9);
  EXPECT_NEAR(bucket.at("class_1_error").at("estimate").get<double>(), 0.1, 1e-9);
}

TEST_F(CalibctlServedTest, SimulateShowsWhichModelsAreCalibrated) {
  const auto decide = [&](const char* model, const char* generator) {
    const nlohmann::json sent =
        RunJson({"simulate", model, "--generator", generator, "--n", "2000", "--seed", "1"});
    EXPECT_EQ(sent.at("accepted_rows"), 2000);
    const auto test = Run({"test", model, "--seed", "1", "--fail-on", "p-value",
                           "--significance-level", "0.01", "--output", "json"});
    const int code = test->exit_code();
    EXPECT_EQ(test->json().at("decision").at("decision"), code == 3 ? "REJECTED" : "NOT_REJECTED");
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
  EXPECT_THAT(window->output(), StartsWith("OVER_LIMIT: the top label is off by "));
  // The window could contradict the verdict.
  const auto gate = Run({"evaluate", "--model", "m2", "--fail-on", "over-limit"});
  EXPECT_EQ(gate->exit_code(), 2);
  EXPECT_THAT(gate->error(), HasSubstr("`calibctl show m2 --fail-on over-limit`"));
  EXPECT_EQ(Run({"show", "m2"})->exit_code(), 0);
  const auto table = Run({"show", "m2", "--verbose", "--bins"});
  ASSERT_EQ(table->exit_code(), 0);
  EXPECT_THAT(table->output(), AllOf(HasSubstr("2000 observations"), HasSubstr("SKCE_ul (b = 2)"),
                                     HasSubstr("p (one look)"), HasSubstr("ONE look")));
}

TEST_F(CalibctlServedTest, ShowsTheHistory) {
  RunJson({"simulate", "m2", "--generator", "M2", "--n", "2000", "--seed", "1"});
  const nlohmann::json history = RunJson({"history", "m2", "--resolution", "minute"});
  EXPECT_EQ(history.at("model"), "models/m2");
  EXPECT_EQ(history.at("resolution"), "minute");
  std::int64_t observations = 0;
  for (const auto& bucket : history.at("buckets")) {
    observations += bucket.at("observations").get<std::int64_t>();
  }
  EXPECT_EQ(observations, 2000);
  EXPECT_EQ(history.at("total").at("observations"), 2000);
  const nlohmann::json estimate = EstimateOf(RunJson({"show", "m2"}).at("estimates"), 2);
  EXPECT_EQ(history.at("total").at("pairs"), estimate.at("block_count"));
  ExpectClose(history.at("total"), "skce", estimate, "skce", 1e-12);
  // By default the buckets are hours; incomplete ones at the ends are left out.
  EXPECT_EQ(RunJson({"history", "m2"}).at("resolution"), "hour");
  EXPECT_EQ(RunJson({"history", "m2", "--from", "2d"}).at("total").at("observations"), 2000);
  const nlohmann::json none = RunJson({"history", "m2", "--to", "2000-01-01"});
  EXPECT_TRUE(none.at("buckets").empty());
  EXPECT_TRUE(none.at("total").is_null());

  const auto csv = Run({"history", "m2", "--resolution", "day", "--csv"});
  EXPECT_EQ(csv->exit_code(), 0);
  const std::string lines = csv->output();
  EXPECT_EQ(lines.rfind("start_time,end_time,observations,", 0), 0U) << lines;
  const auto table = Run({"history", "m2"});
  EXPECT_EQ(table->exit_code(), 0);
  EXPECT_THAT(table->output(), AllOf(HasSubstr("from (UTC)"), HasSubstr("off by (points)")));
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"history", "m2", "--from", "yesterday"},
        {"history", "m2", "--resolution", "week"},
        {"history", "m2", "--csv", "--output", "json"}}) {
    EXPECT_EQ(Run(wrong)->exit_code(), 2) << wrong.back();
  }
}

TEST_F(CalibctlServedTest, SimulateKeepsTheRate) {
  const nlohmann::json sent =
      RunJson({"simulate", "slow", "--generator", "M1", "--n", "200", "--rate", "400"});
  EXPECT_EQ(sent.at("accepted_rows"), 200);
  EXPECT_GE(sent.at("elapsed_seconds").get<double>(), 0.49);
}

TEST_F(CalibctlServedTest, TooLittleDataIsASentence) {
  RunJson({"simulate", "young", "--generator", "M1", "--n", "100"});
  const auto show = Run({"show", "young", "--verbose"});
  EXPECT_EQ(show->exit_code(), 0);
  EXPECT_THAT(show->output(), HasSubstr("Not enough data: 100 observations, 400 more needed"));
  EXPECT_EQ(Run({"show", "young", "--fail-on", "undecided"})->exit_code(), 3);
}

TEST_F(CalibctlServedTest, ShowPrintsTheServersSummaryOfTheVerdict) {
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
    const std::string summary = shown.at("verdict").at("summary");
    EXPECT_THAT(text->output(), HasSubstr("\n" + summary + "\n"));
    EXPECT_THAT(summary, HasSubstr(status));
    EXPECT_THAT(text->output(), HasSubstr(status));
    const nlohmann::json& direction = shown.at("verdict").at("direction");
    if (!direction.is_null()) {
      EXPECT_THAT(
          text->output(),
          HasSubstr("\nDirection: " + convert::GapText(direction.at("gap")) + ": the mean "));
    }
  }
}

TEST_F(CalibctlServedTest, SendChecksClassesAndRows) {
  auto generator = Generator::Create(GeneratorSpec::M1(4), 3);
  PredictionSet set;
  generator->Draw(50, set);
  set.probabilities[4 * 30] = 2;
  const PredictionFiles files(set, 0);
  RunJson({"model", "create", "five", "--classes", "5"});
  const auto wrong =
      Run({"send", "five", files.predictions(), files.labels(), "--label-base", "0"});
  EXPECT_EQ(wrong->exit_code(), 1);
  EXPECT_THAT(wrong->error(), HasSubstr("has 4 classes, models/five has 5"));
  const auto bad =
      Run({"send", "four", files.predictions(), files.labels(), "--label-base", "0", "--create"});
  EXPECT_EQ(bad->exit_code(), 1);
  EXPECT_THAT(bad->error(),
              AllOf(HasSubstr(files.predictions() + " line 31, column 1 is 2, expected"),
                    Not(HasSubstr("known to be counted"))));
  const nlohmann::json sent =
      RunJson({"send", "four", files.predictions(), files.labels(), "--label-base", "0",
               "--drop-invalid", "--producer-id", "test"});
  EXPECT_EQ(sent.at("accepted_rows"), 49);
  EXPECT_EQ(sent.at("dropped_rows"), 1);
  EXPECT_EQ(sent.at("producer_id"), "test");
  EXPECT_EQ(RunJson({"show", "four"}).at("dropped_rows"), 1);
}

TEST_F(CalibctlServedTest, IdsNeedALabelGraceOrAreLeftOut) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "d.jsonl";
  std::ofstream(path) << "{\"id\": \"a\", \"probabilities\": [0.7, 0.3], \"label\": 0}\n"
                         "{\"id\": \"b\", \"probabilities\": [0.4, 0.6], \"label\": 1}\n";
  std::vector<std::string> send{"send", "jl", path, "--label-base", "0", "--create"};
  const auto create = Run(send);
  EXPECT_EQ(create->exit_code(), 2);
  EXPECT_THAT(create->error(), AllOf(HasSubstr("--create makes a model without a label grace"),
                                     HasSubstr("leave the ids out with --drop-column id\n")));
  send.insert(send.end(), {"--drop-column", "id"});
  EXPECT_EQ(RunJson(send).at("accepted_rows"), 2);
  send.resize(5);
  const auto existing = Run(send);
  EXPECT_EQ(existing->exit_code(), 2);
  EXPECT_THAT(existing->error(), HasSubstr("calibctl: jl has no label grace, which ids need"));
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
  EXPECT_THAT(show(),
              HasSubstr("verdict   over: OVER_LIMIT, also in group asia, MISCALIBRATED since "));
  const nlohmann::json found = RunJson({"alarms", "over"});
  std::string printed;
  for (const auto& alarm : found.at("alarms")) {
    const auto run = Run({"acknowledge", "over", alarm.at("id").dump(), "--error-limit", "0.2"});
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    printed += run->output();
  }
  // The limit changes once.
  EXPECT_THAT(printed,
              AllOf(StartsWith("updated models/over: monitoring.error_limit 0.02 -> 0.2\n"),
                    Not(ContainsRegex("\nupdated"))));
  EXPECT_THAT(show(), AllOf(HasSubstr("OVER_LIMIT (acknowledged), also in group asia, "),
                            HasSubstr("how bad   was off by "), HasSubstr(" over rows 1 to 2000; "),
                            HasSubstr("group asia (not measured yet since the acknowledgement)")));
}

TEST_F(CalibctlServedTest, SendMatchesColumnsAndLabelsToTheClassesByName) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    const std::string path = folder.path() / name;
    std::ofstream(path) << text;
    return path;
  };
  RunJson({"model", "create", "pets", "--class-names", "cat,dog"});
  const std::string rows =
      write("rows.csv", ",dog,species,cat\n0,0.75,dog,0.25\n1,0.25,cat,0.75\n2,0.5,dog,0.5\n");
  EXPECT_EQ(RunJson({"send", "pets", rows, "--label-column", "species"}).at("accepted_rows"), 3);
  // The same as positions.
  RunJson({"model", "create", "positions", "--classes", "2"});
  RunJson({"send", "positions", write("p.csv", "0.25,0.75\n0.75,0.25\n0.5,0.5\n"),
           write("l.csv", "1\n0\n1\n"), "--label-base", "0"});
  // The same as the probability of a dog.
  RunJson({"send", "positives", write("d.csv", "0.75\n0.25\n0.5\n"),
           write("t.csv", "True\nFalse\nTrue\n"), "--positive-class", "dog", "--class-names",
           "cat,dog", "--create"});
  EXPECT_EQ(RunJson({"model", "show", "positives"}).at("class_names"),
            nlohmann::json({"cat", "dog"}));
  // The same, with sums that are not 1.
  const nlohmann::json counts =
      RunJson({"send", "sums", write("s.csv", "cat,dog,y\n1,3,dog\n0.75,0.25,cat\n2,2,dog\n"),
               "--label-column", "y", "--renormalise", "--create"});
  EXPECT_EQ(counts.at("renormalised_rows"), 2);
  EXPECT_EQ(counts.at("largest_row_sum_correction"), 3);
  const nlohmann::json scores = RunJson({"show", "pets"}).at("scores");
  for (const char* const model : {"positions", "positives", "sums"}) {
    EXPECT_EQ(RunJson({"show", model}).at("scores"), scores) << model;
  }

  const auto renamed =
      Run({"send", "pets", write("r.csv", "kitten,dog,y\n0.5,0.5,dog\n"), "--label-column", "y"});
  EXPECT_EQ(renamed->exit_code(), 1);
  EXPECT_THAT(renamed->error(),
              HasSubstr("column \"kitten\" is no class; class \"cat\" has no column"));
  const auto note = Run({"send", "positions", rows, "--label-column", "species"});
  EXPECT_EQ(note->exit_code(), 0) << note->error();
  EXPECT_THAT(note->error(), HasSubstr("models/positions declares no class names; its classes are "
                                       "the columns \"dog\", \"cat\""));
}

TEST_F(CalibctlServedTest, SendChecksTimesAndStopsAtARejectionOfEveryBatch) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& content) {
    std::ofstream(folder.path() / name) << content;
    return (folder.path() / name).string();
  };
  RunJson({"model", "create", "times", "--classes", "2"});
  const std::string rows = "a,b,ts,y\n.5,.5,2016-11-01T12:00:00Z,0\n.5,.5,2106-11-01T12:00:00Z,1\n";
  const std::string old = write("old.csv", rows);
  std::vector<std::string> arguments = {
      "send", "times", old, "--label-base", "0", "--time-column", "ts", "--label-column", "y"};
  const auto late = Run(arguments);
  EXPECT_EQ(late->exit_code(), 1);
  EXPECT_THAT(late->error(), HasSubstr("old.csv line 2, column \"ts\": 2016-11-01T12:00:00Z is "
                                       "more than 1000 days before now"));
  arguments.emplace_back("--drop-invalid");
  EXPECT_EQ(RunJson(arguments).at("dropped_rows"), 2);
  EXPECT_EQ(RunJson({"show", "times"}).at("rejected_rows"), 0);
}

TEST_F(CalibctlServedTest, SimulateWarnsOfRepeatedRows) {
  const auto simulate = [&](const char* seed) {
    const auto run = Run({"simulate", "twice", "--n", "1000", "--seed", seed});
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    EXPECT_THAT(run->output(), HasSubstr("1000 rows accepted"));
    return run->error();
  };
  EXPECT_EQ(simulate("3"), "");
  EXPECT_EQ(simulate("4"), "");
  EXPECT_THAT(simulate("3"), AllOf(HasSubstr("33.3 % of the newest 3000 observations equal"),
                                   HasSubstr("models/twice had 2000 observations before this run"),
                                   HasSubstr("use another --seed")));
}

TEST_F(CalibctlServedTest, SimulateAcceptsAnyGeneratorAndPrintsItsExactError) {
  // The closed form gives .710642 pi for beta uniform and alpha = .1 over ten classes.
  const auto run = Run({"simulate", "half", "--pi", "0.5", "--beta", "uniform", "--n", "2000"});
  ASSERT_EQ(run->exit_code(), 0) << run->error();
  EXPECT_THAT(run->output(), AllOf(HasSubstr("is 0.355"), HasSubstr("is 0.827 on average")));
  const nlohmann::json skewed = RunJson({"simulate", "skewed", "--classes", "3", "--alpha", "1,2,5",
                                         "--pi", "0.9", "--beta", "class:2", "--n", "2000"});
  EXPECT_GT(skewed.at("generator").at("expected_calibration_error").get<double>(), 0.3);
  EXPECT_GT(skewed.at("generator").at("mean_total_variation").get<double>(), 0.1);
  const auto test = Run({"test", "skewed", "--seed", "1", "--output", "json"});
  ASSERT_EQ(test->exit_code(), 0) << test->error();
  EXPECT_LT(test->json().at("quadratic").at("p_value").get<double>(), 0.01);
  const auto fault = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"simulate", "x", "--classes", "3", "--n", "10"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto failed = Run(arguments);
    EXPECT_EQ(failed->exit_code(), 2);
    return failed->error();
  };
  EXPECT_THAT(fault({"--beta", "class:3"}), HasSubstr("--beta is 'class:3', expected uniform"));
  EXPECT_THAT(fault({"--beta", "0.5,0.5"}), HasSubstr("3 probabilities"));
  EXPECT_THAT(fault({"--alpha", "1,2"}), HasSubstr("alpha"));
  EXPECT_THAT(fault({"--pi", "2"}), HasSubstr("--pi"));
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
    result->erase("provenance");
    result->erase("elapsed_seconds");
    result->erase("dropped_rows");
    for (nlohmann::json& lens : result->at("lenses")) lens.at("result").erase("provenance");
  }
  EXPECT_EQ(file, model);
  // By default, the lenses of the declaration are used.
  const nlohmann::json declared = RunJson({"evaluate", "--model", "m", "--replicates", "99"});
  EXPECT_EQ(declared.at("lenses").size(), 2u);
  EXPECT_EQ(declared.at("lenses").at(1).at("lens"), "grouped");
  const auto both = Run({"evaluate", files.predictions(), "--model", "m"});
  EXPECT_EQ(both->exit_code(), 2);
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
  model.erase("compute_time");
  file.erase("compute_time");
  EXPECT_EQ(file, model);

  const auto text = Run({"recalibrate", "--model", "m"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(), AllOf(HasSubstr(" helps"), HasSubstr("newer 1000"),
                                    HasSubstr("error of the top label")));

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
  EXPECT_EQ(test->exit_code(std::chrono::seconds(20)), 1);
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
}

TEST_F(CalibctlServedTest, CreatesAModelWithGroupsAndSendsToIt) {
  const nlohmann::json made = RunJson({"model",   "create",
                                       "grouped", "--classes",
                                       "10",      "--bandwidth",
                                       "0.5",     "--group-tag",
                                       "region",  "--max-groups",
                                       "2",       "--tolerance",
                                       "1e-3",    "--significance-level",
                                       "0.01",    "--average-run-length",
                                       "1e5",     "--stale-after",
                                       "12h",     "--min-observations",
                                       "2000",    "--min-group-observations",
                                       "2"});
  EXPECT_EQ(made.at("monitoring").at("min_observations"), 2000);
  EXPECT_EQ(made.at("monitoring").at("min_group_observations"), 2);
  EXPECT_EQ(made.at("monitoring").at("max_groups"), 2);
  EXPECT_EQ(made.at("monitoring").at("tolerance"), 1e-3);
  EXPECT_EQ(made.at("monitoring").at("significance_level"), 0.01);
  EXPECT_EQ(made.at("monitoring").at("average_run_length"), 1e5);
  EXPECT_EQ(made.at("monitoring").at("stale_after_seconds"), 43200);
  auto generator = Generator::Create(GeneratorSpec::M1(10), 1);
  PredictionSet set;
  generator->Draw(3, set);
  const PredictionFiles files(set, 0);
  const TemporaryFolder folder;
  const std::string groups = folder.path() / "groups.csv";
  std::ofstream(groups) << "us\neu\nus\n";
  RunJson({"send", "grouped", files.predictions(), files.labels(), "--label-base", "0", "--groups",
           groups});
  const nlohmann::json shown = RunJson({"show", "grouped"});
  EXPECT_EQ(shown.at("tested_groups"), 1);
  const auto text = Run({"show", "grouped", "--verbose"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(), AllOf(HasSubstr("INSUFFICIENT_DATA: 3 of 2000 labelled predictions."),
                                    HasSubstr("not tested: 1 of 2 observations")));
  std::map<std::string, int> observations;
  for (const auto& group : shown.at("groups")) {
    observations[group.at("value")] = group.at("watch").at("observations");
  }
  EXPECT_EQ(observations.at("us"), 2);
  EXPECT_EQ(observations.at("eu"), 1);

  RunJson({"model", "create", "unwatched", "--classes", "10", "--no-monitoring"});
  EXPECT_TRUE(RunJson({"show", "unwatched"}).at("watch").is_null());
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--max-groups", "2"},
                                                {"--min-group-observations", "2"},
                                                {"--min-observations", "0"},
                                                {"--no-monitoring", "--tolerance", "1e-3"},
                                                {"--stale-after", "soon"},
                                                {"--significance-level", "1"}}) {
    std::vector<std::string> arguments = {"model", "create", "wrong", "--classes", "10"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(Run(arguments)->exit_code(), 2) << wrong.front();
  }
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
  EXPECT_TRUE(RunJson({"show", "m"}).at("recalibration").is_null());
  const auto before = Run({"show", "m"});
  EXPECT_EQ(before->exit_code(), 0);
  EXPECT_THAT(before->output(),
              HasSubstr("repair    `calibctl recalibrate --model m` looks for a map"));
  nlohmann::json advice = RunJson({"recalibrate", "--model", "m", "--window", "2000"});
  EXPECT_EQ(advice.at("helps"), true);
  nlohmann::json kept = RunJson({"show", "m"}).at("recalibration");
  EXPECT_EQ(kept.at("first_observation"), 1001);
  // A map has no bound of its size, and the server does not keep its lists.
  for (const char* const list : {"scales", "offsets", "curves"}) {
    EXPECT_TRUE(kept.at("map").at(list).empty()) << list;
    advice.at("map").erase(list);
    kept.at("map").erase(list);
  }
  EXPECT_EQ(kept, advice);
  const auto after = Run({"show", "m"});
  EXPECT_EQ(after->exit_code(), 0);
  EXPECT_THAT(after->output(), HasSubstr(" would leave "));
}

TEST_F(CalibctlServedTest, SimulateSendsABaselineThatIsCalibrated) {
  RunJson({"model", "create", "m", "--classes", "3", "--bandwidth", "1", "--baseline", "3"});
  RunJson({"simulate", "m", "--generator", "M2", "--classes", "3", "--n", "5000"});
  const nlohmann::json comparison = RunJson({"show", "m"}).at("comparison");
  EXPECT_EQ(comparison.at("observations"), 5000);
  // Half of the labels ignore the prediction of the model, and none that of the baseline.
  for (const char* const score : {"log_loss", "brier", "binned_error"}) {
    EXPECT_GT(comparison.at(score).at("lower"), 0) << score;
  }
}

TEST_F(CalibctlServedTest, AModelIsComparedWithItsBaseline) {
  constexpr std::size_t kRows = 2000;
  PredictionSet set;
  Generator::Create(GeneratorSpec::M2(3), 1)->Draw(kRows, set);
  PredictionSet other;
  Generator::Create(GeneratorSpec::M1(3), 2)->Draw(kRows, other);
  const PredictionFiles files(set, 0);
  const PredictionFiles baseline(other, 0);
  EXPECT_EQ(
      RunJson({"model", "create", "m", "--classes", "3", "--bandwidth", "1", "--baseline", "3"})
          .at("baseline"),
      "3");
  const std::vector<std::string> send{"send",         "m", files.predictions(), files.labels(),
                                      "--label-base", "0"};
  const auto without = Run(send);
  EXPECT_EQ(without->exit_code(), 2);
  EXPECT_THAT(without->error(), HasSubstr("m has the baseline 3: give its predictions"));
  std::vector<std::string> both = send;
  both.insert(both.end(), {"--baseline-probabilities", baseline.predictions()});
  EXPECT_EQ(RunJson(both).at("accepted_rows"), kRows);
  const nlohmann::json shown = RunJson({"show", "m"});
  EXPECT_EQ(shown.at("baseline"), "3");
  EXPECT_EQ(shown.at("comparison").at("observations"), kRows);
  EXPECT_TRUE(shown.at("comparison").at("paired"));
  const auto text = Run({"show", "m"});
  EXPECT_EQ(text->exit_code(), 0) << text->error();
  EXPECT_THAT(text->output(), HasSubstr("\nagainst   3: log loss "));

  other.probabilities.resize(3 * kRows - 3);
  other.labels.resize(kRows - 1);
  const PredictionFiles shorter(other, 0);
  both.back() = shorter.predictions();
  const auto mismatch = Run(both);
  EXPECT_EQ(mismatch->exit_code(), 1);
  EXPECT_THAT(mismatch->error(), HasSubstr("has 1999 rows of 3 classes"));
}

}  // namespace
}  // namespace calibd::testing
