#include "server/archive/archiver.h"

#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/archive/archive_command.h"
#include "server/archive/archive_state.h"
#include "server/base/status_mapping.h"

namespace calibd::server {
namespace {

// Half of the ten seconds that a lost disk may cost: the other half is for the command.
constexpr std::chrono::seconds kLogInterval{5};
constexpr std::chrono::seconds kCheckInterval{1};
// A command may hang; a repeated one gets the time that a slow network takes.
constexpr std::chrono::seconds kFirstLogFileLimit{30};
constexpr std::chrono::minutes kLogFileLimit{5};
constexpr std::chrono::hours kBaseLimit{6};
// A new base replaces log files of its size, or of this size, and a base that is older than a day:
// a restore then takes at most twice the time, and older files may be deleted by their age.
constexpr std::int64_t kLeastLogBytes = std::int64_t{64} << 20;
constexpr std::chrono::hours kBaseAge{24};
constexpr std::chrono::seconds kFirstDelay{1};
constexpr std::chrono::seconds kLongestDelay{30};
constexpr std::chrono::minutes kFailureLogInterval{1};
// Number of bases that one log file may continue.
constexpr int kMostBases = 100;
constexpr std::int64_t kKeepNothing = std::numeric_limits<std::int64_t>::max();

std::int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void NameThread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  // On Linux the priority belongs to the thread. Ingestion comes first.
  constexpr int kNiceness = 5;
  static_cast<void>(setpriority(PRIO_PROCESS, 0, kNiceness));
}

}  // namespace

Archiver::Archiver(Settings settings, CommitQueue& commits)
    : settings_(std::move(settings)), commits_(commits) {}

Archiver::~Archiver() { Stop(Clock::now()); }

absl::Status Archiver::Prepare(Store& store) {
  std::error_code error;
  std::filesystem::create_directories(settings_.folder, error);
  if (!error) {
    std::filesystem::permissions(settings_.folder, std::filesystem::perms::owner_all, error);
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("--archive-command: the folder ", settings_.folder,
                                               " cannot be made: ", error.message()));
  }
  // An earlier process was killed while it handed them over.
  for (std::filesystem::directory_iterator entry(settings_.folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != "log" && !absl::StartsWith(name, "base")) continue;
    std::error_code ignored;
    std::filesystem::remove(entry->path(), ignored);
  }
  const std::lock_guard lock(mutex_);
  state_ = ReadArchiveState(settings_.folder + "/state", store.id());
  // Numbers ascend even if the state was lost or is an older copy.
  state_.set_number(std::max<std::int64_t>(state_.number(), NowUs()));
  until_us_ = NowUs();
  archived_bytes_ = store.sizes().appended_log_bytes;
  // What waited at the last stop counts for the limit.
  if (state_.log_id() != 0) archived_bytes_ -= store.LogBytesFrom(state_.log_id());
  store.KeepLog(state_.log_id() == 0 ? kKeepNothing : state_.log_id());
  return absl::OkStatus();
}

void Archiver::Start() {
  log_thread_ = std::thread([this] { RunLog(); });
  base_thread_ = std::thread([this] { RunBase(); });
}

void Archiver::Stop(Clock::time_point deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_) stop_at_ = deadline;
    stopping_ = true;
  }
  changed_.notify_all();
  if (log_thread_.joinable()) log_thread_.join();
  if (base_thread_.joinable()) base_thread_.join();
}

Archiver::Statistics Archiver::statistics() const {
  const std::int64_t appended = appended_bytes();
  const std::lock_guard lock(mutex_);
  return {.lag_seconds = static_cast<double>(std::max<std::int64_t>(0, NowUs() - until_us_)) / 1e6,
          .waiting_bytes = std::max<std::int64_t>(0, appended - archived_bytes_),
          .handed_over = handed_over_,
          .failed = failed_,
          .gaps = gap_count_,
          .base_time_s = static_cast<double>(state_.base_time_us()) / 1e6};
}

bool Archiver::Pause(std::chrono::milliseconds time) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, time, [this] { return stopping_; });
}

void Archiver::RunLog() {
  NameThread("calibd-archive");
  bool goes_on = true;
  while (goes_on) {
    const auto began = Clock::now();
    const absl::StatusOr<bool> more = TurnLog();
    const bool at_once = more.ok() && *more;
    const auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(began + kLogInterval - Clock::now());
    goes_on = Pause(at_once ? std::chrono::milliseconds(0)
                            : std::max(rest, std::chrono::milliseconds(0)));
  }
  // What was committed since the last file.
  absl::StatusOr<bool> more = true;
  while (more.ok() && *more) more = TurnLog();
}

absl::StatusOr<bool> Archiver::TurnLog() noexcept {
  try {
    absl::StatusOr<bool> more = HandOverLog();
    if (!more.ok() && !absl::IsCancelled(more.status())) LogFailure(more.status());
    CheckLimit();
    return more;
  } catch (...) {
    return CurrentExceptionStatus("Archive", "log");
  }
}

