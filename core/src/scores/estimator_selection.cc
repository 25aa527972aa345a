#include "calibd/core/estimator_selection.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "calibd/core/calibration_risk.h"
#include "calibd/core/moments.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"

namespace calibd {
namespace {

// The loop with at most `most` elements at the same time.
ParallelLoop LimitLoop(const ParallelLoop& loop, std::size_t most) {
  if (!loop || most == std::numeric_limits<std::size_t>::max()) return loop;
  return [loop, most](std::size_t count, const std::function<void(std::size_t)>& body) {
    for (std::size_t first = 0; first < count; first += most) {
      loop(std::min(most, count - first), [&](std::size_t i) { body(first + i); });
    }
  };
}

// Multiplications that an exponential and its sums take.
constexpr double kExponential = 20;
// Multiplications of the eigenvalues of an r x r matrix, in r^3.
constexpr double kEigenvalues = 10;
// The rank of the kernel matrix of numbers in [0, 1], rounded up.
constexpr double kScalarRank = 32;

bool IsRidge(EstimatorKind kind) {
  return kind == EstimatorKind::kProductRidge || kind == EstimatorKind::kFunctionRidge;
}

bool HasBins(EstimatorKind kind) {
  return kind == EstimatorKind::kBins || kind == EstimatorKind::kFifteenBins ||
         kind == EstimatorKind::kDebiasedBins;
}

// 10^first, 10^(first + step), ..., count values.
std::vector<double> PowersOfTen(double first, double step, int count) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values.push_back(std::pow(10.0, first + step * i));
  return values;
}

ResidualSample Select(const ResidualSample& sample, std::span<const std::uint32_t> rows) {
  ResidualSample selected;
  selected.columns = sample.columns;
  for (const std::uint32_t row : rows) {
    const auto first = static_cast<std::ptrdiff_t>(row * sample.columns);
    const auto last = first + static_cast<std::ptrdiff_t>(sample.columns);
    selected.predictions.insert(selected.predictions.end(), sample.predictions.begin() + first,
                                sample.predictions.begin() + last);
    selected.residuals.insert(selected.residuals.end(), sample.residuals.begin() + first,
                              sample.residuals.begin() + last);
  }
  return selected;
}

// The rows of a fold through one part of the lens.
struct FoldPart {
  ResidualSample fit;
  ResidualSample validation;
  std::optional<KernelRidge> ridge;
};

// The rows of a fold, and what was computed from it.
struct Fold {
  std::vector<FoldPart> parts;
  // For each estimator and each value of its grid; unset if the value was refused.
  std::vector<std::vector<std::optional<CalibrationRisk>>> risks;
};

// Adds the risk of a part to the mean over the parts. part: its number, from 0.
void AddRisk(CalibrationRisk risk, std::size_t part, std::size_t parts, CalibrationRisk& mean) {
  if (parts == 1) {
    mean = std::move(risk);
    return;
  }
  const auto count = static_cast<double>(parts);
  mean.risk += risk.risk / count;
  mean.excess += risk.excess / count;
  mean.row_excess.resize(risk.row_excess.size());
  for (std::size_t i = 0; i < risk.row_excess.size(); ++i) {
    mean.row_excess[i] += risk.row_excess[i] / count;
  }
  if (part + 1 == parts) mean.standard_error = PairStandardError(mean.row_excess);
}

class Selection {
 public:
  Selection(const SelectionOptions& options, const RunControl& control)
      : options_(options), control_(control), folds_(options.folds) {
    for (const EstimatorGrid& estimator : options.estimators) {
      steps_ += options.folds * (estimator.values.size() + 1);
    }
  }

