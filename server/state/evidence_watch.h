#ifndef CALIBD_SERVER_STATE_EVIDENCE_WATCH_H_
#define CALIBD_SERVER_STATE_EVIDENCE_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/evidence.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/core/random_features.h"
#include "calibd/core/running_reliability.h"
#include "calibd/store/v1/store.pb.h"

namespace calibd::server {

// A watch as it was at one moment.
struct WatchSnapshot {
  // Of the model, numbered from 1.
  std::int64_t first_observation = 1;
  EvidenceReading reading;
  // Of the top label.
  RunningReliability reliability;
};

// The evidence of one stream of observations, and what the predictions were like. Not
// thread-safe.
class EvidenceWatch {
 public:
  // tolerance: as EvidenceProcess::Create, checked before. first_observation: of the model, the
  // next one. May throw bad_alloc.
  EvidenceWatch(std::shared_ptr<const RandomFeatures> features, double tolerance,
                std::int64_t first_observation);

  // Equal bits for any cut of a sequence into calls. Takes no memory.
  void Add(const PredictionBatch& batch) noexcept;
  void RestartDrift() noexcept { process_.RestartDrift(); }

  [[nodiscard]] EvidenceReading Read() const { return process_.Read(); }
  [[nodiscard]] const RunningReliability& reliability() const noexcept { return reliability_; }
  [[nodiscard]] const std::shared_ptr<const RandomFeatures>& features() const noexcept {
    return features_;
  }
  [[nodiscard]] WatchSnapshot Snapshot() const;

  void Save(store::v1::WatchState& out) const;
  // Goes on where Save was. Errors: InvalidArgument, and then this is to be let go.
  [[nodiscard]] absl::Status Restore(const store::v1::WatchState& stored);

  // Bytes that it holds, its features left out.
  [[nodiscard]] static std::size_t MaxMemory(std::size_t class_count) noexcept;

 private:
  std::shared_ptr<const RandomFeatures> features_;
  EvidenceProcess process_;
  RunningReliability reliability_;
  std::int64_t first_observation_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_STATE_EVIDENCE_WATCH_H_
