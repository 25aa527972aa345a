#include "calibd/core/individual_calibration.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/rng.h"
#include "calibd/core/calibration_loss.h"
#include "calibd/core/fourier_size.h"
#include "calibd/core/status_macros.h"
#include "hypothesis/replicates.h"
#include "kernels/fourier_simd.h"
#include "loss/number_pairs.h"
#include "loss/scaled_features.h"

namespace calibd {
namespace {

// The frequencies are the same for all tests.
constexpr std::uint64_t kIndividualSeed = 0x696e646976696475ULL;

// psi_i = cos and sin of w'x_i over 64 frequencies w ~ N(0, 2 gamma), scaled so that <psi_i, psi_j>
// approximates the Gaussian kernel. n x kFourierCount.
std::vector<double> FourierTermsOf(const FeatureCondition& condition, std::size_t n) {
  const std::size_t d = condition.values.size() / n;
  std::vector<double> frequencies(d * kFrequencyCount);
  for (std::size_t k = 0; k < d; ++k) {
    Rng rng(kIndividualSeed, k);
    for (std::size_t r = 0; r < kFrequencyCount; ++r) {
      frequencies[k * kFrequencyCount + r] =
          std::sqrt(2 * *condition.gamma) * StandardNormal(rng) / (2 * std::numbers::pi);
    }
  }
  std::vector<double> terms(n * kFourierCount);
  std::vector<double> phases(kFrequencyCount);
  for (std::size_t i = 0; i < n; ++i) {
    std::ranges::fill(phases, 0.0);
    for (std::size_t k = 0; k < d; ++k) {
      const double value = condition.values[i * d + k];
      for (std::size_t r = 0; r < kFrequencyCount; ++r) {
        phases[r] += value * frequencies[k * kFrequencyCount + r];
      }
    }
    PhasesToFourier(1, phases.data(), &terms[i * kFourierCount]);
  }
  return terms;
}

// |e_y - q|^2.
double SquaredResidual(std::span<const double> q, double square, std::size_t label) {
  return std::max(0.0, square - 2 * q[label] + 1);
}

// The unbiased estimate with the Fourier terms, for any labels of the batch.
class FourierStatistic {
 public:
  FourierStatistic(const PredictionBatch& batch, std::vector<double> terms)
      : terms_(std::move(terms)), expected_(batch.class_count * kFourierCount) {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::span<const double> q = batch.row(i);
      squares_.push_back(std::inner_product(q.begin(), q.end(), q.begin(), 0.0));
      for (std::size_t k = 0; k < q.size(); ++k) Add(i, q[k], &expected_[k * kFourierCount]);
    }
  }

  [[nodiscard]] double Of(const LabelledRows& rows) const {
    std::vector<double> sums(expected_.size());
    double diagonal = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Add(i, 1, &sums[rows.label(i) * kFourierCount]);
      diagonal += SquaredResidual(rows.row(i), squares_[i], rows.label(i));
    }
    double all = 0;
    for (std::size_t at = 0; at < sums.size(); ++at) {
      const double sum = sums[at] - expected_[at];
      all += sum * sum;
    }
    const auto n = static_cast<double>(rows.size());
    return (all - diagonal) / (n * (n - 1));
  }

 private:
  void Add(std::size_t i, double weight, double* sums) const {
    const double* const own = &terms_[i * kFourierCount];
    for (std::size_t r = 0; r < kFourierCount; ++r) sums[r] += weight * own[r];
  }

  const std::vector<double> terms_;
  // sum_i q_i psi_i', m x kFourierCount.
  std::vector<double> expected_;
  std::vector<double> squares_;
};

