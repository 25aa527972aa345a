#include "server/api/store_upkeep.h"

#include <xxhash.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "server/api/progress_sender.h"
#include "server/base/errors.h"
#include "server/ingest/verification.h"

namespace calibd::server {
namespace {

constexpr int kNiceness = 10;
// Maximum number of finished copies on disk.
constexpr std::size_t kMaxCopies = 2;
constexpr std::chrono::seconds kUpkeepRetryDelay{5};
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;
// A copy whose client has taken nothing for this time may be replaced by another one.
constexpr std::chrono::seconds kPatience{5};

absl::Status BusyError(const char* message) {
  return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "STORE_BUSY", message),
                        kUpkeepRetryDelay);
}

// Sends the progress of a computation, and stops it when the call ends or the server drains.
template <typename Response>
OnProgress SendProgress(const Reply<Response>& reply, const std::atomic<bool>& draining) {
  return [reply, &draining, sender = ProgressSender(reply)](double fraction) mutable {
    sender(fraction);
    return !draining && !reply->ended();
  };
}

}  // namespace

// Sends a finished copy of the store and then its size and hash, at the pace at which the client
// reads. No thread waits for the client. Lives until the call ends.
class CopySender final : public std::enable_shared_from_this<CopySender> {
 public:
  using Clock = std::chrono::steady_clock;

  // held: the right of the caller. readers: the threads that read the copy; must outlive the call.
  CopySender(std::unique_ptr<StoreCopy> copy, Reply<v1::BackupResponse> stream,
             std::shared_ptr<AccessControl::Held> held, ThreadPool& readers);

  void Start();
  // Ends the call and frees the copy at once, even if the client does not read the error.
  void End(const absl::Status& status) { stream_->End(status); }

  // The time at which the client last took a chunk.
  [[nodiscard]] Clock::time_point last_taken() const noexcept { return last_taken_; }

 private:
  void PostNext();
  // Runs on a reading thread. Errors: those of StoreCopy::Read.
  absl::Status SendNext();

  const std::unique_ptr<StoreCopy> copy_;
  const Reply<v1::BackupResponse> stream_;
  const std::shared_ptr<AccessControl::Held> held_;
  ThreadPool& readers_;
  std::atomic<Clock::time_point> last_taken_;
  // The following members belong to the posted task. At most one task is posted at a time.
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
  std::vector<char> chunk_;
  std::int64_t sent_bytes_ = 0;
};

CopySender::CopySender(std::unique_ptr<StoreCopy> copy, Reply<v1::BackupResponse> stream,
                       std::shared_ptr<AccessControl::Held> held, ThreadPool& readers)
    : copy_(std::move(copy)),
      stream_(std::move(stream)),
      held_(std::move(held)),
      readers_(readers),
      last_taken_(Clock::now()),
      hash_(XXH3_createState(), XXH3_freeState),
      chunk_(kChunkBytes) {
  if (hash_ == nullptr) throw std::bad_alloc();
  XXH3_64bits_reset(hash_.get());
}

void CopySender::Start() {
  // A progress message may still be in flight; whichever event comes later sends the first chunk.
  stream_->OnTaken([self = shared_from_this()] {
    self->last_taken_ = Clock::now();
    self->PostNext();
  });
  PostNext();
}

void CopySender::PostNext() {
  readers_.Post([self = shared_from_this()] {
    self->stream_->Guard(Stage::kProgress, [&] { return self->SendNext(); });
  });
}

absl::Status CopySender::SendNext() {
  if (!stream_->idle()) return absl::OkStatus();
  const absl::StatusOr<std::size_t> size =
      copy_->Read(static_cast<std::uint64_t>(sent_bytes_), chunk_);
  if (!size.ok()) return size.status();
  v1::BackupResponse response;
  if (*size == 0) {
    response.mutable_complete()->set_size_bytes(sent_bytes_);
    response.mutable_complete()->set_hash(XXH3_64bits_digest(hash_.get()));
    stream_->SendLast(std::move(response));
    return absl::OkStatus();
  }
  XXH3_64bits_update(hash_.get(), chunk_.data(), *size);
  sent_bytes_ += static_cast<std::int64_t>(*size);
  response.set_data(chunk_.data(), *size);
  stream_->Send(std::move(response));
  return absl::OkStatus();
}

