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
    // Among the newest `digit_rows` rows: the number of rows whose probabilities have at most 1, 2,
    // ..., 6 digits, and the number whose probabilities are all 0 or 1.
    std::int64_t digit_rows = 0;
    std::array<std::int64_t, kMostDigits> at_most_digits{};
    std::int64_t hard = 0;
  };

  // window: of the model, >= 1. May throw bad_alloc.
  explicit RowScreen(std::size_t window);
  RowScreen(const RowScreen&) = delete;
  RowScreen& operator=(const RowScreen&) = delete;

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

  // places_ holds indices into rows_; both functors look at the hash of the row there.
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

  // A ring: the oldest is at next_ once it is full.
  std::vector<Row> rows_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;
  // For each distinct hash, the index in rows_ of the newest row that has it.
  absl::flat_hash_set<std::uint32_t, PlaceHash, PlaceEqual> places_;
  Counts counts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_ROW_SCREEN_H_
