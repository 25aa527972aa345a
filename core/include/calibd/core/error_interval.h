#ifndef CALIBD_CORE_ERROR_INTERVAL_H_
#define CALIBD_CORE_ERROR_INTERVAL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "calibd/core/running_reliability.h"

namespace calibd {

// How far stated probabilities are off, in probability, with an interval that is valid for any
// sequence: observations need be neither independent nor identically distributed, and bins need no
// minimum count. A monitor's interval is valid at all times at once. That of a file is valid for
// one look, and narrower.
//
// Prediction t states the probability c_t of an event that happens or not (r_t is 1 or 0). With
// x_t = c_t - r_t, mu_t = E[x_t | past, c_t], S_b = sum of x_t and B_b = sum of mu_t over bin b,
// the binned error e_t = sum_b |B_b| / t is the average over all predictions so far of how far the
// stated probability was off in its bin. sum_b |S_b| / t, the expected calibration error, is its
// plug-in estimate, biased upwards. The signed gap is sum_b B_b / t: positive if the stated
// probabilities are too large.
struct ErrorInterval {
  // In [0, 1].
  double estimate = 0;
  double lower = 0;
  double upper = 1;
  // In [-1, 1].
  double gap = 0;
  double gap_lower = -1;
  double gap_upper = 1;
  // The mean of c_t, in [0, 1]; the frequency of the event is stated - gap. Unset for other errors
  // than that of the probability of one event.
  std::optional<double> stated = std::nullopt;
};

// When an interval holds. It decides which boundary the interval is made of.
enum class Looks {
  // At all times at once, while observations are added: MixtureBoundary.
  kAnyTime,
  // Once, at n observations, where n and all predictions are known before the first label; for
  // several labels, also which truths are known. A label may depend on other labels in any way:
  // OneLookBoundary.
  kOne,
  // Once, at n observations in their order, where n is known before the first label, but
  // predictions
  // may be made from labels of earlier observations: OneLookBoundary without the variance.
  kOneInOrder,
};

// The probabilities with which an interval may be wrong: those of the binned error by its bins, and
// of the signed gap, which also bounds the binned error from below.
struct ErrorLevels {
  double bins = 0;
  double gap = 0;
  Looks looks = Looks::kAnyTime;

  [[nodiscard]] double total() const noexcept { return bins + gap; }
  // The levels of each of `count` >= 1 intervals that hold together at these levels.
  [[nodiscard]] ErrorLevels SharedBy(std::size_t count) const noexcept {
    return {.bins = bins / static_cast<double>(count),
            .gap = gap / static_cast<double>(count),
            .looks = looks};
  }
};

// The levels of an interval that stands alone, such as that of one hour: it holds with 95 %.
inline constexpr ErrorLevels kSingleErrorLevels{.bins = 0.0375, .gap = 0.0125};
// Those of the interval of a file or another batch whose size was chosen before its labels were
// seen: it holds with 95 % for one look at it.
inline constexpr ErrorLevels kOneLookErrorLevels{
    .bins = 0.03125, .gap = 0.01875, .looks = Looks::kOne};
// The shares of these levels that go to the boundary of all times. A monitor spends half of its 5 %
// on the recent error, and the other half on its interval: 3/8 on the bins and 1/8 on the gap. Both
// are given to the boundary of all times here, and 1/4 each to the rates of one look. So one look
// is never wider than the interval that a monitor shows of the same rows.
inline constexpr double kAllTimesShareOfBins = 0.6;
inline constexpr double kAllTimesShareOfGap = 1.0 / 3;

// The binned error that is acceptable if nothing else is said: 2 percentage points.
inline constexpr double kDefaultErrorLimit = 0.02;

// u(V, K), the boundary of sum (x_t - mu_t) for x_t in [c_t - 1, c_t], V = sum x_t^2 and K =
// log(1 / level): a gamma-exponential mixture with c = 1 and rho = 10. It is exceeded at any time
// with a probability of at most the level. Source: Howard, Ramdas, McAuliffe & Sekhon, Ann.
// Statist. 49 (2021) 1055, Theorem 4 (with 0 as the prediction of x_t, which lies in its range) and
// Proposition 9, solved by Newton's method: each iterate is a valid boundary.
//
// square_sum: V >= 0. log_inverse_level: K > 0.
[[nodiscard]] double MixtureBoundary(double square_sum, double log_inverse_level) noexcept;

// r(V, K), the boundary of sum (x_t - mu_t) for one look at n observations by one rate lambda,
// which is chosen before the first label.
//
// Two products are supermartingales for each fixed lambda > 0. For lambda < 1,
//   exp(lambda (S - B) - psi_E(lambda) V),  psi_E(lambda) = -log(1 - lambda) - lambda,
// because exp(l x - psi_E(l) x^2) <= 1 + l x for x >= -1 (Fan, Grama & Liu, Electron. J. Probab. 20
// (2015) 1, Lemma 4.1), and so E[exp(l (x - mu) - psi_E(l) x^2)] <= exp(-l mu) (1 + l mu) <= 1. And
//   exp(lambda (S - B) - lambda^2 n / 8),
// because x lies in an interval of length 1 (Hoeffding, J. Am. Stat. Assoc. 58 (1963) 13,
// eq. 4.16). The same holds for -x. By Markov's inequality S - B <= r, except with the probability
// exp(-K), for
//   r = (K + psi_E(lambda) V) / lambda   or   r = K / lambda + lambda n / 8.
// The first product has lambda = min(q / (1 + q / 1.5), 0.9) with q = sqrt(2 K_0 / V_0) and V_0 =
// 1.2 sum c (1 - c) + 1, which is about V of a calibrated model; the second has lambda = sqrt(8 K_0
// / n). The first one is used if its boundary at K_0 and V_0 is below 0.95 of that of the second:
// it depends on the outcomes, and of boundaries that are nearly equal for a calibrated model it is
// by far the wider one for an over-confident model. The rate and the product are functions of n, of
// the predictions, and of constants, so they are known before the first label if n and all
// predictions are.
class FixedRateBoundary {
 public:
  // count: n > 0. variance: sum c (1 - c) >= 0; unset for Looks::kOneInOrder, where V_0 would
  // depend on labels: the second product is then used. design: K_0 > 0.
  FixedRateBoundary(double count, std::optional<double> variance, double design) noexcept;

