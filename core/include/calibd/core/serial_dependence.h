#ifndef CALIBD_CORE_SERIAL_DEPENDENCE_H_
#define CALIBD_CORE_SERIAL_DEPENDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace calibd {

// Evidence of serial dependence: labels of neighbouring rows go together more than the predictions
// say: a file that is sorted by label, rows of one user, rows that are repeated. Then answers about
// calibration that take the order of rows into account may be false. A model that becomes wrong at
// once is no serial dependence. The e-value is the mean of two parts, and of three for forecasts of
// numbers.
//
// Neighbours. Rows come in threes: row 3i is kept, 3i + 1 is the neighbour a, and 3i + 2 is scored,
// b. The row c was kept 36 rows before row 3i, so that every row is used once. With the label y,
// the predicted class k, and x = g(k) - [y = k], each scored row has two values:
//   z_1 = ([y_b = y_a] - g_b(y_a)) - ([y_b = y_c] - g_b(y_c)),   z_2 = 4 x_b (x_a - x_c).
// Rows of another kind have z_2 alone, with any deviation x of the outcome from the prediction.
// If rows that are fewer than 39 apart are independent and of one distribution, however badly
// calibrated, a and c can be exchanged, so that z is symmetric and E exp(l z - l^2 z^2 / 2) <= 1,
// because cosh u <= exp(u^2 / 2). This part is the mean of the products of these factors over both
// values and five rates l. A sudden change of the distribution touches 12 scored rows, each of
// which multiplies a product by at most exp(1/2), and all of them by at most 403: alone, it cannot
// reach 1000.
//
// Runs. A sorted file has one sudden change a class, so neighbours see it only if there are many
// classes. But a class that follows itself rules out the others, although their probabilities are
// not 0. A row whose predecessor has the label k bets that it has the label k again: with q = h (1
// - g(k)) the factor is (1 - d q) / (1 - q) if it has, and d if not. Its mean is at most 1 where
// other labels have at least the share h of the probability that is said. The products of each
// label are kept apart, and the largest one is left out: one label may rule out all others, as in a
// stream of one class, or where a model became wrong. A second one may not. This part is the mean
// over rates d, and over sequences of outcomes: the classes, each of the first labels of rows of
// several labels, or the half of the forecast in which a number lies.
//
// Order. A file of forecasts that is sorted by the outcome changes slowly, which the other parts do
// not see, but each outcome is above the one before. Rows come in pairs, a and b. With F, the
// distribution that the forecast of b states, and q = min(1/2, F(y_a)), the factor is (1 - d q) /
// (1 - q) if y_b > y_a, and d if not. If the forecast is calibrated, y_b > y_a has the probability
// 1 - F(y_a) <= 1 - q, so that the mean is at most 1, also for dependent rows: a forecast of a
// number that always grows says that it will. If a and b are independent and of one distribution,
// y_b > y_a has a probability of at most 1/2, and 1 / (1 - q) <= 2, so that the mean is at most d +
// (1 - d) 2 P(y_b > y_a) <= 1, however badly calibrated F is. Outcomes that fall have a product of
// their own, and this part is the mean over both and over the rates d.
//
// Under the conditions of each part, the e-value ever reaches 1000 with a probability of at most
// .001. Those of the runs and of the order also hold for dependent rows that are calibrated.
class SerialDependence {
 public:
  // Number of rows 3i that are kept.
  static constexpr std::size_t kLag = 12;
  static constexpr double kThreshold = 1000;
  // Further classes share a product: class k has the one of k modulo kMostClasses.
  static constexpr std::size_t kMostClasses = 64;
  // Further labels of rows of several labels have no runs.
  static constexpr std::size_t kMostSequences = 64;
  // Rates of the runs, and of the order.
  static constexpr std::array kRunRates = {.5, .1};
  // Number of products of the order: of outcomes that rise and of those that fall, for each rate.
  static constexpr std::size_t kOrderProducts = 2 * kRunRates.size();

  struct Row {
    std::int32_t label = 0;
    double x = 0;

    friend bool operator==(const Row&, const Row&) = default;
  };
  // The sizes of a state.
  struct Shape {
    // Number of classes; 1 for rows without classes.
    std::size_t classes = 1;
    // Number of sequences of outcomes, and of products of each.
    std::size_t sequences = 1;
    std::size_t labels = 2;
    // Number of products of the order: kOrderProducts for forecasts.
    std::size_t order = 0;

