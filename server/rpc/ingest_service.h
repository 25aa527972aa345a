#ifndef CALIBD_SERVER_RPC_INGEST_SERVICE_H_
#define CALIBD_SERVER_RPC_INGEST_SERVICE_H_

#include <cstdint>

#include "calibd/v1/ingest_service.grpc.pb.h"
#include "server/ingest/ingestor.h"
#include "server/ingest/open_streams.h"
#include "server/rpc/call_memory.h"
#include "server/state/model_registry.h"

namespace calibd::server {

// What the calls of IngestService work with.
struct IngestParts {
  CallMemory& memory;
  ModelRegistry& registry;
  Ingestor& ingestor;
  OpenStreams& streams;
  std::int64_t max_message_bytes = 0;
  std::int32_t max_batches_in_flight = 1;
};

// IngestService. Decodes and checks on the rpc threads, everything else happens
// on the writers; no call blocks.
class IngestServiceImpl final : public v1::IngestService::CallbackService {
 public:
  explicit IngestServiceImpl(const IngestParts& parts) : parts_(parts) {}

  grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>*
  StreamObservations(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Observe(grpc::CallbackServerContext* context,
                                    const v1::ObserveRequest* request,
                                    v1::ObserveResponse* response) override;

 private:
  const IngestParts parts_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_INGEST_SERVICE_H_
