#ifndef CALIBD_CORE_SRC_EVIDENCE_PAST_SUMS_H_
#define CALIBD_CORE_SRC_EVIDENCE_PAST_SUMS_H_

#include <cstddef>

#include "calibd/core/evidence_state.h"
#include "calibd/core/line_vector.h"
#include "calibd/core/run_control.h"
#include "evidence/class_counts.h"
#include "evidence/evidence_chunk.h"
#include "evidence/evidence_layout.h"

namespace calibd {

// The sums over the past from which experts bet: the whole past, and the recent past, which each
// new row decays. They are frozen while a chunk is collected. The rows of a chunk are of the same
// age.
class PastSums {
 public:
  explicit PastSums(std::size_t class_count);

  // The number of lines of A and S together, see witness_simd.h.
  [[nodiscard]] std::size_t lines() const noexcept { return class_count_ + 1; }
  [[nodiscard]] const float* witness(std::size_t past) const noexcept {
    return witness_[past].data();
  }
  // A and S of the whole past in double precision.
  [[nodiscard]] const double* sums() const noexcept { return sums_.data(); }
  [[nodiscard]] const ClassCounts& counts() const noexcept { return counts_; }
  // The sum of squares of A, of the whole past.
  [[nodiscard]] double norm2() const noexcept { return norm2_; }

  // Adds the rows of a chunk, which turn into residuals. The bits do not depend on `parallel`,
  // which may be unset.
  void Add(EvidenceChunk& chunk, const ParallelLoop& parallel);

  void Save(PastState& all, PastState& recent) const;
  // Returns true if the state has the shape for class_count classes and is finite.
  [[nodiscard]] static bool Fits(const PastState& state, std::size_t class_count);
  // The states must fit.
  void Restore(const PastState& all, const PastState& recent);
  [[nodiscard]] static std::size_t Memory(std::size_t class_count) noexcept;

 private:
  std::size_t class_count_;
  // A and S: lines x kFourierCount. The whole past is summed in double precision, because no row
  // of it is ever forgotten. Rows of the recent past are forgotten before errors add up.
  LineVector sums_;
  OfPasts<FloatLineVector> witness_;
  ClassCounts counts_;
  double norm2_ = 0;
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_PAST_SUMS_H_
