#ifndef CALIBD_SERVER_ROWS_PRODUCER_CURSORS_H_
#define CALIBD_SERVER_ROWS_PRODUCER_CURSORS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/rows/prediction_id.h"

namespace calibd::server {

// The position of a batch in its producer's numbering.
struct ProducerPosition {
  // The id of the producer, or of a request.
  std::string producer_id;
  std::int64_t epoch = 0;
  std::int64_t sequence = 0;
  // True if the id is a request id. The batch of a request has epoch 0 and number 1.
  bool request = false;
};

// Limits of what one model remembers about its producers.
struct ProducerLimits {
  // Maximum number of producers with a complete cursor.
  std::size_t producers = 10000;
  // A producer that was not used for longer expires.
  std::chrono::microseconds idle = std::chrono::hours(24 * 30);
  // Number of expired producers that are remembered at least. A snapshot forgets older ones.
  std::size_t expired = 5000;
  // Number of requests that are remembered at least, unless they are older than request_age.
  std::size_t requests = 5000;
  std::chrono::microseconds request_age = std::chrono::hours(24);

  // Memory of expired producers and requests, in bytes. More producers are remembered if more than
  // `expired` / 16 expire between two snapshots.
  [[nodiscard]] std::size_t MaxMemory() const noexcept;
};

// The producers' cursors of one model, by which a batch counts only once, and the ids of requests
// that were counted. Not thread-safe, except for size().
//
// A producer expires when it ends, when it was idle for too long, or when there are too many
// producers and it was used least recently. An expired producer is remembered by the hash of its id
// and by its last number, so it may continue; only the hashes of single batches are lost. Expiring
// therefore changes no decision, and a replay need not repeat it. All times are those of rows of
// the log, in microseconds since 1970.
class ProducerCursors {
 public:
  // Number of the newest batches of a producer whose content hashes are kept. If one of these
  // numbers is used again for other content, this is detected.
  static constexpr std::size_t kRememberedContents = 64;
  // A producer that was used within this time does not expire to make room for others.
  static constexpr std::chrono::microseconds kLeastIdle = std::chrono::minutes(1);

  explicit ProducerCursors(const ProducerLimits& limits) : limits_(limits) {}

  // Opens a producer and fences its lower epochs. Returns the number expected next, which is 1 for
  // a new producer. Errors: Aborted if there was a higher epoch; ResourceExhausted if too many
  // producers were used within kLeastIdle.
  [[nodiscard]] absl::StatusOr<std::int64_t> Open(const std::string& producer_id,
                                                  std::int64_t epoch, std::int64_t time_us);

  enum class Standing { kNext, kSettledBefore };

  // Determines the standing of the batch without using up its number. If a producer sends all its
  // batches again from number 1, their contents are compared at the last one. Errors: Aborted
  // (fenced by a higher epoch), FailedPrecondition (a gap, which names the expected number, or a
  // producer that has ended), AlreadyExists (the number or the request id was used for other
  // content; then a new number is refused too, until the producer is opened again),
  // ResourceExhausted.
  [[nodiscard]] absl::StatusOr<Standing> Check(const ProducerPosition& position,
                                               std::uint64_t content_hash, std::int64_t time_us);
  // The same for the end of a producer after the batch `position`.
  [[nodiscard]] absl::StatusOr<Standing> CheckEnd(const ProducerPosition& position,
                                                  std::int64_t time_us);

  // Uses up the number of a batch, or the request id, whose standing is kNext.
  void Advance(const ProducerPosition& position, std::uint64_t content_hash, std::int64_t time_us);
  // Ends a producer, in a replay too: it sends no further batches.
  void End(const ProducerPosition& position, std::int64_t time_us);

  // Number of producers that have not expired. Thread-safe.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // What is known of an expired producer, or of a request.
  struct ExpiredCursor {
    std::int64_t epoch = 0;
    std::int64_t last_sequence = 0;
    // Hash of the contents of all batches, in order; 0 if it is unknown.
    std::uint64_t all_contents = 0;
    // Time at which the producer was used last.
    std::int64_t time_us = 0;
    bool ended = false;
  };
  // The cursor of one producer.
  struct Cursor : ExpiredCursor {
    // The hash of sequence number s is at index s % kRememberedContents; 0 if it is unknown.
    std::array<std::uint64_t, kRememberedContents> content_hashes{};
  };
  // Replays the position in a row of the log: a batch with this number, or, without a hash, only
  // the opening of the producer. Rows that the cursor already includes change nothing. Returns
  // false if earlier numbers are missing.
  [[nodiscard]] bool Replay(const ProducerPosition& position,
                            std::optional<std::uint64_t> content_hash, std::int64_t time_us);

