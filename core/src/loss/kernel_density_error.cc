#include "loss/kernel_density_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/dirichlet_kernel.h"
#include "base/exponential.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

// Rows of one parallel task.
constexpr Eigen::Index kDensityRows = 32;

// Replaces logarithms of kernels by the kernels divided by the largest of the others, and the one
// of `own` by 0. Returns the logarithm of the largest.
double KernelsOfOthers(Eigen::Index own, Eigen::ArrayXd& values) {
  values(own) = -std::numeric_limits<double>::max();
  const double largest = values.maxCoeff();
  values -= largest;
  Exponentiate(values.data(), static_cast<std::size_t>(values.size()));
  values(own) = 0;
  return largest;
}

// Calls body(first) for the first row of each task, and returns whether the work was cancelled.
template <typename Body>
absl::Status ForEachTile(Eigen::Index n, const RunControl& control, const Body& body) {
  const auto tiles = static_cast<std::size_t>((n + kDensityRows - 1) / kDensityRows);
  RunLoop(control.parallel_for, tiles, [&](std::size_t tile) {
    if (!control.IsCancelled()) body(static_cast<Eigen::Index>(tile) * kDensityRows);
  });
  return control.CheckCancelled();
}

}  // namespace

std::vector<double> DensityBandwidths() {
  std::vector<double> bandwidths;
  bandwidths.reserve(20);
  for (int k = 0; k < 15; ++k) bandwidths.push_back(std::pow(10, -5 + k * 4.0 / 14));
  for (int k = 1; k <= 5; ++k) bandwidths.push_back(0.2 * k);
  return bandwidths;
}

struct KernelDensityError::Rows {
  // The logarithm of the sum of the kernels of the other rows.
  Eigen::ArrayXd log_sums;
  // The terms of the error.
  Eigen::ArrayXd errors;
  // n x m: the derivatives of the error with respect to r_j, and their mean over r_j.
  RowMatrix slopes;
  Eigen::ArrayXd mean_slopes;
  // n x m; empty if it is not asked for.
  RowMatrix gradient;
};

KernelDensityError::KernelDensityError(std::span<const double> predictions, std::size_t columns,
                                       std::vector<std::size_t> labels)
    : columns_(columns),
      labels_(std::move(labels)),
      classes_(SimplexRows(ViewRows(predictions, columns))),
      logs_(LogProbabilities(classes_)) {}

absl::StatusOr<std::vector<double>> KernelDensityError::LogLikelihoods(
    std::span<const double> bandwidths, const RunControl& control) const {
  const Eigen::Index n = classes_.rows();
  std::vector<Eigen::ArrayXd> normalizers;
  for (const double bandwidth : bandwidths) {
    normalizers.push_back(LogNormalizers(classes_, bandwidth));
  }
  const auto count = static_cast<Eigen::Index>(bandwidths.size());
  RowMatrix densities(n, count);
  CALIBD_RETURN_IF_ERROR(ForEachTile(n, control, [&](Eigen::Index first) {
    const Eigen::Index size = std::min(kDensityRows, n - first);
    const Eigen::MatrixXd products = classes_ * logs_.middleRows(first, size).transpose();
    Eigen::ArrayXd kernels;
    for (Eigen::Index j = 0; j < size; ++j) {
      for (Eigen::Index h = 0; h < count; ++h) {
        const auto index = static_cast<std::size_t>(h);
        kernels = products.col(j).array() / bandwidths[index] - normalizers[index];
        const double largest = KernelsOfOthers(first + j, kernels);
        densities(first + j, h) = largest + std::log(kernels.sum() / static_cast<double>(n - 1));
      }
    }
  }));
  const Eigen::RowVectorXd sums = densities.colwise().sum();
  return std::vector<double>(sums.data(), sums.data() + sums.size());
}

