#ifndef CALIBD_CORE_RUNNING_RELIABILITY_H_
#define CALIBD_CORE_RUNNING_RELIABILITY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "calibd/core/binned_error.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

inline constexpr std::size_t kReliabilityBinCount = 15;

// Level of the Bonferroni test over all places (bins or classes): the probability that any place
// stands out for a calibrated model is at most this, for ONE look at a chosen n.
inline constexpr double kStandOutLevel = 0.05;
// The minimum number of observations of a bin or class that may stand out.
inline constexpr std::int64_t kLeastStandOut = 10;

// True when a count deviates significantly from its expectation, with a Bonferroni correction for
// `places` tests: 2 exp(-v ((1 + t/v) log(1 + t/v) - t/v)) <= kStandOutLevel / places, for the
// deviation t and its variance v if the model is calibrated. With many observations and 25 places
// that is |Z| >= 3.7; with few observations, where Z is far from normal, the threshold is larger.
// Source: Bennett, J. Am. Stat. Assoc. 57 (1962) 33, eq. 8b, of sums of independent terms in [-1,
// 1].
[[nodiscard]] bool StandsOut(double deviation, double variance, std::size_t places) noexcept;

// Events by bins of their stated probability, as sums over observations, which are additive: the
// sums of two streams add up to those of the joint stream. Bins are of equal width over [0, 1], see
// UniformBinIndex.
struct ReliabilitySums {
  struct Bin {
    std::int64_t count = 0;
    // Number of events that happened.
    std::int64_t correct = 0;
    // For the stated probability c: sum c and sum c (1 - c), which is the variance of `correct` if
    // the model were calibrated.
    double confidence = 0;
    double variance = 0;

    // (correct - sum c) / sqrt(sum c (1 - c)): approximately standard normal for a single bin if
    // the model is calibrated. 0 without variance.
    [[nodiscard]] double Z() const noexcept;
    // See calibd::StandsOut. False with fewer than kLeastStandOut observations.
    [[nodiscard]] bool StandsOut(std::size_t places) const noexcept;

    friend bool operator==(const Bin&, const Bin&) = default;
  };
  std::array<Bin, kReliabilityBinCount> bins{};
  // sum (c - r)^2 for r = 1 if the event happened, else 0: V of error_interval.h.
  double square_sum = 0;

  // stated: in [0, 1]. Returns the index in `bins`.
  std::size_t Add(double stated, bool happened) noexcept {
    const std::size_t index = UniformBinIndex(stated, kReliabilityBinCount) - 1;
    Bin& bin = bins[index];
    ++bin.count;
    // Conversions, because a branch on the outcome cannot be predicted.
    bin.correct += static_cast<std::int64_t>(happened);
    bin.confidence += stated;
    bin.variance += stated * (1 - stated);
    const double error = stated - static_cast<double>(happened);
    square_sum += error * error;
    return index;
  }
  // Adds the events "the label is class k" of a valid batch. k: 0-based.
  void AddClass(const PredictionBatch& batch, std::size_t k) noexcept;
  void Merge(const ReliabilitySums& other) noexcept;
  // Leaves the sums over the later observations. earlier: sums over the first ones.
  void Subtract(const ReliabilitySums& earlier) noexcept;
  // The largest that square_sum can be, from the bins alone.
  [[nodiscard]] double MaxSquareSum() const noexcept;

  // All bins as one.
  [[nodiscard]] Bin Total() const noexcept;
  // sum_b n_b / n |mean stated probability of b - frequency of the event in b|, in [0, 1]: the
  // expected calibration error, biased upwards. 0 without observations. Source: Guo, Pleiss, Sun &
  // Weinberger, ICML 2017, eq. 3.
  [[nodiscard]] double ExpectedCalibrationError() const noexcept;

  friend bool operator==(const ReliabilitySums&, const ReliabilitySums&) = default;
};

// The reliability of the top label, the first of the most probable classes, and scores.
struct RunningReliability : ReliabilitySums {
  // Sums of the scores of scores.h, by the same definitions.
  double brier = 0;
  double log_loss = 0;

  // batch: valid. The result has the same bits however a sequence is split into calls. Cost: O(m)
  // an observation.
  void Add(const PredictionBatch& batch) noexcept;
  void Merge(const RunningReliability& other) noexcept;

  friend bool operator==(const RunningReliability&, const RunningReliability&) = default;
};

// The observed and the expected number of labels of each class.
class RunningClassFrequencies {
 public:
  struct Class {
    std::int64_t labels = 0;
    // For the class's probability g: sum g and sum g (1 - g).
    double predicted = 0;
    double variance = 0;

    // (labels - sum g) / sqrt(sum g (1 - g)), as RunningReliability::Bin::Z.
    [[nodiscard]] double Z() const noexcept;
    // See calibd::StandsOut.
    [[nodiscard]] bool StandsOut(std::size_t places) const noexcept;

    friend bool operator==(const Class&, const Class&) = default;
  };

  // class_count: m >= 2.
  explicit RunningClassFrequencies(std::size_t class_count) : classes_(class_count) {}
  // Restores saved classes, m >= 2.
  explicit RunningClassFrequencies(std::vector<Class> classes) : classes_(std::move(classes)) {}

  // batch: valid, of m classes. The result has the same bits however a sequence is split into
  // calls. Cost: O(m) an observation.
  void Add(const PredictionBatch& batch) noexcept;

  [[nodiscard]] const std::vector<Class>& classes() const noexcept { return classes_; }
  // The classes with the largest |Z|, in descending order; at most `count`, without classes whose Z
  // is 0.
  [[nodiscard]] std::vector<std::size_t> MostDeviating(std::size_t count) const;

 private:
  std::vector<Class> classes_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_RUNNING_RELIABILITY_H_
