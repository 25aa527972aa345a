#include "calibd/core/running_skce.h"

#include "absl/strings/str_cat.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/skce.h"
#include "calibd/core/validation.h"

namespace calibd {

void RunningMoments::Add(double value) noexcept {
  ++count;
  const double delta = value - mean;
  mean += delta / static_cast<double>(count);
  m2 += delta * (value - mean);
}

void RunningMoments::Merge(const RunningMoments& other) noexcept {
  if (other.count == 0) return;
  const auto n = static_cast<double>(count);
  const auto other_n = static_cast<double>(other.count);
  const double delta = other.mean - mean;
  m2 += other.m2 + delta * delta * (n * other_n / (n + other_n));
  mean += delta * (other_n / (n + other_n));
  count += other.count;
}

double RunningMoments::Variance() const noexcept { return m2 / static_cast<double>(count - 1); }

RunningBlockSkce::RunningBlockSkce(std::size_t block_size, std::size_t class_count,
                                   const Kernel& kernel)
    : block_size_(block_size), class_count_(class_count), kernel_(kernel) {
  pending_probabilities_.reserve((block_size - 1) * class_count);
  pending_labels_.reserve(block_size - 1);
}

absl::StatusOr<RunningBlockSkce> RunningBlockSkce::Create(std::size_t block_size,
                                                          std::size_t class_count,
                                                          const Kernel& kernel) {
  if (block_size < kMinBlockSize || block_size > kMaxBlockSize) {
    return absl::InvalidArgumentError(absl::StrCat("block_size is ", block_size, ", expected ",
                                                   kMinBlockSize, "..", kMaxBlockSize));
  }
  if (class_count < kMinClassCount || class_count > kMaxClassCount) {
    return absl::InvalidArgumentError(absl::StrCat("class_count is ", class_count, ", expected ",
                                                   kMinClassCount, "..", kMaxClassCount));
  }
  return RunningBlockSkce(block_size, class_count, kernel);
}

void RunningBlockSkce::Add(std::span<const double> g, std::int32_t y) noexcept {
  // The block's terms are summed as its observations come, so that the cost is
  // spread evenly and the last observation need not be stored.
  for (std::size_t i = 0; i < pending_labels_.size(); ++i) {
    const std::span<const double> g_i(&pending_probabilities_[i * class_count_], class_count_);
    block_sum_ += SkceTerm(g_i, pending_labels_[i], g, y, kernel_);
  }
  if (pending_labels_.size() + 1 < block_size_) {
    pending_probabilities_.insert(pending_probabilities_.end(), g.begin(), g.end());
    pending_labels_.push_back(y);
    return;
  }
  const auto b = static_cast<double>(block_size_);
  moments_.Add(block_sum_ / (b * (b - 1) / 2));
  block_sum_ = 0;
  pending_probabilities_.clear();
  pending_labels_.clear();
}

absl::Status RunningBlockSkce::Merge(const RunningBlockSkce& other) {
  if (other.block_size_ != block_size_ || other.class_count_ != class_count_ ||
      other.kernel_.bandwidth() != kernel_.bandwidth()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot merge block_size ", other.block_size_, ", class_count ", other.class_count_,
        ", bandwidth ", other.kernel_.bandwidth(), " into block_size ", block_size_,
        ", class_count ", class_count_, ", bandwidth ", kernel_.bandwidth()));
  }
  if (other.pending() != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot merge ", other.pending(), " observations of an incomplete block, expected 0"));
  }
  moments_.Merge(RunningMoments(other.moments_));
  return absl::OkStatus();
}

std::size_t RunningBlockSkce::MaxMemory(std::size_t block_size, std::size_t class_count) noexcept {
  return sizeof(RunningBlockSkce) +
         (block_size - 1) * (class_count * sizeof(double) + sizeof(std::int32_t));
}

}  // namespace calibd
