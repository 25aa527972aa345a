// WatchCalibration on the wire.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "integration/server/service_client.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr char kWatchModel[] = "models/watched";
constexpr int kWatchClasses = 4;

v1::WatchCalibrationRequest Request(std::int64_t after_revision = 0,
                                    milliseconds interval = milliseconds(100)) {
  v1::WatchCalibrationRequest request;
  request.set_model(kWatchModel);
  request.mutable_min_interval()->set_seconds(interval.count() / 1000);
  request.mutable_min_interval()->set_nanos(
      static_cast<std::int32_t>(interval.count() % 1000 * 1'000'000));
  request.set_after_revision(after_revision);
  return request;
}

// One call. It ends if a message does not arrive in time.
class Watch {
 public:
  Watch(ServiceClient& client, const v1::WatchCalibrationRequest& request) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    reader_ = client.calibration->WatchCalibration(&context_, request);
  }
  ~Watch() {
    context_.TryCancel();
    End();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  std::optional<v1::WatchCalibrationResponse> Read() {
    v1::WatchCalibrationResponse response;
    if (!reader_->Read(&response)) return std::nullopt;
    return response;
  }
  // Reads until the model has this many observations; returns the last message. Revisions must
  // increase.
  v1::WatchCalibrationResponse ReadUntil(std::int64_t observations) {
    v1::WatchCalibrationResponse last;
    while (auto response = Read()) {
      EXPECT_GT(response->revision(), last.revision());
      last = *std::move(response);
      if (last.calibration().observations() >= observations) return last;
    }
    ADD_FAILURE() << "ended: " << End().error_message();
    return last;
  }
  // Reads to the end and returns the status.
  grpc::Status End() {
    if (!ended_.has_value()) {
      while (Read()) {
      }
      ended_ = reader_->Finish();
    }
    return *ended_;
  }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::WatchCalibrationResponse>> reader_;
  std::optional<grpc::Status> ended_;
};

class WatchTest : public ::testing::Test {
 protected:
  void Start(std::vector<std::string> arguments = {}) {
    client_.reset();
    arguments.insert(arguments.end(), {"--data-dir", data_});
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
  }

  void StartWithModel(const std::vector<std::string>& arguments = {}) {
    Start(arguments);
    client_->CreateFixed(kWatchModel, kWatchClasses);
  }

  grpc::Status Observe(std::size_t rows) {
    v1::ObserveRequest request;
    request.set_model(kWatchModel);
    *request.mutable_observations() = ToProto(Draw(rows, kWatchClasses).view());
    return client_->Observe(request);
  }

  grpc::Status StatusOf(const v1::WatchCalibrationRequest& request) {
    return Watch(*client_, request).End();
  }

  TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(WatchTest, SendsTheCurrentStateAndEveryChange) {
  StartWithModel();
  Watch watch(*client_, Request());
  auto first = watch.Read();
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->calibration().model(), kWatchModel);
  EXPECT_EQ(first->calibration().observations(), 0);
  EXPECT_GT(first->revision(), 0);

  ASSERT_TRUE(Observe(10).ok());
  const auto accepted = watch.Read();
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->calibration().observations(), 10);
  EXPECT_GT(accepted->revision(), first->revision());
  // Equal to GetCalibration, except for the time.
  v1::GetCalibrationResponse told = accepted->calibration();
  v1::GetCalibrationResponse asked = client_->GetCalibration(kWatchModel);
  told.mutable_provenance()->clear_compute_time();
  asked.mutable_provenance()->clear_compute_time();
  EXPECT_EQ(told.DebugString(), asked.DebugString());

  v1::ObserveRequest bad;
  bad.set_model(kWatchModel);
  *bad.mutable_observations() = ToProto(Draw(3, kWatchClasses + 1).view());
  EXPECT_EQ(client_->Observe(bad).error_code(), grpc::INVALID_ARGUMENT);
  const auto rejected = watch.Read();
  ASSERT_TRUE(rejected.has_value());
  EXPECT_EQ(rejected->calibration().rejected_rows(), 3);
  EXPECT_GT(rejected->revision(), accepted->revision());
}

