#include "calibd/core/forecast_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/matrix_product.h"
#include "base/rng.h"
#include "base/sample_moments.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/decision_calibration.h"
#include "calibd/core/forecast_metrics.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"
#include "loss/number_pairs.h"
#include "numbers/fourier_discrepancy.h"
#include "numbers/product_discrepancy.h"

namespace calibd {
namespace {

// Rows of h_ij that are computed together for the random signs.
constexpr std::size_t kSignRows = 48;
// Sums that differ by less than this share may differ by the order of summation.
constexpr double kSumTie = 1e-12;

// Forecasts with other outcomes. Normal: the same forecasts.
struct DrawnRows {
  std::vector<double> values;
  std::vector<double> outcomes;
};

// Draws outcomes under the null hypothesis kForecast.
DrawnRows DrawReplicate(const ForecastBatch& batch, Rng& rng) {
  DrawnRows replicate{{}, {batch.outcomes.begin(), batch.outcomes.end()}};
  if (batch.kind == ForecastKind::kNormal) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      replicate.outcomes[i] = batch.row(i)[0] + batch.row(i)[1] * StandardNormal(rng);
    }
    return replicate;
  }
  replicate.values.assign(batch.values.begin(), batch.values.end());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::size_t picked = rng.Below(static_cast<std::uint32_t>(batch.width + 1));
    if (picked < batch.width) {
      std::swap(replicate.values[i * batch.width + picked], replicate.outcomes[i]);
    }
  }
  return replicate;
}

// Draws a replicate of quantiles, whose levels state only the cell of the outcome: it is cell k,
// and the quantiles are 0, 1, ..., so that it is above k of them.
DrawnRows DrawCells(const ForecastBatch& batch, std::span<const double> levels, Rng& rng) {
  DrawnRows replicate;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    for (std::size_t k = 0; k < levels.size(); ++k) {
      replicate.values.push_back(static_cast<double>(k));
    }
    const auto cell = std::ranges::upper_bound(levels, rng.Uniform()) - levels.begin();
    replicate.outcomes.push_back(static_cast<double>(cell));
  }
  return replicate;
}

ForecastBatch WithReplicate(const ForecastBatch& batch, const DrawnRows& replicate) {
  ForecastBatch other = batch;
  if (!replicate.values.empty()) other.values = replicate.values;
  other.outcomes = replicate.outcomes;
  return other;
}

// Chooses the gammas that are unset. A condition on equal forecasts becomes NoCondition.
absl::Status ChooseParameters(const ForecastBatch& batch, const RunControl& control,
                              ForecastTestOptions& options) {
  ForecastBatch first = batch;
  const std::size_t rows = std::min(batch.size(), kParameterRows);
  std::vector<double> pooled;
  if (batch.kind == ForecastKind::kSamples) {
    for (std::size_t i = 0; i < rows; ++i) {
      pooled.insert(pooled.end(), batch.row(i).begin(), batch.row(i).end());
      pooled.push_back(batch.outcomes[i]);
    }
    first.width += 1;
    first.values = pooled;
  }
  first.values = first.values.subspan(0, rows * first.width);
  first.outcomes = batch.outcomes.subspan(0, rows);
  Condition condition = options.condition;
  if (auto* const features = std::get_if<FeatureCondition>(&condition)) {
    features->values.resize(features->values.size() / batch.size() * rows);
  }
  const AscendingForecasts ascending(first);
  CALIBD_RETURN_IF_ERROR(
      MakeNumberPairs(ascending.batch(), control, options.outcome_kernel, condition).status());
  if (auto* const forecast = std::get_if<ForecastCondition>(&options.condition)) {
    forecast->gamma = std::get<ForecastCondition>(condition).gamma;
    if (!forecast->gamma.has_value()) options.condition = NoCondition();
  } else if (auto* const features = std::get_if<FeatureCondition>(&options.condition)) {
    features->gamma = std::get<FeatureCondition>(condition).gamma;
    if (!features->gamma.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat("features: the first ", rows, " rows are equal, expected rows that differ"));
    }
  }
  return absl::OkStatus();
}

