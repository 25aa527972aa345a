#include "calibd/core/running_skce.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/skce.h"
#include "calibd/core/status_macros.h"
#include "calibd/core/validation.h"
#include "pair_terms.h"

namespace calibd {
namespace {

// With fewer observations, adding them one by one is faster.
constexpr std::size_t kMinPairsTogether = 4;

}  // namespace

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

absl::Status CheckClassCount(std::size_t class_count, const RunningKernel& kernel) {
  if (class_count < kMinClassCount || class_count > kMaxClassCount) {
    return absl::InvalidArgumentError(absl::StrCat("class_count is ", class_count, ", expected ",
                                                   kMinClassCount, "..", kMaxClassCount));
  }
  const MatrixKernel* const matrix = MatrixOf(kernel);
  if (matrix == nullptr || matrix->class_count() == class_count) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("class_count is ", class_count, ", expected ",
                                                 matrix->class_count(), ", the kernel's"));
}

double DistributionFreeBound(const RunningKernel& kernel) noexcept {
  const MatrixKernel* const matrix = MatrixOf(kernel);
  return matrix != nullptr ? matrix->DistributionFreeBound() : Kernel::DistributionFreeBound();
}

RunningBlockSkce::RunningBlockSkce(std::size_t block_size, std::size_t class_count,
                                   RunningKernel kernel, std::size_t parts, double weight)
    : block_size_(block_size),
      class_count_(class_count),
      kernel_(std::move(kernel)),
      parts_(parts),
      weight_(weight) {
  if (matrix() != nullptr) projected_.resize(matrix()->rank());
  ReservePending();
}

void RunningBlockSkce::ReservePending() {
  state_.pending_probabilities.reserve((block_size_ - 1) * parts_ * class_count_);
  state_.pending_labels.reserve((block_size_ - 1) * parts_);
  pending_projected_.reserve((block_size_ - 1) * projected_.size());
}

absl::StatusOr<RunningBlockSkce> RunningBlockSkce::Create(std::size_t block_size,
                                                          std::size_t class_count,
                                                          RunningKernel kernel, std::size_t parts,
                                                          double weight) {
  if (block_size < kMinBlockSize || block_size > kMaxBlockSize) {
    return absl::InvalidArgumentError(absl::StrCat("block_size is ", block_size, ", expected ",
                                                   kMinBlockSize, "..", kMaxBlockSize));
  }
  CALIBD_RETURN_IF_ERROR(CheckClassCount(class_count, kernel));
  return RunningBlockSkce(block_size, class_count, std::move(kernel), parts, weight);
}

double RunningBlockSkce::Term(std::size_t i, std::span<const double> g,
                              std::span<const std::int32_t> labels) const noexcept {
  if (matrix() != nullptr) {
    const std::span<const double> g_i(&state_.pending_probabilities[i * class_count_],
                                      class_count_);
    const std::span<const double> projected_i(&pending_projected_[i * projected_.size()],
                                              projected_.size());
    return SkceTerm(g_i, projected_i, g, projected_, *matrix());
  }
  const Kernel& kernel = *std::get_if<Kernel>(&kernel_);
  double sum = 0;
  for (std::size_t part = 0; part < parts_; ++part) {
    const std::span<const double> g_i(
        &state_.pending_probabilities[(i * parts_ + part) * class_count_], class_count_);
    const std::int32_t y_i = state_.pending_labels[i * parts_ + part];
    const std::span<const double> g_j = g.subspan(part * class_count_, class_count_);
    sum += SkceTerm(g_i, y_i, g_j, labels[part], kernel);
  }
  return weight_ * sum;
}

void RunningBlockSkce::AddTermsTogether(std::span<const double> g, std::int32_t y,
                                        std::size_t waiting) noexcept {
  const Kernel& kernel = *std::get_if<Kernel>(&kernel_);
  const PredictionBatch pending{state_.pending_probabilities, state_.pending_labels, class_count_};
  PairTerms terms;
  for (std::size_t i = 0; i < waiting; i += kMaxPairs) {
    const std::size_t count = std::min(kMaxPairs, waiting - i);
    ComputeTermsWith(g, y, pending.rows(i, count), kernel.distance(), terms);
    for (std::size_t p = 0; p < count; ++p) {
      state_.block_sum +=
          weight_ * (kernel.OfDistance(terms.distances[p]) * terms.residual_products[p]);
    }
  }
}

