#include "support/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>

#include "support/wait_for.h"

namespace calibd::testing {

ChildProcess::ChildProcess(const std::vector<std::string>& command,
                           const std::filesystem::path& output)
    : output_(output) {
  // Everything that allocates happens before the fork.
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  const int file = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(file);
}

ChildProcess::~ChildProcess() {
  if (!Reap()) {
    Signal(SIGKILL);
    WaitForExit();
  }
}

void ChildProcess::Signal(int signal) const {
  if (pid_ > 0 && !exit_code_.has_value()) kill(pid_, signal);
}

bool ChildProcess::Reap() {
  if (exit_code_.has_value() || pid_ <= 0) return true;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return exit_code_.has_value();
}

std::optional<int> ChildProcess::WaitForExit(std::chrono::milliseconds deadline) {
  WaitFor([this] { return Reap(); }, deadline);
  return exit_code_;
}

std::string ChildProcess::Output() const {
  std::ifstream file(output_);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace calibd::testing