// The condition that the rows are tested under. That of samples has the mean and the standard
// deviation of the draws and the outcome together, which keep when they change places: given
// moments of the draws alone, the mean of h_ij is not 0 for calibrated forecasts.
Condition TestedCondition(const ForecastBatch& batch, const Condition& condition) {
  const auto* const forecast = std::get_if<ForecastCondition>(&condition);
  if (forecast == nullptr || batch.kind != ForecastKind::kSamples) return condition;
  FeatureCondition moments{{}, forecast->gamma};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const MeanAndDeviation pooled = PooledMoments(batch.row(i), batch.outcomes[i]);
    moments.values.insert(moments.values.end(), {pooled.mean, pooled.deviation});
  }
  return moments;
}

LossOptions OptionsOf(const ForecastTestOptions& options) {
  return {.lens = Lens::Canonical(),
          .outcome_kernel = options.outcome_kernel,
          .condition = options.condition,
          .biased = false,
          .penalty_weight = {},
          .gradient = false};
}

// The sums over the pairs; all parameters are set.
absl::StatusOr<PairSums> SumAll(const ForecastBatch& batch, const ForecastTestOptions& options,
                                const RunControl& control) {
  const AscendingForecasts ascending(batch);
  std::optional<OutcomeKernel> kernel = options.outcome_kernel;
  Condition condition = options.condition;
  CALIBD_ASSIGN_OR_RETURN(const NumberPairs pairs,
                          MakeNumberPairs(ascending.batch(), control, kernel, condition));
  return SumPairs(batch.size(), *pairs.products, LossPairOperations(batch, OptionsOf(options)),
                  control);
}

double Unbiased(const PairSums& sums, std::size_t n) {
  return sums.off_diagonal / static_cast<double>(n) / static_cast<double>(n - 1);
}

absl::Status OutOfRange() {
  return absl::FailedPreconditionError(
      "the discrepancy of these rows exceeds the range of double: give the forecasts in another "
      "unit");
}

// Compares the statistic with replicates of the hypothesis kForecast.
absl::Status Simulate(const ForecastBatch& batch, const ForecastTestOptions& options,
                      const RunControl& control, ForecastTestResult& result) {
  const std::unique_ptr<const FourierDiscrepancy> fourier =
      FourierDiscrepancy::Create(batch, *options.outcome_kernel, options.condition);
  std::vector<double> replicates(static_cast<std::size_t>(options.resampling.replicates));
  const std::unique_ptr<const ProductDiscrepancy> products =
      ProductDiscrepancy::Create(batch, *options.outcome_kernel, options.condition);
  const auto* const levels = std::get_if<LevelsKernel>(&*options.outcome_kernel);
  if (fourier != nullptr) result.statistic = fourier->Unbiased(batch);
  if (products != nullptr) result.statistic = products->Unbiased(batch);
  const RunControl sequential{
      .parallel_for = nullptr, .progress = nullptr, .cancelled = control.cancelled};
  CALIBD_RETURN_IF_ERROR(RunReplicates(replicates.size(), control, [&](std::size_t r) {
    Rng rng(options.resampling.seed, r);
    const DrawnRows replicate =
        levels != nullptr ? DrawCells(batch, levels->levels, rng) : DrawReplicate(batch, rng);
    const ForecastBatch drawn = WithReplicate(batch, replicate);
    if (products != nullptr) {
      replicates[r] = products->Unbiased(drawn);
      return;
    }
    if (fourier != nullptr) {
      replicates[r] = fourier->Unbiased(drawn);
      return;
    }
    // Fails only if it is cancelled, as the next check of RunReplicates is.
    const absl::StatusOr<PairSums> sums = SumAll(drawn, options, sequential);
    if (sums.ok()) replicates[r] = Unbiased(*sums, batch.size());
  }));
  CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
  if (!std::ranges::all_of(replicates, [](double value) { return std::isfinite(value); })) {
    return OutOfRange();
  }
  static_cast<ResamplingResult&>(result) = CompareWithReplicates(
      LowerEndOfTies(result.statistic, replicates), replicates, options.resampling);
  return absl::OkStatus();
}

