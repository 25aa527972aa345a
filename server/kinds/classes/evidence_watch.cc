#include "server/kinds/classes/evidence_watch.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "calibd/core/e_bh.h"

namespace calibd::server {

EvidenceWatch::EvidenceWatch(std::shared_ptr<const FourierBasis> basis, double tolerance,
                             const EvidenceMarks& marks, std::int64_t first_observation)
    : basis_(std::move(basis)),
      process_(*EvidenceProcess::Create(basis_, tolerance, marks)),
      frequencies_(basis_->class_count()),
      class_evidence_(basis_->class_count(), tolerance),
      null_squares_(basis_),
      first_observation_(first_observation) {}

void EvidenceWatch::AddStatistics(const PredictionBatch& batch) noexcept {
  reliability_.Add(batch);
  frequencies_.Add(batch);
  class_evidence_.Add(batch);
  null_squares_.Add(batch);
}

WatchSnapshot EvidenceWatch::Snapshot(double significance_level) const {
  WatchSnapshot snapshot;
  snapshot.first_observation = first_observation_;
  snapshot.reading = process_.Read();
  auto details = std::make_shared<ClassWatchDetails>();
  details->reliability = reliability_;
  // The recorded maximum includes classes and groups at fixed observations alone. A larger newest
  // value is the highest one that people have seen, unless it reaches the threshold: whether it did
  // is decided at those observations.
  const double newest = snapshot.reading.evidence.log10_e_value;
  if (newest < -std::log10(significance_level) ||
      snapshot.reading.maximum.log_value >= -std::log(significance_level)) {
    snapshot.reading.maximum.Add(newest * std::numbers::ln10, snapshot.reading.count);
  }
  // Classes with an e-value below 1 / level are never rejected.
  const std::vector<double> log10_e = class_evidence_.Log10EValues(-std::log10(significance_level));
  const std::vector<bool> rejected = RejectedByEbh(log10_e, significance_level);
  const auto show = [&](std::size_t k) {
    details->deviating_classes.push_back({.index = k,
                                          .frequencies = frequencies_.classes()[k],
                                          .log10_e_value = class_evidence_.Log10EValue(k),
                                          .rejected = rejected[k]});
  };
  const std::vector<std::size_t> deviating = frequencies_.MostDeviating(kShownClasses);
  std::for_each(deviating.begin(), deviating.end(), show);
  std::vector<std::size_t> others;
  for (std::size_t k = 0; k < rejected.size(); ++k) {
    details->rejected_classes += rejected[k] ? 1 : 0;
    if (rejected[k] && std::find(deviating.begin(), deviating.end(), k) == deviating.end()) {
      others.push_back(k);
    }
  }
  std::stable_sort(others.begin(), others.end(),
                   [&](std::size_t a, std::size_t b) { return log10_e[a] > log10_e[b]; });
  others.resize(std::min(others.size(), kShownClasses));
  std::for_each(others.begin(), others.end(), show);
  double variance = 0;
  for (const RunningClassFrequencies::Class& one : frequencies_.classes()) variance += one.variance;
  const auto n = static_cast<std::size_t>(snapshot.reading.count);
  details->null_moments = {.n = n,
                           .mean_diagonal = n > 0 ? variance / static_cast<double>(n) : 0,
                           .mean_square = null_squares_.moments().mean,
                           .mean_cube = std::nullopt};
  const RunningMoments& cubes = null_squares_.cubes();
  if (cubes.count > 0) details->null_moments.mean_cube = cubes.mean;
  snapshot.details = std::move(details);
  return snapshot;
}

std::size_t EvidenceWatch::MaxMemory(std::size_t class_count) noexcept {
  return sizeof(EvidenceWatch) + EvidenceProcess::MaxMemory(class_count) +
         ClassEvidence::MaxMemory(class_count) +
         class_count * (sizeof(RunningClassFrequencies::Class) + 3 * sizeof(double)) +
         3 * kFourierCount * sizeof(double);
}

}  // namespace calibd::server
