#ifndef CALIBD_SERVER_ARCHIVE_ARCHIVE_COMMAND_H_
#define CALIBD_SERVER_ARCHIVE_ARCHIVE_COMMAND_H_

#include <chrono>
#include <functional>
#include <string>

#include "absl/status/status.h"

namespace calibd::server {

// Returns the command with each %p replaced by the path, each %f by the name, and %% by %.
[[nodiscard]] std::string ExpandArchiveCommand(const std::string& command, const std::string& path,
                                               const std::string& name);

// Checks that a command can hand over files of this store. data_dir: an absolute path. Errors:
// InvalidArgument if the command lacks %p or %f, or a shell would not take data_dir as one word.
[[nodiscard]] absl::Status CheckArchiveCommand(const std::string& command,
                                               const std::string& data_dir);

// Runs an expanded command in a shell, in a process group of its own without input, and waits for
// it. go_on: asked several times a second; the command is killed with its children when it returns
// false, or after the time limit, and this returns at most some seconds later. Errors: Cancelled if
// go_on returned false; DeadlineExceeded; Unavailable if many killed commands have not ended, or
// with the exit code or signal and the end of what the command wrote, which is escaped.
[[nodiscard]] absl::Status RunArchiveCommand(const std::string& command,
                                             std::chrono::milliseconds limit,
                                             const std::function<bool()>& go_on);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ARCHIVE_ARCHIVE_COMMAND_H_
