#ifndef CALIBD_SERVER_INGEST_DECODE_H_
#define CALIBD_SERVER_INGEST_DECODE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "calibd/core/prediction_batch.h"
#include "calibd/v1/ingest_service.pb.h"
#include "server/state/group_values.h"
#include "server/state/model_declaration.h"
#include "server/state/prediction_id.h"

namespace calibd::server {

// Rows of one batch that are accepted at most.
inline constexpr std::int32_t kMaxRowsPerBatch = 65536;

// A batch as it came, decoded and checked. Whether it is valid is a function of
// its content and the model's declaration alone, so that a batch sent again is
// judged again in the same way.
struct DecodedBatch {
  enum class Kind {
    // Predictions with their labels, that count at once.
    kObservations,
    // Predictions with ids, that wait; labels: as many, or none.
    kPredictions,
    // Labels by id.
    kLabels,
  };
  Kind kind = Kind::kObservations;
  // OK, or InvalidArgument naming the first bad rows; then there are no values.
  absl::Status validity;
  // n x m probabilities, row-major.
  std::vector<double> probabilities;
  // That they came in single precision, so that each is a float exactly.
  bool single_precision = false;
  std::vector<std::int32_t> labels;
  // n, or none.
  std::vector<PredictionId> ids;
  // Of the model's group tag: n, one for all, or none.
  std::vector<std::string> group_values;
  std::size_t class_count = 0;
  // n predictions or labels, also of an invalid batch.
  std::int64_t rows = 0;
  // That the producer dropped before sending.
  std::int64_t dropped_rows = 0;
  // Of all that was sent, with the values as double.
  std::uint64_t content_hash = 0;

  [[nodiscard]] GroupValues groups() const noexcept { return GroupValues(group_values); }
  [[nodiscard]] PredictionBatch view() const noexcept {
    return {probabilities, labels, class_count};
  }
  // Memory that the batch holds.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t bytes = probabilities.size() * sizeof(double) +
                        labels.size() * sizeof(std::int32_t) + ids.size() * sizeof(PredictionId);
    for (const std::string& value : group_values) {
      bytes += sizeof(std::string) + value.size();
    }
    return bytes;
  }
};

// Decodes float, double or logits to double and checks shape, limits, values and
// class order. Cost: O(n m). May throw bad_alloc.
[[nodiscard]] DecodedBatch Decode(const v1::Observations& observations,
                                  const ModelDeclaration& declaration);
[[nodiscard]] DecodedBatch Decode(const v1::Labels& labels, const ModelDeclaration& declaration);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INGEST_DECODE_H_
