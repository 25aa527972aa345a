// The files of the log. An input describes commits and later damage to the files. The batches that
// are read afterwards are the committed ones, except for a last frame that is reported; otherwise
// the damage must be detected. If the hashes are recomputed after the damage, only a proper error
// is required.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "fuzz/require.h"
#include "fuzz/text_input.h"
#include "inputs.pb.h"
#include "server/base/xxh3.h"
#include "server/store/local/log_files.h"
#include "server/store/local/log_format.h"
#include "support/temporary_folder.h"

namespace calibd::server {
namespace {

using fuzz::DamagedLog;
using testing::Require;

constexpr std::uint64_t kMaxSegmentBytes = 1 << 16;
constexpr int kMaxFrames = 64;

struct Committed {
  std::int64_t model_id = 0;
  std::int64_t time_us = 0;
  std::string data;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <typename Structure>
Structure Load(const std::string& bytes, std::uint64_t offset) {
  Structure structure;
  std::memcpy(static_cast<void*>(&structure), bytes.data() + offset, sizeof(structure));
  return structure;
}

template <typename Structure>
void Store(const Structure& structure, std::uint64_t offset, std::string& bytes) {
  std::memcpy(bytes.data() + offset, &structure, sizeof(structure));
}

// Recomputes the hashes of the frame. Returns the offset of the next frame.
std::uint64_t FixFrame(std::uint64_t offset, std::uint64_t salt, std::string& bytes) {
  auto frame = Load<LogFrameHeader>(bytes, offset);
  std::string headers;
  std::uint64_t place = offset + sizeof(frame);
  for (std::uint64_t i = 0; i < frame.batches && place + sizeof(BatchHeader) <= bytes.size(); ++i) {
    auto batch = Load<BatchHeader>(bytes, place);
    const std::uint64_t room = bytes.size() - place - sizeof(batch);
    const std::string_view data(bytes.data() + place + sizeof(batch),
                                std::min<std::uint64_t>(batch.bytes, room));
    batch.hash = batch.Hash(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(frame.first_log_id) + i), data, salt);
    Store(batch, place, bytes);
    headers += bytes.substr(place, sizeof(batch));
    place = LogAligned(place + sizeof(batch) + data.size());
  }
  frame.batches_hash = XXH3_64bits_withSeed(headers.data(), headers.size(), salt);
  frame.hash = frame.Hash(salt);
  Store(frame, offset, bytes);
  return place;
}

void FixHashes(const std::filesystem::path& path) {
  std::string bytes = ReadFile(path);
  if (bytes.size() < sizeof(SegmentHeader)) return;
  auto header = Load<SegmentHeader>(bytes, 0);
  header.hash = header.Hash();
  Store(header, 0, bytes);
  for (std::uint64_t offset = sizeof(header); offset + sizeof(LogFrameHeader) <= bytes.size() &&
                                              Load<LogFrameHeader>(bytes, offset).magic != 0;) {
    offset = FixFrame(offset, header.salt, bytes);
  }
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void DoDamage(const DamagedLog::Damage& damage,
              const std::vector<std::filesystem::path>& segments) {
  const std::filesystem::path& path = segments[damage.segment() % segments.size()];
  if (!std::filesystem::exists(path)) return;
  const std::uint64_t size = std::filesystem::file_size(path);
  const std::uint64_t offset = size == 0 ? 0 : damage.offset() % size;
  std::string bytes;
  switch (damage.kind_case()) {
    case DamagedLog::Damage::kRemove:
      std::filesystem::remove(path);
      return;
    case DamagedLog::Damage::kCut:
      std::filesystem::resize_file(path, offset);
      return;
    case DamagedLog::Damage::kFixHashes:
      FixHashes(path);
      return;
    case DamagedLog::Damage::kFlipBit:
      bytes = ReadFile(path).substr(offset, 1);
      if (!bytes.empty()) bytes[0] = static_cast<char>(bytes[0] ^ (1 << damage.flip_bit() % 8));
      break;
    case DamagedLog::Damage::kZeros:
      bytes.resize(damage.zeros() % (size + 1), '\0');
      break;
    case DamagedLog::Damage::kCopyBytes:
      bytes = ReadFile(path).substr(0, damage.copy_bytes() % (size + 1));
      break;
    default:
      bytes = damage.overwrite();
  }
  bytes.resize(std::min<std::uint64_t>(bytes.size(), size - offset));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A log, first undamaged, then damaged.
class Log {
 public:
  explicit Log(const DamagedLog& input)
      : input_(input),
        segment_bytes_(
            std::max<std::uint64_t>(4096, input.segment_bytes() % (kMaxSegmentBytes + 1))) {
    const auto fixes_hashes = [](const DamagedLog::Damage& damage) {
      return damage.has_fix_hashes();
    };
    has_other_hashes_ = std::ranges::any_of(input.damage(), fixes_hashes) ||
                        std::ranges::any_of(input.late_damage(), fixes_hashes);
  }

  void Write() {
    Require(Open([](const StoredBatch& /*batch*/) { return absl::OkStatus(); }).ok(),
            "an empty folder can be opened");
    for (int i = 0; i < input_.frames_size() && i < kMaxFrames; ++i) {
      for (const DamagedLog::Batch& batch : input_.frames(i).batches()) {
        // Batches of the log are never empty.
        committed_.push_back({batch.model_id(), batch.time_us(), "-" + batch.data()});
        log_->Append(batch.model_id(), batch.time_us(), committed_.back().data);
      }
      const absl::Status written = log_->Commit();
      Require(written.ok(), std::string(written.message()));
    }
    log_->Mark(mark_);
    mark_.clean = input_.clean();
    log_.reset();
    for (const auto& file : std::filesystem::directory_iterator(folder_.path())) {
      segments_.push_back(file.path());
    }
    std::sort(segments_.begin(), segments_.end());
  }

  void Damage(const google::protobuf::RepeatedPtrField<DamagedLog::Damage>& damage) const {
    for (const DamagedLog::Damage& one : damage) DoDamage(one, segments_);
  }

  // Returns false if the damage was detected.
  bool Read() {
    std::size_t read = 0;
    const absl::Status status = Open([&](const StoredBatch& batch) {
      CheckBatch(batch, read++);
      return absl::OkStatus();
    });
    if (!status.ok()) {
      Require(absl::IsDataLoss(status) || (has_other_hashes_ && absl::IsFailedPrecondition(status)),
              std::string(status.message()));
      Require(input_.damage_size() > 0, "an undamaged log is read");
      return false;
    }
    if (!has_other_hashes_) {
      const auto next = static_cast<std::int64_t>(read) + 1;
      Require(read == committed_.size() || (!mark_.clean && log_->tail().has_value()),
              "what is not read is reported");
      Require(next >= mark_.last_frame_log_id, "no more than the last frame is lost");
    }
    return true;
  }

  // Reads single batches, and appends further ones.
  void Use() {
    for (std::int64_t id = log_->first_log_id(); id < log_->next_log_id(); ++id) {
      const absl::StatusOr<std::string> data = log_->ReadBatch(id);
      Require(data.ok() || absl::IsDataLoss(data.status()), "damage is DATA_LOSS");
      Require(!data.ok() || has_other_hashes_ ||
                  *data == committed_[static_cast<std::size_t>(id) - 1].data,
              "a single batch is read as it was written");
    }
    if (input_.late_damage().empty()) {
      const std::int64_t id = log_->Append(1, 2, "next");
      Require(log_->Commit().ok(), "the log goes on");
      const absl::StatusOr<std::string> data = log_->ReadBatch(id);
      Require(data.ok() && *data == "next", "what is appended can be read");
    }
  }

 private:
  absl::Status Open(const VisitBatch& visit) {
    absl::StatusOr<std::unique_ptr<LogFiles>> log =
        LogFiles::Open(folder_.path().string(), {.segment_bytes = segment_bytes_, .mark = mark_});
    if (!log.ok()) return log.status();
    log_ = *std::move(log);
    return log_->Read(visit);
  }

  void CheckBatch(const StoredBatch& batch, std::size_t index) const {
    if (has_other_hashes_) return;
    Require(index < committed_.size(), "nothing is read that was not written");
    const Committed& expected = committed_[index];
    Require(batch.log_id == static_cast<std::int64_t>(index) + 1, "batches come in order");
    Require(batch.model_id == expected.model_id && batch.time_us == expected.time_us &&
                batch.data == expected.data,
            "a batch is read as it was written");
  }

  const DamagedLog& input_;
  const std::uint64_t segment_bytes_;
  bool has_other_hashes_ = false;
  const testing::TemporaryFolder folder_;
  StoreMark mark_;
  std::unique_ptr<LogFiles> log_;
  std::vector<Committed> committed_;
  std::vector<std::filesystem::path> segments_;
};

}  // namespace
}  // namespace calibd::server

CALIBD_FUZZ_MESSAGE(calibd::fuzz::DamagedLog, input) {
  calibd::server::Log log(input);
  log.Write();
  log.Damage(input.damage());
  if (log.Read()) {
    log.Damage(input.late_damage());
    log.Use();
  }
}
