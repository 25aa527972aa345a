#include "calibd/core/reliability.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/binomial.h"
#include "base/isotonic.h"
#include "base/rng.h"
#include "calibd/core/binned_error.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"

namespace calibd {
namespace {

absl::Status CheckLevel(double level) {
  if (level > 0 && level < 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("level is ", level, ", expected a number in (0, 1)"));
}

absl::Status CheckOptions(const CorpReliabilityOptions& options) {
  CALIBD_RETURN_IF_ERROR(CheckLevel(options.level));
  if (options.band_points < 2 || options.band_points > kMaxBandPoints) {
    return absl::InvalidArgumentError(
        absl::StrCat("band_points is ", options.band_points, ", expected 2..", kMaxBandPoints));
  }
  // The tolerance of 1e-9 is needed because 1 - .9 as a double is below .1.
  const double needed = std::ceil(2 / (1 - options.level) - 1 - 1e-9);
  if (options.replicates != 0 &&
      (options.replicates < needed || options.replicates > kMaxBandReplicates)) {
    return absl::InvalidArgumentError(absl::StrCat("replicates is ", options.replicates,
                                                   ", expected 0 or ", needed, "..",
                                                   kMaxBandReplicates));
  }
  return absl::OkStatus();
}

// Returns the smallest k with k^3 >= n.
std::size_t CubeRootAbove(std::size_t n) {
  auto k = static_cast<std::size_t>(std::cbrt(static_cast<double>(n)));
  while (k * k * k < n) ++k;
  return k;
}

// Returns the groups of distinct predictions at which the band is computed.
std::vector<std::size_t> BandGroups(std::size_t groups, std::size_t points) {
  points = std::min(points, groups);
  std::vector<std::size_t> picked;
  picked.reserve(points);
  for (std::size_t t = 0; t < points; ++t) {
    picked.push_back(points == 1 ? 0 : t * (groups - 1) / (points - 1));
  }
  return picked;
}

// Simulates the number of events in each group, with labels drawn from the predictions.
std::vector<double> DrawSuccesses(const SortedPredictions& sorted, Rng& rng) {
  std::vector<double> successes(sorted.counts.size());
  for (std::size_t g = 0; g < successes.size(); ++g) {
    const auto trials = static_cast<std::size_t>(sorted.counts[g]);
    for (std::size_t trial = 0; trial < trials; ++trial) {
      if (rng.Uniform() < sorted.probabilities[g]) successes[g] += 1;
    }
  }
  return successes;
}

absl::StatusOr<std::vector<BandPoint>> ConsistencyBand(const SortedPredictions& sorted,
                                                       const CorpReliabilityOptions& options,
                                                       const RunControl& control) {
  const std::vector<std::size_t> picked =
      BandGroups(sorted.probabilities.size(), options.band_points);
  const auto replicates = static_cast<std::size_t>(options.replicates);
  // One row per point, so that its values can be ranked.
  std::vector<double> values(picked.size() * replicates);
  const absl::Status status = RunReplicates(replicates, control, [&](std::size_t r) {
    Rng rng(options.seed, r);
    std::vector<IsotonicBlock> blocks;
    FitIsotonic(sorted.counts, DrawSuccesses(sorted, rng), blocks);
    auto block = blocks.cbegin();
    for (std::size_t t = 0; t < picked.size(); ++t) {
      while (block->end <= picked[t]) ++block;
      values[t * replicates + r] = block->mean();
    }
  });
  if (!status.ok()) return status;
  // The rank of the band's edges from either end; for the tolerance see CheckOptions.
  const auto rank = static_cast<std::size_t>(
      std::floor(static_cast<double>(replicates + 1) * (1 - options.level) / 2 + 1e-9));
  std::vector<BandPoint> band;
  band.reserve(picked.size());
  for (std::size_t t = 0; t < picked.size(); ++t) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(t * replicates);
    std::sort(first, first + static_cast<std::ptrdiff_t>(replicates));
    band.push_back({sorted.probabilities[picked[t]],
                    {values[t * replicates + rank - 1], values[(t + 1) * replicates - rank]}});
  }
  return band;
}

// Sets all but n. sum: of the predictions. index: of the bin, from 1.
void Complete(double sum, std::size_t successes, std::size_t index, std::size_t bin_count,
              double level, ReliabilityBin& bin) {
  const auto n = static_cast<double>(bin.n);
  bin.mean_prediction = std::min(1.0, sum / n);
  bin.frequency = static_cast<double>(successes) / n;
  bin.lower = static_cast<double>(index - 1) / static_cast<double>(bin_count);
  bin.upper = static_cast<double>(index) / static_cast<double>(bin_count);
  const Range expected = SuccessRange(bin.n, bin.mean_prediction, level);
  bin.consistency = {expected.lower / n, expected.upper / n};
  const Range interval = ClopperPearson(successes, bin.n, level);
  bin.confidence = {interval.lower, interval.upper};
}

}  // namespace

