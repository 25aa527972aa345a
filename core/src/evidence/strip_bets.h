#ifndef CALIBD_CORE_SRC_EVIDENCE_STRIP_BETS_H_
#define CALIBD_CORE_SRC_EVIDENCE_STRIP_BETS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "evidence/evidence_layout.h"
#include "evidence/past_sums.h"

namespace calibd {

// A strip of rows, and its F and M from the frozen past.
struct StripTask {
  std::size_t class_count;
  double tolerance;
  // Predictions before smoothing: class_count x kStripRows.
  const double* given;
  // The first and the last row that is needed, plus 1, and their labels. Other rows may have any
  // values.
  std::size_t first;
  std::size_t last;
  const std::int32_t* labels;
  // lines x kWitnessRows, of which kStripRows are used, for each past.
  OfPasts<const float*> witness;
  const ClassCounts* counts;
  // Receives the bins of the probabilities: class_count x kStripRows.
  std::uint8_t* bins;
  // Scratch: class_count x kStripRows.
  double* smoothed;
};

// For each row, after another: the e-values of all experts for the label of the row.
struct alignas(64) StripBets {
  using OfRows = std::array<double, kStripRows>;
  std::array<OfPasts<std::array<double, kPaddedExperts>>, kStripRows> e_values;
  // <F, d>, the square of |d|, and sum_k g_k (F_k - <g, F>)^2, of the whole past.
  OfRows product;
  OfRows square;
  OfRows variance;
};

// See ExpertKind for the formulas. The bits of a row do not depend on the other rows.
void ComputeBets(const StripTask& task, StripBets& out) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_STRIP_BETS_H_
