// calibctl watch, show, alarms and acknowledge as processes against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <mutex>
#include <sstream>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "calibd/v1/calibration_service.grpc.pb.h"
#include "integration/client/run_calibctl.h"
#include "support/in_process_server.h"

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
    model.mutable_classes()->set_count(kClasses);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
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

  // Returns the output of a run that must succeed.
  std::string RunToEnd(const std::vector<std::string>& arguments) {
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->output();
  }

  // Waits until the run has printed this text.
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

TEST_F(CalibctlWatchTest, PrintsALinePerChangeAcrossARestartUntilCtrlC) {
  const auto watch = Run({"watch", "m", "--interval", "0.1s"});
  ASSERT_TRUE(Prints(*watch, "Z m UNDECIDED, INSUFFICIENT_DATA, 0 rows"));
  Send(50);
  ASSERT_TRUE(Prints(*watch, "INSUFFICIENT_DATA, 50 rows, off by "));
  const std::string address = server_->grpc_address();
  client_.reset();
  server_->Kill();
  ASSERT_TRUE(WaitFor([&] { return watch->error().find("LOST " + address) != std::string::npos; }));
  Start({"--listen", address});
  ASSERT_TRUE(WaitFor([&] {
    return watch->error().find(address + " is back") != std::string::npos;
  })) << watch->error();
  Send(60);
  ASSERT_TRUE(Prints(*watch, ", 110 rows, off by "));
  ASSERT_TRUE(watch->Interrupt());
  EXPECT_EQ(watch->exit_code(), 0) << watch->error();
  // Each change is printed once.
  std::vector<std::string> lines = Lines(watch->output());
  const auto of_50 = [](const std::string& line) {
    return line.find(", 50 rows,") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(), of_50), 1) << watch->output();
}

TEST_F(CalibctlWatchTest, PrintsAJsonObjectPerLine) {
  const auto watch = Run({"watch", "m", "--interval", "0.1s", "--output", "json"});
  ASSERT_TRUE(Prints(*watch, "\"observations\":\"0\""));
  Send(50);
  ASSERT_TRUE(Prints(*watch, "\"observations\":\"50\""));
  ASSERT_TRUE(watch->Interrupt());
  EXPECT_EQ(watch->exit_code(), 0);
  std::int64_t revision = 0;
  for (const std::string& line : Lines(watch->output())) {
    const auto json = nlohmann::json::parse(line);
    EXPECT_EQ(json.at("calibration").at("model"), "models/m");
    EXPECT_GT(Integer(json.at("revision")), revision);
    revision = Integer(json.at("revision"));
  }
}

TEST_F(CalibctlWatchTest, DrawsAScreenOnATerminal) {
  // script provides a terminal.
  const ChildProcess terminal(
      {"script", "-qec",
       "NO_COLOR=1 " CALIBD_BIN_DIR "/calibctl watch m --interval 0.1s --server " +
           server_->grpc_address(),
       "/dev/null"},
      folder_.path() / "screen.txt");
  const auto draws = [&](const std::string& text) {
    return WaitFor([&] { return terminal.Output().find(text) != std::string::npos; });
  };
  ASSERT_TRUE(draws("\x1b[2J\x1b[Hverdict   m: UNDECIDED, INSUFFICIENT_DATA\x1b[K"))
      << terminal.Output();
  Send(50);
  ASSERT_TRUE(draws("data      50 labelled rows")) << terminal.Output();
  EXPECT_THAT(terminal.Output(), AllOf(HasSubstr("how bad   off by "), HasSubstr("; Ctrl-C ends")));
}

