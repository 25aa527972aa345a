#ifndef CALIBD_SERVER_RPC_OBSERVATION_STREAM_H_
#define CALIBD_SERVER_RPC_OBSERVATION_STREAM_H_

#include <grpcpp/server_context.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/rpc/call_memory.h"
#include "server/rpc/guard.h"
#include "server/rpc/ingest_service.h"

namespace calibd::server {

// One call of StreamObservations. Reads a message only while there is room for
// its batch: at most max_batches_in_flight that are not acknowledged on the wire,
// and an ingest queue that is not full.
class ObservationStream final
    : public grpc::ServerBidiReactor<v1::StreamObservationsRequest, v1::StreamObservationsResponse>,
      public std::enable_shared_from_this<ObservationStream> {
 public:
  // The stream keeps itself alive until gRPC is done with it.
  static ObservationStream* Begin(const IngestParts& parts,
                                  const grpc::CallbackServerContext& context);

  ObservationStream(const IngestParts& parts, const grpc::CallbackServerContext& context)
      : parts_(parts), reservation_(parts.memory, context.peer()) {}

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // Runs an entry of the call without mutex_; an error or exception ends the call.
  template <typename Body>
  void Guard(Stage stage, const Body& body);
  // The same with mutex_ held.
  template <typename Body>
  void GuardLocked(Stage stage, const Body& body);

  absl::Status Register();
  absl::Status OnRead(bool ok);
  void OnOpened(absl::StatusOr<std::int64_t> next_sequence);
  // All of these are called with mutex_ held.
  // batch: what the request was decoded to, if it is a batch of an open stream.
  absl::Status HandleMessage(LogRow batch);
  absl::Status HandleOpen(const v1::StreamObservationsRequest::Open& open);
  absl::Status HandleBatch(std::int64_t sequence, LogRow batch);
  absl::Status HandleFinish(const v1::StreamObservationsRequest::Finish& finish);
  void OnSettled(std::int64_t sequence, Settlement settlement);
  void Send(v1::StreamObservationsResponse response);
  // Stops reading; the call ends with this status once the batches in flight are
  // settled and what is to be sent is sent. Only the first call counts.
  void EndWith(absl::Status status);
  // Does what can be done next: read, write, finish.
  void Advance();

  const IngestParts parts_;
  std::mutex mutex_;
  // Itself, until OnDone.
  std::shared_ptr<ObservationStream> self_;
  std::optional<std::int64_t> number_;

  enum class Phase { kExpectOpen, kOpening, kOpen, kEnding, kFinished };
  Phase phase_ = Phase::kExpectOpen;
  absl::Status end_status_;
  bool cancelled_ = false;

  // While reading_, belongs to gRPC and then to OnReadDone, without the mutex.
  v1::StreamObservationsRequest request_;
  bool reading_ = false;
  bool waiting_for_room_ = false;
  struct Unwritten {
    v1::StreamObservationsResponse response;
    std::size_t reserved = 0;
  };
  // front() is being written while writing_.
  std::deque<Unwritten> responses_;
  CallReservation reservation_;
  bool writing_ = false;

  std::shared_ptr<Model> model_;
  std::string producer_id_;
  std::int64_t epoch_ = 0;
  // Of the newest batch that came on this stream; next_sequence - 1 before.
  std::int64_t last_sequence_ = 0;
  std::int64_t in_flight_ = 0;
  bool finish_requested_ = false;
  std::int64_t accepted_rows_ = 0;
  std::int64_t duplicate_rows_ = 0;
  std::int64_t rejected_rows_ = 0;
  LabelCounts labels_;
};

// Errors: InvalidArgument naming `field`.
[[nodiscard]] absl::Status CheckProducer(const std::string& field, const std::string& producer_id,
                                         std::int64_t epoch);

}  // namespace calibd::server

#endif  // CALIBD_SERVER_RPC_OBSERVATION_STREAM_H_
