#include "server/state/declaration_size.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "server/kinds/kind_table.h"
#include "server/rows/label_arrivals.h"
#include "server/rows/prediction_tracker.h"
#include "server/rows/waiting_labels.h"
#include "server/state/history.h"

namespace calibd::server {
namespace {

constexpr std::size_t kWindowChunkBytes = std::size_t{1} << 20;

// Bytes of a bucket of the history and of what holds it.
std::size_t BucketMemory(const KindSizes& sizes) {
  // Of a node of a map besides its value, and of the allocator for the node and two vectors.
  constexpr std::size_t kOverhead = 4 * sizeof(void*) + std::size_t{3} * 32;
  return sizeof(History::Late::value_type) + kOverhead + sizes.history_bucket;
}

std::size_t RowBytes(std::size_t width, const TruthShape& truths) {
  return width * sizeof(double) + truths.bytes();
}

}  // namespace

std::size_t WindowChunkRows(std::size_t width, std::size_t window) noexcept {
  return std::clamp<std::size_t>(kWindowChunkBytes / RowBytes(width, {}), 1, window);
}

std::size_t StateMemory(const ModelDeclaration& declaration) noexcept {
  const std::size_t m = declaration.row_width();
  const std::size_t features = declaration.feature_names.size();
  const std::size_t window_rows =
      declaration.window + WindowChunkRows(m + features, declaration.window);
  std::size_t bytes = window_rows * RowBytes(m, declaration.truth_shape()) +
                      declaration.warmup * m * sizeof(double) +
                      // The positions of the window's batches in the log.
                      2 * declaration.window * sizeof(std::int64_t);
  const KindSizes sizes = KindOf(declaration).Sizes(declaration);
  bytes += sizes.estimators + sizes.watches + sizes.other + HistoryMemory(declaration) +
           declaration.inference_output.columns.size() * sizeof(std::size_t);
  bytes += window_rows * features * sizeof(double);
  if (declaration.keeps_groups()) bytes += window_rows * sizeof(std::uint64_t);
  if (declaration.max_pending > 0) {
    // The same number of ids is known after the predictions have matured; counts per class; the
    // id hashes of the window.
    bytes += window_rows * sizeof(std::uint64_t) +
             2 * declaration.max_pending *
                 (PredictionTracker::kBytesPerPrediction + declaration.truth_shape().bytes()) +
             declaration.max_pending * PredictionTracker::kBytesPerEarlyLabel +
             WaitingLabels::MaxMemory(declaration.max_pending, declaration.truth_shape()) +
             4 * declaration.counted_classes() * sizeof(ClassArrivals);
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

std::size_t HistoryMemory(const ModelDeclaration& declaration) noexcept {
  return History::kMostBuckets * BucketMemory(KindOf(declaration).Sizes(declaration));
}

std::size_t LateHistoryMemory(const ModelDeclaration& declaration, const RowValues& values,
                              std::chrono::sys_seconds now) {
  const std::size_t late = History::LateBuckets(values.times_s, now);
  return late == 0
             ? 0
             : late * History::kLateCopies * BucketMemory(KindOf(declaration).Sizes(declaration));
}

std::size_t SnapshotRows(const ModelDeclaration& declaration) noexcept {
  // The state of a watch occupies as much space as some 500 rows of the log, and again for each
  // group. It is written twice: to the log of the database and to its table. The state that it
  // replaces is read again.
  if (!declaration.monitoring.disabled) return 8192;
  return KindOf(declaration).SnapshotRows(declaration);
}

}  // namespace calibd::server