void KernelDensityError::EstimateRows(Eigen::Index first, double bandwidth, int norm,
                                      const Eigen::ArrayXd& normalizers, Rows& rows) const {
  const Eigen::Index n = classes_.rows();
  const Eigen::Index size = std::min(kDensityRows, n - first);
  const auto counted = static_cast<Eigen::Index>(columns_);
  const Eigen::MatrixXd products = classes_ * logs_.middleRows(first, size).transpose();
  RowMatrix weights(rows.gradient.size() > 0 ? size : 0, n);
  Eigen::ArrayXd kernels;
  Eigen::ArrayXd estimate(classes_.cols());
  for (Eigen::Index t = 0; t < size; ++t) {
    const Eigen::Index j = first + t;
    kernels = products.col(t).array() / bandwidth - normalizers;
    const double largest = KernelsOfOthers(j, kernels);
    const double sum = kernels.sum();
    rows.log_sums(j) = largest + std::log(sum);
    kernels /= sum;
    estimate.setZero();
    for (Eigen::Index i = 0; i < n; ++i) {
      estimate(static_cast<Eigen::Index>(labels_[static_cast<std::size_t>(i)])) += kernels(i);
    }
    double error = 0;
    double mean = 0;
    for (Eigen::Index k = 0; k < counted; ++k) {
      const double difference = estimate(k) - classes_(j, k);
      error += norm == 1 ? std::abs(difference) : difference * difference;
      const double sign = difference > 0 ? 1 : difference < 0 ? -1 : 0;
      const double slope = (norm == 1 ? sign : 2 * difference) / static_cast<double>(n);
      rows.slopes(j, k) = slope;
      mean += slope * estimate(k);
    }
    rows.errors(j) = error;
    rows.mean_slopes(j) = mean;
    if (rows.gradient.size() == 0) continue;
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto label = static_cast<Eigen::Index>(labels_[static_cast<std::size_t>(i)]);
      weights(t, i) = kernels(i) * (rows.slopes(j, label) - mean);
    }
  }
  if (rows.gradient.size() == 0) return;
  // The kernels of row j depend on q_j by the logarithms.
  const RowMatrix by_logs = weights * classes_;
  for (Eigen::Index t = 0; t < size; ++t) {
    for (Eigen::Index k = 0; k < classes_.cols(); ++k) {
      const double q = classes_(first + t, k);
      const double by_log = q > kLeastDensityProbability ? by_logs(t, k) / bandwidth / q : 0;
      rows.gradient(first + t, k) = by_log - rows.slopes(first + t, k);
    }
  }
}

void KernelDensityError::AddCenters(Eigen::Index first, double bandwidth,
                                    const Eigen::ArrayXd& normalizers, const RowMatrix& slopes,
                                    Rows& rows) const {
  const Eigen::Index n = classes_.rows();
  const Eigen::Index size = std::min(kDensityRows, n - first);
  const Eigen::MatrixXd products = logs_ * classes_.middleRows(first, size).transpose();
  RowMatrix weights(size, n);
  Eigen::ArrayXd kernels;
  for (Eigen::Index t = 0; t < size; ++t) {
    const Eigen::Index i = first + t;
    const auto label = static_cast<Eigen::Index>(labels_[static_cast<std::size_t>(i)]);
    kernels = products.col(t).array() / bandwidth - normalizers(i) - rows.log_sums;
    Exponentiate(kernels.data(), static_cast<std::size_t>(n));
    kernels(i) = 0;
    weights.row(t) = kernels * (rows.slopes.col(label).array() - rows.mean_slopes);
  }
  const RowMatrix by_centers = weights * logs_;
  for (Eigen::Index t = 0; t < size; ++t) {
    rows.gradient.row(first + t) +=
        by_centers.row(t) / bandwidth - weights.row(t).sum() * slopes.row(first + t);
  }
}

absl::StatusOr<double> KernelDensityError::Compute(double bandwidth, int norm,
                                                   std::span<double> gradient,
                                                   const RunControl& control) const {
  const Eigen::Index n = classes_.rows();
  const Eigen::Index m = classes_.cols();
  Rows rows{.log_sums = Eigen::ArrayXd(n),
            .errors = Eigen::ArrayXd(n),
            .slopes = RowMatrix::Zero(n, m),
            .mean_slopes = Eigen::ArrayXd(n),
            .gradient = RowMatrix(gradient.empty() ? 0 : n, m)};
  const Eigen::ArrayXd normalizers = LogNormalizers(classes_, bandwidth);
  CALIBD_RETURN_IF_ERROR(ForEachTile(n, control, [&](Eigen::Index first) {
    EstimateRows(first, bandwidth, norm, normalizers, rows);
  }));
  if (!gradient.empty()) {
    const RowMatrix slopes = NormalizerSlopes(classes_, bandwidth);
    CALIBD_RETURN_IF_ERROR(ForEachTile(n, control, [&](Eigen::Index first) {
      AddCenters(first, bandwidth, normalizers, slopes, rows);
    }));
    for (Eigen::Index i = 0; i < n; ++i) {
      if (columns_ == 1) {
        // The second class has the probability 1 - p.
        gradient[static_cast<std::size_t>(i)] = rows.gradient(i, 0) - rows.gradient(i, 1);
        continue;
      }
      std::copy_n(rows.gradient.row(i).data(), m, gradient.begin() + i * m);
    }
  }
  return rows.errors.sum() / static_cast<double>(n);
}

}  // namespace calibd
