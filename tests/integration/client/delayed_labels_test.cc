// Predictions with ids whose labels come later: the SDK and calibctl against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_skce.h"
#include "integration/client/run_calibctl.h"
#include "support/server_process.h"
#include "support/tcp_proxy.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::ObservationStream;
using client::PredictionKind;
using client::StreamCounts;
using client::StreamOptions;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kBandwidth = 0.5;
// Longer than a test, for predictions that must not mature.
constexpr std::chrono::milliseconds kLongGrace{3600 * 1000};

PredictionSet Draw(std::size_t n, std::uint64_t seed) {
  auto generator = Generator::Create(GeneratorSpec::M2(), seed);
  PredictionSet set;
  generator->Draw(n, set);
  return set;
}

std::vector<std::string> Ids(std::size_t n, const std::string& prefix = "id-") {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(prefix + std::to_string(i));
  return ids;
}

class DelayedLabelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start();
    ASSERT_NE(server_, nullptr);
    direct_ = ConnectedClient(server_->grpc_address());
    ASSERT_NE(direct_, nullptr);
  }

  static std::unique_ptr<Client> ConnectedClient(const std::string& address) {
    auto client = Client::Connect(address);
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *std::move(client) : nullptr;
  }

  void CreateModel(const std::string& name, std::chrono::milliseconds grace,
                   std::int32_t max_pending = 0) {
    v1::Model model;
    model.set_name(client::ModelName(name));
    model.mutable_classes()->set_count(10);
    model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
    model.mutable_label_grace()->set_seconds(grace.count() / 1000);
    model.mutable_label_grace()->set_nanos(static_cast<int>(grace.count() % 1000) * 1'000'000);
    model.set_max_pending(max_pending);
    const auto created = direct_->CreateModel(model);
    ASSERT_TRUE(created.ok()) << created.status();
  }

  std::unique_ptr<ObservationStream> Open(Client& client, const std::string& name,
                                          const StreamOptions& options = {}) {
    auto stream = client.OpenStream(client::ModelName(name), options);
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.ok() ? *std::move(stream) : nullptr;
  }

  // Sends predictions with ids, without labels, on a stream of its own.
  StreamCounts Send(const std::string& name, const PredictionSet& set,
                    const std::vector<std::string>& ids) {
    const auto stream = Open(*direct_, name);
    if (stream == nullptr) return {};
    const absl::Status sent =
        stream->SendWithIds(PredictionKind::kProbabilities, set.probabilities, ids);
    EXPECT_TRUE(sent.ok()) << sent;
    return Finish(*stream);
  }
  StreamCounts Label(const std::string& name, const std::vector<std::string>& ids,
                     const std::vector<std::int32_t>& labels) {
    const auto stream = Open(*direct_, name);
    if (stream == nullptr) return {};
    const absl::Status sent = stream->Label(ids, labels);
    EXPECT_TRUE(sent.ok()) << sent;
    return Finish(*stream);
  }
  static StreamCounts Finish(ObservationStream& stream) {
    const auto counts = stream.Finish();
    EXPECT_TRUE(counts.ok()) << counts.status();
    for (const auto& rejected : stream.TakeRejected()) ADD_FAILURE() << rejected.status;
    return counts.ok() ? *counts : StreamCounts();
  }

  v1::GetCalibrationResponse Calibration(const std::string& name) {
    const auto response = direct_->GetCalibration(client::ModelName(name));
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::GetCalibrationResponse();
  }
  v1::LabelArrivals Coverage(const std::string& name) { return Calibration(name).label_arrivals(); }

  std::unique_ptr<CalibctlRun> Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--server", server_->grpc_address()});
    return std::make_unique<CalibctlRun>(arguments);
  }
  nlohmann::json RunJson(std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--output", "json"});
    const auto run = Run(arguments);
    EXPECT_EQ(run->exit_code(), 0) << run->error();
    return run->json();
  }
  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }

  TemporaryFolder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> direct_;
};

