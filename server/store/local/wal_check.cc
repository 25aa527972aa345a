#include "server/store/local/wal_check.h"

#include <endian.h>
#include <fcntl.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/store/local/file.h"

namespace calibd::server {
namespace {

// The format is described in https://www.sqlite.org/fileformat2.html#walformat. All numbers are
// big-endian; the lowest bit of the magic number gives the byte order of the checksums.
constexpr std::uint32_t kWalMagic = 0x377f0682;
constexpr std::size_t kWalHeaderBytes = 32;
constexpr std::size_t kWalFrameHeaderBytes = 24;
constexpr std::uint32_t kLeastPageBytes = 512;
constexpr std::uint32_t kMostPageBytes = 65536;

std::uint32_t WordAt(std::span<const char> data, std::size_t offset) {
  std::uint32_t word = 0;
  std::memcpy(&word, data.data() + offset, sizeof(word));
  return be32toh(word);
}

// The pair of numbers at an offset: salts or a checksum.
struct WalPair {
  std::uint32_t first = 0;
  std::uint32_t second = 0;

  [[nodiscard]] static WalPair At(std::span<const char> data, std::size_t offset) {
    return {WordAt(data, offset), WordAt(data, offset + sizeof(std::uint32_t))};
  }
  friend bool operator==(const WalPair&, const WalPair&) = default;
};

// Extends a checksum by more data, which consists of pairs of words.
WalPair AddToChecksum(WalPair sum, std::span<const char> data, bool big_endian) {
  for (std::size_t i = 0; i < data.size(); i += 2 * sizeof(std::uint32_t)) {
    WalPair words;
    std::memcpy(&words, data.data() + i, sizeof(words));
    if (big_endian) {
      words = {be32toh(words.first), be32toh(words.second)};
    }
    sum.first += words.first + sum.second;
    sum.second += words.second + sum.first;
  }
  return sum;
}

struct WalHeader {
  bool big_endian = false;
  std::uint32_t page_bytes = 0;
  WalPair salts;
  WalPair checksum;

  // Returns false if the header is damaged.
  [[nodiscard]] bool Parse(std::span<const char> data) {
    const std::uint32_t magic = WordAt(data, 0);
    big_endian = (magic & 1) != 0;
    page_bytes = WordAt(data, 8);
    salts = WalPair::At(data, 16);
    checksum = WalPair::At(data, 24);
    return (magic & ~1U) == kWalMagic && std::has_single_bit(page_bytes) &&
           page_bytes >= kLeastPageBytes && page_bytes <= kMostPageBytes &&
           checksum == AddToChecksum({}, data.first(24), big_endian);
  }
};

struct WalFrame {
  std::uint32_t page = 0;
  // Size of the database in pages after the transaction; 0 unless the frame is the last of one.
  std::uint32_t database_pages = 0;
  WalPair salts;
  WalPair checksum;

  [[nodiscard]] static WalFrame Parse(std::span<const char> data) {
    return {.page = WordAt(data, 0),
            .database_pages = WordAt(data, 4),
            .salts = WalPair::At(data, 8),
            .checksum = WalPair::At(data, 16)};
  }
  [[nodiscard]] bool commits() const noexcept { return database_pages != 0; }
};

absl::StatusOr<WalContents> ReadWalFrames(const File& file, const WalHeader& header) {
  WalContents contents;
  std::string data(kWalFrameHeaderBytes + header.page_bytes, '\0');
  WalPair checksum = header.checksum;
  bool valid = true;
  // The values that the previous frame implies.
  WalPair previous = header.checksum;
  // True if a frame after the first invalid one ends a transaction.
  bool commit_after_damage = false;
  std::uint64_t first_invalid = 0;
  for (std::uint64_t offset = kWalHeaderBytes;; offset += data.size()) {
    CALIBD_ASSIGN_OR_RETURN(const std::size_t read, file.Read(data.data(), data.size(), offset));
    if (read < kWalFrameHeaderBytes) return contents;
    const WalFrame frame = WalFrame::Parse(data);
    const bool current = frame.salts == header.salts;
    const WalPair continued = AddToChecksum(
        AddToChecksum(valid ? checksum : previous, std::span(data).first(8), header.big_endian),
        std::span(data).subspan(kWalFrameHeaderBytes), header.big_endian);
    const bool continues = read == data.size() && frame.checksum == continued;
    previous = frame.checksum;
    if (valid) {
      checksum = continued;
      valid = read == data.size() && current && frame.page != 0 && frame.checksum == checksum;
      first_invalid = offset;
    }
    if (valid && frame.commits()) {
      ++contents.commits;
      contents.discarded_frames = 0;
    } else if (current) {
      // A transaction begins only after the previous one was synced. A frame that does not continue
      // the commit is a remainder of a discarded transaction that was partly overwritten.
      if (commit_after_damage && continues) {
        return DamageError(file.path(), absl::StrCat("is damaged at ", first_invalid,
                                                     ": transactions follow that can be read"));
      }
      ++contents.discarded_frames;
      commit_after_damage = !valid && frame.commits();
    }
  }
}

}  // namespace

absl::StatusOr<WalContents> ReadWal(const std::string& path) {
  const std::string wal = path + "-wal";
  if (access(wal.c_str(), F_OK) != 0 && errno == ENOENT) {
    return WalContents{};
  }
  CALIBD_ASSIGN_OR_RETURN(const File file, File::Open(wal, O_RDONLY, "read"));
  std::string data(kWalHeaderBytes + 1, '\0');
  CALIBD_ASSIGN_OR_RETURN(const std::size_t read, file.Read(data.data(), data.size(), 0));
  if (read <= kWalHeaderBytes) {
    // No frame was ever written: the header is synced before the first frame.
    return WalContents{};
  }
  WalHeader header;
  if (!header.Parse(std::span(data).first(kWalHeaderBytes))) {
    return DamageError(wal, "has a damaged header");
  }
  return ReadWalFrames(file, header);
}

}  // namespace calibd::server
