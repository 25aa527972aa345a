#include "calibd/core/reliability.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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

// Returns the indices, of `count`, at which the band is computed.
std::vector<std::size_t> BandIndices(std::size_t count, std::size_t points) {
  points = std::min(points, count);
  std::vector<std::size_t> picked;
  picked.reserve(points);
  for (std::size_t t = 0; t < points; ++t) {
    picked.push_back(points == 1 ? 0 : t * (count - 1) / (points - 1));
  }
  return picked;
}

// Consecutive groups of distinct predictions that a replicate fits as one, so that its regression
// does not cost time for every row. With at most kMaxBandUnits groups each is a unit. A unit of
// more groups has about n / kMaxBandUnits rows, where a block of the regression has of the order of
// n^(2/3) rows.
struct BandUnits {
  // The end of each unit, among the groups.
  std::vector<std::size_t> ends;
  std::vector<double> counts;

  explicit BandUnits(const SortedPredictions& sorted) {
    const std::size_t groups = sorted.counts.size();
    const std::size_t per_unit = (groups + kMaxBandUnits - 1) / kMaxBandUnits;
    for (std::size_t begin = 0; begin < groups; begin += per_unit) {
      const std::size_t end = std::min(groups, begin + per_unit);
      ends.push_back(end);
      counts.push_back(std::accumulate(sorted.counts.begin() + static_cast<std::ptrdiff_t>(begin),
                                       sorted.counts.begin() + static_cast<std::ptrdiff_t>(end),
                                       0.0));
    }
  }
};

// Simulates the number of events in each unit, with labels drawn from the predictions.
std::vector<double> DrawSuccesses(const SortedPredictions& sorted, const BandUnits& units,
                                  Rng& rng) {
  std::vector<double> successes(units.ends.size());
  std::size_t g = 0;
  for (std::size_t u = 0; u < successes.size(); ++u) {
    std::size_t events = 0;
    for (; g < units.ends[u]; ++g) {
      const auto trials = static_cast<std::size_t>(sorted.counts[g]);
      for (std::size_t trial = 0; trial < trials; ++trial) {
        events += static_cast<std::size_t>(rng.Uniform() < sorted.probabilities[g]);
      }
    }
    successes[u] = static_cast<double>(events);
  }
  return successes;
}

absl::StatusOr<std::vector<BandPoint>> ConsistencyBand(const SortedPredictions& sorted,
                                                       const CorpReliabilityOptions& options,
                                                       const RunControl& control) {
  const BandUnits units(sorted);
  const std::vector<std::size_t> picked = BandIndices(units.ends.size(), options.band_points);
  const auto replicates = static_cast<std::size_t>(options.replicates);
  // One row per point, so that its values can be ranked.
  std::vector<double> values(picked.size() * replicates);
  const absl::Status status = RunReplicates(replicates, control, [&](std::size_t r) {
    Rng rng(options.seed, r);
    std::vector<IsotonicBlock> blocks;
    FitIsotonic(units.counts, DrawSuccesses(sorted, units, rng), blocks);
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
    // The first unit is placed at the least prediction, and the others at their largest one.
    const std::size_t at = picked[t] == 0 ? 0 : units.ends[picked[t]] - 1;
    band.push_back({sorted.probabilities[at],
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
