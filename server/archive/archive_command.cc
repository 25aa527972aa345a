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
#include <mutex>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kPoll{50};
// A command that writes without a pause gets its output read in steps.
constexpr std::chrono::milliseconds kReadPause{10};
constexpr std::size_t kReadBytes = std::size_t{1} << 16;
// How long a killed command may take to end. A call to a disk or to the network can keep it longer.
constexpr std::chrono::seconds kKillTime{2};
constexpr std::size_t kMostKilled = 16;
// The end of the output that an error quotes.
constexpr std::size_t kQuotedBytes = 300;

// A shell takes a word of letters, digits and these marks as it is.
constexpr char kPlainMarks[] = "/._-+:@=,";

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains(kPlainMarks, absl::string_view(&c, 1));
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
    std::array<char, kReadBytes> chunk;
    const ssize_t count = read(reading(), chunk.data(), chunk.size());
    if (count > 0) {
      tail.append(chunk.data(), static_cast<std::size_t>(count));
      if (tail.size() > kQuotedBytes) tail.erase(0, tail.size() - kQuotedBytes);
      poll(nullptr, 0, static_cast<int>(kReadPause.count()));
    } else if (count == 0) {
      // The command has closed its output and still runs.
      poll(nullptr, 0, static_cast<int>(kPoll.count()));
    }
  }

 private:
  std::array<int, 2> ends_{-1, -1};
};

// The killed commands that have not ended. Thread-safe.
class KilledCommands {
 public:
  // Each of the two threads of an archiver may add one to the most.
  KilledCommands() { pids_.reserve(kMostKilled + 2); }
  void Add(pid_t pid) {
    const std::lock_guard lock(mutex_);
    pids_.push_back(pid);
  }
  // Releases those that have ended. Returns the number of the others.
  std::size_t Reap() {
    const std::lock_guard lock(mutex_);
    const auto ended = [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; };
    pids_.erase(std::remove_if(pids_.begin(), pids_.end(), ended), pids_.end());
    return pids_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<pid_t> pids_;  // guarded by mutex_
};

KilledCommands& Killed() {
  static KilledCommands killed;
  return killed;
}

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
        "for example: cp %p /archive/%f && sync /archive/%f");
  }
  if (!std::all_of(data_dir.begin(), data_dir.end(), IsPlain)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--archive-command needs a --data-dir whose path a shell takes as one word, "
                     "of letters, digits and the marks ",
                     kPlainMarks, " but it is \"", absl::Utf8SafeCEscape(data_dir), "\""));
  }
  return absl::OkStatus();
}

absl::Status RunArchiveCommand(const std::string& command, std::chrono::milliseconds limit,
                               const std::function<bool()>& go_on) {
  if (Killed().Reap() >= kMostKilled) {
    return absl::UnavailableError(absl::StrCat(
        "the archive command is not started, because ", kMostKilled,
        " earlier ones were killed and have not ended; check the disk or the network that they "
        "use"));
  }
  Pipe output;
  pid_t pid = -1;
  const int error = output.ok() ? Spawn(command, output, pid) : errno;
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("the archive command cannot be started: ", std::strerror(error)));
  }
  output.CloseWriting();
  int status = 0;
  pid_t ended = 0;
  const absl::Cleanup leave = [&ended, pid] {
    if (ended != 0) return;
    kill(-pid, SIGKILL);
    Killed().Add(pid);
  };
  auto deadline = std::chrono::steady_clock::now() + limit;
  absl::Status stopped;
  std::string tail;
  while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
    const bool late = std::chrono::steady_clock::now() > deadline;
    if (!stopped.ok()) {
      if (late) return stopped;
    } else {
      if (!go_on()) stopped = absl::CancelledError("the archive command was stopped");
      if (late) {
        stopped = absl::DeadlineExceededError(absl::StrCat(
            "the archive command was killed after ",
            std::chrono::duration_cast<std::chrono::seconds>(limit).count(), " seconds"));
      }
      if (!stopped.ok()) {
        kill(-pid, SIGKILL);
        deadline = std::chrono::steady_clock::now() + kKillTime;
      }
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