void RunningBlockSkce::SetPending(const PredictionBatch& rows) noexcept {
  state_.pending_probabilities.assign(rows.probabilities.begin(), rows.probabilities.end());
  state_.pending_labels.assign(rows.labels.begin(), rows.labels.end());
}

std::optional<double> RunningBlockSkce::Add(std::span<const double> g,
                                            std::span<const std::int32_t> labels) noexcept {
  // The block's terms are summed as its observations come, so that the cost is
  // spread evenly and the last observation need not be stored.
  const std::size_t waiting = pending();
  if (matrix() != nullptr) matrix()->Project(g, labels.front(), projected_);
  if (matrix() == nullptr && parts_ == 1 && waiting >= kMinPairsTogether) {
    AddTermsTogether(g, labels.front(), waiting);
  } else {
    for (std::size_t i = 0; i < waiting; ++i) state_.block_sum += Term(i, g, labels);
  }
  if (waiting + 1 < block_size_) {
    state_.pending_probabilities.insert(state_.pending_probabilities.end(), g.begin(), g.end());
    state_.pending_labels.insert(state_.pending_labels.end(), labels.begin(), labels.end());
    pending_projected_.insert(pending_projected_.end(), projected_.begin(), projected_.end());
    return std::nullopt;
  }
  const auto b = static_cast<double>(block_size_);
  const double value = state_.block_sum / (b * (b - 1) / 2);
  state_.moments.Add(value);
  state_.block_sum = 0;
  state_.pending_probabilities.clear();
  state_.pending_labels.clear();
  pending_projected_.clear();
  return value;
}

absl::Status RunningBlockSkce::Merge(const RunningBlockSkce& other) {
  if (other.block_size_ != block_size_ || other.class_count_ != class_count_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot merge block_size ", other.block_size_, ", class_count ", other.class_count_,
        " into block_size ", block_size_, ", class_count ", class_count_));
  }
  if (other.kernel_ != kernel_ || other.parts_ != parts_ || other.weight_ != weight_) {
    return absl::FailedPreconditionError("cannot merge estimators of another kernel or lens");
  }
  if (other.pending() != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot merge ", other.pending(), " observations of an incomplete block, expected 0"));
  }
  state_.moments.Merge(RunningMoments(other.state_.moments));
  return absl::OkStatus();
}

absl::Status RunningBlockSkce::Restore(State state) {
  const std::size_t rows = state.pending_labels.size() / parts_;
  const bool fits = rows < block_size_ && state.pending_labels.size() == rows * parts_ &&
                    state.pending_probabilities.size() == rows * parts_ * class_count_ &&
                    state.moments.count >= 0 && std::isfinite(state.moments.mean) &&
                    std::isfinite(state.moments.m2) && std::isfinite(state.block_sum);
  const bool labels_fit = std::all_of(
      state.pending_labels.begin(), state.pending_labels.end(),
      [this](auto label) { return label >= 0 && static_cast<std::size_t>(label) < class_count_; });
  if (!fits || !labels_fit) {
    return absl::InvalidArgumentError(absl::StrCat("the state is not of blocks of ", block_size_,
                                                   " observations of ", parts_, " x ", class_count_,
                                                   " probabilities"));
  }
  state_ = std::move(state);
  pending_projected_.clear();
  ReservePending();
  for (std::size_t i = 0; matrix() != nullptr && i < rows; ++i) {
    matrix()->Project(
        std::span(state_.pending_probabilities).subspan(i * class_count_, class_count_),
        state_.pending_labels[i], projected_);
    pending_projected_.insert(pending_projected_.end(), projected_.begin(), projected_.end());
  }
  return absl::OkStatus();
}

std::size_t RunningBlockSkce::MaxMemory(std::size_t block_size, std::size_t class_count,
                                        std::size_t parts, std::size_t rank) noexcept {
  return sizeof(RunningBlockSkce) + block_size * rank * sizeof(double) +
         (block_size - 1) * parts * (class_count * sizeof(double) + sizeof(std::int32_t));
}

}  // namespace calibd
