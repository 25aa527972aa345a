#ifndef CALIBD_CORE_SRC_EXPERT_TERMS_H_
#define CALIBD_CORE_SRC_EXPERT_TERMS_H_

#include <cstddef>

#include "class_counts.h"
#include "evidence_simd.h"
#include "past_sums.h"

namespace calibd {

// E(label) of each expert.
[[nodiscard]] ExpertBets Bets(const PredictionTerms& prediction, const PastTerms& past,
                              const ClassCountTerms& classes, std::size_t label) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EXPERT_TERMS_H_
