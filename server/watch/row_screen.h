#ifndef CALIBD_SERVER_WATCH_ROW_SCREEN_H_
#define CALIBD_SERVER_WATCH_ROW_SCREEN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "calibd/core/forecast_cells.h"
#include "calibd/core/prediction_batch.h"

namespace calibd::server {

// Statistics of the newest rows, for warnings: repeated rows among as many rows as the window
// holds, at most kMostRows; and of at most kMostDigitRows rows, the number of decimal digits of
// probabilities, or repeated outcomes of forecasts of a number. A start screens the rows of the
// window again, and no earlier ones. Not thread-safe.
class RowScreen {
 public:
  // Numbers of decimal digits from 1 to this one are detected.
  static constexpr std::size_t kMostDigits = 6;
  static constexpr std::size_t kMostRows = 32768;
  // Smaller than kMostRows, so that a change of the number of digits is noticed soon.
  static constexpr std::size_t kMostDigitRows = 2048;
  // An outcome is a surprise if its ProbabilityOfOutcome is at most this.
  static constexpr double kSurprise = 0.01;

  // Repeats: rows whose predictions equal those of an earlier row. Each is compared with the
  // newest earlier one. For forecasts of a number, the labels of the following comments are their
  // outcomes.
  struct Repeats {
    std::int64_t rows = 0;
    // Repeats whose labels differ, and the number that is expected if the labels are drawn from
    // the predictions, independently of each other, in units of 1/255, rounded down. Outcomes also
    // are not expected to differ if they equal the outcome of the row before, whose forecast is
    // another one: they repeat for another reason.
    std::int64_t differing = 0;
    std::int64_t expected_differing = 0;
    // Repeats with the same label, and with the same distance from the earlier row as the repeat
    // before, at least 2: equal rows of sorted data follow each other. An equal outcome counts only
    // if it is more probable that it differs.
    std::int64_t aligned = 0;

    // Equal probabilities alone are no sign of rows that were counted twice: a model may have few
    // distinct outputs, or outputs with few digits. But the labels of different rows are
    // independent of each other, and so they differ in V of the repeats on average; those of rows
    // that were counted twice never differ. Given the predictions, each repeat differs with its
    // expected probability, whatever the labels before, so that P(at most U differ) <= exp(-(V - U
    // + U log(U / V))) (Freedman, Ann. Probab. 3 (1975) 100). True if this bound is below 1e-4, and
    // U <= V / 4, which protects a model that is under-confident by up to a factor of 4. For a
    // calibrated model with independent labels, in any order of its rows, the probability is at
    // most 1e-4 at each look. For outcomes, the expectation of each is that given the repeat
    // instead of the earlier row, which is the same bound in reversed time.
    //
    // disagreement: V is multiplied by it. Labels differ so much less often, in [0, 1], than the
    // predictions say, also of rows that were counted once.
    [[nodiscard]] bool LabelsAgreeTooOften(double disagreement) const noexcept;
    // True if half of the repeats, and at least ten, follow the earlier rows in their order, as in
    // a batch that was sent twice, and U <= V / 4. If the rows come in random order, a repeat of a
    // row that occurred once is aligned with a probability of at most 2 / rows, so that at most one
    // is expected; ten occur with a probability of about 1e-7.
    [[nodiscard]] bool FollowTheOrder(double disagreement) const noexcept;
  };

  struct Counts {
    std::int64_t rows = 0;
    Repeats repeats;
    // Repeats of probabilities that at most kRare screened rows have. Only their second occurrence
    // can be aligned.
    Repeats rare_repeats;
    // Among the newest `digit_rows` rows: the number of rows whose probabilities have at most 1, 2,
    // ..., 6 digits; and the number with so many digits whose sum differs from 1 by at least half a
    // unit of the last one. Rounded probabilities of three or more classes often have such a sum;
    // exact multiples, such as the votes of a hundred trees, never.
    std::int64_t digit_rows = 0;
    std::array<std::int64_t, kMostDigits> at_most_digits{};
    std::int64_t inexact_sums = 0;
    // Among the same rows: those whose probabilities are all exactly 0 or 1, as those of a client
    // that sends predicted classes.
    std::int64_t certain_rows = 0;
    // Among the same rows: outcomes that are a surprise and equal the location of their own
    // forecast, see ForecastLocation; and those that equal the outcome of the row before, if its
    // forecast is another one. At most kSurprise of the rows of a calibrated model are expected to.
    std::int64_t outcomes_as_forecast = 0;
    std::int64_t outcomes_as_before = 0;