  // A row of the store's table of cursors.
  struct StoredForm {
    std::int64_t epoch = 0;
    std::int64_t last_sequence = 0;
    std::string contents;
  };
  // Visits the keys of the rows that have changed since they were stored, with the new row; unset
  // for a row to be deleted.
  template <typename Visit>
  void VisitChanged(const Visit& visit) const {
    for (const std::string& key : changed_) visit(key, FindStored(key));
  }
  // Marks all rows as stored, together with a snapshot of all rows of the log before time_us. These
  // are not replayed any more, so producers that were not used since may be forgotten.
  void SetStored(std::int64_t time_us);
  // Restores a stored row. Returns false if the row is invalid.
  [[nodiscard]] bool Restore(std::string_view key, const StoredForm& stored);

  // Unset for an unknown producer. The cursor of an expired producer has no content hashes.
  [[nodiscard]] std::optional<Cursor> Get(const std::string& producer_id) const;
  // Restores the result of Get; unset: forgets the producer.
  void Set(const std::string& producer_id, const std::optional<Cursor>& cursor);
  // Undoes Advance.
  void ForgetRequest(const std::string& request_id);

 private:
  struct Known {
    Cursor cursor;
    // The batches from number 1 on that are being sent again: the last one and the hash of all.
    std::int64_t resent = 0;
    std::uint64_t resent_contents = 0;
    // True if a number was used for other content since the producer was opened.
    bool conflicting = false;
  };
  using Expired = absl::flat_hash_map<PredictionId, ExpiredCursor>;

  // Returns the cursor of a producer, which is in use from now on. Errors: ResourceExhausted.
  [[nodiscard]] absl::StatusOr<Known*> Use(const std::string& producer_id, std::int64_t time_us);
  // The same without a limit.
  Known& Add(const std::string& producer_id);
  // Expires idle producers. Errors: ResourceExhausted if there is no room for one more.
  [[nodiscard]] absl::Status MakeRoom(std::int64_t time_us);
  void Expire(const std::string& producer_id);
  // Removes the oldest entries that were not used since time_us, if there are more than a sixteenth
  // above `least`.
  void Trim(Expired& entries, std::size_t least, std::int64_t time_us, char prefix);
  [[nodiscard]] absl::StatusOr<Standing> CheckRequest(const std::string& request_id,
                                                      std::uint64_t content_hash,
                                                      std::int64_t time_us) const;
  // Returns false if a batch that was settled before has other content now.
  [[nodiscard]] static bool IsSame(Known& known, std::int64_t sequence, std::uint64_t content_hash);
  [[nodiscard]] std::optional<StoredForm> FindStored(const std::string& key) const;

  const ProducerLimits limits_;
  std::unordered_map<std::string, Known> cursors_;
  std::atomic<std::size_t> size_ = 0;
  // By the hashes of the ids.
  Expired expired_;
  Expired requests_;
  // The times from which idle producers, and producers that may expire to make room, are looked up
  // again.
  std::int64_t next_expiry_us_ = 0;
  std::int64_t next_room_us_ = 0;
  // The keys of rows that differ from the stored ones.
  std::unordered_set<std::string> changed_;
};

// The key of a row of the store's table of cursors.
struct CursorKey {
  enum class Kind { kProducer, kExpired, kRequest };
  Kind kind = Kind::kProducer;
  // The hash of the id of the producer or request.
  PredictionId hash;
};
// Unset if the key is invalid.
[[nodiscard]] std::optional<CursorKey> ParseCursorKey(std::string_view key);

// The rest of a cursor in the form of the store: see FORMAT.md.
[[nodiscard]] std::string EncodeContents(const ProducerCursors::ExpiredCursor& cursor);
[[nodiscard]] std::string EncodeContents(const ProducerCursors::Cursor& cursor);
// Returns false if `contents` is invalid.
[[nodiscard]] bool DecodeContents(std::string_view contents, ProducerCursors::Cursor& cursor);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_ROWS_PRODUCER_CURSORS_H_