  // samples: one for each part of the lens.
  void Split(std::span<const ResidualSample> samples, std::size_t tuning_rows) {
    steps_ *= samples.size();
    std::vector<std::uint32_t> order(samples.front().size());
    std::iota(order.begin(), order.end(), 0U);
    if (options_.seed.has_value()) {
      Rng rng(*options_.seed);
      for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1], order[rng.Below(static_cast<std::uint32_t>(i))]);
      }
    }
    const std::span<const std::uint32_t> rows(order);
    const std::span<const std::uint32_t> tuning = rows.first(tuning_rows);
    for (const ResidualSample& sample : samples) {
      test_.push_back(Select(sample, rows.subspan(tuning_rows)));
    }
    const std::size_t k = folds_.size();
    std::size_t first = 0;
    for (std::size_t f = 0; f < k; ++f) {
      const std::size_t size = tuning_rows / k + (f < tuning_rows % k ? 1 : 0);
      std::vector<std::uint32_t> others(tuning.begin(),
                                        tuning.begin() + static_cast<std::ptrdiff_t>(first));
      others.insert(others.end(), tuning.begin() + static_cast<std::ptrdiff_t>(first + size),
                    tuning.end());
      for (const ResidualSample& sample : samples) {
        folds_[f].parts.push_back({.fit = Select(sample, others),
                                   .validation = Select(sample, tuning.subspan(first, size)),
                                   .ridge = std::nullopt});
      }
      for (const EstimatorGrid& estimator : options_.estimators) {
        folds_[f].risks.emplace_back(estimator.values.size(), CalibrationRisk());
      }
      first += size;
    }
  }

  // Computes the risks of all estimators for their whole grids.
  [[nodiscard]] absl::Status Tune() {
    // The longest tasks first: the ridge estimators of a fold share a factorisation.
    return ForEachFold(2, [this](Fold& fold, std::size_t task) -> absl::Status {
      if (task == 0) return TuneRidge(fold);
      for (std::size_t e = 0; e < options_.estimators.size(); ++e) {
        const EstimatorGrid& estimator = options_.estimators[e];
        if (IsRidge(estimator.kind)) continue;
        for (std::size_t p = 0; p < fold.parts.size(); ++p) {
          const FoldPart& part = fold.parts[p];
          CALIBD_ASSIGN_OR_RETURN(
              const std::vector<FunctionValues> values,
              Evaluate(part, part.validation, estimator.kind, estimator.values));
          for (std::size_t i = 0; i < values.size(); ++i) {
            CALIBD_ASSIGN_OR_RETURN(CalibrationRisk risk,
                                    ComputeCalibrationRisk(part.validation, values[i], control_));
            AddRisk(std::move(risk), p, fold.parts.size(), *fold.risks[e][i]);
            Advance();
          }
        }
      }
      return absl::OkStatus();
    });
  }

  // Errors: InvalidArgument if the whole grid was refused.
  [[nodiscard]] absl::StatusOr<EstimatorResult> Summarize(std::size_t e) {
    EstimatorResult result;
    result.kind = options_.estimators[e].kind;
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < options_.estimators[e].values.size(); ++i) {
      const auto refused = [&](const Fold& fold) { return !fold.risks[e][i].has_value(); };
      if (std::any_of(folds_.begin(), folds_.end(), refused)) continue;
      kept.push_back(i);
      result.grid.push_back(options_.estimators[e].values[i]);
      double sum = 0;
      for (const Fold& fold : folds_) sum += fold.risks[e][i]->risk;
      result.mean_risks.push_back(sum / static_cast<double>(folds_.size()));
    }
    if (kept.empty()) {
      return absl::InvalidArgumentError(
          "estimators has only penalties that are too weak for double precision");
    }
    result.best = static_cast<std::size_t>(
        std::min_element(result.mean_risks.begin(), result.mean_risks.end()) -
        result.mean_risks.begin());
    best_.push_back(kept[result.best]);
    std::vector<double> roots;
    double squares = 0;
    for (const Fold& fold : folds_) {
      const CalibrationRisk& risk = *fold.risks[e][best_[e]];
      roots.push_back(std::sqrt(std::max(0.0, risk.risk)));
      result.excess += risk.excess / static_cast<double>(folds_.size());
      squares += risk.standard_error * risk.standard_error;
    }
    result.excess_standard_error = std::sqrt(squares) / static_cast<double>(folds_.size());
    const RunningMoments root = MomentsOf(roots);
    result.comparable = IsComparable();
    result.root_risk = root.mean;
    result.root_risk_standard_error = StandardError(root);
    return result;
  }

  // Whether the excess of estimators a and b differs by at most 2 standard errors, or its standard
  // error is not known.
  [[nodiscard]] bool AreSimilar(std::size_t a, std::size_t b) const {
    if (!IsComparable()) return true;
    double difference = 0;
    double squares = 0;
    for (const Fold& fold : folds_) {
      std::vector<double> rows = fold.risks[a][best_[a]]->row_excess;
      const std::vector<double>& others = fold.risks[b][best_[b]]->row_excess;
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i] -= others[i];
      difference += MomentsOf(rows).mean;
      const double error = PairStandardError(rows);
      squares += error * error;
    }
    return std::abs(difference) <= 2 * std::sqrt(squares);
  }

  // Computes the final estimates on the test part.
  [[nodiscard]] absl::Status Estimate(std::vector<EstimatorResult>& results) {
    for (EstimatorResult& result : results) result.fold_squared_errors.resize(folds_.size());
    CALIBD_RETURN_IF_ERROR(
        ForEachFold(results.size(), [&](Fold& fold, std::size_t e) -> absl::Status {
          EstimatorResult& result = results[e];
          const double parameter = result.grid[result.best];
          const auto f = static_cast<std::size_t>(&fold - folds_.data());
          for (std::size_t p = 0; p < fold.parts.size(); ++p) {
            CALIBD_ASSIGN_OR_RETURN(
                const std::vector<FunctionValues> values,
                Evaluate(fold.parts[p], test_[p], result.kind, {&parameter, 1}));
            result.fold_squared_errors[f] +=
                SquaredCalibrationError(values.front()) / static_cast<double>(fold.parts.size());
            Advance();
          }
          return absl::OkStatus();
        }));
    for (EstimatorResult& result : results) {
      result.squared_error = MomentsOf(result.fold_squared_errors).mean;
      result.error = std::sqrt(std::max(0.0, result.squared_error));
      std::vector<double> roots = result.fold_squared_errors;
      for (double& root : roots) root = std::sqrt(std::max(0.0, root));
      result.error_standard_error = StandardError(MomentsOf(roots));
    }
    return absl::OkStatus();
  }

 private:
  // The last fold is the smallest one.
  [[nodiscard]] bool IsComparable() const {
    return folds_.back().parts.front().validation.size() >= kMinComparedRows;
  }

  // The values of an estimator that was fitted on the part of a fold.
  [[nodiscard]] absl::StatusOr<std::vector<FunctionValues>> Evaluate(
      const FoldPart& fold, const ResidualSample& rows, EstimatorKind kind,
      std::span<const double> parameters) const {
    if (kind == EstimatorKind::kKernelDensity) {
      return EvaluateKernelDensity(fold.fit, rows, parameters, control_);
    }
    std::vector<double> eigenfunctions;
    if (IsRidge(kind)) {
      CALIBD_ASSIGN_OR_RETURN(eigenfunctions, fold.ridge->Eigenfunctions(rows, control_));
    }
    std::vector<FunctionValues> values;
    for (const double parameter : parameters) {
      CALIBD_RETURN_IF_ERROR(control_.CheckCancelled());
      if (IsRidge(kind)) {
        CALIBD_ASSIGN_OR_RETURN(values.emplace_back(),
                                EvaluateRidge(*fold.ridge, kind, eigenfunctions, parameter));
      } else {
        const auto bins = static_cast<std::size_t>(parameter);
        values.push_back(kind == EstimatorKind::kDebiasedBins
                             ? EvaluateDebiasedBins(fold.fit, rows, bins)
                             : EvaluateBins(fold.fit, rows, bins));
      }
    }
    return values;
  }

  [[nodiscard]] absl::StatusOr<FunctionValues> EvaluateRidge(const KernelRidge& ridge,
                                                             EstimatorKind kind,
                                                             std::span<const double> eigenfunctions,
                                                             double parameter) const {
    if (kind == EstimatorKind::kProductRidge) {
      return ridge.EvaluateProduct(eigenfunctions, parameter, control_);
    }
    return ridge.EvaluateFunction(eigenfunctions, parameter);
  }

  // Does what Evaluate does, but with the values of only one parameter in memory, and one
  // factorisation.
  [[nodiscard]] absl::Status TuneRidge(Fold& fold) {
    for (std::size_t p = 0; p < fold.parts.size(); ++p) {
      CALIBD_RETURN_IF_ERROR(TuneRidgeOf(p, fold));
    }
    return absl::OkStatus();
  }

  // p: the part of the fold.
  [[nodiscard]] absl::Status TuneRidgeOf(std::size_t p, Fold& fold) {
    FoldPart& part = fold.parts[p];
    std::vector<double> eigenfunctions;
    for (std::size_t e = 0; e < options_.estimators.size(); ++e) {
      const auto& [kind, grid] = options_.estimators[e];
      if (!IsRidge(kind)) continue;
      if (!part.ridge.has_value()) {
        CALIBD_ASSIGN_OR_RETURN(part.ridge, KernelRidge::Fit(part.fit, control_));
        CALIBD_ASSIGN_OR_RETURN(eigenfunctions,
                                part.ridge->Eigenfunctions(part.validation, control_));
      }
      for (std::size_t i = 0; i < grid.size(); ++i) {
        CALIBD_RETURN_IF_ERROR(control_.CheckCancelled());
        std::optional<CalibrationRisk>& mean = fold.risks[e][i];
        if (kind == EstimatorKind::kProductRidge && !part.ridge->IsStable(grid[i])) mean.reset();
        if (mean.has_value()) {
          CALIBD_ASSIGN_OR_RETURN(const FunctionValues values,
                                  EvaluateRidge(*part.ridge, kind, eigenfunctions, grid[i]));
          CALIBD_ASSIGN_OR_RETURN(CalibrationRisk risk,
                                  ComputeCalibrationRisk(part.validation, values, control_));
          AddRisk(std::move(risk), p, fold.parts.size(), *mean);
        }
        Advance();
      }
    }
    return absl::OkStatus();
  }

  // Calls body(fold, task) for all folds and tasks in parallel. Errors: the first one.
  template <typename Body>
  [[nodiscard]] absl::Status ForEachFold(std::size_t tasks, const Body& body) {
    std::vector<absl::Status> statuses(tasks * folds_.size());
    const auto run = [&](std::size_t i) {
      statuses[i] = body(folds_[i % folds_.size()], i / folds_.size());
    };
    RunLoop(LimitLoop(control_.parallel_for, options_.most_at_once), statuses.size(), run);
    for (absl::Status& status : statuses) CALIBD_RETURN_IF_ERROR(status);
    return absl::OkStatus();
  }

  void Advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (control_.progress) {
      control_.progress(static_cast<double>(done_) / static_cast<double>(steps_));
    }
  }

  const SelectionOptions& options_;
  const RunControl& control_;
  std::vector<Fold> folds_;
  // For each part of the lens.
  std::vector<ResidualSample> test_;
  // For each estimator the index of its best value in the grid of the options.
  std::vector<std::size_t> best_;
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::size_t steps_ = 0;
};

