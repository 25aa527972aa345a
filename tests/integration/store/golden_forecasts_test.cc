// A store of models of forecasts that is kept as files.
#include <gmock/gmock.h>
#include <google/protobuf/util/time_util.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "calibd/client/client.h"
#include "integration/store/golden_store.h"
#include "support/wait_for.h"

namespace calibd::testing {
namespace {

using google::protobuf::util::TimeUtil;
using nlohmann::json;

constexpr char kForecastStore[] = "forecasts";
// Sums and logarithms may differ in their last bits on another CPU.
constexpr double kTolerance = 1e-9;
constexpr std::size_t kDraws = 4;

json ErrorJson(const v1::ErrorMeasurement& error) {
  // The ends of the interval depend on how a version shares the level between its answers.
  json out{{"observations", error.observations()},
           {"first_observation", error.first_observation()},
           {"estimate", error.coverage().estimate()},
           {"gap", error.coverage().gap()},
           {"coverage", json::array()}};
  for (const auto& central : error.central_coverage())
    out["coverage"].push_back(central.coverage());
  return out;
}

json ScoresJson(const v1::ForecastScores& scores) {
  return {{"observations", scores.observations()},
          {"crps", scores.crps()},
          {"log_score", scores.log_score()},
          {"residual_mean", scores.residual_mean()},
          {"residual_standard_deviation", scores.residual_standard_deviation()}};
}

// What is kept of the answers about a model, without its alarms.
json ForecastJson(client::Client& client, const std::string& name) {
  const auto answer = client.GetCalibration("models/" + name);
  EXPECT_TRUE(answer.ok()) << answer.status();
  if (!answer.ok()) return {};
  json out{{"observations", answer->observations()},
           {"rejected_rows", answer->rejected_rows()},
           {"scores", ScoresJson(answer->forecast())},
           {"watch", ToJson(answer->watch())},
           {"since_start", ErrorJson(answer->error().since_start())},
           {"since_acknowledgement", ErrorJson(answer->error().since_acknowledgement())},
           {"groups", json::object()}};
  for (const v1::GroupWatch& group : answer->groups()) {
    out["groups"][group.value()] = {{"watch", ToJson(group.watch())},
                                    {"scores", ScoresJson(group.forecast())},
                                    {"error", ErrorJson(group.error().since_start())}};
  }
  if (answer->has_label_arrivals()) out["label_arrivals"] = ToJson(answer->label_arrivals());
  v1::GetHistoryRequest request;
  request.set_model("models/" + name);
  const auto history = client.GetHistory(request);
  EXPECT_TRUE(history.ok()) << history.status();
  // Rows after the snapshot are counted in the hour of the test.
  if (!history.ok() || name != "quantiles") return out;
  for (const v1::HistoryBucket& bucket : history->buckets()) {
    out["history"].push_back({{"scores", ScoresJson(bucket.forecast())},
                              {"start_time", TimeUtil::ToString(bucket.start_time())},
                              {"estimate", bucket.error().estimate()}});
  }
  return out;
}

// Outcomes minus forecasts, in standard deviations: the same numbers with every library.
class Residuals {
 public:
  explicit Residuals(std::uint64_t seed) : random_(seed) {}

  double Draw() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += 0x1p-53 * static_cast<double>(random_() >> 11);
    return sum;
  }

