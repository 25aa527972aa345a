#include "server/state/evidence_watch.h"

#include <utility>

namespace calibd::server {

EvidenceWatch::EvidenceWatch(std::shared_ptr<const RandomFeatures> features, double tolerance,
                             WatchStart start)
    : features_(std::move(features)),
      process_(*EvidenceProcess::Create(features_, tolerance)),
      frequencies_(features_->class_count()),
      null_squares_(features_),
      start_(std::move(start)) {}

void EvidenceWatch::Add(const PredictionBatch& batch) noexcept {
  process_.Add(batch);
  reliability_.Add(batch);
  frequencies_.Add(batch);
  null_squares_.Add(batch);
}

WatchSnapshot EvidenceWatch::Snapshot() const {
  WatchSnapshot snapshot{.start = start_,
                         .reading = process_.Read(),
                         .reliability = reliability_,
                         .deviating_classes = {},
                         .null_moments = {}};
  for (const std::size_t k : frequencies_.MostDeviating(kShownClasses)) {
    snapshot.deviating_classes.push_back({.index = k, .frequencies = frequencies_.classes()[k]});
  }
  double variance = 0;
  for (const RunningClassFrequencies::Class& one : frequencies_.classes()) {
    variance += one.variance;
  }
  const auto n = static_cast<std::size_t>(snapshot.reading.count);
  snapshot.null_moments = {.n = n,
                           .mean_diagonal = n > 0 ? variance / static_cast<double>(n) : 0,
                           .mean_square = null_squares_.moments().mean};
  return snapshot;
}

std::size_t EvidenceWatch::MaxMemory(std::size_t class_count) noexcept {
  return sizeof(EvidenceWatch) + EvidenceProcess::MaxMemory(class_count) +
         class_count * (sizeof(RunningClassFrequencies::Class) + sizeof(double)) +
         2 * kFeatureCount * sizeof(double);
}

}  // namespace calibd::server
