#ifndef CALIBD_CORE_DATED_CHANGE_H_
#define CALIBD_CORE_DATED_CHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace calibd {

// When the average error of stated probabilities last changed.
//
// x_t = c_t - r_t is the deviation of row t, as in error_interval.h, and mu_t its mean given the
// past. For a stretch of rows (s, e] whose start s is a multiple of 64,
//   M = (S_e - S_s) / (e - s),   r = u(V_e - V_s, log(2 / alpha) + log(j (j + 1))) / (e - s),
// with j = s / 64 + 1, S the sum of x, V that of x^2, and u the MixtureBoundary. The levels
// alpha / (j (j + 1)) of all starts sum to alpha. So except with probability alpha, |M - mean of
// mu| <= r for all starts and all ends at once, over the whole life of the stream, and every
// statement below that two stretches differ is true, however often one looks.

// The mean deviation of a stretch of rows, in [-1, 1], and half the width of its interval.
struct MeanDeviation {
  double mean = 0;
  double radius = 1;
};

// A change of the mean deviation.
struct DatedChange {
  // The change happened after row `from` and not after row `to`: 0 <= from < to. For a sudden
  // change the range holds it in 93 to 100 % of simulated streams. A slow change has the range
  // where it is steepest.
  std::int64_t from = 0;
  std::int64_t to = 0;
  // The end of the stretch before the change, the most likely row of the change; its first row is
  // `before_from` + 1. The stretch after it ends with the newest row.
  std::int64_t best = 0;
  std::int64_t before_from = 0;
  MeanDeviation before;
  MeanDeviation after;
};

// The sums of a stream at the ends of at most 256 blocks of 64 2^q rows. When there are 256, they
// are merged by pairs.
class DeviationBlocks {
 public:
  static constexpr std::size_t kMaxBlocks = 256;
  static constexpr std::int64_t kSmallestBlock = 64;

  // Sums over all rows up to one.
  struct Sums {
    double deviation = 0;
    double squares = 0;

    friend bool operator==(const Sums&, const Sums&) = default;
  };
  struct State {
    std::int64_t rows = 0;
    // kSmallestBlock times a power of two.
    std::int64_t block_rows = kSmallestBlock;
    Sums total;
    // At the ends of the blocks: ends[i] after row (i + 1) block_rows. Fewer than kMaxBlocks.
    std::vector<Sums> ends;

    friend bool operator==(const State&, const State&) = default;
  };

  DeviationBlocks() : DeviationBlocks(State()) {}
  // state: as from state().
  explicit DeviationBlocks(State state);

  // x: in [c - 1, c] for some c in [0, 1]. Cost: O(1), and O(blocks) after each block.
  void Add(double x);

  // The newest change that can be shown, at level alpha: the longest stretch of newest blocks in
  // which no two parts differ is preceded by a block that differs. Its row is the one that
  // maximises
  //   Lambda(k) = (M_1 - M_2)^2 / (2 v (1 / n_1 + 1 / n_2))
  // among those at which the intervals of `before` and `after` are apart, with v the pooled
  // variance of x in both parts; the range has all rows with Lambda >= max - 3, and a block at each
  // side. If the change is sudden and the means were known, each side of the range would be wrong
  // with a probability of at most e^-3.
  //
  // alpha: in (0, 1). Unset if no change can be dated. Cost: O(blocks^2), some 0.2 ms for 256.
  [[nodiscard]] std::optional<DatedChange> Find(double alpha) const;

  // The interval of the stretch (start, end], at level alpha for all of them. start, end: 0, the
  // end of a block or the number of rows; start < end.
  [[nodiscard]] MeanDeviation Mean(std::int64_t start, std::int64_t end, double alpha) const;

  [[nodiscard]] State state() const {
    return {.rows = rows_, .block_rows = block_rows_, .total = total_, .ends = *ends_};
  }
  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }

 private:
  [[nodiscard]] Sums SumsAt(std::int64_t row) const noexcept;

  std::int64_t rows_;
  std::int64_t block_rows_;
  Sums total_;
  // Replaced instead of changed. Never null.
  std::shared_ptr<const std::vector<Sums>> ends_;
};

// The change of one of several events that the same rows have.
struct EventChange {
  // Its place among the events, from 0.
  std::size_t event = 0;
  DatedChange change;
};
// The probability with which any statement about the changes of a stream may ever be wrong.
inline constexpr double kChangeLevel = .05;
// The newest changes of the events that can be shown, in the order of the events; all statements
// hold together at kChangeLevel. Cost: one Find for each event.
[[nodiscard]] std::vector<EventChange> FindChanges(std::span<const DeviationBlocks> events);

}  // namespace calibd

#endif  // CALIBD_CORE_DATED_CHANGE_H_
