#ifndef CALIBD_TESTS_SUPPORT_CHILD_PROCESS_H_
#define CALIBD_TESTS_SUPPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace calibd::testing {

// A program that a test runs. It is killed with the test, and its stdout and stderr are kept in a
// file.
class ChildProcess {
 public:
  // command[0] is looked up in PATH. output: a file.
  ChildProcess(const std::vector<std::string>& command, const std::filesystem::path& output);
  // Kills the program if it is still running.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Returns the exit code, 128 + N after signal N; unset if the program is still running at the
  // deadline.
  std::optional<int> WaitForExit(std::chrono::milliseconds deadline = std::chrono::seconds(60));
  [[nodiscard]] std::string Output() const;

 private:
  bool Reap();

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
  std::filesystem::path output_;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_SUPPORT_CHILD_PROCESS_H_
