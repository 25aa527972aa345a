#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/temporary_folder.h"

namespace calibd::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kIngestModel[] = "models/m";

class IngestTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const std::vector<std::string>& arguments) {
    client_.reset();
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
    client_->CreateFixed(kIngestModel, 10);
  }

  std::int64_t Counted() { return client_->GetCalibration(kIngestModel).observations(); }

  v1::ObserveRequest ObserveRequest(std::size_t first, std::size_t count) const {
    v1::ObserveRequest request;
    request.set_model(kIngestModel);
    *request.mutable_observations() = ToProto(set_.view().rows(first, count));
    return request;
  }

  const PredictionSet set_ = Draw(200);
  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

TEST_F(IngestTest, StreamOpensAcknowledgesAndFinishes) {
  ObservationCall call(*client_);
  Request open;
  open.mutable_open()->set_model(kIngestModel);
  open.mutable_open()->set_producer_id("p");
  ASSERT_TRUE(call.Send(open));
  const auto response = call.Read();
  ASSERT_TRUE(response.has_value() && response->has_opened());
  EXPECT_EQ(response->opened().next_sequence(), 1);
  EXPECT_EQ(response->opened().classes().count(), 10);
  EXPECT_EQ(response->opened().max_bytes_per_batch(), 1 << 20);
  EXPECT_GE(response->opened().max_batches_in_flight(), 1);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(call.SendBatch(i + 1, set_.view().rows(static_cast<std::size_t>(i) * 10, 10)));
  }
  ASSERT_TRUE(call.SendFinish(20));
  std::int64_t acknowledged = 0;
  std::optional<Response> last;
  while (auto message = call.Read()) {
    if (message->has_ack()) {
      EXPECT_GE(message->ack().sequence(), acknowledged);
      acknowledged = message->ack().sequence();
    }
    last = std::move(message);
  }
  EXPECT_EQ(acknowledged, 20);
  ASSERT_TRUE(last.has_value() && last->has_finished());
  EXPECT_EQ(last->finished().last_sequence(), 20);
  EXPECT_EQ(last->finished().accepted_rows(), 200);
  EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(Counted(), 200);
}

TEST_F(IngestTest, ResentBatchesAreAcknowledgedAndCountOnce) {
  {
    ObservationCall call(*client_);
    ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
    for (std::int64_t i = 1; i <= 5; ++i) {
      ASSERT_TRUE(call.SendBatch(i, set_.view().rows(0, 10)));
    }
    ASSERT_TRUE(call.ReadAck(5));
  }
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 6);
  for (std::int64_t i = 3; i <= 6; ++i) {
    ASSERT_TRUE(call.SendBatch(i, set_.view().rows(0, 10)));
  }
  ASSERT_TRUE(call.SendFinish(6));
  std::optional<Response> finished;
  EXPECT_FALSE(call.ReadAck(7, [&finished](const Response& other) { finished = other; }));
  ASSERT_TRUE(finished.has_value() && finished->has_finished());
  EXPECT_EQ(finished->finished().accepted_rows(), 10);
  EXPECT_EQ(finished->finished().duplicate_rows(), 30);
  EXPECT_EQ(Counted(), 60);
}

TEST_F(IngestTest, AGapNamesTheExpectedNumberAndKeepsEarlierBatches) {
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  ASSERT_TRUE(call.SendBatch(1, set_.view().rows(0, 10)));
  ASSERT_TRUE(call.SendBatch(3, set_.view().rows(0, 10)));
  EXPECT_TRUE(call.ReadAck(1));
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "SEQUENCE_GAP");
  EXPECT_THAT(status.error_message(), HasSubstr("expected 2"));
  EXPECT_EQ(Counted(), 10);
}

TEST_F(IngestTest, AUsedNumberWithOtherContentIsRefused) {
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  ASSERT_TRUE(call.SendBatch(1, set_.view().rows(0, 10)));
  ASSERT_TRUE(call.SendBatch(1, set_.view().rows(10, 10)));
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(Reason(status), "SEQUENCE_REUSED");
  EXPECT_EQ(Counted(), 10);
}