TEST_F(DelayedLabelsTest, LabelsFromASecondStreamAreCountedInTheOrderOfThePredictions) {
  CreateModel("m", kLongGrace);
  const PredictionSet set = Draw(500, 1);
  std::vector<std::string> ids = Ids(500);
  EXPECT_EQ(Send("m", set, ids).accepted_rows, 500);
  std::vector<std::int32_t> labels = set.labels;
  std::reverse(ids.begin(), ids.end());
  std::reverse(labels.begin(), labels.end());
  const StreamCounts counts = Label("m", ids, labels);
  EXPECT_EQ(counts.labels.accepted, 500);
  EXPECT_EQ(counts.labels.matched, 500);
  RunJson({"model", "update", "m", "--label-grace", "0.001s"});
  ASSERT_TRUE(WaitFor([&] { return Coverage("m").matured() == 500; }));
  const auto calibration = Calibration("m");
  EXPECT_EQ(calibration.label_arrivals().missing(), 0);
  EXPECT_EQ(calibration.label_arrivals().pending(), 0);
  EXPECT_EQ(calibration.observations(), 500);
  const auto kernel = Kernel::ExponentialTotalVariation(kBandwidth);
  auto running = RunningBlockSkce::Create(2, set.class_count, *kernel);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    running->Add(set.view().row(i), set.labels[i]);
  }
  ASSERT_GT(calibration.estimates_size(), 0);
  EXPECT_EQ(calibration.estimates(0).skce(), running->moments().mean);
}

TEST_F(DelayedLabelsTest, ReportsTheOutcomeOfEachLabel) {
  CreateModel("m", kLongGrace);
  const PredictionSet set = Draw(4, 2);
  EXPECT_EQ(Send("m", set, Ids(4)).duplicate_rows, 0);
  const StreamCounts again = Send("m", set, Ids(4));
  EXPECT_EQ(again.accepted_rows, 0);
  EXPECT_EQ(again.duplicate_rows, 4);
  EXPECT_EQ(Label("m", {"id-0", "id-1"}, {3, 4}).labels.matched, 2);
  const client::LabelCounts labels =
      Label("m", {"id-0", "id-1", "id-2", "nobody"}, {3, 5, 6, 7}).labels;
  EXPECT_EQ(labels.matched, 1);
  EXPECT_EQ(labels.repeated, 1);
  EXPECT_EQ(labels.conflicting, 1);
  EXPECT_EQ(labels.waiting, 1);
  const v1::LabelArrivals coverage = Coverage("m");
  EXPECT_EQ(coverage.predictions(), 4);
  EXPECT_EQ(coverage.duplicate_predictions(), 4);
  EXPECT_EQ(coverage.pending(), 4);
  EXPECT_EQ(coverage.pending_labelled(), 3);
  EXPECT_EQ(coverage.labels().waiting(), 1);
}

TEST_F(DelayedLabelsTest, ALabelAfterTheGraceIsLate) {
  CreateModel("m", std::chrono::seconds(2));
  Send("m", Draw(3, 3), Ids(3));
  ASSERT_TRUE(WaitFor([&] { return Coverage("m").matured() == 3; }));
  EXPECT_EQ(Coverage("m").missing(), 3);
  EXPECT_EQ(Label("m", {"id-0"}, {0}).labels.late, 1);
  EXPECT_EQ(Calibration("m").observations(), 0);
}

TEST_F(DelayedLabelsTest, EveryKindOfContentGoesOverOneStream) {
  CreateModel("m", kLongGrace);
  const PredictionSet set = Draw(100, 4);
  const auto stream = Open(*direct_, "m", {.max_rows_per_batch = 7});
  ASSERT_NE(stream, nullptr);
  constexpr PredictionKind kKind = PredictionKind::kProbabilities;
  ASSERT_TRUE(stream->SendWithIds(kKind, set.probabilities, Ids(100)).ok());
  ASSERT_TRUE(stream->Label(Ids(100), set.labels).ok());
  ASSERT_TRUE(stream->SendWithIds(kKind, set.probabilities, Ids(100, "with-"), set.labels).ok());
  ASSERT_TRUE(stream->Send(kKind, set.probabilities, set.labels).ok());
  const StreamCounts counts = Finish(*stream);
  EXPECT_EQ(counts.accepted_rows, 300);
  EXPECT_EQ(counts.labels.matched, 100);
  EXPECT_EQ(Calibration("m").observations(), 100) << "those without an id are counted at once";
  EXPECT_EQ(Coverage("m").pending(), 200);
  EXPECT_EQ(Coverage("m").pending_labelled(), 200);
}

