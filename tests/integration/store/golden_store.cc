#include "integration/store/golden_store.h"

#include <google/protobuf/util/time_util.h>
#include <grpcpp/create_channel.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <fstream>
#include <vector>

#include "server/store/local/log_files.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/store_file.h"

namespace calibd::testing {
namespace {

using google::protobuf::util::TimeUtil;

nlohmann::json EstimatesJson(
    const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates) {
  auto out = nlohmann::json::array();
  for (const v1::BlockEstimate& estimate : estimates) {
    nlohmann::json one{{"block_size", estimate.block_size()},
                       {"block_count", estimate.block_count()},
                       {"pending_observations", estimate.pending_observations()},
                       {"skce", estimate.skce()},
                       {"standard_deviation", estimate.standard_deviation()}};
    if (estimate.has_noise_floor()) {
      one["noise_floor"]["standard_deviation"] = estimate.noise_floor().standard_deviation();
    }
    out.push_back(std::move(one));
  }
  return out;
}

// Shifts the times in a log so that the newest is now_us.
void MoveTimes(const std::filesystem::path& folder, std::int64_t now_us) {
  const auto file = server::StoreFile::Open(folder.string());
  ASSERT_TRUE(file.ok() && file->has_value()) << file.status();
  const server::StoreMark mark = (*file)->mark();
  std::filesystem::resize_file(folder / kFirstLogFile, server::LogFiles::kSegmentBytes);
  std::vector<server::StoredBatch> batches;
  std::deque<std::string> data;
  {
    const auto log = server::LogFiles::Open(folder.string(), {.first_log_id = 1, .mark = mark});
    ASSERT_TRUE(log.ok()) << log.status();
    const absl::Status read = (*log)->Read([&](const server::StoredBatch& batch) {
      batches.push_back(batch);
      batches.back().data = data.emplace_back(batch.data);
      return absl::OkStatus();
    });
    ASSERT_TRUE(read.ok()) << read;
  }
  std::filesystem::remove(folder / kFirstLogFile);
  const auto log =
      server::LogFiles::Open(folder.string(), {.next_log_id = 1, .mark = {.id = mark.id}});
  ASSERT_TRUE(log.ok()) << log.status();
  for (const server::StoredBatch& batch : batches) {
    (*log)->Append(batch.model_id, batch.time_us + now_us - batches.back().time_us,
                   std::string(batch.data));
  }
  const absl::Status written = (*log)->Commit();
  ASSERT_TRUE(written.ok()) << written;
}

}  // namespace

std::filesystem::path GoldenStore(const std::string& name, const std::string& suffix) {
  return std::filesystem::path(CALIBD_GOLDEN_DIR) / "store" / (name + suffix);
}

void CopyGoldenStore(const std::string& name, const std::filesystem::path& data) {
  std::filesystem::create_directories(data);
  std::filesystem::copy_file(GoldenStore(name, ".db"), data / "calibd.db");
  std::filesystem::copy_file(GoldenStore(name, ".log"), data / kFirstLogFile);
  std::filesystem::copy_file(GoldenStore(name, ".store"), data / "store");
  MoveTimes(data, std::chrono::duration_cast<std::chrono::microseconds>(
                      std::chrono::system_clock::now().time_since_epoch())
                      .count());
}

void KeepGoldenStore(const std::string& name, const std::filesystem::path& data,
                     const nlohmann::json& answers) {
  const auto keep = [&](const std::string& file, const std::string& suffix) {
    std::filesystem::copy_file(data / file, GoldenStore(name, suffix),
                               std::filesystem::copy_options::overwrite_existing);
  };
  keep("calibd.db", ".db");
  keep("store", ".store");
  keep(kFirstLogFile, ".log");
  const auto store = server::StoreFile::Open(data.string());
  ASSERT_TRUE(store.ok() && store->has_value()) << store.status();
  const auto log =
      server::LogFiles::Open(data.string(), {.first_log_id = 1, .mark = (*store)->mark()});
  ASSERT_TRUE(log.ok()) << log.status();
  const auto visit = [](const server::StoredBatch& /*batch*/) { return absl::OkStatus(); };
  ASSERT_TRUE((*log)->Read(visit).ok());
  std::filesystem::resize_file(GoldenStore(name, ".log"), (*log)->extents().back().end);
  std::ofstream(GoldenStore(name, ".json")) << answers.dump(1) << "\n";
}

nlohmann::json ToJson(const v1::LabelArrivals& coverage) {
  auto classes = nlohmann::json::array();
  for (const auto& one : coverage.predicted_classes()) {
    classes.push_back({{"predicted_class", one.predicted_class()},
                       {"matured", one.matured()},
                       {"missing", one.missing()}});
  }
  const v1::LabelCounts& labels = coverage.labels();
  return {{"predictions", coverage.predictions()},
          {"duplicate_predictions", coverage.duplicate_predictions()},
          {"pending", coverage.pending()},
          {"pending_labelled", coverage.pending_labelled()},
          {"matured", coverage.matured()},
          {"missing", coverage.missing()},
          {"labels",
           {{"matched", labels.matched()},
            {"repeated", labels.repeated()},
            {"conflicting", labels.conflicting()},
            {"late", labels.late()},
            {"unknown", labels.unknown()}}},
          {"predicted_classes", std::move(classes)}};
}

nlohmann::json ToJson(const v1::Watch& watch) {
  nlohmann::json out{{"observations", watch.observations()},
                     {"log10_e_value", watch.evidence().log10_e_value()},
                     {"max_log10_e_value", watch.evidence().max_log10_e_value()},
                     {"max_observation", watch.evidence().max_observation()},
                     {"drift", watch.drift().log10_statistic()},
                     {"max_drift", watch.drift().max_log10_statistic()}};
  if (watch.has_decision()) {
    const v1::DecisionLoss& decision = watch.decision();
    out["decision"] = {{"threshold", decision.decision().threshold()},
                       {"miss_cost", decision.decision().miss_cost()},
                       {"actions", decision.actions()},
                       {"realised", decision.realised_loss()},
                       {"expected", decision.expected_loss()},
                       {"gap_lower_bound", decision.gap_lower_bound()},
                       {"gap_upper_bound", decision.gap_upper_bound()}};
  }
  if (watch.has_discrepancy()) {
    const v1::Discrepancy& discrepancy = watch.discrepancy();
    out["discrepancy"] = {{"mmd_squared", discrepancy.mmd_squared()},
                          {"block_count", discrepancy.block_count()},
                          {"block_mmd_squared", discrepancy.block_mmd_squared()}};
  }
  return out;
}

nlohmann::json AlarmsJson(const v1::GetCalibrationResponse& answer) {
  auto alarms = nlohmann::json::array();
  for (const v1::Alarm& alarm : answer.alarms()) {
    alarms.push_back({{"id", alarm.id()},
                      {"kind", static_cast<int>(alarm.kind())},
                      {"raise_time", TimeUtil::ToString(alarm.raise_time())},
                      {"observation", alarm.observation()},
                      {"gap", alarm.gap()},
                      {"estimate", alarm.crossing().error().estimate()},
                      {"lower", alarm.crossing().error().lower()},
                      {"acknowledged", alarm.has_acknowledge_time()},
                      {"note", alarm.note()},
                      {"group", alarm.group_value()}});
    if (alarm.has_label()) alarms.back()["label"] = alarm.label();
  }
  return alarms;
}

nlohmann::json ToJson(const v1::GetCalibrationResponse& answer) {
  nlohmann::json out{{"observations", answer.observations()},
                     {"rejected_rows", answer.rejected_rows()},
                     {"dropped_rows", answer.dropped_rows()},
                     {"estimates", EstimatesJson(answer.estimates())},
                     {"lenses", nlohmann::json::array()}};
  for (const v1::RunningLens& lens : answer.lenses()) {
    out["lenses"].push_back(
        {{"lens", lens.lens()}, {"estimates", EstimatesJson(lens.estimates())}});
  }
  if (answer.has_label_arrivals()) out["label_arrivals"] = ToJson(answer.label_arrivals());
  return out;
}

void ExpectIn(const nlohmann::json& expected, const nlohmann::json& actual,
              const std::string& where, double tolerance) {
  ASSERT_EQ(expected.is_structured(), actual.is_structured()) << where;
  if (actual.is_number_float()) {
    const double value = expected.get<double>();
    EXPECT_NEAR(actual.get<double>(), value, tolerance * std::abs(value)) << where;
    return;
  }
  if (!actual.is_structured()) {
    EXPECT_EQ(actual, expected) << where;
    return;
  }
  if (actual.is_array()) {
    ASSERT_EQ(actual.size(), expected.size()) << where;
  }
  for (const auto& [key, value] : actual.items()) {
    const auto child = nlohmann::json::json_pointer("/" + key);
    ASSERT_TRUE(expected.contains(child)) << where << "." << key;
    ExpectIn(expected.at(child), value, where + "." + key, tolerance);
  }
}

void ExpectGoldenAnswers(const std::string& name, client::Client& client) {
  const auto expected = nlohmann::json::parse(std::ifstream(GoldenStore(name, ".json")));
  EXPECT_FALSE(expected.empty());
  for (const auto& [model, answer] : expected.items()) {
    const auto now = client.GetCalibration("models/" + model);
    ASSERT_TRUE(now.ok()) << now.status();
    // Versions may add the same terms in another order.
    ExpectIn(answer, ToJson(*now), model, 1e-14);
  }
}

void GoldenTest::Start(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--data-dir", data_.string()});
  server_ = ServerProcess::Start(arguments);
  ASSERT_NE(server_, nullptr);
  auto client = client::Client::Connect(server_->grpc_address());
  ASSERT_TRUE(client.ok());
  client_ = *std::move(client);
  ingest_ = v1::IngestService::NewStub(
      grpc::CreateChannel(server_->grpc_address(), grpc::InsecureChannelCredentials()));
}

void GoldenTest::Stop() {
  client_.reset();
  ingest_.reset();
  EXPECT_EQ(server_->Terminate(), 0);
}

void GoldenTest::Kill() {
  client_.reset();
  ingest_.reset();
  server_->Kill();
}

v1::ObserveResponse GoldenTest::Observe(const v1::ObserveRequest& request,
                                        grpc::StatusCode expected) {
  grpc::ClientContext context;
  v1::ObserveResponse response;
  const grpc::Status status = ingest_->Observe(&context, request, &response);
  EXPECT_EQ(status.error_code(), expected) << status.error_message();
  return response;
}

std::int64_t GoldenTest::Query(const std::string& sql) const {
  auto database = server::Database::Open((data_ / "calibd.db").string());
  EXPECT_TRUE(database.ok());
  return *database->QueryInteger(sql.c_str());
}

std::int64_t GoldenTest::SnapshotOf(int model_id) const {
  return Query("SELECT coalesce(max(log_id), 0) FROM snapshots WHERE model_id = " +
               std::to_string(model_id));
}

}  // namespace calibd::testing
