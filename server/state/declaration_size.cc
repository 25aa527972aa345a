#include "server/state/declaration_size.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "calibd/core/comparison.h"
#include "calibd/core/running_lens.h"
#include "server/kinds/classes/class_kind.h"
#include "server/kinds/numbers/number_kind.h"
#include "server/rows/label_arrivals.h"
#include "server/rows/prediction_tracker.h"
#include "server/state/history.h"
#include "server/watch/row_screen.h"

namespace calibd::server {
namespace {

constexpr std::size_t kWindowChunkBytes = std::size_t{1} << 20;

std::size_t RowBytes(std::size_t width) { return width * sizeof(double) + sizeof(std::int32_t); }

// The outcomes of the window, which take the place of the labels.
std::size_t OutcomeBytes(const ModelDeclaration& declaration, std::size_t rows) {
  return declaration.numbers() != nullptr ? rows * (sizeof(double) - sizeof(std::int32_t)) : 0;
}

// The running estimators, the kernel and the names.
std::size_t ClassesMemory(const ClassesSpec& classes) {
  const MatrixKernel* const matrix = classes.kernel.matrix.get();
  std::size_t bytes = classes.inference_output.columns.size() * sizeof(std::size_t);
  for (const Lens& lens : classes.lenses) {
    bytes += RunningLens::MaxMemory(lens, classes.count, classes.block_sizes, matrix);
  }
  if (matrix != nullptr) {
    // The matrices and their factors.
    bytes += 2 * matrix->terms().size() * classes.count * classes.count * sizeof(double);
  }
  for (const std::string& name : classes.names) bytes += sizeof(std::string) + name.size();
  return bytes;
}

}  // namespace

std::size_t WindowChunkRows(std::size_t width, std::size_t window) noexcept {
  return std::clamp<std::size_t>(kWindowChunkBytes / RowBytes(width), 1, window);
}

std::size_t WatchMemory(const ModelDeclaration& declaration) noexcept {
  return declaration.numbers() != nullptr
             ? NumberKind::MaxMemory(declaration.monitoring, declaration.numbers()->forecast)
             : ClassKind::MaxMemory(declaration.monitoring, declaration.class_count());
}

std::size_t StateMemory(const ModelDeclaration& declaration) noexcept {
  const std::size_t m = declaration.row_width();
  const std::size_t features = declaration.feature_names.size();
  const std::size_t window_rows =
      declaration.window + WindowChunkRows(m + features, declaration.window);
  std::size_t bytes = window_rows * RowBytes(m) + OutcomeBytes(declaration, window_rows) +
                      declaration.warmup * m * sizeof(double) +
                      // The positions of the window's batches in the log.
                      2 * declaration.window * sizeof(std::int64_t) + History::kMaxMemory;
  if (declaration.numbers() != nullptr) {
    // The cells of the buckets of the history, at most 64 each.
    bytes += History::kMaxMemory / sizeof(History::Entry) * 64 * sizeof(std::int64_t);
  }
  if (declaration.has_baseline()) bytes += sizeof(RunningComparison);
  bytes += window_rows * features * sizeof(double);
  if (declaration.keeps_groups()) bytes += window_rows * sizeof(std::uint64_t);
  if (const ClassesSpec* const classes = declaration.classes()) bytes += ClassesMemory(*classes);
  if (declaration.max_pending > 0) {
    // The same number of ids is known after the predictions have matured; counts per class; the
    // id hashes of the window.
    bytes += window_rows * sizeof(std::uint64_t) +
             2 * declaration.max_pending * PredictionTracker::kBytesPerPrediction +
             OutcomeBytes(declaration, 4 * declaration.max_pending) +
             4 * declaration.counted_classes() * sizeof(ClassArrivals);
  }
  bytes += WatchMemory(declaration);
  if (!declaration.monitoring.disabled && declaration.numbers() == nullptr) {
    bytes += RowScreen::MaxMemory(declaration.window);
  }
  if (!declaration.monitoring.group_tag.empty()) {
    // The group values of the warm-up.
    bytes += declaration.warmup * (sizeof(std::string) + kMaxGroupValueLength);
  }
  for (const std::string& name : declaration.feature_names) {
    bytes += sizeof(std::string) + name.size();
  }
  return bytes;
}

std::size_t SnapshotRows(const ModelDeclaration& declaration) noexcept {
  // The state of a watch occupies as much space as some 500 rows of the log, and again for each
  // group. It is written twice: to the log of the database and to its table. The state that it
  // replaces is read again.
  if (!declaration.monitoring.disabled || declaration.numbers() != nullptr) return 8192;
  // The terms take some milliseconds.
  constexpr std::size_t kWork = std::size_t{1} << 20;
  constexpr std::size_t kLeast = 256;
  constexpr std::size_t kMost = 16384;
  std::size_t terms = 0;
  for (const std::size_t block_size : declaration.classes()->block_sizes) terms += block_size - 1;
  return std::clamp(kWork / (declaration.class_count() * terms * declaration.lenses().size()),
                    kLeast, kMost);
}

}  // namespace calibd::server