TEST_F(DelayedLabelsTest, ARepeatedStreamWithAKeyCountsLabelsOnce) {
  CreateModel("m", kLongGrace);
  const PredictionSet set = Draw(20, 6);
  for (const std::int64_t known : {0, 20}) {
    const auto stream = Open(*direct_, "m", {.idempotency_key = "run-1"});
    ASSERT_NE(stream, nullptr);
    ASSERT_TRUE(
        stream->SendWithIds(PredictionKind::kProbabilities, set.probabilities, Ids(20)).ok());
    ASSERT_TRUE(stream->Label(Ids(20), set.labels).ok());
    const StreamCounts counts = Finish(*stream);
    EXPECT_EQ(counts.accepted_rows, 20 - known);
    EXPECT_EQ(counts.duplicate_rows, known);
    EXPECT_EQ(counts.labels.accepted, 20);
    EXPECT_EQ(counts.labels.matched, 20 - known);
    EXPECT_EQ(counts.labels.repeated, 0);
  }
  EXPECT_EQ(Coverage("m").labels().matched(), 20);
}

TEST_F(DelayedLabelsTest, IdsAndLabelsCountOnceForAnyCutOfTheConnection) {
  const PredictionSet set = Draw(1500, 5);
  const std::vector<std::string> ids = Ids(1500);
  std::int64_t reconnects = 0;
  for (const std::vector<std::int64_t>& cuts :
       {std::vector<std::int64_t>{30000, 60000, 90000}, std::vector<std::int64_t>{150000, 2000},
        std::vector<std::int64_t>{140000, 10000, 5000}}) {
    const std::string name = "cut-" + std::to_string(cuts[0]);
    SCOPED_TRACE(name);
    CreateModel(name, kLongGrace);
    TcpProxy proxy(server_->grpc_address(), cuts);
    const auto client = ConnectedClient(proxy.address());
    ASSERT_NE(client, nullptr);
    const auto stream = Open(*client, name, {.max_rows_per_batch = 50});
    ASSERT_NE(stream, nullptr);
    ASSERT_TRUE(stream->SendWithIds(PredictionKind::kProbabilities, set.probabilities, ids).ok());
    ASSERT_TRUE(stream->Label(ids, set.labels).ok());
    const StreamCounts counts = Finish(*stream);
    reconnects += counts.reconnects;
    EXPECT_EQ(counts.accepted_rows, 1500);
    EXPECT_EQ(counts.duplicate_rows, 0);
    EXPECT_EQ(counts.labels.accepted, 1500);
    const v1::LabelArrivals coverage = Coverage(name);
    EXPECT_EQ(coverage.predictions(), 1500);
    EXPECT_EQ(coverage.duplicate_predictions(), 0);
    EXPECT_EQ(coverage.pending_labelled(), 1500);
    EXPECT_EQ(coverage.labels().matched(), 1500);
    EXPECT_EQ(coverage.labels().repeated(), 0) << "a batch that was sent again";
  }
  EXPECT_GT(reconnects, 0);
}

TEST_F(DelayedLabelsTest, AFullModelIsWaitedFor) {
  CreateModel("m", std::chrono::milliseconds(200), 20);
  const PredictionSet set = Draw(100, 6);
  const auto stream = Open(*direct_, "m", {.max_rows_per_batch = 10});
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(
      stream->SendWithIds(PredictionKind::kProbabilities, set.probabilities, Ids(100)).ok());
  EXPECT_EQ(Finish(*stream).accepted_rows, 100);
  EXPECT_EQ(Coverage("m").predictions(), 100);

  CreateModel("full", kLongGrace, 20);
  const auto full =
      Open(*direct_, "full", {.max_rows_per_batch = 10, .stall_timeout = std::chrono::seconds(1)});
  ASSERT_NE(full, nullptr);
  (void)full->SendWithIds(PredictionKind::kProbabilities, set.probabilities, Ids(100));
  const absl::Status status = full->Finish().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(Coverage("full").pending(), 20);
}

TEST_F(DelayedLabelsTest, AModelWithoutALabelGraceRejectsIds) {
  v1::Model model;
  model.set_name(client::ModelName("plain"));
  model.mutable_classes()->set_count(10);
  ASSERT_TRUE(direct_->CreateModel(model).ok());
  const PredictionSet set = Draw(2, 7);
  const auto stream = Open(*direct_, "plain");
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(stream->SendWithIds(PredictionKind::kProbabilities, set.probabilities, Ids(2)).ok());
  ASSERT_TRUE(stream->Label(Ids(2), set.labels).ok());
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->rejected_rows, 2);
  EXPECT_EQ(counts->labels.rejected, 2);
  EXPECT_EQ(stream->TakeRejected().size(), 2u);
  // Rejected labels are not rejected rows.
  EXPECT_EQ(direct_->GetCalibration(model.name())->rejected_rows(), 2);

  const auto label = Run({"label", "plain", Write("l.csv", "a,0\n"), "--label-base", "0"});
  EXPECT_EQ(label->exit_code(), 2);
  EXPECT_THAT(label->error(), HasSubstr("plain has no label grace"));
  const auto grouped =
      Run({"send", "plain", Write("p.csv", "1,0,0,0,0,0,0,0,0,0\n"), Write("y.csv", "0\n"),
           "--label-base", "0", "--groups", Write("g.csv", "eu\n")});
  EXPECT_EQ(grouped->exit_code(), 2);
  EXPECT_THAT(grouped->error(), HasSubstr("plain has no group tag"));
}

