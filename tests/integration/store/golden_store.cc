#include "integration/store/golden_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <deque>
#include <fstream>
#include <vector>

#include "server/store/local/log_files.h"
#include "server/store/local/store_file.h"

namespace calibd::testing {
namespace {

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

}  // namespace calibd::testing
