#include "calibd/client/observation_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "calibd/client/client.h"
#include "scripted_server.h"
#include "support/wait_for.h"

namespace calibd::client {
namespace {

using ::calibd::testing::WaitFor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Stream = ScriptedServer::Stream;
using Request = v1::StreamObservationsRequest;

const std::vector<double> kRow = {0.25, 0.75};
const std::vector<std::int32_t> kLabel = {1};

std::unique_ptr<ObservationStream> Open(const ScriptedServer& server,
                                        const StreamOptions& options = {}) {
  const auto client = Client::Connect(server.address());
  EXPECT_TRUE(client.ok()) << client.status();
  if (!client.ok()) return nullptr;
  auto stream = (*client)->OpenStream(ModelName("m"), options);
  EXPECT_TRUE(stream.ok()) << stream.status();
  return stream.ok() ? *std::move(stream) : nullptr;
}

absl::Status SendRow(ObservationStream& stream, const std::vector<double>& row = kRow) {
  return stream.Send(PredictionKind::kProbabilities, row, kLabel);
}

// Returns a status with a BadRequest of one violation.
rpc::Status Rejection(const std::string& field) {
  rpc::Status status;
  status.set_code(3);
  status.set_message("invalid observations");
  rpc::BadRequest bad_request;
  auto& violation = *bad_request.add_field_violations();
  violation.set_field(field);
  violation.set_description("sums to 1.31");
  auto& any = *status.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.BadRequest");
  bad_request.SerializeToString(any.mutable_value());
  return status;
}

TEST(ObservationStreamTest, MapsRejectedRowsBackToTheCallersNumbers) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    std::int64_t rows = 0;
    while (stream.Read(&request) && request.has_batch()) {
      rows += request.batch().observations().labels_size();
      if (request.batch().sequence() == 2) {
        v1::StreamObservationsResponse response;
        response.mutable_rejected()->set_sequence(2);
        *response.mutable_rejected()->mutable_status() = Rejection("rows[1].probabilities");
        stream.Write(response);
      }
      ScriptedServer::Ack(stream, request.batch().sequence());
    }
    ScriptedServer::Finished(stream, request.finish().last_sequence(), rows);
    return grpc::Status::OK;
  });
  const auto stream = Open(server, {.invalid_rows = InvalidRows::kDrop});
  ASSERT_NE(stream, nullptr);
  // Rows 0, 1 | 2, 4 (3 is dropped) | 5.
  for (int row = 0; row < 6; ++row) {
    ASSERT_TRUE(SendRow(*stream, row == 3 ? std::vector<double>{0.9, 0.9} : kRow).ok());
  }
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->rows, 6);
  EXPECT_EQ(counts->accepted_rows, 3);
  EXPECT_EQ(counts->rejected_rows, 2);
  EXPECT_EQ(counts->dropped_rows, 1);
  const auto rejected = stream->TakeRejected();
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_EQ(rejected[0].first_row, 2);
  EXPECT_EQ(rejected[0].last_row, 4);
  ASSERT_EQ(rejected[0].errors.size(), 1u);
  EXPECT_EQ(rejected[0].errors[0].row, 4);
  EXPECT_THAT(std::string(rejected[0].status.message()), HasSubstr("sums to 1.31"));
  EXPECT_TRUE(stream->TakeRejected().empty());
}

TEST(ObservationStreamTest, ReportsTheRowsThatTheServerSkips) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    while (stream.Read(&request) && request.has_batch()) {
      EXPECT_TRUE(request.batch().observations().skip_invalid_rows());
      v1::StreamObservationsResponse response;
      response.mutable_ack()->set_sequence(request.batch().sequence());
      if (request.batch().sequence() == 2) {
        response.mutable_ack()->mutable_skipped()->set_rows(1);
        auto& violation = *response.mutable_ack()->mutable_skipped()->add_violations();
        violation.set_field("rows[1].probabilities");
        violation.set_description("sums to 1.8");
      }
      stream.Write(response);
    }
    v1::StreamObservationsResponse finished;
    finished.mutable_finished()->set_last_sequence(request.finish().last_sequence());
    finished.mutable_finished()->set_accepted_rows(3);
    finished.mutable_finished()->set_rejected_rows(1);
    stream.Write(finished);
    return grpc::Status::OK;
  });
  const auto stream = Open(server, {.invalid_rows = InvalidRows::kSkip});
  ASSERT_NE(stream, nullptr);
  for (int row = 0; row < 4; ++row) {
    ASSERT_TRUE(SendRow(*stream, row == 3 ? std::vector<double>{0.9, 0.9} : kRow).ok());
  }
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 3);
  EXPECT_EQ(counts->rejected_rows, 1);
  EXPECT_EQ(counts->rejected_batches, 0);
  const auto skipped = stream->TakeRejected();
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_TRUE(skipped[0].status.ok());
  EXPECT_EQ(skipped[0].row_count, 1);
  ASSERT_EQ(skipped[0].errors.size(), 1u);
  EXPECT_EQ(skipped[0].errors[0].row, 3);
}

