#ifndef CALIBD_SERVER_INGEST_OPEN_STREAMS_H_
#define CALIBD_SERVER_INGEST_OPEN_STREAMS_H_

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

  explicit OpenStreams(std::size_t max_streams) : max_streams_(max_streams) {}

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

 private:
  struct Stream {
    End end;
    // Only compared, so that a stream that is ending does not keep its model alive.
    const Model* model = nullptr;
    std::string producer_id;
    std::int64_t epoch = 0;
  };

  void EndWhere(const std::function<bool(const Stream&)>& condition, const absl::Status& status);

  const std::size_t max_streams_;
  mutable std::mutex mutex_;
  bool draining_ = false;                   // guarded by mutex_
  std::int64_t next_stream_ = 1;            // guarded by mutex_
  std::map<std::int64_t, Stream> streams_;  // guarded by mutex_
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_OPEN_STREAMS_H_
