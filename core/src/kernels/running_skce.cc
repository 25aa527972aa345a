#include "calibd/core/running_skce.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "calibd/core/lens.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/skce.h"
#include "calibd/core/status_macros.h"
#include "kernels/pair_terms.h"

namespace calibd {
namespace {

// With fewer observations, the terms cost less one by one than packing the tiles.
constexpr std::size_t kMinTileRows = 8;
// The tiles of a larger block would need too much memory beside it.
constexpr std::size_t kMaxTileBytes = std::size_t{32} << 20;

}  // namespace

RunningBlockSkce::RunningBlockSkce(std::size_t block_size, std::size_t class_count,
                                   RunningKernel kernel, std::size_t parts, double weight)
    : block_size_(block_size),
      class_count_(class_count),
      kernel_(std::move(kernel)),
      parts_(parts),
      weight_(weight) {
  ReservePending();
}

void RunningBlockSkce::ReservePending() {
  state_.pending_probabilities.reserve(block_size_ * parts_ * class_count_);
  state_.pending_labels.reserve(block_size_ * parts_);
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

double RunningBlockSkce::SumOfMatrixTerms(const PredictionBatch& block) const {
  const std::size_t rank = matrix()->rank();
  std::vector<double> residuals(block.size() * rank);
  const auto residual = [&](std::size_t i) { return std::span(residuals).subspan(i * rank, rank); };
  double sum = 0;
  for (std::size_t j = 0; j < block.size(); ++j) {
    matrix()->Project(block.row(j), block.labels[j], residual(j));
    for (std::size_t i = 0; i < j; ++i) {
      sum += SkceTerm(block.row(i), residual(i), block.row(j), residual(j), *matrix());
    }
  }
  return sum;
}

double RunningBlockSkce::SumOfTerms(std::span<const double> rows,
                                    std::span<const std::int32_t> labels) const {
  if (matrix() != nullptr) return SumOfMatrixTerms({rows, labels, class_count_});
  const Kernel& kernel = *std::get_if<Kernel>(&kernel_);
  const PredictionBatch parts{rows, labels, class_count_};
  double sum = 0;
  for (std::size_t j = 0; j < parts.size(); j += parts_) {
    for (std::size_t i = 0; i < j; i += parts_) {
      double term = 0;
      for (std::size_t part = 0; part < parts_; ++part) {
        term += SkceTerm(parts.row(i + part), labels[i + part], parts.row(j + part),
                         labels[j + part], kernel);
      }
      sum += weight_ * term;
    }
  }
  return sum;
}

double RunningBlockSkce::Estimate(std::span<const double> rows,
                                  std::span<const std::int32_t> labels) const {
  if (matrix() != nullptr || block_size_ < kMinTileRows || rows.size_bytes() > kMaxTileBytes) {
    const auto b = static_cast<double>(block_size_);
    return SumOfTerms(rows, labels) / (b * (b - 1) / 2);
  }
  const Kernel& kernel = *std::get_if<Kernel>(&kernel_);
  if (parts_ == 1) {
    const PredictionBatch block{rows, labels, class_count_};
    return EstimateQuadraticSkce(std::span(&block, 1), weight_, kernel)->unbiased;
  }
  LensBatch block{.parts = std::vector<PredictionSet>(parts_), .weight = weight_};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    PredictionSet& part = block.parts[i % parts_];
    const std::span<const double> g = rows.subspan(i * class_count_, class_count_);
    part.class_count = class_count_;
    part.probabilities.insert(part.probabilities.end(), g.begin(), g.end());
    part.labels.push_back(labels[i]);
  }
  return EstimateQuadraticSkce(block, kernel)->unbiased;
}

void RunningBlockSkce::SetPending(const PredictionBatch& rows) noexcept {
  state_.pending_probabilities.assign(rows.probabilities.begin(), rows.probabilities.end());
  state_.pending_labels.assign(rows.labels.begin(), rows.labels.end());
}

void RunningBlockSkce::AddSeparatePairs(const PredictionBatch& batch, const Kernel& kernel,
                                        RunningMoments* completed) noexcept {
  PairTerms terms;
  RunningMoments moments = state_.moments;
  for (std::size_t begin = 0; begin < batch.size(); begin += 2 * kMaxPairs) {
    const PredictionBatch pairs = batch.rows(begin, std::min(2 * kMaxPairs, batch.size() - begin));
    ComputeSeparateTerms(pairs, kernel.distance(), terms);
    for (std::size_t p = 0; p < pairs.size() / 2; ++p) {
      const double value =
          weight_ * (kernel.OfDistance(terms.distances[p]) * terms.residual_products[p]);
      moments.Add(value);
      if (completed != nullptr) completed->Add(value);
    }
  }
  state_.moments = moments;
}

void RunningBlockSkce::Add(std::span<const double> rows, std::span<const std::int32_t> labels,
                           RunningMoments* completed) {
  const auto complete = [&](std::span<const double> block,
                            std::span<const std::int32_t> block_labels) {
    const double value = Estimate(block, block_labels);
    state_.moments.Add(value);
    if (completed != nullptr) completed->Add(value);
  };
  std::vector<double>& probabilities = state_.pending_probabilities;
  const Kernel* const kernel = std::get_if<Kernel>(&kernel_);
  const bool in_pairs = block_size_ == 2 && parts_ == 1 && kernel != nullptr;
  while (!labels.empty()) {
    const std::size_t missing = block_size_ - pending();
    if (in_pairs && missing == 2 && labels.size() >= 2) {
      const PredictionBatch batch{rows, labels, class_count_};
      const std::size_t paired = batch.size() / 2 * 2;
      AddSeparatePairs(batch.rows(0, paired), *kernel, completed);
      rows = rows.subspan(paired * class_count_);
      labels = labels.subspan(paired);
      continue;
    }
    const std::size_t added = std::min(missing, labels.size() / parts_);
    const auto added_rows = rows.first(added * parts_ * class_count_);
    const auto added_labels = labels.first(added * parts_);
    rows = rows.subspan(added_rows.size());
    labels = labels.subspan(added_labels.size());
    if (added == block_size_) {
      complete(added_rows, added_labels);
      continue;
    }
    probabilities.insert(probabilities.end(), added_rows.begin(), added_rows.end());
    state_.pending_labels.insert(state_.pending_labels.end(), added_labels.begin(),
                                 added_labels.end());
    if (added < missing) return;
    complete(probabilities, state_.pending_labels);
    probabilities.clear();
    state_.pending_labels.clear();
  }
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
                    std::isfinite(state.moments.m2);
  const bool labels_fit = std::all_of(
      state.pending_labels.begin(), state.pending_labels.end(),
      [this](auto label) { return label >= 0 && static_cast<std::size_t>(label) < class_count_; });
  if (!fits || !labels_fit) {
    return absl::InvalidArgumentError(absl::StrCat("the state is not of blocks of ", block_size_,
                                                   " observations of ", parts_, " x ", class_count_,
                                                   " probabilities"));
  }
  state_ = std::move(state);
  ReservePending();
  return absl::OkStatus();
}

std::size_t RunningBlockSkce::MaxMemory(std::size_t block_size, std::size_t class_count,
                                        std::size_t parts, std::size_t rank) noexcept {
  return sizeof(RunningBlockSkce) +
         block_size * (rank * sizeof(double) +
                       parts * (class_count * sizeof(double) + sizeof(std::int32_t)));
}

}  // namespace calibd
