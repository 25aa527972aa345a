#include "server/store/local/archive_file.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "calibd/core/status_macros.h"
#include "server/base/xxh3.h"
#include "server/store/local/file.h"

namespace calibd::server {
namespace {

constexpr std::string_view kArchivePrefix = "calibd";
constexpr std::size_t kHexDigits = 32;
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

constexpr std::string_view KindText(ArchiveKind kind) {
  return kind == ArchiveKind::kBase ? "base" : "log";
}

bool IsHex(std::string_view text, std::size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

}  // namespace

std::string ArchiveName::Text() const {
  return absl::StrCat(std::string(kArchivePrefix), "-", store, "-",
                      absl::Hex(number, absl::kZeroPad16), "-", std::string(KindText(kind)), "-",
                      checksum);
}

std::optional<ArchiveName> ArchiveName::Parse(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(text), '-');
  ArchiveName name;
  if (parts.size() != 5 || parts[0] != kArchivePrefix || !IsHex(parts[1], kHexDigits) ||
      !IsHex(parts[2], 16) || !absl::SimpleHexAtoi(parts[2], &name.number) ||
      !IsHex(parts[4], kHexDigits)) {
    return std::nullopt;
  }
  for (const ArchiveKind kind : {ArchiveKind::kBase, ArchiveKind::kLog}) {
    if (parts[3] != KindText(kind)) continue;
    name.store = parts[1];
    name.kind = kind;
    name.checksum = parts[4];
    return name;
  }
  return std::nullopt;
}

absl::StatusOr<std::string> ChecksumOf(const std::string& path, const OnProgress& progress) {
  CALIBD_ASSIGN_OR_RETURN(const File file, File::Open(path, O_RDONLY, "read"));
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(),
                                                                      XXH3_freeState);
  if (hash == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(hash.get());
  std::vector<char> chunk(kReadBytes);
  CALIBD_ASSIGN_OR_RETURN(const std::int64_t bytes, FileSize(path));
  std::uint64_t offset = 0;
  for (std::size_t read = chunk.size(); read == chunk.size(); offset += read) {
    CALIBD_ASSIGN_OR_RETURN(read, file.Read(chunk.data(), chunk.size(), offset));
    XXH3_128bits_update(hash.get(), chunk.data(), read);
    const double fraction =
        bytes == 0 ? 1 : static_cast<double>(offset + read) / static_cast<double>(bytes);
    if (progress != nullptr && !progress(fraction)) {
      return absl::CancelledError(absl::StrCat("the reading of ", path, " was stopped"));
    }
  }
  const XXH128_hash_t digest = XXH3_128bits_digest(hash.get());
  return absl::StrCat(absl::Hex(digest.high64, absl::kZeroPad16),
                      absl::Hex(digest.low64, absl::kZeroPad16));
}

absl::StatusOr<ArchiveFile> DescribeArchiveFile(const std::string& path, std::string_view id,
                                                std::int64_t number, ArchiveKind kind,
                                                const OnProgress& progress) {
  ArchiveFile file;
  file.path = path;
  CALIBD_ASSIGN_OR_RETURN(file.checksum, ChecksumOf(path, progress));
  CALIBD_ASSIGN_OR_RETURN(file.bytes, FileSize(path));
  file.name = ArchiveName{.store = absl::BytesToHexString(std::string(id)),
                          .number = number,
                          .kind = kind,
                          .checksum = file.checksum}
                  .Text();
  return file;
}

}  // namespace calibd::server
