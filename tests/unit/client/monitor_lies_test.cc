// Streams and monitors against a server that lies: it can neither stop nor fool them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "calibd/client/client.h"
#include "calibd/client/monitor.h"
#include "scripted_server.h"
#include "support/wait_for.h"

namespace calibd::client {
namespace {

using ::calibd::testing::WaitFor;
using std::chrono::milliseconds;
using std::chrono::minutes;
using ::testing::HasSubstr;
using ServerStream = ScriptedServer::Stream;
using ClientRequest = v1::StreamObservationsRequest;
using ServerResponse = v1::StreamObservationsResponse;

const std::vector<double> kGoodRow = {0.25, 0.75};

bool ObserveRow(Monitor& monitor) { return monitor.Observe({.values = kGoodRow, .label = 1}); }

// Ends a stream by the lie, which follows Opened and one batch, and returns its error.
absl::Status ErrorOf(const std::function<void(ServerStream&)>& lie) {
  ScriptedServer server([&](int, ServerStream& stream) {
    ScriptedServer::Opened(stream, 1, 10);
    ClientRequest request;
    while (stream.Read(&request) && !request.has_finish()) {
    }
    lie(stream);
    return stream.Read(&request) ? grpc::Status::OK : grpc::Status::CANCELLED;
  });
  const auto client = Client::Connect(server.address());
  if (!client.ok()) return client.status();
  const auto stream = (*client)->OpenStream(ModelName("m"));
  if (!stream.ok()) return stream.status();
  absl::Status sent =
      (*stream)->Send(PredictionKind::kProbabilities, kGoodRow, std::vector<std::int32_t>{1});
  return sent.ok() ? (*stream)->Finish().status() : sent;
}

TEST(LyingServerTest, CountsAndNumbersThatCannotBeAreDataLoss) {
  const auto finished = [](std::int64_t last, std::int64_t accepted, std::int64_t rejected) {
    return [=](ServerStream& stream) {
      ServerResponse response;
      response.mutable_finished()->set_last_sequence(last);
      response.mutable_finished()->set_accepted_rows(accepted);
      response.mutable_finished()->set_rejected_rows(rejected);
      stream.Write(response);
    };
  };
  const auto skipped = [](std::int64_t rows) {
    return [=](ServerStream& stream) {
      ServerResponse response;
      response.mutable_ack()->set_sequence(1);
      response.mutable_ack()->mutable_skipped()->set_rows(rows);
      stream.Write(response);
    };
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::function<void(ServerStream&)> lies[] = {
      finished(1, -1, 2),
      finished(1, kMost, kMost),
      finished(1, 2, 0),
      finished(0, 1, 0),
      finished(-1, 1, 0),
      finished(kMost, 1, 0),
      skipped(0),
      skipped(-1),
      skipped(2),
      [](ServerStream& stream) { ScriptedServer::Ack(stream, -1); },
      [](ServerStream& stream) { ScriptedServer::Ack(stream, kMost); },
  };
  for (std::size_t i = 0; i < std::size(lies); ++i) {
    const absl::Status status = ErrorOf(lies[i]);
    EXPECT_TRUE(absl::IsDataLoss(status)) << "lie " << i << ": " << status;
  }
  EXPECT_TRUE(ErrorOf(finished(1, 1, 0)).ok());
}

TEST(LyingServerTest, LimitsThatCannotBeAreDataLoss) {
  for (const std::int64_t next_sequence : {std::int64_t{0}, std::int64_t{-5}}) {
    ScriptedServer server([&](int, ServerStream& stream) {
      ScriptedServer::Opened(stream, next_sequence);
      return ScriptedServer::Behave(stream);
    });
    const auto client = Client::Connect(server.address());
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE(absl::IsDataLoss((*client)->OpenStream(ModelName("m")).status()));
  }
}

TEST(LyingServerTest, RepeatedAcknowledgementsAreNoProgress) {
  std::atomic<bool> stop = false;
  ScriptedServer server([&](int, ServerStream& stream) {
    ScriptedServer::Opened(stream, 1, 1);
    ClientRequest request;
    stream.Read(&request);
    // The first batch again and again, and never the second one.
    while (!stop) {
      ServerResponse response;
      response.mutable_ack()->set_sequence(1);
      if (!stream.Write(response)) break;
    }
    return grpc::Status::CANCELLED;
  });
  const auto client = Client::Connect(server.address());
  ASSERT_TRUE(client.ok()) << client.status();
  const auto stream = (*client)->OpenStream(ModelName("m"), {.stall_timeout = milliseconds(300)});
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<std::int32_t> label = {1};
  for (int row = 0; row < 2; ++row) {
    EXPECT_TRUE((*stream)->Send(PredictionKind::kProbabilities, kGoodRow, label).ok());
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded((*stream)->Finish().status()));
  stop = true;
}

TEST(LyingServerTest, AMonitorReplacesASilentConnection) {
  ScriptedServer server([](int attempt, ServerStream& stream) {
    ClientRequest request;
    if (attempt == 1) return stream.Read(&request) ? grpc::Status::OK : grpc::Status::CANCELLED;
    ScriptedServer::Opened(stream, 1);
    if (attempt == 2) {
      while (stream.Read(&request)) {
      }
      return grpc::Status::CANCELLED;
    }
    return ScriptedServer::Behave(stream);
  });
  const auto monitor = Monitor::Create(
      ModelName("m"), {.address = server.address(), .stall_timeout = milliseconds(300)});
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  EXPECT_TRUE(ObserveRow(**monitor));
  EXPECT_TRUE((*monitor)->Flush(minutes(1)).ok());
  const StreamCounts counts = (*monitor)->Close();
  EXPECT_EQ(counts.accepted_rows, 1);
  EXPECT_GE(counts.resent_batches, 1);
}

TEST(LyingServerTest, AMonitorStartsOverAsAnotherProducerAndReportsWhatItDropped) {
  std::mutex mutex;
  std::vector<std::int64_t> reported;
  ScriptedServer server([&](int attempt, ServerStream& stream) {
    ScriptedServer::Opened(stream, 1);
    ClientRequest request;
    if (attempt == 1) {
      stream.Read(&request);
      ScriptedServer::Ack(stream, 99);
      return stream.Read(&request) ? grpc::Status::OK : grpc::Status::CANCELLED;
    }
    std::int64_t rows = 0;
    while (stream.Read(&request) && request.has_batch()) {
      const v1::Observations& observations = request.batch().observations();
      rows += observations.labels_size();
      {
        const std::lock_guard lock(mutex);
        reported.push_back(observations.dropped_rows());
      }
      ScriptedServer::Ack(stream, request.batch().sequence());
    }
    ScriptedServer::Finished(stream, request.finish().last_sequence(), rows);
    return grpc::Status::OK;
  });
  std::atomic<int> warnings = 0;
  const auto monitor = Monitor::Create(
      ModelName("m"), {.address = server.address(), .on_warning = [&](const std::string& warning) {
                         EXPECT_THAT(warning, HasSubstr("models/m: dropped 1 row or label"));
                         ++warnings;
                       }});
  ASSERT_TRUE(monitor.ok()) << monitor.status();
  EXPECT_TRUE(ObserveRow(**monitor));
  EXPECT_TRUE(WaitFor([&] { return (*monitor)->counts().dropped_rows == 1; }));
  EXPECT_TRUE(ObserveRow(**monitor));
  EXPECT_TRUE((*monitor)->Flush(minutes(1)).ok());
  const StreamCounts counts = (*monitor)->Close();
  EXPECT_EQ(counts.rows, 2);
  EXPECT_EQ(counts.accepted_rows, 1);
  EXPECT_EQ(counts.dropped_rows, 1);
  EXPECT_EQ(warnings, 1);
  std::int64_t sum = 0;
  for (const std::int64_t rows : reported) sum += rows;
  EXPECT_EQ(sum, 1);
}

}  // namespace
}  // namespace calibd::client
