// The log's files: an input says what is committed and how the files are damaged afterwards.
// What is read then is what was committed, up to some batch, or the damage is noticed.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/require.h"
#include "fuzz/text_input.h"
#include "inputs.pb.h"
#include "server/store/log_files.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using testing::Require;

constexpr std::uint64_t kMaxSegmentBytes = 1 << 16;
constexpr int kMaxFrames = 64;

struct Committed {
  std::int64_t model_id = 0;
  std::int64_t time_us = 0;
  std::string data;
};

LogFiles::Options OptionsOf(const fuzz::DamagedLog& input) {
  return {.segment_bytes =
              std::max<std::uint64_t>(4096, input.segment_bytes() % (kMaxSegmentBytes + 1))};
}

absl::StatusOr<std::unique_ptr<LogFiles>> OpenAndRead(const std::string& folder,
                                                      const fuzz::DamagedLog& input,
                                                      const VisitBatch& visit) {
  absl::StatusOr<std::unique_ptr<LogFiles>> log = LogFiles::Open(folder, OptionsOf(input));
  if (log.ok()) {
    if (absl::Status read = (*log)->Read(visit); !read.ok()) {
      return read;
    }
  }
  return log;
}

std::vector<Committed> Write(const std::string& folder, const fuzz::DamagedLog& input) {
  std::vector<Committed> committed;
  const auto log =
      OpenAndRead(folder, input, [](const StoredBatch& /*batch*/) { return absl::OkStatus(); });
  Require(log.ok(), "an empty folder can be opened");
  for (int i = 0; i < input.frames_size() && i < kMaxFrames; ++i) {
    for (const fuzz::DamagedLog::Batch& batch : input.frames(i).batches()) {
      // Batches of the log are never empty.
      committed.push_back({batch.model_id(), batch.time_us(), "-" + batch.data()});
      (*log)->Append(batch.model_id(), batch.time_us(), committed.back().data);
    }
    const absl::Status written = (*log)->Commit();
    Require(written.ok(), std::string(written.message()));
  }
  return committed;
}

void DoDamage(const fuzz::DamagedLog::Damage& damage,
              const std::vector<std::filesystem::path>& segments) {
  const std::filesystem::path& path = segments[damage.segment() % segments.size()];
  if (!std::filesystem::exists(path)) {
    return;
  }
  const std::uint64_t size = std::filesystem::file_size(path);
  const std::uint64_t offset = size == 0 ? 0 : damage.offset() % size;
  if (damage.has_remove()) {
    std::filesystem::remove(path);
    return;
  }
  if (damage.has_cut()) {
    std::filesystem::resize_file(path, offset);
    return;
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  std::string bytes;
  if (damage.has_flip_bit()) {
    file.seekg(static_cast<std::streamoff>(offset));
    bytes = static_cast<char>(file.get() ^ (1 << damage.flip_bit() % 8));
  } else if (damage.has_zeros()) {
    bytes.resize(damage.zeros() % (size + 1), '\0');
  } else if (damage.has_copy_bytes()) {
    bytes.resize(damage.copy_bytes() % (size + 1));
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  } else {
    bytes = damage.overwrite();
  }
  bytes.resize(std::min<std::uint64_t>(bytes.size(), size - offset));
  file.clear();
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace
}  // namespace calibd::server

CALIBD_FUZZ_MESSAGE(calibd::fuzz::DamagedLog, input) {
  using namespace calibd::server;
  const calibd::testing::TemporaryFolder folder;
  const std::string path = folder.path().string();
  const std::vector<Committed> committed = Write(path, input);
  std::vector<std::filesystem::path> segments;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    segments.push_back(file.path());
  }
  std::sort(segments.begin(), segments.end());
  for (const auto& damage : input.damage()) {
    DoDamage(damage, segments);
  }

  std::size_t read = 0;
  const auto check = [&](const StoredBatch& batch) {
    Require(read < committed.size(), "nothing is read that was not written");
    Require(batch.log_id == static_cast<std::int64_t>(read) + 1, "batches come in order");
    const Committed& expected = committed[read++];
    Require(batch.model_id == expected.model_id && batch.time_us == expected.time_us &&
                batch.data == expected.data,
            "a batch is read as it was written");
    return absl::OkStatus();
  };
  const auto log = OpenAndRead(path, input, check);
  if (!log.ok()) {
    Require(absl::IsDataLoss(log.status()), "damage is DATA_LOSS");
    Require(input.damage_size() > 0, "an undamaged log is read");
    return;
  }
  Require(input.damage_size() > 0 || read == committed.size(), "an undamaged log is read whole");
  // The log goes on after what was read.
  (*log)->Append(1, 2, "next");
  Require((*log)->Commit().ok(), "the log goes on");
  Require((*log)->next_log_id() == static_cast<std::int64_t>(read) + 2, "ids have no gap");
}
