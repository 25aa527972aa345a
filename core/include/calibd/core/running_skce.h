#ifndef CALIBD_CORE_RUNNING_SKCE_H_
#define CALIBD_CORE_RUNNING_SKCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"

namespace calibd {

inline constexpr std::size_t kMinBlockSize = 2;
inline constexpr std::size_t kMaxBlockSize = 1000;

// Count, mean and sum of squared deviations of a sequence of values.
struct RunningMoments {
  std::int64_t count = 0;
  double mean = 0;
  // Sum of squared deviations from the mean.
  double m2 = 0;

  // Welford's update.
  void Add(double value) noexcept;
  // Chan, Golub & LeVeque's pairwise update. Merge law: equals adding other's
  // values one by one, up to rounding.
  void Merge(const RunningMoments& other) noexcept;
  // Sample variance, divisor count - 1. Needs count >= 2.
  [[nodiscard]] double Variance() const noexcept;

  friend bool operator==(const RunningMoments&, const RunningMoments&) = default;
};

// The block estimator of SKCE in running form: consecutive blocks of
// block_size observations in the order they are added, each reduced to its
// unbiased estimate. block_size = 2 is SKCE_ul. Source: Widmann, Lindsten &
// Zachariah, NeurIPS 2019, Table 1 row 3 and App. F.
//
// Adding observations one by one or in any batches gives equal bits. Holds at
// most block_size - 1 observations. Cost of Add: (block_size - 1) / 2 terms of
// O(m) an observation on average. Not thread-safe.
class RunningBlockSkce {
 public:
  // Errors: InvalidArgument unless block_size is in [2, 1000] and class_count in
  // [2, 100000].
  [[nodiscard]] static absl::StatusOr<RunningBlockSkce> Create(std::size_t block_size,
                                                               std::size_t class_count,
                                                               const Kernel& kernel);

  // g: a valid prediction, m probabilities; y: its label.
  void Add(std::span<const double> g, std::int32_t y) noexcept;

  // Adds the complete blocks of other, as if they had been counted here.
  // Incomplete blocks do not merge: FailedPrecondition when other has
  // observations pending, or differs in block size, classes or kernel; then
  // nothing has changed. a.Merge(a) doubles the blocks.
  [[nodiscard]] absl::Status Merge(const RunningBlockSkce& other);

  [[nodiscard]] std::size_t block_size() const noexcept { return block_size_; }
  // Of the values of the complete blocks. mean is the estimate.
  [[nodiscard]] const RunningMoments& moments() const noexcept { return moments_; }
  // Observations that wait for their block, < block_size.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_labels_.size(); }
  // Bytes this object may come to hold.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t block_size,
                                             std::size_t class_count) noexcept;

 private:
  RunningBlockSkce(std::size_t block_size, std::size_t class_count, const Kernel& kernel);

  std::size_t block_size_;
  std::size_t class_count_;
  Kernel kernel_;
  RunningMoments moments_;
  // Terms among the observations of the incomplete block.
  double block_sum_ = 0;
  std::vector<double> pending_probabilities_;
  std::vector<std::int32_t> pending_labels_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_RUNNING_SKCE_H_
