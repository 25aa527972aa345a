// calibctl send and simulate against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "calibd/core/generator.h"
#include "integration/client/calibctl_served.h"
#include "support/http_get.h"
#include "support/test_data.h"

namespace calibd::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(CalibctlServedTest, ASendWithAnIdempotencyKeyCanBeRepeated) {
  // The messages are small, so that there are more batches than single contents are remembered.
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
  EXPECT_EQ(RunJson({"show", "m"}).at("observations"), std::to_string(3 * kRows));
}

TEST_F(CalibctlServedTest, SendShufflesRowsThatAreSorted) {
  PredictionSet drawn;
  Generator::Create(GeneratorSpec::M1(10), 1)->Draw(8000, drawn);
  PredictionSet sorted;
  sorted.class_count = drawn.class_count;
  for (std::int32_t k = 0; k < 10; ++k) {
    for (std::size_t i = 0; i < drawn.labels.size(); ++i) {
      if (drawn.labels[i] != k) continue;
      const auto row = drawn.view().row(i);
      sorted.probabilities.insert(sorted.probabilities.end(), row.begin(), row.end());
      sorted.labels.push_back(k);
    }
  }
  const PredictionFiles files(sorted, 0);
  const auto shown = [&](const std::string& model, const std::vector<std::string>& more) {
    RunJson({"model", "create", model, "--classes", "10", "--bandwidth", "1"});
    std::vector<std::string> arguments{"send",         model,          files.predictions(),
                                       files.labels(), "--label-base", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    EXPECT_EQ(RunJson(arguments).at("acceptedRows"), "8000");
    const auto run = Run({"show", model});
    EXPECT_EQ(run->exit_code(), 0);
    return run->output();
  };
  EXPECT_THAT(shown("sorted", {}), HasSubstr("warning   "));
  EXPECT_THAT(shown("mixed", {"--shuffle", "7"}), Not(HasSubstr("warning   ")));
}

TEST_F(CalibctlServedTest, SimulateKeepsTheRate) {
  const nlohmann::json sent =
      RunJson({"simulate", "slow", "--generator", "M1", "--n", "200", "--rate", "400"});
  EXPECT_EQ(sent.at("acceptedRows"), "200");
  EXPECT_GE(sent.at("elapsedSeconds").get<double>(), 0.49);
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
      RunJson({"send", "four", files.predictions(), files.labels(), "--label-base", "0", "--create",
               "--drop-invalid", "--producer-id", "test"});
  EXPECT_EQ(sent.at("acceptedRows"), "49");
  EXPECT_EQ(sent.at("droppedRows"), "1");
  EXPECT_EQ(sent.at("producerId"), "test");
  EXPECT_EQ(RunJson({"show", "four"}).at("droppedRows"), "1");
  // No valid row follows.
  const TemporaryFolder folder;
  const std::string path = folder.path() / "wrong.csv";
  std::ofstream(path) << "2,0,0,0,1\n0.5,0.5,0.5,0.5,1\n";
  const auto none =
      Run({"send", "four", path, "--labels-last-column", "--label-base", "0", "--drop-invalid"});
  EXPECT_EQ(none->exit_code(), 1);
  EXPECT_THAT(none->output(), HasSubstr("0 rows accepted, 0 rejected, 2 dropped"));
  EXPECT_THAT(none->error(), HasSubstr("no row was counted: all 2 rows are invalid"));
  EXPECT_EQ(RunJson({"show", "four"}).at("droppedRows"), "3");
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
  EXPECT_EQ(RunJson(send).at("acceptedRows"), "2");
  send.resize(5);
  const auto existing = Run(send);
  EXPECT_EQ(existing->exit_code(), 2);
  EXPECT_THAT(existing->error(), HasSubstr("calibctl: jl has no label grace, which ids need"));
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
  EXPECT_EQ(RunJson({"send", "pets", rows, "--label-column", "species"}).at("acceptedRows"), "3");
  // These rows name the classes by their positions.
  RunJson({"model", "create", "positions", "--classes", "2"});
  RunJson({"send", "positions", write("p.csv", "0.25,0.75\n0.75,0.25\n0.5,0.5\n"),
           write("l.csv", "1\n0\n1\n"), "--label-base", "0"});
  // These rows state only the probability of a dog.
  RunJson({"send", "positives", write("d.csv", "0.75\n0.25\n0.5\n"),
           write("t.csv", "True\nFalse\nTrue\n"), "--positive-class", "dog", "--class-names",
           "cat,dog", "--create"});
  EXPECT_EQ(RunJson({"model", "show", "positives"}).at("classes").at("names"),
            nlohmann::json({"cat", "dog"}));
  // The sums of these rows are not 1.
  const nlohmann::json counts =
      RunJson({"send", "sums", write("s.csv", "cat,dog,y\n1,3,dog\n0.75,0.25,cat\n2,2,dog\n"),
               "--label-column", "y", "--renormalise", "--create"});
  EXPECT_EQ(counts.at("fileRows").at("renormalisedRows"), "2");
  EXPECT_EQ(counts.at("fileRows").at("largestRowSumCorrection"), 3);
  nlohmann::json scores = RunJson({"show", "pets"}).at("scores");
  EXPECT_EQ(scores.at("class1Name"), "dog");
  for (const char* const model : {"positives", "sums", "positions"}) {
    // The classes of this model have no names.
    if (model == std::string("positions")) scores["class1Name"] = "";
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

TEST_F(CalibctlServedTest, SendNamesTheClassesByTheNumbersOfTheLabels) {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    const std::string path = folder.path() / name;
    std::ofstream(path) << text;
    return path;
  };
  const std::string rows = write("rows.csv", "0.5,0.25,0.25,3\n0.25,0.5,0.25,1\n");
  const std::vector<std::string> send = {"--labels-last-column", "--label-base", "1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), send.begin(), send.end());
    return arguments;
  };
  RunJson(with({"send", "numbers", rows, "--create"}));
  EXPECT_EQ(RunJson({"model", "show", "numbers"}).at("classes").at("names"),
            nlohmann::json({"1", "2", "3"}));
  // The rows of the second call belong to the same classes.
  EXPECT_EQ(RunJson(with({"send", "numbers", rows})).at("acceptedRows"), "2");
  RunJson({"model", "create", "positions", "--classes", "3"});
  const auto note = Run(with({"send", "positions", rows}));
  EXPECT_EQ(note->exit_code(), 0) << note->error();
  EXPECT_THAT(note->error(), HasSubstr("models/positions declares no class names and counts its "
                                       "classes from 0: your label 1 is its class 0"));
}

TEST_F(CalibctlServedTest, SendCreatesNoModelForAFileWithAColumnTooMany) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "age.csv";
  std::ofstream(path) << "no,yes,age,label\n0.25,0.75,55,yes\n0.5,0.5,60,no\n";
  const auto refused = Run({"send", "aged", path, "--label-column", "label", "--create"});
  EXPECT_EQ(refused->exit_code(), 1);
  EXPECT_THAT(refused->error(), HasSubstr("leave it out with --drop-column age"));
  EXPECT_EQ(Run({"model", "show", "aged"})->exit_code(), 1);
  RunJson({"send", "aged", path, "--label-column", "label", "--create", "--drop-column", "age"});
  EXPECT_EQ(RunJson({"model", "show", "aged"}).at("classes").at("count"), 2);
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
  EXPECT_THAT(late->error(), HasSubstr("old.csv line 2, column 3 (\"ts\"): 2016-11-01T12:00:00Z is "
                                       "more than 1000 days before now"));
  arguments.emplace_back("--drop-invalid");
  const auto none = Run(arguments);
  EXPECT_EQ(none->exit_code(), 1);
  EXPECT_THAT(none->error(), HasSubstr("no row was counted: all 2 rows are invalid"));
  EXPECT_EQ(RunJson({"show", "times"}).at("droppedRows"), "2");
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
  EXPECT_THAT(simulate("3"),
              AllOf(HasSubstr("33.3 % of the newest 3000 observations seem to repeat"),
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
  EXPECT_GT(skewed.at("generator").at("expectedCalibrationError").get<double>(), 0.3);
  EXPECT_GT(skewed.at("generator").at("meanTotalVariation").get<double>(), 0.1);
  const auto test = Run({"test", "skewed", "--seed", "1", "--output", "json"});
  ASSERT_EQ(test->exit_code(), 0) << test->error();
  EXPECT_LT(test->json().at("pValue").get<double>(), 0.01);
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

TEST_F(CalibctlServedTest, SimulateSendsABaselineThatIsCalibrated) {
  RunJson({"model", "create", "m", "--classes", "3", "--bandwidth", "1", "--baseline", "3"});
  // It has the classes of the model.
  RunJson({"simulate", "m", "--generator", "M2", "--n", "5000"});
  const auto other = Run({"simulate", "m", "--classes", "4", "--n", "10"});
  EXPECT_EQ(other->exit_code(), 1);
  EXPECT_THAT(other->error(), HasSubstr("models/m has 3 classes, the generator 4"));
  const nlohmann::json comparison = RunJson({"show", "m"}).at("comparison");
  EXPECT_EQ(comparison.at("observations"), "5000");
  // Half of the labels ignore the prediction of the model, and none that of the baseline.
  for (const char* const score : {"logLoss", "brier", "binnedError"}) {
    EXPECT_GT(comparison.at(score).at("lower"), 0) << score;
  }
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
  EXPECT_EQ(made.at("monitoring").at("minObservations"), "2000");
  EXPECT_EQ(made.at("monitoring").at("minGroupObservations"), "2");
  EXPECT_EQ(made.at("monitoring").at("maxGroups"), 2);
  EXPECT_EQ(made.at("monitoring").at("tolerance"), 1e-3);
  EXPECT_EQ(made.at("monitoring").at("significanceLevel"), 0.01);
  EXPECT_EQ(made.at("monitoring").at("averageRunLength"), 1e5);
  EXPECT_EQ(made.at("monitoring").at("staleAfter"), "43200s");
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
  EXPECT_EQ(shown.at("testedGroups"), 1);
  const auto text = Run({"show", "grouped", "--verbose"});
  EXPECT_EQ(text->exit_code(), 0);
  EXPECT_THAT(text->output(),
              AllOf(HasSubstr("INSUFFICIENT_DATA"), HasSubstr("2000 labelled rows; 3 so far"),
                    HasSubstr("not tested: 1 of 2 observations")));
  std::map<std::string, std::string> observations;
  for (const auto& group : shown.at("groups")) {
    observations[group.at("value")] = group.at("watch").at("observations");
  }
  EXPECT_EQ(observations.at("us"), "2");
  EXPECT_EQ(observations.at("eu"), "1");

  RunJson({"model", "create", "unwatched", "--classes", "10", "--no-monitoring"});
  EXPECT_FALSE(RunJson({"show", "unwatched"}).contains("watch"));
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
          .at("classes")
          .at("baseline"),
      "3");
  const std::vector<std::string> send{"send",         "m", files.predictions(), files.labels(),
                                      "--label-base", "0"};
  const auto without = Run(send);
  EXPECT_EQ(without->exit_code(), 2);
  EXPECT_THAT(without->error(), HasSubstr("m has the baseline 3: give its predictions"));
  std::vector<std::string> both = send;
  both.insert(both.end(), {"--baseline-probabilities", baseline.predictions()});
  EXPECT_EQ(RunJson(both).at("acceptedRows"), std::to_string(kRows));
  const nlohmann::json shown = RunJson({"show", "m"});
  EXPECT_EQ(shown.at("baseline"), "3");
  EXPECT_EQ(shown.at("comparison").at("observations"), std::to_string(kRows));
  EXPECT_TRUE(shown.at("comparison").at("paired"));
  const auto text = Run({"show", "m"});
  EXPECT_EQ(text->exit_code(), 0) << text->error();
  EXPECT_THAT(text->output(), HasSubstr("\nagainst   3: log loss "));

  // Of a file with other columns, only those of the predictions are read.
  const TemporaryFolder folder;
  const std::string rows = folder.path() / "rows.csv";
  std::ofstream(rows) << "key,truth,prob_0,prob_1,prob_2\n11,0,0.5,0.3,0.2\n12,1,0.1,0.8,0.1\n";
  for (const char* const old :
       {"key,truth,prob_0,prob_1,prob_2\n11,0,0.4,0.4,0.2\n12,1,0.2,0.6,0.2\n",
        "prob_0,prob_1,prob_2\n0.4,0.4,0.2\n0.2,0.6,0.2\n"}) {
    const std::string path = folder.path() / "old.csv";
    std::ofstream(path) << old;
    EXPECT_EQ(RunJson({"send", "m", rows, "--label-column", "truth", "--label-base", "0",
                       "--drop-column", "key", "--baseline-probabilities", path})
                  .at("acceptedRows"),
              "2");
  }

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
