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
                      2 * declaration.window * sizeof(std::int64_t) + History::kMaxMemory;
  const KindSizes sizes = KindOf(declaration).Sizes(declaration);
  bytes += sizes.estimators + sizes.watches + sizes.other +
           History::kMaxMemory / sizeof(History::Entry) * sizes.history_bucket +
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

std::size_t SnapshotRows(const ModelDeclaration& declaration) noexcept {
  // The state of a watch occupies as much space as some 500 rows of the log, and again for each
  // group. It is written twice: to the log of the database and to its table. The state that it
  // replaces is read again.
  if (!declaration.monitoring.disabled) return 8192;
  return KindOf(declaration).SnapshotRows(declaration);
}

}  // namespace calibd::server
