#include "integration/store/damage_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <system_error>

#include "integration/engine/engine.h"
#include "integration/server/service_client.h"
#include "integration/store/store_damage.h"
#include "support/server_process.h"

namespace calibd::testing {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr hours kDay{24};
constexpr hours kGrace = 20 * kDay;
// Small, so that some of the first segments are removed while the store is made.
constexpr std::uint64_t kFirstSegmentBytes = std::uint64_t{32} << 10;
// It has room for everything that is sent to the servers later.
constexpr std::uint64_t kNewestSegmentBytes = std::uint64_t{384} << 10;

constexpr int kPairClasses = 2;
constexpr int kWideClasses = 10;
constexpr int kLaterClasses = 4;

std::vector<v1::Model> Declarations() {
  v1::Model pair = Declare("models/pair", kPairClasses);
  pair.set_window(300);
  pair.mutable_monitoring()->set_group_tag("region");
  pair.mutable_monitoring()->set_max_groups(4);
  pair.mutable_monitoring()->set_min_group_observations(50);
  v1::Model wide = Declare("models/wide", kWideClasses);
  wide.set_window(200);
  wide.mutable_classes()->add_lenses()->mutable_top_label();
  v1::Model later = Declare("models/later", kLaterClasses, kGrace);
  later.set_window(100);
  later.set_max_pending(1000);
  v1::Model idle = Declare("models/idle", 3);
  v1::Model gone = Declare("models/gone", 3);
  return {pair, wide, later, idle, gone};
}

// Sends numbered batches to an engine.
class Producers {
 public:
  Producers(Engine& engine, std::uint64_t seed) : engine_(engine), seed_(seed) {}

  void Send(const std::string& model, const std::string& producer, std::size_t rows,
            const std::vector<std::string>& ids = {}) {
    const auto found = engine_.Find(model);
    Submit(*found, found, producer, MakeBatch(*found, rows, ++seed_, ids));
  }
  void Label(const std::string& model, const std::string& producer,
             const std::vector<std::string>& ids) {
    const auto found = engine_.Find(model);
    Submit(*found, found, producer, MakeLabels(*found, ids));
  }

 private:
  void Submit(const server::Model& model, const std::shared_ptr<server::Model>& shared,
              const std::string& producer, server::LogRow batch) {
    const std::int64_t sequence = engine_.StateOf(shared, {producer}).last_sequences[producer] + 1;
    ASSERT_EQ(engine_.Submit(shared, {{producer, 1, sequence}}, std::move(batch)).kind,
              server::Settlement::Kind::kAccepted)
        << model.declaration()->name.ToString();
  }

  Engine& engine_;
  std::uint64_t seed_;
};

std::uintmax_t LargestLogFile(const std::filesystem::path& data) {
  std::uintmax_t largest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    if (entry.path().filename().string().starts_with("log-")) {
      std::error_code gone;  // The engine may remove it meanwhile.
      const std::uintmax_t size = entry.file_size(gone);
      if (!gone) largest = std::max(largest, size);
    }
  }
  return largest;
}

int CompactedSegments(const std::filesystem::path& data) {
  int compacted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(data)) {
    const bool segment = entry.path().filename().string().starts_with("log-");
    // The version of a segment.
    if (segment && ReadFile(entry.path()).at(8) == 2) ++compacted;
  }
  return compacted;
}

// The next numbered batch of observations.
v1::ObserveRequest Numbered(ServiceClient& client, const std::string& model,
                            const std::string& producer) {
  v1::ObserveRequest request;
  request.set_model(model);
  request.mutable_producer()->set_producer_id(producer);
  request.mutable_producer()->set_epoch(1);
  const auto next = ObservationCall(client).Open(model, producer, 1);
  EXPECT_TRUE(next.has_value()) << model;
  request.mutable_producer()->set_sequence(next.value_or(1));
  return request;
}

v1::ObserveRequest Observations(ServiceClient& client, const std::string& model, int classes,
                                const std::string& producer, std::size_t rows, std::uint64_t seed) {
  v1::ObserveRequest request = Numbered(client, model, producer);
  *request.mutable_observations() =
      ToProto(Draw(rows, static_cast<std::size_t>(classes), seed).view());
  return request;
}

void Observe(ServiceClient& client, const v1::ObserveRequest& request) {
  const grpc::Status status = client.Observe(request);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

void Acknowledge(ServiceClient& client, const std::string& model) {
  const v1::GetCalibrationResponse answer = client.GetCalibration(model);
  ASSERT_GT(answer.alarms_size(), 0) << model;
  v1::AcknowledgeAlarmRequest request;
  request.set_model(model);
  request.set_alarm_id(answer.alarms(0).id());
  request.set_note("expected");
  CallContext context;
  v1::AcknowledgeAlarmResponse response;
  EXPECT_TRUE(client.calibration->AcknowledgeAlarm(&context, request, &response).ok());
}

}  // namespace

