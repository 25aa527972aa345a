#ifndef CALIBD_SERVER_STATE_ROW_SCREEN_H_
#define CALIBD_SERVER_STATE_ROW_SCREEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "calibd/core/prediction_batch.h"

namespace calibd::server {

// Statistics of the newest rows, for warnings: the number of repeated rows among as many rows as
// the window holds, at most kMostRows; and the number of decimal digits of the probabilities of at
// most kMostDigitRows rows. A start screens the rows of the window again, and no earlier ones. Not
// thread-safe.
class RowScreen {
 public:
  // Numbers of decimal digits from 1 to this one are detected.
  static constexpr std::size_t kMostDigits = 6;
  // Rows with at most this many digits may be equal by chance. With two classes more digits are
  // needed, because one probability determines the other.
  static constexpr std::size_t kFewDigits = 4;
  static constexpr std::size_t kFewDigitsOfTwoClasses = kMostDigits;
  static constexpr std::size_t kMostRows = 65536;
  // Smaller than kMostRows, so that a change of the number of digits is noticed soon.
  static constexpr std::size_t kMostDigitRows = 2048;

  struct Counts {
    std::int64_t rows = 0;
    // Number of rows with more than kFewDigits digits that equal an earlier one of the screened
    // rows, including the label.
    std::int64_t duplicates = 0;
    // Among the newest `digit_rows` rows: the number of rows whose probabilities have at most 1, 2,
    // ..., 6 digits, and the number whose probabilities are all 0 or 1.
    std::int64_t digit_rows = 0;
    std::array<std::int64_t, kMostDigits> at_most_digits{};
    std::int64_t hard = 0;
  };

  // window: the length of the model's window, >= 1. May throw bad_alloc.
  explicit RowScreen(std::size_t window);
  RowScreen(const RowScreen&) = delete;
  RowScreen& operator=(const RowScreen&) = delete;

  // batch: valid. Cost: O(m) per row; allocates no memory.
  void Add(const PredictionBatch& batch) noexcept;
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  [[nodiscard]] static std::size_t MaxMemory(std::size_t window) noexcept;

 private:
  struct Row {
    // 60 bits.
    std::uint64_t hash : 60 = 0;
    // kMostDigits + 1: more digits; 0: all probabilities are 0 or 1.
    std::uint64_t digits : 3 = 0;
    std::uint64_t duplicate : 1 = 0;
  };

  // places_ holds indices into rows_; both functors compare the hashes of these rows.
  struct PlaceHash {
    using is_transparent = void;
    const Row* rows;
    std::size_t operator()(std::uint64_t hash) const { return absl::HashOf(hash); }
    std::size_t operator()(std::uint32_t place) const {
      return (*this)(std::uint64_t{rows[place].hash});
    }
  };
  struct PlaceEqual {
    using is_transparent = void;
    const Row* rows;
    bool operator()(std::uint32_t place, std::uint64_t hash) const {
      return rows[place].hash == hash;
    }
    bool operator()(std::uint32_t a, std::uint32_t b) const { return (*this)(a, rows[b].hash); }
  };

  void CountDigits(const Row& row, std::int64_t sign) noexcept;

  // A ring buffer: once it is full, the oldest row is at next_.
  std::vector<Row> rows_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;
  // For each distinct hash, the index in rows_ of the newest row that has it.
  absl::flat_hash_set<std::uint32_t, PlaceHash, PlaceEqual> places_;
  Counts counts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_ROW_SCREEN_H_
