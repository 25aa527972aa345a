#ifndef CALIBD_CLIENT_CLI_FILES_FILE_FORMAT_H_
#define CALIBD_CLIENT_CLI_FILES_FILE_FORMAT_H_

#include <istream>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace calibd::cli {

enum class FileFormat { kCsv, kJsonLines, kNpy, kNpz };

// Returns the format by the first bytes of the input, and leaves its position unchanged, also in a
// pipe. Errors: InvalidArgument that names a known format which calibctl does not read, and how to
// convert it.
[[nodiscard]] absl::StatusOr<FileFormat> DetectFormat(std::istream& input,
                                                      const std::string& source);

// An input file and what it is called in errors.
struct InputFile {
  std::unique_ptr<std::istream> stream;
  // What the system opens, and what errors call it.
  std::string path;
  std::string name;
  FileFormat format = FileFormat::kCsv;
};

// path: "-" is standard input. Errors: the status of the system's error, such as NotFound; those of
// DetectFormat.
[[nodiscard]] absl::StatusOr<InputFile> OpenInput(const std::string& path);

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_FILE_FORMAT_H_
