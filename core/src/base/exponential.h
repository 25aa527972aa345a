#ifndef CALIBD_CORE_SRC_BASE_EXPONENTIAL_H_
#define CALIBD_CORE_SRC_BASE_EXPONENTIAL_H_

#include <cstddef>

namespace calibd {

// Replaces each x by exp(min(x, 0)), and by about 0 below -708. The relative error is at most
// 1e-15 + 2e-16 |x|. Highway selects the instructions at run time; the last bits differ between
// CPUs.
void Exponentiate(double* values, std::size_t count) noexcept;

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_EXPONENTIAL_H_
