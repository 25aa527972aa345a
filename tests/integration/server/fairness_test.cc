// The load of one model does not cost another one its calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "integration/server/service_client.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

constexpr char kGreedy[] = "models/greedy";
constexpr std::size_t kFairnessRows = 10;

// Sends batches as fast as the server takes them, until it is destroyed.
class GreedyProducer {
 public:
  // rows: the number of rows of a batch.
  explicit GreedyProducer(ServiceClient& client, std::size_t rows = 2048) : call_(client) {
    EXPECT_EQ(call_.Open(kGreedy, "p"), 1);
    sender_ = std::thread([this, rows] {
      const PredictionSet set = Draw(rows);
      for (std::int64_t i = 1; call_.SendBatch(i, set.view()); ++i) {
      }
    });
    receiver_ = std::thread([this] {
      while (const std::optional<Response> response = call_.Read()) {
        if (response->has_ack()) acknowledged_ = response->ack().sequence();
      }
    });
  }
  ~GreedyProducer() {
    call_.Cancel();
    sender_.join();
    receiver_.join();
  }
  GreedyProducer(const GreedyProducer&) = delete;
  GreedyProducer& operator=(const GreedyProducer&) = delete;

  // Number of acknowledged batches.
  [[nodiscard]] std::int64_t acknowledged() const { return acknowledged_; }

 private:
  ObservationCall call_;
  std::atomic<std::int64_t> acknowledged_ = 0;
  std::thread sender_;
  std::thread receiver_;
};

class FairnessTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& arguments) {
    server_ = ServerProcess::Start(arguments);
    ASSERT_NE(server_, nullptr);
    client_.emplace(server_->grpc_address());
    client_->CreateFixed(kGreedy, 10);
  }

  // True while batches of the greedy producer wait for room.
  bool Saturated() {
    return HttpGet(server_->http_address(), "/metrics")
               .body.find("\ncalibd_ingest_waiting_batches 1\n") != std::string::npos;
  }

  static v1::ObserveRequest RequestTo(const std::string& model, std::size_t rows = kFairnessRows) {
    v1::ObserveRequest request;
    request.set_model(model);
    *request.mutable_observations() = ToProto(Draw(rows).view());
    return request;
  }

  std::unique_ptr<ServerProcess> server_;
  std::optional<ServiceClient> client_;
};

// The calls of the quiet models together need more than the part of the queue that streams leave to
// calls, and a batch of the greedy producer fits wherever one of them does.
TEST_F(FairnessTest, NoCallOfAQuietModelIsRefusedNextToAGreedyProducer) {
  constexpr int kModels = 50;
  constexpr int kCalls = 10;
  constexpr std::size_t kRows = 100;
  Start({"--ingest-queue-bytes", "2097152"});
  const auto name = [](int model) { return "models/quiet-" + std::to_string(model); };
  for (int i = 0; i < kModels; ++i) client_->CreateFixed(name(i), 10);
  {
    ServiceClient greedy(server_->grpc_address());
    const GreedyProducer producer(greedy, kRows);
    ASSERT_TRUE(WaitFor([&] { return Saturated(); }));
    // Small calls of the busy model have room too.
    for (int call = 0; call < kCalls; ++call) {
      const grpc::Status status = client_->Observe(RequestTo(kGreedy));
      EXPECT_TRUE(status.ok()) << Reason(status) << ": " << status.error_message();
    }
    std::vector<std::thread> quiet;
    for (int i = 0; i < kModels; ++i) {
      quiet.emplace_back([&, request = RequestTo(name(i), kRows)] {
        for (int call = 0; call < kCalls; ++call) {
          const grpc::Status status = client_->Observe(request);
          EXPECT_TRUE(status.ok()) << Reason(status) << ": " << status.error_message();
        }
      });
    }
    for (std::thread& thread : quiet) thread.join();
    EXPECT_TRUE(WaitFor([&] { return Saturated(); }));
  }
  for (int i = 0; i < kModels; ++i) {
    EXPECT_EQ(client_->GetCalibration(name(i)).observations(),
              kCalls * static_cast<std::int64_t>(kRows));
  }
}