TEST_F(DelayedLabelsTest, CalibctlSendsIdsThenLabelsAndShowsTheCoverage) {
  const nlohmann::json created =
      RunJson({"model", "create", "clicks", "--classes", "2", "--bandwidth", "0.2", "--label-grace",
               "1.5h", "--max-pending", "50"});
  EXPECT_EQ(created.at("labelGrace"), "5400s");
  EXPECT_EQ(created.at("maxPending"), 50);
  const auto listed = Run({"model", "list"});
  ASSERT_EQ(listed->exit_code(), 0);
  EXPECT_THAT(listed->output(), AllOf(HasSubstr("label grace"), HasSubstr("1.5h")));

  const std::string predictions = Write("predictions.csv", "0.5,0.5\n1,0\n0.25,0.75\n");
  const std::string ids = Write("ids.csv", "a\nb\nc\n");
  const std::string labels = Write("labels.csv", "id,label\na,1\nb,2\nnobody,1\n");
  const auto sent = Run({"send", "clicks", predictions, "--ids", ids});
  ASSERT_EQ(sent->exit_code(), 0) << sent->error();
  EXPECT_THAT(sent->output(), HasSubstr("3 rows accepted, 0 duplicates, 0 rejected"));
  const nlohmann::json again = RunJson({"send", "clicks", predictions, "--ids", ids});
  EXPECT_EQ(again.at("acceptedRows"), "0");
  EXPECT_EQ(again.at("duplicateRows"), "3");

  const auto labelled = Run({"label", "clicks", labels, "--label-base", "1", "--header"});
  ASSERT_EQ(labelled->exit_code(), 0) << labelled->error();
  EXPECT_THAT(
      labelled->output(),
      HasSubstr("2 labels matched, 0 repeated, 0 conflicting, 0 late, 0 unknown, 1 waiting"));
  const nlohmann::json repeated =
      RunJson({"label", "clicks", labels, "--label-base", "1", "--header"});
  EXPECT_EQ(repeated.at("repeated"), "3");
  EXPECT_EQ(repeated.at("waiting"), "0");
  EXPECT_EQ(repeated.at("untold"), "0");

  const nlohmann::json coverage = RunJson({"show", "clicks"}).at("labelArrivals");
  EXPECT_EQ(coverage.at("predictions"), "3");
  EXPECT_EQ(coverage.at("duplicatePredictions"), "3");
  EXPECT_EQ(coverage.at("pendingLabelled"), "2");
  EXPECT_EQ(coverage.at("labels").at("waiting"), "1");
  EXPECT_EQ(coverage.at("unknownRate"), 0);
  EXPECT_FALSE(coverage.contains("missingRate"));
  EXPECT_EQ(coverage.at("predictedClasses").at(1).at("pending"), "1");
  const auto shown = Run({"show", "clicks", "--verbose"});
  ASSERT_EQ(shown->exit_code(), 0);
  EXPECT_THAT(shown->output(),
              AllOf(HasSubstr("3 accepted, 3 duplicates; 3 (100 %) pending, 2 of them labelled"),
                    HasSubstr("0 unknown, 1 waiting\n"),
                    HasSubstr("predicted class  accepted    pending  matured"),
                    HasSubstr("\n0                       2  2 (100 %)        0"),
                    HasSubstr("\n1                       1  1 (100 %)        0")));
}

