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

// One block estimator of a running lens, as it was at one moment.
struct RunningBlock {
  std::size_t block_size = 0;
  // Of the values of the complete blocks; mean is the estimate.
  RunningMoments moments;
  // Observations that wait for their block, < block_size.
  std::size_t pending = 0;
  // What the estimate would be if the model were calibrated. Unset without a complete
  // block, and for matrix-valued kernels.
  std::optional<NoiseFloor> noise_floor;
};

// The block estimators of a stream as one lens sees it, see lens.h and RunningBlockSkce.
// Not thread-safe.
class RunningLens {
 public:
  // block_sizes: each in [2, 1000]. kernel: over what the lens shows; a matrix-valued one
  // for the canonical lens only.
  // Errors: InvalidArgument.
  [[nodiscard]] static absl::StatusOr<RunningLens> Create(Lens lens, std::size_t class_count,
                                                          const RunningKernel& kernel,
                                                          std::span<const std::size_t> block_sizes);

  // batch: valid. Equal bits for any cut of a sequence. Cost: that of RunningBlockSkce::Add
  // for each block size and part; at block size 2 a few nanoseconds a class in large batches.
  // pairs: if given, gets the value of each block of two observations that this completes, in
  // their order; with a block size of 2 only.
  void Add(const PredictionBatch& batch, RunningMoments* pairs = nullptr) noexcept;

  // As RunningBlockSkce::Save and Restore.
  struct State {
    // In the order of the block sizes.
    std::vector<RunningBlockSkce::State> blocks;
    RunningMoments null_squares;
    // What the lens showed of the newest observation.
    std::vector<double> previous_probabilities;
  };
  [[nodiscard]] State Save() const;
  [[nodiscard]] absl::Status Restore(State state);

  [[nodiscard]] const Lens& lens() const noexcept { return lens_; }
  // In the order of the block sizes.
  [[nodiscard]] std::vector<RunningBlock> Blocks() const;
  // Bytes this object may come to hold, its kernel left out, and rough multiplications
  // that an observation costs, for limits. matrix: the kernel if it is matrix-valued.
  [[nodiscard]] static std::size_t MaxMemory(const Lens& lens, std::size_t class_count,
                                             std::span<const std::size_t> block_sizes,
                                             const MatrixKernel* matrix = nullptr);
  [[nodiscard]] static double OperationsPerRow(const Lens& lens, std::size_t class_count,
                                               std::span<const std::size_t> block_sizes,
                                               const MatrixKernel* matrix = nullptr);

 private:
  RunningLens(Lens lens, std::size_t class_count, const RunningKernel& kernel);

  // rows, labels: as the lens shows `count` observations, at least one.
  void AddShown(std::span<const double> rows, std::span<const std::int32_t> labels,
                std::size_t count, RunningMoments* pairs) noexcept;
  // The rows of a batch after its first one, which was added. Of one part.
  void AddPairs(const PredictionBatch& batch, const Kernel& kernel, RunningMoments* pairs) noexcept;

  Lens lens_;
  std::size_t parts_;
  // Of an observation as the lens shows it: parts x classes.
  std::size_t width_;
  RunningKernel kernel_;
  std::vector<RunningBlockSkce> blocks_;
  // E h^2 of each observation and the one before it: what the noise floor is made of, at
  // the cost of one term an observation. Labels play no part in which pairs these are.
  RunningMoments null_squares_;
  // What the lens shows of the observations at hand, at most shown_rows_; none for the
  // canonical one, which shows them as they are.
  std::size_t shown_rows_;
  std::vector<double> probabilities_;
  std::vector<std::int32_t> labels_;
  std::vector<std::uint32_t> order_;
  // And of the one before them.
  std::vector<double> previous_;
};

}  // namespace calibd

#endif  // CALIBD_CORE_RUNNING_LENS_H_
