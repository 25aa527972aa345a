#include "server/state/evidence_watch.h"

#include <utility>

namespace calibd::server {

EvidenceWatch::EvidenceWatch(std::shared_ptr<const RandomFeatures> features, double tolerance,
                             std::int64_t first_observation)
    : features_(std::move(features)),
      process_(*EvidenceProcess::Create(features_, tolerance)),
      first_observation_(first_observation) {}

void EvidenceWatch::Add(const PredictionBatch& batch) noexcept {
  process_.Add(batch);
  reliability_.Add(batch);
}

WatchSnapshot EvidenceWatch::Snapshot() const {
  return {.first_observation = first_observation_,
          .reading = process_.Read(),
          .reliability = reliability_};
}

std::size_t EvidenceWatch::MaxMemory(std::size_t class_count) noexcept {
  return sizeof(EvidenceWatch) + EvidenceProcess::MaxMemory(class_count);
}

}  // namespace calibd::server