// The one writer thread takes at most 256 KiB of a model at once, less than two batches. Without
// turns, the median was 18.
TEST_F(FairnessTest, CallsOfQuietModelsDoNotWaitForTheBacklogOfAGreedyProducer) {
  constexpr int kModels = 50;
  constexpr int kCalls = 5;
  constexpr std::int64_t kMostBatches = 8;
  Start({"--writer-threads", "1"});
  const auto name = [](int model) { return "models/quiet-" + std::to_string(model); };
  for (int i = 0; i < kModels; ++i) client_->CreateFixed(name(i), 10);
  ServiceClient greedy(server_->grpc_address());
  const GreedyProducer producer(greedy);
  ASSERT_TRUE(WaitFor([&] { return Saturated() && producer.acknowledged() > 0; }));
  std::vector<std::int64_t> batches;
  for (int call = 0; call < kCalls; ++call) {
    for (int i = 0; i < kModels; ++i) {
      const std::int64_t before = producer.acknowledged();
      ASSERT_TRUE(client_->Observe(RequestTo(name(i))).ok());
      batches.push_back(producer.acknowledged() - before);
    }
  }
  const auto median = batches.begin() + kModels * kCalls / 2;
  std::nth_element(batches.begin(), median, batches.end());
  EXPECT_LE(*median, kMostBatches);
}

// A call of a quiet model that is as large is served.
TEST_F(FairnessTest, ALargeCallBeyondTheShareOfItsModelIsRefusedWithAReason) {
  constexpr std::size_t kManyRows = 10000;
  Start({"--ingest-queue-bytes", "6291456"});
  client_->CreateFixed("models/quiet", 10);
  v1::ObserveRequest large;
  *large.mutable_observations() = ToProto(Draw(kManyRows).view());
  ServiceClient greedy(server_->grpc_address());
  const GreedyProducer producer(greedy);
  ASSERT_TRUE(WaitFor([&] { return Saturated(); }));
  large.set_model(kGreedy);
  grpc::Status refused;
  // At some moments, the streams of the model leave it room.
  ASSERT_TRUE(WaitFor([&] { return !(refused = client_->Observe(large)).ok(); }));
  EXPECT_EQ(refused.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(Reason(refused), "INGEST_QUEUE_FULL");
  EXPECT_THAT(refused.error_message(), ::testing::HasSubstr("(ingest-queue-bytes)"));
  EXPECT_NE(refused.error_details().find("google.rpc.RetryInfo"), std::string::npos);
  large.set_model("models/quiet");
  const grpc::Status served = client_->Observe(large);
  EXPECT_TRUE(served.ok()) << Reason(served) << ": " << served.error_message();
}

TEST_F(FairnessTest, CallsBeyondTheLimitOfAConnectionAreRefusedWithAReason) {
  Start({"--max-concurrent-streams", "2"});
  ObservationCall first(*client_);
  ASSERT_EQ(first.Open(kGreedy, "a"), 1);
  {
    ObservationCall second(*client_);
    ASSERT_EQ(second.Open(kGreedy, "b"), 1);
    const grpc::Status status = client_->Observe(RequestTo(kGreedy));
    EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_EQ(Reason(status), "TOO_MANY_CALLS");
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("open another connection"));
    // Health checks and other connections are not affected.
    EXPECT_EQ(client_->CheckHealth("").serving, 1U);
    ServiceClient other(server_->grpc_address());
    EXPECT_TRUE(other.Observe(RequestTo(kGreedy)).ok());
  }
  EXPECT_TRUE(WaitFor([&] { return client_->Observe(RequestTo(kGreedy)).ok(); }));
}

}  // namespace
}  // namespace calibd::testing