TEST(ObservationStreamTest, SendsOneValuePerRowWithAPositiveClass) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    EXPECT_TRUE(stream.Read(&request));
    EXPECT_EQ(request.batch().observations().positive_class(), 0);
    EXPECT_TRUE(request.batch().observations().has_positive_class());
    EXPECT_EQ(request.batch().observations().probabilities().values_size(), 2);
    ScriptedServer::Ack(stream, 1);
    EXPECT_TRUE(stream.Read(&request));
    ScriptedServer::Finished(stream, 1, 2);
    return grpc::Status::OK;
  });
  const auto stream = Open(server, {.positive_class = 0});
  ASSERT_NE(stream, nullptr);
  const std::vector<std::int32_t> labels{0, 1};
  EXPECT_TRUE(
      stream->Send(PredictionKind::kProbabilities, std::vector<double>{0.2, 1}, labels).ok());
  EXPECT_THAT(
      std::string(stream->Send(PredictionKind::kProbabilities, std::vector<double>{0.2, 7}, labels)
                      .message()),
      HasSubstr("rows[3].probabilities[0] is 7"));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST(EscapeIdTest, GivesEveryTextItsOwnId) {
  for (const char* id : {"m", "Fraud_EU.v2-b", "x-y", "x"}) EXPECT_EQ(EscapeId(id), id);
  EXPECT_EQ(EscapeId(std::string(128, 'a')), std::string(128, 'a'));
  EXPECT_EQ(EscapeId("My model"), "x--My-20model");
  EXPECT_EQ(EscapeId("\xc3\xbc/-"), "x---c3-bc-2f-2d");
  EXPECT_EQ(EscapeId("x--My-20model"), "x--x-2d-2dMy-2d20model");
  EXPECT_EQ(EscapeId("_a"), "x--_a");
  EXPECT_EQ(EscapeId(""), "x--");
}

TEST(ObservationStreamTest, RefusesInvalidRowsAndAcceptsNone) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    return ScriptedServer::Behave(stream);
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  const absl::Status status =
      stream->Send(PredictionKind::kProbabilities, std::vector<double>{0.5, 0.5, 0.5, 0.81},
                   std::vector<std::int32_t>{0, 0});
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("rows[2].probabilities sums to 1.31"));
  EXPECT_TRUE(absl::IsInvalidArgument(
      stream->Send(PredictionKind::kProbabilities, std::vector<double>{0.5}, kLabel)));
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->rows, 1);
  EXPECT_EQ(counts->accepted_rows, 1);
}

