#include "calibd/core/bandwidth.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/gather_interval.h"
#include "base/rng.h"
#include "calibd/core/generator_closed_forms.h"
#include "calibd/core/kernel.h"
#include "calibd/core/status_macros.h"
#include "kernels/tile_engine.h"
#include "kernels/tile_walk.h"

namespace calibd {
namespace {

// The maximum number of distances that are gathered: 8 MiB, or 1 KiB for each prediction.
constexpr std::size_t kMinGathered = std::size_t{1} << 20;
constexpr std::size_t kGatheredPerRow = 128;
// A thread counts this many gathered distances before it tells the others.
constexpr std::size_t kGatheredStep = 4096;

// The number of pairs in the sample: so many that its quantiles bracket about 64 distances for each
// prediction, and so few that drawing them takes a small part of the time of one pass over all
// pairs.
std::size_t SampleSize(std::size_t pairs) {
  return std::max(std::min(std::size_t{1} << 16, pairs / 64),
                  std::min(std::size_t{1} << 22, pairs / 512));
}

// Order statistics of the n (n - 1) / 2 distances above the diagonal.
class DistanceSelection {
 public:
  DistanceSelection(std::span<const double> predictions, std::size_t class_count, Distance distance,
                    RunControl control)
      : predictions_(predictions),
        class_count_(class_count),
        distance_(distance),
        n_(predictions.size() / class_count),
        max_gathered_(std::max(kMinGathered, kGatheredPerRow * n_)),
        engine_(predictions, class_count, distance),
        control_(std::move(control)) {
    control_.progress = nullptr;  // the number of passes is unknown
  }

  // The median of the distances of distinct predictions. Error: FailedPrecondition if all are
  // equal.
  absl::StatusOr<double> MedianOfDistinct() {
    CALIBD_ASSIGN_OR_RETURN(const Gathered equal, Gather(0, 0));
    const std::uint64_t pairs = n_ * (n_ - 1) / 2;
    if (equal.inside == pairs) {
      return absl::FailedPreconditionError(
          absl::StrCat("all ", n_, " predictions are equal, at least 2 different ones are needed"));
    }
    const std::uint64_t last = pairs - equal.inside - 1;
    CALIBD_ASSIGN_OR_RETURN(const auto middle,
                            Select(equal.inside + last / 2, equal.inside + (last + 1) / 2));
    return (middle.first + middle.second) / 2;
  }

  // The distances of 0-based ranks `low` and `high`, high <= low + 1.
  absl::StatusOr<std::pair<double, double>> Select(std::uint64_t low, std::uint64_t high) {
    const auto [from, to] = Bracket(low, high);
    CALIBD_ASSIGN_OR_RETURN(Gathered gathered, Gather(from, to));
    if (gathered.Holds(low, high)) return gathered.At(low, high);
    // The sample did not bracket the ranks closely. Determining their bits always succeeds.
    CALIBD_ASSIGN_OR_RETURN(gathered, GatherByDigits(low));
    if (gathered.Holds(low, high)) return gathered.At(low, high);
    CALIBD_ASSIGN_OR_RETURN(Gathered next, GatherByDigits(high));
    return std::pair(gathered.At(low, low).first, next.At(high, high).first);
  }

 private:
  // All distances in an interval, and the number of distances below it. If there are more than
  // max_gathered_ in the interval, only their number, `smallest` and `largest` are known.
  struct Gathered {
    std::uint64_t below = 0;
    std::uint64_t inside = 0;
    double smallest = HUGE_VAL;
    double largest = -HUGE_VAL;
    std::vector<double> values;

    // keep: whether the values may still be needed.
    void AddInside(std::span<const double> distances, bool keep) {
      inside += distances.size();
      for (const double distance : distances) {
        smallest = std::min(smallest, distance);
        largest = std::max(largest, distance);
      }
      if (keep) values.insert(values.end(), distances.begin(), distances.end());
    }
    [[nodiscard]] bool Holds(std::uint64_t low, std::uint64_t high) const {
      if (low < below || high >= below + inside) return false;
      return values.size() == inside || smallest == largest;
    }
    std::pair<double, double> At(std::uint64_t low, std::uint64_t high) {
      if (values.size() != inside) return {smallest, largest};
      const auto at_high = values.begin() + static_cast<std::ptrdiff_t>(high - below);
      std::nth_element(values.begin(), at_high, values.end());
      return {low == high ? *at_high : *std::max_element(values.begin(), at_high), *at_high};
    }
  };

  [[nodiscard]] std::span<const double> row(std::size_t i) const {
    return predictions_.subspan(i * class_count_, class_count_);
  }

