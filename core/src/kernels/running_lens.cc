#include "calibd/core/running_lens.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/status_macros.h"
#include "kernels/pair_terms.h"

namespace calibd {

namespace {

// The number of observations that a lens reduces at a time: large enough that most are processed in
// full groups.
std::size_t ShownRows(const Lens& lens, std::size_t width) {
  constexpr std::size_t kValues = 2048;
  if (lens.is_canonical()) return 0;
  return std::clamp<std::size_t>(kValues / width, 1, kMaxPairs + 1);
}

}  // namespace

RunningLens::RunningLens(Lens lens, std::size_t class_count, const RunningKernel& kernel)
    : lens_(std::move(lens)),
      parts_(lens_.parts(class_count)),
      width_(parts_ * lens_.reduced_class_count(class_count)),
      kernel_(kernel),
      shown_rows_(ShownRows(lens_, width_)),
      probabilities_(shown_rows_ * width_),
      labels_(shown_rows_ * parts_),
      order_(lens_.ScratchSize(class_count)) {
  previous_.reserve(width_);
}

absl::StatusOr<RunningLens> RunningLens::Create(Lens lens, std::size_t class_count,
                                                const RunningKernel& kernel,
                                                std::span<const std::size_t> block_sizes) {
  CALIBD_RETURN_IF_ERROR(lens.Check(class_count));
  if (!std::holds_alternative<Kernel>(kernel) && !lens.is_canonical()) {
    return absl::InvalidArgumentError(
        "a matrix-valued kernel is over all classes, expected the canonical lens");
  }
  const std::size_t reduced = lens.reduced_class_count(class_count);
  const double weight = lens.weight();
  RunningLens running(std::move(lens), class_count, kernel);
  for (const std::size_t block_size : block_sizes) {
    CALIBD_ASSIGN_OR_RETURN(
        RunningBlockSkce block,
        RunningBlockSkce::Create(block_size, reduced, kernel, running.parts_, weight));
    running.blocks_.push_back(std::move(block));
  }
  return running;
}

void RunningLens::Add(const PredictionBatch& batch, RunningMoments* pairs) {
  if (batch.size() == 0) return;
  if (lens_.is_canonical()) {
    AddShown(batch.probabilities, batch.labels, batch.size(), pairs);
    return;
  }
  const std::span probabilities(probabilities_);
  const std::span labels(labels_);
  for (std::size_t begin = 0; begin < batch.size(); begin += shown_rows_) {
    const std::size_t count = std::min(shown_rows_, batch.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      lens_.Reduce(batch.row(begin + i), batch.labels[begin + i],
                   probabilities.subspan(i * width_, width_), labels.subspan(i * parts_, parts_),
                   order_);
    }
    AddShown(probabilities.first(count * width_), labels.first(count * parts_), count, pairs);
  }
}

void RunningLens::AddShown(std::span<const double> rows, std::span<const std::int32_t> labels,
                           std::size_t count, RunningMoments* pairs) {
  const Kernel* const kernel = std::get_if<Kernel>(&kernel_);
  const bool in_pairs = kernel != nullptr && parts_ == 1;
  for (RunningBlockSkce& block : blocks_) {
    const bool is_pairs = block.block_size() == 2;
    // AddPairs adds the others.
    const std::size_t added = in_pairs && is_pairs && &block == &blocks_.front() ? 1 : count;
    block.Add(rows.first(added * width_), labels.first(added * parts_), is_pairs ? pairs : nullptr);
  }
  if (kernel == nullptr) return;
  std::span<const double> previous = previous_;
  for (std::size_t i = 0; i < (in_pairs ? 1 : count); ++i) {
    const std::span<const double> row = rows.subspan(i * width_, width_);
    if (!previous.empty()) {
      null_squares_.Add(NullSquare(previous, row, parts_, lens_.weight(), *kernel));
    }
    previous = row;
  }
  if (in_pairs && count > 1) AddPairs({rows, labels, width_}, *kernel, pairs);
  const std::span<const double> last = rows.last(width_);
  previous_.assign(last.begin(), last.end());
}

void RunningLens::AddPairs(const PredictionBatch& batch, const Kernel& kernel,
                           RunningMoments* pairs) noexcept {
  const double weight = lens_.weight();
  const bool has_pairs = !blocks_.empty() && blocks_.front().block_size() == 2;
  PairTerms terms;
  for (std::size_t begin = 1; begin < batch.size(); begin += kMaxPairs) {
    const PredictionBatch rows = batch.rows(begin, std::min(kMaxPairs, batch.size() - begin));
    ComputeNeighbourTerms(batch.rows(begin - 1, rows.size() + 1), kernel.distance(), terms);
    // One kernel value serves both the term and its square. One loop computes both moments, because
    // each is a chain of dependent divisions.
    RunningMoments null_squares = null_squares_;
    const auto add_null_square = [&](std::size_t p) {
      const double factor = kernel.OfDistance(terms.distances[p]);
      const double scale = weight * factor;
      null_squares.Add(scale * scale * terms.null_traces[p]);
      return weight * (factor * terms.residual_products[p]);
    };
    if (has_pairs) {
      blocks_.front().AddPairs(rows, add_null_square, pairs);
    } else {
      for (std::size_t p = 0; p < rows.size(); ++p) add_null_square(p);
    }
    null_squares_ = null_squares;
  }
}

RunningLens::State RunningLens::Save() const {
  State state{.blocks = {}, .null_squares = null_squares_, .previous_probabilities = previous_};
  for (const RunningBlockSkce& block : blocks_) state.blocks.push_back(block.Save());
  return state;
}

absl::Status RunningLens::Restore(State state) {
  const std::size_t previous = state.previous_probabilities.size();
  if (state.blocks.size() != blocks_.size() || (previous != 0 && previous != width_)) {
    return absl::InvalidArgumentError(absl::StrCat("the state is not of ", blocks_.size(),
                                                   " block estimators of the lens ", lens_.name()));
  }
  std::vector<RunningBlockSkce> blocks = blocks_;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    CALIBD_RETURN_IF_ERROR(blocks[i].Restore(std::move(state.blocks[i])));
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
  const bool is_matrix = matrix != nullptr && lens.is_canonical();
  const std::size_t parts = lens.parts(class_count);
  const std::size_t reduced = lens.reduced_class_count(class_count);
  const std::size_t shown_rows = ShownRows(lens, parts * reduced);
  std::size_t bytes = sizeof(RunningLens) + (shown_rows + 1) * parts * reduced * sizeof(double) +
                      shown_rows * parts * sizeof(std::int32_t) +
                      lens.ScratchSize(class_count) * sizeof(std::uint32_t);
  for (const std::size_t block_size : block_sizes) {
    bytes +=
        RunningBlockSkce::MaxMemory(block_size, reduced, parts, is_matrix ? matrix->rank() : 0);
  }
  return bytes;
}

double RunningLens::OperationsPerRow(const Lens& lens, std::size_t class_count,
                                     std::span<const std::size_t> block_sizes,
                                     const MatrixKernel* matrix) {
  const auto shown =
      static_cast<double>(lens.parts(class_count) * lens.reduced_class_count(class_count));
  // Operations for each term, and operations that are done once for each observation.
  double term = 4 * shown;
  double once = 8 * shown;
  if (matrix != nullptr && lens.is_canonical()) {
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