TEST_F(IngestTest, AHigherEpochEndsTheOldStreamAndTheNumberingContinues) {
  ObservationCall old_call(*client_);
  ASSERT_EQ(old_call.Open(kIngestModel, "p", 1), 1);
  ASSERT_TRUE(old_call.SendBatch(1, set_.view().rows(0, 10)));
  ASSERT_TRUE(old_call.ReadAck(1));
  ObservationCall other_producer(*client_);
  ASSERT_EQ(other_producer.Open(kIngestModel, "q", 0), 1);

  ObservationCall new_call(*client_);
  ASSERT_EQ(new_call.Open(kIngestModel, "p", 2), 2);
  const grpc::Status fenced = old_call.Await();
  EXPECT_EQ(fenced.error_code(), grpc::ABORTED);
  EXPECT_EQ(Reason(fenced), "FENCED");

  ObservationCall late(*client_);
  EXPECT_EQ(late.Open(kIngestModel, "p", 1), std::nullopt);
  EXPECT_EQ(late.Await().error_code(), grpc::ABORTED);

  ASSERT_TRUE(new_call.SendBatch(2, set_.view().rows(10, 10)));
  EXPECT_TRUE(new_call.ReadAck(2));
  ASSERT_TRUE(other_producer.SendBatch(1, set_.view().rows(20, 10)));
  EXPECT_TRUE(other_producer.ReadAck(1));
  EXPECT_EQ(Counted(), 30);
}

TEST_F(IngestTest, StreamWithoutFinishEndsAborted) {
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  ASSERT_TRUE(call.SendBatch(1, set_.view().rows(0, 10)));
  const grpc::Status status = call.End();
  EXPECT_EQ(status.error_code(), grpc::ABORTED);
  EXPECT_EQ(Reason(status), "NOT_FINISHED");
  EXPECT_EQ(Counted(), 10);
}

TEST_F(IngestTest, AFinishWithAnotherNumberIsRefused) {
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  ASSERT_TRUE(call.SendBatch(1, set_.view().rows(0, 10)));
  ASSERT_TRUE(call.SendFinish(2));
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(status), "BATCHES_MISSING");
}

TEST_F(IngestTest, MisuseOfTheProtocolIsRefused) {
  const auto refusal = [this](const std::function<void(ObservationCall&)>& misuse) {
    ObservationCall call(*client_);
    misuse(call);
    return call.Await();
  };
  EXPECT_EQ(refusal([&](auto& call) { call.SendBatch(1, set_.view().rows(0, 1)); }).error_code(),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal([](auto& call) { call.Send(Request()); }).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal([](auto& call) {
              call.Open(kIngestModel, "p");
              Request open;
              open.mutable_open()->set_model(kIngestModel);
              call.Send(open);
            }).error_code(),
            grpc::INVALID_ARGUMENT);
  EXPECT_EQ(refusal([&](auto& call) {
              call.Open(kIngestModel, "p");
              call.SendBatch(0, set_.view().rows(0, 1));
            }).error_code(),
            grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refusal([](auto& call) { call.Open(kIngestModel, "bad id"); }).error_message(),
              HasSubstr("open.producer_id is \"bad id\""));
  EXPECT_THAT(refusal([](auto& call) { call.Open(kIngestModel, "p", -1); }).error_message(),
              HasSubstr("open.epoch"));
  EXPECT_EQ(refusal([](auto& call) { call.Open("models/absent", "p"); }).error_code(),
            grpc::NOT_FOUND);
  EXPECT_EQ(Counted(), 0);
}

