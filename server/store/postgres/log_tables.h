#ifndef CALIBD_SERVER_STORE_POSTGRES_LOG_TABLES_H_
#define CALIBD_SERVER_STORE_POSTGRES_LOG_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"

namespace calibd::server {

// Knows which batches of the log are needed, and in which of the four tables they are. The log
// consists of generations, of which generation g is in table g % 4. New batches go to the newest
// one. A table is used again when no batch in it is needed: needed ones of old generations are
// copied to the newest before.
class LogTables {
 public:
  static constexpr std::int64_t kTables = 4;

  // least_bytes: a generation gets at least as many bytes of new batches.
  explicit LogTables(std::int64_t least_bytes) : least_bytes_(least_bytes) {}

  // ---- The start

  // The log begins with generation `first`. Returns false if there are too many generations.
  [[nodiscard]] bool Begin(std::int64_t first, std::int64_t newest);
  // Adds a batch that was read, in the order of the ids. Returns false if the batch is known: it
  // was copied, and the copy is the one of the higher generation.
  bool AddRead(std::int64_t table, std::int64_t log_id, std::size_t bytes);

  // ---- Later

  void AddAppended(std::int64_t log_id, std::size_t bytes);
  void MarkUnneeded(std::span<const std::int64_t> log_ids);

  struct Place {
    std::int64_t table = 0;
    std::size_t bytes = 0;
  };
  // The place of a needed batch.
  [[nodiscard]] std::optional<Place> Find(std::int64_t log_id) const;

  [[nodiscard]] std::int64_t first() const noexcept { return first_; }
  [[nodiscard]] std::int64_t newest() const noexcept { return newest_; }
  [[nodiscard]] static std::int64_t TableOf(std::int64_t generation) noexcept {
    return generation % kTables;
  }

  // Whether the newest generation is so large that another one should begin: it has as many new
  // bytes as half of the needed batches. So less is copied than is written.
  [[nodiscard]] bool IsRotationDue() const noexcept;
  // How many times as large as that the newest generation is.
  [[nodiscard]] double fill() const noexcept;
  // Whether the table of the next generation has no needed batch.
  [[nodiscard]] bool IsNextFree() const noexcept { return newest_ + 1 - first_ < kTables; }
  // A new generation has begun, in a table that was emptied.
  void Rotate(std::int64_t newest);

  // Whether the first generation is so old that its needed batches should be copied.
  [[nodiscard]] bool IsCopyDue() const noexcept { return first_ + 1 < newest_; }
  // Needed batches of the first generation, until they have this many bytes. Empty if there are
  // none.
  [[nodiscard]] std::vector<std::int64_t> NextToCopy(std::size_t most_bytes) const;
  // These batches are in the newest generation now.
  void MoveToNewest(std::span<const std::int64_t> log_ids);
  // The first generation is not read any more. Requires that it has no needed batch.
  void RaiseFirst();

  // The bytes of all batches in the tables, needed or not.
  [[nodiscard]] std::int64_t bytes() const noexcept;

 private:
  using Batches = absl::btree_map<std::int64_t, std::uint32_t>;
  static std::size_t Index(std::int64_t generation) {
    return static_cast<std::size_t>(TableOf(generation));
  }

  const std::int64_t least_bytes_;
  std::int64_t first_ = 0;
  std::int64_t newest_ = 0;
  // By table: its needed batches with their bytes.
  std::array<Batches, kTables> needed_;
  std::array<std::int64_t, kTables> bytes_{};
  std::int64_t needed_bytes_ = 0;
  // The bytes of the newest generation that are not copies.
  std::int64_t new_bytes_ = 0;
  // The newest batch that was read.
  std::int64_t last_read_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STORE_POSTGRES_LOG_TABLES_H_
