#include "server/rpc/store_service.h"

#include <xxhash.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "server/errors.h"
#include "server/ingest/verification.h"
#include "server/rpc/blocking_writer.h"
#include "server/rpc/status_mapping.h"
#include "server/store/backup.h"

namespace calibd::server {
namespace {

constexpr int kNiceness = 10;
constexpr std::chrono::milliseconds kUpkeepRetryDelay{5000};
constexpr std::chrono::milliseconds kProgressInterval{200};
constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

// Writes progress now and then. False when nobody waits for the rest.
template <typename Response>
class ProgressWriter {
 public:
  ProgressWriter(BlockingWriter<Response>& writer, const std::atomic<bool>& draining)
      : writer_(writer), draining_(draining) {}

  bool operator()(double fraction) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_) {
      return !draining_ && writer_.wanted();
    }
    next_ = now + kProgressInterval;
    Response response;
    response.mutable_progress()->set_fraction(fraction);
    // The database is being read: nothing waits for the client meanwhile.
    return !draining_ && writer_.Offer(std::move(response));
  }

 private:
  BlockingWriter<Response>& writer_;
  const std::atomic<bool>& draining_;
  std::chrono::steady_clock::time_point next_;
};

// Sends a file and then what it was.
absl::Status SendFile(const std::string& path, const std::atomic<bool>& draining,
                      BlockingWriter<v1::BackupResponse>& writer) {
  std::ifstream file(path, std::ios::binary);
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash(XXH3_createState(), XXH3_freeState);
  XXH3_64bits_reset(hash.get());
  std::vector<char> chunk(kChunkBytes);
  std::int64_t size = 0;
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())), file.gcount() > 0) {
    const auto count = static_cast<std::size_t>(file.gcount());
    XXH3_64bits_update(hash.get(), chunk.data(), count);
    size += file.gcount();
    v1::BackupResponse response;
    response.set_data(chunk.data(), count);
    if (draining) {
      return DrainingError();
    }
    if (!writer.Write(std::move(response))) {
      return absl::CancelledError("the client is gone");
    }
  }
  if (!file.eof()) {
    return MakeError(absl::StatusCode::kUnavailable, "STORE_FAILED", "the copy cannot be read");
  }
  v1::BackupResponse response;
  response.mutable_complete()->set_size_bytes(size);
  response.mutable_complete()->set_hash(XXH3_64bits_digest(hash.get()));
  writer.Write(std::move(response));
  return absl::OkStatus();
}

}  // namespace

StoreServiceImpl::StoreServiceImpl(const ModelRegistry& registry, std::string folder,
                                   CommitQueue& commits)
    : registry_(registry),
      folder_(std::move(folder)),
      commits_(commits),
      thread_("calibd-upkeep", 1, kNiceness) {
  std::error_code error;
  for (const char* suffix : {"", "-journal", "-wal", "-shm"}) {
    std::filesystem::remove(folder_ + "/backup.tmp" + suffix, error);
  }
}

template <typename Response, typename Work>
grpc::ServerWriteReactor<Response>* StoreServiceImpl::Begin(const Work& work) {
  const auto writer = BlockingWriter<Response>::Make();
  const absl::Status restored = registry_.CheckRestored();
  if (draining_) {
    writer->End(DrainingError());
  } else if (!restored.ok()) {
    writer->End(restored);
  } else if (busy_.exchange(true)) {
    writer->End(WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "STORE_BUSY",
                                         "another backup or verification runs"),
                               kUpkeepRetryDelay));
  } else {
    thread_.Post([this, writer, work] {
      absl::Status status = CatchExceptions([&] { return work(*writer); });
      if (absl::IsCancelled(status) && draining_) {
        status = DrainingError();
      }
      busy_ = false;
      writer->End(status);
    });
  }
  return writer.get();
}

grpc::ServerWriteReactor<v1::BackupResponse>* StoreServiceImpl::Backup(
    grpc::CallbackServerContext* /*context*/, const v1::BackupRequest* /*request*/) {
  return Begin<v1::BackupResponse>([this](BlockingWriter<v1::BackupResponse>& writer) {
    const std::string copy = folder_ + "/backup.tmp";
    absl::Status status = CopyStore(database(), commits_, copy, ProgressWriter(writer, draining_));
    if (status.ok()) {
      status = SendFile(copy, draining_, writer);
      std::error_code error;
      std::filesystem::remove(copy, error);
    }
    return status;
  });
}

grpc::ServerWriteReactor<v1::VerifyResponse>* StoreServiceImpl::Verify(
    grpc::CallbackServerContext* /*context*/, const v1::VerifyRequest* /*request*/) {
  return Begin<v1::VerifyResponse>([this](BlockingWriter<v1::VerifyResponse>& writer) {
    absl::StatusOr<v1::Verification> verification =
        VerifyStore(database(), commits_, ProgressWriter(writer, draining_));
    if (!verification.ok()) {
      return verification.status();
    }
    v1::VerifyResponse response;
    *response.mutable_verification() = *std::move(verification);
    writer.Write(std::move(response));
    return absl::OkStatus();
  });
}

}  // namespace calibd::server