TEST(ObservationStreamTest, TreatsACleanEndWithoutFinishedAsABrokenOne) {
  ScriptedServer server([](int attempt, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    if (attempt == 1) {
      stream.Read(&request);
      return grpc::Status::OK;
    }
    return ScriptedServer::Behave(stream);
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  for (int row = 0; row < 5; ++row) {
    ASSERT_TRUE(SendRow(*stream).ok());
  }
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 5);
  EXPECT_EQ(counts->reconnects, 1);
  EXPECT_GE(counts->resent_batches, 1);
}

TEST(ObservationStreamTest, ReopensWhenTheServerDrains) {
  ScriptedServer server([](int attempt, Stream& stream) {
    if (attempt <= 2) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "draining");
    ScriptedServer::Opened(stream, 4);
    return ScriptedServer::Behave(stream);
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 1);
}

TEST(ObservationStreamTest, FailsAtOnceOnAPermanentError) {
  for (const auto code : {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::UNIMPLEMENTED,
                          grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::ABORTED,
                          grpc::StatusCode::RESOURCE_EXHAUSTED}) {
    ScriptedServer server([code](int, Stream&) { return grpc::Status(code, "no"); });
    const auto client = Client::Connect(server.address());
    ASSERT_TRUE(client.ok()) << client.status();
    const auto stream = (*client)->OpenStream(ModelName("m"));
    EXPECT_EQ(static_cast<int>(stream.status().code()), static_cast<int>(code));
  }
}

TEST(ObservationStreamTest, RefusesAFinishWithOtherRows) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    while (stream.Read(&request) && request.has_batch()) {
    }
    ScriptedServer::Finished(stream, request.finish().last_sequence(), 17);
    return grpc::Status::OK;
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  const auto counts = stream->Finish();
  EXPECT_TRUE(absl::IsDataLoss(counts.status())) << counts.status();
  EXPECT_EQ(SendRow(*stream).code(), counts.status().code()) << "the stream stays over";
}

TEST(ObservationStreamTest, DetectsThatTheServerLostBatches) {
  ScriptedServer server([](int attempt, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    if (attempt > 1) return ScriptedServer::Behave(stream);
    Request request;
    for (int batch = 1; batch <= 2 && stream.Read(&request); ++batch) {
      ScriptedServer::Ack(stream, batch);
    }
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restart");
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  for (int row = 0; row < 5; ++row) {
    ASSERT_TRUE(SendRow(*stream).ok());
  }
  const auto counts = stream->Finish();
  EXPECT_TRUE(absl::IsDataLoss(counts.status())) << counts.status();
}

TEST(ObservationStreamTest, BlocksWhileTooManyBatchesAreUnacknowledged) {
  std::promise<void> go;
  std::atomic<std::int64_t> read = 0;
  ScriptedServer server([&](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1, 1);
    Request request;
    for (int batch = 1; batch <= 4 && stream.Read(&request); ++batch) ++read;
    go.get_future().wait();
    ScriptedServer::Ack(stream, 4);
    std::int64_t rows = 4;
    while (stream.Read(&request) && request.has_batch()) {
      ++rows;
      ScriptedServer::Ack(stream, request.batch().sequence());
    }
    ScriptedServer::Finished(stream, request.finish().last_sequence(), rows);
    return grpc::Status::OK;
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  std::atomic<int> sent = 0;
  std::thread sender([&] {
    for (; sent < 20; ++sent) {
      EXPECT_TRUE(SendRow(*stream).ok());
    }
  });
  // Four batches of one row are unacknowledged and one row is buffered: the sixth Send blocks.
  EXPECT_TRUE(WaitFor([&] { return sent >= 5 && read >= 4; }));
  EXPECT_EQ(sent, 5);
  go.set_value();
  sender.join();
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 20);
}

// What a server receives until Finish or the end of the stream.
struct Received {
  std::vector<std::string> contents;
  std::int64_t rows = 0;
  std::int64_t labels = 0;
};

void Receive(Stream& stream, Received& received) {
  Request request;
  while (stream.Read(&request) && request.has_batch()) {
    const Request::Batch& batch = request.batch();
    std::string text;
    if (batch.has_labels()) {
      for (const std::string& id : batch.labels().prediction_ids()) text += "l:" + id + " ";
      received.labels += batch.labels().labels_size();
    } else {
      const v1::Observations& observations = batch.observations();
      const int rows = observations.probabilities().values_size() / 2;
      for (int i = 0; i < rows; ++i) {
        text += observations.prediction_ids_size() > 0 ? "p:" + observations.prediction_ids(i) : "";
        if (observations.labels_size() > 0) text += "=" + std::to_string(observations.labels(i));
        text += " ";
      }
      received.rows += rows;
    }
    received.contents.push_back(text);
    ScriptedServer::Ack(stream, batch.sequence());
  }
}

grpc::Status PendingFull(std::chrono::seconds delay) {
  rpc::Status status;
  status.set_code(8);
  status.set_message("2 predictions wait for their labels");
  rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count());
  auto& any = *status.add_details();
  any.set_type_url("type.googleapis.com/google.rpc.RetryInfo");
  retry.SerializeToString(any.mutable_value());
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, status.message(), status.SerializeAsString()};
}