TEST_F(CalibctlWatchTest, EndsWithAnErrorWhenTheModelIsDeleted) {
  const auto watch = Run({"watch", "m"});
  ASSERT_TRUE(Prints(*watch, "m UNDECIDED, INSUFFICIENT_DATA"));
  ASSERT_TRUE(client_->DeleteModel("models/m", "models/m").ok());
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
  EXPECT_THAT(RunToEnd({"show", "m", "--verbose"}),
              AllOf(::testing::StartsWith("verdict   m: OVER_LIMIT, alarm on 20"),
                    HasSubstr("), MISCALIBRATED\n"), HasSubstr("\nlog10 e-value "),
                    HasSubstr("\n600 observations accepted, "), HasSubstr("\nm: 3 alarms active\n"),
                    HasSubstr("ONE look"), Not(HasSubstr("proven"))));
  const auto json = Run({"show", "m", "--output", "json"});
  ASSERT_EQ(json->exit_code(), 0);
  EXPECT_EQ(json->json().at("verdict").at("status"), "MISCALIBRATED");

  const auto alarms = Run({"alarms", "m", "--output", "json"});
  ASSERT_EQ(alarms->exit_code(), 0) << alarms->error();
  // Alarms of the evidence, of drift, and of the error.
  ASSERT_EQ(alarms->json().at("alarms").size(), 3u);
  EXPECT_EQ(alarms->json().at("alarms").at(0).at("kind"), "OVER_LIMIT");
  EXPECT_EQ(alarms->json().at("alarms").at(1).at("kind"), "DRIFT");
  const auto evidence = Run({"acknowledge", "m", "1", "--note", "recalibrated"});
  ASSERT_EQ(evidence->exit_code(), 0) << evidence->error();
  EXPECT_THAT(
      evidence->output(),
      AllOf(HasSubstr("m: alarm 1 (evidence) was acknowledged at 20"),
            HasSubstr("; the evidence begins anew with row 601. Now:\nverdict   m: OVER_LIMIT")));
  EXPECT_THAT(RunToEnd({"show", "m"}),
              AllOf(::testing::StartsWith("verdict   m: OVER_LIMIT, alarm on 20"),
                    HasSubstr("), DRIFTED\n")));
  // After the first acknowledgement, the note does not change.
  const auto again = Run({"acknowledge", "m", "1", "--note", "no", "--output", "json"});
  ASSERT_EQ(again->exit_code(), 0) << again->error();
  EXPECT_EQ(again->json().at("alarm").at("note"), "recalibrated");
  EXPECT_THAT(std::string(again->json().at("effect")), HasSubstr("acknowledged before"));
  EXPECT_THAT(RunToEnd({"acknowledge", "m", "2"}),
              HasSubstr("alarm 2 (drift) was acknowledged at 20"));
  EXPECT_THAT(RunToEnd({"acknowledge", "m", "3"}),
              HasSubstr("alarm 3 (over_limit) was acknowledged at 20"));
  EXPECT_THAT(RunToEnd({"alarms", "m"}),
              AllOf(HasSubstr("no alarm active"), HasSubstr("alarm 1: recalibrated\n")));
  EXPECT_THAT(
      RunToEnd({"show", "m", "--verbose"}),
      AllOf(::testing::StartsWith("verdict   m: OVER_LIMIT (acknowledged), INSUFFICIENT_DATA\n"),
            HasSubstr("; 0 since row 601"), HasSubstr("Since row 601, when the watch restarted")));
  EXPECT_EQ(Run({"show", "m", "--fail-on", "over-limit"})->exit_code(), 3);
  const auto none = Run({"acknowledge", "m", "99"});
  EXPECT_EQ(none->exit_code(), 1);
  EXPECT_THAT(none->error(), HasSubstr("has no alarm 99"));
  EXPECT_EQ(Run({"acknowledge", "m", "0"})->exit_code(), 2);
}

// Answers with the results that a test sets, one model per page.
class VerdictServer final : public v1::CalibrationService::Service {
 public:
  // Sets the observations of models m0, m1, ..., of which the first is rejected.
  void Set(const std::vector<std::int64_t>& observations) {
    const std::lock_guard lock(mutex_);
    observations_ = observations;
  }
  [[nodiscard]] const std::string& address() const { return server_.address(); }
  double rate() {
    const std::lock_guard lock(mutex_);
    return rate_;
  }

  // Waits until the client disconnects.
  grpc::Status GetCalibration(grpc::ServerContext* context,
                              const v1::GetCalibrationRequest* /*request*/,
                              v1::GetCalibrationResponse* /*response*/) override {
    asked_ = true;
    WaitFor([&] { return context->IsCancelled(); }, std::chrono::minutes(2));
    return grpc::Status::CANCELLED;
  }
  [[nodiscard]] bool asked() const { return asked_; }

