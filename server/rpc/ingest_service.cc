#include "server/rpc/ingest_service.h"

#include <chrono>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/errors.h"
#include "server/rpc/label_coverage_proto.h"
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
  // Whether it is a batch of labels.
  bool labels = false;
  grpc::ServerUnaryReactor* reactor = nullptr;
  v1::ObserveResponse* response = nullptr;
};

void Answer(const PendingObserve& call, const Settlement& settlement) {
  call.response->set_accepted_rows(settlement.accepted_rows);
  call.response->set_duplicate_rows(settlement.duplicate_rows);
  if (call.labels) {
    SetProto(settlement.labels, *call.response->mutable_labels());
  }
  call.reactor->Finish(ToGrpcStatus(settlement.status));
}

void Submit(const IngestParts& parts, const std::shared_ptr<PendingObserve>& call) {
  if (!call->position.has_value()) {
    parts.ingestor.Submit(call->model, std::nullopt, std::move(call->batch),
                          [call](const Settlement& settlement) { Answer(*call, settlement); });
    return;
  }
  parts.ingestor.OpenAndSubmit(call->model, call->position, std::move(call->batch),
                               [&streams = parts.streams, call](const Settlement& settlement) {
                                 streams.Fence(*call->model, call->position->producer_id,
                                               call->position->epoch);
                                 Answer(*call, settlement);
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
  const absl::Status submitted = CatchExceptions([&] {
    Submit(parts_, call);
    return absl::OkStatus();
  });
  if (!submitted.ok()) {
    reactor->Finish(ToGrpcStatus(submitted));
  }
  return reactor;
}

}  // namespace calibd::server
