#include "server/store/commit_queue.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/failpoint.h"
#include "server/store/local/disk_room.h"

namespace calibd::server {
namespace {

// Of the write-ahead log, in pages of 4 KiB: from here on it is moved into the database
// beside the commits; and between two commits if that does not keep up.
constexpr int kCheckpointPages = 2000;
constexpr int kMostPages = 32000;
// Of a frame of the log, from which on it takes no more.
constexpr std::size_t kFrameBytes = std::size_t{8} << 20;
// Between two attempts to make room on a full disk.
constexpr std::chrono::seconds kFreeInterval{1};

// What the function returns, if anything, or which exception it threw.
template <typename Function>
absl::Status Guard(const Function& function) {
  try {
    if constexpr (std::is_void_v<decltype(function())>) {
      function();
      return absl::OkStatus();
    } else {
      return function();
    }
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("the storage thread failed: ", error.what()));
  }
}

absl::Status FailedBefore(const absl::Status& failure) {
  return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED",
                   absl::StrCat("the store failed earlier: ", failure.message()));
}

}  // namespace

CommitQueue::CommitQueue(std::unique_ptr<Store> store,
                         std::function<void(const absl::Status&)> on_failure)
    : store_(std::move(store)), on_failure_(std::move(on_failure)) {
  storage_thread_ = std::thread([this] { Run(); });
  checkpoint_thread_ = std::thread([this] { RunCheckpoints(); });
}

CommitQueue::~CommitQueue() { Stop(); }

void CommitQueue::Post(std::shared_ptr<Operation> operation) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    queue_.push_back(std::move(operation));
  }
  changed_.notify_all();
}

void CommitQueue::Call(Callback callback) {
  class Called final : public Operation {
   public:
    explicit Called(Callback callback) : callback_(std::move(callback)) {}
    [[nodiscard]] Target target() const noexcept override { return Target::kNowhere; }
    void Finish(Store& store, const absl::Status& committed) override {
      callback_(store, committed);
    }

   private:
    const Callback callback_;
  };
  Post(std::make_shared<Called>(std::move(callback)));
}

void CommitQueue::Fail(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (told_failure_) return;
    told_failure_ = true;
    failure_ = status;
  }
  on_failure_(status);
}

void CommitQueue::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && writing_ == 0; });
}

void CommitQueue::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  wal_grew_.notify_all();
  for (std::thread* thread : {&storage_thread_, &checkpoint_thread_}) {
    if (thread->joinable()) thread->join();
  }
  if (failure_.ok()) {
    HandleError(Guard([this] { return store_->Close(); }));
  }
}

void CommitQueue::Run() {
  pthread_setname_np(pthread_self(), "calibd-store");
  std::vector<std::shared_ptr<Operation>> operations;
  while (true) {
    operations.clear();
    {
      std::unique_lock lock(mutex_);
      writing_ = 0;
      changed_.notify_all();
      const auto has_work = [this] { return stopping_ || !queue_.empty() || retires_; };
      changed_.wait(lock, [&] { return has_work() || log_full_ || database_full_; });
      // A full disk is looked at again and again.
      changed_.wait_for(lock, kFreeInterval, has_work);
      if (queue_.empty() && stopping_) return;
      operations.swap(queue_);
      writing_ = operations.size();
    }
    if (operations.empty()) MakeRoom(absl::OkStatus());
    for (Operations rest(operations); !rest.empty();) {
      rest = rest.subspan(Commit(FirstTransaction(rest)));
    }
  }
}

CommitQueue::Operations CommitQueue::FirstTransaction(Operations operations) {
  auto target = Operation::Target::kNowhere;
  std::size_t end = 0;
  for (; end < operations.size(); ++end) {
    const Operation::Target next = operations[end]->target();
    if (target == Operation::Target::kNowhere) {
      target = next;
    } else if (next != target && next != Operation::Target::kNowhere) {
      break;
    }
  }
  return operations.first(end);
}

