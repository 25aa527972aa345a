#pragma once

#include <cstddef>
#include <cstdint>

#include "calibd/core/generator.h"
#include "calibd/core/kernel.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

// n predictions with labels from the generator, which only the seed varies.
inline PredictionSet Draw(const GeneratorSpec& spec, std::size_t n, std::uint64_t seed) {
  PredictionSet set;
  Generator::Create(spec, seed)->Draw(n, set);
  return set;
}

// exp(-|p - q|_TV / bandwidth)
inline Kernel MakeKernel(double bandwidth) { return *Kernel::ExponentialTotalVariation(bandwidth); }

}  // namespace calibd
