#ifndef CALIBD_SERVER_STATE_ROW_SCREEN_H_
#define CALIBD_SERVER_STATE_ROW_SCREEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "calibd/core/prediction_batch.h"

namespace calibd::server {

// What the newest rows look like, for warnings: rows that are equal, and probabilities that were
// printed with few digits. Of no more rows than the window holds, so that a start screens them
// again. Not thread-safe.
class RowScreen {
 public:
  // Decimal digits 1, 2, ..., 6 are looked for.
  static constexpr std::size_t kMostDigits = 6;
  // Rows with so few may well be equal by chance.
  static constexpr std::size_t kFewDigits = 4;

  struct Counts {
    std::int64_t rows = 0;
    // Rows with more than kFewDigits digits that are equal, label and all, to an earlier one.
    std::int64_t duplicates = 0;
    // Rows whose probabilities have at most 1, 2, ... digits, and those of them that are all 0 and
    // 1.
    std::array<std::int64_t, kMostDigits> at_most_digits{};
    std::int64_t hard = 0;
  };

  // window: of the model, >= 1. May throw bad_alloc.
  explicit RowScreen(std::size_t window);

  // batch: valid. Cost: O(m) a row; takes no memory.
  void Add(const PredictionBatch& batch) noexcept;
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  [[nodiscard]] static std::size_t MaxMemory(std::size_t window) noexcept;

 private:
  struct Row {
    std::uint64_t hash = 0;
    // kMostDigits + 1: more; 0: all are 0 or 1.
    std::uint8_t digits = 0;
    bool duplicate = false;
  };

  void Count(const Row& row, std::int64_t sign) noexcept;

  // A ring: the oldest is at next_ once it is full.
  std::vector<Row> rows_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;
  // How many of the rows have the hash.
  absl::flat_hash_map<std::uint64_t, std::uint32_t> hashes_;
  Counts counts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_ROW_SCREEN_H_
