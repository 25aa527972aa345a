#ifndef CALIBD_CLIENT_CLI_FILES_OUTPUT_FILE_H_
#define CALIBD_CLIENT_CLI_FILES_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace calibd::cli {

// Writes a file. Only a complete file gets its name, and replaces another one. What is not a file,
// such as /dev/stdout, is written as it is. Errors: Unknown with the reason.
[[nodiscard]] absl::Status WriteFile(const std::string& path, std::string_view text);

// Refuses a path in a folder that does not exist, before a long computation.
[[nodiscard]] CLI::Validator InExistingFolder();

}  // namespace calibd::cli

#endif  // CALIBD_CLIENT_CLI_FILES_OUTPUT_FILE_H_
