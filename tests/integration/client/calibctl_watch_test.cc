// calibctl watch, show, alarms and acknowledge as processes against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <sstream>

#include "calibd/client/client.h"
#include "integration/client/run_calibctl.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::PredictionKind;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kClasses = 4;

class CalibctlWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Start({});
    v1::Model model;
    model.set_name("models/m");
    model.set_class_count(kClasses);
    model.mutable_bandwidth()->set_fixed(0.5);
    ASSERT_TRUE(client_->CreateModel(model).ok());
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--data-dir", data_});
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    auto client = Client::Connect(server_->grpc_address());
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  void Send(std::size_t rows, const GeneratorSpec& spec = GeneratorSpec::M1(kClasses)) {
    auto generator = Generator::Create(spec, 7);
    PredictionSet set;
    generator->Draw(rows, set);
    auto stream = client_->OpenStream("models/m");
    ASSERT_TRUE(stream.ok()) << stream.status();
    ASSERT_TRUE(
        (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok());
    ASSERT_TRUE((*stream)->Finish().ok());
  }

  std::unique_ptr<CalibctlRun> Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", server_->grpc_address()});
    return std::make_unique<CalibctlRun>(arguments);
  }

  // The output of a run that must be good.
  std::string RunToEnd(const std::vector<std::string>& arguments) {
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->output();
  }

  // Waits until the run has printed this.
  static ::testing::AssertionResult Prints(const CalibctlRun& run, const std::string& text) {
    if (WaitFor([&] { return run.output().find(text) != std::string::npos; })) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << run.output() << run.error();
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(CalibctlWatchTest, PrintsALineAChangeOverARestartUntilCtrlC) {
  const auto watch = Run({"watch", "m", "--interval", "0.1s"});
  ASSERT_TRUE(Prints(*watch, "Z models/m INSUFFICIENT DATA n = 0"));
  Send(50);
  ASSERT_TRUE(Prints(*watch, "n = 50, log10 e-value "));
  const std::string address = server_->grpc_address();
  client_.reset();
  server_->Kill();
  ASSERT_TRUE(WaitFor([&] { return watch->error().find("LOST " + address) != std::string::npos; }));
  Start({"--listen", address});
  ASSERT_TRUE(WaitFor([&] {
    return watch->error().find(address + " is back") != std::string::npos;
  })) << watch->error();
  Send(60);
  ASSERT_TRUE(Prints(*watch, "n = 110, log10 e-value "));
  ASSERT_TRUE(watch->Interrupt());
  EXPECT_EQ(watch->exit_code(), 0) << watch->error();
  // Each change once.
  std::vector<std::string> lines = Lines(watch->output());
  const auto of_50 = [](const std::string& line) {
    return line.find("n = 50,") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), of_50), 1) << watch->output();
}

TEST_F(CalibctlWatchTest, PrintsAJsonObjectALine) {
  const auto watch = Run({"watch", "m", "--interval", "0.1s", "--output", "json"});
  ASSERT_TRUE(Prints(*watch, "\"observations\":0"));
  Send(50);
  ASSERT_TRUE(Prints(*watch, "\"observations\":50"));
  ASSERT_TRUE(watch->Interrupt());
  EXPECT_EQ(watch->exit_code(), 0);
  std::int64_t revision = 0;
  for (const std::string& line : Lines(watch->output())) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.at("calibration").at("model"), "models/m");
    EXPECT_GT(json.at("revision").get<std::int64_t>(), revision);
    revision = json.at("revision").get<std::int64_t>();
  }
}

TEST_F(CalibctlWatchTest, DrawsAScreenOnATerminal) {
  // script gives it a terminal of its own.
  const ChildProcess terminal(
      {"script", "-qec",
       CALIBD_BIN_DIR "/calibctl watch m --interval 0.1s --server " + server_->grpc_address(),
       "/dev/null"},
      folder_.path() / "screen.txt");
  const auto draws = [&](const std::string& text) {
    return WaitFor([&] { return terminal.Output().find(text) != std::string::npos; });
  };
  ASSERT_TRUE(draws("\x1b[2J\x1b[Hmodel         models/m\x1b[K")) << terminal.Output();
  Send(50);
  ASSERT_TRUE(draws("n             50\x1b[K")) << terminal.Output();
  EXPECT_THAT(terminal.Output(), AllOf(HasSubstr("log10 e-value ["), HasSubstr("; Ctrl-C ends")));
}

