#include "server/ingest/commit_queue.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/base/errors.h"
#include "server/base/failpoint.h"

namespace calibd::server {
namespace {

// A transaction, or a task of a strand, takes no further operation from this number of bytes on.
// The batch of a quiet model waits for the transaction before its own, so transactions are smaller
// until no two models have had pending operations for kSharedTime.
constexpr std::size_t kTransactionBytes = std::size_t{4} << 20;
constexpr std::size_t kSharedTransactionBytes = std::size_t{1} << 20;
constexpr std::chrono::seconds kSharedTime{1};
constexpr std::size_t kTaskBytes = std::size_t{256} << 10;
// A task of a strand with at most this many bytes is brief.
constexpr std::size_t kBriefBytes = std::size_t{16} << 10;
// The cost of an operation in addition to its bytes, in bytes.
constexpr std::size_t kOperationCost = std::size_t{1} << 10;
// A transaction may have this many operations even if there is no memory for more.
constexpr std::size_t kLeastOperations = 16;
// Delay between two checks whether a full store has room.
constexpr std::chrono::seconds kRoomInterval{1};

// Returns the status of the function, if it returns one, or of the exception that it threw.
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

// Makes room for one more operation. Returns false if there is no memory for it.
bool HasRoom(std::vector<std::shared_ptr<Operation>>& operations) {
  if (operations.size() < operations.capacity()) return true;
  try {
    operations.reserve(2 * operations.size());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
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
}

CommitQueue::~CommitQueue() { Stop(); }

void CommitQueue::Post(std::shared_ptr<Operation> operation) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (const Model* const model = operation->model(); model != nullptr) {
      const std::size_t cost = operation->bytes() + kOperationCost;
      queue_.Push(std::move(operation), flows_[model], cost);
    } else {
      queue_.PushLast(std::move(operation));
    }
  }
  changed_.notify_all();
}

void CommitQueue::Call(Callback callback) {
  class Called final : public Operation {
   public:
    explicit Called(Callback callback) : callback_(std::move(callback)) {}
    [[nodiscard]] Target target() const noexcept override { return Target::kNone; }
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
    if (!failure_.ok()) return;
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
  if (!storage_thread_.joinable()) return;
  storage_thread_.join();
  // A strand may still fail the store.
  const bool has_failed = refusal() == Refusal::kEverything;
  if (!has_failed) HandleError(Guard([this] { return store_->Close(); }));
}

void CommitQueue::Run() {
  pthread_setname_np(pthread_self(), "calibd-store");
  std::vector<std::shared_ptr<Operation>> operations;
  operations.reserve(kLeastOperations);
  while (true) {
    operations.clear();
    {
      std::unique_lock lock(mutex_);
      writing_ = 0;
      changed_.notify_all();
      const auto has_work = [this] { return stopping_ || !queue_.empty() || maintains_; };
      changed_.wait(lock, [&] { return has_work() || log_full_ || catalog_full_; });
      // A full store is checked repeatedly.
      changed_.wait_for(lock, kRoomInterval, has_work);
      if (queue_.empty() && stopping_) return;
      TakeTransaction(operations);
      writing_ = operations.size();
    }
    if (operations.empty()) Maintain(Outcome::kCommitted);
    for (Operations rest(operations); !rest.empty();) rest = rest.subspan(Commit(rest));
  }
}

void CommitQueue::TakeTransaction(std::vector<std::shared_ptr<Operation>>& operations) {
  auto target = Operation::Target::kNone;
  const auto now = std::chrono::steady_clock::now();
  if (flows_.size() > 1) shared_until_ = now + kSharedTime;
  const std::size_t most_bytes = now < shared_until_ ? kSharedTransactionBytes : kTransactionBytes;
  for (std::size_t bytes = 0; !queue_.empty() && bytes < most_bytes;) {
    const Operation::Target next = queue_.front()->target();
    if (target == Operation::Target::kNone) {
      target = next;
    } else if (next != target && next != Operation::Target::kNone) {
      break;
    }
    if (!HasRoom(operations)) break;
    bytes += queue_.front()->bytes();
    operations.push_back(queue_.Pop());
  }
  // Flows that are not ahead need no entry.
  absl::erase_if(
      flows_, [this](const auto& flow) { return queue_.empty() || flow.second <= queue_.now(); });
}

std::size_t CommitQueue::Commit(Operations operations) {
  const bool to_catalog = std::ranges::any_of(operations, [](const auto& operation) {
    return operation->target() == Operation::Target::kCatalog;
  });
  // A transaction without content is not a commit, and shows nothing about the free space.
  bool has_content = to_catalog;
  absl::Status status;
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) status = FailedBefore(failure_);
  }
  const auto begin = std::chrono::steady_clock::now();
  if (status.ok()) status = Write(operations, to_catalog, has_content);
  const Outcome outcome = OutcomeOf(status);
  if (has_content || !status.ok()) {
    Count(status, to_catalog, std::chrono::steady_clock::now() - begin);
  }
  if (!status.ok()) Undo(operations);
  HandleError(status);
  // UNAVAILABLE makes clients retry, as after any failure of the store.
  PassOn(operations, outcome == Outcome::kFenced ? FailedBefore(status) : status);
  Maintain(outcome);
  return operations.size();
}

