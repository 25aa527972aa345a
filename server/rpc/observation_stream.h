#ifndef CALIBD_SERVER_RPC_OBSERVATION_STREAM_H_
#define CALIBD_SERVER_RPC_OBSERVATION_STREAM_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/quota.h"
#include "server/rpc/call_reactor.h"
#include "server/rpc/serve.h"

namespace calibd::server {

// Limits of one StreamObservations call.
struct StreamLimits {
  std::int64_t max_message_bytes = 0;
  std::int32_t max_batches_in_flight = 1;
};

// One call of StreamObservations. Reads a message while fewer than max_batches_in_flight batches
// are without a sent acknowledgement. A batch that exceeds a quota of the caller, or has no room in
// the ingest queue, is decoded when it may pass; until then the stream reads no further message.
class ObservationStream final
    : public CallReactor<
          grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>,
          v1::StreamObservationsResponse>,
      public std::enable_shared_from_this<ObservationStream> {
 public:
  // The stream keeps itself alive until gRPC is done with it.
  static ObservationStream* Begin(const CallServer& server, const StreamLimits& limits,
                                  const grpc::CallbackServerContext& context);

  ObservationStream(const CallServer& server, const StreamLimits& limits,
                    const grpc::CallbackServerContext& context)
      : CallReactor(server.ContextOf(kStreamObservations.name, context), server.memory, nullptr),
        api_(server.api),
        parts_(server.api.parts()),
        limits_(limits),
        decoding_(parts_.writers) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override { Written(ok); }
  void OnDone() override;

 private:
  // Runs the code of one entry with mutex_ held; an error or exception ends the call.
  template <typename Body>
  void GuardLocked(Stage stage, const Body& body);
  absl::Status Register();
  absl::Status OnRead(bool ok);
  // Returns the model if a batch of an open stream was read, else null.
  std::shared_ptr<Model> BatchModel(bool ok);
  // Reserves memory of calls for the request, which waits for room. Errors: ResourceExhausted.
  absl::Status KeepRequest();
  // Takes the batch that was read, or waits until a quota and the queue have room for it.
  absl::Status Admit(const Model& model);
  // Continues with Admit after this time, on a writer thread.
  void AdmitLater(std::chrono::milliseconds wait);
  // The batch that was read has room now. Called on a writer thread.
  void OnRoom(IngestQueue::RoomPtr room);
  // Errors: Unavailable if the batch has more rows than the quota of the caller permits since it
  // has become smaller.
  [[nodiscard]] absl::Status CheckRows(std::uint64_t rows) const;
  // Decodes the batch that was read.
  absl::Status OnBatch(const Model& model, IngestQueue::RoomPtr room);
  absl::Status OnMessage(bool ok, LogRow batch, IngestQueue::RoomPtr room);
  absl::Status OnOpened(const absl::StatusOr<std::int64_t>& next_sequence);
  // All of these functions are called with mutex_ held. batch, room: the decoded request and its
  // room, if it is a batch of an open stream.
  absl::Status HandleMessage(LogRow batch, IngestQueue::RoomPtr room);
  absl::Status HandleOpen(const v1::StreamObservationsRequest::Open& open);
  // The rows of one second at most, so that a client does not wait for longer for one
  // acknowledgement.
  [[nodiscard]] std::int32_t MostRowsPerBatch() const;
  absl::Status HandleBatch(std::int64_t sequence, LogRow batch, IngestQueue::RoomPtr room);
  absl::Status HandleFinish(const v1::StreamObservationsRequest::Finish& finish);
  // Ends the producer after the batches that were submitted; Finish is answered then.
  void EndProducer();
  absl::Status OnSettled(std::int64_t sequence, const Settlement& settlement);
  // Errors: those of QueueLocked.
  absl::Status Acknowledge(std::int64_t sequence, const SkippedRows& skipped);
  // Answers Finish once all batches are settled, and reads the next message if there is room.
  void AdvanceLocked() override;
  void ReadLocked();
  [[nodiscard]] bool MayFinishLocked() const override { return in_flight_ == 0; }

  const Api& api_;
  const ApiParts& parts_;
  const StreamLimits limits_;
  // Runs the decoding of batches that had to wait.
  Strand decoding_;
  // The number of this stream in parts_.streams.
  std::optional<std::int64_t> number_;
  // One stream of the caller's quota; set by Register.
  Quota::Part place_;

  // Everything below is guarded by mutex_.
  enum class Phase { kExpectOpen, kOpening, kOpen };
  Phase phase_ = Phase::kExpectOpen;
  // While reading_ is true, gRPC and then OnRead or OnRoom access it without the mutex.
  v1::StreamObservationsRequest request_;
  bool reading_ = false;
  // While reading_ is true, only the thread that handles the batch uses them.
  std::unique_ptr<grpc::Alarm> alarm_;
  Quota::Turn turn_;
  Quota::Part pending_;
  // Bytes that are reserved for a request that waits for room.
  std::size_t kept_bytes_ = 0;

  std::shared_ptr<Model> model_;
  // The right to write to the model; set with it.
  std::shared_ptr<AccessControl::Held> held_;
  // What Opened has told the client.
  std::int32_t max_rows_per_batch_ = 0;
  // In the form of the store.
  std::string producer_id_;
  std::int64_t epoch_ = 0;
  // Number of the newest batch of this stream; before the first one, next_sequence - 1.
  std::int64_t last_sequence_ = 0;
  std::int64_t in_flight_ = 0;
  bool finish_requested_ = false;
  std::int64_t accepted_rows_ = 0;
  std::int64_t duplicate_rows_ = 0;
  std::int64_t rejected_rows_ = 0;
  LabelCounts labels_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_OBSERVATION_STREAM_H_
