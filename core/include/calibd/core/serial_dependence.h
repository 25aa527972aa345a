#ifndef CALIBD_CORE_SERIAL_DEPENDENCE_H_
#define CALIBD_CORE_SERIAL_DEPENDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace calibd {

// Evidence of serial dependence: labels of neighbouring rows go together more than the predictions
// say: a file that is sorted by label, rows of one user, rows that are repeated. Then answers about
// calibration that take the order of rows into account may be false.
//
// Rows come in threes: row 3i is a candidate for a pool, 3i + 1 is the neighbour a, and 3i + 2 is
// scored, b. A row c of the pool, chosen by a hash of i, takes the place of the neighbour; then row
// 3i replaces it, so that every row is used once. With the label y, the predicted class k, and x =
// g(k) - [y = k], each scored row has two values:
//   z_1 = ([y_b = y_a] - g_b(y_a)) - ([y_b = y_c] - g_b(y_c)),   z_2 = 4 x_b (x_a - x_c).
// Rows of another kind have z_2 alone, with any deviation x of the outcome from the prediction.
// If the rows are independent and of one distribution, however badly calibrated, a and c can be
// exchanged, so that z is symmetric and E exp(l z - l^2 z^2 / 2) <= 1, because cosh u <= exp(u^2 /
// 2). The e-value is the mean of the products of these factors over both values and five rates l.
// It ever reaches 1000 with a probability of at most .001.
//
// The pool grows to 1024 rows: while it has fewer than 32, or at every fourth i, row 3i is added
// and nothing is scored.
//
// Not covered: predictions that come in series themselves. If they are calibrated, none of 40
// simulated streams reached 1000.
class SerialDependence {
 public:
  static constexpr std::size_t kMostPool = 1024;
  static constexpr double kThreshold = 1000;

  struct Row {
    std::int32_t label = 0;
    double x = 0;

    friend bool operator==(const Row&, const Row&) = default;
  };
  struct State {
    // Number of rows.
    std::int64_t rows = 0;
    // At most kMostPool.
    std::vector<Row> pool;
    // Rows 3i and 3i + 1 of the unfinished three.
    std::array<Row, 2> unfinished;
    // The sums of z and of z^2.
    std::array<double, 2> sums{};
    std::array<double, 2> squares{};
    // The row at which the e-value first reached kThreshold, from 1; 0 before.
    std::int64_t reached_at = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  SerialDependence() = default;
  // state: as from state().
  explicit SerialDependence(State state);

  // g: the probabilities of the classes; may sum to a little more than 1. label: a class.
  // predicted: the class with the largest probability. Cost: O(1). May throw bad_alloc.
  void Add(std::span<const double> g, std::int32_t label, std::size_t predicted);
  // Adds a row without classes. x: finite; a standard deviation of 0.1 to 0.6 suits the rates.
  void AddDeviation(double x);

  // Natural logarithm of the e-value. Cost: O(1), some ten exponential functions.
  [[nodiscard]] double LogEValue() const noexcept;
  [[nodiscard]] std::int64_t reached_at() const noexcept { return state_.reached_at; }
  [[nodiscard]] const State& state() const noexcept { return state_; }

 private:
  // excess(y): of the labels y in z_1.
  template <typename Excess>
  void AddRow(const Row& row, const Excess& excess);

  State state_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SERIAL_DEPENDENCE_H_
