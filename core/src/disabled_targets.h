#ifndef CALIBD_CORE_SRC_DISABLED_TARGETS_H_
#define CALIBD_CORE_SRC_DISABLED_TARGETS_H_

// Included before Highway's headers. Arrays of vectors need vectors of a size known to the
// compiler; SSSE3 adds nothing to what we use but the time to compile it.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV | HWY_SSSE3)

#endif  // CALIBD_CORE_SRC_DISABLED_TARGETS_H_
