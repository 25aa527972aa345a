#ifndef CALIBD_SERVER_INTAKE_INFERENCE_EVENT_H_
#define CALIBD_SERVER_INTAKE_INFERENCE_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "calibd/v1/ingest_service.pb.h"
#include "server/api/api.h"
#include "server/intake/cloud_event.h"
#include "server/model/model_declaration.h"

namespace calibd::server {

// The predictions of an event, and the names of their parts in it, for errors.
struct EventPredictions {
  v1::Observations observations{};
  // Of the event.
  std::string id{};
  // The prefix of the names of attributes: "ce-", or empty in structured mode.
  std::string prefix{};
  // As in InferenceTensor.
  struct Part {
    std::string field{};
    std::string key{};
    std::vector<std::string> class_keys{};
  };
  Part model{};
  Part baseline{};
  // Every value is the integer 0 or 1, as predicted classes are.
  bool like_classes = false;
};

// Returns the predictions of an event, for a model that has ids. The id of the only row is that of
// the event, and those of several rows are ID/0, ID/1, .... Returns nothing for an event that is
// not an answer, such as a request. Errors: InvalidArgument that names the header, the attribute or
// the part of the answer. rows_like_classes: number of rows of the events before, in succession,
// that were like classes; the 20th such row is an error. Cost: O(bytes); memory at most 64 times
// the bytes of the body, and 200 bytes for each of at most kMaxRowsPerBatch rows.
[[nodiscard]] absl::StatusOr<std::optional<EventPredictions>> ReadInferenceEvent(
    const InferenceEvent& event, const ModelDeclaration& declaration,
    std::int64_t rows_like_classes = 0);

// Counts the predictions of an event, and answers as Observe does; the caller may write. The id of
// the event is a request id, under which the same predictions count once, whatever their time. An
// event that is not an answer is accepted with 0 rows. An event that cannot be read counts as a
// rejected batch of one row. Accepted rows that are like classes are counted for
// ReadInferenceEvent. Errors: ResourceExhausted if the ingest queue is full. Errors of the answer:
// those of ReadInferenceEvent, FailedPrecondition if the model does not take events, AlreadyExists
// if an event with other predictions had the id, and those of Observe with the names of the event.
[[nodiscard]] absl::Status ObserveEvent(const ApiParts& parts, const std::shared_ptr<Model>& model,
                                        const InferenceEvent& event,
                                        const Reply<v1::ObserveResponse>& reply);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_INTAKE_INFERENCE_EVENT_H_