TEST(ObservationStreamTest, WarnsOnceOfClassesThatAreSentAsProbabilities) {
  using Rows = std::vector<double>;
  const Rows classes = {0, 1, 1, 0, 0, 1, 0, 1};
  const std::vector<std::int32_t> labels = {1, 0, 1, 1};
  // Sends 40 rows, four in a call, with these in the first one. Returns the warnings.
  const auto warnings = [&](const Rows& first, PredictionKind kind, int calls) {
    ScriptedServer server([](int, Stream& stream) {
      ScriptedServer::Opened(stream, 1, 10);
      return ScriptedServer::Behave(stream);
    });
    std::vector<std::string> told;
    StreamOptions options;
    options.on_warning = [&told](const std::string& warning) { told.push_back(warning); };
    const auto stream = Open(server, options);
    for (int call = 0; stream != nullptr && call < calls; ++call) {
      EXPECT_TRUE(stream->Send(kind, call == 0 ? first : classes, labels).ok());
    }
    return told;
  };
  EXPECT_THAT(warnings(classes, PredictionKind::kProbabilities, 10),
              ElementsAre(HasSubstr("models/m: all probabilities of the first 20 rows or more are "
                                    "0 or 1. If these are predicted classes, the answers are ")));
  EXPECT_THAT(warnings(classes, PredictionKind::kProbabilities, 4), ::testing::IsEmpty());
  EXPECT_THAT(warnings(classes, PredictionKind::kLogits, 10), ::testing::IsEmpty());
  EXPECT_THAT(warnings({0, 1, 0.5, 0.5, 0, 1, 0, 1}, PredictionKind::kProbabilities, 10),
              ::testing::IsEmpty());
}

