#include "server/store/local/store_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/xxh3.h"

namespace calibd::server {
namespace {

// The file begins with this structure in its memory layout.
static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kStoreMagic = 0x65726f7473626c63;  // "clbstore"
constexpr std::uint64_t kStoreVersion = 1;
// One block of the file system, so that no write changes the size of the file. The mark occupies
// only the first sector, which a disk writes atomically.
constexpr std::size_t kStoreFileBytes = 4096;

struct StoredMark {
  std::uint64_t magic = kStoreMagic;
  std::uint64_t version = kStoreVersion;
  StoreId id{};
  std::uint64_t clean = 0;
  std::int64_t commit = 0;
  std::int64_t newest_segment = 0;
  std::int64_t last_frame_log_id = 0;
  std::int64_t end_log_id = 0;
  std::uint64_t hash = 0;  // of everything before it

  [[nodiscard]] std::uint64_t Hash() const { return XXH3_64bits(this, offsetof(StoredMark, hash)); }
};
static_assert(sizeof(StoredMark) == 80);

StoredMark Encode(const StoreMark& mark) {
  StoredMark stored{.id = mark.id,
                    .clean = mark.clean ? 1U : 0U,
                    .commit = mark.commit,
                    .newest_segment = mark.newest_segment,
                    .last_frame_log_id = mark.last_frame_log_id,
                    .end_log_id = mark.end_log_id};
  stored.hash = stored.Hash();
  return stored;
}

std::string StoreFilePath(const std::string& folder) { return folder + "/store"; }

}  // namespace

StoreId StoreId::Random() {
  StoreId id;
  std::random_device random;
  for (std::size_t i = 0; i < id.bytes.size(); i += sizeof(std::uint32_t)) {
    const std::uint32_t bits = random();
    std::memcpy(id.bytes.data() + i, &bits, sizeof(bits));
  }
  return id;
}

StoreFile::StoreFile(File file, const StoreMark& mark) : file_(std::move(file)), mark_(mark) {}

absl::StatusOr<std::optional<StoreFile>> StoreFile::Open(const std::string& folder) {
  const std::string path = StoreFilePath(folder);
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::nullopt;
  CALIBD_ASSIGN_OR_RETURN(File file, File::Open(path, O_RDWR, "open"));
  StoredMark stored;
  CALIBD_ASSIGN_OR_RETURN(const std::size_t read,
                          file.Read(reinterpret_cast<char*>(&stored), sizeof(stored), 0));
  if (read < sizeof(stored) || stored.magic != kStoreMagic || stored.hash != stored.Hash()) {
    return DamageError(path, "cannot be read: it is truncated, or its checksum is wrong");
  }
  if (stored.version != kStoreVersion) {
    return MakeError(absl::StatusCode::kFailedPrecondition, "STORE_UNUSABLE",
                     absl::StrCat(path, " was written by a newer calibd"));
  }
  return StoreFile(std::move(file), {.id = stored.id,
                                     .clean = stored.clean != 0,
                                     .commit = stored.commit,
                                     .newest_segment = stored.newest_segment,
                                     .last_frame_log_id = stored.last_frame_log_id,
                                     .end_log_id = stored.end_log_id});
}

absl::StatusOr<StoreFile> StoreFile::Create(const std::string& folder, const StoreMark& mark) {
  // The file gets its name when it is complete.
  const std::string unfinished = StoreFilePath(folder) + ".new";
  CALIBD_ASSIGN_OR_RETURN(File file, File::Open(unfinished, O_RDWR | O_CREAT | O_TRUNC, "make"));
  std::array<char, kStoreFileBytes> block{};
  const StoredMark stored = Encode(mark);
  std::memcpy(block.data(), &stored, sizeof(stored));
  std::array<iovec, 1> pieces{Piece(block.data(), block.size())};
  CALIBD_RETURN_IF_ERROR(file.Write(pieces, 0));
  CALIBD_RETURN_IF_ERROR(file.Sync());
  CALIBD_RETURN_IF_ERROR(file.Rename(StoreFilePath(folder)));
  CALIBD_RETURN_IF_ERROR(SyncFolder(folder));
  return StoreFile(std::move(file), mark);
}

absl::Status StoreFile::Write(const StoreMark& mark, bool durable) {
  const StoredMark stored = Encode(mark);
  std::array<iovec, 1> pieces{Piece(&stored, sizeof(stored))};
  CALIBD_RETURN_IF_ERROR(file_.Write(pieces, 0));
  if (durable) CALIBD_RETURN_IF_ERROR(file_.SyncData());
  mark_ = mark;
  return absl::OkStatus();
}

}  // namespace calibd::server