// A share such as 0.2 is not exact in binary.
constexpr double kShareError = 1e-9;
std::size_t TuningRows(std::size_t n, double test_share) {
  return static_cast<std::size_t>(
      std::floor(static_cast<double>(n) * (1 - test_share) + kShareError));
}

absl::Status Check(const SelectionOptions& options, std::size_t n, std::size_t tuning_rows) {
  if (options.folds < 2) {
    return absl::InvalidArgumentError(absl::StrCat("folds is ", options.folds, ", expected >= 2"));
  }
  for (const auto& [kind, grid] : options.estimators) {
    const bool bins = HasBins(kind);
    if (bins && options.lens.is_canonical()) {
      return absl::InvalidArgumentError("estimators has bins, which need a lens of one number");
    }
    const bool valid = std::all_of(grid.begin(), grid.end(), [bins](double value) {
      return std::isfinite(value) && value > 0 && (!bins || (value >= 1 && value <= 1e6));
    });
    if (grid.empty() || !valid || !std::is_sorted(grid.begin(), grid.end())) {
      return absl::InvalidArgumentError(
          "estimators has an invalid grid, expected ascending values > 0");
    }
  }
  if (options.estimators.empty()) {
    return absl::InvalidArgumentError("estimators is empty, expected at least one");
  }
  if (!(options.test_share > 0 && options.test_share < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("test_share is ", options.test_share, ", expected a number in (0, 1)"));
  }
  if (options.replicates != 0) {
    CALIBD_RETURN_IF_ERROR(CheckReplicates({.replicates = options.replicates}));
  }
  if (tuning_rows < 2 * options.folds || tuning_rows >= n) {
    return absl::FailedPreconditionError(absl::StrCat("not enough observations: ", n, ", at least ",
                                                      MinSelectionObservations(options),
                                                      " are needed"));
  }
  return absl::OkStatus();
}

