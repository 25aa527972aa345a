#include "server/archive/archive_command.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kPoll{50};
// The end of the output that an error quotes.
constexpr std::size_t kQuotedBytes = 300;

// A shell takes a word of these characters as it is.
bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains("/._-+:@=,", std::string(1, c));
}

// The two ends of a pipe.
class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0) ends_ = {-1, -1};
    if (ends_[0] >= 0) fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    CloseWriting();
    if (ends_[0] >= 0) close(ends_[0]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] bool ok() const { return ends_[0] >= 0; }
  [[nodiscard]] int reading() const { return ends_[0]; }
  [[nodiscard]] int writing() const { return ends_[1]; }
  void CloseWriting() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }
  // Waits for output, at most for a moment, and keeps its end.
  void ReadInto(std::string& tail) const {
    pollfd waits{.fd = reading(), .events = POLLIN, .revents = 0};
    if (poll(&waits, 1, static_cast<int>(kPoll.count())) <= 0) return;
    std::array<char, 4096> chunk{};
    const ssize_t count = read(reading(), chunk.data(), chunk.size());
    if (count > 0) {
      tail.append(chunk.data(), static_cast<std::size_t>(count));
      if (tail.size() > kQuotedBytes) tail.erase(0, tail.size() - kQuotedBytes);
    } else if (count == 0) {
      // The command has closed its output and still runs.
      poll(nullptr, 0, static_cast<int>(kPoll.count()));
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// Returns 0 or an errno value.
int Spawn(const std::string& command, const Pipe& output, pid_t& pid) {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.writing(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.writing(), STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  // The threads of the server block signals, which the command must not inherit.
  sigset_t none{};
  sigset_t all{};
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::array<std::string, 3> words{"sh", "-c", command};
  std::array<char*, 4> arguments{words[0].data(), words[1].data(), words[2].data(), nullptr};
  const int error = posix_spawn(&pid, "/bin/sh", &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

std::string ExpandArchiveCommand(const std::string& command, const std::string& path,
                                 const std::string& name) {
  std::string expanded;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const char next = i + 1 < command.size() ? command[i + 1] : '\0';
    if (command[i] != '%' || (next != 'p' && next != 'f' && next != '%')) {
      expanded += command[i];
      continue;
    }
    ++i;
    if (next == '%') {
      expanded += '%';
    } else {
      expanded += next == 'p' ? path : name;
    }
  }
  return expanded;
}

absl::Status CheckArchiveCommand(const std::string& command, const std::string& data_dir) {
  // The expansion of a command with both differs in both.
  const std::string expanded = ExpandArchiveCommand(command, "", "");
  if (ExpandArchiveCommand(command, "p", "") == expanded ||
      ExpandArchiveCommand(command, "", "f") == expanded) {
    return absl::InvalidArgumentError(
        "--archive-command needs %p, the path of the file, and %f, its name in the archive; write "
        "for example: cp %p /archive/%f");
  }
  if (!std::all_of(data_dir.begin(), data_dir.end(), IsPlain)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--archive-command needs a --data-dir whose path a shell takes as one word, "
                     "of letters, digits and /._-+:@=, but it is \"",
                     absl::Utf8SafeCEscape(data_dir), "\""));
  }
  return absl::OkStatus();
}

absl::Status RunArchiveCommand(const std::string& command, std::chrono::milliseconds limit,
                               const std::function<bool()>& go_on) {
  Pipe output;
  pid_t pid = -1;
  const int error = output.ok() ? Spawn(command, output, pid) : errno;
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("the archive command cannot be started: ", std::strerror(error)));
  }
  output.CloseWriting();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  absl::Status stopped;
  std::string tail;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
    if (stopped.ok()) {
      if (!go_on()) stopped = absl::CancelledError("the archive command was stopped");
      if (std::chrono::steady_clock::now() > deadline) {
        stopped = absl::DeadlineExceededError(absl::StrCat(
            "the archive command was killed after ",
            std::chrono::duration_cast<std::chrono::seconds>(limit).count(), " seconds"));
      }
      if (!stopped.ok()) kill(-pid, SIGKILL);
    }
    output.ReadInto(tail);
  }
  // What it wrote last.
  output.ReadInto(tail);
  if (!stopped.ok()) return stopped;
  if (ended == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  const std::string outcome = WIFSIGNALED(status)
                                  ? absl::StrCat("was killed by signal ", WTERMSIG(status))
                                  : absl::StrCat("failed with exit code ", WEXITSTATUS(status));
  return absl::UnavailableError(
      absl::StrCat("the archive command ", outcome,
                   tail.empty() ? "" : absl::StrCat(": ", absl::CHexEscape(tail))));
}

}  // namespace calibd::server