void Archiver::RunBase() {
  NameThread("calibd-base");
  std::chrono::milliseconds delay = kCheckInterval;
  while (Pause(delay)) {
    const absl::Status status = TurnBase();
    delay = status.ok() || absl::IsCancelled(status) ? std::chrono::milliseconds(kCheckInterval)
                                                     : std::chrono::milliseconds(kLongestDelay);
  }
}

absl::Status Archiver::TurnBase() noexcept {
  try {
    // The other thread may be waiting for a disk.
    CheckLimit();
    {
      const std::lock_guard lock(mutex_);
      if (!BaseIsDue()) return absl::OkStatus();
    }
    absl::Status status = HandOverBase();
    if (!status.ok() && !absl::IsCancelled(status)) LogFailure(status);
    return status;
  } catch (...) {
    return CurrentExceptionStatus("Archive", "base");
  }
}

bool Archiver::BaseIsDue() const {
  const std::chrono::microseconds age(NowUs() - state_.base_time_us());
  return state_.base_time_us() == 0 || age > kBaseAge ||
         state_.log_bytes() > std::max(kLeastLogBytes, state_.base_bytes());
}

absl::StatusOr<bool> Archiver::HandOverLog() {
  store::v1::ArchiveHeader header;
  std::shared_ptr<StoreView> view;
  std::int64_t gaps = 0;
  std::int64_t appended = 0;
  {
    const std::lock_guard cut(cutting_);
    {
      const std::lock_guard lock(mutex_);
      // The base thread decides where the log files begin.
      if (state_.log_id() == 0) return false;
      if (stopping_ && Clock::now() > stop_at_) return absl::CancelledError();
      state_.set_number(state_.number() + 1);
      header.set_number(state_.number());
      header.set_previous(state_.previous());
      *header.mutable_base_numbers() = state_.base_numbers();
      header.set_first_log_id(state_.log_id());
      header.set_first_model_id(state_.model_id());
      gaps = gap_count_;
    }
    appended = appended_bytes();
    header.set_time_us(NowUs());
    CALIBD_ASSIGN_OR_RETURN(view, commits_.OpenView());
  }
  CALIBD_ASSIGN_OR_RETURN(const StoreView::End end, view->end());
  const absl::StatusOr<ArchiveFile> file = view->WriteArchiveLog(header, settings_.folder);
  view.reset();
  if (absl::IsFailedPrecondition(file.status())) {
    {
      // Otherwise the base thread has given up, and may have begun anew.
      const std::lock_guard lock(mutex_);
      if (gap_count_ != gaps) return true;
    }
    GiveUp(std::string(file.status().message()));
    return false;
  }
  if (!file.ok()) return file.status();
  const bool more = header.end_log_id() < end.log_id;
  std::vector<std::int64_t> model_ids(header.model_ids().begin(), header.model_ids().end());
  const bool changed = header.first_log_id() != header.end_log_id() ||
                       header.base_numbers_size() > 0 || header.models_size() > 0 ||
                       model_ids != model_ids_;
  if (changed) {
    const TimeLimits limits{.first = kFirstLogFileLimit, .repeated = kLogFileLimit};
    CALIBD_RETURN_IF_ERROR(HandOver(*file, limits, [this, gaps] {
      CheckLimit();
      const std::lock_guard lock(mutex_);
      return gap_count_ == gaps && (!stopping_ || Clock::now() < stop_at_);
    }));
    model_ids_ = std::move(model_ids);
  }
  {
    const std::lock_guard lock(mutex_);
    if (gap_count_ != gaps) return true;
    if (!more) {
      // Older batches of the log may wait although the time of this file is later.
      log_until_us_ = header.time_us();
      archived_bytes_ = appended;
      if (state_.base_time_us() != 0) until_us_ = log_until_us_;
    }
    if (!changed) return false;
    state_.set_previous(file->checksum);
    state_.set_log_id(header.end_log_id());
    state_.set_model_id(header.end_model_id());
    state_.set_log_bytes(state_.log_bytes() + file->bytes);
    // Bases that began meanwhile are left.
    auto& bases = *state_.mutable_base_numbers();
    bases.erase(std::remove_if(bases.begin(), bases.end(),
                               [&](std::int64_t base) { return base < header.number(); }),
                bases.end());
  }
  SaveState();
  return more;
}