double RankBound(std::size_t n, const SelectionOptions& options) {
  return std::min(static_cast<double>(n), options.lens.is_canonical()
                                              ? static_cast<double>(KernelRidge::kMaxRank)
                                              : kScalarRank);
}

absl::StatusOr<SelectionResult> SelectOnce(const PredictionBatch& batch,
                                           const SelectionOptions& options,
                                           const RunControl& control) {
  const std::size_t tuning_rows = TuningRows(batch.size(), options.test_share);
  CALIBD_RETURN_IF_ERROR(Check(options, batch.size(), tuning_rows));
  CALIBD_ASSIGN_OR_RETURN(const std::vector<ResidualSample> samples,
                          ReduceToParts(batch, options.lens));
  Selection selection(options, control);
  selection.Split(samples, tuning_rows);
  CALIBD_RETURN_IF_ERROR(selection.Tune());

  SelectionResult result;
  result.tuning_rows = tuning_rows;
  result.test_rows = batch.size() - tuning_rows;
  for (std::size_t e = 0; e < options.estimators.size(); ++e) {
    CALIBD_ASSIGN_OR_RETURN(EstimatorResult estimator, selection.Summarize(e));
    result.any_better_than_zero |= estimator.better_than_zero();
    result.estimators.push_back(std::move(estimator));
    if (result.estimators[e].excess < result.estimators[result.chosen].excess) result.chosen = e;
  }
  for (std::size_t e = 0; e < result.estimators.size(); ++e) {
    result.estimators[e].as_good_as_chosen = selection.AreSimilar(e, result.chosen);
  }
  CALIBD_RETURN_IF_ERROR(selection.Estimate(result.estimators));
  return result;
}

}  // namespace

