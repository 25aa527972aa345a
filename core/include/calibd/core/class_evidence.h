#ifndef CALIBD_CORE_CLASS_EVIDENCE_H_
#define CALIBD_CORE_CLASS_EVIDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/core/prediction_batch.h"

namespace calibd {

// The odds ratios r of the bets: the true odds of a class are r times the predicted odds.
inline constexpr std::array kClassOddsRatios = {1. / 3, 2. / 3, 10. / 11, 11. / 10, 3. / 2, 3.};
// Each class has separate bets for probabilities of at most 1/2 and above 1/2: over-confident
// predictions deviate in opposite directions on the two sides.
inline constexpr std::size_t kClassSides = 2;
inline constexpr std::size_t kClassBets = kClassSides * kClassOddsRatios.size();

// Anytime-valid evidence against the probabilities of each single class.
//
// Null hypothesis of class k: given the prediction g and the past, the label is k with a
// probability p in [g_k - (max(0, sum g - 1) + m eps), g_k + eps], which the null hypothesis of
// EvidenceProcess implies for every class. The e-value of a label y with an odds ratio r is
//   r^[y = k] / (1 + h (r - 1)),  where h is the upper end for r > 1 and the lower end for r < 1,
// with a mean of (1 + p (r - 1)) / (1 + h (r - 1)) <= 1. Products over time are mixed with equal
// shares over r, on each of the two sides of 1/2; the e-value of the class is the product of both.
// The e-values of different classes are dependent: see e_bh.h for the classes that are rejected
// together.
// Source: Waudby-Smith & Ramdas, J. R. Stat. Soc. B 86 (2024) 1, Sec. 4: betting on a bounded mean.
//
// Every 256 predictions each product is clamped to [1e-150, 1e150]. The upper limit loses evidence;
// the lower limit adds at most 1e-150 each time.
//
// Not thread-safe.
class ClassEvidence {
 public:
  // tolerance: m eps, as EvidenceProcess::Create.
  ClassEvidence(std::size_t class_count, double tolerance);

  // batch: valid, of m classes. The result has the same bits on every CPU and does not depend on
  // how a sequence is split into calls. Allocates no memory. Cost: O(m) per prediction.
  void Add(const PredictionBatch& batch) noexcept;

  // Number of predictions.
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  // log10 of the e-value of class k, at most 300.
  [[nodiscard]] double Log10EValue(std::size_t k) const noexcept;
  // Natural logarithm of the mean of all e-values, which is an e-value too because all classes bet
  // against the same past. Cost: O(m).
  [[nodiscard]] double LogMean() const noexcept;
  // log10 of the e-values of all classes. Values below `least` may be -inf, which is cheaper.
  [[nodiscard]] std::vector<double> Log10EValues(double least) const;

  struct State {
    // Number of predictions, >= 0.
    std::int64_t count = 0;
    // The inverse of each product, > 0: kClassBets x m, with the odds ratios of the lower side
    // first.
    std::vector<double> inverses;

    friend bool operator==(const State&, const State&) = default;
  };
  [[nodiscard]] State Save() const;
  // Restores a saved state. Returns false, and leaves this object unchanged, when the state is
  // invalid for it.
  [[nodiscard]] bool Restore(const State& state);

  // Upper bound of the bytes that an object holds.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t class_count) noexcept;

 private:
  // batch: at most as many rows as are left of the clamping period.
  void AddSome(const PredictionBatch& batch) noexcept;
  [[nodiscard]] double* InversesOf(std::size_t k, std::size_t side) noexcept;
  [[nodiscard]] const double* InversesOf(std::size_t k, std::size_t side) const noexcept;

  std::size_t class_count_;
  double tolerance_;
  std::int64_t count_ = 0;
  // Groups of classes, each of kClassBets x kGroup: prod (1 + h (r - 1)) r^-[y = k].
  std::vector<double> inverses_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_CLASS_EVIDENCE_H_