void DamageStore::Make(std::uint64_t seed) {
  const std::filesystem::path data = folder_.path() / "data";
  Fill(data, seed);
  {
    const auto server = ServerProcess::Start({"--data-dir", data.string()});
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(server->Terminate(), 0);
  }
  std::filesystem::copy(data, earlier_stopped());
  Serve(data, seed);
  std::filesystem::copy(data, killed());
  {
    const auto server = ServerProcess::Start({"--data-dir", data.string()});
    ASSERT_NE(server, nullptr);
    EXPECT_EQ(server->Terminate(), 0);
  }
  std::filesystem::copy(data, stopped());
  for (const std::filesystem::path& folder : {killed(), stopped()}) {
    EXPECT_GT(CompactedSegments(folder), 0) << folder;
  }
}

// Makes the parts of the store that would take months, with a clock that the test moves.
void DamageStore::Fill(const std::filesystem::path& data, std::uint64_t seed) {
  const auto now = std::chrono::system_clock::now();
  questions_.newest_s = std::chrono::system_clock::to_time_t(now);
  FakeClock clock;
  const auto age = [&] { return std::chrono::duration_cast<seconds>(now - clock.clock().wall()); };
  clock.Move(age() - 300 * kDay);
  {
    Engine engine(data,
                  {.clock = clock.clock(), .matures = false, .segment_bytes = kFirstSegmentBytes});
    for (const v1::Model& model : Declarations()) {
      ASSERT_TRUE(engine.CreateModel(model).ok());
    }
    Producers producers(engine, seed);
    // Its window outlives the log file that contains these batches.
    for (int i = 0; i < 3; ++i) producers.Send("models/idle", "early", 30);
    producers.Send("models/later", "poster", 40, MakeIds("old", 40));
    producers.Label("models/later", "labeller", MakeIds("old", 30));
    clock.Move(kGrace + kDay);
    EXPECT_TRUE(engine.Mature(engine.Find("models/later")));
    const auto send = [&](std::chrono::minutes step, int times) {
      for (int i = 0; i < times; ++i) {
        producers.Send("models/pair", i % 2 == 0 ? "left" : "right", 25);
        producers.Send("models/wide", "solo", 30);
        producers.Send("models/later", "poster", 5);
        clock.Move(step);
      }
    };
    send(20 * kDay, 11);
    send(hours(36), 20);
    clock.Move(age() - minutes(40 * 51));
    send(minutes(51), 40);
  }
  Engine engine(data,
                {.clock = clock.clock(), .matures = false, .segment_bytes = kNewestSegmentBytes});
  Producers producers(engine, seed);
  while (LargestLogFile(data) < kNewestSegmentBytes) producers.Send("models/gone", "one", 100);
}

// Makes the rest as clients would, and kills the server.
void DamageStore::Serve(const std::filesystem::path& data, std::uint64_t seed) {
  const auto server = ServerProcess::Start({"--data-dir", data.string()});
  ASSERT_NE(server, nullptr);
  ServiceClient client(server->grpc_address());
  v1::ObserveRequest left;
  for (const std::string region : {"north", "south", "west"}) {
    left = Observations(client, "models/pair", kPairClasses, "left", 60, ++seed);
    left.mutable_observations()->add_group_values(region);
    Observe(client, left);
  }
  Acknowledge(client, "models/pair");
  std::filesystem::copy(data, earlier_killed());

  EXPECT_TRUE(client.Delete("models/gone").ok());
  client.CreateFixed("models/fresh", 3);
  Observe(client, Observations(client, "models/fresh", 3, "only", 30, ++seed));
  v1::ObserveRequest solo;
  // There are more rows than a snapshot needs to be due.
  for (int i = 0; i < 8; ++i) {
    solo = Observations(client, "models/wide", kWideClasses, "solo", 150, ++seed);
    Observe(client, solo);
  }
  Acknowledge(client, "models/wide");
  const std::vector<std::string> ids = MakeIds("new", 40);
  v1::ObserveRequest predictions =
      Observations(client, "models/later", kLaterClasses, "poster", ids.size(), ++seed);
  predictions.mutable_observations()->clear_labels();
  predictions.mutable_observations()->mutable_prediction_ids()->Assign(ids.begin(), ids.end());
  Observe(client, predictions);
  v1::ObserveRequest labels = Numbered(client, "models/later", "labeller");
  for (std::size_t i = 0; i < 10; ++i) {
    labels.mutable_labels()->add_prediction_ids(ids[i]);
    labels.mutable_labels()->add_labels(1);
  }
  Observe(client, labels);
  const v1::ObserveRequest newest =
      Observations(client, "models/pair", kPairClasses, "newest-producer", 5, ++seed);
  Observe(client, newest);
  server->Kill();

  questions_.models = {"models/pair", "models/wide", "models/later",
                       "models/idle", "models/gone", "models/fresh"};
  questions_.newest_batches = {left, solo, newest};
  questions_.labels.set_model("models/later");
  for (const std::string& id : ids) {
    questions_.labels.mutable_labels()->add_prediction_ids(id);
    questions_.labels.mutable_labels()->add_labels(2);
  }
}

}  // namespace calibd::testing
