#include "calibd/core/running_lens.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace calibd {

RunningLens::RunningLens(Lens lens, std::size_t class_count, const RunningKernel& kernel)
    : lens_(std::move(lens)),
      parts_(lens_.parts(class_count)),
      kernel_(kernel),
      probabilities_(parts_ * lens_.reduced_class_count(class_count)),
      labels_(parts_),
      order_(lens_.ScratchSize(class_count)) {
  previous_.reserve(probabilities_.size());
}

absl::StatusOr<RunningLens> RunningLens::Create(Lens lens, std::size_t class_count,
                                                const RunningKernel& kernel,
                                                std::span<const std::size_t> block_sizes) {
  if (const absl::Status status = lens.Check(class_count); !status.ok()) return status;
  if (!std::holds_alternative<Kernel>(kernel) && lens.kind() != Lens::Kind::kCanonical) {
    return absl::InvalidArgumentError(
        "a matrix-valued kernel is over all classes, expected the canonical lens");
  }
  const std::size_t reduced = lens.reduced_class_count(class_count);
  const double weight = lens.weight();
  RunningLens running(std::move(lens), class_count, kernel);
  for (const std::size_t block_size : block_sizes) {
    absl::StatusOr<RunningBlockSkce> block =
        RunningBlockSkce::Create(block_size, reduced, kernel, running.parts_, weight);
    if (!block.ok()) return block.status();
    running.blocks_.push_back(*std::move(block));
  }
  return running;
}

void RunningLens::Add(std::span<const double> g, std::int32_t y, RunningMoments* pairs) noexcept {
  lens_.Reduce(g, y, probabilities_, labels_, order_);
  for (RunningBlockSkce& block : blocks_) {
    const std::optional<double> value = block.Add(probabilities_, labels_);
    if (pairs != nullptr && value.has_value() && block.block_size() == 2) pairs->Add(*value);
  }
  const Kernel* const kernel = std::get_if<Kernel>(&kernel_);
  if (kernel == nullptr) return;
  if (!previous_.empty()) {
    null_squares_.Add(NullSquare(previous_, probabilities_, parts_, lens_.weight(), *kernel));
  }
  previous_.assign(probabilities_.begin(), probabilities_.end());
}

void RunningLens::Add(const PredictionBatch& batch, RunningMoments* pairs) noexcept {
  for (std::size_t i = 0; i < batch.size(); ++i) Add(batch.row(i), batch.labels[i], pairs);
}

RunningLens::State RunningLens::Save() const {
  State state{.blocks = {}, .null_squares = null_squares_, .previous_probabilities = previous_};
  for (const RunningBlockSkce& block : blocks_) state.blocks.push_back(block.Save());
  return state;
}

absl::Status RunningLens::Restore(State state) {
  const std::size_t previous = state.previous_probabilities.size();
  if (state.blocks.size() != blocks_.size() ||
      (previous != 0 && previous != probabilities_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("the state is not of ", blocks_.size(),
                                                   " block estimators of the lens ", lens_.name()));
  }
  std::vector<RunningBlockSkce> blocks = blocks_;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    absl::Status status = blocks[i].Restore(std::move(state.blocks[i]));
    if (!status.ok()) return status;
  }
  blocks_ = std::move(blocks);
  null_squares_ = state.null_squares;
  previous_.assign(state.previous_probabilities.begin(), state.previous_probabilities.end());
  return absl::OkStatus();
}

std::vector<RunningBlock> RunningLens::Blocks() const {
  std::vector<RunningBlock> blocks;
  blocks.reserve(blocks_.size());
  for (const RunningBlockSkce& block : blocks_) {
    RunningBlock& out = blocks.emplace_back();
    out.block_size = block.block_size();
    out.moments = block.moments();
    out.pending = block.pending();
    if (null_squares_.count > 0 && out.moments.count > 0) {
      NullMoments moments;
      moments.mean_square = null_squares_.mean;
      out.noise_floor = moments.Block(out.moments.count, out.block_size);
    }
  }
  return blocks;
}

std::size_t RunningLens::MaxMemory(const Lens& lens, std::size_t class_count,
                                   std::span<const std::size_t> block_sizes,
                                   const MatrixKernel* matrix) {
  const std::size_t parts = lens.parts(class_count);
  const std::size_t reduced = lens.reduced_class_count(class_count);
  std::size_t bytes = sizeof(RunningLens) +
                      parts * (2 * reduced * sizeof(double) + sizeof(std::int32_t)) +
                      lens.ScratchSize(class_count) * sizeof(std::uint32_t);
  for (const std::size_t block_size : block_sizes) {
    bytes += RunningBlockSkce::MaxMemory(block_size, reduced, parts,
                                         matrix == nullptr ? 0 : matrix->rank());
  }
  return bytes;
}

double RunningLens::OperationsPerRow(const Lens& lens, std::size_t class_count,
                                     std::span<const std::size_t> block_sizes,
                                     const MatrixKernel* matrix) {
  const auto shown =
      static_cast<double>(lens.parts(class_count) * lens.reduced_class_count(class_count));
  // Of a term, and of what is done once.
  double term = 4 * shown;
  double once = 8 * shown;
  if (matrix != nullptr) {
    const auto rank = static_cast<double>(matrix->rank());
    term = 3 * shown * static_cast<double>(matrix->factors().size()) + rank;
    once = shown * rank * static_cast<double>(block_sizes.size());
  }
  double sum = once;
  for (const std::size_t block_size : block_sizes) {
    sum += term * static_cast<double>(block_size - 1) / 2;
  }
  return sum;
}

}  // namespace calibd