 private:
  std::mt19937_64 random_;
};

v1::Model DeclaredForecast(const std::string& name) {
  v1::Model model;
  model.set_name("models/" + name);
  model.set_window(100);
  if (name == "quantiles") {
    for (const double level : {0.05, 0.25, 0.5, 0.75, 0.95}) {
      model.mutable_forecast()->mutable_quantiles()->add_levels(level);
    }
  } else if (name == "samples") {
    model.mutable_forecast()->mutable_samples()->set_draws(kDraws);
  } else {
    model.mutable_forecast()->mutable_normal();
  }
  if (name == "normal") {
    model.mutable_monitoring()->set_group_tag("region");
    model.mutable_forecast()->mutable_decision()->set_threshold(0.5);
    model.mutable_forecast()->mutable_decision()->set_miss_cost(2);
  }
  if (name == "delays") model.mutable_label_grace()->set_seconds(300 * 24 * 3600);
  return model;
}

// Rows of a batch whose outcomes are `scale` times as far from the forecast as it states, and
// `shift` higher.
v1::ObserveRequest ForecastBatch(const std::string& name, std::int64_t sequence, int rows,
                                 double scale, double shift) {
  Residuals residuals(static_cast<std::uint64_t>(1000 * sequence + rows));
  v1::ObserveRequest request;
  request.set_model("models/" + name);
  request.mutable_producer()->set_producer_id("p");
  request.mutable_producer()->set_epoch(1);
  request.mutable_producer()->set_sequence(sequence);
  v1::Observations& observations = *request.mutable_observations();
  auto& values = *observations.mutable_forecasts();
  for (int i = 0; i < rows; ++i) {
    const double mean = residuals.Draw();
    const double sd = i % 2 == 0 ? 0.5 : 2;
    if (name == "quantiles") {
      for (const double z : {-1.6449, -0.6745, 0.0, 0.6745, 1.6449})
        values.add_values(mean + z * sd);
    } else if (name == "samples") {
      for (std::size_t k = 0; k < kDraws; ++k) values.add_values(mean + sd * residuals.Draw());
    } else {
      values.add_values(mean);
      values.add_values(sd);
    }
    observations.add_outcomes(mean + sd * (shift + scale * residuals.Draw()));
    if (name == "normal") observations.add_group_values(i % 3 == 0 ? "north" : "south");
  }
  return request;
}

class GoldenForecastsTest : public GoldenTest {
 protected:
  // Fills an empty server as that of the golden store was filled.
  void Fill() {
    for (const char* const name : {"normal", "quantiles", "samples", "delays"}) {
      const auto created = client_->CreateModel(DeclaredForecast(name));
      ASSERT_TRUE(created.ok()) << created.status();
    }
    // The first rows of each raise alarms, after which a snapshot is written.
    Observe(ForecastBatch("normal", 1, 600, 2, 0));
    v1::ObserveRequest timed = ForecastBatch("quantiles", 1, 600, 1, 0.8);
    const std::int64_t now = TimeUtil::TimestampToSeconds(TimeUtil::GetCurrentTime());
    for (int i = 0; i < 600; ++i) {
      *timed.mutable_observations()->add_prediction_times() =
          TimeUtil::SecondsToTimestamp(now - 5 * 3600 + i / 200 * 7200);
    }
    Observe(timed);
    Observe(ForecastBatch("samples", 1, 600, 1, 1));
    for (int model = 1; model <= 3; ++model) {
      EXPECT_TRUE(WaitFor([&] { return SnapshotOf(model) > 0; })) << model;
    }
    const auto alarms = client_->GetCalibration("models/normal");
    ASSERT_TRUE(alarms.ok()) << alarms.status();
    for (const v1::Alarm& alarm : alarms->alarms()) {
      if (alarm.kind() != v1::Alarm::OVER_LIMIT || alarm.has_group_value()) continue;
      EXPECT_TRUE(client_->AcknowledgeAlarm("models/normal", alarm.id(), "seen").ok());
    }
    Observe(ForecastBatch("normal", 2, 200, 1, 0));
    v1::ObserveRequest invalid = ForecastBatch("samples", 2, 3, 1, 0);
    invalid.mutable_observations()->mutable_outcomes()->RemoveLast();
    Observe(invalid, grpc::StatusCode::INVALID_ARGUMENT);
    Observe(ForecastBatch("samples", 3, 20, 1, 0));
    v1::ObserveRequest pending = ForecastBatch("delays", 1, 20, 1, 0);
    pending.mutable_observations()->clear_outcomes();
    for (int i = 0; i < 20; ++i) {
      pending.mutable_observations()->add_prediction_ids(std::to_string(i));
    }
    Observe(pending);
    EXPECT_EQ(Observe(LaterOutcomes(2, 0, 8)).labels().matched(), 8);
  }

