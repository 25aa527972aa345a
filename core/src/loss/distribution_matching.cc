#include "loss/distribution_matching.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/exponential.h"
#include "calibd/core/status_macros.h"
#include "loss/gaussian_pairs.h"

namespace calibd {
namespace {

// Multiplies weights by values and returns the sum of the products. Four sums break the chain of
// dependent additions; their order is fixed.
double MultiplyAndSum(std::span<const double> values, std::span<double> weights) {
  double sums[4] = {};
  for (std::size_t j = 0; j < weights.size(); ++j) {
    weights[j] *= values[j];
    sums[j % 4] += weights[j];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Rows of one parallel task.
constexpr std::size_t kRowsPerTask = 8;
// Operations between two checks of cancellation, some milliseconds.
constexpr double kTermsPerCheck = 1 << 20;

class ClassTerms final : public OutcomeTerms {
 public:
  ClassTerms(Points residuals, double scale, std::vector<double> weights)
      : residuals_(std::move(residuals)), weights_(std::move(weights)), scale_(scale) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      for (std::size_t k = 0; k < residuals_.width; ++k) {
        residuals_.values[i * residuals_.width + k] *= weights_[i];
      }
    }
  }

  void Compute(PairRow row, std::span<const double> weights, std::span<double> terms,
               std::span<double> gradient) const override {
    const std::span<const double> own = residuals_.row(row.i);
    const double slope = weights_.empty() ? scale_ : scale_ * weights_[row.i];
    for (std::size_t j = 0; j < terms.size(); ++j) {
      const std::span<const double> other = residuals_.row(row.first + j);
      // Four sums break the chain of dependent additions; their order is fixed.
      double sums[4] = {};
      std::size_t k = 0;
      for (; k + 4 <= own.size(); k += 4) {
        for (std::size_t lane = 0; lane < 4; ++lane) sums[lane] += own[k + lane] * other[k + lane];
      }
      for (; k < own.size(); ++k) sums[0] += own[k] * other[k];
      terms[j] = scale_ * ((sums[0] + sums[1]) + (sums[2] + sums[3]));
      const double factor = slope * weights[j];
      for (k = 0; k < gradient.size(); ++k) gradient[k] -= factor * other[k];
    }
  }

 private:
  // With their weights.
  Points residuals_;
  const std::vector<double> weights_;
  const double scale_;
};

class NoConditionTerms final : public ConditionTerms {
 public:
  void Compute(PairRow /*row*/, std::span<double> kernel) const override {
    std::fill(kernel.begin(), kernel.end(), 1.0);
  }
  void AddGradient(PairRow /*row*/, std::span<const double> /*weights*/,
                   std::span<double> /*gradient*/) const override {}
};

class GroupTerms final : public ConditionTerms {
 public:
  explicit GroupTerms(std::vector<std::int32_t> groups) : groups_(std::move(groups)) {}

  void Compute(PairRow row, std::span<double> kernel) const override {
    for (std::size_t j = 0; j < kernel.size(); ++j) {
      kernel[j] = groups_[row.i] == groups_[row.first + j] ? 1.0 : 0.0;
    }
  }
  void AddGradient(PairRow /*row*/, std::span<const double> /*weights*/,
                   std::span<double> /*gradient*/) const override {}

 private:
  const std::vector<std::int32_t> groups_;
};

// exp(-|x - x'| / bandwidth) of points that are single values.
class LineTerms final : public ConditionTerms {
 public:
  LineTerms(std::vector<double> values, double bandwidth, double slope)
      : values_(std::move(values)), bandwidth_(bandwidth), slope_(slope) {}

  void Compute(PairRow row, std::span<double> kernel) const override {
    for (std::size_t j = 0; j < kernel.size(); ++j) {
      kernel[j] = -std::abs(values_[row.i] - values_[row.first + j]) / bandwidth_;
    }
    Exponentiate(kernel.data(), kernel.size());
  }

  void AddGradient(PairRow row, std::span<const double> weights,
                   std::span<double> gradient) const override {
    const double own = values_[row.i];
    for (std::size_t j = 0; j < weights.size(); ++j) {
      const double other = values_[row.first + j];
      const int sign = static_cast<int>(own > other) - static_cast<int>(own < other);
      gradient[0] += -slope_ * weights[j] / bandwidth_ * sign;
    }
  }

 private:
  const std::vector<double> values_;
  const double bandwidth_;
  const double slope_;
};

class GaussianTerms final : public ConditionTerms {
 public:
  GaussianTerms(const Points& points, double gamma, double slope)
      : points_(points.values, points.width, gamma), slope_(slope) {}

  void Compute(PairRow row, std::span<double> kernel) const override {
    points_.Compute(row.i, row.first, kernel);
  }
  void AddGradient(PairRow row, std::span<const double> weights,
                   std::span<double> gradient) const override {
    if (slope_ == 0) return;
    points_.AddDifferences(row.i, row.first, weights, -2 * points_.gamma() * slope_, gradient);
  }

 private:
  const GaussianPoints points_;
  const double slope_;
};

class AnyProducts final : public PairProducts {
 public:
  AnyProducts(const OutcomeTerms& terms, const ConditionTerms& condition)
      : terms_(terms), condition_(condition) {}

  double Compute(PairRow row, std::span<double> products) const override {
    std::array<double, kMaxPairColumns> storage;
    const std::span<double> kernel = std::span(storage).first(products.size());
    condition_.Compute(row, kernel);
    terms_.Compute(row, kernel, products, {});
    return MultiplyAndSum(kernel, products);
  }

