#ifndef CALIBD_TESTS_UNIT_CLIENT_SCRIPTED_SERVER_H_
#define CALIBD_TESTS_UNIT_CLIENT_SCRIPTED_SERVER_H_

#include <functional>
#include <string>

#include "calibd/v1/ingest_service.grpc.pb.h"
#include "support/in_process_server.h"

namespace calibd::client {

// An ingest service that a test controls. It gives wrong, hostile or unlucky answers that the real
// server does not give.
class ScriptedServer final : public v1::IngestService::Service {
 public:
  using Stream =
      grpc::ServerReaderWriter<v1::StreamObservationsResponse, v1::StreamObservationsRequest>;
  // Serves one call of StreamObservations, after Open was read. attempt: counts from 1.
  using Script = std::function<grpc::Status(int attempt, Stream& stream)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {}

  [[nodiscard]] const std::string& address() const { return server_.address(); }

  grpc::Status StreamObservations(grpc::ServerContext* /*context*/, Stream* stream) override {
    v1::StreamObservationsRequest request;
    if (!stream->Read(&request) || !request.has_open()) return grpc::Status::CANCELLED;
    return script_(++attempts_, *stream);
  }

  // Messages for scripts. The model has two classes.
  static void Opened(Stream& stream, std::int64_t next_sequence, std::int32_t rows = 2) {
    v1::StreamObservationsResponse response;
    auto& opened = *response.mutable_opened();
    opened.set_next_sequence(next_sequence);
    opened.mutable_classes()->set_count(2);
    opened.mutable_classes()->set_row_sum_tolerance(1e-3);
    opened.set_max_rows_per_batch(rows);
    opened.set_max_bytes_per_batch(1 << 20);
    opened.set_max_batches_in_flight(4);
    stream.Write(response);
  }
  static void Ack(Stream& stream, std::int64_t sequence) {
    v1::StreamObservationsResponse response;
    response.mutable_ack()->set_sequence(sequence);
    stream.Write(response);
  }
  static void Finished(Stream& stream, std::int64_t last_sequence, std::int64_t rows) {
    v1::StreamObservationsResponse response;
    response.mutable_finished()->set_last_sequence(last_sequence);
    response.mutable_finished()->set_accepted_rows(rows);
    stream.Write(response);
  }
  // Counts and acknowledges the batches until Finish or the end of the stream.
  static grpc::Status Behave(Stream& stream) {
    std::int64_t last = 0;
    std::int64_t rows = 0;
    v1::StreamObservationsRequest request;
    while (stream.Read(&request)) {
      if (request.has_finish()) {
        Finished(stream, request.finish().last_sequence(), rows);
        return grpc::Status::OK;
      }
      last = request.batch().sequence();
      rows += request.batch().observations().labels_size();
      Ack(stream, last);
    }
    return grpc::Status::CANCELLED;
  }

 private:
  const Script script_;
  std::atomic<int> attempts_ = 0;
  const calibd::testing::InProcessServer server_{*this};
};

}  // namespace calibd::client

#endif  // CALIBD_TESTS_UNIT_CLIENT_SCRIPTED_SERVER_H_
