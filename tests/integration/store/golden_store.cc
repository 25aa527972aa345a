#include "integration/store/golden_store.h"

#include <gtest/gtest.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <iterator>
#include <vector>

#include "server/store/local/log_files.h"
#include "server/store/local/sqlite.h"
#include "server/store/local/store_file.h"

namespace calibd::testing {
namespace {

nlohmann::json ToJson(const google::protobuf::RepeatedPtrField<v1::BlockEstimate>& estimates) {
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

// The numbers of a log file of version 1, 8 bytes each: see server/store/local/log_upgrade.cc.
class OldLogFile {
 public:
  explicit OldLogFile(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }

  // Shifts the times of all batches so that the newest is now_us.
  void MoveTimes(std::int64_t now_us) {
    constexpr std::size_t kSalt = 32;
    std::int64_t newest_us = 0;
    VisitTimes([&](std::int64_t time_us) { return newest_us = time_us; });
    VisitTimes([&](std::int64_t time_us) { return time_us + now_us - newest_us; });
    const std::uint64_t salt = Get(kSalt);
    for (std::size_t frame = kHeader; frame < bytes_.size(); frame += Get(frame + kFrameBytes)) {
      Set(frame + kPayloadHash,
          XXH3_64bits_withSeed(&bytes_[frame + kHeader], Get(frame + kFrameBytes) - kHeader, salt));
      Set(frame + kFrameHash, XXH3_64bits_withSeed(&bytes_[frame], kFrameHash, salt));
    }
    std::ofstream(path_, std::ios::binary) << bytes_;
  }

 private:
  // Size of the headers of the file and of a frame; offsets in the latter.
  static constexpr std::size_t kHeader = 48;
  static constexpr std::size_t kBatches = 16;
  static constexpr std::size_t kFrameBytes = 24;
  static constexpr std::size_t kPayloadHash = 32;
  static constexpr std::size_t kFrameHash = 40;

  [[nodiscard]] std::uint64_t Get(std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, &bytes_.at(offset), sizeof(value));
    return value;
  }
  void Set(std::size_t offset, std::uint64_t value) {
    std::memcpy(&bytes_.at(offset), &value, sizeof(value));
  }

  // Sets the time of each batch to the result of `visit`.
  void VisitTimes(const std::function<std::int64_t(std::int64_t)>& visit) {
    for (std::size_t frame = kHeader; frame < bytes_.size(); frame += Get(frame + kFrameBytes)) {
      std::size_t batch = frame + kHeader;
      for (std::uint64_t i = 0; i < Get(frame + kBatches); ++i) {
        const std::size_t time = batch + 8;
        Set(time, static_cast<std::uint64_t>(visit(static_cast<std::int64_t>(Get(time)))));
        batch += 24 + (Get(batch + 16) + 7) / 8 * 8;
      }
    }
  }

  std::filesystem::path path_;
  std::string bytes_;
};

// Shifts the times in a log of the current format so that the newest is now_us.
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

std::filesystem::path GoldenStore(int format, const std::string& suffix) {
  return GoldenStore("format_" + std::to_string(format), suffix);
}

void CopyGoldenStore(int format, const std::filesystem::path& data) {
  CopyGoldenStore("format_" + std::to_string(format), data);
}

void CopyGoldenStore(const std::string& name, const std::filesystem::path& data) {
  std::filesystem::create_directories(data);
  std::filesystem::copy_file(GoldenStore(name, ".db"), data / "calibd.db");
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  if (std::filesystem::exists(GoldenStore(name, ".log"))) {
    std::filesystem::copy_file(GoldenStore(name, ".log"), data / kFirstLogFile);
  }
  if (std::filesystem::exists(GoldenStore(name, ".store"))) {
    // Its table `log` is empty.
    std::filesystem::copy_file(GoldenStore(name, ".store"), data / "store");
    MoveTimes(data, now_us);
    return;
  }
  auto database = server::Database::Open((data / "calibd.db").string());
  ASSERT_TRUE(database.ok()) << database.status();
  const std::string later = std::to_string(now_us) + " - (SELECT max(time_us) FROM log)";
  const absl::Status status =
      database->Execute(("UPDATE log SET time_us = time_us + " + later).c_str());
  ASSERT_TRUE(status.ok()) << status;
  if (std::filesystem::exists(data / kFirstLogFile)) {
    OldLogFile(data / kFirstLogFile).MoveTimes(now_us);
    // The file is kept in the repository without its unused space.
    std::filesystem::resize_file(data / kFirstLogFile, server::LogFiles::kSegmentBytes);
  }
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
    // Earlier versions did not show classes with only pending predictions.
    if (one.matured() == 0) continue;
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
                     {"estimates", ToJson(answer.estimates())},
                     {"lenses", nlohmann::json::array()}};
  for (const v1::RunningLens& lens : answer.lenses()) {
    out["lenses"].push_back({{"lens", lens.lens()}, {"estimates", ToJson(lens.estimates())}});
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

void ExpectGoldenAnswers(int format, client::Client& client) {
  const auto expected = nlohmann::json::parse(std::ifstream(GoldenStore(format, ".json")));
  EXPECT_FALSE(expected.empty());
  for (const auto& [name, answer] : expected.items()) {
    const auto now = client.GetCalibration("models/" + name);
    ASSERT_TRUE(now.ok()) << now.status();
    // Versions may add the same terms in another order.
    ExpectIn(answer, ToJson(*now), name, 1e-14);
  }
}

}  // namespace calibd::testing
