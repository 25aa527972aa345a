#ifndef CALIBD_SERVER_STORE_LOCAL_ARCHIVE_FILE_H_
#define CALIBD_SERVER_STORE_LOCAL_ARCHIVE_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/store/maintenance.h"

namespace calibd::server {

// The version of the format of an archive that FORMAT.md describes.
inline constexpr std::int64_t kArchiveVersion = 1;

enum class ArchiveKind { kBase, kLog };

// What the name of a file in an archive says.
struct ArchiveName {
  // The id of the store, in 32 hexadecimal digits.
  std::string store;
  std::int64_t number = 0;
  ArchiveKind kind = ArchiveKind::kBase;
  // The XXH3 128-bit hash of the content, in 32 hexadecimal digits.
  std::string checksum;

  [[nodiscard]] std::string Text() const;
  // Returns nothing if the text is not the name of a file of an archive.
  [[nodiscard]] static std::optional<ArchiveName> Parse(std::string_view text);
};

// Reads the file once and returns its checksum. progress: may be null. Errors: those of File;
// Cancelled.
[[nodiscard]] absl::StatusOr<std::string> ChecksumOf(const std::string& path,
                                                     const OnProgress& progress = nullptr);

// Completes the description of a finished file. id: that of the store. progress: may be null.
[[nodiscard]] absl::StatusOr<ArchiveFile> DescribeArchiveFile(const std::string& path,
                                                              std::string_view id,
                                                              std::int64_t number, ArchiveKind kind,
                                                              const OnProgress& progress);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_LOCAL_ARCHIVE_FILE_H_