// Chooses gamma from the first rows.
absl::Status ChooseGamma(const PredictionBatch& batch, const RunControl& control,
                         FeatureCondition& condition) {
  const PredictionBatch first = batch.rows(0, std::min(batch.size(), kParameterRows));
  const std::size_t d = condition.values.size() / batch.size();
  Condition some =
      FeatureCondition{{condition.values.begin(),
                        condition.values.begin() + static_cast<std::ptrdiff_t>(first.size() * d)},
                       {}};
  CALIBD_RETURN_IF_ERROR(
      MakeCondition(
          {ForecastKind::kProbabilities, first.probabilities, first.class_count, first.labels, {}},
          control, some)
          .status());
  condition.gamma = std::get<FeatureCondition>(some).gamma;
  if (condition.gamma.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("features: the first ", first.size(),
                                                    " rows are equal, expected rows that differ"));
}

}  // namespace

absl::StatusOr<IndividualTestResult> TestIndividual(const PredictionBatch& batch,
                                                    std::span<const double> features,
                                                    std::size_t feature_count,
                                                    const BootstrapOptions& resampling,
                                                    const RunControl& control) {
  const std::size_t n = batch.size();
  if (n < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat("not enough data: ", n, " row, 2 are needed"));
  }
  CALIBD_RETURN_IF_ERROR(CheckReplicates(resampling));
  CALIBD_RETURN_IF_ERROR(CheckFeatures(features, n, feature_count));
  std::vector<std::size_t> all(feature_count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  CALIBD_ASSIGN_OR_RETURN(FeatureCondition condition, ScaleFeatures(features, feature_count, all));
  CALIBD_RETURN_IF_ERROR(ChooseGamma(batch, control, condition));
  IndividualTestResult result;
  result.gamma = *condition.gamma;
  const FourierStatistic statistic(batch, FourierTermsOf(condition, n));

  LossOptions loss;
  loss.condition = std::move(condition);
  loss.gradient = false;
  CALIBD_ASSIGN_OR_RETURN(
      const CalibrationLoss exact,
      ComputeLoss(
          {ForecastKind::kProbabilities, batch.probabilities, batch.class_count, batch.labels, {}},
          loss, control.WithoutProgress()));
  result.mmd_squared = exact.penalty_value;
  double diagonal = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<const double> q = batch.row(i);
    diagonal += SquaredResidual(q, std::inner_product(q.begin(), q.end(), q.begin(), 0.0),
                                static_cast<std::size_t>(batch.labels[i]));
  }
  const auto size = static_cast<double>(n);
  result.biased_mmd_squared = (result.mmd_squared * (size - 1) + diagonal / size) / size;

  result.statistic = statistic.Of(LabelledRows(batch));
  BootstrapOptions drawn = resampling;
  drawn.null = NullHypothesis::kForecast;
  CALIBD_ASSIGN_OR_RETURN(
      static_cast<ResamplingResult&>(result),
      SimulateTest(
          batch, [&statistic](const LabelledRows& rows) { return statistic.Of(rows); }, drawn,
          control));
  return result;
}

double IndividualTestMemory(std::size_t n, std::size_t m, std::size_t feature_count,
                            std::size_t threads) noexcept {
  const auto rows = static_cast<double>(n);
  const auto classes = static_cast<double>(m);
  // The scaled features twice, the Fourier terms, the sums of the predictions and of a replicate
  // on each thread, the cumulated predictions and the distances of the first rows.
  return sizeof(double) *
         (rows * (2 * static_cast<double>(feature_count) + kFourierCount + classes + 4) +
          static_cast<double>(threads + 2) * (classes * kFourierCount + rows) +
          static_cast<double>(kParameterRows * kParameterRows));
}

double IndividualTestOperations(std::size_t n, std::size_t m, std::size_t feature_count,
                                std::int32_t replicates) noexcept {
  const auto rows = static_cast<double>(n);
  const auto classes = static_cast<double>(m);
  return rows * rows / 2 * (classes + static_cast<double>(feature_count) + 15) +
         static_cast<double>(replicates) * (rows + classes) * kFourierCount;
}

}  // namespace calibd