TEST_F(DelayedLabelsTest, GroupsAreSentByTheSdkAndCalibctl) {
  v1::Model model;
  model.set_name(client::ModelName("grouped"));
  model.mutable_classes()->set_count(2);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  model.mutable_monitoring()->set_group_tag("region");
  ASSERT_TRUE(direct_->CreateModel(model).ok());
  const auto counts = [&] {
    std::map<std::string, std::int64_t> result;
    const auto answer = direct_->GetCalibration(client::ModelName("grouped"));
    EXPECT_TRUE(answer.ok()) << answer.status();
    for (const v1::GroupWatch& group : answer->groups()) {
      result[group.value()] = group.watch().observations();
    }
    return result;
  };
  const auto stream = Open(*direct_, "grouped");
  ASSERT_NE(stream, nullptr);
  const std::vector<double> values = {0.5, 0.5, 0.25, 0.75};
  const std::vector<std::int32_t> labels = {0, 1};
  const auto send = [&] { return stream->Send(PredictionKind::kProbabilities, values, labels); };
  ASSERT_TRUE(send().ok());
  ASSERT_TRUE(stream->SetGroup("eu").ok());
  ASSERT_TRUE(send().ok());
  EXPECT_TRUE(absl::IsInvalidArgument(stream->SetGroup(std::string(65, 'x'))));
  EXPECT_TRUE(absl::IsInvalidArgument(stream->SetGroup("a\nb")));
  EXPECT_TRUE(absl::IsInvalidArgument(stream->SetGroup("\xff")));
  ASSERT_TRUE(send().ok());
  ASSERT_TRUE(stream->SetGroup("us").ok());
  ASSERT_TRUE(send().ok());
  EXPECT_EQ(Finish(*stream).accepted_rows, 8);
  EXPECT_EQ(counts(), (std::map<std::string, std::int64_t>{{"", 2}, {"eu", 4}, {"us", 2}}));

  const std::string predictions = Write("predictions.csv", "0.5,0.5\n1,0\n0.25,0.75\n");
  const std::string classes = Write("classes.csv", "0\n0\n1\n");
  const auto sent = Run({"send", "grouped", predictions, classes, "--label-base", "0", "--groups",
                         Write("groups.csv", "us\nasia\nasia\n")});
  ASSERT_EQ(sent->exit_code(), 0) << sent->error();
  EXPECT_EQ(counts(),
            (std::map<std::string, std::int64_t>{{"", 2}, {"eu", 4}, {"us", 3}, {"asia", 2}}));
  const auto short_file = Run({"send", "grouped", predictions, classes, "--label-base", "0",
                               "--groups", Write("groups.csv", "us\n")});
  EXPECT_NE(short_file->exit_code(), 0);
  EXPECT_THAT(short_file->error(), HasSubstr("holds 1 group value, expected 3"));
}

TEST_F(DelayedLabelsTest, CalibctlSendsIdsAndLabelsAtOnce) {
  RunJson({"model", "create", "m", "--classes", "2", "--label-grace", "1h"});
  const std::string predictions = Write("predictions.csv", "0.5,0.5\n1,0\n");
  const std::string ids = Write("ids.csv", "a\nb\n");
  const std::string labels = Write("labels.csv", "0\n1\n");
  RunJson({"send", "m", predictions, labels, "--label-base", "0", "--ids", ids});
  EXPECT_EQ(Coverage("m").pending_labelled(), 2);
}

TEST_F(DelayedLabelsTest, CalibctlSendsNoMoreThanMaxPendingAtOnce) {
  RunJson({"model", "create", "m", "--classes", "2", "--label-grace", "1s", "--max-pending", "20"});
  std::string predictions;
  std::string ids;
  for (int i = 0; i < 50; ++i) {
    predictions += "0.5,0.5\n";
    ids += std::to_string(i) + "\n";
  }
  const auto sent =
      Run({"send", "m", Write("predictions.csv", predictions), "--ids", Write("ids.csv", ids)});
  ASSERT_EQ(sent->exit_code(), 0) << sent->error();
  // The call was repeated, without a broken connection.
  EXPECT_THAT(sent->output(), HasSubstr("50 rows accepted, 0 duplicates (since the stream was "
                                        "opened again), 0 rejected"));
  EXPECT_EQ(Coverage("m").predictions(), 50);
}