TEST_F(IngestTest, InvalidBatchesAreRejectedWholeAndTheStreamContinues) {
  struct Case {
    const char* what;
    std::function<void(v1::Observations&)> change;
    const char* field;
    const char* value;
  };
  const auto set = [](int i, double value) {
    return [i, value](v1::Observations& o) { o.mutable_probabilities()->set_values(i, value); };
  };
  const std::vector<Case> cases{
      {"NaN", set(70, std::numeric_limits<double>::quiet_NaN()), "rows[7].probabilities", "nan"},
      {"negative", set(70, -0.25), "rows[7].probabilities", "-0.25"},
      {"row sum 1.31",
       [](v1::Observations& o) {
         for (int k = 0; k < 10; ++k) o.mutable_probabilities()->set_values(70 + k, 0.131);
       },
       "rows[7].probabilities", "sums to 1.31"},
      {"label out of range", [](v1::Observations& o) { o.set_labels(7, 12); }, "labels[7]", "12"},
      {"wrong shape", [](v1::Observations& o) { o.mutable_probabilities()->add_values(0.5); },
       "probabilities", "101 values"}};

  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  std::int64_t sequence = 0;
  for (const Case& bad : cases) {
    ASSERT_TRUE(call.SendBatch(++sequence, set_.view().rows(0, 10)));
    ASSERT_TRUE(call.ReadAck(sequence)) << bad.what;
    Request request;
    request.mutable_batch()->set_sequence(++sequence);
    *request.mutable_batch()->mutable_observations() = ToProto(set_.view().rows(10, 10));
    bad.change(*request.mutable_batch()->mutable_observations());
    // A repeated invalid batch is rejected in the same way.
    std::vector<std::string> rejections;
    for (int repeat = 0; repeat < 2; ++repeat) {
      ASSERT_TRUE(call.Send(request));
      std::optional<Response> rejected;
      ASSERT_TRUE(call.ReadAck(sequence, [&](const Response& other) { rejected = other; }))
          << bad.what;
      ASSERT_TRUE(rejected.has_value() && rejected->has_rejected()) << bad.what;
      EXPECT_EQ(rejected->rejected().sequence(), sequence);
      const rpc::Status& status = rejected->rejected().status();
      EXPECT_EQ(status.code(), grpc::INVALID_ARGUMENT);
      EXPECT_THAT(status.message(), HasSubstr(bad.field));
      EXPECT_THAT(status.message(), HasSubstr(bad.value));
      rejections.push_back(status.message());
    }
    EXPECT_EQ(rejections[0], rejections[1]);
  }
  ASSERT_TRUE(call.SendFinish(sequence));
  EXPECT_TRUE(call.Await().ok());

  const v1::GetCalibrationResponse calibration = client_->GetCalibration(kIngestModel);
  EXPECT_EQ(calibration.observations(), 50);
  EXPECT_EQ(calibration.rejected_rows(), 50);
  // The valid batches alone give the same state.
  client_->CreateFixed("models/good", 10);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    v1::ObserveRequest request = ObserveRequest(0, 10);
    request.set_model("models/good");
    ASSERT_TRUE(client_->Observe(request).ok());
  }
  const v1::GetCalibrationResponse good = client_->GetCalibration("models/good");
  ASSERT_EQ(calibration.estimates_size(), good.estimates_size());
  for (int i = 0; i < good.estimates_size(); ++i) {
    EXPECT_EQ(calibration.estimates(i).SerializeAsString(), good.estimates(i).SerializeAsString());
  }
}

TEST_F(IngestTest, ObserveCountsOnceWithAProducer) {
  v1::ObserveRequest request = ObserveRequest(0, 10);
  request.mutable_producer()->set_producer_id("p");
  request.mutable_producer()->set_sequence(1);
  v1::ObserveResponse response;
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  EXPECT_EQ(response.accepted_rows(), 10);
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  EXPECT_EQ(response.duplicate_rows(), 10);
  EXPECT_EQ(response.accepted_rows(), 0);
  request.mutable_producer()->set_sequence(3);
  EXPECT_EQ(client_->Observe(request).error_code(), grpc::FAILED_PRECONDITION);
  request.mutable_producer()->set_sequence(0);
  EXPECT_EQ(client_->Observe(request).error_code(), grpc::INVALID_ARGUMENT);

  v1::ObserveRequest anonymous = ObserveRequest(0, 10);
  anonymous.mutable_observations()->set_dropped_rows(3);
  ASSERT_TRUE(client_->Observe(anonymous).ok());
  anonymous.mutable_observations()->set_labels(4, 10);
  const grpc::Status status = client_->Observe(anonymous);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("labels[4]"));
  EXPECT_EQ(Counted(), 20);
  EXPECT_EQ(client_->GetCalibration(kIngestModel).dropped_rows(), 3);
}

TEST_F(IngestTest, DroppedRowsAndLabelsAreCountedWithoutAValidRow) {
  TemporaryFolder folder;
  const std::string data = (folder.path() / "data").string();
  Start({"--data-dir", data});
  v1::ObserveRequest request;
  request.set_model(kIngestModel);
  request.set_request_id("all-invalid");
  request.mutable_observations()->set_dropped_rows(100);
  request.mutable_observations()->set_dropped_labels(40);
  v1::ObserveResponse response;
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  EXPECT_EQ(response.accepted_rows(), 0);
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  // With rows that the server skips, the dropped ones are counted too.
  v1::ObserveRequest skipped = ObserveRequest(0, 1);
  skipped.mutable_observations()->set_labels(0, 10);
  skipped.mutable_observations()->set_skip_invalid_rows(true);
  skipped.mutable_observations()->set_dropped_rows(5);
  skipped.mutable_observations()->set_dropped_labels(2);
  ASSERT_TRUE(client_->Observe(skipped).ok());
  for (int life = 0; life < 2; ++life) {
    const v1::GetCalibrationResponse calibration = client_->GetCalibration(kIngestModel);
    EXPECT_EQ(calibration.dropped_rows(), 105);
    EXPECT_EQ(calibration.dropped_labels(), 42);
    EXPECT_THAT(calibration.reading().data().text(), HasSubstr("42 labels dropped by producers"));
    EXPECT_EQ(calibration.rejected_rows(), 1);
    EXPECT_EQ(calibration.observations(), 0);
    if (life > 0) break;
    server_->Kill();
    Start({"--data-dir", data});
  }
}

