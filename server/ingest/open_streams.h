#ifndef CALIBD_SERVER_INGEST_OPEN_STREAMS_H_
#define CALIBD_SERVER_INGEST_OPEN_STREAMS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/state/model.h"

namespace calibd::server {

// The open observation streams, so that other events can end them: the deletion of their model, a
// newer epoch of their producer, or the drain. Thread-safe.
class OpenStreams {
 public:
  // Ends a stream with an error, on any thread. Must not call functions of OpenStreams.
  using End = std::function<void(const absl::Status&)>;

  // cpus: number of CPUs that serve the streams.
  OpenStreams(std::size_t max_streams, std::size_t cpus)
      : max_streams_(max_streams),
        most_unsettled_(kReadAheadPerCpu * static_cast<std::int64_t>(cpus)) {}

  // Adds a new stream and returns its number. Errors: Unavailable while draining;
  // ResourceExhausted.
  [[nodiscard]] absl::StatusOr<std::int64_t> Add(End end);
  // Sets the model and the producer of the stream. Call it before the producer is opened.
  void Identify(std::int64_t stream, const std::shared_ptr<Model>& model,
                const std::string& producer_id, std::int64_t epoch);
  void Remove(std::int64_t stream);

  void EndStreamsOf(const Model& model, const absl::Status& status);
  // Ends the streams of lower epochs of a producer.
  void Fence(const Model& model, const std::string& producer_id, std::int64_t epoch);
  // Ends all streams and accepts no new ones.
  void Drain();

  [[nodiscard]] std::size_t count() const;

  // A stream reports each batch that it has read, and each one that is settled.
  void BatchRead() noexcept { ++unsettled_; }
  void BatchSettled() noexcept { --unsettled_; }
  // Whether a stream with this number of unsettled batches may read a message. Every stream may
  // have a few, and those that have more share the rest: a batch of a quiet model waits on its way
  // behind those that were read before. A stream that may not read asks again when one of its
  // batches is settled.
  [[nodiscard]] bool MayRead(std::int64_t unsettled) const noexcept {
    return unsettled < kLeastReadAhead || unsettled_ < most_unsettled_;
  }

 private:
  struct Stream {
    End end;
    // Only compared, so that a stream that is ending does not keep its model alive.
    const Model* model = nullptr;
    std::string producer_id;
    std::int64_t epoch = 0;
  };

  void EndWhere(const std::function<bool(const Stream&)>& condition, const absl::Status& status);

  static constexpr std::int64_t kLeastReadAhead = 8;
  // A CPU takes at least 10 ms for so many batches, which is longer than most commits. With fewer,
  // a commit has fewer batches, so that each of them costs more.
  static constexpr std::int64_t kReadAheadPerCpu = 512;

  const std::size_t max_streams_;
  const std::int64_t most_unsettled_;
  std::atomic<std::int64_t> unsettled_ = 0;
  mutable std::mutex mutex_;
  bool draining_ = false;                   // guarded by mutex_
  std::int64_t next_stream_ = 1;            // guarded by mutex_
  std::map<std::int64_t, Stream> streams_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_OPEN_STREAMS_H_