StoreUpkeep::StoreUpkeep(const ModelRegistry& registry, CommitQueue& commits, Health& health)
    : registry_(registry),
      commits_(commits),
      health_(health),
      computer_("calibd-upkeep", 1, kNiceness),
      reader_("calibd-copies", 1, kNiceness) {}

template <typename Response>
absl::Status StoreUpkeep::Begin(const Reply<Response>& reply,
                                std::function<absl::Status(Turn&)> work) {
  if (draining_) return DrainingError();
  CALIBD_RETURN_IF_ERROR(registry_.CheckRestored());
  if (busy_.exchange(true)) return BusyError("another backup or verification is running");
  Turn turn(this, [this](void* /*upkeep*/) { busy_ = false; });
  computer_.Post([this, reply, work = std::move(work), turn = std::move(turn)]() mutable {
    reply->Guard(Stage::kAnswer, [&] {
      absl::Status status = work(turn);
      // Released first, because the client may call again as soon as it receives the error.
      turn.reset();
      return absl::IsCancelled(status) && draining_ ? DrainingError() : status;
    });
  });
  return absl::OkStatus();
}

absl::Status StoreUpkeep::Backup(const Reply<v1::BackupResponse>& reply,
                                 std::shared_ptr<AccessControl::Held> held) {
  return Begin(reply, [this, reply, held = std::move(held)](Turn& turn) {
    return MakeCopy(reply, held, turn);
  });
}

absl::Status StoreUpkeep::MakeCopy(const Reply<v1::BackupResponse>& reply,
                                   std::shared_ptr<AccessControl::Held> held, Turn& turn) {
  CALIBD_RETURN_IF_ERROR(AdmitCopy());
  absl::StatusOr<std::unique_ptr<StoreCopy>> copy = Copy(SendProgress(reply, draining_));
  absl::Status status = copy.status();
  if (absl::IsDataLoss(status)) health_.ReportDamage(status);
  if (absl::IsResourceExhausted(status)) {
    const Store::Sizes sizes = commits_.statistics().sizes;
    return WithClientMessage(
        std::move(status),
        absl::StrCat("the backup was not made: the server first makes a copy of at most ",
                     sizes.log_bytes + sizes.catalog_bytes,
                     " bytes in its data-dir, whose disk has too little room; free some there and "
                     "try again"));
  }
  if (!status.ok()) return status;
  const auto sender =
      std::make_shared<CopySender>(*std::move(copy), reply, std::move(held), reader_);
  {
    const std::lock_guard lock(mutex_);
    sending_.push_back(sender);
  }
  turn.reset();
  sender->Start();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<StoreCopy>> StoreUpkeep::Copy(const OnProgress& progress) {
  CALIBD_ASSIGN_OR_RETURN(const std::shared_ptr<StoreView> view, commits_.OpenView());
  return view->Copy(progress);
}

absl::Status StoreUpkeep::AdmitCopy() {
  std::shared_ptr<CopySender> slowest;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(sending_, [](const auto& sender) { return sender.expired(); });
    if (sending_.size() < kMaxCopies) return absl::OkStatus();
    for (const std::weak_ptr<CopySender>& sender : sending_) {
      if (const auto held = sender.lock();
          held != nullptr && (slowest == nullptr || held->last_taken() < slowest->last_taken())) {
        slowest = held;
      }
    }
  }
  if (slowest != nullptr) {
    if (CopySender::Clock::now() - slowest->last_taken() < kPatience) {
      return BusyError("other backups are being sent");
    }
    slowest->End(BusyError("the client did not read, and another backup needs the disk space"));
  }
  return absl::OkStatus();
}

absl::Status StoreUpkeep::Verify(const Reply<v1::VerifyResponse>& reply) {
  return Begin(reply, [this, reply](Turn& turn) -> absl::Status {
    absl::StatusOr<v1::Verification> verification =
        VerifyStore(commits_, SendProgress(reply, draining_));
    turn.reset();
    if (!verification.ok()) return verification.status();
    for (const std::string& problem : verification->problems()) {
      health_.ReportDamage(absl::DataLossError(problem));
    }
    v1::VerifyResponse response;
    *response.mutable_verification() = *std::move(verification);
    reply->SendLast(std::move(response));
    return absl::OkStatus();
  });
}

}  // namespace calibd::server
