#include "calibd/core/calibration_function.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/dirichlet_kernel.h"
#include "base/exponential.h"
#include "base/matrix_view.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// Rows of which the density kernels are computed together.
constexpr Eigen::Index kTileRows = 32;

std::size_t BinOf(double p, std::size_t bins) {
  const double bin = std::ceil(p * static_cast<double>(bins));
  return static_cast<std::size_t>(std::clamp(bin, 1.0, static_cast<double>(bins))) - 1;
}

// The first columns of the part of a lens.
ResidualSample ResidualsOf(const PredictionBatch& part, std::size_t columns) {
  ResidualSample sample;
  sample.columns = columns;
  sample.predictions.reserve(part.size() * sample.columns);
  sample.residuals.reserve(part.size() * sample.columns);
  for (std::size_t i = 0; i < part.size(); ++i) {
    for (std::size_t k = 0; k < sample.columns; ++k) {
      const double p = part.row(i)[k];
      const bool is_label = part.labels[i] == static_cast<std::int32_t>(k);
      sample.predictions.push_back(p);
      sample.residuals.push_back(is_label ? p - 1 : p);
    }
  }
  return sample;
}

// Edges between bins with equal numbers of these predictions; increasing, fewer than `bins`.
std::vector<double> EqualMassEdges(std::vector<double> predictions, std::size_t bins) {
  std::ranges::sort(predictions);
  std::vector<double> edges;
  for (std::size_t b = 1; b < bins; ++b) {
    const std::size_t first = b * predictions.size() / bins;
    if (first == 0) continue;
    const double edge = (predictions[first - 1] + predictions[first]) / 2;
    if (edges.empty() || edge > edges.back()) edges.push_back(edge);
  }
  return edges;
}

}  // namespace

bool HasEstimators(const Lens& lens) { return lens.is_canonical() || lens.is_scalar(); }

absl::StatusOr<std::vector<ResidualSample>> ReduceToParts(const PredictionBatch& batch,
                                                          const Lens& lens) {
  if (!HasEstimators(lens)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is ", lens.name(), ", expected canonical, top_label, class_wise or one_class"));
  }
  CALIBD_ASSIGN_OR_RETURN(const LensBatch reduced, ApplyLens(batch, lens));
  std::vector<ResidualSample> samples;
  for (const PredictionSet& part : reduced.parts) {
    samples.push_back(ResidualsOf(part.view(), lens.is_canonical() ? part.class_count : 1));
  }
  return samples;
}

absl::StatusOr<ResidualSample> ReduceToResiduals(const PredictionBatch& batch, const Lens& lens) {
  CALIBD_ASSIGN_OR_RETURN(std::vector<ResidualSample> samples, ReduceToParts(batch, lens));
  if (samples.size() == 1) return std::move(samples.front());
  return absl::InvalidArgumentError(
      absl::StrCat("is ", lens.name(), ", expected canonical, top_label or one_class"));
}

FunctionValues EvaluateBins(const ResidualSample& fit, const ResidualSample& rows,
                            std::size_t bins) {
  std::vector<double> sums(bins);
  std::vector<double> counts(bins);
  double total = 0;
  for (std::size_t i = 0; i < fit.size(); ++i) {
    const std::size_t bin = BinOf(fit.predictions[i], bins);
    sums[bin] += fit.residuals[i];
    counts[bin] += 1;
    total += fit.residuals[i];
  }
  const double mean = total / static_cast<double>(fit.size());
  FunctionValues values;
  values.left.reserve(rows.size());
  for (const double p : rows.predictions) {
    const std::size_t bin = BinOf(p, bins);
    values.left.push_back(counts[bin] > 0 ? sums[bin] / counts[bin] : mean);
  }
  return values;
}

FunctionValues EvaluateDebiasedBins(const ResidualSample& fit, const ResidualSample& rows,
                                    std::size_t bins) {
  const std::vector<double> edges = EqualMassEdges(fit.predictions, bins);
  const auto bin_of = [&edges](double p) {
    return static_cast<std::size_t>(std::ranges::lower_bound(edges, p) - edges.begin());
  };
  struct Bin {
    double size = 0;
    double residual = 0;
    double events = 0;
  };
  std::vector<Bin> table(edges.size() + 1);
  for (std::size_t i = 0; i < fit.size(); ++i) {
    Bin& bin = table[bin_of(fit.predictions[i])];
    bin.size += 1;
    bin.residual += fit.residuals[i];
    bin.events += fit.predictions[i] - fit.residuals[i];
  }
  FunctionValues values;
  values.width = 1 + table.size();
  values.left.resize(rows.size() * values.width);
  values.right.resize(rows.size() * values.width);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t b = bin_of(rows.predictions[i]);
    const Bin& bin = table[b];
    if (bin.size < 2) continue;
    const double frequency = bin.events / bin.size;
    double* const left = &values.left[i * values.width];
    double* const right = &values.right[i * values.width];
    left[0] = right[0] = bin.residual / bin.size;
    left[1 + b] = -frequency * (1 - frequency) / (bin.size - 1);
    right[1 + b] = 1;
  }
  return values;
}

absl::StatusOr<std::vector<FunctionValues>> EvaluateKernelDensity(
    const ResidualSample& fit, const ResidualSample& rows, std::span<const double> bandwidths,
    const RunControl& control) {
  const RowMatrix centers = SimplexRows(ViewRows(fit.predictions, fit.columns));
  const MatrixView predictions = ViewRows(rows.predictions, rows.columns);
  const RowMatrix log_rows = LogProbabilities(SimplexRows(predictions));
  const Eigen::MatrixXd labels =
      ViewRows(fit.predictions, fit.columns) - ViewRows(fit.residuals, fit.columns);

  std::vector<Eigen::ArrayXd> normalizers;
  for (const double bandwidth : bandwidths) {
    normalizers.push_back(LogNormalizers(centers, bandwidth));
  }
  std::vector<RowMatrix> values(bandwidths.size(),
                                RowMatrix(predictions.rows(), predictions.cols()));
  Eigen::MatrixXd products;
  Eigen::ArrayXd weights;
  for (Eigen::Index first = 0; first < predictions.rows(); first += kTileRows) {
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    const Eigen::Index count = std::min(kTileRows, predictions.rows() - first);
    products.noalias() = centers * log_rows.middleRows(first, count).transpose();
    for (std::size_t h = 0; h < bandwidths.size(); ++h) {
      for (Eigen::Index i = 0; i < count; ++i) {
        weights = products.col(i).array() / bandwidths[h] - normalizers[h];
        weights -= weights.maxCoeff();
        Exponentiate(weights.data(), static_cast<std::size_t>(weights.size()));
        values[h].row(first + i) =
            predictions.row(first + i) - (weights.matrix().transpose() * labels) / weights.sum();
      }
    }
  }
  std::vector<FunctionValues> result;
  result.reserve(values.size());
  for (const RowMatrix& matrix : values) {
    result.push_back({.width = rows.columns, .left = ToVector(matrix), .right = {}});
  }
  return result;
}

}  // namespace calibd
