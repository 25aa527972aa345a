#ifndef CALIBD_CORE_SRC_BASE_DISABLED_TARGETS_H_
#define CALIBD_CORE_SRC_BASE_DISABLED_TARGETS_H_

// Include this before Highway's headers. Arrays of vectors need vectors whose size is known at
// compile time. SSSE3 would only add compile time.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)

#endif  // CALIBD_CORE_SRC_BASE_DISABLED_TARGETS_H_
