// The SDK against the real server, over a network that breaks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <random>

#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_skce.h"
#include "support/http_get.h"
#include "support/server_process.h"
#include "support/tcp_proxy.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::ObservationStream;
using client::PredictionKind;
using client::StreamCounts;
using client::StreamOptions;

constexpr double kBandwidth = 0.5;

PredictionSet Draw(std::size_t n, std::uint64_t seed) {
  auto generator = Generator::Create(GeneratorSpec::M2(), seed);
  PredictionSet set;
  generator->Draw(n, set);
  return set;
}

std::unique_ptr<Client> ConnectedClient(const std::string& address) {
  auto client = Client::Connect(address);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

void CreateModel(Client& client, const std::string& name) {
  v1::Model model;
  model.set_name(client::ModelName(name));
  model.mutable_classes()->set_count(10);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
  const auto created = client.CreateModel(model);
  ASSERT_TRUE(created.ok()) << created.status();
}

absl::StatusOr<StreamCounts> SendAll(Client& client, const std::string& name,
                                     const PredictionSet& set, const StreamOptions& options) {
  auto stream = client.OpenStream(client::ModelName(name), options);
  if (!stream.ok()) return stream.status();
  absl::Status status =
      (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
  if (!status.ok()) return status;
  return (*stream)->Finish();
}

// Expects that the running estimate equals, bit for bit, the one of the rows counted once and in
// order.
void ExpectCountedOnceInOrder(const v1::GetCalibrationResponse& calibration,
                              const PredictionSet& set) {
  EXPECT_EQ(calibration.observations(), static_cast<std::int64_t>(set.labels.size()));
  ASSERT_GT(calibration.estimates_size(), 0);
  const auto kernel = Kernel::ExponentialTotalVariation(kBandwidth);
  auto running = RunningBlockSkce::Create(2, set.class_count, *kernel);
  for (std::size_t i = 0; i < set.labels.size(); ++i) {
    running->Add(set.view().row(i), set.labels[i]);
  }
  EXPECT_EQ(calibration.estimates(0).skce(), running->moments().mean);
  EXPECT_EQ(calibration.estimates(0).block_count(), running->moments().count);
}

class ClientResumeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = ServerProcess::Start();
    ASSERT_NE(server_, nullptr);
    direct_ = ConnectedClient(server_->grpc_address());
    ASSERT_NE(direct_, nullptr);
  }

  v1::GetCalibrationResponse Calibration(const std::string& name) {
    const auto response = direct_->GetCalibration(client::ModelName(name));
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? *response : v1::GetCalibrationResponse();
  }

  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> direct_;
};

TEST_F(ClientResumeTest, AnEvictedIdleConnectionIsNotAnError) {
  direct_.reset();
  server_ = ServerProcess::Start({"--max-connections", "2", "--max-connections-per-address", "2"});
  ASSERT_NE(server_, nullptr);
  direct_ = ConnectedClient(server_->grpc_address());
  CreateModel(*direct_, "m");
  const auto evicted = [this] {
    const std::string body = HttpGet(server_->http_address(), "/metrics").body;
    const std::string series = "calibd_connections_closed_total{reason=\"evicted\"} ";
    const std::size_t found = body.find(series);
    return found == std::string::npos ? 0 : std::stoi(body.substr(found + series.size()));
  };
  // The client's idle connection is among the first three that are evicted.
  const auto crowd_out = [&] {
    const int before = evicted();
    std::vector<int> others;
    ASSERT_TRUE(WaitFor([&] {
      others.push_back(ConnectTo(server_->grpc_address()));
      return evicted() >= before + 3;
    }));
    for (const int fd : others) close(fd);
  };
  crowd_out();
  EXPECT_EQ(Calibration("m").observations(), 0);
  crowd_out();
  const PredictionSet set = Draw(3000, 1);
  const auto counts = SendAll(*direct_, "m", set, {});
  ASSERT_TRUE(counts.ok()) << counts.status();
  ExpectCountedOnceInOrder(Calibration("m"), set);
}