TEST_F(CalibctlWatchTest, EndsWithAnErrorWhenTheModelIsDeleted) {
  const auto watch = Run({"watch", "m"});
  ASSERT_TRUE(Prints(*watch, "models/m INSUFFICIENT DATA"));
  ASSERT_TRUE(client_->DeleteModel("models/m").ok());
  EXPECT_EQ(watch->exit_code(), 1);
  EXPECT_THAT(watch->error(), HasSubstr("not found: "));
  const auto unknown = Run({"watch", "other"});
  EXPECT_EQ(unknown->exit_code(), 1);
  const auto hasty = Run({"watch", "m", "--interval", "0.01s"});
  EXPECT_EQ(hasty->exit_code(), 2);
  EXPECT_THAT(hasty->error(), HasSubstr("--interval is 0.01s, expected 0.1s to 1h"));
}

TEST_F(CalibctlWatchTest, ShowsAnAlarmUntilItIsAcknowledged) {
  Send(600, GeneratorSpec::M2(kClasses));
  EXPECT_THAT(
      RunToEnd({"show", "m"}),
      AllOf(::testing::StartsWith("models/m: MISCALIBRATED since 20"),
            HasSubstr("; n = 600; SKCE +"), HasSubstr("\nEvidence: the e-value reached "),
            HasSubstr("often one looks. It is "), HasSubstr("\n600 observations accepted, "),
            HasSubstr("models/m: 2 alarms active\n"), HasSubstr("ONE look"),
            Not(HasSubstr("proven"))));
  const auto json = Run({"show", "m", "--output", "json"});
  ASSERT_EQ(json->exit_code(), 0);
  EXPECT_EQ(json->json().at("verdict").at("status"), "miscalibrated");

  const auto alarms = Run({"alarms", "m", "--output", "json"});
  ASSERT_EQ(alarms->exit_code(), 0) << alarms->error();
  // Of the evidence and, newest first, of drift.
  ASSERT_EQ(alarms->json().at("alarms").size(), 2u);
  EXPECT_EQ(alarms->json().at("alarms").at(0).at("kind"), "drift");
  const auto evidence = Run({"acknowledge", "m", "1", "--note", "recalibrated"});
  ASSERT_EQ(evidence->exit_code(), 0) << evidence->error();
  EXPECT_THAT(evidence->output(),
              HasSubstr("models/m: alarm 1 (evidence) is acknowledged since 20"));
  EXPECT_THAT(RunToEnd({"show", "m"}), ::testing::StartsWith("models/m: DRIFTED since 20"));
  // Once acknowledged, the note stays.
  const auto again = Run({"acknowledge", "m", "1", "--note", "no", "--output", "json"});
  ASSERT_EQ(again->exit_code(), 0) << again->error();
  EXPECT_EQ(again->json().at("alarm").at("note"), "recalibrated");
  EXPECT_THAT(RunToEnd({"acknowledge", "m", "2"}), HasSubstr("alarm 2 (drift) is acknowledged"));
  EXPECT_THAT(RunToEnd({"alarms", "m"}),
              AllOf(HasSubstr("no alarm active"), HasSubstr("alarm 1: recalibrated\n")));
  EXPECT_THAT(RunToEnd({"show", "m"}),
              AllOf(::testing::StartsWith("models/m: INSUFFICIENT DATA; n = 0\n"),
                    HasSubstr("from number 601 on, when the watch began anew")));
  const auto none = Run({"acknowledge", "m", "99"});
  EXPECT_EQ(none->exit_code(), 1);
  EXPECT_THAT(none->error(), HasSubstr("has no alarm 99"));
  EXPECT_EQ(Run({"acknowledge", "m", "0"})->exit_code(), 2);
}

}  // namespace
}  // namespace calibd::testing