TEST_F(WatchTest, SendsNothingIfNothingChanges) {
  StartWithModel();
  const PredictionSet set = Draw(5, kWatchClasses);
  const auto send = [&](std::int64_t epoch, std::int64_t sequence) {
    ObservationCall call(*client_);
    ASSERT_TRUE(call.Open(kWatchModel, "p", epoch).has_value());
    ASSERT_TRUE(call.SendBatch(sequence, set.view()));
    ASSERT_TRUE(call.ReadAck(sequence));
  };
  send(0, 1);
  Watch watch(*client_, Request());
  const std::int64_t revision = watch.ReadUntil(5).revision();
  // A batch that was settled before is counted as a duplicate, and changes nothing else.
  send(0, 1);
  const auto resumed = Watch(*client_, Request(revision)).Read();
  ASSERT_TRUE(resumed.has_value());
  EXPECT_FALSE(resumed->has_calibration());
  // A row that counts no observation, such as an opened producer, changes nothing either.
  {
    ObservationCall call(*client_);
    ASSERT_TRUE(call.Open(kWatchModel, "q").has_value());
  }
  const auto opened = Watch(*client_, Request(revision)).Read();
  ASSERT_TRUE(opened.has_value());
  EXPECT_FALSE(opened->has_calibration());
  send(0, 2);
  const auto next = watch.Read();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->calibration().observations(), 10);
}

TEST_F(WatchTest, SendsAtMostOneMessageInAnInterval) {
  StartWithModel();
  const milliseconds interval(300);
  const Clock::time_point begin = Clock::now();
  Watch watch(*client_, Request(0, interval));
  constexpr int kSentBatches = 200;
  std::thread burst([this] {
    for (int i = 0; i < kSentBatches; ++i) {
      EXPECT_TRUE(Observe(1).ok());
    }
  });
  int messages = 0;
  std::int64_t observations = -1;
  while (observations < kSentBatches) {
    const auto response = watch.Read();
    if (!response.has_value()) break;
    ++messages;
    // The same state is never sent twice.
    EXPECT_GT(response->calibration().observations(), observations);
    observations = response->calibration().observations();
  }
  const auto elapsed = Clock::now() - begin;
  burst.join();
  EXPECT_EQ(observations, kSentBatches);
  EXPECT_GE(messages, 2);
  EXPECT_LE(messages, 1 + elapsed / interval);
}

TEST_F(WatchTest, ResumesWithNothingMissedOrRepeated) {
  StartWithModel();
  ASSERT_TRUE(Observe(10).ok());
  std::int64_t revision = 0;
  {
    Watch watch(*client_, Request());
    revision = watch.ReadUntil(10).revision();
  }
  Watch unchanged(*client_, Request(revision));
  const auto greeting = unchanged.Read();
  ASSERT_TRUE(greeting.has_value());
  EXPECT_FALSE(greeting->has_calibration());
  EXPECT_EQ(greeting->revision(), revision);
  ASSERT_TRUE(Observe(1).ok());
  const auto change = unchanged.Read();
  ASSERT_TRUE(change.has_value());
  EXPECT_EQ(change->calibration().observations(), 11);

  // The changes in between are sent at once.
  const auto missed = Watch(*client_, Request(revision)).Read();
  ASSERT_TRUE(missed.has_value());
  EXPECT_EQ(missed->calibration().observations(), 11);
  EXPECT_EQ(missed->revision(), change->revision());
  // A revision of a recreated model, or of a restored store.
  const auto unknown = Watch(*client_, Request(1'000'000)).Read();
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(unknown->calibration().observations(), 11);
}

TEST_F(WatchTest, ContinuesAcrossARestart) {
  StartWithModel();
  // Some rows are covered by a snapshot, the newest ones are not.
  for (int i = 0; i < 13; ++i) {
    ASSERT_TRUE(Observe(100).ok());
  }
  const std::int64_t revision = Watch(*client_, Request()).ReadUntil(1300).revision();
  for (const bool killed : {false, true}) {
    if (killed) {
      server_->Kill();
    } else {
      EXPECT_EQ(server_->Terminate(), 0);
    }
    Start();
    const auto greeting = Watch(*client_, Request(revision)).Read();
    ASSERT_TRUE(greeting.has_value());
    EXPECT_EQ(greeting->revision(), revision);
    EXPECT_FALSE(greeting->has_calibration());
  }
  Watch watch(*client_, Request(revision));
  ASSERT_TRUE(Observe(1).ok());
  EXPECT_GT(watch.ReadUntil(1301).revision(), revision);
}

TEST_F(WatchTest, SendsAVerdictThatBecomesStale) {
  Start();
  v1::Model model;
  model.set_name(kWatchModel);
  model.mutable_classes()->set_count(kWatchClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  model.mutable_monitoring()->mutable_stale_after()->set_seconds(2);
  ASSERT_TRUE(client_->Create(model).ok());
  ASSERT_TRUE(Observe(10).ok());
  Watch watch(*client_, Request());
  const auto fresh = watch.Read();
  ASSERT_TRUE(fresh.has_value());
  // A slow machine may take longer than that to get here.
  if (!fresh->calibration().verdict().stale()) {
    const auto stale = watch.Read();
    ASSERT_TRUE(stale.has_value());
    EXPECT_TRUE(stale->calibration().verdict().stale());
    EXPECT_EQ(stale->calibration().observations(), 10);
    EXPECT_GT(stale->revision(), fresh->revision());
    EXPECT_FALSE(Watch(*client_, Request(stale->revision())).Read()->has_calibration());
  }
  // A client that was disconnected meanwhile gets the change too.
  const auto missed = Watch(*client_, Request(fresh->revision())).Read();
  ASSERT_TRUE(missed.has_value());
  EXPECT_TRUE(missed->calibration().verdict().stale() || fresh->calibration().verdict().stale());
  ASSERT_TRUE(Observe(1).ok());
  const auto again = watch.Read();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->calibration().observations(), 11);
}

