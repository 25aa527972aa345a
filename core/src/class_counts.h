#ifndef CALIBD_CORE_SRC_CLASS_COUNTS_H_
#define CALIBD_CORE_SRC_CLASS_COUNTS_H_

#include <array>
#include <cstddef>

#include "calibd/core/evidence.h"
#include "calibd/core/line_vector.h"
#include "evidence_simd.h"

namespace calibd {

// The class-wise histogram terms of a prediction with label y.
struct ClassCountTerms {
  // (O + 3) / (E + 3) of the label's bin, and sum_k p_k r_k^theta.
  double ratio;
  HistogramSums sums;
};

// The observed and the expected number of labels in each bin of a class's log odds, over the whole
// past and over the recent past. The counts of one class and bin are adjacent in memory, since the
// scattered access to bins dominates the cost.
class ClassCounts {
 public:
  explicit ClassCounts(std::size_t class_count);

  // weights: those of PastSums. Uses the past without this prediction.
  [[nodiscard]] OfPasts<ClassCountTerms> Terms(const PredictionTerms& prediction, std::size_t label,
                                               const OfPasts<double>& weights) const noexcept;
  // g: the prediction before smoothing. weights: the weights of this prediction.
  void Add(const PredictionTerms& prediction, const double* g, std::size_t label,
           const OfPasts<double>& weights) noexcept;
  void RescaleRecent(double scale) noexcept;

  // Writes class_observed and class_expected, which Restore reads.
  void Save(PastState& all, PastState& recent) const;
  void Restore(const PastState& all, const PastState& recent);
  [[nodiscard]] static std::size_t Memory(std::size_t class_count) noexcept;

 private:
  std::size_t class_count_;
  std::size_t size_;
  // kBinCount x size cells: most classes are in the same few bins, and their cells are therefore
  // adjacent.
  LineVector cells_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_CLASS_COUNTS_H_
