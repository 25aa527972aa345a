#include "calibd/core/binned_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// Relative difference below which variances are ties. With m = 2, the variances of both classes
// differ only by rounding.
constexpr double kVarianceTie = 1e-12;

absl::Status CheckSize(std::size_t n, std::size_t needed) {
  if (n >= needed) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("has ", n, " observations, needs at least ", needed));
}

// Converts the bin of each row to a partition by a counting sort.
Partition GroupByBin(std::span<const std::size_t> bin_of_row, std::size_t bins) {
  std::vector<std::size_t> starts(bins + 1);
  for (const std::size_t b : bin_of_row) ++starts[b + 1];
  for (std::size_t b = 0; b < bins; ++b) starts[b + 1] += starts[b];
  starts.pop_back();
  std::vector<std::size_t> next = starts;
  std::vector<std::size_t> rows(bin_of_row.size());
  for (std::size_t i = 0; i < bin_of_row.size(); ++i) rows[next[bin_of_row[i]]++] = i;
  return {std::move(rows), std::move(starts)};
}

Partition UniformPartition(const LabelledRows& rows, std::size_t bins_per_class) {
  // The map stores rows instead of tuples of indices, to save memory: the tuple is recomputed when
  // a row is hashed or compared.
  const auto hash = [&](std::size_t i) {
    std::uint64_t state = 0;
    for (const double p : rows.row(i)) {
      state = (state ^ UniformBinIndex(p, bins_per_class)) * 0x9E3779B97F4A7C15ULL;
      state ^= state >> 32;
    }
    return static_cast<std::size_t>(state);
  };
  const auto equal = [&](std::size_t i, std::size_t j) {
    return std::ranges::equal(rows.row(i), rows.row(j), [&](double p, double q) {
      return UniformBinIndex(p, bins_per_class) == UniformBinIndex(q, bins_per_class);
    });
  };
  std::unordered_map<std::size_t, std::size_t, decltype(hash), decltype(equal)> bins(16, hash,
                                                                                     equal);
  std::vector<std::size_t> bin_of_row;
  bin_of_row.reserve(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bin_of_row.push_back(bins.try_emplace(i, bins.size()).first->second);
  }
  return GroupByBin(bin_of_row, bins.size());
}

// A set of rows that median-variance binning may split.
struct Candidate {
  std::size_t begin = 0;
  std::size_t end = 0;
  // The largest variance of a class, and this class.
  double variance = 0;
  std::size_t split_class = 0;

  // Of candidates with equal variances, the leftmost is split first.
  friend bool operator<(const Candidate& a, const Candidate& b) noexcept {
    return a.variance != b.variance ? a.variance < b.variance : a.begin > b.begin;
  }
};

class MedianVarianceSplitter {
 public:
  explicit MedianVarianceSplitter(const LabelledRows& rows)
      : rows_(rows),
        order_(rows.size()),
        mean_(rows.class_count()),
        squared_deviations_(rows.class_count()) {
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = i;
  }

  Partition Split(std::size_t min_size, std::size_t max_bins) {
    std::vector<std::size_t> starts = {0};
    std::priority_queue<Candidate> candidates;
    candidates.push(Evaluate(0, order_.size()));
    while (!candidates.empty() && (max_bins == 0 || starts.size() < max_bins)) {
      const Candidate set = candidates.top();
      candidates.pop();
      // Otherwise one side would be too small.
      if (set.end - set.begin < 2 * min_size) continue;
      const std::size_t middle = SplitAtMedian(set, min_size);
      if (middle == set.begin) continue;
      starts.push_back(middle);
      candidates.push(Evaluate(set.begin, middle));
      candidates.push(Evaluate(middle, set.end));
    }
    std::ranges::sort(starts);
    return {std::move(order_), std::move(starts)};
  }

 private:
  Candidate Evaluate(std::size_t begin, std::size_t end) {
    std::ranges::fill(mean_, 0);
    std::ranges::fill(squared_deviations_, 0);
    const auto size = static_cast<double>(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const double> g = rows_.row(order_[i]);
      for (std::size_t k = 0; k < g.size(); ++k) mean_[k] += g[k];
    }
    for (double& mean : mean_) mean /= size;
    for (std::size_t i = begin; i < end; ++i) {
      const std::span<const double> g = rows_.row(order_[i]);
      for (std::size_t k = 0; k < g.size(); ++k) {
        squared_deviations_[k] += (g[k] - mean_[k]) * (g[k] - mean_[k]);
      }
    }
    const double largest = *std::ranges::max_element(squared_deviations_);
    const auto first = std::ranges::find_if(
        squared_deviations_, [&](double value) { return value >= largest * (1 - kVarianceTie); });
    return {begin, end, end - begin < 2 ? 0 : largest / (size - 1),
            static_cast<std::size_t>(first - squared_deviations_.begin())};
  }