  // Calls visit(group, distances) until it has received the distances of all pairs. For each group,
  // only one thread at a time calls it.
  template <typename Visit>
  absl::Status ForEachDistance(const Visit& visit) const {
    return ForEachTileGroup(n_, control_, [&](std::size_t group, TileWalk& walk) {
      std::vector<double> distances(kTileSize * kTileSize);
      while (const std::optional<Tile> tile = walk.Next()) {
        engine_.Distances(*tile, walk.cancelled(), distances.data());
        for (std::size_t i = 0; i < tile->row_count; ++i) {
          const double* row = &distances[i * kTileSize];
          const std::size_t first = tile->on_diagonal() ? i + 1 : 0;
          visit(group, std::span(row + first, tile->column_count - first));
        }
      }
    });
  }

  [[nodiscard]] std::pair<double, double> Bracket(std::uint64_t low, std::uint64_t high) const {
    const std::size_t all_pairs = n_ * (n_ - 1) / 2;
    if (all_pairs <= kMinGathered) return {-HUGE_VAL, HUGE_VAL};
    std::vector<double> sample(SampleSize(all_pairs));
    const auto n = static_cast<std::uint32_t>(n_);
    ParallelFor(control_, kTileGroups, [&](std::size_t group) {
      Rng rng(0x6d656469616eULL + group);  // any seed: it affects the time, not the result
      for (std::size_t s = group; s < sample.size(); s += kTileGroups) {
        const std::uint32_t i = rng.Below(n);
        const std::uint32_t j = (i + 1 + rng.Below(n - 1)) % n;
        sample[s] = DistanceOf(distance_, row(i), row(j));
      }
    });
    const auto quantile = [&sample](double rank) {
      const auto at = sample.begin() + static_cast<std::ptrdiff_t>(rank);
      std::nth_element(sample.begin(), at, sample.end());
      return *at;
    };
    const auto pairs = static_cast<double>(all_pairs);
    const auto samples = static_cast<double>(sample.size());
    // Four standard deviations of the rank of a sample quantile, each at most sqrt(samples) / 2.
    const double margin = 2 * std::sqrt(samples) + 1;
    const double first = static_cast<double>(low) / pairs * samples - margin;
    const double last = static_cast<double>(high) / pairs * samples + margin;
    return {first < 0 ? -HUGE_VAL : quantile(first), last >= samples ? HUGE_VAL : quantile(last)};
  }

  absl::StatusOr<Gathered> Gather(double from, double to) const {
    struct alignas(64) Part {
      Gathered gathered;
      std::uint64_t untold = 0;
    };
    std::array<Part, kTileGroups> parts;
    std::atomic<std::uint64_t> found = 0;
    const absl::Status status =
        ForEachDistance([&](std::size_t group, std::span<const double> distances) {
          std::array<double, kTileSize + kGatherSlack> inside;
          const IntervalCount count = GatherInterval(distances, from, to, inside.data());
          Part& part = parts[group];
          part.gathered.below += count.below;
          part.untold += count.inside;
          if (part.untold >= kGatheredStep) found += std::exchange(part.untold, 0);
          part.gathered.AddInside(std::span(inside.data(), count.inside), found <= max_gathered_);
        });
    if (!status.ok()) return status;
    Gathered all;
    for (Part& part : parts) {
      all.below += part.gathered.below;
      all.inside += part.gathered.inside;
      all.smallest = std::min(all.smallest, part.gathered.smallest);
      all.largest = std::max(all.largest, part.gathered.largest);
    }
    if (all.inside > max_gathered_) return all;
    all.values.reserve(all.inside);
    for (Part& part : parts) {
      all.values.insert(all.values.end(), part.gathered.values.begin(), part.gathered.values.end());
    }
    return all;
  }

  // The bits of non-negative doubles have the same order as the doubles. Determines the bits of the
  // distance of this rank, 16 at a time, until the distances that share the known leading bits can
  // be gathered.
  absl::StatusOr<Gathered> GatherByDigits(std::uint64_t rank) const {
    constexpr int kDigitBits = 16;
    constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
    std::uint64_t prefix = 0;
    for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
      std::vector<std::uint64_t> counts(kDigits);
      std::mutex mutex;
      std::array<std::vector<std::uint32_t>, kTileGroups> parts;
      const int prefix_shift = shift + kDigitBits;
      const absl::Status status =
          ForEachDistance([&](std::size_t group, std::span<const double> distances) {
            std::vector<std::uint32_t>& part = parts[group];
            if (part.empty()) part.resize(kDigits);
            for (const double distance : distances) {
              const auto bits = std::bit_cast<std::uint64_t>(distance);
              if (prefix_shift < 64 && (bits >> prefix_shift) != prefix) continue;
              std::uint32_t& count = part[(bits >> shift) & (kDigits - 1)];
              if (++count == UINT32_MAX) {
                const std::lock_guard lock(mutex);
                counts[(bits >> shift) & (kDigits - 1)] += count;
                count = 0;
              }
            }
          });
      if (!status.ok()) return status;
      for (const auto& part : parts) {
        for (std::size_t digit = 0; digit < part.size(); ++digit) counts[digit] += part[digit];
      }
      std::size_t digit = 0;
      while (rank >= counts[digit]) rank -= counts[digit++];
      prefix = (prefix << kDigitBits) | digit;
      if (counts[digit] <= max_gathered_ / 2 || shift == 0) {
        return Gather(std::bit_cast<double>(prefix << shift),
                      std::bit_cast<double>((prefix << shift) | ((std::uint64_t{1} << shift) - 1)));
      }
    }
    return absl::InternalError("a rank beyond the number of distances");
  }

