// SIGKILL at random moments under load: every acknowledged batch is counted once.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <latch>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "calibd/client/client.h"
#include "calibd/core/generator.h"
#include "calibd/core/running_skce.h"
#include "calibd/store/v1/store.pb.h"
#include "integration/store/crash_judge.h"
#include "server/rows/row_codec.h"
#include "server/store/postgres/postgres_store.h"
#include "support/postgres_cluster.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using client::Client;
using client::ObservationStream;
using client::PredictionKind;

constexpr std::size_t kClasses = 3;
constexpr std::size_t kProducers = 4;
// Number of rows that a producer may send between two kills.
constexpr std::size_t kRowsPerLife = 300;
constexpr std::size_t kWindow = 500000;

int Kills() {
  const char* const kills = std::getenv("CALIBD_TEST_KILLS");
  return kills == nullptr ? 200 : std::atoi(kills);
}

std::unique_ptr<Client> ConnectTo(const std::string& address) {
  auto client = Client::Connect(address);
  EXPECT_TRUE(client.ok()) << client.status();
  return client.ok() ? *std::move(client) : nullptr;
}

// The number of the current server process; producers wait for the next one.
class Lives {
 public:
  void Begin() {
    const std::lock_guard lock(mutex_);
    ++life_;
    changed_.notify_all();
  }
  void End() {
    const std::lock_guard lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  // Returns false if `life` was the last one.
  bool WaitForLifeAfter(int& life) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return over_ || life_ > life; });
    life = life_;
    return !over_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int life_ = 0;
  bool over_ = false;
};

PredictionSet NextPiece(Generator& generator, std::mt19937& random) {
  PredictionSet piece;
  generator.Draw(1 + random() % 8, piece);
  return piece;
}

// Sends pieces of a few rows as batches until the test ends. Returns everything that was sent.
PredictionSet Stream(const std::string& address, std::size_t producer, Lives& lives,
                     std::latch& ready) {
  std::mt19937 random(static_cast<unsigned>(1000 + producer));
  auto generator = Generator::Create(GeneratorSpec::M2(kClasses), 100 + producer);
  PredictionSet sent;
  auto client = ConnectTo(address);
  auto stream =
      client->OpenStream("models/crash", {.producer_id = "producer-" + std::to_string(producer),
                                          .epoch = 1,
                                          .max_unacknowledged_batches = 8,
                                          // The stream must find the server between two kills, of
                                          // which there may be thousands.
                                          .stall_timeout = std::chrono::hours(24)});
  EXPECT_TRUE(stream.ok()) << stream.status();
  ready.count_down();
  if (!stream.ok()) return sent;
  int life = 0;
  while (lives.WaitForLifeAfter(life)) {
    for (std::size_t rows = 0; rows < kRowsPerLife;) {
      const PredictionSet piece = NextPiece(*generator, random);
      absl::Status status =
          (*stream)->Send(PredictionKind::kProbabilities, piece.probabilities, piece.labels);
      if (status.ok()) status = (*stream)->Flush();
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return sent;
      Append(piece, sent);
      rows += piece.labels.size();
    }
  }
  const auto counts = (*stream)->Finish();
  EXPECT_TRUE(counts.ok()) << counts.status();
  return sent;
}

// Sends without the SDK: in calls of one batch each, repeated under their number until they are
// answered. A committed batch is therefore sent again if its response was lost.
PredictionSet Observe(const std::string& address, std::size_t producer, Lives& lives,
                      std::latch& ready) {
  std::mt19937 random(static_cast<unsigned>(1000 + producer));
  auto generator = Generator::Create(GeneratorSpec::M2(kClasses), 100 + producer);
  NumberedCaller caller(address, "models/crash", "producer-" + std::to_string(producer));
  PredictionSet sent;
  ready.count_down();
  int life = 0;
  while (lives.WaitForLifeAfter(life)) {
    for (std::size_t rows = 0; rows < kRowsPerLife;) {
      const PredictionSet piece = NextPiece(*generator, random);
      caller.SetObservations(piece);
      if (!caller.Call()) return sent;
      Append(piece, sent);
      rows += piece.labels.size();
    }
  }
  return sent;
}