  // Returns where the upper side begins. If a side would be too small, returns set.begin and moves
  // nothing.
  std::size_t SplitAtMedian(const Candidate& set, std::size_t min_size) {
    const std::size_t k = set.split_class;
    values_.clear();
    for (std::size_t i = set.begin; i < set.end; ++i) values_.push_back(rows_.row(order_[i])[k]);
    const auto middle = values_.begin() + static_cast<std::ptrdiff_t>(values_.size() / 2);
    std::nth_element(values_.begin(), middle, values_.end());
    const double median = *middle;
    // All rows below the median are now in front of it.
    const auto below = static_cast<std::size_t>(
        std::count_if(values_.begin(), middle, [&](double value) { return value < median; }));
    if (below < min_size || values_.size() - below < min_size) return set.begin;
    const auto first = order_.begin() + static_cast<std::ptrdiff_t>(set.begin);
    const auto last = order_.begin() + static_cast<std::ptrdiff_t>(set.end);
    std::stable_partition(first, last, [&](std::size_t i) { return rows_.row(i)[k] < median; });
    return set.begin + below;
  }

  const LabelledRows& rows_;
  // Each set is a range of this vector.
  std::vector<std::size_t> order_;
  std::vector<double> mean_;
  std::vector<double> squared_deviations_;
  std::vector<double> values_;
};

// Adds a non-empty bin to an error whose ece has not been divided by n yet.
void AddBin(std::size_t size, double distance, BinnedError& error) noexcept {
  error.ece += static_cast<double>(size) * distance;
  error.mce = std::max(error.mce, distance);
  error.smallest_bin = error.bins == 0 ? size : std::min(error.smallest_bin, size);
  error.largest_bin = std::max(error.largest_bin, size);
  ++error.bins;
}

BinnedError ErrorOfPartition(const LabelledRows& rows, const Partition& partition,
                             Distance distance) {
  BinnedError error;
  std::vector<double> mean_prediction(rows.class_count());
  std::vector<double> frequency(rows.class_count());
  for (std::size_t b = 0; b < partition.bins(); ++b) {
    const std::span<const std::size_t> bin = partition.bin(b);
    const auto size = static_cast<double>(bin.size());
    std::ranges::fill(mean_prediction, 0);
    std::ranges::fill(frequency, 0);
    for (const std::size_t i : bin) {
      const std::span<const double> g = rows.row(i);
      for (std::size_t k = 0; k < g.size(); ++k) mean_prediction[k] += g[k];
      frequency[rows.label(i)] += 1;
    }
    for (double& value : mean_prediction) value /= size;
    for (double& value : frequency) value /= size;
    AddBin(bin.size(), DistanceOf(distance, mean_prediction, frequency), error);
  }
  error.ece /= static_cast<double>(rows.size());
  return error;
}

// Sums of probability - outcome over uniform bins of a scalar.
class ScalarBins {
 public:
  explicit ScalarBins(std::size_t bins) : sizes_(bins), differences_(bins) {}

  void Add(double p, bool outcome) noexcept {
    const std::size_t b = UniformBinIndex(p, sizes_.size()) - 1;
    ++sizes_[b];
    differences_[b] += outcome ? p - 1 : p;
  }

  // Returns the error of the n values that were added and clears the bins.
  BinnedError Take(std::size_t n) noexcept {
    BinnedError error;
    for (std::size_t b = 0; b < sizes_.size(); ++b) {
      if (sizes_[b] == 0) continue;
      AddBin(sizes_[b], std::abs(differences_[b]) / static_cast<double>(sizes_[b]), error);
    }
    error.ece /= static_cast<double>(n);
    std::ranges::fill(sizes_, 0);
    std::ranges::fill(differences_, 0);
    return error;
  }

 private:
  std::vector<std::size_t> sizes_;
  std::vector<double> differences_;
};

std::vector<BinnedError> ErrorOfEachClass(const LabelledRows& rows, std::size_t bin_count) {
  std::vector<BinnedError> errors;
  errors.reserve(rows.class_count());
  ScalarBins bins(bin_count);
  for (std::size_t k = 0; k < rows.class_count(); ++k) {
    for (std::size_t i = 0; i < rows.size(); ++i) bins.Add(rows.row(i)[k], rows.label(i) == k);
    errors.push_back(bins.Take(rows.size()));
  }
  return errors;
}

BinnedError Estimate(const LabelledRows& rows, const UniformBins& spec) {
  return ErrorOfPartition(rows, UniformPartition(rows, spec.bins_per_class), spec.distance);
}

BinnedError Estimate(const LabelledRows& rows, const MedianVarianceBins& spec) {
  return ErrorOfPartition(rows, MedianVarianceSplitter(rows).Split(spec.min_size, spec.max_bins),
                          spec.distance);
}