TEST(ObservationStreamTest, KeepsTheOrderOfRowsAndLabels) {
  Received received;
  ScriptedServer server([&](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1, 10);
    Receive(stream, received);
    v1::StreamObservationsResponse response;
    auto& finished = *response.mutable_finished();
    finished.set_last_sequence(6);
    finished.set_accepted_rows(5);
    finished.set_duplicate_rows(1);
    finished.mutable_labels()->set_matched(2);
    finished.mutable_labels()->set_waiting(1);
    stream.Write(response);
    return grpc::Status::OK;
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  const std::vector<double> rows = {0.25, 0.75, 1, 0};
  using Ids = std::vector<std::string>;
  const std::vector<std::int32_t> labels = {1, 0};
  constexpr PredictionKind kKind = PredictionKind::kProbabilities;
  ASSERT_TRUE(stream->SendWithIds(kKind, rows, Ids{"a", "b"}).ok());
  ASSERT_TRUE(stream->Label(Ids{"a", "b"}, labels).ok());
  ASSERT_TRUE(stream->SendWithIds(kKind, rows, Ids{"b", "c"}, labels).ok());
  ASSERT_TRUE(stream->Send(kKind, kRow, kLabel).ok());
  ASSERT_TRUE(stream->SendWithIds(kKind, kRow, Ids{"d"}).ok());
  ASSERT_TRUE(stream->Label(Ids{"x"}, kLabel).ok());
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_THAT(received.contents,
              ElementsAre("p:a p:b ", "l:a l:b ", "p:b=1 p:c=0 ", "=1 ", "p:d ", "l:x "));
  EXPECT_EQ(counts->rows, 6);
  EXPECT_EQ(counts->accepted_rows, 5);
  EXPECT_EQ(counts->duplicate_rows, 1);
  EXPECT_EQ(counts->labels.labels, 3);
  EXPECT_EQ(counts->labels.accepted, 3);
  EXPECT_EQ(counts->labels.matched, 2);
  EXPECT_EQ(counts->labels.waiting, 1);
}

TEST(ObservationStreamTest, RefusesInvalidIdsAndLabelsOrDropsThem) {
  const std::vector<std::string> ids = {"a", ""};
  const std::vector<double> rows = {0.25, 0.75, 1, 0};
  for (const InvalidRows invalid_rows : {InvalidRows::kReject, InvalidRows::kDrop}) {
    Received received;
    ScriptedServer server([&](int, Stream& stream) {
      ScriptedServer::Opened(stream, 1, 10);
      Receive(stream, received);
      v1::StreamObservationsResponse response;
      auto& finished = *response.mutable_finished();
      finished.set_last_sequence(static_cast<std::int64_t>(received.contents.size()));
      finished.set_accepted_rows(received.rows);
      finished.mutable_labels()->set_matched(received.labels);
      stream.Write(response);
      return grpc::Status::OK;
    });
    const auto stream = Open(server, {.invalid_rows = invalid_rows});
    ASSERT_NE(stream, nullptr);
    EXPECT_TRUE(
        absl::IsInvalidArgument(stream->SendWithIds(PredictionKind::kProbabilities, kRow, ids)));
    EXPECT_TRUE(absl::IsInvalidArgument(stream->SendWithIds(
        PredictionKind::kProbabilities, rows, ids, std::vector<std::int32_t>{0, 0, 0})));
    EXPECT_TRUE(absl::IsInvalidArgument(stream->Label(ids, kLabel)));
    const absl::Status sent = stream->SendWithIds(PredictionKind::kProbabilities, rows, ids);
    const absl::Status labelled = stream->Label(std::vector<std::string>{"a", "\xff", "b"},
                                                std::vector<std::int32_t>{2, 0, 1});
    const auto counts = stream->Finish();
    ASSERT_TRUE(counts.ok()) << counts.status();
    if (invalid_rows == InvalidRows::kReject) {
      EXPECT_EQ(std::string(sent.message()), "prediction_ids[1] is of 0 bytes, expected 1 to 128");
      EXPECT_EQ(std::string(labelled.message()),
                "labels[0] is 2, expected [0, 2); "
                "prediction_ids[1] is not valid UTF-8");
      EXPECT_EQ(counts->rows + counts->labels.labels, 0);
    } else {
      EXPECT_THAT(received.contents, ElementsAre("p:a ", "l:b "));
      EXPECT_EQ(counts->dropped_rows, 1);
      EXPECT_EQ(counts->labels.labels, 3);
      EXPECT_EQ(counts->labels.dropped, 2);
      EXPECT_EQ(counts->labels.matched, 1);
    }
  }
}

TEST(ObservationStreamTest, ReportsRejectedLabelsByTheirOwnNumbers) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    stream.Read(&request);
    ScriptedServer::Ack(stream, 1);
    stream.Read(&request);
    v1::StreamObservationsResponse response;
    response.mutable_rejected()->set_sequence(2);
    *response.mutable_rejected()->mutable_status() = Rejection("prediction_ids[1]");
    stream.Write(response);
    ScriptedServer::Ack(stream, 2);
    stream.Read(&request);
    auto& finished = *response.mutable_finished();
    finished.set_last_sequence(2);
    finished.set_accepted_rows(1);
    finished.set_rejected_rows(2);
    stream.Write(response);
    return grpc::Status::OK;
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  ASSERT_TRUE(
      stream->Label(std::vector<std::string>{"a", "b"}, std::vector<std::int32_t>{0, 1}).ok());
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->rejected_rows, 0);
  EXPECT_EQ(counts->labels.rejected, 2);
  const auto rejected = stream->TakeRejected();
  ASSERT_EQ(rejected.size(), 1u);
  EXPECT_TRUE(rejected[0].labels);
  EXPECT_EQ(rejected[0].first_row, 0);
  ASSERT_EQ(rejected[0].errors.size(), 1u);
  EXPECT_EQ(rejected[0].errors[0].row, 1);
}

TEST(ObservationStreamTest, KnowsOnlyTheOutcomesOfTheLastConnection) {
  // The first connection breaks after it has received both batches and acknowledged one.
  ScriptedServer server([](int attempt, Stream& stream) {
    Request request;
    if (attempt == 1) {
      ScriptedServer::Opened(stream, 1);
      stream.Read(&request);
      stream.Read(&request);
      ScriptedServer::Ack(stream, 1);
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restart");
    }
    ScriptedServer::Opened(stream, 3);
    Received received;
    Receive(stream, received);
    EXPECT_THAT(received.contents, ElementsAre("l:b ", "l:c "));
    v1::StreamObservationsResponse response;
    auto& finished = *response.mutable_finished();
    finished.set_last_sequence(3);
    finished.mutable_labels()->set_late(1);
    stream.Write(response);
    return grpc::Status::OK;
  });
  const auto stream = Open(server, {.max_rows_per_batch = 1});
  ASSERT_NE(stream, nullptr);
  for (const char* id : {"a", "b"}) {
    ASSERT_TRUE(stream->Label(std::vector<std::string>{id}, kLabel).ok());
    ASSERT_TRUE(stream->Flush().ok());
  }
  ASSERT_TRUE(WaitFor([&] { return stream->counts().reconnects > 0; }));
  ASSERT_TRUE(stream->Label(std::vector<std::string>{"c"}, kLabel).ok());
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->labels.accepted, 3);
  EXPECT_EQ(counts->labels.late, 1);
  EXPECT_EQ(counts->labels.matched, 0);
}

