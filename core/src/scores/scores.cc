#include "calibd/core/scores.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "absl/status/status.h"
#include "base/isotonic.h"
#include "calibd/core/status_macros.h"

namespace calibd {
namespace {

constexpr char kNoObservations[] = "has 0 observations, needs at least 1";

// Computes Murphy's terms over `components` of n observations. The predictions and outcomes are
// functions of the observation and the component.
template <typename Probability, typename Outcome>
MurphyDecomposition Decompose(std::size_t n_observations, std::size_t components,
                              const Partition& partition, const Probability& probability,
                              const Outcome& outcome) {
  const auto n = static_cast<double>(n_observations);
  MurphyDecomposition terms;
  std::vector<double> frequency(components);
  for (std::size_t i = 0; i < n_observations; ++i) {
    for (std::size_t k = 0; k < components; ++k) frequency[k] += outcome(i, k);
  }
  for (double& f : frequency) {
    f /= n;
    terms.uncertainty += f * (1 - f);
  }
  std::vector<double> mean_probability(components);
  std::vector<double> bin_frequency(components);
  for (std::size_t b = 0; b < partition.bins(); ++b) {
    const std::span<const std::size_t> bin = partition.bin(b);
    const auto size = static_cast<double>(bin.size());
    std::ranges::fill(mean_probability, 0);
    std::ranges::fill(bin_frequency, 0);
    for (const std::size_t i : bin) {
      for (std::size_t k = 0; k < components; ++k) {
        mean_probability[k] += probability(i, k) / size;
        bin_frequency[k] += outcome(i, k) / size;
      }
    }
    for (std::size_t k = 0; k < components; ++k) {
      const double gap = mean_probability[k] - bin_frequency[k];
      const double departure = bin_frequency[k] - frequency[k];
      terms.miscalibration += size / n * gap * gap;
      terms.discrimination += size / n * departure * departure;
    }
    for (const std::size_t i : bin) {
      for (std::size_t k = 0; k < components; ++k) {
        const double residual = probability(i, k) - outcome(i, k);
        const double deviation = probability(i, k) - mean_probability[k];
        terms.score += residual * residual / n;
        terms.within_bin_variance += deviation * deviation / n;
        terms.within_bin_covariance += 2 * deviation * (outcome(i, k) - bin_frequency[k]) / n;
      }
    }
  }
  return terms;
}

}  // namespace

absl::StatusOr<Scores> ComputeScores(const PredictionBatch& batch) {
  if (batch.size() < 1) return absl::FailedPreconditionError(kNoObservations);
  Scores scores;
  scores.n = batch.size();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::span<const double> g = batch.row(i);
    const auto label = static_cast<std::size_t>(batch.labels[i]);
    for (std::size_t k = 0; k < g.size(); ++k) {
      const double residual = g[k] - (k == label ? 1 : 0);
      scores.brier += residual * residual;
      if (g[k] > 0) scores.mean_entropy -= g[k] * std::log(g[k]);
    }
    scores.log_loss -= std::log(std::max(g[label], kLogLossFloor));
    const std::size_t predicted = PredictedClass(g);
    scores.mean_confidence += g[predicted];
    if (predicted == label) scores.accuracy += 1;
  }
  const auto n = static_cast<double>(batch.size());
  scores.confidence_minus_accuracy = (scores.mean_confidence - scores.accuracy) / n;
  for (double* mean : {&scores.brier, &scores.log_loss, &scores.accuracy, &scores.mean_entropy,
                       &scores.mean_confidence}) {
    *mean /= n;
  }
  return scores;
}

MurphyDecomposition DecomposeByBins(const PredictionBatch& batch, const Partition& partition) {
  return Decompose(
      batch.size(), batch.class_count, partition,
      [&](std::size_t i, std::size_t k) { return batch.row(i)[k]; },
      [&](std::size_t i, std::size_t k) {
        return static_cast<std::size_t>(batch.labels[i]) == k ? 1.0 : 0.0;
      });
}

absl::StatusOr<MurphyDecomposition> DecomposeByBins(const BinaryPredictions& predictions,
                                                    std::size_t bins) {
  CALIBD_ASSIGN_OR_RETURN(const Partition partition, PartitionUniformly(predictions, bins));
  return Decompose(
      predictions.size(), 1, partition,
      [&](std::size_t i, std::size_t) { return predictions.probabilities[i]; },
      [&](std::size_t i, std::size_t) { return static_cast<double>(predictions.outcomes[i]); });
}

absl::StatusOr<CorpDecomposition> DecomposeCorp(const BinaryPredictions& predictions) {
  if (predictions.size() < 1) return absl::FailedPreconditionError(kNoObservations);
  const auto n = static_cast<double>(predictions.size());
  CorpDecomposition terms;
  double successes = 0;
  for (std::size_t i = 0; i < predictions.size(); ++i) {
    const double outcome = predictions.outcomes[i];
    const double residual = predictions.probabilities[i] - outcome;
    terms.score += residual * residual / n;
    successes += outcome;
  }
  const double frequency = successes / n;
  terms.uncertainty = frequency * (1 - frequency);

  const SortedPredictions sorted(predictions);
  std::vector<IsotonicBlock> blocks;
  FitIsotonic(sorted.counts, sorted.successes, blocks);
  double recalibrated_score = 0;
  for (const IsotonicBlock& block : blocks) {
    const double departure = block.mean() - frequency;
    terms.discrimination += block.count / n * departure * departure;
    recalibrated_score += block.successes / n * (1 - block.mean());
  }
  // Non-negative up to rounding: no monotone function of the predictions, including the identity,
  // has a lower score than the recalibrated predictions.
  terms.miscalibration = std::max(0.0, terms.score - recalibrated_score);
  return terms;
}

absl::StatusOr<CorpDecomposition> DecomposeCorpClassWise(const PredictionBatch& batch,
                                                         const RunControl& control) {
  if (batch.size() < 1) return absl::FailedPreconditionError(kNoObservations);
  std::vector<absl::StatusOr<CorpDecomposition>> classes(batch.class_count);
  RunLoop(control.parallel_for, batch.class_count, [&](std::size_t k) {
    const absl::Status status = control.CheckCancelled();
    classes[k] = status.ok() ? DecomposeCorp(*ClassPredictions(batch, k)) : status;
  });
  CorpDecomposition sum;
  for (const absl::StatusOr<CorpDecomposition>& terms : classes) {
    CALIBD_RETURN_IF_ERROR(terms.status());
    sum.score += terms->score;
    sum.miscalibration += terms->miscalibration;
    sum.discrimination += terms->discrimination;
    sum.uncertainty += terms->uncertainty;
  }
  return sum;
}

}  // namespace calibd
