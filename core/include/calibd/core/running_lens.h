#ifndef CALIBD_CORE_RUNNING_LENS_H_
#define CALIBD_CORE_RUNNING_LENS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/lens.h"
#include "calibd/core/noise_floor.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/running_skce.h"

namespace calibd {

// A snapshot of one block estimator of a running lens.
struct RunningBlock {
  std::size_t block_size = 0;
  // Moments of the values of the complete blocks; the mean is the estimate.
  RunningMoments moments;
  // Number of observations in the incomplete block, < block_size.
  std::size_t pending = 0;
  // Distribution of the estimate if the model were calibrated. Unset without a complete block, and
  // for matrix-valued kernels.
  std::optional<NoiseFloor> noise_floor;
};

// The block estimators of a stream after reduction by one lens, see lens.h and RunningBlockSkce.
// Not thread-safe.
class RunningLens {
 public:
  // block_sizes: each in [2, 1000]. kernel: over the reduced predictions of the lens; matrix-valued
  // for the canonical lens only.
  // Errors: InvalidArgument.
  [[nodiscard]] static absl::StatusOr<RunningLens> Create(Lens lens, std::size_t class_count,
                                                          const RunningKernel& kernel,
                                                          std::span<const std::size_t> block_sizes);

  // batch: valid. The bits of the result do not depend on how a sequence is split into calls. Cost:
  // that of RunningBlockSkce::Add for each block size and part; at block size 2 a few nanoseconds
  // per class in large batches. pairs: if set, receives the value of each completed block of two
  // observations, in order; requires a block size of 2. May throw bad_alloc.
  void Add(const PredictionBatch& batch, RunningMoments* pairs = nullptr);

  // See RunningBlockSkce::Save and Restore.
  struct State {
    // In the order of the block sizes.
    std::vector<RunningBlockSkce::State> blocks;
    RunningMoments null_squares;
    // The newest observation as reduced by the lens.
    std::vector<double> previous_probabilities;
  };
  [[nodiscard]] State Save() const;
  [[nodiscard]] absl::Status Restore(State state);

  [[nodiscard]] const Lens& lens() const noexcept { return lens_; }
  // In the order of the block sizes.
  [[nodiscard]] std::vector<RunningBlock> Blocks() const;
  // Upper bound of the bytes that this object holds, without its kernel, and the approximate number
  // of multiplications for each observation, for resource limits. matrix: the kernel of the
  // canonical lens if it is matrix-valued; other lenses do not use it.
  [[nodiscard]] static std::size_t MaxMemory(const Lens& lens, std::size_t class_count,
                                             std::span<const std::size_t> block_sizes,
                                             const MatrixKernel* matrix = nullptr);
  [[nodiscard]] static double OperationsPerRow(const Lens& lens, std::size_t class_count,
                                               std::span<const std::size_t> block_sizes,
                                               const MatrixKernel* matrix = nullptr);

 private:
  RunningLens(Lens lens, std::size_t class_count, const RunningKernel& kernel);

  // rows, labels: `count` >= 1 observations as reduced by the lens.
  void AddShown(std::span<const double> rows, std::span<const std::int32_t> labels,
                std::size_t count, RunningMoments* pairs);
  // Adds the rows of a batch after the first to the pairs and the null squares. Requires one part.
  void AddPairs(const PredictionBatch& batch, const Kernel& kernel, RunningMoments* pairs) noexcept;

  Lens lens_;
  std::size_t parts_;
  // Values of an observation as reduced by the lens: parts x classes.
  std::size_t width_;
  RunningKernel kernel_;
  std::vector<RunningBlockSkce> blocks_;
  // Moments of E h^2 over pairs of consecutive observations, from which the noise floor is
  // computed, at the cost of one term an observation. The choice of pairs does not depend on
  // labels.
  RunningMoments null_squares_;
  // The current observations as reduced by the lens, at most shown_rows_; empty for the canonical
  // lens, which uses the input directly.
  std::size_t shown_rows_;
  std::vector<double> probabilities_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> order_;
  // The previous observation as reduced by the lens.
  std::vector<double> previous_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_RUNNING_LENS_H_