TEST_F(IngestTest, InvalidRowsAreSkippedCountedAndReported) {
  TemporaryFolder folder;
  const std::string data = (folder.path() / "data").string();
  Start({"--data-dir", data});
  v1::ObserveRequest request = ObserveRequest(0, 20);
  request.mutable_observations()->set_skip_invalid_rows(true);
  request.mutable_observations()->set_labels(3, 10);
  request.mutable_observations()->mutable_probabilities()->set_values(71, 1.5);
  v1::ObserveResponse response;
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  EXPECT_EQ(response.accepted_rows(), 18);
  EXPECT_EQ(response.skipped().rows(), 2);
  ASSERT_EQ(response.skipped().violations_size(), 2);
  EXPECT_EQ(response.skipped().violations(0).field(), "labels[3]");
  EXPECT_EQ(response.skipped().violations(1).field(), "rows[7].probabilities[1]");

  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  const auto send = [&](std::int64_t sequence, std::size_t first, int invalid) {
    Request message;
    message.mutable_batch()->set_sequence(sequence);
    *message.mutable_batch()->mutable_observations() = ToProto(set_.view().rows(first, 10));
    message.mutable_batch()->mutable_observations()->set_skip_invalid_rows(true);
    for (int i = 0; i < invalid; ++i) {
      message.mutable_batch()->mutable_observations()->set_labels(i, -1);
    }
    ASSERT_TRUE(call.Send(message));
  };
  // The second batch has no valid row; the third one is sent twice.
  send(1, 20, 0);
  send(2, 30, 10);
  send(3, 40, 1);
  send(3, 40, 1);
  ASSERT_TRUE(call.SendFinish(3));
  std::map<std::int64_t, std::int64_t> skipped;
  std::optional<Response> last;
  while (auto message = call.Read()) {
    if (message->ack().has_skipped()) {
      skipped[message->ack().sequence()] = message->ack().skipped().rows();
      EXPECT_EQ(message->ack().skipped().violations(0).field(), "labels[0]");
    }
    last = std::move(message);
  }
  EXPECT_EQ(skipped, (std::map<std::int64_t, std::int64_t>{{2, 10}, {3, 1}}));
  ASSERT_TRUE(last.has_value() && last->has_finished());
  EXPECT_EQ(last->finished().accepted_rows(), 19);
  EXPECT_EQ(last->finished().duplicate_rows(), 9);
  EXPECT_EQ(last->finished().rejected_rows(), 12);
  EXPECT_TRUE(call.Await().ok());

  const auto expect_counts = [&] {
    const v1::GetCalibrationResponse answer = client_->GetCalibration(kIngestModel);
    EXPECT_EQ(answer.observations(), 37);
    EXPECT_EQ(answer.rejected_rows(), 13);
  };
  expect_counts();
  EXPECT_THAT(HttpGet(server_->http_address(), "/metrics").body,
              HasSubstr("calibd_rejected_rows_total{model=\"m\",version=\"\"} 13"));
  server_->Kill();
  Start({"--data-dir", data});
  expect_counts();
}

TEST_F(IngestTest, DeletingTheModelEndsItsStreams) {
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  ASSERT_TRUE(call.SendBatch(1, set_.view().rows(0, 10)));
  ASSERT_TRUE(call.ReadAck(1));
  ASSERT_TRUE(client_->Delete(kIngestModel).ok());
  const grpc::Status status = call.Await();
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(Reason(status), "MODEL_NOT_FOUND");
}

