#ifndef CALIBD_CORE_CLASS_EVIDENCE_H_
#define CALIBD_CORE_CLASS_EVIDENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "calibd/core/prediction_batch.h"

namespace calibd {

// Bets on the odds of a class being r times those that are predicted.
inline constexpr std::array kClassOddsRatios = {1. / 3, 2. / 3, 10. / 11, 11. / 10, 3. / 2, 3.};
// A class bets by itself where its probability is at most 1/2, and where it is above: predictions
// that are too bold are off in opposite ways there.
inline constexpr std::size_t kClassSides = 2;
inline constexpr std::size_t kClassBets = kClassSides * kClassOddsRatios.size();

// Evidence against each single class's probabilities that may be looked at all the time.
//
// Null hypothesis of class k: given the prediction g and the past, the label is k with a
// probability p in [g_k - (max(0, sum g - 1) + m eps), g_k + eps], which that of EvidenceProcess
// implies for every class. The e-value of a label y with an odds ratio r is
//   r^[y = k] / (1 + h (r - 1)),  h the upper end for r > 1 and the lower one for r < 1,
// with a mean of (1 + p (r - 1)) / (1 + h (r - 1)) <= 1. Products over time are mixed with equal
// shares over r, on each of the two sides of 1/2; the e-value of the class is the product of both.
// Those of several classes depend on each other: e_bh.h says which are rejected together.
// Source: Waudby-Smith & Ramdas, J. R. Stat. Soc. B 86 (2024) 1, Sec. 4: betting on a bounded mean.
//
// A product that leaves 1e-150..1e150 is brought back to its end every 256 predictions: less than
// was won, and 1e-150 given away each time.
//
// Not thread-safe.
class ClassEvidence {
 public:
  // tolerance: m eps, as EvidenceProcess::Create.
  ClassEvidence(std::size_t class_count, double tolerance);

  // batch: valid, of m classes. Equal bits for any cut of a sequence into calls, and on any CPU.
  // Takes no memory. Cost: O(m) a prediction.
  void Add(const PredictionBatch& batch) noexcept;

  // log10 of the e-value of class k, at most 300.
  [[nodiscard]] double Log10EValue(std::size_t k) const noexcept;
  // Of all classes; -inf, which is sooner known, for some of those below `least`.
  [[nodiscard]] std::vector<double> Log10EValues(double least) const;

  struct State {
    // Predictions, >= 0.
    std::int64_t count = 0;
    // The inverse of each product, > 0: kClassBets x m, the odds ratios of the lower side before
    // those of the upper one.
    std::vector<double> inverses;

    friend bool operator==(const State&, const State&) = default;
  };
  [[nodiscard]] State Save() const;
  // Goes on where Save was. False when it cannot be of such an object; nothing has changed then.
  [[nodiscard]] bool Restore(const State& state);

  // Bytes that it holds.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t class_count) noexcept;

 private:
  // batch: no more rows than fit the period.
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