TEST_F(ClientResumeTest, ManyStreamsUseSeveralConnections) {
  // One connection accepts too few calls.
  server_ = ServerProcess::Start({"--max-concurrent-streams", "9"});
  ASSERT_NE(server_, nullptr);
  direct_ = ConnectedClient(server_->grpc_address());
  CreateModel(*direct_, "m");
  const PredictionSet set = Draw(10, 1);
  // Later streams take the places of those that have ended.
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<ObservationStream>> streams;
    for (int i = 0; i < 20; ++i) {
      auto stream = direct_->OpenStream(client::ModelName("m"), {});
      ASSERT_TRUE(stream.ok()) << stream.status();
      ASSERT_TRUE(
          (*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok());
      streams.push_back(*std::move(stream));
    }
    for (const auto& stream : streams) {
      const auto counts = stream->Finish();
      EXPECT_TRUE(counts.ok()) << counts.status();
      EXPECT_EQ(counts->reconnects, 0);
    }
  }
  EXPECT_EQ(Calibration("m").observations(), 400);
}

TEST_F(ClientResumeTest, CountsEachRowOnceForAnyCutOfTheConnection) {
  const PredictionSet set = Draw(3000, 1);
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  // If the first connection breaks within the handshake, Connect fails instead of the stream. 3000
  // rows are about 260 kB.
  std::uniform_int_distribution<std::int64_t> first(1000, 200000);
  std::uniform_int_distribution<std::int64_t> next(0, 100000);
  std::int64_t reconnects = 0;
  for (int round = 0; round < 10; ++round) {
    const std::vector<std::int64_t> cuts = {first(random), next(random), next(random)};
    SCOPED_TRACE("cuts at " + std::to_string(cuts[0]) + ", " + std::to_string(cuts[1]) + ", " +
                 std::to_string(cuts[2]));
    const std::string name = "model-" + std::to_string(round);
    CreateModel(*direct_, name);
    TcpProxy proxy(server_->grpc_address(), cuts);
    const auto client = ConnectedClient(proxy.address());
    ASSERT_NE(client, nullptr);
    const auto counts = SendAll(*client, name, set, {.max_rows_per_batch = 50});
    ASSERT_TRUE(counts.ok()) << counts.status();
    EXPECT_EQ(counts->accepted_rows, 3000);
    EXPECT_EQ(counts->rejected_rows, 0);
    reconnects += counts->reconnects;
    ExpectCountedOnceInOrder(Calibration(name), set);
  }
  EXPECT_GT(reconnects, 0);
}

TEST_F(ClientResumeTest, ABrokenConnectionAffectsOnlyItsProducer) {
  CreateModel(*direct_, "shared");
  const PredictionSet steady = Draw(2000, 1);
  const PredictionSet broken = Draw(2001, 2);
  TcpProxy proxy(server_->grpc_address(), {30000, 50000, 20000});
  const auto through_proxy = ConnectedClient(proxy.address());
  ASSERT_NE(through_proxy, nullptr);
  absl::StatusOr<StreamCounts> steady_counts;
  std::thread steady_producer([&] {
    steady_counts =
        SendAll(*direct_, "shared", steady, {.producer_id = "steady", .max_rows_per_batch = 20});
  });
  const auto broken_counts = SendAll(*through_proxy, "shared", broken,
                                     {.producer_id = "broken", .max_rows_per_batch = 30});
  steady_producer.join();
  ASSERT_TRUE(steady_counts.ok()) << steady_counts.status();
  ASSERT_TRUE(broken_counts.ok()) << broken_counts.status();
  EXPECT_EQ(steady_counts->reconnects, 0);
  EXPECT_GE(broken_counts->reconnects, 3);
  EXPECT_EQ(Calibration("shared").observations(), 4001);
}

TEST_F(ClientResumeTest, StateDoesNotDependOnTheBatches) {
  const PredictionSet set = Draw(1000, 4);
  for (const std::int32_t rows : {1, 7, 100, 0}) {
    const std::string name = "batches-of-" + std::to_string(rows);
    CreateModel(*direct_, name);
    const auto counts = SendAll(*direct_, name, set, {.max_rows_per_batch = rows});
    ASSERT_TRUE(counts.ok()) << counts.status();
    ExpectCountedOnceInOrder(Calibration(name), set);
  }
}

