#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "calibd/core/comparison.h"
#include "calibd/core/running_lens.h"
#include "server/state/history.h"
#include "server/state/label_coverage.h"
#include "server/state/model_declaration.h"
#include "server/state/prediction_tracker.h"
#include "server/state/row_screen.h"

namespace calibd::server {
namespace {

constexpr std::size_t kWindowChunkBytes = std::size_t{1} << 20;

std::size_t RowBytes(std::size_t class_count) {
  return class_count * sizeof(double) + sizeof(std::int32_t);
}

}  // namespace

std::size_t WindowChunkRows(std::size_t class_count, std::size_t window) noexcept {
  return std::clamp<std::size_t>(kWindowChunkBytes / RowBytes(class_count), 1, window);
}

std::size_t StateMemory(const ModelDeclaration& declaration) noexcept {
  const std::size_t m = declaration.class_count;
  std::size_t bytes = (declaration.window + WindowChunkRows(m, declaration.window)) * RowBytes(m) +
                      declaration.warmup * m * sizeof(double) +
                      // The positions of the window's batches in the log.
                      2 * declaration.window * sizeof(std::int64_t) + History::kMaxMemory;
  if (!declaration.baseline.empty()) bytes += sizeof(RunningComparison);
  for (const Lens& lens : declaration.lenses) {
    bytes +=
        RunningLens::MaxMemory(lens, m, declaration.block_sizes, declaration.kernel.matrix.get());
  }
  if (declaration.kernel.matrix != nullptr) {
    // The matrices and their factors.
    bytes += 2 * declaration.kernel.matrix->terms().size() * m * m * sizeof(double);
  }
  if (declaration.max_pending > 0) {
    // The same number of ids is known after the predictions have matured; counts per class; the
    // id hashes of the window.
    bytes += (declaration.window + WindowChunkRows(m, declaration.window)) * sizeof(std::uint64_t) +
             2 * declaration.max_pending * PredictionTracker::kBytesPerPrediction +
             4 * m * sizeof(ClassCoverage);
  }
  bytes += WatchMemory(declaration.monitoring, m);
  if (!declaration.monitoring.disabled) bytes += RowScreen::MaxMemory(declaration.window);
  if (!declaration.monitoring.group_tag.empty()) {
    // The group values of the warm-up.
    bytes += declaration.warmup * (sizeof(std::string) + kMaxGroupValueLength);
  }
  for (const std::string& name : declaration.class_names) {
    bytes += sizeof(std::string) + name.size();
  }
  bytes += declaration.inference_output.columns.size() * sizeof(std::size_t);
  return bytes;
}

std::size_t SnapshotRows(const ModelDeclaration& declaration) noexcept {
  // The state of a watch occupies as much space as some 500 rows of the log, and again for each
  // group. It is written twice: to the log of the database and to its table. The state that it
  // replaces is read again.
  if (!declaration.monitoring.disabled) return 8192;
  // The terms take some milliseconds.
  constexpr std::size_t kWork = std::size_t{1} << 20;
  constexpr std::size_t kLeast = 256;
  constexpr std::size_t kMost = 16384;
  std::size_t terms = 0;
  for (const std::size_t block_size : declaration.block_sizes) terms += block_size - 1;
  return std::clamp(kWork / (declaration.class_count * terms * declaration.lenses.size()), kLeast,
                    kMost);
}

}  // namespace calibd::server