absl::Status CommitQueue::Write(Operations& operations, bool to_catalog, bool& has_content) {
  absl::Status status = to_catalog ? store_->Begin() : absl::OkStatus();
  for (std::size_t i = 0; status.ok() && i < operations.size(); ++i) {
    // An operation may append more than it holds.
    if (store_->appended_bytes() >= kTransactionBytes) {
      operations = operations.first(i);
      break;
    }
    status = Guard([&] { return operations[i]->Write(*store_); });
  }
  has_content = has_content || store_->appended_bytes() > 0;
  if (status.ok()) {
    Failpoint("before_commit");
    status = Guard([&] { return to_catalog ? store_->Commit() : store_->CommitLog(); });
  }
  if (status.ok()) {
    Failpoint("after_commit");
  } else {
    needed_room_ = std::max<std::uint64_t>(kLeastRoom, store_->appended_bytes());
    store_->Rollback();
  }
  return status;
}

void CommitQueue::Count(const absl::Status& committed, bool to_catalog,
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
  if (committed.ok() || OutcomeOf(committed) == Outcome::kRefused) {
    (to_catalog ? catalog_full_ : log_full_) = !committed.ok();
  }
}

void CommitQueue::Undo(Operations operations) {
  for (std::size_t i = operations.size(); i-- > 0;) {
    HandleError(Guard([&] { operations[i]->Undo(); }));
  }
}

void CommitQueue::PassOn(Operations operations, const absl::Status& committed) {
  // One task of a strand applies its operations up to `last`, which keeps the strand alive.
  struct Task {
    std::shared_ptr<Operation> last;
    std::uint64_t number = 0;
    std::size_t bytes = 0;
  };
  std::vector<Task> tasks;
  // The newest task of each strand.
  std::unordered_map<const Strand*, std::size_t> newest;
  const auto post = [&] {
    for (const Task& task : tasks) {
      Strand* const strand = task.last->strand();
      const bool brief = task.bytes <= kBriefBytes;
      strand->Post(
          [this, strand, last = task.number, bytes = brief ? kBriefBytes : kTaskBytes] {
            HandleError(Guard([&] { ApplyFinished(strand, last, bytes); }));
          },
          brief ? ThreadPool::Length::kBrief : ThreadPool::Length::kAny);
    }
    tasks.clear();
    newest.clear();
  };
  for (std::shared_ptr<Operation>& operation : operations) {
    // Committed rows must be applied.
    HandleError(Guard([&] {
      if (operation->strand() == nullptr) {
        // Tasks that Finish posts to a strand run after the operations before it.
        post();
        operation->Finish(*store_, committed);
        Apply(Operations(&operation, 1));
      } else {
        operation->Finish(*store_, committed);
        const Strand* const strand = operation->strand();
        const std::size_t bytes = operation->bytes();
        {
          const std::lock_guard lock(finished_mutex_);
          finished_[strand].push_back({++last_number_, operation});
        }
        const auto found = newest.find(strand);
        if (found == newest.end() || tasks[found->second].bytes >= kTaskBytes) {
          tasks.push_back({.last = std::move(operation), .number = last_number_, .bytes = bytes});
          newest[strand] = tasks.size() - 1;
        } else {
          Task& task = tasks[found->second];
          task.last = std::move(operation);
          task.number = last_number_;
          task.bytes += bytes;
        }
      }
    }));
    // Freed before more rows are accepted.
    operation.reset();
  }
  HandleError(Guard(post));
}

