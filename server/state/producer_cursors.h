#ifndef CALIBD_SERVER_STATE_PRODUCER_CURSORS_H_
#define CALIBD_SERVER_STATE_PRODUCER_CURSORS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"

namespace calibd::server {

// The position of a batch in its producer's numbering.
struct ProducerPosition {
  std::string producer_id;
  std::int64_t epoch = 0;
  std::int64_t sequence = 0;
};

// The producers' cursors of one model, by which a batch counts only once. Not thread-safe.
class ProducerCursors {
 public:
  // Number of the newest batches of a producer whose content hashes are kept. If one of these
  // numbers is used again for other content, this is detected.
  static constexpr std::size_t kRememberedContents = 64;

  explicit ProducerCursors(std::size_t max_producers) : max_producers_(max_producers) {}

  // Opens a producer and fences its lower epochs. Returns the number expected next, which is 1 for
  // a new producer. Errors: Aborted if there was a higher epoch; ResourceExhausted if there are too
  // many producers.
  [[nodiscard]] absl::StatusOr<std::int64_t> Open(const std::string& producer_id,
                                                  std::int64_t epoch);

  enum class Standing { kNext, kSettledBefore };

  // Determines the standing of the batch without changing anything. The producer must be open.
  // Errors: Aborted (fenced by a higher epoch), FailedPrecondition (a gap; names the expected
  // number), AlreadyExists (the number was used for other content).
  [[nodiscard]] absl::StatusOr<Standing> Check(const ProducerPosition& position,
                                               std::uint64_t content_hash) const;

  // Uses up the number of a batch whose standing is kNext.
  void Advance(const ProducerPosition& position, std::uint64_t content_hash) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return cursors_.size(); }

  // The cursor of one producer.
  struct Cursor {
    std::int64_t epoch = 0;
    std::int64_t last_sequence = 0;
    // The hash of sequence number s is at index s % kRememberedContents.
    std::array<std::uint64_t, kRememberedContents> content_hashes{};
  };
  // Replays the position in a row of the log: a batch with this number, or, without a hash, only
  // the opening of the producer. Rows that the cursor already includes change nothing. Returns
  // false if earlier numbers are missing.
  [[nodiscard]] bool Replay(const ProducerPosition& position,
                            std::optional<std::uint64_t> content_hash);

  // Visits the cursors that have advanced since they were stored.
  template <typename Visit>
  void VisitMoved(const Visit& visit) const {
    for (const auto& [producer_id, known] : cursors_) {
      if (known.moved) visit(producer_id, known.cursor);
    }
  }
  // Marks all cursors as stored.
  void SetStored() noexcept;

  // Unset for an unknown producer.
  [[nodiscard]] std::optional<Cursor> Get(const std::string& producer_id) const;
  // Restores the result of Get; unset: forgets the producer.
  void Set(const std::string& producer_id, const std::optional<Cursor>& cursor);

 private:
  struct Known {
    Cursor cursor;
    // True if the cursor has advanced since it was stored.
    bool moved = false;
  };

  const std::size_t max_producers_;
  std::unordered_map<std::string, Known> cursors_;
};

// The content hashes of a cursor in the form of the store: little-endian, 8 bytes each.
[[nodiscard]] std::string EncodeContents(const ProducerCursors::Cursor& cursor);
// Returns false if `contents` is invalid.
[[nodiscard]] bool DecodeContents(std::string_view contents, ProducerCursors::Cursor& cursor);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_PRODUCER_CURSORS_H_
