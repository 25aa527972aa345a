#ifndef CALIBD_CORE_SRC_EXPERT_TERMS_H_
#define CALIBD_CORE_SRC_EXPERT_TERMS_H_

#include <cstddef>

#include "evidence_simd.h"
#include "past_sums.h"

namespace calibd {

// log E(label) of each expert, less the penalty of the smoothing. out: kPaddedExperts.
void LogEValues(const PredictionTerms& prediction, const PastTerms& past, std::size_t label,
                double penalty, double* out) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_EXPERT_TERMS_H_
