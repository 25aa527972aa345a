#ifndef CALIBD_CORE_EVIDENCE_STATE_H_
#define CALIBD_CORE_EVIDENCE_STATE_H_

#include <cstdint>
#include <vector>

#include "calibd/core/moments.h"

namespace calibd {

// The memory of the drift detectors: a prediction that is t predictions old has the weight (1 -
// 1/5000)^t. The predictions of a chunk are of the same age, see EvidenceProcess.
inline constexpr double kMemory = 5000;

// The running maximum of a sequence and the time at which it was reached.
struct RunningMaximum {
  // Natural logarithm of the maximum. The initial value is log 1 = 0.
  double log_value = 0;
  // Number of predictions up to the maximum.
  std::int64_t at = 0;

  void Add(double log_now, std::int64_t now) noexcept {
    if (log_now > log_value) *this = {log_now, now};
  }

  friend bool operator==(const RunningMaximum&, const RunningMaximum&) = default;
};

// Weighted sums over past predictions, from which the experts bet.
struct PastState {
  // The divisor of all other fields, >= 1. Only states of older versions have another one than 1.
  double weight = 1;
  // S = sum phi: kFourierCount. A = sum phi d': kFourierCount x m.
  std::vector<double> fourier_sums;
  std::vector<double> witness;
  // O and E, the observed and the expected number of labels in each bin of each class: 24 x m.
  std::vector<double> class_observed;
  std::vector<double> class_expected;

  friend bool operator==(const PastState&, const PastState&) = default;
};

// The state of an EvidenceProcess without its sums over the past.
struct EvidenceTotals {
  std::int64_t count = 0;
  // The experts of the following arrays, by Expert::id, and their priors. In the state of this
  // version those of kExperts.
  std::vector<std::int32_t> expert_ids;
  std::vector<double> priors;
  // log W_j, the logarithms of the experts' e-processes, and log(1 + R_j), after the last
  // prediction whose number is a multiple of 8.
  std::vector<double> log_e;
  std::vector<double> log_shiryaev_roberts;
  // The factors by which W_j and 1 + R_j have grown since. Empty in the states of
  // older versions, whose logarithms include all predictions.
  std::vector<double> e_growth;
  std::vector<double> shiryaev_roberts_growth;
  // Added to the logarithm of the mixture sum_j prior_j W_j. 0 unless the experts or their priors
  // have changed.
  double log_offset = 0;
  RunningMaximum maximum;
  // See EvidenceReading::impossible_label.
  RunningMaximum impossible_label;
  RunningMaximum shiryaev_roberts_maximum;
  // The sum of <F, d> over the pending predictions, and of |d|^2 over all predictions.
  double pending_product = 0;
  double square_sum = 0;
  RunningMoments projections;
  double projection_variance = 0;

  friend bool operator==(const EvidenceTotals&, const EvidenceTotals&) = default;
};

// The mutable state of an EvidenceProcess.
struct EvidenceState : EvidenceTotals {
  // The past of the newest chunk.
  PastState all;
  PastState recent;
  // The predictions of an incomplete chunk, m probabilities each, and their labels.
  std::vector<double> pending;
  std::vector<std::int32_t> pending_labels;

  friend bool operator==(const EvidenceState&, const EvidenceState&) = default;
};

}  // namespace calibd

#endif  // CALIBD_CORE_EVIDENCE_STATE_H_