  // square_sum: V >= 0, of the observations. log_inverse_level: K > 0.
  [[nodiscard]] double operator()(double square_sum, double log_inverse_level) const noexcept {
    return (log_inverse_level + square_weight_ * square_sum + constant_) / rate_;
  }
  // The logarithm of the product for S - B = sum: the K whose boundary is `sum`.
  [[nodiscard]] double LogProduct(double sum, double square_sum) const noexcept {
    return rate_ * sum - square_weight_ * square_sum - constant_;
  }

 private:
  // lambda; psi_E(lambda) or 0; 0 or lambda^2 n / 8.
  double rate_;
  double square_weight_ = 0;
  double constant_ = 0;
};

// The boundary of sum (x_t - mu_t) for one look at n observations. The rate of FixedRateBoundary is
// good where V is about V_0, and may be poor elsewhere: V of a sharp model that is far from
// calibrated is many times V_0. MixtureBoundary is good for every V. A weighted mean of two
// supermartingales is one too. So with the share w of the second, the boundary is the least s with
//   (1 - w) exp(k_1(s)) + w exp(k_2(s)) >= exp(K),
// where k_1 and k_2 are the K at which each of the two has the boundary s. It is never above that
// of either alone at its share of the level: at K + log(1 / (1 - w)) and at K + log(1 / w).
class OneLookBoundary {
 public:
  // count, variance: of FixedRateBoundary. design: K for which the boundary is best. all_times: w,
  // in (0, 1).
  OneLookBoundary(double count, std::optional<double> variance, double design,
                  double all_times) noexcept;

  // square_sum: V >= 0, of the observations. log_inverse_level: K > 0. Cost: some 30 logarithms.
  [[nodiscard]] double operator()(double square_sum, double log_inverse_level) const noexcept;

