#include "server/rpc/store_service.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/ingest/verification.h"
#include "server/rpc/progress_sender.h"
#include "server/store/backup.h"

namespace calibd::server {
namespace {

constexpr int kNiceness = 10;
// Finished copies on disk.
constexpr std::size_t kMaxCopies = 2;
constexpr std::chrono::seconds kUpkeepRetryDelay{5};
// A copy whose client took nothing for so long makes room for another one.
constexpr std::chrono::seconds kPatience{5};

absl::Status BusyError(const char* message) {
  return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "STORE_BUSY", message),
                        kUpkeepRetryDelay);
}

// Sends the progress of a computation, and returns whether anybody waits for its result.
template <typename Response>
std::function<bool(double)> Progress(const std::shared_ptr<ResponseStream<Response>>& stream,
                                     const std::atomic<bool>& draining) {
  return [stream, &draining, sender = ProgressSender<Response>(stream)](double fraction) mutable {
    sender(fraction);
    return !draining && !stream->ended();
  };
}

}  // namespace

StoreServiceImpl::StoreServiceImpl(CallMemory& memory, const ModelRegistry& registry,
                                   std::string folder, CommitQueue& commits,
                                   std::function<void(const absl::Status&)> on_damage)
    : memory_(memory),
      registry_(registry),
      folder_(std::move(folder)),
      commits_(commits),
      on_damage_(std::move(on_damage)),
      computer_("calibd-upkeep", 1, kNiceness),
      reader_("calibd-copies", 1, kNiceness) {
  std::error_code error;
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    std::filesystem::remove(copy() + suffix, error);
  }
}

template <typename Response>
absl::Status StoreServiceImpl::Begin(const std::shared_ptr<ResponseStream<Response>>& stream,
                                     std::function<absl::Status(Turn&)> work) {
  if (draining_) {
    return DrainingError();
  }
  if (absl::Status restored = registry_.CheckRestored(); !restored.ok()) {
    return restored;
  }
  if (busy_.exchange(true)) {
    return BusyError("another backup or verification runs");
  }
  Turn turn(this, [this](void* /*service*/) { busy_ = false; });
  computer_.Post([this, stream, work = std::move(work), turn = std::move(turn)]() mutable {
    stream->Guard(Stage::kAnswer, [&] {
      absl::Status status = work(turn);
      // The client may call again as soon as it has the error.
      turn.reset();
      return absl::IsCancelled(status) && draining_ ? DrainingError() : status;
    });
  });
  return absl::OkStatus();
}

grpc::ServerWriteReactor<v1::BackupResponse>* StoreServiceImpl::Backup(
    grpc::CallbackServerContext* context, const v1::BackupRequest* request) {
  return ServeStream<v1::BackupResponse>(
      "Backup", memory_, *context, *request, [&](const auto& stream) {
        return Begin(stream, [this, stream](Turn& turn) { return MakeCopy(stream, turn); });
      });
}

absl::Status StoreServiceImpl::MakeCopy(const std::shared_ptr<CopySender::Stream>& stream,
                                        Turn& turn) {
  if (absl::Status status = AdmitCopy(); !status.ok()) {
    return status;
  }
  absl::Status status = CopyStore(database(), commits_, copy(), Progress(stream, draining_));
  if (absl::IsDataLoss(status)) {
    on_damage_(status);
  }
  if (absl::IsResourceExhausted(status)) {
    const CommitQueue::Statistics used = commits_.statistics();
    return WithClientMessage(
        std::move(status),
        absl::StrCat("the backup was not made: the server first makes a copy of at most ",
                     used.log_bytes + used.database_bytes,
                     " bytes in its data-dir, whose disk has too little room; free some there and "
                     "try again"));
  }
  if (!status.ok()) {
    return status;
  }
  absl::StatusOr<File> file = File::Open(copy(), O_RDONLY | O_CLOEXEC, "send a backup");
  // Without a name, the copy is gone when the call ends, and with the process.
  std::error_code error;
  std::filesystem::remove(copy(), error);
  if (!file.ok() || error) {
    return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", "the copy cannot be read");
  }
  const auto sender = std::make_shared<CopySender>(*std::move(file), stream, reader_);
  {
    const std::lock_guard lock(mutex_);
    sending_.push_back(sender);
  }
  turn.reset();
  sender->Start();
  return absl::OkStatus();
}

absl::Status StoreServiceImpl::AdmitCopy() {
  std::shared_ptr<CopySender> slowest;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(sending_, [](const auto& sender) { return sender.expired(); });
    if (sending_.size() < kMaxCopies) {
      return absl::OkStatus();
    }
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
    slowest->End(BusyError("the client did not read, and another backup needs the room"));
  }
  return absl::OkStatus();
}

grpc::ServerWriteReactor<v1::VerifyResponse>* StoreServiceImpl::Verify(
    grpc::CallbackServerContext* context, const v1::VerifyRequest* request) {
  return ServeStream<v1::VerifyResponse>(
      "Verify", memory_, *context, *request, [&](const auto& stream) {
        return Begin(stream, [this, stream](Turn& turn) -> absl::Status {
          absl::StatusOr<v1::Verification> verification =
              VerifyStore(database(), commits_, Progress(stream, draining_));
          turn.reset();
          if (!verification.ok()) {
            return verification.status();
          }
          for (const std::string& problem : verification->problems()) {
            on_damage_(absl::DataLossError(problem));
          }
          v1::VerifyResponse response;
          *response.mutable_verification() = *std::move(verification);
          stream->SendLast(std::move(response));
          return absl::OkStatus();
        });
      });
}

}  // namespace calibd::server
