#include "calibd/core/binned_error.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <queue>
#include <unordered_map>
#include <utility>

#include "Eigen/Core"
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

// Returns the uniform bin of each row, numbered from 0 in the order of first appearance.
std::vector<std::size_t> UniformBinOfEachRow(const LabelledRows& rows, std::size_t bins_per_class) {
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
  return bin_of_row;
}

Partition UniformPartition(const LabelledRows& rows, std::size_t bins_per_class) {
  const std::vector<std::size_t> bin_of_row = UniformBinOfEachRow(rows, bins_per_class);
  const std::size_t bins = bin_of_row.empty() ? 0 : std::ranges::max(bin_of_row) + 1;
  return GroupByBin(bin_of_row, bins);
}

// The partition of rows of a batch, from the bins of all rows of the batch: a row keeps its bin,
// and the bins are numbered anew in the order of first appearance.
Partition PartitionOfSelection(const LabelledRows& rows,
                               std::span<const std::size_t> bin_of_batch_row) {
  std::vector<std::size_t> number(bin_of_batch_row.size(), bin_of_batch_row.size());
  std::vector<std::size_t> bin_of_row;
  bin_of_row.reserve(rows.size());
  std::size_t bins = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::size_t& bin = number[bin_of_batch_row[rows.batch_row(i)]];
    if (bin == number.size()) bin = bins++;
    bin_of_row.push_back(bin);
  }
  return GroupByBin(bin_of_row, bins);
}

struct RankedValue {
  double value = 0;
  // Number of values that are smaller.
  std::size_t smaller = 0;
};

// Returns the value at `rank` of the sorted values, which are moved, by quickselect. Nothing but
// the ends of its loops branches on the values: the branches of std::nth_element cannot be
// predicted.
RankedValue Select(std::vector<double>& values, std::vector<double>& scratch, std::size_t rank) {
  scratch.resize(values.size());
  std::size_t size = values.size();
  std::size_t smaller = 0;
  while (true) {
    const double a = values[0];
    const double b = values[size / 2];
    const double c = values[size - 1];
    const double pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
    // Each value is written behind both sides, and at most one of them grows.
    std::size_t below = 0;
    std::size_t above = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const double value = values[i];
      values[below] = value;
      scratch[above] = value;
      below += value < pivot ? 1 : 0;
      above += value > pivot ? 1 : 0;
    }
    if (rank < below) {
      size = below;
    } else if (rank < size - above) {
      return {pivot, smaller + below};
    } else {
      smaller += size - above;
      rank -= size - above;
      size = above;
      std::swap(values, scratch);
    }
  }
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
      : class_count_(rows.class_count()), squared_deviations_(rows.class_count()) {
    rows_.reserve(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows_.push_back({rows.row(i).data(), i});
  }

  Partition Split(std::size_t min_size, std::size_t max_bins) {
    std::vector<std::size_t> starts = {0};
    std::priority_queue<Candidate> candidates;
    candidates.push(Evaluate(0, rows_.size()));
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
    std::vector<std::size_t> order;
    order.reserve(rows_.size());
    for (const Row& row : rows_) order.push_back(row.number);
    return {std::move(order), std::move(starts)};
  }

 private:
  struct Row {
    const double* values = nullptr;
    std::size_t number = 0;
  };

  Candidate Evaluate(std::size_t begin, std::size_t end) {
    std::size_t k = 0;
    for (; k + 8 <= class_count_; k += 8) EvaluateClasses<8>(begin, end, k);
    for (; k + 2 <= class_count_; k += 2) EvaluateClasses<2>(begin, end, k);
    for (; k < class_count_; ++k) EvaluateClasses<1>(begin, end, k);
    const double largest = *std::ranges::max_element(squared_deviations_);
    const auto first = std::ranges::find_if(
        squared_deviations_, [&](double value) { return value >= largest * (1 - kVarianceTie); });
    return {begin, end, end - begin < 2 ? 0 : largest / static_cast<double>(end - begin - 1),
            static_cast<std::size_t>(first - squared_deviations_.begin())};
  }

  // Sets squared_deviations_ of kWidth classes from class k on. The width is known to the compiler,
  // so that the sums stay in registers.
  template <int kWidth>
  void EvaluateClasses(std::size_t begin, std::size_t end, std::size_t k) {
    using Values = Eigen::Array<double, kWidth, 1>;
    const std::span<const Row> set = std::span(rows_).subspan(begin, end - begin);
    Values mean = Values::Zero();
    for (const Row& row : set) mean += Eigen::Map<const Values>(row.values + k);
    mean /= static_cast<double>(set.size());
    Values squares = Values::Zero();
    for (const Row& row : set) {
      squares += (Eigen::Map<const Values>(row.values + k) - mean).square();
    }
    Eigen::Map<Values>(squared_deviations_.data() + k) = squares;
  }

  // Returns where the upper side begins. If a side would be too small, returns set.begin and moves
  // nothing.
  std::size_t SplitAtMedian(const Candidate& set, std::size_t min_size) {
    const std::size_t k = set.split_class;
    values_.clear();
    for (std::size_t i = set.begin; i < set.end; ++i) values_.push_back(rows_[i].values[k]);
    const std::size_t size = set.end - set.begin;
    const auto [median, below] = Select(values_, scratch_, size / 2);
    if (below < min_size || size - below < min_size) return set.begin;
    // As in Select, each row is written behind both sides.
    upper_.resize(size);
    std::size_t lower = set.begin;
    std::size_t upper = 0;
    for (std::size_t i = set.begin; i < set.end; ++i) {
      const Row row = rows_[i];
      const bool is_below = row.values[k] < median;
      rows_[lower] = row;
      upper_[upper] = row;
      lower += is_below ? 1 : 0;
      upper += is_below ? 0 : 1;
    }
    std::copy_n(upper_.begin(), upper, rows_.begin() + static_cast<std::ptrdiff_t>(lower));
    return lower;
  }

  const std::size_t class_count_;
  // Each set is a range of this vector.
  std::vector<Row> rows_;
  std::vector<double> squared_deviations_;
  std::vector<double> values_;
  std::vector<double> scratch_;
  std::vector<Row> upper_;
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

BinnedErrorOfSelection::BinnedErrorOfSelection(const PredictionBatch& batch,
                                               const BinnedErrorSpec& spec)
    : spec_(spec) {
  if (const auto* const bins = std::get_if<UniformBins>(&spec)) {
    uniform_bin_of_row_ = UniformBinOfEachRow(LabelledRows(batch), bins->bins_per_class);
  }
}

BinnedError BinnedErrorOfSelection::operator()(const LabelledRows& rows) const {
  if (const auto* const bins = std::get_if<UniformBins>(&spec_)) {
    return ErrorOfPartition(rows, PartitionOfSelection(rows, uniform_bin_of_row_), bins->distance);
  }
  if (const auto* const bins = std::get_if<MedianVarianceBins>(&spec_)) {
    return Estimate(rows, *bins);
  }
  if (const auto* const bins = std::get_if<TopLabelBins>(&spec_)) return Estimate(rows, *bins);
  return Estimate(rows, std::get<ClassWiseBins>(spec_));
}

absl::StatusOr<BinnedError> EstimateBinnedError(const PredictionBatch& batch,
                                                const BinnedErrorSpec& spec) {
  CALIBD_RETURN_IF_ERROR(CheckBinnedErrorSpec(spec, batch.size()));
  return BinnedErrorOfSelection(batch, spec)(LabelledRows(batch));
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
