#ifndef CALIBD_CORE_REFERENCE_CHANGE_H_
#define CALIBD_CORE_REFERENCE_CHANGE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace calibd {

// Whether the error of a model is no longer what it was in a reference period, the first rows. It
// is silent about whether the model is right: a model that is wrong in the same way all the time
// has not changed.
//
// A row has a stated probability c, of the event that the predicted class is right, and is right or
// wrong. Nine cells of c are the categories. Null hypothesis: within each cell, the outcomes of the
// rows of the reference and of all later rows are exchangeable. The share of the cells may change
// at any time, so that harder inputs alone are no change.
//
// 1. Rows 1..500, the warm-up, give the stated error of each cell, q = (sum (1 - c) + .1) / (rows +
//    1), and nothing else.
// 2. The other rows of the reference count n, the rows of each cell, and w, the wrong ones.
// 3. Each later row adds itself to n and w of its cell. With f = w / n and U uniform, u = U f if
//    the row is wrong, and u = f + U (1 - f) if it is right. Under the null hypothesis all u are
//    independent and uniform, however the cells follow each other: conformal test martingales in
//    Mondrian categories, Vovk, Gammerman & Shafer, Algorithmic Learning in a Random World (2005),
//    sections 4.5 and 7.1; Vovk, "Testing randomness online", Statist. Sci. 36 (2021) 595.
// 4. 48 bets: z0 = q a, kept within [.001, .9], for six a, and z1 = z0 o / (1 - z0 + z0 o) for
//    eight odds ratios o. A bet pays e = z1 / z0 if u < z0, and (1 - z1) / (1 - z0) if not, whose
//    mean over u is 1. The possible starts j of the change are mixed as in RecentErrorEvidence:
//      R <- (R + w_j) e,   j = 1, 2, .. from the end of the reference.
// The mean of R ever reaches 1 / alpha with a probability of at most alpha.
//
// A bet may depend on former u, on the cells and on constants. It must never depend on w, n or
// former outcomes: u is independent of former u, and not of former outcomes.
//
// Blind spots: a change that keeps the error of each cell, such as classes that are swapped within
// a cell, and a reference that was not of one kind itself. What follows the row that raised the
// alarm is not added.
class ReferenceChange {
 public:
  static constexpr std::int64_t kWarmup = 500;
  // Inner edges of the cells. A value on an edge is in the cell below.
  static constexpr std::array kEdges = {.5, .6, .7, .8, .85, .9, .95, .98};
  static constexpr std::size_t kCells = kEdges.size() + 1;
  static constexpr std::array kScales = {.75, 1., 1.5, 2., 3., 4.5};
  // The first kFewerErrors of them bet on fewer errors, and the others on more.
  static constexpr std::array kOdds = {.2, .33, .5, .67, 1.5, 2., 3., 5.};
  static constexpr std::size_t kFewerErrors = 4;
  // Scale after scale, each with all odds.
  static constexpr std::size_t kBets = kScales.size() * kOdds.size();

  struct Cell {
    // Of the warm-up: rows, and the sum of 1 - c.
    std::int64_t warmup_rows = 0;
    double stated_errors = 0;
    // Since the warm-up: n and w, and these at the end of the reference.
    std::int64_t rows = 0;
    std::int64_t wrong = 0;
    std::int64_t reference_rows = 0;
    std::int64_t reference_wrong = 0;

    friend bool operator==(const Cell&, const Cell&) = default;
  };
  using Bets = std::array<double, kBets>;
  struct State {
    // Number of rows, and of those that were bet on: j of the newest one.
    std::int64_t rows = 0;
    std::int64_t bets = 0;
    std::array<Cell, kCells> cells{};
    // R.
    Bets wealth{};
    // The largest part of R that belongs to one start, its j, and wrong_rows and expected_wrong
    // before it.
    Bets start_wealth{};
    Bets start{};
    Bets start_wrong{};
    Bets start_expected{};
    // Of the rows that were bet on: the wrong ones, and how many are expected if each cell has the
    // error of the reference.
    double wrong_rows = 0;
    double expected_wrong = 0;
    // The number of rows when the mean of R reached 1 / alpha; 0 before.
    std::int64_t changed_at = 0;

    friend bool operator==(const State&, const State&) = default;
  };
  struct Settings {
    // Larger than kWarmup, which is a part of them.
    std::int64_t reference_rows = 0;
    // alpha, in (0, 1).
    double significance_level = 0;
    // Chosen before the rows, and independently of them. It decides U.
    std::uint64_t seed = 0;
    // Number of the first row within the model, from 1, which decides U too.
    std::int64_t first_observation = 1;
  };

  explicit ReferenceChange(const Settings& settings) noexcept : settings_(settings) {}
  // state: as from state(), with values as Fits says.
  ReferenceChange(const Settings& settings, const State& state) noexcept;

  // Whether a stored state can be one of these settings. Its reals must be finite.
  [[nodiscard]] static bool Fits(const Settings& settings, const State& state) noexcept;

  // stated: c in [0, 1], for rows whose probabilities sum to a little more than 1 a little above 1.
  // Cost: O(1), some 300 operations and a logarithm. The bits do not depend on how rows are divided
  // into calls.
  void Add(double stated, bool wrong) noexcept;
  // Begins the bets anew at another level, from the next row, with the same reference. A change
  // that was found stays.
  void RestartBets(double significance_level) noexcept;

  struct Reading {
    // Rows of the reference so far without its warm-up, and the wrong ones.
    std::int64_t reference_rows = 0;
    std::int64_t reference_wrong = 0;
    // Rows that were bet on: those after the reference, or since RestartBets.
    std::int64_t bets = 0;
    // The mean of R.
    double e_value = 0;
    // The share of R of the bets on more errors, in [0, 1]; 1/2 while R is 0.
    double share_of_more = 0.5;
    // The most likely start of a change: rows before it, and since then the rows, the wrong ones,
    // and how many are expected if each cell has the error of the reference. Chosen by the
    // outcomes, so that their difference is an overestimate. For display only.
    std::int64_t rows_before = 0;
    std::int64_t rows_since = 0;
    double wrong_since = 0;
    double expected_since = 0;
  };
  // Cost: O(1).
  [[nodiscard]] Reading Read() const noexcept;
  [[nodiscard]] bool changed() const noexcept { return state_.changed_at > 0; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const State& state() const noexcept { return state_; }

  // 0-based.
  [[nodiscard]] static std::size_t CellOf(double stated) noexcept;

 private:
  // u of the newest row, which its cell includes.
  [[nodiscard]] double Place(const Cell& cell, bool wrong) const noexcept;
  void Bet(std::size_t cell, double u, bool wrong) noexcept;
  void BeginBets() noexcept;

  Settings settings_;
  State state_;
  // Of each cell: z0 for each scale, and 1 / (1 - z0 + z0 o) for each bet.
  std::array<std::array<double, kScales.size()>, kCells> levels_{};
  std::array<Bets, kCells> misses_{};
  // The error of the reference in each cell, for expected_wrong.
  std::array<double, kCells> reference_error_{};
};

}  // namespace calibd

#endif  // CALIBD_CORE_REFERENCE_CHANGE_H_