absl::Status CheckRows(const ForecastBatch& batch) {
  if (batch.predicts_classes()) {
    return absl::InvalidArgumentError("the rows predict classes, expected forecasts of a number");
  }
  if (batch.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("not enough data: ", batch.size(), " row, 2 are needed"));
  }
  return absl::OkStatus();
}

// The mean square of the differences between the shares of the first cells and the levels.
double LevelError(std::span<const std::int64_t> counts, std::span<const double> levels, double n) {
  double cumulated = 0;
  double sum = 0;
  for (std::size_t k = 0; k < levels.size(); ++k) {
    cumulated += static_cast<double>(counts[k]);
    const double difference = cumulated / n - levels[k];
    sum += difference * difference;
  }
  return sum / static_cast<double>(levels.size());
}

// Adds w_i w_j h_ij over the pairs i < j with `first` <= i < `first + kSignRows` for each
// replicate. signs: n x count. some_columns: pairs between two checks of cancellation.
void AddSigned(const NumberPairs& pairs, std::size_t n, std::size_t first,
               std::span<const float> signs, std::size_t count, std::size_t some_columns,
               std::span<double> sums, const RunControl& control) {
  const std::size_t rows = std::min(kSignRows, n - first);
  const std::size_t columns = n - first;
  std::vector<float> h(rows * columns);
  std::array<double, kMaxPairColumns> terms;
  for (std::size_t i = 0; i < rows; ++i) {
    // The pairs with j <= i stay 0.
    for (std::size_t j = i + 1; j < columns; j += some_columns) {
      // The caller finds the cancellation too.
      if (control.IsCancelled()) return;
      const std::size_t some = std::min(some_columns, columns - j);
      pairs.products->Compute({first + i, first + j}, std::span(terms).first(some));
      for (std::size_t k = 0; k < some; ++k) h[i * columns + j + k] = static_cast<float>(terms[k]);
    }
  }
  std::vector<float> products(rows * count);
  std::vector<float> scratch;
  MatrixProduct<float> product;
  product.rows = rows;
  product.columns = count;
  product.depth = columns;
  product.a = h.data();
  product.a_stride = columns;
  product.b = &signs[first * count];
  product.b_row_stride = count;
  product.c = products.data();
  product.c_stride = count;
  Multiply(product, scratch);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t r = 0; r < count; ++r) {
      sums[r] += static_cast<double>(signs[(first + i) * count + r]) *
                 static_cast<double>(products[i * count + r]);
    }
  }
}

