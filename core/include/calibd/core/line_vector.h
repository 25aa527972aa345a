#ifndef CALIBD_CORE_LINE_VECTOR_H_
#define CALIBD_CORE_LINE_VECTOR_H_

#include <cstddef>
#include <new>
#include <vector>

namespace calibd {

// Allocates memory aligned to cache lines, so that aligned SIMD loads of any width never cross a
// cache line.
template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  LineAllocator() = default;
  template <typename U>
  explicit LineAllocator(const LineAllocator<U>& /*other*/) noexcept {}
  [[nodiscard]] T* allocate(std::size_t n) {
    return static_cast<T*>(::operator new(n * sizeof(T), kAlignment));
  }
  void deallocate(T* pointer, std::size_t /*n*/) noexcept {
    ::operator delete(pointer, kAlignment);
  }
  friend bool operator==(const LineAllocator&, const LineAllocator&) = default;
};
using LineVector = std::vector<double, LineAllocator<double>>;
using FloatLineVector = std::vector<float, LineAllocator<float>>;

}  // namespace calibd

#endif  // CALIBD_CORE_LINE_VECTOR_H_