std::vector<EstimatorGrid> DefaultEstimators(const Lens& lens) {
  std::vector<double> bandwidths = PowersOfTen(-5, 4.0 / 14, 15);
  bandwidths.insert(bandwidths.end(), {0.2, 0.4, 0.6, 0.8, 1});
  if (lens.is_canonical()) {
    return {{EstimatorKind::kKernelDensity, bandwidths},
            {EstimatorKind::kProductRidge, PowersOfTen(-9, 1, 18)},
            {EstimatorKind::kFunctionRidge, PowersOfTen(-4.5, 0.5, 18)}};
  }
  std::vector<double> bins;
  for (int count = 5; count <= 100; count += 5) bins.push_back(count);
  return {{EstimatorKind::kFifteenBins, {15}},
          {EstimatorKind::kBins, bins},
          {EstimatorKind::kKernelDensity, bandwidths},
          {EstimatorKind::kProductRidge, PowersOfTen(-17, 2, 9)},
          {EstimatorKind::kFunctionRidge, PowersOfTen(-9, 1, 9)},
          {EstimatorKind::kDebiasedBins, {5, 10, 20, 40, 80}}};
}

std::size_t MinSelectionObservations(const SelectionOptions& options) {
  const double share = options.test_share;
  const double least =
      std::max(static_cast<double>(2 * options.folds) / (1 - share), kShareError / share);
  // More than a window has; the rounding of TuningRows would take long to overcome.
  if (least > 1e9) return static_cast<std::size_t>(std::min(least, 1e18));
  // Rounding may need some more rows.
  auto n = static_cast<std::size_t>(std::max(std::floor(least) - 1, 1.0));
  while (TuningRows(n, share) < 2 * options.folds || TuningRows(n, share) >= n) ++n;
  return n;
}

