#ifndef CALIBD_CORE_SRC_EVIDENCE_EXPERT_PROCESSES_H_
#define CALIBD_CORE_SRC_EVIDENCE_EXPERT_PROCESSES_H_

#include <array>
#include <cstddef>

#include "evidence/evidence_layout.h"
#include "evidence/strip_bets.h"

namespace calibd {

// A process of each expert, as its logarithm at the last multiple of kStripRows rows, and its
// growth since. Arrays over kPaddedExperts.
struct ProcessArrays {
  double* log;
  double* growth;
};
// W and 1 + R.
struct ExpertProcesses {
  ProcessArrays e;
  ProcessArrays r1;
};

// The logarithms of the mixtures over experts, after each row. log_e is without the means.
struct ProcessMixtures {
  // Before the first row.
  double log_e_before;
  alignas(64) std::array<double, kStripRows> log_e;
  alignas(64) std::array<double, kStripRows> log_r1;
};

// Adds rows first .. last - 1 of a strip, at most up to the next multiple of kStripRows rows of the
// process: W <- W e with the bets from the whole past, and R <- (1 + R) e with the bets from the
// recent past.
void AdvanceProcesses(const StripBets& bets, std::size_t first, std::size_t last,
                      const ExpertProcesses& processes, ProcessMixtures& out) noexcept;

// The logarithm of the mixture of W over all experts, with the means.
[[nodiscard]] double LogMixture(const ExpertProcesses& processes) noexcept;

// Adds the logarithms of the growths to the logarithms; the growths become 1.
void FoldGrowth(const ExpertProcesses& processes) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EVIDENCE_EXPERT_PROCESSES_H_
