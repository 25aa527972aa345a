#include "server/api/copy_sender.h"

#include <cstddef>
#include <new>
#include <utility>

namespace calibd::server {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{256} << 10;

}  // namespace

CopySender::CopySender(std::unique_ptr<StoreCopy> copy, Reply<v1::BackupResponse> stream,
                       ThreadPool& readers)
    : copy_(std::move(copy)),
      stream_(std::move(stream)),
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

}  // namespace calibd::server