TEST_F(WatchTest, SendsPredictionsLabelsAndMaturations) {
  Start();
  v1::Model model;
  model.set_name(kWatchModel);
  model.mutable_classes()->set_count(kWatchClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(0.5);
  model.mutable_label_grace()->set_seconds(3600);
  ASSERT_TRUE(client_->Create(model).ok());
  Watch watch(*client_, Request());
  ASSERT_TRUE(watch.Read().has_value());
  v1::ObserveRequest request;
  request.set_model(kWatchModel);
  *request.mutable_observations() = ToProto(Draw(2, kWatchClasses).view());
  request.mutable_observations()->clear_labels();
  request.mutable_observations()->add_prediction_ids("a");
  request.mutable_observations()->add_prediction_ids("b");
  ASSERT_TRUE(client_->Observe(request).ok());
  const auto waits = watch.Read();
  ASSERT_TRUE(waits.has_value());
  EXPECT_EQ(waits->calibration().label_arrivals().predictions(), 2);
  request.mutable_labels()->add_prediction_ids("a");
  request.mutable_labels()->add_labels(1);
  ASSERT_TRUE(client_->Observe(request).ok());
  const auto labelled = watch.Read();
  ASSERT_TRUE(labelled.has_value());
  EXPECT_EQ(labelled->calibration().label_arrivals().labels().matched(), 1);
  EXPECT_GT(labelled->revision(), waits->revision());
  client_->SetLabelGrace(kWatchModel, ServiceClient::kEndedGrace);
  const auto matured = watch.ReadUntil(1);
  EXPECT_EQ(matured.calibration().label_arrivals().missing(), 1);
  EXPECT_GT(matured.revision(), labelled->revision());
}

TEST_F(WatchTest, SendsAcknowledgements) {
  StartWithModel();
  ASSERT_TRUE(Observe(600).ok());
  Watch watch(*client_, Request());
  const auto raised = watch.ReadUntil(600);
  ASSERT_GT(raised.calibration().alarms_size(), 0);
  grpc::ClientContext context;
  v1::AcknowledgeAlarmRequest request;
  request.set_model(kWatchModel);
  request.set_alarm_id(raised.calibration().alarms(0).id());
  v1::AcknowledgeAlarmResponse response;
  ASSERT_TRUE(client_->calibration->AcknowledgeAlarm(&context, request, &response).ok());
  const auto told = watch.Read();
  ASSERT_TRUE(told.has_value());
  EXPECT_TRUE(told->calibration().alarms(0).has_acknowledge_time());
  EXPECT_GT(told->revision(), raised.revision());
}

TEST_F(WatchTest, SendsARowThatRaisesManyAlarms) {
  Start();
  v1::Model model;
  model.set_name(kWatchModel);
  for (int k = 0; k < 20; ++k) model.mutable_labels()->add_names(absl::StrCat("label ", k));
  ASSERT_TRUE(client_->Create(model).ok());
  Watch watch(*client_, Request());
  const auto first = watch.Read();
  ASSERT_TRUE(first.has_value());
  v1::ObserveRequest request;
  request.set_model(kWatchModel);
  for (int i = 0; i < 20 * 500; ++i) {
    request.mutable_observations()->mutable_probabilities()->add_values(0.9);
    request.mutable_observations()->add_labels(0);
  }
  ASSERT_TRUE(client_->Observe(request).ok());
  // Each label is over its limit.
  const auto told = watch.ReadUntil(500);
  EXPECT_GE(told.calibration().alarms_size(), 20);
  EXPECT_GT(told.revision(), first->revision());
}

TEST_F(WatchTest, EndsWhenTheModelIsDeleted) {
  StartWithModel();
  Watch watch(*client_, Request(0, std::chrono::hours(1)));
  ASSERT_TRUE(watch.Read().has_value());
  ASSERT_TRUE(client_->Delete(kWatchModel).ok());
  const grpc::Status status = watch.End();
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Reason(status), "MODEL_NOT_FOUND");
  EXPECT_EQ(StatusOf(Request()).error_code(), grpc::NOT_FOUND);
}

