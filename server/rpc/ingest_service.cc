#include "server/rpc/ingest_service.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/rpc/observation_stream.h"
#include "server/rpc/status_mapping.h"

namespace calibd::server {
namespace {

constexpr std::chrono::milliseconds kBusyRetryDelay{200};

// What a unary Observe needs until its batch is settled. It answers also when
// the caller is gone by then.
struct PendingObserve {
  std::shared_ptr<Model> model;
  DecodedBatch batch;
  std::optional<ProducerPosition> position;
  grpc::ServerUnaryReactor* reactor = nullptr;
  v1::ObserveResponse* response = nullptr;
};

void Answer(const PendingObserve& call, const Settlement& settlement) {
  if (settlement.kind == Settlement::Kind::kAccepted) {
    call.response->set_accepted_rows(settlement.rows);
  } else if (settlement.kind == Settlement::Kind::kDuplicate) {
    call.response->set_duplicate_rows(settlement.rows);
  }
  call.reactor->Finish(ToGrpcStatus(settlement.status));
}

void Submit(Ingestor& ingestor, const std::shared_ptr<PendingObserve>& call) {
  ingestor.Submit(call->model, call->position, std::move(call->batch),
                  [call](const Settlement& settlement) { Answer(*call, settlement); });
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
  call->batch = Decode(request.observations(), call->model->declaration());
  return call;
}

}  // namespace

grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>*
IngestServiceImpl::StreamObservations(grpc::CallbackServerContext* /*context*/) {
  return ObservationStream::Begin(parts_);
}

grpc::ServerUnaryReactor* IngestServiceImpl::Observe(grpc::CallbackServerContext* context,
                                                     const v1::ObserveRequest* request,
                                                     v1::ObserveResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::StatusOr<std::shared_ptr<PendingObserve>> prepared =
      CatchExceptions([&] { return Prepare(parts_, *request); });
  if (!prepared.ok()) {
    reactor->Finish(ToGrpcStatus(prepared.status()));
    return reactor;
  }
  const std::shared_ptr<PendingObserve> call = *std::move(prepared);
  call->reactor = reactor;
  call->response = response;
  if (!call->position.has_value()) {
    Submit(parts_.ingestor, call);
    return reactor;
  }
  parts_.ingestor.Open(call->model, call->position->producer_id, call->position->epoch,
                       [&parts = parts_, call](const absl::StatusOr<std::int64_t>& next_sequence) {
                         if (!next_sequence.ok()) {
                           call->reactor->Finish(ToGrpcStatus(next_sequence.status()));
                           return;
                         }
                         parts.streams.Fence(*call->model, call->position->producer_id,
                                             call->position->epoch);
                         Submit(parts.ingestor, call);
                       });
  return reactor;
}

}  // namespace calibd::server
