#include <chrono>
#include <string>
#include <utility>

#include "calibd/core/status_macros.h"
#include "server/answers/label_arrivals_proto.h"
#include "server/api/api.h"
#include "server/api/quota_use.h"
#include "server/base/errors.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kBusyRetryDelay{200};

// Returns the position of a batch of the caller if the request has an id or names a producer.
// Errors: InvalidArgument.
absl::StatusOr<std::optional<ProducerPosition>> ReadPosition(const v1::ObserveRequest& request,
                                                             const Identity& caller) {
  if (!request.request_id().empty()) {
    if (request.has_producer()) {
      return InvalidFieldError("request_id",
                               "is set together with producer, expected at most one of them");
    }
    return ProducerPosition{
        .producer_id = caller.Scoped(request.request_id()), .sequence = 1, .request = true};
  }
  if (!request.has_producer()) return std::nullopt;
  const v1::ObserveRequest::Producer& producer = request.producer();
  return ProducerPosition{.producer_id = caller.Scoped(producer.producer_id()),
                          .epoch = producer.epoch(),
                          .sequence = producer.sequence()};
}

absl::Status Answer(const Settlement& settlement, bool labels, v1::ObserveResponse& response) {
  response.set_accepted_rows(settlement.accepted_rows);
  response.set_duplicate_rows(settlement.duplicate_rows);
  response.set_is_repeated(settlement.kind == Settlement::Kind::kDuplicate);
  if (labels) SetProto(settlement.labels, *response.mutable_labels());
  if (settlement.skipped.rows > 0) SetProto(settlement.skipped, *response.mutable_skipped());
  return settlement.status;
}

}  // namespace

// The batch is settled even if the caller has disconnected.
absl::Status Api::Observe(const v1::ObserveRequest& request,
                          const Reply<v1::ObserveResponse>& reply, NamedModel model) {
  CALIBD_ASSIGN_OR_RETURN(const std::optional<ProducerPosition> position,
                          ReadPosition(request, *reply->context().identity));
  const std::size_t bytes = QueuedBytes(request.ByteSizeLong());
  IngestQueue::RoomPtr room = parts_.ingestor.queue().TryTake(model->id(), bytes);
  if (room == nullptr) {
    return WithRetryDelay(
        MakeError(absl::StatusCode::kResourceExhausted, "INGEST_QUEUE_FULL",
                  "the batches of this model that are not counted yet fill its share of the ingest "
                  "queue (ingest-queue-bytes); this batch was not applied: send it again later, or "
                  "send batches over a stream, which waits"),
        kBusyRetryDelay);
  }
  CALIBD_RETURN_IF_ERROR(TakeBatchQuota(parts_.access, reply->context(), request.model(),
                                        RowsForQuota(request, model->declaration()->row_shape()),
                                        bytes, room));
  const bool labels = request.has_labels();
  LogRow batch = labels ? Decode(request.labels(), *model->declaration())
                        : Decode(request.observations(), *model->declaration());
  const auto answer = [reply, labels](const Settlement& settlement) {
    reply->Answer(
        [&](v1::ObserveResponse& response) { return Answer(settlement, labels, response); });
  };
  if (!position.has_value() || position->request) {
    parts_.ingestor.Submit(model, position, std::move(batch), answer, std::move(room));
    return absl::OkStatus();
  }
  parts_.ingestor.OpenAndSubmit(
      model, position, std::move(batch),
      [this, model, reply, answer, producer = *position](const Settlement& settlement) {
        // Runs even if the call has ended.
        reply->Guard(Stage::kEnd,
                     [&] { parts_.streams.Fence(*model, producer.producer_id, producer.epoch); });
        answer(settlement);
      },
      std::move(room));
  return absl::OkStatus();
}

}  // namespace calibd::server