TEST_F(WatchTest, EndsWhenTheServerDrains) {
  StartWithModel({"--drain-seconds", "10"});
  Watch watch(*client_, Request(0, std::chrono::hours(1)));
  ASSERT_TRUE(watch.Read().has_value());
  // A call that resumes after a broken one waits for a change.
  const std::int64_t revision = Watch(*client_, Request()).Read()->revision();
  Watch resumed(*client_, Request(revision));
  ASSERT_TRUE(resumed.Read().has_value());
  server_->process().Signal(SIGTERM);
  for (Watch* one : {&watch, &resumed}) {
    const grpc::Status status = one->End();
    EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
    EXPECT_EQ(Reason(status), "DRAINING");
  }
  EXPECT_EQ(server_->WaitForExit(), 0) << server_->process().Output();
}

TEST_F(WatchTest, RefusesTooManyWatchersUntilSomeEnd) {
  StartWithModel({"--max-watchers", "2"});
  auto first = std::make_unique<Watch>(*client_, Request());
  Watch second(*client_, Request());
  ASSERT_TRUE(first->Read().has_value());
  ASSERT_TRUE(second.Read().has_value());
  const grpc::Status refused = StatusOf(Request());
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "TOO_MANY_WATCHERS");
  EXPECT_NE(refused.error_message().find("(max-watchers)"), std::string::npos);
  // Clients wait until there is room.
  EXPECT_NE(refused.error_details().find("google.rpc.RetryInfo"), std::string::npos);
  first.reset();
  EXPECT_TRUE(WaitFor([&] { return Watch(*client_, Request()).Read().has_value(); }));
}

TEST_F(WatchTest, CancelledAtAnyTimeItLeavesNothingBehind) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 40;
  // The share of one address is kThreads.
  StartWithModel({"--max-watchers", std::to_string(2 * kThreads - 2)});
  std::atomic<bool> done = false;
  std::thread changes([&] {
    while (!done) {
      EXPECT_TRUE(Observe(1).ok());
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ServiceClient client(server_->grpc_address());
      std::minstd_rand random(static_cast<unsigned>(t + 1));
      for (int i = 0; i < kCalls; ++i) {
        Watch watch(client, Request());
        // Before it has begun, during the first message, or between two changes.
        const auto reads = random() % 3;
        for (unsigned k = 0; k < reads; ++k) watch.Read();
        watch.Cancel();
        const grpc::Status status = watch.End();
        const grpc::StatusCode code = status.error_code();
        // RESOURCE_EXHAUSTED: a previous watcher may not have ended yet.
        EXPECT_TRUE(code == grpc::CANCELLED || code == grpc::RESOURCE_EXHAUSTED)
            << code << ": " << status.error_message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  changes.join();
  // All have ended: the address can have its share again.
  std::vector<std::unique_ptr<Watch>> watches;
  EXPECT_TRUE(WaitFor([&] {
    auto watch = std::make_unique<Watch>(*client_, Request());
    if (watch->Read().has_value()) watches.push_back(std::move(watch));
    return watches.size() == kThreads;
  }));
  watches.clear();
  EXPECT_EQ(server_->Terminate(), 0) << server_->process().Output();
}

TEST_F(WatchTest, ErrorsNameTheInvalidField) {
  StartWithModel();
  const auto message_of = [&](const v1::WatchCalibrationRequest& request) {
    const grpc::Status status = StatusOf(request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    return status.error_message();
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(message_of(Request(0, milliseconds(99))),
              HasSubstr("min_interval is 0 s and 99000000 ns, expected 0.1..3600 s"));
  EXPECT_THAT(message_of(Request(0, milliseconds(3'600'001))), HasSubstr("min_interval"));
  v1::WatchCalibrationRequest odd = Request();
  odd.mutable_min_interval()->set_seconds(std::numeric_limits<std::int64_t>::max());
  EXPECT_THAT(message_of(odd), HasSubstr("min_interval"));
  odd.mutable_min_interval()->set_seconds(1);
  odd.mutable_min_interval()->set_nanos(-1);
  EXPECT_THAT(message_of(odd), HasSubstr("min_interval"));
  EXPECT_THAT(message_of(Request(-1)), HasSubstr("after_revision is -1, expected >= 0"));
  odd = Request();
  odd.set_model("models/Watched?");
  EXPECT_THAT(message_of(odd), HasSubstr("model"));
  odd.set_model("models/unknown");
  EXPECT_EQ(StatusOf(odd).error_code(), grpc::NOT_FOUND);
  // The longest interval, and none.
  odd = Request(0, std::chrono::hours(1));
  EXPECT_TRUE(Watch(*client_, odd).Read().has_value());
  odd.clear_min_interval();
  EXPECT_TRUE(Watch(*client_, odd).Read().has_value());
}

}  // namespace
}  // namespace calibd::testing