std::size_t CommitQueue::Commit(Operations operations) {
  const bool to_database = std::ranges::any_of(operations, [](const auto& operation) {
    return operation->target() == Operation::Target::kDatabase;
  });
  // A transaction without content is no commit, and says nothing about the room.
  bool has_content = to_database;
  absl::Status status;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) status = FailedBefore(failure_);
  }
  const auto begin = std::chrono::steady_clock::now();
  if (status.ok()) status = Write(operations, to_database, has_content);
  if (has_content || !status.ok()) {
    Count(status, to_database, std::chrono::steady_clock::now() - begin);
  }
  if (!status.ok()) Undo(operations);
  wal_grew_.notify_one();
  HandleError(status);
  PassOn(operations, status);
  MakeRoom(status);
  return operations.size();
}

absl::Status CommitQueue::Write(Operations& operations, bool to_database, bool& has_content) {
  absl::Status status = to_database ? store_->Begin() : absl::OkStatus();
  for (std::size_t i = 0; status.ok() && i < operations.size(); ++i) {
    if (store_->appended_bytes() >= kFrameBytes) {
      operations = operations.first(i);
      break;
    }
    status = Guard([&] { return operations[i]->Write(*store_); });
  }
  has_content = has_content || store_->appended_bytes() > 0;
  if (status.ok()) {
    Failpoint("before_commit");
    status = Guard([&] { return to_database ? store_->Commit() : store_->CommitLog(); });
  }
  if (status.ok()) {
    Failpoint("after_commit");
  } else {
    needed_room_ = std::max<std::uint64_t>(kLeastRoom, store_->appended_bytes());
    store_->Rollback();
  }
  return status;
}

void CommitQueue::Count(const absl::Status& committed, bool to_database,
                        std::chrono::duration<double> duration) {
  const std::lock_guard lock(mutex_);
  if (committed.ok()) {
    const auto* const bucket = std::lower_bound(Statistics::kBuckets.begin(),
                                                Statistics::kBuckets.end(), duration.count());
    ++statistics_.buckets[static_cast<std::size_t>(bucket - Statistics::kBuckets.begin())];
    statistics_.seconds += duration.count();
  } else {
    ++statistics_.failed_commits;
  }
  if (committed.ok() || absl::IsResourceExhausted(committed)) {
    (to_database ? database_full_ : log_full_) = !committed.ok();
  }
  wal_pages_ = store_->wal_pages();
}

void CommitQueue::Undo(Operations operations) {
  for (std::size_t i = operations.size(); i-- > 0;) {
    HandleError(Guard([&] { operations[i]->Undo(); }));
  }
}

void CommitQueue::PassOn(Operations operations, const absl::Status& committed) {
  using Group = std::vector<std::shared_ptr<Operation>>;
  std::vector<std::pair<Strand*, Group>> groups;
  absl::flat_hash_map<const Strand*, std::size_t> group_of;
  const auto post_groups = [&] {
    for (auto& [strand, group] : groups) {
      // Keeps the strand while it is used: the task may be its last owner and end at once.
      const std::shared_ptr<Operation> owner = group.front();
      strand->Post([this, group = std::move(group)]() mutable { Apply(group); });
    }
    groups.clear();
    group_of.clear();
  };
  for (std::shared_ptr<Operation>& operation : operations) {
    // What is committed must come to count.
    HandleError(Guard([&] {
      Strand* const strand = operation->strand();
      if (strand == nullptr) {
        // What it posts to a strand comes after the operations before it.
        post_groups();
        operation->Finish(*store_, committed);
        Apply(Operations(&operation, 1));
      } else {
        operation->Finish(*store_, committed);
        const auto [place, is_new] = group_of.try_emplace(strand, groups.size());
        if (is_new) groups.emplace_back(strand, Group());
        groups[place->second].second.push_back(std::move(operation));
      }
    }));
    // Its memory is freed before others are let in.
    operation.reset();
  }
  HandleError(Guard(post_groups));
}