  const std::span<const double> predictions_;
  const std::size_t class_count_;
  const Distance distance_;
  const std::size_t n_;
  const std::size_t max_gathered_;
  const TileEngine<double> engine_;
  RunControl control_;
};

absl::Status TooFew(std::uint64_t n) {
  return absl::FailedPreconditionError(
      absl::StrCat("there are ", n, " predictions, at least 2 are needed for the median"));
}

}  // namespace

absl::StatusOr<double> MedianBandwidth(std::span<const double> predictions, std::size_t class_count,
                                       const RunControl& control, Distance distance) {
  const std::uint64_t n = predictions.size() / class_count;
  if (n < 2) return TooFew(n);
  // The 0-based ranks of the middle of the n^2 distances: the n smallest are the zeros of the
  // diagonal, and every pair occurs twice.
  const std::uint64_t low = (n * n - 1) / 2;
  const std::uint64_t high = n * n / 2;
  DistanceSelection selection(predictions, class_count, distance, control);
  const std::uint64_t low_pair = low < n ? 0 : (low - n) / 2;
  CALIBD_ASSIGN_OR_RETURN(const auto pair, selection.Select(low_pair, (high - n) / 2));
  const double median = ((low < n ? 0 : pair.first) + pair.second) / 2;
  return median > 0 ? median : selection.MedianOfDistinct();
}

absl::StatusOr<double> MedianOffDiagonalBandwidth(std::span<const double> predictions,
                                                  std::size_t class_count,
                                                  const RunControl& control, Distance distance) {
  const std::uint64_t n = predictions.size() / class_count;
  if (n < 2) return TooFew(n);
  const std::uint64_t pairs = n * (n - 1) / 2;
  DistanceSelection selection(predictions, class_count, distance, control);
  CALIBD_ASSIGN_OR_RETURN(const auto pair, selection.Select((pairs - 1) / 2, pairs / 2));
  const double median = (pair.first + pair.second) / 2;
  return median > 0 ? median : selection.MedianOfDistinct();
}

absl::Status CheckKernelRule(const KernelRule& rule, std::size_t class_count) {
  const BandwidthRule& bandwidth = rule.bandwidth;
  if (bandwidth.kind == BandwidthRule::Kind::kFixed) {
    return Kernel::Over(rule.distance, bandwidth.fixed).status();
  }
  if (bandwidth.kind != BandwidthRule::Kind::kMeanTotalVariation) return absl::OkStatus();
  if (rule.distance != Distance::kTotalVariation) {
    return absl::InvalidArgumentError(
        "alpha is given, expected a kernel over total variation for its mean");
  }
  if (bandwidth.alpha.size() != class_count) {
    return absl::InvalidArgumentError(absl::StrCat("alpha has ", bandwidth.alpha.size(),
                                                   " values, expected ", class_count,
                                                   ", one for each class"));
  }
  return MeanTotalVariation(bandwidth.alpha).status();
}

absl::StatusOr<Kernel> ChooseKernel(const KernelRule& rule, std::span<const double> predictions,
                                    std::size_t class_count, const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckKernelRule(rule, class_count));
  absl::StatusOr<double> bandwidth = rule.bandwidth.fixed;
  switch (rule.bandwidth.kind) {
    case BandwidthRule::Kind::kFixed:
      break;
    case BandwidthRule::Kind::kMedian:
      bandwidth = MedianBandwidth(predictions, class_count, control, rule.distance);
      break;
    case BandwidthRule::Kind::kMedianOffDiagonal:
      bandwidth = MedianOffDiagonalBandwidth(predictions, class_count, control, rule.distance);
      break;
    case BandwidthRule::Kind::kMeanTotalVariation:
      bandwidth = MeanTotalVariation(rule.bandwidth.alpha);
      break;
  }
  if (!bandwidth.ok()) return bandwidth.status();
  return Kernel::Over(rule.distance, *bandwidth);
}

}  // namespace calibd