TEST(ObservationStreamTest, WaitsWhileTheServerHasNoRoom) {
  ScriptedServer server([](int attempt, Stream& stream) {
    ScriptedServer::Opened(stream, attempt == 1 ? 1 : 2);
    Request request;
    if (attempt <= 3) {
      stream.Read(&request);
      if (attempt == 1) ScriptedServer::Ack(stream, 1);
      return PendingFull(std::chrono::seconds(0));
    }
    return ScriptedServer::Behave(stream);
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  for (int row = 0; row < 4; ++row) {
    ASSERT_TRUE(SendRow(*stream).ok());
  }
  const auto counts = stream->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 4);
  EXPECT_EQ(counts->reconnects, 3);
}

TEST(ObservationStreamTest, GivesUpWithTheServersErrorWhenItHasNoRoom) {
  std::atomic<int> attempts = 0;
  ScriptedServer server([&](int attempt, Stream& stream) {
    attempts = attempt;
    ScriptedServer::Opened(stream, 1);
    Request request;
    stream.Read(&request);
    return PendingFull(std::chrono::seconds(3600));
  });
  const auto stream = Open(server, {.stall_timeout = std::chrono::milliseconds(400)});
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  const absl::Status status = stream->Finish().status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("wait for their labels"));
  EXPECT_GE(attempts, 2) << "asked again however long the server wants";
}

TEST(ObservationStreamTest, FailsWhenNothingIsAcknowledgedInTime) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    while (stream.Read(&request)) {
    }
    return grpc::Status::CANCELLED;
  });
  const auto stream = Open(server, {.stall_timeout = std::chrono::milliseconds(200)});
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream->Finish().status()));
}

TEST(ObservationStreamTest, FailsWhenEveryConnectionBreaksBeforeAnAcknowledgement) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken");
  });
  const auto stream = Open(server, {.stall_timeout = std::chrono::milliseconds(500)});
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream->Finish().status()));
}

TEST(ObservationStreamTest, HasEndedAfterFinish) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    return ScriptedServer::Behave(stream);
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(stream->Finish().ok()) << "without a batch";
  EXPECT_TRUE(absl::IsFailedPrecondition(stream->Finish().status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(SendRow(*stream)));
}

TEST(ObservationStreamTest, CancelWakesABlockedFinish) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    Request request;
    while (stream.Read(&request)) {
    }
    return grpc::Status::CANCELLED;
  });
  const auto stream = Open(server);
  ASSERT_NE(stream, nullptr);
  ASSERT_TRUE(SendRow(*stream).ok());
  auto finished = std::async(std::launch::async, [&] { return stream->Finish().status(); });
  stream->Cancel();
  EXPECT_TRUE(absl::IsCancelled(finished.get()));
}

TEST(ObservationStreamTest, ChecksTheClassOrder) {
  ScriptedServer server([](int, Stream& stream) {
    ScriptedServer::Opened(stream, 1);
    return ScriptedServer::Behave(stream);
  });
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  const auto stream = (*client)->OpenStream(ModelName("m"), {.class_names = {"cat", "dog"}});
  EXPECT_TRUE(absl::IsFailedPrecondition(stream.status())) << stream.status();
}

TEST(ClientTest, ReportsAnUnreachableServer) {
  const auto client = Client::Connect("127.0.0.1:1");
  EXPECT_TRUE(absl::IsUnavailable(client.status()));
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("127.0.0.1:1"));
  EXPECT_TRUE(absl::IsInvalidArgument(Client::Connect("").status()));
}

}  // namespace
}  // namespace calibd::client
