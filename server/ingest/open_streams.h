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

// The observation streams that are open, so that they can be ended from outside:
// by the deletion of their model, by a newer epoch of their producer, by the
// drain. Thread-safe.
class OpenStreams {
 public:
  // Ends a stream with an error, from any thread. Must not call back into here.
  using End = std::function<void(const absl::Status&)>;

  explicit OpenStreams(std::size_t max_streams) : max_streams_(max_streams) {}

  // Counts a stream that has just begun. Returns its number.
  // Errors: Unavailable while draining; ResourceExhausted.
  [[nodiscard]] absl::StatusOr<std::int64_t> Add(End end);
  // Sets the purpose of the stream. Call it before the producer is opened.
  void Identify(std::int64_t stream, const std::shared_ptr<Model>& model,
                const std::string& producer_id, std::int64_t epoch);
  void Remove(std::int64_t stream);

  void EndStreamsOf(const Model& model, const absl::Status& status);
  // Ends the streams of lower epochs of a producer.
  void Fence(const Model& model, const std::string& producer_id, std::int64_t epoch);
  // Ends all, and lets no more in.
  void Drain();

  [[nodiscard]] std::size_t count() const;

 private:
  struct Stream {
    End end;
    // Only compared, so that a stream that is ending keeps no model alive.
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
