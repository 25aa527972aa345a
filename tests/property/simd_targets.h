#ifndef CALIBD_TESTS_PROPERTY_SIMD_TARGETS_H_
#define CALIBD_TESTS_PROPERTY_SIMD_TARGETS_H_

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <cstdint>

namespace calibd::testing {

// Runs body once with each instruction set of this CPU, and once without any.
template <typename Body>
void ForEachTarget(const Body& body) {
  hwy::SetSupportedTargetsForTest(0);
  for (std::int64_t targets = hwy::SupportedTargets() | HWY_BASELINE_SCALAR; targets != 0;
       targets &= targets - 1) {
    SCOPED_TRACE(hwy::TargetName(targets & -targets));
    hwy::SetSupportedTargetsForTest(targets & -targets);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

inline void ExpectBits(double actual, double expected) {
  EXPECT_EQ(std::bit_cast<std::uint64_t>(actual), std::bit_cast<std::uint64_t>(expected))
      << actual << " " << expected;
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_PROPERTY_SIMD_TARGETS_H_
