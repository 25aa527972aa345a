#ifndef CALIBD_SERVER_STATE_ROW_SCREEN_H_
#define CALIBD_SERVER_STATE_ROW_SCREEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/core/prediction_batch.h"

namespace calibd::server {

// What the newest rows look like, for warnings: rows that are equal, of as many as the window holds
// and at most kMostRows; and probabilities that were printed with few digits, of at most
// kMostDigitRows of these. A start screens the window again, and knows of no row before it. Not
// thread-safe.
class RowScreen {
 public:
  // Decimal digits 1, 2, ..., 6 are looked for.
  static constexpr std::size_t kMostDigits = 6;
  // Rows with so few may well be equal by chance; of two classes sooner, as one number says both.
  static constexpr std::size_t kFewDigits = 4;
  static constexpr std::size_t kFewDigitsOfTwoClasses = kMostDigits;
  static constexpr std::size_t kMostRows = 65536;
  // Fewer, as what is printed otherwise is to be noticed soon.
  static constexpr std::size_t kMostDigitRows = 2048;

  struct Counts {
    std::int64_t rows = 0;
    // Rows with more than so few digits that are equal, label and all, to one of as many rows
    // before it as are screened.
    std::int64_t duplicates = 0;
    // Of the newest `digit_rows`: those whose probabilities have at most 1, 2, ... digits, and
    // those of them that are all 0 and 1.
    std::int64_t digit_rows = 0;
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
    // 60 bits.
    std::uint64_t hash : 60 = 0;
    // kMostDigits + 1: more; 0: all are 0 or 1.
    std::uint64_t digits : 3 = 0;
    std::uint64_t duplicate : 1 = 0;
  };

  void CountDigits(const Row& row, std::int64_t sign) noexcept;
  // Where the table has the row with this hash, or where it would have it.
  [[nodiscard]] std::size_t Find(std::uint64_t hash) const noexcept;
  void Erase(std::size_t slot) noexcept;

  // A ring: the oldest is at next_ once it is full.
  std::vector<Row> rows_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;
  // By hash, from the slot of its low bits on to the next that is free: one more than the place in
  // rows_ of the newest row with it, or 0. A power of two of them, of which at most half are used.
  std::vector<std::uint32_t> places_;
  Counts counts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_ROW_SCREEN_H_
