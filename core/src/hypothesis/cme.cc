#include "calibd/core/cme.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "calibd/core/generator.h"
#include "calibd/core/labelled_rows.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"

namespace calibd {
namespace {

// Directions in which the deviations vary by less than 1 / kMaxCondition of the largest variance
// are left out, because they hold noise alone: with 100 rows of 2 classes whose labels have nothing
// to do with the predictions, the test rejects 87 % of the files with this limit, and 25 % with
// 1e6. With 10 classes the condition is some 100, and all directions are kept.
constexpr double kMaxCondition = 1e3;

absl::Status CheckLocationCount(std::size_t count) {
  if (count >= 1 && count <= kMaxTestLocations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("test_locations has ", count, ", expected 1..", kMaxTestLocations));
}

// Number of operations between two checks for cancellation.
constexpr double kOperationsPerCheck = 1e6;

// k(g_i, t_j): n x J. Errors: Cancelled.
absl::StatusOr<Eigen::MatrixXd> Kernels(const PredictionBatch& batch, const Kernel& kernel,
                                        const PredictionBatch& locations,
                                        const RunControl& control) {
  Eigen::MatrixXd kernels(batch.size(), locations.size());
  const auto rows_per_check = static_cast<std::size_t>(
      1 + kOperationsPerCheck / static_cast<double>(locations.size() * batch.class_count));
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (i % rows_per_check == 0) CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    for (std::size_t j = 0; j < locations.size(); ++j) {
      kernels(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) =
          kernel(batch.row(i), locations.row(j));
    }
  }
  return kernels;
}

absl::Status CheckInput(const PredictionBatch& batch, const PredictionBatch& locations) {
  const std::size_t count = locations.size();
  CALIBD_RETURN_IF_ERROR(CheckLocationCount(count));
  if (locations.class_count != batch.class_count) {
    return absl::InvalidArgumentError(absl::StrCat("test_locations has ", locations.class_count,
                                                   " classes, expected ", batch.class_count));
  }
  if (batch.size() < count + 1) {
    return absl::FailedPreconditionError(absl::StrCat("has ", batch.size(),
                                                      " observations, needs at least ", count + 1,
                                                      " for ", count, " test locations"));
  }
  return absl::OkStatus();
}

// The result for these labels without its p-value. It has no directions if the deviations do not
// vary. deviations: the kernels of the rows and the locations, which become dev_ij.
CmeTestResult StatisticOf(const LabelledRows& rows, Eigen::MatrixXd deviations,
                          const PredictionBatch& locations) {
  for (std::size_t j = 0; j < locations.size(); ++j) {
    const auto label = static_cast<std::size_t>(locations.labels[j]);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      deviations(static_cast<Eigen::Index>(i), static_cast<Eigen::Index>(j)) *=
          (rows.label(i) == label ? 1 : 0) - rows.row(i)[label];
    }
  }
  const std::size_t count = locations.size();
  const auto n = static_cast<double>(rows.size());
  const Eigen::VectorXd mean = deviations.colwise().mean();
  deviations.rowwise() -= mean.transpose();
  const Eigen::MatrixXd covariance = deviations.transpose() * deviations / (n - 1);
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> eigen(covariance);
  // Ascending.
  const Eigen::VectorXd& values = eigen.eigenvalues();
  const double largest = values(values.size() - 1);
  CmeTestResult result;
  if (eigen.info() != Eigen::Success || !(largest > 0)) {
    // Labels of certain rows have no deviation at all, which is the least extreme value.
    result.statistic = mean.isZero(0) ? 0 : std::numeric_limits<double>::infinity();
    return result;
  }
  // Each kept value is positive.
  Eigen::Index kept = values.size();
  while (kept > 1 && values(values.size() - kept) < largest / kMaxCondition) --kept;
  result.n = rows.size();
  result.test_locations = count;
  result.ucme = mean.squaredNorm() / static_cast<double>(count);
  result.directions = static_cast<std::size_t>(kept);
  result.condition = largest / values(values.size() - kept);
  // A sum over eigenvectors, because it cannot be negative.
  const Eigen::VectorXd projected = eigen.eigenvectors().transpose() * mean;
  result.statistic = n * (projected.tail(kept).array().square() / values.tail(kept).array()).sum();
  return result;
}

}  // namespace

absl::StatusOr<CmeTestResult> CmeTest(const PredictionBatch& batch, const Kernel& kernel,
                                      const PredictionBatch& test_locations,
                                      const BootstrapOptions& options, const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckInput(batch, test_locations));
  CALIBD_ASSIGN_OR_RETURN(const Eigen::MatrixXd kernels,
                          Kernels(batch, kernel, test_locations, control));
  CmeTestResult result = StatisticOf(LabelledRows(batch), kernels, test_locations);
  if (result.directions == 0) {
    return absl::FailedPreconditionError(
        "the deviations at the test locations do not vary: the predictions leave no room for "
        "deviations, or all are equal");
  }
  const auto statistic = [&](const LabelledRows& rows) {
    return StatisticOf(rows, kernels, test_locations).statistic;
  };
  BootstrapOptions forecast = options;
  forecast.null = NullHypothesis::kForecast;
  CALIBD_ASSIGN_OR_RETURN(result.simulation, SimulateTest(batch, statistic, forecast, control));
  result.p_value = result.simulation.p_value;
  return result;
}

absl::StatusOr<PredictionSet> DrawTestLocations(std::size_t count, std::size_t class_count,
                                                std::uint64_t seed) {
  CALIBD_RETURN_IF_ERROR(CheckLocationCount(count));
  // Dirichlet(1, ..., 1) is uniform on the simplex; with pi = 1 the labels are
  // independent of it.
  GeneratorSpec spec = GeneratorSpec::M3(class_count);
  std::ranges::fill(spec.alpha, 1);
  CALIBD_ASSIGN_OR_RETURN(Generator generator, Generator::Create(std::move(spec), seed));
  PredictionSet locations;
  generator.Draw(count, locations);
  return locations;
}

}  // namespace calibd