TEST_F(IngestTest, StreamsAndProducersAreCapped) {
  Start({"--max-ingest-streams", "2", "--max-producers-per-model", "2"});
  {
    ObservationCall first(*client_);
    ASSERT_EQ(first.Open(kIngestModel, "a"), 1);
    ObservationCall second(*client_);
    ASSERT_EQ(second.Open(kIngestModel, "b"), 1);
    ObservationCall third(*client_);
    const grpc::Status status = third.Await();
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Reason(status), "TOO_MANY_STREAMS");
    EXPECT_NE(status.error_message().find("(max-ingest-streams)"), std::string::npos);
  }
  EXPECT_TRUE(WaitFor([&] {
    ObservationCall call(*client_);
    call.Open(kIngestModel, "c");
    return Reason(call.Await()) == "TOO_MANY_PRODUCERS";
  }));
}

TEST_F(IngestTest, AProducerThatEndsMakesRoomAndCountsOnce) {
  Start({"--max-producers-per-model", "1"});
  const auto metric = [&](const std::string& series) {
    return HttpGet(server_->http_address(), "/metrics").body.find("\n" + series + "\n") !=
           std::string::npos;
  };
  const auto send = [&](const std::string& producer, std::int64_t last_sequence) {
    ObservationCall call(*client_);
    EXPECT_TRUE(call.Open(kIngestModel, producer).has_value());
    for (std::int64_t i = 1; i <= 3; ++i) EXPECT_TRUE(call.SendBatch(i, set_.view().rows(0, 10)));
    EXPECT_TRUE(call.ReadAck(3));
    Request finish;
    finish.mutable_finish()->set_last_sequence(last_sequence);
    finish.mutable_finish()->set_ends_producer(true);
    EXPECT_TRUE(call.Send(finish));
    const std::optional<Response> finished = call.Read();
    if (finished.has_value() && finished->has_finished()) {
      EXPECT_EQ(finished->finished().last_sequence(), 3);
    }
    return call.Await();
  };
  for (const char* const producer : {"a", "b", "a", "b"}) {
    const grpc::Status status = send(producer, 3);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(Counted(), 60);
  EXPECT_TRUE(metric("calibd_producers{model=\"m\",version=\"\"} 0"));
  EXPECT_TRUE(metric("calibd_producers_limit 1"));

  // It sends nothing more.
  ObservationCall call(*client_);
  EXPECT_EQ(call.Open(kIngestModel, "a"), 4);
  EXPECT_TRUE(call.SendBatch(4, set_.view().rows(0, 10)));
  const grpc::Status more = call.Await();
  EXPECT_EQ(more.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(Reason(more), "PRODUCER_ENDED");
}

TEST_F(IngestTest, ARepeatedRequestIdCountsOnce) {
  v1::ObserveRequest request = ObserveRequest(0, 10);
  request.set_request_id("pod-7:1");
  v1::ObserveResponse response;
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  EXPECT_EQ(response.accepted_rows(), 10);
  EXPECT_FALSE(response.is_repeated());
  ASSERT_TRUE(client_->Observe(request, &response).ok());
  EXPECT_EQ(response.accepted_rows(), 0);
  EXPECT_EQ(response.duplicate_rows(), 10);
  EXPECT_TRUE(response.is_repeated());
  EXPECT_EQ(Counted(), 10);

  v1::ObserveRequest other = ObserveRequest(10, 10);
  other.set_request_id("pod-7:1");
  const grpc::Status reused = client_->Observe(other);
  EXPECT_EQ(reused.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(Reason(reused), "REQUEST_ID_REUSED");
  EXPECT_THAT(reused.error_message(), HasSubstr("\"pod-7:1\""));

  other.mutable_producer()->set_producer_id("p");
  other.mutable_producer()->set_sequence(1);
  EXPECT_EQ(client_->Observe(other).error_code(), grpc::INVALID_ARGUMENT);
  for (const std::string& id : {std::string("a b"), std::string("-a"), std::string(129, 'a')}) {
    request.set_request_id(id);
    const grpc::Status status = client_->Observe(request);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr("request_id"));
  }
  EXPECT_EQ(Counted(), 10);
}

TEST_F(IngestTest, ManyBatchesThroughASmallQueueAreAllCounted) {
  Start({"--ingest-queue-bytes", "65536", "--max-batches-in-flight", "2"});
  constexpr int kBatches = 300;
  ObservationCall call(*client_);
  ASSERT_EQ(call.Open(kIngestModel, "p"), 1);
  for (int i = 1; i <= kBatches; ++i) {
    ASSERT_TRUE(call.SendBatch(i, set_.view()));
  }
  ASSERT_TRUE(call.SendFinish(kBatches));
  EXPECT_TRUE(call.Await().ok());
  EXPECT_EQ(Counted(), kBatches * 200);
}

}  // namespace
}  // namespace calibd::testing