TEST_F(ClientResumeTest, AProducerContinuesItsNumbering) {
  CreateModel(*direct_, "again");
  const PredictionSet set = Draw(100, 5);
  for (int run = 1; run <= 2; ++run) {
    ASSERT_TRUE(SendAll(*direct_, "again", set, {.producer_id = "p"}).ok());
    EXPECT_EQ(Calibration("again").observations(), 100 * run);
  }
}

TEST_F(ClientResumeTest, HigherEpochEndsTheLowerOne) {
  CreateModel(*direct_, "fenced");
  const PredictionSet set = Draw(10, 6);
  auto old = direct_->OpenStream(client::ModelName("fenced"), {.producer_id = "p", .epoch = 1});
  ASSERT_TRUE(old.ok()) << old.status();
  ASSERT_TRUE(SendAll(*direct_, "fenced", set, {.producer_id = "p", .epoch = 2}).ok());
  (void)(*old)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
  EXPECT_TRUE(absl::IsAborted((*old)->Finish().status()));
  const auto late = direct_->OpenStream(client::ModelName("fenced"), {.producer_id = "p"});
  EXPECT_TRUE(absl::IsAborted(late.status())) << late.status();
  EXPECT_EQ(Calibration("fenced").observations(), 10);
}

TEST_F(ClientResumeTest, DeletedModelEndsItsStreams) {
  CreateModel(*direct_, "gone");
  auto stream = direct_->OpenStream(client::ModelName("gone"));
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(direct_->DeleteModel(client::ModelName("gone"), client::ModelName("gone")).ok());
  const PredictionSet set = Draw(10, 6);
  (void)(*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels);
  EXPECT_TRUE(absl::IsNotFound((*stream)->Finish().status()));
  EXPECT_TRUE(absl::IsNotFound(direct_->OpenStream(client::ModelName("gone")).status()));
}

TEST_F(ClientResumeTest, ASilentNetworkCausesADeadlineError) {
  CreateModel(*direct_, "silent");
  TcpProxy proxy(server_->grpc_address());
  const auto client = ConnectedClient(proxy.address());
  ASSERT_NE(client, nullptr);
  auto stream = client->OpenStream(client::ModelName("silent"),
                                   {.stall_timeout = std::chrono::milliseconds(300)});
  ASSERT_TRUE(stream.ok()) << stream.status();
  proxy.Freeze();
  const PredictionSet set = Draw(10, 6);
  ASSERT_TRUE((*stream)->Send(PredictionKind::kProbabilities, set.probabilities, set.labels).ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded((*stream)->Finish().status()));
}

TEST_F(ClientResumeTest, FloatsAndLogitsAreCounted) {
  CreateModel(*direct_, "kinds");
  auto stream = direct_->OpenStream(client::ModelName("kinds"));
  ASSERT_TRUE(stream.ok()) << stream.status();
  const std::vector<float> floats(20, 0.1F);
  const std::vector<double> logits(20, -3);
  const std::vector<std::int32_t> labels = {0, 9};
  ASSERT_TRUE((*stream)->Send(PredictionKind::kProbabilities, floats, labels).ok());
  ASSERT_TRUE((*stream)->Send(PredictionKind::kLogits, logits, labels).ok());
  ASSERT_TRUE((*stream)->Send(PredictionKind::kLogits, floats, labels).ok());
  const auto counts = (*stream)->Finish();
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->accepted_rows, 6);
  EXPECT_EQ(Calibration("kinds").observations(), 6);
}

TEST_F(ClientResumeTest, TestIsCancelledFromAnotherThread) {
  CreateModel(*direct_, "tested");
  ASSERT_TRUE(SendAll(*direct_, "tested", Draw(8000, 7), {}).ok());
  std::stop_source source;
  client::LongCallOptions options;
  options.stop = source.get_token();
  double fraction = 0;
  options.on_progress = [&](double now) {
    EXPECT_GT(now, fraction);
    fraction = now;
    source.request_stop();
  };
  v1::RunTestRequest request;
  request.set_model(client::ModelName("tested"));
  request.set_replicates(50000);
  EXPECT_TRUE(absl::IsCancelled(direct_->RunTest(request, options).status()));
  request.set_replicates(99);
  request.set_window(100);
  request.set_seed(3);
  const auto first = direct_->RunTest(request);
  const auto second = direct_->RunTest(request);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(first->p_value(), second->p_value());
}

}  // namespace
}  // namespace calibd::testing