TEST_F(DelayedLabelsTest, CalibctlReadsIdsFromColumnsAndLabelsByName) {
  RunJson({"model", "create", "m", "--class-names", "cat,dog", "--label-grace", "1h"});
  const std::string predictions =
      Write("predictions.csv", "visit,dog,cat\na,0.5,0.5\n\"b,c\",1,0\nd,0.25,0.75\n");
  const nlohmann::json sent = RunJson({"send", "m", predictions, "--id-column", "visit"});
  EXPECT_EQ(sent.at("acceptedRows"), "3");
  const std::string labels = Write("labels.jsonl", R"({"label": "dog", "id": "b,c"}
{"id": "a", "label": null}
{"id": "d", "label": "cat"})");
  const auto refused = Run({"label", "m", labels});
  EXPECT_EQ(refused->exit_code(), 1);
  EXPECT_THAT(refused->error(), HasSubstr("line 2, key \"label\": the label is missing"));
  const nlohmann::json labelled = RunJson({"label", "m", labels, "--drop-invalid"});
  EXPECT_EQ(labelled.at("matched"), "2");
  EXPECT_EQ(labelled.at("droppedLabels"), "1");
  EXPECT_EQ(Coverage("m").pending_labelled(), 2);
  const auto text = Run({"label", "m", labels, "--drop-invalid"});
  EXPECT_EQ(text->exit_code(), 0) << "the predictions have these labels already";
  EXPECT_THAT(text->output(),
              HasSubstr("2 repeated, 0 conflicting, 0 late, 0 unknown, 0 waiting, 0 "
                        "rejected, 1 dropped in"));
}

TEST_F(DelayedLabelsTest, CalibctlFailsIfNoLabelBelongsToAPrediction) {
  RunJson({"model", "create", "m", "--class-names", "cat,dog", "--label-grace", "1h"});
  RunJson({"send", "m", Write("p.csv", "id,cat,dog\na,0.5,0.5\n"), "--id-column", "id"});
  const std::string wrong = Write("wrong.csv", "id,label\nA,cat\nB,dog\n");
  const auto early = Run({"label", "m", wrong});
  EXPECT_EQ(early->exit_code(), 0) << "to wait is no error";
  EXPECT_THAT(
      early->output(),
      HasSubstr("0 labels matched, 0 repeated, 0 conflicting, 0 late, 0 unknown, 2 waiting"));
  EXPECT_THAT(early->error(),
              HasSubstr("calibctl: 2 labels wait up to a minute for their prediction"));
  // The same labels again, and then their predictions.
  EXPECT_EQ(Run({"label", "m", wrong})->exit_code(), 0);
  RunJson({"send", "m", Write("q.csv", "id,cat,dog\nA,0.5,0.5\n"), "--id-column", "id"});
  EXPECT_EQ(Coverage("m").pending_labelled(), 1);
  EXPECT_EQ(Coverage("m").labels().waiting(), 1);
  const std::string invalid = Write("invalid.csv", "id,label\na,cow\n");
  const auto none = Run({"label", "m", invalid, "--drop-invalid"});
  EXPECT_EQ(none->exit_code(), 1);
  EXPECT_THAT(none->error(), HasSubstr("0 came after the label grace, 1 is invalid"));
  const std::string one = Write("one.csv", "id,label\nA,cat\na,dog\n");
  EXPECT_EQ(Run({"label", "m", one})->exit_code(), 0) << "one of them does";
  // One label may wait.
  RunJson({"model", "create", "full", "--class-names", "cat,dog", "--label-grace", "1h",
           "--max-pending", "1"});
  EXPECT_EQ(Run({"label", "full", wrong})->exit_code(), 0);
  const auto unknown = Run({"label", "full", Write("more.csv", "id,label\nC,cat\n")});
  EXPECT_EQ(unknown->exit_code(), 1);
  EXPECT_THAT(unknown->error(),
              HasSubstr("calibctl: no label belongs to a prediction of full that waits for it: 1 "
                        "has an id that the server does not know"));
}

TEST_F(DelayedLabelsTest, CalibctlNamesTheInvalidLineOfALabelFile) {
  RunJson({"model", "create", "m", "--classes", "2", "--label-grace", "1h"});
  const auto fault = [&](const std::string& text, int code) {
    const auto run = Run({"label", "m", Write("labels.csv", text), "--label-base", "0"});
    EXPECT_EQ(run->exit_code(), code);
    return run->error();
  };
  EXPECT_THAT(fault("a,1\nb;1\n", 1), HasSubstr("labels.csv line 2"));
  EXPECT_THAT(fault("a,1\nb,2\n", 1),
              HasSubstr("labels.csv line 2, column 2: label \"2\", expected 0..1"));
  EXPECT_EQ(Coverage("m").labels().unknown(), 0) << "nothing is sent of a wrong file";
  EXPECT_EQ(Run({"label", "m", Write("labels.csv", "a,1\n")})->exit_code(), 2);
  EXPECT_EQ(Run({"label", "m", "absent.csv", "--label-base", "0"})->exit_code(), 1);
  EXPECT_EQ(
      Run({"label", "absent", Write("labels.csv", "a,1\n"), "--label-base", "0"})->exit_code(), 1);
}

}  // namespace
}  // namespace calibd::testing