 private:
  double all_times_;
  FixedRateBoundary fixed_;
};

// The interval from sums over the observations. Except with a probability of levels.bins, for all
// sets J of bins, sum_J |S_b - B_b| <= u(V, log(1 / levels.bins) + |J| log 2), because prod_b
// cosh(lambda (S_b - B_b)) exp(-psi_E(lambda) V) is a supermartingale and cosh z >= max(1, e^|z| /
// 2). So an empty bin costs nothing. Both ends are the best over J; a bin outside J contributes at
// most max(sum c, n_b - sum c) to the upper end. For one look, OneLookBoundary takes the place of
// u, with the design log(1 / levels.bins) + 7 log 2 for the bins, half of which are usually
// visited, and log(2 / levels.gap) for the gap, and the shares of all times above.
//
// Unset without observations. Cost: O(bins).
// Merge law: sums of parts that share no observation add.
[[nodiscard]] std::optional<ErrorInterval> BinnedErrorInterval(const ReliabilitySums& sums,
                                                               const ErrorLevels& levels) noexcept;

// The sums of a bin whose terms have weights between 0 and 1: of the weights, of the weighted
// stated probabilities, of the weighted x_t, and of the weighted c (1 - c), which only intervals
// for one look need.
struct WeightedBin {
  double count = 0;
  double stated = 0;
  double deviation = 0;
  double variance = 0;
};
// The same interval from bins of weighted terms. bins: at most kReliabilityBinCount. square_sum: V,
// a sum over rows of the square of the row's largest possible term; see label_errors.h. The signed
// term of a row lies in an interval as long as the weights of the row together, at most 1. So n of
// a one-look interval, the sum of all weights, is at least the sum of their squares by rows.
[[nodiscard]] std::optional<ErrorInterval> BinnedErrorInterval(std::span<const WeightedBin> bins,
                                                               double square_sum,
                                                               const ErrorLevels& levels) noexcept;

// The intervals of one batch or one span of time. For two classes the top label hides errors that
// cancel between the classes, so the probability of class 1 has an interval of its own.
struct ErrorIntervals {
  ErrorInterval top_label;
  // Unset for other numbers of classes.
  std::optional<ErrorInterval> class_1;
};
// class_1: ignored unless it has as many observations as top_label. All intervals of the result
// hold together at `levels`. Unset without observations.
[[nodiscard]] std::optional<ErrorIntervals> EventIntervals(const ReliabilitySums& top_label,
                                                           const ReliabilitySums& class_1,
                                                           const ErrorLevels& levels) noexcept;

// Evidence that some stretch of predictions that ended now was off by more than a limit: for each
// possible start k, weighted by w_k = 1 / (2.11 (k + 1) log(k + 1)^2), the products of
//   (1 + kappa s_t x_t) exp(-kappa limit),
// summed over 12 rates kappa and three signs s: +1, -1, and tanh(D_b / sqrt(Q_b + 1)) for the sums
// D_b and Q_b of x and x^2 over the prediction's bin, in which each prediction decays by .999 at
// every later one. All starts together need one number for each rate and sign:
//   R <- (R + w_k) (1 + kappa s x_k) exp(-kappa limit).
// If at no time the mean of |c - P(event)| over a stretch exceeds the limit, value() ever reaches
// 1 / alpha with a probability of at most alpha, over the whole run, also if the limit is changed
// on the way. It reacts to a change within hundreds to thousands of predictions, where the average
// since the start needs tens of thousands.
class RecentErrorEvidence {
 public:
  static constexpr std::size_t kRates = 12;
  static constexpr std::size_t kSigns = 3;
  // kappa.
  static constexpr std::array<double, kRates> kKappa{.7,   .5,  .35, .25,  .17, .12,
                                                     .085, .06, .04, .028, .02, .014};
  // The shares of +1, -1 and the sign of the bin in the e-value.
  static constexpr std::array<double, kSigns> kSignWeights{.25, .25, .5};
  // The factor of a prediction's share in D_b and Q_b at each later one.
  static constexpr double kDecay = .999;
  // The sum over k of 1 / ((k + 1) log(k + 1)^2), rounded up.
  static constexpr double kStartsNorm = 2.11;

  struct State {
    std::int64_t count = 0;
    std::array<std::array<double, kRates>, kSigns> wealth{};
    // D_b and Q_b.
    std::array<double, kReliabilityBinCount> deviation{};
    std::array<double, kReliabilityBinCount> squares{};

    friend bool operator==(const State&, const State&) = default;
  };

  RecentErrorEvidence() = default;
  explicit RecentErrorEvidence(const State& state) : state_(state) {}

  // x: c - r in [-1, 1]. bin: 0-based, that of c. limit: in [0, 1], the one in force for this
  // prediction. Cost: O(1), some 40 multiplications, a logarithm and an exponential function.
  void Add(std::size_t bin, double x, double limit) noexcept;

  // The e-value, at least 0 and finite.
  [[nodiscard]] double value() const noexcept;
  // Returns value() >= threshold. Computes the value only if it may have grown so much since it was
  // last computed.
  [[nodiscard]] bool Reaches(double threshold) noexcept;
  [[nodiscard]] const State& state() const noexcept { return state_; }

 private:
  State state_;
  // exp(-kappa limit) for `limit_`.
  double limit_ = -1;
  std::array<double, kRates> discounts_{};
  // An upper bound of value().
  double bound_ = std::numeric_limits<double>::infinity();
};

}  // namespace calibd

#endif  // CALIBD_CORE_ERROR_INTERVAL_H_