// Compares mmd_squared with replicates by random signs.
absl::Status FlipSigns(const ForecastBatch& batch, const ForecastTestOptions& options,
                       const RunControl& control, ForecastTestResult& result) {
  const std::size_t n = batch.size();
  const AscendingForecasts ascending(batch);
  std::optional<OutcomeKernel> kernel = options.outcome_kernel;
  Condition condition = options.condition;
  CALIBD_ASSIGN_OR_RETURN(const NumberPairs pairs,
                          MakeNumberPairs(ascending.batch(), control, kernel, condition));
  const auto total = static_cast<std::size_t>(options.resampling.replicates);
  const std::size_t blocks = (n + kSignRows - 1) / kSignRows;
  const std::size_t some_columns = ColumnsAtOnce(LossPairOperations(batch, OptionsOf(options)));
  std::vector<double> replicates(total);
  for (std::size_t begin = 0; begin < total; begin += kSignReplicates) {
    const std::size_t count = std::min(kSignReplicates, total - begin);
    std::vector<float> signs(n * count);
    for (std::size_t r = 0; r < count; ++r) {
      Rng rng(options.resampling.seed, begin + r);
      for (std::size_t i = 0; i < n; ++i) signs[i * count + r] = rng.Next() >> 63 != 0 ? 1 : -1;
    }
    // By block, and added in order, so that the sums do not depend on the threads.
    std::vector<double> sums(blocks * count);
    CALIBD_RETURN_IF_ERROR(RunReplicates(blocks, control.WithoutProgress(), [&](std::size_t block) {
      AddSigned(pairs, n, block * kSignRows, signs, count, some_columns,
                std::span(sums).subspan(block * count, count), control);
    }));
    CALIBD_RETURN_IF_ERROR(control.CheckCancelled());
    if (control.progress) {
      control.progress(static_cast<double>(begin + count) / static_cast<double>(total));
    }
    for (std::size_t block = 0; block < blocks; ++block) {
      for (std::size_t r = 0; r < count; ++r) replicates[begin + r] += sums[block * count + r];
    }
  }
  for (double& sum : replicates) {
    sum *= 2 / static_cast<double>(n) / static_cast<double>(n - 1);
  }
  static_cast<ResamplingResult&>(result) =
      CompareWithReplicates(result.statistic, replicates, options.resampling);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ForecastTestResult> TestForecasts(const ForecastBatch& batch,
                                                 const ForecastTestOptions& given,
                                                 const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckRows(batch));
  CALIBD_RETURN_IF_ERROR(CheckLossOptions(batch, OptionsOf(given)));
  CALIBD_RETURN_IF_ERROR(CheckReplicates(given.resampling));
  ForecastTestOptions options = given;
  CALIBD_RETURN_IF_ERROR(ChooseParameters(batch, control, options));
  Condition chosen = std::exchange(options.condition, TestedCondition(batch, options.condition));
  CALIBD_ASSIGN_OR_RETURN(const PairSums sums, SumAll(batch, options, control.WithoutProgress()));
  ForecastTestResult result;
  const auto n = static_cast<double>(batch.size());
  result.mmd_squared = Unbiased(sums, batch.size());
  result.biased_mmd_squared = (sums.off_diagonal + sums.diagonal) / n / n;
  if (!std::isfinite(result.biased_mmd_squared) || !std::isfinite(result.mmd_squared)) {
    return OutOfRange();
  }
  result.statistic = result.mmd_squared;
  CALIBD_RETURN_IF_ERROR(options.resampling.null == NullHypothesis::kForecast
                             ? Simulate(batch, options, control, result)
                             : FlipSigns(batch, options, control, result));
  result.outcome_kernel = *options.outcome_kernel;
  result.condition = std::move(chosen);
  if (auto* const features = std::get_if<FeatureCondition>(&result.condition)) {
    features->values.clear();
  } else if (auto* const groups = std::get_if<GroupCondition>(&result.condition)) {
    groups->groups.clear();
  }
  return result;
}

