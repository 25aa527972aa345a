#ifndef CALIBD_CORE_FOURIER_SIZE_H_
#define CALIBD_CORE_FOURIER_SIZE_H_

#include <cstddef>

namespace calibd {

// R random frequencies give D = 2 R Fourier terms.
inline constexpr std::size_t kFrequencyCount = 64;
inline constexpr std::size_t kFourierCount = 2 * kFrequencyCount;

}  // namespace calibd

#endif  // CALIBD_CORE_FOURIER_SIZE_H_
