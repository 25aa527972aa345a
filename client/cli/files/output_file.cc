#include "client/cli/files/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace calibd::cli {
namespace {

absl::Status WriteFault(const std::string& path, const std::string& reason) {
  return absl::UnknownError(absl::StrCat("cannot write ", path, ": ", reason));
}

// Errors: as WriteFile.
absl::Status WriteAt(const std::filesystem::path& place, const std::string& path,
                     std::string_view text) {
  errno = 0;
  std::ofstream file(place, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.close(); !file) return WriteFault(path, std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteFile(const std::string& path, std::string_view text) {
  std::error_code error;
  const bool is_there = std::filesystem::exists(path, error);
  if (is_there && !std::filesystem::is_regular_file(path, error)) return WriteAt(path, path, text);
  // A link to a file stays one.
  const std::filesystem::path target =
      is_there ? std::filesystem::canonical(path, error) : std::filesystem::path(path);
  if (error) return WriteFault(path, error.message());
  std::filesystem::path part = target;
  part += absl::StrCat(".", getpid(), ".part");
  absl::Status status = WriteAt(part, path, text);
  if (status.ok()) {
    std::filesystem::rename(part, target, error);
    if (error) status = WriteFault(path, error.message());
  }
  if (!status.ok()) std::filesystem::remove(part, error);
  return status;
}

CLI::Validator InExistingFolder() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        const std::filesystem::path folder = std::filesystem::path(path).parent_path();
        std::error_code error;
        if (folder.empty() || std::filesystem::is_directory(folder, error)) return "";
        return absl::StrCat("there is no folder ", folder.string(), ": create it first");
      },
      "");
}

}  // namespace calibd::cli
