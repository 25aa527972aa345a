#ifndef CALIBD_CORE_MOMENTS_H_
#define CALIBD_CORE_MOMENTS_H_

#include <cmath>
#include <cstdint>
#include <span>

namespace calibd {

// Count, mean and sum of squared deviations of a sequence of values.
struct RunningMoments {
  std::int64_t count = 0;
  double mean = 0;
  // Sum of squared deviations from the mean.
  double m2 = 0;

  // Welford's update.
  void Add(double value) noexcept {
    ++count;
    const double delta = value - mean;
    mean += delta / static_cast<double>(count);
    m2 += delta * (value - mean);
  }
  // Chan, Golub & LeVeque's pairwise update. Merge law: equals adding other's
  // values one by one, up to rounding.
  void Merge(const RunningMoments& other) noexcept;
  // Sample variance, divisor count - 1. Needs count >= 2.
  [[nodiscard]] double Variance() const noexcept;

  friend bool operator==(const RunningMoments&, const RunningMoments&) = default;
};

inline RunningMoments MomentsOf(std::span<const double> values) noexcept {
  RunningMoments moments;
  for (const double value : values) moments.Add(value);
  return moments;
}

// The standard error of the mean. Needs moments.count >= 2.
inline double StandardError(const RunningMoments& moments) noexcept {
  return std::sqrt(moments.Variance() / static_cast<double>(moments.count));
}

}  // namespace calibd

#endif  // CALIBD_CORE_MOMENTS_H_
