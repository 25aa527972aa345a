#ifndef CALIBD_SERVER_INGEST_CONTENT_HASH_H_
#define CALIBD_SERVER_INGEST_CONTENT_HASH_H_

#include <cstdint>
#include <vector>

#include "calibd/v1/ingest_service.pb.h"

namespace calibd::server {

// The kind of the values of a message.
[[nodiscard]] inline bool AreLogits(const v1::Observations& observations) {
  return observations.has_logits() || observations.has_logits_float32();
}
[[nodiscard]] inline bool AreBaselineLogits(const v1::Observations& observations) {
  return observations.has_baseline_logits() || observations.has_baseline_logits_float32();
}

// Hashes everything that a batch contains, so that the same batch is recognized when it is sent
// again. values, baseline: those of the message as doubles. Equal contents have equal hashes in all
// versions of calibd. May throw bad_alloc.
[[nodiscard]] std::uint64_t HashContent(const v1::Observations& observations,
                                        const std::vector<double>& values,
                                        const std::vector<double>& baseline);
[[nodiscard]] std::uint64_t HashContent(const v1::Labels& labels);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_CONTENT_HASH_H_
