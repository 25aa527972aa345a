#include "server/ingest/open_streams.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::chrono::seconds kRetryDelay{1};

}  // namespace

absl::StatusOr<std::int64_t> OpenStreams::Add(End end) {
  const std::lock_guard lock(mutex_);
  if (draining_) return DrainingError();
  if (streams_.size() >= max_streams_) {
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                  absl::StrCat("there are ", streams_.size(),
                               " open observation streams, the limit (max-ingest-streams): close "
                               "unused ones, or try again when one has ended")),
        kRetryDelay);
  }
  const std::int64_t stream = next_stream_++;
  streams_[stream].end = std::move(end);
  return stream;
}

void OpenStreams::Identify(std::int64_t stream, const std::shared_ptr<Model>& model,
                           const std::string& producer_id, std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(stream);
  if (found != streams_.end()) {
    found->second.model = model.get();
    found->second.producer_id = producer_id;
    found->second.epoch = epoch;
  }
}

void OpenStreams::Remove(std::int64_t stream) {
  const std::lock_guard lock(mutex_);
  streams_.erase(stream);
}

void OpenStreams::EndStreamsOf(const Model& model, const absl::Status& status) {
  EndWhere([&model](const Stream& stream) { return stream.model == &model; }, status);
}

void OpenStreams::Fence(const Model& model, const std::string& producer_id, std::int64_t epoch) {
  EndWhere(
      [&](const Stream& stream) {
        return stream.model == &model && stream.producer_id == producer_id && stream.epoch < epoch;
      },
      MakeError(absl::StatusCode::kAborted, "FENCED",
                absl::StrCat("producer ", Quoted(producer_id), " was fenced by epoch ", epoch)));
}

void OpenStreams::Drain() {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
  }
  EndWhere([](const Stream&) { return true; }, DrainingError());
}

std::size_t OpenStreams::count() const {
  const std::lock_guard lock(mutex_);
  return streams_.size();
}

void OpenStreams::EndWhere(const std::function<bool(const Stream&)>& condition,
                           const absl::Status& status) {
  std::vector<End> ends;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, stream] : streams_) {
      if (condition(stream)) ends.push_back(stream.end);
    }
  }
  // Without the lock: a stream that ends removes itself.
  for (const End& end : ends) end(status);
}

}  // namespace calibd::server
