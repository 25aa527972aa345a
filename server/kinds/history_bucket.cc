#include "server/kinds/history_bucket.h"

namespace calibd::server {

bool HistoryBucket::empty() const noexcept {
  return rejected_rows == 0 && missing_labels == 0 && pairs.count == 0 && observations() == 0;
}

void HistoryBucket::Merge(const HistoryBucket& later) {
  rejected_rows += later.rejected_rows;
  missing_labels += later.missing_labels;
  pairs.Merge(later.pairs);
  reliability.Merge(later.reliability);
  class_1.Merge(later.class_1);
  forecasts.Merge(later.forecasts);
  decisions.Merge(later.decisions);
  watch = later.watch;
}

}  // namespace calibd::server
