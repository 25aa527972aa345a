#ifndef CALIBD_CORE_SIMD_TARGET_H_
#define CALIBD_CORE_SIMD_TARGET_H_

namespace calibd {

// Name of the instruction set that the quadratic computations run with on this CPU, for
// the provenance of a result, e.g. "AVX3" (AVX-512), "AVX2", "SCALAR".
[[nodiscard]] const char* SimdTarget();

}  // namespace calibd

#endif  // CALIBD_CORE_SIMD_TARGET_H_
