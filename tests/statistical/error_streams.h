#ifndef CALIBD_TESTS_STATISTICAL_ERROR_STREAMS_H_
#define CALIBD_TESTS_STATISTICAL_ERROR_STREAMS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>

#include "calibd/core/error_interval.h"

namespace calibd::testing {

// The largest share of streams that may be wrong if each is wrong with this probability: 3
// standard errors above it.
inline double ErrorBound(double probability, int streams) {
  return probability + 3 * std::sqrt(probability * (1 - probability) / streams);
}

enum class ErrorKind { kCalibrated, kOverConfident, kCancelling, kDrifting, kFollowsLabels };
inline constexpr std::array kErrorKinds{ErrorKind::kCalibrated, ErrorKind::kOverConfident,
                                        ErrorKind::kCancelling, ErrorKind::kDrifting,
                                        ErrorKind::kFollowsLabels};

// A stream of stated probabilities in [1 / m, 1] of an event, of which the true probabilities are
// known.
class ErrorStream {
 public:
  // length: the drift begins in the middle.
  ErrorStream(ErrorKind kind, double m, std::uint64_t seed, int length)
      : kind_(kind), least_(1 / m), length_(length), rng_(seed) {}

  struct Prediction {
    double stated;
    // How much the stated probability exceeds the true one.
    double excess;
    bool happened;
  };
  Prediction Next() {
    double u = uniform_(rng_);
    // Labels of the past choose what is stated and how wrong it is: neither independent nor
    // identically distributed.
    if (kind_ == ErrorKind::kFollowsLabels && wrong_ > right_) u = std::sqrt(u);
    const double stated = least_ + (1 - least_) * std::sqrt(u);
    double excess = 0;
    if (kind_ == ErrorKind::kOverConfident) excess = 0.2;
    if (kind_ == ErrorKind::kCancelling) excess = count_ % 2 == 0 ? 0.1 : -0.1;
    if (kind_ == ErrorKind::kDrifting && count_ > length_ / 2) excess = 0.2;
    if (kind_ == ErrorKind::kFollowsLabels) excess = last_ ? -0.08 : 0.08;
    const double p = std::clamp(stated - excess, 0.0, 1.0);
    const bool happened = uniform_(rng_) < p;
    ++count_;
    last_ = happened;
    (happened ? right_ : wrong_) += 1;
    return {.stated = stated, .excess = stated - p, .happened = happened};
  }

 private:
  const ErrorKind kind_;
  const double least_;
  const int length_;
  std::mt19937_64 rng_;
  std::uniform_real_distribution<double> uniform_{0, 1};
  std::int64_t count_ = 0;
  std::int64_t right_ = 0;
  std::int64_t wrong_ = 0;
  bool last_ = false;
};

// The true error and gap of a series of predictions.
class TrueError {
 public:
  // bin: 0-based, that of the stated probability.
  void Add(std::size_t bin, double excess) {
    sums_[bin] += excess;
    ++count_;
  }
  [[nodiscard]] double error() const {
    double error = 0;
    for (const double sum : sums_) error += std::abs(sum) / count_;
    return error;
  }
  // True if the interval holds both.
  [[nodiscard]] bool IsIn(const ErrorInterval& interval) const {
    double gap = 0;
    for (const double sum : sums_) gap += sum / count_;
    constexpr double kRounding = 1e-12;
    return interval.lower <= error() + kRounding && error() <= interval.upper + kRounding &&
           interval.gap_lower <= gap + kRounding && gap <= interval.gap_upper + kRounding;
  }

 private:
  std::array<double, kReliabilityBinCount> sums_{};
  double count_ = 0;
};

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_STATISTICAL_ERROR_STREAMS_H_
