#ifndef CALIBD_CORE_SRC_BASE_FLUSH_SUBNORMALS_H_
#define CALIBD_CORE_SRC_BASE_FLUSH_SUBNORMALS_H_

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace calibd {

// While it exists, subnormal numbers count as 0 in this thread on x86, where an instruction with
// one takes more than 100 cycles on some CPUs. For sums in which such numbers are rounding errors.
class FlushSubnormals {
 public:
#if defined(__SSE2__)
  FlushSubnormals() noexcept : before_(_mm_getcsr()) {
    // Results are flushed to zero, and operands are zeros.
    constexpr unsigned kFlush = 0x8000;
    constexpr unsigned kZeros = 0x0040;
    _mm_setcsr(before_ | kFlush | kZeros);
  }
  ~FlushSubnormals() { _mm_setcsr(before_); }
#else
  FlushSubnormals() noexcept = default;
  ~FlushSubnormals() = default;
#endif
  FlushSubnormals(const FlushSubnormals&) = delete;
  FlushSubnormals& operator=(const FlushSubnormals&) = delete;

 private:
#if defined(__SSE2__)
  const unsigned before_;
#endif
};

}  // namespace calibd

#endif  // CALIBD_CORE_SRC_BASE_FLUSH_SUBNORMALS_H_