  static v1::ObserveRequest LaterOutcomes(std::int64_t sequence, int first, int count) {
    v1::ObserveRequest request = ForecastBatch("delays", sequence, 0, 1, 0);
    for (int i = first; i < first + count; ++i) {
      request.mutable_labels()->add_prediction_ids(std::to_string(i));
      request.mutable_labels()->add_outcomes(i);
    }
    return request;
  }

  // Compares with the answers that were kept. same_store: also the alarms, which depend on the ends
  // of intervals, and times.
  void ExpectKeptAnswers(bool same_store) {
    const auto expected = json::parse(std::ifstream(GoldenStore(kForecastStore, ".json")));
    ASSERT_EQ(expected.size(), 4U);
    for (const auto& [name, answers] : expected.items()) {
      json now = ForecastJson(*client_, name);
      if (same_store) {
        now["alarms"] = AlarmsJson(*client_->GetCalibration("models/" + name));
      } else {
        for (json& bucket : now["history"]) bucket.erase("start_time");
        if (now["history"].is_null()) now.erase("history");
      }
      ExpectIn(answers, now, name, kTolerance);
    }
  }
};

TEST_F(GoldenForecastsTest, Continues) {
  CopyGoldenStore(kForecastStore, data_);
  Start();
  ExpectKeptAnswers(true);
  EXPECT_TRUE(client_->CreateModel(DeclaredForecast("normal")).ok()) << "declared as before";
  Stop();
  Start();
  ExpectKeptAnswers(true);
  // A settled batch is known, the next one counts, and pending forecasts get their outcomes.
  EXPECT_EQ(Observe(ForecastBatch("normal", 2, 200, 1, 0)).duplicate_rows(), 200);
  EXPECT_EQ(Observe(LaterOutcomes(3, 6, 4)).labels().matched(), 2);
  // The newest observations begin at multiples of 1024 observations since the acknowledgement after
  // row 600.
  for (std::int64_t sequence = 3; sequence < 9; ++sequence) {
    EXPECT_EQ(Observe(ForecastBatch("normal", sequence, 400, 1, 0)).accepted_rows(), 400);
  }
  for (std::int64_t sequence = 9; sequence < 12; ++sequence) {
    Observe(ForecastBatch("normal", sequence, 400, 3, 0));
  }
  const auto answer = client_->GetCalibration("models/normal");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->observations(), 4400);
  const v1::ErrorMeasurement& newest = answer->error().newest();
  EXPECT_EQ(newest.first_observation(), 601 + 2 * 1024);
  EXPECT_GT(newest.direction().residual_standard_deviation(), 2);
  EXPECT_GT(newest.coverage().lower(), answer->error().since_acknowledgement().coverage().lower());
  Stop();
}

// CALIBD_TEST_WRITE_GOLDEN: keeps the store, while no calibd with its format was released.
TEST_F(GoldenForecastsTest, TheSameRowsGetTheSameAnswers) {
  Start();
  ASSERT_NO_FATAL_FAILURE(Fill());
  json answers;
  for (const char* const name : {"normal", "quantiles", "samples", "delays"}) {
    answers[name] = ForecastJson(*client_, name);
    answers[name]["alarms"] = AlarmsJson(*client_->GetCalibration(std::string("models/") + name));
  }
  EXPECT_GE(answers["normal"]["alarms"].size(), 4U);
  EXPECT_EQ(answers["normal"]["groups"].size(), 2U);
  EXPECT_EQ(answers["quantiles"]["history"].size(), 3U);
  const bool keep = std::getenv("CALIBD_TEST_WRITE_GOLDEN") != nullptr;
  if (!keep) ExpectKeptAnswers(false);
  Kill();
  EXPECT_GT(SnapshotOf(1), 0);
  if (keep) KeepGoldenStore(kForecastStore, data_, answers);
}

}  // namespace
}  // namespace calibd::testing
