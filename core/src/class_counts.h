#ifndef CALIBD_CORE_SRC_CLASS_COUNTS_H_
#define CALIBD_CORE_SRC_CLASS_COUNTS_H_

#include <array>
#include <cstddef>

#include "calibd/core/evidence.h"
#include "calibd/core/line_vector.h"
#include "evidence_simd.h"

namespace calibd {

// What the bins of each class say of a prediction whose label is y.
struct ClassCountTerms {
  // (O + 3) / (E + 3) of the label's bin, and sum_k p_k r_k^theta.
  double ratio;
  HistogramSums sums;
};

// How often labels fell into a bin of a class's log odds and how often predictions said so, in
// all of the past and in the recent one. Those of one class and bin stand beside each other, as
// which bins a prediction meets is all that is slow about them.
class ClassCounts {
 public:
  explicit ClassCounts(std::size_t class_count);

  // weights: of PastSums. Of the past before the prediction joins.
  [[nodiscard]] OfPasts<ClassCountTerms> Terms(const PredictionTerms& prediction, std::size_t label,
                                               const OfPasts<double>& weights) const noexcept;
  // g: as given. weights: those that it joins with.
  void Add(const PredictionTerms& prediction, const double* g, std::size_t label,
           const OfPasts<double>& weights) noexcept;
  void RescaleRecent(double scale) noexcept;

  // Writes class_observed and class_expected, from which Restore goes on.
  void Save(PastState& all, PastState& recent) const;
  void Restore(const PastState& all, const PastState& recent);
  [[nodiscard]] static std::size_t Memory(std::size_t class_count) noexcept;

 private:
  std::size_t class_count_;
  std::size_t size_;
  // kBinCount x size cells: most classes are in the same few bins, and so beside each other.
  LineVector cells_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_CLASS_COUNTS_H_