absl::StatusOr<ThresholdTest> TestThreshold(const ForecastBatch& batch,
                                            const ThresholdDecision& decision,
                                            const BootstrapOptions& resampling,
                                            const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckRows(batch));
  CALIBD_RETURN_IF_ERROR(CheckReplicates(resampling));
  CALIBD_ASSIGN_OR_RETURN(const DecisionCalibration observed, EvaluateThreshold(batch, decision));
  // f = (loss of one action) - (that of the other), with the costs 1, so <f, f> counts each of them
  // twice. A cost c multiplies the products of residual losses of its action by c^2.
  const double alarm = decision.false_alarm_cost;
  const double miss = decision.miss_cost;
  const double factor = 4 / (alarm * alarm + miss * miss);
  const auto count = static_cast<std::size_t>(resampling.replicates);
  std::vector<double> given_action(count);
  std::vector<double> errors(count);
  CALIBD_RETURN_IF_ERROR(RunReplicates(count, control, [&](std::size_t r) {
    Rng rng(resampling.seed, r);
    const DrawnRows replicate = DrawReplicate(batch, rng);
    const DecisionCalibration drawn = *EvaluateThreshold(WithReplicate(batch, replicate), decision);
    given_action[r] = factor * drawn.given_action_unbiased;
    errors[r] = std::sqrt(drawn.squared_error);
  }));
  BootstrapOptions exact = resampling;
  exact.null = NullHypothesis::kForecast;
  ThresholdTest result;
  const double error = std::sqrt(observed.squared_error);
  result.calibration_error = {error,
                              CompareWithReplicates(LowerEndOfTies(error, errors), errors, exact)};
  ForecastTestResult& given = result.given_action;
  if (resampling.null == NullHypothesis::kForm) {
    CALIBD_ASSIGN_OR_RETURN(
        given, TestForecasts(
                   batch,
                   {.outcome_kernel = ThresholdKernel{decision.threshold},
                    .condition = GroupCondition{{observed.actions.begin(), observed.actions.end()}},
                    .resampling = resampling},
                   control.WithoutProgress()));
    return result;
  }
  given.mmd_squared = factor * observed.given_action_unbiased;
  given.biased_mmd_squared = factor * observed.given_action;
  given.statistic = given.mmd_squared;
  given.outcome_kernel = ThresholdKernel{decision.threshold};
  given.condition = GroupCondition();
  static_cast<ResamplingResult&>(given) = CompareWithReplicates(
      LowerEndOfTies(given.statistic, given_action), given_action, resampling);
  return result;
}

absl::StatusOr<PitTests> TestPit(std::span<const double> pit, const BootstrapOptions& options,
                                 const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckReplicates(options));
  if (options.null != NullHypothesis::kForecast) {
    return absl::InvalidArgumentError(
        "null is form, expected forecast: the test of the probability integral transforms is one "
        "of both");
  }
  const auto count = static_cast<std::size_t>(options.replicates);
  std::array<std::vector<double>, 3> replicates;
  for (std::vector<double>& values : replicates) values.resize(count);
  CALIBD_RETURN_IF_ERROR(RunReplicates(count, control, [&](std::size_t r) {
    Rng rng(options.seed, r);
    std::vector<double> uniform(pit.size());
    for (double& u : uniform) u = rng.Uniform();
    replicates[0][r] = QuantileCalibrationError(uniform);
    replicates[1][r] = QuantileLevelError(uniform);
    replicates[2][r] = CramerVonMises(uniform);
  }));
  const auto compare = [&](double value, const std::vector<double>& drawn) {
    return SimulatedStatistic{value, CompareWithReplicates(value - kSumTie, drawn, options)};
  };
  return PitTests{compare(QuantileCalibrationError(pit), replicates[0]),
                  compare(QuantileLevelError(pit), replicates[1]),
                  compare(CramerVonMises(pit), replicates[2])};
}

absl::StatusOr<SimulatedStatistic> TestLevels(std::span<const std::int64_t> counts,
                                              std::span<const double> levels,
                                              const BootstrapOptions& options,
                                              const RunControl& control) {
  CALIBD_RETURN_IF_ERROR(CheckReplicates(options));
  const std::int64_t n = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  std::vector<double> replicates(static_cast<std::size_t>(options.replicates));
  CALIBD_RETURN_IF_ERROR(RunReplicates(replicates.size(), control, [&](std::size_t r) {
    Rng rng(options.seed, r);
    std::vector<std::int64_t> drawn(counts.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const auto cell = std::ranges::upper_bound(levels, rng.Uniform()) - levels.begin();
      ++drawn[static_cast<std::size_t>(cell)];
    }
    replicates[r] = LevelError(drawn, levels, static_cast<double>(n));
  }));
  const double value = LevelError(counts, levels, static_cast<double>(n));
  return SimulatedStatistic{value, CompareWithReplicates(value - kSumTie, replicates, options)};
}

}  // namespace calibd
