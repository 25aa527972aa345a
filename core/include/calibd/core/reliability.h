#ifndef CALIBD_CORE_RELIABILITY_H_
#define CALIBD_CORE_RELIABILITY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "calibd/core/binary_predictions.h"
#include "calibd/core/run_control.h"
#include "calibd/core/running_reliability.h"

namespace calibd {

// Reliability diagrams of the top label or of one class (see binary_predictions.h): observed
// frequencies of an event against its predicted probabilities. A frequency outside its consistency
// band is evidence against calibration; each band holds for its own point, not for all of them at
// once.

// Ends of an interval of frequencies, in [0, 1].
struct Band {
  double lower = 0;
  double upper = 1;
};

struct BinnedReliabilityOptions {
  // Uniform bins in [1, kMaxBinsPerClass] (see UniformBinIndex); 0: ceil(n^(1/3)).
  std::size_t bins = 0;
  // Level of the bands and intervals, in (0, 1).
  double level = 0.9;
};

// One bin; it holds n >= 1 observations.
struct ReliabilityBin {
  // Its edges: it contains predictions in (lower, upper]; the first bin also contains 0.
  double lower = 0;
  double upper = 1;
  std::size_t n = 0;
  double mean_prediction = 0;
  double frequency = 0;
  // Frequencies expected if calibrated, at least with probability `level`: a/n .. b/n
  // with a and b the (1 -+ level) / 2 quantiles of Binomial(n, mean_prediction),
  // widened to the integers around n * mean_prediction. The successes are a sum of
  // trials whose probabilities differ; by Hoeffding, Ann. Math. Stat. 27 (1956) 713,
  // Theorem 5, they leave such a range no more often than the binomial variable.
  Band consistency;
  // Clopper-Pearson confidence interval of the frequency.
  Band confidence;
};

// Non-empty bins, ascending; the counts sum to n.
// Errors: InvalidArgument (options); FailedPrecondition if n < 1. Cost: O(n + bins).
[[nodiscard]] absl::StatusOr<std::vector<ReliabilityBin>> BinnedReliability(
    const BinaryPredictions& predictions, const BinnedReliabilityOptions& options = {});

// The same of the bins of running sums. level: in (0, 1). Empty without observations.
[[nodiscard]] std::vector<ReliabilityBin> BinnedReliability(const ReliabilitySums& sums,
                                                            double level = 0.9);

inline constexpr std::size_t kMaxBandPoints = 1000;
// Above this number of distinct predictions, replicates of a band fit units of neighbours.
inline constexpr std::size_t kMaxBandUnits = 16384;
inline constexpr std::int32_t kMaxBandReplicates = 10000;

struct CorpReliabilityOptions {
  // Level of the band, in (0, 1).
  double level = 0.9;
  // Samples of labels drawn from the predictions; at least 2 / (1 - level) - 1 and at
  // most kMaxBandReplicates. 0: no band.
  std::int32_t replicates = 399;
  // One seed gives the same band, whatever the threads.
  std::uint64_t seed = 0;
  // The band is computed at this many distinct predictions at even ranks, including the smallest
  // and the largest, or at all of them if there are fewer; in [2, kMaxBandPoints].
  std::size_t band_points = 101;
};

// Consecutive predictions to which isotonic regression assigns the same probability.
struct ReliabilityBlock {
  // Smallest, largest and mean prediction.
  double lower = 0;
  double upper = 0;
  double mean_prediction = 0;
  std::size_t n = 0;
  // Frequency of the event; strictly increasing over the blocks.
  double recalibrated = 0;
};

struct BandPoint {
  double prediction = 0;
  Band consistency;
};

struct CorpReliability {
  std::vector<ReliabilityBlock> blocks;
  // By ascending prediction.
  std::vector<BandPoint> band;
};

// The CORP reliability diagram: isotonic regression by pooling adjacent violators, after pooling
// equal predictions, and a pointwise consistency band. The band is given by the k-th smallest and
// k-th largest, k = floor((replicates + 1) (1 - level) / 2), of the regressions of labels drawn
// from the predictions. If the model is calibrated, the regression of the observed labels is
// exchangeable with these, so that at each point it lies in the band with probability >= level, for
// every n. Source: Dimitriadis, Gneiting & Jordan, PNAS 118 (2021) e2016191118, "Uncertainty
// quantification".
//
// Errors: InvalidArgument (options, naming the field); FailedPrecondition if n < 1; Cancelled.
// Cost: O(n log n + replicates n) time; O(n) memory per thread and replicates x band_points x 8
// bytes.
[[nodiscard]] absl::StatusOr<CorpReliability> EstimateCorpReliability(
    const BinaryPredictions& predictions, const CorpReliabilityOptions& options = {},
    const RunControl& control = {});

}  // namespace calibd

#endif  // CALIBD_CORE_RELIABILITY_H_