absl::StatusOr<std::vector<ReliabilityBin>> BinnedReliability(
    const BinaryPredictions& predictions, const BinnedReliabilityOptions& options) {
  CALIBD_RETURN_IF_ERROR(CheckLevel(options.level));
  const std::size_t bin_count = options.bins != 0
                                    ? options.bins
                                    : std::max<std::size_t>(1, CubeRootAbove(predictions.size()));
  CALIBD_ASSIGN_OR_RETURN(const Partition partition, PartitionUniformly(predictions, bin_count));
  std::vector<ReliabilityBin> bins;
  bins.reserve(partition.bins());
  for (std::size_t b = 0; b < partition.bins(); ++b) {
    ReliabilityBin bin;
    bin.n = partition.bin(b).size();
    std::size_t successes = 0;
    for (const std::size_t i : partition.bin(b)) {
      bin.mean_prediction += predictions.probabilities[i];
      successes += predictions.outcomes[i];
    }
    const std::size_t index =
        UniformBinIndex(predictions.probabilities[partition.bin(b).front()], bin_count);
    Complete(bin.mean_prediction, successes, index, bin_count, options.level, bin);
    bins.push_back(bin);
  }
  return bins;
}

std::vector<ReliabilityBin> BinnedReliability(const ReliabilitySums& sums, double level) {
  std::vector<ReliabilityBin> bins;
  for (std::size_t b = 0; b < sums.bins.size(); ++b) {
    const ReliabilitySums::Bin& sum = sums.bins[b];
    if (sum.count == 0) continue;
    ReliabilityBin bin;
    bin.n = static_cast<std::size_t>(sum.count);
    Complete(sum.confidence, static_cast<std::size_t>(sum.correct), b + 1, sums.bins.size(), level,
             bin);
    bins.push_back(bin);
  }
  return bins;
}

absl::StatusOr<CorpReliability> EstimateCorpReliability(const BinaryPredictions& predictions,
                                                        const CorpReliabilityOptions& options,
                                                        const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckOptions(options));
  if (predictions.size() < 1) {
    return absl::FailedPreconditionError("has 0 observations, needs at least 1");
  }
  const SortedPredictions sorted(predictions);
  std::vector<IsotonicBlock> blocks;
  FitIsotonic(sorted.counts, sorted.successes, blocks);
  CorpReliability reliability;
  reliability.blocks.reserve(blocks.size());
  for (const IsotonicBlock& block : blocks) {
    double sum = 0;
    for (std::size_t g = block.begin; g < block.end; ++g) {
      sum += sorted.probabilities[g] * sorted.counts[g];
    }
    reliability.blocks.push_back({sorted.probabilities[block.begin],
                                  sorted.probabilities[block.end - 1], sum / block.count,
                                  static_cast<std::size_t>(block.count), block.mean()});
  }
  if (options.replicates == 0) return reliability;
  CALIBD_ASSIGN_OR_RETURN(reliability.band, ConsistencyBand(sorted, options, control));
  return reliability;
}

}  // namespace calibd
