#ifndef CALIBD_CORE_RUNNING_SKCE_H_
#define CALIBD_CORE_RUNNING_SKCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/core/kernel.h"
#include "calibd/core/matrix_kernel.h"
#include "calibd/core/moments.h"
#include "calibd/core/prediction_batch.h"

namespace calibd {

inline constexpr std::size_t kMinBlockSize = 2;
inline constexpr std::size_t kMaxBlockSize = 1000;

// The block estimator of SKCE in running form: consecutive blocks of
// block_size observations in the order they are added, each reduced to its
// unbiased estimate. block_size = 2 is SKCE_ul. Source: Widmann, Lindsten &
// Zachariah, NeurIPS 2019, Table 1 row 3 and App. F.
//
// Adding observations one by one or in any batches gives equal bits. Keeps the observations of the
// incomplete block, fewer than block_size, and computes a block when its last observation is added.
// Cost of Add: (block_size - 1) / 2 terms of O(m) for each observation on average; with a
// matrix-valued kernel O(m rank) once and O(m + rank) for each term. Not thread-safe.
class RunningBlockSkce {
 public:
  // parts, weight: those of the lens; h is the weighted sum over parts of class_count classes each.
  // Errors: InvalidArgument unless block_size is in [2, 1000] and class_count in
  // [2, 100000], and that of the matrix-valued kernel.
  [[nodiscard]] static absl::StatusOr<RunningBlockSkce> Create(std::size_t block_size,
                                                               std::size_t class_count,
                                                               RunningKernel kernel,
                                                               std::size_t parts = 1,
                                                               double weight = 1);

  // g: a valid prediction, m probabilities; y: its label. Requires an estimator with one part.
  void Add(std::span<const double> g, std::int32_t y) { Add(g, std::span(&y, 1)); }
  // Adds observations: parts x m probabilities and one label for each part of every observation.
  // completed: if set, receives the value of each completed block, in order. May throw bad_alloc.
  void Add(std::span<const double> rows, std::span<const std::int32_t> labels,
           RunningMoments* completed = nullptr);

  // Adds the rows of a non-empty batch. Requires block size 2 and one part. term(i): h of row i and
  // the previous observation; for the first row, this is the observation that was added last. It is
  // called for each row in order; its value is used if both observations are in one block.
  // completed: if set, receives these values. The bits equal those of adding the rows one by one.
  template <typename Term>
  void AddPairs(const PredictionBatch& batch, const Term& term,
                RunningMoments* completed = nullptr) noexcept {
    bool completes = !state_.pending_labels.empty();
    RunningMoments moments = state_.moments;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const double value = term(i);
      if (completes) moments.Add(value);
      if (completes && completed != nullptr) completed->Add(value);
      completes = !completes;
    }
    state_.moments = moments;
    SetPending(batch.rows(batch.size() - 1, completes ? 1 : 0));
  }

  // Adds the complete blocks of other. Incomplete blocks cannot be merged. Errors:
  // FailedPrecondition if other has pending observations, or differs in block size, classes, kernel
  // or lens; this object is then unchanged. a.Merge(a) doubles the blocks.
  [[nodiscard]] absl::Status Merge(const RunningBlockSkce& other);

  // The mutable state of the estimator.
  struct State {
    RunningMoments moments;
    // The observations of the incomplete block, each with parts x class_count probabilities and one
    // label for each part.
    std::vector<double> pending_probabilities;
    std::vector<std::int32_t> pending_labels;
  };
  [[nodiscard]] const State& Save() const noexcept { return state_; }
  // Restores a state that was saved by an object with equal arguments of Create. Later observations
  // then give the same bits. Errors: InvalidArgument if the state is invalid for such an object;
  // this object is then unchanged.
  [[nodiscard]] absl::Status Restore(State state);

  [[nodiscard]] std::size_t block_size() const noexcept { return block_size_; }
  // Moments of the values of the complete blocks. The mean is the estimate.
  [[nodiscard]] const RunningMoments& moments() const noexcept { return state_.moments; }
  // Number of observations in the incomplete block, < block_size.
  [[nodiscard]] std::size_t pending() const noexcept {
    return state_.pending_labels.size() / parts_;
  }
  // Upper bound of the bytes that this object holds, without its kernel. While Add computes a
  // block, it needs up to four times as much, at most 128 MiB. rank: that of a matrix-valued
  // kernel, else 0.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t block_size, std::size_t class_count,
                                             std::size_t parts = 1, std::size_t rank = 0) noexcept;

 private:
  RunningBlockSkce(std::size_t block_size, std::size_t class_count, RunningKernel kernel,
                   std::size_t parts, double weight);

  // The unbiased estimate of the observations of one block.
  [[nodiscard]] double Estimate(std::span<const double> rows,
                                std::span<const std::int32_t> labels) const;
  // The sum of the terms of all pairs of a block, computed one by one.
  [[nodiscard]] double SumOfTerms(std::span<const double> rows,
                                  std::span<const std::int32_t> labels) const;
  // The sum of the terms for a matrix-valued kernel.
  [[nodiscard]] double SumOfMatrixTerms(const PredictionBatch& block) const;
  // Adds rows in pairs. Requires block size 2, one part, no pending observation and an even number
  // of rows.
  void AddSeparatePairs(const PredictionBatch& batch, const Kernel& kernel,
                        RunningMoments* completed) noexcept;
  // rows: fewer than block_size. Requires one part.
  void SetPending(const PredictionBatch& rows) noexcept;
  // Allocates the memory of a whole block.
  void ReservePending();
  [[nodiscard]] const MatrixKernel* matrix() const noexcept { return MatrixOf(kernel_); }

  std::size_t block_size_;
  std::size_t class_count_;
  RunningKernel kernel_;
  std::size_t parts_;
  double weight_;
  State state_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_RUNNING_SKCE_H_