 private:
  const OutcomeTerms& terms_;
  const ConditionTerms& condition_;
};

// Calls body(begin, end) for the rows of each task.
template <typename Body>
void ForEachTask(std::size_t n, const RunControl& control, const Body& body) {
  RunLoop(control.parallel_for, (n + kRowsPerTask - 1) / kRowsPerTask, [&](std::size_t task) {
    body(task * kRowsPerTask, std::min(n, (task + 1) * kRowsPerTask));
  });
}

}  // namespace

absl::StatusOr<PairSums> AddRows(std::span<const PairSums> rows, const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  PairSums total;
  for (const PairSums& row : rows) {
    total.off_diagonal += row.off_diagonal;
    total.diagonal += row.diagonal;
  }
  return total;
}

std::size_t ColumnsAtOnce(double pair_operations) noexcept {
  return static_cast<std::size_t>(
      std::clamp<double>(kTermsPerCheck / pair_operations, 1, kMaxPairColumns));
}

std::unique_ptr<const OutcomeTerms> MakeClassTerms(Points residuals, double scale,
                                                   std::vector<double> weights) {
  return std::make_unique<ClassTerms>(std::move(residuals), scale, std::move(weights));
}
std::unique_ptr<const OutcomeTerms> MakeLevelTerms(const ForecastBatch& batch,
                                                   std::span<const double> levels) {
  Points residuals{{}, levels.size()};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t k = 0; k < levels.size(); ++k) {
      residuals.values.push_back((batch.outcomes[i] <= batch.row(i)[k] ? 1.0 : 0.0) - levels[k]);
    }
  }
  return MakeClassTerms(std::move(residuals), 1 / static_cast<double>(levels.size()));
}
std::unique_ptr<const PairProducts> MakeProducts(const OutcomeTerms& terms,
                                                 const ConditionTerms& condition) {
  return std::make_unique<AnyProducts>(terms, condition);
}
std::unique_ptr<const ConditionTerms> MakeNoCondition() {
  return std::make_unique<NoConditionTerms>();
}
std::unique_ptr<const ConditionTerms> MakeGroupCondition(std::vector<std::int32_t> groups) {
  return std::make_unique<GroupTerms>(std::move(groups));
}
std::unique_ptr<const ConditionTerms> MakePointCondition(const Points& points, const Kernel& kernel,
                                                         double slope) {
  if (kernel.distance() == Distance::kSquaredEuclidean) {
    return std::make_unique<GaussianTerms>(points, 1 / kernel.bandwidth(), slope);
  }
  return std::make_unique<LineTerms>(points.values, kernel.bandwidth(), slope);
}

absl::StatusOr<PairSums> SumPairs(std::size_t n, const PairProducts& products,
                                  double pair_operations, const RunControl& control) {
  const std::size_t columns = ColumnsAtOnce(pair_operations);
  std::vector<PairSums> sums(n);
  // The rows of a task share the columns that are in the cache.
  ForEachTask(n, control, [&](std::size_t begin, std::size_t end) {
    std::array<double, kMaxPairColumns> buffer;
    for (std::size_t first = begin; first < n; first += columns) {
      const std::size_t last = std::min(n, first + columns);
      for (std::size_t i = begin; i < end; ++i) {
        if (control.IsCancelled()) return;
        if (i >= first && i < last) {
          sums[i].diagonal = products.Compute({i, i}, std::span(buffer).first(1));
        }
        const std::size_t from = std::max(first, i + 1);
        if (from >= last) continue;
        // Both orders of a pair have the same term.
        sums[i].off_diagonal +=
            2 * products.Compute({i, from}, std::span(buffer).first(last - from));
      }
    }
  });
  return AddRows(sums, control);
}

absl::StatusOr<PairSums> SumPairsWithGradient(std::size_t n, const OutcomeTerms& terms,
                                              const ConditionTerms& condition, bool biased,
                                              double pair_operations, std::span<double> gradient,
                                              const RunControl& control) {
  const std::size_t width = gradient.size() / n;
  const auto size = static_cast<double>(n);
  const double scale = 2 / (biased ? size * size : size * (size - 1));
  const std::size_t columns = ColumnsAtOnce(pair_operations);
  std::vector<PairSums> sums(n);
  const auto sum_row = [&](std::size_t i, std::span<double> buffer) {
    const std::span<double> out = gradient.subspan(i * width, width);
    std::fill(out.begin(), out.end(), 0.0);
    for (std::size_t first = 0; first < n; first += columns) {
      if (control.IsCancelled()) return;
      const PairRow row{i, first};
      const std::size_t count = std::min(columns, n - first);
      const std::span<double> weights = buffer.subspan(0, count);
      const std::span<double> values = buffer.subspan(columns, count);
      const bool has_diagonal = i >= first && i < first + count;
      condition.Compute(row, weights);
      if (has_diagonal && !biased) weights[i - first] = 0;
      terms.Compute(row, weights, values, out);
      if (has_diagonal) {
        sums[i].diagonal = values[i - first];
        weights[i - first] = 0;
      }
      sums[i].off_diagonal += MultiplyAndSum(values, weights);
      condition.AddGradient(row, weights, out);
    }
    for (double& value : out) value *= scale;
  };
  ForEachTask(n, control, [&](std::size_t begin, std::size_t end) {
    std::vector<double> buffer(2 * columns);
    for (std::size_t i = begin; i < end; ++i) sum_row(i, buffer);
  });
  return AddRows(sums, control);
}

}  // namespace calibd