absl::StatusOr<SelectionResult> SelectEstimator(const PredictionBatch& batch,
                                                const SelectionOptions& options,
                                                const RunControl& control) {
  const bool simulates = options.replicates != 0;
  CALIBD_ASSIGN_OR_RETURN(
      SelectionResult result,
      SelectOnce(batch, options, simulates ? control.WithoutProgress() : control));
  if (!simulates) return result;
  // The replicates are computed in parallel, each of them on one thread.
  const RunControl alone{
      .parallel_for = nullptr, .progress = nullptr, .cancelled = control.cancelled};
  const auto statistic = [&](const LabelledRows& rows) {
    PredictionBatch relabelled = batch;
    relabelled.labels = rows.labels();
    const absl::StatusOr<SelectionResult> selected = SelectOnce(relabelled, options, alone);
    // Only a cancelled selection fails: all other errors depend on the predictions alone.
    return selected.ok() ? selected->estimators[selected->chosen].squared_error : 0;
  };
  const BootstrapOptions bootstrap{.replicates = options.replicates,
                                   .seed = options.seed.value_or(0),
                                   .null = NullHypothesis::kForecast};
  RunControl limited = control;
  limited.parallel_for = LimitLoop(control.parallel_for, options.most_at_once);
  CALIBD_ASSIGN_OR_RETURN(result.simulation, SimulateTest(batch, statistic, bootstrap, limited));
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  return result;
}

double SelectionOperations(std::size_t n, std::size_t m, const SelectionOptions& options) {
  const auto rows = static_cast<double>(n);
  const auto folds = static_cast<double>(options.folds);
  const double columns = options.lens.is_canonical() ? static_cast<double>(m) : 1;
  const double rank = RankBound(n, options);
  double operations = rows * columns;
  bool factorized = false;
  for (const auto& [kind, grid] : options.estimators) {
    const auto values = static_cast<double>(grid.size());
    if (kind == EstimatorKind::kKernelDensity) {
      // Each fold evaluates its validation rows for all values, and the test rows for one.
      const double pairs = rows * rows * (1 + folds * options.test_share);
      operations += pairs * (columns + values * (kExponential + columns));
    } else if (IsRidge(kind)) {
      if (!std::exchange(factorized, true)) {
        operations +=
            folds * (rows * rank * (columns + 2 * rank) + kEigenvalues * rank * rank * rank);
      }
      const double width = kind == EstimatorKind::kProductRidge ? rank : columns;
      operations += 3 * rows * rank * width * (values + folds * options.test_share);
    } else {
      operations += folds * rows * values;
      // The risk is computed from products of 1 + bins values for each row.
      for (const double bins : grid) {
        if (kind == EstimatorKind::kDebiasedBins) operations += 2 * rows * (1 + bins) * (1 + bins);
      }
    }
  }
  operations *= static_cast<double>(options.lens.parts(m));
  // A simulation computes the statistic of the observations once more.
  return options.replicates == 0 ? operations : (options.replicates + 2) * operations;
}

double SelectionMemory(std::size_t n, std::size_t m, const SelectionOptions& options,
                       std::size_t threads) {
  threads = std::min(threads, options.most_at_once);
  const auto rows = static_cast<double>(n);
  const double columns = options.lens.is_canonical() ? static_cast<double>(m) : 2;
  const auto parts = static_cast<double>(options.lens.parts(m));
  const double rank = RankBound(n, options);
  const auto folds = static_cast<double>(options.folds);
  // A simulation runs one selection on each thread; a selection runs its folds in parallel.
  const double selections = options.replicates == 0 ? 1 : static_cast<double>(threads);
  const double running =
      options.replicates == 0 ? std::min(static_cast<double>(threads), folds) : 1;
  double values = 0;
  // The values of each row of the estimator with the widest products.
  double widest = 40;
  for (const EstimatorGrid& estimator : options.estimators) {
    values += static_cast<double>(estimator.values.size());
    if (estimator.kind != EstimatorKind::kDebiasedBins) continue;
    for (const double bins : estimator.values) widest += 2 * (1 + bins);
  }
  // The rows of the folds; the risks of each row; the factor and the eigenfunctions of the running
  // tasks with temporary copies; the density kernels of a tile; the fits.
  return sizeof(double) * selections *
         (2 * folds * rows * columns * parts + rows * values +
          running * rows * (4 * rank + widest + values * (1 + columns)) +
          folds * parts * 6 * rank * rank);
}

}  // namespace calibd
