#include "server/rpc/ingest_service.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/rpc/label_coverage_proto.h"
#include "server/rpc/observation_stream.h"
#include "server/rpc/unary_call.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kBusyRetryDelay{200};

// What a unary Observe needs until its batch is settled. It answers also when
// the caller is gone by then.
struct PendingObserve {
  std::shared_ptr<Model> model;
  LogRow batch;
  std::optional<ProducerPosition> position;
  // Whether it is a batch of labels.
  bool labels = false;
};

absl::Status Answer(const Settlement& settlement, bool labels, v1::ObserveResponse& response) {
  response.set_accepted_rows(settlement.accepted_rows);
  response.set_duplicate_rows(settlement.duplicate_rows);
  if (labels) {
    SetProto(settlement.labels, *response.mutable_labels());
  }
  return settlement.status;
}

void Submit(const IngestParts& parts, const std::shared_ptr<PendingObserve>& pending,
            const std::shared_ptr<UnaryCall<v1::ObserveResponse>>& call) {
  if (!pending->position.has_value()) {
    parts.ingestor.Submit(
        pending->model, std::nullopt, std::move(pending->batch),
        [labels = pending->labels, call](const Settlement& settlement) {
          call->EndWith([&](auto& response) { return Answer(settlement, labels, response); });
        });
    return;
  }
  parts.ingestor.OpenAndSubmit(
      pending->model, pending->position, std::move(pending->batch),
      [&streams = parts.streams, pending, call](const Settlement& settlement) {
        // However the call has ended.
        const absl::Status fenced = Guarded("Observe", Stage::kEnd, [&] {
          streams.Fence(*pending->model, pending->position->producer_id, pending->position->epoch);
        });
        call->EndWith([&](auto& response) {
          return fenced.ok() ? Answer(settlement, pending->labels, response) : fenced;
        });
      });
}

absl::StatusOr<std::shared_ptr<PendingObserve>> Prepare(const IngestParts& parts,
                                                        const v1::ObserveRequest& request) {
  const absl::StatusOr<ModelName> name = ParseModelName("model", request.model());
  if (!name.ok()) {
    return name.status();
  }
  auto call = std::make_shared<PendingObserve>();
  if (request.has_producer()) {
    const v1::ObserveRequest::Producer& producer = request.producer();
    if (absl::Status status = CheckProducer("producer", producer.producer_id(), producer.epoch());
        !status.ok()) {
      return status;
    }
    if (producer.sequence() < 1) {
      return InvalidFieldError("producer.sequence",
                               absl::StrCat("is ", producer.sequence(), ", expected >= 1"));
    }
    call->position = ProducerPosition{.producer_id = producer.producer_id(),
                                      .epoch = producer.epoch(),
                                      .sequence = producer.sequence()};
  }
  absl::StatusOr<std::shared_ptr<Model>> model = parts.registry.Find(*name);
  if (!model.ok()) {
    return model.status();
  }
  call->model = *std::move(model);
  if (parts.ingestor.queue_full()) {
    return WithRetryDelay(MakeError(absl::StatusCode::kResourceExhausted, "INGEST_QUEUE_FULL",
                                    "the ingest queue is full; nothing was applied"),
                          kBusyRetryDelay);
  }
  const ModelDeclaration& declaration = call->model->declaration();
  call->labels = request.has_labels();
  call->batch = request.has_labels() ? Decode(request.labels(), declaration)
                                     : Decode(request.observations(), declaration);
  return call;
}

}  // namespace

grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>*
IngestServiceImpl::StreamObservations(grpc::CallbackServerContext* context) {
  return ObservationStream::Begin(parts_, *context);
}

grpc::ServerUnaryReactor* IngestServiceImpl::Observe(grpc::CallbackServerContext* context,
                                                     const v1::ObserveRequest* request,
                                                     v1::ObserveResponse* response) {
  return ServeUnary("Observe", parts_.memory, *context, *request, *response,
                    [&](const auto& call) -> absl::Status {
                      const absl::StatusOr<std::shared_ptr<PendingObserve>> pending =
                          Prepare(parts_, *request);
                      if (pending.ok()) {
                        Submit(parts_, *pending, call);
                      }
                      return pending.status();
                    });
}

}  // namespace calibd::server