// The store of a test and the servers on it.
class CrashedStore {
 public:
  virtual ~CrashedStore() = default;
  // Starts the servers, of which one serves. Returns whether it does.
  virtual bool Start() {
    server_ = ServerProcess::Start(arguments());
    if (server_ != nullptr) address_ = server_->grpc_address();
    return server_ != nullptr;
  }
  // Where clients find the server that serves.
  [[nodiscard]] const std::string& address() const { return address_; }
  // Kills the server that serves.
  void Kill() { server_->Kill(); }
  // Waits until one serves again. Returns whether one does.
  virtual bool Replace() {
    ForgetKilled();
    std::vector<std::string> all = arguments();
    all.insert(all.end(), {"--listen", address_});
    server_ = ServerProcess::Start(all);
    return server_ != nullptr;
  }
  // Ends all servers. Returns whether they ended in the normal way.
  virtual bool Terminate() { return server_->Terminate() == 0; }
  // Opens the store when no server uses it.
  virtual std::unique_ptr<server::Store> Open() = 0;
  // How many of so many kills a test does, by what one takes.
  [[nodiscard]] virtual int KillsOf(int kills) const { return kills; }

 protected:
  [[nodiscard]] virtual std::vector<std::string> arguments() const = 0;
  // Called when the server that was killed is known to have ended.
  virtual void ForgetKilled() {}

  std::unique_ptr<ServerProcess> server_;
  std::string address_;
};

class CrashedFolder final : public CrashedStore {
 public:
  std::unique_ptr<server::Store> Open() override { return OpenUndamaged(data_); }

 protected:
  [[nodiscard]] std::vector<std::string> arguments() const override {
    return {"--data-dir", data_};
  }

 private:
  const TemporaryFolder folder_;
  const std::string data_ = (folder_.path() / "data").string();
};

class CrashedDatabase : public CrashedStore {
 public:
  std::unique_ptr<server::Store> Open() override {
    auto store = server::PostgresStore::Open({.connection = cluster_.Connection(database_)});
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return nullptr;
    const std::atomic<bool> stop = false;
    EXPECT_TRUE((*store)->Own("", stop).ok());
    return *std::move(store);
  }

 protected:
  [[nodiscard]] std::vector<std::string> arguments() const override {
    return {"--store", "postgres", "--postgres", cluster_.Connection(database_)};
  }
  // Nobody has to wait until it expires.
  void ForgetKilled() override { cluster_.Execute(database_, "DELETE FROM calibd.nodes"); }

 private:
  PostgresCluster& cluster_ = PostgresCluster::Shared();
  const std::string database_ = cluster_.NewStore();
};

// An owner and a standby: whenever the owner is killed, the other one takes over.
class CrashedNodes final : public CrashedDatabase {
 public:
  bool Start() override {
    server_ = ServerProcess::Start(arguments());
    if (server_ == nullptr) return false;
    standby_ = ServerProcess::Launch(arguments());
    if (!standby_->AwaitListening()) return false;
    address_ = absl::StrCat("ipv4:", server_->grpc_address(), ",", standby_->grpc_address());
    return true;
  }
  bool Replace() override {
    if (!standby_->AwaitServing()) return false;
    std::vector<std::string> all = arguments();
    all.insert(all.end(), {"--listen", server_->grpc_address()});
    std::swap(server_, standby_);
    standby_ = ServerProcess::Launch(all);
    return standby_->AwaitListening();
  }
  bool Terminate() override { return standby_->Terminate() == 0 && server_->Terminate() == 0; }
  // The former owner must expire.
  [[nodiscard]] int KillsOf(int kills) const override { return std::max(1, kills / 40); }

 private:
  std::unique_ptr<ServerProcess> standby_;
};