absl::Status Archiver::HandOverBase() {
  std::shared_ptr<StoreView> view;
  std::int64_t number = 0;
  std::int64_t gaps = 0;
  std::int64_t time_us = 0;
  {
    const std::lock_guard cut(cutting_);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return absl::CancelledError();
      number = state_.number() + 1;
      state_.set_number(number);
      state_.add_base_numbers(number);
      // Attempts that failed while no log file was handed over.
      if (state_.base_numbers_size() > kMostBases) {
        state_.mutable_base_numbers()->erase(state_.mutable_base_numbers()->begin());
      }
      gaps = gap_count_;
    }
    const std::int64_t appended = appended_bytes();
    time_us = NowUs();
    CALIBD_ASSIGN_OR_RETURN(view, commits_.OpenView());
    CALIBD_ASSIGN_OR_RETURN(const StoreView::End end, view->end());
    const std::lock_guard lock(mutex_);
    if (gap_count_ == gaps && state_.log_id() == 0) {
      state_.set_log_id(end.log_id);
      state_.set_model_id(end.model_id);
      archived_bytes_ = appended;
    }
  }
  // The view keeps the log until this is done.
  SaveState();
  const auto go_on = [this] {
    CheckLimit();
    if (commits_.refusal() != CommitQueue::Refusal::kNothing) return false;
    const std::lock_guard lock(mutex_);
    return !stopping_;
  };
  absl::StatusOr<ArchiveFile> file =
      view->WriteArchiveBase(number, settings_.folder, [this, gaps, &go_on](double /*fraction*/) {
        if (!go_on()) return false;
        // The view holds files of the log, which a gap must free.
        const std::lock_guard lock(mutex_);
        return gap_count_ == gaps;
      });
  view.reset();
  // A base is worth its hand-over even after a gap, although no log file continues it.
  const absl::Status status =
      file.ok() ? HandOver(*file, {.first = kBaseLimit, .repeated = kBaseLimit}, go_on)
                : file.status();
  if (absl::IsCancelled(status) && commits_.refusal() != CommitQueue::Refusal::kNothing) {
    return absl::ResourceExhaustedError(
        "the store has no room or has failed, and a base would take more room");
  }
  CALIBD_RETURN_IF_ERROR(status);
  {
    const std::lock_guard lock(mutex_);
    // Otherwise no log file continues it, and another base follows at once.
    if (gap_count_ == gaps) {
      state_.set_base_time_us(time_us);
      state_.set_base_bytes(file->bytes);
      state_.set_log_bytes(0);
      until_us_ = std::max({until_us_, time_us, log_until_us_});
    }
  }
  SaveState();
  spdlog::info("the archive has a new base, {}, of {} bytes", file->name, file->bytes);
  return absl::OkStatus();
}

absl::Status Archiver::HandOver(const ArchiveFile& file, const TimeLimits& limits,
                                const std::function<bool()>& go_on) {
  const absl::Cleanup remove = [&file] { std::remove(file.path.c_str()); };
  const std::string command = ExpandArchiveCommand(settings_.command, file.path, file.name);
  std::chrono::milliseconds limit = limits.first;
  for (auto delay = kFirstDelay;; delay = std::min(2 * delay, kLongestDelay)) {
    absl::Status status = RunArchiveCommand(command, limit, go_on);
    if (absl::IsCancelled(status)) return status;
    if (status.ok()) {
      ++handed_over_;
      const std::lock_guard lock(mutex_);
      if (std::exchange(failing_, false)) {
        spdlog::info("files are handed over to the archive again");
      }
      return status;
    }
    limit = limits.repeated;
    ++failed_;
    LogFailure(status);
    const auto next = Clock::now() + delay;
    while (Clock::now() < next) {
      if (!Pause(kCheckInterval) || !go_on()) return absl::CancelledError();
    }
  }
}

void Archiver::LogFailure(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  if (failing_ && now < failure_logged_at_ + kFailureLogInterval) return;
  failing_ = true;
  failure_logged_at_ = now;
  spdlog::warn("a file was not handed over to the archive, calibd tries again: {}",
               std::string(status.message()));
}

void Archiver::CheckLimit() {
  const auto now = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (now < checked_limit_ + kCheckInterval || state_.log_id() == 0) return;
    checked_limit_ = now;
  }
  const std::int64_t waiting = statistics().waiting_bytes;
  const bool full = commits_.refusal() == CommitQueue::Refusal::kLog && waiting > kLeastLogBytes;
  if (!full && waiting <= settings_.most_waiting_bytes) return;
  GiveUp(absl::StrCat(
      waiting, " bytes of the log wait for the archive, and ",
      full ? "the disk is full"
           : absl::StrCat("the store keeps at most ", settings_.most_waiting_bytes, " for it")));
}

void Archiver::GiveUp(const std::string& reason) {
  const std::int64_t appended = appended_bytes();
  {
    const std::lock_guard lock(mutex_);
    ++gap_count_;
    state_.set_log_id(0);
    state_.set_model_id(0);
    state_.set_base_time_us(0);
    // The log files after the gap continue neither the older bases nor the older log files.
    state_.clear_base_numbers();
    state_.clear_previous();
    archived_bytes_ = appended;
  }
  SaveState();
  spdlog::error(
      "the archive has a gap: {}; until a new base is handed over, a lost disk costs all that was "
      "acknowledged since the newest log file",
      reason);
  changed_.notify_all();
}

void Archiver::SaveState() {
  const std::lock_guard saving(saving_);
  store::v1::ArchiveState state;
  {
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  // With an older state, the next start hands over some batches again, which does no harm.
  const absl::Status status = WriteArchiveState(settings_.folder + "/state", state);
  if (!status.ok()) LogFailure(status);
  const std::int64_t from_log_id = state.log_id() == 0 ? kKeepNothing : state.log_id();
  commits_.Call([from_log_id](Store& store, const absl::Status& /*committed*/) {
    store.KeepLog(from_log_id);
  });
}

}  // namespace calibd::server
