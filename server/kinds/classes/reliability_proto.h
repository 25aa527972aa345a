#ifndef CALIBD_SERVER_KINDS_CLASSES_RELIABILITY_PROTO_H_
#define CALIBD_SERVER_KINDS_CLASSES_RELIABILITY_PROTO_H_

#include "calibd/core/running_reliability.h"
#include "calibd/v1/calibration_service.pb.h"

namespace calibd::server {

// Adds all bins. accuracy: the share of observations with the event of the sums.
inline void DescribeBins(const ReliabilitySums& sums,
                         google::protobuf::RepeatedPtrField<v1::HistoryBucket::Bin>& out) {
  for (const ReliabilitySums::Bin& bin : sums.bins) {
    v1::HistoryBucket::Bin& described = *out.Add();
    described.set_observations(bin.count);
    if (bin.count > 0) {
      const auto count = static_cast<double>(bin.count);
      described.set_mean_confidence(bin.confidence / count);
      described.set_accuracy(static_cast<double>(bin.correct) / count);
    }
  }
}

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
  DescribeBins(reliability, *out.mutable_bins());
}

}  // namespace calibd::server

#endif  // CALIBD_SERVER_KINDS_CLASSES_RELIABILITY_PROTO_H_
