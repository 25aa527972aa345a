#include "server/state/disk_use.h"

#include <cstdint>
#include <limits>
#include <string>

#include "server/kinds/kind_table.h"
#include "server/model/monitoring.h"
#include "server/rows/label_arrivals.h"
#include "server/rows/log_retention.h"
#include "server/rows/waiting_labels.h"
#include "server/state/declaration_size.h"
#include "server/state/history.h"

namespace calibd::server {
namespace {

// Log files hold up to twice the needed bytes, and pages of the database may be half full.
constexpr std::size_t kDiskFactor = 2;
// Bytes of a row of the log without its values, if the row has its own batch and frame: the headers
// of both with their padding, a producer id of 128 bytes, numbers, times and hashes, and the
// headers of the fields.
constexpr std::size_t kLogRowBytes = 320;
constexpr std::size_t kLabelBytes = 3;
// One of several truths of a row, if it is missing.
constexpr std::size_t kMissingTruthBytes = 5;
// Bytes of a missing truth in a row of labels that came later.
constexpr std::size_t kLateMissingTruthBytes = 10;
constexpr std::size_t kIdBytes = 16;
// Bytes of a row of the history in which all bins are filled.
constexpr std::size_t kHistoryRowBytes = 900;
// Bytes of the small parts of a snapshot: alarms with their notes, open history buckets, counters.
constexpr std::size_t kSmallStateBytes = std::size_t{128} << 10;

std::size_t TruthBytes(const ModelDeclaration& declaration) {
  const std::size_t labels = declaration.truth_shape().labels;
  if (declaration.truth_shape().least_label < 0) return labels * kMissingTruthBytes;
  return labels == 0 ? sizeof(double) : labels * kLabelBytes;
}

// Bytes of an observation in the log.
std::size_t ObservationBytes(const ModelDeclaration& declaration) {
  return kLogRowBytes + TruthBytes(declaration) + declaration.values_per_row() * sizeof(double) +
         (declaration.monitoring.group_tag.empty() ? 0 : kMaxGroupValueLength);
}

// Bytes of a label that came later, if it has a row of the log of its own.
std::size_t LateLabelBytes(const ModelDeclaration& declaration) {
  const TruthShape shape = declaration.truth_shape();
  const std::size_t truths =
      shape.least_label < 0 ? shape.labels * kLateMissingTruthBytes : TruthBytes(declaration);
  return kLogRowBytes + truths + kIdBytes;
}

std::size_t LogBytes(const ModelDeclaration& declaration) {
  return (declaration.window + SnapshotRows(declaration)) * ObservationBytes(declaration) +
         LogRetention::kSnapshotRejected * kLogRowBytes +
         WaitingLabels::Capacity(declaration.max_pending, declaration.truth_shape()) *
             LateLabelBytes(declaration);
}

std::size_t SnapshotBytes(const ModelDeclaration& declaration, const KindSizes& sizes) {
  std::size_t bytes = kSmallStateBytes + sizes.watches + sizes.estimators;
  if (declaration.max_pending > 0) {
    bytes += 4 * declaration.counted_classes() * sizeof(ClassArrivals);
  }
  return bytes;
}

std::size_t DeclarationBytes(const ModelDeclaration& declaration, const KindSizes& sizes) {
  std::size_t bytes = sizes.stored_spec;
  for (const std::string& name : declaration.feature_names) bytes += name.size() + 3;
  return bytes;
}

std::size_t HistoryBytes(const KindSizes& sizes) {
  std::size_t rows = 0;
  for (const HistoryResolution resolution : kHistoryResolutions) {
    rows += static_cast<std::size_t>(RetentionOf(resolution) / SpanOf(resolution)) +
            History::kMostWaiting;
  }
  return rows * (kHistoryRowBytes + sizes.stored_bucket);
}

}  // namespace

std::size_t DiskUse(const ModelDeclaration& declaration) noexcept {
  const KindSizes sizes = KindOf(declaration).Sizes(declaration);
  return kDiskFactor * (LogBytes(declaration) + SnapshotBytes(declaration, sizes) +
                        DeclarationBytes(declaration, sizes) + HistoryBytes(sizes)) +
         declaration.max_pending * DiskUsePerPending(declaration);
}

std::size_t DiskUsePerPending(const ModelDeclaration& declaration) noexcept {
  const std::size_t prediction = ObservationBytes(declaration) + kIdBytes;
  // The same number of ids is known after the predictions have matured. The label of a pending
  // prediction may have come first: it has a row that waited and one that matched.
  return kDiskFactor * (2 * prediction + 3 * LateLabelBytes(declaration));
}

}  // namespace calibd::server