// Measures how long after a kill a batch of a client is acknowledged.
class OutageTimer {
 public:
  explicit OutageTimer(const std::string& address) : caller_(address, "models/crash", "timer") {}
  // Call it after the kill. Returns when a batch is acknowledged.
  void Time() {
    const auto begin = std::chrono::steady_clock::now();
    caller_.SetObservations(NextPiece(generator_, random_));
    if (!caller_.Call()) return;
    times_.push_back(std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - begin));
  }
  void Report() {
    ASSERT_FALSE(times_.empty());
    std::sort(times_.begin(), times_.end());
    ::testing::Test::RecordProperty("outage_p50_ms",
                                    std::to_string(times_[times_.size() / 2].count()));
    ::testing::Test::RecordProperty("outage_p99_ms",
                                    std::to_string(times_[times_.size() * 99 / 100].count()));
    ::testing::Test::RecordProperty("outage_longest_ms", std::to_string(times_.back().count()));
    // Far above the 10 s that a machine with time takes, and far below what no takeover takes.
    EXPECT_LT(times_.back(), std::chrono::seconds(40));
  }

 private:
  NumberedCaller caller_;
  Generator generator_ = *Generator::Create(GeneratorSpec::M2(kClasses), 99);
  std::mt19937 random_{98};
  std::vector<std::chrono::milliseconds> times_;
};

class CrashTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string_view(GetParam()) == "Local") {
      store_ = std::make_unique<CrashedFolder>();
      return;
    }
    if (const std::string missing = PostgresCluster::WhyMissing(); !missing.empty()) {
      GTEST_SKIP() << missing;
    }
    if (std::string_view(GetParam()) == "PostgresNodes") {
      store_ = std::make_unique<CrashedNodes>();
    } else {
      store_ = std::make_unique<CrashedDatabase>();
    }
  }

  std::unique_ptr<CrashedStore> store_;
};
INSTANTIATE_TEST_SUITE_P(Stores, CrashTest, ::testing::Values("Local", "Postgres", "PostgresNodes"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(CrashTest, EveryAcknowledgedBatchIsCountedOnce) {
  const int kills = store_->KillsOf(Kills());
  ASSERT_TRUE(store_->Start());
  const std::string address = store_->address();
  v1::Model model;
  model.set_name("models/crash");
  model.mutable_classes()->set_count(kClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
  model.set_window(kWindow);
  ASSERT_TRUE(ConnectTo(address)->CreateModel(model).ok());

  Lives lives;
  std::vector<PredictionSet> sent(kProducers);
  std::vector<std::thread> producers;
  std::latch ready(kProducers);
  for (std::size_t i = 0; i < kProducers; ++i) {
    producers.emplace_back(
        [&, i] { sent[i] = (i % 2 == 0 ? Stream : Observe)(address, i, lives, ready); });
  }
  ready.wait();
  OutageTimer outages(address);
  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  bool serves = true;
  for (int kill = 0; kill < kills && serves; ++kill) {
    lives.Begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 60));
    store_->Kill();
    std::thread times([&] { outages.Time(); });
    serves = store_->Replace();
    times.join();
  }
  lives.End();
  for (std::thread& producer : producers) producer.join();
  ASSERT_TRUE(serves) << "seed " << seed;
  outages.Report();

  auto client = ConnectTo(address);
  ASSERT_NE(client, nullptr);
  const auto answer = client->GetCalibration("models/crash");
  ASSERT_TRUE(answer.ok()) << answer.status();
  // An idle client may take seconds to notice that the server closes.
  client.reset();
  EXPECT_TRUE(store_->Terminate());

  // Compares the log, in its order, with the batches of each producer, counted here.
  const auto store = store_->Open();
  ASSERT_NE(store, nullptr);
  auto running =
      RunningBlockSkce::Create(2, kClasses, *Kernel::ExponentialTotalVariation(kBandwidth));
  std::map<std::string, PredictionSet> logged;
  std::map<std::string, std::int64_t> last_sequence;
  std::int64_t rows = 0;
  const absl::Status read = store->ReadLog([&](const server::StoredBatch& stored) -> absl::Status {
    const auto row = server::DecodeRow(stored.data, kClasses);
    if (!row.ok()) return row.status();
    if (row->counted() == nullptr) return absl::OkStatus();
    const std::string& producer = row->position->producer_id;
    EXPECT_EQ(row->position->sequence, ++last_sequence[producer]) << "seed " << seed;
    const server::RowValues& values = *row->counted();
    PredictionSet& all = logged[producer];
    all.probabilities.insert(all.probabilities.end(), values.values.begin(), values.values.end());
    all.labels.insert(all.labels.end(), values.truths.labels.begin(), values.truths.labels.end());
    for (std::size_t i = 0; i < values.truths.labels.size(); ++i) {
      running->Add(values.view().row(i), values.truths.labels[i]);
    }
    rows += row->rows();
    return absl::OkStatus();
  });
  ASSERT_TRUE(read.ok()) << read;
  for (std::size_t i = 0; i < kProducers; ++i) {
    const PredictionSet& all = logged["producer-" + std::to_string(i)];
    EXPECT_EQ(all.labels, sent[i].labels) << "seed " << seed;
    EXPECT_EQ(all.probabilities, sent[i].probabilities) << "seed " << seed;
  }
  EXPECT_EQ(answer->observations(), rows);
  ASSERT_GT(answer->estimates_size(), 0);
  EXPECT_EQ(answer->estimates(0).skce(), running->moments().mean) << "seed " << seed;
  EXPECT_EQ(answer->estimates(0).block_count(), running->moments().count);
}

// Sends predictions by id and labels most of them, until the test ends.
void PostAndLabel(LaterLabeller& caller, Lives& lives, std::latch& ready) {
  std::mt19937 random(77);
  auto generator = Generator::Create(GeneratorSpec::M2(kClasses), 78);
  ready.count_down();
  int life = 0;
  while (lives.WaitForLifeAfter(life)) {
    for (std::size_t rows = 0; rows < kRowsPerLife;) {
      const PredictionSet piece = NextPiece(*generator, random);
      std::vector<bool> labelled;
      for (std::size_t i = 0; i < piece.labels.size(); ++i) labelled.push_back(random() % 8 != 0);
      if (!caller.Post(piece, labelled)) return;
      rows += piece.labels.size();
    }
  }
}

TEST_P(CrashTest, PredictionsAndTheirLaterLabelsCountOnce) {
  const int kills = store_->KillsOf(std::max(1, Kills() / 4));
  ASSERT_TRUE(store_->Start());
  const std::string address = store_->address();
  v1::Model model;
  model.set_name("models/later");
  model.mutable_classes()->set_count(kClasses);
  model.mutable_classes()->mutable_bandwidth()->set_fixed(kBandwidth);
  model.set_window(kWindow);
  // Short enough that some predictions mature between two kills.
  model.mutable_label_grace()->set_nanos(400000000);
  ASSERT_TRUE(ConnectTo(address)->CreateModel(model).ok());
  Lives lives;
  std::latch ready(1);
  auto caller = std::make_unique<LaterLabeller>(address, "models/later");
  std::thread producer([&] { PostAndLabel(*caller, lives, ready); });
  ready.wait();
  const unsigned seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::mt19937 random(seed);
  bool serves = true;
  for (int kill = 0; kill < kills && serves; ++kill) {
    lives.Begin();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 150));
    store_->Kill();
    serves = store_->Replace();
  }
  lives.End();
  producer.join();
  ASSERT_TRUE(serves) << "seed " << seed;
  auto client = ConnectTo(address);
  ASSERT_NE(client, nullptr);
  v1::GetCalibrationResponse answer;
  ASSERT_TRUE(WaitFor([&] {
    const auto response = client->GetCalibration("models/later");
    if (response.ok()) answer = *response;
    return response.ok() && answer.label_arrivals().pending() == 0;
  }));
  const PredictionSet sent = caller->sent();
  const std::vector<bool> labelled = caller->labelled();
  caller.reset();
  client.reset();
  EXPECT_TRUE(store_->Terminate());
  SCOPED_TRACE(seed);
  const auto store = store_->Open();
  ASSERT_NE(store, nullptr);
  ExpectMaturedAsSent(*store, answer, sent, labelled);
}

}  // namespace
}  // namespace calibd::testing
