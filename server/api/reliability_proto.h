#ifndef CALIBD_SERVER_API_RELIABILITY_PROTO_H_
#define CALIBD_SERVER_API_RELIABILITY_PROTO_H_

#include "calibd/core/running_reliability.h"

namespace calibd::server {

// Message: v1.RunningScores or v1.HistoryBucket, which have the same fields. reliability: of at
// least one observation.
template <typename Message>
void DescribeReliability(const RunningReliability& reliability, Message& out) {
  const RunningReliability::Bin all = reliability.Total();
  const auto n = static_cast<double>(all.count);
  out.set_observations(all.count);
  out.set_mean_confidence(all.confidence / n);
  out.set_accuracy(static_cast<double>(all.correct) / n);
  out.set_brier_score(reliability.brier / n);
  out.set_log_loss(reliability.log_loss / n);
  out.set_ece(reliability.ExpectedCalibrationError());
  for (const RunningReliability::Bin& bin : reliability.bins) {
    auto& described = *out.add_bins();
    described.set_observations(bin.count);
    if (bin.count > 0) {
      const auto count = static_cast<double>(bin.count);
      described.set_mean_confidence(bin.confidence / count);
      described.set_accuracy(static_cast<double>(bin.correct) / count);
    }
  }
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_API_RELIABILITY_PROTO_H_