    // Number of rows that were probably counted twice. Either sign suffices for rare
    // probabilities. The frequent ones, such as those that were clipped, may be far from
    // calibrated, or may come in a fixed order, so that both are necessary, as with a data set that
    // is sent in a loop. Not reported: rows of a confident model that were counted twice in random
    // order, as long as V is below 9.3, and frequent probabilities in random order.
    // disagreement: see Repeats.
    [[nodiscard]] std::int64_t Duplicates(double disagreement) const noexcept;
  };

  // window: the length of the model's window, >= 1. May throw bad_alloc.
  explicit RowScreen(std::size_t window);
  RowScreen(const RowScreen&) = delete;
  RowScreen& operator=(const RowScreen&) = delete;

  // batch: valid. Cost: O(m) per row; allocates no memory.
  void Add(const PredictionBatch& batch) noexcept;
  // A screen sees either classes or numbers of one kind. Cost: O(width) per row; allocates no
  // memory.
  void Add(const NumberForecastKind& kind, const NumberForecastBatch& batch) noexcept;
  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

  [[nodiscard]] static std::size_t MaxMemory(std::size_t window) noexcept;

 private:
  static constexpr std::uint32_t kRare = 16;

  struct Row {
    // Of the prediction.
    std::uint64_t hash = 0;
    // The label, or a hash of the outcome.
    std::uint64_t label : 17 = 0;
    // Classes: the digits, and kInexactSum. kMostDigits + 1: more digits; 0: all probabilities are
    // 0 or 1. Numbers: kAsForecast and kAsBefore.
    std::uint64_t mark : 4 = 0;
    std::uint64_t repeat : 1 = 0;
    std::uint64_t rare : 1 = 0;
    std::uint64_t second : 1 = 0;
    std::uint64_t differs : 1 = 0;
    std::uint64_t aligned : 1 = 0;
    // As Repeats::expected_differing.
    std::uint64_t expected : 8 = 0;
    // Number of other screened rows with this hash; valid for the newest of them. Less than
    // kMostRows.
    std::uint64_t others : 15 = 0;
    // The index in rows_ of the newest earlier row with this hash; valid while it is screened.
    std::uint64_t earlier : 15 = 0;
  };

  static constexpr std::uint16_t kNone = 0xffff;
  static constexpr unsigned kDigits = 7;
  static constexpr unsigned kInexactSum = 8;
  static constexpr unsigned kAsForecast = 1;
  static constexpr unsigned kAsBefore = 2;

  // The place so many steps after this one, at most as many as there are rows.
  [[nodiscard]] std::size_t After(std::size_t place, std::size_t steps) const noexcept;
  [[nodiscard]] std::uint16_t& BucketOf(std::uint64_t hash) noexcept;
  // Returns the link to the newest row with this hash. The link is kNone if there is no such row.
  [[nodiscard]] std::uint16_t& Find(std::uint64_t hash) noexcept;
  // Returns a row, compared with the newest equal row, which leaves its bucket. equals(label): the
  // probability that its label equals this one of the earlier row.
  template <typename Equals>
  Row Compare(std::uint64_t hash, std::uint32_t label, const Equals& equals) noexcept;
  void Append(const Row& row) noexcept;
  void RemoveOldest() noexcept;
  // Makes the newest row with a hash, and the `others` before it, repeats of rare probabilities or
  // not.
  void SetRare(std::size_t newest, bool rare) noexcept;
  static void Count(const Row& row, bool aligned, std::int64_t sign, Repeats& repeats) noexcept;
  void CountRepeat(const Row& row, std::int64_t sign) noexcept;
  void CountRareRepeat(const Row& row, std::int64_t sign) noexcept;
  void CountMark(const Row& row, std::int64_t sign) noexcept;

  // A ring buffer: once it is full, the oldest row is at next_.
  std::vector<Row> rows_;
  std::size_t size_ = 0;
  std::size_t next_ = 0;
  // Distance of the newest repeat from its earlier row.
  std::size_t distance_ = 0;
  // A hash table with chained entries: for each distinct hash, the newest row that has it. A bucket
  // and a link contain the index in rows_ of the next row of the bucket, or kNone.
  std::vector<std::uint16_t> buckets_;
  std::vector<std::uint16_t> links_;
  Counts counts_;
  // Whether the rows are forecasts of a number.
  bool numbers_ = false;
  // Of the newest row, if it is one.
  double last_outcome_ = 0;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_WATCH_ROW_SCREEN_H_