BinnedError Estimate(const LabelledRows& rows, const TopLabelBins& spec) {
  ScalarBins bins(spec.bins);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::span<const double> g = rows.row(i);
    const std::size_t predicted = PredictedClass(g);
    bins.Add(g[predicted], rows.label(i) == predicted);
  }
  return bins.Take(rows.size());
}

BinnedError Estimate(const LabelledRows& rows, const ClassWiseBins& spec) {
  BinnedError all;
  all.smallest_bin = rows.size();
  for (const BinnedError& error : ErrorOfEachClass(rows, spec.bins)) {
    all.ece += error.ece / static_cast<double>(rows.class_count());
    all.mce = std::max(all.mce, error.mce);
    all.bins += error.bins;
    all.smallest_bin = std::min(all.smallest_bin, error.smallest_bin);
    all.largest_bin = std::max(all.largest_bin, error.largest_bin);
  }
  return all;
}

absl::Status CheckMedianVariance(std::size_t min_size, std::size_t n) {
  if (min_size < 1) return absl::InvalidArgumentError("min_size is 0, expected at least 1");
  return CheckSize(n, min_size);
}

absl::Status CheckUniform(const char* field, std::size_t bins, std::size_t n) {
  if (bins >= 1 && bins <= kMaxBinsPerClass) return CheckSize(n, 1);
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", bins, ", expected 1..", kMaxBinsPerClass));
}

}  // namespace

absl::Status CheckBinnedErrorSpec(const BinnedErrorSpec& spec, std::size_t n) {
  if (const auto* const bins = std::get_if<UniformBins>(&spec)) {
    return CheckUniform("bins_per_class", bins->bins_per_class, n);
  }
  if (const auto* const bins = std::get_if<MedianVarianceBins>(&spec)) {
    return CheckMedianVariance(bins->min_size, n);
  }
  const auto* const top_label = std::get_if<TopLabelBins>(&spec);
  return CheckUniform(
      "bins", top_label != nullptr ? top_label->bins : std::get<ClassWiseBins>(spec).bins, n);
}

BinnedError BinnedErrorOfRows(const LabelledRows& rows, const BinnedErrorSpec& spec) {
  return std::visit([&rows](const auto& bins) { return Estimate(rows, bins); }, spec);
}

absl::StatusOr<BinnedError> EstimateBinnedError(const PredictionBatch& batch,
                                                const BinnedErrorSpec& spec) {
  CALIBD_RETURN_IF_ERROR(CheckBinnedErrorSpec(spec, batch.size()));
  return BinnedErrorOfRows(LabelledRows(batch), spec);
}

absl::StatusOr<std::vector<BinnedError>> EstimateClassWiseError(const PredictionBatch& batch,
                                                                const ClassWiseBins& spec) {
  CALIBD_RETURN_IF_ERROR(CheckBinnedErrorSpec(spec, batch.size()));
  return ErrorOfEachClass(LabelledRows(batch), spec.bins);
}

Partition::Partition(std::vector<std::size_t> rows, std::vector<std::size_t> starts)
    : rows_(std::move(rows)), starts_(std::move(starts)) {
  starts_.push_back(rows_.size());
}

absl::StatusOr<Partition> PartitionUniformly(const PredictionBatch& batch,
                                             std::size_t bins_per_class) {
  CALIBD_RETURN_IF_ERROR(CheckUniform("bins_per_class", bins_per_class, batch.size()));
  return UniformPartition(LabelledRows(batch), bins_per_class);
}

absl::StatusOr<Partition> PartitionUniformly(const BinaryPredictions& predictions,
                                             std::size_t bins) {
  CALIBD_RETURN_IF_ERROR(CheckUniform("bins", bins, predictions.size()));
  std::vector<std::size_t> bin_of_row;
  bin_of_row.reserve(predictions.size());
  // After the summation: the number of non-empty bins before each bin.
  std::vector<std::size_t> rank(bins + 1);
  for (const double p : predictions.probabilities) {
    bin_of_row.push_back(UniformBinIndex(p, bins) - 1);
    rank[bin_of_row.back() + 1] = 1;
  }
  for (std::size_t b = 0; b < bins; ++b) rank[b + 1] += rank[b];
  for (std::size_t& b : bin_of_row) b = rank[b];
  return GroupByBin(bin_of_row, rank.back());
}

absl::StatusOr<Partition> PartitionByMedianVariance(const PredictionBatch& batch,
                                                    std::size_t min_size, std::size_t max_bins) {
  CALIBD_RETURN_IF_ERROR(CheckMedianVariance(min_size, batch.size()));
  const LabelledRows rows(batch);
  return MedianVarianceSplitter(rows).Split(min_size, max_bins);
}

}  // namespace calibd