void CommitQueue::ApplyFinished(const Strand* strand, std::uint64_t number,
                                std::size_t most_bytes) {
  std::vector<std::shared_ptr<Operation>> operations;
  {
    const std::lock_guard lock(finished_mutex_);
    const auto found = finished_.find(strand);
    if (found == finished_.end()) return;
    std::deque<Finished>& queue = found->second;
    // An earlier task may have applied the operation. The strand may then belong to another model.
    // The queue is empty after a lack of memory.
    if (queue.empty() || queue.front().number > number) return;
    std::size_t bytes = 0;
    while (!queue.empty() && (queue.front().number <= number || bytes < most_bytes)) {
      bytes += queue.front().operation->bytes();
      operations.push_back(std::move(queue.front().operation));
      queue.pop_front();
    }
    if (queue.empty()) finished_.erase(found);
  }
  Apply(operations);
}

void CommitQueue::Apply(Operations operations) {
  try {
    for (const std::shared_ptr<Operation>& operation : operations) operation->Apply();
    operations.back()->Publish();
  } catch (const std::bad_alloc&) {
    Fail(absl::UnavailableError("out of memory while a batch was applied"));
    return;
  }
  for (const std::shared_ptr<Operation>& operation : operations) operation->Answer();
}

absl::StatusOr<std::shared_ptr<StoreView>> CommitQueue::OpenView() {
  // If the queue has stopped, the callback is dropped, and the future throws.
  using View = absl::StatusOr<std::unique_ptr<StoreView>>;
  const auto done = std::make_shared<std::promise<View>>();
  std::future<View> result = done->get_future();
  Call([this, done](Store& store, const absl::Status& committed) {
    // The view must show the store that is being written.
    absl::Status status = store.CheckInPlace();
    if (!status.ok()) Fail(status);
    // A store without room can still be read.
    if (OutcomeOf(committed) != Outcome::kRefused) status.Update(committed);
    done->set_value(status.ok() ? store.OpenView() : status);
  });
  CALIBD_ASSIGN_OR_RETURN(std::unique_ptr<StoreView> view, result.get());
  return std::shared_ptr<StoreView>(view.release(), [this](StoreView* released) {
    Call([owned = std::shared_ptr<StoreView>(released)](Store&, const absl::Status&) {});
  });
}

void CommitQueue::CheckRoomAtStart() {
  if (!absl::IsResourceExhausted(store_->CheckRoom(kLeastRoom))) return;
  {
    const std::lock_guard lock(mutex_);
    catalog_full_ = true;
    log_full_ = store_->log_room() < kLeastRoom;
  }
  changed_.notify_all();
}

void CommitQueue::CheckRoom() {
  const auto now = std::chrono::steady_clock::now();
  {
    const std::lock_guard lock(mutex_);
    if ((!log_full_ && !catalog_full_) || now - checked_room_ < kRoomInterval) return;
  }
  checked_room_ = now;
  if (!store_->CheckRoom(needed_room_).ok()) return;
  const std::lock_guard lock(mutex_);
  log_full_ = false;
  catalog_full_ = false;
}

CommitQueue::Refusal CommitQueue::refusal() const {
  const std::lock_guard lock(mutex_);
  if (!failure_.ok()) return Refusal::kEverything;
  if (log_full_) return Refusal::kLog;
  return catalog_full_ ? Refusal::kCatalog : Refusal::kNothing;
}

void CommitQueue::Maintain(Outcome outcome) {
  maintains_ = false;
  CheckRoom();
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.ok()) return;
  }
  HandleError(Guard([&] {
    const absl::StatusOr<bool> more = store_->Maintain(outcome == Outcome::kRefused);
    maintains_ = more.ok() && *more;
    return more.status();
  }));
}

void CommitQueue::HandleError(const absl::Status& status) {
  const Outcome outcome = OutcomeOf(status);
  if (outcome == Outcome::kFenced || outcome == Outcome::kUnknown) Fail(status);
}

CommitQueue::Statistics CommitQueue::statistics() const {
  Statistics statistics;
  {
    const std::lock_guard lock(mutex_);
    statistics = statistics_;
    statistics.queued = queue_.size() + writing_;
  }
  statistics.sizes = store_->sizes();
  return statistics;
}

}  // namespace calibd::server