  grpc::Status ListVerdicts(grpc::ServerContext* /*context*/,
                            const v1::ListVerdictsRequest* request,
                            v1::ListVerdictsResponse* response) override {
    const std::lock_guard lock(mutex_);
    rate_ = request->false_discovery_rate();
    const std::size_t k = request->page_token().empty() ? 0 : std::stoul(request->page_token());
    if (k < observations_.size()) {
      auto& model = *response->add_models();
      model.set_model("models/m" + std::to_string(k));
      model.set_observations(observations_[k]);
      model.mutable_verdict()->set_status(k == 0 ? v1::Verdict::MISCALIBRATED
                                                 : v1::Verdict::NOT_REJECTED);
      model.mutable_reading()->mutable_verdict()->set_text(k == 0 ? "MISCALIBRATED"
                                                                  : "NOT_REJECTED");
      model.mutable_watch()->set_observations(observations_[k]);
      model.mutable_watch()->mutable_evidence()->set_log10_e_value(k == 0 ? 7 : -1);
      model.set_rejected_among_all(k == 0);
    }
    if (k + 1 < observations_.size()) response->set_next_page_token(std::to_string(k + 1));
    response->set_tested_models(static_cast<std::int32_t>(observations_.size()));
    response->set_rejected_models(1);
    return grpc::Status::OK;
  }

 private:
  std::atomic<bool> asked_ = false;
  std::mutex mutex_;
  std::vector<std::int64_t> observations_;
  double rate_ = 0;
  const InProcessServer server_{*this};
};

TEST(CalibctlListTest, ShowsTheVerdictsOfAllPages) {
  VerdictServer server;
  server.Set({10, 20, 30});
  CalibctlRun table({"list", "--server", server.address(), "--false-discovery-rate", "0.1"});
  ASSERT_EQ(table.exit_code(), 0) << table.error();
  EXPECT_EQ(server.rate(), 0.1);
  EXPECT_THAT(
      table.output(),
      AllOf(::testing::ContainsRegex("\nm0 +MISCALIBRATED +10 +- +10\\^7 "),
            ::testing::ContainsRegex("\nm2 +NOT_REJECTED +30 +- +0.1 "),
            HasSubstr("e-BH over the 3 models with evidence rejects 1 (*): the expected share of "
                      "calibrated models among them is at most 10 %")));
  CalibctlRun json({"list", "--server", server.address(), "--output", "json"});
  ASSERT_EQ(json.exit_code(), 0) << json.error();
  EXPECT_EQ(json.json().at("models").size(), 3u);
  EXPECT_EQ(json.json().at("models").at(0).at("rejectedAmongAll"), true);
  EXPECT_EQ(json.json().at("testedModels"), 3);
}

TEST(CalibctlListTest, AWatchOfAllPrintsWhatChanges) {
  VerdictServer server;
  server.Set({10, 20});
  CalibctlRun watch({"watch", "--interval", "0.1s", "--server", server.address()});
  const auto prints = [&](const std::string& text) {
    return WaitFor([&] { return watch.output().find(text) != std::string::npos; });
  };
  ASSERT_TRUE(prints("m0 MISCALIBRATED, 10 rows, e-value 10^7"));
  ASSERT_TRUE(prints("m1 NOT_REJECTED, 20 rows, e-value 0.1"));
  server.Set({10, 25});
  ASSERT_TRUE(prints("m1 NOT_REJECTED, 25 rows,"));
  server.Set({10});
  ASSERT_TRUE(prints("models/m1 is deleted"));
  ASSERT_TRUE(watch.Interrupt());
  EXPECT_EQ(watch.exit_code(), 0) << watch.error();
  EXPECT_EQ(Lines(watch.output()).size(), 4u) << watch.output();
}

TEST(CalibctlListTest, CtrlCEndsAnUnansweredCall) {
  VerdictServer server;
  CalibctlRun show({"show", "m", "--timeout", "600", "--server", server.address()});
  ASSERT_TRUE(WaitFor([&] { return server.asked(); }));
  ASSERT_TRUE(show.Interrupt());
  EXPECT_EQ(show.exit_code(), 1);
  EXPECT_EQ(show.error(), "calibctl: the call was cancelled\n");
}

}  // namespace
}  // namespace calibd::testing