    // class_count: >= 2.
    [[nodiscard]] static Shape OfClasses(std::size_t class_count) noexcept;
    // label_count: >= 1.
    [[nodiscard]] static Shape OfLabels(std::size_t label_count) noexcept;
    [[nodiscard]] static Shape OfForecasts() noexcept { return {.order = kOrderProducts}; }
  };
  // The logarithms of the products of the runs of a label, for each rate d.
  using Run = std::array<double, kRunRates.size()>;
  struct State {
    // Number of rows.
    std::int64_t rows = 0;
    // The rows 3i of the newest kLag complete threes; that of three j has the place j modulo kLag.
    std::vector<Row> kept;
    // Rows 3i and 3i + 1 of the unfinished three.
    std::array<Row, 2> unfinished;
    // The sums of z and of z^2.
    std::array<double, 2> sums{};
    std::array<double, 2> squares{};
    // The newest outcome of each sequence; -1 before the first one.
    std::vector<std::int32_t> newest;
    // The products of all sequences, one after the other; each has equally many labels.
    std::vector<Run> runs;
    // Only of forecasts: the products of the order, > 0, first those of outcomes that rise.
    std::vector<double> order;
    // The outcome of row a of the unfinished pair.
    std::optional<double> pair_outcome;
    // The row at which the e-value first reached kThreshold, from 1; 0 before.
    std::int64_t reached_at = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  SerialDependence() = default;
  // state: as from state().
  explicit SerialDependence(State state);

  // All rows are added by the same one of these functions. Cost: O(1). They may throw bad_alloc.
  //
  // g: the probabilities of the classes; may sum to a little more than 1. label: a class.
  // predicted: the class with the largest probability.
  void Add(std::span<const double> g, std::int32_t label, std::size_t predicted);
  // Adds a row of several labels. x: finite; a standard deviation of 0.1 to 0.6 suits the rates.
  // g, truths: K values each; a truth is 0 or 1, or anything else if it is not known.
  void AddLabels(double x, std::span<const double> g, std::span<const std::int8_t> truths);
  // The probabilities that a forecast gives to outcomes at most and at least as large as a number.
  // Smaller ones are valid too, and give less evidence.
  struct Tails {
    double at_most = 0;
    double at_least = 0;
  };
  // The number for which the next AddForecast needs the tails of its forecast; unset if it needs
  // none.
  [[nodiscard]] std::optional<double> pair_outcome() const noexcept { return state_.pair_outcome; }
  // Adds a forecast of a number. x: > 0 if the outcome is in the lower half of the forecast, < 0 in
  // the upper one, 0 if neither is known. Each half has a probability of at least .05. outcome:
  // finite. tails: those for pair_outcome(), if it is set.
  void AddForecast(double x, double outcome, const Tails& tails);

  // Natural logarithm of the e-value. Cost: O(1), at most some 200 exponential functions.
  [[nodiscard]] double LogEValue() const noexcept;
  [[nodiscard]] std::int64_t reached_at() const noexcept { return state_.reached_at; }
  // The sequence with the largest e-value of its runs, if this alone is enough: the e-value of all
  // reaches kThreshold even if the runs of all other sequences and the neighbours count as 0.
  [[nodiscard]] std::optional<std::size_t> WorstSequence() const noexcept;
  [[nodiscard]] const State& state() const noexcept { return state_; }

 private:
  // excess(y): of the labels y in z_1.
  template <typename Excess>
  void AddRow(const Row& row, const Excess& excess);
  // Makes room for the runs of the first row.
  void StartRuns(const Shape& shape);
  // other: the probability of the labels other than the newest one.
  void AddToRun(std::size_t sequence, std::int32_t outcome, double other);
  void AddToOrder(double outcome, const Tails& tails);
  // Calls visit(log) for each product of the neighbours.
  template <typename Visit>
  void VisitNeighbours(const Visit& visit) const noexcept;
  // Calls visit(sequence, log) for each product of the runs of a sequence, one for each rate.
  template <typename Visit>
  void VisitRuns(const Visit& visit) const noexcept;
  // False if the e-value is below kThreshold, because all products are, of which it is a mean.
  // Cost: no exponential functions.
  [[nodiscard]] bool MayReachThreshold() const noexcept;

  State state_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SERIAL_DEPENDENCE_H_