void CommitQueue::Apply(Operations operations) {
  try {
    for (const std::shared_ptr<Operation>& operation : operations) operation->Apply();
  } catch (const std::bad_alloc&) {
    Fail(absl::UnavailableError("out of memory while a batch was applied"));
    return;
  }
  operations.back()->Publish();
  for (const std::shared_ptr<Operation>& operation : operations) operation->Answer();
}

void CommitQueue::CheckRoomAtStart() {
  const std::string folder = std::filesystem::path(store_->path()).parent_path();
  if (!absl::IsResourceExhausted(CheckDiskRoom(folder, kLeastRoom))) return;
  {
    const std::lock_guard lock(mutex_);
    database_full_ = true;
    log_full_ = store_->log_room() < kLeastRoom;
  }
  changed_.notify_all();
}

void CommitQueue::CheckRoom() {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if ((!log_full_ && !database_full_) || now - checked_room_ < kFreeInterval) return;
  }
  checked_room_ = now;
  const std::string folder = std::filesystem::path(store_->path()).parent_path();
  if (CheckDiskRoom(folder, needed_room_).ok()) {
    const std::lock_guard lock(mutex_);
    log_full_ = false;
    database_full_ = false;
  }
}

CommitQueue::Refusal CommitQueue::refusal() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return Refusal::kEverything;
  if (log_full_) return Refusal::kLog;
  return database_full_ ? Refusal::kDatabase : Refusal::kNothing;
}

void CommitQueue::MakeRoom(const absl::Status& status) {
  retires_ = false;
  CheckRoom();
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (store_->wal_pages() > kMostPages ||
      (absl::IsResourceExhausted(status) && now - freed_ >= kFreeInterval)) {
    // Where the disk is full, this gives room: the pages go where they have their place.
    freed_ = now;
    HandleError(store_->Checkpoint());
  }
  if (now < retires_at_) return;
  const absl::Status retired = Guard([this] {
    const absl::StatusOr<bool> retires = store_->Retire();
    retires_ = retires.ok() && *retires;
    return retires.status();
  });
  HandleError(retired);
  if (!retired.ok()) {
    // The disk is full: it is tried again after some transaction.
    retires_at_ = now + kFreeInterval;
  }
}

void CommitQueue::HandleError(const absl::Status& status) {
  // A full disk may end later, all other errors do not.
  if (!status.ok() && !absl::IsResourceExhausted(status)) Fail(status);
}

void CommitQueue::RunCheckpoints() {
  pthread_setname_np(pthread_self(), "calibd-ckpt");
  absl::StatusOr<Database> database = Database::OpenExisting(store_->path());
  absl::Status status = database.status();
  if (status.ok()) {
    // Until it has read, a connection knows of no write-ahead log and moves nothing.
    status = database->QueryInteger("SELECT count(*) FROM sqlite_master").status();
  }
  if (!status.ok()) {
    Fail(status);
    return;
  }
  int done_at = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      // The log is begun anew by the first commit after all of it was moved.
      wal_grew_.wait(lock, [&] {
        done_at = std::min(done_at, wal_pages_);
        return stopping_ || wal_pages_ - done_at > kCheckpointPages;
      });
      if (stopping_) return;
      done_at = wal_pages_;
    }
    Failpoint("checkpoint");
    const int code = sqlite3_wal_checkpoint_v2(database->handle(), nullptr,
                                               SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
    Failpoint("checkpoint");
    if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
      HandleError(SqliteError(database->handle(), code, "make a checkpoint"));
    }
  }
}

CommitQueue::Statistics CommitQueue::statistics() const {
  Statistics statistics;
  {
    const std::lock_guard lock(mutex_);
    statistics = statistics_;
    statistics.queued = queue_.size() + writing_;
  }
  statistics.log_bytes = store_->log_bytes();
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(store_->path() + suffix, error);
    if (!error) statistics.database_bytes += static_cast<std::int64_t>(size);
  }
  return statistics;
}

}  // namespace calibd::server
